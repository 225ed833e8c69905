//! Secrets that a command returns are shown only in the right place.

use bursar_control::answers::*;
use bursar_control::json_version::JsonVersion;

use super::fixtures::*;
use super::*;

const TOKEN: &str = "AT_9vQ2xYzKk3";

fn with_secret(answer: Answer, field: SecretField) -> Reply {
    Reply { secret: Some(field), ..ok_reply(answer) }
}

async fn run_with_secret(scene: Scene, secret: &'static str, reply: Reply) -> RunOutcome {
    scene
        .run_against(|mut engine| async move {
            engine.send_secret(1, secret).await;
            send_done(&mut engine, reply).await;
        })
        .await
}

#[tokio::test]
async fn credentials_are_the_environment_of_the_agent() {
    let line = "agent register 'report bot'";
    let reply = || with_secret(Answer::Credentials(credentials()), SecretField::Token);
    let ran = run_with_secret(Scene::of(line), TOKEN, reply()).await;
    assert_snapshot("credentials", line, &ran);
    let json = Scene::of(line).with(|options| options.json = Some(JsonVersion::Two));
    let ran = run_with_secret(json, TOKEN, reply()).await;
    assert_snapshot("credentials_json", "--json agent register 'report bot'", &ran);

    let line = "agent instructions 'report bot'";
    let ran = Scene::of(line).run_with_reply(ok_reply(Answer::Credentials(credentials()))).await;
    assert_snapshot("credentials_without_token", line, &ran);
    let json = Scene::of(line).with(|options| options.json = Some(JsonVersion::Two));
    let ran = json.run_with_reply(ok_reply(Answer::Credentials(credentials()))).await;
    assert_snapshot(
        "credentials_without_token_json",
        "--json agent instructions 'report bot'",
        &ran,
    );
}

#[tokio::test]
async fn credentials_never_name_the_address_of_another_program() {
    let line = "agent register 'report bot'";
    let early = CredentialsAnswer { serving: false, ..credentials() };
    let reply = with_secret(Answer::Credentials(early), SecretField::Token);
    let ran = run_with_secret(Scene::of(line), TOKEN, reply).await;
    assert!(ran.out.contains("# The server is not running. Start it with: bursar"), "{}", ran.out);

    let url_unknown_reason = Some("another program listens on 127.0.0.1:9402\nx=1".into());
    let taken =
        CredentialsAnswer { url: None, url_unknown_reason, serving: false, ..credentials() };
    let reply = with_secret(Answer::Credentials(taken), SecretField::Token);
    let ran = run_with_secret(Scene::of(line), TOKEN, reply).await;
    assert!(ran.out.contains("\n# WALLET_URL: another program listens on 127.0.0.1:9402"));
    assert!(ran.out.contains("\nunset WALLET_URL\n") && !ran.out.contains("export WALLET_URL"));
    assert!(!ran.out.contains("\nx=1"), "{}", ran.out);
}

#[tokio::test]
async fn failed_credentials_command_warns_an_evaluating_shell() {
    for (line, told) in [("agent instructions b", true), ("agent list", false)] {
        let reply = Reply {
            result: Err(Fault::new(Code::WalletLocked)),
            ..ok_reply(Answer::Frozen { frozen: true })
        };
        let ran = Scene::of(line).run_with_reply(reply).await;
        assert_eq!(ran.err.contains("Nothing was exported"), told, "{}", ran.err);
        assert_eq!(ran.out, "");
    }
}

#[tokio::test]
async fn a_token_cannot_become_a_command() {
    let reply = with_secret(Answer::Credentials(credentials()), SecretField::Token);
    let ran = run_with_secret(Scene::of("agent register b"), "a'$(reboot)", reply).await;
    assert!(ran.out.contains("\nexport WALLET_AGENT_TOKEN=\"a'\"'$(reboot)'\n"), "{}", ran.out);
    let reply = with_secret(Answer::Credentials(credentials()), SecretField::Token);
    let ran = run_with_secret(Scene::of("agent register b"), "a\nreboot", reply).await;
    assert!(!ran.out.contains("reboot"), "{}", ran.out);
}

#[tokio::test]
async fn a_seed_phrase_is_shown_on_a_terminal() {
    let reply = with_secret(Answer::Seed(seed()), SecretField::Phrase);
    let ran = run_with_secret(Scene::of("seed create"), PHRASE, reply).await;
    assert_snapshot("seed_created", "seed create", &ran);
}

#[tokio::test]
async fn a_seed_phrase_goes_elsewhere_only_when_revealed() {
    let reveal = |json| {
        Scene::of("seed create").with(|options| {
            (options.reveal, options.json, options.out_is_terminal) = (true, json, false);
        })
    };
    let reply = || with_secret(Answer::Seed(seed()), SecretField::Phrase);
    let ran = run_with_secret(reveal(Some(JsonVersion::Two)), PHRASE, reply()).await;
    assert_snapshot("seed_created_json", "--json --reveal seed create", &ran);
    let ran = run_with_secret(reveal(None), PHRASE, reply()).await;
    assert!(ran.out.contains("1  legal"), "{}", ran.out);
}

/// The command is refused before the engine receives the order, because a phrase that was never shown would be lost.
#[tokio::test]
async fn seed_is_not_created_if_its_words_cannot_be_shown() {
    for (name, json) in
        [("seed_unshowable_json", Some(JsonVersion::Two)), ("seed_unshowable", None)]
    {
        let scene = Scene::of("seed create").with(|options| {
            (options.json, options.out_is_terminal) = (json, false);
        });
        let ran =
            scene.run_against(|mut engine| async move { assert_eq!(engine.message().await, None) });
        let ran = ran.await;
        assert_eq!(ran.exit, 8);
        assert_snapshot(
            name,
            if json.is_some() { "--json seed create" } else { "seed create > file" },
            &ran,
        );
    }
    let ran = Scene::of("seed create").with(|options| options.json = Some(JsonVersion::Two));
    let ran = ran.run_against(|mut engine| async move { assert_eq!(engine.message().await, None) });
    assert_eq!(ran.await.exit, 8);
}

/// A newer engine may return a phrase for an order for which this program does not expect one.
#[tokio::test]
async fn unrequested_seed_phrase_is_withheld() {
    let scene = Scene::of("seed import").with(|options| options.json = Some(JsonVersion::Two));
    let reply = with_secret(Answer::Seed(seed()), SecretField::Phrase);
    let ran = run_with_secret(scene, PHRASE, reply).await;
    assert!(!ran.out.contains("legal") && !ran.err.contains("legal"), "{ran:?}");
    assert_snapshot("phrase_withheld", "--json seed import", &ran);
}

#[tokio::test]
async fn the_secret_of_another_command_is_not_shown() {
    let reply = with_secret(Answer::Credentials(credentials()), SecretField::Token);
    let ran = Scene::of("agent register b")
        .run_against(|mut engine| async move {
            engine.send_secret(2, TOKEN).await;
            send_done(&mut engine, reply).await;
        })
        .await;
    assert!(!ran.out.contains(TOKEN), "{}", ran.out);
}
