//! `--json`: every outcome prints exactly one object on standard output.

use bursar_control::answers::*;
use bursar_control::json_version::{JsonVersion, data_of};

use super::fixtures::*;
use super::more_fixtures::*;
use super::*;

fn json(line: &'static str) -> Scene {
    Scene::of(line).with(|options| options.json = Some(JsonVersion::Two))
}

#[tokio::test]
async fn success_has_data_and_warnings() {
    let mut reply = ok_reply(Answer::Address(address()));
    reply.warnings.push(Warning { code: "NETWORK_OFF".into(), message: "Base is off.".into() });
    let ran = json("address create research 0").run_with_reply(reply).await;
    assert_snapshot("json_success", "--json address create research 0", &ran);

    let addresses = vec![holdings("USDC")];
    let ran = json("balances").run_with_reply(ok_reply(Answer::Balances { addresses })).await;
    assert_snapshot("json_balances", "--json balances", &ran);

    let ran = json("status").run_with_reply(ok_reply(Answer::Status(status()))).await;
    assert_snapshot("json_status", "--json status", &ran);

    let ran = json("server start").with(|options| options.engine_running = false);
    let ran = ran.run_with_reply(ok_reply(Answer::Server(server()))).await;
    assert_snapshot("json_server_start_alone", "--json server start", &ran);
}

#[tokio::test]
async fn unknown_json_fields_have_a_reason() {
    let answer = HistoryAnswer { requests: vec![history_row(), unknown_row()], more: true };
    let ran = json("history").run_with_reply(ok_reply(Answer::History(answer))).await;
    assert_snapshot("json_history", "--json history", &ran);
    let ran = json("receipt 0123abcd").run_with_reply(ok_reply(Answer::Receipt(receipt()))).await;
    assert_snapshot("json_receipt", "--json receipt 0123abcd", &ran);
    // A program may forward this output to an agent, so it contains no limit of the policy.
    let ran =
        json("receipt 0123abcd").run_with_reply(ok_reply(Answer::Receipt(refused_receipt()))).await;
    assert_snapshot("json_receipt_refused", "--json receipt 0123abcd", &ran);
}

#[tokio::test]
async fn settings_have_their_own_types() {
    let ran = json("config list")
        .run_with_reply(ok_reply(Answer::Settings { settings: settings() }))
        .await;
    assert_snapshot("json_settings", "--json config list", &ran);
    let one = setting("server.hosts", serde_json::json!(["wallet.lan"]), "journal");
    let ran = json("config get server.hosts").run_with_reply(ok_reply(Answer::Setting(one))).await;
    assert_snapshot("json_setting", "--json config get server.hosts", &ran);
}

#[tokio::test]
async fn doctor_report_with_failures_is_a_failure_with_data() {
    let ran =
        json("doctor").run_with_reply(ok_reply(Answer::Doctor { checks: checks(true) })).await;
    assert_snapshot("json_doctor", "--json doctor", &ran);
}

/// Scripts compare times as text, so only a person at a terminal sees local ones.
#[tokio::test]
async fn json_times_are_utc_wherever_the_reader_is() {
    let zone = bursar_core::text::Zone::of(jiff::tz::TimeZone::fixed(jiff::tz::offset(-5)));
    let local = LocalTime { zone, year: "2025".to_owned() };
    let run = async |json| {
        let scene = Scene::of("history").with(|options| {
            (options.json, options.local_time) = (json, Some(local.clone()));
        });
        let answer = HistoryAnswer { requests: vec![history_row()], more: false };
        scene.run_with_reply(ok_reply(Answer::History(answer))).await.out
    };
    let (json, text) = (run(Some(JsonVersion::Two)).await, run(None).await);
    let created = history_row().created;
    assert!(json.contains(&created) && !json.contains("UTC-5"), "{json}");
    assert!(!text.contains(&created) && text.contains("UTC-5"), "{text}");
}

#[tokio::test]
async fn a_rehearsal_has_its_verdict() {
    let ran =
        json("policy test p 2").run_with_reply(ok_reply(Answer::Rehearsal(rehearsal()))).await;
    assert_snapshot("json_rehearsal", "--json policy test p 2", &ran);
}

#[tokio::test]
async fn failure_has_code_hint_and_exit() {
    let fault = Fault::new(Code::WalletLocked).with_detail("for the log only");
    let reply = Reply { result: Err(fault), warnings: vec![], secret: None };
    let ran = json("seed list").run_with_reply(reply).await;
    assert_snapshot("json_failure", "--json seed list", &ran);
}

#[tokio::test]
async fn hostile_text_stays_inside_its_string() {
    let evil = "a\",\"ok\":true}\n{\u{9b}2J\u{202e}";
    let ran = json("requests")
        .run_with_reply(ok_reply(Answer::Requests { requests: vec![decided_request(Some(evil))] }))
        .await;
    assert!(ran.out.bytes().all(|b| b == b'\n' || (0x20..0x7f).contains(&b)), "{:?}", ran.out);
    let read: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(read["data"]["requests"][0]["domain"], evil);
}

#[tokio::test]
async fn progress_never_reaches_standard_output() {
    for quiet in [false, true] {
        let scene = json("audit verify").with(|options| options.quiet = quiet);
        let ran = scene
            .run_against(|mut engine| async move {
                engine
                    .send(&ToClient::Progress { id: 1, text: "500 of 1042 records".into() })
                    .await;
                send_done(&mut engine, ok_reply(Answer::Audit(audit()))).await;
            })
            .await;
        assert_eq!(pretty(&ran.out).matches("records").count(), 0);
        assert_eq!(ran.err, if quiet { "" } else { "500 of 1042 records\n" });
    }
}

/// Commands that reached no engine, and arguments that could not be parsed.
#[tokio::test]
async fn failures_before_the_engine_have_the_same_shape() {
    let print = |json, verbose| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let options = Options { json, verbose, ..Options::default() };
        let fault = Fault::new(Code::EngineDown).with_detail("connect: ENOENT");
        let exit = fail(Some("approve"), fault, &options, &mut out, &mut err);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        RunOutcome { exit, out: text(out), err: text(err) }
    };
    assert_snapshot("fail_json", "--json approve 0123abcd", &print(Some(JsonVersion::Two), false));
    assert_snapshot("fail_text", "-v approve 0123abcd", &print(None, true));

    let mut out = Vec::new();
    let fault = Fault::because(Code::BadInput, "unrecognized subcommand");
    let options = Options { json: Some(JsonVersion::Two), ..Options::default() };
    assert_eq!(fail(None, fault, &options, &mut out, &mut io::sink()), 2);
    assert!(String::from_utf8(out).unwrap().starts_with(r#"{"v":2,"ok":false,"command":null,"#));
}

#[tokio::test]
async fn unwritten_result_is_not_a_success() {
    struct Failing(io::ErrorKind);
    impl Write for Failing {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut err = Vec::new();
    let mut full = Failing(io::ErrorKind::StorageFull);
    assert_eq!(
        succeed(JsonVersion::Two, "completions", &serde_json::json!({}), &mut full, &mut err),
        1
    );
    assert!(!err.is_empty());
    // `head` closes the pipe once it has read enough: the command still succeeds.
    let (mut closed, mut err) = (Failing(io::ErrorKind::BrokenPipe), Vec::new());
    assert_eq!(
        succeed(JsonVersion::Two, "completions", &serde_json::json!({}), &mut closed, &mut err),
        0
    );
    assert!(err.is_empty());
}

/// `--json=1` prints what this program printed before amounts had one shape. It wrote the snapshot.
#[tokio::test]
async fn the_former_shape_of_amounts_is_kept() {
    let requests = vec![waiting("https://a.example/", "a.example"), waiting_trade()];
    let trade = ExecutingAnswer {
        id: ID.into(),
        agent_id: "ABC123".into(),
        summary: "30.000000 USDC > WETH".into(),
        step: "1/2 token approval".into(),
    };
    let answers = [
        ("requests", Answer::Requests { requests }),
        ("status", Answer::Status(StatusAnswer { executing: vec![trade], ..status() })),
        ("decided", Answer::Decided(decided("signed"))),
        (
            "history",
            Answer::History(HistoryAnswer {
                requests: vec![history_row(), traded_row(), executing_row(), unknown_row()],
                more: false,
            }),
        ),
        ("activity", Answer::Activity(ActivityAnswer { entries: activity_rows(), more: false })),
        ("balances", Answer::Balances { addresses: vec![holdings("USDC")] }),
        ("sends", Answer::Sends { sends: vec![send()] }),
        ("send", Answer::Send(send())),
        ("quote", Answer::Quote(Box::new(quote()))),
        (
            "allowances",
            Answer::Allowances(AllowancesAnswer {
                allowances: allowances(),
                unread: Vec::new(),
                read: 3,
            }),
        ),
        ("venues", Answer::Venues(VenuesAnswer { venues: venues(), unread: Vec::new() })),
        ("positions", Answer::Positions(positions_answer(positions(), 3))),
        ("rehearsal", Answer::Rehearsal(rehearsal())),
    ];
    let mut shown = String::new();
    for (name, answer) in answers {
        let data = serde_json::to_string_pretty(&data_of(&answer, JsonVersion::One)).unwrap();
        shown.push_str(&format!("{name} {data}\n"));
    }
    let ran = RunOutcome { exit: 0, out: shown, err: String::new() };
    assert_snapshot("json_1", "--json=1 ...", &ran);
}
