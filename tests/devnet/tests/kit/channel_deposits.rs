//! Deposits into payment channels: by each collector, and by a collector that the sender invents.

use alloy_primitives::aliases::U40;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::full::CHAINS;
use bursar_devnet::{Call, TokenMode, TokenQuirk};

use crate::channels::{Channel, ChannelConfig, IBatchSettlement, RECEIVER, STRANGER};
use crate::full::{DOLLAR, error_data};
use crate::permits::{Permit, failed_permits, failed_with_reason};
use crate::proxy::called_back;

sol! {
    interface ICollector {
        function collect(
            address payer, address token, uint256 amount, bytes32 channelId, bytes collectorData
        ) external;
        function x402BatchSettlement() external view returns (address);
        function PERMIT2() external view returns (address);
        function DEPOSIT_WITNESS_TYPEHASH() external view returns (bytes32);
        function DEPOSIT_WITNESS_TYPE_STRING() external view returns (string);
    }
}

/// Encodes a permit of the token in the form that the collector for Permit2 accepts.
fn encode_permit(permit: &Permit, signature: &[u8]) -> Vec<u8> {
    let parts = permit.for_proxy(signature);
    (parts.value, parts.deadline, U256::from(parts.v), parts.r, parts.s).abi_encode_params()
}

#[tokio::test]
async fn the_collectors_serve_the_settlement_contract_only() {
    for chain in CHAINS {
        let Some(channel) = Channel::on(chain).await else { return };
        let (trader, contracts) = (&channel.trader, &channel.trader.contracts);
        for collector in [contracts.erc3009_collector, contracts.permit2_collector] {
            let serves =
                trader.devnet.read(collector, ICollector::x402BatchSettlementCall {}).await;
            assert_eq!(serves.unwrap(), channel.contract());
            let collect = ICollector::collectCall {
                payer: trader.address,
                token: trader.dollar(),
                amount: U256::from(1),
                channelId: channel.id(),
                collectorData: Bytes::new(),
            };
            let refusal = trader.refusal(&Call::new(STRANGER, collector, &collect)).await;
            assert_eq!(refusal, error_data("OnlyX402BatchSettlement()"));
        }
        let collector = contracts.permit2_collector;
        let permit2 = trader.devnet.read(collector, ICollector::PERMIT2Call {}).await;
        assert_eq!(permit2.unwrap(), contracts.permit2);
        let kind = trader.devnet.read(collector, ICollector::DEPOSIT_WITNESS_TYPEHASHCall {}).await;
        assert_eq!(kind.unwrap(), keccak256("DepositWitness(bytes32 channelId)"));
        let text =
            trader.devnet.read(collector, ICollector::DEPOSIT_WITNESS_TYPE_STRINGCall {}).await;
        let whole = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                     uint256 nonce,uint256 deadline,";
        let documented = "0x436a25c01a21a6ed025816c4c9ea3d6132aa879dd7ef16f6188dd3b0aebccc52";
        let found = keccak256(format!("{whole}{}", text.unwrap()));
        assert_eq!(found, documented.parse::<B256>().unwrap());
    }
}

#[tokio::test]
async fn both_collectors_deposit_and_the_first_deposit_creates_the_channel() {
    for chain in CHAINS {
        let Some(channel) = Channel::on(chain).await else { return };
        channel.trader.approve(channel.config.token, channel.trader.contracts.permit2).await;
        let events = channel.events(&channel.deposit_by_authorization(5 * DOLLAR, 1)).await;
        let [created, deposited] = &events[..] else { panic!("{events:?}") };
        let config = "(address,address,address,address,address,uint40,bytes32)";
        let topic = keccak256(format!("ChannelCreated(bytes32,{config})"));
        assert_eq!(created.topics, [topic, channel.id()]);
        assert_eq!(created.data, channel.config.abi_encode());
        let topic = keccak256("Deposited(bytes32,address,uint128,uint128)");
        assert_eq!(deposited.topics, [topic, channel.id(), STRANGER.into_word()]);
        let amounts = (U256::from(5 * DOLLAR), U256::from(5 * DOLLAR));
        assert_eq!(deposited.data, amounts.abi_encode_params());

        let more = channel.deposit_by_permit2(2 * DOLLAR, 1, vec![]);
        assert_eq!(channel.event_topics(&more).await, [topic]);
        assert_eq!(channel.state().await, (7 * DOLLAR, 0));
        assert_eq!(channel.balance(channel.contract()).await, U256::from(7 * DOLLAR));
        // Each signature is valid for only one deposit.
        assert!(!channel.trader.refusal(&more).await.is_empty());
        let again = channel.deposit_by_authorization(5 * DOLLAR, 1);
        assert!(!channel.trader.refusal(&again).await.is_empty());
        channel.trader.must(&channel.deposit_by_authorization(5 * DOLLAR, 2)).await;
    }
}

#[tokio::test]
async fn a_deposit_signature_is_for_one_channel() {
    let Some(mut channel) = Channel::on(ChainId(8453)).await else { return };
    channel.trader.approve(channel.config.token, channel.trader.contracts.permit2).await;
    let signed = [
        channel.deposit_by_authorization(DOLLAR, 1),
        channel.deposit_by_permit2(DOLLAR, 1, vec![]),
    ];
    channel.config.salt = B256::repeat_byte(2);
    for call in signed {
        let data = IBatchSettlement::depositCall::abi_decode(&call.data).unwrap();
        let moved = channel.deposit(DOLLAR, data.collector, data.collectorData.to_vec());
        assert!(!channel.trader.refusal(&moved).await.is_empty());
    }
}

#[tokio::test]
async fn a_permit2_deposit_brings_a_permit_that_may_be_used_already() {
    let Some(channel) = Channel::on(ChainId(8453)).await else { return };
    let (trader, coin) = (&channel.trader, channel.config.token);
    let permit = Permit::new(trader, trader.address, 5 * DOLLAR);
    let signature = permit.sign(trader, coin, &channel.payer).await;
    let wrong = encode_permit(&Permit { value: 4 * DOLLAR, ..permit.clone() }, &signature);
    let refusal = trader.refusal(&channel.deposit_by_permit2(5 * DOLLAR, 1, wrong)).await;
    assert_eq!(refusal, error_data("Permit2612AmountMismatch()"));

    let call = channel.deposit_by_permit2(5 * DOLLAR, 1, encode_permit(&permit, &signature));
    trader.devnet.simulate(&call).await.unwrap();
    trader.must(&permit.call(trader, coin, &signature)).await;
    let logs = trader.logs(&trader.must(&call).await).await;
    let failed = failed_permits(&logs, coin, trader.address);
    assert_eq!(failed, [failed_with_reason("EIP2612: invalid signature")]);
    assert_eq!(channel.state().await, (5 * DOLLAR, 0));
}

#[tokio::test]
async fn an_invalid_channel_takes_no_deposit() {
    let Some(mut channel) = Channel::on(ChainId(8453)).await else { return };
    let good = channel.config.clone();
    let delay = |seconds: u64| ChannelConfig { withdrawDelay: U40::from(seconds), ..good.clone() };
    let zero = Address::ZERO;
    let cases = [
        ("InvalidChannel()", ChannelConfig { payer: zero, ..good.clone() }),
        ("InvalidChannel()", ChannelConfig { receiver: zero, ..good.clone() }),
        ("InvalidChannel()", ChannelConfig { receiverAuthorizer: zero, ..good.clone() }),
        ("InvalidChannel()", ChannelConfig { token: zero, ..delay(0) }),
        ("WithdrawDelayOutOfRange()", delay(899)),
        ("WithdrawDelayOutOfRange()", delay(2_592_001)),
    ];
    for (error, config) in cases {
        channel.config = config;
        let refusal = channel.trader.refusal(&channel.deposit(0, zero, vec![])).await;
        assert_eq!(refusal, error_data(error), "{:?}", channel.config);
    }
    channel.config = good.clone();
    let refusal = channel.trader.refusal(&channel.deposit(0, zero, vec![])).await;
    assert_eq!(refusal, error_data("ZeroDeposit()"));
    let refusal = channel.trader.refusal(&channel.deposit(1, zero, vec![])).await;
    assert_eq!(refusal, error_data("InvalidCollector()"));
    for seconds in [900, 2_592_000] {
        channel.config = delay(seconds);
        channel.trader.must(&channel.deposit_by_authorization(1, 1)).await;
    }
    // The channel has no voucher key, so the payer signs.
    channel.config = ChannelConfig { payerAuthorizer: zero, ..good };
    channel.trader.must(&channel.deposit_by_authorization(1, 1)).await;
    let refusal = channel.trader.refusal(&channel.deposit_by_authorization(u128::MAX, 2)).await;
    assert_eq!(refusal, error_data("DepositOverflow()"));
}

#[tokio::test]
async fn any_collector_is_called_and_the_balance_decides() {
    let Some(channel) = Channel::on(ChainId(8453)).await else { return };
    let trader = &channel.trader;
    // The code does nothing and succeeds.
    let idle = Address::repeat_byte(0x43);
    trader.devnet.request("anvil_setCode", serde_json::json!([idle, "0x00"])).await.unwrap();
    let call = channel.deposit(DOLLAR, idle, b"anything".to_vec());
    assert_eq!(trader.refusal(&call).await, error_data("DepositCollectionFailed()"));
}

#[tokio::test]
async fn a_token_with_a_fee_cannot_be_deposited() {
    let Some(mut channel) = Channel::on(ChainId(8453)).await else { return };
    let devnet = channel.trader.devnet.clone();
    let token = devnet.deploy_token("Fee", "1", TokenMode::TakesFee).await.unwrap();
    devnet.mint_of(token, channel.trader.address, 5 * DOLLAR).await.unwrap();
    channel.trader.approve(token, channel.trader.contracts.permit2).await;
    channel.config.token = token;
    let call = channel.deposit_by_permit2(DOLLAR, 1, vec![]);
    assert_eq!(channel.trader.refusal(&call).await, error_data("DepositCollectionFailed()"));
    devnet.set_token_mode(token, TokenMode::Honest).await.unwrap();
    channel.trader.must(&call).await;
}

#[tokio::test]
async fn a_token_cannot_call_the_contract_back_within_a_deposit() {
    let Some(mut channel) = Channel::on(ChainId(8453)).await else { return };
    let devnet = channel.trader.devnet.clone();
    let odd = devnet.deploy_odd_token("Odd", TokenQuirk::Calls).await.unwrap();
    devnet.mint_of(odd, channel.trader.address, 5 * DOLLAR).await.unwrap();
    channel.trader.approve(odd, channel.trader.contracts.permit2).await;
    channel.config.token = odd;
    // Outside a deposit, a sweep of nothing succeeds.
    let sweep = IBatchSettlement::settleCall { receiver: RECEIVER, token: odd };
    let data = sweep.abi_encode().into();
    devnet.set_token_callback(odd, channel.contract(), data).await.unwrap();
    let receipt = channel.trader.must(&channel.deposit_by_permit2(DOLLAR, 1, vec![])).await;
    assert_eq!(called_back(&channel.trader.logs(&receipt).await), Some(false));
    channel.trader.must(&channel.call(STRANGER, &sweep)).await;
}
