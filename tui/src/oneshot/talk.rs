//! The conversation with the engine about one order: sends it, passes questions to the prompter, takes the
//! reply. Ctrl-C ends it at any point and says no more than is certain.

use std::time::Duration;

use bursar_core::answers::{Reply, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::{Order, ServerOrder, WalletOrder};
use bursar_core::wire::{Asking, ToClient, ToEngine};

use super::prompt::{Answered, Prompter, Stop};
use super::report::{Failure, Handed, Outcome};
use crate::link::{Link, Received, Secret};

/// Longest silence of an engine that has a command. Long commands tell their progress, and the longest
/// wait without any is the back-off after wrong passwords, 30 s.
pub(super) const SILENCE_MS: u64 = 120_000;

/// A link and who answers on this side.
pub(super) struct Talk<'a> {
    link: Link,
    prompter: Prompter<'a>,
    /// Of the command that runs now.
    id: u64,
    /// The operator has answered a question: from here on the command may have been carried out.
    decided: bool,
}

impl<'a> Talk<'a> {
    pub(super) fn new(link: Link, prompter: Prompter<'a>) -> Self {
        Self { link, prompter, id: 0, decided: false }
    }

    /// Runs the order. An engine that exists for this command only begins with its wallet locked, so
    /// where that is the answer the wallet is opened and the order, which did nothing yet, given again.
    pub(super) async fn about(mut self, order: &Order) -> Result<Outcome, Failure> {
        let outcome = self.run(order).await?;
        if self.prompter.options.engine_running {
            return Ok(outcome);
        }
        if !outcome.is_locked() {
            return Ok(outcome.noting(ends_with_this_command(order)));
        }
        if !self.prompter.can_give_password() {
            return Err(locked_alone());
        }
        let opened = self.run(&Order::Wallet(WalletOrder::Open)).await?;
        if opened.result.is_err() {
            return Ok(opened);
        }
        let mut outcome = self.run(order).await?;
        outcome.warnings.extend(opened.warnings);
        Ok(outcome)
    }

    async fn run(&mut self, order: &Order) -> Result<Outcome, Failure> {
        self.id = self.id.saturating_add(1);
        let (id, asking) = (self.id, self.prompter.options.asking);
        self.link.send(&ToEngine::Run { id, order: Box::new(order.clone()), asking }).await?;
        let mut secret: Option<Secret> = None;
        loop {
            let limit = Duration::from_millis(SILENCE_MS);
            // cancel-safe: receive keeps what has arrived; the interrupt is not polled again.
            let received = tokio::select! {
                received = tokio::time::timeout(limit, self.link.receive()) => received,
                () = &mut self.prompter.interrupt => return Err(self.let_go(order, false).await),
            };
            match received.map_err(|_elapsed| silent())?? {
                Received::Secret { id: of, secret: given } if of == id => secret = Some(given),
                Received::Message(ToClient::Progress { id: of, text }) if of == id => {
                    self.prompter.tell(&text);
                }
                Received::Message(ToClient::Prompt { id: of, prompt }) if of == id => {
                    match self.prompter.answer(prompt).await {
                        Ok(answered) => self.give(answered).await?,
                        Err(Stop::Interrupted) => return Err(self.let_go(order, true).await),
                        Err(Stop::Failed(failure)) => {
                            self.cancel().await;
                            return Err(failure);
                        }
                    }
                }
                Received::Message(ToClient::Done { id: of, reply }) if of == id => {
                    return Ok(outcome(*reply, secret));
                }
                Received::Message(ToClient::Refused { fault }) => return Err(fault.into()),
                // Of no command of ours.
                Received::Secret { .. } | Received::Message(_) => {}
            }
        }
    }

    async fn give(&mut self, answered: Answered) -> Result<(), Fault> {
        self.decided = true;
        let id = self.id;
        match answered {
            Answered::Yes(yes) => self.link.send(&ToEngine::Answer { id, yes }).await,
            Answered::Secret(secret) => self.link.send_secret(id, secret).await,
        }
    }

    /// After Ctrl-C; `asked` if a question was open. A command that the engine has begun may be through
    /// before it reads that nobody waits.
    async fn let_go(&mut self, order: &Order, asked: bool) -> Failure {
        self.cancel().await;
        let interactive = self.prompter.options.asking == Asking::Interactive;
        let message = match order {
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
        let _gone = self.link.send(&ToEngine::Cancel { id: self.id }).await;
    }
}

fn outcome(reply: Reply, secret: Option<Secret>) -> Outcome {
    let Reply { result, warnings, secret: field } = reply;
    let handed = field.map(|field| Handed::new(field, secret));
    Outcome { result: result.map_err(Failure::from), warnings, handed }
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

/// `bursar wallet open`, which the code's own sentence names, helps only where an engine stays.
fn locked_alone() -> Failure {
    let message = "The wallet is locked, and no engine runs that could hold it open: add --password-file \
                   to this command, or start `bursar engine` and open the wallet there.";
    Failure {
        fault: Fault::because(Code::WalletLocked, message),
        hint: Some("--password-file <path>".to_owned()),
    }
}

fn silent() -> Fault {
    let message = "The engine has said nothing for two minutes. The command may still be carried out: look \
                   with `bursar status`.";
    Fault::because(Code::EngineDown, message)
}
