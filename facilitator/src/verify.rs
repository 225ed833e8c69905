//! Decides whether a payment is valid. Checks that need no node run first. The rest is one question to a node: the
//! transfer, simulated between two reads of the payee's balance, and facts that explain a failure.
//!
//! The order of the checks decides which reason is returned: scheme, network, method, recipient, amount, payee and
//! token, time, signature, and then the chain.

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
use crate::exact::payload::{self, Unread};
use crate::exact::registry::{self, METHODS};
use crate::exact::terms_check::check_time;
use crate::network::Served;
use crate::node::Hurry;
use crate::payment::{MethodId, Payment, PaymentKey, Terms};
use crate::reason::{Reason, Refused};
use crate::signature::{self, Unwrapped};
use crate::transaction;

/// Why a payment was not verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The request is invalid.
    #[error(transparent)]
    Malformed(#[from] X402Error),
    /// The payment is rejected.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// No node answers.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The store could not be read.
    #[error("{0}")]
    Store(String),
}

impl From<Unread> for Fault {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Malformed(fault) => Self::Malformed(fault),
            Unread::Refused(refused) => Self::Refused(refused),
        }
    }
}

impl From<Reason> for Fault {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason.into())
    }
}

/// The contents of a request, before any node is asked.
#[derive(Debug, Clone)]
pub struct Read {
    pub method: &'static dyn Method,
    pub terms: Terms,
    pub signature: Unwrapped,
    /// The separator of the token's EIP-712 domain that `extra` claims, if it is complete.
    claimed: Option<B256>,
}

impl Read {
    /// The key of the payment on a network.
    pub fn key(&self, chain: ChainId) -> PaymentKey {
        PaymentKey::of(chain, self.method.id(), &self.terms)
    }
}

/// The network that a request is for.
///
/// # Errors
/// [`Refused`]: the scheme or the network is not served, or the payment's differs from the required one.
pub fn chain_of(request: &SettlementRequest) -> Result<ChainId, Refused> {
    let asked = &request.asked;
    if asked.scheme != SCHEME {
        return Err(Reason::UnsupportedScheme.into());
    }
    if request.paid_scheme.as_ref().is_some_and(|paid| *paid != asked.scheme) {
        return Err(Reason::SchemeMismatch.into());
    }
    let row = networks::by_text(&asked.network).ok_or(Reason::UnsupportedNetwork)?;
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
/// [`Refused`].
pub fn admit(served: &Served, read: &Read) -> Result<(), Refused> {
    let of = |reason: Reason| Refused::from(reason).of(read.terms.payer);
    if !served.config.takes_token(read.terms.token) {
        return Err(of(Reason::AssetNotServed));
    }
    if read.terms.amount.is_zero() {
        // It would cost the signer gas and move nothing.
        return Err(of(Reason::TooLittle));
    }
    let least = served.config.min_amount.get(&read.terms.token).copied().unwrap_or_default();
    if read.terms.amount < least {
        return Err(of(Reason::BelowMinimum));
    }
    check_time(&read.terms, served.now_seconds()).map_err(of)?;
    if let Some(deployment) = &read.signature.deployment {
        if !read.method.takes_contract_payers() {
            return Err(of(Reason::InvalidSignature));
        }
        if !served.config.eip6492_factories.contains(&deployment.factory) {
            return Err(of(Reason::FactoryNotAllowed));
        }
    }
    Ok(())
}

/// Reads the payment of a request and compares it with the requirements. Asks no node. Whether the payment is valid now
/// is decided by [`admit`], and whether it can be carried out by [`check`].
///
/// # Errors
/// [`Fault`], never of the chain.
pub fn read(served: &Served, request: &SettlementRequest) -> Result<Read, Fault> {
    let asked = &request.asked;
    let fits = |method: &&&'static dyn Method| method.fits(&request.payload, asked);
    let method = METHODS.iter().find(fits).ok_or(Reason::UnsupportedPayload)?;
    // With both members, another reader might take this for a different payment.
    let both = ["authorization", "permit2Authorization"];
    if both.iter().all(|key| request.payload.get(key).is_some()) {
        return Err(Reason::UnsupportedPayload.into());
    }
    let signed = payload::signature(&request.payload)?;
    let terms = method.read(&served.place, &request.payload, asked)?;
    let of = |reason: Reason| Fault::Refused(Refused::from(reason).of(terms.payer));
    let signature = signature::unwrap(&signed).ok_or_else(|| of(Reason::InvalidSignature))?;
    let claimed = claimed(served.place.chain, asked);
    Ok(Read { method: *method, terms, signature, claimed })
}

/// The payment that a request signs. Does not check whether it can be carried out.
///
/// # Errors
/// [`Fault`].
pub async fn signed_payment(served: &Served, read: &Read) -> Result<Payment, Fault> {
    let separator = separator(served, read).await?;
    Ok(signed(served, read, separator)?.0)
}

/// Whether a request contains exactly this payment: the same terms, signed. Asks no node.
pub fn is_same(read: &Read, known: &Payment) -> bool {
    let inner = &read.signature.inner;
    // Another signature over the same terms is as good, if it can be verified without a node.
    let is_signed = *inner == known.signature
        || signature::signer(&known.digest, inner) == Some(known.terms.payer);
    read.terms == known.terms && is_signed
}

/// Whether a payment was signed by its payer's key. Asks no node, so it is false for contract wallets.
pub fn is_signed_by_key(payment: &Payment) -> bool {
    signature::signer(&payment.digest, &payment.signature) == Some(payment.terms.payer)
}

/// A payment that passed all checks, and the payer's balance.
#[derive(Debug, Clone)]
pub struct Good {
    pub payment: Payment,
    /// The payer's balance, in the smallest unit of the token.
    pub balance: U256,
    /// Gas limit of a transaction with this payment alone, without gas for data.
    pub gas: u64,
}

/// Checks whether a payment can be carried out now.
///
/// # Errors
/// [`Fault`].
pub async fn check(served: &Served, read: &Read, hurry: Hurry) -> Result<Good, Fault> {
    let separator = separator(served, read).await?;
    let (mut payment, by_key) = signed(served, read, separator)?;
    let mut answer = question::ask(served, &payment, hurry).await?;
    if payment.deployment.is_some() && !answer.has_code {
        // This payment may deploy the wallet. Later signatures then have no deployment data, and a cached "no code"
        // would reject them.
        served.codes.remove(&payment.terms.payer);
    } else {
        served.codes.insert(payment.terms.payer, answer.has_code, served.clock.mono_ms());
    }
    if answer.has_code && (payment.deployment.is_some() || !payment.contract_payer) {
        // The payer turned out to be a contract, so it is simulated as one. A deployed wallet is not deployed again,
        // because some factories then use up all their gas.
        payment.contract_payer = true;
        payment.deployment = None;
        answer = question::ask(served, &payment, hurry).await?;
    }
    let payment = judge(served, read, payment, (separator, by_key), &answer)?;
    let cap = served.config.gas_cap_contract;
    let Some(gas) = transaction::gas(&served.place, &[&payment], cap) else {
        return Err(Refused::from(Reason::Simulation).of(payment.terms.payer).into());
    };
    Ok(Good { payment, balance: answer.payer_has.unwrap_or_default(), gas })
}

/// Checks again whether a verified payment can be carried out.
///
/// # Errors
/// [`Fault`].
pub async fn check_again(served: &Served, payment: &Payment) -> Result<(), Fault> {
    check_time(&payment.terms, served.now_seconds())?;
    let answer = question::ask(served, payment, Hurry::Patient).await?;
    let method = registry::method(payment.method);
    if answer.has_code && !payment.contract_payer {
        // The account has got code since. A new request for the payment is judged as a contract's.
        return Err(Refused::from(Reason::TransactionFailed).of(payment.terms.payer).into());
    }
    judge_transfer(method, payment, &answer).map_err(Fault::from)
}

/// The payment, and whether the payer's key certainly signed it. Fails if the signature is certainly not the payer's.
fn signed(served: &Served, read: &Read, separator: B256) -> Result<(Payment, bool), Fault> {
    let Read { method, terms, signature, .. } = read;
    let digest = domain::digest(separator, method.struct_hash(&served.place, terms));
    let by_key = signature::signer(&digest, &signature.inner) == Some(terms.payer);
    let has_code = served.codes.get(&terms.payer, served.clock.mono_ms());
    let may_be_a_contract = method.takes_contract_payers()
        && (signature.deployment.is_some() || has_code != Some(false));
    if !by_key && !may_be_a_contract {
        return Err(refused_signature(read, separator).into());
    }
    let payment = Payment {
        chain: served.place.chain,
        method: method.id(),
        terms: terms.clone(),
        digest,
        signature: signature.inner.clone(),
        // A wallet that is known to be deployed is not deployed again.
        deployment: signature.deployment.clone().filter(|_planned| has_code != Some(true)),
        contract_payer: !by_key || has_code == Some(true),
    };
    Ok((payment, by_key))
}

/// The likely reason for a wrong signature of a payer without code. It is another domain, or a wallet that is not
/// deployed, because a key's signature has at most 65 bytes.
fn refused_signature(read: &Read, separator: B256) -> Refused {
    let elsewhere = read.method.id() == MethodId::Eip3009
        && read.claimed.is_some_and(|claimed| claimed != separator);
    let of_a_wallet = read.method.takes_contract_payers() && read.signature.inner.len() > 65;
    let reason = match (of_a_wallet, elsewhere) {
        (true, _any) => Reason::Undeployed,
        (false, true) => Reason::NameMismatch,
        (false, false) => Reason::InvalidSignature,
    };
    Refused::from(reason).of(read.terms.payer)
}

/// Judges a payment by the chain's answers.
fn judge(
    served: &Served,
    read: &Read,
    mut payment: Payment,
    (separator, by_key): (B256, bool),
    answer: &question::Answer,
) -> Result<Payment, Fault> {
    let payer = payment.terms.payer;
    payment.contract_payer = answer.has_code || payment.deployment.is_some() && !by_key;
    let has_code = payment.contract_payer;
    if let Some(told) = answer.separator
        && read.method.domain(&served.place) == Domain::Token
        && told != separator
    {
        // The token changed its domain, or our table is wrong. The token's own answer counts.
        served.domains.insert(payment.terms.token, told, served.clock.mono_ms());
        return Err(Refused::from(Reason::NameMismatch).of(payer).into());
    }
    if !by_key && !has_code {
        return Err(refused_signature(read, separator).into());
    }
    match judge_transfer(read.method, &payment, answer) {
        Ok(()) => Ok(payment),
        Err(refused) => {
            // A contract wallet decides itself whether it has signed. A caller without a valid signature may learn
            // about the token and the network. It must not learn about the payment, in particular not that it was
            // settled.
            let unsigned = !by_key && answer.vouched != Some(true);
            let open = [
                Reason::NotDeployed,
                Reason::NotEip3009,
                Reason::NotMoved,
                Reason::Permit2Proxy,
                Reason::PrismUnavailable,
            ];
            if unsigned && !open.contains(&refused.reason) {
                return Err(Refused::from(Reason::InvalidSignature).of(payer).into());
            }
            Err(refused.into())
        }
    }
}

fn judge_transfer(
    method: &dyn Method,
    payment: &Payment,
    answer: &question::Answer,
) -> Result<(), Refused> {
    let terms = &payment.terms;
    let because = |reason: Reason| Refused::from(reason).of(terms.payer);
    if answer.exhausted {
        return Err(because(Reason::Simulation));
    }
    if answer.payer_has.is_none() && answer.payee_had.is_none() {
        return Err(because(Reason::NotDeployed));
    }
    let silent = Bytes::new();
    let revert = answer.failure.as_ref().unwrap_or(&silent);
    let evidence = Evidence { balance: answer.payer_has, facts: &answer.facts, revert };
    if let Some(reason) = method.lacks(&evidence) {
        return Err(because(reason));
    }
    if answer.failure.is_some() {
        let reason = method.diagnose(terms, &evidence);
        let mut refused = because(reason);
        if !revert.is_empty() {
            let why = bursar_chain::revert::reason(revert);
            refused.message = format!("{} ({})", refused.message, bursar_core::text::visible(&why));
        }
        return Err(refused);
    }
    // If the balances around the transfer are known, the payee must have received exactly the amount. A token that does
    // nothing, or keeps a part, also succeeds.
    let arrives = method.arrives(terms, &evidence);
    let expected = if terms.payer == terms.payee { U256::ZERO } else { arrives };
    if let (Some(before), Some(after)) = (answer.payee_had, answer.payee_has)
        && after.checked_sub(before) != Some(expected)
    {
        return Err(because(Reason::NotMoved));
    }
    Ok(())
}

/// The EIP-712 domain that a payment must be signed under.
async fn separator(served: &Served, read: &Read) -> Result<B256, Fault> {
    let token = match read.method.domain(&served.place) {
        Domain::Known(separator) => return Ok(separator),
        Domain::Token => read.terms.token,
    };
    let coin = &served.row().stablecoin;
    let now = served.clock.mono_ms();
    if let Some(known) = served.domains.get(&token, now) {
        return Ok(known);
    }
    if token == coin.address {
        return Ok(coin.domain_separator);
    }
    if let Some(told) = question::separator(served, token).await? {
        served.domains.insert(token, told, now);
        return Ok(told);
    }
    // A claim of a request counts for that request alone. Cached, it would let a stranger decide about later requests.
    match read.claimed {
        Some(claimed) => Ok(claimed),
        None => Err(Refused::from(Reason::MissingDomain).of(read.terms.payer).into()),
    }
}

/// The separator of the domain that `extra` claims, if it is complete.
fn claimed(chain: ChainId, asked: &bursar_x402::settlement::Asked) -> Option<B256> {
    let (name, version) = (asked.extra.name.clone()?, asked.extra.version.clone()?);
    let domain = bursar_x402::TokenDomain { name, version, chain, contract: asked.asset };
    Some(domain.separator())
}
