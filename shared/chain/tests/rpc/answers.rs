//! Answers of an endpoint: what is accepted and what is rejected.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault, TxStatus};
use bursar_chain::rpc::RpcLimits;
use bursar_core::time::Utc;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::node::{ACCOUNT, Answer, Node, chain, chain_with, clock, limits, ours, unreachable_url};

const CONTRACT: Address = Address::repeat_byte(0x22);

/// Returns the error of a balance query if the only endpoint gives this answer.
async fn fault(answer: Answer) -> ChainFault {
    let node = Node::serving(ours()).await;
    node.set_answer("eth_getBalance", answer);
    chain(&[&node]).balance(ACCOUNT, BlockTag::Latest).await.unwrap_err()
}

fn text(status: u16, body: &str) -> Answer {
    Answer::Text(status, body.to_owned())
}

#[tokio::test]
async fn every_request_matches_the_json_rpc_specification() {
    let node = Node::serving(ours()).await;
    let (hash, raw) = (B256::repeat_byte(7), Bytes::from_static(&[2, 248, 1]));
    let sent = keccak256(&raw);
    node.set_answer("eth_call", Answer::Result(json!("0x0102")));
    node.set_answer("eth_getBalance", Answer::Result(json!("0xde0b6b3a7640000")));
    node.set_answer("eth_getCode", Answer::Result(json!("0x")));
    node.set_answer(
        "eth_getBlockByNumber",
        Answer::Result(json!({"timestamp": "0x6553f100", "x": 1})),
    );
    node.set_answer("eth_sendRawTransaction", Answer::Result(json!(sent)));
    node.set_answer("eth_getTransactionReceipt", Answer::Result(Value::Null));
    let chain = chain(&[&node]);

    let data = Bytes::from_static(&[0xab, 0xcd]);
    let called = chain.call(CONTRACT, data, BlockTag::Number(16)).await;
    assert_eq!(called, Ok(Bytes::from_static(&[1, 2])));
    let balance = chain.balance(ACCOUNT, BlockTag::Finalized).await;
    assert_eq!(balance, Ok(U256::from(10).pow(U256::from(18))));
    assert_eq!(chain.code_at(CONTRACT, BlockTag::Safe).await, Ok(Bytes::new()));
    assert_eq!(chain.block_time().await, Ok(Utc::from_seconds(1_700_000_000)));
    assert_eq!(chain.send_raw(raw).await, Ok(sent));
    assert_eq!(chain.receipt(hash).await, Ok(None));
    let receipt = json!({
        "transactionHash": hash, "blockNumber": "0x10", "blockHash": hash, "status": "0x0", "logs": [],
    });
    node.set_answer("eth_getTransactionReceipt", Answer::Result(receipt));
    let receipt = chain.receipt(hash).await.unwrap().unwrap();
    assert_eq!((receipt.tx_hash, receipt.status), (hash, TxStatus::Reverted));

    let questions: Vec<Value> = node.questions().await;
    let params = |method: &str| {
        let found = questions.iter().find(|question| question["method"] == method);
        found.unwrap()["params"].clone()
    };
    let to = format!("0x{}", "22".repeat(20));
    assert_eq!(params("eth_call"), json!([{"to": to, "data": "0xabcd"}, "0x10"]));
    let account = format!("0x{}", "11".repeat(20));
    assert_eq!(params("eth_getBalance"), json!([account, "finalized"]));
    assert_eq!(params("eth_getCode"), json!([to, "safe"]));
    assert_eq!(params("eth_getBlockByNumber"), json!(["latest", false]));
    assert_eq!(params("eth_sendRawTransaction"), json!(["0x02f801"]));
    assert_eq!(params("eth_getTransactionReceipt"), json!([hash]));
    let mut ids: Vec<u64> = questions.iter().map(|q| q["id"].as_u64().unwrap()).collect();
    assert!(questions.iter().all(|question| question["jsonrpc"] == "2.0"));
    ids.dedup();
    assert_eq!(ids.len(), questions.len(), "an id is used once");
}

#[tokio::test]
async fn after_a_malformed_answer_the_next_endpoint_is_asked() {
    for odd in [
        text(200, "<html>"),
        text(200, ""),
        text(200, r#"{"jsonrpc":"2.0","id":$ID,"result":"0x1""#),
        text(200, r#"{"jsonrpc":"2.0","id":999999,"result":"0x1"}"#),
        text(200, r#"{"jsonrpc":"2.0","id":"$ID","result":"0x1"}"#),
        text(200, r#"{"jsonrpc":"2.0","id":$ID,"result":"0x1","error":{"code":1,"message":""}}"#),
        text(200, r#"{"jsonrpc":"2.0","id":$ID}"#),
        text(200, r#"{"id":$ID,"result":"0x1"}"#),
        Answer::Result(json!("0x01")),
        Answer::Result(json!("1")),
        Answer::Result(json!(1)),
        Answer::Result(Value::Null),
        Answer::Result(json!(format!("0x1{}", "0".repeat(64)))),
    ] {
        let (node, next) = (Node::serving(ours()).await, Node::with_balance(2).await);
        node.set_answer("eth_getBalance", odd);
        let alone = chain(&[&node]).balance(ACCOUNT, BlockTag::Latest).await;
        assert!(matches!(alone, Err(ChainFault::Malformed { .. })), "{alone:?}");
        let both = chain(&[&node, &next]).balance(ACCOUNT, BlockTag::Latest).await;
        assert_eq!(both, Ok(U256::from(2)));
    }
}

#[tokio::test]
async fn a_block_time_after_the_year_9999_is_rejected() {
    let node = Node::serving(ours()).await;
    let chain = chain(&[&node]);
    for (timestamp, milliseconds) in [
        (json!("0x0"), Some(0)),
        (json!("0x3afff4417f"), Some(253_402_300_799_000)),
        (json!("0x3afff44180"), None),
        (json!("0xffffffffffffffff"), None),
        (json!(1_700_000_000), None),
    ] {
        node.set_answer("eth_getBlockByNumber", Answer::Result(json!({"timestamp": timestamp})));
        assert_eq!(chain.block_time().await.ok(), milliseconds.map(Utc), "{timestamp}");
    }
    node.set_answer("eth_getBlockByNumber", Answer::Result(Value::Null));
    assert!(matches!(chain.block_time().await, Err(ChainFault::Malformed { .. })));
}

#[tokio::test]
async fn an_answer_over_the_size_limit_is_rejected() {
    let node = Node::serving(ours()).await;
    let clock = clock();
    let body = |digits: usize| {
        // The shortest envelope around this many digits. `$ID` stands for the id of the second request, which has one
        // digit.
        format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":"0x{}"}}"#, "0".repeat(digits))
    };
    let small = RpcLimits { reply_bytes_max: 1000, ..limits() };
    let fits = 1000 - body(0).len() + "$ID".len() - 1;
    node.set_answer("eth_getCode", Answer::Text(200, body(fits)));
    let code = chain_with(&[node.url()], small, &clock).code_at(CONTRACT, BlockTag::Latest).await;
    assert_eq!(code.unwrap().len(), fits / 2);
    node.set_answer("eth_getCode", Answer::Text(200, body(fits + 2)));
    let code = chain_with(&[node.url()], small, &clock).code_at(CONTRACT, BlockTag::Latest).await;
    let ChainFault::Unavailable { tried } = code.unwrap_err() else { panic!("too long") };
    assert_eq!(tried[0].1, "the answer is longer than 1000 bytes");
}

/// We count the bytes instead of trusting `content-length`: this answer has no such header and never ends.
#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        // A client treats an answer that precedes its request as a broken connection.
        let mut question = Vec::new();
        while !question.ends_with(b"}") {
            socket.read_buf(&mut question).await.unwrap();
        }
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut sent = 0usize;
        while socket.write_all(chunk.as_bytes()).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    let small = RpcLimits { reply_bytes_max: 100_000, ..limits() };
    let answer = chain_with(&[url], small, &clock()).chain_id().await;
    assert!(
        matches!(&answer, Err(ChainFault::Unavailable { tried }) if tried[0].1.contains("longer"))
    );
    assert!(server.await.unwrap() >= 100_000, "it was cut off, after the bound");
}

#[tokio::test]
async fn a_node_that_returns_another_transaction_is_not_believed() {
    let (asked, other) = (B256::repeat_byte(7), B256::repeat_byte(8));
    let (node, next) = (Node::serving(ours()).await, Node::serving(ours()).await);
    let method = "eth_getTransactionByHash";
    node.set_answer(method, Answer::Result(json!({ "hash": asked })));
    assert_eq!(chain(&[&node]).is_known(asked).await, Ok(true));
    node.set_answer(method, Answer::Result(json!({ "hash": other })));
    let alone = chain(&[&node]).is_known(asked).await;
    assert!(matches!(alone, Err(ChainFault::Malformed { .. })), "{alone:?}");
    // If the first node returns another transaction, the answer of the next node counts.
    for (answer, known) in [(Value::Null, false), (json!({ "hash": asked }), true)] {
        next.set_answer(method, Answer::Result(answer));
        assert_eq!(chain(&[&node, &next]).is_known(asked).await, Ok(known));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Node::with_balance(66).await;
    let node = Node::serving(ours()).await;
    node.set_answer("eth_getBalance", Answer::Redirect(elsewhere.url()));
    let answer = chain(&[&node]).balance(ACCOUNT, BlockTag::Latest).await;
    let Err(ChainFault::Unavailable { tried }) = answer else { panic!("{answer:?}") };
    assert!(tried[0].1.contains("redirects are not followed"), "{tried:?}");
    assert!(elsewhere.asked_methods().await.is_empty());
}

#[tokio::test]
async fn a_node_error_is_returned_only_if_no_other_node_may_answer() {
    let behind = Answer::Error(json!({"code": -32000, "message": "header not found"}));
    let (node, next) = (Node::serving(ours()).await, Node::with_balance(2).await);
    node.set_answer("eth_getBalance", behind.clone());
    let both = chain(&[&node, &next]).balance(ACCOUNT, BlockTag::Latest).await;
    assert_eq!(both, Ok(U256::from(2)));
    let message = "header not found".to_owned();
    assert_eq!(fault(behind).await, ChainFault::Rejected { code: -32000, message });
    // One refusal is not enough: the silent node might have given a better answer.
    let mixed = chain_with(&[node.url(), unreachable_url()], limits(), &clock());
    let mixed = mixed.balance(ACCOUNT, BlockTag::Latest).await;
    assert!(matches!(mixed, Err(ChainFault::Unavailable { .. })));
}

#[tokio::test]
async fn a_refused_broadcast_is_not_sent_to_the_next_node() {
    let (node, next) = (Node::serving(ours()).await, Node::serving(ours()).await);
    let raw = Bytes::from_static(&[2, 1]);
    node.set_answer(
        "eth_sendRawTransaction",
        Answer::Error(json!({"code": -32000, "message": "nonce too low"})),
    );
    next.set_answer("eth_sendRawTransaction", Answer::Result(json!(keccak256(&raw))));
    let chain = chain(&[&node, &next]);
    let message = "nonce too low".to_owned();
    assert_eq!(
        chain.send_raw(raw.clone()).await,
        Err(ChainFault::Rejected { code: -32000, message })
    );
    assert!(next.asked_methods().await.is_empty());
    // A node that returns another hash has not accepted our bytes, so they go to the next node.
    node.set_answer("eth_sendRawTransaction", Answer::Result(json!(B256::repeat_byte(9))));
    assert_eq!(chain.send_raw(raw.clone()).await, Ok(keccak256(&raw)));
}

#[tokio::test]
async fn a_revert_is_final_whatever_the_http_status() {
    let error = r#"{"jsonrpc":"2.0","id":$ID,
        "error":{"code":3,"message":"execution reverted","data":"0x08c379a0"}}"#;
    for status in [200, 400, 500] {
        let (node, next) = (Node::serving(ours()).await, Node::serving(ours()).await);
        node.set_answer("eth_call", text(status, error));
        let called = chain(&[&node, &next]).call(CONTRACT, Bytes::new(), BlockTag::Latest).await;
        let data = Bytes::from_static(&[0x08, 0xc3, 0x79, 0xa0]);
        assert_eq!(called, Err(ChainFault::Reverted { data }));
        assert!(next.asked_methods().await.is_empty(), "every node would say so");
    }
    let good_but_failed = text(500, r#"{"jsonrpc":"2.0","id":$ID,"result":"0x1"}"#);
    assert!(matches!(fault(good_but_failed).await, ChainFault::Unavailable { .. }));
}

/// One of the nodes may hide or falsify the receipt.
#[tokio::test]
async fn every_node_is_asked_for_its_own_receipt() {
    let (first, second, third) =
        (Node::serving(ours()).await, Node::serving(ours()).await, Node::serving(ours()).await);
    let receipt = |status: &str| {
        json!({"transactionHash": B256::repeat_byte(7), "blockNumber": "0x10",
            "blockHash": B256::ZERO, "status": status, "logs": []})
    };
    let on = |node: &Node, receipt: Value| {
        node.set_answer("eth_getTransactionReceipt", Answer::Result(receipt));
    };
    on(&first, receipt("0x0"));
    on(&second, Value::Null);
    on(&third, receipt("0x1"));
    let chain = chain(&[&first, &second, &third]);
    let found = chain.receipts_from_all_nodes(B256::repeat_byte(7)).await.unwrap();
    let statuses: Vec<TxStatus> = found.iter().map(|receipt| receipt.status).collect();
    assert_eq!(statuses, [TxStatus::Reverted, TxStatus::Succeeded]);
}

#[tokio::test]
async fn receipts_are_batched_or_requested_singly_without_batch_support() {
    let node = Node::serving(ours()).await;
    let receipt =
        json!({"blockNumber": "0x10", "blockHash": B256::ZERO, "status": "0x1", "logs": []});
    node.set_answer("eth_getTransactionReceipt", Answer::Result(receipt));
    let chain = chain(&[&node]);
    let hashes: Vec<B256> = (1..=60).map(B256::repeat_byte).collect();
    let found = chain.receipts(&hashes).await.unwrap();
    let told: Vec<B256> = found.into_iter().map(|one| one.unwrap().tx_hash).collect();
    assert_eq!(told, hashes, "each in its place");
    // One batch of fifty requests and one of ten.
    assert_eq!(node.count("batch").await, 2);
    assert_eq!(node.count("eth_getTransactionReceipt").await, 0);

    node.set_answer(
        "batch",
        Answer::Text(
            200,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}"#
                .to_owned(),
        ),
    );
    node.set_answer("eth_getTransactionReceipt", Answer::Result(Value::Null));
    assert_eq!(chain.receipts(&hashes[..3]).await.unwrap(), [None, None, None]);
    assert_eq!(node.count("eth_getTransactionReceipt").await, 3);
}
