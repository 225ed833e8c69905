//! Every operation on both networks with an exchange: automatic, and approved with a restart in between. Each fill
//! equals the change of the balances to the unit, and no allowance remains.

use alloy_primitives::{Address, U256};
use bursar_core::networks::ChainId;
use bursar_devnet::full::{PoolV4, Side};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::trading::stage::{AUTOMATIC, DOLLAR, ETHER, ROBINHOOD, Stage, atoms};

/// One kind of trade.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// The sold token; the zero address stands for the native coin.
    pub(crate) sold: Address,
    pub(crate) bought: Address,
    /// The input in smallest units, and as text.
    pub(crate) units: u128,
    pub(crate) amount: &'static str,
    pub(crate) v4: bool,
}

/// The balances of both tokens before a trade.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BalancesBefore {
    sold: U256,
    bought: U256,
}

impl Operation {
    /// Returns every operation of a network: wrapping, and each direction of each kind of pool.
    pub(crate) fn all(stage: &Stage) -> Vec<Self> {
        let (dollar, weth, coin) = (stage.dollar(), stage.contracts.weth, Address::ZERO);
        let of = |sold, bought, v4| {
            let (units, amount) =
                if sold == dollar { (30 * DOLLAR, "30") } else { (ETHER / 100, "0.01") };
            Self { sold, bought, units, amount, v4 }
        };
        vec![
            of(coin, weth, false),
            of(weth, coin, false),
            of(dollar, weth, false),
            of(weth, dollar, false),
            of(coin, dollar, false),
            of(dollar, coin, false),
            of(coin, dollar, true),
            of(dollar, coin, true),
            of(weth, dollar, true),
            of(dollar, weth, true),
        ]
    }

    /// Returns the trade object of a request.
    pub(crate) fn request(&self, stage: &Stage) -> Value {
        let text = |token: Address| {
            if token == Address::ZERO { "ETH".to_owned() } else { token.to_string() }
        };
        let mut trade = json!({
            "chain_id": stage.id().0, "token_in": text(self.sold), "token_out": text(self.bought),
            "amount_in": self.amount, "fee_tier": 500, "max_slippage_bps": 100,
        });
        if self.v4 {
            trade["tick_spacing"] = json!(10);
            trade["hooks"] = json!(Address::ZERO);
        }
        trade
    }

    pub(crate) async fn before(&self, stage: &Stage) -> BalancesBefore {
        let (sold, bought) = (stage.balance(self.sold).await, stage.balance(self.bought).await);
        BalancesBefore { sold, bought }
    }

    /// Checks that the trade filled exactly what its answer reports, and left no allowance.
    pub(crate) async fn check(&self, stage: &Stage, before: BalancesBefore, answer: &Value) {
        let case = format!("{self:?}: {answer}");
        assert_eq!(answer["status"], "executed", "{case}");
        let gas = stage.gas_of(answer).await;
        let paid = |token: Address| if token == Address::ZERO { gas } else { U256::ZERO };
        let after = self.before(stage).await;
        assert_eq!(before.sold - after.sold, U256::from(self.units) + paid(self.sold), "{case}");
        let received = atoms(&answer["amount_out"]);
        assert_eq!(after.bought + paid(self.bought) - before.bought, received, "{case}");
        assert!(received >= atoms(&answer["quote"]["amount_out_min"]), "{case}");
        stage.assert_no_allowance().await;
    }
}

alloy_sol_types::sol! {
    interface IDeadlines {
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
        function multicall(uint256 deadline, bytes[] data) external payable;
    }
}

impl Stage {
    /// Adds a v4 pool of WETH and the dollar token, at the price of all pools.
    pub(crate) async fn add_weth_pool(&self) {
        let sides = [
            Side::new(self.contracts.weth, 1_000 * ETHER),
            Side::new(self.dollar(), 3_000_000 * DOLLAR),
        ];
        self.add_v4_pool(&PoolV4 { sides, ..self.pool_v4() }).await;
    }

    /// Checks that no contract of the exchange has an allowance for a token of the owner.
    pub(crate) async fn assert_no_allowance(&self) {
        let router = self.chain.network().exchange.expect("an exchange").v4.router;
        for token in [self.dollar(), self.contracts.weth] {
            for spender in [self.contracts.v3.router, self.contracts.permit2] {
                assert_eq!(self.allowance(token, spender).await, U256::ZERO, "{token} {spender}");
            }
            let (amount, _nonce) = self.permit2_allowance(token, router).await;
            assert_eq!(amount, U256::ZERO, "{token}");
        }
    }

    /// Checks that a swap's deadline is after the time of its block, by at most the network's limit.
    async fn check_deadline(&self, answer: &Value) {
        use alloy_sol_types::SolCall;
        let hash = &answer["tx_hash"];
        let sent = self.chain.request("eth_getTransactionByHash", json!([hash])).await;
        let sent = sent.expect("a transaction");
        let data: alloy_primitives::Bytes =
            serde_json::from_value(sent["input"].clone()).expect("bytes");
        let deadline = if let Ok(call) = IDeadlines::executeCall::abi_decode(&data) {
            call.deadline
        } else if let Ok(call) = IDeadlines::multicallCall::abi_decode(&data) {
            call.deadline
        } else {
            // Wrapping has no price, and no deadline.
            return;
        };
        let block = json!([sent["blockNumber"], false]);
        let block = self.chain.request("eth_getBlockByNumber", block).await.expect("a block");
        let time: U256 = serde_json::from_value(block["timestamp"].clone()).expect("a time");
        let seconds = if self.id() == ROBINHOOD { 60 } else { 120 };
        let end = time + U256::from(seconds);
        assert!(time < deadline && deadline <= end, "{time} {deadline} {answer}");
    }
}

async fn run_all(chain: ChainId) {
    let Some(mut stage) = Stage::on(chain, AUTOMATIC).await else { return };
    stage.add_weth_pool().await;
    for operation in Operation::all(&stage) {
        let before = operation.before(&stage).await;
        let (status, answer) = stage.trade(&operation.request(&stage)).await;
        assert_eq!(status, 200, "{operation:?}: {answer}");
        operation.check(&stage, before, &answer).await;
        stage.check_deadline(&answer).await;
    }
    stage.operator.must("policy edit p --trade-auto 0").await;
    for operation in Operation::all(&stage) {
        let before = operation.before(&stage).await;
        let (status, answer) = stage.trade(&operation.request(&stage)).await;
        assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
        let card = stage.approve_held().await;
        assert!(card.trade.is_some_and(|trade| trade.effects_proven), "{operation:?}");
        stage.crash_and_restart().await;
        let end = stage.end_of(&answer["request_id"]).await;
        operation.check(&stage, before, &end).await;
        stage.check_deadline(&end).await;
    }
}

/// Tests both chains at once, because most of the time passes while transactions become final.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_on_both_networks_fills_to_the_unit() {
    tokio::join!(run_all(BASE), run_all(ROBINHOOD));
}
