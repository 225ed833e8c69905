//! Revokes allowances by ordinary transactions of the operator.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_control::answers::AllowanceAnswer;
use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::NATIVE_DECIMALS;
use bursar_core::text;
use bursar_domain::Action;
use bursar_domain::outboxes::Send;
use bursar_submit::Call;

use super::revocable_allowance::RevocableAllowance;
use crate::context::EngineContext;
use crate::lanes::allowances::revocation_of;
use crate::operator::dialogue::Dialogue;
use crate::operator::sends::plan::gas_plan;
use crate::operator::sends::{describe, find, wait};
use crate::operator::support::{act, rehearse, require_trusted_journal};

/// Sets the allowances to zero, one after the other, and writes the outcome of each into `answers`.
pub(super) async fn revoke(
    engine: &Arc<EngineContext>,
    found: &[RevocableAllowance],
    answers: &mut [AllowanceAnswer],
    yes: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    if found.is_empty() {
        return Ok(());
    }
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    require_trusted_journal(engine)?;
    let mut planned = Vec::with_capacity(found.len());
    let mut lines = Vec::new();
    for (one, answer) in found.iter().zip(answers) {
        match plan(engine, one, dialogue).await {
            Ok((send, cost)) => {
                lines.push(confirmation_line(one, answer, cost));
                planned.push((send, answer));
            }
            Err(fault) => answer.outcome = Some(format!("no: {}", fault.message)),
        }
    }
    if planned.is_empty() {
        return Ok(());
    }
    confirm(lines, yes, dialogue).await?;
    for (send, answer) in planned {
        let id = send.id;
        // A plan that uses the allowance may have started since the rehearsal.
        if let Err(fault) = act(engine, Action::Send(Box::new(send))).await {
            answer.outcome = Some(format!("no: {}", fault.message));
            continue;
        }
        wait(engine, id, dialogue).await;
        let state = &engine.core.view().state;
        let now = describe(engine, &*find(state, &id.to_string())?);
        answer.outcome = Some(now.told);
        answer.status = Some(now.status);
        answer.tx_hash = now.tx_hash;
    }
    Ok(())
}

async fn confirm(
    mut lines: Vec<String>,
    yes: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    lines.push(
        "note       each is a transaction of its own, and no policy limit applies".to_owned(),
    );
    match (yes, dialogue.asking()) {
        (true, _) | (false, Asking::Agreed) => Ok(()),
        (false, Asking::Interactive | Asking::DryRun) => {
            dialogue.confirm(lines, "Take them back?").await
        }
        (false, Asking::Silent) => Err(Fault::because(
            Code::ConfirmationNeeded,
            "There is no terminal to ask on: check `allowances`, then add --yes.",
        )
        .with_hint("allowances")),
    }
}

fn confirmation_line(found: &RevocableAllowance, answer: &AllowanceAnswer, cost: U256) -> String {
    let symbol = text::quoted(&found.token.symbol, 16);
    let gas = TokenAmount { atoms: Atoms(cost), decimals: NATIVE_DECIMALS }.plain();
    format!(
        "take back  {symbol} of {} from {} on {}, gas at most {gas} {}",
        answer.label, answer.spender_name, answer.network, found.network.native
    )
}

/// Builds the transaction. Returns it with its maximum cost in wei.
async fn plan(
    engine: &Arc<EngineContext>,
    found: &RevocableAllowance,
    dialogue: &dyn Dialogue,
) -> Result<(Send, U256), Fault> {
    let RevocableAllowance { known, network, allowance, token } = found;
    let chain = engine.ports.chains.get(&network.chain);
    let chain = chain.ok_or(Fault::new(Code::ChainUnavailable))?;
    let revocation = revocation_of(network, allowance).ok_or(Fault::new(Code::InternalError))?;
    let (to, value, data) = (revocation.to, revocation.value, revocation.data);
    let mut call = Call { to, value, data, gas_limit: 0 };
    let gas = gas_plan(&*chain, network, known.address, &call).await?;
    call.gas_limit = gas.limit;
    let symbol = match token.verified {
        true => token.symbol.clone(),
        false => text::quoted(&token.symbol, 16),
    };
    let send = Send {
        id: RequestId::from_entropy(engine.random()?),
        label: known.label.clone(),
        from: known.address,
        chain: network.chain,
        token: Some(allowance.token),
        symbol,
        to: allowance.spender,
        amount: TokenAmount { atoms: Atoms::default(), decimals: token.decimals.unwrap_or(0) },
        call,
        gas_price_max: gas.gas_price_max,
        by: dialogue.client(),
    };
    // If a running plan uses the allowance, refuse before the operator is prompted.
    rehearse(engine, Action::Send(Box::new(send.clone())))?;
    Ok((send, gas.max_cost))
}
