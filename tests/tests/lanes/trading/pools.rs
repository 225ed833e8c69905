//! Additional pools on the local chain, and another trader.

use alloy_primitives::aliases::U24;
use alloy_primitives::{Address, U256};
use bursar_devnet::Call;
use bursar_devnet::full::{POOL_FEE, PoolV3, PoolV4, Side, TICK_SPACING};
use serde_json::json;

use crate::trading::stage::Stage;

alloy_sol_types::sol! {
    interface IFactory {
        function getPool(address tokenA, address tokenB, uint24 fee) external view returns (address pool);
    }

    interface IPool {
        function increaseObservationCardinalityNext(uint16 next) external;
    }
}

/// The account that owns liquidity and moves prices.
pub(crate) const TRADER: Address = Address::repeat_byte(0x7a);

/// Native coin of the trader, in wei: more than all pools take.
const TRADER_NATIVE_BALANCE: u128 = 100_000_000_000_000_000_000_000;

impl Stage {
    /// Returns the v4 pool that exists on every chain.
    pub(crate) fn pool_v4(&self) -> PoolV4 {
        PoolV4 {
            sides: [Side::new(Address::ZERO, 0), Side::new(self.dollar(), 0)],
            fee: POOL_FEE,
            tick_spacing: TICK_SPACING,
            hooks: Address::ZERO,
        }
    }

    /// Gives the trader `amount` of a token of the kit, or of the native coin.
    async fn give_trader(&self, Side { token, amount }: Side) {
        let coin = json!([TRADER, U256::from(TRADER_NATIVE_BALANCE)]);
        self.chain.request("anvil_setBalance", coin).await.expect("set");
        if token == self.contracts.weth {
            self.wrap_as(TRADER, amount).await;
        } else if token != Address::ZERO {
            self.chain.mint_of(token, TRADER, amount).await.expect("minted");
        }
    }

    /// Adds a v3 pool with these amounts.
    pub(crate) async fn add_v3_pool(&self, sides: [Side; 2], fee: u32) {
        for side in sides {
            self.give_trader(side).await;
        }
        self.chain.add_v3_pool(TRADER, &PoolV3 { sides, fee }).await.expect("added");
    }

    /// Adds a v4 pool with these amounts.
    pub(crate) async fn add_v4_pool(&self, pool: &PoolV4) {
        for side in pool.sides {
            self.give_trader(side).await;
        }
        self.chain.add_v4_pool(TRADER, pool).await.expect("added");
    }

    /// Adds a v3 pool of the dollar token and another token of six decimals, with a fee of 0.3 % and at equal prices.
    pub(crate) async fn add_pool(&self, token: Address, amount: u128) {
        let sides = [Side::new(self.dollar(), amount), Side::new(token, amount)];
        self.add_v3_pool(sides, 3_000).await;
    }

    /// Sells `amount` of a token to the v3 pool of WETH and the dollar token, which makes the token cheaper there.
    pub(crate) async fn sell_to_v3(&self, token: Address, amount: u128) {
        self.give_trader(Side::new(token, amount)).await;
        let (dollar, weth) = (self.dollar(), self.contracts.weth);
        let other = if token == weth { dollar } else { weth };
        let sold = self.chain.swap_v3(TRADER, [token, other], POOL_FEE, amount).await;
        sold.expect("sold");
    }

    /// Prepares a sale to the pool of `sell_to_v3`, and returns its call without sending it.
    pub(crate) async fn sale_to_v3(&self, token: Address, amount: u128) -> Call {
        // A first small sale sets the allowance.
        self.sell_to_v3(token, 1).await;
        self.give_trader(Side::new(token, amount)).await;
        let (dollar, weth) = (self.dollar(), self.contracts.weth);
        let other = if token == weth { dollar } else { weth };
        let call = self.chain.swap_v3_call(TRADER, [token, other], POOL_FEE, amount);
        call.expect("a call")
    }

    /// Sells `amount` of a token, or of the native coin, to a v4 pool.
    pub(crate) async fn sell_to_v4(&self, pool: &PoolV4, token: Address, amount: u128) {
        self.give_trader(Side::new(token, amount)).await;
        self.chain.swap_v4(TRADER, pool, token, amount).await.expect("sold");
    }

    /// Buys WETH from the v3 pool with `dollars`, which makes WETH dearer there.
    pub(crate) async fn move_v3_price(&self, dollars: u128) {
        self.sell_to_v3(self.dollar(), dollars).await;
    }

    /// Buys a token from its v3 pool with `dollars`, which makes the token dearer there.
    pub(crate) async fn buy(&self, token: Address, fee: u32, dollars: u128) {
        self.give_trader(Side::new(self.dollar(), dollars)).await;
        let bought = self.chain.swap_v3(TRADER, [self.dollar(), token], fee, dollars).await;
        bought.expect("bought");
    }

    /// Makes the pool of a token and the dollar token record its past prices.
    pub(crate) async fn keep_averages(&self, token: Address, fee: u32) {
        let fee = U24::from(fee);
        let asked = IFactory::getPoolCall { tokenA: self.dollar(), tokenB: token, fee };
        let pool = self.chain.read(self.contracts.v3.factory, asked).await.expect("a pool");
        let keep = IPool::increaseObservationCardinalityNextCall { next: 16 };
        self.chain.send_as(&Call::new(TRADER, pool, &keep)).await.expect("mined");
    }
}
