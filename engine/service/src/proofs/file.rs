//! The file of a proof: one JSON text. Only the exact text that [`ProofFile::to_text`] writes is read.

use alloy_primitives::Address;
use bursar_core::json::{JsonError, Object, Value, parse_few};
use bursar_domain::proofs::Statement;
use bursar_mandate::AgentMember;
use bursar_x402::signature::Signature65;

use crate::journal::Hash;

/// The longest proof that is read, in bytes.
pub const BYTES_MAX: usize = 8 << 20;

const FORMAT: &str = "bursar-receipt-proof/1";
const DEPTH_MAX: usize = 8;
const VALUES_MAX: usize = 100_000;

/// Why a file cannot be read as a proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is longer than 8 MiB")]
    TooLong,
    #[error("it is not JSON: {0}")]
    Json(#[from] JsonError),
    #[error("the member `{0}` is missing or has the wrong form")]
    Member(&'static str),
    #[error("it is not written exactly as a proof is written: it was edited")]
    Edited,
}

/// A proof as it is in a file. Nothing in it is checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProofFile {
    /// The bytes of the entries that the receipt rests on, in order.
    pub(crate) entries: Vec<Vec<u8>>,
    /// The bytes of the anchor's entry.
    pub(crate) anchor: Vec<u8>,
    /// The number of the request's leaf, from 0.
    pub(crate) leaf: u64,
    /// The path from the leaf to the root, nearest first.
    pub(crate) path: Vec<Hash>,
    pub(crate) statement: Statement,
    pub(crate) signature: Option<Signature65>,
}

impl ProofFile {
    /// Writes the file.
    pub(crate) fn to_text(&self) -> String {
        let hex_list = |list: &mut dyn Iterator<Item = String>| -> Value {
            Value::from(list.map(Value::from).collect::<Vec<_>>())
        };
        let object = Object::new()
            .with("format", FORMAT)
            .with("entries", hex_list(&mut self.entries.iter().map(hex::encode)))
            .with("anchor", hex::encode(&self.anchor))
            .with("leaf", self.leaf)
            .with("path", hex_list(&mut self.path.iter().map(hex::encode)))
            .with("statement", self.statement.to_json())
            .with(
                "signature",
                self.signature.as_ref().map_or(Value::Null, |one| one.to_hex().into()),
            );
        format!("{}\n", object.to_compact())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        if bytes.len() > BYTES_MAX {
            return Err(Unreadable::TooLong);
        }
        let value = parse_few(bytes, DEPTH_MAX, VALUES_MAX)?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(Unreadable::Member("format"));
        }
        let signature = match value.get("signature") {
            Some(Value::Null) => None,
            other => Some(parsed(other, "signature")?),
        };
        let file = Self {
            entries: list(&value, "entries", |text| hex::decode(text).ok())?,
            anchor: text(value.get("anchor"), "anchor")
                .and_then(|text| hex::decode(text).map_err(|_bad| Unreadable::Member("anchor")))?,
            leaf: number(value.get("leaf"), "leaf")?,
            path: list(&value, "path", hash)?,
            statement: statement(value.get("statement").unwrap_or(&Value::Null))?,
            signature,
        };
        // Every other spelling of the same content is an edit.
        if file.to_text().as_bytes() == bytes { Ok(file) } else { Err(Unreadable::Edited) }
    }
}

fn statement(value: &Value) -> Result<Statement, Unreadable> {
    let agent = value.get("agent");
    let member = |name: &str| agent.and_then(|agent| agent.get(name));
    let (agent_member, code) = match member("code") {
        Some(code) => (AgentMember::Code, Some(code)),
        None => (AgentMember::Id, member("id")),
    };
    let name = match member("name") {
        Some(Value::Null) => None,
        other => Some(parsed(other, "statement.agent.name")?),
    };
    let mandate = match value.get("mandateId") {
        Some(Value::Null) => None,
        other => Some(parsed(other, "statement.mandateId")?),
    };
    let entries = value.get("entries").and_then(Value::as_array);
    let entries = entries.ok_or(Unreadable::Member("statement.entries"))?;
    let entries = entries.iter().map(|entry| number(Some(entry), "statement.entries"));
    let wallet = value.get("wallet").and_then(|wallet| wallet.get("address"));
    let signer: Address = bursar_core::address::read(text(wallet, "statement.wallet.address")?)
        .map_err(|_bad| Unreadable::Member("statement.wallet.address"))?;
    Ok(Statement {
        request: parsed(value.get("request"), "statement.request")?,
        head: text(value.get("head"), "statement.head")
            .and_then(|text| hash(text).ok_or(Unreadable::Member("statement.head")))?,
        entries: entries.collect::<Result<_, _>>()?,
        agent: parsed(code, "statement.agent")?,
        agent_member,
        agent_name: name,
        mandate,
        signer,
        until: None,
    })
}

fn text<'a>(value: Option<&'a Value>, name: &'static str) -> Result<&'a str, Unreadable> {
    value.and_then(Value::as_str).ok_or(Unreadable::Member(name))
}

fn parsed<T: std::str::FromStr>(
    value: Option<&Value>,
    name: &'static str,
) -> Result<T, Unreadable> {
    text(value, name)?.parse().map_err(|_bad| Unreadable::Member(name))
}

fn number(value: Option<&Value>, name: &'static str) -> Result<u64, Unreadable> {
    let number = value.and_then(Value::as_number).and_then(|number| number.as_u64());
    number.ok_or(Unreadable::Member(name))
}

fn hash(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    hex::decode_to_slice(text, &mut hash).ok().map(|()| hash)
}

fn list<T>(
    value: &Value,
    name: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Unreadable> {
    let list = value.get(name).and_then(Value::as_array).ok_or(Unreadable::Member(name))?;
    let read = |one: &Value| one.as_str().and_then(&read).ok_or(Unreadable::Member(name));
    list.iter().map(read).collect()
}
