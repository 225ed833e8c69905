use super::*;
use alloy_primitives::U256;
use bursar_core::address::AddressError;
use bursar_core::json;

const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";

/// Returns an offer with `amount` (JSON) as its amount, followed by the members in `more`.
fn offer(amount: &str, more: &str) -> String {
    format!(
        "{{\"scheme\":\"exact\",\"network\":\"eip155:8453\",\"amount\":{amount},\
         \"asset\":\"{USDC}\",\"payTo\":\"{PAY_TO}\"{more}}}"
    )
}

fn challenge(offers: &[String], more: &str) -> String {
    format!("{{\"x402Version\":2{more},\"accepts\":[{}]}}", offers.join(","))
}

fn parse(text: &str) -> Result<PaymentRequired, X402Error> {
    let value =
        json::parse(text.as_bytes(), 127).unwrap_or_else(|bad| panic!("{text:.200}: {bad}"));
    PaymentRequired::parse(&value)
}

fn refusal_text(text: &str) -> String {
    match parse(text) {
        Err(X402Error::InvalidFormat(reason)) => reason.into_owned(),
        other => panic!("{text:.200}: {other:?}"),
    }
}

#[test]
fn a_challenge_is_read_whole() {
    let more = ",\"maxTimeoutSeconds\":60,\"extra\":{\"name\":\"USD Coin\",\"version\":\"2\",\
                \"assetTransferMethod\":\"eip3009\",\"more\":[1]}";
    let top = ",\"error\":\"Payment required\",\"resource\":{\"url\":\"https://a.example/x\",\
               \"mimeType\":\"text/plain\"},\"extensions\":{\"bazaar\":{\"info\":{}}}";
    let read = parse(&challenge(&[offer("\"10000\"", more)], top)).unwrap();
    assert_eq!(read.version, Version::V2);
    let [only] = read.offers.as_slice() else { panic!("{read:?}") };
    assert_eq!((only.scheme.as_str(), only.network_text.as_str()), ("exact", "eip155:8453"));
    assert_eq!(only.network.map(|network| network.chain.0), Some(8453));
    assert_eq!((only.amount, only.max_timeout_seconds), (U256::from(10_000), 60));
    assert_eq!(only.asset_address().unwrap().to_string(), USDC);
    assert_eq!(only.payee_address().unwrap().to_string(), PAY_TO);
    assert_eq!(only.extra.name.as_deref(), Some("USD Coin"));
    assert_eq!(only.extra.version.as_deref(), Some("2"));
    assert!(only.is_eip3009());
    assert_eq!(only.raw.to_compact(), offer("\"10000\"", more));
    assert_eq!(read.resource_url(only), Some("https://a.example/x"));
    let extensions = read.extensions.map(|value| value.to_compact());
    assert_eq!(extensions.as_deref(), Some("{\"bazaar\":{\"info\":{}}}"));
}

#[test]
fn omitted_offer_members_have_defaults() {
    let bare = format!(
        "{{\"accepts\":[{{\"network\":8453,\"amount\":\"1\",\"asset\":\"{USDC}\",\"payTo\":\"{PAY_TO}\",\
         \"maxTimeoutSeconds\":null,\"extra\":null,\"scheme\":null}}],\"resource\":null,\
         \"extensions\":null}}"
    );
    let read = parse(&bare).unwrap();
    let [only] = read.offers.as_slice() else { panic!("{read:?}") };
    assert_eq!((only.scheme.as_str(), only.max_timeout_seconds), ("exact", 300));
    assert_eq!((only.network_text.as_str(), only.network.is_some()), ("8453", true));
    assert_eq!(only.extra, crate::offer::Extra::default());
    assert!(only.is_eip3009() && read.resource.is_none() && read.extensions.is_none());
    assert_eq!(read.resource_url(only), None);
}

#[test]
fn an_unknown_network_or_asset_is_kept_as_it_was_written() {
    let solana = offer("\"5\"", "")
        .replace("eip155:8453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
        .replace(USDC, "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v");
    let read = parse(&challenge(&[solana, offer("\"7\"", "")], "")).unwrap();
    let [foreign, ours] = read.offers.as_slice() else { panic!("{read:?}") };
    assert_eq!((foreign.network, foreign.asset_address()), (None, Err(AddressError::Form)));
    assert!(ours.network.is_some());
}

/// T-15: valid and invalid amounts, written as JSON.
#[test]
fn amounts_are_plain_digits_below_two_to_the_256th() {
    let max = U256::MAX.to_string();
    for (json, atoms) in [
        ("\"0\"", U256::ZERO),
        ("\"1\"", U256::from(1)),
        ("\"9\"", U256::from(9)),
        ("\"10\"", U256::from(10)),
        ("\"18446744073709551615\"", U256::from(u64::MAX)),
        ("\"18446744073709551616\"", U256::from(u64::MAX) + U256::from(1)),
        ("\"340282366920938463463374607431768211456\"", U256::from(1) << 128),
        ("0", U256::ZERO),
        ("10000", U256::from(10_000)),
        ("9007199254740993", U256::from(9_007_199_254_740_993u64)),
        (&format!("\"{max}\""), U256::MAX),
        (&max, U256::MAX),
        (&format!("\"1{}\"", "0".repeat(77)), U256::from(10).pow(U256::from(77))),
    ] {
        let read = parse(&challenge(&[offer(json, "")], "")).unwrap();
        assert_eq!(read.offers.first().map(|offer| offer.amount), Some(atoms), "{json}");
    }

    let quoted = |text: &str| format!("\"{text}\"");
    let too_long =
        ["1".repeat(79), "9".repeat(78), "0".repeat(78), "1".repeat(4000)].map(|t| quoted(&t));
    let above =
        quoted("115792089237316195423570985008687907853269984665640564039457584007913129639936");
    let texts = [
        "",
        " ",
        "-1",
        "-0",
        "+1",
        "++1",
        "- 1",
        "01",
        "00",
        "007",
        "1.0",
        "1.",
        ".5",
        "0.5",
        "1e3",
        "1E3",
        "1e+3",
        "1e0",
        "1e-3",
        "0x10",
        "0X10",
        "x10",
        "0b1",
        "0o7",
        "1_000",
        "1,000",
        "1 000",
        " 1",
        "1 ",
        "1\\n",
        "\\t1",
        "1\\u0000",
        "\\u00001",
        "NaN",
        "nan",
        "Infinity",
        "-Infinity",
        "inf",
        "null",
        "true",
        "１２３",
        "1２",
        "٣",
        "१",
        "²",
        "½",
        "Ⅷ",
        "1\\u200b",
        "\\ufeff1",
        "1l",
        "1n",
        "1u",
        "$1",
        "1$",
        "1%",
        "ten",
        "a",
        "1/2",
        "1;2",
        "0,1",
        "(1)",
        "1\\u00a0",
        "−1",
        "1'000",
    ];
    assert!(texts.len() >= 60);
    for json in texts.map(quoted).iter().chain(&too_long).chain([&above]) {
        let reason = refusal_text(&challenge(&[offer(json, "")], ""));
        assert_eq!(reason, "accepts[0].amount is not a whole number below 2^256", "{json}");
    }
    for json in ["-1", "-0", "1e3", "1E3", "1.0", "0.5", "true", "[]", "{}", "[1]"] {
        let reason = refusal_text(&challenge(&[offer(json, "")], ""));
        assert!(reason.starts_with("accepts[0].amount "), "{json}: {reason}");
    }
    assert_eq!(refusal_text(&challenge(&[offer("null", "")], "")), "accepts[0].amount is missing");
}

#[test]
fn the_version_is_declared_or_implied_by_the_amount_member() {
    let v2 = offer("\"1\"", "");
    let v1 = v2.replace("\"amount\"", "\"maxAmountRequired\"");
    let both = |digits: &str| offer("\"1\"", &format!(",\"maxAmountRequired\":\"{digits}\""));
    let of =
        |version: &str, offers: &[&str]| format!("{{{version}\"accepts\":[{}]}}", offers.join(","));
    let untold = "x402Version is missing, and the offers do not imply it";
    let twisted = "accepts[0].maxAmountRequired contradicts x402Version";
    for (text, reason) in [
        (of("\"x402Version\":1,", &[&v2]), "accepts[0].amount contradicts x402Version"),
        (of("\"x402Version\":1,", &[&both("2")]), "accepts[0].amount contradicts x402Version"),
        (of("\"x402Version\":2,", &[&v1]), twisted),
        (of("\"x402Version\":2,", &[&both("2")]), twisted),
        (of("", &[&both("1")]), untold),
        (of("", &[&v1, &v2]), untold),
        (of("", &["{}"]), untold),
    ] {
        assert_eq!(refusal_text(&text), reason, "{text}");
    }
    for odd in ["0", "3", "-2", "2.0", "20", "\"2\"", "true", "[2]", "{}", "99999999999999999999"] {
        let text = of(&format!("\"x402Version\":{odd},"), &[&v2]);
        assert_eq!(refusal_text(&text), "x402Version must be 1 or 2", "{odd}");
    }
    for text in [of("", &[&v2]), of("\"x402Version\":2,", &[&v2, &both("1")])] {
        assert_eq!(parse(&text).unwrap().version, Version::V2, "{text}");
    }
    for text in [of("", &[&v1]), of("\"x402Version\":1,", &[&v1, &both("1")])] {
        let read = parse(&text).unwrap();
        assert_eq!(read.version, Version::V1, "{text}");
        assert_eq!(read.offers[0].amount, U256::from(1), "{text}");
    }
}

#[test]
fn a_version_1_offer_names_its_own_resource() {
    let v1 = |more: &str| offer("\"1\"", more).replace("\"amount\"", "\"maxAmountRequired\"");
    let text = format!(
        "{{\"x402Version\":1,\"resource\":\"https://top.example\",\"accepts\":[{},{}]}}",
        v1(",\"resource\":\"https://own.example\",\"description\":\"\",\"outputSchema\":null"),
        v1("")
    );
    let read = parse(&text).unwrap();
    let of = |index: usize| read.resource_url(&read.offers[index]);
    assert_eq!((of(0), of(1)), (Some("https://own.example"), Some("https://top.example")));
}

#[test]
fn a_member_of_an_odd_type_is_refused_by_its_name() {
    let offer_with = |key: &str, json: &str| {
        let object = json::parse(offer("\"1\"", "").as_bytes(), 4).unwrap();
        let mut object = object.as_object().unwrap().clone();
        object.insert(key, json::parse(json.as_bytes(), 4).unwrap());
        challenge(&[offer("\"1\"", ""), object.to_compact()], "")
    };
    for (key, json, fault) in [
        ("scheme", "1", "is not a string"),
        ("network", "true", "must be a string or an integer"),
        ("network", "8453.0", "must be a string or an integer"),
        ("network", "null", "is missing"),
        ("asset", "{}", "is not a string"),
        ("asset", "null", "is missing"),
        ("payTo", "[]", "is not a string"),
        ("payTo", "null", "is missing"),
        ("maxTimeoutSeconds", "\"60\"", "is not a whole number of 0 or more"),
        ("maxTimeoutSeconds", "-1", "is not a whole number of 0 or more"),
        ("maxTimeoutSeconds", "60.0", "is not a whole number of 0 or more"),
        ("maxTimeoutSeconds", "18446744073709551616", "is not a whole number of 0 or more"),
        ("resource", "{}", "is not a string"),
        ("extra", "[]", "is not an object"),
    ] {
        assert_eq!(refusal_text(&offer_with(key, json)), format!("accepts[1].{key} {fault}"));
    }
    for key in ["name", "version", "assetTransferMethod"] {
        let reason = refusal_text(&offer_with("extra", &format!("{{\"{key}\":2}}")));
        assert_eq!(reason, format!("accepts[1].extra.{key} is not a string"));
    }
    let one = [offer("\"1\"", "")];
    for (top, reason) in [
        (",\"resource\":7", "resource must be an object or a URL"),
        (",\"resource\":{\"url\":7}", "resource.url is not a string"),
        (",\"extensions\":[]", "extensions is not an object"),
    ] {
        assert_eq!(refusal_text(&challenge(&one, top)), reason);
    }
    for (text, reason) in [
        ("[]", "it is not an object"),
        ("{\"x402Version\":2}", "accepts is missing"),
        ("{\"x402Version\":2,\"accepts\":{}}", "accepts is not a list"),
        ("{\"x402Version\":2,\"accepts\":[]}", "accepts is empty"),
        ("{\"x402Version\":2,\"accepts\":[7]}", "accepts[0] is not an object"),
    ] {
        assert_eq!(refusal_text(text), reason);
    }
}

#[test]
fn the_top_level_names_the_resource_and_the_offer_stands_in_for_it() {
    let own = offer("\"1\"", ",\"resource\":\"https://offer.example/\"");
    for (top, url) in [
        ("", "https://offer.example/"),
        (",\"resource\":\"\"", "https://offer.example/"),
        (",\"resource\":{\"description\":\"no url\"}", "https://offer.example/"),
        (",\"resource\":\"https://top.example/\"", "https://top.example/"),
        (",\"resource\":{\"url\":\"https://top.example/\"}", "https://top.example/"),
    ] {
        let read = parse(&challenge(std::slice::from_ref(&own), top)).unwrap();
        let found = read.offers.first().and_then(|offer| read.resource_url(offer));
        assert_eq!(found, Some(url), "{top}");
    }
}

#[test]
fn thirty_two_offers_are_read_and_one_more_is_not() {
    let of = |count| challenge(&vec![offer("\"1\"", ""); count], "");
    assert_eq!(parse(&of(32)).unwrap().offers.len(), 32);
    assert_eq!(refusal_text(&of(33)), "accepts has more than 32 offers");
}

#[test]
fn strings_and_keys_of_four_kibibytes_are_read_and_one_byte_more_is_not() {
    let of = |text: &str| {
        let more = format!(",\"extra\":{{\"{text}\":[\"{text}\"]}}");
        challenge(&[offer("\"1\"", &more)], "")
    };
    assert!(parse(&of(&"é".repeat(2048))).is_ok());
    let (key, value) = ("k".repeat(4097), "v".repeat(4097));
    let long_key = format!(",\"extra\":{{\"{key}\":1}}");
    let long_value = format!(",\"extra\":{{\"k\":\"{value}\"}}");
    for more in [long_key, long_value] {
        let reason = refusal_text(&challenge(&[offer("\"1\"", &more)], ""));
        assert_eq!(reason, "a string in it is longer than 4 KiB");
    }
}

#[test]
fn a_challenge_without_base64_has_the_same_bounds() {
    // The outer object, accepts, the offer and extra use four levels.
    let nested = |levels: usize| {
        let json = "[".repeat(levels - 4) + &"]".repeat(levels - 4);
        challenge(&[offer("\"1\"", &format!(",\"extra\":{{\"deep\":{json}}}"))], "")
    };
    assert!(parse(&nested(32)).is_ok());
    assert_eq!(refusal_text(&nested(33)), "it is nested deeper than 32 levels");

    let sized = |bytes: usize| {
        let whole = |fill: &str| {
            challenge(&[offer("\"1\"", "")], &format!(",\"resource\":{{\"fill\":[{fill}]}}"))
        };
        // Fills the space with zeros and commas, so that no string is too long. If the space is even, a ten replaces
        // the first zero.
        let room = bytes - whole("").len();
        let fill = vec!["0"; room.div_ceil(2)].join(",");
        whole(&if room.is_multiple_of(2) { fill.replacen("0,", "10,", 1) } else { fill })
    };
    assert_eq!(sized(65_536).len(), 65_536);
    assert!(parse(&sized(65_536)).is_ok());
    assert_eq!(refusal_text(&sized(65_537)), "it is longer than 64 KiB");
}

#[test]
fn challenge_is_read_as_mcp_and_a2a_hand_it_to_an_agent() {
    let plain = challenge(&[offer("\"10000\"", "")], "");
    let read = parse(&plain).unwrap();
    for wrapped in [
        format!(r#"{{"x402/error":{{"code":402,"message":"pay","data":{plain}}}}}"#),
        format!(r#"{{"x402.payment.status":"payment-required","x402.payment.required":{plain}}}"#),
    ] {
        assert_eq!(parse(&wrapped).unwrap(), read);
    }
    let result = format!(r#"{{"isError":true,"content":[],"structuredContent":{plain}}}"#);
    assert!(refusal_text(&result).contains("send the value of structuredContent"));
    assert!(refusal_text(r#"{"x402/error":{"code":402}}"#).contains("x402/error has no data"));
    assert!(refusal_text(r#"{"x402.payment.required":[]}"#).contains("not an object"));
    assert!(refusal_text(r#"{"payment":{}}"#).contains("accepts"));
    // Only one member around the challenge is looked into.
    let twice = format!(r#"{{"x402.payment.required":{{"x402.payment.required":{plain}}}}}"#);
    assert!(refusal_text(&twice).contains("accepts"));
}
