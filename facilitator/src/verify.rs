//! Decides whether a payment is valid. Checks that need no node run first. The rest is usually one exchange with a
//! node: the transfer, simulated between two reads of the payee's balance, and facts that explain a failure.
//!
//! The order of the checks decides which reason is returned: scheme, network, method, recipient, amount, permitted
//! payees and tokens, time, signature, and then the chain.

mod question;

use alloy_primitives::{B256, Bytes, U256};
use bursar_chain::ports::ChainFault;
use bursar_core::networks::{self, ChainId};
use bursar_x402::error::X402Error;
use bursar_x402::settlement::SettlementRequest;

use crate::exact::SCHEME;
use crate::exact::domain::{self, Domain};
use crate::exact::evidence::Evidence;
use crate::exact::method::Method;
use crate::exact::payload::{self, ReadError};
use crate::exact::registry::{self, METHODS};
use crate::exact::terms_check::check_time;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::{MethodId, Payment, PaymentKey, Terms};
use crate::reason::{Reason, Rejection};
use crate::signature::{self, Unwrapped};
use crate::transaction;

/// Why a payment was not verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The request is invalid.
    #[error(transparent)]
    Malformed(#[from] X402Error),
    /// The payment is rejected.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// No node answers.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The store could not be read.
    #[error("{0}")]
    Store(String),
}

impl From<ReadError> for VerifyError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Malformed(fault) => Self::Malformed(fault),
            ReadError::Rejected(rejection) => Self::Rejected(rejection),
        }
    }
}

impl From<Reason> for VerifyError {
    fn from(reason: Reason) -> Self {
        Self::Rejected(reason.into())
    }
}

/// The payment in a request, parsed without a question to any node.
#[derive(Debug, Clone)]
pub struct ParsedPayment {
    pub method: &'static dyn Method,
    pub terms: Terms,
    pub signature: Unwrapped,
    /// The domain separator computed from the token name and version in `extra`; `None` if one of them is missing.
    claimed: Option<B256>,
}

impl ParsedPayment {
    /// The key of the payment on a network.
    pub fn key(&self, chain: ChainId) -> PaymentKey {
        PaymentKey::of(chain, self.method.id(), &self.terms)
    }
}

/// The network that a request is for.
///
/// # Errors
/// [`Rejection`]: the scheme or the network is unknown, or the payment names another scheme or network than the
/// requirements.
pub fn chain_of(request: &SettlementRequest) -> Result<ChainId, Rejection> {
    let requirements = &request.requirements;
    if requirements.scheme != SCHEME {
        return Err(Reason::UnsupportedScheme.into());
    }
    if request.paid_scheme.as_ref().is_some_and(|paid| *paid != requirements.scheme) {
        return Err(Reason::SchemeMismatch.into());
    }
    let row = networks::by_text(&requirements.network).ok_or(Reason::UnsupportedNetwork)?;
    let paid = request.paid_network.as_deref().map(networks::by_text);
    match paid {
        Some(Some(paid)) if paid.chain == row.chain => Ok(row.chain),
        None => Ok(row.chain),
        Some(_another) => Err(Reason::NetworkMismatch.into()),
    }
}

/// Checks whether a payment is accepted now: token, amount, time and deployment. Asks no node.
///
/// # Errors
/// [`Rejection`].
pub fn admit(network: &NetworkContext, parsed: &ParsedPayment) -> Result<(), Rejection> {
    let reject = |reason: Reason| Rejection::from(reason).for_payer(parsed.terms.payer);
    if !network.config.takes_token(parsed.terms.token) {
        return Err(reject(Reason::AssetNotServed));
    }
    if parsed.terms.amount.is_zero() {
        // A payment of zero costs the signer gas and moves nothing.
        return Err(reject(Reason::TooLittle));
    }
    let min_amount =
        network.config.min_amount.get(&parsed.terms.token).copied().unwrap_or_default();
    if parsed.terms.amount < min_amount {
        return Err(reject(Reason::BelowMinimum));
    }
    check_time(&parsed.terms, network.now_seconds()).map_err(reject)?;
    if let Some(deployment) = &parsed.signature.deployment {
        if !parsed.method.allows_contract_payers() {
            return Err(reject(Reason::InvalidSignature));
        }
        if !network.config.eip6492_factories.contains(&deployment.factory) {
            return Err(reject(Reason::FactoryNotAllowed));
        }
    }
    Ok(())
}

/// Reads the payment of a request and compares it with the requirements. Asks no node. [`admit`] decides whether the
/// payment is valid now, and [`check`] whether it can be carried out.
///
/// # Errors
/// [`VerifyError::Malformed`], [`VerifyError::Rejected`].
pub fn parse(
    network: &NetworkContext,
    request: &SettlementRequest,
) -> Result<ParsedPayment, VerifyError> {
    let requirements = &request.requirements;
    let matches = |method: &&&'static dyn Method| method.matches(&request.payload, requirements);
    let method = METHODS.iter().find(matches).ok_or(Reason::UnsupportedPayload)?;
    // With both members, another parser might read a different payment.
    let members = ["authorization", "permit2Authorization"];
    if members.iter().all(|key| request.payload.get(key).is_some()) {
        return Err(Reason::UnsupportedPayload.into());
    }
    let signed = payload::signature(&request.payload)?;
    let terms = method.parse_terms(&network.contracts, &request.payload, requirements)?;
    let reject =
        |reason: Reason| VerifyError::Rejected(Rejection::from(reason).for_payer(terms.payer));
    let signature = signature::unwrap(&signed).ok_or_else(|| reject(Reason::InvalidSignature))?;
    let claimed = claimed_separator(network.contracts.chain, requirements);
    Ok(ParsedPayment { method: *method, terms, signature, claimed })
}

/// The payment of a request, with its digest. Does not check whether it can be carried out.
///
/// # Errors
/// [`VerifyError`].
pub async fn signed_payment(
    network: &NetworkContext,
    parsed: &ParsedPayment,
) -> Result<Payment, VerifyError> {
    let separator = domain_separator(network, parsed).await?;
    Ok(compose_payment(network, parsed, separator)?.0)
}

/// Whether a request contains exactly this payment: the same terms, signed. Asks no node.
pub fn is_same_payment(parsed: &ParsedPayment, known: &Payment) -> bool {
    let inner = &parsed.signature.inner;
    // Another signature over the same terms is accepted if it can be verified without a node.
    let is_signed = *inner == known.signature
        || signature::signer(&known.digest, inner) == Some(known.terms.payer);
    parsed.terms == known.terms && is_signed
}

/// Whether a payment was signed by its payer's key. Asks no node, so it is false for contract wallets.
pub fn is_signed_by_key(payment: &Payment) -> bool {
    signature::signer(&payment.digest, &payment.signature) == Some(payment.terms.payer)
}

/// A payment that passed all checks, and the payer's balance.
#[derive(Debug, Clone)]
pub struct Verified {
    pub payment: Payment,
    /// The payer's balance, in the smallest unit of the token.
    pub balance: U256,
    /// Gas limit of a transaction with this payment alone, without Arbitrum's gas for data.
    pub gas: u64,
}

/// Checks whether a payment can be carried out now.
///
/// # Errors
/// [`VerifyError`].
pub async fn check(
    network: &NetworkContext,
    parsed: &ParsedPayment,
    priority: Priority,
) -> Result<Verified, VerifyError> {
    let separator = domain_separator(network, parsed).await?;
    let (mut payment, signed_by_key) = compose_payment(network, parsed, separator)?;
    let mut answer = question::ask(network, &payment, priority).await?;
    if payment.deployment.is_some() && !answer.has_code {
        // This payment may deploy the wallet. Later signatures then have no deployment data, and a cached "no code"
        // would reject them.
        network.codes.remove(&payment.terms.payer);
    } else {
        network.codes.insert(payment.terms.payer, answer.has_code, network.clock.mono_ms());
    }
    if answer.has_code && (payment.deployment.is_some() || !payment.contract_payer) {
        // The payer turned out to be a contract, so it is simulated as one. A deployed wallet is not deployed again,
        // because some factories then use up all their gas.
        payment.contract_payer = true;
        payment.deployment = None;
        answer = question::ask(network, &payment, priority).await?;
    }
    let payment = check_answer(network, parsed, payment, (separator, signed_by_key), &answer)?;
    let cap = network.config.gas_cap_contract;
    let Some(gas) = transaction::gas(&network.contracts, &[&payment], cap) else {
        return Err(Rejection::from(Reason::Simulation).for_payer(payment.terms.payer).into());
    };
    Ok(Verified { payment, balance: answer.payer_balance.unwrap_or_default(), gas })
}

/// Checks again whether a verified payment can be carried out.
///
/// # Errors
/// [`VerifyError`].
pub async fn check_again(network: &NetworkContext, payment: &Payment) -> Result<(), VerifyError> {
    check_time(&payment.terms, network.now_seconds())?;
    let answer = question::ask(network, payment, Priority::Batched).await?;
    let method = registry::method(payment.method);
    if answer.has_code && !payment.contract_payer {
        // The account has received code since its check. A new request is verified as a contract's payment.
        return Err(Rejection::from(Reason::TransactionFailed)
            .for_payer(payment.terms.payer)
            .into());
    }
    check_transfer(method, payment, &answer).map_err(VerifyError::from)
}

/// Composes the payment, and reports whether the payer's key signed it. Fails if the payer cannot have signed it.
fn compose_payment(
    network: &NetworkContext,
    parsed: &ParsedPayment,
    separator: B256,
) -> Result<(Payment, bool), VerifyError> {
    let ParsedPayment { method, terms, signature, .. } = parsed;
    let digest = domain::digest(separator, method.struct_hash(&network.contracts, terms));
    let signed_by_key = signature::signer(&digest, &signature.inner) == Some(terms.payer);
    let has_code = network.codes.get(&terms.payer, network.clock.mono_ms());
    let may_be_a_contract = method.allows_contract_payers()
        && (signature.deployment.is_some() || has_code != Some(false));
    if !signed_by_key && !may_be_a_contract {
        return Err(signature_rejection(parsed, separator).into());
    }
    let payment = Payment {
        chain: network.contracts.chain,
        method: method.id(),
        terms: terms.clone(),
        digest,
        signature: signature.inner.clone(),
        // A wallet that is known to be deployed is not deployed again.
        deployment: signature.deployment.clone().filter(|_planned| has_code != Some(true)),
        contract_payer: !signed_by_key || has_code == Some(true),
    };
    Ok((payment, signed_by_key))
}

/// The likely reason for a wrong signature of a payer without code. More than 65 bytes come from a wallet that is not
/// deployed. A shorter signature may be over the domain that `extra` claims.
fn signature_rejection(parsed: &ParsedPayment, separator: B256) -> Rejection {
    let is_other_domain = parsed.method.id() == MethodId::Eip3009
        && parsed.claimed.is_some_and(|claimed| claimed != separator);
    let is_wallet_signature =
        parsed.method.allows_contract_payers() && parsed.signature.inner.len() > 65;
    let reason = match (is_wallet_signature, is_other_domain) {
        (true, _any) => Reason::Undeployed,
        (false, true) => Reason::NameMismatch,
        (false, false) => Reason::InvalidSignature,
    };
    Rejection::from(reason).for_payer(parsed.terms.payer)
}

/// Checks a payment against the chain's answers.
fn check_answer(
    network: &NetworkContext,
    parsed: &ParsedPayment,
    mut payment: Payment,
    (separator, signed_by_key): (B256, bool),
    answer: &question::Answer,
) -> Result<Payment, VerifyError> {
    let payer = payment.terms.payer;
    payment.contract_payer = answer.has_code || payment.deployment.is_some() && !signed_by_key;
    let has_code = payment.contract_payer;
    if let Some(reported) = answer.separator
        && parsed.method.domain(&network.contracts) == Domain::Token
        && reported != separator
    {
        // The token changed its domain, or our table is wrong. The token's own answer counts.
        network.domains.insert(payment.terms.token, reported, network.clock.mono_ms());
        return Err(Rejection::from(Reason::NameMismatch).for_payer(payer).into());
    }
    if !signed_by_key && !has_code {
        return Err(signature_rejection(parsed, separator).into());
    }
    match check_transfer(parsed.method, &payment, answer) {
        Ok(()) => Ok(payment),
        Err(rejection) => {
            // A contract wallet decides itself whether it has signed. A caller without a valid signature may learn
            // about the token and the network, but not about the payment, for example that it was settled.
            let is_unsigned = !signed_by_key && answer.signature_confirmed != Some(true);
            let public_reasons = [
                Reason::NotDeployed,
                Reason::NotEip3009,
                Reason::NotMoved,
                Reason::Permit2Proxy,
                Reason::PrismUnavailable,
            ];
            if is_unsigned && !public_reasons.contains(&rejection.reason) {
                return Err(Rejection::from(Reason::InvalidSignature).for_payer(payer).into());
            }
            Err(rejection.into())
        }
    }
}

/// Checks a payment against its simulated transfer.
fn check_transfer(
    method: &dyn Method,
    payment: &Payment,
    answer: &question::Answer,
) -> Result<(), Rejection> {
    let terms = &payment.terms;
    let reject = |reason: Reason| Rejection::from(reason).for_payer(terms.payer);
    if answer.exhausted {
        return Err(reject(Reason::Simulation));
    }
    if answer.payer_balance.is_none() && answer.payee_before.is_none() {
        return Err(reject(Reason::NotDeployed));
    }
    let no_revert = Bytes::new();
    let revert = answer.failure.as_ref().unwrap_or(&no_revert);
    let evidence = Evidence { balance: answer.payer_balance, facts: &answer.facts, revert };
    if let Some(reason) = method.missing_contract(&evidence) {
        return Err(reject(reason));
    }
    if answer.failure.is_some() {
        let reason = method.diagnose(terms, &evidence);
        let mut rejection = reject(reason);
        if !revert.is_empty() {
            let why = bursar_chain::revert::reason(revert);
            rejection.message =
                format!("{} ({})", rejection.message, bursar_core::text::visible(&why));
        }
        return Err(rejection);
    }
    // If the balances around the transfer are known, the payee must have received exactly the expected amount. A
    // transfer can succeed although the token moves nothing or keeps a part.
    let received = method.amount_received(terms, &evidence);
    let expected = if terms.payer == terms.payee { U256::ZERO } else { received };
    if let (Some(before), Some(after)) = (answer.payee_before, answer.payee_after)
        && after.checked_sub(before) != Some(expected)
    {
        return Err(reject(Reason::NotMoved));
    }
    Ok(())
}

/// The separator of the EIP-712 domain under which a payment must be signed.
async fn domain_separator(
    network: &NetworkContext,
    parsed: &ParsedPayment,
) -> Result<B256, VerifyError> {
    let token = match parsed.method.domain(&network.contracts) {
        Domain::Known(separator) => return Ok(separator),
        Domain::Token => parsed.terms.token,
    };
    let coin = &network.spec().stablecoin;
    let now = network.clock.mono_ms();
    if let Some(known) = network.domains.get(&token, now) {
        return Ok(known);
    }
    if token == coin.address {
        return Ok(coin.domain_separator);
    }
    if let Some(reported) = question::separator(network, token).await? {
        network.domains.insert(token, reported, now);
        return Ok(reported);
    }
    // A claim of a request counts for that request alone. If it were cached, any caller could affect later requests.
    match parsed.claimed {
        Some(claimed) => Ok(claimed),
        None => Err(Rejection::from(Reason::MissingDomain).for_payer(parsed.terms.payer).into()),
    }
}

/// The domain separator computed from the token name and version in `extra`. `None` if one of them is missing.
fn claimed_separator(
    chain: ChainId,
    requirements: &bursar_x402::settlement::Requirements,
) -> Option<B256> {
    let (name, version) = (requirements.extra.name.clone()?, requirements.extra.version.clone()?);
    let domain = bursar_x402::TokenDomain { name, version, chain, contract: requirements.asset };
    Some(domain.separator())
}
