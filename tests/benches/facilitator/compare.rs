//! `/verify` of this build and of other builds, in short turns on one node.
//!
//! The turns are short, so that a machine whose speed changes slows all builds down alike. `BURSAR_OTHER` holds the
//! paths of the other programs, separated by colons.

use std::path::Path;
use std::sync::Arc;

use bursar_tests::facilitator::FacilitatorHome;

use crate::http::{post, run_load};
use crate::process::Process;
use crate::stage::{PROGRAM, chain, fund, payers, payments};

const REQUESTS_PER_TURN: usize = 400;
const TURNS: usize = 60;

struct Build {
    program: String,
    process: Process,
    _home: FacilitatorHome,
    /// For each turn: requests per second, and processor time per request in microseconds.
    turns: Vec<(f64, f64)>,
}

pub async fn measure() {
    let Ok(others) = std::env::var("BURSAR_OTHER") else { return };
    let chain = chain().await;
    let payers = payers(&chain, 64).await;
    let paid = payments(&chain, &payers, 512);
    let bodies: Vec<String> = paid.iter().map(|paid| paid.body(2).to_string()).collect();
    let asked = Arc::new(bodies.iter().map(|body| post("/verify", body)).collect::<Vec<_>>());
    let mut builds = Vec::new();
    for program in std::iter::once(PROGRAM).chain(others.split(':')) {
        let home = FacilitatorHome::new(chain.network(), chain.url(), 1, "", "");
        fund(&chain, &home).await;
        let process = Process::start(Path::new(program), &home.settings());
        run_load(&process.address, 8, 1_024, Arc::clone(&asked), false).await;
        builds.push(Build { program: program.to_owned(), process, _home: home, turns: vec![] });
    }
    for connections in [1, 8, 32] {
        builds.iter_mut().for_each(|build| build.turns.clear());
        for turn in 0..TURNS {
            // Alternates the order, so that no build is always the first.
            builds.rotate_left(turn % 2);
            for build in &mut builds {
                let before = build.process.processor_time();
                let asked = Arc::clone(&asked);
                let run =
                    run_load(&build.process.address, connections, REQUESTS_PER_TURN, asked, false)
                        .await;
                let cpu = (build.process.processor_time() - before).as_secs_f64() * 1e6
                    / REQUESTS_PER_TURN as f64;
                build.turns.push((run.rate(), cpu));
            }
        }
        builds.sort_by_key(|build| build.program != PROGRAM);
        let this = builds[0].turns.clone();
        for build in &builds {
            let of = |pick: fn(&(f64, f64)) -> f64| {
                let pairs = build.turns.iter().zip(&this);
                (
                    median(build.turns.iter().map(pick)),
                    median(pairs.map(|(a, b)| pick(b) / pick(a))),
                )
            };
            let ((rate, rates), (cpu, cpus)) = (of(|turn| turn.0), of(|turn| turn.1));
            println!(
                "{connections:>2} connections: {rate:>6.0} a second, {cpu:>4.0} us CPU; this build has {:.0} % \
                 of its rate and {:.0} % of its CPU time: {}",
                rates * 100.0,
                cpus * 100.0,
                build.program
            );
        }
    }
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}
