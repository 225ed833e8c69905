//! Three operators, an agent whose payments are all held, and a signer that counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bursar_control::answers::{ActivityAnswer, ActivityRow, Answer, RequestAnswer};
use bursar_control::grammar::{Approve, Deny, Order};
use bursar_control::wire::Asking;
use bursar_core::client::Program;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_domain::Status;
use bursar_engine::control::ControlChannel;
use bursar_engine::ports::Signer;
use bursar_tests::agent::Agent;
use bursar_tests::dice::Dice;
use bursar_tests::doubles::SlowSigner;
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator};
use tokio::sync::Barrier;

/// No payment is automatic, and the daily limit is never reached.
const POLICY: &str = "--day 1000000 --txn 20 --auto 0";

/// The names of three clients: the engine's own console, another console, and a command.
pub(crate) fn names() -> [String; 3] {
    let me = std::process::id();
    [
        "the engine's own console".to_owned(),
        format!("a console (process {me})"),
        format!("a command (process {me})"),
    ]
}

/// A decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Approve,
    Deny,
}

/// The result of one operator's decision.
pub(crate) type DecisionResult = Result<Choice, Fault>;

/// Draws a decision.
pub(crate) fn random_choice(dice: &mut Dice) -> Choice {
    if dice.chance(1, 2) { Choice::Approve } else { Choice::Deny }
}

pub(crate) struct Stage {
    pub(crate) engine: Arc<TestEngine>,
    pub(crate) agent: Agent,
    /// The three operators; empty during a round, when its tasks own them.
    operators: Vec<Operator>,
    /// How often each request was signed.
    signature_counts: Arc<Mutex<BTreeMap<RequestId, usize>>>,
    requests_sent: u64,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let (signer, mut slips) = SlowSigner::machine();
        let setup =
            Setup { settings: UNLIMITED_RATE_SETTINGS, signer: Some(signer), ..Setup::default() };
        let engine = Arc::new(TestEngine::start(setup).await);
        let signed = Arc::new(Mutex::new(BTreeMap::new()));
        let (vault, counted) = (Arc::clone(engine.engine.vault()), Arc::clone(&signed));
        tokio::spawn(async move {
            while let Some(asked) = slips.recv().await {
                *counted
                    .lock()
                    .unwrap()
                    .entry(asked.slip.request().expect("a payment"))
                    .or_default() += 1;
                let _nobody_waits = asked.answer.send(vault.sign(asked.slip, asked.terms).await);
            }
        });
        engine.set_up_wallet(POLICY).await;
        let agent = engine.add_agent("bot", "bearer").await;
        engine.engine.serve_control(ControlChannel::SOCKET).await.expect("served");
        let mut operators = vec![engine.operator()];
        for program in [Program::Console, Program::Command] {
            operators.push(engine.operator_at_the_socket(program).await);
        }
        for operator in &mut operators {
            operator.asking = Asking::Agreed;
        }
        Self { engine, agent, operators, signature_counts: signed, requests_sent: 0 }
    }

    /// Creates a held payment and returns it as the console sees it.
    pub(crate) async fn create_held(&mut self, usd: u32) -> RequestAnswer {
        self.requests_sent += 1;
        let body = self.agent.ask(
            self.engine.now_s(),
            &offer(u64::from(usd) * 1_000_000, self.requests_sent),
            None,
        );
        let (status, answer) = self.engine.post("/sign", &body).await;
        assert_eq!(status, 202, "{answer}");
        let Answer::Requests { mut requests } = self.operators[0].must("requests").await else {
            panic!("no requests")
        };
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// One operator decides alone.
    pub(crate) async fn decide(
        &mut self,
        who: usize,
        what: Choice,
        on: &RequestAnswer,
    ) -> DecisionResult {
        decide_with(&mut self.operators[who], order(who, what, on), what).await
    }

    /// Lets all three operators decide concurrently with `during_race`.
    pub(crate) async fn race(
        &mut self,
        choices: [Choice; 3],
        on: &RequestAnswer,
        during_race: impl FnOnce() + Send + 'static,
    ) -> Vec<DecisionResult> {
        let start = Arc::new(Barrier::new(4));
        let mut running = Vec::new();
        for (who, (mut operator, what)) in self.operators.drain(..).zip(choices).enumerate() {
            let (start, order) = (Arc::clone(&start), order(who, what, on));
            running.push(tokio::spawn(async move {
                start.wait().await;
                let result = decide_with(&mut operator, order, what).await;
                (operator, result)
            }));
        }
        start.wait().await;
        during_race();
        let mut ends = Vec::new();
        for one in running {
            let (operator, result) = one.await.expect("no task panics");
            self.operators.push(operator);
            ends.push(result);
        }
        ends
    }

    pub(crate) fn status(&self, id: &str) -> Status {
        let id: RequestId = id.parse().expect("an id");
        let record = self.engine.engine.core().reader().request(id).expect("readable");
        record.expect("it was asked").status
    }

    pub(crate) fn times_signed(&self, id: &str) -> usize {
        let id: RequestId = id.parse().expect("an id");
        self.signature_counts.lock().unwrap().get(&id).copied().unwrap_or(0)
    }

    /// Returns the amounts spent today and reserved for held requests.
    pub(crate) fn allowance(&self) -> (Usd, Usd) {
        let core = self.engine.engine.core();
        let (view, now) = (core.view(), core.now());
        let agent = view.state.agents.values().next().expect("one agent");
        (view.state.spent(agent, &now).payment, agent.reserved.payment)
    }

    pub(crate) fn held_count(&self) -> usize {
        self.engine.engine.core().view().state.held.len()
    }

    /// Returns the kinds of journal entries of each request, in order. Freezes the agents.
    pub(crate) async fn entry_kinds(&mut self) -> BTreeMap<String, Vec<String>> {
        // Signatures are recorded after their answer, but before the next decision.
        self.operators[0].must("freeze").await;
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut before = u64::MAX;
        while before > 1 {
            let page = self.operators[0].must(&format!("activity --raw --before {before}")).await;
            let Answer::Activity(ActivityAnswer { entries, .. }) = page else { panic!("{page:?}") };
            before = entries.last().expect("entry 1 is not listed yet").seq;
            for ActivityRow { kind, request, .. } in entries {
                if let Some(id) = request {
                    kinds.entry(id).or_default().insert(0, kind.to_string());
                }
            }
        }
        kinds
    }
}

/// Builds a decision: consoles name the card that they showed, the command line passes `--yes`.
fn order(who: usize, what: Choice, on: &RequestAnswer) -> Order {
    let card = on.card.as_ref().expect("it waits");
    let id = on.id.clone();
    match what {
        Choice::Deny => Order::Deny(Deny::one(id)),
        Choice::Approve => Order::Approve(Approve {
            id,
            card: (who < 2).then(|| card.digest.clone()),
            yes: true,
            confirm: card.type_amount.then_some(card.usd),
            wait: None,
        }),
    }
}

async fn decide_with(operator: &mut Operator, order: Order, what: Choice) -> DecisionResult {
    let outcome = operator.run_order(order).await.expect("the link holds");
    outcome.reply.result.map(|answer| {
        let Answer::Decided(decided) = answer else { panic!("{answer:?}") };
        let wanted = if what == Choice::Approve { "signed" } else { "denied" };
        assert_eq!(decided.status.text(), wanted);
        what
    })
}
