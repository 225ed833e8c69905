//! The client's side of the mutual proof: each side proves that it knows the token of the data folder without
//! sending it. The client sends its proof only after the engine's proof was valid.

use std::time::Duration;

use bursar_control::wire::{self, PROTOCOL, Side, ToClient, ToEngine};
use bursar_core::client::Program;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::HANDSHAKE_TIMEOUT_MS;

use super::{Link, Received};
use crate::VERSION;

pub(super) async fn prove(link: &mut Link, token: &str, program: Program) -> Result<(), Fault> {
    let limit = Duration::from_millis(HANDSHAKE_TIMEOUT_MS);
    match tokio::time::timeout(limit, exchange(link, token, program)).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => {
            let message = "The engine did not finish the handshake within 5 seconds: try again.";
            Err(Fault::because(Code::EngineDown, message))
        }
    }
}

async fn exchange(link: &mut Link, token: &str, program: Program) -> Result<(), Fault> {
    let ours = nonce()?;
    let (version, nonce) = (VERSION.to_owned(), ours.clone());
    let hello = ToEngine::Hello { protocol: PROTOCOL, version, nonce, program };
    link.send(&hello).await?;
    let theirs = match answer(link).await? {
        ToClient::Hello { protocol, version, .. } if protocol != PROTOCOL => {
            return Err(mismatch(protocol, &version));
        }
        ToClient::Hello { nonce, proof, .. } => {
            let expected = wire::proof(token, Side::Engine, &ours, &nonce);
            if !wire::proof_matches(&expected, &proof) {
                return Err(impostor());
            }
            nonce
        }
        other => return Err(unexpected_message(other)),
    };
    let proof = wire::proof(token, Side::Client, &ours, &theirs);
    link.send(&ToEngine::Proof { proof }).await?;
    match answer(link).await? {
        ToClient::Welcome => Ok(()),
        other => Err(unexpected_message(other)),
    }
}

/// Returns 32 random bytes in hex, so that a recorded handshake cannot be replayed.
fn nonce() -> Result<String, Fault> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    Ok(hex::encode(bytes))
}

async fn answer(link: &mut Link) -> Result<ToClient, Fault> {
    match link.receive().await? {
        Received::Message(message) => Ok(message),
        Received::Secret { .. } => Err(super::not_understood()),
    }
}

fn mismatch(protocol: u32, version: &str) -> Fault {
    let message = format!(
        "The running engine has version {version} (protocol {protocol}), and this program has version {VERSION} \
         (protocol {PROTOCOL}): restart the engine with this program."
    );
    Fault::because(Code::VersionMismatch, message)
}

fn impostor() -> Fault {
    let message = "The program on the engine's socket does not know this data folder's token; no command was \
         sent to it. Stop that program, then start `bursar engine`.";
    Fault::because(Code::AuthFailed, message)
}

fn unexpected_message(message: ToClient) -> Fault {
    match message {
        ToClient::Refused { fault } => fault,
        ToClient::Hello { .. }
        | ToClient::Welcome
        | ToClient::Progress { .. }
        | ToClient::Part { .. }
        | ToClient::Entries { .. }
        | ToClient::Prompt { .. }
        | ToClient::Done { .. } => super::not_understood(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_engine::TestEngine;

    const TOKEN: &str = "5ecre7";

    /// Runs the client against an engine side that follows `script`.
    async fn prove_against<F>(script: impl FnOnce(TestEngine) -> F) -> Result<(), Fault>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (engine, mut link) = TestEngine::pair();
        let playing = tokio::spawn(script(engine));
        let outcome = prove(&mut link, TOKEN, Program::Console).await;
        drop(link);
        playing.await.unwrap();
        outcome
    }

    async fn hello(engine: &mut TestEngine) -> String {
        match engine.message().await {
            Some(ToEngine::Hello {
                protocol: PROTOCOL,
                version,
                nonce,
                program: Program::Console,
            }) => {
                assert_eq!((version.as_str(), nonce.len()), (VERSION, 64));
                nonce
            }
            other => panic!("{other:?}"),
        }
    }

    async fn greet(engine: &mut TestEngine, token: &str, protocol: u32) -> String {
        let client = hello(engine).await;
        let proof = wire::proof(token, Side::Engine, &client, "e");
        let (version, nonce) = ("9.9.9".to_owned(), "e".to_owned());
        engine.send(&ToClient::Hello { protocol, version, nonce, proof }).await;
        client
    }

    #[tokio::test]
    async fn both_sides_prove_the_token() {
        let outcome = prove_against(|mut engine| async move {
            let client = greet(&mut engine, TOKEN, PROTOCOL).await;
            let expected = wire::proof(TOKEN, Side::Client, &client, "e");
            assert_eq!(engine.message().await, Some(ToEngine::Proof { proof: expected }));
            engine.send(&ToClient::Welcome).await;
        });
        assert_eq!(outcome.await, Ok(()));
    }

    #[tokio::test]
    async fn impostor_receives_no_client_proof() {
        let outcome = prove_against(|mut engine| async move {
            greet(&mut engine, "another token", PROTOCOL).await;
            assert_eq!(engine.message().await, None);
        });
        assert_eq!(outcome.await.unwrap_err().code, Code::AuthFailed);
    }

    #[tokio::test]
    async fn echoed_client_proof_is_rejected() {
        let outcome = prove_against(|mut engine| async move {
            let client = hello(&mut engine).await;
            let proof = wire::proof(TOKEN, Side::Client, &client, "e");
            let (version, nonce) = ("9.9.9".to_owned(), "e".to_owned());
            engine.send(&ToClient::Hello { protocol: PROTOCOL, version, nonce, proof }).await;
        });
        assert_eq!(outcome.await.unwrap_err().code, Code::AuthFailed);
    }

    #[tokio::test]
    async fn another_protocol_names_both_versions() {
        let outcome = prove_against(|mut engine| async move {
            greet(&mut engine, TOKEN, PROTOCOL + 1).await;
        });
        let fault = outcome.await.unwrap_err();
        assert_eq!(fault.code, Code::VersionMismatch);
        assert!(fault.message.contains(&format!("9.9.9 (protocol {})", PROTOCOL + 1)), "{fault}");
        assert!(fault.message.contains(&format!("{VERSION} (protocol {PROTOCOL})")), "{fault}");
    }

    #[tokio::test]
    async fn a_refusal_of_the_engine_is_passed_on() {
        let outcome = prove_against(|mut engine| async move {
            greet(&mut engine, TOKEN, PROTOCOL).await;
            engine.message().await;
            engine.send(&ToClient::Refused { fault: Fault::new(Code::AuthFailed) }).await;
        });
        assert_eq!(outcome.await, Err(Fault::new(Code::AuthFailed)));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_engine_times_out_in_the_handshake() {
        let outcome = prove_against(|mut engine| async move {
            hello(&mut engine).await;
            assert_eq!(engine.message().await, None);
        });
        let fault = outcome.await.unwrap_err();
        assert_eq!(fault.code, Code::EngineDown);
        assert!(fault.message.contains("5 seconds"), "{fault}");
    }
}
