//! The refusals of the scheme `batch-settlement`, and payers and tokens that do not follow the rules.

use alloy_primitives::{Address, B256, U256};
use bursar_devnet::WalletMode;
use bursar_tests::payer::{PERMIT2, Payer};
use bursar_x402::channel::WithdrawDelay;
use bursar_x402::channel::payload::ClaimRow;
use serde_json::{Value, json};

use crate::facilitator::channel::{Channel, DEPOSIT, ESCROW, PRICE, full_code, reason};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, Stage};

/// Tests the refusals that follow from the request alone.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_channels_that_need_no_node_are_given_without_one() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.channel().await;
    let other = Channel::new(stage.network(), channel.payer.clone(), channel.config.receiver);
    let deposit = channel.deposit(DEPOSIT, PRICE);
    let permit = channel.deposit_by_permit2(DEPOSIT, PRICE);
    let claim = channel.claim(PRICE, PRICE);
    let refund = channel.refund(PRICE, 0, 0);
    let with = |body: &Value, pointer: &str, value: Value| {
        let mut body = body.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a member");
        body.pointer_mut(parent).expect("a parent")[key] = value;
        body
    };
    let payload = "/paymentPayload/payload";
    let wanted = "/paymentRequirements";
    let authorization = format!("{payload}/deposit/authorization");
    let permit2 = format!("{authorization}/permit2Authorization");
    let both = with(&deposit, &permit2, permit.pointer(&permit2).expect("signed").clone());
    let (row, row_json) = channel.row(PRICE, PRICE);
    let (other_row, other_json) = other.row(PRICE, PRICE);
    let rows = |rows: &[ClaimRow], json: Value| {
        let signature = channel.authorizer.sign(channel.domain().claim_batch_digest(rows));
        channel.body(json!({
            "type": "claim", "claims": json, "claimAuthorizerSignature": signature,
        }))
    };
    let upper_id = format!("0x{:064X}", U256::from_be_bytes(channel.id.0));
    // Both endpoints refuse these cases.
    let cases = [
        ("scheme", with(&deposit, "/paymentPayload/accepted/scheme", json!("exact"))),
        (
            "network_mismatch",
            with(&deposit, "/paymentPayload/accepted/network", json!("eip155:4663")),
        ),
        ("payload_type", with(&deposit, &format!("{payload}/type"), json!("stream"))),
        (
            "channel_id_invalid",
            with(&deposit, &format!("{payload}/voucher/channelId"), json!("0x1")),
        ),
        (
            "channel_id_mismatch",
            with(&deposit, &format!("{payload}/voucher/channelId"), json!(other.id)),
        ),
        ("receiver_mismatch", with(&deposit, &format!("{wanted}/payTo"), json!(ESCROW))),
        (
            "receiver_authorizer_mismatch",
            with(&deposit, &format!("{wanted}/extra/receiverAuthorizer"), json!(ESCROW)),
        ),
        ("token_mismatch", with(&deposit, &format!("{wanted}/asset"), json!(ESCROW))),
        (
            "withdraw_delay_mismatch",
            with(&deposit, &format!("{wanted}/extra/withdrawDelay"), json!(901)),
        ),
        (
            "voucher_signature",
            with(&deposit, &format!("{payload}/voucher/maxClaimableAmount"), json!("1001")),
        ),
        ("deposit_payload", both),
        ("erc3009_authorization_required", with(&deposit, &authorization, json!({}))),
        (
            "permit2_authorization_required",
            with(&deposit, &format!("{wanted}/extra/assetTransferMethod"), json!("permit2")),
        ),
        ("permit2_invalid_spender", with(&permit, &format!("{permit2}/spender"), json!(ESCROW))),
        (
            "permit2_amount_mismatch",
            with(&permit, &format!("{payload}/deposit/amount"), json!("999999")),
        ),
        ("deposit_below_min_deposit", channel.deposit(0, PRICE)),
    ];
    // Only the settle endpoint refuses these cases.
    let settles = [
        (
            full_code("claim_payload"),
            rows(&[row.clone(), row.clone()], json!([row_json, row_json])),
        ),
        (
            full_code("claim_payload"),
            rows(&[row.clone(), other_row], json!([row_json, other_json])),
        ),
        (full_code("claim_simulation_failed"), channel.claim(PRICE, PRICE + 1)),
        (
            full_code("authorizer_not_configured"),
            with(&claim, &format!("{payload}/claimAuthorizerSignature"), Value::Null),
        ),
        (
            full_code("authorizer_not_configured"),
            with(&refund, &format!("{payload}/refundAuthorizerSignature"), Value::Null),
        ),
        (full_code("refund_amount_invalid"), channel.refund(0, 0, 0)),
    ];
    let delay = {
        let short =
            Channel::with_config(stage.network(), channel.payer.clone(), ESCROW, |config| {
                config.withdraw_delay = WithdrawDelay::try_from(899).expect("short");
            });
        short.deposit(DEPOSIT, PRICE)
    };
    let expired = with(
        &deposit,
        &format!("{authorization}/erc3009Authorization/validBefore"),
        json!("1000000000"),
    );
    // Another spelling of the id is the same id.
    let upper = with(&deposit, &format!("{payload}/voucher/channelId"), json!(upper_id));
    assert_eq!(stage.verify(&upper).await["isValid"], true);
    stage.chain.kill();
    let both_endpoints = async |body: &Value| {
        [stage.verify(body).await, stage.facilitator.post("/settle", body).await.1]
    };
    for (name, body) in &cases {
        for answer in both_endpoints(body).await {
            assert_eq!(reason(&answer), full_code(name), "{answer}");
        }
    }
    for answer in both_endpoints(&delay).await {
        assert_eq!(reason(&answer), full_code("withdraw_delay_out_of_range"), "{answer}");
    }
    for answer in both_endpoints(&expired).await {
        assert_eq!(reason(&answer), "invalid_exact_evm_payload_authorization_valid_before");
    }
    for (code, body) in &settles {
        let (_status, answer) = stage.facilitator.post("/settle", body).await;
        assert_eq!(reason(&answer), code, "{answer}");
    }
    let numbers = [
        ("/deposit/amount", json!("340282366920938463463374607431768211456")),
        ("/voucher/maxClaimableAmount", json!("340282366920938463463374607431768211456")),
        ("/channelConfig/withdrawDelay", json!(1_099_511_627_776_u64)),
        ("/deposit/amount", json!("-1")),
    ];
    for (pointer, value) in numbers {
        let body = with(&deposit, &format!("{payload}{pointer}"), value);
        for path in ["/verify", "/settle"] {
            let (status, answer) = stage.facilitator.post(path, &body).await;
            assert_eq!(status, 400, "{pointer}: {answer}");
        }
    }
    for body in [&claim, &channel.sweep()] {
        let (_status, answer) = stage.facilitator.post("/verify", body).await;
        assert_eq!(reason(&answer), full_code("payload_type"), "{answer}");
    }
}

/// A request with far too many rows is refused before any row is read.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_rows_are_refused() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.channel().await;
    let rows: Vec<Value> = (0..10_000).map(|_row| json!({})).collect();
    let body = channel.body(json!({ "type": "claim", "claims": rows }));
    let (status, answer) = stage.facilitator.post("/settle", &body).await;
    assert_eq!(status, 400, "{answer}");
    let rows: Vec<Value> = (0..101).map(|_row| channel.row(PRICE, PRICE).1).collect();
    let body = channel.body(json!({ "type": "claim", "claims": rows }));
    let (_status, answer) = stage.facilitator.post("/settle", &body).await;
    assert_eq!(reason(&answer), full_code("claim_payload"), "{answer}");
    stage.facilitator.stop().await;
}

/// Tests the refusals that a node decides. None of them costs a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn channel_jobs_that_would_fail_are_refused() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.open_channel().await;
    let fresh = stage.channel().await;
    let poor = Channel::new(stage.network(), Payer::random(), channel.config.receiver);
    let unapproved = Channel::new(stage.network(), Payer::random(), channel.config.receiver);
    stage.chain.mint(unapproved.config.payer, INITIAL_BALANCE).await.expect("minted");
    let mut by_stranger = channel.claim(PRICE, PRICE);
    let stranger = Payer::random().sign(B256::repeat_byte(1));
    by_stranger["paymentPayload"]["payload"]["claimAuthorizerSignature"] = json!(stranger);
    let mut refund_by_stranger = channel.refund(PRICE, 0, 0);
    refund_by_stranger["paymentPayload"]["payload"]["refundAuthorizerSignature"] = json!(stranger);
    let mut forged = fresh.deposit(DEPOSIT, PRICE);
    let signed = &mut forged["paymentPayload"]["payload"]["deposit"]["authorization"];
    signed["erc3009Authorization"]["signature"] = json!(stranger);
    let block = stage.chain.request("eth_blockNumber", json!([])).await.expect("a number");
    for (wanted, body) in [
        ("insufficient_balance".to_owned(), poor.deposit(DEPOSIT, PRICE)),
        ("invalid_signature".to_owned(), forged),
        (full_code("permit2_allowance_required"), unapproved.deposit_by_permit2(DEPOSIT, PRICE)),
        (full_code("cumulative_exceeds_balance"), fresh.deposit(DEPOSIT, DEPOSIT + 1)),
        (full_code("cumulative_exceeds_balance"), channel.claim(DEPOSIT + 1, DEPOSIT + 1)),
        (full_code("claim_simulation_failed"), by_stranger),
        (full_code("nothing_to_settle"), fresh.sweep()),
        ("refund_nonce_mismatch".to_owned(), channel.refund(PRICE, 1, 0)),
        (full_code("refund_simulation_failed"), refund_by_stranger),
        (full_code("channel_not_found"), fresh.refund(PRICE, 0, 0)),
    ] {
        let answer = stage.settle(&body).await;
        assert_eq!(reason(&answer), wanted, "{answer}");
        assert_eq!(answer["transaction"], "", "{answer}");
    }
    for (wanted, body) in [
        (full_code("channel_not_found"), fresh.voucher(PRICE)),
        (full_code("cumulative_exceeds_balance"), channel.voucher(DEPOSIT + 1)),
    ] {
        assert_eq!(reason(&stage.verify(&body).await), wanted);
    }
    let after = stage.chain.request("eth_blockNumber", json!([])).await.expect("a number");
    assert_eq!(block, after, "no transaction");
    stage.settle_and_assert(&channel.claim(PRICE, PRICE)).await;
    // A voucher for exactly the claimed amount is valid only for a refund.
    let low = stage.verify(&channel.voucher(PRICE)).await;
    assert_eq!(reason(&low), full_code("cumulative_below_claimed"));
    let ask = channel.body(json!({
        "type": "refund", "channelConfig": channel.config_json(),
        "voucher": channel.voucher_json(PRICE),
    }));
    assert_eq!(stage.verify(&ask).await["isValid"], true);
    // Nothing is left once everything was claimed.
    stage.settle_and_assert(&channel.claim(DEPOSIT, DEPOSIT)).await;
    let answer = stage.settle(&channel.refund(PRICE, 0, 0)).await;
    assert_eq!(reason(&answer), full_code("refund_no_balance"), "{answer}");
    stage.facilitator.stop().await;
}

/// Contracts as payer, as signer of vouchers and as authorizer: the facilitator asks them for their verdict and sends
/// each of their jobs alone. A contract that burns all gas costs no more than its cap.
#[tokio::test(flavor = "multi_thread")]
async fn contracts_sign_for_channels_and_hostile_ones_fail_alone() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let _mining = stage.keep_mining();
    let of_wallet = async |mode: WalletMode| {
        let owner = Payer::random();
        let wallet = stage.chain.deploy_hostile_wallet(owner.address(), mode).await;
        let wallet = wallet.expect("deployed");
        stage.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
        stage.chain.approve_as(wallet, stage.coin(), PERMIT2).await.expect("approved");
        let receiver = Payer::random().address();
        let channel = Channel::with_config(stage.network(), owner, receiver, |config| {
            (config.payer, config.payer_authorizer) = (wallet, Address::ZERO);
        });
        (wallet, channel)
    };
    let (wallet, channel) = of_wallet(WalletMode::Honest).await;
    assert_eq!(stage.verify(&channel.deposit(DEPOSIT, PRICE)).await["isValid"], true);
    stage.settle_and_assert(&channel.deposit(DEPOSIT, PRICE)).await;
    stage.settle_and_assert(&channel.deposit_by_permit2(DEPOSIT, PRICE)).await;
    assert_eq!(stage.verify(&channel.voucher(PRICE)).await["isValid"], true);
    stage.settle_and_assert(&channel.claim(PRICE, PRICE)).await;
    // A key that does not own the wallet signs this voucher.
    let mut forged = channel.voucher(2 * PRICE);
    let stranger = json!(Payer::random().sign(B256::repeat_byte(1)));
    forged["paymentPayload"]["payload"]["voucher"]["signature"] = stranger;
    assert_eq!(reason(&stage.verify(&forged).await), full_code("voucher_signature"));
    // This wallet burns gas only in a transaction, not in a simulation.
    stage.chain.set_hostile_mode(wallet, WalletMode::BurnsWhenSent).await.expect("set");
    let answer = stage.settle(&channel.claim(2 * PRICE, 2 * PRICE)).await;
    assert_eq!(reason(&answer), full_code("claim_transaction_failed"), "{answer}");
    let (_wallet, hostile) = of_wallet(WalletMode::BurnsWhenSent).await;
    let answer = stage.settle(&hostile.deposit(DEPOSIT, PRICE)).await;
    assert_eq!(reason(&answer), full_code("deposit_transaction_failed"), "{answer}");

    // This authorizer is a contract.
    let payer = stage.payer().await;
    let owner = Payer::random();
    let authorizer = stage.chain.deploy_hostile_wallet(owner.address(), WalletMode::Honest).await;
    let authorizer = authorizer.expect("deployed");
    let receiver = Payer::random().address();
    let mut guarded = Channel::with_config(stage.network(), payer, receiver, |config| {
        config.receiver_authorizer = authorizer;
    });
    guarded.authorizer = owner;
    stage.settle_and_assert(&guarded.deposit(DEPOSIT, PRICE)).await;
    stage.settle_and_assert(&guarded.claim(PRICE, PRICE)).await;
    stage.settle_and_assert(&guarded.refund(PRICE, 0, 0)).await;
    stage.chain.set_hostile_mode(authorizer, WalletMode::BurnsWhenSent).await.expect("set");
    let answer = stage.settle(&guarded.refund(PRICE, 1, 0)).await;
    assert_eq!(reason(&answer), full_code("refund_transaction_failed"), "{answer}");
    stage.facilitator.stop().await;
}

/// If an account has code (EIP-7702), only the code decides about signatures, not the key.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_payer_with_code_signs_no_voucher() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let (account, owner) = (stage.payer().await, Payer::random());
    let wallet = stage.chain.deploy_hostile_wallet(owner.address(), WalletMode::Honest).await;
    let wallet = wallet.expect("deployed");
    let placed = stage.chain.request("eth_getCode", json!([wallet, "latest"])).await.expect("code");
    let place = json!([account.address(), placed]);
    stage.chain.request("anvil_setCode", place).await.expect("set");
    let receiver = Payer::random().address();
    let mut channel = Channel::with_config(stage.network(), owner, receiver, |config| {
        (config.payer, config.payer_authorizer) = (account.address(), Address::ZERO);
    });
    assert_eq!(stage.verify(&channel.deposit(DEPOSIT, PRICE)).await["isValid"], true);
    // The deposit is signed as before, but the key signs the voucher.
    channel.voucher_key = account;
    let answer = stage.verify(&channel.deposit(DEPOSIT, PRICE)).await;
    assert_eq!(reason(&answer), full_code("voucher_signature"), "{answer}");
    stage.facilitator.stop().await;
}

/// The token is paused between a deposit and a payout.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_token_moves_nothing_into_or_out_of_a_channel() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.open_channel().await;
    stage.settle_and_assert(&channel.claim(PRICE, PRICE)).await;
    stage.chain.set_paused(true).await.expect("paused");
    let answer = stage.settle(&channel.deposit(DEPOSIT, 2 * PRICE)).await;
    assert_eq!(reason(&answer), full_code("deposit_simulation_failed"), "{answer}");
    let answer = stage.settle(&channel.sweep()).await;
    assert_eq!(reason(&answer), full_code("settle_simulation_failed"), "{answer}");
    stage.chain.set_paused(false).await.expect("resumed");
    stage.settle_and_assert(&channel.sweep()).await;
    stage.facilitator.stop().await;
}
