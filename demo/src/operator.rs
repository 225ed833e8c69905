//! A scripted operator: sends command lines over a link and answers every prompt.
//!
//! It types the password, confirms, and types the displayed amount.

use std::collections::VecDeque;

use bursar_control::answers::{ActivityRow, Reply};
use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, Prompt, SecretPrompt, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_tui::link::{Link, Received, Secret};
use zeroize::Zeroizing;

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    pub reply: Reply,
    /// The secret that the reply refers to.
    pub secret: Option<String>,
    pub prompts: Vec<Prompt>,
    /// The content of the file that the command produced.
    pub file: String,
    /// The journal entries that the command returned while it ran.
    pub entries: Vec<ActivityRow>,
}

/// A scripted operator and its link.
#[derive(Debug)]
pub struct Operator {
    link: Link,
    next_command_id: u64,
    /// The password for prompts while `passwords` is empty.
    pub password: String,
    /// The passwords for the next prompts.
    pub passwords: VecDeque<String>,
    /// The seed phrase to import.
    pub phrase: String,
    pub asking: Asking,
}

impl Operator {
    /// Creates an operator that answers password prompts with `password`.
    pub fn new(link: Link, password: &str) -> Self {
        Self {
            link,
            next_command_id: 1,
            password: password.to_owned(),
            passwords: VecDeque::new(),
            phrase: String::new(),
            asking: Asking::Interactive,
        }
    }

    /// Runs a command line to its end.
    ///
    /// # Errors
    /// The line is not a valid command, or the link failed. A refusal of the engine is in the reply instead.
    pub async fn run(&mut self, line: &str) -> Result<Outcome, Fault> {
        let order = Order::parse_line(line)
            .map_err(|error| Fault::because(Code::BadInput, error.to_string()))?;
        self.run_order(order).await
    }

    /// Runs a parsed command to its end; see [`Operator::run`].
    pub async fn run_order(&mut self, order: Order) -> Result<Outcome, Fault> {
        let id = self.next_command_id;
        self.next_command_id = self.next_command_id.saturating_add(1);
        let asking = self.asking;
        self.link.send(&ToEngine::Run { id, order: Box::new(order), asking }).await?;
        let (mut secret, mut prompts, mut file) = (None, Vec::new(), String::new());
        let mut entries = Vec::new();
        loop {
            match self.link.receive().await? {
                Received::Secret { secret: Secret(bytes), .. } => {
                    secret = Some(String::from_utf8_lossy(&bytes).into_owned());
                }
                Received::Message(ToClient::Prompt { prompt, .. }) => {
                    self.answer(id, &prompt).await?;
                    prompts.push(prompt);
                }
                Received::Message(ToClient::Done { reply, .. }) => {
                    return Ok(Outcome { reply: *reply, secret, prompts, file, entries });
                }
                Received::Message(ToClient::Part { text, .. }) => file.push_str(&text),
                Received::Message(ToClient::Entries { entries: rows, .. }) => entries.extend(rows),
                Received::Message(ToClient::Progress { .. }) => {}
                Received::Message(
                    ToClient::Hello { .. } | ToClient::Refused { .. } | ToClient::Welcome,
                ) => return Err(Fault::new(Code::VersionMismatch)),
            }
        }
    }

    async fn answer(&mut self, id: u64, prompt: &Prompt) -> Result<(), Fault> {
        let text = match prompt {
            Prompt::Confirm { .. } => {
                return self.link.send(&ToEngine::Answer { id, yes: true }).await;
            }
            Prompt::TypeAmount { amount, .. } => amount.clone(),
            Prompt::TypeName { name, .. } => name.clone(),
            Prompt::Secret { what: SecretPrompt::SeedPhrase } => self.phrase.clone(),
            Prompt::Secret { what: SecretPrompt::Password | SecretPrompt::NewPassword } => {
                self.passwords.pop_front().unwrap_or_else(|| self.password.clone())
            }
        };
        let secret = Secret(Zeroizing::new(text.into_bytes()));
        self.link.send_secret(id, secret).await
    }
}
