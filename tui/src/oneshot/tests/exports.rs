//! `history export`: the parts become a complete file of the caller, or no file remains.

use std::path::Path;

use bursar_control::answers::ExportAnswer;

use super::*;

fn leak(line: String) -> &'static str {
    Box::leak(line.into_boxed_str())
}

async fn part(engine: &mut TestEngine, text: &str) {
    engine.send(&ToClient::Part { id: 1, text: text.to_owned() }).await;
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test]
async fn export_parts_become_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    let shown = file.display().to_string();
    let answer = Answer::Exported(ExportAnswer { file: shown.clone(), rows: 2 });
    let ran = Scene::of(leak(format!("history export {shown}")))
        .run_against(|mut engine| async move {
            part(&mut engine, "id\r\n").await;
            part(&mut engine, "1\r\n2\r\n").await;
            send_done(&mut engine, ok_reply(answer)).await;
        })
        .await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "id\r\n1\r\n2\r\n");
    let shown = |text: &str| text.replace(folder.path().to_str().unwrap(), "/home/op");
    let ran = RunOutcome { exit: ran.exit, out: shown(&ran.out), err: shown(&ran.err) };
    assert_snapshot("exported", "history export a.csv", &ran);
}

#[tokio::test]
async fn failed_or_interrupted_export_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let line = leak(format!("history export {}", folder.path().join("a.csv").display()));
    let fault = Fault::because(Code::JournalDamaged, "a record is damaged");
    let reply = Reply { result: Err(fault), warnings: vec![], secret: None };
    let ran = Scene::of(line)
        .run_against(|mut engine| async move {
            part(&mut engine, "half").await;
            send_done(&mut engine, reply).await;
        })
        .await;
    assert_eq!(ran.exit, 13);
    assert!(is_empty(folder.path()));

    let ran = Scene::of(line).run_against(|mut engine| async move { part(&mut engine, "x").await });
    assert_eq!(ran.await.exit, 3);
    assert!(is_empty(folder.path()));
}

#[tokio::test]
async fn export_is_named_when_complete_and_never_replaces_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    let line = leak(format!("history export {}", file.display()));
    let other = file.clone();
    let ran = Scene::of(line)
        .run_against(|mut engine| async move {
            part(&mut engine, "half").await;
            assert!(
                !other.exists(),
                "a program that is killed now leaves no file that looks whole"
            );
            std::fs::write(&other, "mine").unwrap();
            let shown = other.display().to_string();
            send_done(
                &mut engine,
                ok_reply(Answer::Exported(ExportAnswer { file: shown, rows: 1 })),
            )
            .await;
        })
        .await;
    assert_eq!(ran.exit, 10, "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "ours is gone");
}

#[tokio::test]
async fn existing_export_file_is_refused_before_the_engine_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    std::fs::write(&file, "mine").unwrap();
    let line = leak(format!("history export {}", file.display()));
    let ran = Scene::of(line)
        .run_against(|mut engine| async move { assert_eq!(engine.message().await, None) })
        .await;
    assert_eq!(ran.exit, 10, "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}
