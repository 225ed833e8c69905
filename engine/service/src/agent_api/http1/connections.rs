//! Who is connected, and who makes room: where a bound is reached, the connection that has been idle for
//! longest among those that count towards it is closed for the new one.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bursar_core::codes::Code;
use bursar_core::limits::{
    CONNECTIONS, CONNECTIONS_FOR_LOOPBACK, CONNECTIONS_PER_PEER, LARGE_BODIES, LARGE_BODIES_REMOTE,
    SMALL_BODY_BYTES,
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::agent_api::rate::fold;

/// The connections of one server. A lock and not a messenger: a connection must know at once, before it
/// reads a request, that it has not been given up.
#[derive(Debug)]
pub(crate) struct Connections {
    table: Mutex<Table>,
    large_bodies: Semaphore,
    large_remote: Semaphore,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            table: Mutex::default(),
            large_bodies: Semaphore::new(LARGE_BODIES),
            large_remote: Semaphore::new(LARGE_BODIES_REMOTE),
        }
    }
}

impl Connections {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` where there is no room.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        let (id, given_up) = self.table().admit(peer)?;
        let is_remote = !fold(peer).is_loopback();
        Some(Seat { connections: Arc::clone(self), id, given_up, is_remote })
    }

    /// Closes those that are idle, and lets the others answer what they have read.
    pub(crate) fn close(&self) {
        self.table().close();
    }
}

/// One connection's place; dropping it makes room.
#[derive(Debug)]
pub(super) struct Seat {
    connections: Arc<Connections>,
    id: u64,
    given_up: Arc<Notify>,
    is_remote: bool,
}

/// The room that one body takes in memory, until it is dropped.
#[derive(Debug)]
pub(super) struct Room<'a> {
    seat: &'a Seat,
    /// Of a large body: its place among all, and among those of other machines.
    place: Option<(SemaphorePermit<'a>, Option<SemaphorePermit<'a>>)>,
}

impl Room<'_> {
    /// Makes room for so many bytes of a body.
    ///
    /// # Errors
    /// `BUSY` where enough large ones are in memory.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Code> {
        if bytes <= SMALL_BODY_BYTES || self.place.is_some() {
            return Ok(());
        }
        let connections = &self.seat.connections;
        let busy = |_none| Code::Busy;
        let remote = if self.seat.is_remote {
            Some(connections.large_remote.try_acquire().map_err(busy)?)
        } else {
            None
        };
        self.place = Some((connections.large_bodies.try_acquire().map_err(busy)?, remote));
        Ok(())
    }
}

impl Seat {
    /// Between two requests from now on. Whether the connection may wait for another.
    pub(super) fn rest(&self) -> bool {
        self.connections.table().rest(self.id)
    }

    /// A request's head has come. Whether the connection still has its place.
    pub(super) fn work(&self) -> bool {
        self.connections.table().work(self.id)
    }

    /// Ends when an idle connection has lost its place.
    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }

    /// For the body of one request.
    pub(super) fn room(&self) -> Room<'_> {
        Room { seat: self, place: None }
    }

    /// Whether this answer must be the last.
    pub(super) fn is_closing(&self) -> bool {
        self.connections.table().closing
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.table().leave(self.id);
    }
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    places: HashMap<u64, Place>,
    /// In the order in which they became idle: turn to connection.
    idle: BTreeMap<u64, u64>,
    /// Connections of each remote peer.
    peers: HashMap<IpAddr, usize>,
    remote: usize,
    closing: bool,
}

#[derive(Debug)]
struct Place {
    /// `None` for programs of this machine, which share one address.
    peer: Option<IpAddr>,
    /// Its turn in the order of the idle, while it is.
    turn: Option<u64>,
    given_up: Arc<Notify>,
}

impl Table {
    fn admit(&mut self, peer: IpAddr) -> Option<(u64, Arc<Notify>)> {
        let peer = Some(fold(peer)).filter(|peer| !peer.is_loopback());
        if self.closing {
            return None;
        }
        if let Some(peer) = peer {
            if self.peers.get(&peer).is_some_and(|count| *count >= CONNECTIONS_PER_PEER) {
                self.give_up(|place| place.peer == Some(peer))?;
            }
            if self.remote >= CONNECTIONS - CONNECTIONS_FOR_LOOPBACK {
                self.give_up(|place| place.peer.is_some())?;
            }
        }
        if self.places.len() >= CONNECTIONS {
            self.give_up(|_place| true)?;
        }
        let (id, given_up) = (self.turn(), Arc::new(Notify::new()));
        self.places.insert(id, Place { peer, turn: None, given_up: Arc::clone(&given_up) });
        if let Some(peer) = peer {
            *self.peers.entry(peer).or_default() += 1;
            self.remote += 1;
        }
        self.rest(id);
        Some((id, given_up))
    }

    /// Never the same number twice.
    fn turn(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Who is idle already keeps its turn: a new connection's is that of its coming.
    fn rest(&mut self, id: u64) -> bool {
        let turn = self.turn();
        match self.places.get_mut(&id) {
            Some(place) if !self.closing => {
                if place.turn.is_none() {
                    place.turn = Some(turn);
                    self.idle.insert(turn, id);
                }
                true
            }
            Some(_) | None => false,
        }
    }

    fn work(&mut self, id: u64) -> bool {
        let Some(place) = self.places.get_mut(&id) else { return false };
        if let Some(turn) = place.turn.take() {
            self.idle.remove(&turn);
        }
        true
    }

    fn leave(&mut self, id: u64) {
        let Some(place) = self.places.remove(&id) else { return };
        if let Some(turn) = place.turn {
            self.idle.remove(&turn);
        }
        if let Some(peer) = place.peer {
            self.remote = self.remote.saturating_sub(1);
            if let Some(count) = self.peers.get_mut(&peer) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.peers.remove(&peer);
                }
            }
        }
    }

    /// Takes the place of the one that has been idle for longest; `None` if none is.
    fn give_up(&mut self, counts: impl Fn(&Place) -> bool) -> Option<()> {
        let mut idle = self.idle.values();
        let id = *idle.find(|id| self.places.get(id).is_some_and(&counts))?;
        if let Some(place) = self.places.get(&id) {
            place.given_up.notify_one();
        }
        self.leave(id);
        Some(())
    }

    fn close(&mut self) {
        self.closing = true;
        while self.give_up(|_place| true).is_some() {}
    }
}

#[cfg(test)]
mod tests;
