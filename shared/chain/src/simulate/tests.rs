use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;
use crate::ports::ChainReply;

/// A node with Multicall3 and state overrides. It supports `eth_simulateV1` while `simulates` is set.
#[derive(Debug, Default)]
struct Node {
    simulates: AtomicBool,
    /// Rejects every simulation with reads, as a node rejects a sender that cannot pay.
    rejects_reads: AtomicBool,
    simulations: AtomicU32,
}

fn rejected() -> ChainFault {
    ChainFault::Rejected { code: -32601, message: "no such method".to_owned() }
}

impl Chain for Node {
    fn missing(&self, _method: &'static str) -> ChainFault {
        rejected()
    }

    fn code_at(&self, _owner: Address, _block: BlockTag) -> ChainReply<'_, Bytes> {
        Box::pin(async { Ok(Bytes::from_static(&[0x60])) })
    }

    fn simulate(&self, request: SimulationRequest) -> ChainReply<'_, SimulatedBlock> {
        self.simulations.fetch_add(1, Ordering::SeqCst);
        let rejects = self.rejects_reads.load(Ordering::SeqCst) && !request.reads.is_empty();
        let works = self.simulates.load(Ordering::SeqCst) && !rejects;
        let done = || SimulatedCall::without_details(true, Bytes::new());
        let calls = request.calls.iter().map(|_call| done()).collect();
        let reads = request.reads.iter().map(|_read| done()).collect();
        Box::pin(async move {
            if works { Ok(SimulatedBlock { calls, reads }) } else { Err(rejected()) }
        })
    }

    fn call_as(&self, _from: Address, call: Call, _code: Option<Bytes>) -> ChainReply<'_, Bytes> {
        let asked = IMulticall3::aggregate3ValueCall::abi_decode(&call.data).unwrap();
        let done = |_call| IMulticall3::CallResult { success: true, returnData: Bytes::new() };
        let results: Vec<_> = asked.calls.into_iter().map(done).collect();
        let answer = IMulticall3::aggregate3ValueCall::abi_encode_returns(&results);
        Box::pin(async move { Ok(answer.into()) })
    }
}

fn request() -> SimulationRequest {
    let account = Address::with_last_byte(7);
    let mut request = SimulationRequest::of(account, vec![Call::empty(account, 0)]);
    request.reads.push(crate::multicall::native_balance(account));
    request
}

#[tokio::test]
async fn a_node_that_loses_a_method_is_probed_again() {
    let (node, simulator) = (Node::default(), Simulator::default());
    node.simulates.store(true, Ordering::SeqCst);
    let method = async || simulator.run(&node, request()).await.map(|found| found.method);
    assert_eq!(method().await, Ok(SimulationMethod::SimulateV1));
    node.simulates.store(false, Ordering::SeqCst);
    for _simulation in 0..3 {
        assert_eq!(method().await, Ok(SimulationMethod::StateOverride));
    }
    // The better method is found again soon.
    node.simulates.store(true, Ordering::SeqCst);
    let mut methods = Vec::new();
    for _simulation in 0..SIMULATIONS_BEFORE_PROBE_AFTER_LOSS {
        methods.push(method().await.unwrap());
    }
    assert_eq!(methods.last(), Some(&SimulationMethod::SimulateV1), "{methods:?}");
}

#[tokio::test]
async fn a_refused_request_does_not_change_the_method() {
    let (node, simulator) = (Node::default(), Simulator::default());
    node.simulates.store(true, Ordering::SeqCst);
    assert!(simulator.run(&node, request()).await.is_ok());
    node.rejects_reads.store(true, Ordering::SeqCst);
    let before = node.simulations.load(Ordering::SeqCst);
    assert_eq!(simulator.run(&node, request()).await, Err(rejected()));
    assert_eq!(node.simulations.load(Ordering::SeqCst), before + 2, "the request and a probe");
    node.rejects_reads.store(false, Ordering::SeqCst);
    let method = simulator.run(&node, request()).await.unwrap().method;
    assert_eq!(method, SimulationMethod::SimulateV1);
}
