//! What the world checks about trades by itself, whatever the auditor knows.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, U256};
use bursar_auditor::observations::{Included, Signed, SignedContent, Transaction};
use bursar_core::networks::ChainId;

use crate::evm::notes::{atoms, text};
use crate::evm::{Contracts, SwapTerms, swap_terms};
use crate::world::{World, WorldFailure};

/// What the world remembers about trades.
#[derive(Debug, Default)]
pub(crate) struct TradeFacts {
    /// The swap that each request has in a block: its hash.
    swaps: BTreeMap<String, String>,
    /// The allowances before the first trade, by chain, owner, token, spender.
    before: BTreeMap<(u64, Address, Address, Address), U256>,
    /// The nonces of swaps that were signed, by chain and address.
    signed: BTreeSet<(u64, String, u64)>,
    /// Whether another transaction took a nonce, or a transaction reverted: then a revocation may be lost.
    pub(crate) displaced: bool,
}

fn broken(what: String) -> Result<(), WorldFailure> {
    Err(("world".to_owned(), what))
}

/// Reads call data as the chain does.
fn terms(tx: &Transaction) -> Option<SwapTerms> {
    let data = hex::decode(tx.data.trim_start_matches("0x")).ok()?;
    let contracts = Contracts::of(ChainId(tx.chain));
    swap_terms(&contracts, tx.to.parse().ok()?, U256::from(tx.value), &data)
}

impl World {
    /// Remembers the allowances with which the world begins.
    pub(crate) fn note_allowances(&mut self) {
        for chain in &self.chains {
            let id = chain.id();
            let all = chain.with_ledger(|ledger| ledger.state.all_allowances());
            for ((owner, token, spender), amount) in all.unwrap_or_default() {
                self.facts.before.insert((id, owner, token, spender), amount);
            }
        }
    }

    /// A swap of a token is signed only when the chain lets its contract take the input.
    pub(crate) fn check_signed(&mut self, signed: &Signed) -> Result<(), WorldFailure> {
        let SignedContent::Transaction(tx) = &signed.content else { return Ok(()) };
        let Some(terms) = terms(tx) else { return Ok(()) };
        // A second signature, with another fee, may follow a block that holds the first.
        let first = self.facts.signed.insert((tx.chain, tx.from.clone(), tx.nonce));
        if terms.token_in.is_zero() || terms.hops.is_empty() || !first {
            return Ok(());
        }
        let contracts = Contracts::of(ChainId(tx.chain));
        let v3 = tx.to == text(contracts.exchange.v3.router);
        let spender = if v3 { contracts.exchange.v3.router } else { contracts.exchange.permit2 };
        let owner: Address = tx.from.parse().unwrap_or_default();
        let chain = self.chains.iter().find(|chain| chain.id() == tx.chain);
        let allowed = chain.and_then(|chain| {
            chain.with_ledger(|ledger| ledger.state.allowance(terms.token_in, owner, spender))
        });
        match allowed {
            Some(allowed) if allowed < terms.amount_in => broken(format!(
                "a swap of {} was signed while its contract may take {allowed}",
                terms.amount_in
            )),
            _enough => Ok(()),
        }
    }

    /// At most one swap of a request takes effect, and it costs and brings what its call data say.
    pub(crate) fn check_included(&mut self, seen: &Included) -> Result<(), WorldFailure> {
        if !seen.succeeded {
            // While the token is paused, a revocation reverts, and the wallet does not try again.
            self.facts.displaced |= self.swarm.loans;
            return Ok(());
        }
        let chain = self.chains.iter().find(|chain| chain.id() == seen.chain);
        let hash: B256 = seen.hash.parse().unwrap_or_default();
        let tx = chain.and_then(|chain| {
            chain.with_ledger(|ledger| ledger.included(hash).map(|one| one.tx.clone())).flatten()
        });
        let Some(tx) = tx else { return Ok(()) };
        let contracts = Contracts::of(ChainId(seen.chain));
        let Some(terms) = swap_terms(&contracts, tx.to, tx.value, &tx.data) else { return Ok(()) };
        if let (_content, Some(request)) = self.faults.contents().of(tx.from, tx.digest) {
            let first = self.facts.swaps.entry(request.clone()).or_insert(seen.hash.clone());
            if *first != seen.hash {
                return broken(format!("two swaps of {request}: {first} and {}", seen.hash));
            }
        }
        let owner = text(tx.from);
        let sum = |token: Address, to_owner: bool| {
            let token = text(token);
            let own = seen.transfers.iter().filter(|log| log.token == token);
            let own = own.filter(|log| if to_owner { log.to == owner } else { log.from == owner });
            own.map(|log| log.amount).fold(0u128, u128::saturating_add)
        };
        let wraps = terms.hops.is_empty();
        if !terms.token_in.is_zero() && !wraps {
            let spent = sum(terms.token_in, false);
            let fits = spent <= atoms(terms.amount_in);
            if !fits {
                return broken(format!("a swap of {} took {spent}", terms.amount_in));
            }
        }
        let least = atoms(terms.least_out);
        let received = if terms.token_out.is_zero() {
            seen.native_received
        } else if wraps || crate::evm::OTHERS[1..3].contains(&terms.token_out) {
            // Wrapping has no transfer; tokens that keep a part are rehearsed before, not bounded by their pool.
            return Ok(());
        } else {
            sum(terms.token_out, true)
        };
        if received < least {
            return broken(format!("a swap with the minimum {least} brought {received}"));
        }
        Ok(())
    }

    /// A swap whose block was removed does not count.
    pub(crate) fn forget_unmined(&mut self, hash: &str) {
        self.facts.swaps.retain(|_request, known| known != hash);
    }

    /// Once no plan runs, no allowance is higher than before the first trade.
    pub(crate) fn check_allowances(&mut self) -> Result<(), WorldFailure> {
        if self.facts.displaced || !self.process().core().state().executing.is_empty() {
            return Ok(());
        }
        for chain in &self.chains {
            let id = chain.id();
            let all = chain.with_ledger(|ledger| ledger.state.all_allowances());
            for ((owner, token, spender), amount) in all.unwrap_or_default() {
                let before = self.facts.before.get(&(id, owner, token, spender));
                if amount > before.copied().unwrap_or_default() {
                    return broken(format!(
                        "{owner} leaves {spender} an allowance of {amount} of {token}"
                    ));
                }
            }
        }
        Ok(())
    }
}
