//! Money that goes back to the payer of a channel: refunds by the receiver, and timed withdrawals.

use alloy_primitives::{Address, U256, keccak256};
use alloy_sol_types::SolValue;
use bursar_devnet::Call;

use crate::channels::{Channel, IBatchSettlement, RECEIVER, STRANGER};
use crate::full::{DOLLAR, error_data};

const CLOSED: &str =
    "ChannelClosed(bytes32,(address,address,address,address,address,uint40,bytes32))";

fn refund(channel: &Channel, from: Address, amount: u128) -> Call {
    let config = channel.config.clone();
    channel.call(from, &IBatchSettlement::refundCall { config, amount })
}

fn initiate(channel: &Channel, from: Address, amount: u128) -> Call {
    let config = channel.config.clone();
    channel.call(from, &IBatchSettlement::initiateWithdrawCall { config, amount })
}

fn finalize(channel: &Channel, from: Address) -> Call {
    let config = channel.config.clone();
    channel.call(from, &IBatchSettlement::finalizeWithdrawCall { config })
}

#[tokio::test]
async fn a_signed_refund_is_capped_and_used_once() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let trader = &channel.trader;
    channel.trader.must(&channel.claim(2 * DOLLAR)).await;
    let before = channel.balance(trader.address).await;
    let refused = [
        ("InvalidRefundNonce()", channel.signed_refund(DOLLAR, 1, &channel.authorizer)),
        ("InvalidSignature()", channel.signed_refund(DOLLAR, 0, &channel.voucher_key)),
        ("ZeroRefund()", channel.signed_refund(0, 0, &channel.authorizer)),
    ];
    for (error, call) in refused {
        assert_eq!(trader.refusal(&call).await, error_data(error));
    }
    // Two refunds are signed for the same nonce, so the second is stale.
    let [part, rest] =
        [DOLLAR, 9 * DOLLAR].map(|amount| channel.signed_refund(amount, 0, &channel.authorizer));
    let events = channel.events(&part).await;
    let [refunded] = &events[..] else { panic!("{events:?}") };
    let topic = keccak256("Refunded(bytes32,address,uint128)");
    assert_eq!(refunded.topics, [topic, channel.id(), STRANGER.into_word()]);
    assert_eq!(refunded.data, DOLLAR.abi_encode());
    assert_eq!(trader.refusal(&rest).await, error_data("InvalidRefundNonce()"));

    let rest = channel.signed_refund(9 * DOLLAR, 1, &channel.authorizer);
    assert_eq!(channel.events(&rest).await[0].data, (2 * DOLLAR).abi_encode());
    assert_eq!(channel.state().await, (2 * DOLLAR, 2 * DOLLAR));
    assert_eq!(channel.balance(trader.address).await - before, U256::from(3 * DOLLAR));
    // Nothing is left, so the refund emits no event, but it uses the nonce.
    let nothing = channel.signed_refund(DOLLAR, 2, &channel.authorizer);
    assert!(channel.events(&nothing).await.is_empty());
    assert_eq!(channel.refund_nonce().await, U256::from(3));
}

#[tokio::test]
async fn a_refund_by_the_receiver_makes_signed_ones_stale_and_may_close_the_channel() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let trader = &channel.trader;
    let signed = channel.signed_refund(DOLLAR, 0, &channel.authorizer);
    for from in [STRANGER, trader.address] {
        let refusal = trader.refusal(&refund(&channel, from, DOLLAR)).await;
        assert_eq!(refusal, error_data("NotAuthorizedToRefund()"));
    }
    trader.must(&refund(&channel, channel.authorizer.address(), DOLLAR)).await;
    assert_eq!(trader.refusal(&signed).await, error_data("InvalidRefundNonce()"));
    let reports = channel.event_topics(&refund(&channel, RECEIVER, u128::MAX)).await;
    let refunded = keccak256("Refunded(bytes32,address,uint128)");
    assert_eq!(reports, [refunded, keccak256(CLOSED)]);
    // The next deposit creates the channel again.
    let reports = channel.event_topics(&channel.deposit_by_authorization(DOLLAR, 2)).await;
    assert_eq!(reports.len(), 2);
}

#[tokio::test]
async fn a_withdrawal_takes_its_time() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let (trader, authorizer) = (&channel.trader, channel.voucher_key.address());
    let cases = [
        ("InvalidChannel()", initiate(&channel, RECEIVER, DOLLAR)),
        ("InvalidChannel()", initiate(&channel, STRANGER, DOLLAR)),
        ("NothingToWithdraw()", initiate(&channel, trader.address, 0)),
        ("WithdrawAmountExceedsAvailable()", initiate(&channel, trader.address, 5 * DOLLAR + 1)),
        ("WithdrawalNotPending()", finalize(&channel, trader.address)),
        ("NotAuthorizedToFinalizeWithdraw()", finalize(&channel, channel.authorizer.address())),
    ];
    for (error, call) in cases {
        assert_eq!(trader.refusal(&call).await, error_data(error), "{error}");
    }
    let topic = keccak256("WithdrawInitiated(bytes32,uint128,uint40)");
    assert_eq!(channel.event_topics(&initiate(&channel, authorizer, 4 * DOLLAR)).await, [topic]);
    assert_eq!(channel.pending().await, (4 * DOLLAR, true));
    let refusal = trader.refusal(&initiate(&channel, trader.address, DOLLAR)).await;
    assert_eq!(refusal, error_data("WithdrawalAlreadyPending()"));
    let refusal = trader.refusal(&finalize(&channel, trader.address)).await;
    assert_eq!(refusal, error_data("WithdrawDelayNotElapsed()"));

    // The receiver claims in time, so the withdrawal pays less.
    channel.trader.must(&channel.claim(3 * DOLLAR)).await;
    channel.advance_clock(900).await;
    for from in [STRANGER, RECEIVER] {
        let refusal = trader.refusal(&finalize(&channel, from)).await;
        assert_eq!(refusal, error_data("NotAuthorizedToFinalizeWithdraw()"));
    }
    let before = channel.balance(trader.address).await;
    let events = channel.events(&finalize(&channel, authorizer)).await;
    let [finalized] = &events[..] else { panic!("{events:?}") };
    let topic = keccak256("WithdrawFinalized(bytes32,address,uint128)");
    assert_eq!(finalized.topics, [topic, channel.id(), authorizer.into_word()]);
    assert_eq!(finalized.data, (2 * DOLLAR).abi_encode());
    // The payer gets the money, although its voucher key sent the call.
    assert_eq!(channel.balance(trader.address).await - before, U256::from(2 * DOLLAR));
    assert_eq!(channel.state().await, (3 * DOLLAR, 3 * DOLLAR));
    assert_eq!(channel.pending().await, (0, false));
}

#[tokio::test]
async fn a_late_claim_fails_after_the_withdrawal() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let trader = &channel.trader;
    trader.must(&initiate(&channel, trader.address, 5 * DOLLAR)).await;
    channel.advance_clock(900).await;
    let reports = channel.event_topics(&finalize(&channel, trader.address)).await;
    let finalized = keccak256("WithdrawFinalized(bytes32,address,uint128)");
    assert_eq!(reports, [finalized, keccak256(CLOSED)]);
    let refusal = trader.refusal(&channel.claim(DOLLAR)).await;
    assert_eq!(refusal, error_data("ClaimExceedsBalance()"));
}

#[tokio::test]
async fn a_refund_reduces_a_pending_withdrawal() {
    let Some(channel) = Channel::with_deposit(5 * DOLLAR).await else { return };
    let trader = &channel.trader;
    trader.must(&initiate(&channel, trader.address, 4 * DOLLAR)).await;
    trader.must(&refund(&channel, RECEIVER, DOLLAR)).await;
    assert_eq!(channel.pending().await, (3 * DOLLAR, true));
    // Makes claims and a refund in one transaction, as a facilitator does.
    let signed = [
        channel.signed_claim(vec![channel.row(DOLLAR, DOLLAR)], &channel.authorizer),
        channel.signed_refund(3 * DOLLAR, 1, &channel.authorizer),
    ];
    let data = signed.map(|call| call.data).to_vec();
    trader.must(&channel.call(STRANGER, &IBatchSettlement::multicallCall { data })).await;
    assert_eq!(channel.pending().await, (0, false));
    assert_eq!(channel.state().await, (DOLLAR, DOLLAR));
}
