//! Transactions that go to separate endpoints, such as a private relay.

use alloy_primitives::{B256, Bytes, U256, keccak256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault};
use bursar_chain::rpc::RpcChain;
use serde_json::{Value, json};

use crate::node::{
    ACCOUNT, Answer, Node, chain, chain_with, clock, foreign, limits, ours, unreachable_url,
};

const RAW: Bytes = Bytes::from_static(&[2, 248, 1]);

/// Starts a node that accepts [`RAW`].
async fn accepting_raw() -> Node {
    let node = Node::with_balance(1).await;
    node.set_answer("eth_sendRawTransaction", Answer::Result(json!(keccak256(RAW))));
    node.set_answer("eth_getTransactionReceipt", Answer::Result(Value::Null));
    node.set_answer("eth_getTransactionByHash", Answer::Result(Value::Null));
    node.set_answer("eth_getTransactionCount", Answer::Result(json!("0x5")));
    node
}

fn chain_with_submit(read: &[&Node], submit: &[&Node]) -> RpcChain {
    chain(read).submitting_to(chain(submit))
}

#[tokio::test]
async fn the_submit_endpoint_gets_every_broadcast_and_no_read() {
    let (node, relay) = (accepting_raw().await, accepting_raw().await);
    let chain = chain_with_submit(&[&node], &[&relay]);
    assert_eq!(chain.balance(ACCOUNT, BlockTag::Latest).await, Ok(U256::from(1)));
    assert!(relay.asked_methods().await.is_empty(), "nothing before the first transaction");
    assert_eq!(chain.send_raw(RAW).await, Ok(keccak256(RAW)));
    assert_eq!(chain.send_raw_everywhere(RAW).await, Ok(keccak256(RAW)));
    let hash = keccak256(RAW);
    assert_eq!(chain.receipt(hash).await, Ok(None));
    assert_eq!(chain.is_known(hash).await, Ok(false));
    assert_eq!(chain.is_known_anywhere(hash).await, Ok(false));
    assert_eq!(chain.transaction_count(ACCOUNT, BlockTag::Pending).await, Ok(5));
    assert_eq!(chain.chain_id().await, Ok(ours()));
    let sent = ["eth_chainId", "eth_sendRawTransaction", "eth_sendRawTransaction"];
    assert_eq!(
        relay.asked_methods().await,
        sent,
        "its chain before the first, and nothing but broadcasts"
    );
    assert_eq!(node.count("eth_sendRawTransaction").await, 0);
}

#[tokio::test]
async fn a_foreign_submit_endpoint_gets_no_transaction_and_there_is_no_fallback() {
    let (node, stranger) = (accepting_raw().await, accepting_raw().await);
    stranger.set_answer("eth_chainId", Answer::Result(json!(format!("{:#x}", foreign().0))));
    let chain = chain_with_submit(&[&node], &[&stranger]);
    for _ in 0..3 {
        let told = chain.send_raw(RAW).await;
        assert!(matches!(told, Err(ChainFault::WrongChain { .. })), "{told:?}");
        let told = chain.send_raw_everywhere(RAW).await;
        assert!(matches!(told, Err(ChainFault::WrongChain { .. })), "{told:?}");
    }
    assert!(matches!(chain.submit_chain_id().await, Err(ChainFault::WrongChain { .. })));
    assert_eq!(stranger.asked_methods().await, ["eth_chainId"], "refused without asking again");
    assert_eq!(node.count("eth_sendRawTransaction").await, 0, "it stays private");
    assert_eq!(chain.balance(ACCOUNT, BlockTag::Latest).await, Ok(U256::from(1)));
}

#[tokio::test]
async fn submit_endpoints_are_tried_in_their_order() {
    let (node, first, second) =
        (accepting_raw().await, accepting_raw().await, accepting_raw().await);
    first.set_answer("eth_sendRawTransaction", Answer::Text(503, "down".to_owned()));
    let chain = chain_with_submit(&[&node], &[&first, &second]);
    assert_eq!(chain.send_raw(RAW).await, Ok(keccak256(RAW)));
    assert_eq!((first.asked_methods().await.len(), second.asked_methods().await.len()), (2, 2));
    assert_eq!(chain.submit_chain_id().await, Ok(Some(ours())));
    assert!(node.asked_methods().await.is_empty());
}

/// A transaction that a relay received without answering may still be mined.
#[tokio::test]
async fn a_silent_submit_endpoint_counts_as_silent() {
    let (node, clock) = (accepting_raw().await, clock());
    clock.advance(10);
    let chain = chain_with(&[node.url()], limits(), &clock).submitting_to(chain_with(
        &[unreachable_url()],
        limits(),
        &clock,
    ));
    assert_eq!(chain.receipt(B256::ZERO).await, Ok(None));
    assert!(!chain.has_failed_since(0));
    assert!(matches!(chain.send_raw(RAW).await, Err(ChainFault::Unavailable { .. })));
    assert!(chain.has_failed_since(10) && !chain.has_failed_since(11));
}

#[tokio::test]
async fn without_submit_endpoints_broadcasts_go_to_the_read_endpoints() {
    let node = accepting_raw().await;
    let chain = chain(&[&node]);
    assert_eq!(chain.send_raw(RAW).await, Ok(keccak256(RAW)));
    assert_eq!(chain.submit_chain_id().await, Ok(None));
}
