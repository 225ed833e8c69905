//! Payments from an address of a hardware device. They wait for their turn. Then the device shows the terms to a
//! person, who signs or refuses them. The value stays reserved until the device has signed, or until terms that it may
//! have signed can no longer be redeemed.

use bursar_core::codes::Code;
use bursar_core::limits::HOLD_MS;
use bursar_core::time::{Moment, Utc};
use bursar_x402::authorization::Authorization;
use serde::{Deserialize, Serialize};

use crate::approver::Approver;
use crate::deadline::Deadline;
use crate::refusal::Refusal;

/// Seconds before the end of the terms at which the wallet gives up a prompt.
///
/// A later signature would reach the merchant too late.
pub const PROMPT_MARGIN_S: u64 = 10;
/// [`PROMPT_MARGIN_S`] in milliseconds.
const PROMPT_MARGIN_MS: i64 = 10_000;

/// Returns when the wallet gives up a prompt whose terms end at `terms_end`.
pub fn prompt_end(terms_end: Utc) -> Utc {
    terms_end.plus_ms(-PROMPT_MARGIN_MS)
}

/// The wait of an allowed payment for its device, and its prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTurn {
    pub by: Approver,
    /// When the payment was allowed.
    pub at: Utc,
    /// The deadline until which the device must be ready.
    ///
    /// After it, only terms that a prompt already showed may still be signed.
    pub until: Deadline,
    /// The prompt with the terms to sign; `None` before the first prompt.
    pub prompt: Option<Prompt>,
}

/// The terms that a device was asked to sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    pub terms: Authorization,
    /// When the terms were fixed, in journal time.
    pub at: Utc,
    /// The number of prompts with these terms that the device may have shown.
    ///
    /// The outcome of every prompt but the last is unknown. If the count is zero, the device accepted no prompt: the
    /// terms are void, and the next prompt fixes new terms.
    pub count: u32,
}

/// How the wait for a device ended without a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitEnd {
    /// A person refused the prompt on the device.
    Refused,
    /// The device was not ready in time, or no person answered its prompt in time.
    TooLate,
}

impl WaitEnd {
    /// Returns the code for agents and operators.
    pub fn code(self) -> Code {
        match self {
            Self::Refused => Code::LedgerRejected,
            Self::TooLate => Code::LedgerDisconnected,
        }
    }

    /// Returns the refusal that ends a plan.
    pub fn refusal(self) -> Refusal {
        Refusal::because(self.code(), self.sentence())
    }

    /// Returns what happened, as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Refused => "The request was refused on the Ledger.",
            Self::TooLate => "The request was not signed on the Ledger in time.",
        }
    }
}

impl DeviceTurn {
    /// Returns the terms that the device may have signed.
    pub fn shown_prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref().filter(|prompt| prompt.count > 0)
    }

    /// Returns the milliseconds until the wait ends.
    ///
    /// Before a prompt, this is the time for the device to get ready. During a prompt, it is the time for the person
    /// to answer; the terms of the prompt are valid for `valid_s` seconds.
    pub(crate) fn left_ms(&self, moment: &Moment, valid_s: u64) -> u64 {
        let Some(prompt) = self.shown_prompt() else { return self.until.left_ms(moment) };
        // A prompt begins before `until`, so its end is bounded too, even if the clock is set back.
        let valid_ms = i64::try_from(valid_s.saturating_mul(1000)).unwrap_or(i64::MAX);
        let more_ms = valid_ms.saturating_sub(PROMPT_MARGIN_MS);
        let latest = self.until.plus_ms(more_ms);
        let latest_ms = latest.left_within_ms(moment, HOLD_MS.saturating_add(more_ms));
        prompt.left_s(moment.utc).saturating_mul(1000).min(latest_ms)
    }
}

impl Prompt {
    /// Returns the seconds that a person has left to answer the prompt.
    pub fn left_s(&self, now: Utc) -> u64 {
        let now = u64::try_from(now.seconds()).unwrap_or(0);
        self.terms.valid_before.saturating_sub(PROMPT_MARGIN_S).saturating_sub(now)
    }
}
