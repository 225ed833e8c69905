//! Simulates the same calls with every method, against real contracts: wherever two methods
//! give a verdict, it is the same.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolCall;
use bursar_chain::abi::erc20::IErc20;
use bursar_chain::clock::SystemClock;
use bursar_chain::ports::{
    Chain, Clock, LogFilter, NextBlock, ReadCall, SimulatedCall, SimulationRequest, Transfer,
};
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_chain::simulate::{SimulationMethod, Simulator};
use bursar_chain::{revert, token};
use bursar_devnet::Devnet;
use bursar_submit::Call;
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::offers::BASE;
use serde_json::json;

use crate::chain::stage::local_chain;

fn node(url: &str) -> RpcChain {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new().expect("a zone"));
    RpcChain::new(RpcConfig::new(BASE, [url.to_owned()]), clock).expect("a node")
}

/// Returns the result of each call: `ok`, the reason of its failure, or `?` if the method gives no verdict.
async fn simulate(
    chain: &dyn Chain,
    from: Address,
    calls: &[Call],
) -> (SimulationMethod, Vec<String>) {
    let simulation = Simulator::default()
        .run(chain, SimulationRequest::of(from, calls.to_vec()))
        .await
        .expect("simulated");
    let outcomes = simulation.calls.iter().map(|call| match call {
        None => "?".to_owned(),
        Some(call) if call.ok => "ok".to_owned(),
        Some(call) => revert::reason(&call.data),
    });
    (simulation.method, outcomes.collect())
}

fn transfer(chain: &Devnet, to: Address, amount: u64) -> Call {
    let data = token::transfer_call(to, U256::from(amount));
    Call { to: chain.network().stablecoin.address, value: U256::ZERO, data, gas_limit: 0 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_simulation_methods_agree_where_they_have_a_result() {
    let Some(chain) = local_chain(BASE).await else { return };
    let (payer, payee) = (Address::repeat_byte(0xa1), Address::repeat_byte(0xb2));
    chain.mint(payer, 100).await.expect("minted");
    chain.request("anvil_setBalance", json!([payer, "0x64"])).await.expect("set");
    let coin = Call { to: payee, value: U256::from(60), data: Default::default(), gas_limit: 0 };
    // The third call has nothing left to move, which only a simulation in sequence detects.
    let calls = [transfer(&chain, payee, 60), coin, transfer(&chain, payee, 60)];
    let alone = [transfer(&chain, payee, 101)];
    let mut reasons = Vec::new();
    for (lies, method) in [
        (vec![], SimulationMethod::SimulateV1),
        (vec![Lie::NoSimulation; 3], SimulationMethod::StateOverride),
        (vec![Lie::NoSimulation; 3], SimulationMethod::SingleCalls),
    ] {
        let rpc = LyingRpc::in_front_of(chain.url()).await;
        if method == SimulationMethod::SingleCalls {
            let gone = json!([bursar_core::networks::MULTICALL3, "0x"]);
            chain.request("anvil_setCode", gone).await.expect("set");
        }
        rpc.queue_lies(lies);
        let node = node(&rpc.url);
        let (by, ends) = simulate(&node, payer, &calls).await;
        assert_eq!(by, method);
        assert_eq!(&ends[..2], ["ok", "ok"], "{method:?}");
        match method {
            // Each call would succeed alone.
            SimulationMethod::SingleCalls => assert_eq!(ends[2], "ok"),
            _in_turn => assert_ne!(ends[2], "ok", "{method:?}"),
        }
        let (_by, ends) = simulate(&node, payer, &alone).await;
        reasons.push(ends);
    }
    assert!(reasons.iter().all(|ends| *ends == reasons[0] && ends[0] != "ok"), "{reasons:?}");
}

/// Returns the call data of a contract that returns block number, timestamp, base fee and gas price, one word each.
fn environment_reader() -> &'static str {
    // The code stores number, timestamp, basefee and gasprice to memory, and returns these 128 bytes.
    "0x4360005242602052486040523a60605260806000f3"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_simulated_block_has_the_requested_number_time_and_fees() {
    let Some(chain) = local_chain(BASE).await else { return };
    let (payer, payee) = (Address::repeat_byte(0xa1), Address::repeat_byte(0xb2));
    let reader = Address::repeat_byte(0xc3);
    chain.mint(payer, 100).await.expect("minted");
    chain.request("anvil_setBalance", json!([payer, "0xde0b6b3a7640000"])).await.expect("set");
    chain.request("anvil_setCode", json!([reader, environment_reader()])).await.expect("set");
    let node = node(chain.url());
    let number = node.block_number().await.expect("a block") + 7;
    let timestamp = u64::try_from(node.block_time().await.expect("a time").seconds()).unwrap() + 90;
    let environment = Call { gas_limit: 100_000, ..Call::empty(reader, 0) };
    let coin = Call { value: U256::from(60), gas_limit: 21_000, ..Call::empty(payee, 0) };
    let request = SimulationRequest {
        from: payer,
        calls: vec![environment, Call { gas_limit: 100_000, ..transfer(&chain, payee, 60) }, coin],
        reads: vec![balance_of(&chain, payer), balance_of(&chain, payee)],
        block: Some(NextBlock { number, timestamp, base_fee: Some(1_000), gas_price: 1_002 }),
    };
    let simulated = Simulator::default().run(&node, request.clone()).await.expect("simulated");
    assert_eq!(simulated.failure(), None);
    let calls: Vec<SimulatedCall> = simulated.calls.into_iter().flatten().collect();
    let words: Vec<U256> = calls[0].data.chunks(32).map(U256::from_be_slice).collect();
    // anvil simulates with a base fee of zero.
    assert_eq!(words, [U256::from(number), U256::from(timestamp), U256::ZERO, U256::from(1_002)]);
    // Token transfers are events of the token; transfers of the native coin are reported separately.
    let moved = token::transfer_of(&calls[1].logs[0]).expect("a transfer");
    assert_eq!(moved, Transfer { from: payer, to: payee, value: U256::from(60) });
    assert_eq!(calls[1].native_transfers, []);
    assert_eq!((calls[2].logs.len(), &calls[2].native_transfers[..]), (0, &[moved][..]));
    assert!(calls.iter().all(|call| call.gas_used.is_some()));
    let balances = |reads: &[SimulatedCall]| -> Vec<U256> {
        reads.iter().map(|read| U256::from_be_slice(&read.data)).collect()
    };
    let reads = simulated.reads.expect("reads");
    assert_eq!(balances(&reads), [U256::from(40), U256::from(60)], "the reads see the calls");

    // The fallback method cannot choose the block, but its reads also see the effects of the calls.
    let rpc = LyingRpc::in_front_of(chain.url()).await;
    rpc.queue_lies(vec![Lie::NoSimulation; 3]);
    let other = Simulator::default().run(&self::node(&rpc.url), request).await.expect("simulated");
    assert_eq!(other.method, SimulationMethod::StateOverride);
    assert_eq!(balances(&other.reads.expect("reads")), [U256::from(40), U256::from(60)]);
}

fn balance_of(chain: &Devnet, owner: Address) -> ReadCall {
    let data = IErc20::balanceOfCall { owner }.abi_encode().into();
    ReadCall { to: chain.network().stablecoin.address, data }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_refuses_once_is_asked_for_the_best_method_again() {
    let Some(chain) = local_chain(BASE).await else { return };
    let payer = Address::repeat_byte(0xa1);
    let rpc = LyingRpc::in_front_of(chain.url()).await;
    rpc.queue_lies(vec![Lie::NoSimulation]);
    let (node, simulator) = (node(&rpc.url), Simulator::default());
    let mut methods = Vec::new();
    for _simulation in 0..103 {
        let request = SimulationRequest::of(payer, Vec::new());
        methods.push(simulator.run(&node, request).await.expect("simulated").method);
    }
    assert_eq!(methods[0], SimulationMethod::StateOverride);
    assert_eq!(methods[102], SimulationMethod::SimulateV1, "{methods:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_many_blocks_are_read_by_one_call() {
    let Some(chain) = local_chain(BASE).await else { return };
    let payer = Address::repeat_byte(0xa1);
    let before = chain.request("eth_blockNumber", json!([])).await.expect("answered");
    let before = u64::from_str_radix(before.as_str().expect("text").trim_start_matches("0x"), 16);
    let from_block = before.expect("a number") + 1;
    let mut minted = Vec::new();
    for amount in 1..=5u128 {
        minted.push(chain.mint(payer, amount).await.expect("minted"));
    }
    let node = node(chain.url());
    let transfer = alloy_primitives::keccak256("Transfer(address,address,uint256)");
    let wanted = LogFilter {
        from_block,
        to_block: node.block_number().await.expect("a block"),
        addresses: vec![chain.network().stablecoin.address],
        events: vec![transfer],
        indexed: Vec::new(),
    };
    let found = node.logs(wanted.clone()).await.expect("logs");
    assert_eq!(found.iter().map(|one| one.tx_hash).collect::<Vec<_>>(), minted);
    let amounts: Vec<U256> = found.iter().map(|one| U256::from_be_slice(&one.log.data)).collect();
    assert_eq!(amounts, (1..=5).map(U256::from).collect::<Vec<_>>());
    let elsewhere = LogFilter { addresses: vec![payer], ..wanted };
    assert_eq!(node.logs(elsewhere).await, Ok(vec![]));
}
