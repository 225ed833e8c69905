//! Tests one-shots against a scripted engine: the sent frames, the questions, the output and the exit code.

mod conversation;
mod envelopes;
mod exports;
pub(crate) mod fixtures;
mod mandates;
pub(crate) mod more_fixtures;
mod passwords;
mod prompts;
mod secrets;
mod texts;
mod watching;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_control::answers::{Answer, Reply};
use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use zeroize::Zeroizing;

use super::conversation::SILENCE_MS_MAX;
use super::*;
use crate::secret_source::SecretSource;
use crate::test_engine::TestEngine;

/// A terminal that answers from a list and records the questions.
#[derive(Debug, Default)]
struct FakeTerminal {
    is_present: bool,
    answers: Mutex<VecDeque<&'static str>>,
    questions: Mutex<Vec<String>>,
}

impl FakeTerminal {
    fn answering(answers: &[&'static str]) -> Arc<Self> {
        let answers = Mutex::new(answers.iter().copied().collect());
        Arc::new(Self { is_present: true, answers, ..Self::default() })
    }

    fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }

    fn next(&self, question: &str) -> io::Result<String> {
        self.questions.lock().unwrap().push(question.to_owned());
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        self.answers.lock().unwrap().pop_front().map(str::to_owned).ok_or_else(ended)
    }
}

impl Terminal for FakeTerminal {
    fn is_present(&self) -> bool {
        self.is_present
    }

    fn ask_secret(&self, question: &str) -> io::Result<Zeroizing<String>> {
        self.next(question).map(Zeroizing::new)
    }

    fn ask_line(&self, question: &str) -> io::Result<String> {
        self.next(question)
    }

    fn restore(&self) {}
}

/// The result of a one-shot.
#[derive(Debug)]
struct RunOutcome {
    exit: u8,
    out: String,
    err: String,
}

/// One run of a command: its line, its options and its input.
struct Scene {
    line: &'static str,
    options: Options,
    terminal: Arc<FakeTerminal>,
    stdin: &'static str,
    interrupt: Interrupt,
}

impl Scene {
    /// An engine runs, the terminal is unattended, and the result goes to a terminal.
    fn of(line: &'static str) -> Self {
        let options = Options { engine_running: true, out_is_terminal: true, ..Options::default() };
        Self {
            line,
            options,
            terminal: Arc::default(),
            stdin: "",
            interrupt: Box::pin(std::future::pending()),
        }
    }

    /// A person is at the terminal and gives these answers.
    fn attended(line: &'static str, answers: &[&'static str]) -> Self {
        let mut scene = Self::of(line);
        scene.options.asking = Asking::Interactive;
        scene.options.may_ask = true;
        scene.terminal = FakeTerminal::answering(answers);
        scene
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Runs the command. `script` acts as the engine after the order has arrived.
    async fn run_against<F>(self, script: impl FnOnce(TestEngine) -> F) -> RunOutcome
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let order = Order::parse_line(self.line).unwrap();
        let (mut engine, link) = TestEngine::pair();
        let asking = self.options.asking;
        let sent = ToEngine::Run { id: 1, order: Box::new(order.clone()), asking };
        let (begin, begun) = tokio::sync::oneshot::channel();
        let playing = tokio::spawn(async move {
            let received = engine.message().await;
            let _not_waiting = begin.send((engine, received));
        });
        let script = async {
            let (engine, received) = begun.await.unwrap();
            if received.is_some() {
                assert_eq!(received, Some(sent));
            }
            script(engine).await;
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let streams = Streams {
            out: &mut out,
            err: &mut err,
            stdin: Box::new(self.stdin.as_bytes()),
            terminal: self.terminal.clone(),
            interrupt: self.interrupt,
        };
        let (exit, ()) = tokio::join!(run(link, order, &self.options, streams), script);
        playing.await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        RunOutcome { exit, out: text(out), err: text(err) }
    }

    /// Runs the command against an engine that answers at once.
    async fn run_with_reply(self, reply: Reply) -> RunOutcome {
        self.run_against(|mut engine| async move { send_done(&mut engine, reply).await }).await
    }
}

async fn send_done(engine: &mut TestEngine, reply: Reply) {
    engine.send(&ToClient::Done { id: 1, reply: Box::new(reply) }).await;
}

fn ok_reply(answer: Answer) -> Reply {
    Reply { result: Ok(answer), warnings: Vec::new(), secret: None }
}

/// Compares a whole run with its snapshot in the workspace's folder.
fn assert_snapshot(name: &str, line: &str, ran: &RunOutcome) {
    let RunOutcome { exit, out, err } = ran;
    // The output of a stream is not formatted, because its line breaks matter.
    let one = out.starts_with('{') && !line.contains("watch");
    let out = if one { pretty(out) } else { out.clone() };
    let shown = format!("$ bursar {line}\n{out}--- stderr\n{err}--- exit {exit}");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../snapshots/tui"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, shown));
}

/// Formats one JSON object on one line for reading.
fn pretty(line: &str) -> String {
    assert_eq!(line.find('\n'), Some(line.len() - 1), "more than one line: {line}");
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    format!("{}\n", serde_json::to_string_pretty(&value).unwrap())
}
