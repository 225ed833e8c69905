//! The connections of a server, and their eviction.
//!
//! If slots run out, the peer with the most waiting connections loses its connection that has waited longest for a
//! request or for the rest of a request. A peer's connections of proven callers are evicted last.
//!
//! If memory runs out, the peer whose requests take the most memory loses its largest incomplete request. A
//! connection with a complete request in progress is never evicted.
//!
//! So a peer with many waiting connections cannot displace a peer with fewer, and a peer's slow requests displace its
//! proven callers last.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::bounds::{Bounds, Loopback};
use super::progress::{ConnectionState, Signal};
use super::refusal::Refusal;
use crate::access::client_address;

/// The connections of one server.
///
/// A mutex instead of an owner behind a channel: a connection must learn synchronously whether it was evicted, before
/// it passes a request to its route.
#[derive(Debug)]
pub(super) struct Slots {
    table: Mutex<Table>,
    /// Notified when connections have freed most of their memory.
    pub(super) memory_freed: Notify,
}

impl Slots {
    pub(super) fn new(bounds: Arc<Bounds>) -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(Table::new(bounds)), memory_freed: Notify::new() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a slot for a new connection; `None` if no slot is free and none can be freed.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, now: u64) -> Option<ConnectionGuard> {
        let link = Arc::new(ConnectionState::new(now));
        let id = self.table().admit(peer, Arc::clone(&link))?;
        Some(ConnectionGuard { slots: Arc::clone(self), id, link })
    }

    /// Signals the stop to all connections, and admits no new connections.
    pub(super) fn stop(&self) {
        self.table().stop();
    }
}

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    slots: Arc<Slots>,
    id: u64,
    pub(super) link: Arc<ConnectionState>,
}

impl ConnectionGuard {
    /// Records that a head is complete. Returns whether the connection still has its slot.
    pub(super) fn begin(&self, has_body: bool) -> bool {
        let kind = if has_body { Activity::Receiving } else { Activity::Working };
        self.slots.table().set_activity(self.id, kind)
    }

    /// Records that the request is complete.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if other complete requests use all the memory.
    pub(super) fn received(&self) -> Result<(), Refusal> {
        self.slots.table().received(self.id)
    }

    /// Records that the connection waits for a request. Returns `false` if it must end instead.
    pub(super) fn set_idle(&self) -> bool {
        let mut table = self.slots.table();
        table.free_memory(self.id);
        table.set_activity(self.id, Activity::Idle) && !table.stopping
    }

    /// Counts the memory of a request that has `bytes` bytes so far.
    ///
    /// # Errors
    /// [`Refusal::Busy`] if other requests use all the memory.
    pub(super) fn grow(&self, bytes: usize) -> Result<(), Refusal> {
        self.slots.table().grow(self.id, bytes)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut table = self.slots.table();
        table.remove(self.id);
        let is_release_due = table.take_release_due();
        drop(table);
        if is_release_due {
            self.slots.memory_freed.notify_one();
        }
    }
}

/// Approximate memory of a connection: its task, hyper's buffers and our own.
const CONNECTION_BYTES: usize = 32 << 10;
/// Minimum peak of memory after which a release is worth a call to the allocator.
const RELEASE_BYTES_MIN: usize = 4 << 20;

/// The activity of a connection, which decides whether and when it can be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// Waits for a request, or for the rest of a head.
    Idle,
    /// Waits for the rest of a body.
    Receiving,
    /// Has a request in progress.
    Working,
}

/// A connection in the table of slots.
#[derive(Debug)]
struct Slot {
    peer: IpAddr,
    is_remote: bool,
    activity: Activity,
    /// Position in the peer's queue while the connection waits.
    eviction_rank: EvictionRank,
    /// Bytes of the request beyond [`BodyBounds::uncounted_bytes`](super::bounds::BodyBounds::uncounted_bytes).
    memory: usize,
    /// Whether the memory counts towards complete requests.
    is_whole: bool,
    link: Arc<ConnectionState>,
}

/// The connections of one address.
#[derive(Debug, Default)]
struct Peer {
    slots: usize,
    memory: usize,
    /// Waiting connections, in the order of eviction.
    waiting: BTreeMap<EvictionRank, u64>,
}

/// The order of eviction: unproven callers first, then the longest wait.
///
/// The flag says whether the caller is proven. The number is assigned when the wait begins, so a smaller number means
/// a longer wait.
type EvictionRank = (bool, u64);

impl Peer {
    fn next_to_evict(&self) -> Option<u64> {
        self.waiting.values().next().copied()
    }
}

/// All connections of a server, and the memory of their requests.
#[derive(Debug)]
struct Table {
    bounds: Arc<Bounds>,
    next_unused_number: u64,
    slots: HashMap<u64, Slot>,
    peers: HashMap<IpAddr, Peer>,
    /// Number of connections from other machines, and their memory. Under [`Loopback::LikeOthers`], all connections
    /// count.
    remote_slots: usize,
    remote_memory: usize,
    /// Memory of incomplete requests. `whole_memory` is that of complete requests.
    memory: usize,
    whole_memory: usize,
    /// The highest use of memory since the last release.
    memory_peak: usize,
    stopping: bool,
}

impl Table {
    fn new(bounds: Arc<Bounds>) -> Self {
        Self {
            bounds,
            next_unused_number: 0,
            slots: HashMap::new(),
            peers: HashMap::new(),
            remote_slots: 0,
            remote_memory: 0,
            memory: 0,
            whole_memory: 0,
            memory_peak: 0,
            stopping: false,
        }
    }

    fn admit(&mut self, address: IpAddr, link: Arc<ConnectionState>) -> Option<u64> {
        if self.stopping {
            return None;
        }
        let address = address.to_canonical();
        let (peer, is_remote, has_share, reserved) = match self.bounds.loopback {
            Loopback::Exempt { .. } if address.is_loopback() => {
                (IpAddr::V4(Ipv4Addr::LOCALHOST), false, false, 0)
            }
            Loopback::Exempt { reserved } => (client_address(address), true, true, reserved),
            Loopback::LikeOthers => {
                (client_address(address), true, !self.bounds.trusted_proxies.contains(address), 0)
            }
        };
        let held = self.peers.get(&peer).map_or(0, |peer| peer.slots);
        if has_share && held >= self.bounds.slots_per_peer_max {
            self.evict_from(peer)?;
        }
        if is_remote && self.remote_slots >= self.bounds.slots_max.saturating_sub(reserved) {
            self.evict_for(peer, is_remote && reserved > 0)?;
        }
        if self.slots.len() >= self.bounds.slots_max {
            self.evict_for(peer, false)?;
        }
        let id = self.next_number();
        let kind = Activity::Idle;
        let turn = (false, id);
        let slot = Slot {
            peer,
            is_remote,
            activity: kind,
            eviction_rank: turn,
            memory: 0,
            is_whole: false,
            link,
        };
        self.slots.insert(id, slot);
        let entry = self.peers.entry(peer).or_default();
        entry.slots += 1;
        entry.waiting.insert(turn, id);
        self.remote_slots += usize::from(is_remote);
        self.memory_peak = self.memory_peak.max(self.memory_estimate());
        Some(id)
    }

    /// Returns the approximate memory of all connections.
    fn memory_estimate(&self) -> usize {
        let bodies = self.memory.saturating_add(self.whole_memory);
        self.slots.len().saturating_mul(CONNECTION_BYTES).saturating_add(bodies)
    }

    /// Returns whether memory use has fallen to a quarter of a large peak. If so, starts a new measurement of the peak.
    fn take_release_due(&mut self) -> bool {
        let weight = self.memory_estimate();
        let is_due = self.memory_peak >= RELEASE_BYTES_MIN && weight <= self.memory_peak / 4;
        if is_due {
            self.memory_peak = weight;
        }
        is_due
    }

    /// Returns the next unused number.
    fn next_number(&mut self) -> u64 {
        self.next_unused_number += 1;
        self.next_unused_number
    }

    /// Sets the activity, and returns whether the connection still has its slot.
    ///
    /// If the activity does not change, the connection keeps its turn.
    fn set_activity(&mut self, id: u64, kind: Activity) -> bool {
        let turn = self.next_number();
        let Some(slot) = self.slots.get_mut(&id) else { return false };
        if slot.activity == kind {
            return true;
        }
        let before = slot.eviction_rank;
        (slot.activity, slot.eviction_rank) = (kind, (slot.link.is_proven(), turn));
        if let Some(peer) = self.peers.get_mut(&slot.peer) {
            peer.waiting.remove(&before);
            if kind != Activity::Working {
                peer.waiting.insert(slot.eviction_rank, id);
            }
        }
        true
    }

    fn remove(&mut self, id: u64) {
        self.free_memory(id);
        let Some(slot) = self.slots.remove(&id) else { return };
        self.remote_slots = self.remote_slots.saturating_sub(usize::from(slot.is_remote));
        let Some(peer) = self.peers.get_mut(&slot.peer) else { return };
        peer.waiting.remove(&slot.eviction_rank);
        peer.slots = peer.slots.saturating_sub(1);
        if peer.slots == 0 {
            self.peers.remove(&slot.peer);
        }
    }

    fn evict(&mut self, id: u64) {
        if let Some(slot) = self.slots.get(&id) {
            slot.link.send(Signal::Evicted);
        }
        self.remove(id);
    }

    /// Evicts a connection of this peer; `None` if all of them have a request in progress.
    fn evict_from(&mut self, peer: IpAddr) -> Option<()> {
        let id = self.peers.get(&peer)?.next_to_evict()?;
        self.evict(id);
        Some(())
    }

    /// Evicts a connection of the peer with the most waiting connections; in a tie, of `newcomer`.
    fn evict_for(&mut self, newcomer: IpAddr, remote_only: bool) -> Option<()> {
        let candidates = self.peers.iter().filter(|(_address, peer)| !peer.waiting.is_empty());
        let candidates =
            candidates.filter(|(address, _peer)| !remote_only || !address.is_loopback());
        let rank = |(address, peer): &(&IpAddr, &Peer)| (peer.waiting.len(), **address == newcomer);
        let (address, _peer) = candidates.max_by_key(rank)?;
        self.evict_from(*address)
    }

    fn grow(&mut self, id: u64, bytes: usize) -> Result<(), Refusal> {
        let memory = bytes.saturating_sub(self.bounds.body.uncounted_bytes);
        // This connection was evicted: its signal ends it without a response.
        let Some(slot) = self.slots.get(&id) else { return Ok(()) };
        let more = memory.saturating_sub(slot.memory);
        if more == 0 {
            return Ok(());
        }
        let (owner, is_remote) = (slot.peer, slot.is_remote);
        let (all, remote) =
            (self.bounds.body.incomplete_bytes_max, self.bounds.body.remote_bytes_max);
        loop {
            let over_all = self.memory.saturating_add(more) > all;
            let over_remote = is_remote && self.remote_memory.saturating_add(more) > remote;
            if !over_all && !over_remote {
                break;
            }
            // If only the remote limit is exceeded, only the eviction of a remote request helps.
            self.evict_largest(id, owner, !over_all)?;
        }
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.memory += more;
        }
        if let Some(peer) = self.peers.get_mut(&owner) {
            peer.memory += more;
        }
        self.memory += more;
        self.memory_peak = self.memory_peak.max(self.memory_estimate());
        self.remote_memory += if is_remote { more } else { 0 };
        Ok(())
    }

    /// Evicts the largest incomplete request of the peer whose requests take the most memory.
    ///
    /// With `remote_only`, only remote peers are considered.
    fn evict_largest(
        &mut self,
        grower: u64,
        owner: IpAddr,
        remote_only: bool,
    ) -> Result<(), Refusal> {
        let unfinished = |slot: &Slot| {
            slot.activity != Activity::Working
                && slot.memory > 0
                && (slot.is_remote || !remote_only)
        };
        let held = |address: &IpAddr| self.peers.get(address).map_or(0, |peer| peer.memory);
        let candidates = self.slots.iter().filter(|(id, slot)| **id != grower && unfinished(slot));
        // A peer that holds less than the owner of the growing request never loses a connection.
        let fair = candidates.filter(|(_id, slot)| held(&slot.peer) >= held(&owner));
        let largest = fair.max_by_key(|(_id, slot)| (held(&slot.peer), slot.memory));
        let id = *largest.ok_or(Refusal::Busy)?.0;
        self.evict(id);
        Ok(())
    }

    fn received(&mut self, id: u64) -> Result<(), Refusal> {
        let bytes_max = self.bounds.body.complete_bytes_max;
        // This connection was evicted: its signal ends it without a response.
        let Some(slot) = self.slots.get_mut(&id) else { return Ok(()) };
        let whole = self.whole_memory.saturating_add(slot.memory);
        if slot.memory > 0 && whole > bytes_max {
            return Err(Refusal::Busy);
        }
        slot.is_whole = true;
        self.memory = self.memory.saturating_sub(slot.memory);
        self.whole_memory = whole;
        self.set_activity(id, Activity::Working);
        Ok(())
    }

    fn free_memory(&mut self, id: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let freed = std::mem::take(&mut slot.memory);
        let was_whole = std::mem::take(&mut slot.is_whole);
        if freed == 0 {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&slot.peer) {
            peer.memory = peer.memory.saturating_sub(freed);
        }
        let counted = if was_whole { &mut self.whole_memory } else { &mut self.memory };
        *counted = counted.saturating_sub(freed);
        if slot.is_remote {
            self.remote_memory = self.remote_memory.saturating_sub(freed);
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        for slot in self.slots.values() {
            slot.link.send(Signal::Stop);
        }
    }
}

#[cfg(test)]
mod tests;
