//! The wallet: its seeds, its addresses, and the journal entry that the wallet file names.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::ids::{Name, SeedId};
use bursar_core::time::Utc;

use super::mandates;
use crate::event::AddressAdded;
use crate::state::State;
use crate::wallets::{PayingAddress, Seed, Wallet};

pub(super) fn create(state: &mut State, name: &Name, wallet_id: [u8; 16], at: Utc) {
    state.wallet = Some(Arc::new(Wallet {
        name: name.clone(),
        wallet_id,
        created: at,
        seeds: BTreeMap::new(),
        addresses: BTreeMap::new(),
    }));
    // A person has just chosen the password, so the wallet is attended.
    state.unattended.active = false;
}

pub(super) fn delete(state: &mut State) {
    state.wallet = None;
    state.noted_entry = 0;
    state.passwords_refused = 0;
    mandates::clear(state);
}

/// Records that the correct password was entered.
///
/// `noted` is the entry that the wallet file names now, if the file was written.
pub(super) fn record_unlock(state: &mut State, noted: Option<u64>) {
    state.passwords_refused = 0;
    record_noted_entry(state, noted);
}

/// Records the entry that the wallet file names, if the file was written.
pub(super) fn record_noted_entry(state: &mut State, noted: Option<u64>) {
    state.noted_entry = noted.unwrap_or(state.noted_entry);
}

pub(super) fn add_seed(state: &mut State, id: SeedId, words: u8, at: Utc) {
    if let Some(wallet) = &mut state.wallet {
        Arc::make_mut(wallet).seeds.insert(id, Seed { words, created: at });
    }
}

pub(super) fn add_address(state: &mut State, added: &AddressAdded, at: Utc) {
    if let Some(wallet) = &mut state.wallet {
        let address = PayingAddress {
            label: added.label.clone(),
            description: added.description.clone(),
            index: added.index,
            backing: added.backing,
            path: added.path.clone(),
            address: added.address,
            created: at,
        };
        Arc::make_mut(wallet).addresses.insert(added.label.key(), Arc::new(address));
    }
}

/// Renames an address. Agents that pay from it continue under the new label.
pub(super) fn rename_address(state: &mut State, from: &Name, to: &Name) {
    if let Some(wallet) = &mut state.wallet {
        let addresses = &mut Arc::make_mut(wallet).addresses;
        if let Some(mut address) = addresses.remove(&from.key()) {
            Arc::make_mut(&mut address).label = to.clone();
            addresses.insert(to.key(), address);
        }
    }
    for agent in Arc::make_mut(&mut state.agents).values_mut() {
        if agent.commission.as_ref().is_some_and(|given| given.label.key() == from.key())
            && let Some(given) = &mut Arc::make_mut(agent).commission
        {
            given.label = to.clone();
        }
    }
}

pub(super) fn delete_address(state: &mut State, label: &Name) {
    if let Some(wallet) = &mut state.wallet {
        Arc::make_mut(wallet).addresses.remove(&label.key());
    }
}
