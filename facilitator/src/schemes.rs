//! All schemes, and the entry points that choose one.

use bursar_core::networks::{self, ChainId};
use bursar_x402::settlement::SettlementRequest;

use crate::batch::{
    BatchSettlement, claim_proposal, deposit_proposal, refund_proposal, sweep_proposal,
};
use crate::exact::Exact;
use crate::job::Job;
use crate::network::NetworkContext;
use crate::reason::{Reason, Rejection};
use crate::scheme::Scheme;
use crate::transfer::approval::AllowanceRule;
use crate::transfer::check;
use crate::upto::Upto;
use crate::verify::VerifyError;

/// All schemes, in the order in which `/supported` lists them.
pub static SCHEMES: [&dyn Scheme; 3] = [&Exact, &Upto, &BatchSettlement];

/// The scheme and the network that a request is for.
///
/// # Errors
/// [`Rejection`]: the scheme or the network is unknown, or the payment names another scheme or network than the
/// requirements.
pub fn scheme_and_network(
    request: &SettlementRequest,
) -> Result<(&'static dyn Scheme, ChainId), Rejection> {
    let requirements = &request.requirements;
    let is_named = |scheme: &&&dyn Scheme| {
        scheme.name() == requirements.scheme && scheme.versions().contains(&request.version)
    };
    let scheme = *SCHEMES.iter().find(is_named).ok_or(Reason::UnsupportedScheme)?;
    let (other_scheme, other_network) = scheme.mismatch_reasons();
    if request.paid_scheme.as_ref().is_some_and(|paid| *paid != requirements.scheme) {
        return Err(other_scheme.into());
    }
    let row =
        networks::by_id_or_v1_name(&requirements.network).ok_or(Reason::UnsupportedNetwork)?;
    let paid = request.paid_network.as_deref().map(networks::by_id_or_v1_name);
    match paid {
        Some(Some(paid)) if paid.chain == row.chain => Ok((scheme, row.chain)),
        None => Ok((scheme, row.chain)),
        Some(_another) => Err(other_network.into()),
    }
}

/// Whether a scheme is offered on a network: it is configured, and all its contracts were found there.
///
/// It asks no node. Requests of a scheme that is not offered are still served, if they can be.
pub fn is_offered(scheme: &dyn Scheme, network: &NetworkContext) -> bool {
    scheme.is_configured(network) && network.has_found(&scheme.contracts(network))
}

/// Looks for the contracts of schemes that are not offered on a network yet.
pub async fn look_for_contracts(network: &NetworkContext) {
    let all = SCHEMES.iter().flat_map(|scheme| scheme.contracts(network));
    network.look_for(all.collect()).await;
}

/// Checks again whether a verified job can be carried out, even if it has expired. If the nonce of an expired job is
/// used, the used nonce is the reason.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_on_chain(
    network: &NetworkContext,
    job: &Job,
    rule: AllowanceRule,
) -> Result<(), VerifyError> {
    match job {
        Job::Payment(payment) => check::check_on_chain(network, payment, rule).await,
        Job::Deposit(deposit) => deposit_proposal::check_on_chain(network, deposit, rule).await,
        // Claims, sweeps and refunds never expire.
        Job::Claim(_) | Job::Sweep(_) | Job::Refund(_) => check_again(network, job, rule).await,
    }
}

/// Checks again whether a verified job can be carried out.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_again(
    network: &NetworkContext,
    job: &Job,
    rule: AllowanceRule,
) -> Result<(), VerifyError> {
    match job {
        Job::Payment(payment) => check::check_again(network, payment, rule).await,
        Job::Deposit(deposit) => deposit_proposal::check_again(network, deposit, rule).await,
        Job::Claim(claim) => claim_proposal::check_again(network, claim).await,
        Job::Sweep(sweep) => sweep_proposal::check_again(network, sweep).await,
        Job::Refund(refund) => refund_proposal::check_again(network, refund).await,
    }
}
