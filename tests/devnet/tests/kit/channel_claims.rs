//! Claims of vouchers, and sweeps of the claimed amounts.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_core::networks::ChainId;
use bursar_devnet::Call;

use crate::channels::{Channel, ChannelConfig, IBatchSettlement, RECEIVER, STRANGER, VoucherClaim};
use crate::full::{DOLLAR, error_data};
use crate::payer::Payer;

fn claim_of(channel: &Channel, from: Address, rows: Vec<VoucherClaim>) -> Call {
    channel.call(from, &IBatchSettlement::claimCall { voucherClaims: rows })
}

#[tokio::test]
async fn a_claim_moves_no_money_and_a_sweep_by_a_stranger_does() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let call = claim_of(&channel, RECEIVER, vec![channel.row(3 * DOLLAR, 2 * DOLLAR)]);
    let events = channel.events(&call).await;
    let [claimed] = &events[..] else { panic!("{events:?}") };
    let topic = keccak256("Claimed(bytes32,address,uint128,uint128)");
    assert_eq!(claimed.topics, [topic, channel.id(), RECEIVER.into_word()]);
    assert_eq!(claimed.data, (2 * DOLLAR, 2 * DOLLAR).abi_encode_params());
    assert_eq!(channel.state().await, (5 * DOLLAR, 2 * DOLLAR));
    assert_eq!(channel.receiver().await, (2 * DOLLAR, 0));
    assert_eq!(channel.balance(RECEIVER).await, U256::ZERO);

    let sweep = IBatchSettlement::settleCall { receiver: RECEIVER, token: channel.config.token };
    let sweep = channel.call(STRANGER, &sweep);
    let events = channel.events(&sweep).await;
    let [settled] = &events[..] else { panic!("{events:?}") };
    let topic = keccak256("Settled(address,address,address,uint128)");
    let token = channel.config.token.into_word();
    assert_eq!(settled.topics, [topic, RECEIVER.into_word(), token, STRANGER.into_word()]);
    assert_eq!(settled.data, (2 * DOLLAR).abi_encode());
    assert_eq!(channel.balance(RECEIVER).await, U256::from(2 * DOLLAR));
    assert_eq!(channel.receiver().await, (2 * DOLLAR, 2 * DOLLAR));
    // A sweep of nothing succeeds without an event.
    assert!(channel.events(&sweep).await.is_empty());
    // The channel's balance still equals its deposits.
    assert_eq!(channel.state().await, (5 * DOLLAR, 2 * DOLLAR));
}

#[tokio::test]
async fn a_row_that_adds_nothing_is_skipped_before_its_signature_is_checked() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    channel.trader.must(&channel.claim(2 * DOLLAR)).await;
    let unsigned = |total| VoucherClaim { signature: Bytes::new(), ..channel.row(total, total) };
    for total in [0, DOLLAR, 2 * DOLLAR] {
        let rows = vec![unsigned(total)];
        assert!(channel.events(&claim_of(&channel, RECEIVER, rows.clone())).await.is_empty());
        let call = channel.signed_claim(rows, &channel.authorizer);
        assert!(channel.events(&call).await.is_empty());
    }
    // A valid row among skipped ones counts.
    let rows = vec![unsigned(DOLLAR), channel.row(3 * DOLLAR, 3 * DOLLAR), unsigned(3 * DOLLAR)];
    assert_eq!(channel.events(&claim_of(&channel, RECEIVER, rows)).await.len(), 1);
    assert_eq!(channel.state().await, (5 * DOLLAR, 3 * DOLLAR));
    // With one atom more, the row adds something, so its signature is checked.
    let rows = vec![unsigned(3 * DOLLAR + 1)];
    let refusal = channel.trader.refusal(&claim_of(&channel, RECEIVER, rows)).await;
    let length = B256::ZERO;
    let expected =
        [&error_data("ECDSAInvalidSignatureLength(uint256)"), length.as_slice()].concat();
    assert_eq!(refusal, expected);
}

#[tokio::test]
async fn a_claim_is_refused_with_a_named_error() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let (trader, most) = (&channel.trader, 5 * DOLLAR);
    let good = channel.row(most, most);
    let by_other = channel.row_of(&channel.config, &channel.payer, most, most);
    let claim = |from, rows| claim_of(&channel, from, rows);
    let cases = [
        ("EmptyBatch()", claim(RECEIVER, vec![])),
        ("NotAuthorizedToClaim()", claim(STRANGER, vec![good.clone()])),
        ("NotAuthorizedToClaim()", claim(trader.address, vec![good.clone()])),
        ("ClaimExceedsCeiling()", claim(RECEIVER, vec![channel.row(most - 1, most)])),
        ("ClaimExceedsBalance()", claim(RECEIVER, vec![channel.row(most + 1, most + 1)])),
        // The payer's signature does not count if the channel has a voucher key.
        ("InvalidSignature()", claim(RECEIVER, vec![by_other])),
    ];
    for (error, call) in cases {
        assert_eq!(trader.refusal(&call).await, error_data(error), "{error}");
    }
    // The receiver of one channel may not claim from another channel in the same batch.
    let config = ChannelConfig { receiver: STRANGER, ..channel.config.clone() };
    let other = channel.row_of(&config, &channel.voucher_key, 0, 0);
    let refusal = trader.refusal(&claim(RECEIVER, vec![good.clone(), other])).await;
    assert_eq!(refusal, error_data("NotAuthorizedToClaim()"));
    trader.must(&claim(channel.authorizer.address(), vec![good])).await;
}

#[tokio::test]
async fn a_stranger_claims_with_the_signature_of_the_authorizer_of_all_rows() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let trader = &channel.trader;
    let rows = vec![channel.row(DOLLAR, DOLLAR), channel.row(3 * DOLLAR, 2 * DOLLAR)];
    for key in [&channel.voucher_key, &channel.payer] {
        let refusal = trader.refusal(&channel.signed_claim(rows.clone(), key)).await;
        assert_eq!(refusal, error_data("InvalidSignature()"));
    }
    let refusal = trader.refusal(&channel.signed_claim(vec![], &channel.authorizer)).await;
    assert_eq!(refusal, error_data("EmptyBatch()"));
    let config = ChannelConfig { receiverAuthorizer: STRANGER, ..channel.config.clone() };
    let other = channel.row_of(&config, &channel.voucher_key, 0, 0);
    let mixed = [rows.clone(), vec![other]].concat();
    let refusal = trader.refusal(&channel.signed_claim(mixed, &channel.authorizer)).await;
    assert_eq!(refusal, error_data("NotReceiverAuthorizer()"));

    // The signature is for these totals.
    let call = channel.signed_claim(rows.clone(), &channel.authorizer);
    let signed = IBatchSettlement::claimWithSignatureCall::abi_decode(&call.data).unwrap();
    let more = IBatchSettlement::claimWithSignatureCall {
        voucherClaims: vec![rows[0].clone(), channel.row(3 * DOLLAR, 3 * DOLLAR)],
        ..signed
    };
    let refusal = trader.refusal(&channel.call(STRANGER, &more)).await;
    assert_eq!(refusal, error_data("InvalidSignature()"));
    assert_eq!(channel.events(&call).await.len(), 2);
    assert_eq!(channel.state().await, (5 * DOLLAR, 2 * DOLLAR));
}

#[tokio::test]
async fn contracts_authorize_claims_and_sign_vouchers() {
    let Some(mut channel) = Channel::on(ChainId(4663)).await else { return };
    let owner = Payer::new(0xc4);
    let wallet = channel.trader.devnet.deploy_wallet(owner.address()).await.unwrap();
    channel.config.receiverAuthorizer = wallet;
    channel.config.payerAuthorizer = Address::ZERO;
    channel.trader.must(&channel.deposit_by_authorization(5 * DOLLAR, 1)).await;
    let bad = channel.row_of(&channel.config, &channel.voucher_key, DOLLAR, DOLLAR);
    let refusal = channel.trader.refusal(&channel.signed_claim(vec![bad], &owner)).await;
    assert_eq!(refusal, error_data("InvalidSignature()"));
    let good = channel.row_of(&channel.config, &channel.payer, DOLLAR, DOLLAR);
    assert_eq!(channel.events(&channel.signed_claim(vec![good], &owner)).await.len(), 1);

    // If the payer is a contract, the contract decides about its vouchers.
    channel.config.payer =
        channel.trader.devnet.deploy_wallet(channel.payer.address()).await.unwrap();
    channel.trader.devnet.mint(channel.config.payer, 5 * DOLLAR).await.unwrap();
    channel.trader.must(&channel.deposit_by_authorization(5 * DOLLAR, 1)).await;
    let bad = channel.row_of(&channel.config, &channel.voucher_key, DOLLAR, DOLLAR);
    let refusal = channel.trader.refusal(&channel.signed_claim(vec![bad], &owner)).await;
    assert_eq!(refusal, error_data("InvalidSignature()"));
    let good = channel.row_of(&channel.config, &channel.payer, DOLLAR, DOLLAR);
    assert_eq!(channel.events(&channel.signed_claim(vec![good], &owner)).await.len(), 1);
}

#[tokio::test]
async fn a_multicall_runs_all_of_its_calls_or_none() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let sweep = IBatchSettlement::settleCall { receiver: RECEIVER, token: channel.config.token };
    let data = vec![channel.claim(2 * DOLLAR).data, Bytes::from(sweep.abi_encode())];
    let both = IBatchSettlement::multicallCall { data: data.clone() };
    // Each inner call has the sender of the whole call.
    let refusal = channel.trader.refusal(&channel.call(STRANGER, &both)).await;
    assert_eq!(refusal, error_data("NotAuthorizedToClaim()"));
    channel.trader.must(&channel.call(RECEIVER, &both)).await;
    assert_eq!(channel.balance(RECEIVER).await, U256::from(2 * DOLLAR));
    let unknown = [data, vec![Bytes::from_static(&[1, 2, 3, 4])]].concat();
    let unknown = IBatchSettlement::multicallCall { data: unknown };
    let refusal = channel.trader.refusal(&channel.call(RECEIVER, &unknown)).await;
    assert_eq!(refusal, error_data("FailedCall()"));
}
