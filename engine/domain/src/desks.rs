//! What the operator sends, and the desks by which transactions leave: the wallet's side of
//! [`bursar_submit`]. The machine decides about nonces, offers and ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_core::client::Client;
use bursar_core::ids::{Name, RequestId};
use bursar_core::money::TokenAmount;
use bursar_core::networks::{ChainId, by_chain};
use bursar_core::time::Utc;
use bursar_submit::{Call, Desk, DeskKey, Event as DeskEvent, Outcome, Rules, SubmissionId};
use serde::{Deserialize, Serialize};

/// How many of an address's submissions hold a nonce at a time.
const WINDOW: usize = 16;

/// How many sends that are over are remembered beside the journal.
const RECENT: usize = 20;

/// Money that the operator moves away from an address of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    pub id: RequestId,
    /// The label that the paying address had then.
    pub label: Name,
    pub from: Address,
    pub chain: ChainId,
    /// `None` is the native coin.
    pub token: Option<Address>,
    pub symbol: String,
    pub to: Address,
    pub amount: TokenAmount,
    /// What is put on the chain for it.
    pub call: Call,
    /// The most that may be offered for a unit of gas, in wei.
    pub ceiling: u128,
    pub by: Client,
}

impl Send {
    pub fn key(&self) -> DeskKey {
        DeskKey { chain: self.chain, signer: self.from }
    }

    pub fn submission(&self) -> SubmissionId {
        SubmissionId(*self.id.as_bytes())
    }

    /// Like `1.500000 USDC` or `0.25 ETH`.
    pub fn amount_text(&self) -> String {
        format!("{} {}", self.amount.told(), self.symbol)
    }
}

/// A send and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendRecord {
    pub send: Send,
    pub at: Utc,
    pub ended: Option<(Outcome, Utc)>,
    /// The newest that was broadcast for it when it ended: what may still be mined where the end is not known.
    pub last: Option<B256>,
}

/// Every desk, and the sends that go through them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Desks {
    pub each: BTreeMap<DeskKey, Arc<Desk>>,
    /// The open ones, and the latest of those that are over.
    pub sends: BTreeMap<RequestId, Arc<SendRecord>>,
    /// Those that are over, the latest last.
    over: VecDeque<RequestId>,
}

impl Desks {
    /// The desk of a signer on a network; an empty one where nothing was ever sent.
    pub fn get(&self, key: &DeskKey) -> Arc<Desk> {
        self.each.get(key).cloned().unwrap_or_else(|| Arc::new(Desk::new(*key)))
    }

    /// What is already on its way from an address: of the native coin, with all that gas may cost for it, and
    /// of a token, as far as sends move it. `None` where it is more than there can be.
    pub fn on_its_way(&self, key: &DeskKey, token: Option<Address>) -> Option<U256> {
        let desk = self.get(key);
        match token {
            None => desk.open.values().try_fold(U256::ZERO, |sum, one| {
                let gas = U256::from(one.call.gas_limit).checked_mul(U256::from(one.ceiling))?;
                sum.checked_add(one.call.value)?.checked_add(gas)
            }),
            Some(_) => {
                let open = self.sends.values().filter(|record| {
                    let send = &record.send;
                    record.ended.is_none() && send.key() == *key && send.token == token
                });
                open.map(|record| record.send.amount.atoms.0)
                    .try_fold(U256::ZERO, |sum, amount| sum.checked_add(amount))
            }
        }
    }

    /// Those at which something is open.
    pub fn busy(&self) -> impl Iterator<Item = &Arc<Desk>> {
        self.each.values().filter(|desk| !desk.open.is_empty())
    }

    pub(crate) fn ordered(&mut self, send: &Send, at: Utc) {
        let record = SendRecord { send: send.clone(), at, ended: None, last: None };
        self.sends.insert(send.id, Arc::new(record));
    }

    pub(crate) fn happened(&mut self, key: &DeskKey, event: &DeskEvent, at: Utc) {
        let desk = self.each.entry(*key).or_insert_with(|| Arc::new(Desk::new(*key)));
        let one = desk.open.get(&event.submission());
        let last = one.and_then(|one| one.newest()).map(|(_at, _tried, raw)| raw.hash);
        bursar_submit::apply(Arc::make_mut(desk), event);
        if let DeskEvent::Finished { id, outcome } = event {
            self.ended(RequestId::from_bytes(id.0), *outcome, last, at);
        }
    }

    fn ended(&mut self, id: RequestId, outcome: Outcome, last: Option<B256>, at: Utc) {
        let Some(record) = self.sends.get_mut(&id).map(Arc::make_mut) else { return };
        record.ended = Some((outcome, at));
        record.last = last;
        self.over.push_back(id);
        if self.over.len() > RECENT
            && let Some(oldest) = self.over.pop_front()
        {
            self.sends.remove(&oldest);
        }
    }

    /// The operator accepts a journal that did not fit the wallet: what it allows to be signed is not
    /// accepted with it. What was signed may be mined whatever anybody accepts.
    pub(crate) fn accepted(&mut self, at: Utc) {
        let unsigned: Vec<(DeskKey, SubmissionId)> = self
            .each
            .values()
            .flat_map(|desk| desk.open.iter().map(|(id, one)| (desk.key, *id, one)))
            .filter(|(key, _id, one)| !one.is_signed() || !one.is_genuine(key))
            .map(|(key, id, _one)| (key, id))
            .collect();
        for (key, id) in unsigned {
            let outcome = Outcome::Dropped;
            self.happened(&key, &DeskEvent::Finished { id, outcome }, at);
        }
        for desk in self.each.values_mut() {
            let mut events = Vec::new();
            for (id, one) in &desk.open {
                let unsigned = one.unsigned_attempt();
                events.extend(
                    unsigned.map(|(attempt, _tried)| DeskEvent::Declined { id: *id, attempt }),
                );
                // Its ceiling may be anybody's word: what was signed is offered, and nothing above it.
                let offered = one.attempts.iter().filter(|tried| tried.raw.is_some());
                let ceiling = offered.map(|tried| tried.fees.most()).max().unwrap_or(0);
                events.push(DeskEvent::Bounded { id: *id, ceiling });
            }
            for event in &events {
                bursar_submit::apply(Arc::make_mut(desk), event);
            }
        }
    }
}

/// The rules of a desk's network; `None` for a network that is in no row.
pub fn rules(key: &DeskKey) -> Option<Rules> {
    by_chain(key.chain).map(|row| Rules::of(&row.gas, WINDOW))
}
