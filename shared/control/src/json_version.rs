//! The versions of the JSON that commands print. In version 1 amounts were texts, next to `…_atomic` texts.

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::answers::Answer;

type Fields = Map<String, Value>;

/// A version of the JSON that commands print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum JsonVersion {
    /// Amounts are texts, next to `…_atomic` texts.
    #[value(name = "1")]
    One,
    /// Each amount of a token is one object.
    #[default]
    #[value(name = "2")]
    Two,
}

impl JsonVersion {
    /// Returns the version as the envelope has it.
    pub fn number(self) -> u8 {
        match self {
            JsonVersion::One => 1,
            JsonVersion::Two => 2,
        }
    }
}

/// What a field had instead of an amount.
#[derive(Clone, Copy)]
enum Former {
    /// The amount in whole coins, and the atomic number.
    Coins,
    /// The amount with its symbol, and the atomic number.
    Text,
    /// Only the amount with its symbol.
    TextAlone,
    /// Only the amount in whole coins.
    CoinsAlone,
    /// Only the atomic number.
    Atoms,
}

/// Returns the `data` of an answer in a version.
pub fn data_of(answer: &Answer, version: JsonVersion) -> Value {
    let mut data = answer.data();
    if version == JsonVersion::One {
        convert(answer, &mut data);
    }
    data
}

/// Converts the `data` of an answer to version 1.
fn convert(answer: &Answer, data: &mut Value) {
    use Former::{Atoms, Coins, CoinsAlone, Text};
    match answer {
        Answer::Requests { .. } => each(&mut data["requests"], |row| {
            amount(row, "amount", Coins);
            // The text of an unknown token was the bare number.
            let summary = row.remove("summary").unwrap_or(Value::Null);
            if row.get("amount").is_some_and(Value::is_null) {
                let atoms = row.get("amount_atomic").cloned().unwrap_or(Value::Null);
                row.insert("amount".to_owned(), atoms);
            } else {
                row.insert("amount".to_owned(), summary);
            }
        }),
        Answer::Decided(_) => each(data, |row| rename(row, "summary", "amount")),
        Answer::Status(_) => {
            each(&mut data["executing"], |row| rename(row, "summary", "amount"));
        }
        Answer::Send(_) => each(data, send),
        Answer::Sends { .. } => each(&mut data["sends"], send),
        Answer::Rehearsal(_) => each(data, |row| rename(row, "usd", "amount")),
        Answer::History(_) => each(&mut data["requests"], |row| {
            amount(row, "amount", Coins);
            if row.get("amount").is_some_and(Value::is_null) {
                let reason = "Bursar does not know this token";
                row.insert("amount_unknown_reason".to_owned(), reason.into());
            }
            each_of(row, "trade", |trade| amount(trade, "amount_out", Coins));
            each_of(row, "loan", |loan| {
                amount(loan, "moved", Coins);
                amount(loan, "position", CoinsAlone);
            });
        }),
        Answer::Activity(_) => each(&mut data["entries"], activity_row),
        Answer::Balances { .. } => each(&mut data["addresses"], |address| {
            each_of(address, "networks", |network| {
                each_of(network, "balances", |row| amount(row, "amount", Coins));
            });
        }),
        Answer::Allowances(_) => each(&mut data["allowances"], |row| {
            amount(row, "amount", Coins);
            if row.get("unlimited") == Some(&Value::Bool(true)) {
                row.insert("amount".to_owned(), Value::Null);
            }
        }),
        Answer::Venues(_) => each(&mut data["venues"], |row| {
            amount(row, "total_assets", Text);
            amount(row, "liquid", Text);
        }),
        Answer::Positions(_) => each(&mut data["positions"], |row| {
            amount(row, "shares", Atoms);
            for name in ["worth", "earned", "withdrawable"] {
                amount(row, name, Text);
            }
        }),
        Answer::Quote(_) => each(data, |row| {
            for name in ["amount_in", "amount_out", "minimum_out"] {
                amount(row, name, Atoms);
            }
            each_of(row, "routes", |route| amount(route, "amount_out", Text));
        }),
        _unchanged => {}
    }
}

/// Converts a row of `watch` or `activity` to version 1.
pub fn activity_row(row: &mut Fields) {
    amount(row, "amount", Former::TextAlone);
}

/// Converts the `data` of `bursar pay` to version 1.
pub fn pay(data: &mut Value) {
    each(&mut data["paid"], |paid| {
        amount(paid, "amount", Former::Coins);
        let Some(Value::String(coins)) = paid.get("amount").cloned() else {
            let reason = "the decimals of this token are unknown";
            paid.insert("amount_unknown_reason".to_owned(), reason.into());
            return;
        };
        if coins.contains('.') {
            let plain = coins.trim_end_matches('0').trim_end_matches('.');
            paid.insert("amount".to_owned(), plain.into());
        }
    });
}

fn send(row: &mut Fields) {
    amount(row, "amount", Former::Atoms);
    rename(row, "summary", "amount");
}

/// Applies `convert` to an object, or to each object of a list.
fn each(value: &mut Value, convert: impl Fn(&mut Fields)) {
    match value {
        Value::Object(fields) => convert(fields),
        Value::Array(values) => {
            values.iter_mut().filter_map(Value::as_object_mut).for_each(convert);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn each_of(row: &mut Fields, name: &str, convert: impl Fn(&mut Fields)) {
    if let Some(value) = row.get_mut(name) {
        each(value, convert);
    }
}

fn rename(row: &mut Fields, from: &str, to: &str) {
    if let Some(value) = row.remove(from) {
        row.insert(to.to_owned(), value);
    }
}

/// Replaces the amount `name`, which may be null.
fn amount(row: &mut Fields, name: &str, former: Former) {
    let Some(described) = row.remove(name) else { return };
    let part = |part: &str| described.get(part).cloned().unwrap_or(Value::Null);
    let shown = match former {
        Former::Coins | Former::CoinsAlone => Some(part("coins")),
        Former::Text | Former::TextAlone => Some(part("text")),
        Former::Atoms => None,
    };
    if let Some(shown) = shown {
        row.insert(name.to_owned(), shown);
    }
    if matches!(former, Former::Coins | Former::Text | Former::Atoms) {
        row.insert(format!("{name}_atomic"), part("atoms"));
    }
}
