//! The operator's sends, and the outboxes that carry their transactions: the wallet's side of [`bursar_submit`],
//! which decides nonces, gas offers and endings.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_core::amount::Amount;
use bursar_core::client::Client;
use bursar_core::ids::{Name, RequestId};
use bursar_core::money::TokenAmount;
use bursar_core::networks::{ChainId, by_chain};
use bursar_core::time::Utc;
use bursar_morpho::VenueId;
use bursar_morpho::decode as loans;
use bursar_submit::{Call, Event as OutboxEvent, Outbox, OutboxKey, Outcome, Rules, SubmissionId};
use bursar_uniswap::decode::decode_call;
use bursar_uniswap::{Decoded, swap};
use serde::{Deserialize, Serialize};

/// Maximum number of submissions of one address that hold a nonce on one network at a time.
const OPEN_SUBMISSIONS_MAX: usize = 16;

/// Maximum number of finished sends that stay in the state.
const FINISHED_SENDS_MAX: usize = 20;

/// A transaction of the operator: a transfer, the revocation of a token allowance, or a withdrawal from a venue.
///
/// For a revocation, `to` is the contract that had the allowance, and `amount` is zero. For a withdrawal, `to` is the
/// vault or the singleton, and `amount` is the expected amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    pub id: RequestId,
    /// The label that the paying address had when the send was ordered.
    pub label: Name,
    pub from: Address,
    pub chain: ChainId,
    /// `None` is the native coin.
    pub token: Option<Address>,
    pub symbol: String,
    pub to: Address,
    pub amount: TokenAmount,
    /// The call of the transaction.
    pub call: Call,
    /// The highest price to offer for a unit of gas, in wei.
    pub gas_price_max: u128,
    pub by: Client,
}

impl Send {
    /// Returns the key of the outbox: network and signer.
    pub fn key(&self) -> OutboxKey {
        OutboxKey { chain: self.chain, signer: self.from }
    }

    /// Returns the id of the submission, which is that of the send.
    pub fn submission(&self) -> SubmissionId {
        SubmissionId(*self.id.as_bytes())
    }

    /// Returns the token whose allowance the call sets to zero; `None` for a transfer.
    pub fn revoked_token(&self) -> Option<Address> {
        let exchange = by_chain(self.chain)?.exchange?;
        let Call { to, value, data, gas_limit: _ } = self.call.clone();
        match decode_call(exchange, self.from, &swap::Call { to, value, data }) {
            Decoded::Approve { token, amount, .. } | Decoded::Permit { token, amount, .. } => {
                amount.is_zero().then_some(token)
            }
            Decoded::Wrap { .. }
            | Decoded::Unwrap { .. }
            | Decoded::Swap { .. }
            | Decoded::Unknown { .. } => None,
        }
    }

    /// Returns the venue from which the call withdraws; `None` for any other send.
    pub fn withdrawn_from(&self) -> Option<VenueId> {
        let lending = by_chain(self.chain)?.lending?;
        let parts = loans::decode_parts(lending.singleton, self.call.to, &self.call.data);
        let [only] = parts.as_slice() else {
            return loans::forced_exit_from(&parts).map(VenueId::Vault);
        };
        match *only {
            loans::Decoded::Withdraw { vault, .. } | loans::Decoded::Redeem { vault, .. } => {
                Some(VenueId::Vault(vault))
            }
            loans::Decoded::MarketWithdraw { market, .. } => Some(VenueId::Market(market)),
            loans::Decoded::Approve { .. }
            | loans::Decoded::Deposit { .. }
            | loans::Decoded::Mint { .. }
            | loans::Decoded::MarketSupply { .. }
            | loans::Decoded::ForceDeallocate { .. }
            | loans::Decoded::Unknown { .. } => None,
        }
    }

    /// Describes the amount; it is zero if an allowance is revoked.
    pub fn described_amount(&self) -> Amount {
        Amount::new(self.amount, &self.symbol, self.token)
    }

    /// Formats the amount or the purpose, like `1.500000 USDC` or `withdrawal of 30.000000 USDC`.
    pub fn amount_text(&self) -> String {
        if self.revoked_token().is_some() {
            return format!("the allowance of {}", self.symbol);
        }
        let what = if self.withdrawn_from().is_some() { "withdrawal of " } else { "" };
        format!("{what}{}", self.described_amount().text)
    }
}

/// A send and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendRecord {
    pub send: Send,
    pub at: Utc,
    pub ended: Option<(Outcome, Utc)>,
    /// The newest transaction signed for the send when it ended.
    ///
    /// If the outcome is unknown, this transaction may still be mined.
    pub last_tx: Option<B256>,
    /// Whether the amount that a withdrawal returned is recorded.
    pub is_booked: bool,
}

impl SendRecord {
    /// Returns the transaction of a withdrawal that took effect and is not booked yet.
    pub fn unbooked_tx(&self) -> Option<B256> {
        match self.ended {
            Some((Outcome::Succeeded { hash, .. }, _at)) if !self.is_booked => {
                self.send.withdrawn_from().map(|_venue| hash)
            }
            Some(_) | None => None,
        }
    }
}

/// All outboxes, and the sends that go through them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outboxes {
    pub by_key: BTreeMap<OutboxKey, Arc<Outbox>>,
    /// The open sends, and the latest finished ones.
    pub sends: BTreeMap<RequestId, Arc<SendRecord>>,
    /// The finished sends, oldest first.
    finished_sends: VecDeque<RequestId>,
}

impl Outboxes {
    /// Returns the outbox of a signer on a network; an empty one if nothing was ever sent.
    pub fn get(&self, key: &OutboxKey) -> Arc<Outbox> {
        self.by_key.get(key).cloned().unwrap_or_else(|| Arc::new(Outbox::new(*key)))
    }

    /// Returns the amount in flight from an address, in the smallest unit.
    ///
    /// For the native coin this includes the highest possible cost of gas; for a token it is the sum of the open
    /// sends. `None` on overflow.
    pub fn in_flight(&self, key: &OutboxKey, token: Option<Address>) -> Option<U256> {
        let outbox = self.get(key);
        match token {
            None => outbox.open.values().try_fold(U256::ZERO, |sum, one| {
                // An operator may have raised the gas offer above the ceiling.
                let offers = one.attempts.iter().filter(|tried| !tried.declined);
                let offers = offers.map(|tried| tried.fees.max_price());
                let most = offers.fold(one.ceiling, u128::max);
                let gas = U256::from(one.call.gas_limit).checked_mul(U256::from(most))?;
                sum.checked_add(one.call.value)?.checked_add(gas)
            }),
            Some(_) => {
                let open = self.sends.values().filter(|record| {
                    let send = &record.send;
                    record.ended.is_none()
                        && send.key() == *key
                        && send.token == token
                        && send.withdrawn_from().is_none()
                });
                open.map(|record| record.send.amount.atoms.0)
                    .try_fold(U256::ZERO, |sum, amount| sum.checked_add(amount))
            }
        }
    }

    /// Returns the outboxes that have open submissions.
    pub fn with_open_submissions(&self) -> impl Iterator<Item = &Arc<Outbox>> {
        self.by_key.values().filter(|outbox| !outbox.open.is_empty())
    }

    pub(crate) fn add_send(&mut self, send: &Send, at: Utc) {
        let record =
            SendRecord { send: send.clone(), at, ended: None, last_tx: None, is_booked: false };
        self.sends.insert(send.id, Arc::new(record));
    }

    pub(crate) fn apply_event(&mut self, key: &OutboxKey, event: &OutboxEvent, at: Utc) {
        let outbox = self.by_key.entry(*key).or_insert_with(|| Arc::new(Outbox::new(*key)));
        let one = outbox.open.get(&event.submission());
        let last = one.and_then(|one| one.newest()).map(|(_at, _tried, raw)| raw.hash);
        bursar_submit::apply(Arc::make_mut(outbox), event);
        if let OutboxEvent::Finished { id, outcome } = event {
            self.finish_send(RequestId::from_bytes(id.0), *outcome, last, at);
        }
    }

    /// Marks a withdrawal as booked and returns it.
    pub(crate) fn book(&mut self, id: RequestId) -> Option<Send> {
        let record = self.sends.get_mut(&id).map(Arc::make_mut)?;
        record.is_booked = true;
        Some(record.send.clone())
    }

    fn finish_send(&mut self, id: RequestId, outcome: Outcome, last: Option<B256>, at: Utc) {
        let Some(record) = self.sends.get_mut(&id).map(Arc::make_mut) else { return };
        record.ended = Some((outcome, at));
        record.last_tx = last;
        self.finished_sends.push_back(id);
        if self.finished_sends.len() > FINISHED_SENDS_MAX
            && let Some(oldest) = self.finished_sends.pop_front()
        {
            self.sends.remove(&oldest);
        }
    }

    /// Drops submissions without a genuine signature, after the operator accepted the journal.
    ///
    /// Accepting a journal does not accept the permissions to sign that it contains. Signed transactions stay,
    /// because they may be mined in any case.
    pub(crate) fn drop_unsigned(&mut self, at: Utc) {
        let unsigned: Vec<(OutboxKey, SubmissionId)> = self
            .by_key
            .values()
            .flat_map(|outbox| outbox.open.iter().map(|(id, one)| (outbox.key, *id, one)))
            .filter(|(key, _id, one)| !one.is_signed() || !one.is_genuine(key))
            .map(|(key, id, _one)| (key, id))
            .collect();
        for (key, id) in unsigned {
            let outcome = Outcome::Dropped;
            self.apply_event(&key, &OutboxEvent::Finished { id, outcome }, at);
        }
        for outbox in self.by_key.values_mut() {
            let mut events = Vec::new();
            for (id, one) in &outbox.open {
                let unsigned = one.unsigned_attempt();
                events.extend(
                    unsigned.map(|(attempt, _tried)| OutboxEvent::Declined { id: *id, attempt }),
                );
                // The stored ceiling may be forged: the highest fee that was signed becomes the ceiling.
                let offered = one.attempts.iter().filter(|tried| tried.raw.is_some());
                let ceiling = offered.map(|tried| tried.fees.max_price()).max().unwrap_or(0);
                events.push(OutboxEvent::CeilingLowered { id: *id, ceiling });
            }
            for event in &events {
                bursar_submit::apply(Arc::make_mut(outbox), event);
            }
        }
    }
}

/// Returns the rules of an outbox's network; `None` if the table does not have this network.
///
/// `by_person` is true if the signer is the address of a device.
pub fn rules(key: &OutboxKey, by_person: bool) -> Option<Rules> {
    let rules = by_chain(key.chain).map(|row| Rules::of(&row.gas, OPEN_SUBMISSIONS_MAX))?;
    Some(if by_person { rules.with_person_signing() } else { rules })
}
