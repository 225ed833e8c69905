//! Tests the session without I/O: typed lines, replies and ticks go in; printed lines and orders come out.

mod deciding;
mod life;
mod news;

use bursar_control::answers::*;
use bursar_control::grammar::{AddressOrder, AgentOrder, Order, PolicyOrder};
use bursar_control::wire::{ToClient, ToEngine};
use bursar_core::card::Card;
use bursar_core::fault::Fault;

use super::effect::Effect;
use super::input::Typed;
use super::session::{GUARD_MS, Session};
use super::setup::Setup;
use crate::link::{Received, Secret};
use crate::oneshot::tests::fixtures;

/// A session, and what it has printed and sent.
struct Stage {
    session: Session,
    now_ms: u64,
    printed: String,
    sent: Vec<(u64, Order)>,
    /// The other effects.
    others: Vec<String>,
    /// The requests that the engine lists.
    waiting: Vec<RequestAnswer>,
    silent: Vec<SilentNetworkAnswer>,
    deadlines: u64,
}

impl Stage {
    /// Returns a connected console of an open wallet, with these requests.
    fn with(setup: Setup, waiting: Vec<RequestAnswer>) -> Self {
        let mut stage = Self {
            session: Session::new(setup),
            now_ms: 1_000,
            printed: String::new(),
            sent: Vec::new(),
            others: Vec::new(),
            waiting,
            silent: Vec::new(),
            deadlines: 1_000,
        };
        let effects = stage.session.connected(stage.now_ms);
        stage.apply(effects);
        stage
    }

    fn new(waiting: Vec<RequestAnswer>) -> Self {
        Self::with(Setup::default(), waiting)
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Print(text) => {
                    self.printed.push_str(&text);
                    if !text.ends_with('\n') {
                        self.printed.push('\n');
                    }
                }
                Effect::Send(ToEngine::Run { id, order, .. }) => self.run(id, *order),
                other => self.others.push(format!("{other:?}")),
            }
        }
    }

    /// Answers queries at once; other orders wait for the test.
    fn run(&mut self, id: u64, order: Order) {
        let answer = match &order {
            Order::Status(_) => {
                Answer::Status(StatusAnswer { silent: self.silent.clone(), ..fixtures::status() })
            }
            Order::Requests(_) => Answer::Requests { requests: self.listed() },
            Order::Agent(AgentOrder::List) => Answer::Agents { agents: vec![fixtures::agent()] },
            Order::Policy(PolicyOrder::List) => {
                Answer::Policies { policies: vec![fixtures::policy()] }
            }
            Order::Address(AddressOrder::List) => {
                Answer::Addresses { addresses: vec![fixtures::address()] }
            }
            Order::Activity(_) => {
                Answer::Activity(ActivityAnswer { entries: Vec::new(), more: false })
            }
            _other => return self.sent.push((id, order)),
        };
        self.reply(id, Ok(answer));
    }

    /// Returns the list of requests, with the time that is left now.
    fn listed(&self) -> Vec<RequestAnswer> {
        let passed = self.now_ms - self.deadlines;
        let left = |request: &RequestAnswer| request.expires_in_ms.unwrap().saturating_sub(passed);
        let mut listed = self.waiting.clone();
        listed.retain(|request| left(request) > 0);
        for request in &mut listed {
            request.expires_in_ms = Some(left(request));
        }
        listed
    }

    fn reply(&mut self, id: u64, result: Result<Answer, Fault>) {
        let reply = Box::new(Reply { result, warnings: Vec::new(), secret: None });
        self.frame(ToClient::Done { id, reply });
    }

    fn frame(&mut self, message: ToClient) {
        let effects = self.session.frame(Received::Message(message), self.now_ms);
        self.apply(effects);
    }

    /// Waits until a question can be answered, and types a line.
    fn type_(&mut self, line: &str) {
        self.wait(GUARD_MS);
        self.type_at_once(line);
    }

    fn type_at_once(&mut self, line: &str) {
        assert!(self.session.wants_line(), "{line}");
        let typed = Typed::Line(line.to_owned());
        let effects = self.session.typed(&typed, self.now_ms);
        self.apply(effects);
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        let effects = self.session.tick(self.now_ms);
        self.apply(effects);
    }

    /// Advances the clock as the loop does: to each time at which something changes.
    fn wait_in_steps(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while let Some(wake) = self.session.wake_ms().filter(|wake| *wake < end) {
            self.now_ms = self.now_ms.max(wake);
            let effects = self.session.tick(self.now_ms);
            self.apply(effects);
        }
        self.wait(end - self.now_ms);
    }

    /// Returns what was printed since the last call.
    fn printed(&mut self) -> String {
        std::mem::take(&mut self.printed)
    }

    /// Returns the only order that is not the watch.
    fn order(&mut self) -> Option<(u64, Order)> {
        self.sent.retain(|(_id, order)| order.name() != "watch");
        let order = self.sent.pop();
        assert!(self.sent.is_empty(), "{:?}", self.sent);
        order
    }
}

/// Returns a pending request with this time left.
fn held(number: u8, left_ms: u64, change: impl FnOnce(&mut Card)) -> RequestAnswer {
    let mut request = fixtures::waiting("https://api.example.com/report", "api.example.com");
    request.id = format!("0123ab{number:02x}-4567-4890-8bcd-ef0123456789");
    request.expires_in_ms = Some(left_ms);
    if let Some(card) = &mut request.card {
        card.id = request.id.parse().unwrap();
        card.type_amount = false;
        card.obstacle = None;
        change(card);
    }
    request
}

/// Returns an order's approval: id, digest and typed amount.
fn approval(order: Option<(u64, Order)>) -> (u64, String, Option<String>, Option<String>) {
    let Some((id, Order::Approve(order))) = order else { panic!("{order:?}") };
    assert!(order.yes);
    (id, order.id, order.card, order.confirm.map(|usd| usd.to_string()))
}

fn count(text: &str, start: &str) -> usize {
    text.lines().filter(|line| line.starts_with(start)).count()
}
