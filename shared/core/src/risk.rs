//! The risks of a payment, as its card shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a row of a card matters.
///
/// Later levels matter more.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Note,
    Warning,
    /// The operator must type the amount to approve the request.
    Danger,
}

impl Level {
    /// Returns the mark of the level on a screen: a sign and a word, so that it does not depend on colours.
    pub fn mark(self) -> &'static str {
        match self {
            Level::Note => "",
            Level::Warning => "! WARNING: ",
            Level::Danger => "!! DANGER: ",
        }
    }
}

crate::code_table! {
    /// The reason why a payment may not be what it seems.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum RiskKind;
    LargeFirstPayment "large_first_payment" "you have never approved a payment to this address, and this is a large one";
    SimilarAddress "similar_address" "the address resembles that of a payee whom you know, but is another";
    SimilarHost "similar_host" "the host resembles one that you have paid, but is another";
    UnusualPrice "unusual_price" "the price is at least ten times this payee's usual price";
}

/// A risk of a payment, as the engine sees it at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Risk {
    pub kind: RiskKind,
    pub level: Level,
    /// The risk with its data, as a phrase for the operator.
    pub text: String,
}
