//! The scheme `batch-settlement`: a channel's whole life, every refusal, copies and kills.

use alloy_primitives::{Address, B256, U256, address, b256, keccak256};
use bursar_core::networks::{ChainId, Network};
use bursar_devnet::full::full_chain_or_skip;
use bursar_devnet::{Call, WalletMode};
use bursar_tests::counting_rpc::CountingRpc;
use bursar_tests::payer::{PERMIT2, Payer, now_s, random_word};
use bursar_x402::channel::deposit::{DepositTerms, Eip3009Authorization, Permit2Authorization};
use bursar_x402::channel::payload::ClaimRow;
use bursar_x402::channel::{ChannelConfig, EscrowDomain, IBatchSettlement, WithdrawDelay};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::kills::{assert_tidy, settle_all};
use crate::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage, prepared_home};

pub(crate) const ESCROW: Address = address!("0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003");
const EIP3009_COLLECTOR: Address = address!("0x4020806089470a89826cB9fB1f4059150b550004");
const PERMIT2_COLLECTOR: Address = address!("0x4020425FAf3B746C082C2f942b4E5159887B0005");
pub(crate) const DEPOSIT: u128 = 1_000_000;
pub(crate) const PRICE: u128 = 1_000;

/// A channel between a payer and a merchant, with the keys of both.
pub(crate) struct Channel {
    network: &'static Network,
    payer: Payer,
    authorizer: Payer,
    pub(crate) config: ChannelConfig,
    pub(crate) id: B256,
}

impl Channel {
    pub(crate) fn new(network: &'static Network, payer: Payer, receiver: Address) -> Self {
        Self::with(network, payer, receiver, |_config| {})
    }

    /// Like `new`, with a changed config.
    pub(crate) fn with(
        network: &'static Network,
        payer: Payer,
        receiver: Address,
        change: impl FnOnce(&mut ChannelConfig),
    ) -> Self {
        let authorizer = Payer::random();
        let mut config = ChannelConfig {
            payer: payer.address(),
            payer_authorizer: payer.address(),
            receiver,
            receiver_authorizer: authorizer.address(),
            token: network.stablecoin.address,
            withdraw_delay: WithdrawDelay::try_from(900).expect("short"),
            salt: random_word(),
        };
        change(&mut config);
        let id = EscrowDomain::new(network.chain, ESCROW).channel_id(&config);
        Self { network, payer, authorizer, config, id }
    }

    fn domain(&self) -> EscrowDomain {
        EscrowDomain::new(self.network.chain, ESCROW)
    }

    pub(crate) fn config_json(&self) -> Value {
        let config = &self.config;
        json!({
            "payer": config.payer, "payerAuthorizer": config.payer_authorizer,
            "receiver": config.receiver, "receiverAuthorizer": config.receiver_authorizer,
            "token": config.token, "withdrawDelay": config.withdraw_delay.seconds(),
            "salt": config.salt,
        })
    }

    fn voucher_signature(&self, ceiling: u128) -> String {
        self.payer.sign(self.domain().voucher_digest(self.id, ceiling))
    }

    pub(crate) fn voucher_json(&self, ceiling: u128) -> Value {
        json!({
            "channelId": self.id, "maxClaimableAmount": ceiling.to_string(),
            "signature": self.voucher_signature(ceiling),
        })
    }

    /// The body of a request with this payload.
    pub(crate) fn body(&self, payload: Value) -> Value {
        let coin = &self.network.stablecoin;
        let wanted = json!({
            "scheme": "batch-settlement", "network": self.network.caip2(),
            "amount": PRICE.to_string(), "asset": self.config.token, "payTo": self.config.receiver,
            "maxTimeoutSeconds": 60,
            "extra": {
                "name": coin.domain_name, "version": coin.domain_version,
                "receiverAuthorizer": self.config.receiver_authorizer,
                "withdrawDelay": self.config.withdraw_delay.seconds(),
            },
        });
        json!({
            "x402Version": 2,
            "paymentPayload": { "x402Version": 2, "accepted": wanted, "payload": payload },
            "paymentRequirements": wanted,
        })
    }

    /// A deposit by EIP-3009, with a voucher for `ceiling`.
    pub(crate) fn deposit(&self, amount: u128, ceiling: u128) -> Value {
        let authorization = Eip3009Authorization {
            valid_after: U256::ZERO,
            valid_before: U256::from(now_s() + 300),
            salt: U256::from_be_bytes(random_word().0),
            signature: Default::default(),
        };
        let terms = DepositTerms {
            payer: self.config.payer,
            collector: EIP3009_COLLECTOR,
            channel_id: self.id,
            amount,
        };
        let digest = authorization.digest(self.network.stablecoin.domain_separator, &terms);
        self.body(json!({
            "type": "deposit", "channelConfig": self.config_json(),
            "voucher": self.voucher_json(ceiling),
            "deposit": { "amount": amount.to_string(), "authorization": { "erc3009Authorization": {
                "validAfter": "0", "validBefore": authorization.valid_before.to_string(),
                "salt": format!("0x{:064x}", authorization.salt),
                "signature": self.payer.sign(digest),
            } } },
        }))
    }

    /// A deposit by Permit2, with a voucher for `ceiling`.
    pub(crate) fn deposit_by_permit2(&self, amount: u128, ceiling: u128) -> Value {
        let authorization = Permit2Authorization {
            from: self.config.payer,
            token: self.config.token,
            amount: U256::from(amount),
            spender: PERMIT2_COLLECTOR,
            nonce: U256::from_be_bytes(random_word().0),
            deadline: U256::from(now_s() + 300),
            channel_id: self.id,
            signature: Default::default(),
        };
        let kind = b256!("0x8cad95687ba82c2ce50e74f7b754645e5117c3a5bec8151c0726d5857980a866");
        let chain = B256::from(U256::from(self.network.chain.0));
        let separator =
            keccak256([kind, keccak256("Permit2"), chain, PERMIT2.into_word()].concat());
        let digest = authorization.digest(separator);
        self.body(json!({
            "type": "deposit", "channelConfig": self.config_json(),
            "voucher": self.voucher_json(ceiling),
            "deposit": { "amount": amount.to_string(), "authorization": { "permit2Authorization": {
                "from": authorization.from,
                "permitted": { "token": authorization.token, "amount": amount.to_string() },
                "spender": authorization.spender, "nonce": authorization.nonce.to_string(),
                "deadline": authorization.deadline.to_string(),
                "witness": { "channelId": self.id }, "signature": self.payer.sign(digest),
            } } },
        }))
    }

    pub(crate) fn voucher(&self, ceiling: u128) -> Value {
        self.body(json!({
            "type": "voucher", "channelConfig": self.config_json(),
            "voucher": self.voucher_json(ceiling),
        }))
    }

    fn row(&self, ceiling: u128, total: u128) -> (ClaimRow, Value) {
        let signature = self.voucher_signature(ceiling);
        let row = ClaimRow {
            channel: self.config.clone(),
            max_claimable: ceiling,
            signature: signature.parse().expect("hex"),
            total_claimed: total,
        };
        let json = json!({
            "voucher": { "channel": self.config_json(), "maxClaimableAmount": ceiling.to_string() },
            "signature": signature, "totalClaimed": total.to_string(),
        });
        (row, json)
    }

    /// A claim of `total`, under a voucher for `ceiling`.
    pub(crate) fn claim(&self, ceiling: u128, total: u128) -> Value {
        let (row, json) = self.row(ceiling, total);
        let signature = self.authorizer.sign(self.domain().claim_batch_digest(&[row]));
        self.body(json!({
            "type": "claim", "claims": [json], "claimAuthorizerSignature": signature,
        }))
    }

    pub(crate) fn sweep(&self) -> Value {
        self.body(json!({
            "type": "settle", "receiver": self.config.receiver, "token": self.config.token,
        }))
    }

    /// A refund, with a claim of `claimed` first if that is not zero.
    pub(crate) fn refund(&self, amount: u128, nonce: u64, claimed: u128) -> Value {
        let digest = self.domain().refund_digest(self.id, U256::from(nonce), amount);
        let mut payload = json!({
            "type": "refund", "channelConfig": self.config_json(),
            "voucher": self.voucher_json(claimed), "amount": amount.to_string(),
            "refundNonce": nonce.to_string(), "claims": [],
            "refundAuthorizerSignature": self.authorizer.sign(digest),
        });
        if claimed > 0 {
            let (row, json) = self.row(claimed, claimed);
            payload["claims"] = json!([json]);
            let batch = self.domain().claim_batch_digest(&[row]);
            payload["claimAuthorizerSignature"] = json!(self.authorizer.sign(batch));
        }
        self.body(payload)
    }

    fn state(&self, balance: u128, claimed: u128, nonce: u64) -> Value {
        json!({
            "channelId": self.id, "balance": balance.to_string(),
            "totalClaimed": claimed.to_string(), "withdrawRequestedAt": 0,
            "refundNonce": nonce.to_string(),
        })
    }
}

fn reason(answer: &Value) -> &str {
    let code = [&answer["errorReason"], &answer["invalidReason"]];
    code.into_iter().find_map(Value::as_str).unwrap_or_default()
}

/// A code of the scheme.
fn code(name: &str) -> String {
    format!("invalid_batch_settlement_evm_{name}")
}

impl Stage {
    async fn channel(&self) -> Channel {
        Channel::new(self.network(), self.payer().await, Payer::random().address())
    }

    /// A channel with a deposit.
    async fn open_channel(&self) -> Channel {
        let channel = self.channel().await;
        let answer = self.settle(&channel.deposit(DEPOSIT, PRICE)).await;
        assert_eq!(answer["success"], true, "{answer}");
        channel
    }

    async fn settled(&self, body: &Value) -> Value {
        let answer = self.settle(body).await;
        assert_eq!(answer["success"], true, "{answer}");
        answer
    }
}

async fn whole_life(chain: ChainId) {
    let Some(stage) = Stage::set_up(chain, 2, "").await else { return };
    let channel = stage.channel().await;
    let (payer, receiver) = (channel.config.payer, channel.config.receiver);
    let initial = stage.balance(payer).await;

    // A deposit with the voucher of the first request.
    let body = channel.deposit(DEPOSIT, PRICE);
    let verified = stage.verify(&body).await;
    let expected = json!({ "isValid": true, "payer": payer, "extra": channel.state(0, 0, 0) });
    assert_eq!(verified, expected);
    let answer = stage.settled(&body).await;
    let expected = json!({
        "success": true, "transaction": answer["transaction"], "payer": payer,
        "network": stage.network().caip2(), "amount": DEPOSIT.to_string(),
        "extra": { "channelState": channel.state(DEPOSIT, 0, 0) },
    });
    assert_eq!(answer, expected);
    assert_eq!(stage.balance(payer).await, initial - U256::from(DEPOSIT));

    // The same deposit with another voucher is not the merchant's own repeat.
    let mut other = body.clone();
    other["paymentPayload"]["payload"]["voucher"] = channel.voucher_json(2 * PRICE);
    let reply = stage.settle_with_key_of(&other, &body).await;
    assert_eq!(reason(&reply), "duplicate_settlement", "{reply}");
    assert_eq!(stage.settle(&body).await, answer, "the merchant's own repeat");

    // Two more requests, by vouchers alone.
    for n in 2..=3_u128 {
        let verified = stage.verify(&channel.voucher(n * PRICE)).await;
        let extra = channel.state(DEPOSIT, 0, 0);
        assert_eq!(verified, json!({ "isValid": true, "payer": payer, "extra": extra }));
        let refused = stage.settle(&channel.voucher(n * PRICE)).await;
        assert_eq!(reason(&refused), code("payload_type"), "the merchant keeps it: {refused}");
    }

    // A top-up by Permit2.
    let answer = stage.settled(&channel.deposit_by_permit2(500_000, 4 * PRICE)).await;
    let total = DEPOSIT + 500_000;
    assert_eq!(answer["extra"]["channelState"], channel.state(total, 0, 0));

    // A claim of what was used, and its payout.
    let answer = stage.settled(&channel.claim(4 * PRICE, 4 * PRICE - 1)).await;
    let expected = json!({
        "success": true, "transaction": answer["transaction"],
        "network": stage.network().caip2(),
    });
    assert_eq!(answer, expected);
    let extra = channel.state(total, 4 * PRICE - 1, 0);
    assert_eq!(stage.verify(&channel.voucher(5 * PRICE)).await["extra"], extra);
    assert_eq!(stage.balance(receiver).await, U256::ZERO);
    let answer = stage.settled(&channel.sweep()).await;
    assert_eq!(answer["amount"], (4 * PRICE - 1).to_string(), "{answer}");
    assert_eq!(stage.balance(receiver).await, U256::from(4 * PRICE - 1));

    // A refund of a part, and then of everything that is left after the last claim.
    let answer = stage.settled(&channel.refund(100_000, 0, 0)).await;
    assert_eq!((&answer["amount"], &answer["payer"]), (&json!("100000"), &json!(payer)));
    let state = channel.state(total - 100_000, 4 * PRICE - 1, 1);
    assert_eq!(answer["extra"]["channelState"], state);
    let answer = stage.settled(&channel.refund(u128::MAX, 1, 5 * PRICE)).await;
    let rest = total - 100_000 - 5 * PRICE;
    assert_eq!(answer["amount"], rest.to_string());
    assert_eq!(answer["extra"]["channelState"], channel.state(5 * PRICE, 5 * PRICE, 2));
    let answer = stage.settled(&channel.sweep()).await;
    assert_eq!(answer["amount"], (PRICE + 1).to_string());

    // Every unit is accounted for.
    assert_eq!(stage.balance(receiver).await, U256::from(5 * PRICE));
    assert_eq!(stage.balance(payer).await, initial - U256::from(5 * PRICE));
    assert_eq!(stage.balance(ESCROW).await, U256::ZERO);
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_lives_from_its_deposit_to_its_refund_on_base() {
    whole_life(BASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_lives_from_its_deposit_to_its_refund_on_robinhood() {
    whole_life(ROBINHOOD).await;
}

/// A hundred equal requests of each kind are one transaction and one success.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_parallel_copies_of_each_job_are_one_success_and_99_duplicates() {
    let Some(stage) = Stage::set_up(BASE, 2, "").await else { return };
    let fresh = stage.channel().await;
    let by_permit2 = stage.channel().await;
    let open = stage.open_channel().await;
    let bodies = [
        fresh.deposit(DEPOSIT, PRICE),
        by_permit2.deposit_by_permit2(DEPOSIT, PRICE),
        open.claim(PRICE, PRICE),
        open.sweep(),
        open.refund(10_000, 0, 0),
    ];
    for body in bodies {
        let kind = body["paymentPayload"]["payload"]["type"].clone();
        let answers = join_all((0..100).map(|_one| stage.settle_without_key(&body))).await;
        let (good, bad): (Vec<_>, Vec<_>) =
            answers.iter().partition(|answer| answer["success"] == true);
        assert_eq!((good.len(), bad.len()), (1, 99), "{kind}: {:?}", bad.first());
        for duplicate in bad {
            assert_eq!(reason(duplicate), "duplicate_settlement", "{kind}: {duplicate}");
            let hash = &duplicate["extra"]["transaction"];
            assert!(hash.is_null() || *hash == good[0]["transaction"], "{kind}: {duplicate}");
        }
    }
    assert_eq!(stage.balance(open.config.receiver).await, U256::from(PRICE));
    let state = stage.verify(&open.voucher(2 * PRICE)).await;
    assert_eq!(state["extra"], open.state(DEPOSIT - 10_000, PRICE, 1));
    stage.facilitator.stop().await;
}

/// A claim that adds nothing succeeds without a transaction, and only once.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_adds_nothing_costs_nothing() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.open_channel().await;
    stage.settled(&channel.claim(PRICE, PRICE)).await;
    let block = stage.chain.request("eth_blockNumber", json!([])).await.expect("a number");
    // The same total under a higher voucher is another claim.
    let body = channel.claim(2 * PRICE, PRICE);
    let answer = stage.settle_without_key(&body).await;
    let expected = json!({ "success": true, "transaction": "", "network": "eip155:8453" });
    assert_eq!(answer, expected);
    assert_eq!(reason(&stage.settle_without_key(&body).await), "duplicate_settlement");
    // A voucher that its payer did not sign is refused, although the escrow would skip it.
    let mut forged = channel.claim(3 * PRICE, PRICE);
    let signature = Payer::random().sign(B256::repeat_byte(1));
    forged["paymentPayload"]["payload"]["claims"][0]["signature"] = json!(signature);
    assert_eq!(reason(&stage.settle(&forged).await), code("voucher_signature"));
    let after = stage.chain.request("eth_blockNumber", json!([])).await.expect("a number");
    assert_eq!(block, after, "no transaction");
    stage.facilitator.stop().await;
}

/// The refusals that follow from the request alone.
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
    let both = {
        let mut both = deposit.clone();
        let from = permit["paymentPayload"]["payload"]["deposit"]["authorization"].clone();
        both["paymentPayload"]["payload"]["deposit"]["authorization"]["permit2Authorization"] =
            from["permit2Authorization"].clone();
        both
    };
    let (row, row_json) = channel.row(PRICE, PRICE);
    let (other_row, other_json) = other.row(PRICE, PRICE);
    let rows = |rows: &[ClaimRow], json: Value| {
        let signature = channel.authorizer.sign(channel.domain().claim_batch_digest(rows));
        channel.body(json!({
            "type": "claim", "claims": json, "claimAuthorizerSignature": signature,
        }))
    };
    let upper_id = format!("0x{:X}", U256::from_be_bytes(channel.id.0));
    // At both endpoints.
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
        (
            "permit2_invalid_spender",
            with(&permit, &format!("{authorization}/permit2Authorization/spender"), json!(ESCROW)),
        ),
        (
            "permit2_amount_mismatch",
            with(&permit, &format!("{payload}/deposit/amount"), json!("999999")),
        ),
        ("deposit_below_min_deposit", channel.deposit(0, PRICE)),
    ];
    // Only to settle.
    let settles = [
        (code("claim_payload"), rows(&[row.clone(), row.clone()], json!([row_json, row_json]))),
        (code("claim_payload"), rows(&[row.clone(), other_row], json!([row_json, other_json]))),
        (code("claim_simulation_failed"), channel.claim(PRICE, PRICE + 1)),
        (
            code("authorizer_not_configured"),
            with(&claim, &format!("{payload}/claimAuthorizerSignature"), Value::Null),
        ),
        (
            code("authorizer_not_configured"),
            with(&refund, &format!("{payload}/refundAuthorizerSignature"), Value::Null),
        ),
        (code("refund_amount_invalid"), channel.refund(0, 0, 0)),
    ];
    let delay = {
        let short = Channel::with(stage.network(), channel.payer.clone(), ESCROW, |config| {
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
            assert_eq!(reason(&answer), code(name), "{answer}");
        }
    }
    for answer in both_endpoints(&delay).await {
        assert_eq!(reason(&answer), code("withdraw_delay_out_of_range"), "{answer}");
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
    for path in ["/verify"] {
        for body in [&claim, &channel.sweep()] {
            let (_status, answer) = stage.facilitator.post(path, body).await;
            assert_eq!(reason(&answer), code("payload_type"), "{answer}");
        }
    }
}

/// Far too many rows are refused before any of them is read.
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
    assert_eq!(reason(&answer), code("claim_payload"), "{answer}");
    stage.facilitator.stop().await;
}

/// The refusals that a node decides. None costs a transaction.
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
        (code("permit2_allowance_required"), unapproved.deposit_by_permit2(DEPOSIT, PRICE)),
        (code("cumulative_exceeds_balance"), fresh.deposit(DEPOSIT, DEPOSIT + 1)),
        (code("cumulative_exceeds_balance"), channel.claim(DEPOSIT + 1, DEPOSIT + 1)),
        (code("claim_simulation_failed"), by_stranger),
        (code("nothing_to_settle"), fresh.sweep()),
        ("refund_nonce_mismatch".to_owned(), channel.refund(PRICE, 1, 0)),
        (code("refund_simulation_failed"), refund_by_stranger),
        (code("channel_not_found"), fresh.refund(PRICE, 0, 0)),
    ] {
        let answer = stage.settle(&body).await;
        assert_eq!(reason(&answer), wanted, "{answer}");
        assert_eq!(answer["transaction"], "", "{answer}");
    }
    for (wanted, body) in [
        (code("channel_not_found"), fresh.voucher(PRICE)),
        (code("cumulative_exceeds_balance"), channel.voucher(DEPOSIT + 1)),
    ] {
        assert_eq!(reason(&stage.verify(&body).await), wanted);
    }
    let after = stage.chain.request("eth_blockNumber", json!([])).await.expect("a number");
    assert_eq!(block, after, "no transaction");
    stage.settled(&channel.claim(PRICE, PRICE)).await;
    // A voucher equal to what was claimed is valid only for a refund.
    let low = stage.verify(&channel.voucher(PRICE)).await;
    assert_eq!(reason(&low), code("cumulative_below_claimed"));
    let ask = channel.body(json!({
        "type": "refund", "channelConfig": channel.config_json(),
        "voucher": channel.voucher_json(PRICE),
    }));
    assert_eq!(stage.verify(&ask).await["isValid"], true);
    // Nothing is left once everything was claimed.
    stage.settled(&channel.claim(DEPOSIT, DEPOSIT)).await;
    let answer = stage.settle(&channel.refund(PRICE, 0, 0)).await;
    assert_eq!(reason(&answer), code("refund_no_balance"), "{answer}");
    stage.facilitator.stop().await;
}

/// Vouchers of one channel are verified without a question about it, until there is a new block.
#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_read_once_in_a_block() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let node = CountingRpc::in_front_of(chain.url()).await;
    let stage = Stage::through(chain, &node.url, 1, "", "").await;
    let channel = stage.open_channel().await;
    let first = stage.verify(&channel.voucher(2 * PRICE)).await;
    assert_eq!(first["extra"], channel.state(DEPOSIT, 0, 0), "{first}");
    let _before = node.take_methods();
    for n in 3..100 {
        let answer = stage.verify(&channel.voucher(n * PRICE)).await;
        assert_eq!(answer["extra"], first["extra"], "{answer}");
    }
    // A voucher that its payer did not sign needs no node either.
    let mut forged = channel.voucher(PRICE);
    forged["paymentPayload"]["payload"]["voucher"]["maxClaimableAmount"] = json!("7");
    assert_eq!(reason(&stage.verify(&forged).await), code("voucher_signature"));
    let asked = node.take_methods().join(",");
    assert!(!asked.contains("eth_call"), "{asked}");

    // What a stranger's block changes is seen once the block is known.
    let call =
        IBatchSettlement::initiateWithdrawCall { config: (&channel.config).into(), amount: 5 };
    let withdraw = Call::new(channel.config.payer, ESCROW, &call);
    let gas = json!([channel.config.payer, U256::from(10).pow(U256::from(20))]);
    stage.chain.request("anvil_setBalance", gas).await.expect("set");
    stage.chain.send_as(&withdraw).await.expect("sent");
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = stage.verify(&channel.voucher(2 * PRICE)).await;
        if answer["extra"]["withdrawRequestedAt"] != 0 {
            break;
        }
        assert!(Instant::now() < end, "a snapshot is kept over a block: {answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stage.facilitator.stop().await;
}

/// Contracts as payer, as signer of vouchers and as authorizer: they are asked, each job goes alone, and one that burns
/// all gas costs no more than its cap.
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
        let channel = Channel::with(stage.network(), owner, receiver, |config| {
            (config.payer, config.payer_authorizer) = (wallet, Address::ZERO);
        });
        (wallet, channel)
    };
    let (wallet, channel) = of_wallet(WalletMode::Honest).await;
    assert_eq!(stage.verify(&channel.deposit(DEPOSIT, PRICE)).await["isValid"], true);
    stage.settled(&channel.deposit(DEPOSIT, PRICE)).await;
    stage.settled(&channel.deposit_by_permit2(DEPOSIT, PRICE)).await;
    assert_eq!(stage.verify(&channel.voucher(PRICE)).await["isValid"], true);
    stage.settled(&channel.claim(PRICE, PRICE)).await;
    // A key that does not own the wallet.
    let mut forged = channel.voucher(2 * PRICE);
    let stranger = json!(Payer::random().sign(B256::repeat_byte(1)));
    forged["paymentPayload"]["payload"]["voucher"]["signature"] = stranger;
    assert_eq!(reason(&stage.verify(&forged).await), code("voucher_signature"));
    // A wallet that burns gas only in a transaction, not in a simulation.
    stage.chain.set_hostile_mode(wallet, WalletMode::BurnsWhenSent).await.expect("set");
    let answer = stage.settle(&channel.claim(2 * PRICE, 2 * PRICE)).await;
    assert_eq!(reason(&answer), code("claim_transaction_failed"), "{answer}");
    let (_wallet, hostile) = of_wallet(WalletMode::BurnsWhenSent).await;
    let answer = stage.settle(&hostile.deposit(DEPOSIT, PRICE)).await;
    assert_eq!(reason(&answer), code("deposit_transaction_failed"), "{answer}");

    // An authorizer that is a contract.
    let payer = stage.payer().await;
    let owner = Payer::random();
    let authorizer = stage.chain.deploy_hostile_wallet(owner.address(), WalletMode::Honest).await;
    let authorizer = authorizer.expect("deployed");
    let receiver = Payer::random().address();
    let mut guarded = Channel::with(stage.network(), payer, receiver, |config| {
        config.receiver_authorizer = authorizer;
    });
    guarded.authorizer = owner;
    stage.settled(&guarded.deposit(DEPOSIT, PRICE)).await;
    stage.settled(&guarded.claim(PRICE, PRICE)).await;
    stage.settled(&guarded.refund(PRICE, 0, 0)).await;
    stage.chain.set_hostile_mode(authorizer, WalletMode::BurnsWhenSent).await.expect("set");
    let answer = stage.settle(&guarded.refund(PRICE, 1, 0)).await;
    assert_eq!(reason(&answer), code("refund_transaction_failed"), "{answer}");
    stage.facilitator.stop().await;
}

/// A token that stops between a deposit and a payout.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_token_moves_nothing_into_or_out_of_a_channel() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.open_channel().await;
    stage.settled(&channel.claim(PRICE, PRICE)).await;
    stage.chain.set_paused(true).await.expect("paused");
    let answer = stage.settle(&channel.deposit(DEPOSIT, 2 * PRICE)).await;
    assert_eq!(reason(&answer), code("deposit_simulation_failed"), "{answer}");
    let answer = stage.settle(&channel.sweep()).await;
    assert_eq!(reason(&answer), code("settle_simulation_failed"), "{answer}");
    stage.chain.set_paused(false).await.expect("resumed");
    stage.settled(&channel.sweep()).await;
    stage.facilitator.stop().await;
}

/// A stranger sends the payout first: the merchant's request succeeds with the stranger's transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_by_a_stranger_is_the_success_of_the_request() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.open_channel().await;
    // An earlier payout of the same amount is not taken for this one.
    stage.settled(&channel.claim(PRICE, PRICE)).await;
    let earlier = stage.settled(&channel.sweep()).await;
    stage.settled(&channel.claim(2 * PRICE, 2 * PRICE)).await;
    stage.chain.set_automine(false).await.expect("set");
    let call = IBatchSettlement::settleCall {
        receiver: channel.config.receiver,
        token: channel.config.token,
    };
    let stranger = Address::repeat_byte(0x5a);
    let gas = U256::from(10).pow(U256::from(20));
    stage.chain.request("anvil_setBalance", json!([stranger, gas])).await.expect("set");
    let sweep = Call::new(stranger, ESCROW, &call);
    let body = channel.sweep();
    let (answer, (theirs, _mining)) = tokio::join!(stage.settle(&body), async {
        // Once the facilitator's own transaction waits, the stranger pays more for a place before it.
        loop {
            let pool = stage.chain.request("txpool_status", json!([])).await.expect("answered");
            if pool["pending"] != "0x0" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let hash = stage.chain.queue_as(&sweep, 50_000_000_000).await.expect("queued");
        (hash, stage.keep_mining())
    });
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(answer["transaction"], json!(theirs), "{answer}");
    assert_ne!(answer["transaction"], earlier["transaction"]);
    assert_eq!(answer["amount"], PRICE.to_string());
    assert_eq!(stage.balance(channel.config.receiver).await, U256::from(2 * PRICE));
    stage.facilitator.stop().await;
}

/// The bare form of a body: the network and the payload.
fn bare(body: &Value) -> Value {
    let mut bare = body["paymentPayload"]["payload"].clone();
    bare["network"] = body["paymentRequirements"]["network"].clone();
    bare
}

/// The endpoints of the specification: bare and full bodies, the state of a channel, and its withdrawal.
#[tokio::test(flavor = "multi_thread")]
async fn channels_have_endpoints_of_their_own() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.channel().await;
    let post = async |path: &str, body: &Value| stage.facilitator.post(path, body).await;
    let get = async |id: &str| {
        stage.facilitator.get(&format!("/batch/channel/{id}?network=eip155:8453")).await
    };
    let id = channel.id.to_string();
    assert_eq!(get(&id).await.0, 404, "no deposit yet");
    let (status, answer) = post("/batch/deposit", &bare(&channel.deposit(DEPOSIT, PRICE))).await;
    assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
    // The type follows from the path.
    let mut untyped = bare(&channel.claim(PRICE, PRICE));
    untyped.as_object_mut().expect("an object").remove("type");
    let (status, answer) = post("/batch/claim", &untyped).await;
    assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
    let (status, answer) = post("/batch/settle", &channel.sweep()).await;
    assert_eq!((status, &answer["amount"]), (200, &json!(PRICE.to_string())), "{answer}");
    let (status, answer) = post("/batch/refund", &bare(&channel.refund(5_000, 0, 0))).await;
    assert_eq!((status, &answer["amount"]), (200, &json!("5000")), "{answer}");

    // Refusals: a failed settlement of the bare form has status 402, of the full form 200.
    let (status, answer) = post("/batch/settle", &bare(&channel.sweep())).await;
    assert_eq!((status, reason(&answer)), (402, "duplicate_settlement"), "{answer}");
    let (status, answer) = post("/batch/refund", &channel.refund(5_000, 0, 0)).await;
    assert_eq!((status, reason(&answer)), (200, "duplicate_settlement"), "{answer}");
    let (status, answer) = post("/batch/claim", &channel.sweep()).await;
    assert_eq!((status, reason(&answer)), (200, &*code("payload_type")), "{answer}");
    let (status, answer) = post("/batch/deposit", &bare(&channel.voucher(PRICE))).await;
    assert_eq!((status, reason(&answer)), (402, &*code("payload_type")), "{answer}");
    for body in [json!({}), json!([]), json!({ "network": "eip155:8453" })] {
        let (status, answer) = post("/batch/deposit", &body).await;
        assert_eq!(status, 400, "{answer}");
    }
    assert_eq!(get("0x12").await.0, 400);
    assert_eq!(stage.facilitator.get(&format!("/batch/channel/{id}")).await.0, 400);
    assert_eq!(get(&B256::repeat_byte(7).to_string()).await.0, 404);
    let (_status, contracts) = stage.facilitator.get("/batch/contracts").await;
    let of_base = &contracts["eip155:8453"];
    assert_eq!(of_base["batchSettlement"], json!(ESCROW));
    assert_eq!(of_base["permit2Collector"], json!(PERMIT2_COLLECTOR));

    // The payer withdraws with the calls of the answer: now, and after the delay.
    let (status, state) = get(&id).await;
    assert_eq!(status, 200, "{state}");
    let left = DEPOSIT - 5_000 - PRICE;
    assert_eq!(state["balance"], (DEPOSIT - 5_000).to_string());
    assert_eq!(state["available"], left.to_string());
    assert_eq!((&state["refundNonce"], &state["withdrawal"]), (&json!("1"), &Value::Null));
    assert_eq!(state["config"], channel.config_json());
    let send = async |name: &str| {
        let call = Call {
            from: channel.config.payer,
            to: state["calls"][name]["to"].as_str().expect("an address").parse().expect("one"),
            value: U256::ZERO,
            data: state["calls"][name]["data"].as_str().expect("hex").parse().expect("hex"),
        };
        let gas = U256::from(10).pow(U256::from(20));
        let fund = json!([call.from, gas]);
        stage.chain.request("anvil_setBalance", fund).await.expect("set");
        stage.chain.send_as(&call).await.expect("sent");
    };
    send("initiateWithdraw").await;
    let (_status, pending) = get(&id).await;
    let withdrawal = &pending["withdrawal"];
    assert_eq!(withdrawal["amount"], left.to_string(), "{pending}");
    let begun = withdrawal["initiatedAt"].as_u64().expect("a time");
    assert_eq!(withdrawal["finalizableAt"], json!(begun + 900));
    let verified = stage.verify(&channel.voucher(2 * PRICE)).await;
    assert_eq!(verified["extra"]["withdrawRequestedAt"], json!(begun), "the merchant sees it");

    // Between a verified voucher and its claim the withdrawal ends.
    stage.chain.request("evm_increaseTime", json!([901])).await.expect("later");
    send("finalizeWithdraw").await;
    let late = stage.settle(&channel.claim(2 * PRICE, 2 * PRICE)).await;
    assert_eq!(reason(&late), code("cumulative_exceeds_balance"), "{late}");
    stage.facilitator.stop().await;
}

async fn killed_at(point: &str, time: u8) {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let fault = format!("{point}:{time}");
    let home = prepared_home(&chain, chain.url(), 1, "wait_ms = 1500\nin_flight = 2", "").await;
    let coin = chain.network().stablecoin.address;
    let mut channels = Vec::new();
    for _channel in 0..5 {
        let payer = Payer::random();
        chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
        chain.approve_as(payer.address(), coin, PERMIT2).await.expect("approved");
        channels.push(Channel::new(chain.network(), payer, Payer::random().address()));
    }
    // Another facilitator prepares the channels, so that the killed one has no earlier work to resume.
    let earlier = prepared_home(&chain, chain.url(), 1, "", "").await;
    let deposits: Vec<Value> =
        channels[2..].iter().map(|channel| channel.deposit(DEPOSIT, PRICE)).collect();
    settle_all(&chain, &earlier, None, &deposits, &fault).await;
    earlier.wait_for_store().await;
    settle_all(&chain, &earlier, None, &[channels[3].claim(PRICE, PRICE)], &fault).await;
    earlier.wait_for_store().await;
    let bodies = [
        channels[0].deposit(DEPOSIT, PRICE),
        channels[1].deposit_by_permit2(DEPOSIT, PRICE),
        channels[2].claim(PRICE, PRICE),
        channels[3].sweep(),
        channels[4].refund(DEPOSIT, 0, 2 * PRICE),
    ];
    let deaths = settle_all(&chain, &home, Some(&fault), &bodies, &fault).await;
    assert_eq!(deaths, 1, "{fault}: it was not reached");
    let balance = async |owner: Address| chain.balance_of(owner).await.expect("answered");
    // What the five channels hold, less the refund, and what was paid out of the fourth.
    let held = 5 * DEPOSIT - (DEPOSIT - 2 * PRICE) - PRICE;
    assert_eq!(balance(ESCROW).await, U256::from(held), "{fault}");
    assert_eq!(balance(channels[3].config.receiver).await, U256::from(PRICE), "{fault}");
    let refunded = U256::from(INITIAL_BALANCE - 2 * PRICE);
    assert_eq!(balance(channels[4].config.payer).await, refunded, "{fault}");
    assert_tidy(&chain, &home, &fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_failpoint_carries_out_each_job_once() {
    for (point, times) in crate::kills::POINTS {
        join_all(times.iter().take(2).map(|time| killed_at(point, *time))).await;
    }
}
