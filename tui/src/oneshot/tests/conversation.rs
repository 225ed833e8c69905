//! The ends of a conversation: lost engines, silence and Ctrl-C; and frames of other commands.

use bursar_control::answers::*;
use bursar_control::json_version::JsonVersion;
use bursar_control::wire::Prompt;

use super::*;

#[tokio::test]
async fn lost_engine_is_reported_as_an_unknown_outcome() {
    let ran = Scene::of("freeze").run_against(|engine| async move { drop(engine) }).await;
    assert_snapshot("engine_lost", "freeze", &ran);
    assert_eq!(ran.exit, 3);
}

#[tokio::test(start_paused = true)]
async fn silent_engine_times_out_after_two_minutes() {
    let ran = Scene::of("audit verify")
        .run_against(|mut engine| async move {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(SILENCE_MS_MAX - 1)).await;
                engine.send(&ToClient::Progress { id: 1, text: "on it".into() }).await;
            }
            assert_eq!(engine.message().await, None);
        })
        .await;
    assert_eq!((ran.exit, ran.err.matches("on it").count()), (3, 3));
}

#[tokio::test]
async fn frames_of_other_commands_are_ignored() {
    let ran = Scene::of("freeze")
        .run_against(|mut engine| async move {
            engine.send(&ToClient::Welcome).await;
            engine.send(&ToClient::Progress { id: 2, text: "not ours".into() }).await;
            let reply = Box::new(ok_reply(Answer::Frozen { frozen: false }));
            engine.send(&ToClient::Done { id: 2, reply }).await;
            send_done(&mut engine, ok_reply(Answer::Frozen { frozen: true })).await;
        })
        .await;
    assert!(ran.out.contains("Frozen") && ran.err.is_empty(), "{ran:?}");
}

#[tokio::test]
async fn refusal_of_the_session_is_reported() {
    let ran = Scene::of("freeze")
        .run_against(|mut engine| async move {
            engine.send(&ToClient::Refused { fault: Fault::new(Code::Busy) }).await;
        })
        .await;
    assert_eq!(ran.exit, 1);
    assert!(ran.err.contains(Code::Busy.sentence()), "{}", ran.err);
}

fn with_interrupt(mut scene: Scene) -> Scene {
    scene.interrupt = Box::pin(std::future::ready(()));
    scene
}

async fn expect_cancel(mut engine: TestEngine) {
    assert_eq!(engine.message().await, Some(ToEngine::Cancel { id: 1 }));
    assert_eq!(engine.message().await, None);
}

/// Ctrl-C before a yes leaves the request pending. After a yes the outcome is unknown.
#[tokio::test]
async fn ctrl_c_cancels_and_reports_only_what_is_certain() {
    let held = "The request is still waiting.";
    let unsure = "still waiting, unless it was already decided";
    for (line, asking, certain) in [
        ("approve 0123abcd", Asking::Interactive, held),
        ("approve 0123abcd --yes", Asking::Interactive, unsure),
        ("approve 0123abcd", Asking::Agreed, unsure),
        ("deny 0123abcd", Asking::Interactive, unsure),
        ("freeze", Asking::Silent, "The command may have run"),
    ] {
        let scene = Scene::of(line).with(|options| options.asking = asking);
        let ran = with_interrupt(scene).run_against(expect_cancel).await;
        assert_eq!((ran.exit, ran.out.as_str()), (130, ""));
        assert!(ran.err.contains(certain), "{line}: {}", ran.err);
    }
    let json = Scene::of("approve 0123abcd").with(|options| options.json = Some(JsonVersion::Two));
    let ran = with_interrupt(json).run_against(expect_cancel).await;
    assert_snapshot("interrupted_json", "--json approve 0123abcd", &ran);
}

/// Ctrl-C that the terminal reports while a question is open.
#[tokio::test]
async fn ctrl_c_at_a_question_answers_nothing() {
    #[derive(Debug)]
    struct InterruptedTerminal;
    impl Terminal for InterruptedTerminal {
        fn is_present(&self) -> bool {
            true
        }
        fn ask_secret(&self, _question: &str) -> io::Result<Zeroizing<String>> {
            Err(io::ErrorKind::Interrupted.into())
        }
        fn ask_line(&self, _question: &str) -> io::Result<String> {
            Err(io::ErrorKind::Interrupted.into())
        }
        fn restore(&self) {}
    }
    let (mut engine, link) = TestEngine::pair();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let options = Options { asking: Asking::Interactive, may_ask: true, ..Options::default() };
    let streams = Streams {
        out: &mut out,
        err: &mut err,
        stdin: Box::new(io::empty()),
        terminal: Arc::new(InterruptedTerminal),
        interrupt: Box::pin(std::future::pending()),
    };
    let order = Order::parse_line("approve 0123abcd").unwrap();
    let script = async {
        engine.message().await;
        let prompt = Prompt::Confirm { lines: vec![], question: "Pay?".into() };
        engine.send(&ToClient::Prompt { id: 1, prompt }).await;
        expect_cancel(engine).await;
    };
    let (exit, ()) = tokio::join!(run(link, order, &options, streams), script);
    assert_eq!(exit, 130);
    assert!(String::from_utf8(err).unwrap().contains("The request is still waiting."));
}
