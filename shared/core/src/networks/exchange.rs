//! The contracts through which a network's tokens are traded, and the price feeds that value a trade independently of
//! its pools.
//!
//! Addresses are those of Uniswap's deployment list and its SDK, and of Chainlink's feed directory; each is in at
//! least two sources.

use alloy_primitives::{Address, B256, address, b256};

use super::token::Token;

/// Uniswap on one network, and the further data to check and send a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    pub v3: UniswapV3,
    pub v4: UniswapV4,
    /// The wrapped native coin, 18 decimals.
    pub wrapped_native: Address,
    pub permit2: Address,
    /// The price of the native coin in dollars; `None` where the network has no feed.
    pub native_feed: Option<Feed>,
    /// Tokens that count as one dollar each, in addition to the network's stablecoin.
    pub dollar_tokens: &'static [Token],
    /// Tokens whose value in dollars a feed reports.
    pub stock_tokens: &'static [StockToken],
    /// Seconds of chain time from the newest block to a swap's deadline.
    pub deadline_seconds: u64,
}

/// The contracts of Uniswap v3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniswapV3 {
    pub factory: Address,
    /// Hash of the creation code of pools, from which a pool's address follows (CREATE2).
    pub pool_code_hash: B256,
    /// QuoterV2.
    pub quoter: Address,
    /// SwapRouter02.
    pub router: Address,
}

/// The contracts of Uniswap v4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniswapV4 {
    pub pool_manager: Address,
    pub state_view: Address,
    /// V4Quoter.
    pub quoter: Address,
    /// The Universal Router.
    pub router: Address,
    pub calldata: RouterCalldata,
}

/// The layout of a v4 swap in the calldata of a Universal Router.
///
/// A router may accept the other layout and read it as different terms, so the table names the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterCalldata {
    /// Up to version 2.1.0: five fields in a single swap.
    V2_0,
    /// From version 2.1.1 on: six fields, with `minHopPriceX36`.
    V2_1_1,
}

/// A Chainlink price feed in dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feed {
    pub address: Address,
    pub decimals: u8,
    /// Age in seconds from which a price is stale: the feed's longest interval of updates, and a margin.
    pub stale_seconds: u64,
}

/// A tokenized stock and the feed of its price.
///
/// Anyone can issue a token with the same symbol: only the address counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockToken {
    pub token: Token,
    /// The price of one whole token.
    ///
    /// It contains the token's multiplier, which changes with dividends and splits.
    pub feed: Feed,
}

impl StockToken {
    /// A token of Robinhood. Its feed is updated at least once a day while the stock is traded, so it is stale on
    /// weekends.
    const fn robinhood(symbol: &'static str, address: Address, feed: Address) -> Self {
        Self {
            token: Token { symbol, address, decimals: 18 },
            feed: Feed { address: feed, decimals: 8, stale_seconds: 90_000 },
        }
    }
}

/// Hash of the creation code of Uniswap's own v3 pools. The factory's `getPool` confirms each computed address.
const V3_POOL_CODE_HASH: B256 =
    b256!("0xe34f199b19b2b4f47f68442619d555527d244f78a3297ea89325f843f87b8b54");

/// Permit2 has the same address on every network.
const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");

pub(super) static ROBINHOOD: Exchange = Exchange {
    v3: UniswapV3 {
        factory: address!("0x1f7d7550B1b028f7571E69A784071F0205FD2EfA"),
        pool_code_hash: V3_POOL_CODE_HASH,
        quoter: address!("0x33e885eD0Ec9bF04EcfB19341582aADCb4c8A9E7"),
        router: address!("0xCaf681a66D020601342297493863E78C959E5cb2"),
    },
    v4: UniswapV4 {
        pool_manager: address!("0x8366a39CC670B4001A1121B8F6A443A643e40951"),
        state_view: address!("0xF3334192D15450CdD385c8B70e03f9A6bD9E673b"),
        quoter: address!("0x8Dc178eFB8111BB0973Dd9d722ebeFF267c98F94"),
        // Version 2.1.1.
        router: address!("0x8876789976dEcBfCbBbe364623C63652db8C0904"),
        calldata: RouterCalldata::V2_1_1,
    },
    wrapped_native: address!("0x0Bd7D308f8E1639FAb988df18A8011f41EAcAD73"),
    permit2: PERMIT2,
    native_feed: Some(Feed {
        address: address!("0x78F3556b67E17Df817D51Ef5a990cDaF09E8d3A9"),
        decimals: 8,
        // Updated at least once a day.
        stale_seconds: 90_000,
    }),
    dollar_tokens: &[],
    stock_tokens: &[
        StockToken::robinhood(
            "AAPL",
            address!("0xaF3D76f1834A1d425780943C99Ea8A608f8a93f9"),
            address!("0x6B22A786bAa607d76728168703a39Ea9C99f2cD0"),
        ),
        StockToken::robinhood(
            "AMZN",
            address!("0x12f190a9F9d7D37a250758b26824B97CE941bF54"),
            address!("0xD5a1508ceD74c084eBf3cBe853e2C968fB2a651C"),
        ),
        StockToken::robinhood(
            "GOOGL",
            address!("0x2e0847E8910a9732eB3fb1bb4b70a580ADAD4FE3"),
            address!("0xF6f373a037c30F0e5010d854385cA89185AE638b"),
        ),
        StockToken::robinhood(
            "META",
            address!("0xc0D6457C16Cc70d6790Dd43521C899C87ce02f35"),
            address!("0x7C38C00C30BEe9378381E7B6135d7283356D71b1"),
        ),
        StockToken::robinhood(
            "MSFT",
            address!("0xe93237C50D904957Cf27E7B1133b510C669c2e74"),
            address!("0x45C3C877C15E6BA2EBB19eA114Ea508d14C1Af2E"),
        ),
        StockToken::robinhood(
            "NVDA",
            address!("0xd0601CE157Db5bdC3162BbaC2a2C8aF5320D9EEC"),
            address!("0x379EC4f7C378F34a1B47E4F3cbeBCbAC3E8E9F15"),
        ),
        StockToken::robinhood(
            "TSLA",
            address!("0x322F0929c4625eD5bAd873c95208D54E1c003b2d"),
            address!("0x4A1166a659A55625345e9515b32adECea5547C38"),
        ),
    ],
    deadline_seconds: 60,
};

pub(super) static BASE: Exchange = Exchange {
    v3: UniswapV3 {
        factory: address!("0x33128a8fC17869897dcE68Ed026d694621f6FDfD"),
        pool_code_hash: V3_POOL_CODE_HASH,
        quoter: address!("0x3d4e44Eb1374240CE5F1B871ab261CD16335B76a"),
        router: address!("0x2626664c2603336E57B271c5C0b26F421741e481"),
    },
    v4: UniswapV4 {
        pool_manager: address!("0x498581fF718922c3f8e6A244956aF099B2652b2b"),
        state_view: address!("0xA3c0c9b65baD0b08107Aa264b0f3dB444b867A71"),
        quoter: address!("0x0d5e0F971ED27FBfF6c2837bf31316121532048D"),
        // Version 2.1.2, whose calldata is that of 2.1.1.
        router: address!("0xd6145b2D3F379919E8CdEda7B97e37c4b2Ca9c40"),
        calldata: RouterCalldata::V2_1_1,
    },
    wrapped_native: address!("0x4200000000000000000000000000000000000006"),
    permit2: PERMIT2,
    native_feed: Some(Feed {
        address: address!("0x71041dddad3595F9CEd3DcCFBe3D1F4b0a16Bb70"),
        decimals: 8,
        // Updated at least every 20 minutes.
        stale_seconds: 3_600,
    }),
    dollar_tokens: &[Token {
        symbol: "USDT",
        address: address!("0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2"),
        decimals: 6,
    }],
    stock_tokens: &[],
    deadline_seconds: 120,
};
