//! Payments from an address of a hardware device: they wait for their turn, then the device shows the terms to a person,
//! who signs or refuses. The value stays reserved until the device has signed, or can no longer have signed anything that
//! is redeemable.

use bursar_core::codes::Code;
use bursar_core::limits::HOLD_MS;
use bursar_core::time::{Moment, Utc};
use bursar_x402::authorization::Authorization;
use serde::{Deserialize, Serialize};

use crate::approver::Approver;
use crate::deadline::Deadline;
use crate::refusal::Refusal;

/// How long before the end of the terms the wallet gives a prompt up, in seconds.
///
/// A later signature would reach the merchant too late.
pub const PROMPT_MARGIN_S: u64 = 10;
/// The same in milliseconds.
const PROMPT_MARGIN_MS: i64 = 10_000;

/// Returns when the wallet gives a prompt up whose terms end then.
pub fn prompt_end(terms_end: Utc) -> Utc {
    terms_end.plus_ms(-PROMPT_MARGIN_MS)
}

/// The device's part of an allowed payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTurn {
    pub by: Approver,
    /// When it was allowed.
    pub at: Utc,
    /// The deadline until which the device must be ready.
    ///
    /// Afterwards only the terms of a prompt may still be signed.
    pub until: Deadline,
    /// What the device was asked to sign; `None` before that.
    pub prompt: Option<Prompt>,
}

/// The terms that a device was asked to sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    pub terms: Authorization,
    /// When the terms were fixed, in journal time.
    pub at: Utc,
    /// How many prompts with these terms the device may have shown.
    ///
    /// The outcome of all but the last is unknown. Zero if the device accepted none: the terms are void, and the next
    /// prompt fixes others.
    pub count: u32,
}

/// How the wait for a device ended without a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitEnd {
    /// A person refused on the device.
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
    pub fn shown(&self) -> Option<&Prompt> {
        self.prompt.as_ref().filter(|prompt| prompt.count > 0)
    }

    /// Returns the milliseconds until the wait ends: for the device, or for the person at its prompt, whose terms are valid
    /// for `valid_s` seconds.
    pub(crate) fn left_ms(&self, moment: &Moment, valid_s: u64) -> u64 {
        let Some(prompt) = self.shown() else { return self.until.left_ms(moment) };
        // A prompt begins before the end of the wait for its device. So a clock that is set back prolongs nothing.
        let valid_ms = i64::try_from(valid_s.saturating_mul(1000)).unwrap_or(i64::MAX);
        let more_ms = valid_ms.saturating_sub(PROMPT_MARGIN_MS);
        let latest = self.until.plus_ms(more_ms);
        let latest_ms = latest.left_within_ms(moment, HOLD_MS.saturating_add(more_ms));
        prompt.left_s(moment.utc).saturating_mul(1000).min(latest_ms)
    }
}

impl Prompt {
    /// Returns how many seconds a person has to answer the prompt.
    pub fn left_s(&self, now: Utc) -> u64 {
        let now = u64::try_from(now.seconds()).unwrap_or(0);
        self.terms.valid_before.saturating_sub(PROMPT_MARGIN_S).saturating_sub(now)
    }
}
