//! The rules of the wallet: what an agent may do, what the operator decides, and what the journal records. Pure:
//! nothing here awaits, reads a clock, draws an id or touches a disk. Everything nondeterministic (time, entropy,
//! index lookups) arrives inside the [`Command`].
//!
//! `decide` turns a command into events, effects and a reply. `apply` changes the [`State`] by one event. `check`
//! verifies the invariants of the state.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use bursar_chain::{clock::manual::ManualClock, ports::Clock};
//! use bursar_core::{codes::Code, networks::ChainId, time::Utc};
//! use bursar_domain::{Action, Command, Entry, Refusal, State, apply, check, decide};
//!
//! # fn main() -> Result<(), Refusal> {
//! let clock = ManualClock::new(Utc::from_seconds(1_767_225_600));
//! // The full edition, in which Ethereum is disabled at first.
//! let mut state = State::new(Arc::default());
//! let enable_ethereum = |unlocked| Command {
//!     moment: clock.now(),
//!     unlocked,
//!     trusted: true,
//!     action: Action::SetNetwork { chain: ChainId(1), enabled: true },
//! };
//! // A command that loosens a rule needs an unlocked wallet.
//! let refused = decide(&state, &enable_ethereum(false));
//! assert_eq!(refused, Err(Refusal::new(Code::WalletLocked)));
//!
//! let decision = decide(&state, &enable_ethereum(true))?;
//! for event in decision.events {
//!     // The journal stores the entry before it is applied.
//!     let entry = Entry { seq: state.seq + 1, at: clock.utc(), event };
//!     apply(&mut state, &entry);
//! }
//! assert!(state.is_network_enabled(ChainId(1)));
//! assert_eq!(check::check(&state), Ok(()));
//! # Ok(())
//! # }
//! ```

// Money is counted here: an overflow is an error, and a new event must be handled everywhere.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod agents;
pub mod allowance;
pub mod apply;
mod approval;
pub mod approver;
pub mod assess;
pub mod assets;
pub mod cards;
pub mod check;
pub mod command;
pub mod deadline;
pub mod decide;
pub mod decision;
mod due;
pub mod effects;
pub mod event;
mod gas;
pub mod idempotency;
pub mod identity;
mod issued_mandate;
pub mod lines;
pub mod loan_context;
pub mod loan_text;
pub mod loans;
pub mod mandate_terms;
pub mod mandates;
pub mod outboxes;
pub mod payee;
pub mod payees;
pub mod plan;
mod plan_prompts;
pub mod plan_text;
pub mod prompts;
pub mod proofs;
pub mod receipt_entries;
pub mod refusal;
pub mod registrations;
pub mod requests;
pub mod risks;
pub mod settlement;
pub mod state;
pub mod trades;
pub mod unattended;
pub mod unsealed_tail;
pub mod wallets;

pub use apply::apply;
pub use command::{Action, Command};
pub use decide::decide;
pub use decision::{Decision, Effect, Reply};
pub use event::{Entry, Event};
pub use refusal::Refusal;
pub use requests::{LaneAsk, PaymentAsk, Request, Status};
pub use settlement::Settlement;
pub use state::State;
