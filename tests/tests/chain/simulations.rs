//! Runs the same calls by every kind of simulation, against real contracts: where they can tell, they agree.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::clock::SystemClock;
use bursar_chain::ports::{Chain, Clock, LogFilter};
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_chain::simulate::{SimulationMethod, Simulator};
use bursar_chain::{revert, token};
use bursar_devnet::Devnet;
use bursar_submit::Call;
use bursar_tests::lying_rpc::{Lie, LyingRpc};
use bursar_tests::offers::BASE;
use serde_json::json;

use crate::stage::local_chain;

fn node(url: &str) -> RpcChain {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new().expect("a zone"));
    RpcChain::new(RpcConfig::new(BASE, [url.to_owned()]), clock).expect("a node")
}

/// Returns the result of each call: success, or the reason; `?` if the kind of simulation cannot tell.
async fn simulate(
    chain: &dyn Chain,
    from: Address,
    calls: &[Call],
) -> (SimulationMethod, Vec<String>) {
    let simulation = Simulator::default().run(chain, from, calls).await.expect("simulated");
    let outcomes = simulation.calls.iter().map(|call| match call {
        None => "?".to_owned(),
        Some(call) if call.ok => "ok".to_owned(),
        Some(call) => revert::reason(&call.data),
    });
    (simulation.method, outcomes.collect())
}

fn transfer(chain: &Devnet, to: Address, amount: u64) -> Call {
    let data = token::transfer(to, U256::from(amount));
    Call { to: chain.network().stablecoin.address, value: U256::ZERO, data, gas_limit: 0 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_simulation_methods_agree_where_they_have_a_result() {
    let Some(chain) = local_chain(BASE).await else { return };
    let (payer, payee) = (Address::repeat_byte(0xa1), Address::repeat_byte(0xb2));
    chain.mint(payer, 100).await.expect("minted");
    chain.request("anvil_setBalance", json!([payer, "0x64"])).await.expect("set");
    let coin = Call { to: payee, value: U256::from(60), data: Default::default(), gas_limit: 0 };
    // The third has nothing left to move: only a simulation that runs them in sequence can tell.
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
        rpc.tell(lies);
        let node = node(&rpc.url);
        let (by, ends) = simulate(&node, payer, &calls).await;
        assert_eq!(by, method);
        assert_eq!(&ends[..2], ["ok", "ok"], "{method:?}");
        match method {
            // Each alone would succeed.
            SimulationMethod::SingleCalls => assert_eq!(ends[2], "ok"),
            _in_turn => assert_ne!(ends[2], "ok", "{method:?}"),
        }
        let (_by, ends) = simulate(&node, payer, &alone).await;
        reasons.push(ends);
    }
    assert!(reasons.iter().all(|ends| *ends == reasons[0] && ends[0] != "ok"), "{reasons:?}");
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
