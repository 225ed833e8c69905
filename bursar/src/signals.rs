//! The signals that stop an engine or a console.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

/// A signal that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The request of a service manager to stop (SIGTERM).
    Terminate,
    /// The terminal was closed.
    HangUp,
}

impl Signal {
    /// Returns the exit code of a process that this signal stopped.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Signal::Interrupt => Code::Cancelled.exit(),
            Signal::Terminate | Signal::HangUp => 0,
        }
    }
}

/// Receives the signals that stop the program.
///
/// Once it exists, none of these signals is lost or ends the process by itself.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// Listens to the signals of a program that does not draw on a terminal.
    ///
    /// A hang-up keeps the effect that the parent process chose (`nohup`).
    pub(crate) fn listen() -> Result<Self, Fault> {
        use tokio::signal::unix::{SignalKind, signal};
        let on =
            |kind| signal(kind).map_err(|error| Fault::new(Code::InternalError).with_detail(error));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: None,
        })
    }

    /// Listens to the signals of a program that draws on a terminal, hang-ups included.
    pub(crate) fn listen_on_a_terminal() -> Result<Self, Fault> {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = signal(SignalKind::hangup())
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(Self { hang_up: Some(hang_up), ..Self::listen()? })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        };
        // cancel-safe: recv.
        tokio::select! {
            _one = self.interrupt.recv() => Signal::Interrupt,
            _one = self.terminate.recv() => Signal::Terminate,
            () = hang_up => Signal::HangUp,
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

    pub(crate) fn listen_on_a_terminal() -> Result<Self, Fault> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
