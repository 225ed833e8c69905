//! Checks that hold for every answer about a payment, and helpers that corrupt requests.

use alloy_primitives::Address;
use serde_json::{Value, json};

use crate::facilitator::stage::Stage;

/// Returns a body with the value at a JSON pointer replaced, or added if only its parent exists.
pub(crate) fn with(body: &Value, pointer: &str, value: Value) -> Value {
    let mut body = body.clone();
    match body.pointer_mut(pointer) {
        Some(found) => *found = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            body.pointer_mut(parent).expect("a parent")[name] = value;
        }
    }
    body
}

/// Returns a body without the value at a JSON pointer.
pub(crate) fn without(body: &Value, pointer: &str) -> Value {
    let mut body = body.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = body.pointer_mut(parent).expect("a parent").as_object_mut().expect("an object");
    parent.remove(name).expect("was there");
    body
}

/// Changes a term of the seller in a version 2 body: in the requirements, and in the copy of them that an honest client
/// adds to the payment.
pub(crate) fn with_term(body: &Value, name: &str, value: &Value) -> Value {
    let body = with(body, &format!("/paymentRequirements/{name}"), value.clone());
    with(&body, &format!("/paymentPayload/accepted/{name}"), value.clone())
}

/// A payment that both endpoints refuse with the same code.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) case: &'static str,
    pub(crate) code: &'static str,
    pub(crate) body: Value,
    pub(crate) payer: Option<Address>,
}

impl Stage {
    /// Sends each case to both endpoints, and checks the answers against the specification's table.
    ///
    /// Failures are reported together, so that one does not hide the next.
    pub(crate) async fn assert_refuses(&self, refusals: &[Refusal]) {
        let mut wrong = Vec::new();
        for refusal in refusals {
            let Refusal { case, code, body, payer } = refusal;
            let answer = self.verify(body).await;
            check_verify(case, &answer);
            let mut as_told = answer["invalidReason"] == *code;
            as_told &= payer.is_none_or(|payer| answer["payer"] == json!(payer));
            if !as_told {
                wrong.push(format!("verify, {case}: not {code} but {answer}"));
            }
            let answer = self.settle(body).await;
            check_settle(case, body, &answer);
            let mut as_told = answer["errorReason"] == *code && answer["transaction"] == "";
            as_told &= payer.is_none_or(|payer| answer["payer"] == json!(payer));
            if !as_told {
                wrong.push(format!("settle, {case}: not {code} but {answer}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Asserts that an answer of `/verify` has the fields of the specification.
pub(crate) fn check_verify(case: &str, answer: &Value) {
    let good = answer["isValid"].as_bool().unwrap_or_else(|| panic!("{case}: {answer}"));
    assert!(answer.get("payer").is_none_or(Value::is_string), "{case}: {answer}");
    for field in ["invalidReason", "invalidMessage"] {
        assert_eq!(answer[field].is_string(), !good, "{case}: {field} in {answer}");
        assert!(good || answer[field] != "", "{case}: {field} in {answer}");
    }
}

/// Asserts that an answer of `/settle` has the fields of the specification.
pub(crate) fn check_settle(case: &str, body: &Value, answer: &Value) {
    let good = answer["success"].as_bool().unwrap_or_else(|| panic!("{case}: {answer}"));
    assert_eq!(answer["network"], body["paymentRequirements"]["network"], "{case}: {answer}");
    assert!(answer.get("payer").is_none_or(Value::is_string), "{case}: {answer}");
    let hash = answer["transaction"].as_str().unwrap_or_else(|| panic!("{case}: {answer}"));
    assert!(!good || hash.len() == 66, "{case}: {answer}");
    for field in ["errorReason", "errorMessage"] {
        assert_eq!(answer[field].is_string(), !good, "{case}: {field} in {answer}");
        assert!(good || answer[field] != "", "{case}: {field} in {answer}");
    }
}
