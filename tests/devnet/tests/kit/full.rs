//! A full chain with a trader for tests, with interfaces written from the contracts' documentation, and tests
//! of the chain as a whole.

use alloy_primitives::aliases::U24;
use alloy_primitives::{Address, B256, Bytes, U256, b256, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_devnet::full::{CHAINS, Contracts, POOL_FEE, full_chain_or_skip};
use bursar_devnet::{Call, Devnet, DevnetError, Receipt};
use serde::Deserialize;
use serde_json::json;

use crate::payer::{Payer, now_s};
use crate::routers::pool_key;

sol! {
    interface IErc20 {
        function balanceOf(address owner) external view returns (uint256);
        function approve(address spender, uint256 value) external returns (bool);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
    }

    interface IWeth {
        function deposit() external payable;
        function withdraw(uint256 wad) external;
    }

    interface IWiring {
        function factory() external view returns (address);
        function WETH9() external view returns (address);
        function poolManager() external view returns (address);
        function permit2() external view returns (address);
        function getPool(address one, address other, uint24 fee) external view returns (address);
        function getLiquidity(bytes32 poolId) external view returns (uint128);
    }

    interface IMulticall3 {
        struct Call3 { address target; bool allowFailure; bytes callData; }
        struct Result { bool success; bytes returnData; }

        function aggregate3(Call3[] calls) external payable returns (Result[] returned);
    }
}

pub(crate) const ETHER: u128 = 1_000_000_000_000_000_000;
pub(crate) const DOLLAR: u128 = 1_000_000;

/// An account with a thousand ether, a thousand WETH and a million dollars, on its own chain.
#[derive(Debug)]
pub(crate) struct Trader {
    pub(crate) devnet: Devnet,
    pub(crate) network: &'static Network,
    pub(crate) contracts: Contracts,
    pub(crate) address: Address,
}

/// An event of a contract.
#[derive(Debug, Deserialize)]
pub(crate) struct Log {
    pub(crate) address: Address,
    pub(crate) topics: Vec<B256>,
    pub(crate) data: Bytes,
}

impl Trader {
    /// Starts a chain with a trader; `None` if chain tests are skipped.
    pub(crate) async fn on(chain: ChainId) -> Option<Self> {
        Self::with_address(chain, Address::repeat_byte(0x71)).await
    }

    pub(crate) async fn with_address(chain: ChainId, me: Address) -> Option<Self> {
        let devnet = full_chain_or_skip(chain).await?;
        let contracts = Contracts::of(chain).unwrap();
        let trader = Self { devnet, network: by_chain(chain).unwrap(), contracts, address: me };
        let ether = U256::from(2_000 * ETHER);
        trader.devnet.request("anvil_setBalance", json!([me, ether])).await.unwrap();
        trader.devnet.mint(me, 1_000_000 * DOLLAR).await.unwrap();
        let wrap = trader.call(contracts.weth, &IWeth::depositCall {});
        trader.must(&wrap.with_value(U256::from(1_000 * ETHER))).await;
        Some(trader)
    }

    pub(crate) fn dollar(&self) -> Address {
        self.network.stablecoin.address
    }

    pub(crate) fn call(&self, to: Address, call: &impl SolCall) -> Call {
        Call::new(self.address, to, call)
    }

    pub(crate) async fn must(&self, call: &Call) -> Receipt {
        self.devnet.send_as(call).await.unwrap()
    }

    /// Returns the data with which a contract reverts a call.
    pub(crate) async fn refusal(&self, call: &Call) -> Vec<u8> {
        match self.devnet.simulate(call).await.unwrap_err() {
            DevnetError::Reverted { data, .. } => data.to_vec(),
            other => panic!("{other}"),
        }
    }

    /// Returns the events of a transaction.
    pub(crate) async fn logs(&self, receipt: &Receipt) -> Vec<Log> {
        let found = self.devnet.request("eth_getTransactionReceipt", json!([receipt.hash])).await;
        serde_json::from_value(found.unwrap()["logs"].clone()).unwrap()
    }

    pub(crate) async fn approve(&self, token: Address, spender: Address) {
        let approve = IErc20::approveCall { spender, value: U256::MAX };
        self.must(&self.call(token, &approve)).await;
    }

    /// Gives an account native coin for gas.
    pub(crate) async fn fund(&self, account: Address) {
        let ether = json!([account, U256::from(ETHER)]);
        self.devnet.request("anvil_setBalance", ether).await.unwrap();
    }

    pub(crate) async fn balance(&self, token: Address, owner: Address) -> U256 {
        self.devnet.read(token, IErc20::balanceOfCall { owner }).await.unwrap()
    }

    /// Returns the trader's balance of a token; the zero address stands for the native coin.
    pub(crate) async fn own_balance(&self, token: Address) -> U256 {
        if token != Address::ZERO {
            return self.balance(token, self.address).await;
        }
        let balance = self.devnet.request("eth_getBalance", json!([self.address, "latest"])).await;
        serde_json::from_value(balance.unwrap()).unwrap()
    }

    /// Returns the trader's gain of a token by a transaction, without its fee.
    pub(crate) async fn gain(&self, token: Address, call: &Call) -> U256 {
        let before = self.own_balance(token).await;
        let receipt = self.must(call).await;
        let fee = if token == Address::ZERO { receipt.fee() } else { U256::ZERO };
        self.own_balance(token).await + fee - before
    }
}

/// Returns the revert data of a named error without arguments.
pub(crate) fn error_data(error: &str) -> [u8; 4] {
    keccak256(error)[..4].try_into().unwrap()
}

/// Starts a trader on each network in the table of contracts.
pub(crate) async fn traders() -> Vec<Trader> {
    let mut all = Vec::new();
    for chain in CHAINS {
        all.extend(Trader::on(chain).await);
    }
    all
}

#[tokio::test]
async fn the_coin_has_the_domain_of_its_row_on_any_network() {
    // The list includes a network without its own contracts, and one whose row has no wrapped coin.
    for chain in [8453, 4663, 1_187_947_933, 46_630].map(ChainId) {
        let Some(trader) = Trader::on(chain).await else { return };
        let coin = trader.network.stablecoin;
        let found = trader.devnet.read(coin.address, IErc20::DOMAIN_SEPARATORCall {}).await;
        assert_eq!(found.unwrap(), coin.domain_separator, "{chain}");
        assert_eq!(
            trader.balance(coin.address, trader.address).await,
            U256::from(1_000_000 * DOLLAR)
        );
    }
}

#[tokio::test]
async fn an_authorization_signed_now_is_valid_on_a_loaded_chain() {
    for chain in CHAINS {
        let Some(devnet) = full_chain_or_skip(chain).await else { return };
        let network = by_chain(chain).unwrap();
        let payer = Payer::new(0x31);
        assert_on_time(&devnet).await;
        devnet.mint(payer.address(), 100).await.unwrap();
        // Makes two payments, because not only the first block after loading must have the right time.
        for nonce in [1, 2] {
            let terms = payer.terms(Address::repeat_byte(0x22), 50, nonce);
            devnet.settle(&terms, &payer.sign(network, &terms)).await.unwrap();
        }
        assert_on_time(&devnet).await;
    }
}

/// Asserts that the newest block is recent, with tolerance for a busy machine.
async fn assert_on_time(devnet: &Devnet) {
    let head = devnet.request("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
    let time: U256 = serde_json::from_value(head["timestamp"].clone()).unwrap();
    let off = time.to::<u64>().abs_diff(now_s());
    assert!(off < 30, "the chain is {off} s off");
}

#[tokio::test]
async fn ether_is_wrapped_and_unwrapped_one_to_one() {
    for trader in traders().await {
        let weth = trader.contracts.weth;
        let wrapped = trader.own_balance(weth).await;
        let wrap = trader.call(weth, &IWeth::depositCall {}).with_value(U256::from(7));
        assert_eq!(trader.gain(weth, &wrap).await, U256::from(7));
        let unwrap = |wad| trader.call(weth, &IWeth::withdrawCall { wad });
        assert_eq!(trader.gain(Address::ZERO, &unwrap(U256::from(3))).await, U256::from(3));
        assert_eq!(trader.own_balance(weth).await, wrapped + U256::from(4));
        let too_much = unwrap(wrapped + U256::from(5));
        assert!(trader.devnet.send_as(&too_much).await.is_err());
    }
}

#[tokio::test]
async fn many_reads_are_one_call_on_a_full_chain() {
    for trader in traders().await {
        let Contracts { weth, multicall3, .. } = trader.contracts;
        let balance = |target: Address, owner| IMulticall3::Call3 {
            target,
            allowFailure: true,
            callData: IErc20::balanceOfCall { owner }.abi_encode().into(),
        };
        // The router has no `balanceOf`, so this read must fail.
        let calls = vec![
            balance(trader.dollar(), trader.address),
            balance(trader.contracts.v3.router, trader.address),
            balance(weth, trader.address),
        ];
        let read = trader.devnet.read(multicall3, IMulticall3::aggregate3Call { calls }).await;
        let reported: Vec<Option<U256>> = read
            .unwrap()
            .iter()
            .map(|one| one.success.then(|| U256::from_be_slice(&one.returnData)))
            .collect();
        let (dollars, wrapped) = (1_000_000 * DOLLAR, 1_000 * ETHER);
        assert_eq!(reported, [Some(U256::from(dollars)), None, Some(U256::from(wrapped))]);
    }
}

#[tokio::test]
async fn the_contracts_know_each_other_and_the_pools_are_filled() {
    for trader in traders().await {
        let Contracts { weth, permit2, v3, v4, .. } = trader.contracts;
        let devnet = &trader.devnet;
        for part in [v3.positions, v3.router, v3.quoter] {
            assert_eq!(devnet.read(part, IWiring::factoryCall {}).await.unwrap(), v3.factory);
            assert_eq!(devnet.read(part, IWiring::WETH9Call {}).await.unwrap(), weth);
        }
        for part in [v4.positions, v4.quoter, v4.state_view] {
            let manager = devnet.read(part, IWiring::poolManagerCall {}).await.unwrap();
            assert_eq!(manager, v4.pool_manager);
        }
        let found = devnet.read(v4.positions, IWiring::permit2Call {}).await.unwrap();
        assert_eq!(found, permit2);
        for address in trader.contracts.addresses() {
            let code = devnet.request("eth_getCode", json!([address, "latest"])).await.unwrap();
            assert!(code.as_str().unwrap().len() > 2, "nothing stands at {address}");
        }
        let pool =
            IWiring::getPoolCall { one: weth, other: trader.dollar(), fee: U24::from(POOL_FEE) };
        let pool = devnet.read(v3.factory, pool).await.unwrap();
        // The range is so wide that nearly nothing is left over.
        let (wrapped, dollars) = (trader.balance(weth, pool).await, 3_000_000 * DOLLAR);
        assert!(wrapped > U256::from(999 * ETHER), "{wrapped}");
        assert!(trader.balance(trader.dollar(), pool).await > U256::from(dollars - 3_000 * DOLLAR));
        let id = keccak256(pool_key(&trader).abi_encode());
        let liquidity = devnet.read(v4.state_view, IWiring::getLiquidityCall { poolId: id }).await;
        assert!(liquidity.unwrap() > 0);
    }
}

#[tokio::test]
async fn the_pool_of_robinhood_chain_has_its_known_id() {
    let Some(trader) = Trader::on(ChainId(4663)).await else { return };
    let known: B256 = b256!("0x387bf619da4d3fb62bb276482693dba1b9b3520f573cabdfe033384a24125982");
    assert_eq!(keccak256(pool_key(&trader).abi_encode()), known);
}
