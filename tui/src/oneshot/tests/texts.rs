//! The text of every answer.

use bursar_control::answers::*;
use bursar_core::card::Lane;
use bursar_core::status::PolicyVerdict;

use super::fixtures::*;
use super::more_fixtures::*;
use super::*;

async fn assert_text(name: &str, line: &'static str, answer: Answer) {
    let ran = Scene::of(line).run_with_reply(ok_reply(answer)).await;
    assert_snapshot(name, line, &ran);
}

/// Checks the text of an answer if no engine keeps running after the command.
async fn assert_text_without_engine(name: &str, line: &'static str, answer: Answer) {
    let scene = Scene::of(line).with(|options| options.engine_running = false);
    let ran = scene.run_with_reply(ok_reply(answer)).await;
    assert_snapshot(name, line, &ran);
}

#[tokio::test]
async fn wallets_and_seeds() {
    assert_text("wallet_none", "wallet status", Answer::Wallet(no_wallet())).await;
    let fresh = WalletAnswer { seeds: 0, addresses: 0, ..wallet() };
    assert_text("wallet_created", "wallet create main", Answer::Wallet(fresh.clone())).await;
    assert_text_without_engine("wallet_created_alone", "wallet create main", Answer::Wallet(fresh))
        .await;
    let locked = WalletAnswer { locked: true, ..wallet() };
    assert_text("wallet_locked", "wallet status", Answer::Wallet(locked.clone())).await;
    assert_text("wallet_lock", "wallet lock", Answer::Wallet(locked)).await;
    assert_text_without_engine("wallet_open_alone", "wallet open", Answer::Wallet(wallet())).await;
    assert_text("seed_imported", "seed import", Answer::Seed(seed())).await;
    assert_text("seeds_none", "seed list", Answer::Seeds { seeds: vec![] }).await;
    let second = SeedAnswer { id: "S002".into(), words: 24, ..seed() };
    assert_text("seeds", "seed list", Answer::Seeds { seeds: vec![seed(), second] }).await;
}

#[tokio::test]
async fn addresses() {
    assert_text("address", "address create research 0", Answer::Address(address())).await;
    assert_text("addresses_none", "address list", Answer::Addresses { addresses: vec![] }).await;
    let other =
        AddressAnswer { label: "b".into(), index: 11, description: String::new(), ..address() };
    let path = "m/44'/60'/0'/0/0".to_owned();
    let on_ledger =
        AddressAnswer { label: "safe".into(), backing: "Ledger (live)".into(), path, ..address() };
    let uri = format!("ethereum:{}@8453", address().address);
    let code = AddressAnswer { uri: Some(uri), ..address() };
    assert_text("address_qr", "address show research --qr", Answer::Address(code)).await;
    let confirmed = AddressAnswer { confirmed: true, ..on_ledger.clone() };
    assert_text("address_ledger", "address ledger add 0 safe", Answer::Address(on_ledger)).await;
    let line = "address ledger verify safe";
    assert_text("address_ledger_confirmed", line, Answer::Address(confirmed)).await;
    let listed = |index: u32, label: Option<&str>| LedgerAddressAnswer {
        index,
        path: format!("m/44'/60'/{index}'/0/0"),
        address: address().address,
        label: label.map(str::to_owned),
    };
    let listed = LedgerAddressesAnswer {
        device: "Ledger Flex (0001)".into(),
        layout: "live".into(),
        template: None,
        addresses: vec![listed(0, Some("safe")), listed(1, None)],
    };
    let answer = Answer::LedgerAddresses(listed.clone());
    assert_text("ledger_addresses", "address ledger list --count 2", answer).await;
    let template = Some("m/44'/60'/3'/1/{}".to_owned());
    let custom = LedgerAddressesAnswer { layout: "custom".into(), template, ..listed };
    let line = "address ledger list --layout custom --path \"m/44'/60'/3'/1/{}\" --count 2";
    assert_text("ledger_addresses_custom", line, Answer::LedgerAddresses(custom)).await;
    let addresses = vec![address(), other];
    assert_text("addresses", "address list", Answer::Addresses { addresses }).await;
}

#[tokio::test]
async fn balances() {
    let answer = |addresses| Answer::Balances { addresses };
    assert_text("balances", "balances", answer(vec![holdings("USDC")])).await;
    let mut other = holdings("USDC");
    other.label = "b".into();
    other.networks.remove(0);
    assert_text("balances_two", "balances", answer(vec![holdings("USDC"), other])).await;
    assert_text("balances_none", "balances", answer(vec![])).await;
    let nowhere = HoldingsAnswer { networks: vec![], ..holdings("") };
    assert_text("balances_nowhere", "address balance research", answer(vec![nowhere])).await;
}

#[tokio::test]
async fn policies() {
    assert_text("policy", "policy show 'small spender'", Answer::Policy(policy())).await;
    let mut wide = policy();
    wide.agents = 2;
    wide.payments.auto_below = "0.00".into();
    wide.payments.allowed_domains.clear();
    wide.trading.enabled = true;
    wide.networks.clear();
    assert_text("policy_wide", "policy show wide", Answer::Policy(wide.clone())).await;
    let mut old = bursar_core::policy::Policy::default();
    let new = old.clone();
    old.payments.per_request = bursar_core::money::Usd::dollars(1);
    let edited = PolicyAnswer { changes: Some(new.changes(&old)), ..policy() };
    assert_text("policy_edited", "policy edit 'small spender' --txn 10", Answer::Policy(edited))
        .await;
    let same = PolicyAnswer { changes: Some(vec![]), ..policy() };
    assert_text("policy_unchanged", "policy edit 'small spender' --txn 10", Answer::Policy(same))
        .await;
    assert_text("policies_none", "policy list", Answer::Policies { policies: vec![] }).await;
    let policies = vec![policy(), PolicyAnswer { name: "wide".into(), ..wide }];
    assert_text("policies", "policy list", Answer::Policies { policies }).await;
    assert_text("deleted", "policy delete wide", Answer::Deleted { name: "wide".into() }).await;
}

#[tokio::test]
async fn agents() {
    assert_text("agent", "agent show ABC123", Answer::Agent(agent())).await;
    assert_text("agent_new", "agent show b", Answer::Agent(new_agent())).await;
    let mut held = AgentAnswer {
        status: "suspended".parse().unwrap(),
        renewal_held: true,
        renews_at: None,
        renews_in_seconds: None,
        renews_at_unknown_reason: Some("the clock is in doubt".into()),
        ..agent()
    };
    held.problem =
        Some("its secret is missing: agent instructions 'report bot' --regenerate".into());
    assert_text("agent_troubled", "agent show ABC123", Answer::Agent(held.clone())).await;
    let stale = AgentAnswer { mandate: Some(MandateStatus::Stale), ..agent() };
    assert_text("agent_mandate", "agent show ABC123", Answer::Agent(stale)).await;
    assert_text("agents_none", "agent list", Answer::Agents { agents: vec![] }).await;
    assert_text(
        "agents",
        "agent list",
        Answer::Agents { agents: vec![agent(), new_agent(), held] },
    )
    .await;
}

#[tokio::test]
async fn requests_and_decisions() {
    assert_text("requests_none", "requests", Answer::Requests { requests: vec![] }).await;
    let requests = vec![
        waiting("https://api.example.com/report", "api.example.com"),
        decided_request(Some("b.example")),
        decided_request(None),
    ];
    assert_text("requests", "requests --all", Answer::Requests { requests: requests.clone() })
        .await;
    let held = requests.iter().find(|request| request.card.is_some()).unwrap();
    let many: Vec<_> = (0..4).map(|_same| held.clone()).chain(requests.clone()).collect();
    assert_text("requests_many", "requests --all", Answer::Requests { requests: many }).await;
    let executing = RequestAnswer {
        id: "89abcdef-4567-4890-8bcd-ef0123456789".into(),
        status: "executing".parse().unwrap(),
        step: Some("1/2 token approval".into()),
        expires_in_seconds: None,
        expires_in_ms: None,
        card: None,
        ..waiting_trade()
    };
    let requests = vec![waiting_trade(), executing];
    assert_text("requests_trades", "requests --all", Answer::Requests { requests }).await;
    let device = RequestAnswer {
        status: "awaiting_device".parse().unwrap(),
        step: Some("locked".into()),
        card: Some(device_card("The Ledger Flex (0001) is locked: enter its PIN.", false)),
        ..waiting("https://api.example.com/report", "api.example.com")
    };
    let refused = RequestAnswer { status: "not_signed".parse().unwrap(), ..decided_request(None) };
    let requests = vec![device, refused];
    assert_text("requests_device", "requests --all", Answer::Requests { requests }).await;
    let trade = |status| DecidedAnswer { lane: Lane::Trade, ..decided(status) };
    assert_text("decided_trade", "approve 0123abcd", Answer::Decided(trade("executing"))).await;
    assert_text("decided_trade_denied", "deny 0123abcd", Answer::Decided(trade("denied"))).await;
    assert_text("decided_signed", "approve 0123abcd", Answer::Decided(decided("signed"))).await;
    assert_text("decided_executing", "approve 0123abcd", Answer::Decided(decided("executing")))
        .await;
    let device = Answer::Decided(decided("awaiting_device"));
    assert_text("decided_device", "approve 0123abcd", device).await;
    assert_text("decided_denied", "deny 0123abcd", Answer::Decided(decided("denied"))).await;
}

#[tokio::test]
async fn history_and_receipts() {
    let none = HistoryAnswer { requests: vec![], more: false };
    assert_text("history_none", "history --agent ABC123", Answer::History(none)).await;
    let some = HistoryAnswer { requests: vec![history_row(), unknown_row()], more: false };
    assert_text("history", "history", Answer::History(some.clone())).await;
    let more = HistoryAnswer { requests: vec![history_row()], more: true };
    assert_text("history_more", "history --limit 1", Answer::History(more)).await;
    let ends =
        HistoryAnswer { requests: vec![refused_row(), signed_row(), expired_row()], more: false };
    assert_text("history_ends", "history --limit 2", Answer::History(ends)).await;
    let trades = HistoryAnswer {
        requests: vec![executing_row(), traded_row(), imitating_row()],
        more: false,
    };
    assert_text("history_trades", "history --lane trade", Answer::History(trades)).await;
    assert_text("receipt", "receipt 0123abcd", Answer::Receipt(receipt())).await;
    assert_text("receipt_refused", "receipt 0123abcd", Answer::Receipt(refused_receipt())).await;
    assert_text("receipt_trade", "receipt 0123abcd", Answer::Receipt(trade_receipt())).await;
}

#[tokio::test]
async fn activity() {
    let none = ActivityAnswer { entries: vec![], more: false };
    assert_text("activity_none", "activity --before 1", Answer::Activity(none)).await;
    let some = ActivityAnswer { entries: activity_rows(), more: true };
    assert_text("activity", "activity --limit 5", Answer::Activity(some)).await;
}

#[tokio::test]
async fn settings_and_where_they_come_from() {
    let one = setting("server.listen", serde_json::json!("127.0.0.1:9402"), "default");
    assert_text("setting", "config get server.listen", Answer::Setting(one.clone())).await;
    let was = Some("127.0.0.1:9403".into());
    let changed = SettingAnswer { was, source: "file".into(), ..one };
    let mut reply = ok_reply(Answer::Setting(changed));
    let message = "The agent server keeps the value that it was started with.".to_owned();
    reply.warnings.push(Warning { code: "RESTART_SERVER".into(), message });
    let line = "config set server.listen 127.0.0.1:9402";
    assert_snapshot("setting_set", line, &Scene::of(line).run_with_reply(reply).await);
    assert_text("settings", "config list", Answer::Settings { settings: settings() }).await;
}

#[tokio::test]
async fn the_doctors_report_and_its_exit_code() {
    assert_text("doctor", "doctor", Answer::Doctor { checks: checks(false) }).await;
    assert_text("doctor_failed", "doctor", Answer::Doctor { checks: checks(true) }).await;
}

#[tokio::test]
async fn a_rehearsal_of_a_payment() {
    assert_text("rehearsal_hold", "policy test p 2", Answer::Rehearsal(rehearsal())).await;
    let acts = RehearsalAnswer {
        verdict: PolicyVerdict::Act,
        code: None,
        reason: "signed without asking you".into(),
        domain: Some("api.example.com".into()),
        ..rehearsal()
    };
    let line = "policy test p 2 --domain api.example.com";
    assert_text("rehearsal_act", line, Answer::Rehearsal(acts)).await;
}

#[tokio::test]
async fn a_rehearsal_of_a_trade() {
    let trade = RehearsalAnswer {
        lane: Lane::Trade,
        slippage: Some("0.5%".into()),
        impact: Some("0%".into()),
        ..rehearsal()
    };
    assert_text("rehearsal_trade", "policy test p 2 --trade", Answer::Rehearsal(trade)).await;
}

#[tokio::test]
async fn a_rehearsal_of_a_supply() {
    let supply = RehearsalAnswer { lane: Lane::Loan, ..rehearsal() };
    assert_text("rehearsal_supply", "policy test p 2 --supply", Answer::Rehearsal(supply)).await;
}

#[tokio::test]
async fn quotes_and_allowances() {
    let line = "quote research 30 USDC WETH --policy p";
    assert_text("quote", line, Answer::Quote(Box::new(quote()))).await;
    let answer = |allowances, read| {
        Answer::Allowances(AllowancesAnswer { allowances, unread: vec![], read })
    };
    assert_text("allowances_none", "allowances", answer(vec![], 42)).await;
    assert_text("allowances_nowhere", "allowances", answer(vec![], 0)).await;
    assert_text("allowances", "allowances", answer(allowances(), 42)).await;
    let mut ended = allowances();
    for one in &mut ended {
        one.outcome = Some("done in block 7, tx 0x12".into());
    }
    ended[0].outcome = Some("no: A running trade uses this allowance: try again.".into());
    let unread = vec![UnreadAnswer {
        label: "research".into(),
        network: "Robinhood Chain".into(),
        reason: "No node answers.".into(),
    }];
    let answer = Answer::Allowances(AllowancesAnswer { allowances: ended, unread, read: 21 });
    assert_text("allowances_revoked", "allowances --revoke", answer).await;
}

#[tokio::test]
async fn venues_and_positions() {
    let answer = |venues, unread| Answer::Venues(VenuesAnswer { venues, unread });
    assert_text("venues_nowhere", "venues", answer(vec![], vec![])).await;
    let unread = vec![UnreadVenueAnswer {
        network: "Base".into(),
        venue: Some(PAYEE.into()),
        reason: "It gives no valid answer.".into(),
    }];
    assert_text("venues", "venues", answer(venues(), unread)).await;
    let answer = |positions, read| {
        let unread = vec![UnreadAnswer {
            label: "research".into(),
            network: "Base".into(),
            reason: "No node answers.".into(),
        }];
        let unread = if read == 0 { vec![] } else { unread };
        Answer::Positions(PositionsAnswer { positions, unread, read })
    };
    assert_text("positions_none", "positions", answer(vec![], 7)).await;
    assert_text("positions_nowhere", "positions", answer(vec![], 0)).await;
    assert_text("positions", "positions", answer(positions(), 7)).await;
}

#[tokio::test]
async fn the_engine_itself() {
    assert_text("server", "server status", Answer::Server(server())).await;
    let locked = ServerAnswer { locked: true, ..server() };
    assert_text("server_locked", "server status", Answer::Server(locked.clone())).await;
    let stopped = ServerAnswer { running: false, url: None, open_to_network: false, locked: false };
    assert_text("server_stopped", "server stop", Answer::Server(stopped.clone())).await;
    assert_text_without_engine("server_start_alone", "server start", Answer::Server(server()))
        .await;
    assert_text_without_engine(
        "server_status_alone",
        "server status",
        Answer::Server(stopped.clone()),
    )
    .await;
    assert_text("networks", "network list", Answer::Networks { networks: networks() }).await;
    assert_text("frozen", "freeze", Answer::Frozen { frozen: true }).await;
    assert_text("thawed", "thaw", Answer::Frozen { frozen: false }).await;
    assert_text("audit", "audit verify", Answer::Audit(audit())).await;
    let untrusted = Some("the wallet notes 1050 records, the journal has 1042".to_owned());
    let bad = AuditAnswer { sealed: false, untrusted, ..audit() };
    assert_text("audit_untrusted", "audit verify", Answer::Audit(bad)).await;
}

#[tokio::test]
async fn status_and_its_exit_code() {
    assert_text("status", "status", Answer::Status(Box::new(status()).as_ref().clone())).await;
    let trade = ExecutingAnswer {
        id: ID.into(),
        agent_id: "ABC123".into(),
        summary: "30.000000 USDC > WETH".into(),
        step: "1/2 token approval".into(),
    };
    let trading = StatusAnswer { executing: vec![trade], ..status() };
    assert_text("status_trading", "status", Answer::Status(trading)).await;
    let locked = WalletAnswer { locked: true, seeds: 2, addresses: 1, ..wallet() };
    let locked = StatusAnswer { wallet: locked, frozen: true, ..status() };
    assert_text("status_locked", "status", Answer::Status(locked)).await;
    let failed = Some("No space left on device".to_owned());
    assert_text("status_failed", "status", Answer::Status(StatusAnswer { failed, ..status() }))
        .await;
    let stopped = ServerAnswer { running: false, url: None, open_to_network: false, locked: false };
    let stopped = StatusAnswer { server: stopped, requests: 0, ..status() };
    assert_text("status_not_serving", "status", Answer::Status(stopped.clone())).await;
    assert_text_without_engine("status_alone", "status", Answer::Status(stopped.clone())).await;
    let empty = StatusAnswer { wallet: no_wallet(), journal: 0, agents: 0, ..stopped };
    assert_text_without_engine("status_empty", "status", Answer::Status(empty)).await;
    let device = DeviceAnswer {
        label: "locked".into(),
        state: "The Ledger Flex (0001) is locked: enter its PIN.".into(),
        is_prompting: false,
        may_retry: false,
        waiting: 2,
    };
    let device = StatusAnswer { device: Some(device), ..status() };
    assert_text("status_device", "status", Answer::Status(device.clone())).await;
    let ledger_emulator = Some("127.0.0.1:9999".to_owned());
    let emulated = StatusAnswer { ledger_emulator, ..device };
    assert_text("status_emulator", "status", Answer::Status(emulated)).await;
    let refused_before = Some("2026-01-15T00:00:00Z".to_owned());
    let unattended = StatusAnswer {
        start_unlock: Some("host key".into()),
        unattended: Some(UnattendedAnswer { spent: "3.00".into(), limit: Some("5.00".into()) }),
        ..status()
    };
    assert_text("status_unattended", "status", Answer::Status(unattended)).await;
    let refusing = StatusAnswer { refused_before, ..status() };
    assert_text("status_refusing", "status", Answer::Status(refusing)).await;
    let full = StatusAnswer { disk_full: true, ..status() };
    assert_text("status_disk_full", "status", Answer::Status(full)).await;
    let untrusted = Some("the wallet notes 1050 records, the journal has 1042".to_owned());
    assert_text(
        "status_untrusted",
        "status",
        Answer::Status(StatusAnswer { untrusted, ..status() }),
    )
    .await;
}

/// The text has escape sequences, a line break that would forge a command's output, and right-to-left text.
#[tokio::test]
async fn hostile_text_is_harmless() {
    let evil = "https://x.example/\x1b]0;owned\x07\x1b[2J\r\nApproved 0123abcd\u{202e}\u{9b}31m";
    let answer =
        Answer::Requests { requests: vec![waiting(evil, evil), decided_request(Some(evil))] };
    let mut reply = ok_reply(answer);
    reply.warnings.push(Warning { code: "X".into(), message: format!("from {evil}") });
    let ran = Scene::of("requests")
        .run_against(|mut engine| async move {
            engine.send(&ToClient::Progress { id: 1, text: format!("looking at {evil}") }).await;
            send_done(&mut engine, reply).await;
        })
        .await;
    for text in [&ran.out, &ran.err] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
    }
    assert_snapshot("hostile", "requests", &ran);

    let mut rows = activity_rows();
    rows.truncate(1);
    let texts = rows.iter_mut().flat_map(|row| [&mut row.agent, &mut row.host, &mut row.detail]);
    texts.for_each(|text| *text = Some(evil.to_owned()));
    rows[0].amount = rows[0].amount.take().map(|amount| amount.with_text(evil.to_owned()));
    let answer = Answer::Activity(ActivityAnswer { entries: rows, more: false });
    let ran = Scene::of("activity").run_with_reply(ok_reply(answer)).await;
    assert!(ran.out.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'));
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.out);

    let fault = Fault::because(Code::NothingFound, format!("no {evil}\nsecond line"));
    let reply = Reply { result: Err(fault), warnings: vec![], secret: None };
    let ran = Scene::of("agent show x").run_with_reply(reply).await;
    assert_snapshot("hostile_fault", "agent show x", &ran);
}
