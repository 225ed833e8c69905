//! The program through which an operator acts: its declared kind, and the process id that the kernel reports.
//! Recorded with decisions and sends, and shown to operators; never used for authorization.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a program attached to an engine, as the program declares it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// Stays attached and shows everything.
    Console,
    /// Runs one command.
    #[default]
    Command,
}

/// A program that uses an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Client {
    /// The engine's own process: its console, or a restore of a backup, which ends held requests.
    Inside,
    /// A program at the engine's socket; `pid` is `None` if the platform does not report it.
    Attached { program: Program, pid: Option<u32> },
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Client::Attached { program, pid } = self else {
            return f.write_str("the engine's own console");
        };
        f.write_str(match program {
            Program::Console => "a console",
            Program::Command => "a command",
        })?;
        pid.map_or(Ok(()), |pid| write!(f, " (process {pid})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_shown_with_kind_and_process_id() {
        let attached = |program, pid| Client::Attached { program, pid }.to_string();
        assert_eq!(attached(Program::Console, Some(42)), "a console (process 42)");
        assert_eq!(attached(Program::Command, None), "a command");
        assert_eq!(Client::Inside.to_string(), "the engine's own console");
    }
}
