//! One command that is sent, answered and done. Owns the conversation with the engine; what is shown and
//! asked lies below. Never stops an engine and never repeats a command by itself.

mod hints;
mod interrupt;
mod json;
mod prompt;
mod report;
mod sheet;
mod terminal;
mod text;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bursar_core::answers::{Reply, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::{Order, SeedOrder, ServerOrder, WalletOrder};
use bursar_core::wire::{Asking, ToClient, ToEngine};

pub use interrupt::{Interrupt, ctrl_c};
pub use report::{Failure, fail, succeed};
pub use terminal::{ControllingTerminal, Terminal};

use crate::link::{Link, Received, Secret};
use crate::secret_source::{SecretSource, Stdin};
use prompt::{Answered, Prompter, Stop};
use report::{Handed, Outcome};

/// The only command of a one-shot's connection.
const ID: u64 = 1;

/// Longest silence of an engine that has a command. Long commands tell their progress, and the longest
/// wait without any is the back-off after wrong passwords, 30 s.
const SILENCE_MS: u64 = 120_000;

/// How a command is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// One JSON object on standard output instead of text.
    pub json: bool,
    /// No progress.
    pub quiet: bool,
    /// The cause of a failure too, where this program knows it.
    pub verbose: bool,
    /// How much the engine may ask.
    pub asking: Asking,
    /// Whether a secret without a source may be asked for on the terminal.
    pub may_ask: bool,
    pub password: SecretSource,
    pub seed: SecretSource,
    /// Show a seed phrase wherever the result goes.
    pub reveal: bool,
    /// Whether the result goes to a terminal.
    pub out_is_terminal: bool,
    /// Whether the engine was there before this command and stays after it.
    pub engine_running: bool,
}

impl Default for Options {
    /// Nobody is there and nothing is given.
    fn default() -> Self {
        Self {
            json: false,
            quiet: false,
            verbose: false,
            asking: Asking::Silent,
            may_ask: false,
            password: SecretSource::Terminal,
            seed: SecretSource::Terminal,
            reveal: false,
            out_is_terminal: false,
            engine_running: false,
        }
    }
}

impl Options {
    fn may_show_phrase(&self) -> bool {
        self.reveal || (self.out_is_terminal && !self.json)
    }
}

/// What a command reads and writes.
pub struct Streams<'a> {
    pub out: &'a mut (dyn Write + Send),
    pub err: &'a mut (dyn Write + Send),
    pub stdin: Box<dyn Read + Send>,
    pub terminal: Arc<dyn Terminal>,
    pub interrupt: Interrupt,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

impl<'a> Streams<'a> {
    /// Those of this process. Must be called inside the runtime, for Ctrl-C.
    pub fn of_process(out: &'a mut io::Stdout, err: &'a mut io::Stderr) -> Self {
        let terminal = Arc::new(ControllingTerminal::default());
        Self { out, err, stdin: Box::new(Stdin), terminal, interrupt: ctrl_c() }
    }
}

/// Whether standard output is a terminal.
pub fn out_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Runs one command over a link that is ready for it, and gives the exit code.
pub async fn run(mut link: Link, order: Order, options: &Options, streams: Streams<'_>) -> u8 {
    let Streams { out, err, stdin, terminal, interrupt } = streams;
    let command = order.name();
    let outcome = match refuse_unshowable(&order, options) {
        Ok(()) => {
            let prompter = Prompter::new(options, err, terminal, interrupt, stdin);
            let mut talk = Talk { link: &mut link, prompter, order: &order, decided: false };
            talk.converse().await.unwrap_or_else(Outcome::from)
        }
        Err(failure) => Outcome::from(failure),
    };
    report::finish(command, outcome, options, out, err)
}

/// A new seed's words are shown once: where they could not be shown, none is made.
fn refuse_unshowable(order: &Order, options: &Options) -> Result<(), Failure> {
    let makes_words = matches!(order, Order::Seed(SeedOrder::Create { .. }));
    if !makes_words || options.may_show_phrase() {
        return Ok(());
    }
    let message = "The words of a new seed are shown once, and here they would go to a file or a program: \
                   add --reveal to have them there. Nothing was created.";
    Err(Failure {
        fault: Fault::because(Code::ConfirmationNeeded, message),
        hint: Some("--reveal".to_owned()),
    })
}

/// The conversation about one order.
struct Talk<'a> {
    link: &'a mut Link,
    prompter: Prompter<'a>,
    order: &'a Order,
    /// The operator has answered a question: from here on the command may have been carried out.
    decided: bool,
}

impl Talk<'_> {
    async fn converse(&mut self) -> Result<Outcome, Failure> {
        let asking = self.prompter.options.asking;
        let order = Box::new(self.order.clone());
        self.link.send(&ToEngine::Run { id: ID, order, asking }).await?;
        let mut secret: Option<Secret> = None;
        loop {
            let limit = Duration::from_millis(SILENCE_MS);
            // cancel-safe: receive keeps what has arrived; the interrupt is not polled again.
            let received = tokio::select! {
                received = tokio::time::timeout(limit, self.link.receive()) => received,
                () = &mut self.prompter.interrupt => return Err(self.let_go(false).await),
            };
            match received.map_err(|_elapsed| silent())?? {
                Received::Secret { id: ID, secret: given } => secret = Some(given),
                Received::Message(ToClient::Progress { id: ID, text }) => self.progress(&text),
                Received::Message(ToClient::Prompt { id: ID, prompt }) => {
                    match self.prompter.answer(prompt).await {
                        Ok(answered) => self.give(answered).await?,
                        Err(Stop::Interrupted) => return Err(self.let_go(true).await),
                        Err(Stop::Failed(failure)) => {
                            self.cancel().await;
                            return Err(failure);
                        }
                    }
                }
                Received::Message(ToClient::Done { id: ID, reply }) => {
                    return Ok(self.outcome(*reply, secret));
                }
                Received::Message(ToClient::Refused { fault }) => return Err(fault.into()),
                // Of no command of ours.
                Received::Secret { .. } | Received::Message(_) => {}
            }
        }
    }

    async fn give(&mut self, answered: Answered) -> Result<(), Fault> {
        self.decided = true;
        match answered {
            Answered::Yes(yes) => self.link.send(&ToEngine::Answer { id: ID, yes }).await,
            Answered::Secret(secret) => self.link.send_secret(ID, secret).await,
        }
    }

    fn progress(&mut self, text: &str) {
        if !self.prompter.options.quiet {
            // A closed stderr is no reason to stop.
            let _unseen = writeln!(self.prompter.err, "{}", sheet::plain(text));
        }
    }

    /// After Ctrl-C; `asked` if a question was open. Says no more than is certain: a command that the
    /// engine has begun may be through before it reads that nobody waits.
    async fn let_go(&mut self, asked: bool) -> Failure {
        self.cancel().await;
        let interactive = self.prompter.options.asking == Asking::Interactive;
        let message = match self.order {
            Order::Approve(approve) if interactive && !approve.yes && !self.decided => {
                "Cancelled. The request stays held."
            }
            Order::Approve(_) | Order::Deny(_) => {
                "Cancelled. The request stays held, unless it was decided already: look with \
                 `bursar requests --all`."
            }
            _other if asked && !self.decided => "Cancelled. Nothing was done.",
            _other => {
                "Cancelled. Whether the command was carried out is not known: look with \
                 `bursar status`."
            }
        };
        Fault::because(Code::Cancelled, message).into()
    }

    async fn cancel(&mut self) {
        // The engine notices a closed connection just as well.
        let _gone = self.link.send(&ToEngine::Cancel { id: ID }).await;
    }

    fn outcome(&self, reply: Reply, secret: Option<Secret>) -> Outcome {
        let Reply { result, mut warnings, secret: field } = reply;
        if result.is_ok() && !self.prompter.options.engine_running {
            warnings.extend(ends_with_this_command(self.order));
        }
        let handed = field.map(|field| Handed::new(field, secret));
        Outcome { result: result.map_err(Failure::from), warnings, handed }
    }
}

/// What a command that was its own engine has started is over when it ends.
fn ends_with_this_command(order: &Order) -> Option<Warning> {
    let message = match order {
        Order::Server(ServerOrder::Start) => {
            "No engine runs, so the server ends with this command: `bursar engine` keeps it."
        }
        Order::Wallet(WalletOrder::Open) => {
            "No engine runs, so the wallet is locked again as this command ends: `bursar engine` keeps it \
             open."
        }
        _lasting => return None,
    };
    Some(Warning { code: "ENDS_WITH_COMMAND".to_owned(), message: message.to_owned() })
}

fn silent() -> Fault {
    let message = "The engine has said nothing for two minutes. The command may still be carried out: look \
                   with `bursar status`.";
    Fault::because(Code::EngineDown, message)
}
