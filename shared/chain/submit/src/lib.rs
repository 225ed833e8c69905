//! One machine by which every host sends transactions: the wallet for its operator and its lanes, the
//! facilitator for those whose payments it settles. It does no I/O: an [`Input`] says what happened, and
//! [`step`] answers with the [`Event`]s that the host makes durable and applies, and the [`Action`]s that
//! it performs **only after that**. What an action comes to is the next input. Actions are at-least-once:
//! [`resume`] names them again after a crash, and doing one twice changes nothing.
//!
//! A [`Desk`] is one signer on one network. It hands out nonces, and a submission that was given one
//! keeps it until its end: all that is ever signed for it uses that nonce, so at most one of these
//! transactions can take effect.
//!
//! ```text
//!           Open                Quoted                Signature            Answered / Seen
//!  (nothing) ──► queued ─────────────► authorized ─────────────► signed ◄─────────────┐ the same bytes again
//!                  │  Reserved,          │    ▲      Signed,       │  │               │ where a node forgot them
//!                  │  Authorized         │    │      then sent     │  └───────────────┘
//!                  │                     │    └────────────────────┤ bump or cancel: a further
//!           Cancel │    Cancel, Declined │         Quoted          │ attempt on the same nonce
//!                  ▼                     ▼                         │ Seen
//!               Dropped               Dropped                      ▼
//!         (nothing was signed; its nonce is free)      ┌──────► included ──► Succeeded, Reverted,
//!                                                      │ reorg:    │   deep   Cancelled
//!                                                      │ gone      ▼  enough
//!                                                      └─────── signed ──► missed ──► Displaced
//!                                                      its nonce is used, and by none of ours
//! ```
//!
//! `Displaced` says that nobody can tell: a node claims the nonce for a transaction that is not ours. The
//! machine never sends such a submission again with another nonce, because the claim may be a lie.
//!
//! A nonce that nobody holds, below one of ours that was sent, keeps that one from being mined. New
//! submissions take such gaps first, and where none come the desk fills them with transactions that do
//! nothing. Filling a nonce that was used after all is harmless: the chain takes no nonce twice.

mod actions;
mod apply;
mod call;
mod desk;
mod event;
pub mod fees;
mod input;
mod nonces;
mod quoted;
mod seen;
mod step;

pub use apply::apply;
pub use call::{Call, Fees, Raw, Unsigned};
pub use desk::{Attempt, Desk, DeskKey, Included, Kind, Place, Submission, SubmissionId, Trouble};
pub use event::{Event, Outcome};
pub use input::{Action, Found, Input, Quote, Refusal, Rules, SendAnswer, Step};
pub use step::{resume, step};
