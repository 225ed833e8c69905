//! The options of the plain console.

use bursar_control::grammar::CommandSet;

/// Largest number of columns of a line.
pub(super) const WIDTH_MAX: u16 = 80;

/// The options of the plain console.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Whether this process is the engine, so that leaving the console stops the engine.
    pub owner: bool,
    /// Whether the console only shows: it can neither decide nor change anything.
    pub observe: bool,
    /// Whether lines have colours.
    pub color: bool,
    /// The columns of the terminal, if they are known; a line never has more than 80.
    pub width: Option<u16>,
    /// Whether the output goes to a terminal, so that the words of a seed may be printed.
    pub shows_secrets: bool,
    /// Why no full screen is possible; `None` if the operator chose the plain console.
    pub reason: Option<String>,
    /// The option that selects the same data folder in a shell; empty for the default folder.
    pub folder_option: String,
    /// The commands of this program.
    pub commands: CommandSet,
    /// What to know before the wallet's password is chosen; `None` for the usual text.
    pub password_advice: Option<&'static str>,
}

impl Setup {
    /// Returns the columns to which lines are wrapped.
    pub(super) fn columns(&self) -> u16 {
        self.width.unwrap_or(WIDTH_MAX).min(WIDTH_MAX)
    }
}
