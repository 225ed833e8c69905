//! Commands as they are typed in a console. An engine's sentences name them as for a shell, `bursar thaw`; on a
//! console's line the program's name is a colon. Commands for a shell alone keep the name.

use bursar_core::answers::{Answer, BalanceAnswer, NetworkHoldingsAnswer, Reply};
use bursar_core::wire::{Prompt, ToClient};

use super::complete;

/// How a command starts in a sentence.
const IN_A_SHELL: &str = "`bursar ";
const HERE: &str = "`:";
/// A command of the grammar that a console leaves to shells, because it writes a file.
const OF_SHELLS: &str = "history export";

/// Rewrites the sentences of a frame for the operator of a console.
pub(super) fn frame(frame: ToClient) -> ToClient {
    match frame {
        ToClient::Progress { id, text } => ToClient::Progress { id, text: sentence(&text) },
        ToClient::Prompt { id, prompt } => ToClient::Prompt { id, prompt: asked(prompt) },
        ToClient::Done { id, reply } => ToClient::Done { id, reply: Box::new(replied(*reply)) },
        same @ (ToClient::Hello { .. }
        | ToClient::Refused { .. }
        | ToClient::Welcome
        | ToClient::Part { .. }
        | ToClient::Entries { .. }) => same,
    }
}

fn asked(prompt: Prompt) -> Prompt {
    let all = |lines: Vec<String>| lines.iter().map(|line| sentence(line)).collect();
    match prompt {
        Prompt::Confirm { lines, question } => {
            Prompt::Confirm { lines: all(lines), question: sentence(&question) }
        }
        Prompt::TypeName { lines, name } => Prompt::TypeName { lines: all(lines), name },
        same @ (Prompt::Secret { .. } | Prompt::TypeAmount { .. }) => same,
    }
}

fn replied(mut reply: Reply) -> Reply {
    for warning in &mut reply.warnings {
        warning.message = sentence(&warning.message);
    }
    match &mut reply.result {
        Err(fault) => fault.message = sentence(&fault.message),
        Ok(Answer::Status(status)) => within(&mut status.untrusted),
        Ok(Answer::Agents { agents }) => {
            agents.iter_mut().for_each(|agent| within(&mut agent.problem));
        }
        Ok(Answer::Requests { requests }) => {
            let cards = requests.iter_mut().filter_map(|request| request.card.as_mut());
            cards.for_each(|card| within(&mut card.obstacle));
        }
        Ok(Answer::Balances { addresses }) => {
            let networks = addresses.iter_mut().flat_map(|address| &mut address.networks);
            networks.for_each(unread);
        }
        Ok(_without_sentences) => {}
    }
    reply
}

fn unread(network: &mut NetworkHoldingsAnswer) {
    within(&mut network.error);
    within(&mut network.incomplete);
    let reason = |held: &mut BalanceAnswer| within(&mut held.amount_unknown_reason);
    network.balances.iter_mut().for_each(reason);
}

fn within(text: &mut Option<String>) {
    if let Some(text) = text {
        *text = sentence(text);
    }
}

fn sentence(text: &str) -> String {
    let mut pieces = text.split(IN_A_SHELL);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let word = piece.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
        let is_ours = complete::is_command(word) && !piece.starts_with(OF_SHELLS);
        out.push_str(if is_ours { HERE } else { IN_A_SHELL });
        out.push_str(piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_command_in_a_sentence_becomes_a_console_command() {
        for (said, shown) in [
            ("It is locked: run `bursar wallet open`.", "It is locked: run `:wallet open`."),
            ("`bursar audit verify`, then `bursar thaw`.", "`:audit verify`, then `:thaw`."),
            // Commands for a shell.
            ("start `bursar engine`.", "start `bursar engine`."),
            ("`bursar history export <file>`", "`bursar history export <file>`"),
            // Not a command.
            ("the agent bursar status", "the agent bursar status"),
            ("`bursar nonsense`", "`bursar nonsense`"),
            ("", ""),
        ] {
            assert_eq!(sentence(said), shown);
        }
    }
}
