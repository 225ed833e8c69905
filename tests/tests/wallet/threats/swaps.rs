//! Memory that changes after the operator saw the card: the engine signs what the card showed, or nothing.

use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, U256};
use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::command::{Approval, Requote};
use bursar_domain::{Action, Command, Decision, Entry, PaymentAsk, Refusal, Request, State};
use bursar_engine::journal::MemoryStore;
use bursar_engine::rules::{MutatedRules, Rules};
use bursar_tests::engine::{Setup, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::{PAY_TO, offer};
use bursar_tests::operator::{Expect, Operator};
use serde_json::json;

use crate::threats::stage::{POLICY, authorized_count, engine_with, terms};

type Change = fn(&mut Request);

/// Where a fault changes the held requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Changes the published state too, so cards read from now on show the change.
    State,
    /// Changes only the input of the rules; every card still shows the original.
    Rules,
}

/// Changes every held request in memory while armed.
#[derive(Debug, Default)]
struct MemoryFault(Mutex<Option<(Target, Change)>>);

impl MemoryFault {
    fn arm(&self, armed: Option<(Target, Change)>) {
        *self.0.lock().unwrap() = armed;
    }

    fn change_if(&self, target: Target, state: &mut State) {
        let armed = *self.0.lock().unwrap();
        if let Some((_, change)) = armed.filter(|(wanted, _)| *wanted == target) {
            for request in Arc::make_mut(&mut state.held).values_mut() {
                change(Arc::make_mut(request));
            }
        }
    }
}

impl MutatedRules for MemoryFault {
    fn decide(&self, state: &State, command: &Command) -> Result<Decision, Refusal> {
        let mut state = state.clone();
        self.change_if(Target::Rules, &mut state);
        bursar_domain::decide(&state, command)
    }

    fn apply(&self, state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
        let touched = bursar_domain::apply(state, entry);
        self.change_if(Target::State, state);
        touched
    }
}

/// Changes of each term that is signed, or that the operator decides by.
const CHANGES: [(&str, Change); 9] = [
    ("payee", |request| payment(request).payee = Address::repeat_byte(0xee)),
    ("amount", |request| {
        payment(request).amount = Atoms(U256::from(2_000_001));
        payment(request).usd = Usd(2_000_001);
    }),
    ("amount alone", |request| payment(request).amount = Atoms(U256::from(9_000_000))),
    ("chain", |request| payment(request).chain = ChainId(4663)),
    ("asset", |request| payment(request).asset = Address::repeat_byte(0xaa)),
    ("payer", |request| request.from = Address::repeat_byte(0xff)),
    ("validity", |request| payment(request).valid_seconds += 1),
    ("request URL", |request| payment(request).request_url = Some("https://other.example/".into())),
    ("resource URL", |request| payment(request).resource_url = None),
];

fn payment(request: &mut Request) -> &mut PaymentAsk {
    request.ask.payment_mut().expect("a payment")
}

async fn only_pending(operator: &mut Operator) -> RequestAnswer {
    match operator.must("requests").await {
        Answer::Requests { mut requests } if requests.len() == 1 => requests.remove(0),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn t_13_a_held_request_that_changes_in_memory_is_not_signed() {
    let (store, swap) = (MemoryStore::default(), Arc::new(MemoryFault::default()));
    let setup = |clock| Setup {
        store: Some(Box::new(store.clone())),
        rules: Rules::with_mutated_rules(Arc::clone(&swap) as _),
        settings: UNLIMITED_RATE_SETTINGS,
        clock,
        ..Setup::default()
    };
    let (mut engine, agent) = engine_with(setup(Setup::default().clock), POLICY, "hmac").await;
    let clock = Arc::clone(&engine.clock);
    let body = agent.ask(engine.now_s(), &offer(2_000_000, 1), Some("https://api.example.com/1"));
    assert_eq!(engine.post("/sign", &body).await.0, 202);
    let shown = only_pending(&mut engine.operator()).await;
    let digest = shown.card.unwrap().digest;
    let approve = format!("approve {} --yes --card {digest}", shown.id);
    let id: RequestId = shown.id.parse().unwrap();
    for (what, change) in CHANGES {
        for target in [Target::Rules, Target::State] {
            let mut operator = engine.operator();
            assert_eq!(only_pending(&mut operator).await.card.unwrap().digest, digest, "{what}");
            swap.arm(Some((target, change)));
            // More journal entries bring the change into the state. If the dollar amount then differs from the
            // allowance's reservation, the engine stops at the next entry.
            let mut stopped = false;
            for line in ["network disable 4663", "network enable 4663"] {
                stopped |= operator.outcome(line).await.reply.result.is_err();
            }
            assert_eq!(stopped, target == Target::State && what == "amount", "{what}, {target:?}");
            let wanted = if stopped { Code::JournalFailed } else { Code::CardChanged };
            let refused = operator.run_refused(&approve).await;
            assert_eq!(refused.code, wanted, "{what}, {target:?}: {refused}");
            let shown = digest.clone();
            let action = Action::Approve(Box::new(Approval {
                id,
                card_digest: shown,
                nonce: [1; 32],
                by: Client::Inside,
                quote: Requote::Nothing,
            }));
            let refused = engine.engine.core().act(action).await.unwrap_err();
            assert_eq!(refused.code, wanted, "{what}, {target:?}: {refused}");
            let (_, polled) = engine.get(&format!("/sign/status/{id}")).await;
            assert_eq!(
                (&polled["status"], authorized_count(&engine)),
                (&json!("pending"), 0),
                "{what}"
            );
            assert_eq!(polled.get("header_value"), None, "{what}, {target:?}");
            // The journal has the original request, and so does the restarted engine.
            swap.arm(None);
            engine = engine.restart(setup(Arc::clone(&clock))).await;
            engine.operator().must("wallet open").await;
        }
    }
    engine.operator().must(&approve).await;
    let (_, answer) = engine.get(&format!("/sign/status/{id}")).await;
    let terms = terms(&answer);
    assert_eq!((&terms["to"], &terms["value"]), (&json!(PAY_TO), &json!("2000000")));
}
