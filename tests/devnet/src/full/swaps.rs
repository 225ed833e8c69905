//! Swaps of other traders, which move the prices of pools.

use alloy_primitives::aliases::U24;
use alloy_primitives::{Address, Bytes, U160, U256};
use alloy_sol_types::{SolValue, sol};

use super::liquidity::{PoolKey, PoolV4};
use crate::call::Call;
use crate::error::DevnetError;
use crate::node::Devnet;

sol! {
    interface ISwapRouter {
        struct Single {
            address tokenIn; address tokenOut; uint24 fee; address recipient; uint256 amountIn;
            uint256 amountOutMinimum; uint160 sqrtPriceLimitX96;
        }

        function exactInputSingle(Single params) external payable returns (uint256 amountOut);
    }

    interface IUniversalRouter {
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
    }

    struct SwapV4 {
        PoolKey poolKey; bool zeroForOne; uint128 amountIn; uint128 amountOutMinimum;
        uint256 minHopPriceX36; bytes hookData;
    }
}

/// The command `V4_SWAP` of the Universal Router.
const SWAP: &[u8] = &[0x10];
/// The actions `SWAP_EXACT_IN_SINGLE`, `SETTLE_ALL` and `TAKE_ALL` of the Universal Router.
const ACTIONS: &[u8] = &[0x06, 0x0c, 0x0f];

impl Devnet {
    /// Swaps an exact amount of a token of `trader`, in a v3 pool and at any price.
    ///
    /// # Errors
    /// There is no such pool, or the trader cannot pay.
    pub async fn swap_v3(
        &self,
        trader: Address,
        [token_in, token_out]: [Address; 2],
        fee: u32,
        amount: u128,
    ) -> Result<(), DevnetError> {
        let router = self.contracts()?.v3.router;
        self.allow(trader, token_in, router).await?;
        let call = self.swap_v3_call(trader, [token_in, token_out], fee, amount)?;
        self.send_as(&call).await.map(|_receipt| ())
    }

    /// Returns the call of [`Devnet::swap_v3`], without the trader's allowance for the router.
    ///
    /// # Errors
    /// The chain has no known contracts.
    pub fn swap_v3_call(
        &self,
        trader: Address,
        [token_in, token_out]: [Address; 2],
        fee: u32,
        amount: u128,
    ) -> Result<Call, DevnetError> {
        let router = self.contracts()?.v3.router;
        let params = ISwapRouter::Single {
            tokenIn: token_in,
            tokenOut: token_out,
            fee: U24::from(fee),
            recipient: trader,
            amountIn: U256::from(amount),
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        Ok(Call::new(trader, router, &ISwapRouter::exactInputSingleCall { params }))
    }

    /// Swaps an exact amount of a token of `trader`, in a v4 pool and at any price.
    ///
    /// # Errors
    /// There is no such pool, its hooks refuse the swap, or the trader cannot pay.
    pub async fn swap_v4(
        &self,
        trader: Address,
        pool: &PoolV4,
        token_in: Address,
        amount: u128,
    ) -> Result<(), DevnetError> {
        let contracts = self.contracts()?;
        let router = contracts.routers.v2_1_1;
        let key = pool.key()?;
        let sells_first = token_in == key.currency0;
        let token_out = if sells_first { key.currency1 } else { key.currency0 };
        let native = token_in == Address::ZERO;
        if !native {
            self.allow_permit2(trader, token_in, contracts.permit2, router).await?;
        }
        let swap = SwapV4 {
            poolKey: key,
            zeroForOne: sells_first,
            amountIn: amount,
            amountOutMinimum: 0,
            minHopPriceX36: U256::ZERO,
            hookData: Bytes::new(),
        };
        let params: Vec<Bytes> = vec![
            swap.abi_encode().into(),
            (token_in, U256::from(amount)).abi_encode_params().into(),
            (token_out, U256::ZERO).abi_encode_params().into(),
        ];
        let input = (Bytes::from_static(ACTIONS), params).abi_encode_params();
        let execute = IUniversalRouter::executeCall {
            commands: SWAP.into(),
            inputs: vec![input.into()],
            deadline: U256::MAX,
        };
        let value = U256::from(if native { amount } else { 0 });
        let call = Call::new(trader, router, &execute).with_value(value);
        self.send_as(&call).await.map(|_receipt| ())
    }
}
