//! The transactions and permits behind the digests that the journal allows to be signed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256};
use bursar_auditor::observations::{Permit, SignedContent, Transaction};
use bursar_core::networks::NETWORKS;
use bursar_domain::loans::LoanSize;
use bursar_domain::{Entry, Event, Request, State};
use bursar_submit::{Event as OutboxEvent, OutboxKey, SubmissionId};

use crate::evm::notes::{atoms, text};
use crate::loan_book::LoanOrder;

/// The content of a signature, and the request to which it belongs.
#[derive(Debug, Clone, Default)]
struct Signed {
    content: SignedContent,
    request: Option<String>,
    loan: Option<LoanOrder>,
}

/// The content behind each signer's digests, and the request to which each belongs.
///
/// Two addresses may sign the same digest, because the digest of a transaction does not depend on its sender.
#[derive(Debug, Default)]
pub(crate) struct Contents(Mutex<BTreeMap<(Address, B256), Signed>>);

impl Contents {
    pub(crate) fn of(&self, signer: Address, digest: B256) -> (SignedContent, Option<String>) {
        let signed = self.0.lock().unwrap().get(&(signer, digest)).cloned().unwrap_or_default();
        (signed.content, signed.request)
    }

    /// Returns the journal's record of a signature for a loan; `None` for other signatures.
    pub(crate) fn loan(&self, signer: Address, digest: B256) -> Option<LoanOrder> {
        self.0.lock().unwrap().get(&(signer, digest)).and_then(|signed| signed.loan.clone())
    }

    /// Notes the content that an entry allows to be signed. `state` is the state after the entry.
    pub(crate) fn record_entry(&self, state: &State, entry: &Entry) {
        match &entry.event {
            Event::Outbox { key, event: OutboxEvent::Authorized { id, .. } } => {
                let outbox = state.outboxes.get(key);
                let Some(one) = outbox.open.get(id) else { return };
                let last = one.attempts.len().saturating_sub(1);
                let Some((digest, content)) = transaction(state, key, *id) else { return };
                let owner = owner(state, *id);
                let loan = owner.and_then(|request| loan_order(state, entry, request, last));
                let request = owner.map(|request| request.id.to_string());
                self.insert((key.signer, digest), Signed { content, request, loan });
            }
            Event::PermitOrdered { id, .. } => {
                let Some(request) = state.executing.get(id) else { return };
                let Some((digest, content)) = permit(request) else { return };
                let request_id = Some(id.to_string());
                let signed = Signed { content, request: request_id, loan: None };
                self.insert((request.from, digest), signed);
            }
            _other => {}
        }
    }

    fn insert(&self, digest: (Address, B256), signed: Signed) {
        self.0.lock().unwrap().insert(digest, signed);
    }
}

/// Returns the digest and the content of the newest attempt of a submission.
pub(crate) fn transaction(
    state: &State,
    key: &OutboxKey,
    id: SubmissionId,
) -> Option<(B256, SignedContent)> {
    let outbox = state.outboxes.get(key);
    let last = outbox.open.get(&id)?.attempts.len().saturating_sub(1);
    let unsigned = outbox.unsigned(id, last)?;
    let transaction = Transaction {
        chain: key.chain.0,
        from: text(key.signer),
        nonce: unsigned.nonce,
        to: text(unsigned.call.to),
        value: atoms(unsigned.call.value),
        data: format!("{:#x}", unsigned.call.data),
        hash: String::new(),
    };
    Some((unsigned.digest(), SignedContent::Transaction(Box::new(transaction))))
}

/// Returns the digest and the content of a plan's newest permit.
pub(crate) fn permit(request: &Request) -> Option<(B256, SignedContent)> {
    let permit = request.execution()?.permit.as_ref()?.permit;
    let network = request.ask.network()?;
    let digest = permit.digest(network.chain, network.exchange?.permit2).ok()?;
    let content = SignedContent::Permit(Permit {
        chain: network.chain.0,
        token: text(permit.token),
        amount: atoms(permit.amount),
        expiration_s: permit.expiration,
        nonce: permit.nonce,
        spender: text(permit.spender),
        deadline_s: permit.signature_deadline,
    });
    Some((digest, content))
}

/// Returns the request whose open step is this submission.
pub(crate) fn owner(state: &State, id: SubmissionId) -> Option<&Arc<Request>> {
    let owns = |request: &&Arc<Request>| {
        let step = request.execution().and_then(|execution| execution.open_step());
        step.is_some_and(|step| step.submission == id)
    };
    state.executing.values().find(owns)
}

/// Returns the state's record of an attempt of a loan's open step; `None` for other requests.
fn loan_order(
    state: &State,
    entry: &Entry,
    request: &Request,
    attempt: usize,
) -> Option<LoanOrder> {
    let loan = request.loan()?;
    let execution = request.execution()?;
    let agent = state.agents.get(&request.agent);
    let policy = agent.and_then(|agent| state.policy_of(agent));
    let lending = policy.map(|policy| policy.lending.clone()).unwrap_or_default();
    let others = state.executing.values().filter(|other| {
        other.from == request.from && other.id != request.id && other.loan().is_some()
    });
    let reserved = others.filter_map(|other| {
        let reserved = other.execution()?.reserved().0;
        (reserved > 0).then(|| (other.id.to_string(), reserved))
    });
    let networks = NETWORKS.iter().filter(|network| network.lending.is_some());
    let networks = networks.map(|network| network.chain).filter(|chain| {
        state.is_network_enabled(*chain)
            && policy.is_some_and(|policy| policy.networks.allows(*chain))
    });
    Some(LoanOrder {
        request: request.id.to_string(),
        agent: request.agent.to_string(),
        chain: loan.chain.0,
        owner: request.from,
        venue: loan.venue.to_string().to_lowercase(),
        supplies: loan.is_supply(),
        is_all: loan.size == LoanSize::All,
        is_main: execution.open_step().is_some_and(|step| step.purpose.is_main()),
        is_first: attempt == 0,
        at_ms: entry.at.0,
        counted_micros: execution.reserved().0,
        others: reserved.collect(),
        max_deposit: lending.max_deposit.0,
        max_total: lending.max_total.0,
        max_share_bps: lending.max_share.map(|share| u32::from(share.0)),
        curated_only: lending.curated_only,
        networks: networks.map(|chain| chain.0).collect(),
    })
}
