//! `bursar mandate verify`: checks a mandate of any issuer, without an engine, a data folder or a network.

use alloy_primitives::U256;
use bursar_control::answers::{Answer, MandateCheckAnswer};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::text;
use bursar_mandate::{BYTES_MAX, Presented, read};

use crate::cli::GlobalOptions;
use crate::document;

const COMMAND: &str = "mandate.verify";

/// Checks the file, or standard input for `-`, and returns the exit code.
pub(crate) fn verify(global: &GlobalOptions, file: &str) -> u8 {
    document::report(COMMAND, global, check(file))
}

fn check(file: &str) -> Result<Answer, Fault> {
    let bytes = document::read(file, BYTES_MAX)?;
    let presented = read(&bytes).map_err(|unreadable| {
        let message = format!("{} is not a mandate: {unreadable}.", text::snippet(file));
        Fault::because(Code::BadInput, message)
    })?;
    Ok(Answer::MandateCheck(Box::new(answer(presented))))
}

fn answer(presented: Presented) -> MandateCheckAnswer {
    let (good, meaning) = (presented.is_good(), presented.meaning().to_owned());
    let statement = presented.statement;
    let decimals = statement.decimals;
    let amount = |units: Option<u64>| {
        let (units, decimals) = (units?, decimals?);
        Some(TokenAmount { atoms: Atoms(U256::from(units)), decimals }.to_string())
    };
    let [registry_id, registry_url] = presented.registry;
    MandateCheckAnswer {
        good,
        defects: presented.defects.iter().map(ToString::to_string).collect(),
        meaning,
        id: statement.id,
        issued: statement.issued,
        issuer: statement.issuer,
        agent: statement.agent,
        fingerprint: statement.fingerprint,
        policy_id: statement.policy_id,
        currency: statement.currency,
        daily: amount(statement.daily),
        per_request: amount(statement.per_request),
        auto_below: amount(statement.auto_below),
        networks: statement.networks,
        wallet: statement.wallet.map(|wallet| wallet.to_checksum(None)),
        signer: presented.signer.map(|signer| signer.to_checksum(None)),
        registry_id,
        registry_url,
    }
}
