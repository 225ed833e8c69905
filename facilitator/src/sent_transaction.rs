//! Simulates the exact transaction that would be sent for a job. The code of a signing account or of a token can read
//! its gas limit. In a simulation with another limit, such code could succeed and then fail in the transaction, at our
//! signer's cost.

use bursar_chain::ports::Question;

use crate::contract_call::ContractCall;
use crate::job::Job;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, Reads, call_question};
use crate::reason::Reason;
use crate::transaction;
use crate::verify::VerifyError;

/// Returns the question that simulates the transaction of a job alone, and the gas limit of that transaction. `None` if
/// the gas exceeds the highest gas limit of a transaction.
pub(crate) fn question(network: &NetworkContext, job: &Job) -> Option<(Question, u64)> {
    let gas = transaction::gas(&network.contracts, &[job], network.config.gas_cap_contract)?;
    let sent = transaction::call(&network.contracts, &[job], gas);
    let from = network.simulated_sender(job.work().sender());
    Some((call_question(from, ContractCall { to: sent.to, data: sent.data }, gas), gas))
}

/// Simulates the transaction of a job if the code of an account that signed or of an untrusted token runs. Returns the
/// gas limit.
///
/// # Errors
/// [`VerifyError`]: `failed` if the transaction would fail.
pub(crate) async fn check(
    network: &NetworkContext,
    job: &Job,
    failed: Reason,
) -> Result<u64, VerifyError> {
    let (question, gas) = question(network, job).ok_or_else(|| VerifyError::from(failed))?;
    if !job.work().runs_foreign_code() && network.trusts_token(job.work().moved_amount().token) {
        return Ok(gas);
    }
    let wanted = Reads { exact_question: Some(question), ..Reads::default() };
    match reads::read(network, wanted, Priority::Batched).await?.exact_revert {
        Some(_revert) => Err(failed.into()),
        None => Ok(gas),
    }
}
