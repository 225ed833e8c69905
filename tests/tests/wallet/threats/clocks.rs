//! The clock of the machine is set while agents pay.

use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_core::time::Utc;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;

use crate::threats::stage::{
    authorized_count, engine_with, into_arc, run_all, signed_atoms, unlimited_in_memory,
};

const LIMIT: u64 = 10_000_000;
const PRICE: u64 = 300_001;
const NOON_S: i64 = NEW_YEAR_S + 12 * 3600;
const HOUR_MS: i64 = 3_600_000;

/// Starts an engine on a machine with this boot id; an empty id means the engine cannot measure uptime.
async fn start_engine(boot_id: &str) -> (Arc<TestEngine>, Agent) {
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(NOON_S)));
    clock.set_boot_id(boot_id);
    clock.advance(1);
    let setup = Setup { clock, ..unlimited_in_memory() };
    let (engine, agent) = engine_with(setup, "--day 10 --txn 10 --auto 5", "bearer").await;
    (into_arc(engine), agent)
}

/// Pays until the allowance is spent; returns the signed atoms.
async fn spend_allowance(engine: &TestEngine, agent: &Agent, n: &mut u64) -> u64 {
    let mut sum = 0;
    loop {
        *n += 1;
        let (status, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &offer(PRICE, *n), None)).await;
        match status {
            200 => sum += signed_atoms(&answer),
            429 => return sum,
            _other => panic!("{status} {answer}"),
        }
    }
}

/// Maximum number of atoms that one allowance buys at this price.
const MAX_SPEND: u64 = LIMIT / PRICE * PRICE;

#[tokio::test]
async fn t_29_setting_the_clock_renews_no_allowance() {
    for boot_id in ["boot-1", ""] {
        let (engine, agent) = start_engine(boot_id).await;
        let mut n = 0;
        assert_eq!(spend_allowance(&engine, &agent, &mut n).await, MAX_SPEND);
        // Sets the clock back by various times, and forward again within the same day.
        for hours in [1, 11, 13, 36, 24 * 40, 24 * 800] {
            engine.clock.set_utc(Utc::from_seconds(NOON_S).plus_ms(-hours * HOUR_MS));
            assert_eq!(
                spend_allowance(&engine, &agent, &mut n).await,
                0,
                "{boot_id}: {hours} h back"
            );
            engine.clock.set_utc(Utc::from_seconds(NOON_S + 11 * 3600));
            assert_eq!(
                spend_allowance(&engine, &agent, &mut n).await,
                0,
                "{boot_id}: back and forward"
            );
        }
        // In time zones to the east it is already tomorrow, which must not renew the allowance.
        for zone in ["Pacific/Kiritimati", "Asia/Tokyo", "Pacific/Pago_Pago", "UTC"] {
            engine.clock.set_zone(zone).unwrap();
            assert_eq!(spend_allowance(&engine, &agent, &mut n).await, 0, "{boot_id}: {zone}");
        }
        // Crossing midnight repeatedly never starts a new day.
        let mut bought = 0;
        for _time in 0..5 {
            engine.clock.set_utc(Utc::from_seconds(NOON_S + 24 * 3600));
            bought += spend_allowance(&engine, &agent, &mut n).await;
            engine.clock.set_utc(Utc::from_seconds(NOON_S));
            bought += spend_allowance(&engine, &agent, &mut n).await;
        }
        assert_eq!(bought, 0, "{boot_id}");
        // Real elapsed time renews the allowance, once the clock is right.
        engine.clock.set_utc(Utc::from_seconds(NOON_S));
        engine.clock.advance(u64::try_from(48 * HOUR_MS).unwrap());
        if boot_id.is_empty() {
            // Neither another clock nor a chain confirms the time, so the operator renews.
            assert_eq!(spend_allowance(&engine, &agent, &mut n).await, 0);
            engine.operator().must(&format!("agent renew {}", agent.id)).await;
        }
        assert_eq!(spend_allowance(&engine, &agent, &mut n).await, MAX_SPEND, "{boot_id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t_29_a_clock_that_jumps_during_payments_renews_no_allowance() {
    for boot_id in ["boot-1", ""] {
        let (engine, agent) = start_engine(boot_id).await;
        let turning = Arc::clone(&engine);
        let turn = tokio::spawn(async move {
            for time in 0..400 {
                let day = 24 * 3600 * (time % 2);
                turning.clock.set_utc(Utc::from_seconds(NOON_S + day));
                tokio::task::yield_now().await;
            }
        });
        let clients = (0..16u64).map(|client| {
            let (engine, agent) = (Arc::clone(&engine), agent.clone());
            async move {
                let mut sum = 0;
                for n in 0..20 {
                    let body = agent.ask(engine.now_s(), &offer(PRICE, client * 100 + n), None);
                    let (status, answer) = engine.post("/sign", &body).await;
                    // `ALREADY_SIGNED`: the clock left the payment's validity, so there is no header, but the amount is
                    // spent.
                    sum += match (status, answer["code"].as_str()) {
                        (200, None) => signed_atoms(&answer),
                        (202, None) | (200, Some("ALREADY_SIGNED")) => PRICE,
                        (429, _) => 0,
                        _other => panic!("{status} {answer}"),
                    };
                }
                sum
            }
        });
        let sum: u64 = run_all(clients).await.into_iter().sum();
        turn.await.unwrap();
        assert!(sum <= MAX_SPEND, "{boot_id}: {sum}");
        assert_eq!(authorized_count(&engine) as u64 * PRICE, sum, "{boot_id}");
        // Whatever the order of the race, neither day has allowance left.
        for day in [0, 1, 0] {
            engine.clock.set_utc(Utc::from_seconds(NOON_S + day * 24 * 3600));
            spend_allowance(&engine, &agent, &mut 1_000_000).await;
        }
        assert!(authorized_count(&engine) as u64 * PRICE <= MAX_SPEND, "{boot_id}");
        engine.operator().must("audit verify").await;
    }
}
