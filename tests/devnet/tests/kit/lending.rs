//! The interfaces of the lending contracts according to the handbook, a lender for the other tests, and tests of the
//! ready venues of a full chain.

use alloy_primitives::{Address, B256, U256, b256, hex, keccak256};
use alloy_sol_types::{SolCall, SolError, SolEvent, SolValue, sol};
use bursar_core::networks::{AdapterFactory, AdapterKind, ChainId, VaultKind, by_chain};
use bursar_devnet::Call;
use bursar_devnet::full::{
    CHAINS, Contracts, Lending, LoanMarket, NewVault, lending_chain_or_skip,
};
use serde_json::json;

use crate::full::{Trader, traders};

sol! {
    #[derive(Debug)]
    struct MarketParams {
        address loanToken; address collateralToken; address oracle; address irm; uint256 lltv;
    }

    #[derive(Debug)]
    interface IVault {
        event Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares);
        event Withdraw(
            address indexed sender, address indexed receiver, address indexed owner, uint256 assets,
            uint256 shares
        );

        error TransferFromReverted();
        error TransferReverted();
        error CannotReceiveShares();
        error CannotSendShares();
        error CannotReceiveAssets();
        error CannotSendAssets();
        error Unauthorized();
        error AbsoluteCapExceeded();
        error RelativeCapExceeded();
        error ZeroAbsoluteCap();
        error PenaltyTooHigh();
        error NotInAdapterRegistry();
        error BoxIsIlliquid();
        error IrmMismatch();

        function asset() external view returns (address);
        function decimals() external view returns (uint8);
        function owner() external view returns (address);
        function curator() external view returns (address);
        function setCurator(address newCurator) external;
        function totalAssets() external view returns (uint256);
        function totalSupply() external view returns (uint256);
        function virtualShares() external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
        function previewDeposit(uint256 assets) external view returns (uint256);
        function previewMint(uint256 shares) external view returns (uint256);
        function previewWithdraw(uint256 assets) external view returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function convertToAssets(uint256 shares) external view returns (uint256);
        function maxDeposit(address owner) external view returns (uint256);
        function maxMint(address owner) external view returns (uint256);
        function maxWithdraw(address owner) external view returns (uint256);
        function maxRedeem(address owner) external view returns (uint256);
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function mint(uint256 shares, address receiver) external returns (uint256 assets);
        function withdraw(uint256 assets, address receiver, address owner) external
            returns (uint256 shares);
        function redeem(uint256 shares, address receiver, address owner) external
            returns (uint256 assets);
        function adaptersLength() external view returns (uint256);
        function adapters(uint256 index) external view returns (address);
        function addAdapter(address adapter) external;
        function liquidityAdapter() external view returns (address);
        function liquidityData() external view returns (bytes);
        function adapterRegistry() external view returns (address);
        function absoluteCap(bytes32 id) external view returns (uint256);
        function canReceiveShares(address account) external view returns (bool);
        function canSendShares(address account) external view returns (bool);
        function canReceiveAssets(address account) external view returns (bool);
        function canSendAssets(address account) external view returns (bool);
        function forceDeallocate(address adapter, bytes data, uint256 assets, address onBehalf)
            external returns (uint256 penaltyShares);
        function forceDeallocatePenalty(address adapter) external view returns (uint256);
        function multicall(bytes[] data) external;
    }

    interface IMarketAdapter {
        function marketIdsLength() external view returns (uint256);
        function marketIds(uint256 index) external view returns (bytes32);
        function expectedSupplyAssets(bytes32 id) external view returns (uint256);
    }

    #[derive(Debug)]
    interface IMetaMorpho {
        error NotEnoughLiquidity();
        error AllCapsReached();

        function withdrawQueueLength() external view returns (uint256);
        function withdrawQueue(uint256 index) external view returns (bytes32);
        function config(bytes32 id) external view returns (
            uint184 cap, bool enabled, uint64 removableAt
        );
        function lostAssets() external view returns (uint256);
    }

    interface IOfficial {
        event CreateVaultV2(
            address indexed owner, address indexed asset, bytes32 salt, address indexed newVaultV2
        );

        function isVaultV2(address vault) external view returns (bool);
        function isMetaMorpho(address vault) external view returns (bool);
        function isMorphoMarketV1AdapterV2(address adapter) external view returns (bool);
        function isMorphoVaultV1Adapter(address adapter) external view returns (bool);
        function isInRegistry(address adapter) external view returns (bool);
    }

    interface IMorpho {
        event Supply(
            bytes32 indexed id, address indexed caller, address indexed onBehalf, uint256 assets,
            uint256 shares
        );
        event Withdraw(
            bytes32 indexed id, address caller, address indexed onBehalf, address indexed receiver,
            uint256 assets, uint256 shares
        );
        event CreateMarket(bytes32 indexed id, MarketParams marketParams);

        function accrueInterest(MarketParams params) external;
        function supply(
            MarketParams params, uint256 assets, uint256 shares, address onBehalf, bytes data
        ) external returns (uint256, uint256);
        function withdraw(
            MarketParams params, uint256 assets, uint256 shares, address onBehalf, address receiver
        ) external returns (uint256, uint256);
        function market(bytes32 id) external view returns (
            uint128 totalSupplyAssets, uint128 totalSupplyShares, uint128 totalBorrowAssets,
            uint128 totalBorrowShares, uint128 lastUpdate, uint128 fee
        );
        function position(bytes32 id, address user) external view returns (
            uint256 supplyShares, uint128 borrowShares, uint128 collateral
        );
        function idToMarketParams(bytes32 id) external view returns (
            address loanToken, address collateralToken, address oracle, address irm, uint256 lltv
        );
    }

    interface IIrm {
        struct Market {
            uint128 totalSupplyAssets; uint128 totalSupplyShares; uint128 totalBorrowAssets;
            uint128 totalBorrowShares; uint128 lastUpdate; uint128 fee;
        }

        function borrowRateView(MarketParams params, Market market) external view returns (uint256);
        function borrowRate(MarketParams params, Market market) external returns (uint256);
    }
}

/// An account without a role in any of the chain's vaults.
pub(crate) const STRANGER: Address = Address::repeat_byte(0x5a);

pub(crate) fn params(market: &LoanMarket) -> MarketParams {
    MarketParams {
        loanToken: market.loan_token,
        collateralToken: market.collateral_token,
        oracle: market.oracle,
        irm: market.irm,
        lltv: market.lltv,
    }
}

impl Trader {
    pub(crate) async fn read_contract<C: SolCall>(&self, of: Address, question: C) -> C::Return {
        self.devnet.read(of, question).await.unwrap()
    }

    pub(crate) fn lending(&self) -> Lending {
        self.contracts.lending
    }

    /// Returns a new vault of the chain's trusted owner and curator.
    pub(crate) fn trusted_vault(&self) -> NewVault {
        let Lending { owner, curator, .. } = self.lending();
        NewVault { owner, curator, factory: None }
    }

    /// Returns a new trusted Vault V2 with a market adapter, its market, and the adapter.
    pub(crate) async fn vault_v2(&self) -> (Address, LoanMarket, Address) {
        let market = self.devnet.create_market(self.lending().irm).await.unwrap();
        let vault = self.devnet.create_vault_v2(&self.trusted_vault()).await.unwrap();
        let adapter = self.devnet.add_market_adapter(vault, &market).await.unwrap();
        self.approve(self.dollar(), vault).await;
        (vault, market, adapter)
    }

    /// Returns a new trusted vault of MetaMorpho with two markets.
    pub(crate) async fn metamorpho(&self) -> (Address, [LoanMarket; 2]) {
        let one = self.devnet.create_market(self.lending().irm).await.unwrap();
        let other = self.devnet.create_market(self.lending().irm).await.unwrap();
        let vault =
            self.devnet.create_metamorpho(&self.trusted_vault(), &[one, other]).await.unwrap();
        self.approve(self.dollar(), vault).await;
        (vault, [one, other])
    }

    pub(crate) fn deposit(&self, vault: Address, assets: u128) -> Call {
        let deposit = IVault::depositCall { assets: U256::from(assets), receiver: self.address };
        self.call(vault, &deposit)
    }

    pub(crate) fn withdraw(&self, vault: Address, assets: U256) -> Call {
        let withdraw = IVault::withdrawCall { assets, receiver: self.address, owner: self.address };
        self.call(vault, &withdraw)
    }

    /// Returns the call that redeems all shares.
    pub(crate) async fn redeem_all(&self, vault: Address) -> Call {
        let shares = self.shares(vault).await;
        let redeem = IVault::redeemCall { shares, receiver: self.address, owner: self.address };
        self.call(vault, &redeem)
    }

    pub(crate) async fn shares(&self, vault: Address) -> U256 {
        self.read_contract(vault, IVault::balanceOfCall { owner: self.address }).await
    }

    /// Returns the value of all shares.
    pub(crate) async fn worth(&self, vault: Address) -> U256 {
        let shares = self.shares(vault).await;
        self.read_contract(vault, IVault::previewRedeemCall { shares }).await
    }

    /// Asserts that a contract refuses a call with this named error.
    pub(crate) async fn assert_refused_with<E: SolError>(&self, call: &Call) {
        let data = self.refusal(call).await;
        assert_eq!(data.get(..4), Some(E::SELECTOR.as_slice()), "{} {data:02x?}", E::SIGNATURE);
    }

    /// Asserts that Morpho itself refuses a call because it lacks liquidity.
    pub(crate) async fn assert_illiquid(&self, call: &Call) {
        let refusal = self.refusal(call).await;
        let reason = String::from_utf8_lossy(&refusal).into_owned();
        assert!(reason.contains("insufficient liquidity"), "{reason}");
    }
}

#[test]
fn the_calls_have_the_selectors_of_their_documents() {
    let calls = [
        (IVault::depositCall::SELECTOR, hex!("6e553f65")),
        (IVault::withdrawCall::SELECTOR, hex!("b460af94")),
        (IVault::redeemCall::SELECTOR, hex!("ba087652")),
        (IVault::previewDepositCall::SELECTOR, hex!("ef8b30f7")),
        (IVault::previewWithdrawCall::SELECTOR, hex!("0a28a477")),
        (IVault::previewRedeemCall::SELECTOR, hex!("4cdad506")),
        (IVault::assetCall::SELECTOR, hex!("38d52e0f")),
        (IVault::totalAssetsCall::SELECTOR, hex!("01e1d114")),
        (IVault::curatorCall::SELECTOR, hex!("e66f53b7")),
        (IVault::ownerCall::SELECTOR, hex!("8da5cb5b")),
        (IVault::adaptersLengthCall::SELECTOR, hex!("5aa22bc8")),
        (IVault::adaptersCall::SELECTOR, hex!("4ef501ac")),
        (IVault::liquidityAdapterCall::SELECTOR, hex!("ad468d11")),
        (IVault::liquidityDataCall::SELECTOR, hex!("2e029228")),
        (IVault::virtualSharesCall::SELECTOR, hex!("c719946c")),
        (IVault::adapterRegistryCall::SELECTOR, hex!("50b5c16a")),
        (IVault::absoluteCapCall::SELECTOR, hex!("bc0dd374")),
        (IVault::forceDeallocateCall::SELECTOR, hex!("e4d38cd8")),
        (IVault::forceDeallocatePenaltyCall::SELECTOR, hex!("99e99183")),
        (IVault::multicallCall::SELECTOR, hex!("ac9650d8")),
        (IVault::canReceiveSharesCall::SELECTOR, hex!("98c9b49c")),
        (IVault::canSendSharesCall::SELECTOR, hex!("8e511e4d")),
        (IVault::canReceiveAssetsCall::SELECTOR, hex!("0d326b18")),
        (IVault::canSendAssetsCall::SELECTOR, hex!("20fe8d58")),
        (IMarketAdapter::marketIdsLengthCall::SELECTOR, hex!("ace48b45")),
        (IMarketAdapter::marketIdsCall::SELECTOR, hex!("779a9683")),
        (IMarketAdapter::expectedSupplyAssetsCall::SELECTOR, hex!("99f7e861")),
        (IMetaMorpho::withdrawQueueLengthCall::SELECTOR, hex!("33f91ebb")),
        (IMetaMorpho::withdrawQueueCall::SELECTOR, hex!("62518ddf")),
        (IMetaMorpho::configCall::SELECTOR, hex!("cc718f76")),
        (IOfficial::isVaultV2Call::SELECTOR, hex!("5edec50d")),
        (IOfficial::isMetaMorphoCall::SELECTOR, hex!("29b5352c")),
        (IOfficial::isMorphoMarketV1AdapterV2Call::SELECTOR, hex!("d6aebf94")),
        (IMorpho::accrueInterestCall::SELECTOR, hex!("151c1ade")),
        (IMorpho::marketCall::SELECTOR, hex!("5c60e39a")),
        (IMorpho::positionCall::SELECTOR, hex!("93c52062")),
        (IMorpho::idToMarketParamsCall::SELECTOR, hex!("2c3c9157")),
        (IMorpho::supplyCall::SELECTOR, hex!("a99aad89")),
        (IMorpho::withdrawCall::SELECTOR, hex!("5c2bea49")),
        (IIrm::borrowRateViewCall::SELECTOR, hex!("8c00bf6b")),
    ];
    for (index, (ours, documented)) in calls.into_iter().enumerate() {
        assert_eq!(ours, documented, "{index}");
    }
}

#[test]
fn the_errors_and_events_are_those_of_their_documents() {
    let errors = [
        (IVault::TransferFromReverted::SELECTOR, hex!("e65b7a77")),
        (IVault::TransferReverted::SELECTOR, hex!("ace2a47e")),
        (IVault::CannotReceiveShares::SELECTOR, hex!("861a96d6")),
        (IVault::CannotSendShares::SELECTOR, hex!("876736d1")),
        (IVault::CannotReceiveAssets::SELECTOR, hex!("8181c5ea")),
        (IVault::CannotSendAssets::SELECTOR, hex!("515b7cd9")),
        (IVault::Unauthorized::SELECTOR, hex!("82b42900")),
        (IVault::AbsoluteCapExceeded::SELECTOR, hex!("4616e4af")),
        (IVault::RelativeCapExceeded::SELECTOR, hex!("44e1772c")),
        (IVault::ZeroAbsoluteCap::SELECTOR, hex!("bb1a23b9")),
    ];
    for (index, (ours, documented)) in errors.into_iter().enumerate() {
        assert_eq!(ours, documented, "{index}");
    }
    let topic = |text: &str| text.parse::<B256>().unwrap();
    let created = keccak256(
        "CreateMetaMorpho(address,address,address,uint256,address,string,string,bytes32)",
    );
    let events = [
        (
            IVault::Deposit::SIGNATURE_HASH,
            topic("0xdcbc1c05240f31ff3ad067ef1ee35ce4997762752e3a095284754544f4c709d7"),
        ),
        (
            IVault::Withdraw::SIGNATURE_HASH,
            topic("0xfbde797d201c681b91056529119e0b02407c7bb96a4a2c75c01fc9667232c8db"),
        ),
        (
            IOfficial::CreateVaultV2::SIGNATURE_HASH,
            topic("0x341ce009267aa0d78cc12b34155e223904a51ed49d144beb6eb8be87813edb4e"),
        ),
        (created, topic("0xed8c95d05909b0f217f3e68171ef917df4b278d5addfe4dda888e90279be7d1d")),
        (
            IMorpho::Supply::SIGNATURE_HASH,
            topic("0xedf8870433c83823eb071d3df1caa8d008f12f6440918c20d75a3602cda30fe0"),
        ),
        (
            IMorpho::Withdraw::SIGNATURE_HASH,
            topic("0xa56fc0ad5702ec05ce63666221f796fb62437c32db1aa1aa075fc6484cf58fbf"),
        ),
        (
            IMorpho::CreateMarket::SIGNATURE_HASH,
            b256!("0xac4b2400f169220b0c0afdde7a0b32e775ba727ea1cb30b35f935cdaab8683ac"),
        ),
    ];
    for (ours, documented) in events {
        assert_eq!(ours, documented);
    }
}

#[tokio::test]
async fn ready_vaults_are_official_in_every_respect() {
    for trader in traders().await {
        let lending = trader.lending();
        for vault in lending.vaults() {
            assert_eq!(trader.read_contract(vault, IVault::assetCall {}).await, trader.dollar());
            assert_eq!(trader.read_contract(vault, IVault::decimalsCall {}).await, 18);
            assert_eq!(trader.read_contract(vault, IVault::curatorCall {}).await, lending.curator);
            assert_eq!(trader.read_contract(vault, IVault::ownerCall {}).await, lending.owner);
        }
        let market = trader.devnet.loan_market().unwrap();
        for &vault in lending.vaults_v2 {
            let known = IOfficial::isVaultV2Call { vault };
            assert!(trader.read_contract(lending.vault_v2_factory, known).await);
            let shares = trader.read_contract(vault, IVault::virtualSharesCall {}).await;
            assert_eq!(shares, U256::from(10).pow(U256::from(12)));
            let registry = trader.read_contract(vault, IVault::adapterRegistryCall {}).await;
            assert_eq!(registry, lending.adapter_registry);
            assert_eq!(
                trader.read_contract(vault, IVault::adaptersLengthCall {}).await,
                U256::from(1)
            );
            let adapter =
                trader.read_contract(vault, IVault::adaptersCall { index: U256::ZERO }).await;
            assert_eq!(trader.read_contract(vault, IVault::liquidityAdapterCall {}).await, adapter);
            assert_eq!(
                trader.read_contract(vault, IVault::liquidityDataCall {}).await,
                params(&market).abi_encode()
            );
            let known = IOfficial::isMorphoMarketV1AdapterV2Call { adapter };
            assert!(trader.read_contract(lending.market_adapter_factory, known).await);
            assert!(trader.read_contract(registry, IOfficial::isInRegistryCall { adapter }).await);
            assert_eq!(
                trader.read_contract(adapter, IMarketAdapter::marketIdsLengthCall {}).await,
                U256::from(1)
            );
            let id = trader
                .read_contract(adapter, IMarketAdapter::marketIdsCall { index: U256::ZERO })
                .await;
            assert_eq!(id, market.id());
            let text = String::from("this/marketParams");
            let endorsed = keccak256((text, adapter, params(&market)).abi_encode_params());
            let cap = trader.read_contract(vault, IVault::absoluteCapCall { id: endorsed }).await;
            assert_eq!(cap, U256::from(u128::MAX));
        }
        if let Some((vault, factory)) = lending.metamorpho.zip(lending.metamorpho_factory) {
            assert!(trader.read_contract(factory, IOfficial::isMetaMorphoCall { vault }).await);
            let queue = trader.read_contract(vault, IMetaMorpho::withdrawQueueLengthCall {}).await;
            assert_eq!(queue, U256::from(1));
            let id = trader
                .read_contract(vault, IMetaMorpho::withdrawQueueCall { index: U256::ZERO })
                .await;
            assert_eq!(id, market.id());
            let config = trader.read_contract(vault, IMetaMorpho::configCall { id }).await;
            assert!(config.enabled && config.removableAt == 0 && !config.cap.is_zero());
        }
    }
}

#[test]
fn the_kit_lends_where_the_network_table_says() {
    for chain in CHAINS {
        let (kit, table) = (Contracts::of(chain).unwrap().lending, by_chain(chain).unwrap());
        let table = table.lending.unwrap();
        assert_eq!((kit.morpho, kit.irm), (table.singleton, table.interest_model), "{chain}");
        assert_eq!(kit.adapter_registry, table.adapter_registry, "{chain}");
        let factory = |kind| table.vault_factory(kind).map(|factory| factory.address);
        assert_eq!(Some(kit.vault_v2_factory), factory(VaultKind::V2), "{chain}");
        assert_eq!(kit.metamorpho_factory, factory(VaultKind::MetaMorpho), "{chain}");
        let adapters = [
            AdapterFactory { kind: AdapterKind::Markets, address: kit.market_adapter_factory },
            AdapterFactory { kind: AdapterKind::MetaMorpho, address: kit.vault_adapter_factory },
        ];
        assert_eq!(table.adapter_factories, adapters, "{chain}");
        assert!(table.curators.contains(&kit.curator), "{chain}");
        assert!(kit.vaults().iter().all(|vault| table.pinned_vaults.contains(vault)), "{chain}");
    }
}

#[tokio::test]
async fn creations_of_ready_vaults_are_found_by_their_asset() {
    for trader in traders().await {
        let lending = trader.lending();
        let topics =
            json!([IOfficial::CreateVaultV2::SIGNATURE_HASH, null, trader.dollar().into_word()]);
        let filter =
            json!([{ "address": lending.vault_v2_factory, "fromBlock": "0x0", "topics": topics }]);
        let found = trader.devnet.request("eth_getLogs", filter).await.unwrap();
        let found: Vec<crate::full::Log> = serde_json::from_value(found).unwrap();
        let vaults: Vec<Address> =
            found.iter().map(|log| Address::from_word(log.topics[3])).collect();
        assert_eq!(vaults, lending.vaults_v2);
    }
}

#[tokio::test]
async fn a_chain_can_begin_where_the_tables_begin_to_search() {
    for chain in CHAINS {
        let Some(devnet) = lending_chain_or_skip(chain).await else { return };
        let contracts = Contracts::of(chain).unwrap().lending;
        let lending = by_chain(chain).unwrap().lending.unwrap();
        let mut found = Vec::new();
        for factory in lending.vault_factories {
            let from = U256::from(factory.first_block);
            let filter = json!([{ "address": factory.address, "fromBlock": from }]);
            let logs = devnet.request("eth_getLogs", filter).await.unwrap();
            let logs: Vec<crate::full::Log> = serde_json::from_value(logs).unwrap();
            let topic = if factory.kind == VaultKind::V2 { 3 } else { 1 };
            found.extend(logs.iter().map(|log| Address::from_word(log.topics[topic])));
        }
        assert_eq!(found, contracts.vaults(), "{chain}");
        let vault = devnet.read(found[0], IVault::totalAssetsCall {}).await.unwrap();
        assert!(vault > U256::ZERO);
    }
}

#[tokio::test]
async fn the_ready_market_has_its_documented_parameters() {
    for trader in traders().await {
        let market = trader.devnet.loan_market().unwrap();
        let question = IMorpho::idToMarketParamsCall { id: market.id() };
        let found = trader.read_contract(trader.lending().morpho, question).await;
        let words = (found.loanToken, found.collateralToken, found.oracle, found.irm, found.lltv);
        assert_eq!(words.abi_encode_params(), params(&market).abi_encode());
        assert_eq!(market.irm, trader.lending().irm);
    }
}

#[tokio::test]
async fn only_the_owner_names_a_curator() {
    let Some(trader) = Trader::on(ChainId(8453)).await else { return };
    for vault in trader.lending().vaults() {
        let set = IVault::setCuratorCall { newCurator: STRANGER };
        assert!(trader.devnet.simulate(&trader.call(vault, &set)).await.is_err());
        let owner = trader.lending().owner;
        trader.devnet.set_curator(vault, owner, STRANGER).await.unwrap();
        assert_eq!(trader.read_contract(vault, IVault::curatorCall {}).await, STRANGER);
    }
    let set = IVault::setCuratorCall { newCurator: STRANGER };
    let vault = trader.lending().vaults_v2[0];
    trader.assert_refused_with::<IVault::Unauthorized>(&trader.call(vault, &set)).await;
}
