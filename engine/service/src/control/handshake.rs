//! The handshake: both sides prove that they know the token, and neither sends it. A program that replaced the socket
//! cannot learn the token.

use bursar_control::wire::{Frame, PROTOCOL, Side, ToClient, ToEngine, proof, proof_matches};
use bursar_core::client::Program;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::CONTROL_SESSIONS_MAX;

use tokio::sync::OwnedSemaphorePermit;

use super::channel::{Channel, SessionError};
use super::connection_limits::UnprovenConnection;

/// Runs the engine's side of the handshake. Returns the program and its slot.
///
/// A client without the token receives only the engine's hello and the refusal of its proof. A proven client names
/// its own kind of program; the engine does not verify it.
///
/// # Errors
/// The proof is wrong, the protocol differs, all slots are taken, or the stream failed.
pub(super) async fn accept(
    channel: &mut Channel,
    token: &str,
    nonce: &str,
    unproven: &UnprovenConnection,
) -> Result<(Program, OwnedSemaphorePermit), SessionError> {
    let hello = next_message(channel).await?;
    let ToEngine::Hello { protocol, version: theirs, nonce: client, program } = hello else {
        return Err(SessionError::Malformed);
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    channel
        .send(&ToClient::Hello {
            protocol: PROTOCOL,
            version: version.clone(),
            nonce: nonce.to_owned(),
            proof: proof(token, Side::Engine, &client, nonce),
        })
        .await?;
    let ToEngine::Proof { proof: given } = next_message(channel).await? else {
        return Err(SessionError::Malformed);
    };
    if !proof_matches(&proof(token, Side::Client, &client, nonce), &given) {
        let fault = Fault::because(Code::AuthFailed, "The control token is wrong.");
        channel.send(&ToClient::Refused { fault }).await?;
        return Err(SessionError::Refused);
    }
    if protocol != PROTOCOL {
        let fault = Fault::because(
            Code::VersionMismatch,
            format!("This engine is {version}, your program is {theirs}: restart the engine."),
        );
        channel.send(&ToClient::Refused { fault }).await?;
        return Err(SessionError::Refused);
    }
    let Some(slot) = unproven.take_proven_slot() else {
        let message = format!(
            "{CONTROL_SESSIONS_MAX} programs are attached to the engine, which is the maximum: end one."
        );
        channel.send(&ToClient::Refused { fault: Fault::because(Code::Busy, message) }).await?;
        return Err(SessionError::Refused);
    };
    channel.send(&ToClient::Welcome).await?;
    Ok((program, slot))
}

async fn next_message(channel: &mut Channel) -> Result<ToEngine, SessionError> {
    match channel.next().await? {
        Some(frame @ Frame::Json(_)) => frame.message().map_err(|_error| SessionError::Malformed),
        Some(Frame::Secret { .. }) | None => Err(SessionError::Malformed),
    }
}
