//! Invalid requests, and payments that can be refused without a node: neither causes a call to the node.

use alloy_primitives::{Address, B256, U256, address};
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::counting_rpc::CountingRpc;
use bursar_tests::payer::{PROXY, Payer, PaymentTerms, TransferMethod, now_s};
use serde_json::{Value, json};

use crate::facilitator::stage::{BASE, SHOP, Stage};
use crate::facilitator::verdict::{with, with_term, without};

const OTHER: Address = address!("0x7777777777777777777777777777777777777777");

/// 2^256.
const TWO_TO_256: &str =
    "115792089237316195423570985008687907853269984665640564039457584007913129639936";

/// Sets up a stage whose facilitator reaches its node through a call counter.
async fn stage_with_counter() -> Option<(Stage, CountingRpc)> {
    let chain = full_chain_or_skip(BASE).await?;
    let node = CountingRpc::in_front_of(chain.url()).await;
    let stage = Stage::with_node(chain, &node.url, 1, "", "").await;
    // The facilitator fetches the price of data once a minute with `eth_call`; waits for the first of these calls.
    while !calls_about_payments(&node).contains(&"eth_call".to_owned()) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Some((stage, node))
}

/// Takes the counted calls and keeps those about payments, without the facilitator's own periodic calls.
fn calls_about_payments(node: &CountingRpc) -> Vec<String> {
    let mut request = node.take_methods();
    request.retain(|methods| methods.contains("eth_call") || methods.contains("eth_getCode"));
    request
}

fn authorization(name: &str) -> String {
    format!("/paymentPayload/payload/authorization/{name}")
}

/// Bodies that are JSON but not valid requests.
fn malformed_values(body: &Value) -> Vec<(String, Value)> {
    let mut odd = Vec::new();
    for place in ["/paymentPayload", "/paymentRequirements", "/paymentPayload/payload"] {
        odd.push((format!("no {place}"), without(body, place)));
        for value in [json!(null), json!([]), json!("text"), json!(7), json!(true)] {
            odd.push((format!("{place} is {value}"), with(body, place, value)));
        }
    }
    let signature = "/paymentPayload/payload/signature";
    let fields = ["asset", "payTo", "amount", "scheme", "network"];
    let fields = fields.map(|name| format!("/paymentRequirements/{name}"));
    let numbers = ["value", "validAfter", "validBefore"].map(authorization);
    let addresses = [
        authorization("from"),
        authorization("to"),
        "/paymentRequirements/asset".to_owned(),
        "/paymentRequirements/payTo".to_owned(),
    ];
    let all = fields.iter().chain(&numbers).chain([&addresses[0], &addresses[1]]);
    for place in all.map(String::as_str).chain([signature]) {
        odd.push((format!("no {place}"), without(body, place)));
        for value in [json!(null), json!([]), json!({}), json!(true), json!(1.5)] {
            odd.push((format!("{place} is {value}"), with(body, place, value)));
        }
    }
    let amounts =
        ["-1", "+1", "", " 1", "1 ", "1.0", "1e3", "0x10", "١", "1_000", "NaN", TWO_TO_256];
    for place in numbers.iter().chain([&"/paymentRequirements/amount".to_owned()]) {
        for text in amounts {
            odd.push((format!("{place} is {text:?}"), with(body, place, json!(text))));
        }
        odd.push((format!("{place} is -1"), with(body, place, json!(-1))));
    }
    let digits = "123456789012345678901234567890123456789";
    for place in &addresses {
        for text in [
            format!("0x{digits}"),
            format!("0x{digits}12"),
            format!("{digits}1"),
            format!("0x{digits}g"),
            "0x".to_owned(),
        ] {
            odd.push((format!("{place} is {text}"), with(body, place, json!(text))));
        }
    }
    for text in ["0x123", "0xzz", "abc", "0x0", "0X00"] {
        odd.push((format!("signature {text}"), with(body, signature, json!(text))));
    }
    // A missing version is valid: it is inferred from the names of the amounts, as older clients need.
    for version in [json!("2"), json!(2.0), json!(-2), json!([2]), json!({})] {
        odd.push((format!("version {version}"), with(body, "/x402Version", version)));
    }
    let both = with(body, "/paymentRequirements/maxAmountRequired", json!("1"));
    odd.push(("two amounts that differ".to_owned(), both));
    odd
}

/// Bodies that the parser rejects: not JSON, too deep, a duplicate key, or not one object.
fn malformed_texts(good: &str) -> Vec<(&'static str, Vec<u8>)> {
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let extended = |inner: &str| good.replacen('{', &format!("{{\"extensions\":{inner},"), 1);
    vec![
        ("nothing", Vec::new()),
        ("a space", b" ".to_vec()),
        ("no JSON", b"hello".to_vec()),
        ("null", b"null".to_vec()),
        ("a list", b"[]".to_vec()),
        ("a text", b"\"{}\"".to_vec()),
        ("a list around it", format!("[{good}]").into_bytes()),
        ("cut off", good.as_bytes()[..good.len() - 1].to_vec()),
        ("something behind it", format!("{good}x").into_bytes()),
        ("twice", format!("{good}{good}").into_bytes()),
        ("a mark of byte order", format!("\u{feff}{good}").into_bytes()),
        ("a key twice", good.replacen('{', "{\"x402Version\":2,", 1).into_bytes()),
        ("NaN", extended("NaN").into_bytes()),
        ("Infinity", extended("-Infinity").into_bytes()),
        ("no UTF-8", good.replacen("exact", "ex\u{1}", 1).into_bytes()),
        ("broken UTF-8", [&b"{\"\xff\":1,"[..], &good.as_bytes()[1..]].concat()),
        ("depth 40", deep(40).into_bytes()),
        ("depth 40 in an extension", extended(&deep(40)).into_bytes()),
        ("depth 100000", deep(100_000).into_bytes()),
        ("a comma too much", good.replacen('{', "{,", 1).into_bytes()),
        ("a comment", format!("/* */{good}").into_bytes()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_gets_400_with_a_reason_and_causes_no_node_call() {
    let Some((stage, node)) = stage_with_counter().await else { return };
    let body = stage.pay(&stage.payer().await, TransferMethod::Eip3009, 500).body(2);
    assert_eq!(stage.verify(&body).await["isValid"], true, "all but the change is good");
    node.take_methods();
    let mut bodies: Vec<(String, Vec<u8>)> = malformed_values(&body)
        .into_iter()
        .map(|(case, body)| (case, body.to_string().into_bytes()))
        .collect();
    let texts = malformed_texts(&body.to_string());
    bodies.extend(texts.into_iter().map(|(case, body)| (case.to_owned(), body)));
    let mut wrong = Vec::new();
    for (case, body) in bodies {
        for (path, verdict, reason) in
            [("/verify", "isValid", "invalidReason"), ("/settle", "success", "errorReason")]
        {
            let request = stage.facilitator.request("POST", path);
            let request = request.header("content-type", "application/json").body(body.clone());
            let answer = request.send().await.expect("answered");
            let status = answer.status().as_u16();
            let reply: Value = answer.json().await.unwrap_or_default();
            let text = reply[verdict] == false && reply[reason] == "invalid_payload";
            if status != 400 || !text || !reply["error"].is_string() {
                wrong.push(format!("{path}, {case}: {status} {reply}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(calls_about_payments(&node), Vec::<String>::new());
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_long_gets_413_and_the_content_type_is_not_required() {
    let Some((stage, node)) = stage_with_counter().await else { return };
    let body = stage.pay(&stage.payer().await, TransferMethod::Eip3009, 500).body(2).to_string();
    node.take_methods();
    for path in ["/verify", "/settle"] {
        let long = format!("{body}{}", " ".repeat(300 << 10));
        let request = stage.facilitator.request("POST", path);
        let request = request.header("content-type", "application/json").body(long);
        let answer = request.send().await.expect("answered");
        assert_eq!(answer.status(), 413, "{path}");
        let reply: Value = answer.json().await.expect("JSON");
        assert!(reply["error"].is_string(), "{path}: {reply}");
    }
    assert_eq!(calls_about_payments(&node), Vec::<String>::new());
    // The header `content-type` is not required: old clients omit it.
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"]
    {
        let request = stage.facilitator.request("POST", "/verify").header("content-type", kind);
        let answer = request.body(body.clone()).send().await.expect("answered");
        assert!([200, 400, 415].contains(&answer.status().as_u16()), "{kind}");
        let reply: Value = answer.json().await.expect("JSON");
        assert!(reply["isValid"].is_boolean(), "{kind}: {reply}");
    }
    stage.facilitator.stop().await;
}

/// Returns payments that are valid except for their signatures, which no token accepts.
fn bad_signatures(
    payer: &Payer,
    method: TransferMethod,
    terms: &PaymentTerms,
) -> Vec<(&'static str, Value)> {
    let changed = |change: fn(&mut Vec<u8>)| {
        let twist = |mut signature: Vec<u8>| {
            change(&mut signature);
            signature
        };
        payer.pay_with(method, terms, twist).body(2)
    };
    vec![
        ("high s", changed(|signature| malleate(signature))),
        ("v is 2", changed(|signature| signature[64] = 2)),
        ("v is 29", changed(|signature| signature[64] = 29)),
        ("the other v", changed(|signature| signature[64] ^= 7)),
        ("r is zero", changed(|signature| signature[..32].fill(0))),
        ("s is zero", changed(|signature| signature[32..64].fill(0))),
        ("all ones", changed(|signature| signature.fill(0xff))),
        ("64 bytes", changed(|signature| signature.truncate(64))),
        ("no bytes", changed(Vec::clear)),
        ("20000 bytes", changed(|signature| signature.resize(20_000, 1))),
    ]
}

/// Replaces a signature with the other one that is valid for the same message (EIP-2).
fn malleate(signature: &mut [u8]) {
    let order: U256 =
        "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141".parse().expect("n");
    let s = U256::from_be_slice(&signature[32..64]);
    signature[32..64].copy_from_slice(&(order - s).to_be_bytes::<32>());
    signature[64] = 27 + 28 - signature[64];
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_can_be_refused_locally_causes_no_node_call() {
    let Some((stage, node)) = stage_with_counter().await else { return };
    let payer = stage.payer().await;
    let mut wrong = Vec::new();
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Prism] {
        let paid = stage.pay(&payer, method, 500);
        let (body, terms) = (paid.body(2), paid.terms.clone());
        assert_eq!(stage.verify(&body).await["isValid"], true, "{method:?}: its code is known now");
        let sign = |change: fn(&mut PaymentTerms)| {
            let mut terms = terms.clone();
            change(&mut terms);
            payer.pay(method, &terms).body(2)
        };
        let mut cases = bad_signatures(&payer, method, &terms);
        cases.extend([
            ("another payee", with_term(&body, "payTo", &json!(OTHER))),
            ("more than asked", with_term(&body, "amount", &json!("499"))),
            ("less than asked", with_term(&body, "amount", &json!("501"))),
            ("expired", sign(|terms| terms.valid_before_s = 1)),
            ("not yet valid", sign(|terms| terms.valid_after_s = now_s() + 100)),
            ("an unknown network", with_term(&body, "network", &json!("eip155:5"))),
            ("a network that is not served", with_term(&body, "network", &json!("eip155:4663"))),
            ("an unknown scheme", with_term(&body, "scheme", &json!("stream"))),
            ("no method", with(&body, "/paymentPayload/payload", json!({ "signature": "0x" }))),
            ("version 7", with(&body, "/x402Version", json!(7))),
            ("an unknown factory", payer.pay_undeployed(method, &terms, OTHER, &[]).body(2)),
        ]);
        if method == TransferMethod::Permit2 {
            let permit =
                |name: &str| format!("/paymentPayload/payload/permit2Authorization/{name}");
            cases.extend([
                ("another spender", with(&body, &permit("spender"), json!(OTHER))),
                ("another token", with(&body, &permit("permitted/token"), json!(OTHER))),
                ("another amount", with(&body, &permit("permitted/amount"), json!("501"))),
                ("another witness", with(&body, &permit("witness/to"), json!(PROXY))),
                ("another nonce", with(&body, &permit("nonce"), json!("1"))),
            ]);
        }
        node.take_methods();
        for (case, body) in cases {
            let answer = stage.verify(&body).await;
            let settled = stage.settle(&body).await;
            let request = calls_about_payments(&node);
            if answer["isValid"] != false || settled["success"] != false || !request.is_empty() {
                wrong.push(format!("{method:?}, {case}: {answer} {settled} after {request:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_a_known_payer_is_verified_by_one_request() {
    let Some((stage, node)) = stage_with_counter().await else { return };
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2, TransferMethod::Prism] {
        let payer = stage.payer().await;
        stage.verify(&stage.pay(&payer, method, 500).body(2)).await;
        node.take_methods();
        let answer = stage.verify(&stage.pay(&payer, method, 501).body(2)).await;
        assert_eq!(answer["isValid"], true, "{method:?}");
        assert_eq!(calls_about_payments(&node).len(), 1, "{method:?}");
    }
    // Once the facilitator knows the network, a new payer causes no more calls.
    let stranger = stage.payer().await;
    node.take_methods();
    stage.verify(&stage.pay(&stranger, TransferMethod::Eip3009, 500).body(2)).await;
    assert_eq!(calls_about_payments(&node), ["eth_getCode,eth_call"]);
    stage.facilitator.stop().await;
}

/// A nonce that is neither 32 bytes nor a number fits no method: the payment is refused without a node.
#[tokio::test(flavor = "multi_thread")]
async fn nonces_of_another_length_are_refused_without_a_request() {
    let Some((stage, node)) = stage_with_counter().await else { return };
    let terms = stage.payer().await.terms(stage.network(), SHOP, 500);
    let body = Payer::random().pay(TransferMethod::Eip3009, &terms).body(2);
    let whole = hex::encode(B256::repeat_byte(7));
    for nonce in [
        json!(format!("0x{}", &whole[2..])),
        json!(format!("0x{whole}07")),
        json!(format!("0x{}", &whole[1..])),
        json!(whole),
        json!(-1),
        json!(1.5),
        json!(null),
        json!([]),
    ] {
        let body = with(&body, &authorization("nonce"), nonce.clone());
        for path in ["/verify", "/settle"] {
            let (status, answer) = stage.facilitator.post(path, &body).await;
            assert!([200, 400].contains(&status), "{path} {nonce}: {status} {answer}");
            let verdict = if path == "/verify" { "isValid" } else { "success" };
            assert_eq!(answer[verdict], false, "{path} {nonce}: {answer}");
        }
    }
    assert_eq!(calls_about_payments(&node), Vec::<String>::new());
    stage.facilitator.stop().await;
}
