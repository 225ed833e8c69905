//! The operator's own transactions: each needs an order, and none may happen twice.

use crate::observations::{Address, Send, Ticket, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of an order to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendOutcome {
    /// The order got no answer: it is open or lost.
    Unknown,
    Sent,
    Refused,
}

#[derive(Debug, Clone)]
struct ExpectedSend {
    /// The addresses from which the transaction may be sent.
    from: BTreeSet<Address>,
    /// Whether the wallet may have been open when it decided the order.
    may_have_been_open: bool,
    /// Whether the transaction may come from an unknown address.
    may_be_unknown_sender: bool,
    body: (u64, Address, u128, String),
    outcome: SendOutcome,
}

/// One nonce of one address on one chain.
#[derive(Debug, Clone)]
struct Slot {
    body: (u64, Address, u128, String),
    hashes: BTreeSet<String>,
    mined: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Transfers {
    sends: BTreeMap<Ticket, ExpectedSend>,
    slots: BTreeMap<(u64, Address, u64), Slot>,
}

fn strip_prefix_0x(hex: &str) -> String {
    let hex = hex.to_lowercase();
    hex.strip_prefix("0x").unwrap_or(&hex).to_owned()
}

/// Returns the transaction that an order asks for: chain, target, value, call data.
fn body(send: &Send, stablecoin: &str) -> (u64, Address, u128, String) {
    if send.native {
        (send.chain, send.to.to_lowercase(), send.amount, String::new())
    } else {
        let data = format!("a9059cbb{:0>64}{:0>64x}", strip_prefix_0x(&send.to), send.amount);
        (send.chain, stablecoin.to_lowercase(), 0, data)
    }
}

impl Transfers {
    pub(crate) fn add_order(&mut self, ticket: Ticket, send: &Send, stablecoin: &str) {
        let sending = ExpectedSend {
            from: BTreeSet::new(),
            may_have_been_open: false,
            may_be_unknown_sender: false,
            body: body(send, stablecoin),
            outcome: SendOutcome::Unknown,
        };
        self.sends.insert(ticket, sending);
    }

    /// Notes that the wallet may execute the order from this address.
    pub(crate) fn note_possible_sender(&mut self, ticket: Ticket, from: Option<&str>) {
        if let Some(s) = self.sends.get_mut(&ticket) {
            s.may_have_been_open = true;
            match from {
                Some(from) => {
                    s.from.insert(from.to_owned());
                }
                None => s.may_be_unknown_sender = true,
            }
        }
    }

    fn count(&self, from: &str, body: &(u64, Address, u128, String)) -> (usize, usize) {
        let able = |s: &&ExpectedSend| {
            s.outcome != SendOutcome::Refused
                && s.may_have_been_open
                && s.body == *body
                && (s.may_be_unknown_sender || s.from.contains(from))
        };
        let slots = self.slots.iter().filter(|((_, f, _), s)| f == from && s.body == *body).count();
        (slots, self.sends.values().filter(able).count())
    }

    /// Notes how the order ended. Fails with a description of the violation.
    pub(crate) fn end_order(&mut self, ticket: Ticket, sent: bool) -> Result<(), String> {
        let Some(s) = self.sends.get_mut(&ticket) else { return Ok(()) };
        if sent && !s.may_have_been_open {
            return Err(
                "it was executed although the wallet was locked or has no such address".into()
            );
        }
        s.outcome = if sent { SendOutcome::Sent } else { SendOutcome::Refused };
        let (body, from) = (s.body.clone(), s.from.clone());
        for from in from {
            let (slots, sends) = self.count(&from, &body);
            if slots > sends {
                return Err(format!(
                    "it was refused, but {slots} such transactions of {from} went out for {sends} orders"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn note_broadcast(&mut self, tx: &Transaction) -> Result<(), String> {
        let from = tx.from.to_lowercase();
        let body = (tx.chain, tx.to.to_lowercase(), tx.value, strip_prefix_0x(&tx.data));
        let key = (tx.chain, from.clone(), tx.nonce);
        if let Some(slot) = self.slots.get_mut(&key) {
            if slot.body != body {
                return Err(format!(
                    "nonce {} of {from} on {} was used for {:?} before, and for {body:?} now",
                    tx.nonce, tx.chain, slot.body
                ));
            }
            slot.hashes.insert(tx.hash.clone());
            return Ok(());
        }
        let (slots, sends) = self.count(&from, &body);
        if slots >= sends {
            return Err(format!(
                "transaction {} of {from} ({body:?}): {slots} like it went out already, and {sends} orders ask for one",
                tx.hash
            ));
        }
        let hashes = BTreeSet::from([tx.hash.clone()]);
        self.slots.insert(key, Slot { body, hashes, mined: None });
        Ok(())
    }

    pub(crate) fn note_mined(&mut self, chain: u64, hash: &str) -> Result<bool, String> {
        let found =
            self.slots.iter_mut().find(|((c, _, _), s)| *c == chain && s.hashes.contains(hash));
        let Some(((_, from, nonce), slot)) = found else { return Ok(false) };
        if let Some(other) = slot.mined.as_ref().filter(|m| *m != hash) {
            return Err(format!("nonce {nonce} of {from} was mined as {other} and as {hash}"));
        }
        slot.mined = Some(hash.to_owned());
        Ok(true)
    }

    /// Returns whether an order asks for this transaction.
    pub(crate) fn asks_for(&self, tx: &Transaction) -> bool {
        let from = tx.from.to_lowercase();
        let body = (tx.chain, tx.to.to_lowercase(), tx.value, strip_prefix_0x(&tx.data));
        if let Some(slot) = self.slots.get(&(tx.chain, from.clone(), tx.nonce)) {
            return slot.body == body;
        }
        let (slots, sends) = self.count(&from, &body);
        slots < sends
    }

    /// Returns whether this nonce belongs to a transfer.
    pub(crate) fn owns_nonce(&self, at: &(u64, Address, u64)) -> bool {
        self.slots.contains_key(at)
    }

    /// Returns whether a transaction of this address may be signed: an order for it exists and was not refused.
    pub(crate) fn has_open_send(&self, from: &str) -> bool {
        let open = |s: &ExpectedSend| {
            s.may_have_been_open
                && s.outcome != SendOutcome::Refused
                && (s.may_be_unknown_sender || s.from.contains(from))
        };
        self.sends.values().any(open)
    }

    /// Returns whether transactions of this address are in flight: (surely, possibly).
    pub(crate) fn in_flight(&self, from: &str) -> (bool, bool) {
        let mine = || self.slots.iter().filter(|((_, f, _), _)| f == from);
        let waiting = mine().any(|(_, s)| s.mined.is_none());
        // The wallet learns only later that a transaction was mined, or that an order sent nothing.
        (waiting, self.has_open_send(from))
    }
}
