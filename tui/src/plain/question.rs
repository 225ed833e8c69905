//! The open question, and what a typed answer means.

use bursar_control::wire::Prompt;
use bursar_core::card::Card;
use bursar_core::money::Usd;

use crate::console::model::rows::short;

/// The word that answers a question with yes. A single letter is too easily typed for something else.
pub(super) const YES: &str = "yes";

/// A decision that the operator wants to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The request's id, or the beginning of it.
    pub(super) id: String,
    /// The digest that the operator named.
    pub(super) digest: Option<String>,
    /// The reason of a denial; `None` to approve.
    pub(super) denial: Option<Vec<String>>,
}

/// The open question.
#[derive(Debug)]
pub(super) enum Question {
    /// Approves the request whose card was printed last.
    Approve {
        id: String,
        card: Box<Card>,
    },
    Deny {
        id: String,
        reason: Vec<String>,
    },
    /// A question of the command `call`.
    Engine {
        call: u64,
        prompt: Prompt,
    },
    /// Leaving stops the engine.
    Leave,
}

/// The meaning of a typed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    Yes,
    /// The typed amount that confirms an approval.
    Amount(Usd),
    /// A text that the engine compares.
    Text(String),
    /// The sentence says why nothing happens.
    No(String),
}

impl Question {
    /// Returns the line that asks.
    pub(super) fn text(&self) -> String {
        match self {
            Question::Approve { id, card } if card.type_amount && card.unpriced => format!(
                "Approve {}? Type the most that it may cost, in dollars. Anything else leaves it waiting.",
                short(id)
            ),
            Question::Approve { id, card } if card.type_amount => format!(
                "Approve {}? Type the amount, {}. Anything else leaves it waiting.",
                short(id),
                card.usd
            ),
            Question::Approve { id, .. } => {
                format!("Approve {}? Type yes. Anything else leaves it waiting.", short(id))
            }
            Question::Deny { id, .. } => {
                format!("Deny {}? Type yes. Anything else leaves it waiting.", short(id))
            }
            Question::Engine { prompt, .. } => match prompt {
                Prompt::Confirm { question, .. } => format!("{question} Type yes."),
                Prompt::TypeAmount { amount, .. } => {
                    format!("Type the amount to confirm it ({amount}):")
                }
                Prompt::TypeName { name, .. } => format!("Type its name to continue ({name}):"),
                // The terminal asks for a secret itself.
                Prompt::Secret { .. } => String::new(),
            },
            Question::Leave => {
                "Leaving stops the engine, and agents are refused. Type yes to leave.".to_owned()
            }
        }
    }

    /// Returns the meaning of a typed line.
    pub(super) fn read(&self, typed: &str) -> Meaning {
        match self {
            Question::Approve { card, .. } if card.type_amount => amount(card, typed),
            Question::Engine {
                prompt: Prompt::TypeAmount { .. } | Prompt::TypeName { .. },
                ..
            } => Meaning::Text(typed.to_owned()),
            Question::Leave if typed != YES => Meaning::No("The console stays.".to_owned()),
            Question::Engine { .. } if typed != YES => {
                Meaning::No("The answer is no: type yes to agree.".to_owned())
            }
            _other if typed == YES => Meaning::Yes,
            _other => Meaning::No("Nothing was decided: type yes.".to_owned()),
        }
    }
}

/// Reads the amount that an approval needs. If the card has no price, the engine compares the amount with the price.
fn amount(card: &Card, typed: &str) -> Meaning {
    match Usd::parse(typed) {
        Ok(typed) if card.unpriced || typed == card.usd => Meaning::Amount(typed),
        Ok(typed) => {
            Meaning::No(format!("Nothing was decided: the amount is {}, not {typed}.", card.usd))
        }
        Err(_not_an_amount) if card.unpriced => {
            Meaning::No("Nothing was decided: type an amount in dollars.".to_owned())
        }
        Err(_not_an_amount) => {
            Meaning::No(format!("Nothing was decided: type the amount, {}.", card.usd))
        }
    }
}

/// Returns whether two cards of a request ask for the same decision. Balances and the day's sums change often, and do
/// not count.
pub(super) fn is_same(one: &Card, other: &Card) -> bool {
    let kinds = |card: &Card| card.risks.iter().map(|risk| risk.kind).collect::<Vec<_>>();
    let device = |card: &Card| card.device.as_ref().map(|device| device.state.clone());
    one.id == other.id
        && one.digest == other.digest
        && one.usd == other.usd
        && one.type_amount == other.type_amount
        && one.obstacle == other.obstacle
        && kinds(one) == kinds(other)
        && device(one) == device(other)
        && one.has_unknown_payee() == other.has_unknown_payee()
        && one.has_insufficient_balance() == other.has_insufficient_balance()
}
