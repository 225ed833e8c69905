//! Tells the service manager that started the engine how it is, by `sd_notify(3)`: that it serves, its state in words, that
//! its core works, and that it stops. Without a manager it says nothing.

use std::time::Duration;

use bursar_engine::engine::Engine;

/// Interval between two looks at the engine.
const EVERY: Duration = Duration::from_secs(1);

/// What a service manager is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Agents and operators can connect.
    Ready,
    /// What the engine does, for people.
    State(String),
    /// The core has completed a turn.
    Alive,
    Stopping,
}

/// The service manager of this process, if there is one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    is_there: bool,
    /// The manager restarts a service that it has not heard of for this long.
    patience: Option<Duration>,
}

impl ServiceManager {
    #[cfg(target_os = "linux")]
    pub(crate) fn of_this_process() -> Self {
        Self {
            is_there: std::env::var_os("NOTIFY_SOCKET").is_some(),
            patience: sd_notify::watchdog_enabled(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of_this_process() -> Self {
        Self { is_there: false, patience: None }
    }

    /// Reports that the engine is ready.
    pub(crate) async fn ready(&self, engine: &Engine) {
        if self.is_there {
            send(&[Message::Ready, Message::State(state_of(engine).await)]);
        }
    }

    /// Reports each new state of the engine, and that its core works, until the caller stops it.
    pub(crate) async fn follow(&self, engine: &Engine) {
        if !self.is_there {
            return std::future::pending().await;
        }
        let state = async || state_of(engine).await;
        let turn = async || engine.core().turn().await.is_ok();
        follow(self.patience, state, turn, |message| send(&[message])).await;
    }

    pub(crate) fn stopping(&self) {
        if self.is_there {
            send(&[Message::Stopping]);
        }
    }
}

/// Calls `send` with each new state, and, if the manager wants to hear it, after each turn of the core. A turn that does not
/// end is never reported.
async fn follow(
    patience: Option<Duration>,
    state: impl AsyncFn() -> String,
    turn: impl AsyncFn() -> bool,
    send: impl Fn(Message),
) {
    let every = patience.map_or(EVERY, |patience| EVERY.min(patience / 3));
    let mut told = None;
    loop {
        if patience.is_some() && turn().await {
            send(Message::Alive);
        }
        let now = state().await;
        if told.as_ref() != Some(&now) {
            send(Message::State(now.clone()));
            told = Some(now);
        }
        tokio::time::sleep(every).await;
    }
}

async fn state_of(engine: &Engine) -> String {
    let view = engine.core().view();
    let serves = engine.serves_agents().await;
    if !engine.wallet_exists() {
        "no wallet yet: create one with `bursar wallet create`".to_owned()
    } else if !engine.vault().is_unlocked() {
        "locked: open it with `bursar wallet open`".to_owned()
    } else if view.state.frozen.is_some() {
        "agents are frozen: `bursar thaw` lets them go on".to_owned()
    } else {
        let does = if serves { "serving" } else { "open, and agents cannot connect" };
        match view.state.held.len() {
            0 => does.to_owned(),
            waiting => format!("{does}, {waiting} waiting"),
        }
    }
}

/// Ignores a manager that does not listen: the engine works without it.
#[cfg(target_os = "linux")]
fn send(messages: &[Message]) {
    use sd_notify::NotifyState;
    let states: Vec<NotifyState<'_>> = messages
        .iter()
        .map(|message| match message {
            Message::Ready => NotifyState::Ready,
            Message::State(text) => NotifyState::Status(text),
            Message::Alive => NotifyState::Watchdog,
            Message::Stopping => NotifyState::Stopping,
        })
        .collect();
    let _nobody_listens = sd_notify::notify(&states);
}

#[cfg(not(target_os = "linux"))]
fn send(_messages: &[Message]) {}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Runs `follow` for a while, with a core that completes so many turns.
    async fn told(patience: Option<Duration>, turns: usize) -> Vec<Message> {
        let (left, heard, looks) = (Cell::new(turns), RefCell::new(Vec::new()), Cell::new(0));
        let state = async || {
            looks.set(looks.get() + 1);
            format!("state {}", looks.get() / 3)
        };
        let turn = async || {
            if left.get() == 0 {
                return std::future::pending().await;
            }
            left.set(left.get() - 1);
            true
        };
        let follows = follow(patience, state, turn, |message| heard.borrow_mut().push(message));
        let _ended = tokio::time::timeout(Duration::from_millis(200), follows).await;
        heard.into_inner()
    }

    #[tokio::test]
    async fn a_core_that_is_stuck_is_not_reported_as_alive() {
        let patience = Some(Duration::from_millis(6));
        let heard = told(patience, 4).await;
        let alive = heard.iter().filter(|message| **message == Message::Alive).count();
        assert_eq!(alive, 4, "{heard:?}");
        // Each state is told once.
        let states = [0, 1].map(|number| Message::State(format!("state {number}")));
        assert!(states.iter().all(|one| heard.iter().filter(|told| *told == one).count() == 1));
    }

    #[tokio::test]
    async fn nobody_who_does_not_watch_hears_of_turns() {
        let heard = told(None, 4).await;
        assert_eq!(heard, [Message::State("state 0".to_owned())]);
    }
}
