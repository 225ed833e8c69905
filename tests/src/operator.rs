//! The demo's operator, extended with the assertions of tests.

use bursar_control::answers::Answer;
use bursar_core::fault::Fault;
pub use bursar_demo::operator::{Operator, Outcome};

/// The wallet password of tests.
pub const PASSWORD: &str = "correct horse battery";

/// Runs command lines with an expected result.
pub trait Expect {
    /// Runs a command line and returns its outcome.
    fn outcome(&mut self, line: &str) -> impl Future<Output = Outcome>;
    /// Runs a command line that must succeed.
    fn must(&mut self, line: &str) -> impl Future<Output = Answer>;
    /// Runs a command line that must be refused.
    fn run_refused(&mut self, line: &str) -> impl Future<Output = Fault>;
}

impl Expect for Operator {
    async fn outcome(&mut self, line: &str) -> Outcome {
        self.run(line).await.unwrap_or_else(|fault| panic!("{line}: {fault}"))
    }

    async fn must(&mut self, line: &str) -> Answer {
        match self.outcome(line).await.reply.result {
            Ok(answer) => answer,
            Err(fault) => panic!("{line}: {}: {fault}", fault.code),
        }
    }

    async fn run_refused(&mut self, line: &str) -> Fault {
        match self.outcome(line).await.reply.result {
            Ok(answer) => panic!("{line} succeeded: {answer:?}"),
            Err(fault) => fault,
        }
    }
}
