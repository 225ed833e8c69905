//! JSON texts that may break the rules of JSON, and their mutations.

use bursar_tests::dice::Dice;
use serde_json::Value;

use crate::draw::{change_slightly, mutate_bytes, odd_number, odd_text, pick};

/// A JSON value in which members may repeat and a raw value may have any bytes.
#[derive(Debug, Clone)]
pub(crate) enum Json {
    Raw(Vec<u8>),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Member names that other endpoints know, or that parsers treat in special ways.
const ODD_MEMBER_NAMES: &[&str] = &[
    "",
    "__proto__",
    "constructor",
    "id",
    "method",
    "params",
    "result",
    "error",
    "code",
    "status",
    "amount",
    "recipient",
    "receiver",
    "on_behalf",
    "deadline",
    "extensions",
    "extra",
    "accepts",
    "payload",
    "resource",
    "network",
    "stream",
    "n",
    "tools",
    "max_tokens",
    "agent_id",
    "signature",
    "idempotency_key",
    "\u{0}",
    "é",
];

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(
                members.iter().map(|(name, value)| (name.clone(), Self::from(value))).collect(),
            ),
            other => Self::Raw(other.to_string().into_bytes()),
        }
    }
}

impl Json {
    /// Returns the text.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(bytes) => out.extend_from_slice(bytes),
            Self::Text(text) => out.extend_from_slice(quoted(text).as_bytes()),
            Self::List(items) => {
                out.push(b'[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(quoted(name).as_bytes());
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    fn count(&self) -> usize {
        1 + match self {
            Self::Raw(_) | Self::Text(_) => 0,
            Self::List(items) => items.iter().map(Self::count).sum(),
            Self::Object(members) => members.iter().map(|(_, value)| value.count()).sum(),
        }
    }

    /// Returns the node with this number, counted from the root.
    fn node(&mut self, number: &mut usize) -> Option<&mut Self> {
        if *number == 0 {
            return Some(self);
        }
        *number -= 1;
        match self {
            Self::Raw(_) | Self::Text(_) => None,
            Self::List(items) => items.iter_mut().find_map(|item| item.node(number)),
            Self::Object(members) => members.iter_mut().find_map(|(_, value)| value.node(number)),
        }
    }

    /// Changes one to three random nodes.
    pub(crate) fn mutate(&mut self, dice: &mut Dice) {
        for _ in 0..=dice.roll(3) {
            let mut number = dice.index(self.count());
            if let Some(node) = self.node(&mut number) {
                node.mutate_node(dice);
            }
        }
    }

    fn mutate_node(&mut self, dice: &mut Dice) {
        match dice.roll(12) {
            0 => return *self = odd_value(dice),
            1 => return *self = Self::List(vec![self.clone()]),
            _by_type => {}
        }
        match self {
            Self::Object(members) if !members.is_empty() => mutate_members(dice, members),
            Self::List(items) if !items.is_empty() => mutate_items(dice, items),
            Self::Text(text) => {
                *self = match dice.roll(6) {
                    0 => Self::Text(odd_text(dice)),
                    1 => Self::Raw(odd_number(dice).into_bytes()),
                    // Writes a number or a word without its quotes.
                    2 => Self::Raw(text.clone().into_bytes()),
                    3 => raw_text(dice, text),
                    _near => Self::Text(change_slightly(dice, text)),
                }
            }
            Self::Raw(bytes) => {
                *self = match dice.roll(4) {
                    0 => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
                    1 => odd_value(dice),
                    _number => Self::Raw(odd_number(dice).into_bytes()),
                }
            }
            Self::Object(_) | Self::List(_) => *self = odd_value(dice),
        }
    }
}

fn mutate_members(dice: &mut Dice, members: &mut Vec<(String, Json)>) {
    let at = dice.index(members.len());
    match dice.roll(8) {
        0 | 1 => drop(members.remove(at)),
        2 => {
            let twice = members[at].clone();
            members.insert(dice.index(members.len() + 1), twice);
        }
        3 => members[at].0 = change_slightly(dice, &members[at].0.clone()),
        4 => {
            let name = if dice.chance(1, 4) {
                odd_text(dice)
            } else {
                pick(dice, ODD_MEMBER_NAMES).to_string()
            };
            members.push((name, odd_value(dice)));
        }
        5 => {
            let other = dice.index(members.len());
            let value = members[other].1.clone();
            members[at].1 = value;
        }
        6 if dice.chance(1, 8) => {
            members.extend((0..dice.index(3_000)).map(|n| (n.to_string(), Json::List(Vec::new()))));
        }
        _value => members[at].1 = odd_value(dice),
    }
}

fn mutate_items(dice: &mut Dice, items: &mut Vec<Json>) {
    let at = dice.index(items.len());
    match dice.roll(6) {
        0 => drop(items.remove(at)),
        1 => items.push(items[at].clone()),
        2 => items.clear(),
        3 => items[at] = odd_value(dice),
        4 => {
            let times = dice.one_of(&[2, 10, 100, 101, 1_000]);
            let one = items[at].clone();
            items.extend(std::iter::repeat_n(one, times));
        }
        _swap => {
            let other = dice.index(items.len());
            items.swap(at, other);
        }
    }
}

/// Returns a value of another type, sometimes deep or invalid.
fn odd_value(dice: &mut Dice) -> Json {
    match dice.roll(12) {
        0 => Json::Raw(b"null".to_vec()),
        1 => Json::Raw(b"true".to_vec()),
        2 => Json::List(Vec::new()),
        3 => Json::Object(Vec::new()),
        4 | 5 => Json::Raw(odd_number(dice).into_bytes()),
        6 => deeply_nested(dice),
        7 => Json::Object(vec![(odd_text(dice), Json::Text(odd_text(dice)))]),
        8 => Json::Raw(
            pick(dice, &[&b"NaN"[..], b"-Infinity", b"'x'", b"01", b"1.", b"", b"/**/1"]).to_vec(),
        ),
        _text => Json::Text(odd_text(dice)),
    }
}

fn deeply_nested(dice: &mut Dice) -> Json {
    let depth = dice.one_of(&[2, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1_000, 20_000]);
    let (open, close) = *pick(dice, &[("[", "]"), ("{\"a\":", "}"), ("[{\"a\":[", "]}]")]);
    Json::Raw(format!("{}1{}", open.repeat(depth), close.repeat(depth)).into_bytes())
}

/// Returns a text with bytes that JSON forbids, or with escapes.
fn raw_text(dice: &mut Dice, text: &str) -> Json {
    let mut inner = match dice.roll(4) {
        0 => format!("{text}\u{1}\u{1f}").into_bytes(),
        1 => format!("{text}\\ud800").into_bytes(),
        2 => text
            .chars()
            .map(|c| format!("\\u{:04x}", c as u32 & 0xffff))
            .collect::<String>()
            .into_bytes(),
        _broken => [text.as_bytes(), b"\xff\xc0\x80"].concat(),
    };
    if dice.chance(1, 4) {
        mutate_bytes(dice, &mut inner);
    }
    inner.insert(0, b'"');
    inner.push(b'"');
    Json::Raw(inner)
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Returns the text of a value after mutations; occasionally mutates the bytes of the text, too.
pub(crate) fn mutated(dice: &mut Dice, value: &Value) -> Vec<u8> {
    let mut json = Json::from(value);
    json.mutate(dice);
    let mut bytes = json.bytes();
    if dice.chance(1, 12) {
        mutate_bytes(dice, &mut bytes);
    }
    bytes
}
