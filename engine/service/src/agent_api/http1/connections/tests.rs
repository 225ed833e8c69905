use super::*;

const REMOTE: &str = "192.168.1.9";

fn admit(table: &mut Table, peer: &str) -> Option<(u64, Arc<Notify>)> {
    table.admit(peer.parse().unwrap())
}

/// So many peers, of so many networks.
fn stranger(number: usize) -> String {
    format!("2001:db8:0:{number:x}::1")
}

fn works(table: &mut Table, peer: &str) -> u64 {
    let (id, _given_up) = admit(table, peer).unwrap();
    assert!(table.work(id));
    id
}

async fn is_given_up(notify: &Notify) -> bool {
    tokio::time::timeout(std::time::Duration::ZERO, notify.notified()).await.is_ok()
}

#[tokio::test]
async fn t_40_the_longest_idle_makes_room_and_no_other() {
    let mut table = Table::default();
    let seats: Vec<_> =
        (0..CONNECTIONS).map(|_one| admit(&mut table, "127.0.0.1").unwrap()).collect();
    // The first works, the second has just rested: the third has been idle for longest.
    assert!(table.work(seats[0].0));
    assert!(table.work(seats[1].0) && table.rest(seats[1].0));
    // Waiting on is no reason to go to the end of the queue.
    assert!(table.rest(seats[2].0));
    let (newest, _) = admit(&mut table, "127.0.0.1").unwrap();
    assert_eq!(table.places.len(), CONNECTIONS);
    assert!(is_given_up(&seats[2].1).await);
    for kept in [&seats[0], &seats[1], &seats[3]] {
        assert!(!is_given_up(&kept.1).await);
        assert!(table.work(kept.0));
    }
    // Whoever was given up reads no request any more, and leaving counts once.
    assert!(!table.work(seats[2].0) && !table.rest(seats[2].0));
    table.leave(seats[2].0);
    assert_eq!(table.places.len(), CONNECTIONS);
    assert!(table.work(newest));
}

#[test]
fn t_40_there_is_no_room_when_all_work_and_again_when_one_rests() {
    let mut table = Table::default();
    let ids: Vec<_> = (0..CONNECTIONS).map(|_one| works(&mut table, "::1")).collect();
    assert!(admit(&mut table, "127.0.0.1").is_none());
    assert!(table.rest(ids[7]));
    assert!(admit(&mut table, "127.0.0.1").is_some());
    assert!(!table.work(ids[7]));
    table.leave(ids[8]);
    works(&mut table, "127.0.0.1");
    assert_eq!(table.places.len(), CONNECTIONS);
}

#[test]
fn t_40_one_remote_peer_has_its_share_and_this_machine_all() {
    for (peer, alias) in
        [(REMOTE, "::ffff:192.168.1.9"), ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2")]
    {
        let mut table = Table::default();
        let ids: Vec<_> = (0..CONNECTIONS_PER_PEER).map(|_one| works(&mut table, peer)).collect();
        assert!(admit(&mut table, peer).is_none());
        assert!(admit(&mut table, alias).is_none(), "{alias}");
        works(&mut table, "192.168.1.10");
        // Its own idle ones make room for it, nobody else's.
        let (neighbour, _) = admit(&mut table, "192.168.1.11").unwrap();
        assert!(admit(&mut table, peer).is_none());
        assert!(table.rest(ids[0]));
        works(&mut table, alias);
        assert!(table.work(neighbour) && !table.work(ids[0]));
    }
    let mut table = Table::default();
    for _one in 0..CONNECTIONS_PER_PEER * 3 {
        works(&mut table, "127.0.0.1");
        works(&mut table, "::ffff:127.0.0.2");
    }
}

#[test]
fn t_40_strangers_leave_slots_to_this_machine() {
    let mut table = Table::default();
    for number in 0..CONNECTIONS - CONNECTIONS_FOR_LOOPBACK {
        works(&mut table, &stranger(number));
    }
    assert!(admit(&mut table, REMOTE).is_none());
    for _one in 0..CONNECTIONS_FOR_LOOPBACK {
        works(&mut table, "127.0.0.1");
    }
    assert!(admit(&mut table, "127.0.0.1").is_none());
}

#[test]
fn nothing_is_left_of_those_that_left() {
    let mut table = Table::default();
    let ids: Vec<_> =
        (0..100).map(|number| admit(&mut table, &stranger(number % 5)).unwrap().0).collect();
    for id in ids {
        table.work(id);
        table.rest(id);
        table.leave(id);
    }
    assert!(table.places.is_empty() && table.idle.is_empty() && table.peers.is_empty());
    assert_eq!(table.remote, 0);
}

#[tokio::test]
async fn closing_ends_the_idle_and_lets_nobody_in() {
    let connections = Arc::new(Connections::default());
    let peer: IpAddr = REMOTE.parse().unwrap();
    let idle = connections.admit(peer).unwrap();
    let busy = connections.admit(peer).unwrap();
    assert!(busy.work() && !busy.is_closing());
    connections.close();
    idle.given_up().await;
    assert!(busy.is_closing() && !busy.rest());
    assert!(connections.admit(peer).is_none());
}
