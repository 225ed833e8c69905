//! One-shot commands. This module refuses a command whose secret could not be shown. The conversation, the prompts and
//! the report are in its submodules. No one-shot stops an engine or repeats a command that ran.

mod condition;
mod conversation;
mod failure;
mod interrupt;
mod json;
mod layout;
mod options;
mod outcome;
mod prompt;
mod report;
mod sheet;
mod shortfall;
mod terminal;
mod text;
mod watch;

#[cfg(test)]
pub(crate) mod tests;

use bursar_control::answers::{Answer, SecretField, Warning};
use bursar_control::grammar::{AddressOrder, Order, RequestsOrder, SeedOrder};
use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

pub use failure::Failure;
pub use interrupt::{Interrupt, ctrl_c};
pub use layout::LocalTime;
pub use options::{Options, Streams, out_is_terminal, out_width};
pub use report::{conclude, fail, finish_without_engine, succeed};
pub use terminal::{ControllingTerminal, Terminal};

use crate::export;
use crate::link::{Link, Secret};
use conversation::Conversation;
use outcome::{Outcome, ReturnedSecret};
use prompt::Prompter;
pub(crate) use prompt::secret::{SecretEntry, ask_secret};
use zeroize::Zeroizing;

/// Fits a text without secrets to a number of columns.
pub(crate) fn fit(text: &str, width: Option<u16>, color: bool) -> String {
    layout::fit(text, width, color, None)
}

/// Formats an answer for a console, including the secret that came with it. In the console, `prefix` takes the place
/// of the program's name before a command.
pub(crate) fn answer_text(
    command: &str,
    answer: &Answer,
    warnings: &[Warning],
    returned: Option<(SecretField, Option<Secret>)>,
    ascii: bool,
    prefix: &str,
) -> Zeroizing<String> {
    let returned_secret = returned.map(|(field, secret)| ReturnedSecret::new(field, secret));
    let context = text::context::Context {
        command,
        returned_secret: returned_secret.as_ref(),
        engine_running: true,
        ascii,
        // A decision in a console needs the card.
        shows_cards: true,
    };
    let sheet = text::sheet(answer, context);
    let mut output =
        Zeroizing::new(String::with_capacity(sheet.as_str().len().saturating_add(1024)));
    for warning in warnings {
        output.push_str("! ");
        output.push_str(&sheet::escape(&warning.message));
        output.push('\n');
    }
    for line in sheet.as_str().lines() {
        // Our own hints are shell commands. A line with quotes remains unchanged, because it contains foreign text.
        if line.contains(": bursar ") && !line.contains('"') {
            output.push_str(&line.replace(": bursar ", &format!(": {prefix}")));
        } else {
            output.push_str(line);
        }
        output.push('\n');
    }
    output
}

/// Runs one command over a connected link, and returns the exit code.
pub async fn run(link: Link, mut order: Order, options: &Options, streams: Streams<'_>) -> u8 {
    let shows_cards = matches!(&order, Order::Requests(RequestsOrder { cards: true, .. }));
    let options = &Options { shows_cards, ..options.clone() };
    if let Order::Watch(watch) = order {
        return watch::run(link, watch, options, streams).await;
    }
    let Streams { out, err, stdin, terminal, interrupt } = streams;
    let prepared = refuse_unshowable(&order, options).and_then(|()| match options.asking {
        Asking::DryRun => Ok(None),
        _real_run => Ok(export::prepare(&mut order, options.data.as_deref())?),
    });
    let outcome = match prepared {
        Ok(export) => {
            let prompter = Prompter::new(options, err, terminal, interrupt, stdin);
            Conversation::new(link, prompter, export)
                .run(&order)
                .await
                .unwrap_or_else(Outcome::from)
        }
        Err(failure) => Outcome::from(failure),
    };
    if let (Order::Status(form), Ok(Answer::Status(status))) = (&order, &outcome.result)
        && (form.check.is_some() || form.tmux)
    {
        return report::finish_status(status, *form, options, out, err);
    }
    report::finish(order.name(), outcome, options, out, err)
}

/// Ends `status --tmux` where no engine can be reached, and returns the exit code.
pub fn finish_bar_without_engine(fault: &Fault, out: &mut dyn std::io::Write) -> u8 {
    // A closed output cannot be reported anywhere.
    let _closed = writeln!(out, "{}", condition::BAR_OFF);
    fault.code.exit()
}

/// Refuses a command that returns seed words or a private key, if they could not be shown.
///
/// Without `--reveal` they are shown only as text on a terminal. The refusal comes before the order, so that the engine
/// creates no seed whose words the operator has not seen.
fn refuse_unshowable(order: &Order, options: &Options) -> Result<(), Failure> {
    let message = match order {
        _shown if options.may_show_phrase() || options.asking == Asking::DryRun => return Ok(()),
        Order::Seed(SeedOrder::Create { .. }) => {
            "The words of a new seed are printed only as text on a terminal: add --reveal to print them \
             anyway. Nothing was created."
        }
        Order::Seed(SeedOrder::Words { .. }) => {
            "The words of a seed are printed only as text on a terminal: add --reveal to print them anyway."
        }
        Order::Address(AddressOrder::Export { .. }) => {
            "A private key is printed only as text on a terminal: add --reveal to print it anyway."
        }
        _without_words => return Ok(()),
    };
    Err(Failure {
        fault: Fault::because(Code::ConfirmationNeeded, message),
        hint: Some("--reveal".to_owned()),
    })
}
