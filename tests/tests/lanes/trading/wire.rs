//! An agent written only from the original wallet's wire format (`tests/agents/trader.py`) trades with this wallet.
//! It reports every difference between the answers and that format.

use std::path::Path;
use std::process::{Command, Output};

use alloy_primitives::{Address, U256};
use serde_json::{Value, json};

use crate::trading::stage::{DOLLAR, Stage};

const AUTOMATIC: &str = "--trading --trade-daily 1000 --trade-max 500 --trade-auto 200";

/// Runs the agent for one trade; the agent sends its request twice. Returns its report.
async fn run(stage: &Stage, trade: &Value) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("agents/trader.py");
    let mut command = Command::new("python3");
    command
        .arg(program)
        .arg(trade.to_string())
        .arg("--repeat")
        .env("WALLET_URL", &stage.engine.url)
        .env("WALLET_AGENT_ID", &stage.agent.id)
        .env("WALLET_AGENT_TOKEN", &stage.agent.token)
        .env("WALLET_AUTH_MODE", "hmac");
    let Output { stdout, stderr, .. } =
        tokio::task::spawn_blocking(move || command.output().expect("python3"))
            .await
            .expect("no panic");
    serde_json::from_slice(&stdout)
        .unwrap_or_else(|_none| panic!("no report: {}", String::from_utf8_lossy(&stderr)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_knows_only_the_wire_format_trades_unchanged() {
    let Some(stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, weth) = (stage.dollar().to_string(), stage.contracts.weth.to_string());
    let before = stage.balance(stage.dollar()).await;
    let trade = |token_in: &str, token_out: &str, amount: &str| {
        json!({
            "chain_id": 8453, "token_in": token_in, "token_out": token_out, "amount_in": amount,
            "fee_tier": 500, "max_slippage_bps": 100,
        })
    };
    let v4 = |mut trade: Value| {
        trade["tick_spacing"] = json!(10);
        trade["hooks"] = json!(Address::ZERO);
        trade
    };
    let with = |mut trade: Value, name: &str, value: Value| {
        trade[name] = value;
        trade
    };
    for (trade, status) in [
        (trade(&dollar, &weth, "30"), "executed"),
        (v4(trade(&dollar, "ETH", "20")), "executed"),
        (with(trade("ETH", &weth, "0.01"), "fee_tier", json!(0)), "executed"),
        (trade(&dollar, &weth, "501"), "rejected"),
        (with(trade(&dollar, &weth, "30"), "deadline", json!(1)), "rejected"),
        (with(trade(&dollar, &weth, "30"), "recipient", json!(dollar)), "error"),
        (with(trade(&dollar, &weth, "30"), "amount_in", json!("1e3")), "error"),
    ] {
        let report = run(&stage, &trade).await;
        assert_eq!(report["final"]["body"]["status"], status, "{trade}: {report}");
        assert_eq!(report["problems"], json!([]), "{trade}: {report}");
    }
    let spent = before - stage.balance(stage.dollar()).await;
    assert_eq!(spent, U256::from(50 * DOLLAR), "each trade is executed once");
}
