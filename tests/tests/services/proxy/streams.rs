//! Streams: they are passed on piece by piece, settled before the first piece, and kept for a
//! customer that loses the connection.

use bursar_tests::proxy::{receipt, streaming_chat};
use bursar_tests::scripted_facilitator::FacilitatorReply;
use bursar_tests::upstream::{Behavior, KEY, frames};
use reqwest::Response;
use serde_json::json;

use crate::proxy::stage::{Stage, refusal, status_and_json};

fn answer_pieces() -> Vec<String> {
    frames(&["one", " two", " three"])
}

fn gated_stream(breaks: bool) -> Behavior {
    Behavior::Pieces { pieces: answer_pieces(), breaks }
}

async fn next_piece(response: &mut Response) -> String {
    let chunk = response.chunk().await.unwrap().expect("a piece");
    String::from_utf8(chunk.to_vec()).unwrap()
}

#[tokio::test]
async fn each_chunk_is_forwarded_before_the_next_arrives() {
    for version in [1, 2] {
        let stage = Stage::set_up(gated_stream(false)).await;
        let body = streaming_chat("count");
        let header = stage.customer.sign(version, &body).await;
        let mut response = stage.customer.send(&body, &header).await;
        // The stream is paid, and the receipt is in the head.
        assert_eq!(receipt(&response)["success"], json!(true));
        assert_eq!(response.headers().contains_key("x-payment-response"), version == 1);
        assert!(
            response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream")
        );
        assert_eq!(stage.facilitator.settled(), 1);
        for (n, piece) in answer_pieces().iter().enumerate() {
            if n > 0 {
                stage.upstream.open_gate(1);
            }
            assert_eq!(next_piece(&mut response).await, *piece);
        }
        assert_eq!(response.chunk().await.unwrap(), None);
        // A repeated request gets the whole stream.
        let again = stage.customer.send(&body, &header).await;
        assert!(again.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
        assert_eq!(again.text().await.unwrap(), answer_pieces().concat());
        assert_eq!(stage.counts(), (1, 1));
    }
}

#[tokio::test]
async fn no_chunk_is_sent_before_the_settlement() {
    let stage = Stage::set_up(Behavior::Stream(answer_pieces())).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Late);
    let body = streaming_chat("count");
    let header = stage.customer.sign(2, &body).await;
    let mut waiting = Box::pin(stage.customer.send(&body, &header));
    while stage.facilitator.settle_calls() == 0 {
        tokio::select! {
            _got = &mut waiting => panic!("it was answered unpaid"),
            () = tokio::task::yield_now() => {}
        }
    }
    stage.facilitator.open_gate(1);
    assert_eq!(waiting.await.text().await.unwrap(), answer_pieces().concat());
}

#[tokio::test]
async fn a_customer_that_leaves_a_stream_gets_all_of_it_on_repeat() {
    let stage = Stage::set_up(gated_stream(false)).await;
    let body = streaming_chat("count");
    let header = stage.customer.sign(2, &body).await;
    let mut response = stage.customer.send(&body, &header).await;
    assert_eq!(next_piece(&mut response).await, answer_pieces()[0]);
    drop(response);
    stage.upstream.open_gate(answer_pieces().len());
    let again = stage.customer.send(&body, &header).await;
    assert_eq!(again.text().await.unwrap(), answer_pieces().concat());
    assert_eq!(stage.counts(), (1, 1));
    assert_eq!(stage.upstream.abandoned_responses(), 0, "it was read to its end");
    assert!(stage.proxy.metrics().await.contains("streams_left_total 1"));
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_first_chunk_ends_with_an_error_and_stays_paid() {
    for version in [1, 2] {
        let stage = Stage::set_up(gated_stream(true)).await;
        let body = streaming_chat("count");
        let header = stage.customer.sign(version, &body).await;
        let mut response = stage.customer.send(&body, &header).await;
        // Lets the upstream send one piece at a time, because a server that breaks off drops its unsent pieces.
        for piece in answer_pieces() {
            assert_eq!(next_piece(&mut response).await, piece, "what came is passed on");
            stage.upstream.open_gate(1);
        }
        let text = response.text().await.unwrap();
        let frame = text.trim().strip_prefix("data: ").expect("a frame");
        let frame: serde_json::Value = serde_json::from_str(frame).unwrap();
        assert_eq!(frame["error"]["code"], "stream_broken");
        let again = stage.customer.send(&body, &header).await;
        assert_eq!(again.headers()["x-should-retry"], "false");
        assert_eq!(receipt(&again)["success"], json!(true));
        let (status, answer) = status_and_json(again).await;
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("stream_broken")));
        assert_eq!(answer["x402"]["charged"], "yes");
        assert_eq!(stage.counts(), (1, 1));
        assert!(stage.proxy.metrics().await.contains("streams_broken_total 1"));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_first_chunk_costs_nothing() {
    for behavior in [Behavior::NoPiece, Behavior::Stream(Vec::new())] {
        let stage = Stage::set_up(behavior).await;
        let body = streaming_chat("count");
        let header = stage.customer.sign(2, &body).await;
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
        assert_eq!(stage.facilitator.settle_calls(), 0);
        // The payment is still valid.
        stage.upstream.set_behavior(Behavior::Stream(answer_pieces()));
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(response.text().await.unwrap(), answer_pieces().concat());
        assert_eq!(stage.facilitator.settled(), 1);
    }
}

#[tokio::test]
async fn a_stream_is_forwarded_up_to_its_error_frame() {
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n".to_owned();
    let sent = vec![": wait\n\n".to_owned(), answer_pieces()[0].clone(), error];
    let stage = Stage::set_up(Behavior::Stream(sent.clone())).await;
    let body = streaming_chat("count");
    let header = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(response.text().await.unwrap(), sent.concat());
    let again = stage.customer.send(&body, &header).await;
    assert_eq!(refusal(again).await, (409, "stream_broken".to_owned()));
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn a_stalled_stream_is_cut_off_with_an_error() {
    let stage = Stage::with(gated_stream(false), "upstream_idle_ms = 200").await;
    let body = streaming_chat("count");
    let header = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &header).await;
    let text = response.text().await.unwrap();
    assert!(text.starts_with(&answer_pieces()[0]) && text.contains("stream_broken"), "{text}");
}

#[tokio::test]
async fn an_upstream_that_does_not_stream_is_answered_in_one_piece() {
    let stage = Stage::with_answer().await;
    let body = streaming_chat("count");
    let response = stage.customer.buy(2, &body).await;
    assert_eq!(receipt(&response)["success"], json!(true));
    assert_eq!(
        status_and_json(response).await,
        (200, bursar_tests::upstream::answer("hello world"))
    );
}

#[tokio::test]
async fn stream_tokens_are_counted_if_the_upstream_reports_no_usage() {
    let stage = Stage::set_up(Behavior::Stream(frames(&["hello", " world"]))).await;
    let response = stage.customer.buy(2, &streaming_chat("count")).await;
    let _all = response.text().await.unwrap();
    let line = "bursar_proxy_tokens_total{model=\"other\",kind=\"completion\"} 2";
    stage.wait_for_metric(line).await;
}

/// Tests also JSON escapes, the end of a stream, and whole answers.
#[tokio::test]
async fn the_upstreams_key_is_in_no_stream_wherever_it_is_cut() {
    let stage = Stage::set_up(Behavior::Stream(answer_pieces())).await;
    let escaped: String = KEY.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    for spelling in [KEY.to_owned(), escaped] {
        let text =
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a {spelling} b\"}}}}]}}\n\n");
        let clean = text.replace(&spelling, "[key]");
        let at = text.find(&spelling).unwrap();
        let body = streaming_chat("count");
        // The text is sent in two pieces, cut at every position of the key, and in three pieces.
        for cut in (at..=at + spelling.len()).step_by(if spelling == KEY { 1 } else { 13 }) {
            let (one, rest) = text.split_at(cut);
            let (two, three) = rest.split_at(rest.len() / 2);
            for sent in [vec![one, rest], vec![one, two, three]] {
                let mut sent: Vec<String> = sent.into_iter().map(str::to_owned).collect();
                sent.insert(0, answer_pieces()[0].clone());
                stage.upstream.set_behavior(Behavior::Stream(sent));
                let header = stage.customer.sign(2, &body).await;
                let response = stage.customer.send(&body, &header).await.text().await.unwrap();
                assert_eq!(response, format!("{}{clean}", answer_pieces()[0]), "{cut}");
                // The stored answer does not contain the key either.
                let again = stage.customer.send(&body, &header).await.text().await.unwrap();
                assert_eq!(again, response);
            }
        }
    }
    // The key is at the very end of the stream.
    stage
        .upstream
        .set_behavior(Behavior::Stream(vec![answer_pieces()[0].clone(), format!(": {KEY}")]));
    let response = stage.customer.buy(2, &streaming_chat("count")).await.text().await.unwrap();
    assert_eq!(response, format!("{}: [key]", answer_pieces()[0]));
    // The proxy holds back a mere prefix of the key until the end, and then sends it.
    stage
        .upstream
        .set_behavior(Behavior::Stream(vec![answer_pieces()[0].clone(), ": sk-up".to_owned()]));
    let response = stage.customer.buy(2, &streaming_chat("count")).await.text().await.unwrap();
    assert_eq!(response, format!("{}: sk-up", answer_pieces()[0]));
    let spaced = KEY.replace('-', "\\u002d");
    let whole =
        |text: &str| format!("{{\"choices\":[{{\"message\":{{\"content\":\"{text}\"}}}}]}}");
    stage.upstream.set_behavior(Behavior::Status(200, whole(&spaced)));
    let response = stage.customer.buy(2, &streaming_chat("count")).await.text().await.unwrap();
    assert_eq!(response, whole("[key]"));
}
