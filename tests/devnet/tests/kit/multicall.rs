//! Multicall3 on the local chain answers as it does on the real network.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_core::networks::{ChainId, MULTICALL3, by_chain};
use bursar_devnet::Devnet;
use bursar_devnet::install::chain_or_skip;
use serde_json::json;

sol! {
    struct Call3 { address target; bool allowFailure; bytes callData; }
    struct Result3 { bool success; bytes returnData; }

    function aggregate3(Call3[] calls) external payable returns (Result3[] returned);
    function getChainId() external view returns (uint256 chainid);
    function balanceOf(address owner) external view returns (uint256);
}

async fn read<C: SolCall>(devnet: &Devnet, call: C) -> C::Return {
    let data = Bytes::from(call.abi_encode());
    let call = json!({ "to": MULTICALL3, "data": data });
    let answer = devnet.request("eth_call", json!([call, "latest"])).await.unwrap();
    let answer: Bytes = serde_json::from_value(answer).unwrap();
    C::abi_decode_returns(&answer).unwrap()
}

#[tokio::test]
async fn a_failed_read_in_a_multicall_does_not_affect_the_others() {
    let Some(anvil) = chain_or_skip() else { return };
    let network = by_chain(ChainId(8453)).unwrap();
    let devnet = Devnet::start_at(&anvil, network.chain).await.unwrap();
    let (one, other) = (Address::repeat_byte(0x41), Address::repeat_byte(0x42));
    devnet.mint(one, 7).await.unwrap();
    devnet.mint(other, 9).await.unwrap();

    assert_eq!(read(&devnet, getChainIdCall {}).await, U256::from(network.chain.0));
    let coin = network.stablecoin.address;
    let ask = |target: Address, data: Vec<u8>| Call3 {
        target,
        allowFailure: true,
        callData: data.into(),
    };
    let calls = vec![
        ask(coin, balanceOfCall { owner: one }.abi_encode()),
        ask(coin, vec![0xde, 0xad, 0xbe, 0xef]),
        ask(coin, balanceOfCall { owner: other }.abi_encode()),
        ask(MULTICALL3, getChainIdCall {}.abi_encode()),
    ];
    let answers = read(&devnet, aggregate3Call { calls }).await;
    let reported: Vec<Option<U256>> = answers
        .iter()
        .map(|answer| answer.success.then(|| U256::from_be_slice(&answer.returnData)))
        .collect();
    let chain = U256::from(network.chain.0);
    assert_eq!(reported, [Some(U256::from(7)), None, Some(U256::from(9)), Some(chain)]);
}
