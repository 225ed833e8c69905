//! Drives the auditor through trades.
#![allow(dead_code, unreachable_pub, clippy::panic, clippy::unwrap_used)]

use super::encode;
use super::{AuditorDriver, BASE, COIN, MAIN, NOON, approve as approval, policy, refuses};
use bursar_auditor::observations::*;
use bursar_auditor::{ExchangeFact, Violation};

pub const WETH: &str = "0xe000000000000000000000000000000000000001";
pub const V3_ROUTER: &str = "0xd000000000000000000000000000000000000003";
pub const V4_ROUTER: &str = "0xd000000000000000000000000000000000000004";
pub const PERMIT2: &str = "0xd000000000000000000000000000000000000002";
pub const HOOK: &str = "0xf000000000000000000000000000000000000080";
/// A token without a price.
pub const SHARE: &str = "0xaa00000000000000000000000000000000000001";
/// One dollar in units of the stablecoin.
pub const DOLLAR: u128 = 1_000_000;
/// One native coin in wei.
pub const COIN_WEI: u128 = 1_000_000_000_000_000_000;
pub const DEADLINE_S: u64 = 120;

pub fn exchange() -> ExchangeFact {
    ExchangeFact {
        v3_router: V3_ROUTER.into(),
        universal_router: V4_ROUTER.into(),
        permit2: PERMIT2.into(),
        wrapped: WETH.into(),
        dollars: vec![(COIN.into(), 6)],
        confirmations: 3,
        deadline_s: DEADLINE_S,
        feed_max_age_s: Some(3600),
    }
}

/// A policy with these limits: daily volume 300, one trade 200, automatic below 100 dollars, slippage 3 %, impact 5 %.
pub fn limits() -> TradingPolicy {
    TradingPolicy {
        enabled: true,
        daily: 300_000_000,
        per_trade: 200_000_000,
        auto_below: 100_000_000,
        min_native: COIN_WEI / 10_000,
        max_slippage_bps: 300,
        max_impact_bps: 500,
        tokens: vec![],
        hooks: vec![],
    }
}

pub fn v3() -> Pool {
    Pool::V3 { fee: 500 }
}

pub fn v4(hooks: &str) -> Pool {
    Pool::V4 { fee: 500, tick_spacing: 10, hooks: hooks.into() }
}

/// Returns a trade that sells dollars for wrapped coins, at a slippage of 0.5 %.
pub fn buy(dollars: u128) -> Trade {
    Trade {
        chain: BASE,
        token_in: COIN.into(),
        token_out: WETH.into(),
        amount_in: dollars * DOLLAR,
        pool: Route::Pool(v3()),
        max_slippage_bps: Some(50),
        deadline_s: None,
    }
}

/// Returns a trade that sells this many wei of wrapped coins for dollars.
pub fn sell(wei: u128) -> Trade {
    Trade { token_in: WETH.into(), token_out: COIN.into(), amount_in: wei, ..buy(1) }
}

/// Returns the output of a trade of dollars at 2,500 dollars for a coin and a fee of 0.05 %.
pub fn fair_output(dollars: u128) -> u128 {
    dollars * COIN_WEI / 2500 / 10_000 * 9_995
}

pub fn floor_of(out: u128, bps: u128) -> u128 {
    out * (10_000 - bps) / 10_000
}

/// An auditor that has seen a wallet with a trading policy.
pub struct Trader {
    pub driver: AuditorDriver,
    pub block: u64,
    pub nonce: u64,
    /// Whether the auditor observes large balances of the paying address before each quote.
    pub has_large_balances: bool,
    /// The outcome of rehearsals in the market.
    pub rehearsal: Rehearsal,
    signatures: u32,
}

impl Trader {
    pub fn new(trading: TradingPolicy) -> Self {
        let p = Policy { trading, ..policy(100, 50, 20) };
        let mut trader = Self {
            driver: AuditorDriver::with_exchange(p, Some(exchange())),
            block: 1000,
            nonce: 0,
            has_large_balances: true,
            rehearsal: Rehearsal::Proved,
            signatures: 0,
        };
        trader.head();
        trader
    }

    pub fn accepts(&mut self, observation: Observation) {
        self.driver.accepts(observation);
    }

    pub fn rejects(&mut self, rule: &str, observation: Observation) -> Violation {
        let found = self.driver.rejects(observation);
        assert_eq!(found.rule, rule, "{found}");
        found
    }

    /// Returns the chain's time in Unix seconds.
    pub fn time_s(&self) -> u64 {
        self.driver.second()
    }

    pub fn head(&mut self) {
        let head = Head { chain: BASE, block: self.block, time_s: self.time_s() };
        self.accepts(Observation::Head(head));
    }

    pub fn blocks(&mut self, more: u64) {
        self.block += more;
        self.head();
    }

    pub fn ask(&mut self, trade: &Trade) -> TradeAsk {
        self.signatures += 1;
        let timestamp_s = self.driver.clocks.wall_ms / 1000;
        let signature = format!("SIG:{timestamp_s}:trade{}", self.signatures);
        TradeAsk {
            agent: "HHH111".into(),
            proof: Proof::Hmac { timestamp_s, signature, is_valid: true },
            content: format!("{trade:?}"),
            idempotency_key: None,
            trade: trade.clone(),
        }
    }

    pub fn open_call(&mut self, ask: &TradeAsk) -> Ticket {
        self.driver.open_call(Call::Trade(Box::new(ask.clone())))
    }

    /// Shows one reading of the price from each source, in whole dollars.
    pub fn price(&mut self, api: u64, feed: u64) {
        let updated_s = self.time_s();
        let price = PriceRead::Api { micros: Some(api * 1_000_000) };
        self.accepts(Observation::PriceRead(price));
        let micros = Some(feed * 1_000_000);
        self.accepts(Observation::PriceRead(PriceRead::Feed { chain: BASE, micros, updated_s }));
    }

    pub fn balance(&mut self, token: &str, amount: u128) {
        let (owner, block) = (MAIN.into(), self.block);
        let (chain, token, amount) = (BASE, token.into(), Some(amount));
        self.accepts(Observation::Read(Read::Balance { chain, block, owner, token, amount }));
    }

    /// Returns a quote without impact, with a fee of 0.05 %.
    pub fn quote(&self, trade: &Trade, out: u128) -> Quoted {
        let pool = match &trade.pool {
            Route::Pool(pool) => pool.clone(),
            Route::Best => v3(),
        };
        Quoted {
            chain: BASE,
            block: self.block,
            block_s: self.time_s(),
            token_in: trade.token_in.clone(),
            amount_in: trade.amount_in,
            hops: vec![Hop { pool, token_out: trade.token_out.clone() }],
            amount_out: Some(out),
            slot0_ideal: Some(out / 9_995 * 10_000 + 10_000),
            dust_ideal: Some(out),
            fee_ppm: Some(500),
        }
    }

    pub fn show_rehearsal(&mut self, trade: &Trade, outcome: Rehearsal) {
        let (token_in, token_out) = (trade.token_in.clone(), trade.token_out.clone());
        let (chain, from, amount_in) = (BASE, MAIN.into(), trade.amount_in);
        let rehearsed = Rehearsed { chain, from, token_in, token_out, amount_in, outcome };
        self.accepts(Observation::Rehearsed(rehearsed));
    }

    /// Shows a market that passes every check, with this quote.
    pub fn market(&mut self, trade: &Trade, quoted: Quoted) {
        self.price(2500, 2500);
        self.unpriced_market(trade, quoted);
    }

    /// Like [`Self::market`], without a reading of the price.
    pub fn unpriced_market(&mut self, trade: &Trade, quoted: Quoted) {
        self.facts(trade);
        self.accepts(Observation::Quoted(Box::new(quoted)));
        self.show_rehearsal(trade, self.rehearsal);
    }

    fn facts(&mut self, trade: &Trade) {
        if self.has_large_balances {
            for token in [NATIVE, COIN, WETH, trade.token_in.as_str()] {
                self.balance(token, 1_000_000 * COIN_WEI);
            }
        }
        self.accepts(Observation::Read(Read::GasCost { chain: BASE, worst: 1_000 }));
    }

    /// Makes a call and shows a good market. The call stays open.
    pub fn opens(&mut self, trade: &Trade, out: u128) -> Ticket {
        let ask = self.ask(trade);
        let ticket = self.open_call(&ask);
        let quoted = self.quote(trade, out);
        self.market(trade, quoted);
        ticket
    }

    pub fn answers(&mut self, ticket: Ticket, id: &str, state: TradeState) {
        self.accepts(answered_observation(ticket, id, state));
    }

    /// Plays a call that is held.
    pub fn holds(&mut self, trade: &Trade, out: u128, id: &str) {
        let ticket = self.opens(trade, out);
        self.answers(ticket, id, TradeState::Pending);
    }

    /// Plays a call that is executed without an approval, up to the answer.
    pub fn starts(&mut self, trade: &Trade, out: u128, id: &str) {
        let ticket = self.opens(trade, out);
        self.answers(ticket, id, TradeState::Executing);
    }

    /// Plays an approval, with a fresh quote if `out` is given.
    pub fn approves(&mut self, trade: &Trade, id: &str, out: Option<u128>) {
        let ticket = self.driver.open_order(approval(id));
        if let Some(out) = out {
            let quoted = self.quote(trade, out);
            self.market(trade, quoted);
        }
        let end = End::Decided { status: "executing".into() };
        self.accepts(Observation::OrderEnded { ticket, end });
    }

    pub fn order(&mut self, order: Order) {
        self.driver.order(order, End::Done);
    }

    pub fn refuses(&mut self, order: Order, code: &str) {
        self.driver.order(order, refuses(code));
    }

    pub fn tx(&mut self, to: &str, value: u128, data: String) -> Transaction {
        self.nonce += 1;
        let hash = format!("0xhash{}", self.nonce);
        Transaction {
            chain: BASE,
            from: MAIN.into(),
            nonce: self.nonce,
            to: to.into(),
            value,
            data,
            hash,
        }
    }

    pub fn approve_tx(&mut self, token: &str, spender: &str, amount: u128) -> Transaction {
        self.tx(token, 0, encode::approve(spender, amount))
    }

    pub fn swap_tx(&mut self, trade: &Trade, least: u128) -> Transaction {
        let deadline_s = self.time_s() + DEADLINE_S;
        self.tx(V3_ROUTER, 0, v3_call(trade, MAIN, trade.amount_in, least, deadline_s))
    }

    /// Plays the signature, the broadcast and the inclusion of a transaction.
    pub fn sends(&mut self, tx: &Transaction) {
        self.accepts(signs(tx));
        self.accepts(Observation::Broadcast(tx.clone()));
        self.includes(tx, true, vec![]);
    }

    pub fn includes(&mut self, tx: &Transaction, succeeded: bool, transfers: Vec<TransferLog>) {
        self.blocks(1);
        self.accepts(Observation::Included(Box::new(Included {
            chain: BASE,
            hash: tx.hash.clone(),
            block: self.block,
            block_s: self.time_s(),
            succeeded,
            transfers,
            unwrapped: vec![],
            native_received: 0,
            pool_out: None,
            gas_paid: 1_000,
        })));
    }

    /// Plays a whole automatic trade up to the final swap. Returns the swap.
    pub fn swaps(&mut self, trade: &Trade, out: u128, id: &str, arrives: u128) -> Transaction {
        self.starts(trade, out, id);
        self.executes(trade, out, arrives)
    }

    /// Plays the allowance and the swap of an authorized trade, with three confirmations.
    pub fn executes(&mut self, trade: &Trade, out: u128, arrives: u128) -> Transaction {
        let approve = self.approve_tx(&trade.token_in, V3_ROUTER, trade.amount_in);
        self.sends(&approve);
        let bps = u128::from(trade.max_slippage_bps.unwrap());
        let swap = self.swap_tx(trade, floor_of(out, bps));
        self.accepts(signs(&swap));
        self.accepts(Observation::Broadcast(swap.clone()));
        let log = transfer(&trade.token_out, V3_ROUTER, MAIN, arrives);
        self.includes(&swap, true, vec![log]);
        self.blocks(2);
        swap
    }

    pub fn poll(&mut self, id: &str) -> Ticket {
        self.driver.open_call(Call::PollTrade { id: id.into() })
    }

    pub fn polls(&mut self, id: &str, state: TradeState) {
        let ticket = self.poll(id);
        self.answers(ticket, id, state);
    }

    pub fn poll_rejects(&mut self, rule: &str, id: &str, state: TradeState) {
        let ticket = self.poll(id);
        self.rejects(rule, answered_observation(ticket, id, state));
    }
}

/// Returns the call data of a v3 swap with a deadline.
pub fn v3_call(trade: &Trade, to: &str, amount: u128, least: u128, deadline_s: u64) -> String {
    let tokens = (trade.token_in.as_str(), trade.token_out.as_str());
    encode::multicall(deadline_s, &[encode::exact_input_single(tokens, 500, to, amount, least)])
}

pub fn transfer(token: &str, from: &str, to: &str, amount: u128) -> TransferLog {
    TransferLog { token: token.into(), from: from.into(), to: to.into(), amount }
}

pub fn signs(tx: &Transaction) -> Observation {
    signs_for(tx, &format!("digest of {}", tx.hash))
}

pub fn signs_for(tx: &Transaction, digest: &str) -> Observation {
    let content = SignedContent::Transaction(Box::new(tx.clone()));
    let (signer, digest) = (tx.from.clone(), digest.into());
    Observation::Signed(Signed { signer, digest, request: None, content })
}

/// Signs a transaction for a request.
pub fn signs_request(tx: &Transaction, request: &str) -> Observation {
    let content = SignedContent::Transaction(Box::new(tx.clone()));
    let (signer, digest) = (tx.from.clone(), format!("digest of {}", tx.hash));
    Observation::Signed(Signed { signer, digest, request: Some(request.into()), content })
}

pub fn answered_observation(ticket: Ticket, id: &str, state: TradeState) -> Observation {
    let answer = Answer::Trade(TradeAnswer { id: Some(id.into()), state });
    Observation::Answered { ticket, answer }
}

pub fn executed_state(tx: &Transaction, amount_out: Option<u128>) -> TradeState {
    TradeState::Executed { tx_hash: tx.hash.clone(), amount_out, amount_out_quoted: None }
}

pub fn rejected_as(code: Option<&str>) -> TradeState {
    TradeState::Rejected { code: code.map(Into::into), reason_code: None }
}

pub fn refused_for(reason: &str) -> TradeState {
    TradeState::Rejected { code: None, reason_code: Some(reason.into()) }
}

pub const FAILED: TradeState = TradeState::Failed { code: None };

/// The time of the first clock reading.
pub const START: i64 = NOON;
