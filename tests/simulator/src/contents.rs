//! What digests stand for: the transactions and permits that the journal allows to be signed.

use std::collections::BTreeMap;
use std::sync::Mutex;

use alloy_primitives::{Address, B256};
use bursar_auditor::observations::{Permit, SignedContent, Transaction};
use bursar_domain::{Entry, Event, Request, State};
use bursar_submit::{Event as OutboxEvent, SubmissionId};

use crate::evm::notes::{atoms, text};

/// What was signed, and the request that it belongs to.
type Signed = (SignedContent, Option<String>);

/// The content of each signer's digests, and the request that each belongs to.
///
/// Two addresses may sign the same digest: that of a transaction does not depend on its sender.
#[derive(Debug, Default)]
pub(crate) struct Contents(Mutex<BTreeMap<(Address, B256), Signed>>);

impl Contents {
    pub(crate) fn of(&self, signer: Address, digest: B256) -> (SignedContent, Option<String>) {
        self.0.lock().unwrap().get(&(signer, digest)).cloned().unwrap_or_default()
    }

    /// Notes what an entry allows to sign. `state` is the state after the entry.
    pub(crate) fn note(&self, state: &State, entry: &Entry) {
        match &entry.event {
            Event::Outbox { key, event: OutboxEvent::Authorized { id, .. } } => {
                let outbox = state.outboxes.get(key);
                let Some(one) = outbox.open.get(id) else { return };
                let last = one.attempts.len().saturating_sub(1);
                let Some(unsigned) = outbox.unsigned(*id, last) else { return };
                let transaction = Transaction {
                    chain: key.chain.0,
                    from: text(key.signer),
                    nonce: unsigned.nonce,
                    to: text(unsigned.call.to),
                    value: atoms(unsigned.call.value),
                    data: format!("{:#x}", unsigned.call.data),
                    hash: String::new(),
                };
                let content = SignedContent::Transaction(Box::new(transaction));
                self.insert((key.signer, unsigned.digest()), content, owner(state, *id));
            }
            Event::PermitOrdered { id, permit } => {
                let request = state.executing.get(id);
                let digest = request.and_then(|request| request.permit_digest());
                let Some((request, digest)) = request.zip(digest) else { return };
                let content = SignedContent::Permit(Permit {
                    chain: request.ask.chain().0,
                    token: text(permit.token),
                    amount: atoms(permit.amount),
                    expiration_s: permit.expiration,
                    nonce: permit.nonce,
                    spender: text(permit.spender),
                    deadline_s: permit.signature_deadline,
                });
                self.insert((request.from, digest), content, Some(id.to_string()));
            }
            _other => {}
        }
    }

    fn insert(&self, digest: (Address, B256), content: SignedContent, request: Option<String>) {
        self.0.lock().unwrap().insert(digest, (content, request));
    }
}

/// Returns the trade whose open step a submission is.
fn owner(state: &State, id: SubmissionId) -> Option<String> {
    let owns = |request: &&std::sync::Arc<Request>| {
        let step = request.execution().and_then(|execution| execution.open_step());
        step.is_some_and(|step| step.submission == id)
    };
    state.executing.values().find(owns).map(|request| request.id.to_string())
}
