use std::sync::Arc;

use super::*;
use crate::access::IpRanges;

const REMOTE: &str = "192.168.1.9";
const OTHER: &str = "192.168.1.10";

fn table(bounds: Bounds) -> Table {
    Table::new(Arc::new(bounds))
}

fn admit(table: &mut Table, peer: &str) -> Option<u64> {
    let link = Arc::new(ConnectionState::new(0));
    table.admit(peer.parse().unwrap(), link)
}

fn admit_working(table: &mut Table, peer: &str) -> u64 {
    let id = admit(table, peer).unwrap();
    assert!(table.set_activity(id, Activity::Working));
    id
}

fn admit_receiving(table: &mut Table, peer: &str) -> u64 {
    let id = admit(table, peer).unwrap();
    assert!(table.set_activity(id, Activity::Receiving));
    id
}

fn admit_idle(table: &mut Table, peer: &str) -> u64 {
    admit(table, peer).unwrap()
}

fn has_slot(table: &Table, id: u64) -> bool {
    table.slots.contains_key(&id)
}

/// Returns bounds with ten slots, all of which one peer may use.
fn ten_slots() -> Bounds {
    Bounds { slots_max: 10, slots_per_peer_max: 10, ..Bounds::public(10) }
}

#[test]
fn the_longest_waiting_connection_is_evicted_never_a_working_one() {
    let mut table = table(ten_slots());
    let ids: Vec<u64> = (0..10).map(|_| admit(&mut table, REMOTE).unwrap()).collect();
    assert!(table.set_activity(ids[0], Activity::Working));
    assert!(
        table.set_activity(ids[1], Activity::Working) && table.set_activity(ids[1], Activity::Idle)
    );
    // A repeated wait does not move a connection to the end of the queue.
    assert!(table.set_activity(ids[2], Activity::Idle));
    let link = Arc::clone(&table.slots[&ids[2]].link);
    let newest = admit(&mut table, REMOTE).unwrap();
    assert_eq!(link.signal(), Signal::Evicted);
    assert!(!has_slot(&table, ids[2]) && has_slot(&table, newest) && table.slots.len() == 10);
    assert!(!table.set_activity(ids[2], Activity::Working), "it reads no request any more");
    table.remove(ids[2]);
    assert_eq!(table.slots.len(), 10);
    for id in table.slots.keys().copied().collect::<Vec<_>>() {
        table.set_activity(id, Activity::Working);
    }
    assert_eq!(admit(&mut table, REMOTE), None);
    table.remove(newest);
    assert!(admit(&mut table, REMOTE).is_some());
}

#[test]
fn eviction_treats_waiting_for_head_and_body_alike() {
    for order in [[admit_receiving, admit_idle], [admit_idle, admit_receiving]] {
        let mut table = table(ten_slots());
        let [slowest, next] = order.map(|begin| begin(&mut table, REMOTE));
        for _more in 0..8 {
            admit_working(&mut table, REMOTE);
        }
        let newest = admit(&mut table, REMOTE).unwrap();
        assert!(!has_slot(&table, slowest) && has_slot(&table, next));
        assert!(table.set_activity(newest, Activity::Working));
        admit_working(&mut table, REMOTE);
        assert!(!has_slot(&table, next));
        assert_eq!(admit(&mut table, REMOTE), None);
    }
}

#[test]
fn slow_bodies_are_evicted_before_a_new_connection() {
    let mut table = table(ten_slots());
    for _slow in 0..10 {
        admit_receiving(&mut table, REMOTE);
    }
    let new = admit(&mut table, REMOTE).unwrap();
    for _slow in 0..9 {
        admit_receiving(&mut table, REMOTE);
        assert!(has_slot(&table, new));
    }
    admit_receiving(&mut table, REMOTE);
    assert!(!has_slot(&table, new), "it sent nothing for as long as any of them");
}

#[test]
fn a_connection_of_a_proven_caller_is_evicted_after_all_others() {
    let mut table = table(ten_slots());
    let proven = admit_working(&mut table, REMOTE);
    table.slots[&proven].link.prove();
    assert!(table.set_activity(proven, Activity::Idle));
    for n in 0..100 {
        if n % 2 == 0 {
            admit_idle(&mut table, REMOTE)
        } else {
            admit_receiving(&mut table, REMOTE)
        };
    }
    assert!(has_slot(&table, proven));
    assert!(table.set_activity(proven, Activity::Receiving), "its next request begins");
    for _slow in 0..100 {
        admit_receiving(&mut table, REMOTE);
    }
    assert!(
        table.set_activity(proven, Activity::Working) && table.set_activity(proven, Activity::Idle)
    );
    for _working in 0..9 {
        admit_working(&mut table, REMOTE);
    }
    assert!(has_slot(&table, proven));
    admit_working(&mut table, REMOTE);
    assert!(!has_slot(&table, proven), "no other one waits");
}

#[test]
fn a_flood_from_one_address_takes_no_slot_of_another() {
    let mut table = table(ten_slots());
    let quiet = admit(&mut table, OTHER).unwrap();
    for n in 0..100 {
        if n % 2 == 0 {
            admit(&mut table, REMOTE).unwrap()
        } else {
            admit_receiving(&mut table, REMOTE)
        };
    }
    assert!(has_slot(&table, quiet), "it waited longest, and its address holds one slot");
    let late = admit(&mut table, "192.168.1.11").unwrap();
    for _more in 0..100 {
        admit(&mut table, REMOTE).unwrap();
    }
    assert!(has_slot(&table, quiet) && has_slot(&table, late));
    assert_eq!(table.slots.len(), 10);
}

#[test]
fn all_addresses_of_one_peer_share_one_limit() {
    for (peer, alias) in
        [(REMOTE, "::ffff:192.168.1.9"), ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2")]
    {
        let mut table = table(Bounds { slots_per_peer_max: 4, ..ten_slots() });
        let ids: Vec<u64> = (0..4).map(|_| admit_working(&mut table, peer)).collect();
        assert_eq!(admit(&mut table, alias), None, "{alias}");
        let neighbour = admit(&mut table, OTHER).unwrap();
        assert_eq!(admit(&mut table, peer), None, "only its own connections make room");
        assert!(table.set_activity(ids[0], Activity::Idle));
        admit_working(&mut table, alias);
        assert!(has_slot(&table, neighbour) && !has_slot(&table, ids[0]));
    }
}

#[test]
fn a_trusted_proxy_has_no_share_and_can_lose_connections() {
    let trusted = IpRanges::parse([REMOTE]).unwrap();
    let mut table =
        table(Bounds { slots_per_peer_max: 2, trusted_proxies: trusted, ..ten_slots() });
    let ids: Vec<u64> = (0..10).map(|_| admit(&mut table, REMOTE).unwrap()).collect();
    assert!(admit(&mut table, OTHER).is_some());
    assert!(!has_slot(&table, ids[0]) && has_slot(&table, ids[1]));
}

#[test]
fn programs_of_this_machine_are_exempt_where_the_bounds_say_so() {
    let loopback = Loopback::Exempt { reserved: 3 };
    let mut table = table(Bounds { slots_per_peer_max: 2, loopback, ..ten_slots() });
    for n in 0..7 {
        admit_working(&mut table, &format!("10.0.0.{n}"));
    }
    assert_eq!(admit(&mut table, REMOTE), None, "the rest is reserved");
    for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.2"] {
        admit_working(&mut table, peer);
    }
    assert_eq!(admit(&mut table, "127.0.0.1"), None);
    // Without the exemption, each loopback address is its own peer.
    let mut table = Table::new(Arc::new(Bounds { slots_per_peer_max: 2, ..ten_slots() }));
    admit_working(&mut table, "127.0.0.1");
    admit_working(&mut table, "127.0.0.1");
    assert_eq!(admit(&mut table, "127.0.0.1"), None);
    admit_working(&mut table, "127.0.0.2");
}

fn with_memory(all_bytes: usize, remote_bytes: usize) -> Bounds {
    let mut bounds = ten_slots();
    (bounds.body.uncounted_bytes, bounds.body.incomplete_bytes_max) = (10, all_bytes);
    bounds.body.complete_bytes_max = 100;
    bounds.body.remote_bytes_max = remote_bytes;
    bounds
}

#[test]
fn body_memory_is_bounded_and_freed() {
    let mut table = table(with_memory(100, usize::MAX));
    let big = admit_receiving(&mut table, REMOTE);
    assert_eq!(table.grow(big, 10), Ok(()));
    assert_eq!(table.memory, 0, "small requests are free");
    assert_eq!(table.grow(big, 90), Ok(()));
    assert_eq!((table.memory, table.grow(big, 90)), (80, Ok(())));
    // The peer that uses the most memory loses its largest incomplete request.
    let other = admit_receiving(&mut table, OTHER);
    assert_eq!(table.grow(other, 50), Ok(()));
    assert!(!has_slot(&table, big));
    assert_eq!(table.memory, 40);
    // A complete request is not evicted, and its memory is counted separately.
    assert_eq!(table.received(other), Ok(()));
    assert_eq!((table.memory, table.whole_memory), (0, 40));
    let late = admit_receiving(&mut table, REMOTE);
    assert_eq!(table.grow(late, 80), Ok(()));
    assert_eq!(table.received(late), Err(Refusal::Busy));
    table.free_memory(other);
    assert_eq!(table.received(late), Ok(()));
    let last = admit_receiving(&mut table, OTHER);
    assert_eq!(table.grow(last, 110), Ok(()));
    assert_eq!(table.grow(last, 111), Err(Refusal::Busy), "nothing is left to evict");
    for id in [late, other, last] {
        table.remove(id);
    }
    assert_eq!((table.memory, table.whole_memory, table.remote_memory), (0, 0, 0));
    assert!(table.peers.is_empty() && table.slots.is_empty() && table.remote_slots == 0);
}

#[test]
fn a_large_body_does_not_evict_a_peer_that_holds_less() {
    let mut table = table(with_memory(100, usize::MAX));
    let small = admit_receiving(&mut table, OTHER);
    assert_eq!(table.grow(small, 40), Ok(()));
    let big = admit_receiving(&mut table, REMOTE);
    assert_eq!(table.grow(big, 60), Ok(()));
    assert_eq!(table.grow(big, 100), Err(Refusal::Busy));
    assert!(has_slot(&table, small));
}

#[test]
fn remote_peers_cannot_take_all_body_memory() {
    let loopback = Loopback::Exempt { reserved: 0 };
    let mut table = table(Bounds { loopback, ..with_memory(100, 50) });
    let remote = admit_working(&mut table, REMOTE);
    assert_eq!(table.grow(remote, 60), Ok(()));
    let other = admit_working(&mut table, OTHER);
    assert_eq!(table.grow(other, 20), Err(Refusal::Busy));
    let local = admit_working(&mut table, "127.0.0.1");
    assert_eq!(table.grow(local, 60), Ok(()));
}

#[test]
fn a_remote_body_over_the_remote_limit_evicts_no_local_request() {
    let loopback = Loopback::Exempt { reserved: 0 };
    let mut table = table(Bounds { loopback, ..with_memory(200, 50) });
    let local = admit_receiving(&mut table, "127.0.0.1");
    assert_eq!(table.grow(local, 80), Ok(()));
    let remote = admit_receiving(&mut table, REMOTE);
    assert_eq!(table.grow(remote, 61), Err(Refusal::Busy));
    assert!(has_slot(&table, local));
    // The remote request is evicted, not the local one, because only remote memory counts towards the remote limit.
    assert_eq!(table.grow(remote, 40), Ok(()));
    let other = admit_receiving(&mut table, OTHER);
    assert_eq!(table.grow(other, 31), Ok(()));
    assert!(has_slot(&table, local) && !has_slot(&table, remote));
}

#[test]
fn memory_is_released_after_most_of_a_flood_has_left() {
    let mut table = table(Bounds { slots_max: 1_000, slots_per_peer_max: 1_000, ..ten_slots() });
    let few: Vec<u64> = (0..100).map(|_| admit(&mut table, REMOTE).unwrap()).collect();
    few.into_iter().for_each(|id| table.remove(id));
    assert!(!table.take_release_due(), "a hundred connections are no flood");
    let flood: Vec<u64> = (0..1_000).map(|_| admit(&mut table, REMOTE).unwrap()).collect();
    let mut releases = Vec::new();
    for (n, id) in flood.into_iter().enumerate() {
        table.remove(id);
        if table.take_release_due() {
            releases.push(n + 1);
        }
    }
    assert_eq!(releases, [750, 938]);
}

#[test]
fn a_stopping_server_admits_none_and_signals_all_connections() {
    let slots = Slots::new(Arc::new(ten_slots()));
    let peer: IpAddr = REMOTE.parse().unwrap();
    let (idle, busy) = (slots.admit(peer, 0).unwrap(), slots.admit(peer, 0).unwrap());
    assert!(busy.begin(false) && idle.set_idle());
    slots.stop();
    assert_eq!((idle.link.signal(), busy.link.signal()), (Signal::Stop, Signal::Stop));
    assert!(!busy.set_idle() && slots.admit(peer, 0).is_none());
    drop((idle, busy));
    assert!(slots.table().slots.is_empty());
}
