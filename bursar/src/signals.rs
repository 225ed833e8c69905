//! The signals that end an engine.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

/// What somebody sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// A service manager's way to end a program.
    Terminate,
}

impl Signal {
    /// The exit code after an orderly stop.
    pub(crate) fn exit(self) -> u8 {
        match self {
            Signal::Interrupt => Code::Cancelled.exit(),
            Signal::Terminate => 0,
        }
    }
}

/// Both signals, from the moment it is made: none is lost and none ends the process by itself.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn listen() -> Result<Self, Fault> {
        use tokio::signal::unix::{SignalKind, signal};
        let on =
            |kind| signal(kind).map_err(|error| Fault::new(Code::InternalError).with_detail(error));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        // cancel-safe: recv.
        tokio::select! {
            _one = self.interrupt.recv() => Signal::Interrupt,
            _one = self.terminate.recv() => Signal::Terminate,
        }
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn listen() -> Result<Self, Fault> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
