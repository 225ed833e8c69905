//! Implements a command's dialogue with the operator over the connection that sent the command.

use bursar_chain::ports::BoxFuture;
use bursar_control::answers::ActivityRow;
use bursar_control::wire::{Asking, Frame, Prompt, SecretPrompt, ToClient};
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use secrecy::SecretString;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use crate::operator::dialogue::Dialogue;

/// An answer to a prompt.
pub(super) enum PromptAnswer {
    Yes(bool),
    Secret(Zeroizing<Vec<u8>>),
    Cancelled,
}

/// The dialogue of one command of a session.
pub(super) struct SessionDialogue {
    id: u64,
    asking: Asking,
    client: Client,
    out: mpsc::Sender<Frame>,
    answers: mpsc::Receiver<PromptAnswer>,
}

impl SessionDialogue {
    pub(super) fn new(
        id: u64,
        asking: Asking,
        client: Client,
        out: mpsc::Sender<Frame>,
        answers: mpsc::Receiver<PromptAnswer>,
    ) -> Self {
        Self { id, asking, client, out, answers }
    }

    /// Sends a prompt and returns the bytes of its answer.
    async fn prompt_for_bytes(&mut self, prompt: Prompt) -> Result<Zeroizing<Vec<u8>>, Fault> {
        self.ask(prompt).await?;
        match self.answers.recv().await {
            Some(PromptAnswer::Secret(bytes)) => Ok(bytes),
            Some(PromptAnswer::Yes(_)) | Some(PromptAnswer::Cancelled) | None => {
                Err(Fault::new(Code::Cancelled))
            }
        }
    }

    async fn ask(&mut self, prompt: Prompt) -> Result<(), Fault> {
        // Drop late answers to earlier prompts, which must not answer this one.
        while let Ok(old) = self.answers.try_recv() {
            if matches!(old, PromptAnswer::Cancelled) {
                return Err(Fault::new(Code::Cancelled));
            }
        }
        self.send(&ToClient::Prompt { id: self.id, prompt }).await
    }

    async fn send(&self, message: &ToClient) -> Result<(), Fault> {
        let frame = Frame::json(message).map_err(|_error| Fault::new(Code::InternalError))?;
        self.send_frame(frame).await
    }

    async fn send_frame(&self, frame: Frame) -> Result<(), Fault> {
        self.out.send(frame).await.map_err(|_gone| Fault::new(Code::Cancelled))
    }
}

impl Dialogue for SessionDialogue {
    fn asking(&self) -> Asking {
        self.asking
    }

    fn client(&self) -> Client {
        self.client
    }

    fn progress<'a>(&'a self, text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let frame = ToClient::Progress { id: self.id, text: text.to_owned() };
            let _gone = self.send(&frame).await;
        })
    }

    fn part(&self, text: String) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.send(&ToClient::Part { id: self.id, text }).await })
    }

    fn entries(&mut self, entries: Vec<ActivityRow>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let frame = Frame::json(&ToClient::Entries { id: self.id, entries });
            let frame = frame.map_err(|_error| Fault::new(Code::InternalError))?;
            // cancel-safe: only a cancelled command drops an unsent frame, and that command ends here.
            tokio::select! {
                sent = self.out.send(frame) => sent.map_err(|_gone| Fault::new(Code::Cancelled)),
                () = wait_for_cancel(&mut self.answers) => Err(Fault::new(Code::Cancelled)),
            }
        })
    }

    fn cancelled(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(wait_for_cancel(&mut self.answers))
    }

    fn secret(&mut self, what: SecretPrompt) -> BoxFuture<'_, Result<SecretString, Fault>> {
        Box::pin(async move {
            let bytes = self.prompt_for_bytes(Prompt::Secret { what }).await?;
            let text = std::str::from_utf8(&bytes)
                .map_err(|_not_text| invalid_utf8("A secret must be UTF-8 text."))?;
            Ok(SecretString::from(text))
        })
    }

    fn confirm<'a>(
        &'a mut self,
        lines: Vec<String>,
        question: &'a str,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.ask(Prompt::Confirm { lines, question: question.to_owned() }).await?;
            match self.answers.recv().await {
                Some(PromptAnswer::Yes(true)) => Ok(()),
                Some(PromptAnswer::Yes(false)) => Err(Fault::new(Code::Declined)),
                Some(PromptAnswer::Secret(_)) | Some(PromptAnswer::Cancelled) | None => {
                    Err(Fault::new(Code::Cancelled))
                }
            }
        })
    }

    fn ask_amount<'a>(
        &'a mut self,
        lines: Vec<String>,
        amount: &'a str,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move {
            let bytes = self
                .prompt_for_bytes(Prompt::TypeAmount { lines, amount: amount.to_owned() })
                .await?;
            String::from_utf8(bytes.to_vec())
                .map_err(|_not_text| invalid_utf8("The amount must be a number."))
        })
    }

    fn ask_name<'a>(
        &'a mut self,
        lines: Vec<String>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move {
            let bytes =
                self.prompt_for_bytes(Prompt::TypeName { lines, name: name.to_owned() }).await?;
            String::from_utf8(bytes.to_vec())
                .map_err(|_not_text| invalid_utf8("The name must be UTF-8 text."))
        })
    }

    fn send_secret(&self, bytes: Zeroizing<Vec<u8>>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.send_frame(Frame::Secret { id: self.id, bytes }))
    }
}

fn invalid_utf8(message: &str) -> Fault {
    Fault::because(Code::BadInput, message)
}

/// Completes when the command is cancelled. Drops answers without a pending prompt.
async fn wait_for_cancel(answers: &mut mpsc::Receiver<PromptAnswer>) {
    while let Some(answer) = answers.recv().await {
        match answer {
            PromptAnswer::Cancelled => return,
            PromptAnswer::Yes(_) | PromptAnswer::Secret(_) => {}
        }
    }
}
