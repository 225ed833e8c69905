//! The scheme `batch-settlement`: a channel's whole life, copies, endpoints and kills.

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::ChainId;
use bursar_devnet::Call;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::counting_rpc::CountingRpc;
use bursar_tests::payer::{PERMIT2, Payer};
use bursar_x402::channel::IBatchSettlement;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::facilitator::channel::{
    Channel, DEPOSIT, ESCROW, PERMIT2_COLLECTOR, PRICE, full_code, reason,
};
use crate::facilitator::kills::{assert_no_gap_and_empty_pool, funded_approval, settle_all};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage, prepared_home};

async fn play_channel_life(chain: ChainId) {
    let Some(stage) = Stage::set_up(chain, 2, "").await else { return };
    let channel = stage.channel().await;
    let (payer, receiver) = (channel.config.payer, channel.config.receiver);
    let initial = stage.balance(payer).await;

    // Makes a deposit with the voucher of the first request.
    let body = channel.deposit(DEPOSIT, PRICE);
    let verified = stage.verify(&body).await;
    let expected = json!({ "isValid": true, "payer": payer, "extra": channel.state(0, 0, 0) });
    assert_eq!(verified, expected);
    let answer = stage.settle_and_assert(&body).await;
    let expected = json!({
        "success": true, "transaction": answer["transaction"], "payer": payer,
        "network": stage.network().caip2(), "amount": DEPOSIT.to_string(),
        "extra": { "channelState": channel.state(DEPOSIT, 0, 0) },
    });
    assert_eq!(answer, expected);
    assert_eq!(stage.balance(payer).await, initial - U256::from(DEPOSIT));

    // The same deposit with another voucher does not count as the merchant's repeat.
    let mut other = body.clone();
    other["paymentPayload"]["payload"]["voucher"] = channel.voucher_json(2 * PRICE);
    let reply = stage.settle_with_key_of(&other, &body).await;
    assert_eq!(reason(&reply), "duplicate_settlement", "{reply}");
    assert_eq!(stage.settle(&body).await, answer, "the merchant's own repeat");

    // Pays two more requests with vouchers alone.
    for n in 2..=3_u128 {
        let verified = stage.verify(&channel.voucher(n * PRICE)).await;
        let extra = channel.state(DEPOSIT, 0, 0);
        assert_eq!(verified, json!({ "isValid": true, "payer": payer, "extra": extra }));
        let refused = stage.settle(&channel.voucher(n * PRICE)).await;
        assert_eq!(reason(&refused), full_code("payload_type"), "the merchant keeps it: {refused}");
    }

    // Tops up the channel with Permit2.
    let answer = stage.settle_and_assert(&channel.deposit_by_permit2(500_000, 4 * PRICE)).await;
    let total = DEPOSIT + 500_000;
    assert_eq!(answer["extra"]["channelState"], channel.state(total, 0, 0));

    // Claims the used amount, and pays it out.
    let answer = stage.settle_and_assert(&channel.claim(4 * PRICE, 4 * PRICE - 1)).await;
    let expected = json!({
        "success": true, "transaction": answer["transaction"],
        "network": stage.network().caip2(),
    });
    assert_eq!(answer, expected);
    let extra = channel.state(total, 4 * PRICE - 1, 0);
    assert_eq!(stage.verify(&channel.voucher(5 * PRICE)).await["extra"], extra);
    assert_eq!(stage.balance(receiver).await, U256::ZERO);
    let answer = stage.settle_and_assert(&channel.sweep()).await;
    assert_eq!(answer["amount"], (4 * PRICE - 1).to_string(), "{answer}");
    assert_eq!(stage.balance(receiver).await, U256::from(4 * PRICE - 1));

    // Refunds a part, and then everything left after the last claim.
    let answer = stage.settle_and_assert(&channel.refund(100_000, 0, 0)).await;
    assert_eq!((&answer["amount"], &answer["payer"]), (&json!("100000"), &json!(payer)));
    let state = channel.state(total - 100_000, 4 * PRICE - 1, 1);
    assert_eq!(answer["extra"]["channelState"], state);
    let answer = stage.settle_and_assert(&channel.refund(u128::MAX, 1, 5 * PRICE)).await;
    let rest = total - 100_000 - 5 * PRICE;
    assert_eq!(answer["amount"], rest.to_string());
    assert_eq!(answer["extra"]["channelState"], channel.state(5 * PRICE, 5 * PRICE, 2));
    let answer = stage.settle_and_assert(&channel.sweep()).await;
    assert_eq!(answer["amount"], (PRICE + 1).to_string());

    // Every unit is accounted for.
    assert_eq!(stage.balance(receiver).await, U256::from(5 * PRICE));
    assert_eq!(stage.balance(payer).await, initial - U256::from(5 * PRICE));
    assert_eq!(stage.balance(ESCROW).await, U256::ZERO);
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_lives_from_its_deposit_to_its_refund_on_base() {
    play_channel_life(BASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_lives_from_its_deposit_to_its_refund_on_robinhood() {
    play_channel_life(ROBINHOOD).await;
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
    stage.settle_and_assert(&channel.claim(PRICE, PRICE)).await;
    let block = stage.chain.request("eth_blockNumber", json!([])).await.expect("a number");
    // The same total under a higher voucher counts as a different claim.
    let body = channel.claim(2 * PRICE, PRICE);
    let answer = stage.settle_without_key(&body).await;
    let expected = json!({ "success": true, "transaction": "", "network": "eip155:8453" });
    assert_eq!(answer, expected);
    assert_eq!(reason(&stage.settle_without_key(&body).await), "duplicate_settlement");
    // A voucher that its payer did not sign is refused, although the escrow would skip its row.
    let mut forged = channel.claim(3 * PRICE, PRICE);
    let signature = Payer::random().sign(B256::repeat_byte(1));
    forged["paymentPayload"]["payload"]["claims"][0]["signature"] = json!(signature);
    assert_eq!(reason(&stage.settle(&forged).await), full_code("voucher_signature"));
    let after = stage.chain.request("eth_blockNumber", json!([])).await.expect("a number");
    assert_eq!(block, after, "no transaction");
    stage.facilitator.stop().await;
}

/// Vouchers of a channel are verified without a call to the node until there is a new block.
#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_read_once_in_a_block() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let node = CountingRpc::in_front_of(chain.url()).await;
    let stage = Stage::with_node(chain, &node.url, 1, "", "").await;
    let channel = stage.open_channel().await;
    let first = stage.verify(&channel.voucher(2 * PRICE)).await;
    assert_eq!(first["extra"], channel.state(DEPOSIT, 0, 0), "{first}");
    let _before = node.take_methods();
    for n in 3..100 {
        let answer = stage.verify(&channel.voucher(n * PRICE)).await;
        assert_eq!(answer["extra"], first["extra"], "{answer}");
    }
    // The refusal of a voucher that its payer did not sign needs no node either.
    let mut forged = channel.voucher(PRICE);
    forged["paymentPayload"]["payload"]["voucher"]["maxClaimableAmount"] = json!("7");
    assert_eq!(reason(&stage.verify(&forged).await), full_code("voucher_signature"));
    let asked = node.take_methods().join(",");
    assert!(!asked.contains("eth_call"), "{asked}");

    // The facilitator notices a stranger's change once it knows the new block.
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

/// A refund reduces a pending withdrawal, and ends it when nothing is left of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_of_the_whole_withdrawal_ends_it() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.open_channel().await;
    let call =
        IBatchSettlement::initiateWithdrawCall { config: (&channel.config).into(), amount: 10 };
    let gas = json!([channel.config.payer, U256::from(10).pow(U256::from(20))]);
    stage.chain.request("anvil_setBalance", gas).await.expect("set");
    stage.chain.send_as(&Call::new(channel.config.payer, ESCROW, &call)).await.expect("sent");
    let begun =
        stage.verify(&channel.deposit(1, PRICE)).await["extra"]["withdrawRequestedAt"].clone();
    assert_ne!(begun, 0);
    let state = async |amount: u128, nonce: u64| {
        let answer = stage.settle_and_assert(&channel.refund(amount, nonce, 0)).await;
        answer["extra"]["channelState"]["withdrawRequestedAt"].clone()
    };
    assert_eq!(state(9, 0).await, begun, "one unit is still to be withdrawn");
    assert_eq!(state(1, 1).await, 0);
    let verified = stage.verify(&channel.deposit(1, PRICE)).await;
    assert_eq!(verified["extra"], channel.state(DEPOSIT - 10, 0, 2));
    stage.facilitator.stop().await;
}

/// A stranger sends the payout first: the merchant's request succeeds with the stranger's transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_by_a_stranger_is_the_success_of_the_request() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.open_channel().await;
    // An earlier payout of the same amount does not count as this one.
    stage.settle_and_assert(&channel.claim(PRICE, PRICE)).await;
    let earlier = stage.settle_and_assert(&channel.sweep()).await;
    stage.settle_and_assert(&channel.claim(2 * PRICE, 2 * PRICE)).await;
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
        // While the facilitator's own transaction is pending, the stranger pays a higher fee to precede it.
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
fn bare_body(body: &Value) -> Value {
    let mut bare = body["paymentPayload"]["payload"].clone();
    bare["network"] = body["paymentRequirements"]["network"].clone();
    bare
}

/// The endpoints of the specification: bare and full bodies, the state of a channel, and its withdrawal.
#[tokio::test(flavor = "multi_thread")]
async fn channels_have_separate_endpoints() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let channel = stage.channel().await;
    let post = async |path: &str, body: &Value| stage.facilitator.post(path, body).await;
    let get = async |id: &str| {
        stage.facilitator.get(&format!("/batch/channel/{id}?network=eip155:8453")).await
    };
    let id = channel.id.to_string();
    assert_eq!(get(&id).await.0, 404, "no deposit yet");
    let (status, answer) =
        post("/batch/deposit", &bare_body(&channel.deposit(DEPOSIT, PRICE))).await;
    assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
    // The endpoint determines the type, so a body may omit it.
    let mut untyped = bare_body(&channel.claim(PRICE, PRICE));
    untyped.as_object_mut().expect("an object").remove("type");
    let (status, answer) = post("/batch/claim", &untyped).await;
    assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
    let (status, answer) = post("/batch/settle", &channel.sweep()).await;
    assert_eq!((status, &answer["amount"]), (200, &json!(PRICE.to_string())), "{answer}");
    let (status, answer) = post("/batch/refund", &bare_body(&channel.refund(5_000, 0, 0))).await;
    assert_eq!((status, &answer["amount"]), (200, &json!("5000")), "{answer}");

    // A failed settlement has status 402 in the bare form, and 200 in the full form.
    let (status, answer) = post("/batch/settle", &bare_body(&channel.sweep())).await;
    assert_eq!((status, reason(&answer)), (402, "duplicate_settlement"), "{answer}");
    let (status, answer) = post("/batch/refund", &channel.refund(5_000, 0, 0)).await;
    assert_eq!((status, reason(&answer)), (200, "duplicate_settlement"), "{answer}");
    let (status, answer) = post("/batch/claim", &channel.sweep()).await;
    assert_eq!((status, reason(&answer)), (200, &*full_code("payload_type")), "{answer}");
    let (status, answer) = post("/batch/deposit", &bare_body(&channel.voucher(PRICE))).await;
    assert_eq!((status, reason(&answer)), (402, &*full_code("payload_type")), "{answer}");
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

    // The payer withdraws with the calls from the answer: one now, and one after the delay.
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
        stage.chain.request("anvil_setBalance", json!([call.from, gas])).await.expect("set");
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

    // The withdrawal ends between the verification of a voucher and its claim.
    stage.chain.request("evm_increaseTime", json!([901])).await.expect("later");
    send("finalizeWithdraw").await;
    let late = stage.settle(&channel.claim(2 * PRICE, 2 * PRICE)).await;
    assert_eq!(reason(&late), full_code("cumulative_exceeds_balance"), "{late}");
    stage.facilitator.stop().await;
}

async fn kill_at_failpoint(point: &str, time: u8) {
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
    let payer = Payer::random();
    let approval = funded_approval(&chain, &payer).await;
    let approved = Channel::new(chain.network(), payer, Payer::random().address());
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
        {
            let mut body = approved.deposit_by_permit2(DEPOSIT, PRICE);
            body["paymentPayload"]["extensions"] = approval;
            body
        },
    ];
    let deaths = settle_all(&chain, &home, Some(&fault), &bodies, &fault).await;
    assert_eq!(deaths, 1, "{fault}: it was not reached");
    let balance = async |owner: Address| chain.balance_of(owner).await.expect("answered");
    // The escrow holds the deposits of the six channels, less the refund and the payout of the fourth.
    let held = 6 * DEPOSIT - (DEPOSIT - 2 * PRICE) - PRICE;
    assert_eq!(balance(ESCROW).await, U256::from(held), "{fault}");
    assert_eq!(balance(channels[3].config.receiver).await, U256::from(PRICE), "{fault}");
    let refunded = U256::from(INITIAL_BALANCE - 2 * PRICE);
    assert_eq!(balance(channels[4].config.payer).await, refunded, "{fault}");
    assert_no_gap_and_empty_pool(&chain, &home, &fault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_failpoint_carries_out_each_job_once() {
    for (point, times) in crate::facilitator::kills::POINTS {
        join_all(times.iter().take(2).map(|time| kill_at_failpoint(point, *time))).await;
    }
}
