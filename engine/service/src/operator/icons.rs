//! The icons that a console draws next to balances.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_control::answers::{Answer, IconAnswer, IconsAnswer};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::support::Done;
use crate::context::EngineContext;

/// Returns the icons that are known, and starts the fetches of the others.
pub(super) fn list(engine: &EngineContext) -> Result<Done, Fault> {
    if !engine.settings.get().icons {
        let fault = Fault::because(Code::BadInput, "The setting `icons` is off.");
        return Err(fault.with_hint("config set icons true"));
    }
    let known = engine.funds.icons().fetch();
    let icons = known.read.iter().map(|((chain, token), pixels)| IconAnswer {
        chain_id: chain.0,
        token_address: token.to_checksum(None),
        rgba: STANDARD.encode(pixels.bytes()),
    });
    let answer = IconsAnswer { icons: icons.collect(), running: known.running };
    Ok(Answer::Icons(answer).into())
}
