//! Passwords and seed phrases from a source or from a person at the terminal, and prompts without an answer.

use bursar_control::wire::{Prompt, SecretPrompt};

use super::fixtures::PHRASE;
use super::prompts::{ask, end, run_unanswered, secret};
use super::*;

const PASSWORD: Prompt = Prompt::Secret { what: SecretPrompt::Password };
const NEW_PASSWORD: Prompt = Prompt::Secret { what: SecretPrompt::NewPassword };
const SEED: Prompt = Prompt::Secret { what: SecretPrompt::SeedPhrase };

#[tokio::test]
async fn a_password_is_asked_for_without_echo() {
    let scene = Scene::attended("wallet open", &["hunter2! "]);
    let terminal = scene.terminal.clone();
    assert_eq!(secret(scene, PASSWORD).await.1, "hunter2! ");
    assert_eq!(terminal.questions(), ["Password of the wallet: "]);
    let (_, phrase) = secret(Scene::attended("seed import", &[PHRASE]), SEED).await;
    assert_eq!(phrase, PHRASE);
    // The end of the input does not count as a password.
    assert_eq!(run_unanswered(Scene::attended("wallet open", &[]), PASSWORD).await.exit, 1);
}

/// Without a running engine `thaw` asks for the password twice: to open the wallet, and to confirm the action.
#[tokio::test]
async fn one_command_asks_for_the_same_password_once() {
    let scene = Scene::attended("thaw", &["hunter2!"]);
    let terminal = scene.terminal.clone();
    let ran = scene
        .run_against(|mut engine| async move {
            for _ in 0..2 {
                ask(&mut engine, PASSWORD).await;
                assert_eq!(engine.secret().await, "hunter2!");
            }
            end(&mut engine).await;
        })
        .await;
    assert_eq!((ran.exit, terminal.questions().len()), (0, 1));
}

#[tokio::test]
async fn a_new_password_is_long_enough_and_typed_twice() {
    let scene = Scene::attended(
        "wallet create m",
        &["short", "long enough", "long enouhg", "grüßgott", "grüßgott"],
    );
    let terminal = scene.terminal.clone();
    assert_eq!(secret(scene, NEW_PASSWORD).await.1, "grüßgott");
    assert_eq!(
        terminal.questions(),
        [
            "New password, at least 8 characters: ",
            "That is too short. New password, at least 8 characters: ",
            "Repeat the password: ",
            "The passwords differ. New password, at least 8 characters: ",
            "Repeat the password: ",
        ]
    );
    let scene = Scene::attended("wallet create m", &["a", "b", "c", "long enough"]);
    assert_eq!(run_unanswered(scene, NEW_PASSWORD).await.exit, Code::PasswordTooShort.exit());
}

#[tokio::test]
async fn missing_secret_without_a_terminal_names_the_option() {
    for (name, line, prompt) in [
        ("password_nobody", "wallet open", PASSWORD),
        ("new_password_nobody", "wallet create m", NEW_PASSWORD),
        ("seed_nobody", "seed import", SEED),
    ] {
        let ran = run_unanswered(Scene::of(line), prompt).await;
        assert_eq!(ran.exit, 8);
        assert_snapshot(name, line, &ran);
    }
    // A person is at the terminal, but `--no-input` forbids questions.
    let scene =
        Scene::attended("wallet open", &["hunter2!"]).with(|options| options.may_ask = false);
    assert_eq!(run_unanswered(scene, PASSWORD).await.exit, 8);
}

#[tokio::test]
async fn standard_input_gives_a_line_for_each_secret() {
    let stdin = |line, stdin| {
        let mut scene = Scene::of(line);
        scene.options.password = SecretSource::Stdin;
        scene.options.seed = SecretSource::Stdin;
        scene.stdin = stdin;
        scene
    };
    let ran = stdin("wallet passwd", "current\nthe new one\n")
        .run_against(|mut engine| async move {
            for (prompt, answer) in
                [(PASSWORD, "current"), (PASSWORD, "current"), (NEW_PASSWORD, "the new one")]
            {
                ask(&mut engine, prompt).await;
                assert_eq!(engine.secret().await, answer);
            }
            end(&mut engine).await;
        })
        .await;
    assert_eq!(ran.exit, 0);
    let ran = stdin("seed import", "password\nlegal winner\n")
        .run_against(|mut engine| async move {
            for (prompt, answer) in [(PASSWORD, "password"), (SEED, "legal winner")] {
                ask(&mut engine, prompt).await;
                assert_eq!(engine.secret().await, answer);
            }
            end(&mut engine).await;
        })
        .await;
    assert_eq!(ran.exit, 0);
    assert_eq!(run_unanswered(stdin("wallet open", ""), PASSWORD).await.exit, 2);
}

#[cfg(unix)]
fn password_file(folder: &tempfile::TempDir, mode: u32) -> SecretSource {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.path().join("password");
    // The file of another mode may be unwritable.
    let _no_other = std::fs::remove_file(&path);
    std::fs::write(&path, "hunter2!\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    SecretSource::File(path)
}

#[cfg(unix)]
#[tokio::test]
async fn a_password_file_answers_unless_others_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let from = |line, mode| Scene::of(line).with(|o| o.password = password_file(&folder, mode));
    assert_eq!(secret(from("wallet open", 0o600), PASSWORD).await.1, "hunter2!");
    assert_eq!(secret(from("wallet create m", 0o400), NEW_PASSWORD).await.1, "hunter2!");
    let ran = run_unanswered(from("wallet open", 0o644), PASSWORD).await;
    assert_eq!(ran.exit, 13);
    assert!(ran.err.contains("chmod 600") && !ran.err.contains("hunter2"), "{}", ran.err);
}

/// If the file gave the new password, too, `wallet passwd --password-file` would set the same password again.
#[cfg(unix)]
#[tokio::test]
async fn password_file_gives_the_current_password_but_not_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Scene::of("wallet passwd")
        .with(|options| options.password = password_file(&folder, 0o600))
        .run_against(|mut engine| async move {
            ask(&mut engine, PASSWORD).await;
            assert_eq!(engine.secret().await, "hunter2!");
            ask(&mut engine, NEW_PASSWORD).await;
            assert_eq!(engine.message().await, Some(ToEngine::Cancel { id: 1 }));
        })
        .await;
    assert_eq!(ran.exit, 8);
    assert!(ran.err.contains("two lines"), "{}", ran.err);
}

#[cfg(unix)]
#[tokio::test]
async fn repeated_password_prompts_are_answered_three_times_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Scene::of("thaw")
        .with(|options| options.password = password_file(&folder, 0o600))
        .run_against(|mut engine| async move {
            for _ in 0..3 {
                ask(&mut engine, PASSWORD).await;
                assert_eq!(engine.secret().await, "hunter2!");
            }
            ask(&mut engine, PASSWORD).await;
            assert_eq!(engine.message().await, Some(ToEngine::Cancel { id: 1 }));
        })
        .await;
    assert_eq!(ran.exit, 8);
}
