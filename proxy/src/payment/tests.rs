use super::*;
use bursar_core::networks::{ChainId, by_chain};
use serde_json::{Value, json};

const EXPIRY_SPAN: RangeInclusive<u64> = 1_000..=2_000;
const PAYER: &str = "0x1111111111111111111111111111111111111111";
const PAYEE: &str = "0x2222222222222222222222222222222222222222";
const OTHER: &str = "0x3333333333333333333333333333333333333333";

fn offer(chain: u64, method: Method) -> Offer {
    let network = by_chain(ChainId(chain)).unwrap();
    let coin = network.stablecoin;
    let terms = Terms {
        network,
        asset: coin.address,
        decimals: 6,
        pay_to: PAYEE.parse().unwrap(),
        method,
        name: "USD Coin".to_owned(),
        version: "2".to_owned(),
        max_timeout_seconds: 600,
    };
    Offer { terms: Arc::new(terms), amount: U256::from(500), resource: "http://a.test/".into() }
}

fn payload(method: Method) -> Value {
    match method {
        Method::Eip3009 => json!({ "signature": "0x00", "authorization": {
            "from": PAYER, "to": PAYEE, "value": "500", "validAfter": "0", "validBefore": "1500",
            "nonce": format!("0x{}", "07".repeat(32)),
        } }),
        Method::Permit2 => json!({ "signature": "0x00", "permit2Authorization": {
            "from": PAYER, "spender": OTHER, "nonce": "7", "deadline": "1500",
            "permitted": { "token": offer(8453, method).terms.asset, "amount": "500" },
            "witness": { "to": PAYEE, "validAfter": "0" },
        } }),
    }
}

fn payment(version: Version, method: Method) -> Value {
    let accepted = json!({
        "scheme": "exact", "network": "eip155:8453", "amount": "500",
        "asset": offer(8453, method).terms.asset, "payTo": PAYEE,
    });
    match version {
        Version::V1 => json!({
            "x402Version": 1, "scheme": "exact", "network": "base", "payload": payload(method),
        }),
        Version::V2 => {
            json!({ "x402Version": 2, "accepted": accepted, "payload": payload(method) })
        }
    }
}

fn read(payment: &Value, version: Version, offers: &[Offer]) -> Result<Payment, PaymentError> {
    Payment::read(&header::encode(&payment.to_string()), version, offers, &EXPIRY_SPAN)
}

/// Returns why a payment buys nothing, or `None` if it is accepted.
fn rejection_of(payment: &Value, version: Version, method: Method) -> Option<String> {
    let read = read(payment, version, &[offer(1, method), offer(8453, method)]);
    match read {
        Ok(payment) => payment.rejection.map(|rejection| rejection.reason),
        Err(PaymentError::Rejected(rejection)) => Some(rejection.reason),
        Err(PaymentError::Unreadable(fault)) => Some(fault.code.text().to_owned()),
    }
}

fn payment_with(mut payment: Value, pointer: &str, value: impl Into<Value>) -> Value {
    *payment.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.into();
    payment
}

const ALL: [(Version, Method); 4] = [
    (Version::V1, Method::Eip3009),
    (Version::V2, Method::Eip3009),
    (Version::V1, Method::Permit2),
    (Version::V2, Method::Permit2),
];

fn key(method: Method) -> &'static str {
    match method {
        Method::Eip3009 => "authorization",
        Method::Permit2 => "permit2Authorization",
    }
}

#[test]
fn a_payment_is_accepted_only_if_it_expires_within_the_span() {
    for (version, method) in ALL {
        let ends = match method {
            Method::Eip3009 => "/payload/authorization/validBefore",
            Method::Permit2 => "/payload/permit2Authorization/deadline",
        };
        let late = Some("invalid_exact_evm_payload_authorization_valid_before".to_owned());
        for (at, reason) in [
            ("999", late.clone()),
            ("1000", None),
            ("2000", None),
            ("2001", late.clone()),
            ("0", late.clone()),
            // A time beyond 64 bits counts as never.
            ("18446744073709551616", late.clone()),
        ] {
            let payment = payment_with(payment(version, method), ends, at);
            assert_eq!(rejection_of(&payment, version, method), reason, "{at}");
        }
        let good = read(&payment(version, method), version, &[offer(8453, method)]).unwrap();
        assert_eq!((good.expires_at, good.payer), (1_500, PAYER.parse().unwrap()));
        assert_eq!((good.version, good.offer), (version, offer(8453, method)));
        assert!(good.facilitator_request.contains("\"paymentRequirements\""));
    }
}

#[test]
fn a_payment_for_other_terms_is_rejected() {
    let (value, payee) =
        ("invalid_exact_evm_payload_authorization_value", "invalid_exact_evm_recipient_mismatch");
    for (version, method) in ALL {
        let (amount, to) = match method {
            Method::Eip3009 => ("/payload/authorization/value", "/payload/authorization/to"),
            Method::Permit2 => (
                "/payload/permit2Authorization/permitted/amount",
                "/payload/permit2Authorization/witness/to",
            ),
        };
        let good = payment(version, method);
        for (pointer, other, reason) in [
            (amount, json!("499"), value),
            (amount, json!("501"), value),
            (to, json!(OTHER), payee),
            ("/x402Version", json!(3 - version.number()), "invalid_x402_version"),
        ] {
            let payment = payment_with(good.clone(), pointer, other);
            assert_eq!(
                rejection_of(&payment, version, method).as_deref(),
                Some(reason),
                "{pointer}"
            );
        }
    }
    let permit = payment_with(
        payment(Version::V1, Method::Permit2),
        "/payload/permit2Authorization/permitted/token",
        OTHER,
    );
    let reason = rejection_of(&permit, Version::V1, Method::Permit2);
    assert_eq!(reason.as_deref(), Some("permit2_token_mismatch"));
    // The accepted terms of version 2 differ from the offer, while the signed terms match it.
    let good = payment(Version::V2, Method::Eip3009);
    for (pointer, other, reason) in [
        ("/accepted/asset", json!(OTHER), value),
        ("/accepted/payTo", json!(OTHER), value),
        ("/accepted/amount", json!("501"), value),
        ("/accepted/scheme", json!("upto"), "unsupported_scheme"),
        ("/accepted/network", json!("eip155:4663"), "unsupported_network"),
        ("/accepted/network", json!("nowhere"), "unsupported_network"),
    ] {
        let payment = payment_with(good.clone(), pointer, other);
        assert_eq!(rejection_of(&payment, Version::V2, Method::Eip3009).as_deref(), Some(reason));
    }
    let extra = payment_with(good, "/accepted", {
        let mut accepted = payment(Version::V2, Method::Eip3009)["accepted"].clone();
        accepted["extra"] = json!({ "name": "USD Coin", "more": 1 });
        accepted
    });
    assert_eq!(
        rejection_of(&extra, Version::V2, Method::Eip3009),
        None,
        "it may have more members"
    );
}

/// If one payload could be read in two ways, it would be two payments.
#[test]
fn a_payload_with_unsigned_or_missing_members_is_rejected() {
    for (version, method) in ALL {
        let within = format!("/payload/{}", key(method));
        let parts = match method {
            Method::Eip3009 => Vec::new(),
            Method::Permit2 => vec![format!("{within}/permitted"), format!("{within}/witness")],
        };
        for pointer in ["/payload".to_owned(), within.clone()].into_iter().chain(parts) {
            let mut payment = payment(version, method);
            payment.pointer_mut(&pointer).unwrap()["more"] = json!("1");
            let reason = rejection_of(&payment, version, method);
            assert_eq!(reason.as_deref(), Some("invalid_payment_header"), "{pointer}");
        }
        let known = match method {
            Method::Eip3009 => &EIP3009_MEMBERS[..],
            Method::Permit2 => &PERMIT2_MEMBERS[..],
        };
        for member in known {
            // Only the facilitator checks the spender and the start of the validity.
            if matches!(*member, "spender" | "validAfter") {
                continue;
            }
            let mut payment = payment(version, method);
            payment.pointer_mut(&within).unwrap().as_object_mut().unwrap().remove(*member);
            let reason = rejection_of(&payment, version, method);
            assert_eq!(reason.as_deref(), Some("invalid_payment_header"), "{member}");
        }
        // The payload of the other method.
        let other = if method == Method::Eip3009 { Method::Permit2 } else { Method::Eip3009 };
        let swapped = payment_with(payment(version, method), "/payload", payload(other));
        let reason = rejection_of(&swapped, version, method);
        assert_eq!(reason.as_deref(), Some("invalid_payment_header"));
    }
}

#[test]
fn a_payment_id_depends_on_network_token_payer_and_nonce_only() {
    for method in [Method::Eip3009, Method::Permit2] {
        let id = |payment: &Value, version| {
            let read = read(payment, version, &[offer(8453, method), offer(4663, method)]).unwrap();
            let text = header::encode(&payment.to_string());
            let terms = [Arc::clone(&offer(8453, method).terms)];
            let named = PaymentIdentity::read(&text, version, &terms).unwrap();
            assert_eq!(
                named,
                PaymentIdentity { id: read.id, digest: read.digest },
                "found by its identity"
            );
            (read.id, read.digest)
        };
        let first = payment(Version::V1, method);
        let (known, signed) = id(&first, Version::V1);
        assert_eq!(id(&payment(Version::V2, method), Version::V2), (known, signed));
        let at = |member: &str| format!("/payload/{}/{member}", key(method));
        let nonce = match method {
            Method::Eip3009 => json!(format!("0x{}", "08".repeat(32))),
            Method::Permit2 => json!("8"),
        };
        for (pointer, other) in [(at("from"), json!(OTHER)), (at("nonce"), nonce)] {
            let (id, digest) = id(&payment_with(first.clone(), &pointer, other), Version::V1);
            assert!(id != known && digest != signed, "{pointer}");
        }
        let elsewhere = payment_with(first.clone(), "/network", "robinhood");
        assert_ne!(id(&elsewhere, Version::V1).0, known, "another network");
        // Another signature over the same nonce is the same payment with another digest.
        let (same, digest) = id(&payment_with(first, "/payload/signature", "0x01"), Version::V1);
        assert!(same == known && digest != signed);
    }
    // Each EIP-3009 token has its own nonces; Permit2 has one set per payer.
    let ids = |method: Method| {
        let id = |asset: Address| {
            let offer = offer(8453, method);
            let terms = Terms { asset, ..(*offer.terms).clone() };
            let offer = Offer { terms: Arc::new(terms), ..offer };
            read(&payment(Version::V1, method), Version::V1, &[offer]).unwrap().id
        };
        id(PAYER.parse().unwrap()) == id(OTHER.parse().unwrap())
    };
    assert_eq!((ids(Method::Eip3009), ids(Method::Permit2)), (false, true));
}

/// The facilitator request has the original payment, in its version, and the offer.
#[test]
fn facilitator_request_contains_the_payment_and_its_offer() {
    for (version, method) in ALL {
        let payment = payment(version, method);
        let offers = [offer(1, method), offer(8453, method)];
        let request = read(&payment, version, &offers).unwrap().facilitator_request;
        let request: Value = serde_json::from_str(&request).unwrap();
        assert_eq!(request["x402Version"], version.number());
        assert_eq!(request["paymentPayload"], payment);
        let expected = offers[1].requirements(version).to_compact();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(request["paymentRequirements"], expected);
    }
}

/// The current offer may be for another asset.
#[test]
fn a_version_2_payment_id_uses_its_accepted_asset() {
    let named = |payment: &Value| {
        let text = header::encode(&payment.to_string());
        let terms = [Arc::clone(&offer(8453, Method::Eip3009).terms)];
        PaymentIdentity::read(&text, Version::V2, &terms).unwrap().id
    };
    let old = payment_with(payment(Version::V2, Method::Eip3009), "/accepted/asset", OTHER);
    let terms =
        Terms { asset: OTHER.parse().unwrap(), ..(*offer(8453, Method::Eip3009).terms).clone() };
    let then = Offer { terms: Arc::new(terms), ..offer(8453, Method::Eip3009) };
    assert_eq!(named(&old), read(&old, Version::V2, &[then]).unwrap().id);
    assert_ne!(named(&old), named(&payment(Version::V2, Method::Eip3009)));
}

/// A paid answer is found even if there are no longer any offers.
#[test]
fn a_payment_is_identified_without_offers() {
    for (version, method) in ALL {
        let offered = offer(8453, method);
        let made = read(&payment(version, method), version, &[offered]).unwrap();
        let text = header::encode(&payment(version, method).to_string());
        let named = PaymentIdentity::read(&text, version, &[]).unwrap();
        assert_eq!(named, PaymentIdentity { id: made.id, digest: made.digest });
    }
    // Version 1 names no asset, so the asset in the terms counts.
    let other =
        Terms { asset: OTHER.parse().unwrap(), ..(*offer(8453, Method::Eip3009).terms).clone() };
    let text = header::encode(&payment(Version::V1, Method::Eip3009).to_string());
    let named = |terms: &[Arc<Terms>]| PaymentIdentity::read(&text, Version::V1, terms).unwrap().id;
    assert_ne!(named(&[Arc::new(other)]), named(&[]));
    for wrong in ["", "e30=", "W10="] {
        assert!(PaymentIdentity::read(wrong, Version::V2, &[]).is_err(), "{wrong}");
    }
}
