//! The context that an answer does not contain.

use crate::oneshot::outcome::Handed;

/// The context that an answer does not contain.
#[derive(Clone, Copy)]
pub(in crate::oneshot) struct Context<'a> {
    /// The command, as `noun.verb`.
    pub(in crate::oneshot) command: &'a str,
    /// The secret that came with the answer.
    pub(in crate::oneshot) handed: Option<&'a Handed>,
    /// Whether an engine keeps running when this command has ended.
    pub(in crate::oneshot) engine_running: bool,
}
