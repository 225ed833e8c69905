//! Chooses the vaults to read for one answer. Any account can create vaults through the official factories, so there
//! may be thousands.

use std::collections::BTreeSet;

use alloy_primitives::Address;
use bursar_chain::multicall::READS_MAX;
use bursar_chain::ports::Chain;
use bursar_core::limits::FOREIGN_VAULTS_READ_MAX;
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_domain::Refusal;
use bursar_morpho::Trust;
use bursar_morpho::views::{self, vault};

use super::scan::Scan;
use crate::lanes::batch::Batch;

/// Number of vaults whose curators are read at the same time.
const CURATORS_AT_ONCE: usize = 4 * READS_MAX;

/// The vaults of one answer.
pub(super) struct VaultList {
    /// The vaults without duplicates: those of our table, those of the wallet, then others of trusted curators.
    pub(super) vaults: Vec<Address>,
    /// Vaults of the table and of the wallet: an answer always mentions them.
    always_mentioned: BTreeSet<Address>,
}

impl VaultList {
    /// Chooses the vaults by their curators at a given block.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(super) async fn read(
        scan: &Scan,
        chain: &dyn Chain,
        block: u64,
        network: &Network,
        contracts: &Contracts,
    ) -> Result<Self, Refusal> {
        let seen = scan.vaults_with_positions(network.chain);
        let known = scan.known_vaults(network.chain);
        let mut list = Self { vaults: Vec::new(), always_mentioned: BTreeSet::new() };
        for vault in contracts.pinned_vaults.iter().chain(seen.iter().take(FOREIGN_VAULTS_READ_MAX))
        {
            if list.always_mentioned.insert(*vault) {
                list.vaults.push(*vault);
            }
        }
        let is_other = |vault: &Address| !list.always_mentioned.contains(vault);
        let others: Vec<Address> =
            known.into_iter().map(|(vault, _kind)| vault).filter(is_other).collect();
        let chosen = of_trusted_curators(chain, block, &others, contracts.curators).await?;
        list.vaults.extend(chosen.into_iter().take(FOREIGN_VAULTS_READ_MAX));
        Ok(list)
    }

    /// Returns whether an answer mentions this vault, whatever its state.
    pub(super) fn always_mentions(&self, vault: Address) -> bool {
        self.always_mentioned.contains(&vault)
    }

    /// Returns whether a list of venues shows this vault. A list shows a refused vault only if it is in our table or
    /// the wallet has a position in it.
    pub(super) fn is_listed(&self, vault: Address, trust: Trust) -> bool {
        match trust {
            Trust::Curated | Trust::Pinned | Trust::NewNeedsConfirmation(_) => true,
            Trust::Refused(_) => self.always_mentions(vault),
        }
    }
}

/// Returns the vaults that name a trusted curator. All other vaults would be refused, and reading the curator is enough
/// to know that.
async fn of_trusted_curators(
    chain: &dyn Chain,
    block: u64,
    vaults: &[Address],
    curators: &[Address],
) -> Result<Vec<Address>, Refusal> {
    let mut chosen = Vec::new();
    for some in vaults.chunks(CURATORS_AT_ONCE) {
        let mut batch = Batch::default();
        let places: Vec<_> =
            some.iter().map(|vault| batch.add(*vault, vault::curator_call())).collect();
        let answers = batch.run_at(chain, block).await?;
        for (vault, at) in some.iter().zip(places) {
            let answer = answers.bytes(at).ok();
            let curator = answer.and_then(|answer| views::decode_address(answer));
            if curator.is_some_and(|curator| curators.contains(&curator)) {
                chosen.push(*vault);
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use alloy_primitives::Bytes;
    use bursar_chain::ports::{BlockTag, ChainReply};
    use bursar_core::networks::{ChainId, MULTICALL3, by_chain};
    use bursar_morpho::trust::UntrustedReason;

    use super::*;

    /// A chain without Multicall3. Vaults with an even last byte name the trusted curator, all others name no
    /// curator.
    #[derive(Debug, Default)]
    struct ChainWithoutMulticall {
        calls: AtomicUsize,
    }

    impl Chain for ChainWithoutMulticall {
        fn call(&self, to: Address, data: Bytes, block: BlockTag) -> ChainReply<'_, Bytes> {
            assert_eq!(block, BlockTag::Number(7));
            if to == MULTICALL3 {
                return Box::pin(async { Ok(Bytes::new()) });
            }
            assert_eq!(data, vault::curator_call());
            self.calls.fetch_add(1, Ordering::SeqCst);
            let is_even = to.into_array()[19].is_multiple_of(2);
            let curator = if is_even { contracts().curators[0] } else { Address::ZERO };
            Box::pin(async move { Ok(Bytes::from(curator.into_word())) })
        }
    }

    fn network() -> &'static Network {
        by_chain(ChainId(8453)).unwrap()
    }

    fn contracts() -> &'static Contracts {
        network().lending.unwrap()
    }

    fn vault(at: u16) -> Address {
        let mut address = [0x77; 20];
        address[18..].copy_from_slice(&at.to_be_bytes());
        address.into()
    }

    async fn read(known: &[Address], seen: &[Address]) -> (VaultList, usize) {
        let (scan, chain) = (Scan::default(), ChainWithoutMulticall::default());
        scan.set_test_findings(network().chain, contracts(), known, seen);
        let list = VaultList::read(&scan, &chain, 7, network(), contracts()).await.unwrap();
        (list, chain.calls.into_inner())
    }

    #[tokio::test]
    async fn strangers_vaults_are_read_only_with_a_trusted_curator() {
        let pinned = contracts().pinned_vaults;
        let known = [vault(1), vault(2), pinned[0], vault(3), vault(4)];
        let (list, calls) = read(&known, &[vault(3)]).await;
        let expected: Vec<_> = pinned.iter().copied().chain([3, 2, 4].map(vault)).collect();
        assert_eq!((list.vaults.as_slice(), calls), (expected.as_slice(), 3));
        let refused = Trust::Refused(UntrustedReason::NotEndorsed);
        assert!(list.is_listed(pinned[0], refused) && list.is_listed(vault(3), refused));
        assert!(!list.is_listed(vault(2), refused) && list.is_listed(vault(2), Trust::Curated));
    }

    #[tokio::test]
    async fn the_number_of_vaults_is_bounded() {
        let known: Vec<_> = (0..1_000).map(vault).collect();
        let (list, calls) = read(&known, &[]).await;
        let pinned = contracts().pinned_vaults;
        assert_eq!((list.vaults.len(), calls), (pinned.len() + FOREIGN_VAULTS_READ_MAX, 1_000));
        // The oldest vaults are chosen, so later ones cannot displace them.
        assert_eq!(list.vaults[pinned.len()], vault(0));
        let (list, _calls) = read(&[], &known[..200]).await;
        assert_eq!(list.vaults.len(), pinned.len() + 200);
    }
}
