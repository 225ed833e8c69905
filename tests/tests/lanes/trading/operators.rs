//! The operator's commands that measure, inspect and revoke.

use alloy_primitives::{Address, U256};
use bursar_chain::abi::erc20::IErc20;
use bursar_control::answers::{AllowancesAnswer, Answer, QuoteAnswer};
use bursar_core::codes::Code;
use bursar_core::status::{PolicyVerdict, SendStatus};
use bursar_devnet::Call;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::trading::stage::{DOLLAR, Stage};

const AUTOMATIC: &str = "--trading --trade-daily 1000 --trade-max 500 --trade-auto 200";
const MANUAL: &str = "--trading --trade-daily 1000 --trade-max 500 --trade-auto 0";

alloy_sol_types::sol! {
    interface IPermit2Approval {
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
    }
}

async fn quote(stage: &mut Stage, line: &str) -> QuoteAnswer {
    match stage.operator.must(line).await {
        Answer::Quote(quote) => *quote,
        other => panic!("{other:?}"),
    }
}

async fn allowances(stage: &mut Stage, line: &str) -> AllowancesAnswer {
    match stage.operator.must(line).await {
        Answer::Allowances(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn buy(stage: &Stage, v4: bool) -> Value {
    let mut trade = json!({
        "chain_id": 8453, "token_in": stage.dollar(), "token_out": "ETH", "amount_in": "30",
        "fee_tier": 500, "max_slippage_bps": 100,
    });
    if v4 {
        trade["tick_spacing"] = json!(10);
        trade["hooks"] = json!(Address::ZERO);
    }
    trade
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_shows_what_a_trade_would_do_and_records_nothing() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let line = "quote trade 30 USDC ETH --network base --fee 500 --slippage 1 --policy p";
    let given = quote(&mut stage, line).await;
    let trade = &given.trade;
    assert_eq!((trade.gives.as_str(), trade.slippage.as_str()), ("30.000000 USDC", "1%"));
    assert!(trade.effects_proven && trade.received.is_some(), "{trade:?}");
    assert_eq!(trade.transactions, 2);
    let [approve, swap]: [String; 2] = trade.calls.clone().try_into().expect("two calls");
    assert_eq!(approve, "approve exactly 30.000000 USDC for SwapRouter02");
    let swapped = format!("swap exactly 30.000000 USDC for at least {}", trade.at_least);
    assert!(swap.starts_with(&swapped) && swap.contains("SwapRouter02"), "{swap}");
    assert!(given.routes.iter().any(|route| route.route == trade.pool), "{given:?}");
    assert_eq!(given.verdict.as_ref().map(|one| one.verdict), Some(PolicyVerdict::Act));

    stage.operator.must("policy create careful --trading --trade-auto 10").await;
    let line = "quote trade 30 USDC ETH --network base --fee 500 --v4 --policy careful";
    let given = quote(&mut stage, line).await;
    let permit = "sign a Permit2 permit of exactly 30.000000 USDC for the Universal Router";
    assert!(given.trade.calls.iter().any(|call| call.starts_with(permit)), "{given:?}");
    assert_eq!((given.trade.calls.len(), given.trade.transactions), (3, 2));
    let verdict = given.verdict.expect("a verdict");
    assert_eq!(verdict.code.as_deref(), Some("above_threshold"), "{verdict:?}");

    // If no pool is named, the best route is quoted. Its output is the highest, or differs
    // from it by less than the gas.
    let given = quote(&mut stage, "quote trade 0.01 eth usdc --network 8453").await;
    assert!(given.trade.received.is_some() && given.verdict.is_none(), "{given:?}");
    assert!(given.routes.len() > 1, "{given:?}");

    for (line, code) in [
        ("quote nothing 1 ETH USDC --network base", Code::NothingFound),
        ("quote trade 1 ETH NOPE --network base", Code::NothingFound),
        // The address of USDC with a wrong checksum.
        (
            "quote trade 1 ETH 0x833589fcD6eDb6E08f4c7C32D4f71b54bdA02913 --network base",
            Code::BadInput,
        ),
        ("quote trade 1 ETH USDC --network base --policy nothing", Code::NothingFound),
        // If no network is named, `quote` uses the default of agents' trades, which has no node here.
        ("quote trade 1 ETH WETH", Code::ChainUnavailable),
        ("quote trade much ETH USDC --network base", Code::BadInput),
        ("quote trade 20000 USDC ETH --network base --fee 500", Code::InsufficientFunds),
        ("quote trade 1 USDC ETH --network base --fee 10000", Code::NoPool),
        ("quote trade 1 USDC ETH --network base-sepolia", Code::NetworkDisabled),
    ] {
        assert_eq!(stage.operator.run_refused(line).await.code, code, "{line}");
    }
    let recorded = format!("{:?}", stage.operator.must("history").await);
    assert!(recorded.contains("requests: []"), "{recorded}");
}

/// The agent's quote, the card and the operator's lists show the same plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_and_operator_see_effects_calls_and_progress() {
    let Some(mut stage) = Stage::set_up(MANUAL).await else { return };
    let asked = buy(&stage, true);
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!(status, 202, "{answer}");
    let effects = &answer["quote"]["effects"];
    assert_eq!((&effects["proven"], &effects["transactions"]), (&json!(true), &json!(2)));
    assert_eq!(effects["amount_in"], json!(30 * DOLLAR));
    let kinds: Vec<&str> = effects["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .filter_map(|call| call["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["approve", "permit", "swap"]);
    let held = stage.only_held().await;
    let card = held.card.expect("a card");
    let shown = card.trade.as_ref().expect("a trade");
    assert_eq!(shown.calls[0], "approve exactly 30.000000 USDC for Permit2");
    let simulated = effects["amount_out"].to_string();
    let line = format!("approve {} --card {} --yes --confirm {}", held.id, card.digest, card.usd);
    stage.operator.must(&line).await;
    let end = stage.end_of(&answer["request_id"]).await;
    assert_eq!(end["status"], "executed", "{end}");
    // There was no other trade meanwhile, so the result equals the simulation.
    assert_eq!(end["amount_out"].to_string(), simulated, "{end}");

    let Answer::Activity(activity) = stage.operator.must("activity --raw --limit 100").await else {
        panic!("no activity")
    };
    let mut steps: Vec<String> = activity
        .entries
        .into_iter()
        .filter(|row| row.kind.text() == "trade.step_opened")
        .filter_map(|row| row.detail)
        .collect();
    steps.reverse();
    assert_eq!(steps, ["1/2 token approval", "2/2 swap"]);
    let Answer::History(history) = stage.operator.must("history --lane trade").await else {
        panic!("no history")
    };
    let row = history.requests.first().expect("a row");
    let traded = row.trade.as_ref().expect("a trade");
    assert_eq!(traded.amount_out.as_ref().map(|amount| amount.atoms.clone()), Some(simulated));
    assert_eq!((traded.symbol_out.as_str(), &row.step), ("ETH", &None));
    let Answer::Status(status) = stage.operator.must("status").await else { panic!("no status") };
    assert!(status.executing.is_empty(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn allowances_are_listed_and_taken_back() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, owner) = (stage.dollar(), stage.owner);
    let (router, permit2) = (stage.contracts.v3.router, stage.contracts.permit2);
    let universal = stage.contracts.routers.v2_1_2;
    let answer = allowances(&mut stage, "allowances").await;
    assert!(answer.allowances.is_empty() && answer.read > 0, "{answer:?}");

    // Another program with the same key left three allowances.
    for (spender, value) in [(router, U256::from(5 * DOLLAR)), (permit2, U256::MAX)] {
        let approve = Call::new(owner, dollar, &IErc20::approveCall { spender, value });
        stage.chain.send_as(&approve).await.expect("approved");
    }
    let until = u64::try_from(stage.engine.now_s()).expect("a time") + 1_000_000;
    let within = IPermit2Approval::approveCall {
        token: dollar,
        spender: universal,
        amount: alloy_primitives::aliases::U160::from(7 * DOLLAR),
        expiration: alloy_primitives::aliases::U48::from(until),
    };
    stage.chain.send_as(&Call::new(owner, permit2, &within)).await.expect("approved");

    let answer = allowances(&mut stage, "allowances --network base").await;
    let told: Vec<(&str, &str, bool)> = answer
        .allowances
        .iter()
        .map(|one| {
            let amount = if one.unlimited { "" } else { &one.amount.text };
            (one.spender_name.as_str(), amount, one.unlimited)
        })
        .collect();
    let expected = [
        ("SwapRouter02", "5.000000 USDC", false),
        ("Permit2", "", true),
        ("the Universal Router, through Permit2", "7.000000 USDC", false),
    ];
    assert_eq!(told, expected, "{answer:?}");
    assert!(answer.allowances.iter().all(|one| one.verified && one.symbol == "USDC"));
    let answer = allowances(&mut stage, "allowances --revoke --yes").await;
    for one in &answer.allowances {
        let ended = matches!(one.status, Some(SendStatus::Done | SendStatus::Included));
        assert!(ended && one.tx_hash.is_some(), "{one:?}");
    }
    assert_eq!(stage.allowance(dollar, router).await, U256::ZERO);
    assert_eq!(stage.allowance(dollar, permit2).await, U256::ZERO);
    assert_eq!(stage.permit2_allowance(dollar, universal).await.0, U256::ZERO);
    let sends = format!("{:?}", stage.operator.must("address sends").await);
    assert!(sends.contains("the allowance of USDC"), "{sends}");
    let answer = allowances(&mut stage, "allowances --revoke").await;
    assert!(answer.allowances.is_empty(), "nothing to ask about: {answer:?}");
}

/// A refused trade names the limit and the option that changes it, and its receipt is about the trade.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_trade_names_its_limit_to_the_operator() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let mut asked = buy(&stage, false);
    asked["amount_in"] = json!("501");
    let (status, answer) = stage.trade(&asked).await;
    assert_eq!((status, &answer["reason_code"]), (400, &json!("EXCEEDS_PER_TRADE_MAX")));
    let Answer::History(history) = stage.operator.must("history --status refused").await else {
        panic!("no history")
    };
    let row = history.requests.first().expect("a row");
    let why = "501.00 USD requested, `p` v1 allows 500.00 per trade";
    assert_eq!(row.refused.as_deref(), Some(why));
    let Answer::Receipt(receipt) = stage.operator.must(&format!("receipt {}", row.id)).await else {
        panic!("no receipt")
    };
    let refused = receipt.refused.expect("a reason");
    assert_eq!(refused.option.as_deref(), Some("--trade-max"));
    assert_eq!(receipt.form["trade"]["formatted"], "501.000000 USDC for ETH");

    stage.operator.must("policy edit p --trade-daily 20").await;
    let (_status, answer) = stage.trade(&buy(&stage, false)).await;
    assert_eq!(answer["reason_code"], "EXCEEDS_DAILY_VOLUME");
    let Answer::History(history) = stage.operator.must("history --status refused").await else {
        panic!("no history")
    };
    let why = "30.00 USD requested, 20.00 was left for the day; `p` v2 allows 20.00 per day";
    assert_eq!(history.requests.first().and_then(|row| row.refused.as_deref()), Some(why));
    let Answer::Agent(agent) = stage.operator.must("agent show bot").await else { panic!() };
    assert_eq!(agent.trade_limit.as_deref(), Some("20.00"));
}
