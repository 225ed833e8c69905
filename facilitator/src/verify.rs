//! Whether a payment is good. Everything that can be refused here is refused here; what is left is one
//! question to a node: the transfer, simulated between two looks at the payee's balance, and beside it what
//! tells why it would fail.
//!
//! The order, which decides the reason where there are several: scheme, network, method, recipient, amount, payee
//! and token, time, signature, and then the chain.

mod question;

use alloy_primitives::{B256, Bytes, U256};
use bursar_chain::ports::ChainFault;
use bursar_core::networks::{self, ChainId};
use bursar_x402::error::X402Error;
use bursar_x402::settlement::SettlementRequest;

use crate::exact::{self, Domain, Evidence, METHODS, Method, SCHEME, Unread};
use crate::network::Served;
use crate::node::Hurry;
use crate::payment::{MethodId, Payment, PaymentKey, Terms};
use crate::reason::{Reason, Refused};
use crate::signature::{self, Unwrapped};
use crate::transaction;

/// Why a payment was not found good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is no request: whoever sent it should not have.
    #[error(transparent)]
    Malformed(#[from] X402Error),
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nobody could be asked.
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

/// What a request says, before anybody is asked.
#[derive(Debug, Clone)]
pub struct Read {
    pub method: &'static dyn Method,
    pub terms: Terms,
    pub signature: Unwrapped,
    /// What `extra` says of the token's EIP-712 domain, where it says it.
    claimed: Option<B256>,
}

impl Read {
    pub fn key(&self, chain: ChainId) -> PaymentKey {
        PaymentKey::of(chain, self.method.id(), &self.terms)
    }
}

/// The network that a request is for.
///
/// # Errors
/// [`Refused`]: the scheme or the network is another than asked, or not served.
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

/// Whether a payment that was read is one that is taken on now.
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
    exact::check_time(&read.terms, served.now_seconds()).map_err(of)?;
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

/// Reads the payment of a request and compares it with what is asked. Asks nobody, and says nothing yet about
/// whether it is valid now ([`admit`]) or can be carried out ([`check`]).
///
/// # Errors
/// [`Fault`], never of the chain.
pub fn read(served: &Served, request: &SettlementRequest) -> Result<Read, Fault> {
    let asked = &request.asked;
    let fits = |method: &&&'static dyn Method| method.fits(&request.payload, asked);
    let method = METHODS.iter().find(fits).ok_or(Reason::UnsupportedPayload)?;
    // Whoever reads the other one would take it for another payment.
    let both = ["authorization", "permit2Authorization"];
    if both.iter().all(|key| request.payload.get(key).is_some()) {
        return Err(Reason::UnsupportedPayload.into());
    }
    let signed = exact::signature(&request.payload)?;
    let terms = method.read(&served.place, &request.payload, asked)?;
    let of = |reason: Reason| Fault::Refused(Refused::from(reason).of(terms.payer));
    let signature = signature::unwrap(&signed).ok_or_else(|| of(Reason::InvalidSignature))?;
    let claimed = claimed(served.place.chain, asked);
    Ok(Read { method: *method, terms, signature, claimed })
}

/// The payment that a request signs, without a word about whether it can be carried out.
///
/// # Errors
/// [`Fault`].
pub async fn signed_payment(served: &Served, read: &Read) -> Result<Payment, Fault> {
    let separator = separator(served, read).await?;
    Ok(signed(served, read, separator)?.0)
}

/// Whether a request is of this very payment: the same terms, and signed. Asks nobody.
pub fn is_same(read: &Read, known: &Payment) -> bool {
    let inner = &read.signature.inner;
    // Another signature over the same terms is as good, if it can be told here that it is one.
    let is_signed = *inner == known.signature
        || signature::signer(&known.digest, inner) == Some(known.terms.payer);
    read.terms == known.terms && is_signed
}

/// Whether it can be told here that a payment was signed by its payer's key.
pub fn is_signed_by_key(payment: &Payment) -> bool {
    signature::signer(&payment.digest, &payment.signature) == Some(payment.terms.payer)
}

/// A payment that was found good, and what the payer has.
#[derive(Debug, Clone)]
pub struct Good {
    pub payment: Payment,
    /// In the smallest unit of the token.
    pub balance: U256,
    /// Gas limit of a transaction with this payment alone, without gas for data.
    pub gas: u64,
}

/// Whether the payment can be carried out now.
///
/// # Errors
/// [`Fault`].
pub async fn check(served: &Served, read: &Read, hurry: Hurry) -> Result<Good, Fault> {
    let separator = separator(served, read).await?;
    let (mut payment, by_key) = signed(served, read, separator)?;
    let mut answer = question::ask(served, &payment, hurry).await?;
    if payment.deployment.is_some() && !answer.has_code {
        // It may be there soon, by this very payment, and then signs without saying how it is deployed.
        served.codes.forget(&payment.terms.payer);
    } else {
        served.codes.learn(payment.terms.payer, answer.has_code, served.clock.mono_ms());
    }
    if answer.has_code && (payment.deployment.is_some() || !payment.contract_payer) {
        // It is another kind of payer than it seemed, and is asked about as what it is. What is there is not
        // deployed again: factories are known that use up all their gas when they are told to.
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

/// The same of a payment that was found good before: what is to be carried out may have changed.
///
/// # Errors
/// [`Fault`].
pub async fn check_again(served: &Served, payment: &Payment) -> Result<(), Fault> {
    exact::check_time(&payment.terms, served.now_seconds())?;
    let answer = question::ask(served, payment, Hurry::Patient).await?;
    let method = exact::method(payment.method);
    if answer.has_code && !payment.contract_payer {
        // It has become another kind of payer since: asked for again, it is judged as one.
        return Err(Refused::from(Reason::TransactionFailed).of(payment.terms.payer).into());
    }
    judge_transfer(method, payment, &answer).map_err(Fault::from)
}

/// The payment, unless its signature is certainly not the payer's; and whether it is certainly that of its key.
fn signed(served: &Served, read: &Read, separator: B256) -> Result<(Payment, bool), Fault> {
    let Read { method, terms, signature, .. } = read;
    let digest = exact::digest(separator, method.struct_hash(&served.place, terms));
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
        // One that is known to be there is not deployed again.
        deployment: signature.deployment.clone().filter(|_planned| has_code != Some(true)),
        contract_payer: !by_key || has_code == Some(true),
    };
    Ok((payment, by_key))
}

/// Of a payer without code, the likely reason for a wrong signature: another domain, or a wallet that is not
/// deployed, for no key signs more than 65 bytes.
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

/// Judges a payment by what the chain says.
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
        // The token changed its domain, or the table is wrong about it: what it says itself counts.
        served.domains.learn(payment.terms.token, told, served.clock.mono_ms());
        return Err(Refused::from(Reason::NameMismatch).of(payer).into());
    }
    if !by_key && !has_code {
        return Err(refused_signature(read, separator).into());
    }
    match judge_transfer(read.method, &payment, answer) {
        Ok(()) => Ok(payment),
        Err(refused) => {
            // A wallet that is a contract says itself whether it has signed; who has not signed learns nothing
            // of the payment, above all not that it was settled, but only of the token and the network.
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
    // Where the balances could be seen around the transfer, exactly the amount must have come: a token that
    // does nothing, or keeps a part, succeeds too.
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
        served.domains.learn(token, told, now);
        return Ok(told);
    }
    // What a request claims is good for that request alone: the next one would be judged by a stranger's word.
    match read.claimed {
        Some(claimed) => Ok(claimed),
        None => Err(Refused::from(Reason::MissingDomain).of(read.terms.payer).into()),
    }
}

/// The domain that `extra` claims, if it claims a whole one.
fn claimed(chain: ChainId, asked: &bursar_x402::settlement::Asked) -> Option<B256> {
    let (name, version) = (asked.extra.name.clone()?, asked.extra.version.clone()?);
    let domain = bursar_x402::TokenDomain { name, version, chain, contract: asked.asset };
    Some(domain.separator())
}

/// A word as an answer gives it.
fn word(bytes: &Bytes) -> Option<B256> {
    (bytes.len() == 32).then(|| B256::from_slice(bytes))
}
