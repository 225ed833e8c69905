//! The rules of a host name.

/// Limits of DNS (RFC 1035 §2.3.4, in characters without the root's dot).
const LABEL_LENGTH_MAX: usize = 63;
const NAME_LENGTH_MAX: usize = 253;

/// Why a URL has no acceptable host, or a text is not a valid list entry.
///
/// The message names the fault or the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("the host cannot be read: {0}")]
    Unreadable(url::ParseError),
    #[error("only http and https URLs are accepted")]
    OtherScheme,
    #[error("the character {0:?} is not accepted: programs disagree about the host of such a URL")]
    OddCharacter(char),
    #[error("user info before an @ is not accepted")]
    UserInfo,
    #[error("the URL has no host")]
    NoHost,
    #[error("the host has an empty part: too many dots")]
    EmptyLabel,
    #[error("a part of the host is longer than 63 characters")]
    LabelTooLong,
    #[error("the host is longer than 253 characters")]
    NameTooLong,
    #[error("write a host, for example example.com")]
    EmptyEntry,
    #[error("write the host alone, without http:// or https://")]
    EntryWithScheme,
    #[error("write the host alone, without path, query or fragment")]
    EntryWithPath,
    #[error("write the host or the whole IPv6 address, without a port: all ports are covered")]
    EntryWithPort,
    #[error("address ranges are not supported: write single addresses")]
    EntryIsRange,
    #[error("write the name without a star or leading dot: subdomains are always included")]
    EntryWithStar,
    #[error("a name without a dot would cover a whole top-level domain: write a longer name")]
    EntryIsOneLabel,
    #[error("write the address in its usual form, for example 192.0.2.7")]
    EntryIsOddAddress,
    #[error("the character {0:?} cannot be part of a host")]
    EntryWithOddCharacter(char),
}

/// Drops the root's dot: `example.com.` is the same name as `example.com`.
pub(super) fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

pub(super) fn check_dns_lengths(name: &str) -> Result<(), HostError> {
    if name.split('.').any(str::is_empty) {
        Err(HostError::EmptyLabel)
    } else if name.split('.').any(|label| label.len() > LABEL_LENGTH_MAX) {
        Err(HostError::LabelTooLong)
    } else if name.len() > NAME_LENGTH_MAX {
        Err(HostError::NameTooLong)
    } else {
        Ok(())
    }
}
