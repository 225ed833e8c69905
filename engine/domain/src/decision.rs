//! The result of a decision: events to record, effects to perform, and the reply to the caller.

use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, RequestId};
use bursar_submit::OutboxKey;

use crate::command::Command;
use crate::event::Event;
use crate::proofs::Statement;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::settlement::Stage;

/// The result of a command that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
    pub reply: Reply,
}

/// Work to perform after the events are on disk.
///
/// An effect is performed at least once, because a restart requests it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Sign the terms of this authorized request.
    Sign(RequestId),
    /// Sign the permit of this request's plan.
    SignPermit(RequestId),
    /// Sign the issued mandate of this agent.
    SignMandate(AgentId),
    /// Sign this statement about a receipt.
    SignStatement(Box<Statement>),
    /// Perform this action for an outbox.
    Outbox(OutboxKey, bursar_submit::Action),
}

/// The reply to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Done,
    /// The request, in its state after the events are applied.
    Request(RequestId),
    /// The request repeats this earlier one and gets its answer.
    Earlier(Box<Request>),
    /// The request repeats this payment, which is settled.
    Settled(Box<Request>),
    /// The stage of a reported payment.
    Reported(Stage),
    /// The command is refused, but its events are recorded first.
    Refused(Refusal),
}

impl Decision {
    pub(crate) fn done(events: Vec<Event>) -> Self {
        Self { events, effects: Vec::new(), reply: Reply::Done }
    }

    pub(crate) fn reply(events: Vec<Event>, reply: Reply) -> Self {
        Self { events, effects: Vec::new(), reply }
    }
}

/// Refuses the command if the wallet is locked: loosening a rule requires the key that seals the journal.
pub(crate) fn require_unlocked(command: &Command) -> Result<(), Refusal> {
    if command.unlocked { Ok(()) } else { Err(Refusal::new(Code::WalletLocked)) }
}

/// Refuses the command while the wallet is locked or its journal untrusted: no seal would cover the entry.
pub(crate) fn require_sealed(command: &Command) -> Result<(), Refusal> {
    require_unlocked(command)?;
    if command.trusted { Ok(()) } else { Err(Refusal::new(Code::JournalUntrusted)) }
}
