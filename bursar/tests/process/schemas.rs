//! Validates what commands print against `bursar schema`, with a validator that is not ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use crate::stage::bursar;

/// The validators by the name of the command in the envelope.
static VALIDATORS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let output = output("schema");
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outputs = all["anyOf"].as_array().unwrap().iter();
    let validators = outputs.map(|output| {
        let title = output["title"].as_str().unwrap();
        let words = title.strip_prefix("bursar ").and_then(|rest| rest.strip_suffix(" --json"));
        let mut document = output.clone();
        document["$schema"] = all["$schema"].clone();
        document["$defs"] = all["$defs"].clone();
        let validator = jsonschema::validator_for(&document).unwrap();
        (words.unwrap().replace(' ', "."), validator)
    });
    validators.collect()
});

fn output(line: &str) -> Output {
    bursar(Path::new("no folder"), line).output().unwrap()
}

/// Checks an envelope against the schema of its command.
///
/// The error names the first field that does not match. Envelopes without a command match the schema of any command.
pub(crate) fn check(envelope: &Value) -> Result<(), String> {
    let command = envelope["command"].as_str().unwrap_or("status");
    let validator = VALIDATORS.get(command).ok_or(format!("{command} has no schema"))?;
    validator.validate(envelope).map_err(|error| {
        let at = error.instance_path().to_string();
        format!("{command} does not match its schema at {at}: {error}")
    })
}

#[test]
fn a_schema_rejects_what_its_command_does_not_print() {
    // A schema is a document by itself.
    let one: Value = serde_json::from_slice(&output("schema requests").stdout).unwrap();
    let validator = jsonschema::validator_for(&one).unwrap();
    let amount = serde_json::json!({
        "atoms": "1500000", "decimals": 6, "coins": "1.500000", "text": "1.500000 USDC", "token": null,
    });
    let row = serde_json::json!({
        "id": "0123abcd-4567-4890-8bcd-ef0123456789", "lane": "payment", "agent_id": "ABC123",
        "status": "pending", "step": null, "summary": "1.500000 USDC", "amount": amount,
        "asset": "0x", "payee": "0x", "domain": null, "created": "", "expires_in_seconds": 1,
        "expires_in_ms": 1000, "card": null,
    });
    let envelope = |row: Value| {
        serde_json::json!({
            "v": 2, "ok": true, "command": "requests", "data": { "requests": [row] },
            "warnings": [], "error": null,
        })
    };
    assert!(validator.is_valid(&envelope(row.clone())));
    for (field, value) in [
        ("amount", Value::from("1.500000 USDC")),
        ("status", Value::from("perhaps")),
        ("expires_in_ms", Value::from("1000")),
        ("id", Value::Null),
    ] {
        let mut wrong = row.clone();
        wrong[field] = value;
        assert!(!validator.is_valid(&envelope(wrong)), "{field}");
    }
    let mut former = envelope(row);
    former["v"] = Value::from(1);
    assert!(!validator.is_valid(&former));

    let unknown = output("schema agent lst");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("agent lst is not a command"));
}
