//! Nodes that accept no batches, or only small ones.

use alloy_primitives::{Address, Bytes};
use bursar_chain::ports::{Chain, ChainFault, Question};
use bursar_chain::rpc::BATCH_MAX;
use serde_json::json;

use crate::node::{Answer, Node, SECRET, chain, chain_with, clock, limits, ours};

/// Asks for the code of `count` accounts. A node of [`echoing`] answers each question with the account's address.
async fn ask(chain: &dyn Chain, count: u8) -> Result<Vec<Address>, ChainFault> {
    let questions = (1..=count).map(|byte| Question::Code(Address::repeat_byte(byte)));
    let answers = chain.answers(questions.collect()).await?;
    answers.into_iter().map(|answer| answer.map(|code| Address::from_slice(&code))).collect()
}

fn accounts(count: u8) -> Vec<Address> {
    (1..=count).map(Address::repeat_byte).collect()
}

async fn echoing(batch: Answer) -> Node {
    let node = Node::serving(ours()).await;
    node.set_answer("eth_getCode", Answer::Echo);
    node.set_answer("batch", batch);
    node
}

fn refusal(code: i64) -> String {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "no batches"}})
        .to_string()
}

#[tokio::test]
async fn a_node_without_batches_is_asked_singly_and_stays_healthy() {
    let one = refusal(-32600);
    for (status, body) in [
        (200, one.clone()),
        (400, one.clone()),
        (500, one.clone()),
        (200, format!("[{one}]")),
        (200, format!("[{}]", [one.as_str(); 25].join(","))),
        (200, refusal(-32000)),
        (200, "<html>".to_owned()),
        (405, "POST objects only".to_owned()),
        (413, String::new()),
    ] {
        let node = echoing(Answer::Text(status, body.clone())).await;
        let clock = clock();
        let chain = chain_with(&[node.url()], limits(), &clock);
        // Refused batches do not count as failures: repeat them more often than the breaker allows failures.
        for _time in 0..4 {
            assert_eq!(ask(&chain, 25).await, Ok(accounts(25)), "{status} {body}");
        }
        assert_eq!(node.count("batch").await, 2, "one of 25 and one of ten: {status} {body}");
        assert_eq!(node.count("eth_getCode").await, 100);
        assert!(!chain.has_failed_since(0));
        // After ten minutes a large batch is tried again, because another node may answer at this address.
        clock.advance(10 * 60 * 1000);
        node.set_answer("batch", Answer::AtMost(50));
        assert_eq!(ask(&chain, 25).await, Ok(accounts(25)));
        assert_eq!((node.count("batch").await, node.count("eth_getCode").await), (3, 100));
    }
}

#[tokio::test]
async fn a_node_with_a_limit_gets_smaller_batches() {
    let node = echoing(Answer::AtMost(10)).await;
    let chain = chain(&[&node]);
    assert_eq!(ask(&chain, 25).await, Ok(accounts(25)));
    assert_eq!(ask(&chain, 25).await, Ok(accounts(25)));
    assert_eq!(node.count("batch").await, 1 + 3 + 3);
    assert_eq!(node.count("eth_getCode").await, 0);
}

#[tokio::test]
async fn a_single_request_is_no_batch() {
    let node = echoing(Answer::Text(200, refusal(-32600))).await;
    let chain = chain(&[&node]);
    assert_eq!(ask(&chain, 1).await, Ok(accounts(1)));
    assert_eq!(node.count("batch").await, 0);
    assert_eq!(ask(&chain, 0).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_node_that_refuses_everything_is_not_asked_for_each() {
    for (answer, wanted) in [
        (Answer::Text(429, refusal(-32005)), 0),
        (Answer::Text(401, "who are you?".to_owned()), 0),
        (Answer::Text(200, refusal(-32005)), 1),
    ] {
        let node = echoing(answer).await;
        node.set_answer(
            "eth_getCode",
            Answer::Error(json!({"code": -32005, "message": "slow down"})),
        );
        let fault = ask(&chain(&[&node]), 25).await.unwrap_err();
        assert_eq!(node.count("eth_getCode").await, wanted, "{fault}");
    }
    // If a node refuses for the rate limit, the next node is asked as usual.
    let (refusing, next) =
        (echoing(Answer::Text(429, String::new())).await, echoing(Answer::AtMost(50)).await);
    assert_eq!(ask(&chain(&[&refusing, &next]), 25).await, Ok(accounts(25)));
}

#[tokio::test]
async fn an_error_about_one_request_is_that_requests_alone() {
    let node = echoing(Answer::Text(200, refusal(-32600))).await;
    let revert = json!({"code": 3, "message": "execution reverted", "data": "0x08c379a0"});
    node.set_answer("eth_call", Answer::Error(revert));
    let to = Address::repeat_byte(7);
    let call = Question::Call { from: Address::ZERO, to, data: Bytes::new(), gas: 1 };
    let questions = vec![Question::Code(to), call, Question::Code(to)];
    let answers = chain(&[&node]).answers(questions).await.unwrap();
    let data = Bytes::from_static(&[0x08, 0xc3, 0x79, 0xa0]);
    assert_eq!(answers[1], Err(ChainFault::Reverted { data }));
    assert!(answers[0].is_ok() && answers[2].is_ok());
}

#[tokio::test]
async fn what_a_node_says_about_a_batch_is_reported() {
    let node = echoing(Answer::AtMost(BATCH_MAX)).await;
    let chain = chain(&[&node]);
    assert_eq!(chain.batch_refusal(BATCH_MAX).await, Ok(None));
    node.set_answer("batch", Answer::AtMost(BATCH_MAX - 1));
    let said = chain.batch_refusal(BATCH_MAX).await.unwrap().unwrap();
    assert_eq!(said, "batch too large (code -32600)");
    node.set_answer("batch", Answer::Text(403, "no batches".to_owned()));
    assert_eq!(chain.batch_refusal(BATCH_MAX).await, Ok(Some("HTTP 403".to_owned())));
    let error = json!({"error": {"code": -1, "message": format!("key {SECRET}\u{7}")}}).to_string();
    node.set_answer("batch", Answer::Text(200, error));
    let said = chain.batch_refusal(BATCH_MAX).await.unwrap().unwrap();
    assert_eq!(said, "key [key]\u{fffd} (code -1)");
}
