//! An operator without hands: sends command lines over a link and answers every prompt. Types the
//! password, says yes, types the amount that is shown.

use std::collections::VecDeque;

use bursar_core::answers::{ActivityRow, Reply};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::Order;
use bursar_core::wire::{Asking, Prompt, SecretPrompt, ToClient, ToEngine};
use bursar_tui::link::{Link, Received, Secret};
use zeroize::Zeroizing;

/// What came of a command.
#[derive(Debug)]
pub struct Outcome {
    pub reply: Reply,
    /// The secret that the reply names.
    pub secret: Option<String>,
    pub prompts: Vec<Prompt>,
    /// The file that the command made.
    pub file: String,
    /// What it told while it ran.
    pub entries: Vec<ActivityRow>,
}

/// An operator at one link.
#[derive(Debug)]
pub struct Operator {
    link: Link,
    next: u64,
    /// The password, when no other is next.
    pub password: String,
    /// Passwords for the next prompts.
    pub passwords: VecDeque<String>,
    /// The phrase to import.
    pub phrase: String,
    pub asking: Asking,
}

impl Operator {
    pub fn at(link: Link, password: &str) -> Self {
        Self {
            link,
            next: 1,
            password: password.to_owned(),
            passwords: VecDeque::new(),
            phrase: String::new(),
            asking: Asking::Interactive,
        }
    }

    /// Runs a command line to its end. The error is that of the link; what the engine refused is in the
    /// reply.
    pub async fn run(&mut self, line: &str) -> Result<Outcome, Fault> {
        let order = Order::parse_line(line)
            .map_err(|error| Fault::because(Code::BadInput, error.to_string()))?;
        self.give(order).await
    }

    /// The same for a command that is an order already.
    pub async fn give(&mut self, order: Order) -> Result<Outcome, Fault> {
        let id = self.next;
        self.next = self.next.saturating_add(1);
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
                Received::Message(ToClient::Entries { entries: told, .. }) => entries.extend(told),
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
