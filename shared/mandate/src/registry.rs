//! The replies of a registry of mandates. They are foreign: only a mandate that we signed ourselves counts as published.

use std::fmt;

use alloy_primitives::Address;
use bursar_core::json::{Value, parse_few};
use serde::{Deserialize, Serialize};

use crate::ids::MandateId;
use crate::presented::{BYTES_MAX, read};

/// The deepest nesting of a reply that is read: a mandate, in a list, in a member.
const DEPTH_MAX: usize = 16;

/// The most JSON values of a reply that are read.
const VALUES_MAX: usize = 4_000;

/// The longest registry id that is kept, in bytes.
const ID_BYTES_MAX: usize = 64;

/// The longest URL that is kept, in bytes.
const URL_BYTES_MAX: usize = 2_000;

/// The id and the page that a registry gave a mandate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEntry {
    /// Letters, digits, `-`, `_` and `.` only: agents' language models read it.
    pub id: String,
    /// Foreign text.
    ///
    /// `None` if the registry names none, or one that is too long to keep.
    pub url: Option<String>,
}

/// Why a registry refused a mandate, as its interface documents the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryRefusal {
    InvalidMandate,
    MissingAgentId,
    InvalidAgentId,
    InvalidWalletAddress,
    InvalidSignerAddress,
    InvalidNetworks,
    InvalidNetwork,
    InvalidDailyLimit,
    SignerMismatch,
    DuplicateId,
    PayloadTooLarge,
    /// Another refusal, with its HTTP status.
    Other(u16),
}

impl RegistryRefusal {
    const DOCUMENTED: [(&'static str, Self); 11] = [
        ("INVALID_MANDATE", Self::InvalidMandate),
        ("MISSING_AGENT_ID", Self::MissingAgentId),
        ("INVALID_AGENT_ID", Self::InvalidAgentId),
        ("INVALID_WALLET_ADDRESS", Self::InvalidWalletAddress),
        ("INVALID_SIGNER_ADDRESS", Self::InvalidSignerAddress),
        ("INVALID_NETWORKS", Self::InvalidNetworks),
        ("INVALID_NETWORK", Self::InvalidNetwork),
        ("INVALID_DAILY_LIMIT", Self::InvalidDailyLimit),
        ("SIGNER_MISMATCH", Self::SignerMismatch),
        ("DUPLICATE_ID", Self::DuplicateId),
        ("PAYLOAD_TOO_LARGE", Self::PayloadTooLarge),
    ];

    fn of(status: u16, body: &[u8]) -> Self {
        let reply = parse_few(body, DEPTH_MAX, VALUES_MAX).ok();
        let error = reply.as_ref().and_then(|reply| reply.get("error"));
        let codes = [
            reply.as_ref().and_then(|reply| reply.get("code")),
            error,
            error.and_then(|error| error.get("code")),
        ];
        let mut codes = codes.into_iter().flatten().filter_map(Value::as_str);
        let documented = codes.find_map(|code| {
            Self::DOCUMENTED.iter().find(|(name, _)| *name == code).map(|(_, refusal)| *refusal)
        });
        documented.unwrap_or(match status {
            409 => Self::DuplicateId,
            413 => Self::PayloadTooLarge,
            other => Self::Other(other),
        })
    }
}

impl fmt::Display for RegistryRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidMandate => "it does not accept the form of the mandate",
            Self::MissingAgentId => "it found no agent.id in the mandate",
            Self::InvalidAgentId => "it does not accept the agent's code",
            Self::InvalidWalletAddress => "it does not accept the paying address",
            Self::InvalidSignerAddress => "it does not accept the signer's address",
            Self::InvalidNetworks => "it does not accept the list of networks",
            Self::InvalidNetwork => "it does not know a network of the mandate",
            Self::InvalidDailyLimit => "it does not accept the daily limit",
            Self::SignerMismatch => {
                "it has a mandate for this agent code from another signer, and only that signer can replace it"
            }
            Self::DuplicateId => "it has another mandate with this id",
            Self::PayloadTooLarge => "the mandate is too large for it",
            Self::Other(status) => return write!(f, "it answered with HTTP status {status}"),
        })
    }
}

/// What the reply to an upload shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadReply {
    Published(RegistryEntry),
    /// The registry says that it has the mandate under an id of its choice, which a lookup must confirm.
    Renamed(RegistryEntry),
    Refused(RegistryRefusal),
    /// Whether the mandate was published must be looked up.
    Unclear,
}

/// What the reply to a lookup shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupReply {
    /// The registry has this mandate, with our signature.
    Published(RegistryEntry),
    /// The registry does not have the mandate.
    Absent,
    /// The registry has another text under the mandate's id, or one without our signature.
    Changed,
    Unclear,
}

/// The mandate for which a registry was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub id: MandateId,
    /// The text that was signed.
    pub text: String,
    pub signer: Address,
}

/// Reads the reply to the upload of a mandate.
pub fn read_upload(status: u16, body: &[u8], id: MandateId) -> UploadReply {
    match status {
        200 | 201 => {
            let reply = parse_few(body, DEPTH_MAX, VALUES_MAX).ok();
            let entry = reply.as_ref().and_then(|reply| {
                let named = reply.get("id").and_then(Value::as_str)?;
                is_id(named).then(|| entry(named, reply.get("url")))
            });
            match entry {
                Some(entry) if entry.id == id.to_string() => UploadReply::Published(entry),
                Some(entry) => UploadReply::Renamed(entry),
                None => UploadReply::Unclear,
            }
        }
        // A mandate with this id exists: it may be this one.
        408 | 409 => UploadReply::Unclear,
        400..=499 => match RegistryRefusal::of(status, body) {
            RegistryRefusal::DuplicateId => UploadReply::Unclear,
            refusal => UploadReply::Refused(refusal),
        },
        _other => UploadReply::Unclear,
    }
}

/// Reads the reply to the lookup of a mandate.
pub fn read_lookup(status: u16, body: &[u8], wanted: &Wanted) -> LookupReply {
    match status {
        200 => find(body, wanted),
        404 => LookupReply::Absent,
        _other => LookupReply::Unclear,
    }
}

/// Finds the wanted mandate in a reply: alone, as the member `mandate`, or in a list.
fn find(body: &[u8], wanted: &Wanted) -> LookupReply {
    let Ok(reply) = parse_few(body, DEPTH_MAX, VALUES_MAX) else { return LookupReply::Unclear };
    let list = reply.get("mandates").unwrap_or(&reply);
    let listed = list.as_array().map_or(&[][..], |list| list);
    let mut all = [Some(&reply), reply.get("mandate")].into_iter().flatten().chain(listed);
    let id = wanted.id.to_string();
    let found = all.find(|one| one.get("id").and_then(Value::as_str) == Some(id.as_str()));
    let Some(found) = found else {
        // A list without it is an answer; another mandate is not.
        let is_list = list.as_array().is_some();
        return if is_list { LookupReply::Absent } else { LookupReply::Unclear };
    };
    let document = found.to_compact();
    if document.len() > BYTES_MAX {
        return LookupReply::Changed;
    }
    let Ok(presented) = read(document.as_bytes()) else { return LookupReply::Changed };
    let is_ours = presented.is_good()
        && presented.text == wanted.text
        && presented.signer == Some(wanted.signer);
    if !is_ours {
        return LookupReply::Changed;
    }
    let member = |key: &str| found.get(key).or_else(|| reply.get(key));
    let named = member("registryId").and_then(Value::as_str);
    let named = named.filter(|named| is_id(named)).unwrap_or(&id);
    LookupReply::Published(entry(named, member("registryUrl").or_else(|| reply.get("url"))))
}

fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

fn entry(id: &str, url: Option<&Value>) -> RegistryEntry {
    let url = url.and_then(Value::as_str).filter(|url| url.len() <= URL_BYTES_MAX);
    RegistryEntry { id: id.to_owned(), url: url.map(str::to_owned) }
}
