//! The limits of one server.

use crate::access::IpRanges;

/// Maximum number of connections of one server: one for each of a thousand callers, and a reserve.
const SLOTS_MAX: usize = 1_100;
/// Number of files that a server itself needs: its store, listeners, runtime, and connections that are being refused.
const OWN_FILES_RESERVED: usize = 160;

/// Denominator: a sixteenth of the slots stays free for other peers, so no peer with a limit can take all slots.
const RESERVED_SLOTS_DIVISOR: usize = 16;

/// Returns the number of slots of a server that may open `files` files.
///
/// `outbound` is the number of outgoing connections. At most a third of the files is reserved for them.
pub fn slots_for_files(files: u64, outbound: usize) -> usize {
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let reserved = OWN_FILES_RESERVED.saturating_add(outbound.min(files / 3));
    files.saturating_sub(reserved).max(files / 4).clamp(1, SLOTS_MAX)
}

/// How connections from this machine share the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// Each loopback address has the limits of any other peer.
    LikeOthers,
    /// Connections from this machine have no limit per peer, and `reserved` slots are reserved for them.
    Exempt { reserved: usize },
}

/// Limits of one head.
#[derive(Debug, Clone)]
pub struct HeadBounds {
    /// Maximum size of the request line and all header lines together, in bytes.
    pub bytes_max: usize,
    /// Maximum size of the request line (method, target and version), in bytes.
    pub line_bytes_max: usize,
    /// Maximum number of header lines; hyper refuses more than 100.
    pub lines_max: usize,
    /// Time from the first byte of a head to its end.
    pub ms_max: u64,
}

/// Limits of one body, and of all bodies.
#[derive(Debug, Clone)]
pub struct BodyBounds {
    /// Maximum length of a body; routes may set a lower limit.
    pub bytes_max: u64,
    /// Time from the route's first read of the body to its end.
    pub ms_max: u64,
    /// Time during which a body may arrive at any rate.
    pub grace_ms: u64,
    /// Lowest average rate after `grace_ms`.
    pub bytes_per_s_min: u64,
    /// Bytes of each request that do not count towards the memory limits.
    pub uncounted_bytes: usize,
    /// Maximum memory of all incomplete requests, in bytes, without `uncounted_bytes` of each.
    pub incomplete_bytes_max: usize,
    /// Maximum memory of all complete requests in progress, in bytes, without `uncounted_bytes` of each.
    pub complete_bytes_max: usize,
    /// Maximum memory of all requests from other machines, incomplete and complete together, in bytes.
    ///
    /// Under [`Loopback::LikeOthers`], requests from this machine count as well.
    pub remote_bytes_max: usize,
    /// Paths whose GET or HEAD may have a body.
    pub get_with_body_paths: &'static [&'static str],
}

/// All limits of a server.
///
/// Times are in milliseconds.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Maximum number of connections.
    pub slots_max: usize,
    /// Maximum number of connections of one peer.
    pub slots_per_peer_max: usize,
    /// Reverse proxies, each of which forwards many callers from one address.
    ///
    /// `slots_per_peer_max` does not limit a proxy, but a proxy's connections can be evicted. This field is only used
    /// under [`Loopback::LikeOthers`].
    pub trusted_proxies: IpRanges,
    pub loopback: Loopback,
    pub head: HeadBounds,
    pub body: BodyBounds,
    /// How long a connection may wait for a request.
    pub idle_ms_max: u64,
    /// How long a peer may stop reading its response.
    pub write_ms_max: u64,
    /// How long a request may take from its first byte until its response begins; `None`: no limit.
    pub handler_ms: Option<u64>,
    /// How long arriving bytes are discarded after the last response.
    ///
    /// A socket closed with unread data is reset, which can destroy the response.
    pub linger_ms_max: u64,
    /// Maximum number of bytes that are discarded after the last response.
    pub linger_bytes_max: usize,
    /// Maximum number of connections without a slot that get a refusal at the same time.
    ///
    /// Further connections are closed without a response.
    pub refused_connections_max: usize,
    /// Whether a peer that ends its side during a request still gets its response.
    ///
    /// Otherwise its request is cancelled.
    pub allow_half_close: bool,
    /// Whether `Upgrade` is refused.
    ///
    /// RFC 9110 lets a server ignore the header, and some clients always send it.
    pub refuse_upgrade: bool,
    /// Whether responses have a `Date`.
    pub send_date: bool,
}

impl Bounds {
    /// Returns the limits of a public service with `slots` connections.
    pub fn public(slots: usize) -> Self {
        Self {
            slots_max: slots,
            // Enough for a load generator or a large customer. From 16 slots on, one peer never gets all of them.
            slots_per_peer_max: (slots - slots / RESERVED_SLOTS_DIVISOR).max(1),
            trusted_proxies: IpRanges::default(),
            loopback: Loopback::LikeOthers,
            // A payment header takes some kilobytes, and reverse proxies add lines.
            head: HeadBounds {
                bytes_max: 64 << 10,
                line_bytes_max: 8 << 10,
                lines_max: 100,
                ms_max: 10_000,
            },
            body: BodyBounds {
                bytes_max: 16 << 20,
                ms_max: 60_000,
                grace_ms: 5_000,
                bytes_per_s_min: 2 << 10,
                uncounted_bytes: 4 << 10,
                incomplete_bytes_max: 8 << 20,
                complete_bytes_max: 64 << 20,
                remote_bytes_max: usize::MAX,
                get_with_body_paths: &[],
            },
            // Longer than the usual idle timeout of reverse proxies, so that the proxies close idle connections first.
            idle_ms_max: 75_000,
            write_ms_max: 30_000,
            handler_ms: None,
            linger_ms_max: 2_000,
            linger_bytes_max: 1 << 20,
            refused_connections_max: 64,
            allow_half_close: false,
            refuse_upgrade: false,
            send_date: true,
        }
    }

    /// Returns the limits of a listener for a few local readers, such as a metrics collector.
    pub fn metrics() -> Self {
        let public = Self::public(32);
        Self { refused_connections_max: 4, ..public }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_the_file_limit_and_leave_files_for_the_server() {
        assert_eq!(slots_for_files(20_000, 1_024), SLOTS_MAX);
        assert_eq!(slots_for_files(1_024, 64), 800);
        assert_eq!(slots_for_files(1_024, 1_024), 523);
        assert_eq!(slots_for_files(64, 64), 16);
        assert_eq!(slots_for_files(0, 0), 1);
        assert_eq!(slots_for_files(u64::MAX, 64), SLOTS_MAX);
    }

    #[test]
    fn no_single_peer_can_take_all_slots() {
        assert_eq!(Bounds::public(SLOTS_MAX).slots_per_peer_max, 1_032);
        assert_eq!(Bounds::public(16).slots_per_peer_max, 15);
        assert_eq!(Bounds::public(1).slots_per_peer_max, 1);
    }
}
