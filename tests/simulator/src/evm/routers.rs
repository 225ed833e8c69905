//! SwapRouter02 and the Universal Router.

use alloy_primitives::aliases::{I24, U24, U160};
use alloy_primitives::{Address, B256, Bytes, I256, U256};
use alloy_sol_types::{SolCall, SolValue};

use super::abi;
use super::contracts::id4;
use super::machine::{Machine, Message, Reverted, arguments, is_call, revert_error, revert_reason};
use super::math::{SQRT_MAX, SQRT_MIN, SwapResult};
use super::state::V4Pool;

const SWAP_GAS: u64 = 90_000;

/// Per token, the amount that a router owes to pools and the amount that it may take from them.
type Deltas = Vec<(Address, U256, U256)>;

/// The arguments of `SETTLE_ALL` and `TAKE_ALL`.
type CurrencyAmount = (Address, U256);

impl Machine<'_> {
    pub(super) fn router3(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let data = &message.data[..];
        let exchange = self.env.contracts.exchange;
        if is_call::<abi::Router3::factoryCall>(data) {
            return Ok(Bytes::from(exchange.v3.factory.into_word()));
        }
        if is_call::<abi::Router3::WETH9Call>(data) {
            return Ok(Bytes::from(exchange.wrapped_native.into_word()));
        }
        if is_call::<abi::Router3::multicallCall>(data) {
            let abi::Router3::multicallCall { deadline, data } = arguments(data)?;
            if U256::from(self.env.time) > deadline {
                return Err(revert_reason("Transaction too old"));
            }
            let mut results = Vec::with_capacity(data.len());
            for one in data {
                let inner = Message { data: one, ..message.clone() };
                results.push(self.router3_one(&inner)?);
            }
            return Ok(abi::Router3::multicallCall::abi_encode_returns(&results).into());
        }
        self.router3_one(message)
    }

    fn router3_one(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let data = &message.data[..];
        let (router, from) = (message.to, message.from);
        let weth = self.env.contracts.weth();
        if is_call::<abi::Router3::exactInputSingleCall>(data) {
            let params = arguments::<abi::Router3::exactInputSingleCall>(data)?.params;
            let fee: u32 = params.fee.to();
            let recipient = recipient(params.recipient, from, router);
            let hop = (params.tokenIn, params.tokenOut, fee);
            let out = self.swap3(router, from, recipient, hop, params.amountIn)?;
            return too_little(out, params.amountOutMinimum);
        }
        if is_call::<abi::Router3::exactInputCall>(data) {
            let params = arguments::<abi::Router3::exactInputCall>(data)?.params;
            let hops = hops(&params.path).ok_or_else(Bytes::new)?;
            let recipient = recipient(params.recipient, from, router);
            let (mut payer, mut amount) = (from, params.amountIn);
            for (at, hop) in hops.iter().enumerate() {
                let to = if at + 1 == hops.len() { recipient } else { router };
                amount = self.swap3(router, payer, to, *hop, amount)?;
                payer = router;
            }
            return too_little(amount, params.amountOutMinimum);
        }
        if is_call::<abi::Router3::unwrapWETH9Call>(data) {
            let abi::Router3::unwrapWETH9Call { amountMinimum, recipient } = arguments(data)?;
            let held = self.state.balance(weth, router);
            if held < amountMinimum {
                return Err(revert_reason("Insufficient WETH9"));
            }
            if !held.is_zero() {
                self.unwrap(weth, router, held)?;
                self.pay(router, recipient, held)?;
            }
            return Ok(Bytes::new());
        }
        if is_call::<abi::Router3::refundETHCall>(data) {
            let held = self.state.native_of(router);
            self.pay(router, from, held)?;
            return Ok(Bytes::new());
        }
        Err(Bytes::new())
    }

    /// Swaps through one v3 pool. `payer` pays the input: the router itself, or an account that gave it an allowance.
    fn swap3(
        &mut self,
        router: Address,
        payer: Address,
        recipient: Address,
        (input, output, fee): (Address, Address, u32),
        amount: U256,
    ) -> Result<U256, Reverted> {
        let address = self.env.contracts.pool3(input, output, fee);
        let pool = *self.state.pools3.get(&address).ok_or_else(Bytes::new)?;
        let weth = self.env.contracts.weth();
        self.gas += SWAP_GAS;
        let zero_for_one = input == pool.token0;
        let moved = pool.range.sell(zero_for_one, amount);
        self.transfer(output, address, recipient, moved.out)?;
        let before = self.state.balance(input, address);
        if input == weth && self.state.native_of(router) >= moved.input_taken {
            self.pay(router, weth, moved.input_taken)?;
            self.wrap(weth, router, moved.input_taken);
            self.transfer(input, router, address, moved.input_taken)?;
        } else if payer == router {
            self.transfer(input, router, address, moved.input_taken)?;
        } else {
            self.transfer_from(input, router, payer, address, moved.input_taken)?;
        }
        if self.state.balance(input, address) < before + moved.input_taken {
            return Err(revert_reason("IIA"));
        }
        if let Some(pool) = self.state.pools3.get_mut(&address) {
            pool.range.price = kept_price(&moved, pool.range.low, pool.range.high);
        }
        let (taken, paid) = (I256::from_raw(moved.input_taken), -I256::from_raw(moved.out));
        let (amount0, amount1) = if zero_for_one { (taken, paid) } else { (paid, taken) };
        self.emit(
            address,
            &abi::Pool3::Swap {
                sender: router,
                recipient,
                amount0,
                amount1,
                sqrtPriceX96: U160::from(moved.after),
                liquidity: pool.range.liquidity,
                tick: I24::ZERO,
            },
        );
        Ok(moved.out)
    }

    pub(super) fn universal(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let data = &message.data[..];
        let abi::Universal::executeCall { commands, inputs, deadline } = arguments(data)?;
        if U256::from(self.env.time) > deadline {
            return Err(revert_error(&abi::Universal::TransactionDeadlinePassed {}));
        }
        if commands.len() != inputs.len() {
            return Err(Bytes::new());
        }
        for (command, input) in commands.iter().zip(&inputs) {
            let may_fail = command & 0x80 != 0;
            let before = may_fail.then(|| (self.state.clone(), self.logs.len()));
            let done = self.command(message, command & 0x7f, input);
            if let (Err(_), Some((state, logs))) = (&done, before) {
                *self.state = state;
                self.logs.truncate(logs);
                continue;
            }
            done?;
        }
        Ok(Bytes::new())
    }

    fn command(&mut self, message: &Message, command: u8, input: &Bytes) -> Result<(), Reverted> {
        let (router, from) = (message.to, message.from);
        match command {
            0x0a => {
                let decoded = <(abi::Single, Bytes)>::abi_decode_params_validate(input);
                let (single, signature) = decoded.map_err(|_invalid| Bytes::new())?;
                self.permit(from, &single, &signature)
            }
            0x10 => {
                let decoded = <(Bytes, Vec<Bytes>)>::abi_decode_params_validate(input);
                let (actions, params) = decoded.map_err(|_invalid| Bytes::new())?;
                self.swap_plan(router, from, &actions, &params)
            }
            0x04 => {
                let decoded = <(Address, Address, U256)>::abi_decode_params_validate(input);
                let (token, to, least) = decoded.map_err(|_invalid| Bytes::new())?;
                let held = self.state.balance(token, router);
                if held < least {
                    return Err(Bytes::new());
                }
                let to = recipient(to, from, router);
                if token.is_zero() {
                    self.pay(router, to, held)
                } else {
                    self.transfer(token, router, to, held)
                }
            }
            other => Err(revert_error(&abi::Universal::InvalidCommandType {
                commandType: U256::from(other),
            })),
        }
    }

    fn swap_plan(
        &mut self,
        router: Address,
        from: Address,
        actions: &[u8],
        params: &[Bytes],
    ) -> Result<(), Reverted> {
        let mut deltas = Deltas::new();
        for (action, params) in actions.iter().zip(params) {
            match action {
                0x06 => {
                    let swap = abi::Swap4::abi_decode_validate(params);
                    let swap = swap.map_err(|_invalid| Bytes::new())?;
                    self.swap4(router, &swap, &mut deltas)?;
                }
                0x0c => self.settle_all(router, from, params, &mut deltas)?,
                0x0f => self.take_all(from, params, &mut deltas)?,
                _other => return Err(Bytes::new()),
            }
        }
        let open = deltas.iter().any(|(_currency, owed, due)| owed != due);
        if open { Err(revert_error(&abi::Manager4::CurrencyNotSettled {})) } else { Ok(()) }
    }

    fn swap4(
        &mut self,
        router: Address,
        swap: &abi::Swap4,
        deltas: &mut Deltas,
    ) -> Result<(), Reverted> {
        let id = id4(&swap.key);
        let not_initialized = || revert_error(&abi::Quoter4::PoolNotInitialized {});
        let pool = *self.state.v4_pools.get(&id).ok_or_else(not_initialized)?;
        self.gas += SWAP_GAS;
        let amount = U256::from(swap.amountIn);
        let moved = pool.range.sell(swap.zeroForOne, amount);
        let out = after_hook(&pool, moved.out);
        let least = U256::from(swap.amountOutMinimum);
        if out < least {
            return Err(revert_error(&abi::Universal::V4TooLittleReceived {
                minimum: least,
                received: out,
            }));
        }
        let scale = U256::from(10).pow(U256::from(36));
        let price = out.saturating_mul(scale) / amount.max(U256::ONE);
        if price < swap.minHopPriceX36 {
            return Err(revert_error(&abi::Universal::V4TooLittleReceivedPerHop {
                hop: U256::ZERO,
                minPrice: swap.minHopPriceX36,
                price,
            }));
        }
        if let Some(pool) = self.state.v4_pools.get_mut(&id) {
            pool.range.price = kept_price(&moved, pool.range.low, pool.range.high);
        }
        let (input, output) = if swap.zeroForOne {
            (pool.currency0, pool.currency1)
        } else {
            (pool.currency1, pool.currency0)
        };
        owe(deltas, input, moved.input_taken);
        credit(deltas, output, out);
        self.emit_v4_swap(router, id, &pool, swap.zeroForOne, &moved);
        Ok(())
    }

    fn emit_v4_swap(
        &mut self,
        router: Address,
        id: B256,
        pool: &V4Pool,
        zero_for_one: bool,
        moved: &SwapResult,
    ) {
        let signed = |value: U256| i128::try_from(value).unwrap_or(i128::MAX);
        let (taken, paid) = (-signed(moved.input_taken), signed(moved.out));
        let (amount0, amount1) = if zero_for_one { (taken, paid) } else { (paid, taken) };
        self.emit(
            self.env.contracts.exchange.v4.pool_manager,
            &abi::Manager4::Swap {
                id,
                sender: router,
                amount0,
                amount1,
                sqrtPriceX96: U160::from(moved.after),
                liquidity: pool.range.liquidity,
                tick: I24::ZERO,
                fee: U24::from(pool.range.fee),
            },
        );
    }

    fn settle_all(
        &mut self,
        router: Address,
        from: Address,
        params: &[u8],
        deltas: &mut Deltas,
    ) -> Result<(), Reverted> {
        let decoded = CurrencyAmount::abi_decode_params_validate(params);
        let (currency, most) = decoded.map_err(|_invalid| Bytes::new())?;
        let owed = delta(deltas, currency).0;
        if owed > most {
            return Err(revert_error(&abi::Universal::V4TooMuchRequested {
                maximum: most,
                requested: owed,
            }));
        }
        let manager = self.env.contracts.exchange.v4.pool_manager;
        let before = self.state.balance(currency, manager);
        if currency.is_zero() {
            self.pay(router, manager, owed)?;
        } else {
            self.permit2_take(router, from, manager, currency, owed)?;
        }
        let arrived = self.state.balance(currency, manager) - before;
        if let Some((_currency, owed, _due)) = deltas.iter_mut().find(|one| one.0 == currency) {
            *owed -= arrived;
        }
        Ok(())
    }

    fn take_all(
        &mut self,
        from: Address,
        params: &[u8],
        deltas: &mut Deltas,
    ) -> Result<(), Reverted> {
        let decoded = CurrencyAmount::abi_decode_params_validate(params);
        let (currency, least) = decoded.map_err(|_invalid| Bytes::new())?;
        let due = delta(deltas, currency).1;
        if due < least {
            return Err(revert_error(&abi::Universal::V4TooLittleReceived {
                minimum: least,
                received: due,
            }));
        }
        let manager = self.env.contracts.exchange.v4.pool_manager;
        if currency.is_zero() {
            self.pay(manager, from, due)?;
        } else {
            self.transfer(currency, manager, from, due)?;
        }
        if let Some((_currency, _owed, due)) = deltas.iter_mut().find(|one| one.0 == currency) {
            *due = U256::ZERO;
        }
        Ok(())
    }
}

/// Returns the output that remains after the hook has taken its part.
pub(super) fn after_hook(pool: &V4Pool, out: U256) -> U256 {
    out - out * U256::from(pool.hook_takes) / U256::from(10_000)
}

/// Returns the price to keep. A drained pool stays at its bound, so that a later swap in the other direction works.
fn kept_price(moved: &SwapResult, low: U256, high: U256) -> U256 {
    let inside = moved.after > SQRT_MIN + U256::ONE && moved.after < SQRT_MAX - U256::ONE;
    if inside { moved.after } else { moved.after.clamp(low + U256::ONE, high - U256::ONE) }
}

fn delta(deltas: &Deltas, currency: Address) -> (U256, U256) {
    let found = deltas.iter().find(|one| one.0 == currency);
    found.map_or((U256::ZERO, U256::ZERO), |one| (one.1, one.2))
}

fn owe(deltas: &mut Deltas, currency: Address, amount: U256) {
    deltas.push((currency, amount, U256::ZERO));
}

fn credit(deltas: &mut Deltas, currency: Address, amount: U256) {
    deltas.push((currency, U256::ZERO, amount));
}

/// Resolves the special recipients that mean the caller and the router.
fn recipient(named: Address, caller: Address, router: Address) -> Address {
    if named == Address::with_last_byte(1) {
        caller
    } else if named == Address::with_last_byte(2) {
        router
    } else {
        named
    }
}

fn too_little(out: U256, least: U256) -> Result<Bytes, Reverted> {
    if out < least {
        return Err(revert_reason("Too little received"));
    }
    Ok(Bytes::copy_from_slice(&out.to_be_bytes::<32>()))
}

/// Decodes a packed path: token, fee, token and so on.
pub(super) fn hops(path: &[u8]) -> Option<Vec<(Address, Address, u32)>> {
    let (first, mut rest) = path.split_first_chunk::<20>()?;
    let mut from = Address::from(*first);
    let mut hops = Vec::new();
    while let Some((fee, after)) = rest.split_first_chunk::<3>() {
        let (token, after) = after.split_first_chunk::<20>()?;
        let fee = u32::from_be_bytes([0, fee[0], fee[1], fee[2]]);
        let to = Address::from(*token);
        hops.push((from, to, fee));
        (from, rest) = (to, after);
    }
    (rest.is_empty() && !hops.is_empty()).then_some(hops)
}
