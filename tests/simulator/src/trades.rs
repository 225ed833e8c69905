//! The trades that agents request.

use alloy_primitives::{Address, U256};
use bursar_auditor::observations::{Call, NATIVE, Pool, Route, Trade, TradeAsk};
use bursar_chain::ports::Clock;
use bursar_core::networks::ChainId;
use bursar_core::policy::TradingPolicy;
use bursar_devnet::agent::Agent;
use serde_json::{Value, json};

use crate::calls::{mark_wrong, proof};
use crate::evm::notes::{atoms, text};
use crate::evm::{Contracts, PoolName, pools};
use crate::plan::{CardChoice, Pick, PlannedTrade, PoolChoice, RepeatVariant, Step, TradeSize};
use crate::wire;
use crate::world::{World, WorldFailure};

const DOLLAR: u64 = 1_000_000;

/// One `/trade` request, kept so that it can be repeated.
#[derive(Debug, Clone)]
pub(crate) struct SentTrade {
    agent: usize,
    ask: TradeAsk,
    body: Value,
}

/// The tokens and the pool of a trade, as its agent names them.
struct NamedTrade {
    token_in: Address,
    token_out: Address,
    route: Route,
    fields: Value,
}

impl World {
    pub(crate) fn trade(&mut self, planned: &PlannedTrade) -> Result<(), WorldFailure> {
        match self.build_trade(planned) {
            Some(sent) => self.send_trade(sent),
            None => Ok(()),
        }
    }

    pub(crate) fn send_trade(&mut self, sent: SentTrade) -> Result<(), WorldFailure> {
        self.sent_trades.push(sent.clone());
        self.call_trade(sent)
    }

    fn call_trade(&mut self, sent: SentTrade) -> Result<(), WorldFailure> {
        let call = Call::Trade(Box::new(sent.ask));
        self.call(call, "POST", "/trade", Some(&sent.body), wire::trade_answer)
    }

    pub(crate) fn send_trade_copies(
        &mut self,
        planned: &PlannedTrade,
        count: u8,
    ) -> Result<(), WorldFailure> {
        let Some(sent) = self.build_trade(planned) else { return Ok(()) };
        self.concurrency.keeps_in_flight = true;
        for _copy in 0..count {
            self.send_trade(sent.clone())?;
        }
        self.concurrency.keeps_in_flight = false;
        self.settle()
    }

    pub(crate) fn send_trade_crowd(
        &mut self,
        planned: &PlannedTrade,
        count: u8,
    ) -> Result<(), WorldFailure> {
        self.concurrency.keeps_in_flight = true;
        for one in 0..count {
            // The sizes differ, so that no two trades are the same request.
            let size = match planned.size {
                TradeSize::Micros(micros) => TradeSize::Micros(micros + u64::from(one)),
                other => other,
            };
            self.trade(&PlannedTrade { size, ..*planned })?;
        }
        self.concurrency.keeps_in_flight = false;
        self.settle()
    }

    /// Approves a trade after the price of its pool has moved.
    pub(crate) fn run_moved_trade(
        &mut self,
        planned: &PlannedTrade,
        permille: u64,
    ) -> Result<(), WorldFailure> {
        let known = self.trade_ids.len();
        self.trade(planned)?;
        if self.trade_ids.len() == known {
            return Ok(());
        }
        if let PoolChoice::Named(pool) = planned.pool {
            self.move_listed_pool(planned.chain, pool, planned.flip, permille);
        }
        self.operate(Step::List)?;
        self.operate(Step::Approve { pick: Pick(1), card: CardChoice::Now })?;
        self.mine(4)
    }

    /// Makes a trade whose swap loses its nonce to another transaction, and then a trade for the volume that is left.
    pub(crate) fn run_displaced_trade(
        &mut self,
        planned: &PlannedTrade,
    ) -> Result<(), WorldFailure> {
        self.trade(planned)?;
        self.market_step(Step::ReplaceNonce { chain: planned.chain })?;
        self.mine(2)?;
        self.pass(62_000)?;
        self.mine(3)?;
        let size = TradeSize::Left(0);
        self.trade(&PlannedTrade { size, key: None, ..*planned })?;
        self.mine(4)?;
        let size = TradeSize::Micros(DOLLAR);
        self.trade(&PlannedTrade { size, key: None, ..*planned })?;
        self.mine(4)
    }

    /// Makes trades that pay for gas, one after another.
    pub(crate) fn run_gas_burners(
        &mut self,
        planned: &PlannedTrade,
        count: u8,
        late: bool,
    ) -> Result<(), WorldFailure> {
        for one in 0..count {
            let agent = planned.agent.of(self.agents.len());
            let (policy, left, _owner) = agent.map(|at| self.trading_of(at)).unwrap_or_default();
            let (size, deadline_s) = match late {
                // The sizes differ, so that no two trades are the same request.
                true => (TradeSize::Micros(DOLLAR + u64::from(one)), Some(1)),
                false if left < policy.auto_below.0 => (TradeSize::Left(0), None),
                false => (TradeSize::Threshold(-1), None),
            };
            self.trade(&PlannedTrade { size, deadline_s, key: None, ..*planned })?;
            if late {
                self.pass(5_000)?;
            }
            self.mine(6)?;
            if let Some(id) = self.trade_ids.last().cloned() {
                self.poll_trade(&id)?;
            }
        }
        Ok(())
    }

    /// Makes a trade that is frozen after its first step was sent, and then thawed.
    pub(crate) fn run_frozen_trade(&mut self, planned: &PlannedTrade) -> Result<(), WorldFailure> {
        self.trade(planned)?;
        self.operate(Step::Freeze)?;
        if self.dice.chance(1, 2) {
            self.mine(2)?;
        }
        self.order_thaw(true)?;
        self.mine(5)
    }

    pub(crate) fn poll_trade(&mut self, id: &str) -> Result<(), WorldFailure> {
        let call = Call::PollTrade { id: id.to_owned() };
        self.call(call, "GET", &format!("/trade/status/{id}"), None, wire::trade_answer)
    }

    pub(crate) fn repeat_trade(
        &mut self,
        pick: Pick,
        variant: RepeatVariant,
    ) -> Result<(), WorldFailure> {
        let Some(which) = pick.of(self.sent_trades.len()) else { return Ok(()) };
        let mut sent = self.sent_trades[which].clone();
        let client = self.agents[sent.agent].clone();
        let now = self.clock.now().utc.seconds();
        match variant {
            RepeatVariant::None | RepeatVariant::OtherUrl(_) if client.uses_bearer => {
                sign_again(&mut sent, now, &client);
            }
            RepeatVariant::None | RepeatVariant::OtherUrl(_) => {}
            RepeatVariant::SignedAgain => sign_again(&mut sent, now, &client),
            RepeatVariant::OtherKey(key) => {
                sent.body["idempotency_key"] = json!(format!("key-{key}"));
                sent.ask.idempotency_key = Some(format!("key-{key}"));
                if client.uses_bearer {
                    sign_again(&mut sent, now, &client);
                }
            }
            RepeatVariant::Stale => {
                let off = self.dice.one_of(&[-301, -300, 300, 301, -90_000]);
                sign_again(&mut sent, now + off, &client);
            }
            RepeatVariant::WrongProof => {
                let wrong = Agent { token: format!("AT_{}", "5".repeat(64)), ..client };
                sign_again(&mut sent, now, &wrong);
                mark_wrong(&mut sent.ask.proof);
                return self.call_trade(sent);
            }
            RepeatVariant::UnknownAgent => {
                sent.body["agent_id"] = json!("ZZZ999");
                sent.ask.agent = "ZZZ999".to_owned();
                sign_again(&mut sent, now, &client);
                mark_wrong(&mut sent.ask.proof);
                return self.call_trade(sent);
            }
        }
        self.send_trade(sent)
    }

    /// Builds a request that no agent has sent before; `None` without agents.
    pub(crate) fn build_trade(&mut self, planned: &PlannedTrade) -> Option<SentTrade> {
        let agent = planned.agent.of(self.agents.len())?;
        let chain = self.chains.get(planned.chain)?.id();
        let contracts = Contracts::of(ChainId(chain));
        let token_in = name_trade(&contracts, planned).token_in;
        let amount = self.trade_atoms(agent, planned, &contracts, token_in)?;
        let (fields, trade) = self.trade_fields(planned, amount)?;
        let client = &self.agents[agent];
        let at = self.clock.now().utc.seconds();
        let mut body = client.trade(at, &fields);
        let key = planned.key.map(|key| format!("key-{key}"));
        if let Some(key) = &key {
            body["idempotency_key"] = json!(key);
        }
        let signature = body["signature"].as_str().expect("a text").to_owned();
        let ask = TradeAsk {
            agent: client.id.clone(),
            proof: proof(client, at, signature, true),
            content: fields.to_string(),
            idempotency_key: key,
            trade,
        };
        Some(SentTrade { agent, ask, body })
    }

    /// Returns the `trade` object of a trade with this input, as JSON and in the auditor's type; `None` if the input is
    /// zero.
    pub(crate) fn trade_fields(
        &self,
        planned: &PlannedTrade,
        amount: U256,
    ) -> Option<(Value, Trade)> {
        if amount.is_zero() {
            return None;
        }
        let chain = self.chains.get(planned.chain)?.id();
        let named = name_trade(&Contracts::of(ChainId(chain)), planned);
        let decimals = self.decimals(planned.chain, named.token_in);
        let mut fields = named.fields;
        fields["chain_id"] = json!(chain);
        fields["token_in"] = json!(name_of(named.token_in));
        fields["token_out"] = json!(name_of(named.token_out));
        fields["amount_in"] = json!(decimal(amount, decimals));
        let time = self.chains[planned.chain].with_ledger(|ledger| ledger.time)?;
        let deadline = planned.deadline_s.map(|off| time.saturating_add_signed(off));
        if let Some(deadline) = deadline {
            fields["deadline"] = json!(deadline);
        }
        if let Some(bps) = planned.slippage_bps {
            fields["max_slippage_bps"] = json!(bps);
        }
        let trade = Trade {
            chain,
            token_in: token_text(named.token_in),
            token_out: token_text(named.token_out),
            amount_in: atoms(amount),
            pool: named.route,
            max_slippage_bps: planned.slippage_bps.map(u32::from),
            deadline_s: deadline,
        };
        Some((fields, trade))
    }

    /// Returns the input of a trade that is worth this many micro-dollars.
    pub(crate) fn input_worth(&self, planned: &PlannedTrade, micros: u64) -> Option<U256> {
        let contracts = Contracts::of(ChainId(self.chains.get(planned.chain)?.id()));
        let token = name_trade(&contracts, planned).token_in;
        Some(self.atoms_of(planned.chain, &contracts, token, micros))
    }

    fn decimals(&self, chain: usize, token: Address) -> u8 {
        let decimals = self.chains.get(chain).and_then(|chain| {
            chain.with_ledger(|ledger| ledger.state.tokens.get(&token).map(|token| token.decimals))
        });
        decimals.flatten().unwrap_or(18)
    }

    /// Returns the amount of a trade in the smallest units of its input.
    fn trade_atoms(
        &mut self,
        agent: usize,
        planned: &PlannedTrade,
        contracts: &Contracts,
        token: Address,
    ) -> Option<U256> {
        let (policy, left, owner) = self.trading_of(agent);
        let off = |base: u64, by: i64| base.saturating_add_signed(by);
        let held = owner.and_then(|owner| {
            self.chains[planned.chain].with_ledger(|ledger| ledger.state.balance(token, owner))
        });
        let micros = match planned.size {
            TradeSize::Micros(micros) => micros,
            TradeSize::Threshold(by) => off(policy.auto_below.0, by),
            TradeSize::Largest(by) => off(policy.per_trade.0, by),
            TradeSize::Left(by) => off(left.min(policy.per_trade.0), by),
            TradeSize::Balance(by) => {
                let part = self.atoms_of(planned.chain, contracts, token, by.unsigned_abs());
                let held = held?;
                return Some(if by < 0 { held + part } else { held.saturating_sub(part) });
            }
            TradeSize::AboveFloor(gwei) if token.is_zero() => {
                let kept = policy.min_native.0 + u128::from(gwei) * 1_000_000_000;
                return Some(held?.saturating_sub(U256::from(kept)));
            }
            TradeSize::AboveFloor(_gwei) => 20 * DOLLAR,
        };
        Some(self.atoms_of(planned.chain, contracts, token, micros))
    }

    fn atoms_of(&self, chain: usize, contracts: &Contracts, token: Address, micros: u64) -> U256 {
        let native = token.is_zero() || token == contracts.weth();
        let price = if native {
            self.prices.micros()
        } else if contracts.network.is_dollar(token) {
            DOLLAR
        } else {
            2 * DOLLAR
        };
        let unit = U256::from(10).pow(U256::from(self.decimals(chain, token)));
        unit * U256::from(micros) / U256::from(price.max(1))
    }

    /// Returns the trading policy of an agent, its remaining daily volume, and its paying address.
    fn trading_of(&mut self, agent: usize) -> (TradingPolicy, u64, Option<Address>) {
        let id = self.agents[agent].id.clone();
        let moment = self.clock.now();
        let state = self.process().core().state();
        let known = state.agents.values().find(|known| known.id.as_str() == id);
        let policy = known.and_then(|known| state.policy_of(known));
        let policy = policy.map(|policy| policy.trading.clone()).unwrap_or_default();
        let left = known.map_or(0, |known| {
            let spent = state.spent(known, &moment).trade;
            policy.daily.left_after(spent).left_after(known.reserved.trade).0
        });
        let label = known.and_then(|known| known.commission.as_ref()).map(|given| &given.label);
        let owner = label.and_then(|label| state.wallet.as_ref()?.address(label));
        (policy, left, owner.map(|known| known.address))
    }
}

fn sign_again(sent: &mut SentTrade, at: i64, agent: &Agent) {
    let mut fields = sent.body.as_object().expect("an object").clone();
    for name in ["agent_id", "signature", "idempotency_key"] {
        fields.remove(name);
    }
    let signature = agent.sign(at, &fields);
    sent.body["signature"] = json!(signature);
    sent.ask.proof = proof(agent, at, signature, true);
}

fn token_text(token: Address) -> String {
    if token.is_zero() { NATIVE.to_owned() } else { text(token) }
}

fn name_of(token: Address) -> String {
    if token.is_zero() { "ETH".to_owned() } else { text(token) }
}

/// Formats an amount in whole coins.
fn decimal(atoms: U256, decimals: u8) -> String {
    let digits = atoms.to_string();
    let places = usize::from(decimals);
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = padded.split_at(padded.len() - places);
    if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") }
}

fn name_trade(contracts: &Contracts, planned: &PlannedTrade) -> NamedTrade {
    let all = pools(contracts);
    let sides = |pool: &PoolName| {
        let native = |token: Address| {
            let swaps = planned.native && pool.v4.is_none() && token == contracts.weth();
            if swaps { Address::ZERO } else { token }
        };
        let (a, b) = (native(pool.a), native(pool.b));
        if planned.flip { (b, a) } else { (a, b) }
    };
    match planned.pool {
        PoolChoice::Wrap => {
            let (a, b) = (Address::ZERO, contracts.weth());
            let (token_in, token_out) = if planned.flip { (b, a) } else { (a, b) };
            let route = Route::Pool(Pool::V3 { fee: 3_000 });
            NamedTrade { token_in, token_out, route, fields: json!({}) }
        }
        PoolChoice::Best(at) => {
            let (token_in, token_out) = sides(&all[at % all.len()]);
            NamedTrade { token_in, token_out, route: Route::Best, fields: json!({"route": "best"}) }
        }
        PoolChoice::Missing => {
            let (token_in, token_out) = sides(&all[2]);
            let route = Route::Pool(Pool::V3 { fee: 100 });
            NamedTrade { token_in, token_out, route, fields: json!({"fee_tier": 100}) }
        }
        PoolChoice::Named(at) => {
            let pool = &all[at % all.len()];
            let (token_in, token_out) = sides(pool);
            let (route, fields) = match pool.v4 {
                None => (Pool::V3 { fee: pool.fee }, json!({"fee_tier": pool.fee})),
                Some((spacing, hooks)) => (
                    Pool::V4 { fee: pool.fee, tick_spacing: spacing, hooks: text(hooks) },
                    json!({
                        "dex_version": "v4",
                        "fee_tier": pool.fee,
                        "tick_spacing": spacing,
                        "hooks": text(hooks),
                    }),
                ),
            };
            NamedTrade { token_in, token_out, route: Route::Pool(route), fields }
        }
    }
}
