//! Payments that do not match the offer, and bodies that are not sold.

use alloy_primitives::U256;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bursar_tests::payer::{PaymentTerms, now_s};
use bursar_tests::proxy::{PaymentRequired, chat};
use bursar_tests::scripted_facilitator::FacilitatorReply;
use serde_json::{Value, json};

use crate::proxy::stage::{Stage, refusal};

/// Asserts that the answer is a challenge with this reason.
async fn assert_challenge(answer: reqwest::Response, reason: &str) {
    let challenge = PaymentRequired::read(answer).await;
    for error in [&challenge.v1["error"], &challenge.v2["error"]] {
        let error = error.as_str().expect("a string: clients of version 1 want one");
        assert!(error.starts_with(reason), "{error} is not {reason}");
    }
    assert!(challenge.v1["accepts"].is_array() && challenge.v2["accepts"].is_array());
}

#[tokio::test]
async fn a_payment_with_a_wrong_price_payee_network_or_time_gets_a_new_challenge() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    type Change = fn(&mut PaymentTerms);
    let changes: [(Change, &str); 7] = [
        (|terms| terms.amount -= U256::ONE, "invalid_exact_evm_payload_authorization_value"),
        (|terms| terms.amount += U256::ONE, "invalid_exact_evm_payload_authorization_value"),
        (|terms| terms.amount = U256::ZERO, "invalid_exact_evm_payload_authorization_value"),
        (|terms| terms.to = terms.from, "invalid_exact_evm_recipient_mismatch"),
        (
            |terms| terms.valid_before_s = now_s() + 60,
            "invalid_exact_evm_payload_authorization_valid_before",
        ),
        // The payment is valid for longer than the proxy stores payments.
        (
            |terms| terms.valid_before_s = now_s() + 90_000,
            "invalid_exact_evm_payload_authorization_valid_before",
        ),
        (|terms| terms.valid_before_s = 0, "invalid_exact_evm_payload_authorization_valid_before"),
    ];
    for version in [1, 2] {
        for (change, reason) in changes {
            let challenge = stage.customer.ask(&body).await;
            let header = stage.customer.sign_with(version, &challenge, change);
            assert_challenge(stage.customer.send(&body, &header).await, reason).await;
        }
    }
    // The payment was signed for a smaller body, whose price is lower.
    let header = stage.customer.sign(2, &chat("h")).await;
    let larger = chat("hello hello hello hello hello hello hello");
    let reason = "invalid_exact_evm_payload_authorization_value";
    assert_challenge(stage.customer.send(&larger, &header).await, reason).await;
    // The payment accepts an offer that differs in one field.
    let challenge = stage.customer.ask(&body).await;
    let header = stage.customer.sign_with(2, &challenge, |_due| {});
    let mut payment: Value =
        serde_json::from_slice(&STANDARD.decode(&header.value).unwrap()).unwrap();
    for (pointer, value, reason) in [
        ("/accepted/network", json!("eip155:4663"), "unsupported_network"),
        ("/accepted/scheme", json!("upto"), "unsupported_scheme"),
        ("/accepted/payTo", json!(header.terms.from), reason),
        ("/accepted/amount", json!("1"), reason),
        ("/x402Version", json!(1), "invalid_x402_version"),
    ] {
        let old = std::mem::replace(payment.pointer_mut(pointer).unwrap(), value);
        let text = STANDARD.encode(payment.to_string());
        let response = stage.customer.request(&body).header("payment-signature", text).send().await;
        assert_challenge(response.unwrap(), reason).await;
        *payment.pointer_mut(pointer).unwrap() = old;
    }
    assert_eq!(stage.counts(), (0, 0));
    assert_eq!(stage.facilitator.verify_calls(), 0, "none of them came so far");
}

#[tokio::test]
async fn an_invalid_payment_header_is_refused_and_changes_nothing() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let good = stage.customer.sign(2, &body).await.value;
    for (name, text) in [
        ("payment-signature", "not base64!"),
        ("payment-signature", "e30="),
        ("x-payment", "W10="),
        ("x-payment", "AAAA"),
        // A payment of version 2, sent in the header of version 1.
        ("x-payment", good.as_str()),
    ] {
        let response = stage.customer.request(&body).header(name, text).send().await.unwrap();
        if text == good {
            assert_challenge(response, "invalid_x402_version").await;
        } else {
            let status = response.status().as_u16();
            assert_eq!(
                refusal(response).await,
                (400, "invalid_payment_header".to_owned()),
                "{text} {status}"
            );
        }
    }
    let twice = stage.customer.request(&body);
    let twice = twice.header("payment-signature", &good).header("payment-signature", &good);
    let response = twice.send().await.unwrap();
    assert_eq!(refusal(response).await, (400, "invalid_payment_header".to_owned()));
    // Payments of both versions are sent, and either could be meant.
    let (two, one) = (stage.customer.sign(2, &body).await, stage.customer.sign(1, &body).await);
    let both = stage.customer.request(&body);
    let both = both.header(two.name, &two.value).header(one.name, &one.value);
    let response = both.send().await.unwrap();
    assert_eq!(refusal(response).await, (400, "invalid_payment_header".to_owned()));
    assert_eq!((stage.counts(), stage.facilitator.verify_calls()), ((0, 0), 0));
}

/// The facilitator must not read another payment than the proxy; otherwise one payment would have several identities.
#[tokio::test]
async fn a_payload_with_more_than_one_payment_in_it_buys_nothing() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let payment: Value = serde_json::from_slice(&STANDARD.decode(&header.value).unwrap()).unwrap();
    let permit = json!({ "from": header.terms.from, "nonce": "1" });
    for (pointer, key, value) in [
        ("/payload", "permit2Authorization", permit),
        ("/payload", "Authorization", json!({})),
        ("/payload/authorization", "Nonce", json!("0x01")),
        ("/payload/authorization", "valid_before", json!("1")),
    ] {
        let mut payment = payment.clone();
        payment.pointer_mut(pointer).unwrap()[key] = value;
        let text = STANDARD.encode(payment.to_string());
        let response = stage.customer.request(&body).header("payment-signature", text).send().await;
        assert_eq!(
            refusal(response.unwrap()).await,
            (400, "invalid_payment_header".to_owned()),
            "{key}"
        );
    }
    assert_eq!((stage.counts(), stage.facilitator.verify_calls()), ((0, 0), 0));
}

#[tokio::test]
async fn a_payment_that_the_facilitator_refuses_gets_a_challenge_with_the_reason() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    stage.facilitator.set_verify_reply(FacilitatorReply::Refuses("insufficient_balance"));
    assert_challenge(stage.customer.send(&body, &header).await, "insufficient_balance: so it is")
        .await;
    assert_eq!(stage.counts(), (0, 0));
    // The same payment buys once the facilitator accepts it.
    stage.facilitator.set_verify_reply(FacilitatorReply::Good);
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn unsupported_bodies_are_refused_with_the_reason() {
    let stage = Stage::with(
        bursar_tests::upstream::Behavior::Nothing,
        "body_bytes = 4096\n[models.toy]\ninput_per_1k = \"1\"\noutput_per_1k = \"1\"",
    )
    .await;
    let url = format!("{}/v1/chat/completions", stage.proxy.url);
    let long = chat(&"x".repeat(5_000)).to_string();
    let mut unknown = chat("hi");
    unknown["model"] = json!("gpt-unknown");
    let mut image = chat("hi");
    image["messages"][0]["content"] =
        json!([{ "type": "image_url", "image_url": { "url": "https://a.test/b" } }]);
    let mut greedy = chat("hi");
    greedy["max_completion_tokens"] = json!(10_000_000);
    for (body, status, code) in [
        (long, 413, "body_too_large"),
        (unknown.to_string(), 404, "model_not_found"),
        (image.to_string(), 400, "unsupported_content"),
        (greedy.to_string(), 400, "context_length_exceeded"),
        ("{\"model\":\"toy\"}".to_owned(), 400, "invalid_request"),
        ("{\"model\":\"toy\",\"messages\":[]}".to_owned(), 400, "invalid_request"),
        ("[".repeat(4_000), 400, "invalid_json"),
        ("nonsense".to_owned(), 400, "invalid_json"),
        (chat("hi").to_string().replace("max_c", "Max_c"), 400, "unsupported_parameter"),
    ] {
        let response = stage.customer.client.post(&url).body(body.clone()).send().await.unwrap();
        assert_eq!(refusal(response).await, (status, code.to_owned()), "{body:.80}");
    }
    assert_eq!(stage.counts(), (0, 0));
}
