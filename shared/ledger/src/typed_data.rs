//! Typed data to sign (EIP-712): in full, so that the device can show it, or by its hashes.

use alloy_primitives::{Address, B256, U256};
use bursar_core::derivation::DerivationPath;

use crate::command::{Command, DATA_MAX, ETHEREUM, TooLong, encode_path, instruction};

/// The name of the domain's type.
pub const DOMAIN: &str = "EIP712Domain";

/// The type of a field or of an array's items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Struct(String),
    /// A signed integer of this many bytes.
    Int(u8),
    /// An unsigned integer of this many bytes.
    Uint(u8),
    Address,
    Bool,
    String,
    /// A byte string of this fixed length.
    FixedBytes(u8),
    Bytes,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
    /// The lengths of an array's levels, in the order of the written type; `None` for a level of dynamic length.
    ///
    /// It is empty if the field is not an array.
    pub levels: Vec<Option<u8>>,
}

/// A struct type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructType {
    pub name: String,
    pub fields: Vec<Field>,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The values of the fields, in the order of the type.
    Struct(Vec<Value>),
    Array(Vec<Value>),
    /// A number without leading zeros and with one byte at least, an address, a string in UTF-8, or bytes.
    Atom(Vec<u8>),
}

/// A message with its domain and their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedData {
    /// Every type of domain and message, in the order in which the device receives them.
    pub types: Vec<StructType>,
    /// The values of [`DOMAIN`].
    pub domain: Value,
    /// The name of the message's type.
    pub primary: String,
    pub message: Value,
}

impl Field {
    /// Returns a field that is not an array.
    pub fn new(name: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), kind, levels: Vec::new() }
    }
}

impl StructType {
    /// Returns a struct type.
    pub fn new(name: &str, fields: Vec<Field>) -> Self {
        Self { name: name.to_owned(), fields }
    }
}

impl Value {
    /// Returns a number.
    pub fn number(number: U256) -> Self {
        let bytes = number.to_be_bytes_trimmed_vec();
        Self::Atom(if bytes.is_empty() { vec![0] } else { bytes })
    }

    /// Returns an address.
    pub fn address(address: Address) -> Self {
        Self::Atom(address.to_vec())
    }

    /// Returns a string.
    pub fn string(text: &str) -> Self {
        Self::Atom(text.as_bytes().to_vec())
    }
}

/// Returns the commands that ask for the signature of typed data in full.
///
/// They send the types, the values of the domain and the values of the message. The device answers the last command
/// once the person has decided.
///
/// # Errors
/// [`TooLong`].
pub fn ask_full(path: &DerivationPath, typed: &TypedData) -> Result<Vec<Command>, TooLong> {
    let mut commands = define_types(typed)?;
    for (name, value) in [(DOMAIN, &typed.domain), (&typed.primary, &typed.message)] {
        commands.push(begin(name)?);
        push_value(value, &mut commands)?;
    }
    commands.push(Command::new(ETHEREUM, instruction::TYPED_DATA, [0, 1], encode_path(path)?));
    Ok(commands)
}

/// Returns the first commands of [`ask_full`]: the types, and the beginning of the domain.
///
/// They are the same for all values.
///
/// An app that answers at once ([`crate::app::Configuration::begins_at_once`]) does not show anything yet. It refuses
/// the last of these commands with [`crate::status::Status::INVALID_DATA`] if a switch of its settings is off.
///
/// # Errors
/// [`TooLong`].
pub fn ask_beginning(typed: &TypedData) -> Result<Vec<Command>, TooLong> {
    let mut commands = define_types(typed)?;
    commands.push(begin(DOMAIN)?);
    Ok(commands)
}

fn define_types(typed: &TypedData) -> Result<Vec<Command>, TooLong> {
    let mut commands = Vec::new();
    for one in &typed.types {
        commands.push(define(0x00, one.name.as_bytes().to_vec())?);
        for field in &one.fields {
            commands.push(define(0xFF, encode_field(field)?)?);
        }
    }
    Ok(commands)
}

/// Returns the command that begins the values of a struct.
fn begin(name: &str) -> Result<Command, TooLong> {
    let name = name.as_bytes().to_vec();
    if name.len() > DATA_MAX {
        return Err(TooLong::Name);
    }
    Ok(Command::new(ETHEREUM, instruction::VALUE, [0, 0x00], name))
}

/// Returns the command that asks for the signature of typed data by the hashes of its domain and message.
///
/// # Errors
/// [`TooLong::Path`].
pub fn ask_hashes(path: &DerivationPath, domain: B256, message: B256) -> Result<Command, TooLong> {
    let data = [&encode_path(path)?[..], domain.as_slice(), message.as_slice()].concat();
    Ok(Command::new(ETHEREUM, instruction::TYPED_DATA, [0, 0], data))
}

fn define(p2: u8, data: Vec<u8>) -> Result<Command, TooLong> {
    if data.len() > DATA_MAX {
        return Err(TooLong::Name);
    }
    Ok(Command::new(ETHEREUM, instruction::TYPE, [0, p2], data))
}

/// Returns the description of a field: its type, sizes and name.
fn encode_field(field: &Field) -> Result<Vec<u8>, TooLong> {
    const ARRAY: u8 = 0x80;
    const SIZED: u8 = 0x40;
    let (number, size, name) = match &field.kind {
        Kind::Struct(name) => (0, None, Some(name)),
        Kind::Int(bytes) => (1, Some(*bytes), None),
        Kind::Uint(bytes) => (2, Some(*bytes), None),
        Kind::Address => (3, None, None),
        Kind::Bool => (4, None, None),
        Kind::String => (5, None, None),
        Kind::FixedBytes(bytes) => (6, Some(*bytes), None),
        Kind::Bytes => (7, None, None),
    };
    let array = if field.levels.is_empty() { 0 } else { ARRAY };
    let sized = if size.is_some() { SIZED } else { 0 };
    let mut bytes = vec![number | array | sized];
    if let Some(name) = name {
        bytes.extend(counted(name)?);
    }
    bytes.extend(size);
    if !field.levels.is_empty() {
        bytes.push(u8::try_from(field.levels.len()).map_err(|_many| TooLong::Array)?);
        for level in &field.levels {
            match level {
                None => bytes.push(0),
                Some(length) => bytes.extend([1, *length]),
            }
        }
    }
    bytes.extend(counted(&field.name)?);
    Ok(bytes)
}

fn counted(name: &str) -> Result<Vec<u8>, TooLong> {
    let count = u8::try_from(name.len()).map_err(|_long| TooLong::Name)?;
    Ok([&[count], name.as_bytes()].concat())
}

fn push_value(value: &Value, commands: &mut Vec<Command>) -> Result<(), TooLong> {
    let mut push =
        |p1, p2, data| commands.push(Command::new(ETHEREUM, instruction::VALUE, [p1, p2], data));
    match value {
        Value::Struct(fields) => fields.iter().try_for_each(|field| push_value(field, commands)),
        Value::Array(items) => {
            push(0, 0x0F, vec![u8::try_from(items.len()).map_err(|_many| TooLong::Array)?]);
            items.iter().try_for_each(|item| push_value(item, commands))
        }
        Value::Atom(bytes) => {
            let length = u16::try_from(bytes.len()).map_err(|_long| TooLong::Value)?;
            let whole = [&length.to_be_bytes()[..], bytes].concat();
            let mut chunks = whole.chunks(DATA_MAX).peekable();
            while let Some(chunk) = chunks.next() {
                push(u8::from(chunks.peek().is_some()), 0xFF, chunk.to_vec());
            }
            Ok(())
        }
    }
}
