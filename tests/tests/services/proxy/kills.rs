//! Kills the proxy at each failpoint. Afterwards the same request with the same payment is answered, and money has
//! moved once.

use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Customer, ProxyHome, chat, receipt, streaming_chat};
use bursar_tests::scripted_facilitator::ScriptedFacilitator;
use bursar_tests::upstream::{Behavior, Upstream, answer, frames};
use serde_json::{Value, json};

struct Scene {
    upstream: Upstream,
    facilitator: ScriptedFacilitator,
    home: ProxyHome,
}

/// Kills the proxy at a failpoint and sends the request to its successor; the scene counts the calls.
async fn kill_and_repeat(point: &str, stream: bool) -> Scene {
    let behavior = if stream {
        Behavior::Stream(frames(&["hello", " world"]))
    } else {
        Behavior::Whole(answer("hello world"))
    };
    let upstream = Upstream::serve(behavior).await;
    let facilitator = ScriptedFacilitator::serve().await;
    let home = ProxyHome::new(&upstream.url, &facilitator.url, "");
    let body = if stream { streaming_chat("hello") } else { chat("hello") };
    let mut first = home.start_process(Some(&format!("{point}:1")));
    let mut customer = Customer::of(&first.url, Payer::random());
    let header = customer.sign(2, &body).await;
    let lost = customer.request(&body).header(header.name, &header.value).send().await;
    if let Ok(answer) = lost {
        // The head of a stream may have been sent already; then its body is truncated.
        assert!(stream && answer.bytes().await.is_err(), "{point}: it was answered");
    }
    assert!(!first.wait().success());
    let second = home.start_process(None);
    customer.url = second.url.clone();
    let response = customer.send(&body, &header).await;
    assert_eq!(response.status(), 200, "{point}");
    assert_eq!(receipt(&response)["success"], json!(true));
    let text = response.text().await.unwrap();
    if stream {
        assert_eq!(text, frames(&["hello", " world"]).concat(), "{point}");
    } else {
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), answer("hello world"), "{point}");
    }
    assert_eq!(facilitator.settled(), 1, "{point}: money moved more or less than once");
    // A further repeat changes nothing.
    let calls = upstream.calls();
    assert_eq!(customer.send(&body, &header).await.text().await.unwrap(), text);
    assert_eq!(upstream.calls(), calls);
    let log = std::fs::read_to_string(home.folder().join("log")).unwrap();
    // A taken payment is on disk before the upstream is called, and the next start drops it.
    assert_eq!(log.contains("received but not answered"), point == "taken", "{point}: {log}");
    assert!(!log.contains(bursar_tests::upstream::KEY) && !log.contains("panicked"), "{log}");
    Scene { upstream, facilitator, home }
}

#[tokio::test]
async fn an_answer_survives_a_kill_at_every_point() {
    // Nothing is charged before the answer is stored; afterwards the upstream is not asked again.
    for (point, calls) in [("taken", 1), ("asking", 1), ("settled", 1), ("paid", 1)] {
        let scene = kill_and_repeat(point, false).await;
        assert_eq!(scene.upstream.calls(), calls, "{point}");
        assert!(scene.home.settings().exists());
    }
}

#[tokio::test]
async fn a_stream_survives_a_kill_at_every_point() {
    for (point, calls) in
        [("taken", 1), ("asking", 2), ("settled", 2), ("paid", 2), ("streaming", 2), ("chunk", 2)]
    {
        let scene = kill_and_repeat(point, true).await;
        assert_eq!(scene.upstream.calls(), calls, "{point}");
        assert!(scene.facilitator.verify_calls() <= 2);
    }
}

/// The answer is charged and too long to be kept, so it is stored only until it has been sent.
#[tokio::test]
async fn a_long_answer_survives_a_kill_before_it_is_sent() {
    let upstream = Upstream::serve(Behavior::Long(2 << 20)).await;
    let facilitator = ScriptedFacilitator::serve().await;
    let home = ProxyHome::new(&upstream.url, &facilitator.url, "");
    let body = chat("hello");
    let mut first = home.start_process(Some("paid:1"));
    let mut customer = Customer::of(&first.url, Payer::random());
    let header = customer.sign(2, &body).await;
    let lost = customer.request(&body).header(header.name, &header.value).send().await;
    assert!(lost.is_err() && !first.wait().success());
    let second = home.start_process(None);
    customer.url = second.url.clone();
    let response = customer.send(&body, &header).await;
    assert!(response.bytes().await.unwrap().len() > 2 << 20);
    assert_eq!((upstream.calls(), facilitator.settled()), (1, 1));
    // The answer has been sent, so it is no longer stored.
    assert_eq!(customer.send(&body, &header).await.status(), 409);
}
