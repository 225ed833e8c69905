//! The bounds of one server.

use crate::access::IpRanges;

/// Most connections of one server: a thousand callers that keep one each, and some.
const SLOTS_MAX: usize = 1_100;
/// Files that a server needs for itself: its store, listeners, runtime, and connections that are being refused.
const OWN_FILES: usize = 160;

/// A sixteenth of the slots is out of reach of any single peer.
const SPARED_PART: usize = 16;

/// Connections for a server that may open `files` files and makes `outbound` connections itself.
///
/// Outbound connections reserve at most a third of the files.
pub fn slots(files: u64, outbound: usize) -> usize {
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let reserved = OWN_FILES.saturating_add(outbound.min(files / 3));
    files.saturating_sub(reserved).max(files / 4).clamp(1, SLOTS_MAX)
}

/// How connections from this machine share the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// Each loopback address is a peer like any other.
    LikeOthers,
    /// No share limits them, and other machines leave them this many slots.
    Exempt { reserved: usize },
}

/// Bounds of one head.
#[derive(Debug, Clone)]
pub struct HeadBounds {
    /// Request line and header lines.
    pub bytes: usize,
    /// Method, target and version.
    pub line_bytes: usize,
    /// Header lines; hyper refuses more than 100.
    pub lines: usize,
    /// From the first byte of a head to its end.
    pub ms: u64,
}

/// Bounds of one body, and of all bodies.
#[derive(Debug, Clone)]
pub struct BodyBounds {
    /// Longest body; routes may set a lower limit.
    pub bytes: u64,
    /// From the moment the route asks for the body.
    pub ms: u64,
    /// How long a body may arrive at any pace.
    pub grace_ms: u64,
    /// The average pace after that.
    pub bytes_per_s: u64,
    /// Bytes of one request that no limit counts.
    pub free_bytes: usize,
    /// Bytes of all unfinished requests in memory, beyond `free_bytes` each.
    pub all_bytes: usize,
    /// The same of the requests that routes work on.
    pub whole_bytes: usize,
    /// How much of both other machines may use where [`Loopback::Exempt`] holds.
    pub remote_bytes: usize,
    /// Paths whose GET may have a body.
    pub on_get: &'static [&'static str],
}

/// Every bound of a server. Times are in milliseconds.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Connections in all.
    pub slots: usize,
    /// Connections of one peer.
    pub slots_per_peer: usize,
    /// Reverse proxies: all callers come from one address, so no share limits it. Their connections can be evicted.
    pub trusted: IpRanges,
    pub loopback: Loopback,
    pub head: HeadBounds,
    pub body: BodyBounds,
    /// Between two requests.
    pub idle_ms: u64,
    /// A peer that reads nothing of its response.
    pub write_ms: u64,
    /// A route that does not answer; the arrival of the body counts.
    pub handler_ms: Option<u64>,
    /// How long to read and discard what still arrives after the last response. A socket that is closed with unread
    /// data is reset, and the reset can destroy the response.
    pub linger_ms: u64,
    /// How much is discarded then.
    pub linger_bytes: usize,
    /// Connections that are being refused for lack of a slot; more are closed without a response.
    pub refused: usize,
    /// A peer that ends its side while a request is in progress still gets its response. Otherwise the request is
    /// cancelled.
    pub half_close: bool,
    /// Refuses `Upgrade`. RFC 9110 lets a server ignore it, and some clients always send it.
    pub refuse_upgrade: bool,
    /// Whether responses have a `Date`.
    pub date: bool,
}

impl Bounds {
    /// Bounds of a public service with `slots` connections.
    pub fn public(slots: usize) -> Self {
        Self {
            slots,
            // Enough for a load generator or a large customer, and never all.
            slots_per_peer: (slots - slots / SPARED_PART).max(1),
            trusted: IpRanges::default(),
            loopback: Loopback::LikeOthers,
            // A payment header takes some kilobytes, and reverse proxies add lines.
            head: HeadBounds { bytes: 64 << 10, line_bytes: 8 << 10, lines: 100, ms: 10_000 },
            body: BodyBounds {
                bytes: 16 << 20,
                ms: 60_000,
                grace_ms: 5_000,
                bytes_per_s: 2 << 10,
                free_bytes: 4 << 10,
                all_bytes: 8 << 20,
                whole_bytes: 64 << 20,
                remote_bytes: usize::MAX,
                on_get: &[],
            },
            // Longer than reverse proxies keep connections, so that they close first.
            idle_ms: 75_000,
            write_ms: 30_000,
            handler_ms: None,
            linger_ms: 2_000,
            linger_bytes: 1 << 20,
            refused: 64,
            half_close: false,
            refuse_upgrade: false,
            date: true,
        }
    }

    /// Bounds of a listener for a few local readers, such as a metrics collector.
    pub fn metrics() -> Self {
        let public = Self::public(32);
        Self { refused: 4, ..public }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_the_file_limit_and_leave_files_for_the_server() {
        assert_eq!(slots(20_000, 1_024), SLOTS_MAX);
        assert_eq!(slots(1_024, 64), 800);
        assert_eq!(slots(1_024, 1_024), 523);
        assert_eq!(slots(64, 64), 16);
        assert_eq!(slots(0, 0), 1);
        assert_eq!(slots(u64::MAX, 64), SLOTS_MAX);
    }

    #[test]
    fn no_address_has_all_slots() {
        assert_eq!(Bounds::public(SLOTS_MAX).slots_per_peer, 1_032);
        assert_eq!(Bounds::public(16).slots_per_peer, 15);
        assert_eq!(Bounds::public(1).slots_per_peer, 1);
    }
}
