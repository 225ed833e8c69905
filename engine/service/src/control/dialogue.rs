//! What a running command may ask its operator, over the connection that sent the command.

use bursar_core::answers::ActivityRow;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::wire::{Asking, Frame, Prompt, SecretPrompt, ToClient};
use secrecy::SecretString;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

/// An answer to a prompt.
pub(super) enum PromptAnswer {
    Yes(bool),
    Secret(Zeroizing<Vec<u8>>),
    Cancelled,
}

/// One command's line to its operator.
pub struct Dialogue {
    id: u64,
    asking: Asking,
    client: Client,
    out: mpsc::Sender<Frame>,
    answers: mpsc::Receiver<PromptAnswer>,
}

impl std::fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialogue").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Dialogue {
    pub(super) fn new(
        id: u64,
        asking: Asking,
        client: Client,
        out: mpsc::Sender<Frame>,
        answers: mpsc::Receiver<PromptAnswer>,
    ) -> Self {
        Self { id, asking, client, out, answers }
    }

    pub fn asking(&self) -> Asking {
        self.asking
    }

    /// The program that sent the command.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Tells how far the command is.
    pub async fn progress(&self, text: &str) {
        let frame = ToClient::Progress { id: self.id, text: text.to_owned() };
        // Who listens no more does not need to know.
        let _gone = self.send(&frame).await;
    }

    /// Hands over the next piece of a file.
    pub async fn part(&self, text: String) -> Result<(), Fault> {
        self.send(&ToClient::Part { id: self.id, text }).await
    }

    /// Hands over what happened next. Waits for a program that reads slowly, and ends with it when it lets go.
    pub async fn entries(&mut self, entries: Vec<ActivityRow>) -> Result<(), Fault> {
        let frame = Frame::json(&ToClient::Entries { id: self.id, entries });
        let frame = frame.map_err(|_error| Fault::new(Code::InternalError))?;
        // cancel-safe: a frame that was not handed over belongs to a command that ends here.
        tokio::select! {
            sent = self.out.send(frame) => sent.map_err(|_gone| Fault::new(Code::Cancelled)),
            () = let_go(&mut self.answers) => Err(Fault::new(Code::Cancelled)),
        }
    }

    /// Waits until the program cancels the command or is gone. Cancel-safe.
    pub async fn let_go(&mut self) {
        let_go(&mut self.answers).await;
    }

    /// Asks for a secret. The client answers from a file where it was given one, so this is also asked
    /// when nobody is there.
    pub async fn secret(&mut self, what: SecretPrompt) -> Result<SecretString, Fault> {
        self.ask(Prompt::Secret { what }).await?;
        let bytes = self.secret_answer().await?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_not_text| Fault::because(Code::BadInput, "A secret must be UTF-8 text."))?;
        Ok(SecretString::from(text))
    }

    /// Shows lines and asks a question.
    pub async fn confirm(&mut self, lines: Vec<String>, question: &str) -> Result<(), Fault> {
        self.ask(Prompt::Confirm { lines, question: question.to_owned() }).await?;
        match self.answers.recv().await {
            Some(PromptAnswer::Yes(true)) => Ok(()),
            Some(PromptAnswer::Yes(false)) => Err(Fault::new(Code::Declined)),
            Some(PromptAnswer::Secret(_)) | Some(PromptAnswer::Cancelled) | None => {
                Err(Fault::new(Code::Cancelled))
            }
        }
    }

    /// Has an amount typed; answers what was typed.
    pub async fn typed_amount(
        &mut self,
        lines: Vec<String>,
        amount: &str,
    ) -> Result<String, Fault> {
        self.ask(Prompt::TypeAmount { lines, amount: amount.to_owned() }).await?;
        let bytes = self.secret_answer().await?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_not_text| Fault::because(Code::BadInput, "The amount must be digits."))
    }

    /// Has a name typed; answers what was typed.
    pub async fn typed_name(&mut self, lines: Vec<String>, name: &str) -> Result<String, Fault> {
        self.ask(Prompt::TypeName { lines, name: name.to_owned() }).await?;
        let bytes = self.secret_answer().await?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_not_text| Fault::because(Code::BadInput, "The name must be UTF-8 text."))
    }

    /// Hands a secret to the operator; the reply that follows names its field.
    pub async fn hand_out(&self, bytes: Zeroizing<Vec<u8>>) -> Result<(), Fault> {
        let frame = Frame::Secret { id: self.id, bytes };
        self.out.send(frame).await.map_err(|_gone| Fault::new(Code::Cancelled))
    }

    async fn secret_answer(&mut self) -> Result<Zeroizing<Vec<u8>>, Fault> {
        match self.answers.recv().await {
            Some(PromptAnswer::Secret(bytes)) => Ok(bytes),
            Some(PromptAnswer::Yes(_)) | Some(PromptAnswer::Cancelled) | None => {
                Err(Fault::new(Code::Cancelled))
            }
        }
    }

    async fn ask(&mut self, prompt: Prompt) -> Result<(), Fault> {
        // An answer to a question that is no longer asked answers no other.
        while let Ok(old) = self.answers.try_recv() {
            if matches!(old, PromptAnswer::Cancelled) {
                return Err(Fault::new(Code::Cancelled));
            }
        }
        self.send(&ToClient::Prompt { id: self.id, prompt }).await
    }

    async fn send(&self, message: &ToClient) -> Result<(), Fault> {
        let frame = Frame::json(message).map_err(|_error| Fault::new(Code::InternalError))?;
        self.out.send(frame).await.map_err(|_gone| Fault::new(Code::Cancelled))
    }
}

/// What comes besides answers no question and is dropped.
async fn let_go(answers: &mut mpsc::Receiver<PromptAnswer>) {
    while let Some(answer) = answers.recv().await {
        match answer {
            PromptAnswer::Cancelled => return,
            PromptAnswer::Yes(_) | PromptAnswer::Secret(_) => {}
        }
    }
}
