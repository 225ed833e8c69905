//! Through which program an operator acts: the kind it says it is, the process that the kernel names. For
//! people who decide at the same time, and never a reason to let anybody do anything.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of program that attaches to an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// Stays and shows everything.
    Console,
    /// Runs one command.
    #[default]
    Command,
}

/// One program at an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Client {
    /// In the engine's own process.
    Inside,
    /// At its socket; the process is unknown where the platform does not tell it.
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
    fn a_client_is_told_by_what_an_operator_can_look_for() {
        let attached = |program, pid| Client::Attached { program, pid }.to_string();
        assert_eq!(attached(Program::Console, Some(42)), "a console (process 42)");
        assert_eq!(attached(Program::Command, None), "a command");
        assert_eq!(Client::Inside.to_string(), "the engine's own console");
    }
}
