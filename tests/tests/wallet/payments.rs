//! Payments from an agent's request to its header, through the whole engine except its socket.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::limits::{FREE_DISK_BYTES_MIN, HOLD_MS, SIGNER_WAIT_MS};
use bursar_core::time::Utc;
use bursar_engine::edition::Edition;
use bursar_engine::journal::{FaultyStore, MemoryStore};
use bursar_engine::ports::Signer;
use bursar_tests::doubles::SlowSigner;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{self, BASE, PAY_TO, decode_header, offer, signed_terms};
use bursar_tests::operator::{Expect, Operator, PASSWORD};
use serde_json::{Value, json};

/// Pays up to half a dollar automatically; the limit is ten dollars per payment and per day.
const POLICY: &str = "--day 10 --txn 10 --auto 0.5";

bursar_tests::in_every_edition! {
    ()
    a_payment_below_the_threshold_is_signed_at_once
    an_approved_request_is_polled_as_the_header
    a_denied_request_and_an_expired_one_give_their_allowance_back
    the_status_counts_signed_and_refused_payments
    the_same_ask_gives_the_same_header_after_a_restart
    a_freeze_between_commit_and_signature_returns_no_signature
    a_signer_that_asks_a_person_does_not_block_other_requests
    a_signature_after_the_wait_is_returned_by_polling
    an_expired_request_is_neither_listed_nor_reported_as_pending
    a_clock_that_is_set_back_does_not_prolong_a_denial
    a_locked_wallet_looks_like_a_wrong_signature
    a_full_disk_refuses_before_it_fails
    after_a_failed_commit_nothing_is_decided_and_reads_continue
    approval_requires_the_amount_and_the_shown_card
    after_a_password_change_only_the_new_password_opens_the_wallet
}

bursar_tests::in_every_edition! {
    (flavor = "multi_thread", worker_threads = 4)
    sixteen_copies_of_one_body_are_one_authorization
    eight_simultaneous_approvals_approve_once
}

fn of(edition: EditionName) -> Setup {
    Setup { edition, ..Setup::default() }
}

async fn engine_with_wallet(edition: EditionName) -> TestEngine {
    let engine = TestEngine::start(Setup { edition, ..Setup::default() }).await;
    engine.set_up_wallet(POLICY).await;
    engine
}

async fn paying_address(operator: &mut Operator) -> String {
    match operator.must("address list").await {
        Answer::Addresses { addresses } => addresses[0].address.clone(),
        other => panic!("{other:?}"),
    }
}

async fn a_payment_below_the_threshold_is_signed_at_once(edition: EditionName) {
    for auth in ["hmac", "bearer"] {
        let engine = engine_with_wallet(edition).await;
        let agent = engine.add_agent("bot", auth).await;
        let body = agent.ask(engine.now_s(), &offer(12_000, 1), Some("https://api.example.com/1"));
        let (status, answer) = engine.post("/sign", &body).await;
        assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
        let version = Edition::of(edition).wire.names_version.then_some(2);
        assert_eq!(answer["x402_version"], json!(version));
        assert_eq!(answer["header_name"], "PAYMENT-SIGNATURE");
        let header = answer["header_value"].as_str().unwrap();
        let (terms, signer) = signed_terms(header);
        assert_eq!(signer, paying_address(&mut engine.operator()).await);
        assert_eq!(terms.from.to_string(), signer);
        assert_eq!(terms.to.to_string(), PAY_TO);
        assert_eq!(terms.value.to_string(), "12000");
        assert_eq!(terms.valid_after, 0);
        assert_eq!(i64::try_from(terms.valid_before).unwrap(), engine.now_s() + 60);
        let wanted = offers::challenge(BASE, 12_000, "https://api.example.com/1");
        assert_eq!(decode_header(header)["accepted"], wanted["accepts"][0]);
        assert_eq!(decode_header(header)["resource"], wanted["resource"]);
        let polled = engine
            .get(&format!("/sign/status/{}", answer["transaction_id"].as_str().unwrap()))
            .await;
        assert_eq!(polled, (200, answer.clone()));
    }
}

/// Asks for two dollars, which the policy holds; returns the request's id.
async fn hold(engine: &TestEngine, agent: &bursar_tests::agent::Agent, n: u64) -> String {
    let (status, answer) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(2_000_000, n), None)).await;
    assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
    answer["request_id"].as_str().unwrap().to_owned()
}

async fn an_approved_request_is_polled_as_the_header(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let id = hold(&engine, &agent, 1).await;
    let (status, waiting) = engine.get(&format!("/sign/status/{id}")).await;
    assert_eq!((status, &waiting["status"]), (202, &json!("pending")));
    let mut operator = engine.operator();
    let Answer::Decided(decided) = operator.must(&format!("approve {}", &id[..8])).await else {
        panic!()
    };
    assert_eq!((decided.id.as_str(), decided.status.text()), (id.as_str(), "signed"));
    let (status, answer) = engine.get(&format!("/sign/status/{id}")).await;
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    let (terms, _signer) = signed_terms(answer["header_value"].as_str().unwrap());
    assert_eq!(terms.value.to_string(), "2000000");
    // The terms are fixed when the operator approves, not when the agent asked.
    assert_eq!(i64::try_from(terms.valid_before).unwrap(), engine.now_s() + 60);
    assert_eq!(operator.run_refused(&format!("approve {id}")).await.code, Code::AlreadyDecided);
}

async fn a_denied_request_and_an_expired_one_give_their_allowance_back(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    let denied = hold(&engine, &agent, 1).await;
    operator.must(&format!("deny {denied} too dear")).await;
    let (status, answer) = engine.get(&format!("/sign/status/{denied}")).await;
    assert_eq!(
        (status, &answer["status"], &answer["reason"]),
        (200, &json!("rejected"), &json!("too dear"))
    );

    let expired = hold(&engine, &agent, 2).await;
    engine.clock.advance(u64::try_from(HOLD_MS).unwrap() - 1);
    assert_eq!(engine.get(&format!("/sign/status/{expired}")).await.0, 202);
    engine.clock.advance(1);
    let (status, answer) = engine.get(&format!("/sign/status/{expired}")).await;
    assert_eq!((status, &answer["code"]), (200, &json!("REQUEST_EXPIRED")), "{answer}");
    let refused = operator.run_refused(&format!("approve {expired}")).await;
    assert!(matches!(refused.code, Code::RequestExpired | Code::AlreadyDecided), "{refused:?}");

    // The daily limit is ten dollars: the whole allowance is available again.
    for n in 3..8 {
        let id = hold(&engine, &agent, n).await;
        operator.must(&format!("approve {id}")).await;
    }
    let body = agent.ask(engine.now_s(), &offer(10_000, 99), None);
    let (status, answer) = engine.post("/sign", &body).await;
    assert_eq!((status, &answer["code"]), (429, &json!("LIMIT_REACHED")), "{answer}");
    let (status, answer) = engine.post("/ping", &json!({(agent.field): agent.id})).await;
    assert_eq!((status, &answer["agent_status"]), (200, &json!("limit_reached")));
}

async fn the_status_counts_signed_and_refused_payments(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let counted = async || {
        let (status, answer) = engine.get("/status").await;
        assert_eq!((status, &answer["status"]), (200, &json!("ready")));
        let counts = ["signed", "rejected", "traded", "trade_rejected"];
        counts.map(|name| answer[name].as_u64().unwrap_or_default())
    };
    let pay = async |atoms, n| {
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(atoms, n), None)).await.0
    };
    assert_eq!(counted().await, [0, 0, 0, 0]);
    for n in 0..3 {
        assert_eq!(pay(10_000, n).await, 200);
    }
    // Sends a request over the limit of one payment, and then a request without a proof.
    assert!(pay(11_000_000, 3).await >= 400);
    assert!(engine.post("/sign", &json!({})).await.0 >= 400);
    assert_eq!(counted().await, [3, 2, 0, 0]);
    assert!(engine.post("/trade", &json!({})).await.0 >= 400);
    // A request that waits for the operator counts neither as signed nor as rejected.
    hold(&engine, &agent, 4).await;
    let trades = u64::from(Edition::of(edition).has_trades_or_loans());
    assert_eq!(counted().await, [3, 2, 0, trades]);
}

async fn sixteen_copies_of_one_body_are_one_authorization(edition: EditionName) {
    for auth in ["hmac", "bearer"] {
        let engine = Arc::new(engine_with_wallet(edition).await);
        let agent = engine.add_agent("bot", auth).await;
        let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
        let copies = (0..16).map(|_copy| {
            let (engine, body) = (Arc::clone(&engine), body.clone());
            tokio::spawn(async move { engine.post("/sign", &body).await })
        });
        let mut headers = BTreeSet::new();
        for copy in copies.collect::<Vec<_>>() {
            let (status, answer) = copy.await.unwrap();
            assert_eq!(status, 200, "{answer}");
            headers.insert(answer["header_value"].as_str().unwrap().to_owned());
        }
        assert_eq!(headers.len(), 1, "{auth}");
        assert_eq!(engine.engine.core().reader().latest(100).unwrap().len(), 1, "{auth}");
    }
}

async fn eight_simultaneous_approvals_approve_once(edition: EditionName) {
    let engine = Arc::new(engine_with_wallet(edition).await);
    let agent = engine.add_agent("bot", "hmac").await;
    let id = hold(&engine, &agent, 1).await;
    let approvals = (0..8).map(|_operator| {
        let (mut operator, id) = (engine.operator(), id.clone());
        tokio::spawn(async move { operator.outcome(&format!("approve {id}")).await.reply.result })
    });
    let mut approved = 0;
    for approval in approvals.collect::<Vec<_>>() {
        match approval.await.unwrap() {
            Ok(_decided) => approved += 1,
            Err(fault) => assert_eq!(fault.code, Code::AlreadyDecided),
        }
    }
    assert_eq!(approved, 1);
    let (_, answer) = engine.post("/status", &agent.read(engine.now_s())).await;
    assert_eq!(answer["agent"]["spent_today_micro"], 2_000_000);
}

async fn the_same_ask_gives_the_same_header_after_a_restart(edition: EditionName) {
    for auth in ["hmac", "bearer"] {
        let engine = engine_with_wallet(edition).await;
        let agent = engine.add_agent("bot", auth).await;
        let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
        let before = engine.post("/sign", &body).await;
        let clock = Arc::clone(&engine.clock);
        let engine = engine.restart(Setup { clock, ..of(edition) }).await;
        let (status, locked) = engine.post("/sign", &body).await;
        let wanted = if auth == "hmac" { (401, "AUTH_FAILED") } else { (503, "WALLET_LOCKED") };
        assert_eq!((status, locked["code"].as_str().unwrap()), wanted);
        engine.operator().must("wallet open").await;
        assert_eq!(engine.post("/sign", &body).await, before, "{auth}");
        assert_eq!(engine.engine.core().reader().latest(9).unwrap().len(), 1);
    }
}

async fn a_freeze_between_commit_and_signature_returns_no_signature(edition: EditionName) {
    let (signer, mut sign_requests) = SlowSigner::machine();
    let engine = Arc::new(TestEngine::start(Setup { signer: Some(signer), ..of(edition) }).await);
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    let (asking, asked_body) = (Arc::clone(&engine), body.clone());
    let ask = tokio::spawn(async move { asking.post("/sign", &asked_body).await });
    let held_back = sign_requests.recv().await.expect("the authorization is committed");

    let mut operator = engine.operator();
    operator.must("freeze").await;
    let vault = engine.engine.vault();
    let late = vault.sign(held_back.slip, held_back.terms).await;
    assert!(late.is_err(), "a signature left after the freeze was answered");
    held_back.answer.send(late).unwrap();
    let (status, answer) = ask.await.unwrap();
    assert_eq!((status, &answer["status"]), (202, &json!("executing")), "{answer}");
    assert_eq!(engine.post("/sign", &body).await.1["code"], "AGENTS_FROZEN");

    // After the thaw the same terms are signed.
    operator.must("thaw").await;
    let again = sign_requests.recv().await.expect("a new slip");
    let signature = vault.sign(again.slip, again.terms).await;
    assert!(signature.is_ok(), "{signature:?}");
    again.answer.send(signature).unwrap();
    let path = format!("/sign/status/{}", answer["request_id"].as_str().unwrap());
    let mut polled = engine.get(&path).await;
    while polled.0 == 202 {
        tokio::task::yield_now().await;
        polled = engine.get(&path).await;
    }
    assert_eq!((polled.0, &polled.1["status"]), (200, &json!("success")));
}

async fn a_signer_that_asks_a_person_does_not_block_other_requests(edition: EditionName) {
    let (signer, mut sign_requests) = SlowSigner::person();
    let engine = TestEngine::start(Setup { signer: Some(signer), ..of(edition) }).await;
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    let (status, answer) = engine.post("/sign", &body).await;
    assert_eq!((status, &answer["status"]), (202, &json!("executing")), "{answer}");
    let waiting = sign_requests.recv().await.unwrap();
    // While a person looks at the device, other requests are served, and freeze works.
    let other = agent.ask(engine.now_s(), &offer(13_000, 2), None);
    assert_eq!(engine.post("/sign", &other).await.0, 202);
    let mut operator = engine.operator();
    operator.must("freeze").await;
    operator.must("thaw").await;
    // The request stays in progress, and its slip is stale since the freeze.
    let (slip, terms) = (waiting.slip.clone(), waiting.terms.clone());
    let path = format!("/sign/status/{}", answer["request_id"].as_str().unwrap());
    assert_eq!(engine.get(&path).await.1["status"], "executing");
    drop(waiting);
    assert_eq!(engine.get(&path).await.1["status"], "executing");
    assert!(
        engine.engine.vault().sign(slip, terms).await.is_err(),
        "the slip is of an earlier epoch"
    );
}

async fn a_signature_after_the_wait_is_returned_by_polling(edition: EditionName) {
    let (signer, mut sign_requests) = SlowSigner::machine();
    let engine = Arc::new(TestEngine::start(Setup { signer: Some(signer), ..of(edition) }).await);
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    let asking = Arc::clone(&engine);
    let ask = tokio::spawn(async move { asking.post("/sign", &body).await });
    let slow = sign_requests.recv().await.expect("the authorization is committed");
    engine.clock.advance(SIGNER_WAIT_MS);
    let (status, answer) = ask.await.unwrap();
    assert_eq!((status, &answer["status"]), (202, &json!("executing")), "{answer}");

    slow.answer.send(engine.engine.vault().sign(slow.slip, slow.terms).await).unwrap();
    let path = format!("/sign/status/{}", answer["request_id"].as_str().unwrap());
    let mut polled = engine.get(&path).await;
    while polled.0 == 202 {
        tokio::task::yield_now().await;
        polled = engine.get(&path).await;
    }
    assert_eq!((polled.0, &polled.1["status"]), (200, &json!("success")));
    assert!(sign_requests.try_recv().is_err(), "it was asked once");
}

async fn an_expired_request_is_neither_listed_nor_reported_as_pending(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "bearer").await;
    let body = agent.ask(engine.now_s(), &offer(2_000_000, 1), None);
    assert_eq!(engine.post("/sign", &body).await.0, 202);
    // The clock was set, and nothing has read it since.
    engine.clock.set_utc(Utc::from_seconds(engine.now_s() + HOLD_MS / 1000));
    let mut operator = engine.operator();
    let Answer::Requests { requests } = operator.must("requests").await else { panic!() };
    assert_eq!(requests, []);
    let (status, answer) = engine.post("/sign", &body).await;
    assert_eq!((status, &answer["code"]), (200, &json!("REQUEST_EXPIRED")), "{answer}");
}

async fn a_clock_that_is_set_back_does_not_prolong_a_denial(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "bearer").await;
    let body = agent.ask(engine.now_s(), &offer(2_000_000, 1), None);
    let (_held, answer) = engine.post("/sign", &body).await;
    let id = answer["request_id"].as_str().unwrap();
    engine.operator().must(&format!("deny {id}")).await;
    engine.clock.set_utc(Utc::from_seconds(engine.now_s() - 5 * 86_400));
    engine.clock.advance(u64::try_from(HOLD_MS).unwrap() - 1);
    assert_eq!(engine.post("/sign", &body).await.1["status"], "rejected");
    engine.clock.advance(1);
    assert_eq!(engine.post("/sign", &body).await.1["status"], "pending");
}

async fn a_locked_wallet_looks_like_a_wrong_signature(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let mut wrong = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    wrong["signature"] = json!(format!("SIG:{}:{}", engine.now_s(), "0".repeat(64)));
    let mut unknown = wrong.clone();
    unknown["agent_id"] = json!("ZZZ999");
    let right = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    let bytes = |body: &Value| body.to_string().into_bytes();
    let wrong_answer = engine.raw("POST", "/sign", bytes(&wrong)).await;
    assert_eq!(wrong_answer.0, 401);
    assert_eq!(engine.raw("POST", "/sign", bytes(&unknown)).await, wrong_answer);
    engine.operator().must("wallet lock").await;
    assert_eq!(engine.raw("POST", "/sign", bytes(&right)).await, wrong_answer);
    assert!(engine.engine.core().reader().latest(9).unwrap().is_empty());
    engine.operator().must("wallet open").await;
    assert_eq!(engine.post("/sign", &right).await.0, 200);
}

async fn a_full_disk_refuses_before_it_fails(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "hmac").await;
    engine.disk.free_bytes.store(FREE_DISK_BYTES_MIN - 1, Ordering::SeqCst);
    let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    let (status, answer) = engine.post("/sign", &body).await;
    assert_eq!((status, &answer["code"]), (503, &json!("DISK_FULL")));
    engine.disk.free_bytes.store(FREE_DISK_BYTES_MIN, Ordering::SeqCst);
    assert_eq!(engine.post("/sign", &body).await.0, 200);
}

async fn after_a_failed_commit_nothing_is_decided_and_reads_continue(edition: EditionName) {
    let memory = MemoryStore::default();
    // The disk accepts nine commits: wallet, its seal, seed, address, policy, agent, commission,
    // one payment and its record.
    let store = FaultyStore::new(memory.clone(), 9);
    let engine = TestEngine::start(Setup { store: Some(Box::new(store)), ..of(edition) }).await;
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let ask = |n| agent.ask(engine.now_s(), &offer(12_000, n), None);
    let mut paid = Vec::new();
    let mut refused = None;
    for n in 0..6 {
        let (status, answer) = engine.post("/sign", &ask(n)).await;
        match status {
            200 => {
                assert!(refused.is_none(), "something was decided after a failed commit");
                paid.push(answer);
            }
            _refused => {
                assert_eq!((status, &answer["code"]), (503, &json!("JOURNAL_FAILED")), "{answer}");
                refused = Some(n);
            }
        }
    }
    assert!(refused.is_some() && !paid.is_empty(), "{} paid", paid.len());
    assert_eq!(engine.get("/health").await.0, 200);
    for answer in &paid {
        let id = answer["transaction_id"].as_str().unwrap();
        assert_eq!(engine.get(&format!("/sign/status/{id}")).await.0 / 100, 2, "{id}");
    }
    assert_eq!(engine.operator().run_refused("freeze").await.code, Code::JournalFailed);
    // The disk holds exactly the answered payments.
    let records = bursar_engine::journal::Store::reader(&memory).latest(100).unwrap();
    assert_eq!(records.len(), paid.len());
}

async fn approval_requires_the_amount_and_the_shown_card(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let body = agent.ask(engine.now_s(), &offer(6_000_000, 1), None);
    let id = engine.post("/sign", &body).await.1["request_id"].as_str().unwrap().to_owned();
    let mut operator = engine.operator();
    operator.asking = bursar_control::wire::Asking::Agreed;
    assert_eq!(operator.run_refused(&format!("approve {id}")).await.code, Code::ConfirmationNeeded);
    assert_eq!(
        operator.run_refused(&format!("approve {id} --confirm 5")).await.code,
        Code::Declined
    );
    let wrong = format!("approve {id} --confirm 6 --card {}", "0".repeat(64));
    assert_eq!(operator.run_refused(&wrong).await.code, Code::CardChanged);
    operator.must(&format!("approve {id} --confirm 6")).await;
}

async fn after_a_password_change_only_the_new_password_opens_the_wallet(edition: EditionName) {
    let engine = engine_with_wallet(edition).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    operator.passwords.extend([PASSWORD.to_owned(), "another horse battery".to_owned()]);
    operator.must("wallet passwd").await;
    operator.must("wallet lock").await;
    assert_eq!(operator.run_refused("wallet open").await.code, Code::WrongPassword);
    operator.passwords.push_back("another horse battery".to_owned());
    let opened = engine.while_time_passes(operator.outcome("wallet open")).await.reply;
    assert!(opened.result.is_ok() && opened.warnings.is_empty(), "{opened:?}");
    let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    assert_eq!(engine.post("/sign", &body).await.0, 200);
}
