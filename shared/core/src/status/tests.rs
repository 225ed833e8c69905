//! The texts of statuses and kinds, which answers and filters contain.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use strum::IntoEnumIterator;

use super::*;

#[test]
fn statuses_and_kinds_keep_their_texts() {
    fn texts<T>() -> Vec<String>
    where
        T: IntoEnumIterator + Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let text = |value: T| {
            let text = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value);
            text.trim_matches('"').to_owned()
        };
        T::iter().map(text).collect()
    }
    assert_eq!(
        texts::<RequestStatus>().join(" "),
        "pending executing signed submitted settled refuted verified executed failed refused \
         denied expired awaiting_device not_signed"
    );
    assert_eq!(
        texts::<DecidedStatus>().join(" "),
        "signed executing denied awaiting_device executed"
    );
    let agents = texts::<AgentStatus>().join(" ");
    assert_eq!(agents, "uncommissioned active limit_reached suspended");
    assert_eq!(
        texts::<SendStatus>().join(" "),
        "waiting sent included done failed cancelled dropped unknown"
    );
    assert_eq!(texts::<PolicyVerdict>().join(" "), "act hold refuse");
    let kinds = texts::<EntryKind>();
    let is_word =
        |text: &String| text.bytes().all(|b| b.is_ascii_lowercase() || b"._".contains(&b));
    assert!(kinds.iter().all(is_word), "{kinds:?}");
    assert!(serde_json::from_str::<EntryKind>("\"payment.unheard_of\"").is_err());
}
