//! Reads typed data from its JSON, for the transcripts of Ledger's host library.

use alloy_primitives::{I256, U256};
use bursar_ledger::typed_data::{DOMAIN, Field, FieldType, StructType, TypedData, Value};
use serde_json::Value as Json;

/// Reads a message as wallets receive it: types, primary type, domain and message.
pub(crate) fn read(json: &Json) -> TypedData {
    let mut types: Vec<StructType> = json["types"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, fields)| {
            let fields = fields.as_array().unwrap().iter().map(field).collect();
            StructType::new(name, fields)
        })
        .collect();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    let primary = json["primaryType"].as_str().unwrap();
    TypedData {
        domain: struct_value(&types, DOMAIN, &json["domain"]),
        message: struct_value(&types, primary, &json["message"]),
        primary: primary.to_owned(),
        types,
    }
}

fn field(json: &Json) -> Field {
    let text = json["type"].as_str().unwrap();
    let (base, levels) = text.split_at(text.find('[').unwrap_or(text.len()));
    let levels = levels.split('[').skip(1).map(|level| level.trim_end_matches(']').parse().ok());
    Field {
        name: json["name"].as_str().unwrap().to_owned(),
        kind: kind(base),
        array_levels: levels.collect(),
    }
}

fn kind(base: &str) -> FieldType {
    let number = |prefix: &str| base.strip_prefix(prefix)?.parse::<u16>().ok();
    let bytes = |bits: u16| u8::try_from(bits / 8).unwrap();
    match base {
        "address" => FieldType::Address,
        "bool" => FieldType::Bool,
        "string" => FieldType::String,
        "bytes" => FieldType::Bytes,
        _other => match (number("uint"), number("int"), number("bytes")) {
            (Some(bits), _, _) => FieldType::Uint(bytes(bits)),
            (_, Some(bits), _) => FieldType::Int(bytes(bits)),
            (_, _, Some(size)) => FieldType::FixedBytes(u8::try_from(size).unwrap()),
            _custom => FieldType::Struct(base.to_owned()),
        },
    }
}

fn struct_value(types: &[StructType], name: &str, json: &Json) -> Value {
    let of = types.iter().find(|one| one.name == name).unwrap();
    let values = of
        .fields
        .iter()
        .map(|field| value(types, field, field.array_levels.len(), &json[&field.name]));
    Value::Struct(values.collect())
}

fn value(types: &[StructType], field: &Field, levels: usize, json: &Json) -> Value {
    if levels > 0 {
        let items = json.as_array().unwrap().iter();
        return Value::Array(items.map(|item| value(types, field, levels - 1, item)).collect());
    }
    let text = match json {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other => other.to_string(),
    };
    let hex_bytes = || {
        let digits = text.trim_start_matches("0x");
        let even = format!("{}{digits}", if digits.len() % 2 == 0 { "" } else { "0" });
        hex::decode(even).unwrap()
    };
    match &field.kind {
        FieldType::Struct(name) => struct_value(types, name, json),
        FieldType::Bool => Value::number(U256::from(u8::from(text == "true" || text == "1"))),
        FieldType::String => Value::string(&text),
        // Numbers in hex are sent as they are written.
        FieldType::Int(_) | FieldType::Uint(_) if text.starts_with("0x") => {
            Value::Atom(hex_bytes())
        }
        FieldType::Int(size) if text.starts_with('-') => {
            let whole = I256::from_dec_str(&text).unwrap().to_be_bytes::<32>();
            Value::Atom(whole[32 - usize::from(*size)..].to_vec())
        }
        FieldType::Int(_) | FieldType::Uint(_) => {
            Value::number(if text.is_empty() { U256::ZERO } else { text.parse().unwrap() })
        }
        FieldType::Address | FieldType::FixedBytes(_) | FieldType::Bytes => {
            Value::Atom(hex_bytes())
        }
    }
}
