//! `/sign` and status requests, in turns on both wallets; the best round is the result.

use std::sync::Arc;

use crate::http::{Run, run_load};
use crate::wallet::Running;

const REQUESTS_PER_ROUND: usize = 4_000;
const ROUNDS: usize = 5;

fn better_run(best: Option<Run>, run: Run) -> Option<Run> {
    match best {
        Some(best) if best.rate() >= run.rate() => Some(best),
        _slower => Some(run),
    }
}

fn print_comparison(what: &str, connections: usize, few: Option<Run>, many: Option<Run>) {
    let (few, many) = (few.expect("a round"), many.expect("a round"));
    println!(
        "{what:<8} {connections:>3} connections: {:>8.0} and {:>8.0} a second, {:>4.0} %; p50 {:.2} and {:.2} ms, \
         p99 {:.2} and {:.2} ms",
        few.rate(),
        many.rate(),
        100.0 * many.rate() / few.rate(),
        few.quantile(0.5),
        many.quantile(0.5),
        few.quantile(0.99),
        many.quantile(0.99),
    );
}

pub async fn sign(few: &Running, many: &Running) {
    for connections in [1, 8, 64] {
        let (mut of_few, mut of_many) = (None, None);
        for _round in 0..ROUNDS {
            of_few = better_run(of_few, few.pay(connections, REQUESTS_PER_ROUND).await);
            of_many = better_run(of_many, many.pay(connections, REQUESTS_PER_ROUND).await);
        }
        print_comparison("/sign", connections, of_few, of_many);
    }
}

/// Measures status requests for payments from the whole history.
pub async fn status(few: &Running, many: &Running) {
    for connections in [1, 8] {
        let (mut of_few, mut of_many) = (None, None);
        for _round in 0..ROUNDS {
            of_few = better_run(of_few, status_round(few, connections).await);
            of_many = better_run(of_many, status_round(many, connections).await);
        }
        print_comparison("status", connections, of_few, of_many);
    }
}

async fn status_round(running: &Running, connections: usize) -> Run {
    // A stride that visits every part of the history, out of order.
    let ids = (0..REQUESTS_PER_ROUND).map(|n| &running.ids[n * 7_919 % running.ids.len()]);
    let get = |id: &String| format!("GET /sign/status/{id} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let requests = ids.map(|id| get(id).into_bytes()).collect();
    run_load(running.address(), connections, REQUESTS_PER_ROUND, Arc::new(requests), false).await
}
