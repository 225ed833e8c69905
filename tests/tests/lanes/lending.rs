//! The vaults of a network and the positions in them, on the real Morpho Blue and stand-ins of its vaults.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_chain::abi::erc20::IErc20;
use bursar_control::answers::{
    Answer, PositionAnswer, PositionsAnswer, VenueAnswer, VenueTrust, VenuesAnswer,
};
use bursar_core::networks::ChainId;
use bursar_devnet::full::{Contracts, GateSide, NewVault, VaultLie, lending_chain_or_skip};
use bursar_devnet::{Call, Devnet};
use bursar_tests::offers::BASE;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::json;
use tempfile::TempDir;

const ROBINHOOD: ChainId = ChainId(4663);
const DOLLAR: u128 = 1_000_000;
/// More blocks than there are between the chain's safe and newest block.
const BLOCKS_UNTIL_SAFE: u64 = 100;
/// Timeout of a wait for the scan.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A duration longer than the interval at which the scan looks for new blocks.
const SCAN_INTERVAL_MS: i64 = 31_000;

alloy_sol_types::sol! {
    interface IVault {
        function deposit(uint256 assets, address receiver) external returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
        function totalAssets() external view returns (uint256);
    }
}

struct Stage {
    chain: Devnet,
    operator: Operator,
    owner: Address,
    vaults: Vec<Address>,
    engine: EngineProcess,
    /// By how much the engine's clock is ahead.
    clock_lead_ms: i64,
    _home: TempDir,
}

impl Stage {
    /// Starts a chain, an engine, and an address with ten thousand dollars; `None` if tests with a chain are skipped.
    async fn on(id: ChainId) -> Option<Self> {
        let chain = lending_chain_or_skip(id).await?;
        let url = chain.url().to_owned();
        let rpc = (id == BASE).then(|| url.clone());
        let env = match id == ROBINHOOD {
            true => vec![("BURSAR_TEST_ROBINHOOD_RPC".into(), url)],
            false => Vec::new(),
        };
        let start = StartOptions { has_password: false, rpc, env, ..StartOptions::default() };
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must("address create save 0").await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let owner: Address = created.address.parse().expect("an address");
        let ether = json!([owner, U256::from(10u128.pow(18))]);
        chain.request("anvil_setBalance", ether).await.expect("set");
        chain.mint(owner, 10_000 * DOLLAR).await.expect("minted");
        let vaults = Contracts::of(id).expect("a full chain").lending.vaults();
        Some(Self { chain, operator, owner, vaults, engine, clock_lead_ms: 0, _home: home })
    }

    fn dollar(&self) -> Address {
        self.chain.network().stablecoin.address
    }

    async fn deposit(&self, vault: Address, assets: u128) {
        let value = U256::from(assets);
        let approve = IErc20::approveCall { spender: vault, value };
        let call = Call::new(self.owner, self.dollar(), &approve);
        self.chain.send_as(&call).await.expect("approved");
        let deposit = IVault::depositCall { assets: value, receiver: self.owner };
        self.chain.send_as(&Call::new(self.owner, vault, &deposit)).await.expect("deposited");
    }

    async fn read_number(&self, to: Address, call: &impl SolCall) -> U256 {
        let asked = json!([{ "to": to, "data": Bytes::from(call.abi_encode()) }, "latest"]);
        let answer = self.chain.request("eth_call", asked).await.expect("an answer");
        answer.as_str().expect("a text").parse().expect("a number")
    }

    /// Returns the amount that the vault itself would pay now for all shares.
    async fn worth(&self, vault: Address) -> U256 {
        let balance = IVault::balanceOfCall { owner: self.owner };
        let shares = self.read_number(vault, &balance).await;
        let redeem = IVault::previewRedeemCall { shares };
        self.read_number(vault, &redeem).await
    }

    async fn venues(&mut self) -> VenuesAnswer {
        match self.operator.must("venues").await {
            Answer::Venues(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    async fn venue(&mut self, vault: Address) -> VenueAnswer {
        let answer = self.venues().await;
        let address = vault.to_checksum(None);
        let found = answer.venues.iter().find(|one| one.venue == address);
        found.unwrap_or_else(|| panic!("{answer:?}")).clone()
    }

    /// Makes the newest blocks safe and returns the first list of venues that contains a vault. Meanwhile the engine's
    /// clock runs ahead, so that the scan looks again.
    async fn venues_once_listed(&mut self, vault: Address) -> VenuesAnswer {
        self.chain.mine(BLOCKS_UNTIL_SAFE).await.expect("mined");
        let (end, address) = (Instant::now() + TIMEOUT, vault.to_checksum(None));
        loop {
            let answer = self.venues().await;
            if answer.venues.iter().any(|one| one.venue == address) {
                return answer;
            }
            assert!(Instant::now() < end, "the scan does not find {address}: {answer:?}");
            self.clock_lead_ms += SCAN_INTERVAL_MS;
            self.engine.set_clock_offset(self.clock_lead_ms);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn positions(&mut self) -> PositionsAnswer {
        match self.operator.must("positions --address save").await {
            Answer::Positions(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    async fn position(&mut self, vault: Address) -> PositionAnswer {
        let answer = self.positions().await;
        let address = vault.to_checksum(None);
        let found = answer.positions.iter().find(|one| one.venue == address);
        found.unwrap_or_else(|| panic!("{answer:?}")).clone()
    }
}

fn atoms(text: &str) -> u128 {
    text.parse().expect("a number")
}

/// On both networks the ready vaults are trusted. A deposit and its interest are shown with the vault's own figures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_worth_what_their_vaults_say() {
    for id in [BASE, ROBINHOOD] {
        let Some(mut stage) = Stage::on(id).await else { return };
        let vaults = stage.vaults.clone();
        assert_eq!(vaults.len(), 2);
        let before = stage.positions().await;
        assert!(before.positions.is_empty() && before.read >= 2, "{before:?}");
        for vault in &vaults {
            let venue = stage.venue(*vault).await;
            assert_eq!(venue.trust, VenueTrust::Pinned, "{venue:?}");
            let total = stage.read_number(*vault, &IVault::totalAssetsCall {}).await;
            assert_eq!(
                venue.total_assets.as_ref().map(|amount| amount.atoms.clone()),
                Some(total.to_string())
            );
            stage.deposit(*vault, 500 * DOLLAR).await;
        }
        stage.chain.pass_month().await.expect("a month");
        for vault in &vaults {
            let position = stage.position(*vault).await;
            let worth = stage.worth(*vault).await;
            assert_eq!(position.worth.atoms, worth.to_string(), "{position:?}");
            assert!(worth > U256::from(500 * DOLLAR), "a month of interest: {position:?}");
            assert_eq!(position.withdrawable.as_ref(), Some(&position.worth));
            assert_eq!(position.obstacle, None);
        }
    }
}

/// A position shows only the amount that can be withdrawn now, even if its market has lent the money or a gate is
/// closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_illiquid_position_shows_what_can_be_withdrawn_now() {
    let Some(mut stage) = Stage::on(BASE).await else { return };
    let vaults = stage.vaults.clone();
    for vault in &vaults {
        stage.deposit(*vault, 500 * DOLLAR).await;
    }
    let market = stage.chain.loan_market().expect("a market");
    stage.chain.drain_market(&market, 120 * DOLLAR).await.expect("drained");
    for vault in &vaults {
        let position = stage.position(*vault).await;
        let now = atoms(
            position.withdrawable.as_ref().map(|amount| amount.atoms.as_str()).expect("known"),
        );
        assert!((119 * DOLLAR..=120 * DOLLAR).contains(&now), "{position:?}");
        assert!(atoms(&position.worth.atoms) >= 499 * DOLLAR, "{position:?}");
    }
    let (v2, metamorpho) = (vaults[0], vaults[1]);
    let gate = stage.chain.add_gate(v2, GateSide::SendShares).await.expect("a gate");
    assert_eq!(stage.position(v2).await.obstacle, None, "the gate is open");
    stage.chain.set_gate_open(gate, false).await.expect("closed");
    let position = stage.position(v2).await;
    assert!(position.obstacle.is_some(), "{position:?}");
    assert_eq!(position.withdrawable.as_ref().map(|amount| amount.atoms.as_str()), Some("0"));
    assert_eq!(stage.position(metamorpho).await.obstacle, None);
}

/// A trusted vault that changes is refused, and its position is still shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_vault_is_refused() {
    let Some(mut stage) = Stage::on(ROBINHOOD).await else { return };
    let (first, second) = (stage.vaults[0], stage.vaults[1]);
    stage.deposit(first, 500 * DOLLAR).await;
    stage.chain.add_unofficial_adapter(first).await.expect("an adapter");
    let venue = stage.venue(first).await;
    assert_eq!(venue.trust, VenueTrust::Refused, "{venue:?}");
    assert!(venue.reason.contains("no official factory created"), "{venue:?}");
    let position = stage.position(first).await;
    assert_eq!(position.trust, VenueTrust::Refused);
    assert_eq!(position.worth.atoms, stage.worth(first).await.to_string());

    let owner: Address = stage.venue(second).await.owner.parse().expect("an address");
    stage.chain.set_curator(second, owner, Address::repeat_byte(7)).await.expect("changed");
    let venue = stage.venue(second).await;
    assert!(venue.reason.contains("curator"), "{venue:?}");
    assert_eq!(venue.trust, VenueTrust::Refused);
}

/// A vault that lies about its asset is not treated as one that holds dollars.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vault_of_another_asset_is_refused() {
    let Some(mut stage) = Stage::on(ROBINHOOD).await else { return };
    let vault = stage.vaults[0];
    stage.deposit(vault, 500 * DOLLAR).await;
    stage.chain.corrupt_vault_v2(vault).await.expect("corrupted");
    stage.chain.set_vault_lie(vault, VaultLie::Asset(vault)).await.expect("it lies");
    let venue = stage.venue(vault).await;
    assert_eq!(venue.trust, VenueTrust::Refused, "{venue:?}");
    assert!(venue.reason.contains("not the stablecoin"), "{venue:?}");
    assert_eq!(venue.total_assets, None);
}

/// An answer names each enabled network that could not be read. A network without lending is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_named() {
    let Some(mut stage) = Stage::on(BASE).await else { return };
    // The tests' engine has no node on the other network.
    let answer = stage.positions().await;
    assert!(answer.unread.iter().any(|one| one.network == "Robinhood Chain"), "{answer:?}");
    stage.operator.must("network disable robinhood").await;
    let answer = stage.venues().await;
    assert!(answer.unread.iter().all(|one| one.network == "Base"), "{answer:?}");
    let refused = stage.operator.outcome("venues --network skale-base").await.reply.result;
    assert!(refused.is_err(), "{refused:?}");
}

/// The scan finds vaults of the official factory that are not in the table. It lists neither a forged deposit nor a
/// stranger's vault, unless the wallet has a position in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scan_finds_official_vaults_and_own_positions() {
    let Some(mut stage) = Stage::on(BASE).await else { return };
    let kit = Contracts::of(BASE).expect("a full chain").lending;
    let new = NewVault { owner: kit.owner, curator: kit.curator, factory: None };
    let market = stage.chain.loan_market().expect("a market");
    let strange = NewVault { curator: Address::repeat_byte(7), ..new };
    let strange = stage.chain.create_vault_v2(&strange).await.expect("a vault");
    let factory = stage.chain.deploy_vault_v2_factory().await.expect("a factory");
    let spoof = NewVault { factory: Some(factory), ..new };
    let spoof = stage.chain.create_vault_v2(&spoof).await.expect("a vault");
    stage.deposit(spoof, 10 * DOLLAR).await;
    let forger = stage.chain.deploy_forger().await.expect("a forger");
    stage.chain.forge_deposit(forger, stage.owner, 400 * DOLLAR).await.expect("forged");
    // These are created last: once the scan finds them, it has also read all earlier blocks.
    let first = stage.chain.create_vault_v2(&new).await.expect("a vault");
    stage.chain.add_market_adapter(first, &market).await.expect("an adapter");
    let second = stage.chain.create_metamorpho(&new, &[market]).await.expect("a vault");

    let answer = stage.venues_once_listed(second).await;
    let texts = [first, second].map(|vault| vault.to_checksum(None));
    for text in &texts {
        let found = answer.venues.iter().find(|one| one.venue == *text);
        let found = found.unwrap_or_else(|| panic!("{text}: {answer:?}"));
        assert_eq!(found.trust, VenueTrust::New, "its owner is not trusted: {found:?}");
    }
    let unwanted = [strange, spoof, forger].map(|vault| vault.to_checksum(None));
    let mentioned = format!("{answer:?}");
    assert!(!unwanted.iter().any(|text| mentioned.contains(text)), "{answer:?}");

    stage.deposit(strange, 20 * DOLLAR).await;
    stage.deposit(second, 30 * DOLLAR).await;
    let answer = stage.venues_once_listed(strange).await;
    let found = answer.venues.iter().find(|one| one.venue == unwanted[0]).expect("listed");
    assert_eq!(found.trust, VenueTrust::Refused, "{found:?}");
    for vault in [strange, second] {
        let position = stage.position(vault).await;
        assert_eq!(position.worth.atoms, stage.worth(vault).await.to_string());
    }
    let answer = stage.positions().await;
    assert_eq!(answer.positions.len(), 2, "{answer:?}");
    let mentioned = format!("{answer:?}");
    assert!(!unwanted[1..].iter().any(|text| mentioned.contains(text)), "{answer:?}");

    // The operator's own trust in a vault ends when the vault names another curator.
    stage.operator.must(&format!("venue trust {} --network base --yes", texts[1])).await;
    assert_eq!(stage.position(second).await.trust, VenueTrust::Confirmed);
    let answer = stage.venues_once_listed(second).await;
    let found = answer.venues.iter().find(|one| one.venue == texts[1]).expect("listed");
    assert_eq!(found.trust, VenueTrust::Confirmed, "{found:?}");
    let other = Address::repeat_byte(9);
    stage.chain.set_curator(second, kit.owner, other).await.expect("another curator");
    assert_eq!(stage.position(second).await.trust, VenueTrust::Changed);
    stage.operator.must(&format!("venue untrust {} --network base", texts[1])).await;
    assert_eq!(stage.position(second).await.trust, VenueTrust::Changed);
}
