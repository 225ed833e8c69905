//! The networks and addresses to scan, from the core's views.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, NETWORKS};
use bursar_domain::State;
use bursar_domain::wallets::Wallet;
use tokio::sync::watch;

use crate::core::handle::Handle;

/// The enabled networks with lending, and the addresses of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ScanScope {
    pub(super) networks: BTreeSet<ChainId>,
    /// `None` without a wallet.
    pub(super) owners: Option<Arc<BTreeSet<Address>>>,
}

impl ScanScope {
    fn of(state: &State, owners: Option<Arc<BTreeSet<Address>>>) -> Self {
        let lends = NETWORKS.iter().filter(|row| row.lending.is_some()).map(|row| row.chain);
        Self { networks: lends.filter(|chain| state.is_network_enabled(*chain)).collect(), owners }
    }

    /// Returns the addresses to search for on a network; `None` if its nodes must not be asked.
    pub(super) fn owners_on(&self, chain: ChainId) -> Option<Arc<BTreeSet<Address>>> {
        self.owners.clone().filter(|_owners| self.networks.contains(&chain))
    }
}

/// Publishes each change of the scope until the core stops.
pub(super) async fn follow_views(core: Handle, wanted: watch::Sender<ScanScope>) {
    let mut views = core.watch();
    let mut known: Option<Arc<Wallet>> = None;
    let mut owners = None;
    loop {
        let view = Arc::clone(&views.borrow_and_update());
        let wallet = view.state.wallet.as_ref();
        // There is a view for each commit, and few of them change the wallet.
        if known.as_ref().map(Arc::as_ptr) != wallet.map(Arc::as_ptr) {
            known = wallet.cloned();
            let addresses = |wallet: &Arc<Wallet>| {
                Arc::new(wallet.addresses.values().map(|known| known.address).collect())
            };
            owners = wallet.map(addresses);
        }
        let next = ScanScope::of(&view.state, owners.clone());
        wanted.send_if_modified(|before| {
            let is_new = *before != next;
            *before = next;
            is_new
        });
        if views.changed().await.is_err() {
            return;
        }
    }
}
