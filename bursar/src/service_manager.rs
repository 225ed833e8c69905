//! Reports to the service manager that started the engine, through `sd_notify(3)`.
//!
//! It reports readiness, the state in words, progress of the core, and the stop. Without a service manager it does
//! nothing. A manager that does not read cannot block the engine.

use std::time::Duration;

use bursar_engine::engine::Engine;

/// Interval at which the engine's state and progress are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum interval between two progress reports. More frequent reports would delay the core's other work.
const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(200);

/// How long a manager may take to accept a message at the start and at the end.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// A report to the service manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Agents and operators can connect. The text describes the engine's state for people.
    Ready(String),
    /// The current state of the engine, as text for people.
    State(String),
    /// The core has completed a turn.
    Alive,
    Stopping,
}

/// The service manager of this process, if there is one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    is_present: bool,
    /// If no progress is reported for this long, the manager restarts the service.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    #[cfg(target_os = "linux")]
    pub(crate) fn of_this_process() -> Self {
        Self {
            is_present: std::env::var_os("NOTIFY_SOCKET").is_some(),
            watchdog: sd_notify::watchdog_enabled(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of_this_process() -> Self {
        Self { is_present: false, watchdog: None }
    }

    /// Reports that the engine is ready.
    pub(crate) async fn report_ready(&self, engine: &Engine) {
        if self.is_present {
            let sent = send(Message::Ready(state_of(engine)));
            let _slow = tokio::time::timeout(MESSAGE_TIMEOUT, sent).await;
        }
    }

    /// Reports each new state of the engine, and the progress of its core. Never ends.
    pub(crate) async fn report_changes(&self, engine: &Engine) {
        if !self.is_present {
            return std::future::pending().await;
        }
        let turn = async || engine.core().wait_for_queue().await.is_ok();
        let progress = report_progress(self.watchdog, turn, send);
        let states = report_states(|| state_of(engine), send);
        tokio::join!(progress, states);
    }

    pub(crate) async fn report_stopping(&self) {
        if self.is_present {
            let _slow = tokio::time::timeout(MESSAGE_TIMEOUT, send(Message::Stopping)).await;
        }
    }
}

/// Reports each completed turn of the core if the manager has a watchdog. If the core is stuck, it reports nothing.
async fn report_progress(
    watchdog: Option<Duration>,
    turn: impl AsyncFn() -> bool,
    send: impl AsyncFn(Message),
) {
    let Some(watchdog) = watchdog else { return std::future::pending().await };
    let every = CHECK_INTERVAL.min(watchdog / 3).max(PROGRESS_INTERVAL_MIN);
    loop {
        if turn().await {
            send(Message::Alive).await;
        }
        tokio::time::sleep(every).await;
    }
}

/// Reports each new state.
async fn report_states(state: impl Fn() -> String, send: impl AsyncFn(Message)) {
    let mut reported = None;
    loop {
        let now = state();
        if reported.as_ref() != Some(&now) {
            send(Message::State(now.clone())).await;
            reported = Some(now);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

fn state_of(engine: &Engine) -> String {
    let view = engine.core().view();
    if view.failure.is_some() {
        "payments are stopped: repair the disk of the journal, then restart the engine".to_owned()
    } else if engine.is_disk_short() {
        "payments are refused: the disk has less than 64 MiB free".to_owned()
    } else if !engine.wallet_exists() {
        "no wallet yet: create one with `bursar wallet create`".to_owned()
    } else if !engine.vault().is_unlocked() {
        "locked: open it with `bursar wallet open`".to_owned()
    } else if view.state.frozen.is_some() {
        "agents are frozen: unfreeze them with `bursar thaw`".to_owned()
    } else {
        let serves = engine.serves_agents();
        let does = if serves { "serving" } else { "open, and agents cannot connect" };
        match view.state.held.len() {
            0 => does.to_owned(),
            waiting => format!("{does}, {waiting} waiting"),
        }
    }
}

/// Sends a message from a separate thread, because a manager that does not read its socket blocks the sender.
///
/// Ignores a manager that has gone away.
#[cfg(target_os = "linux")]
async fn send(message: Message) {
    use sd_notify::NotifyState;
    let sent = tokio::task::spawn_blocking(move || match &message {
        Message::Ready(text) => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(text)]),
        Message::State(text) => sd_notify::notify(&[NotifyState::Status(text)]),
        Message::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
        Message::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
    });
    let _manager_gone = sent.await;
}

#[cfg(not(target_os = "linux"))]
async fn send(_message: Message) {}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn a_core_that_is_stuck_is_not_reported_as_alive() {
        let (left, received) = (Cell::new(3), RefCell::new(Vec::new()));
        let turn = async || {
            if left.get() == 0 {
                return std::future::pending().await;
            }
            left.set(left.get() - 1);
            true
        };
        let send = async |message| received.borrow_mut().push(message);
        let progress = report_progress(Some(Duration::from_millis(1)), turn, send);
        let _ended = tokio::time::timeout(Duration::from_secs(3), progress).await;
        assert_eq!(received.into_inner(), [Message::Alive, Message::Alive, Message::Alive]);
    }

    #[tokio::test]
    async fn each_state_is_reported_once() {
        let (looks, received) = (Cell::new(0), RefCell::new(Vec::new()));
        let state = || {
            looks.set(looks.get() + 1);
            format!("state {}", looks.get() / 3)
        };
        let send = async |message| received.borrow_mut().push(message);
        let states = report_states(state, send);
        let _ended = tokio::time::timeout(Duration::from_secs(5), states).await;
        let state = |number| Message::State(format!("state {number}"));
        assert_eq!(received.borrow()[..2], [state(0), state(1)]);
    }

    #[tokio::test]
    async fn without_a_watchdog_no_progress_is_reported() {
        let send = async |message| assert_eq!(message, Message::Stopping);
        let progress = report_progress(None, async || true, send);
        assert!(tokio::time::timeout(Duration::from_millis(50), progress).await.is_err());
    }
}
