//! The schemes `upto` and `batch-settlement` compared with `exact`, in turns on one node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_devnet::Devnet;
use bursar_tests::channel::Channel;
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::payer::{PERMIT2, Payer, TransferMethod};
use bursar_tests::upto_contract;
use serde_json::{Value, json};

use crate::http::{post, run_load};
use crate::process::Process;
use crate::settle::{counting_node, gas_of, payments_by_transaction, print_gas_per_payment};
use crate::stage::{SHOP, chain, fund, payers, payments, start_facilitator};

/// Number of requests in a turn of `/verify`, and number of turns.
const REQUESTS_PER_TURN: usize = 400;
const TURNS: usize = 40;
/// Number of channels whose vouchers are verified.
const CHANNELS: usize = 64;
/// Number of payments in a run of `/settle`, each of another payer, and number of runs.
const PAYMENTS: usize = 128;
const RUNS: usize = 3;
/// The price of a call and the deposit of a channel, in the smallest unit of the token.
const PRICE: u128 = 1_000;
const DEPOSIT: u128 = 1_000_000_000;

pub async fn measure() {
    vouchers().await;
    gas_per_voucher().await;
    upto(Comparison {
        title: "one signer, one payment in a transaction",
        signers: 1,
        batch_calls: 1,
        by_contract: false,
    })
    .await;
    upto(Comparison {
        title: "two signers through a contract, at most ten payments in a transaction",
        signers: 2,
        batch_calls: 10,
        by_contract: true,
    })
    .await;
}

/// Opens channels of these payers with one receiver and one authorizer, like those of a merchant.
async fn open_channels(chain: &Devnet, process: &Process, payers: &[Payer]) -> Vec<Channel> {
    let merchant = Payer::random();
    let open = |payer: &Payer| {
        let mut channel = Channel::with_config(chain.network(), payer.clone(), SHOP, |config| {
            config.receiver_authorizer = merchant.address();
        });
        channel.authorizer = merchant.clone();
        channel
    };
    let channels: Vec<Channel> = payers.iter().map(open).collect();
    let deposits = channels.iter().map(|channel| channel.deposit(DEPOSIT, PRICE).to_string());
    let bodies = Arc::new(deposits.map(|body| post("/settle", &body)).collect::<Vec<_>>());
    let run = run_load(&process.address, 16, channels.len(), bodies, true).await;
    for (_at, body) in &run.answers {
        assert_success(body);
    }
    channels
}

fn assert_success(body: &[u8]) -> Value {
    let answer: Value = serde_json::from_slice(body).expect("JSON");
    assert_eq!(answer["success"], true, "{answer}");
    answer
}

/// Compares `/verify` of vouchers of known channels with payments by EIP-3009 of known payers. A block
/// is mined every two seconds.
async fn vouchers() {
    let chain = chain().await;
    let (proxy, node_calls) = counting_node(chain.url()).await;
    let home = FacilitatorHome::new(chain.network(), &format!("http://{proxy}"), 1, "", "");
    fund(&chain, &home).await;
    let process = start_facilitator(&home);
    let payers = payers(&chain, CHANNELS).await;
    let channels = open_channels(&chain, &process, &payers).await;
    let voucher = |at: usize| {
        let channel = &channels[at % channels.len()];
        let calls = u128::try_from(at / channels.len() + 2).expect("few");
        post("/verify", &channel.voucher(calls * PRICE).to_string())
    };
    let vouchers = Arc::new((0..512).map(voucher).collect::<Vec<_>>());
    let paid = payments(&chain, &payers, 512);
    let exact = paid.iter().map(|paid| post("/verify", &paid.body(2).to_string()));
    let exact = Arc::new(exact.collect::<Vec<_>>());
    for requests in [&vouchers, &exact] {
        let run = run_load(&process.address, 8, 512, Arc::clone(requests), true).await;
        let good =
            |answer: &(usize, Vec<u8>)| answer.1.windows(14).any(|w| w == b"\"isValid\":true");
        assert!(run.answers.iter().all(good), "all are good");
    }
    chain.set_block_time(2).await.expect("set");
    println!(
        "/verify of vouchers of {CHANNELS} channels, beside exact by eip3009, in {TURNS} turns"
    );
    for connections in [1, 8, 32] {
        let (mut ratios, mut rates) = (Vec::new(), Vec::new());
        let (mut calls, mut count) = (0, 0);
        for turn in 0..TURNS {
            let mut of = BTreeMap::new();
            // Alternates the order, so that neither scheme is always the first.
            for scheme in [turn % 2, 1 - turn % 2] {
                let requests = if scheme == 0 { &vouchers } else { &exact };
                let before = node_calls.load(Ordering::Relaxed);
                let run = run_load(
                    &process.address,
                    connections,
                    REQUESTS_PER_TURN,
                    Arc::clone(requests),
                    false,
                )
                .await;
                if scheme == 0 {
                    calls += node_calls.load(Ordering::Relaxed) - before;
                    count += REQUESTS_PER_TURN;
                }
                of.insert(scheme, run.rate());
            }
            ratios.push(of[&0] / of[&1]);
            rates.push(of[&0]);
        }
        println!(
            "{connections:>2} connections: {:.0} % of the rate of exact; {:.0} a second; {:.3} node exchanges each",
            100.0 * median(ratios),
            median(rates),
            calls as f64 / count as f64,
        );
    }
}

/// Compares the gas of a channel's whole life with that of `exact`.
async fn gas_per_voucher() {
    let chain = chain().await;
    let home = FacilitatorHome::new(chain.network(), chain.url(), 1, "", "");
    fund(&chain, &home).await;
    let process = start_facilitator(&home);
    let payers = payers(&chain, 61).await;
    let channels = open_channels(&chain, &process, &payers).await;
    let settle = async |body: Value| {
        let body = Arc::new(vec![post("/settle", &body.to_string())]);
        let run = run_load(&process.address, 1, 1, body, true).await;
        let answer = assert_success(&run.answers[0].1);
        gas_of(&chain, answer["transaction"].as_str().expect("a hash")).await
    };
    let alone = settle(payments(&chain, &payers, 1)[0].body(2)).await;
    let mut fresh = channels.as_slice();
    let mut claim_gas = BTreeMap::new();
    for rows in [1, 10, 50] {
        let (some, rest) = fresh.split_at(rows);
        fresh = rest;
        let (rows_of, bodies): (Vec<_>, Vec<_>) =
            some.iter().map(|channel| channel.row(1_000 * PRICE, 1_000 * PRICE)).unzip();
        let digest = some[0].domain().claim_batch_digest(&rows_of);
        let body = some[0].body(json!({
            "type": "claim", "claims": bodies,
            "claimAuthorizerSignature": some[0].authorizer.sign(digest),
        }));
        let gas = settle(body).await;
        println!("a claim of {rows}: {} gas for a voucher", gas / rows as u64);
        claim_gas.insert(rows, gas);
    }
    let sweep = settle(channels[0].sweep()).await;
    let deposit = {
        let payer = Payer::random();
        chain.mint(payer.address(), DEPOSIT).await.expect("minted");
        let channel = Channel::new(chain.network(), payer, SHOP);
        settle(channel.deposit(DEPOSIT, PRICE)).await
    };
    let life = deposit + claim_gas[&1] + sweep;
    println!(
        "a thousand calls through one channel: deposit {deposit}, claim {}, payout {sweep}, in all {life} gas: \
         {:.2} % of a thousand exact payments alone ({alone} gas each)",
        claim_gas[&1],
        life as f64 / (1_000.0 * alone as f64) * 100.0,
    );
}

/// A comparison of `upto` with `exact` by Permit2, under the same settings and with a block each second.
struct Comparison {
    title: &'static str,
    signers: u8,
    batch_calls: usize,
    /// Whether payers name a contract of all signers instead of the first signer.
    by_contract: bool,
}

async fn upto(comparison: Comparison) {
    let Comparison { title, signers, batch_calls, by_contract } = comparison;
    let chain = chain().await;
    let numbers: Vec<u8> = (0..signers).collect();
    let setting = if by_contract { upto_contract::setting(&[&numbers]) } else { String::new() };
    let general = format!("batch_calls = {batch_calls}");
    let more = format!("poll_ms = 100\n{setting}");
    let home = FacilitatorHome::new(chain.network(), chain.url(), signers, &general, &more);
    fund(&chain, &home).await;
    let contract = upto_contract::deploy(&chain, &numbers).await;
    chain.mine(12).await.expect("mined");
    let process = start_facilitator(&home);
    let payers = payers(&chain, PAYMENTS).await;
    let coin = chain.network().stablecoin.address;
    for payer in &payers {
        chain.approve_as(payer.address(), coin, PERMIT2).await.expect("approved");
    }
    chain.set_block_time(1).await.expect("set");
    let facilitator = if by_contract { contract } else { home.signers[0] };
    let bodies = |method: TransferMethod| {
        let of = |payer: &Payer| {
            let mut terms = payer.terms(chain.network(), SHOP, 1_000);
            terms.valid_before_s += 3_600;
            if method == TransferMethod::Upto {
                terms.facilitator = facilitator;
            }
            let signed = payer.pay(method, &terms);
            let body = if method == TransferMethod::Upto {
                signed.settle_body(900)
            } else {
                signed.body(2)
            };
            post("/settle", &body.to_string())
        };
        Arc::new(payers.iter().map(of).collect::<Vec<_>>())
    };
    println!("{title}:");
    let (mut ratios, mut hashes) = (Vec::new(), BTreeMap::<_, BTreeMap<_, _>>::new());
    for run in 0..RUNS {
        let mut rates = BTreeMap::new();
        for scheme in [run % 2, 1 - run % 2] {
            let method = if scheme == 0 { TransferMethod::Upto } else { TransferMethod::Permit2 };
            let run = run_load(&process.address, 64, PAYMENTS, bodies(method), true).await;
            hashes.entry(scheme).or_default().extend(payments_by_transaction(&run));
            rates.insert(scheme, run.rate());
        }
        println!("upto {:.1} a second, exact by permit2 {:.1}", rates[&0], rates[&1]);
        ratios.push(rates[&0] / rates[&1]);
    }
    println!("upto: {:.2} of the rate of exact by permit2", median(ratios));
    for (scheme, name) in ["upto", "exact by permit2"].into_iter().enumerate() {
        print!("{name}: ");
        print_gas_per_payment(&chain, &hashes[&scheme]).await;
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}
