//! Payments in tokens outside our table, priced and settled on the real contracts.

use alloy_primitives::{Address, B256, U256};
use bursar_control::answers::RequestAnswer;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_devnet::full::Side;
use bursar_devnet::{Call, TokenMode};
use bursar_tests::offers::{BASE, PAY_TO, challenge, decode_header};
use bursar_tests::operator::Expect;
use bursar_x402::signature::Signature65;
use serde_json::{Value, json};

use crate::trading::pools::TRADER;
use crate::trading::stage::{DOLLAR, ETHER, Stage};

/// At most a hundred dollars a day and ten per payment; automatic below one.
const POLICY: &str = "--day 100 --txn 10 --auto 1";

/// Enough liquidity that no payment of these tests moves a price.
const DEEP_LIQUIDITY: u128 = 1_000_000 * DOLLAR;

alloy_sol_types::sol! {
    interface IAuthorized {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, uint8 v, bytes32 r, bytes32 s
        ) external;
    }
}

/// Returns a challenge for `atoms` units of a token whose domain has this name, and version 3.
fn offer(token: Address, name: &str, atoms: u64) -> Value {
    let mut offer = challenge(BASE, atoms, "https://api.example.com/1");
    let first = &mut offer["accepts"][0];
    first["asset"] = json!(token.to_checksum(None));
    first["extra"] = json!({"name": name, "version": "3"});
    offer
}

/// Deploys a token with authorizations, and gives the paying address some of it.
async fn deploy_token(stage: &Stage) -> Address {
    let token = stage.chain.deploy_token("Gold", "3", TokenMode::Honest).await.expect("deployed");
    stage.chain.mint_of(token, stage.owner, 100 * DOLLAR).await.expect("minted");
    token
}

/// Sends the authorization of a payment header to the token, as any facilitator could.
async fn settle(stage: &Stage, token: Address, answer: &Value) -> B256 {
    let payload = &decode_header(answer["header_value"].as_str().expect("a header"))["payload"];
    let signature: Signature65 =
        payload["signature"].as_str().expect("a signature").parse().expect("well-formed");
    let text = |name: &str| payload["authorization"][name].as_str().expect("a text");
    let number = |name: &str| text(name).parse::<U256>().expect("a number");
    let (r, s) = (signature.r(), signature.s());
    let call = IAuthorized::transferWithAuthorizationCall {
        from: text("from").parse().expect("an address"),
        to: text("to").parse().expect("an address"),
        value: number("value"),
        validAfter: number("validAfter"),
        validBefore: number("validBefore"),
        nonce: text("nonce").parse().expect("a nonce"),
        v: signature.v(),
        r,
        s,
    };
    let coin = U256::from(ETHER);
    stage.chain.request("anvil_setBalance", json!([TRADER, coin])).await.expect("set");
    stage.chain.send_as(&Call::new(TRADER, token, &call)).await.expect("it settles").hash
}

async fn balance(stage: &Stage, token: Address, owner: Address) -> U256 {
    stage.chain.balance_of_token(token, owner).await.expect("a balance")
}

async fn spent(stage: &mut Stage) -> u64 {
    let (_status, mandate) = stage.mandate().await;
    mandate["spent_today_micro"].as_u64().expect("a number")
}

/// Returns the only held request and the reason of the hold.
async fn held(stage: &mut Stage) -> (RequestAnswer, HoldReason) {
    let held = stage.only_held().await;
    let reason = held.card.as_ref().expect("a card").hold;
    (held, reason)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_the_threshold_it_is_signed_and_settles_and_its_price_counts() {
    let Some(mut stage) = Stage::set_up("--day 1 --txn 10 --auto 1").await else { return };
    let token = deploy_token(&stage).await;
    stage.add_pool(token, DEEP_LIQUIDITY).await;
    let before = balance(&stage, token, stage.owner).await;
    let (status, answer) = stage.pay(&offer(token, "Gold", 600_000)).await;
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    // The pool's fee is 0.3 %: buying 600,000 units costs 601,806, plus the price impact of the amount itself.
    let counted = spent(&mut stage).await;
    assert!((601_806..=601_810).contains(&counted), "{counted}");
    let tx = settle(&stage, token, &answer).await;
    let payee: Address = PAY_TO.parse().expect("an address");
    assert_eq!(balance(&stage, token, payee).await, U256::from(600_000));
    assert_eq!(before - balance(&stage, token, stage.owner).await, U256::from(600_000));
    // The search for the settlement finds the token's own events.
    let id = answer["transaction_id"].as_str().expect("an id").to_owned();
    stage.report_settled(&id, &tx.to_string()).await;
    assert_eq!(stage.settlement_of(&id).await, "payment-completed");
    // The remaining allowance of the day's dollar does not cover the same amount again.
    let (status, answer) = stage.pay(&offer(token, "Gold", 600_000)).await;
    assert_eq!((status, &answer["code"]), (429, &json!("EXCEEDS_DAILY_LIMIT")), "{answer}");
    let requested = answer["requested_micro"].as_u64().expect("a number");
    assert!((601_806..=601_810).contains(&requested), "{answer}");
    let (status, answer) = stage.pay(&offer(token, "Gold", 390_000)).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_makes_the_token_look_worthless_does_not_lower_its_price() {
    let Some(mut stage) = Stage::set_up(POLICY).await else { return };
    let token = deploy_token(&stage).await;
    stage.add_pool(token, DEEP_LIQUIDITY).await;
    // Payer and payee own a deep pool in which the token costs a cent.
    let sides = [Side::new(stage.dollar(), DEEP_LIQUIDITY), Side::new(token, 100 * DEEP_LIQUIDITY)];
    stage.add_v3_pool(sides, 10_000).await;
    let (status, answer) = stage.pay(&offer(token, "Gold", 5_000_000)).await;
    assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
    let micros = answer["amount_micro"].as_u64().expect("a price");
    assert!((5_015_045..=5_015_100).contains(&micros), "{micros}");
    let (request, reason) = held(&mut stage).await;
    assert_eq!(reason, HoldReason::SellsForLess);
    stage.operator.must(&format!("deny {}", request.id)).await;
    let (status, answer) = stage.pay(&offer(token, "Gold", 10_000_000)).await;
    assert_eq!((status, &answer["code"]), (403, &json!("EXCEEDS_PER_REQUEST_MAX")), "{answer}");
    assert_eq!(spent(&mut stage).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thin_pool_holds_and_a_pool_that_is_too_small_gives_no_price() {
    let Some(mut stage) = Stage::set_up(POLICY).await else { return };
    let token = deploy_token(&stage).await;
    // Ten times the amount is two hundredths of the pool, so the purchase moves its price by two percent.
    stage.add_pool(token, 100 * DOLLAR).await;
    let (status, answer) = stage.pay(&offer(token, "Gold", 200_000)).await;
    assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
    let (request, reason) = held(&mut stage).await;
    assert_eq!(reason, HoldReason::ThinMarket);
    // The operator may approve the payment: the wallet finds the same price again.
    stage.operator.must(&format!("approve {}", request.id)).await;
    let (status, answer) = stage.get(&format!("/sign/status/{}", request.id)).await;
    assert_eq!(status, 200, "{answer}");
    settle(&stage, token, &answer).await;

    let (status, answer) = stage.pay(&offer(token, "Gold", 100_000_000)).await;
    assert_eq!((status, &answer["amount_micro"]), (202, &Value::Null), "{answer}");
    let (request, reason) = held(&mut stage).await;
    assert_eq!(reason, HoldReason::Unpriced);
    let refused = stage.operator.run_refused(&format!("approve {} --yes", request.id)).await;
    assert_eq!(refused.code, Code::Unpriced, "{refused}");
    // Another pool can deliver the amount. The payment now has a price, and the policy refuses it.
    stage
        .add_v3_pool(
            [Side::new(stage.dollar(), DEEP_LIQUIDITY), Side::new(token, DEEP_LIQUIDITY)],
            500,
        )
        .await;
    let refused = stage.operator.run_refused(&format!("approve {} --yes", request.id)).await;
    assert_eq!(refused.code, Code::ConfirmationNeeded, "{refused}");
    assert!(refused.message.contains("--confirm 100.06"), "{refused}");
    let line = format!("approve {} --yes --confirm 100.5", request.id);
    let refused = stage.operator.run_refused(&line).await;
    assert_eq!(refused.code, Code::ExceedsPerRequestMax, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_does_not_confirm_the_domain_is_never_signed() {
    let Some(mut stage) = Stage::set_up(POLICY).await else { return };
    let named = deploy_token(&stage).await;
    let plain = stage.chain.deploy_token("Gold", "3", TokenMode::Plain).await.expect("deployed");
    let empty = Address::repeat_byte(0x99);
    for token in [named, plain] {
        stage.add_pool(token, DEEP_LIQUIDITY).await;
    }
    let mut nameless = offer(named, "Gold", 1_000);
    nameless["accepts"][0]["extra"] = json!({"name": "Gold"});
    let asks = [
        offer(named, "Silver", 1_000),
        nameless,
        offer(plain, "Gold", 1_000),
        offer(empty, "Gold", 1_000),
    ];
    for ask in asks {
        let (status, answer) = stage.pay(&ask).await;
        assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
        let (request, reason) = held(&mut stage).await;
        assert_eq!(reason, HoldReason::DomainUnconfirmed, "{ask}");
        let line = format!("approve {} --yes --confirm 0", request.id);
        let refused = stage.operator.run_refused(&line).await;
        assert_eq!(refused.code, Code::UnsupportedAsset, "{refused}");
        let (_status, answer) = stage.get(&format!("/sign/status/{}", request.id)).await;
        assert_eq!(answer["status"], "pending", "{answer}");
        stage.operator.must(&format!("deny {}", request.id)).await;
    }
    assert_eq!(spent(&mut stage).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_tolerates_one_percent_and_signs_the_assessed_amount() {
    let Some(mut stage) = Stage::set_up(POLICY).await else { return };
    let token = deploy_token(&stage).await;
    stage.add_pool(token, DEEP_LIQUIDITY).await;
    for (dollars, moved) in [(2_000, false), (10_000, true)] {
        let before = spent(&mut stage).await;
        let (status, answer) = stage.pay(&offer(token, "Gold", 2_000_000)).await;
        assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
        let assessed = answer["amount_micro"].as_u64().expect("a price");
        let (request, reason) = held(&mut stage).await;
        assert_eq!(reason, HoldReason::AboveThreshold);
        // Buying raises the price: 2,000 dollars by 0.4 %, and 10,000 dollars by 2 %.
        stage.buy(token, 3_000, dollars * DOLLAR).await;
        let approve = format!("approve {}", request.id);
        if moved {
            let refused = stage.operator.run_refused(&approve).await;
            assert_eq!(refused.code, Code::PriceMoved, "{refused}");
            let (_status, answer) = stage.get(&format!("/sign/status/{}", request.id)).await;
            assert_eq!(
                (&answer["status"], &answer["code"]),
                (&json!("rejected"), &json!("PRICE_MOVED"))
            );
            assert_eq!(spent(&mut stage).await, before);
        } else {
            stage.operator.must(&approve).await;
            let (_status, answer) = stage.get(&format!("/sign/status/{}", request.id)).await;
            let counted = spent(&mut stage).await - before;
            let most = assessed + assessed / 100;
            assert!(assessed < counted && counted <= most, "{assessed} {counted}");
            settle(&stage, token, &answer).await;
            let payee: Address = PAY_TO.parse().expect("an address");
            assert_eq!(balance(&stage, token, payee).await, U256::from(2_000_000));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_without_a_dollar_pool_is_priced_through_the_wrapped_coin() {
    let Some(mut stage) = Stage::set_up(POLICY).await else { return };
    let token = deploy_token(&stage).await;
    // Each unit costs a thousandth of an ether, which is three dollars in the chain's pool.
    let sides = [Side::new(stage.contracts.weth, 1_000 * ETHER), Side::new(token, DEEP_LIQUIDITY)];
    stage.add_v3_pool(sides, 500).await;
    let (status, answer) = stage.pay(&offer(token, "Gold", 100_000)).await;
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    // The price is 30 cents, plus a fee of 0.05 % twice.
    let counted = spent(&mut stage).await;
    assert!((300_300..=300_400).contains(&counted), "{counted}");
    settle(&stage, token, &answer).await;
    // A contract that is not the expected one gives no price.
    let quoter = stage.contracts.v3.quoter;
    stage.chain.request("anvil_setCode", json!([quoter, "0x"])).await.expect("set");
    let (status, answer) = stage.pay(&offer(token, "Gold", 100_000)).await;
    assert_eq!(status, 202, "{answer}");
    assert_eq!(held(&mut stage).await.1, HoldReason::Unpriced);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_price_far_off_the_average_that_the_pool_keeps_holds() {
    let Some(mut stage) = Stage::set_up(POLICY).await else { return };
    let token = deploy_token(&stage).await;
    stage.add_pool(token, DEEP_LIQUIDITY).await;
    stage.keep_averages(token, 3_000).await;
    // The pool records prices from the first trade after `keep_averages`.
    stage.buy(token, 3_000, DOLLAR).await;
    stage.advance_seconds(650).await;
    let (status, answer) = stage.pay(&offer(token, "Gold", 200_000)).await;
    assert_eq!(status, 200, "the price did not move: {answer}");
    // Dollars for 2 % of the pool raise its price by 4 %.
    stage.buy(token, 3_000, 20_000 * DOLLAR).await;
    let (status, answer) = stage.pay(&offer(token, "Gold", 200_000)).await;
    assert_eq!((status, &answer["code"]), (202, &json!("APPROVAL_REQUIRED")), "{answer}");
    let (request, reason) = held(&mut stage).await;
    assert_eq!(reason, HoldReason::OffAverage);
    let off = request.card.expect("a card").asset.expect("a token").average_off;
    assert!(
        off.as_deref().is_some_and(|off| off.starts_with("3.9") || off.starts_with("4.0")),
        "{off:?}"
    );
}
