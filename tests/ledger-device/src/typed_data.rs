//! Typed data (EIP-712) as it arrives in commands: its types, its values and its hash.

use std::collections::{BTreeMap, BTreeSet};
use std::slice::Iter;

use crate::key::keccak;

const DOMAIN: &str = "EIP712Domain";

/// A field of a struct type.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    kind: u8,
    /// Bytes of a number or of fixed bytes.
    size: Option<u8>,
    /// The name of a struct type.
    custom: String,
    levels: Vec<Option<u8>>,
}

/// A part of a value.
#[derive(Debug)]
enum Part {
    Items(usize),
    Atom(Vec<u8>),
}

/// What has arrived.
#[derive(Debug, Default)]
pub struct TypedData {
    types: BTreeMap<String, Vec<Field>>,
    newest: Option<String>,
    /// The structs in order, each with its parts.
    roots: Vec<(String, Vec<Part>)>,
    /// The bytes of a value that continues in the next command.
    partial: Vec<u8>,
}

/// Whole typed data.
#[derive(Debug, PartialEq, Eq)]
pub struct Hashes {
    pub domain: [u8; 32],
    pub message: [u8; 32],
    /// Each field of domain and message with its value.
    pub shown: Vec<(String, String)>,
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    take(bytes, 1)?.first().copied()
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let count = take_byte(bytes)?;
    String::from_utf8(take(bytes, usize::from(count))?.to_vec()).ok()
}

impl TypedData {
    /// Begins a struct type.
    pub fn define(&mut self, name: &[u8]) -> Option<()> {
        let name = String::from_utf8(name.to_vec()).ok().filter(|name| !name.is_empty())?;
        // A definition after values begins other typed data.
        if !self.roots.is_empty() {
            *self = Self::default();
        }
        self.types.insert(name.clone(), Vec::new());
        self.newest = Some(name);
        Some(())
    }

    /// Adds a field to the newest struct type.
    pub fn add_field(&mut self, mut bytes: &[u8]) -> Option<()> {
        let fields = self.types.get_mut(self.newest.as_ref()?)?;
        let description = take_byte(&mut bytes)?;
        let kind = description & 0x0f;
        let custom = if kind == 0 { take_text(&mut bytes)? } else { String::new() };
        let size = if description & 0x40 != 0 { Some(take_byte(&mut bytes)?) } else { None };
        let mut levels = Vec::new();
        if description & 0x80 != 0 {
            for _level in 0..take_byte(&mut bytes)? {
                levels.push(match take_byte(&mut bytes)? {
                    0 => None,
                    1 => Some(take_byte(&mut bytes)?),
                    _other => return None,
                });
            }
        }
        let name = take_text(&mut bytes)?;
        let sized = matches!(kind, 1 | 2 | 6);
        let valid = kind <= 7
            && sized == size.is_some()
            && size.is_none_or(|size| (1..=32).contains(&size));
        (valid && bytes.is_empty()).then(|| fields.push(Field { name, kind, size, custom, levels }))
    }

    /// Begins the values of a struct; returns whether it is the domain.
    pub fn begin(&mut self, name: &[u8]) -> Option<bool> {
        let name = String::from_utf8(name.to_vec()).ok()?;
        self.types.get(&name)?;
        let is_domain = name == DOMAIN;
        let in_order = self.partial.is_empty()
            && match self.roots.as_slice() {
                [] => is_domain,
                [_domain] => true,
                _both => false,
            };
        in_order.then(|| {
            self.roots.push((name, Vec::new()));
            is_domain
        })
    }

    /// Adds the number of items of an array.
    pub fn add_items(&mut self, bytes: &[u8]) -> Option<()> {
        let [count] = bytes else { return None };
        self.roots.last_mut()?.1.push(Part::Items(usize::from(*count)));
        Some(())
    }

    /// Adds bytes of a value: its length, then its bytes, over one or more commands.
    pub fn add_value(&mut self, bytes: &[u8], is_last: bool) -> Option<()> {
        self.partial.extend(bytes);
        let (length, value) = self.partial.split_first_chunk::<2>()?;
        let whole = value.len() == usize::from(u16::from_be_bytes(*length));
        if whole != is_last {
            return None;
        }
        if is_last {
            let value = value.to_vec();
            self.partial.clear();
            self.roots.last_mut()?.1.push(Part::Atom(value));
        }
        Some(())
    }

    /// Hashes what has arrived; `None` if something is missing, superfluous or of another type.
    pub fn finish(&self) -> Option<Hashes> {
        let [(domain, domain_parts), (message, message_parts)] = self.roots.as_slice() else {
            return None;
        };
        let mut shown = Vec::new();
        let mut hash = |name: &str, parts: &[Part]| {
            let mut parts = parts.iter();
            let hash = self.hash_struct(name, &mut parts, &mut shown)?;
            parts.next().is_none().then_some(hash)
        };
        let (domain, message) = (hash(domain, domain_parts)?, hash(message, message_parts)?);
        Some(Hashes { domain, message, shown })
    }

    fn hash_struct(
        &self,
        name: &str,
        parts: &mut Iter<'_, Part>,
        shown: &mut Vec<(String, String)>,
    ) -> Option<[u8; 32]> {
        let mut encoded = keccak(self.type_text(name)?.as_bytes()).to_vec();
        for field in self.types.get(name)? {
            encoded.extend(self.encode(field, &field.levels, parts, shown)?);
        }
        Some(keccak(&encoded))
    }

    fn encode(
        &self,
        field: &Field,
        levels: &[Option<u8>],
        parts: &mut Iter<'_, Part>,
        shown: &mut Vec<(String, String)>,
    ) -> Option<[u8; 32]> {
        // The last level that is written is the outermost.
        if let Some((level, inner)) = levels.split_last() {
            let Part::Items(count) = parts.next()? else { return None };
            if level.is_some_and(|fixed| usize::from(fixed) != *count) {
                return None;
            }
            let mut encoded = Vec::new();
            for _item in 0..*count {
                encoded.extend(self.encode(field, inner, parts, shown)?);
            }
            return Some(keccak(&encoded));
        }
        if field.kind == 0 {
            return self.hash_struct(&field.custom, parts, shown);
        }
        let Part::Atom(value) = parts.next()? else { return None };
        shown.push((field.name.clone(), show(field.kind, value)));
        word(field, value)
    }

    /// Writes a type as EIP-712 hashes it: the struct, then those that it uses, by name.
    fn type_text(&self, name: &str) -> Option<String> {
        let mut used = BTreeSet::new();
        self.collect(name, &mut used)?;
        used.remove(name);
        std::iter::once(name)
            .chain(used.iter().map(String::as_str))
            .map(|one| self.own_text(one))
            .collect()
    }

    fn collect(&self, name: &str, used: &mut BTreeSet<String>) -> Option<()> {
        if used.insert(name.to_owned()) {
            for field in self.types.get(name)?.iter().filter(|field| field.kind == 0) {
                self.collect(&field.custom, used)?;
            }
        }
        Some(())
    }

    fn own_text(&self, name: &str) -> Option<String> {
        let field = |field: &Field| {
            let size = usize::from(field.size.unwrap_or(0));
            let bits = size.saturating_mul(8);
            let base = match field.kind {
                0 => field.custom.clone(),
                1 => format!("int{bits}"),
                2 => format!("uint{bits}"),
                3 => "address".to_owned(),
                4 => "bool".to_owned(),
                5 => "string".to_owned(),
                6 => format!("bytes{size}"),
                _seven => "bytes".to_owned(),
            };
            let level = |level: &Option<u8>| level.map_or("[]".to_owned(), |n| format!("[{n}]"));
            let levels: String = field.levels.iter().map(level).collect();
            format!("{base}{levels} {}", field.name)
        };
        let fields: Vec<String> = self.types.get(name)?.iter().map(field).collect();
        Some(format!("{name}({})", fields.join(",")))
    }
}

/// Encodes a value in 32 bytes.
fn word(field: &Field, value: &[u8]) -> Option<[u8; 32]> {
    let size = usize::from(field.size.unwrap_or(32));
    let left = |fill: u8| {
        let mut word = [fill; 32];
        word.get_mut(32usize.checked_sub(value.len())?..)?.copy_from_slice(value);
        Some(word)
    };
    match field.kind {
        1 => {
            let is_negative =
                value.len() == size && value.first().is_some_and(|byte| byte & 0x80 != 0);
            (value.len() <= size).then(|| left(if is_negative { 0xff } else { 0 }))?
        }
        2 => (value.len() <= size).then(|| left(0))?,
        3 => (value.len() == 20).then(|| left(0))?,
        4 => matches!(value, [0 | 1]).then(|| left(0))?,
        6 => {
            let mut word = [0; 32];
            word.get_mut(..value.len())?.copy_from_slice(value);
            (value.len() <= size).then_some(word)
        }
        _string_or_bytes => Some(keccak(value)),
    }
}

/// Writes a value for the screen.
fn show(kind: u8, value: &[u8]) -> String {
    match kind {
        1 | 2 => alloy_primitives::U256::try_from_be_slice(value)
            .map_or_else(String::new, |n| n.to_string()),
        4 => (value == [1]).to_string(),
        5 => String::from_utf8_lossy(value).into_owned(),
        _bytes => format!("0x{}", hex::encode(value)),
    }
}
