//! Typed data to sign (EIP-712): in full, so that the device can show it, or by its hashes.

use alloy_primitives::{Address, B256, U256};
use bursar_core::derivation::DerivationPath;

use crate::command::{Command, DATA_MAX, ETHEREUM_CLASS, RequestTooLong, encode_path, instruction};

/// The name of the domain's type.
pub const DOMAIN: &str = "EIP712Domain";

/// The type of a field or of an array's items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
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
    pub kind: FieldType,
    /// The lengths of an array's levels, in the order of the written type; `None` for a level of dynamic length.
    ///
    /// It is empty if the field is not an array.
    pub array_levels: Vec<Option<u8>>,
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
    pub fn new(name: &str, kind: FieldType) -> Self {
        Self { name: name.to_owned(), kind, array_levels: Vec::new() }
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
/// [`RequestTooLong`].
pub fn ask_full(path: &DerivationPath, typed: &TypedData) -> Result<Vec<Command>, RequestTooLong> {
    let mut commands = define_types(typed)?;
    for (name, value) in [(DOMAIN, &typed.domain), (&typed.primary, &typed.message)] {
        commands.push(begin_struct(name)?);
        push_value(value, &mut commands)?;
    }
    commands.push(Command::new(
        ETHEREUM_CLASS,
        instruction::TYPED_DATA,
        [0, 1],
        encode_path(path)?,
    ));
    Ok(commands)
}

/// Returns the first commands of [`ask_full`]: the types, and the beginning of the domain.
///
/// They are the same for all values.
///
/// An app that answers at once ([`crate::app::Configuration::answers_before_showing`]) does not show anything yet. It
/// refuses the last of these commands with [`crate::status::Status::INVALID_DATA`] if a switch of its settings is off.
///
/// # Errors
/// [`RequestTooLong`].
pub fn ask_beginning(typed: &TypedData) -> Result<Vec<Command>, RequestTooLong> {
    let mut commands = define_types(typed)?;
    commands.push(begin_struct(DOMAIN)?);
    Ok(commands)
}

fn define_types(typed: &TypedData) -> Result<Vec<Command>, RequestTooLong> {
    let mut commands = Vec::new();
    for one in &typed.types {
        commands.push(define_command(0x00, one.name.as_bytes().to_vec())?);
        for field in &one.fields {
            commands.push(define_command(0xFF, encode_field(field)?)?);
        }
    }
    Ok(commands)
}

/// Returns the command that begins the values of a struct.
fn begin_struct(name: &str) -> Result<Command, RequestTooLong> {
    let name = name.as_bytes().to_vec();
    if name.len() > DATA_MAX {
        return Err(RequestTooLong::Name);
    }
    Ok(Command::new(ETHEREUM_CLASS, instruction::VALUE, [0, 0x00], name))
}

/// Returns the command that asks for the signature of typed data by the hashes of its domain and message.
///
/// # Errors
/// [`RequestTooLong::Path`].
pub fn ask_hashes(
    path: &DerivationPath,
    domain: B256,
    message: B256,
) -> Result<Command, RequestTooLong> {
    let data = [&encode_path(path)?[..], domain.as_slice(), message.as_slice()].concat();
    Ok(Command::new(ETHEREUM_CLASS, instruction::TYPED_DATA, [0, 0], data))
}

fn define_command(p2: u8, data: Vec<u8>) -> Result<Command, RequestTooLong> {
    if data.len() > DATA_MAX {
        return Err(RequestTooLong::Name);
    }
    Ok(Command::new(ETHEREUM_CLASS, instruction::TYPE, [0, p2], data))
}

/// Returns the description of a field: its type, sizes and name.
fn encode_field(field: &Field) -> Result<Vec<u8>, RequestTooLong> {
    const ARRAY_FLAG: u8 = 0x80;
    const SIZED_FLAG: u8 = 0x40;
    let (number, size, name) = match &field.kind {
        FieldType::Struct(name) => (0, None, Some(name)),
        FieldType::Int(bytes) => (1, Some(*bytes), None),
        FieldType::Uint(bytes) => (2, Some(*bytes), None),
        FieldType::Address => (3, None, None),
        FieldType::Bool => (4, None, None),
        FieldType::String => (5, None, None),
        FieldType::FixedBytes(bytes) => (6, Some(*bytes), None),
        FieldType::Bytes => (7, None, None),
    };
    let array = if field.array_levels.is_empty() { 0 } else { ARRAY_FLAG };
    let sized = if size.is_some() { SIZED_FLAG } else { 0 };
    let mut bytes = vec![number | array | sized];
    if let Some(name) = name {
        bytes.extend(length_prefixed(name)?);
    }
    bytes.extend(size);
    if !field.array_levels.is_empty() {
        bytes.push(u8::try_from(field.array_levels.len()).map_err(|_many| RequestTooLong::Array)?);
        for level in &field.array_levels {
            match level {
                None => bytes.push(0),
                Some(length) => bytes.extend([1, *length]),
            }
        }
    }
    bytes.extend(length_prefixed(&field.name)?);
    Ok(bytes)
}

fn length_prefixed(name: &str) -> Result<Vec<u8>, RequestTooLong> {
    let count = u8::try_from(name.len()).map_err(|_long| RequestTooLong::Name)?;
    Ok([&[count], name.as_bytes()].concat())
}

fn push_value(value: &Value, commands: &mut Vec<Command>) -> Result<(), RequestTooLong> {
    let mut push = |p1, p2, data| {
        commands.push(Command::new(ETHEREUM_CLASS, instruction::VALUE, [p1, p2], data))
    };
    match value {
        Value::Struct(fields) => fields.iter().try_for_each(|field| push_value(field, commands)),
        Value::Array(items) => {
            push(0, 0x0F, vec![u8::try_from(items.len()).map_err(|_many| RequestTooLong::Array)?]);
            items.iter().try_for_each(|item| push_value(item, commands))
        }
        Value::Atom(bytes) => {
            let length = u16::try_from(bytes.len()).map_err(|_long| RequestTooLong::Value)?;
            let whole = [&length.to_be_bytes()[..], bytes].concat();
            let mut chunks = whole.chunks(DATA_MAX).peekable();
            while let Some(chunk) = chunks.next() {
                push(u8::from(chunks.peek().is_some()), 0xFF, chunk.to_vec());
            }
            Ok(())
        }
    }
}
