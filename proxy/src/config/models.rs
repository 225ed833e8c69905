//! The table of models, with the prices and bounds of each model.

use std::collections::BTreeMap;

use bursar_core::text::quoted;
use bursar_serve::settings::{InvalidKey, Key, RawSetting, put, set_from_table};
use toml::{Table, Value};

use crate::price::{PRICE_DECIMALS, Rate, Rates};
use crate::tokens::Vocabulary;

/// Settings of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub rates: Rates,
    /// Bound on an answer if a request sets none.
    ///
    /// `None` uses the service's bound.
    pub completion_tokens: Option<u64>,
    pub max_completion_tokens: Option<u64>,
    pub vocabulary: Vocabulary,
    /// Tokens that one image counts as.
    ///
    /// `None` means that images are not sold.
    pub image_tokens: Option<u64>,
}

impl Model {
    pub(super) fn of(rates: Rates) -> Self {
        Self {
            rates,
            completion_tokens: None,
            max_completion_tokens: None,
            vocabulary: Vocabulary::default(),
            image_tokens: None,
        }
    }
}

/// A model whose table is being read. Both of its prices are required.
#[derive(Debug)]
pub(super) struct ModelDraft {
    input: Option<Rate>,
    output: Option<Rate>,
    model: Model,
}

/// Reads a price in dollars per thousand tokens.
pub(super) fn rate(given: RawSetting<'_>) -> Result<Rate, String> {
    let units = given.decimal(PRICE_DECIMALS)?;
    let rate = u128::try_from(units).ok().filter(|units| *units <= 1_000_000 * 10u128.pow(18));
    rate.map(Rate).ok_or_else(|| "it is more than a million dollars".to_owned())
}

/// Keys of a model's table.
pub(super) const MODEL: &[Key<ModelDraft>] = &[
    Key {
        name: "input_per_1k",
        variable: "",
        default: "required",
        meaning: "The price in dollars of 1000 tokens of the prompt.",
        set: |draft, given| put(&mut draft.input, rate(given).map(Some)),
    },
    Key {
        name: "output_per_1k",
        variable: "",
        default: "required",
        meaning: "The price in dollars of 1000 tokens of the answer. Its bound is charged, not its length.",
        set: |draft, given| put(&mut draft.output, rate(given).map(Some)),
    },
    Key {
        name: "completion_tokens",
        variable: "",
        default: "the service's",
        meaning: "The bound on an answer if a request sets none.",
        set: |draft, given| {
            put(&mut draft.model.completion_tokens, given.whole_number(1..=10_000_000).map(Some))
        },
    },
    Key {
        name: "max_completion_tokens",
        variable: "",
        default: "the service's",
        meaning: "The highest bound that a request may set.",
        set: |draft, given| {
            put(
                &mut draft.model.max_completion_tokens,
                given.whole_number(1..=10_000_000).map(Some),
            )
        },
    },
    Key {
        name: "tokenizer",
        variable: "",
        default: "o200k_base",
        meaning: "The tokenizer for counting: `o200k_base` or `cl100k_base`.",
        set: |draft, given| {
            let known = Vocabulary::by_name(given.text()?);
            let known = known.ok_or_else(|| "it must be o200k_base or cl100k_base".to_owned());
            put(&mut draft.model.vocabulary, known)
        },
    },
    Key {
        name: "image_tokens",
        variable: "",
        default: "none",
        meaning: "The number of tokens that each image counts as; without it, images are refused.",
        set: |draft, given| {
            put(&mut draft.model.image_tokens, given.whole_number(1..=10_000_000).map(Some))
        },
    },
];

/// Reads the table of models.
pub(super) fn read(models: &Table) -> Result<BTreeMap<String, Model>, InvalidKey> {
    let mut all = BTreeMap::new();
    for (name, value) in models {
        let key = format!("models.{}", quoted(name, 64));
        let wrong = |why: &str| InvalidKey { key: key.clone(), why: why.to_owned() };
        let Value::Table(keys) = value else {
            return Err(wrong("it must be a table of keys, like [models.\"gpt-4o-mini\"]"));
        };
        let mut draft =
            ModelDraft { input: None, output: None, model: Model::of(Rates::flat(Rate(0))) };
        set_from_table(MODEL, &mut draft, &format!("{key}."), keys)?;
        let (Some(input), Some(output)) = (draft.input, draft.output) else {
            return Err(wrong("set input_per_1k and output_per_1k"));
        };
        draft.model.rates = Rates { input, output };
        all.insert(name.clone(), draft.model);
    }
    Ok(all)
}
