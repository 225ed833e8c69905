//! The two calldata versions of Universal Router: which router accepts which, and the effect of a mismatch.

use alloy_primitives::aliases::{I24, U24, U48, U160};
use alloy_primitives::{Address, Bytes, U256, hex};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_devnet::Call;
use bursar_devnet::full::{POOL_FEE, TICK_SPACING};

use crate::full::{DOLLAR, ETHER, Trader, traders};

sol! {
    #[derive(Debug)]
    struct PoolKey {
        address currency0; address currency1; uint24 fee; int24 tickSpacing; address hooks;
    }

    interface IUniversalRouter {
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
    }

    interface IV4Quoter {
        struct QuoteExactSingleParams {
            PoolKey poolKey; bool zeroForOne; uint128 exactAmount; bytes hookData;
        }

        function quoteExactInputSingle(QuoteExactSingleParams params) external
            returns (uint256 amountOut, uint256 gasEstimate);
    }

    interface IPermit2 {
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
    }

    struct FiveFields {
        PoolKey poolKey; bool zeroForOne; uint128 amountIn; uint128 amountOutMinimum; bytes hookData;
    }

    struct SixFields {
        PoolKey poolKey; bool zeroForOne; uint128 amountIn; uint128 amountOutMinimum;
        uint256 minHopPriceX36; bytes hookData;
    }
}

/// Commands of the router: V4_SWAP alone, and V4_SWAP followed by SWEEP.
const SWAP: &[u8] = &[0x10];
const SWAP_AND_SWEEP: &[u8] = &[0x10, 0x04];
/// Actions of a swap: SWAP_EXACT_IN_SINGLE, SETTLE_ALL, TAKE_ALL.
const ACTIONS: [u8; 3] = [0x06, 0x0c, 0x0f];
/// Selector of the error V4TooLittleReceivedPerHopSingle(uint256,uint256).
const TOO_LITTLE_PER_HOP_SELECTOR: [u8; 4] = hex!("4713c18b");

/// Returns the pool of the native coin and the dollar token.
pub(crate) fn pool_key(trader: &Trader) -> PoolKey {
    PoolKey {
        currency0: Address::ZERO,
        currency1: trader.dollar(),
        fee: U24::from(POOL_FEE),
        tickSpacing: I24::try_from(TICK_SPACING).unwrap(),
        hooks: Address::ZERO,
    }
}

/// The parameters of a single swap, by version.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fields {
    Five,
    /// Six fields, with the minimum price: tokens received per token given, times 10^36.
    Six(U256),
}

/// A swap between the native coin and the dollar token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swap {
    pub(crate) fields: Fields,
    pub(crate) sell_ether: bool,
    pub(crate) amount: u128,
    pub(crate) min_out: u128,
}

impl Swap {
    /// Grants the allowances once: the dollar token to Permit2, and Permit2 to the router.
    pub(crate) async fn prepare(trader: &Trader, router: Address) {
        let permit2 = trader.contracts.permit2;
        trader.approve(trader.dollar(), permit2).await;
        let allow = IPermit2::approveCall {
            token: trader.dollar(),
            spender: router,
            amount: U160::MAX,
            expiration: U48::MAX,
        };
        trader.must(&trader.call(permit2, &allow)).await;
    }

    pub(crate) async fn quote(&self, trader: &Trader) -> U256 {
        let params = IV4Quoter::QuoteExactSingleParams {
            poolKey: pool_key(trader),
            zeroForOne: self.sell_ether,
            exactAmount: self.amount,
            hookData: Bytes::new(),
        };
        let question = IV4Quoter::quoteExactInputSingleCall { params };
        trader.devnet.read(trader.contracts.v4.quoter, question).await.unwrap().amountOut
    }

    pub(crate) fn bought(&self, trader: &Trader) -> Address {
        if self.sell_ether { trader.dollar() } else { Address::ZERO }
    }

    pub(crate) fn call(&self, trader: &Trader, router: Address) -> Call {
        let execute = IUniversalRouter::executeCall {
            commands: SWAP.into(),
            inputs: vec![self.input(trader)],
            deadline: U256::MAX,
        };
        trader.call(router, &execute).with_value(self.value())
    }

    pub(crate) fn value(&self) -> U256 {
        U256::from(if self.sell_ether { self.amount } else { 0 })
    }

    /// Returns the input of V4_SWAP.
    pub(crate) fn input(&self, trader: &Trader) -> Bytes {
        let sold = if self.sell_ether { Address::ZERO } else { trader.dollar() };
        let params: Vec<Bytes> = vec![
            self.parameters(trader).into(),
            (sold, U256::from(self.amount)).abi_encode_params().into(),
            (self.bought(trader), U256::from(1)).abi_encode_params().into(),
        ];
        (Bytes::from_static(&ACTIONS), params).abi_encode_params().into()
    }

    fn parameters(&self, trader: &Trader) -> Vec<u8> {
        match self.fields {
            Fields::Five => FiveFields {
                poolKey: pool_key(trader),
                zeroForOne: self.sell_ether,
                amountIn: self.amount,
                amountOutMinimum: self.min_out,
                hookData: Bytes::new(),
            }
            .abi_encode(),
            Fields::Six(least_price) => SixFields {
                poolKey: pool_key(trader),
                zeroForOne: self.sell_ether,
                amountIn: self.amount,
                amountOutMinimum: self.min_out,
                minHopPriceX36: least_price,
                hookData: Bytes::new(),
            }
            .abi_encode(),
        }
    }
}

/// Returns the price of a swap as the newer routers compute it: in smallest units, rounded down.
fn price(received: U256, given: u128) -> U256 {
    received * U256::from(10).pow(U256::from(36)) / U256::from(given)
}

#[tokio::test]
async fn newer_routers_enforce_the_least_price_exactly() {
    for trader in traders().await {
        let routers = trader.contracts.routers;
        for router in [routers.v2_1_1, routers.v2_1_2] {
            Swap::prepare(&trader, router).await;
            for (sell_ether, amount) in [(false, 3_000 * DOLLAR), (true, ETHER)] {
                let mut swap = Swap { fields: Fields::Five, sell_ether, amount, min_out: 1 };
                let quoted = swap.quote(&trader).await;
                let met = price(quoted, amount);

                swap.fields = Fields::Six(met + U256::from(1));
                let refusal = trader.refusal(&swap.call(&trader, router)).await;
                assert_eq!(refusal[..4], TOO_LITTLE_PER_HOP_SELECTOR);
                let reported = <(U256, U256)>::abi_decode_params(&refusal[4..]).unwrap();
                assert_eq!(reported, (met + U256::from(1), met));

                swap.fields = Fields::Six(met);
                let call = swap.call(&trader, router);
                assert_eq!(trader.gain(swap.bought(&trader), &call).await, quoted);
            }
        }
    }
}

#[tokio::test]
async fn the_older_router_takes_the_newer_calldata_only_without_a_price() {
    for trader in traders().await {
        let router = trader.contracts.routers.v2_1_0;
        Swap::prepare(&trader, router).await;
        for (sell_ether, amount) in [(false, 3_000 * DOLLAR), (true, ETHER)] {
            let mut swap = Swap { fields: Fields::Five, sell_ether, amount, min_out: 1 };
            let quoted = swap.quote(&trader).await;
            // The router reads the price as the offset of the hook's data, which is then far beyond the end.
            swap.fields = Fields::Six(price(quoted, amount));
            assert_eq!(trader.refusal(&swap.call(&trader, router)).await, b"");
            // Without a price the mismatch has no effect, so a test that omits the price proves nothing.
            swap.fields = Fields::Six(U256::ZERO);
            let call = swap.call(&trader, router);
            assert_eq!(trader.gain(swap.bought(&trader), &call).await, quoted);
        }
    }
}

#[tokio::test]
async fn a_newer_router_gives_back_what_is_swept_and_refuses_what_it_does_not_know() {
    for trader in traders().await {
        let router = trader.contracts.routers.v2_1_1;
        let swap =
            Swap { fields: Fields::Six(U256::ZERO), sell_ether: true, amount: ETHER, min_out: 1 };
        let sweep = (Address::ZERO, Address::with_last_byte(1), U256::ZERO).abi_encode_params();
        let mut execute = IUniversalRouter::executeCall {
            commands: SWAP_AND_SWEEP.into(),
            inputs: vec![swap.input(&trader), sweep.into()],
            deadline: U256::MAX,
        };
        let call = |execute: &IUniversalRouter::executeCall| {
            trader.call(router, execute).with_value(U256::from(2 * ETHER))
        };
        let before = trader.own_balance(Address::ZERO).await;
        let fee = trader.must(&call(&execute)).await.fee();
        assert_eq!(trader.own_balance(Address::ZERO).await, before - fee - U256::from(ETHER));

        // The refusal is TransactionDeadlinePassed().
        execute.deadline = U256::from(1);
        assert_eq!(trader.refusal(&call(&execute)).await, hex!("5bf6f916"));
        // The refusal is InvalidCommandType(uint256).
        execute.commands = vec![0x10, 0x3f].into();
        execute.deadline = U256::MAX;
        let refusal = trader.refusal(&call(&execute)).await;
        assert_eq!(refusal[..4], alloy_primitives::keccak256("InvalidCommandType(uint256)")[..4]);
    }
}

#[test]
fn the_calls_have_the_selectors_of_their_documents() {
    assert_eq!(IUniversalRouter::executeCall::SELECTOR, hex!("3593564c"));
    assert_eq!(IV4Quoter::quoteExactInputSingleCall::SELECTOR, hex!("aa9d21cb"));
    assert_eq!(IPermit2::approveCall::SELECTOR, hex!("87517c45"));
}
