//! A mandate that the operator issued: the terms, and the text that may be signed.

use bursar_core::ids::Name;
use bursar_core::time::Moment;
use bursar_mandate::Draft;
use bursar_x402::signature::{Signature65, recover};
use serde::{Deserialize, Serialize};

use crate::agents::Credential;
use crate::deadline::Deadline;

/// What a mandate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// States the agent's limits.
    Grant,
    /// Replaces a grant: all limits are zero.
    Retirement,
}

/// A mandate that was issued: its text may be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedMandate {
    pub draft: Draft,
    /// The text to sign.
    ///
    /// A signature is made only if it is [`Draft::text`].
    pub text: String,
    pub purpose: Purpose,
    /// The agent's policy, whose version `serial` states the limits.
    pub policy: Name,
    pub serial: u64,
    /// The credential to which the fingerprint belongs.
    pub credential: Credential,
    /// When a person must have signed on a device; `None` if the wallet has the key.
    pub until: Option<Deadline>,
}

impl IssuedMandate {
    /// Returns whether a signature is over this mandate's text and by the key of its paying address.
    pub fn is_signed_by(&self, signature: &Signature65) -> bool {
        recover(self.draft.digest(), signature) == Ok(self.draft.terms.wallet)
    }

    /// Returns whether the time for a signature on a device is over.
    pub fn is_overdue(&self, moment: &Moment) -> bool {
        self.until.as_ref().is_some_and(|until| until.has_passed(moment))
    }
}
