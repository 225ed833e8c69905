//! Decides whether a transfer is valid. Checks that need no node run first. The rest is usually one exchange with a
//! node: the transfer, simulated between two reads of the payee's balance, and facts that explain a failure.
//!
//! The order of the checks decides which reason is returned: scheme, network, method, recipient, amount, permitted
//! payees and tokens, time, signature, and then the chain.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_chain::ports::{BlockTag, BoxFuture, ChainFault};
use bursar_core::networks::ChainId;
use bursar_x402::settlement::{Requirements, SettlementRequest};

use crate::job::Job;
use crate::job_key::JobKey;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::{MethodId, Payment, Sponsoring, Terms};
use crate::reason::{Reason, Rejection};
use crate::scheme::Proposal;
use crate::signature::{self, UnwrappedSignature};
use crate::transaction;
use crate::transfer::approval::{AllowanceRule, Approval, NeededAllowance};
use crate::transfer::domain::{self, SigningDomain};
use crate::transfer::evidence::NodeEvidence;
use crate::transfer::method::Method;
use crate::transfer::payload;
use crate::transfer::permit2;
use crate::transfer::question;
use crate::transfer::registry;
use crate::transfer::sponsoring::{self, AllowanceNeed, SponsoringReasons};
use crate::transfer::terms_check::{Purpose, check_time};
use crate::verify::{VerifiedJob, VerifyError};
use crate::work::{SenderRule, Work};

/// How long a payment that names its facilitator may be valid, in seconds: 31 days.
const VALID_SECONDS_MAX: u64 = 31 * 24 * 60 * 60;

/// A payment that was read from a request and matches its requirements.
#[derive(Debug)]
pub struct TransferProposal {
    pub(crate) chain: ChainId,
    pub(crate) method: &'static dyn Method,
    pub(crate) terms: Terms,
    /// The amount to move.
    pub(crate) amount: U256,
    pub(crate) signature: UnwrappedSignature,
    pub(crate) sponsoring: Option<Sponsoring>,
    /// The domain separator computed from the token name and version in `extra`; `None` if one of them is missing.
    claimed_separator: Option<B256>,
}

/// Checks whether a payment is accepted now: facilitator, token, amount, time and deployment. Asks no node.
///
/// # Errors
/// [`Rejection`].
fn check_admission(network: &NetworkContext, parsed: &TransferProposal) -> Result<(), Rejection> {
    let reject = |reason: Reason| Rejection::from(reason).for_payer(parsed.terms.payer);
    // The proxy lets only the named account or contract make the transfer.
    if parsed.terms.facilitator.is_some_and(|named| !network.is_upto_facilitator(named)) {
        return Err(reject(Reason::FacilitatorMismatch));
    }
    if !network.config.accepts_token(parsed.terms.token) {
        return Err(reject(Reason::AssetNotServed));
    }
    // If the scheme allows less than the authorized amount, a settlement of zero needs no gas.
    if !parsed.moves_nothing() {
        if parsed.amount.is_zero() {
            // A payment of zero costs the signer gas and moves nothing.
            return Err(reject(Reason::TooLittle));
        }
        let min_amount = network.config.min_amount.get(&parsed.terms.token);
        if min_amount.is_some_and(|min_amount| parsed.amount < *min_amount) {
            return Err(reject(Reason::BelowMinimum));
        }
    }
    check_time(&parsed.terms, network.now_seconds()).map_err(reject)?;
    if parsed.terms.facilitator.is_some() {
        // The record of a closed authorization is kept until the authorization expires, so the expiry must be bounded.
        let latest = network.now_seconds().saturating_add(VALID_SECONDS_MAX);
        if parsed.terms.valid_before > U256::from(latest) {
            return Err(reject(Reason::DeadlineTooLate));
        }
    }
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

/// Reads the payment of a request and compares it with the requirements, without asking a node.
///
/// The methods of [`Proposal`] decide whether the payment is accepted now, and whether it can be carried out.
///
/// # Errors
/// [`VerifyError::Malformed`], [`VerifyError::Rejected`].
pub fn parse(
    network: &NetworkContext,
    methods: &[&'static dyn Method],
    request: &SettlementRequest,
    purpose: Purpose,
) -> Result<TransferProposal, VerifyError> {
    let requirements = &request.requirements;
    let matches = |method: &&&'static dyn Method| method.matches(&request.payload, requirements);
    let method = *methods.iter().find(matches).ok_or(Reason::UnsupportedPayload)?;
    // If both members were allowed, another parser might read a different payment.
    let members = ["authorization", "permit2Authorization"];
    if members.iter().all(|key| request.payload.get(key).is_some()) {
        return Err(Reason::UnsupportedPayload.into());
    }
    let signed = payload::signature(&request.payload)?;
    let terms = method.parse_terms(&network.contracts, &request.payload, requirements)?;
    let reject = |reason: Reason| VerifyError::from(Rejection::from(reason).for_payer(terms.payer));
    let amount = method.moved_amount(&terms, requirements.amount, purpose).map_err(reject)?;
    let signature = signature::unwrap(&signed).ok_or_else(|| reject(Reason::InvalidSignature))?;
    let chain = network.contracts.chain;
    if method.domain(&network.contracts) == SigningDomain::Token
        && names_other_domain(chain, requirements)
    {
        return Err(reject(Reason::NameMismatch));
    }
    let claimed_separator = claimed_separator(chain, requirements);
    let sponsoring = if method.accepts_sponsoring() {
        let Terms { payer, token, authorized_amount: amount, valid_before: deadline, .. } = terms;
        let needed = NeededAllowance { payer, token, amount };
        let authorized = AllowanceNeed { needed, deadline };
        let codes =
            SponsoringReasons { permit_amount: Reason::Permit2612Amount, no_approvals: None };
        sponsoring::read(network, &request.extensions, &authorized, codes)?
    } else {
        None
    };
    Ok(TransferProposal { chain, method, terms, amount, signature, sponsoring, claimed_separator })
}

impl TransferProposal {
    /// Whether the settlement moves nothing although the authorized amount is positive.
    fn moves_nothing(&self) -> bool {
        self.amount.is_zero() && !self.terms.authorized_amount.is_zero()
    }
}

impl Proposal for TransferProposal {
    fn key(&self) -> JobKey {
        JobKey::of(self.chain, self.method.id(), &self.terms)
    }

    fn preceding_key(&self) -> Option<JobKey> {
        let nonce = U256::from_be_bytes(self.terms.nonce.0).checked_sub(U256::from(1))?;
        let terms = Terms { nonce: B256::new(nonce.to_be_bytes()), ..self.terms.clone() };
        Some(JobKey::of(self.chain, self.method.id(), &terms))
    }

    fn payer(&self) -> Option<Address> {
        Some(self.terms.payer)
    }

    fn payees(&self) -> Vec<Address> {
        vec![self.terms.payee]
    }

    fn needs_transaction(&self) -> bool {
        !self.moves_nothing()
    }

    fn sender(&self) -> SenderRule {
        self.method.sender(&self.terms)
    }

    fn gas_min(&self) -> u64 {
        transaction::gas_min(self.method.gas())
    }

    fn admit(&self, network: &NetworkContext) -> Result<(), Rejection> {
        check_admission(network, self)
    }

    fn is_same_job(&self, job: &Job) -> bool {
        let Job::Payment(known) = job else { return false };
        // A request to verify is for the authorized amount. If another amount is settled or in flight, this amount can
        // no longer be settled, not even by the caller that received the success.
        self.amount == known.amount && is_same_authorization(self, known)
    }

    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
        priority: Priority,
    ) -> BoxFuture<'a, Result<VerifiedJob, VerifyError>> {
        Box::pin(check(network, self, priority))
    }

    fn signed_by_key<'a>(
        &'a self,
        network: &'a NetworkContext,
    ) -> BoxFuture<'a, Result<Option<Job>, VerifyError>> {
        Box::pin(async move {
            let separator = domain_separator(network, self).await?;
            let (payment, _signed) = compose_payment(network, self, separator)?;
            // The signature of a contract wallet cannot be checked without a node.
            let signer = signature::signer(&payment.digest, &payment.signature);
            Ok((signer == Some(payment.terms.payer)).then(|| payment.into()))
        })
    }
}

/// Whether a request contains the authorization of a payment: the same terms, signed. Asks no node.
fn is_same_authorization(parsed: &TransferProposal, known: &Payment) -> bool {
    let inner = &parsed.signature.inner;
    // Another signature over the same terms is accepted if it can be verified without a node.
    let is_signed = *inner == known.signature
        || signature::signer(&known.digest, inner) == Some(known.terms.payer);
    parsed.terms == known.terms && is_signed
}

/// Checks whether a payment can be carried out now.
///
/// # Errors
/// [`VerifyError`].
async fn check(
    network: &NetworkContext,
    parsed: &TransferProposal,
    priority: Priority,
) -> Result<VerifiedJob, VerifyError> {
    let separator = domain_separator(network, parsed).await?;
    let (mut payment, signed_by_key) = compose_payment(network, parsed, separator)?;
    if payment.deployment.is_some() && payment.sender() != SenderRule::Any {
        return check_with_deployment(network, parsed, priority).await;
    }
    if let SenderRule::ThroughContract(contract) = payment.sender()
        && !network.has_contract(contract).await?
    {
        let why =
            "The payer named a contract of this facilitator that is not deployed on the network.";
        let rejection = Rejection::with_message(Reason::FacilitatorMismatch, why);
        return Err(rejection.for_payer(payment.terms.payer).into());
    }
    if parsed.moves_nothing() {
        return check_authorization(network, payment, signed_by_key, priority).await;
    }
    let mut answer = question::ask(network, &payment, priority).await?;
    if payment.deployment.is_some() && !answer.has_code {
        // This payment may deploy the wallet. Later signatures then have no deployment data, and a cached "no code"
        // would reject them.
        network.code_cache.remove(&payment.terms.payer);
    } else {
        network.code_cache.insert(payment.terms.payer, answer.has_code, network.clock.mono_ms());
    }
    if answer.has_code && (payment.deployment.is_some() || !payment.is_contract_payer) {
        // The payer has code, so the payment is simulated as a contract's. A deployed wallet is not deployed again,
        // because some factories would then use up all their gas.
        payment.is_contract_payer = true;
        payment.deployment = None;
        answer = question::ask(network, &payment, priority).await?;
    }
    let mut payment = check_answer(network, parsed, payment, (separator, signed_by_key), &answer)?;
    if parsed.method.accepts_sponsoring()
        && permit2::allowance(&answer.facts).is_some_and(|allowance| allowance >= payment.amount)
    {
        // The allowance suffices, and a permit would overwrite it.
        payment.sponsoring = None;
    }
    if answer.failure.is_some()
        && let Some(approval) = Approval::of(&network.contracts, &payment)
    {
        // Only the allowance is missing, and the approval grants it.
        approval.check(network).await?;
    }
    let cap = network.config.gas_cap_contract;
    let payer = payment.terms.payer;
    let job = Job::from(payment);
    let Some(gas) = transaction::gas(&network.contracts, &[&job], cap) else {
        return Err(Rejection::from(Reason::Simulation).for_payer(payer).into());
    };
    let balance = answer.payer_balance.unwrap_or_default();
    Ok(VerifiedJob { job, is_done: false, extra: None, balance, gas })
}

/// Checks a payment that has deployment data and that only certain accounts may send. Wallets are deployed through
/// Multicall3, through which such a payment cannot be sent. So the wallet must already be deployed.
async fn check_with_deployment(
    network: &NetworkContext,
    parsed: &TransferProposal,
    priority: Priority,
) -> Result<VerifiedJob, VerifyError> {
    let payer = parsed.terms.payer;
    let code = network.chain.code_at(payer, BlockTag::Latest).await?;
    if code.is_empty() {
        return Err(Rejection::from(Reason::DeploymentFailed).for_payer(payer).into());
    }
    network.code_cache.insert(payer, true, network.clock.mono_ms());
    let signature = UnwrappedSignature { inner: parsed.signature.inner.clone(), deployment: None };
    let deployed = TransferProposal {
        signature,
        terms: parsed.terms.clone(),
        sponsoring: parsed.sponsoring.clone(),
        ..*parsed
    };
    Box::pin(check(network, &deployed, priority)).await
}

/// Checks a payment that moves nothing: its payer must have signed it.
async fn check_authorization(
    network: &NetworkContext,
    payment: Payment,
    signed_by_key: bool,
    priority: Priority,
) -> Result<VerifiedJob, VerifyError> {
    let payer = payment.terms.payer;
    // In a transfer of any amount the chain checks the same signature, so the transfer of the full amount is simulated.
    let whole = Payment {
        amount: payment.terms.authorized_amount,
        is_contract_payer: payment.is_contract_payer || !signed_by_key,
        ..payment.clone()
    };
    let mut answer = question::ask(network, &whole, priority).await?;
    if answer.has_code && !whole.is_contract_payer {
        answer =
            question::ask(network, &Payment { is_contract_payer: true, ..whole }, priority).await?;
    }
    let is_signed =
        if answer.has_code { answer.signature_confirmed == Some(true) } else { signed_by_key };
    if is_signed {
        let job = payment.into();
        return Ok(VerifiedJob { job, is_done: true, extra: None, balance: U256::ZERO, gas: 0 });
    }
    Err(Rejection::from(Reason::InvalidSignature).for_payer(payer).into())
}

/// Checks again whether a verified payment can be carried out.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_again(
    network: &NetworkContext,
    payment: &Payment,
    rule: AllowanceRule,
) -> Result<(), VerifyError> {
    check_time(&payment.terms, network.now_seconds())?;
    check_on_chain(network, payment, rule).await
}

/// Checks again whether the chain would carry out a verified payment; ignores its expiry, to report a used nonce.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_on_chain(
    network: &NetworkContext,
    payment: &Payment,
    rule: AllowanceRule,
) -> Result<(), VerifyError> {
    let answer = question::ask(network, payment, Priority::Batched).await?;
    let method = registry::method(payment.method);
    if answer.has_code && !payment.is_contract_payer {
        // The account has received code since its check. A new request is verified as a contract's payment.
        return Err(Rejection::from(method.failed_reason()).for_payer(payment.terms.payer).into());
    }
    match check_transfer(method, payment, &answer) {
        Err(rejection)
            if rule == AllowanceRule::MayFollow && is_fixed_by_approval(payment, &rejection) =>
        {
            Ok(())
        }
        checked => checked.map_err(VerifyError::from),
    }
}

/// Whether only the allowance is missing, and the payment's own approval grants it.
fn is_fixed_by_approval(payment: &Payment, rejection: &Rejection) -> bool {
    rejection.reason == Reason::Permit2Allowance && payment.approval().is_some()
}

/// Composes the payment, and reports whether the payer's key signed it. Fails if the payer cannot have signed it.
fn compose_payment(
    network: &NetworkContext,
    parsed: &TransferProposal,
    separator: B256,
) -> Result<(Payment, bool), VerifyError> {
    let TransferProposal { method, terms, signature, .. } = parsed;
    let digest = domain::digest(separator, method.struct_hash(&network.contracts, terms));
    let signed_by_key = signature::signer(&digest, &signature.inner) == Some(terms.payer);
    let has_code = network.code_cache.get(&terms.payer, network.clock.mono_ms());
    let may_be_a_contract = method.allows_contract_payers()
        && (signature.deployment.is_some() || has_code != Some(false));
    if !signed_by_key && !may_be_a_contract {
        return Err(signature_rejection(parsed, separator).into());
    }
    let payment = Payment {
        chain: network.contracts.chain,
        method: method.id(),
        terms: terms.clone(),
        amount: parsed.amount,
        digest,
        signature: signature.inner.clone(),
        // A wallet that is known to be deployed is not deployed again.
        deployment: signature.deployment.clone().filter(|_planned| has_code != Some(true)),
        is_contract_payer: !signed_by_key || has_code == Some(true),
        sponsoring: parsed.sponsoring.clone(),
    };
    Ok((payment, signed_by_key))
}

/// Returns the likely reason for a wrong signature of a payer without code. A signature of more than 65 bytes comes
/// from a wallet that is not deployed. A shorter signature may use the domain that `extra` claims.
fn signature_rejection(parsed: &TransferProposal, separator: B256) -> Rejection {
    let is_other_domain = parsed.method.id() == MethodId::Eip3009
        && parsed.claimed_separator.is_some_and(|claimed| claimed != separator);
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
    parsed: &TransferProposal,
    mut payment: Payment,
    (separator, signed_by_key): (B256, bool),
    answer: &question::PaymentFacts,
) -> Result<Payment, VerifyError> {
    let payer = payment.terms.payer;
    payment.is_contract_payer = answer.has_code || payment.deployment.is_some() && !signed_by_key;
    let has_code = payment.is_contract_payer;
    if let Some(reported) = answer.separator
        && parsed.method.domain(&network.contracts) == SigningDomain::Token
        && reported != separator
    {
        // The token changed its domain, or our table is wrong. The token's own answer counts.
        network.domain_cache.insert(payment.terms.token, reported, network.clock.mono_ms());
        return Err(Rejection::from(Reason::NameMismatch).for_payer(payer).into());
    }
    if !signed_by_key && !has_code {
        return Err(signature_rejection(parsed, separator).into());
    }
    match check_transfer(parsed.method, &payment, answer) {
        Ok(()) => Ok(payment),
        Err(rejection) => {
            // A contract wallet itself decides whether it has signed. A caller without a valid signature may learn
            // about the token and the network. It must not learn about the payment, for example that it was settled.
            let is_confirmed = answer.signature_confirmed == Some(true);
            let is_unsigned = !signed_by_key && !is_confirmed;
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
            // For an account with code, Permit2 calls that code even if the account's key signed.
            if is_fixed_by_approval(&payment, &rejection) && (!has_code || is_confirmed) {
                return Ok(payment);
            }
            Err(rejection.into())
        }
    }
}

/// Checks a payment against its simulated transfer.
fn check_transfer(
    method: &dyn Method,
    payment: &Payment,
    answer: &question::PaymentFacts,
) -> Result<(), Rejection> {
    let terms = &payment.terms;
    let reject = |reason: Reason| Rejection::from(reason).for_payer(terms.payer);
    if answer.calls_used_all_gas {
        return Err(reject(Reason::Simulation));
    }
    if answer.payer_balance.is_none() && answer.payee_balance_before.is_none() {
        return Err(reject(Reason::NotDeployed));
    }
    let no_revert = Bytes::new();
    let revert = answer.failure.as_ref().unwrap_or(&no_revert);
    let evidence = NodeEvidence { balance: answer.payer_balance, facts: &answer.facts, revert };
    if let Some(reason) = method.missing_contract(&evidence) {
        return Err(reject(reason));
    }
    if answer.failure.is_some() {
        let reason = method.diagnose(payment, &evidence);
        let rejection = reject(reason);
        return Err(if revert.is_empty() { rejection } else { rejection.with_revert(revert) });
    }
    // If the balances around the transfer are known, the payee must have received exactly the expected amount. A
    // transfer can succeed although the token moves nothing or keeps a part.
    let received = method.amount_received(payment, &evidence);
    let expected = if terms.payer == terms.payee { U256::ZERO } else { received };
    if let (Some(before), Some(after)) = (answer.payee_balance_before, answer.payee_balance_after)
        && after.checked_sub(before) != Some(expected)
    {
        return Err(reject(Reason::NotMoved));
    }
    Ok(())
}

/// The separator of the EIP-712 domain under which a payment must be signed.
async fn domain_separator(
    network: &NetworkContext,
    parsed: &TransferProposal,
) -> Result<B256, VerifyError> {
    match parsed.method.domain(&network.contracts) {
        SigningDomain::Known(separator) => Ok(separator),
        SigningDomain::Token => {
            let separator =
                token_separator(network, parsed.terms.token, parsed.claimed_separator).await?;
            let missing = Rejection::from(Reason::MissingDomain);
            Ok(separator.ok_or_else(|| missing.for_payer(parsed.terms.payer))?)
        }
    }
}

/// The separator of a token's own domain: as the token reports it, or as the request claims if it reports none.
///
/// # Errors
/// No node answers.
pub(crate) async fn token_separator(
    network: &NetworkContext,
    token: Address,
    claimed: Option<B256>,
) -> Result<Option<B256>, ChainFault> {
    let coin = &network.table_row().stablecoin;
    let now = network.clock.mono_ms();
    if let Some(known) = network.domain_cache.get(&token, now) {
        return Ok(Some(known));
    }
    if token == coin.address {
        return Ok(Some(coin.domain_separator));
    }
    if let Some(reported) = question::separator(network, token).await? {
        network.domain_cache.insert(token, reported, now);
        return Ok(Some(reported));
    }
    // The claim of a request is not cached, because any caller could then affect later requests.
    Ok(claimed)
}

/// Whether `extra` names a contract, chain or salt that differs from the token's EIP-712 domain. A seller with such
/// requirements, for example a gateway that pools deposits, accepts no transfer of the token.
pub(crate) fn names_other_domain(chain: ChainId, requirements: &Requirements) -> bool {
    !requirements.extra.domain.is_of_token(requirements.asset, chain)
}

/// The domain separator computed from the token name and version in `extra`. `None` if one of them is missing.
pub(crate) fn claimed_separator(chain: ChainId, requirements: &Requirements) -> Option<B256> {
    let (name, version) = (requirements.extra.name.clone()?, requirements.extra.version.clone()?);
    let domain = bursar_x402::TokenDomain { name, version, chain, contract: requirements.asset };
    Some(domain.separator())
}
