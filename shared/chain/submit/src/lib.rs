//! The state machine through which every host sends transactions. The hosts are the wallet, which sends for its
//! operator and its lanes, and the facilitator, which settles payments. The state machine does no I/O: [`step`] turns
//! an [`Input`] into [`Event`]s and [`Action`]s. The host persists and applies the events, and **only then** performs
//! the actions. The result of an action is the next input. Actions are at-least-once: [`resume`] returns them again
//! after a crash, and repeating one changes nothing.
//!
//! An [`Outbox`] belongs to one signer on one network and assigns its nonces. A submission keeps its nonce until
//! its end. Every transaction that is signed for it uses that nonce, so at most one of them can take effect.
//!
//! ```text
//!           Open                Quoted                Signature          Answered / LookedUp
//!  (nothing) ──► queued ─────────────► authorized ─────────────► signed ◄─────────────┐ the same bytes again
//!                  │  Reserved,          │    ▲      Signed,       │  │               │ where a node forgot them
//!                  │  Authorized         │    │      then sent     │  └───────────────┘
//!                  │                     │    └────────────────────┤ bump or cancel: a further
//!           Cancel │    Cancel, Declined │         Quoted          │ attempt on the same nonce
//!                  ▼                     ▼                         │ LookedUp
//!               Dropped               Dropped                      ▼
//!         (nothing was broadcast; its nonce is free)   ┌──────► included ──► Succeeded, Reverted,
//!                                                      │ reorg:    │   deep   Cancelled
//!                                                      │ gone      ▼  enough
//!                                                      └─────── signed ──► missed ──► NonceTaken
//!                                                      another transaction used its nonce
//! ```
//!
//! `NonceTaken` means that the outcome is unknown: a node reports that another transaction used the nonce. The
//! state machine never sends such a submission again with another nonce, because the report may be a lie.
//!
//! An unused nonce below one of our broadcast transactions keeps that transaction from being mined. New submissions
//! take such nonces first. Without new submissions, the outbox fills the gap with empty transactions. Filling a
//! nonce that was used after all is harmless, because the chain accepts each nonce once.

// Nonces and fees are counted here: an overflow is an error, and a new event must be handled everywhere.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::wildcard_enum_match_arm
    )
)]

mod actions;
mod apply;
mod call;
mod event;
pub mod fees;
mod input;
mod nonces;
mod on_lookup;
mod on_quote;
mod outbox;
mod step;
mod stop;

pub use apply::apply;
pub use call::{Call, Fees, Payload, Raw, Unsigned};
pub use event::{Event, Outcome};
pub use input::{Action, FoundReceipt, Input, Quote, Refusal, Rules, SendAnswer, Step};
pub use on_quote::raised_offer;
pub use outbox::{
    Attempt, ChainState, Included, Kind, Outbox, OutboxKey, Submission, SubmissionId, Trouble,
};
pub use step::{resume, step};
pub use stop::{Declines, no_further_offers};
