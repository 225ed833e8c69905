//! The scan of one network against a scripted node, on a clock under manual control.

mod node;
mod stage;

use alloy_primitives::{Address, B256, Bytes};
use bursar_chain::ports::ChainFault;
use bursar_core::limits::{
    SCAN_QUERY_ADDRESSES_MAX, SCAN_QUERY_BLOCKS_MAX, SCAN_RECEIVED_DEPOSIT_VENUES_MAX,
    SCAN_VAULTS_MAX,
};
use bursar_core::networks::VaultKind;
use bursar_morpho::VenueId;

use self::node::{base, creation_event, deposit, lending, refused_range, supply};
use self::stage::{Stage, owner};
use super::findings::ScanBound;
use super::query::ScanFault;

const SAFE_BLOCK: u64 = 40_000_000;
const STRANGER: Address = Address::repeat_byte(0x51);

fn vault(at: u16) -> Address {
    let mut address = [0x77; 20];
    address[..2].copy_from_slice(&at.to_be_bytes());
    address.into()
}

/// The address of the factory of this kind, and the first block after its creation.
fn factory(kind: VaultKind) -> (Address, u64) {
    let factory = lending().vault_factory(kind).unwrap();
    (factory.address, factory.first_block + 1)
}

fn v2_created(at: u16) -> bursar_chain::ports::FoundLog {
    let (factory, block) = factory(VaultKind::V2);
    creation_event(VaultKind::V2, factory, base().stablecoin.address, vault(at), block)
}

#[tokio::test]
async fn official_vaults_and_own_positions_are_found() {
    let stage = Stage::new(&[owner(1), owner(2)]);
    let (metamorpho, early) = factory(VaultKind::MetaMorpho);
    let asset = base().stablecoin.address;
    let market = B256::repeat_byte(0x33);
    stage.node.emit([
        creation_event(VaultKind::MetaMorpho, metamorpho, asset, vault(1), early),
        v2_created(2),
        deposit(vault(1), owner(1), owner(1), early + 10),
        deposit(vault(2), STRANGER, owner(2), SAFE_BLOCK),
        deposit(vault(2), STRANGER, STRANGER, SAFE_BLOCK),
        supply(lending().singleton, market, owner(1), owner(1), lending().first_block),
    ]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    let known = [(vault(1), VaultKind::MetaMorpho), (vault(2), VaultKind::V2)];
    assert_eq!(stage.scan.known_vaults(base().chain), known);
    let venues = |at| stage.scan.venues_of(base().chain, owner(at));
    assert_eq!(venues(1), [VenueId::Vault(vault(1)), VenueId::Market(market)]);
    assert_eq!(venues(2), [VenueId::Vault(vault(2))]);
    let progress = stage.progress();
    assert!(progress.is_complete && progress.fault.is_none(), "{progress:?}");
    assert_eq!((progress.next_block, progress.safe_block), (SAFE_BLOCK + 1, Some(SAFE_BLOCK)));
    let asked = stage.node.queries_made();
    assert!(
        asked.iter().all(|filter| filter.to_block <= SAFE_BLOCK && !filter.addresses.is_empty())
    );
    assert!(asked.iter().all(|filter| filter.to_block - filter.from_block < SCAN_QUERY_BLOCKS_MAX));
    assert!(asked.iter().all(|filter| filter.from_block >= lending().first_block));
    assert!(
        asked.iter().all(|filter| filter.indexed.iter().any(|values| !values.is_empty())),
        "the node filters by asset or owner"
    );
    assert!(asked.len() < 150, "{}: both addresses share their queries", asked.len());
}

/// Any contract can emit a deposit in our name. The scripted node panics on every call to a contract.
#[tokio::test]
async fn a_forged_deposit_is_not_a_finding() {
    let stage = Stage::new(&[owner(1)]);
    let forger = Address::repeat_byte(0xbb);
    let market = B256::repeat_byte(0x33);
    let asset = base().stablecoin.address;
    stage.node.emit([
        v2_created(1),
        creation_event(VaultKind::V2, forger, asset, vault(2), SAFE_BLOCK - 20),
        deposit(forger, owner(1), owner(1), SAFE_BLOCK - 10),
        deposit(vault(2), owner(1), owner(1), SAFE_BLOCK - 10),
        supply(forger, market, owner(1), owner(1), SAFE_BLOCK - 10),
        deposit(lending().singleton, owner(1), owner(1), SAFE_BLOCK - 10),
    ]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert!(stage.progress().is_complete);
    assert_eq!(stage.scan.known_vaults(base().chain), [(vault(1), VaultKind::V2)]);
    assert_eq!(stage.scan.venues_of(base().chain, owner(1)), []);
}

/// If a node returns an event that the query did not ask for, its whole answer is discarded.
#[tokio::test]
async fn a_lying_node_neither_adds_nor_hides_a_finding() {
    let asset = base().stablecoin.address;
    let (official, _block) = factory(VaultKind::V2);
    let other = Address::repeat_byte(0xbb);
    let at = SAFE_BLOCK - 5;
    let mut short = deposit(vault(1), owner(1), owner(1), at);
    short.log.topics.pop();
    let mut wide = v2_created(9);
    wide.log.topics[3] = B256::repeat_byte(0xff);
    for lie in [
        deposit(other, owner(1), owner(1), at),
        deposit(vault(1), owner(1), STRANGER, at),
        deposit(vault(1), owner(1), owner(1), SAFE_BLOCK + 1),
        short,
        wide,
        supply(other, B256::repeat_byte(1), owner(1), owner(1), at),
        creation_event(VaultKind::V2, other, asset, vault(2), at),
        creation_event(VaultKind::V2, official, other, vault(2), at),
        creation_event(VaultKind::V2, official, asset, vault(2), SAFE_BLOCK + 1),
    ] {
        let stage = Stage::new(&[owner(1)]);
        stage.node.emit([v2_created(1), deposit(vault(1), owner(1), owner(1), at)]);
        stage.node.lie(Some(lie.clone()));
        let mut stage = stage.start();
        stage.pass_s(120).await;
        let progress = stage.progress();
        assert!(!progress.is_complete, "{lie:?}");
        assert_eq!(progress.fault, Some(ScanFault::Invalid), "{lie:?}");
        assert_eq!(stage.scan.venues_of(base().chain, owner(1)), [], "{lie:?}");
        let known = stage.scan.known_vaults(base().chain);
        assert!(known.iter().all(|(known, _kind)| *known == vault(1)), "{lie:?}");
        stage.node.lie(None);
        stage.pass_s(600).await;
        assert!(stage.progress().is_complete, "{lie:?} {:?}", stage.progress());
        let venues = stage.scan.venues_of(base().chain, owner(1));
        assert_eq!(venues, [VenueId::Vault(vault(1))], "{lie:?}");
    }
}

/// The creator of a vault chooses its name, which may not be valid text.
#[tokio::test]
async fn odd_data_of_an_official_event_does_not_stop_the_scan() {
    let stage = Stage::new(&[owner(1)]);
    let (factory, block) = factory(VaultKind::MetaMorpho);
    let asset = base().stablecoin.address;
    let mut odd = creation_event(VaultKind::MetaMorpho, factory, asset, vault(1), block);
    odd.log.data = Bytes::from_static(&[0xff; 77]);
    stage.node.emit([odd]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert!(stage.progress().is_complete);
    assert_eq!(stage.scan.known_vaults(base().chain), [(vault(1), VaultKind::MetaMorpho)]);
}

#[tokio::test]
async fn a_refused_range_is_halved_until_the_node_answers() {
    let stage = Stage::new(&[owner(1)]);
    stage.node.emit([v2_created(1), deposit(vault(1), owner(1), owner(1), SAFE_BLOCK)]);
    stage.node.set_blocks_max(10_000);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    let early = stage.node.query_count();
    assert_eq!(early, 1, "a pause after each refusal");
    assert_eq!(stage.progress().fault, None, "a refused range is expected");
    stage.pass_s(2_000).await;
    assert!(stage.progress().is_complete, "{:?}", stage.progress());
    assert_eq!(stage.scan.venues_of(base().chain, owner(1)), [VenueId::Vault(vault(1))]);
    let (refused, all) = (stage.node.refused_count(), stage.node.query_count());
    assert!(refused * 16 < all, "{refused} of {all}");
}

#[tokio::test]
async fn a_node_that_refuses_everything_is_asked_ever_less() {
    let stage = Stage::new(&[owner(1)]);
    stage.node.set_blocks_max(0);
    let mut stage = stage.start();
    stage.pass_s(600).await;
    assert_eq!(stage.progress().fault, Some(ScanFault::Refused));
    let asked = stage.node.query_count();
    assert!((25..45).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_node_that_goes_away_is_asked_ever_less_and_then_continued() {
    let stage = Stage::new(&[owner(1)]);
    stage.node.emit([v2_created(1), deposit(vault(1), owner(1), owner(1), SAFE_BLOCK + 50)]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert!(stage.progress().is_complete);
    stage.node.set_away(true);
    stage.node.set_safe(Ok(SAFE_BLOCK + 100));
    stage.pass_s(600).await;
    let progress = stage.progress();
    assert_eq!(progress.fault, Some(ScanFault::Unavailable));
    assert_eq!((progress.next_block, progress.safe_block), (SAFE_BLOCK + 1, Some(SAFE_BLOCK)));
    assert!((10..20).contains(&stage.node.failures()), "{}", stage.node.failures());
    stage.node.set_away(false);
    stage.pass_s(60).await;
    assert!(stage.progress().is_complete && stage.progress().fault.is_none());
    assert_eq!(stage.scan.venues_of(base().chain, owner(1)), [VenueId::Vault(vault(1))]);
}

#[tokio::test]
async fn a_network_without_a_node_is_reported() {
    let stage = Stage::new(&[owner(1)]);
    stage.chains.set(base().chain, None);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert_eq!(stage.progress().fault, Some(ScanFault::NoNode));
    stage.chains.set(base().chain, Some(stage.node.clone()));
    stage.pass_s(60).await;
    assert!(stage.progress().is_complete);
}

/// Blocks after the safe block may be replaced. Their events count once they are safe.
#[tokio::test]
async fn a_reorganisation_hides_no_event() {
    let stage = Stage::new(&[owner(1)]);
    stage.node.emit([v2_created(1), deposit(vault(1), owner(1), owner(1), SAFE_BLOCK + 40)]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert_eq!(stage.scan.venues_of(base().chain, owner(1)), [], "not safe yet");
    // The deposit moves to an earlier block.
    stage.node.forget_after(SAFE_BLOCK);
    stage.node.emit([deposit(vault(1), owner(1), owner(1), SAFE_BLOCK + 1)]);
    stage.node.set_safe(Ok(SAFE_BLOCK + 60));
    stage.pass_s(31).await;
    assert_eq!(stage.scan.venues_of(base().chain, owner(1)), [VenueId::Vault(vault(1))]);
}

#[tokio::test]
async fn a_lower_safe_block_moves_no_cursor() {
    let stage = Stage::new(&[owner(1)]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    let asked = stage.node.query_count();
    stage.node.set_safe(Ok(SAFE_BLOCK - 1_000));
    stage.pass_s(100).await;
    assert_eq!(stage.node.query_count(), asked);
    assert_eq!(stage.progress().next_block, SAFE_BLOCK + 1);
    // An address that is added now is searched up to the lower safe block only.
    stage.set_owners(&[owner(1), owner(2)]);
    stage.run_until_idle().await;
    assert!(
        stage
            .node
            .queries_made()
            .iter()
            .skip(asked)
            .all(|filter| filter.to_block < SAFE_BLOCK - 999)
    );
    stage.node.set_safe(Ok(SAFE_BLOCK + 10));
    stage.pass_s(60).await;
    assert_eq!(stage.progress().next_block, SAFE_BLOCK + 11);
}

/// A node may name a safe block that does not exist yet. Events that later appear below it must still be found.
#[tokio::test]
async fn a_safe_block_that_does_not_exist_hides_no_event() {
    for ahead in [1_000_000, u64::MAX - SAFE_BLOCK] {
        let stage = Stage::new(&[owner(1)]);
        stage.node.emit([v2_created(1)]);
        let mut stage = stage.start();
        stage.run_until_idle().await;
        stage.node.set_safe(Ok(SAFE_BLOCK + ahead));
        stage.pass_s(60).await;
        stage.node.emit([deposit(vault(1), STRANGER, owner(1), SAFE_BLOCK + 5)]);
        stage.node.set_safe(Ok(SAFE_BLOCK + 10));
        stage.pass_s(600).await;
        let progress = stage.progress();
        assert!(progress.is_complete, "{progress:?}");
        assert_eq!(progress.safe_block, Some(SAFE_BLOCK + 10));
        let venues = stage.scan.venues_of(base().chain, owner(1));
        assert_eq!(venues, [VenueId::Vault(vault(1))]);
    }
}

/// If a node does not know the tag `safe`, the depth at which the wallet's own transactions are final replaces it.
#[tokio::test]
async fn without_a_safe_block_confirmations_count() {
    let stage = Stage::new(&[owner(1)]);
    let confirmed = SAFE_BLOCK - base().gas.confirmations;
    stage.node.set_safe(Err(refused_range()));
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert_eq!(stage.progress().safe_block, Some(confirmed));
    assert!(stage.node.queries_made().iter().all(|filter| filter.to_block <= confirmed));
    // If the node does not answer, confirmations do not replace the safe block.
    stage.node.set_safe(Err(ChainFault::Unavailable { tried: Vec::new() }));
    stage.pass_s(31).await;
    assert_eq!(stage.progress().fault, Some(ScanFault::Unavailable));
}

#[tokio::test]
async fn a_restart_continues_at_the_cursor() {
    let stage = Stage::new(&[owner(1)]);
    stage.node.emit([v2_created(1), deposit(vault(1), owner(1), owner(1), SAFE_BLOCK - 10)]);
    // The node goes away in the middle, and then the engine is killed.
    stage.node.go_away_after(46);
    let mut stage = stage.start();
    stage.pass_s(12).await;
    let reached = stage.progress().next_block;
    assert!((36_000_000..38_000_000).contains(&reached), "{reached}");
    stage.node.set_away(false);
    let mut again = stage.restart();
    again.run_until_idle().await;
    let asked = again.node.queries_made();
    let first = asked.iter().map(|filter| filter.from_block).min().unwrap();
    assert_eq!(first, reached);
    assert_eq!(again.scan.known_vaults(base().chain), [(vault(1), VaultKind::V2)]);
    assert!(again.progress().is_complete);
    assert_eq!(again.scan.venues_of(base().chain, owner(1)), [VenueId::Vault(vault(1))]);
}

#[tokio::test]
async fn a_new_address_is_searched_from_the_beginning() {
    let stage = Stage::new(&[owner(1)]);
    let (factory, early) = factory(VaultKind::MetaMorpho);
    let asset = base().stablecoin.address;
    stage.node.emit([
        creation_event(VaultKind::MetaMorpho, factory, asset, vault(1), early),
        deposit(vault(1), owner(2), owner(2), early + 1),
    ]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    let before = stage.node.query_count();
    stage.set_owners(&[owner(1), owner(2), owner(3)]);
    stage.run_until_idle().await;
    assert_eq!(stage.scan.venues_of(base().chain, owner(2)), [VenueId::Vault(vault(1))]);
    assert!(stage.progress().is_complete);
    let asked = stage.node.queries_made().split_off(before);
    let both = [owner(2), owner(3)].map(|owner| owner.into_word());
    let for_both = |values: &[B256]| values == both;
    assert!(
        asked.iter().all(|filter| filter.indexed.iter().any(|values| for_both(values))),
        "only the new addresses, in shared queries"
    );
    // From here on, all addresses share their queries.
    let before = stage.node.query_count();
    stage.node.set_safe(Ok(SAFE_BLOCK + 5));
    stage.pass_s(31).await;
    assert_eq!(stage.node.query_count(), before + 4);
}

#[tokio::test]
async fn an_address_that_is_gone_is_forgotten() {
    let stage = Stage::new(&[owner(1), owner(2)]);
    stage.node.emit([v2_created(1), deposit(vault(1), STRANGER, owner(2), SAFE_BLOCK)]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert_eq!(stage.scan.vaults_with_positions(base().chain), [vault(1)]);
    stage.set_owners(&[owner(1)]);
    stage.run_until_idle().await;
    assert!(stage.scan.vaults_with_positions(base().chain).is_empty());
}

/// Creating vaults costs little, so their number is bounded. Vaults beyond the bound are ignored and reported, and long
/// lists are split over several queries.
#[tokio::test]
async fn vaults_beyond_the_bound_are_ignored() {
    let stage = Stage::new(&[owner(1)]);
    let many = u16::try_from(SCAN_VAULTS_MAX).unwrap() + 5;
    stage.node.emit((0..many).map(v2_created));
    let mut stage = stage.start();
    stage.run_until_idle().await;
    assert_eq!(stage.scan.known_vaults(base().chain).len(), SCAN_VAULTS_MAX);
    let progress = stage.progress();
    assert_eq!((progress.bound, progress.is_complete), (Some(ScanBound::Vaults), false));
    assert_eq!(progress.next_block, SAFE_BLOCK + 1);
    let longest = stage.node.queries_made().iter().map(|filter| filter.addresses.len()).max();
    assert_eq!(longest, Some(SCAN_QUERY_ADDRESSES_MAX));
    // The file holds all vaults up to the bound. After a restart, the vaults and the reached bound are still known.
    stage.pass_s(11).await;
    let mut again = stage.restart();
    again.run_until_idle().await;
    assert_eq!(again.scan.known_vaults(base().chain).len(), SCAN_VAULTS_MAX);
    assert_eq!(again.progress().bound, Some(ScanBound::Vaults));
}

/// Any account can deposit for us. Such deposits do not displace those that we made.
#[tokio::test]
async fn gifts_do_not_displace_own_positions() {
    let stage = Stage::new(&[owner(1)]);
    let many = u16::try_from(SCAN_RECEIVED_DEPOSIT_VENUES_MAX).unwrap() + 20;
    stage.node.emit((0..=many).map(v2_created));
    stage.node.emit((0..many).map(|at| deposit(vault(at), STRANGER, owner(1), SAFE_BLOCK - 100)));
    stage.node.emit([deposit(vault(many), owner(1), owner(1), SAFE_BLOCK)]);
    // A venue that is known from a gift counts as own after an own deposit.
    stage.node.emit([deposit(vault(0), owner(1), owner(1), SAFE_BLOCK)]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    let venues = stage.scan.venues_of(base().chain, owner(1));
    let own = [vault(0), vault(many)].map(VenueId::Vault);
    assert!(venues.starts_with(&own), "{venues:?}");
    assert!(venues.len() <= 2 + SCAN_RECEIVED_DEPOSIT_VENUES_MAX);
    assert_eq!(stage.progress().bound, Some(ScanBound::Venues));
}

#[tokio::test]
async fn a_corrupted_file_is_replaced() {
    let stage = Stage::new(&[owner(1)]);
    stage.node.emit([v2_created(1)]);
    for odd in [b"".as_slice(), b"{}", b"bursar-lending-scan 1 00\n[]", &[0; 4096]] {
        stage.store.put(odd);
        let mut again = stage.restart();
        again.run_until_idle().await;
        assert_eq!(again.scan.known_vaults(base().chain), [(vault(1), VaultKind::V2)]);
        let asked = again.node.queries_made();
        let mut after = again.restart();
        after.run_until_idle().await;
        assert!(after.node.query_count() < asked.len() / 4, "the new file was used");
        assert_eq!(after.scan.known_vaults(base().chain), [(vault(1), VaultKind::V2)]);
    }
}

#[tokio::test]
async fn results_are_saved_seldom() {
    let stage = Stage::new(&[owner(1)]);
    stage.node.set_blocks_max(10_000);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    let mut seconds = 0;
    while !stage.progress().is_complete {
        stage.pass_s(1).await;
        seconds += 1;
    }
    let asked = stage.node.query_count();
    assert!(stage.store.saves() <= 2 + seconds / 10, "{} in {seconds} s", stage.store.saves());
    assert!(asked > 1_000, "{asked}");
    // New blocks alone do not cause a save each time.
    let before = stage.store.saves();
    for minute in 1..=9 {
        stage.node.set_safe(Ok(SAFE_BLOCK + minute * 30));
        stage.pass_s(60).await;
    }
    assert_eq!(stage.store.saves(), before);
    stage.node.set_safe(Ok(SAFE_BLOCK + 1_000));
    stage.pass_s(120).await;
    assert_eq!(stage.store.saves(), before + 1);
    // A new vault causes a save.
    stage.node.emit([creation_event(
        VaultKind::V2,
        factory(VaultKind::V2).0,
        base().stablecoin.address,
        vault(1),
        SAFE_BLOCK + 1_001,
    )]);
    stage.node.set_safe(Ok(SAFE_BLOCK + 1_001));
    stage.pass_s(45).await;
    assert_eq!(stage.store.saves(), before + 2);
}

#[tokio::test]
async fn a_network_that_is_not_wanted_is_not_asked() {
    let mut stage = Stage::without_wallet().start();
    stage.pass_s(120).await;
    assert_eq!((stage.node.query_count(), stage.node.failures()), (0, 0));
    assert_eq!(stage.scan.progress(base().chain), None);
    stage.set_owners(&[owner(1)]);
    stage.run_until_idle().await;
    assert!(stage.progress().is_complete);
    stage.disable();
    stage.run_until_idle().await;
    assert_eq!(stage.scan.progress(base().chain), None);
    let (asked, safe) = (stage.node.query_count(), stage.node.safe_reads());
    stage.node.set_safe(Ok(SAFE_BLOCK + 100));
    stage.pass_s(120).await;
    assert_eq!((stage.node.query_count(), stage.node.safe_reads()), (asked, safe));
}

#[tokio::test]
async fn new_blocks_are_looked_for_every_half_minute() {
    let stage = Stage::new(&[owner(1)]);
    let mut stage = stage.start();
    stage.run_until_idle().await;
    let before = stage.node.safe_reads();
    stage.pass_s(300).await;
    assert_eq!(stage.node.safe_reads() - before, 10);
    assert_eq!(stage.node.in_flight_max(), 1);
}
