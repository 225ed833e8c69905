//! Prompts of the engine: the source of the answer, and the result if there is none.

use bursar_control::answers::*;
use bursar_control::card_text;
use bursar_control::wire::Prompt;

use super::fixtures::*;
use super::*;

fn confirm() -> Prompt {
    let lines = card_text::lines(&card("https://api.example.com/\x1b[2J"));
    Prompt::Confirm { lines, question: "Approve 1.500000 USDC?".into() }
}

fn amount() -> Prompt {
    Prompt::TypeAmount { lines: vec!["a large one".into()], amount: "1500.00".into() }
}

pub(super) async fn ask(engine: &mut TestEngine, prompt: Prompt) {
    engine.send(&ToClient::Prompt { id: 1, prompt }).await;
}

pub(super) async fn end(engine: &mut TestEngine) {
    send_done(engine, ok_reply(Answer::Frozen { frozen: true })).await;
}

/// Sends one prompt, and returns the secret that answers it.
pub(super) async fn secret(scene: Scene, prompt: Prompt) -> (RunOutcome, String) {
    let (tell, told) = tokio::sync::oneshot::channel();
    let ran = scene
        .run_against(|mut engine| async move {
            ask(&mut engine, prompt).await;
            tell.send(engine.secret().await).unwrap();
            end(&mut engine).await;
        })
        .await;
    (ran, told.await.unwrap())
}

/// Sends one prompt that stays unanswered: the command must end and send a cancellation to the engine.
pub(super) async fn run_unanswered(scene: Scene, prompt: Prompt) -> RunOutcome {
    scene
        .run_against(|mut engine| async move {
            ask(&mut engine, prompt).await;
            assert_eq!(engine.message().await, Some(ToEngine::Cancel { id: 1 }));
        })
        .await
}

#[tokio::test]
async fn a_yes_is_typed_and_enter_alone_means_no() {
    for (typed, yes) in [("y", true), ("YES", true), ("", false), ("n", false), ("yess", false)] {
        let scene = Scene::attended("approve 0123abcd", &[typed]);
        let terminal = scene.terminal.clone();
        let ran = scene
            .run_against(move |mut engine| async move {
                ask(&mut engine, confirm()).await;
                assert_eq!(
                    engine.message().await,
                    Some(ToEngine::Answer { id: 1, yes }),
                    "{typed}"
                );
                send_done(&mut engine, ok_reply(Answer::Decided(decided("signed")))).await;
            })
            .await;
        // The card is shown with the question, and nowhere else.
        let [asked] = terminal.questions().try_into().unwrap();
        assert!(asked.ends_with("\nApprove 1.500000 USDC? [y/N] "), "{asked}");
        assert!(asked.contains("leaves") && !asked.contains('\x1b'), "{asked}");
        assert!(!ran.out.contains("leaves") && ran.err.is_empty(), "{ran:?}");
    }
}

#[tokio::test]
async fn yes_option_approves_and_a_missing_answer_does_not() {
    let agreed = Scene::of("approve 0123abcd").with(|options| options.asking = Asking::Agreed);
    let ran = agreed
        .run_against(|mut engine| async move {
            ask(&mut engine, confirm()).await;
            assert_eq!(engine.message().await, Some(ToEngine::Answer { id: 1, yes: true }));
            end(&mut engine).await;
        })
        .await;
    assert_eq!(ran.exit, 0);

    let ran = run_unanswered(Scene::of("approve 0123abcd"), confirm()).await;
    assert_eq!(ran.exit, 8);
    assert_snapshot("confirm_nobody", "--no-input approve 0123abcd", &ran);
    let mut unattended = Scene::attended("approve 0123abcd", &[]);
    unattended.terminal = Arc::default();
    assert_eq!(run_unanswered(unattended, confirm()).await.exit, 8);
}

#[tokio::test]
async fn amount_prompt_needs_a_terminal_or_the_confirm_option() {
    let scene = Scene::attended("approve 0123abcd", &["1500.00"]);
    let terminal = scene.terminal.clone();
    assert_eq!(secret(scene, amount()).await.1, "1500.00");
    assert_eq!(terminal.questions(), ["a large one\nType the amount to confirm it (1500.00): "]);

    for asking in [Asking::Silent, Asking::Agreed] {
        let scene = Scene::of("approve 0123abcd").with(|options| options.asking = asking);
        let ran = run_unanswered(scene, amount()).await;
        assert_eq!(ran.exit, 8);
        assert!(ran.err.contains("--confirm <amount>"), "{}", ran.err);
    }
}
