//! Confirmations before an action that removes or replaces an object.

use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::operator::dialogue::Dialogue;

/// Asks for confirmation, unless `--yes` gave it.
pub(crate) async fn agree(
    dialogue: &mut dyn Dialogue,
    lines: Vec<String>,
    question: &str,
) -> Result<(), Fault> {
    match dialogue.asking() {
        Asking::Agreed => Ok(()),
        Asking::Interactive | Asking::DryRun => dialogue.confirm(lines, question).await,
        Asking::Silent => Err(Fault::because(
            Code::ConfirmationNeeded,
            "This needs your agreement, and there is no terminal to ask on: add --yes.",
        )),
    }
}

/// Asks the operator to type the name of the object that will be lost permanently. `--yes` is not enough.
pub(crate) async fn type_name(
    dialogue: &mut dyn Dialogue,
    lines: Vec<String>,
    name: &str,
    given: Option<String>,
) -> Result<(), Fault> {
    let typed = match (given, dialogue.asking()) {
        (Some(given), _) => given,
        (None, Asking::Interactive | Asking::DryRun) => dialogue.ask_name(lines, name).await?,
        (None, Asking::Agreed | Asking::Silent) => {
            let message = "This cannot be undone, so you must give the name: add --confirm <name>.";
            return Err(Fault::because(Code::ConfirmationNeeded, message));
        }
    };
    if typed.trim() == name {
        return Ok(());
    }
    Err(Fault::because(Code::Declined, format!("Nothing was done: the name is {name}.")))
}
