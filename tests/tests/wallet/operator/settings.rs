//! `config …`, `network rpc` and `server start`: when settings take effect, where they are stored, and what is refused.

use bursar_chain::ports::ChainFault;
use bursar_control::answers::{Answer, SettingAnswer};
use bursar_core::codes::Code;
use bursar_core::settings::keys::Key;
use bursar_engine::engine::Mode;
use bursar_tests::counting_rpc::CountingRpc;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{BASE, offer};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

async fn engine() -> TestEngine {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    engine
}

async fn setting_after(engine: &TestEngine, line: &str) -> SettingAnswer {
    match engine.operator().must(line).await {
        Answer::Setting(setting) => setting,
        other => panic!("{other:?}"),
    }
}

/// Returns a key's value and its source.
async fn get(engine: &TestEngine, key: &str) -> (Value, String) {
    let setting = setting_after(engine, &format!("config get {key}")).await;
    (setting.value, setting.source)
}

fn file(engine: &TestEngine) -> String {
    std::fs::read_to_string(engine.folder.join("settings.toml")).unwrap_or_default()
}

#[tokio::test]
async fn every_setting_is_listed_with_its_default() {
    let engine = TestEngine::start(Setup { mode: Mode::Maintenance, ..Setup::default() }).await;
    let Answer::Settings { settings } = engine.operator().must("config list").await else {
        panic!()
    };
    let listed: Vec<&str> = settings.iter().map(|setting| setting.key.as_str()).collect();
    let known: Vec<String> = Key::all().iter().map(ToString::to_string).collect();
    assert_eq!(listed, known);
    assert!(settings.iter().all(|setting| setting.source == "default"), "{settings:?}");
    for setting in &settings {
        assert_eq!(setting.value.is_null(), setting.value_unknown_reason.is_some(), "{setting:?}");
        let response = setting_after(&engine, &format!("config get {}", setting.key)).await;
        assert_eq!(response, *setting);
    }
}

#[tokio::test]
async fn a_harmless_setting_is_written_to_the_file_and_survives_a_restart() {
    let engine = engine().await;
    std::fs::write(
        engine.folder.join("settings.toml"),
        "# mine\n[server]\nautostart = true # yes\n",
    )
    .unwrap();
    for (key, value, shown) in [
        ("server.autostart", "false", json!(false)),
        ("server.rate_per_minute", "7", json!(7)),
        ("server.signature_window_s", "60", json!(60)),
        ("server.listen", "127.0.0.1:0", json!("127.0.0.1:0")),
        ("payments.verify_settlements", "false", json!(false)),
        ("networks.base.explorer", "https://x.example/p", json!("https://x.example:443")),
    ] {
        let set = setting_after(&engine, &format!("config set {key} {value}")).await;
        assert_eq!((set.value, set.source.as_str()), (shown, "file"), "{key}");
    }
    let text = file(&engine);
    assert!(text.starts_with("# mine\n[server]\nautostart = false # yes\n"), "{text}");
    let mode = std::os::unix::fs::MetadataExt::mode(
        &std::fs::metadata(engine.folder.join("settings.toml")).unwrap(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let left = std::fs::read_dir(&engine.folder).unwrap().filter_map(Result::ok);
    assert!(!left.into_iter().any(|e| e.file_name().to_string_lossy().starts_with(".settings")));

    let engine = engine.restart(Setup::default()).await;
    assert_eq!(get(&engine, "server.rate_per_minute").await, (json!(7), "file".to_owned()));
    setting_after(&engine, "config set server.rate_per_minute default").await;
    assert_eq!(get(&engine, "server.rate_per_minute").await, (json!(300), "default".to_owned()));
    assert!(!file(&engine).contains("rate_per_minute"), "{}", file(&engine));
}

#[tokio::test]
async fn a_loosening_setting_needs_the_open_wallet_and_is_in_no_file() {
    let engine = engine().await;
    let mut operator = engine.operator();
    let loose = [
        ("server.hosts", "Wallet.lan,b.lan", json!(["wallet.lan", "b.lan"])),
        ("server.rate_per_minute", "0", json!(0)),
        ("payments.max_validity", "7200", json!(7200)),
        ("confirm_typing_above", "5", json!("5.00")),
        ("networks.1.enabled", "true", json!(true)),
    ];
    operator.must("wallet lock").await;
    for (key, value, _shown) in &loose {
        let refused = operator.run_refused(&format!("config set {key} {value}")).await;
        assert_eq!(refused.code, Code::WalletLocked, "{key}");
    }
    operator.must("config set server.lan_bearer refuse").await;
    assert_eq!(operator.run_refused("server start --allow-lan").await.code, Code::WalletLocked);
    operator.must("wallet open").await;
    for (key, value, shown) in &loose {
        operator.must(&format!("config set {key} {value}")).await;
        assert_eq!(get(&engine, key).await, (shown.clone(), "journal".to_owned()), "{key}");
    }
    assert_eq!(file(&engine), "");
    // Resetting these settings works with a locked wallet.
    operator.must("wallet lock").await;
    for key in ["server.hosts", "server.rate_per_minute", "payments.max_validity"] {
        operator.must(&format!("config set {key} default")).await;
        assert_eq!(get(&engine, key).await.1, "default", "{key}");
    }
}

#[tokio::test]
async fn a_new_limit_applies_to_the_next_payment() {
    let engine = engine().await;
    let agent = engine.add_agent("bot", "bearer").await;
    let (status, _) = engine.post("/sign", &agent.ask(engine.now_s(), &offer(1000, 1), None)).await;
    assert_eq!(status, 200);
    engine.operator().must("config set payments.max_validity 30").await;
    let (status, answer) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(1000, 2), None)).await;
    assert_eq!(status, 202, "{answer}");
}

#[tokio::test]
async fn a_bad_value_changes_nothing() {
    let engine = engine().await;
    let mut operator = engine.operator();
    operator.must("config set networks.8453.rpc https://a.example/KEYKEYKEY").await;
    let before = file(&engine);
    for (line, word) in [
        ("config set server.listen 0.0.0.0:9402", "loopback"),
        ("config set server.listen nonsense", "address"),
        ("config set server.autostart yes", "true or false"),
        ("config set server.rate_per_minute -- -1", "whole number"),
        ("config set server.rate_per_minute 1 2", "whole number"),
        ("config set payments.max_validity 1", "seconds"),
        ("config set server.hosts http://a", "names"),
        ("config set server.lan_bearer maybe", "warn or refuse"),
        ("config set networks.8453.rpc KEYKEYKEY", "URL"),
        ("config set networks.8453.rpc http://a.example/KEYKEYKEY", "not encrypted"),
        ("network rpc base https://u:KEYKEYKEY@a.example", "user name"),
        ("network rpc nowhere https://a.example", "nowhere"),
        ("config set networks.8453.submit_rpc KEYKEYKEY", "URL"),
        ("config set networks.8453.submit_rpc http://a.example/KEYKEYKEY", "not encrypted"),
        ("config set networks.8453.explorer ftp://x", "https"),
        ("config set prices.url ftp://x", "https"),
        ("config set prices.url http://a.example/KEYKEYKEY", "https"),
        ("config set confirm_typing_above 1.1234567", ""),
    ] {
        let refused = operator.run_refused(line).await;
        assert!(refused.message.contains(word), "{line}: {refused}");
        assert!(!refused.message.contains("KEYKEYKEY"), "{line}: {refused}");
        assert_eq!(file(&engine), before, "{line}");
    }
    for line in ["config get server.listn", "config set nothing 1", "config set server.listen"] {
        assert!(bursar_control::grammar::Order::parse_line(line).is_err(), "{line}");
    }
    // A damaged file stays unchanged.
    std::fs::write(engine.folder.join("settings.toml"), "not toml").unwrap();
    let refused = operator.run_refused("config set server.autostart false").await;
    assert!(refused.message.contains("settings.toml"), "{refused}");
    assert_eq!(file(&engine), "not toml");
}

#[tokio::test]
async fn endpoints_change_at_once_and_keep_their_keys() {
    let engine = engine().await;
    let mut operator = engine.operator();
    let set =
        setting_after(&engine, "network rpc base https://a.example/v2/KEYKEYKEY https://b.example")
            .await;
    assert_eq!(set.key, "networks.8453.rpc");
    assert_eq!(set.value, json!(["https://a.example:443", "https://b.example:443"]));
    let shown = format!("{:?}", operator.must("config list").await);
    assert!(!shown.contains("KEYKEYKEY"), "{shown}");
    let whole = setting_after(&engine, "config get networks.8453.rpc --reveal").await.value;
    assert_eq!(whole, json!(["https://a.example/v2/KEYKEYKEY", "https://b.example/"]));
    let set = setting_after(&engine, "network rpc eip155:8453 default").await;
    assert_eq!(set.source, "default");
}

#[tokio::test]
async fn an_explorer_is_turned_off_at_once_and_stays_off_after_a_restart() {
    let engine = engine().await;
    let has = |engine: &TestEngine| engine.engine.ports().explorers.get(&BASE).is_some();
    let set =
        setting_after(&engine, "config set networks.base.explorer http://127.0.0.1:9/api/v2").await;
    assert_eq!((set.was, has(&engine)), (Some(json!("https://base.blockscout.com:443")), true));
    let set = setting_after(&engine, "config set networks.base.explorer none").await;
    assert_eq!((&set.value, set.source.as_str(), has(&engine)), (&Value::Null, "file", false));
    assert!(file(&engine).contains("explorer = \"none\""), "{}", file(&engine));
    let engine = engine.restart(Setup::default()).await;
    let key = "networks.8453.explorer";
    assert_eq!(get(&engine, key).await, (Value::Null, "file".to_owned()));
    let (value, source) = get(&engine, "networks.4663.explorer").await;
    assert_eq!((value, source.as_str()), (Value::Null, "default"));
}

#[tokio::test]
async fn a_price_api_is_replaced_and_turned_off_at_once() {
    let engine = engine().await;
    let has = |engine: &TestEngine| engine.engine.ports().prices.get().is_some();
    let set = setting_after(&engine, "config set prices.url http://127.0.0.1:9/KEYKEYKEY").await;
    assert_eq!((set.value, has(&engine)), (json!("http://127.0.0.1:9"), true));
    assert_eq!(set.was, Some(json!("https://api.coingecko.com:443")));
    let set = setting_after(&engine, "config set prices.url none").await;
    assert_eq!((&set.value, set.source.as_str(), has(&engine)), (&Value::Null, "file", false));
    let engine = engine.restart(Setup::default()).await;
    assert_eq!(get(&engine, "prices.url").await, (Value::Null, "file".to_owned()));
    setting_after(&engine, "config set prices.url default").await;
    assert!(has(&engine));
}

/// No server listens at these nodes' addresses; a request for the chain id shows which node is in use.
#[tokio::test]
async fn submit_rpc_takes_effect_at_once_and_can_be_reset() {
    let nobody = "http://127.0.0.1:9";
    let (node, relay) =
        (CountingRpc::in_front_of(nobody).await, CountingRpc::in_front_of(nobody).await);
    let engine = engine().await;
    let offer = async || {
        let chain = engine.engine.ports().chains.get(&BASE).expect("an endpoint");
        let result = chain.send_raw(vec![2, 1].into()).await;
        assert!(matches!(result, Err(ChainFault::Unavailable { .. })), "{result:?}");
        (node.take_methods(), relay.take_methods())
    };
    let (asked, nothing) = (vec!["eth_chainId".to_owned()], Vec::<String>::new());
    setting_after(&engine, &format!("config set networks.base.rpc {}", node.url)).await;
    assert_eq!(offer().await, (asked.clone(), nothing.clone()));
    for back in ["none", "\"\"", "default"] {
        let line = format!("config set networks.base.submit_rpc {}/?key=KEYKEYKEY", relay.url);
        let set = setting_after(&engine, &line).await;
        assert_eq!((&set.value, set.source.as_str()), (&json!([relay.url]), "file"));
        assert_eq!(offer().await, (nothing.clone(), asked.clone()));
        let listed = format!("{:?}", engine.operator().must("config list").await);
        assert!(!listed.contains("KEYKEYKEY"), "{listed}");

        let set =
            setting_after(&engine, &format!("config set networks.base.submit_rpc {back}")).await;
        assert_eq!((set.was, set.value), (Some(json!([relay.url])), Value::Null), "{back}");
        assert_eq!(offer().await, (asked.clone(), nothing.clone()), "{back}");
    }
    assert!(!file(&engine).contains("submit_rpc"), "{}", file(&engine));
    setting_after(&engine, "config set networks.base.rpc default").await;
}

#[tokio::test]
async fn settings_that_need_a_server_restart_warn_while_it_runs() {
    let engine = engine().await;
    let mut operator = engine.operator();
    operator.must("config set server.listen 127.0.0.1:0").await;
    operator.must("server start").await;
    for (line, warns) in [
        ("config set server.listen 127.0.0.1:0", true),
        ("config set server.rate_per_minute 20", false),
        ("config set server.hosts a.lan", false),
        ("config set server.lan_bearer refuse", false),
        ("config set payments.verify_settlements false", false),
        ("config set server.autostart false", false),
        ("config set payments.max_validity 60", false),
    ] {
        let done = operator.outcome(line).await;
        let codes: Vec<&str> = done.reply.warnings.iter().map(|w| w.code.as_str()).collect();
        assert_eq!(codes.contains(&"RESTART_SERVER"), warns, "{line}: {codes:?}");
    }
    operator.must("server stop").await;
    let done = operator.outcome("config set server.listen default").await;
    assert!(done.reply.warnings.is_empty(), "{:?}", done.reply.warnings);
}

#[tokio::test]
async fn a_plain_start_of_the_server_closes_it_to_the_network() {
    let engine = engine().await;
    let mut operator = engine.operator();
    operator.must("config set server.listen 127.0.0.1:0").await;
    let Answer::Server(first) = operator.must("server start").await else { panic!() };
    assert!(first.running && !first.open_to_network);
    let Answer::Server(open) = operator.must("server start --allow-lan").await else { panic!() };
    assert!(open.running && open.open_to_network);
    assert!(!engine.engine.core().view().state.settings.allow_lan, "for this run only");
    assert_ne!(open.url, first.url, "it was bound anew");
    operator.must("wallet lock").await;
    let Answer::Server(closed) = operator.must("server start").await else { panic!() };
    assert!(closed.running && !closed.open_to_network);
    let Answer::Server(same) = operator.must("server start").await else { panic!() };
    assert_eq!(same.url, closed.url, "a server that runs as wanted goes on");
}

#[tokio::test]
async fn a_server_that_did_not_start_leaves_nothing_open() {
    let engine = engine().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut operator = engine.operator();
    let address = taken.local_addr().unwrap();
    operator.must(&format!("config set server.listen {address}")).await;
    assert_eq!(operator.run_refused("server start --allow-lan").await.code, Code::InUse);
    assert!(!engine.engine.core().view().state.settings.allow_lan);
}

/// An agent would send its token to the program at that address.
#[tokio::test]
async fn agents_never_receive_the_url_of_another_program() {
    let engine = engine().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut operator = engine.operator();
    operator.must(&format!("config set server.listen {address}")).await;
    let refused = operator.run_refused("server start").await;
    let advice = "config set server.listen 127.0.0.1:";
    assert!(refused.message.contains("another program listens on port"), "{refused}");
    assert!(refused.hint.is_some_and(|hint| hint.starts_with(advice)));
    let Answer::Credentials(given) = operator.must("agent register bot --auth hmac").await else {
        panic!()
    };
    let why = given.url_unknown_reason.unwrap();
    assert!(
        given.url.is_none() && why.contains(&address.to_string()) && why.contains(advice),
        "{why}"
    );

    drop(taken);
    for (line, serving) in [("status", false), ("server start", true)] {
        operator.must(line).await;
        let Answer::Credentials(given) = operator.must("agent instructions bot").await else {
            panic!()
        };
        assert_eq!((given.url, given.serving), (Some(format!("http://{address}")), serving));
    }
    operator.must("server stop").await;
    operator.must("config set server.listen 127.0.0.1:0").await;
    let Answer::Credentials(given) = operator.must("agent instructions bot").await else {
        panic!()
    };
    assert!(given.url.is_none() && given.url_unknown_reason.is_some());
}

#[tokio::test]
async fn the_signature_window_changes_at_once() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 20 --txn 3 --auto 0.5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    let mut n = 0;
    for (window, apart, wanted) in [
        (None, 300, 200),
        (None, 301, 401),
        (Some(60), 60, 200),
        (Some(60), 61, 401),
        (Some(60), -61, 401),
        (Some(900), 900, 200),
        (Some(900), -900, 200),
        (Some(900), 901, 401),
    ] {
        if let Some(window) = window {
            operator.must(&format!("config set server.signature_window_s {window}")).await;
        }
        n += 1;
        let body = agent.ask(engine.now_s() - apart, &offer(12_000, n), None);
        assert_eq!(engine.post("/sign", &body).await.0, wanted, "{window:?} {apart}");
    }
    for wrong in ["59", "901", "0"] {
        let line = format!("config set server.signature_window_s {wrong}");
        assert_eq!(operator.run_refused(&line).await.code, Code::BadInput, "{wrong}");
    }
}
