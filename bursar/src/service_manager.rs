//! Tells the service manager that started the engine how it is, by `sd_notify(3)`: that it serves, its state in words, that
//! its core works, and that it stops. Without a manager it says nothing, and no manager can hold the engine up.

use std::time::Duration;

use bursar_engine::engine::Engine;

/// Interval between two looks at the engine.
const EVERY: Duration = Duration::from_secs(1);

/// Least interval between two signs of life: more often they would keep the core from its other work.
const EVERY_LEAST: Duration = Duration::from_millis(200);

/// How long a manager may take to accept a message at the start and at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a service manager is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Agents and operators can connect. What the engine does, for people.
    Ready(String),
    /// What the engine does now.
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
    watchdog: Option<Duration>,
}

impl ServiceManager {
    #[cfg(target_os = "linux")]
    pub(crate) fn of_this_process() -> Self {
        Self {
            is_there: std::env::var_os("NOTIFY_SOCKET").is_some(),
            watchdog: sd_notify::watchdog_enabled(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of_this_process() -> Self {
        Self { is_there: false, watchdog: None }
    }

    /// Reports that the engine is ready.
    pub(crate) async fn ready(&self, engine: &Engine) {
        if self.is_there {
            let told = send(Message::Ready(state_of(engine)));
            let _slow = tokio::time::timeout(PATIENCE, told).await;
        }
    }

    /// Reports each new state of the engine, and that its core works. Never ends.
    pub(crate) async fn follow(&self, engine: &Engine) {
        if !self.is_there {
            return std::future::pending().await;
        }
        let turn = async || engine.core().turn().await.is_ok();
        let beats = beat(self.watchdog, turn, send);
        let states = tell_states(async || state_of(engine), send);
        tokio::join!(beats, states);
    }

    pub(crate) async fn stopping(&self) {
        if self.is_there {
            let _slow = tokio::time::timeout(PATIENCE, send(Message::Stopping)).await;
        }
    }
}

/// Calls `send` after each turn of the core, if the manager wants to hear of it. A turn that does not end is never reported.
async fn beat(
    watchdog: Option<Duration>,
    turn: impl AsyncFn() -> bool,
    send: impl AsyncFn(Message),
) {
    let Some(watchdog) = watchdog else { return std::future::pending().await };
    let every = EVERY.min(watchdog / 3).max(EVERY_LEAST);
    loop {
        if turn().await {
            send(Message::Alive).await;
        }
        tokio::time::sleep(every).await;
    }
}

/// Calls `send` with each new state.
async fn tell_states(state: impl AsyncFn() -> String, send: impl AsyncFn(Message)) {
    let mut told = None;
    loop {
        let now = state().await;
        if told.as_ref() != Some(&now) {
            send(Message::State(now.clone())).await;
            told = Some(now);
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn state_of(engine: &Engine) -> String {
    let view = engine.core().view();
    if view.failed.is_some() {
        "nothing is decided, because the disk failed: make room, and restart the engine".to_owned()
    } else if !engine.wallet_exists() {
        "no wallet yet: create one with `bursar wallet create`".to_owned()
    } else if !engine.vault().is_unlocked() {
        "locked: open it with `bursar wallet open`".to_owned()
    } else if view.state.frozen.is_some() {
        "agents are frozen: `bursar thaw` lets them go on".to_owned()
    } else {
        let serves = engine.serves_agents();
        let does = if serves { "serving" } else { "open, and agents cannot connect" };
        match view.state.held.len() {
            0 => does.to_owned(),
            waiting => format!("{does}, {waiting} waiting"),
        }
    }
}

/// Sends a message from a thread of its own: a manager that does not read its socket would block. One that does not listen is
/// ignored.
#[cfg(target_os = "linux")]
async fn send(message: Message) {
    use sd_notify::NotifyState;
    let sent = tokio::task::spawn_blocking(move || match &message {
        Message::Ready(text) => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(text)]),
        Message::State(text) => sd_notify::notify(&[NotifyState::Status(text)]),
        Message::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
        Message::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
    });
    let _nobody_listens = sent.await;
}

#[cfg(not(target_os = "linux"))]
async fn send(_message: Message) {}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn a_core_that_is_stuck_is_not_reported_as_alive() {
        let (left, heard) = (Cell::new(3), RefCell::new(Vec::new()));
        let turn = async || {
            if left.get() == 0 {
                return std::future::pending().await;
            }
            left.set(left.get() - 1);
            true
        };
        let send = async |message| heard.borrow_mut().push(message);
        let beats = beat(Some(Duration::from_millis(1)), turn, send);
        let _ended = tokio::time::timeout(Duration::from_secs(3), beats).await;
        assert_eq!(heard.into_inner(), [Message::Alive, Message::Alive, Message::Alive]);
    }

    #[tokio::test]
    async fn each_state_is_told_once() {
        let (looks, heard) = (Cell::new(0), RefCell::new(Vec::new()));
        let state = async || {
            looks.set(looks.get() + 1);
            format!("state {}", looks.get() / 3)
        };
        let send = async |message| heard.borrow_mut().push(message);
        let states = tell_states(state, send);
        let _ended = tokio::time::timeout(Duration::from_secs(5), states).await;
        let state = |number| Message::State(format!("state {number}"));
        assert_eq!(heard.borrow()[..2], [state(0), state(1)]);
    }

    #[tokio::test]
    async fn nobody_who_does_not_watch_hears_of_turns() {
        let beats =
            beat(None, async || true, async |message| assert_eq!(message, Message::Stopping));
        assert!(tokio::time::timeout(Duration::from_millis(50), beats).await.is_err());
    }
}
