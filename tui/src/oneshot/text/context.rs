//! The circumstances of an answer that its text depends on.

use crate::oneshot::outcome::ReturnedSecret;

/// The circumstances of an answer that its text depends on.
#[derive(Clone, Copy)]
pub(in crate::oneshot) struct Context<'a> {
    /// The command, as `noun.verb`.
    pub(in crate::oneshot) command: &'a str,
    /// The secret that came with the answer.
    pub(in crate::oneshot) returned_secret: Option<&'a ReturnedSecret>,
    /// Whether an engine keeps running when this command has ended.
    pub(in crate::oneshot) engine_running: bool,
    /// Whether all cards of waiting requests are shown, however many there are.
    pub(in crate::oneshot) shows_cards: bool,
    /// Whether the text may contain ASCII only.
    pub(in crate::oneshot) ascii: bool,
}
