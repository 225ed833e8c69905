//! The conversation with the engine about one order: sends the order, answers the prompts and receives the reply.
//! Ctrl-C ends the conversation at any point; the message then warns if the command may have run.

use std::time::Duration;

use bursar_control::answers::{Answer, Reply, Warning};
use bursar_control::grammar::{Order, ServerOrder, WalletOrder};
use bursar_control::wire::{Asking, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::failure::Failure;
use super::outcome::{Outcome, ReturnedSecret};
use super::prompt::{NoAnswer, PromptAnswer, Prompter};
use crate::export::Export;
use crate::link::{Link, Received, Secret};

/// The id of the command. A one-shot's connection has only one.
const ID: u64 = 1;

/// Maximum silence of an engine while a command runs. Long commands report progress. The longest regular wait without
/// progress is the back-off after wrong passwords, 30 s.
pub(super) const SILENCE_MS_MAX: u64 = 120_000;
/// How long a cancelled command may take to send its answer, if it has ended already.
const LAST_ANSWER_MS_MAX: u64 = 2_000;

/// A link to the engine, and the prompter that answers on this side.
pub(super) struct Conversation<'a> {
    link: Link,
    prompter: Prompter<'a>,
    /// The file that the command writes.
    export: Option<Export>,
    /// Whether the operator has answered a prompt. If so, the command may have run.
    has_answered_prompt: bool,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(link: Link, prompter: Prompter<'a>, export: Option<Export>) -> Self {
        Self { link, prompter, export, has_answered_prompt: false }
    }

    pub(super) async fn run(mut self, order: &Order) -> Result<Outcome, Failure> {
        let asking = self.prompter.options.asking;
        self.link.send(&ToEngine::Run { id: ID, order: Box::new(order.clone()), asking }).await?;
        let mut secret: Option<Secret> = None;
        loop {
            let limit = Duration::from_millis(SILENCE_MS_MAX);
            // cancel-safe: `receive` keeps a partial frame, and the interrupt is not polled again.
            let received = tokio::select! {
                received = tokio::time::timeout(limit, self.link.receive()) => received,
                () = &mut self.prompter.interrupt => {
                    let cancelled = self.cancel_after_interrupt(order, false).await;
                    // A command that has already ended sends its answer in spite of the cancellation.
                    return match self.last_answer(&mut secret).await {
                        Some(reply) => Ok(self.outcome(order, reply, secret)),
                        None => Err(cancelled),
                    };
                }
            };
            match received.map_err(|_elapsed| engine_timed_out())?? {
                Received::Secret { id: ID, secret: given } => secret = Some(given),
                Received::Message(ToClient::Progress { id: ID, text }) => {
                    self.prompter.print(&text)
                }
                Received::Message(ToClient::Part { id: ID, text }) => {
                    if let Some(export) = &mut self.export {
                        export.write(&text)?;
                    }
                }
                Received::Message(ToClient::Prompt { id: ID, prompt }) => {
                    match self.prompter.answer(prompt).await {
                        Ok(answered) => self.send_answer(answered).await?,
                        Err(NoAnswer::Interrupted) => {
                            return Err(self.cancel_after_interrupt(order, true).await);
                        }
                        Err(NoAnswer::Failed(failure)) => {
                            self.cancel().await;
                            return Err(failure);
                        }
                    }
                }
                Received::Message(ToClient::Done { id: ID, reply }) => {
                    return Ok(self.outcome(order, *reply, secret));
                }
                Received::Message(ToClient::Refused { fault }) => return Err(fault.into()),
                // This frame does not belong to this command.
                Received::Secret { .. } | Received::Message(_) => {}
            }
        }
    }

    /// Returns the answer of a command that ended before the cancellation.
    ///
    /// `None` if the command was cancelled, or if the engine sends no answer soon.
    async fn last_answer(&mut self, secret: &mut Option<Secret>) -> Option<Reply> {
        let answer = async {
            loop {
                match self.link.receive().await.ok()? {
                    Received::Secret { id: ID, secret: given } => *secret = Some(given),
                    Received::Message(ToClient::Done { id: ID, reply }) => {
                        return reply.result.is_ok().then_some(*reply);
                    }
                    Received::Secret { .. } | Received::Message(_) => {}
                }
            }
        };
        tokio::time::timeout(Duration::from_millis(LAST_ANSWER_MS_MAX), answer).await.ok().flatten()
    }

    fn outcome(&mut self, order: &Order, reply: Reply, secret: Option<Secret>) -> Outcome {
        let Reply { mut result, mut warnings, secret: field } = reply;
        // A failed command leaves no file. If the file cannot be completed, the command fails.
        let sha256 = match &result {
            Ok(Answer::Backup(backup)) => Some(backup.sha256.clone()),
            Ok(_) | Err(_) => None,
        };
        if let (Ok(_sent), Some(export)) = (&result, self.export.take())
            && let Err(fault) = export.finish(sha256.as_deref())
        {
            result = Err(fault);
        }
        if result.is_ok() && !self.prompter.options.engine_running {
            warnings.extend(ends_with_this_command(order));
        }
        let returned_secret = field.map(|field| ReturnedSecret::new(field, secret));
        Outcome { result: result.map_err(Failure::from), warnings, returned_secret }
    }

    async fn send_answer(&mut self, answered: PromptAnswer) -> Result<(), Fault> {
        self.has_answered_prompt = true;
        match answered {
            PromptAnswer::Confirmed(yes) => self.link.send(&ToEngine::Answer { id: ID, yes }).await,
            PromptAnswer::Secret(secret) => self.link.send_secret(ID, secret).await,
        }
    }

    /// Cancels the command after Ctrl-C, and returns the failure to report. `asked` is true if a question was open.
    ///
    /// A command that the engine has started may finish before the engine reads the cancellation.
    async fn cancel_after_interrupt(&mut self, order: &Order, asked: bool) -> Failure {
        self.cancel().await;
        let interactive = self.prompter.options.asking == Asking::Interactive;
        let message = match order {
            Order::Approve(approve) if interactive && !approve.yes && !self.has_answered_prompt => {
                "Cancelled. The request is still waiting."
            }
            Order::Approve(_) | Order::Deny(_) => {
                "Cancelled. The request is still waiting, unless it was already decided: check \
                 with `bursar requests --all`."
            }
            Order::History(_) | Order::Receipt(_) | Order::Wallet(WalletOrder::Backup { .. }) => {
                "Cancelled. No file was written."
            }
            _other if asked && !self.has_answered_prompt => "Cancelled. Nothing was done.",
            _other => "Cancelled. The command may have run: check with `bursar status`.",
        };
        Fault::because(Code::Cancelled, message).into()
    }

    async fn cancel(&mut self) {
        // If this frame is lost, the engine still notices the closed connection.
        let _gone = self.link.send(&ToEngine::Cancel { id: ID }).await;
    }
}

/// Returns a warning if the effect of the command ends with this process.
///
/// The caller checks that no other engine runs.
fn ends_with_this_command(order: &Order) -> Option<Warning> {
    let message = match order {
        Order::Server(ServerOrder::Start { .. }) => {
            "No engine is running, so the server stops with this command: `bursar engine` keeps \
             it running."
        }
        Order::Wallet(WalletOrder::Open | WalletOrder::Create { .. }) => {
            "No engine is running, so the wallet is locked again after this command: `bursar engine` keeps it open."
        }
        _lasting => return None,
    };
    Some(Warning { code: "ENDS_WITH_COMMAND".to_owned(), message: message.to_owned() })
}

fn engine_timed_out() -> Fault {
    let message = "The engine did not answer for two minutes. The command may still run: check with `bursar \
         status`.";
    Fault::because(Code::EngineDown, message)
}
