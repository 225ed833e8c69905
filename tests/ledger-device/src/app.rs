//! The Ethereum app: what it answers to each command, and what it asks the person.

use alloy_primitives::Address;

use crate::key::{Key, Seed};
use crate::transaction::{self, ReadOutcome};
use crate::typed_data::TypedData;

/// Status words.
pub mod word {
    pub const OK: u16 = 0x9000;
    pub const REFUSED: u16 = 0x6985;
    pub const INVALID_DATA: u16 = 0x6A80;
    pub const PATH: u16 = 0x6A15;
    pub const LENGTH: u16 = 0x6983;
    pub const PARAMETER: u16 = 0x6B00;
    pub const INSTRUCTION: u16 = 0x6D00;
    pub const CLASS: u16 = 0x6E00;
    pub const LOCKED: u16 = 0x5515;
}

/// What the app does with a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Answer(Vec<u8>, u16),
    /// Shows pages; the answer to a press is the data. `signed` is whose key signs which digest, if any does.
    Ask {
        pages: Vec<String>,
        data: Vec<u8>,
        signed: Option<(Address, [u8; 32])>,
    },
}

/// The screen and the version that it comes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Large screen: shows every field of typed data, and needs a switch for it.
    Flex,
    /// Small screen: shows the domain and the hash of the message, and needs no switch.
    NanoSPlus,
}

/// The Ethereum app.
#[derive(Debug)]
pub struct EthereumApp {
    pub seed: Seed,
    pub model: Model,
    pub version: [u8; 3],
    /// The version as `B0 01` reports it.
    pub version_text: String,
    pub blind_signing: bool,
    pub raw_messages: bool,
    typed: TypedData,
    /// The path and the bytes of a transaction or message that has not arrived whole.
    partial: Option<PartialCommand>,
}

#[derive(Debug)]
struct PartialCommand {
    instruction: u8,
    path: Vec<u32>,
    bytes: Vec<u8>,
    /// The length of a message.
    length: usize,
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    pub instruction: u8,
    pub p1: u8,
    pub p2: u8,
    pub data: &'a [u8],
}

type AppResult = Result<Reply, u16>;

fn done() -> AppResult {
    Ok(Reply::Answer(Vec::new(), word::OK))
}

fn valid<T>(part: Option<T>) -> Result<T, u16> {
    part.ok_or(word::INVALID_DATA)
}

/// Takes a path from the beginning of the data.
fn take_path<'a>(data: &mut &'a [u8]) -> Result<Vec<u32>, u16> {
    let (count, rest) = valid(data.split_first())?;
    let bytes = usize::from(*count).saturating_mul(4);
    let (steps, rest): (&'a [u8], _) = valid(rest.split_at_checked(bytes))?;
    if !(1..=10).contains(count) {
        return Err(word::INVALID_DATA);
    }
    let step = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_be_bytes);
    let path: Vec<u32> = steps.chunks(4).map(step).collect();
    *data = rest;
    if path.starts_with(&[0x8000_002c, 0x8000_003c]) { Ok(path) } else { Err(word::PATH) }
}

fn signature(v: u8, (r, s): ([u8; 32], [u8; 32])) -> Vec<u8> {
    [&[v], &r[..], &s[..]].concat()
}

impl EthereumApp {
    /// Returns app 1.22 on a Flex, with both switches off.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            model: Model::Flex,
            version: [1, 22, 0],
            version_text: "1.22.0-dev".to_owned(),
            blind_signing: false,
            raw_messages: false,
            typed: TypedData::default(),
            partial: None,
        }
    }

    /// Forgets what has arrived in part, as an app that is opened again.
    pub fn restart(&mut self) {
        self.typed = TypedData::default();
        self.partial = None;
    }

    /// Handles a command of class E0.
    pub fn handle(&mut self, command: Command<'_>) -> Reply {
        let before_full = self.version < [1, 9, 19];
        let handled = match command.instruction {
            0x02 => self.address(command),
            0x04 => self.transaction(command),
            0x06 => self.configuration(command),
            0x08 => self.message(command),
            0x0C if self.version >= [1, 5, 0] => self.typed_data(command, before_full),
            0x1A if !before_full => self.define(command),
            0x1C if !before_full => self.value(command),
            _other => Err(word::INSTRUCTION),
        };
        handled.unwrap_or_else(|refused| {
            self.restart();
            Reply::Answer(Vec::new(), refused)
        })
    }

    fn key(&self, path: &[u32]) -> Result<Key, u16> {
        valid(self.seed.key(path))
    }

    fn address(&self, command: Command<'_>) -> AppResult {
        let mut data = command.data;
        let path = take_path(&mut data)?;
        if command.p1 > 1 || command.p2 != 0 {
            return Err(word::PARAMETER);
        }
        // A chain id may follow.
        if !matches!(data.len(), 0 | 8) {
            return Err(word::INVALID_DATA);
        }
        let key = self.key(&path)?;
        let public = key.public();
        let text = key.address().to_checksum(None);
        let digits = text.trim_start_matches("0x").as_bytes();
        let data = [&[65], &public[..], &[40], digits].concat();
        if command.p1 == 0 {
            return Ok(Reply::Answer(data, word::OK));
        }
        Ok(Reply::Ask {
            pages: vec!["Verify address".to_owned(), format!("Address | {text}")],
            data,
            signed: None,
        })
    }

    fn configuration(&self, command: Command<'_>) -> AppResult {
        if (command.p1, command.p2) != (0, 0) {
            return Err(word::PARAMETER);
        }
        // Names of tokens come from outside.
        let flags = 0x02 | u8::from(self.blind_signing);
        let [major, minor, patch] = self.version;
        Ok(Reply::Answer(vec![flags, major, minor, patch], word::OK))
    }

    /// Adds the data of a command to what has arrived before.
    fn collect(&mut self, command: Command<'_>) -> Result<PartialCommand, u16> {
        let mut data = command.data;
        if command.p2 != 0 {
            return Err(word::PARAMETER);
        }
        match (command.p1, self.partial.take()) {
            (0x00, _earlier) => {
                let path = take_path(&mut data)?;
                let mut length = 0;
                if command.instruction == 0x08 {
                    let (bytes, rest) = valid(data.split_first_chunk::<4>())?;
                    length = valid(usize::try_from(u32::from_be_bytes(*bytes)).ok())?;
                    data = rest;
                }
                Ok(PartialCommand {
                    instruction: command.instruction,
                    path,
                    bytes: data.to_vec(),
                    length,
                })
            }
            (0x80, Some(mut earlier)) if earlier.instruction == command.instruction => {
                earlier.bytes.extend(data);
                Ok(earlier)
            }
            (0x80, _other) => Err(word::INVALID_DATA),
            _other => Err(word::PARAMETER),
        }
    }

    fn transaction(&mut self, command: Command<'_>) -> AppResult {
        let partial = self.collect(command)?;
        let transaction = match transaction::read(&partial.bytes) {
            ReadOutcome::Invalid => return Err(word::INVALID_DATA),
            ReadOutcome::More => {
                self.partial = Some(partial);
                return done();
            }
            ReadOutcome::Whole(transaction) => transaction,
        };
        if transaction.is_blind() && !self.blind_signing {
            return Err(word::INVALID_DATA);
        }
        let key = self.key(&partial.path)?;
        let (parity, r, s) = valid(key.sign(&transaction.hash))?;
        Ok(Reply::Ask {
            pages: transaction.pages(key.address()),
            data: signature(transaction.v(parity), (r, s)),
            signed: Some((key.address(), transaction.hash)),
        })
    }

    fn message(&mut self, command: Command<'_>) -> AppResult {
        let partial = self.collect(command)?;
        if partial.bytes.len() < partial.length {
            self.partial = Some(partial);
            return done();
        }
        if partial.bytes.len() > partial.length {
            return Err(word::INVALID_DATA);
        }
        let head = format!("\x19Ethereum Signed Message:\n{}", partial.length);
        let digest = crate::key::keccak(&[head.as_bytes(), &partial.bytes].concat());
        let key = self.key(&partial.path)?;
        let (parity, r, s) = valid(key.sign(&digest))?;
        let text = match std::str::from_utf8(&partial.bytes) {
            Ok(text) => text.to_owned(),
            Err(_binary) => format!("0x{}", hex::encode(&partial.bytes)),
        };
        Ok(Reply::Ask {
            pages: vec!["Review message".to_owned(), format!("Message | {text}")],
            data: signature(parity.saturating_add(27), (r, s)),
            signed: Some((key.address(), digest)),
        })
    }

    fn define(&mut self, command: Command<'_>) -> AppResult {
        match (command.p1, command.p2) {
            (0, 0x00) => valid(self.typed.define(command.data))?,
            (0, 0xFF) => valid(self.typed.add_field(command.data))?,
            _other => return Err(word::PARAMETER),
        }
        done()
    }

    fn value(&mut self, command: Command<'_>) -> AppResult {
        match (command.p1, command.p2) {
            (0, 0x00) => {
                let is_domain = valid(self.typed.begin(command.data))?;
                let allowed =
                    self.blind_signing || self.raw_messages || self.model == Model::NanoSPlus;
                if is_domain && !allowed {
                    return Err(word::INVALID_DATA);
                }
            }
            (0, 0x0F) => valid(self.typed.add_items(command.data))?,
            (more @ (0 | 1), 0xFF) => valid(self.typed.add_value(command.data, more == 0))?,
            _other => return Err(word::PARAMETER),
        }
        done()
    }

    fn typed_data(&mut self, command: Command<'_>, before_full: bool) -> AppResult {
        let mut data = command.data;
        let path = take_path(&mut data)?;
        let (domain, message, mut pages) = match (command.p1, command.p2) {
            (0, 1) if !before_full && data.is_empty() => {
                let hashes = valid(std::mem::take(&mut self.typed).finish())?;
                let mut pages = vec!["Review typed message".to_owned()];
                let fields = hashes.shown.iter().map(|(name, value)| format!("{name} | {value}"));
                let show_all = self.model == Model::Flex || self.raw_messages;
                pages.extend(fields.take(if show_all { usize::MAX } else { 4 }));
                if !show_all {
                    pages.push(format!("Message hash | 0x{}", hex::encode(hashes.message)));
                }
                (hashes.domain, hashes.message, pages)
            }
            (0, 0) => {
                let hashes = data.split_first_chunk::<32>().zip(data.last_chunk::<32>());
                let ((domain, rest), message) = valid(hashes)?;
                if rest.len() != 32 || !self.blind_signing {
                    return Err(word::INVALID_DATA);
                }
                let page = |name: &str, hash: &[u8]| format!("{name} | 0x{}", hex::encode(hash));
                let pages = vec![page("Domain hash", domain), page("Message hash", message)];
                (*domain, *message, pages)
            }
            _other => return Err(word::PARAMETER),
        };
        if self.model == Model::Flex {
            pages.insert(0, "Blind signing ahead".to_owned());
        }
        let digest = crate::key::keccak(&[&[0x19, 0x01], &domain[..], &message[..]].concat());
        let key = self.key(&path)?;
        let (parity, r, s) = valid(key.sign(&digest))?;
        let data = signature(parity.saturating_add(27), (r, s));
        Ok(Reply::Ask { pages, data, signed: Some((key.address(), digest)) })
    }
}
