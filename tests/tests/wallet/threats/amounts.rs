//! Invalid amounts, and amounts that two parsers could read differently.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_tests::offers::{BASE, challenge, decode_header};
use serde_json::json;

use crate::threats::stage::{authorized_count, engine_with, unlimited_in_memory};

/// The outcome of `/sign` for an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Signed for this many atoms.
    Signed(u64),
    Held,
    /// A valid amount above the limit for one payment.
    AboveLimit,
    /// Not a valid amount.
    Refused,
}
use Outcome::{AboveLimit, Held, Refused, Signed};

/// Amounts as JSON text, strings with their quotes.
const TABLE: &[(&str, Outcome)] = &[
    (r#""1""#, Signed(1)),
    (r#""9""#, Signed(9)),
    (r#""10""#, Signed(10)),
    (r#""12000""#, Signed(12_000)),
    (r#""499999""#, Signed(499_999)),
    (r#""500000""#, Held),
    (r#""10000000""#, Held),
    (r#""10000001""#, AboveLimit),
    (r#""4294967296""#, AboveLimit),
    (r#""999999999999999""#, AboveLimit),
    (r#""1000000000000000""#, AboveLimit),
    (r#""1000000000000001""#, Refused),
    (r#""9007199254740993""#, Refused),
    (r#""18446744073709551615""#, Refused),
    (r#""18446744073709551616""#, Refused),
    // 2^64 + 12,000, 2^128 + 12,000 and 2^256 + 12,000: truncated to fewer bits, each becomes 12,000.
    (r#""18446744073709563616""#, Refused),
    (r#""340282366920938463463374607431768223456""#, Refused),
    (
        r#""115792089237316195423570985008687907853269984665640564039457584007913129651936""#,
        Refused,
    ),
    (
        r#""115792089237316195423570985008687907853269984665640564039457584007913129639935""#,
        Refused,
    ),
    (
        r#""999999999999999999999999999999999999999999999999999999999999999999999999999999""#,
        Refused,
    ),
    (r#""0""#, Refused),
    (r#""00""#, Refused),
    (r#""01""#, Refused),
    (r#""012000""#, Refused),
    (
        r#""000000000000000000000000000000000000000000000000000000000000000000000000000012000""#,
        Refused,
    ),
    (r#""-0""#, Refused),
    (r#""-1""#, Refused),
    (r#""-12000""#, Refused),
    (r#""+12000""#, Refused),
    (r#"" 12000""#, Refused),
    (r#""12000 ""#, Refused),
    (r#""12 000""#, Refused),
    (r#""12000\n""#, Refused),
    (r#""\t12000""#, Refused),
    (r#""12000\u0000""#, Refused),
    (r#""12000\u00a0""#, Refused),
    (r#""\ufeff12000""#, Refused),
    (r#""12\u200b000""#, Refused),
    (r#""12_000""#, Refused),
    (r#""12,000""#, Refused),
    (r#""12'000""#, Refused),
    (r#""12.000""#, Refused),
    (r#""12000.0""#, Refused),
    (r#""12000.""#, Refused),
    (r#"".5""#, Refused),
    (r#""0.012""#, Refused),
    (r#""0.0000000000000000001""#, Refused),
    (r#""1.2e4""#, Refused),
    (r#""12e3""#, Refused),
    (r#""12E3""#, Refused),
    (r#""0x2ee0""#, Refused),
    (r#""0X2EE0""#, Refused),
    (r#""2ee0""#, Refused),
    (r#""0b1""#, Refused),
    (r#""0o17""#, Refused),
    (r#""12000n""#, Refused),
    (r#""$12000""#, Refused),
    (r#""12000 USDC""#, Refused),
    (r#""\uff11\uff12\uff10\uff10\uff10""#, Refused),
    (r#""\u0661\u0662\u0660\u0660\u0660""#, Refused),
    (r#""\u00b9\u00b2""#, Refused),
    (r#""\u2460""#, Refused),
    (r#""NaN""#, Refused),
    (r#""Infinity""#, Refused),
    (r#""-inf""#, Refused),
    (r#""null""#, Refused),
    (r#""twelve""#, Refused),
    (r#""""#, Refused),
    (r#""12000\",\"amount\":\"1""#, Refused),
    // The same digits, written with JSON escapes.
    (r#""\u0031\u0032000""#, Signed(12_000)),
    // JSON numbers: only integers are accepted.
    ("1", Signed(1)),
    ("12000", Signed(12_000)),
    ("500000", Held),
    ("10000001", AboveLimit),
    ("9007199254740993", Refused),
    ("18446744073709563616", Refused),
    ("115792089237316195423570985008687907853269984665640564039457584007913129651936", Refused),
    ("0", Refused),
    ("-0", Refused),
    ("-12000", Refused),
    ("12000.0", Refused),
    ("12000.5", Refused),
    ("1.2e4", Refused),
    ("12e3", Refused),
    ("1e-3", Refused),
    ("0.012", Refused),
    ("1e77", Refused),
    ("1E400", Refused),
    ("012000", Refused),
    ("+12000", Refused),
    ("0x2ee0", Refused),
    ("NaN", Refused),
    ("Infinity", Refused),
    ("12_000", Refused),
    // Values of other types.
    ("null", Refused),
    ("true", Refused),
    ("[]", Refused),
    ("{}", Refused),
    (r#"["12000"]"#, Refused),
    (r#"{"value":"12000"}"#, Refused),
];

/// Returns a challenge whose amount is this JSON text.
fn with_amount(version: u64, n: usize, amount: &str) -> String {
    let mut offer = challenge(BASE, 77, &format!("https://api.example.com/{n}"));
    offer["x402Version"] = json!(version);
    if version == 1 {
        let first = offer["accepts"][0].as_object_mut().unwrap();
        let placeholder = first.remove("amount").unwrap();
        first.insert("maxAmountRequired".into(), placeholder);
        first["network"] = json!("base");
    }
    let text = offer.to_string();
    assert_eq!(text.matches("\"77\"").count(), 1);
    text.replace("\"77\"", amount)
}

#[tokio::test]
async fn t_15_an_amount_is_plain_digits_or_it_is_refused() {
    assert!(TABLE.len() >= 100, "{}", TABLE.len());
    let policy = "--day 1000000 --txn 10 --auto 0.5";
    let (engine, agent) = engine_with(unlimited_in_memory(), policy, "bearer").await;
    let (mut n, mut signed) = (0, 0);
    for (amount, wanted) in TABLE {
        for version in [1, 2] {
            for as_data in [false, true] {
                n += 1;
                let text = with_amount(version, n, amount);
                let open =
                    format!("\"agent_id\":\"{}\",\"signature\":\"{}\"", agent.id, agent.token);
                let body = if as_data {
                    format!("{{{open},\"x402_data\":{text}}}")
                } else {
                    format!("{{{open},\"payment_required\":\"{}\"}}", STANDARD.encode(text))
                };
                let (status, answer) = engine.send("POST", "/sign", body.into_bytes()).await;
                let reply = match (status, answer["code"].as_str()) {
                    (200, None) => {
                        signed += 1;
                        let header = answer["header_value"].as_str().unwrap();
                        let terms = decode_header(header)["payload"]["authorization"].clone();
                        Signed(terms["value"].as_str().unwrap().parse().unwrap())
                    }
                    (202, _) => {
                        // Deny held requests so that the queue does not fill up.
                        let id = answer["request_id"].as_str().unwrap().to_owned();
                        let deny = format!("deny {id}");
                        bursar_tests::operator::Expect::must(&mut engine.operator(), &deny).await;
                        Held
                    }
                    (403, Some("EXCEEDS_PER_REQUEST_MAX")) => AboveLimit,
                    (400, Some(_code)) => Refused,
                    _other => panic!("{amount}: {status} {answer}"),
                };
                assert_eq!(reply, *wanted, "v{version} {amount}: {answer}");
                assert_eq!(authorized_count(&engine), signed);
            }
        }
    }
    let wanted = TABLE.iter().filter(|line| matches!(line.1, Signed(_))).count();
    assert_eq!(signed, wanted * 4);
}

/// An amount in the other protocol version's field is not used.
#[tokio::test]
async fn t_15_the_amount_field_of_the_other_version_is_ignored() {
    let (engine, agent) =
        engine_with(unlimited_in_memory(), "--day 1000 --txn 10 --auto 5", "bearer").await;
    for (n, (version, v1, v2, wanted)) in [
        (2, Some("12000"), Some("12000"), 200),
        (1, Some("12000"), Some("12000"), 200),
        (2, Some("1"), Some("12000"), 400),
        (1, Some("12000"), Some("1"), 400),
        (2, Some("012000"), Some("12000"), 400),
        (2, Some("12000"), None, 400),
        (1, None, Some("12000"), 400),
    ]
    .into_iter()
    .enumerate()
    {
        let mut offer = challenge(BASE, 1, &format!("https://api.example.com/{n}"));
        offer["x402Version"] = json!(version);
        offer["accepts"][0]["maxAmountRequired"] = json!(v1);
        offer["accepts"][0]["amount"] = json!(v2);
        let body = json!({"agent_id": agent.id, "signature": agent.token, "x402_data": offer});
        let (status, answer) = engine.post("/sign", &body).await;
        assert_eq!(status, wanted, "v{version} {v1:?} {v2:?}: {answer}");
    }
    assert_eq!(authorized_count(&engine), 2);
}
