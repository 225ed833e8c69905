//! Checks about trades that the world makes itself, independent of the auditor.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, U256};
use bursar_auditor::observations::{Included, Signed, SignedContent, Transaction};
use bursar_core::networks::ChainId;

use crate::evm::notes::{atoms, text};
use crate::evm::{Contracts, SwapTerms, swap_terms};
use crate::world::{World, WorldFailure};

/// The world's knowledge of trades.
#[derive(Debug, Default)]
pub(crate) struct TradeFacts {
    /// The hash of each request's swap that is in a block.
    swaps: BTreeMap<String, String>,
    /// The allowances before the first trade, by chain, owner, token, spender.
    before: BTreeMap<(u64, Address, Address, Address), U256>,
    /// The nonces of swaps that were signed, by chain and address.
    signed: BTreeSet<(u64, String, u64)>,
    /// Whether another transaction took a nonce, or a transaction reverted. Then a revocation may be lost.
    pub(crate) was_displaced: bool,
}

fn broken(what: String) -> Result<(), WorldFailure> {
    Err(("world".to_owned(), what))
}

/// Decodes the call data of a swap as the chain does.
fn terms(tx: &Transaction) -> Option<SwapTerms> {
    let data = hex::decode(tx.data.trim_start_matches("0x")).ok()?;
    let contracts = Contracts::of(ChainId(tx.chain));
    swap_terms(&contracts, tx.to.parse().ok()?, U256::from(tx.value), &data)
}

impl World {
    /// Notes the allowances that exist before the first trade.
    pub(crate) fn note_allowances(&mut self) {
        for chain in &self.chains {
            let id = chain.id();
            let all = chain.with_ledger(|ledger| ledger.state.all_allowances());
            for ((owner, token, spender), amount) in all.unwrap_or_default() {
                self.facts.before.insert((id, owner, token, spender), amount);
            }
        }
    }

    /// Checks that a swap of a token is signed only if the chain lets its contract take the input.
    pub(crate) fn check_signed(&mut self, signed: &Signed) -> Result<(), WorldFailure> {
        let SignedContent::Transaction(tx) = &signed.content else { return Ok(()) };
        let Some(terms) = terms(tx) else { return Ok(()) };
        // A second signature, with another fee, may follow when the first transaction is already in a block.
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

    /// Checks that at most one swap of a request takes effect, with the input and the minimum output of its call data.
    pub(crate) fn check_included(&mut self, seen: &Included) -> Result<(), WorldFailure> {
        if !seen.succeeded {
            // While the token is paused, a revocation reverts, and the wallet does not repeat it.
            self.facts.was_displaced |= self.swarm.loans;
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
            // A wrap has no transfer. The output of a token that keeps a part is checked by the rehearsal, not by its
            // pool.
            return Ok(());
        } else {
            sum(terms.token_out, true)
        };
        if received < least {
            return broken(format!("a swap with the minimum {least} brought {received}"));
        }
        Ok(())
    }

    /// Forgets a swap whose block was removed.
    pub(crate) fn forget_unmined(&mut self, hash: &str) {
        self.facts.swaps.retain(|_request, known| known != hash);
    }

    /// Checks that no allowance is higher than before the first trade, once no plan runs.
    pub(crate) fn check_allowances(&mut self) -> Result<(), WorldFailure> {
        if self.facts.was_displaced || !self.process().core().state().executing.is_empty() {
            return Ok(());
        }
        for chain in &self.chains {
            let id = chain.id();
            let all = chain.with_ledger(|ledger| ledger.state.all_allowances());
            for ((owner, token, spender), amount) in all.unwrap_or_default() {
                // The auditor judges the allowances of the device, because a person may refuse to revoke them.
                if self.device_payments.address == Some(owner) {
                    continue;
                }
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
