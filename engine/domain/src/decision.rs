//! What a decision consists of: events to record, work for the outside, and what the caller is told.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_submit::DeskKey;

use crate::command::Command;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::settlement::Stage;

/// What follows from a command, if it is not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
    pub reply: Reply,
}

/// Work for the outside once the events are on disk. At least once: a restart asks for it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Sign what this authorized request says.
    Sign(RequestId),
    /// Do this for a desk.
    Desk(DeskKey, bursar_submit::Action),
}

/// What the caller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Done,
    /// The request as it stands once the events are applied.
    Request(RequestId),
    /// The answer of an earlier ask.
    Earlier(Box<Request>),
    /// The ask repeats a payment that was made: this one.
    Settled(Box<Request>),
    /// How far a reported payment has come.
    Reported(Stage),
    /// Refused, although something else had to be recorded first.
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

/// What loosens anything needs the key that seals the journal.
pub(crate) fn needs_open_wallet(command: &Command) -> Result<(), Refusal> {
    if command.unlocked { Ok(()) } else { Err(Refusal::new(Code::WalletLocked)) }
}
