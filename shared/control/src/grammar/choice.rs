//! Arguments whose values are an enum of a crate that does not depend on clap.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses one of `values`, each given with its text, its aliases and its explanation for `--help`.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    values: impl IntoIterator<Item = (T, PossibleValue)>,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<(T, PossibleValue)> = values.into_iter().collect();
    let texts: Vec<PossibleValue> = values.iter().map(|(_value, text)| text.clone()).collect();
    PossibleValuesParser::new(texts).try_map(move |given| {
        let found = values.iter().find(|(_value, text)| text.matches(&given, false));
        found.map(|(value, _text)| *value).ok_or("there is no such value")
    })
}
