//! Tokens that change, refuse, or call back in the middle of a trade.

use alloy_primitives::{Address, U256};
use bursar_control::answers::Answer;
use bursar_control::card_text;
use bursar_devnet::{Call, TokenQuirk};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::trading::stage::{AUTOMATIC, DOLLAR, ETHER, Stage};

/// The owner's balance of each token.
const OWNER_BALANCE: u128 = 30 * DOLLAR;

alloy_sol_types::sol! {
    interface IApprove {
        function approve(address spender, uint256 value) external returns (bool);
    }
}

impl Stage {
    /// Adds a token, and its pool with the dollar token at equal prices. The owner holds thirty.
    pub(crate) async fn add_token(&self, symbol: &str, quirk: TokenQuirk) -> Address {
        let token = self.chain.deploy_odd_token(symbol, quirk).await.expect("deployed");
        let honest = TokenQuirk::None;
        self.chain.set_token_quirk(token, honest).await.expect("set");
        self.add_pool(token, 1_000_000 * DOLLAR).await;
        self.chain.set_token_quirk(token, quirk).await.expect("set");
        self.chain.mint_of(token, self.owner, OWNER_BALANCE).await.expect("minted");
        token
    }

    /// Sells all thirty, either directly for dollars, or through the dollar pool for the native coin.
    pub(crate) fn sale_of(&self, token: Address, direct: bool) -> Value {
        let mut sale = json!({
            "chain_id": self.id().0, "token_in": token, "token_out": self.dollar(),
            "amount_in": "30", "max_slippage_bps": 100,
        });
        if direct {
            sale["fee_tier"] = json!(3_000);
        } else {
            sale["token_out"] = json!("ETH");
            sale["route"] = json!("best");
        }
        sale
    }

    /// Requests the sale, which is held because the token's value is unknown.
    async fn held_sale(&mut self, token: Address, direct: bool) -> Value {
        let sale = self.sale_of(token, direct);
        let (status, answer) = self.trade(&sale).await;
        assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
        answer["request_id"].clone()
    }

    /// Checks that a trade ended without a swap, that its allowance is gone, and that its volume returned.
    async fn assert_no_swap(&mut self, token: Address, end: &Value) {
        assert_eq!(end["status"], "rejected", "{end}");
        self.await_no_allowance(token, self.contracts.v3.router).await;
        assert_eq!(self.balance(token).await, U256::from(OWNER_BALANCE), "{end}");
        assert_eq!(self.volume_left().await, 1_000.0, "{end}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_change_after_the_request_end_the_trade_or_keep_its_units() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, router) = (stage.dollar(), stage.contracts.v3.router);

    // The trade sells the card's units of the token, even if the token is renamed later.
    let token = stage.add_token("Proxy", TokenQuirk::None).await;
    let id = stage.held_sale(token, true).await;
    stage.chain.set_token_decimals(token, 18).await.expect("set");
    let before = stage.balance(dollar).await;
    stage.approve_held().await;
    let end = stage.end_of(&id).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_eq!(stage.balance(token).await, U256::ZERO);
    assert_eq!(
        stage.balance(dollar).await - before,
        crate::trading::stage::atoms(&end["amount_out"])
    );
    assert_eq!(stage.allowance(token, router).await, U256::ZERO);
    // A token of unknown value counts as the largest permitted trade.
    assert!((499.9..=500.0).contains(&stage.volume_left().await), "and the gas of its swap");

    // Half of the balance disappears before the approval. After the first swap's gas, the limit has no room for
    // another largest trade, so it is raised.
    stage.operator.must("policy edit p --trade-daily 1001").await;
    let token = stage.add_token("Rebase", TokenQuirk::None).await;
    let id = stage.held_sale(token, true).await;
    stage.chain.rebase_token(token, 50).await.expect("rebased");
    let approval = stage.approval().await;
    let fault = stage.operator.run_refused(&approval).await;
    let (_status, end) = stage.poll(&id).await;
    assert_eq!(end["status"], "rejected", "{fault} {end}");
    assert!((500.9..=501.0).contains(&stage.volume_left().await), "its volume returned");
    assert_eq!(stage.balance(token).await, U256::from(OWNER_BALANCE / 2));
    assert_eq!(stage.allowance(token, router).await, U256::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_whose_allowance_must_be_zero_first_is_reset_and_sold() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let router = stage.contracts.v3.router;
    let token = stage.add_token("Zero first", TokenQuirk::ZeroFirst).await;
    let left = IApprove::approveCall { spender: router, value: U256::from(5) };
    stage.chain.send_as(&Call::new(stage.owner, token, &left)).await.expect("approved");
    let first = stage.head().await;
    let id = stage.held_sale(token, true).await;
    stage.approve_held().await;
    let end = stage.end_of(&id).await;
    assert_eq!(end["status"], "executed", "{end}");
    assert_eq!(stage.balance(token).await, U256::ZERO);
    assert_eq!(stage.allowance(token, router).await, U256::ZERO);
    // The owner has sent the reset, the approval and the swap.
    let sent = stage.mined_since(first + 1).await;
    let kinds: Vec<bool> = sent.iter().map(|one| one.is_approval()).collect();
    assert_eq!(kinds, [true, true, false], "{sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_refuse_or_call_back_end_the_trade_without_a_swap() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let (dollar, weth) = (stage.dollar(), stage.contracts.weth);
    let v3_router = stage.contracts.v3.router;

    // The token refuses at once: the rehearsal shows it, and the reason's text cannot move a terminal's cursor.
    let token = stage.add_token("No", TokenQuirk::Refuses).await;
    let sale = stage.sale_of(token, true);
    let (status, answer) = stage.trade(&sale).await;
    assert_eq!((status, &answer["reason_code"]), (400, &json!("WOULD_FAIL")), "{answer}");
    let reason = answer["reason"].as_str().expect("a reason");
    assert!(!reason.chars().any(char::is_control), "{reason:?}");

    // The token refuses after the approval, which is then revoked.
    let token = stage.add_token("Later", TokenQuirk::RefusesLater).await;
    let id = stage.held_sale(token, true).await;
    stage.approve_held().await;
    let end = stage.end_of(&id).await;
    assert_eq!(end["reason_code"], "WOULD_FAIL", "{end}");
    stage.assert_no_swap(token, &end).await;

    // The token forgets the approval. Another approval would cost gas and be forgotten too.
    let token = stage.add_token("Forgets", TokenQuirk::Forgets).await;
    let first = stage.head().await + 1;
    let id = stage.held_sale(token, true).await;
    stage.approve_held().await;
    let end = stage.end_of(&id).await;
    stage.assert_no_swap(token, &end).await;
    assert_eq!(stage.mined_since(first).await.len(), 1);

    // During the swap, the token moves the price of the second pool.
    for quirk in [TokenQuirk::Calls, TokenQuirk::CallsLater] {
        let token = stage.add_token("Calls", quirk).await;
        let amount = 300_000 * DOLLAR;
        stage.chain.mint_of(dollar, token, amount).await.expect("minted");
        let allow = unlimited_approval(v3_router);
        stage.chain.run_as_token(token, dollar, allow).await.expect("approved");
        let attack = stage.chain.swap_v3_call(token, [dollar, weth], 500, amount);
        let attack = attack.expect("a call").data;
        stage.chain.set_token_callback(token, v3_router, attack).await.expect("set");
        if quirk == TokenQuirk::Calls {
            let sale = stage.sale_of(token, false);
            let (status, answer) = stage.trade(&sale).await;
            assert_eq!((status, &answer["reason_code"]), (400, &json!("WOULD_FAIL")), "{answer}");
        } else {
            let id = stage.held_sale(token, false).await;
            stage.approve_held().await;
            let end = stage.end_of(&id).await;
            stage.assert_no_swap(token, &end).await;
        }
    }
    assert_eq!(stage.balance(weth).await, U256::from(10 * ETHER), "nothing else moved");
}

/// Returns the call that gives a spender an unlimited allowance.
fn unlimited_approval(spender: Address) -> alloy_primitives::Bytes {
    use alloy_sol_types::SolCall;
    IApprove::approveCall { spender, value: U256::MAX }.abi_encode().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_symbol_with_escapes_is_harmless_on_the_card() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let token =
        stage.add_token("\u{1b}[2J\u{1b}]0;x\u{7}US\u{202e}D\u{200b}", TokenQuirk::None).await;
    stage.held_sale(token, true).await;
    let card = stage.only_held().await.card.expect("a card");
    let lines = card_text::lines(&card);
    let hostile = |one: char| one.is_control() || ['\u{202e}', '\u{200b}'].contains(&one);
    assert!(!lines.iter().any(|line| line.chars().any(hostile)), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("30.000000 ")), "{lines:?}");
}

/// Any token may call itself USDC. Only a symbol of our table is shown without quotation marks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_with_the_symbol_of_another_is_quoted_everywhere() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let token = stage.add_token("USDC", TokenQuirk::None).await;
    stage.held_sale(token, true).await;
    let held = stage.only_held().await;
    assert_eq!(held.summary, "30.000000 \"USDC\" > USDC");
    let trade = held.card.and_then(|card| card.trade).expect("a trade");
    assert_eq!(trade.gives, "30.000000 \"USDC\"");
    assert!(trade.gets.ends_with(" USDC"), "{trade:?}");
    assert!(trade.calls[0].starts_with("approve exactly 30.000000 \"USDC\" for "), "{trade:?}");

    let line = format!("quote trade 30 USDC {token} --network base --fee 3000");
    let Answer::Quote(quote) = stage.operator.must(&line).await else { panic!("no quote") };
    assert_eq!(quote.trade.gives, "30.000000 USDC");
    let mut gets =
        quote.routes.iter().map(|route| &route.amount_out.text).chain([&quote.trade.gets]);
    assert!(gets.all(|amount| amount.ends_with(" \"USDC\"")), "{quote:?}");

    let mut purchase = stage.sale_of(token, true);
    purchase["token_in"] = json!(stage.dollar());
    purchase["token_out"] = json!(token);
    purchase["amount_in"] = json!("501");
    let (_status, refused) = stage.trade(&purchase).await;
    assert_eq!(refused["reason_code"], "EXCEEDS_PER_TRADE_MAX", "{refused}");
    let id = refused["request_id"].as_str().expect("an id");
    let answer = stage.operator.must(&format!("receipt {id}")).await;
    let Answer::Receipt(receipt) = answer else { panic!("no receipt") };
    assert_eq!(receipt.form["trade"]["formatted"], "501.000000 USDC for \"USDC\"");
}
