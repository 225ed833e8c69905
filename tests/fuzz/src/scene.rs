//! The parts of a target: a valid input, a mutated input, and the checks around them.

use bursar_tests::dice::Dice;

/// The outcome of one input.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The class for the table, such as `200` or `exit 2`.
    pub(crate) class: String,
    /// The input, escaped.
    pub(crate) input: String,
    /// The rules that the program broke.
    pub(crate) violated: Vec<String>,
}

/// The running programs of one target.
pub(crate) trait Scene {
    /// Sends a valid input, which must succeed.
    ///
    /// # Errors
    /// The input did not succeed; the text describes the result.
    fn send_valid(&mut self) -> Result<(), String>;

    /// Sends a mutated input and checks the result.
    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome;

    /// Measures the programs after the warm-up. Does nothing for commands that end by themselves.
    fn measure(&mut self) {}

    /// Checks the programs at the end: their memory, their files and their state.
    fn check_at_end(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the programs still run. If not, the target is started again.
    fn is_alive(&mut self) -> bool {
        true
    }
}
