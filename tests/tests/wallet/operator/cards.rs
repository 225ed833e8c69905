//! The card's extra facts: earlier payments to the payee, and the balance of the paying address.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_chain::ports::Chain;
use bursar_control::answers::{Answer, RequestAnswer};
use bursar_control::card_text;
use bursar_control::wire::Prompt;
use bursar_core::address;
use bursar_core::card::{Card, PaidBefore, digest};
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::networks::{ChainId, by_chain};
use bursar_core::risk::RiskKind;
use bursar_core::time::Utc;
use bursar_engine::core::Core;
use bursar_engine::edition::Edition;
use bursar_engine::journal::{Batch, MemoryStore, Snapshot, Store};
use bursar_engine::rules::Rules;
use bursar_tests::agent::Agent;
use bursar_tests::doubles::funds::FixedBalances;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::offers::{BASE, PAY_TO, challenge, header};
use bursar_tests::operator::Expect;

const BASE_SEPOLIA: ChainId = ChainId(84532);
/// Has the first and the last four digits of [`PAY_TO`].
const SIMILAR: &str = "0x209600000000000000000000000000000000287c";
/// Equal to [`PAY_TO`] in its first eighteen bytes.
const LOOKALIKE: &str = "0x209693bc6afc0c5328ba36faf03c514ef3120000";
const POLICY: &str = "--day 100 --txn 5 --auto 0.5";

struct Stage {
    engine: TestEngine,
    agent: Agent,
    requests_sent: u64,
}

impl Stage {
    async fn new(setup: Setup) -> Self {
        let engine = TestEngine::start(setup).await;
        engine.set_up_wallet(POLICY).await;
        let agent = engine.add_agent("bot", "bearer").await;
        Self { engine, agent, requests_sent: 0 }
    }

    /// Asks for a payment; returns the status and the request's id.
    async fn ask(&mut self, chain: ChainId, payee: &str, atoms: u64) -> (u16, String) {
        self.requests_sent += 1;
        let mut offer =
            challenge(chain, atoms, &format!("https://a.example/{}", self.requests_sent));
        offer["accepts"][0]["payTo"] = payee.into();
        let body = self.agent.ask(self.engine.now_s(), &header(&offer), None);
        let (status, answer) = self.engine.post("/sign", &body).await;
        (status, answer["request_id"].as_str().unwrap_or_default().to_owned())
    }

    /// Creates a held payment, which spends nothing.
    async fn hold(&mut self, chain: ChainId, payee: &str) -> String {
        let (status, id) = self.ask(chain, payee, 1_500_000).await;
        assert_eq!(status, 202);
        id
    }

    async fn card(&self, id: &str) -> Card {
        let waiting = requests(&self.engine).await;
        let found = waiting.into_iter().find(|request| request.id == id).expect("it waits");
        found.card.expect("a card")
    }

    /// Returns the payee's payment history on the card of a new request.
    async fn payee_history(&mut self, chain: ChainId, payee: &str) -> PaidBefore {
        let id = self.hold(chain, payee).await;
        let card = self.card(&id).await;
        self.must(&format!("deny {id}")).await;
        assert_eq!(card.paid_before_unknown_reason, None);
        card.paid_before.expect("it is known")
    }

    async fn must(&self, line: &str) -> Answer {
        self.engine.operator().must(line).await
    }
}

async fn requests(engine: &TestEngine) -> Vec<RequestAnswer> {
    let Answer::Requests { requests } = engine.operator().must("requests").await else { panic!() };
    requests
}

fn never_paid() -> PaidBefore {
    PaidBefore { times: 0, approved: 0, first: None, last: None, usd: Usd::ZERO }
}

fn unix_to_text(seconds: i64) -> Option<String> {
    Some(bursar_core::text::utc(Utc::from_seconds(NEW_YEAR_S + seconds)))
}

#[tokio::test]
async fn a_card_marks_first_payments_and_counts_authorized_ones() {
    let mut stage = Stage::new(Setup::default()).await;
    let id = stage.hold(BASE, PAY_TO).await;
    let first = stage.card(&id).await;
    assert_eq!(
        (first.paid_before.as_ref(), first.has_unknown_payee()),
        (Some(&never_paid()), true)
    );
    stage.must(&format!("approve {id} --yes")).await;
    let once = PaidBefore {
        times: 1,
        approved: 1,
        first: unix_to_text(0),
        last: unix_to_text(0),
        usd: Usd(1_500_000),
    };
    assert_eq!(stage.payee_history(BASE, PAY_TO).await, once);

    // An automatic payment counts as a payment, but not as an approval.
    stage.engine.clock.advance(60_000);
    assert_eq!(stage.ask(BASE, PAY_TO, 250_000).await.0, 200);
    let twice = PaidBefore { times: 2, last: unix_to_text(60), usd: Usd(1_750_000), ..once };
    assert_eq!(stage.payee_history(BASE, PAY_TO).await, twice);

    // The digest of a card covers none of these facts.
    let id = stage.hold(BASE, PAY_TO).await;
    let card = stage.card(&id).await;
    assert_eq!(card.digest, digest(&card.terms, card.hold, card.policy_serial));
    assert_eq!(first.digest, digest(&first.terms, first.hold, first.policy_serial));
}

#[tokio::test]
async fn the_approval_prompt_shows_payee_history_and_balance() {
    let (_chain, setup) = chain_with_balance(1_000_000);
    let mut stage = Stage::new(setup).await;
    let id = stage.hold(BASE, PAY_TO).await;
    let asked = stage.engine.operator().outcome(&format!("approve {id}")).await;
    let [Prompt::Confirm { lines, .. }] = &asked.prompts[..] else { panic!("{asked:?}") };
    for row in [
        "payee      ! WARNING: FIRST payment to this address: check it",
        "balance    ! WARNING: 1.000000 USDC: NOT ENOUGH  (read 2026-01-01T00:00:00Z)",
    ] {
        assert!(lines.iter().any(|line| line == row), "{lines:?}");
    }
}

#[tokio::test]
async fn a_decision_without_a_card_reads_no_balance() {
    let (chain, setup) = chain_with_balance(1_000_000);
    let mut stage = Stage::new(setup).await;
    for decision in ["approve", "deny"] {
        let id = stage.hold(BASE, PAY_TO).await;
        let yes = if decision == "approve" { " --yes" } else { "" };
        stage.must(&format!("{decision} {id}{yes}")).await;
    }
    assert_eq!(chain.lookups.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn unauthorized_requests_do_not_count_as_payments() {
    let mut stage = Stage::new(Setup::default()).await;
    let denied = stage.hold(BASE, PAY_TO).await;
    stage.must(&format!("deny {denied}")).await;
    assert_eq!(stage.ask(BASE, PAY_TO, 6_000_000).await.0, 403, "above what the policy allows");
    let rejected = stage.hold(BASE, PAY_TO).await;
    stage.must("policy edit p --txn 1").await;
    stage.engine.operator().run_refused(&format!("approve {rejected} --yes")).await;
    stage.must("policy edit p --txn 5").await;
    stage.hold(BASE, PAY_TO).await;
    stage.engine.clock.advance(16 * 60_000);
    // The next decision finds that the hold has expired.
    let id = stage.hold(BASE, PAY_TO).await;
    assert_eq!(stage.card(&id).await.paid_before, Some(never_paid()));
}

#[tokio::test]
async fn payees_are_counted_per_network_and_address() {
    let mut stage = Stage::new(Setup::default()).await;
    stage.must("network enable 84532").await;
    assert_eq!(stage.ask(BASE, PAY_TO, 250_000).await.0, 200);
    assert_eq!(stage.payee_history(BASE, LOOKALIKE).await, never_paid());
    assert_eq!(stage.payee_history(BASE_SEPOLIA, PAY_TO).await, never_paid());
    // Payments of all agents of the wallet count.
    stage.agent = stage.engine.add_agent("other", "bearer").await;
    assert_eq!(stage.payee_history(BASE, PAY_TO).await.times, 1);
}

#[tokio::test]
async fn the_wallets_own_address_is_named_without_a_warning() {
    let mut stage = Stage::new(Setup::default()).await;
    let Answer::Address(own) = stage.must("address create savings 1 \"put aside\"").await else {
        panic!("an address")
    };
    let id = stage.hold(BASE, &own.address).await;
    let card = stage.card(&id).await;
    assert_eq!(card.payee_label.as_ref().map(|label| label.as_str()), Some("savings"));
    assert!(!card.has_unknown_payee());
    let row = "payee      this wallet's own address (savings); first payment to it";
    assert!(
        card_text::lines(&card).iter().any(|line| line == row),
        "{:?}",
        card_text::lines(&card)
    );
    let id = stage.hold(BASE, PAY_TO).await;
    assert_eq!(stage.card(&id).await.payee_label, None);
}

#[tokio::test]
async fn a_restart_a_snapshot_and_a_replay_count_the_same() {
    let store = MemoryStore::default();
    let setup = || Setup { store: Some(Box::new(store.clone())), ..Setup::default() };
    let mut stage = Stage::new(setup()).await;
    assert_eq!(stage.ask(BASE, PAY_TO, 250_000).await.0, 200);
    let id = stage.hold(BASE, PAY_TO).await;
    let once = PaidBefore {
        times: 1,
        approved: 0,
        first: unix_to_text(0),
        last: unix_to_text(0),
        usd: Usd(250_000),
    };

    // The state is first replayed from the entries, and then loaded from a snapshot.
    for snapshot in [false, true] {
        if snapshot {
            let open = Core::open(
                Box::new(store.clone()),
                &Edition::full(),
                Arc::default(),
                Rules::default(),
            );
            let state = postcard::to_allocvec(open.unwrap().state()).unwrap();
            let head = store.head().unwrap();
            let kept = Some(Snapshot { head, state, tag: None });
            store.clone().commit(Batch { head, snapshot: kept, ..Batch::default() }).unwrap();
        }
        stage.engine = stage.engine.restart(setup()).await;
        assert_eq!(stage.card(&id).await.paid_before, Some(once.clone()), "locked");
        stage.must("wallet open").await;
        assert_eq!(stage.card(&id).await.paid_before, Some(once.clone()), "open");
    }
    stage.must(&format!("approve {id} --yes")).await;
    assert_eq!(stage.payee_history(BASE, PAY_TO).await.times, 2);
}

/// A danger needs the typed amount, in scripts as in the console.
#[tokio::test]
async fn an_address_that_resembles_a_known_payee_needs_the_typed_amount() {
    let mut stage = Stage::new(Setup::default()).await;
    let first = stage.hold(BASE, PAY_TO).await;
    let id = stage.hold(BASE, SIMILAR).await;
    assert!(!stage.card(&id).await.is_dangerous(), "no payee is known yet");
    stage.must(&format!("approve {first} --yes")).await;
    let card = stage.card(&id).await;
    assert!(card.is_dangerous() && card.type_amount, "{:?}", card.risks);
    let row = format!(
        "risk       !! DANGER: this is NOT {}, whose ends are the same",
        address::parse(PAY_TO).unwrap()
    );
    assert!(card_text::lines(&card).contains(&row), "{:?}", card_text::lines(&card));
    let refused = stage.engine.operator().run_refused(&format!("approve {id} --yes")).await;
    assert_eq!(refused.code, Code::ConfirmationNeeded);
    assert!(refused.message.contains("whose ends are the same"), "{}", refused.message);
    stage.must(&format!("approve {id} --yes --confirm 1.5")).await;
    // The operator has approved it, so it is known.
    let id = stage.hold(BASE, SIMILAR).await;
    assert_eq!(stage.card(&id).await.risks, []);
}

/// The payee's price is unusual, or its name resembles one; both survive a restart.
#[tokio::test]
async fn an_unusual_price_and_a_name_outlive_a_restart() {
    let store = MemoryStore::default();
    let setup = || Setup { store: Some(Box::new(store.clone())), ..Setup::default() };
    let mut stage = Stage::new(setup()).await;
    for _each in 0..3 {
        assert_eq!(stage.ask(BASE, PAY_TO, 150_000).await.0, 200);
    }
    stage.must(&format!("payee name {PAY_TO} \"Acme, Inc.\" --network base")).await;
    stage.engine = stage.engine.restart(setup()).await;
    stage.must("wallet open").await;
    let id = stage.hold(BASE, PAY_TO).await;
    let card = stage.card(&id).await;
    assert_eq!(card.risks[0].kind, RiskKind::UnusualPrice, "{:?}", card.risks);
    let to = format!("to         {}  \"Acme, Inc.\"", address::parse(PAY_TO).unwrap());
    assert!(card_text::lines(&card).contains(&to), "{:?}", card_text::lines(&card));
    let Answer::History(history) = stage.must("history").await else { panic!("a history") };
    assert!(history.requests.iter().all(|row| row.payee_name.is_some()));
    let Answer::Receipt(receipt) = stage.must(&format!("receipt {id}")).await else { panic!() };
    assert!(receipt.payee_name.is_some() && !receipt.form.to_string().contains("Acme"));
    // The network of a payee that was paid on one network alone need not be named.
    stage.must(&format!("payee forget {PAY_TO}")).await;
    assert_eq!(stage.card(&id).await.payee_name, None);
    stage.must(&format!("payee name {PAY_TO} Acme")).await;
    let unknown = stage.engine.operator().run_refused(&format!("payee name {SIMILAR} B")).await;
    assert_eq!(unknown.code, Code::BadInput);
}

#[tokio::test]
async fn a_host_that_looks_like_an_approved_one_is_dangerous() {
    let mut stage = Stage::new(Setup::default()).await;
    let hold = async |stage: &mut Stage, host: &str| {
        let offer = challenge(BASE, 1_500_000, &format!("https://{host}/x"));
        let body = stage.agent.ask(stage.engine.now_s(), &header(&offer), None);
        let (status, answer) = stage.engine.post("/sign", &body).await;
        assert_eq!(status, 202, "{answer}");
        answer["request_id"].as_str().unwrap().to_owned()
    };
    let real = hold(&mut stage, "paypal.com").await;
    stage.must(&format!("approve {real} --yes")).await;
    for host in ["xn--pypal-4ve.com", "paypa1.com"] {
        let id = hold(&mut stage, host).await;
        let card = stage.card(&id).await;
        assert_eq!(card.risks[0].kind, RiskKind::SimilarHost, "{host}: {:?}", card.risks);
        stage.must(&format!("deny {id}")).await;
    }
    let again = hold(&mut stage, "paypal.com/again").await;
    assert_eq!(stage.card(&again).await.risks, []);
}

fn chain_with_balance(atoms: u64) -> (Arc<FixedBalances>, Setup) {
    let base = by_chain(BASE).expect("a network");
    let others = base.tokens.iter().map(|token| (token.address, 7));
    let tokens: Vec<_> = others.chain([(base.stablecoin.address, atoms)]).collect();
    let chain = Arc::new(FixedBalances::new(0, &tokens));
    let chains = [(BASE, Arc::clone(&chain) as Arc<dyn Chain>)].into_iter().collect();
    (chain, Setup { chains, ..Setup::default() })
}

#[tokio::test]
async fn a_card_shows_the_balance_before_and_after_the_payment() {
    for (atoms, before, after) in [
        (48_201_200, "48.201200", Some("46.701200")),
        (1_500_000, "1.500000", Some("0.000000")),
        (1_499_999, "1.499999", None),
        (0, "0.000000", None),
    ] {
        let (chain, setup) = chain_with_balance(atoms);
        let mut stage = Stage::new(setup).await;
        let id = stage.hold(BASE, PAY_TO).await;
        for _again in 0..3 {
            let card = stage.card(&id).await;
            let answer = card.balance.as_ref().expect("it was read");
            assert_eq!((answer.before.as_str(), answer.after.as_deref()), (before, after));
            assert_eq!(
                (answer.symbol.as_str(), Some(&answer.read)),
                ("USDC", unix_to_text(0).as_ref())
            );
            assert_eq!(card.has_insufficient_balance(), after.is_none());
            assert_eq!(card.balance_unknown_reason, None);
        }
        assert_eq!(chain.lookups.load(Ordering::SeqCst), 1, "it is not asked each time");
    }
}

#[tokio::test]
async fn an_unavailable_balance_is_shown_as_unknown_with_the_reason() {
    let mut stage = Stage::new(Setup::default()).await;
    let id = stage.hold(BASE, PAY_TO).await;
    let card = stage.card(&id).await;
    assert_eq!(card.balance, None);
    let why = "No endpoint is set for Base: `network rpc 8453 <url>`.";
    assert_eq!(card.balance_unknown_reason.as_deref(), Some(why));
    assert!(card_text::lines(&card).contains(&format!("balance    unknown: {why}")));

    let (chain, setup) = chain_with_balance(5_000_000);
    chain.gate.forget_permits(tokio::sync::Semaphore::MAX_PERMITS);
    let settings = "[networks.8453]\nrpc = [\"https://node.example/v2/PRIVATE?key=PRIVATE\"]\n";
    let mut stage = Stage::new(Setup { settings, ..setup }).await;
    let id = stage.hold(BASE, PAY_TO).await;
    let card = stage.card(&id).await;
    assert_eq!(card.balance, None);
    // The message names the endpoint's host, but not the parts of its URL that may be a key.
    let why = "Base did not answer in time (asked https://node.example:443).";
    assert_eq!(card.balance_unknown_reason.as_deref(), Some(why));
    // Decisions do not wait for the balance, and a late answer is shown.
    stage.must(&format!("approve {id} --yes")).await;
    let id = stage.hold(BASE, PAY_TO).await;
    assert_eq!(stage.card(&id).await.balance, None);
    assert_eq!(chain.lookups.load(Ordering::SeqCst), 1);
    chain.gate.add_permits(100);
    for _try in 0..100 {
        if let Some(answer) = stage.card(&id).await.balance {
            assert_eq!(answer.before, "5.000000");
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the look came to nothing");
}

#[tokio::test]
async fn agents_see_neither_payee_history_nor_balance() {
    let (_chain, setup) = chain_with_balance(48_201_200);
    let mut stage = Stage::new(setup).await;
    assert_eq!(stage.ask(BASE, PAY_TO, 250_000).await.0, 200);
    stage.must(&format!("payee name {PAY_TO} Acme")).await;
    let id = stage.hold(BASE, PAY_TO).await;
    stage.card(&id).await;
    for path in [format!("/sign/status/{id}"), format!("/receipt/{id}")] {
        let (_status, answer) = stage.engine.get(&path).await;
        let answer = answer.to_string();
        for word in ["paid_before", "payee_label", "Acme", "risk", "balance", "card", "48.2"] {
            assert!(!answer.contains(word), "{path} tells {word}: {answer}");
        }
    }
}
