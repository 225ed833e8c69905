//! The contract addresses of full chains, which are those of the network that the chain stands for. Only the networks
//! in [`CHAINS`] have their own addresses; the full chain of any other network uses the addresses of Base.

use alloy_primitives::{Address, address};
use bursar_core::networks::{self, ChainId, MULTICALL3};

/// The contracts of a full chain, in addition to its stablecoin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contracts {
    /// The wrapped native coin.
    pub weth: Address,
    pub permit2: Address,
    /// A stand-in for x402's proxy for exact payments by Permit2.
    pub exact_permit2_proxy: Address,
    /// A stand-in for x402's proxy for payments up to an amount by Permit2.
    pub upto_permit2_proxy: Address,
    /// A stand-in for x402BatchSettlement, the payment channels.
    pub batch_settlement: Address,
    /// A stand-in for the collector of channel deposits by EIP-3009.
    pub erc3009_collector: Address,
    /// A stand-in for the collector of channel deposits by Permit2.
    pub permit2_collector: Address,
    /// A stand-in for Primer's Prism: any account may change its facilitators.
    pub prism: Address,
    pub multicall3: Address,
    pub v3: UniswapV3,
    pub v4: UniswapV4,
    pub routers: Routers,
    pub lending: Lending,
}

/// Uniswap v3, with a pool of WETH and the stablecoin at [`POOL_FEE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniswapV3 {
    pub factory: Address,
    pub positions: Address,
    /// SwapRouter02.
    pub router: Address,
    /// QuoterV2.
    pub quoter: Address,
}

/// Uniswap v4, with a pool of the native coin and the stablecoin at [`POOL_FEE`] and [`TICK_SPACING`], without
/// hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniswapV4 {
    pub pool_manager: Address,
    pub positions: Address,
    pub quoter: Address,
    pub state_view: Address,
}

/// Universal Routers by version, because their calldata differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routers {
    /// The real contract: five fields in the parameters of a single swap.
    pub v2_1_0: Address,
    /// A stand-in: six fields, with `minHopPriceX36`.
    pub v2_1_1: Address,
    /// The same contract as for 2.1.1, because the calldata did not change.
    pub v2_1_2: Address,
}

/// Morpho Blue with one market, WETH against the stablecoin at [`LLTV`], and vaults that lend through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lending {
    pub morpho: Address,
    /// An interest model whose rate a test can set. Until then, the yearly rate equals the utilization.
    pub irm: Address,
    /// Our own price oracle.
    pub oracle: Address,
    pub vault_v2_factory: Address,
    /// The factory of MetaMorpho 1.1, where the network has one.
    pub metamorpho_factory: Option<Address>,
    /// The factory of MorphoMarketV1AdapterV2.
    pub market_adapter_factory: Address,
    /// The factory of MorphoVaultV1Adapter.
    pub vault_adapter_factory: Address,
    pub adapter_registry: Address,
    /// Ready vaults of the factory of Vault V2, each with a market adapter.
    pub vaults_v2: &'static [Address],
    /// A ready vault of MetaMorpho 1.1.
    pub metamorpho: Option<Address>,
    /// The curator of the ready vaults, which the network's users trust.
    pub curator: Address,
    /// The owner of the ready vaults.
    pub owner: Address,
}

/// The pool fee in hundredths of a basis point: 0.05 %.
pub const POOL_FEE: u32 = 500;
/// The tick spacing of pools with that fee.
pub const TICK_SPACING: i32 = 10;
/// Maximum part of the collateral's value that may be borrowed, times 10^18.
pub const LLTV: u128 = 860_000_000_000_000_000;

/// An address that we chose, because no real network has this oracle.
const ORACLE: Address = address!("0x000000000000000000000000000000000bACC1E0");
/// The owner of Base's ready vaults. We chose the address, because no source names an owner.
const BASE_VAULT_OWNER: Address = address!("0x000000000000000000000000000000000bACC1E3");
/// These addresses are the same on every network.
const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");
const EXACT_PERMIT2_PROXY: Address = address!("0x402085c248EeA27D92E8b30b2C58ed07f9E20001");
const UPTO_PERMIT2_PROXY: Address = address!("0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002");
const BATCH_SETTLEMENT: Address = address!("0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003");
const ERC3009_COLLECTOR: Address = address!("0x4020806089470a89826cB9fB1f4059150b550004");
const PERMIT2_COLLECTOR: Address = address!("0x4020425FAf3B746C082C2f942b4E5159887B0005");
const PRISM: Address = address!("0x402357ff1e18d42d0f14a5d56d6e1ebd741b3a86");
/// Base has 2.1.0 at this address; Robinhood Chain began with 2.1.1.
const ROUTER_2_1_0: Address = address!("0xf3A4F4094bD2c6C06cA2F61789D8727B8D1E7259");

const ROBINHOOD: (UniswapV3, UniswapV4, Routers, Lending) = (
    UniswapV3 {
        factory: address!("0x1f7d7550B1b028f7571E69A784071F0205FD2EfA"),
        positions: address!("0x73991A25C818Bf1f1128dEAaB1492D45638DE0D3"),
        router: address!("0xCaf681a66D020601342297493863E78C959E5cb2"),
        quoter: address!("0x33e885eD0Ec9bF04EcfB19341582aADCb4c8A9E7"),
    },
    UniswapV4 {
        pool_manager: address!("0x8366a39CC670B4001A1121B8F6A443A643e40951"),
        positions: address!("0x58daec3116aae6D93017bAAea7749052E8a04fA7"),
        quoter: address!("0x8Dc178eFB8111BB0973Dd9d722ebeFF267c98F94"),
        state_view: address!("0xF3334192D15450CdD385c8B70e03f9A6bD9E673b"),
    },
    Routers {
        v2_1_0: ROUTER_2_1_0,
        v2_1_1: address!("0x8876789976dEcBfCbBbe364623C63652db8C0904"),
        v2_1_2: address!("0x204FAca1764B154221e35c0d20aBb3c525710498"),
    },
    Lending {
        morpho: address!("0x9D53d5E3bd5E8d4Cbfa6DB1ca238AEA02E651010"),
        irm: address!("0x2BD3d5965B26B51814AC95127B2b80dD6CcC0fa1"),
        oracle: ORACLE,
        vault_v2_factory: address!("0x0FBad98595b0186dA120E41f77C102beb49f803c"),
        metamorpho_factory: None,
        market_adapter_factory: address!("0x79370Ed003CE325C088E530d5e8655c99c2993e1"),
        vault_adapter_factory: address!("0x7a91222F3f7B927bB8fb624593Ca86e111C2F85e"),
        adapter_registry: address!("0xe785a2eFD384BA7B95BaEd3851BC76aeD67C676f"),
        vaults_v2: &[
            address!("0xBeEff033F34C046626B8D0A041844C5d1A5409dd"),
            address!("0xbEeFF0fb1Dc19344A87b8479dAb60A2e16160737"),
        ],
        metamorpho: None,
        curator: address!("0x9023fbd6a08c666491a2d1648737e400cf42d2fb"),
        owner: address!("0xCa50D23F1c18C1Dfaff5d3cae3aa4B9dC5C8db73"),
    },
);

const BASE: (UniswapV3, UniswapV4, Routers, Lending) = (
    UniswapV3 {
        factory: address!("0x33128a8fC17869897dcE68Ed026d694621f6FDfD"),
        positions: address!("0x03a520b32C04BF3bEEf7BEb72E919cf822Ed34f1"),
        router: address!("0x2626664c2603336E57B271c5C0b26F421741e481"),
        quoter: address!("0x3d4e44Eb1374240CE5F1B871ab261CD16335B76a"),
    },
    UniswapV4 {
        pool_manager: address!("0x498581fF718922c3f8e6A244956aF099B2652b2b"),
        positions: address!("0x7C5f5A4bBd8fD63184577525326123B519429bDc"),
        quoter: address!("0x0d5e0F971ED27FBfF6c2837bf31316121532048D"),
        state_view: address!("0xA3c0c9b65baD0b08107Aa264b0f3dB444b867A71"),
    },
    Routers {
        v2_1_0: ROUTER_2_1_0,
        v2_1_1: address!("0xFdf682F51FE81Aa4898F0AE2163d8A55c127fbC7"),
        v2_1_2: address!("0xd6145b2D3F379919E8CdEda7B97e37c4b2Ca9c40"),
    },
    Lending {
        morpho: address!("0xBBBBBbbBBb9cC5e90e3b3Af64bdAF62C37EEFFCb"),
        irm: address!("0x46415998764C29aB2a25CbeA6254146D50D22687"),
        oracle: ORACLE,
        vault_v2_factory: address!("0x4501125508079A99ebBebCE205DeC9593C2b5857"),
        metamorpho_factory: Some(address!("0xFf62A7c278C62eD665133147129245053Bbf5918")),
        market_adapter_factory: address!("0x9a1B378C43BA535cDB89934230F0D3890c51C0EB"),
        vault_adapter_factory: address!("0xF42D9c36b34c9c2CF3Bc30eD2a52a90eEB604642"),
        adapter_registry: address!("0x5C2531Cbd2cf112Cf687da3Cd536708aDd7DB10a"),
        // On the real network this is a MetaMorpho vault, because no pinned vault there is a Vault V2.
        vaults_v2: &[address!("0xbeeF010f9cb27031ad51e3333f9aF9C6B1228183")],
        metamorpho: Some(address!("0xBEEFE94c8aD530842bfE7d8B397938fFc1cb83b2")),
        curator: address!("0x827e86072B06674a077f592A531dcE4590aDeCdB"),
        owner: BASE_VAULT_OWNER,
    },
);

/// The networks with their own addresses; the others use those of Base.
pub const CHAINS: [ChainId; 2] = [ChainId(8453), ChainId(4663)];

impl Lending {
    /// Returns the ready vaults of both kinds.
    pub fn vaults(&self) -> Vec<Address> {
        self.vaults_v2.iter().copied().chain(self.metamorpho).collect()
    }
}

impl Contracts {
    /// Returns the contracts of a network's full chain, or `None` if Bursar does not support the network.
    pub fn of(chain: ChainId) -> Option<Self> {
        let network = networks::by_chain(chain)?;
        let [base, robinhood] = CHAINS;
        let (v3, v4, routers, lending) = if chain == robinhood { ROBINHOOD } else { BASE };
        let weth = |row: &networks::Network| {
            row.tokens.iter().find(|token| token.symbol == "WETH").map(|token| token.address)
        };
        let weth = weth(network).or_else(|| networks::by_chain(base).and_then(weth))?;
        Some(Self {
            weth,
            permit2: PERMIT2,
            exact_permit2_proxy: EXACT_PERMIT2_PROXY,
            upto_permit2_proxy: UPTO_PERMIT2_PROXY,
            batch_settlement: BATCH_SETTLEMENT,
            erc3009_collector: ERC3009_COLLECTOR,
            permit2_collector: PERMIT2_COLLECTOR,
            prism: PRISM,
            multicall3: MULTICALL3,
            v3,
            v4,
            routers,
            lending,
        })
    }

    /// Returns the addresses of all contracts.
    pub fn addresses(&self) -> Vec<Address> {
        let Self { v3, v4, routers, lending, .. } = self;
        let mut all = vec![
            self.weth,
            self.permit2,
            self.exact_permit2_proxy,
            self.upto_permit2_proxy,
            self.batch_settlement,
            self.erc3009_collector,
            self.permit2_collector,
            self.prism,
            self.multicall3,
            v3.factory,
            v3.positions,
            v3.router,
            v3.quoter,
            v4.pool_manager,
            v4.positions,
            v4.quoter,
            v4.state_view,
            routers.v2_1_0,
            routers.v2_1_1,
            routers.v2_1_2,
            lending.morpho,
            lending.irm,
            lending.oracle,
            lending.vault_v2_factory,
            lending.market_adapter_factory,
            lending.vault_adapter_factory,
            lending.adapter_registry,
        ];
        all.extend(lending.vaults());
        all.extend(lending.metamorpho_factory);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::networks::{NETWORKS, RouterCalldata};
    use std::collections::BTreeSet;

    #[test]
    fn no_two_contracts_of_a_chain_share_an_address() {
        for network in NETWORKS {
            let mut all = Contracts::of(network.chain).unwrap().addresses();
            all.push(network.stablecoin.address);
            let count = all.len();
            assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), count, "{}", network.chain);
        }
        assert_eq!(Contracts::of(ChainId(5)), None);
    }

    #[test]
    fn weth_matches_the_network_table() {
        for chain in CHAINS {
            let network = networks::by_chain(chain).unwrap();
            let listed = network.tokens.iter().find(|token| token.symbol == "WETH").unwrap();
            assert_eq!(Contracts::of(chain).unwrap().weth, listed.address);
        }
    }

    #[test]
    fn exchanges_match_the_network_table() {
        for chain in CHAINS {
            let exchange = networks::by_chain(chain).unwrap().exchange.unwrap();
            let kit = Contracts::of(chain).unwrap();
            let v3 = (exchange.v3.factory, exchange.v3.quoter, exchange.v3.router);
            assert_eq!(v3, (kit.v3.factory, kit.v3.quoter, kit.v3.router), "{chain}");
            let v4 = (exchange.v4.pool_manager, exchange.v4.state_view, exchange.v4.quoter);
            assert_eq!(v4, (kit.v4.pool_manager, kit.v4.state_view, kit.v4.quoter), "{chain}");
            let tokens = (exchange.wrapped_native, exchange.permit2);
            assert_eq!(tokens, (kit.weth, kit.permit2), "{chain}");
            // A router with the other calldata layout would read other terms from the same swap.
            let routers = match exchange.v4.calldata {
                RouterCalldata::V2_0 => vec![kit.routers.v2_1_0],
                RouterCalldata::V2_1_1 => vec![kit.routers.v2_1_1, kit.routers.v2_1_2],
            };
            assert!(routers.contains(&exchange.v4.router), "{chain}");
        }
    }
}
