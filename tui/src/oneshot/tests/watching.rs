//! `watch`: the lines on standard output, the time of each flush, and the end of the stream.

use bursar_control::answers::ActivityRow;
use bursar_control::json_version::JsonVersion;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::more_fixtures::activity_rows;
use super::*;

/// A standard output that reports each flush with its text.
struct FlushRecorder {
    unflushed: Vec<u8>,
    flushes: UnboundedSender<String>,
}

impl Write for FlushRecorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unflushed.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8(std::mem::take(&mut self.unflushed)).unwrap();
        let _nobody_looks = self.flushes.send(text);
        Ok(())
    }
}

/// The engine's side of a scene, the output of the program, and the operator's Ctrl-C.
struct Stage {
    engine: TestEngine,
    printed: UnboundedReceiver<String>,
    out: String,
    interrupt: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Stage {
    /// Sends entries and waits until they are printed.
    async fn send_entries(&mut self, entries: Vec<ActivityRow>) {
        self.engine.send(&ToClient::Entries { id: 1, entries }).await;
        let patience = Duration::from_secs(600);
        let shown = tokio::time::timeout(patience, self.printed.recv()).await;
        self.out.push_str(&shown.expect("what was told is shown at once").unwrap());
    }
}

async fn watch<F>(
    line: &str,
    json: Option<JsonVersion>,
    script: impl FnOnce(Stage) -> F,
) -> RunOutcome
where
    F: Future<Output = Stage>,
{
    let (engine, link) = TestEngine::pair();
    let (tell, shown) = unbounded_channel();
    let (interrupt, interrupted) = tokio::sync::oneshot::channel::<()>();
    let mut stage =
        Stage { engine, printed: shown, out: String::new(), interrupt: Some(interrupt) };
    let options = Options { json, engine_running: true, ..Options::default() };
    let (mut out, mut err) = (FlushRecorder { unflushed: Vec::new(), flushes: tell }, Vec::new());
    let order = Order::parse_line(line).unwrap();
    let sent = ToEngine::Run { id: 1, order: Box::new(order.clone()), asking: Asking::Silent };
    let streams = Streams {
        out: &mut out,
        err: &mut err,
        stdin: Box::new(io::empty()),
        terminal: Arc::new(FakeTerminal::default()),
        interrupt: Box::pin(async {
            if interrupted.await.is_err() {
                std::future::pending().await
            }
        }),
    };
    let playing = async {
        assert_eq!(stage.engine.message().await, Some(sent));
        script(stage).await
    };
    let (exit, mut stage) = tokio::join!(run(link, order, &options, streams), playing);
    out.flush().unwrap();
    while let Ok(text) = stage.printed.try_recv() {
        stage.out.push_str(&text);
    }
    RunOutcome { exit, out: stage.out, err: String::from_utf8(err).unwrap() }
}

fn oldest_first() -> Vec<ActivityRow> {
    let mut rows = activity_rows();
    rows.reverse();
    rows
}

fn engine_gone_reply() -> Reply {
    let fault = Fault::because(Code::EngineDown, "The engine has stopped.");
    Reply { result: Err(fault), warnings: Vec::new(), secret: None }
}

#[tokio::test(start_paused = true)]
async fn watch_prints_each_entry_at_once_and_has_no_timeout() {
    let ran = watch("watch --since 997", None, async |mut stage: Stage| {
        for row in oldest_first() {
            tokio::time::sleep(Duration::from_millis(3 * SILENCE_MS_MAX)).await;
            stage.send_entries(vec![row]).await;
        }
        send_done(&mut stage.engine, engine_gone_reply()).await;
        stage
    });
    let ran = ran.await;
    let read = |line| serde_json::from_str::<ActivityRow>(line).unwrap();
    assert_eq!(ran.out.lines().map(read).collect::<Vec<_>>(), oldest_first());
    assert_snapshot("watch_engine_stopped", "watch --since 997", &ran);
}

/// With and without `--json`, no envelope appears among the lines.
#[tokio::test(start_paused = true)]
async fn ctrl_c_ends_watch_with_a_hint_to_resume() {
    for json in [None, Some(JsonVersion::One), Some(JsonVersion::Two)] {
        let ran = watch("watch", json, async |mut stage: Stage| {
            stage.send_entries(oldest_first().split_off(3)).await;
            stage.interrupt.take().unwrap().send(()).unwrap();
            assert_eq!(stage.engine.message().await, Some(ToEngine::Cancel { id: 1 }));
            assert_eq!(stage.engine.message().await, None);
            stage
        });
        let name = match json {
            Some(JsonVersion::One) => "watch_interrupted_1",
            Some(JsonVersion::Two) | None => "watch_interrupted",
        };
        assert_snapshot(name, "watch", &ran.await);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_lost_engine_names_the_entry_to_resume_from() {
    for (line, tells, hint) in [
        ("watch --since 7", false, "try: bursar watch --since 7\n"),
        ("watch --since 7", true, "try: bursar watch --since 1042\n"),
        ("watch", false, "try: bursar engine\n"),
    ] {
        let ran = watch(line, Some(JsonVersion::Two), async |mut stage: Stage| {
            if tells {
                stage.send_entries(oldest_first()).await;
            }
            stage.engine = TestEngine::pair().0;
            stage
        });
        let ran = ran.await;
        assert_eq!((ran.exit, ran.out.lines().count()), (3, if tells { 5 } else { 0 }));
        assert!(ran.err.contains(hint), "{line}: {}", ran.err);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_reports_a_refusal_on_standard_error() {
    let ran = watch("watch --since 9", Some(JsonVersion::Two), async |mut stage: Stage| {
        let fault = Fault::because(Code::BadInput, "This journal has 3 entries.");
        let reply = Reply { result: Err(fault), warnings: Vec::new(), secret: None };
        send_done(&mut stage.engine, reply).await;
        stage
    });
    let ran = ran.await;
    assert_eq!((ran.exit, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err, "bursar: This journal has 3 entries.\n");
}

#[tokio::test]
async fn watch_ends_silently_when_its_reader_closes() {
    struct ClosedOutput;
    impl Write for ClosedOutput {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut engine, link) = TestEngine::pair();
    let mut err = Vec::new();
    let streams = Streams {
        out: &mut ClosedOutput,
        err: &mut err,
        stdin: Box::new(io::empty()),
        terminal: Arc::new(FakeTerminal::default()),
        interrupt: Box::pin(std::future::pending()),
    };
    let options = Options::default();
    let script = async {
        engine.message().await;
        engine.send(&ToClient::Entries { id: 1, entries: oldest_first() }).await;
        assert_eq!(engine.message().await, None);
    };
    let order = Order::parse_line("watch").unwrap();
    let (exit, ()) = tokio::join!(run(link, order, &options, streams), script);
    assert_eq!((exit, err), (0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn watch_keeps_foreign_text_inside_its_json_line() {
    let evil = "a\",\"seq\":1}\n{\u{1b}[2J\u{9b}2J\u{202e}";
    let row = ActivityRow { detail: Some(evil.to_owned()), ..activity_rows().remove(0) };
    let ran = watch("watch", None, async |mut stage: Stage| {
        stage.send_entries(vec![row.clone()]).await;
        send_done(&mut stage.engine, engine_gone_reply()).await;
        stage
    });
    let ran = ran.await;
    assert!(ran.out.bytes().all(|b| b == b'\n' || (0x20..0x7f).contains(&b)), "{:?}", ran.out);
    assert_eq!(ran.out.lines().count(), 1);
    let read: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(read["detail"], evil);
}
