//! What every answer to a payment has to be like, whatever is wrong with it, and how a test makes something
//! wrong.

use alloy_primitives::Address;
use serde_json::{Value, json};

use crate::stage::Stage;

/// A body with one place of it changed; the place is a JSON pointer, and is made if its parent is there.
pub(crate) fn with(body: &Value, place: &str, value: Value) -> Value {
    let mut body = body.clone();
    match body.pointer_mut(place) {
        Some(found) => *found = value,
        None => {
            let (parent, name) = place.rsplit_once('/').expect("a pointer");
            body.pointer_mut(parent).expect("a parent")[name] = value;
        }
    }
    body
}

/// A body without one place of it.
pub(crate) fn without(body: &Value, place: &str) -> Value {
    let mut body = body.clone();
    let (parent, name) = place.rsplit_once('/').expect("a pointer");
    let parent = body.pointer_mut(parent).expect("a parent").as_object_mut().expect("an object");
    parent.remove(name).expect("was there");
    body
}

/// A body of version 2 with a term of the seller changed on both sides, as an honest client would repeat it.
pub(crate) fn terms(body: &Value, name: &str, value: &Value) -> Value {
    let body = with(body, &format!("/paymentRequirements/{name}"), value.clone());
    with(&body, &format!("/paymentPayload/accepted/{name}"), value.clone())
}

/// A payment that is refused by both endpoints for one reason.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) case: &'static str,
    pub(crate) code: &'static str,
    pub(crate) body: Value,
    pub(crate) payer: Option<Address>,
}

impl Stage {
    /// Asks both endpoints for each, and holds their answers to the table of the specification. What is
    /// wrong is told at once: one case that is wrong shall not hide the next.
    pub(crate) async fn refuses(&self, refusals: &[Refusal]) {
        let mut wrong = Vec::new();
        for refusal in refusals {
            let Refusal { case, code, body, payer } = refusal;
            let told = self.verify(body).await;
            check_verify(case, &told);
            let mut as_told = told["invalidReason"] == *code;
            as_told &= payer.is_none_or(|payer| told["payer"] == json!(payer));
            if !as_told {
                wrong.push(format!("verify, {case}: not {code} but {told}"));
            }
            let told = self.settle(body).await;
            check_settle(case, body, &told);
            let mut as_told = told["errorReason"] == *code && told["transaction"] == "";
            as_told &= payer.is_none_or(|payer| told["payer"] == json!(payer));
            if !as_told {
                wrong.push(format!("settle, {case}: not {code} but {told}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// An answer of `/verify` has the fields of the specification, and no others.
pub(crate) fn check_verify(case: &str, told: &Value) {
    let good = told["isValid"].as_bool().unwrap_or_else(|| panic!("{case}: {told}"));
    assert!(told.get("payer").is_none_or(Value::is_string), "{case}: {told}");
    for field in ["invalidReason", "invalidMessage"] {
        assert_eq!(told[field].is_string(), !good, "{case}: {field} in {told}");
        assert!(good || told[field] != "", "{case}: {field} in {told}");
    }
}

/// The same of `/settle`.
pub(crate) fn check_settle(case: &str, body: &Value, told: &Value) {
    let good = told["success"].as_bool().unwrap_or_else(|| panic!("{case}: {told}"));
    assert_eq!(told["network"], body["paymentRequirements"]["network"], "{case}: {told}");
    assert!(told.get("payer").is_none_or(Value::is_string), "{case}: {told}");
    let hash = told["transaction"].as_str().unwrap_or_else(|| panic!("{case}: {told}"));
    assert!(!good || hash.len() == 66, "{case}: {told}");
    for field in ["errorReason", "errorMessage"] {
        assert_eq!(told[field].is_string(), !good, "{case}: {field} in {told}");
        assert!(good || told[field] != "", "{case}: {field} in {told}");
    }
}
