//! The choice of endpoint: order, timeouts, breakers, and the chain that each endpoint serves.

use std::sync::Arc;

use alloy_primitives::{Bytes, U256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault, LogFilter};
use bursar_chain::rpc::{ConfigError, ENDPOINTS_MAX, RpcChain, RpcConfig, RpcLimits};
use serde_json::json;

use crate::node::{
    ACCOUNT, Answer, COOL_DOWN_MS, Node, RETRY_MS, chain, chain_with, clock, foreign, limits, ours,
    unreachable_url,
};

async fn balance(chain: &RpcChain) -> Result<U256, ChainFault> {
    chain.balance(ACCOUNT, BlockTag::Latest).await
}

fn wei(amount: u64) -> Result<U256, ChainFault> {
    Ok(U256::from(amount))
}

fn reasons(fault: ChainFault) -> Vec<String> {
    let ChainFault::Unavailable { tried } = fault else { panic!("not Unavailable: {fault:?}") };
    tried.into_iter().map(|(_, reason)| reason).collect()
}

#[tokio::test]
async fn endpoints_are_asked_in_their_order_until_one_answers() {
    let (first, second) = (Node::with_balance(1).await, Node::with_balance(2).await);
    let both = chain(&[&first, &second]);
    assert_eq!(balance(&both).await, wei(1));
    assert!(
        second.asked_methods().await.is_empty(),
        "the second is not troubled while the first answers"
    );

    first.fail_all();
    assert_eq!(balance(&both).await, wei(2));
    assert_eq!(second.asked_methods().await, ["eth_chainId", "eth_getBalance"]);

    let third = chain_with(&[unreachable_url(), second.url()], limits(), &clock());
    assert_eq!(balance(&third).await, wei(2));
}

#[tokio::test]
async fn a_slow_endpoint_is_skipped() {
    let (slow, quick) = (Node::with_balance(1).await, Node::with_balance(2).await);
    let hasty = RpcLimits { attempt_timeout_ms: 1_000, ..limits() };
    let urls = [slow.url(), quick.url()];
    slow.set_answer("eth_getBalance", Answer::Silence);
    assert_eq!(balance(&chain_with(&urls, hasty, &clock())).await, wei(2));
    slow.set_answer("eth_chainId", Answer::Silence);
    assert_eq!(balance(&chain_with(&urls, hasty, &clock())).await, wei(2));
    assert_eq!(slow.count("eth_getBalance").await, 1, "not asked before it named its chain");
}

/// The silent endpoint may still receive the request, although the next one has answered.
#[tokio::test]
async fn a_silent_endpoint_is_remembered_although_another_answered() {
    let (slow, quick) = (Node::with_balance(1).await, Node::with_balance(2).await);
    let hasty = RpcLimits { attempt_timeout_ms: 1_000, ..limits() };
    let clock = clock();
    clock.advance(10);
    let chain = chain_with(&[slow.url(), quick.url()], hasty, &clock);
    assert_eq!(balance(&chain).await, wei(1));
    assert!(!chain.has_failed_since(0), "everybody has answered");
    slow.set_answer("eth_getBalance", Answer::Silence);
    assert_eq!(balance(&chain).await, wei(2));
    assert!(chain.has_failed_since(0) && chain.has_failed_since(10));
    assert!(!chain.has_failed_since(11), "not since then");
}

#[tokio::test]
async fn a_network_is_silent_from_the_failure_of_its_last_node_until_an_answer() {
    let (first, second) = (Node::with_balance(1).await, Node::with_balance(2).await);
    let clock = clock();
    let chain = chain_with(&[first.url(), second.url()], limits(), &clock);
    let fail = |node: &Node| node.set_answer("eth_getBalance", Answer::Text(500, String::new()));
    clock.advance(10);
    fail(&first);
    assert_eq!(balance(&chain).await, wei(2));
    assert_eq!(chain.silent_since_ms(), None, "the second answers");
    clock.advance(10);
    fail(&second);
    balance(&chain).await.expect_err("no answer");
    clock.advance(10);
    balance(&chain).await.expect_err("no answer");
    assert_eq!(chain.silent_since_ms(), Some(20));
    clock.advance(COOL_DOWN_MS);
    second.set_answer("eth_getBalance", Answer::Result(json!("0x2")));
    assert_eq!(balance(&chain).await, wei(2));
    assert_eq!(chain.silent_since_ms(), None);
}

/// A background search that asks for too many blocks at once must not stop payments through the same node.
#[tokio::test]
async fn a_refused_search_does_not_count_against_its_node() {
    let (node, clock) = (Node::with_balance(1).await, clock());
    let chain = chain_with(&[node.url()], limits(), &clock);
    let too_wide = json!({"code": -32005, "message": "limit exceeded"});
    node.set_answer("eth_getLogs", Answer::Error(too_wide.clone()));
    node.set_answer("eth_getBlockByNumber", Answer::Error(too_wide));
    for _ in 0..5 {
        let filter = LogFilter {
            from_block: 1,
            to_block: 900_000,
            addresses: vec![ACCOUNT],
            events: Vec::new(),
            indexed: Vec::new(),
        };
        let refused = chain.logs(filter).await.unwrap_err();
        assert!(matches!(refused, ChainFault::Rejected { code: -32005, .. }), "{refused}");
        let refused = chain.safe_block_number().await.unwrap_err();
        assert!(matches!(refused, ChainFault::Rejected { .. }), "{refused}");
    }
    assert!(!chain.has_failed_since(0));
    assert_eq!(balance(&chain).await, wei(1));
}

#[tokio::test]
async fn a_safe_block_is_a_number_or_refused() {
    let node = Node::with_balance(1).await;
    let chain = chain(&[&node]);
    node.set_answer(
        "eth_getBlockByNumber",
        Answer::Result(json!({"number": "0x10", "hash": "0x"})),
    );
    assert_eq!(chain.safe_block_number().await, Ok(16));
    let asked = node.questions().await;
    assert_eq!(asked.last().unwrap()["params"], json!(["safe", false]));
    node.set_answer("eth_getBlockByNumber", Answer::Result(json!(null)));
    let refused = chain.safe_block_number().await;
    assert!(matches!(refused, Err(ChainFault::Rejected { code: 0, .. })), "{refused:?}");
    assert!(!chain.has_failed_since(0));
    node.set_answer("eth_getBlockByNumber", Answer::Result(json!({"number": "16"})));
    assert!(matches!(chain.safe_block_number().await, Err(ChainFault::Malformed { .. })));
}

#[tokio::test]
async fn a_question_ends_at_its_total_timeout() {
    let (slow, spare) = (Node::serving(ours()).await, Node::with_balance(2).await);
    slow.set_answer("eth_chainId", Answer::Silence);
    let short = RpcLimits { total_timeout_ms: 100, ..limits() };
    let chain = chain_with(&[slow.url(), spare.url()], short, &clock());
    let why = reasons(balance(&chain).await.unwrap_err());
    assert_eq!(why, ["no time was left", "no time was left"]);
    assert!(spare.asked_methods().await.is_empty());
}

#[tokio::test]
async fn a_failing_endpoint_gets_one_trial_after_its_cool_down() {
    let (first, second, clock) =
        (Node::with_balance(1).await, Node::with_balance(2).await, clock());
    let chain = chain_with(&[first.url(), second.url()], limits(), &clock);
    first.fail_all();
    for _ in 0..2 {
        assert_eq!(balance(&chain).await, wei(2));
    }
    assert_eq!(first.asked_methods().await.len(), 2, "the second failure opens the breaker");
    clock.advance(COOL_DOWN_MS - 1);
    assert_eq!(balance(&chain).await, wei(2));
    assert_eq!(first.asked_methods().await.len(), 2, "left alone until the cool-down is over");

    clock.advance(1);
    assert_eq!(balance(&chain).await, wei(2));
    assert_eq!(first.asked_methods().await.len(), 3, "one trial");
    assert_eq!(balance(&chain).await, wei(2));
    assert_eq!(first.asked_methods().await.len(), 3, "a failed trial opens it again");

    first.set_answer("eth_chainId", Answer::Result(json!(format!("{:#x}", ours().0))));
    first.set_answer("eth_getBalance", Answer::Result(json!("0x1")));
    clock.advance(COOL_DOWN_MS);
    assert_eq!(balance(&chain).await, wei(1));
    assert_eq!(balance(&chain).await, wei(1));
    let after = first.asked_methods().await.split_off(3);
    assert_eq!(after, ["eth_chainId", "eth_getBalance", "eth_getBalance"], "its chain first");
}

#[tokio::test]
async fn the_chain_id_is_checked_again_after_an_outage() {
    let (node, clock) = (Node::with_balance(1).await, clock());
    let chain = chain_with(&[node.url()], limits(), &clock);
    assert_eq!(balance(&chain).await, wei(1));
    node.set_answer("eth_getBalance", Answer::Text(503, String::new()));
    for _ in 0..2 {
        assert_eq!(reasons(balance(&chain).await.unwrap_err()), ["HTTP 503 Service Unavailable"]);
    }
    // A node of another chain now answers at the same address.
    node.set_answer("eth_chainId", Answer::Result(json!(format!("{:#x}", foreign().0))));
    node.set_answer("eth_getBalance", Answer::Result(json!("0xffff")));
    clock.advance(COOL_DOWN_MS);
    assert!(matches!(balance(&chain).await, Err(ChainFault::WrongChain { .. })));
    assert_eq!(node.count("eth_getBalance").await, 3, "nothing was asked of the stranger");
}

#[tokio::test]
async fn if_all_endpoints_cool_down_the_oldest_failure_is_retried() {
    let (first, second, clock) =
        (Node::with_balance(1).await, Node::with_balance(2).await, clock());
    let once = RpcLimits { breaker_failures: 1, ..limits() };
    let chain = chain_with(&[first.url(), second.url()], once, &clock);
    first.set_answer("eth_getBalance", Answer::Text(503, String::new()));
    assert_eq!(balance(&chain).await, wei(2));
    clock.advance(10);
    second.set_answer("eth_getBalance", Answer::Text(503, String::new()));
    assert_eq!(reasons(balance(&chain).await.unwrap_err()).len(), 2);

    let (before_first, before_second) =
        (first.asked_methods().await.len(), second.asked_methods().await.len());
    let why = reasons(balance(&chain).await.unwrap_err());
    assert_eq!(why.len(), 2);
    assert!(why[0].contains("503") && why[1].contains("paused"), "{why:?}");
    assert!(first.asked_methods().await.len() > before_first);
    assert_eq!(second.asked_methods().await.len(), before_second);

    // The first endpoint has failed again meanwhile, so its failure is now the newer one, and the second endpoint is
    // tried.
    clock.advance(10);
    second.set_answer("eth_getBalance", Answer::Result(json!("0x2")));
    let _failed = balance(&chain).await;
    assert_eq!(balance(&chain).await, wei(2), "and a good answer closes its breaker");
}

#[tokio::test]
async fn a_cooling_endpoint_is_skipped_while_another_can_be_asked() {
    let (first, second, clock) =
        (Node::with_balance(1).await, Node::with_balance(2).await, clock());
    let chain = chain_with(&[first.url(), second.url()], limits(), &clock);
    first.fail_all();
    for _ in 0..2 {
        assert_eq!(balance(&chain).await, wei(2));
    }
    second.set_answer("eth_getBalance", Answer::Text(503, String::new()));
    let why = reasons(balance(&chain).await.unwrap_err());
    assert!(why[0].contains("paused") && why[1].contains("503"), "{why:?}");
    assert_eq!(first.asked_methods().await.len(), 2);
}

#[tokio::test]
async fn a_foreign_endpoint_is_asked_only_for_its_chain_id() {
    let (stranger, node, clock) =
        (Node::with_balance(99).await, Node::with_balance(1).await, clock());
    stranger.set_answer("eth_chainId", Answer::Result(json!(format!("{:#x}", foreign().0))));
    let chain = chain_with(&[stranger.url(), node.url()], limits(), &clock);
    for _ in 0..5 {
        assert_eq!(balance(&chain).await, wei(1));
    }
    assert_eq!(stranger.asked_methods().await, ["eth_chainId"], "refused without asking again");
    clock.advance(RETRY_MS);
    for _ in 0..5 {
        assert_eq!(balance(&chain).await, wei(1));
    }
    assert_eq!(stranger.asked_methods().await, ["eth_chainId", "eth_chainId"]);

    stranger.set_answer("eth_chainId", Answer::Result(json!(format!("{:#x}", ours().0))));
    clock.advance(RETRY_MS);
    assert_eq!(balance(&chain).await, wei(99), "it is used once it serves our chain");
}

#[tokio::test]
async fn if_all_endpoints_are_foreign_the_error_is_wrong_chain() {
    let (a, b) = (Node::with_balance(1).await, Node::with_balance(2).await);
    for stranger in [&a, &b] {
        stranger.set_answer("eth_chainId", Answer::Result(json!(format!("{:#x}", foreign().0))));
    }
    let chain = chain(&[&a, &b]);
    for _ in 0..3 {
        let Err(ChainFault::WrongChain { endpoint, expected, answered }) = balance(&chain).await
        else {
            panic!("another chain")
        };
        assert_eq!((expected, answered), (ours(), foreign()));
        assert!(a.url().starts_with(endpoint.as_str()));
    }
    assert!(matches!(chain.chain_id().await, Err(ChainFault::WrongChain { .. })));
    assert_eq!((a.asked_methods().await.len(), b.asked_methods().await.len()), (1, 1));
}

#[tokio::test]
async fn the_chain_is_checked_before_the_first_use_daily_and_on_demand() {
    let (node, clock) = (Node::with_balance(1).await, clock());
    let chain = chain_with(&[node.url()], limits(), &clock);
    for _ in 0..3 {
        assert_eq!(balance(&chain).await, wei(1));
    }
    assert_eq!(node.asked_methods().await.first().unwrap(), "eth_chainId");
    assert_eq!(node.count("eth_chainId").await, 1);
    assert_eq!(chain.chain_id().await, Ok(ours()));
    assert_eq!(node.count("eth_chainId").await, 2);
    clock.advance(limits().identity_valid_ms - 1);
    assert_eq!(balance(&chain).await, wei(1));
    assert_eq!(node.count("eth_chainId").await, 2);
    clock.advance(1);
    assert_eq!(balance(&chain).await, wei(1));
    assert_eq!(node.count("eth_chainId").await, 3);
}

#[test]
fn invalid_endpoint_settings_are_rejected() {
    let make = |urls: &[&str]| {
        RpcChain::new(RpcConfig::new(ours(), urls.iter().copied()), clock()).map(|_chain| ())
    };
    assert_eq!(make(&[]), Err(ConfigError::NoEndpoint));
    assert_eq!(make(&["https://a.test"; ENDPOINTS_MAX]), Ok(()));
    assert_eq!(make(&["https://a.test"; ENDPOINTS_MAX + 1]), Err(ConfigError::TooManyEndpoints));
    assert_eq!(make(&["https://a.test", "node"]), Err(ConfigError::NotAUrl { position: 2 }));
    assert!(matches!(make(&["http://a.test"]), Err(ConfigError::PlainHttp(_))));
    assert!(matches!(make(&["http://10.0.0.1:8545"]), Err(ConfigError::PlainHttp(_))));
}

#[tokio::test]
async fn plain_http_to_localhost_works() {
    let node = Node::with_balance(1).await;
    let url = node.url().replace("127.0.0.1", "localhost");
    assert_eq!(balance(&chain_with(&[url], limits(), &clock())).await, wei(1));
}

#[tokio::test]
async fn a_cancelled_request_leaves_the_endpoint_usable() {
    let (node, clock) = (Node::with_balance(1).await, clock());
    let chain = Arc::new(chain_with(&[node.url()], limits(), &clock));
    node.set_answer("eth_getBalance", Answer::Silence);
    let waiting = tokio::spawn({
        let chain = Arc::clone(&chain);
        async move { balance(&chain).await }
    });
    while node.count("eth_getBalance").await == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    node.set_answer("eth_getBalance", Answer::Result(json!("0x1")));
    assert_eq!(balance(&chain).await, wei(1));
}

#[tokio::test]
async fn a_rebroadcast_goes_to_every_node_and_the_best_answer_counts() {
    let raw = Bytes::from_static(&[2, 248, 1]);
    let hash = alloy_primitives::keccak256(&raw);
    let refuses = || Answer::Error(json!({"code": -32000, "message": "already known"}));
    let takes = || Answer::Result(json!(hash));
    for (first, second, taken) in [
        (takes(), takes(), true),
        (refuses(), takes(), true),
        (takes(), refuses(), true),
        (refuses(), refuses(), false),
        (Answer::Text(503, "down".to_owned()), refuses(), false),
    ] {
        let nodes = [Node::serving(ours()).await, Node::serving(ours()).await];
        nodes[0].set_answer("eth_sendRawTransaction", first);
        nodes[1].set_answer("eth_sendRawTransaction", second);
        let chain = chain(&[&nodes[0], &nodes[1]]);
        let told = chain.send_raw_everywhere(raw.clone()).await;
        if taken {
            assert_eq!(told, Ok(hash));
        } else {
            assert!(matches!(told, Err(ChainFault::Rejected { .. })), "{told:?}");
        }
        for node in &nodes {
            assert_eq!(node.count("eth_sendRawTransaction").await, 1);
        }
    }
}
