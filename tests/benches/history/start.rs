//! Start times, and the memory of a started engine.

use std::time::{Duration, Instant};

use bursar_tests::process::{EngineProcess, StartOptions, memory_mib};

use crate::wallet::{Running, Wallet};

const ENGINE_STARTS: usize = 9;

/// Measures the time from exec to READY with a locked wallet, compared with an empty folder.
pub fn measure(few: &Wallet, many: &Wallet) {
    let mut best = [Duration::MAX; 3];
    for _round in 0..ENGINE_STARTS {
        let empty = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let empty = empty.path().join("data");
        for (best, folder) in best.iter_mut().zip([&empty, &few.folder, &many.folder]) {
            let begun = Instant::now();
            let mut engine = EngineProcess::start(folder, &StartOptions::default());
            *best = (*best).min(begun.elapsed());
            assert_eq!(engine.terminate(), Some(0));
        }
    }
    for (name, best_of) in ["an empty folder", "one payment", "many payments"].iter().zip(best) {
        let ratio = best_of.as_secs_f64() / best[0].as_secs_f64();
        println!("start, {name:<16} {:>7.1} ms  x {ratio:.1}", best_of.as_secs_f64() * 1e3);
    }
}

/// Measures the time from exec to READY with a wallet that is unlocked before READY.
pub fn measure_unlocked(few: &Wallet, many: &Wallet) {
    for (name, wallet) in [("one payment", few), ("many payments", many)] {
        let begun = Instant::now();
        let mut running = wallet.start(true);
        let took = begun.elapsed();
        assert_eq!(running.engine.terminate(), Some(0));
        println!("start and unlock, {name:<16} {:>7.1} ms", took.as_secs_f64() * 1e3);
    }
}

pub fn memory_of(when: &str, few: &Running, many: &Running) {
    for (name, running) in [("one payment", few), ("many payments", many)] {
        let (now, most) = memory_mib(running.engine.pid());
        println!("memory {when}, {name:<14} {now:>6.1} MiB, at most {most:.1}");
    }
}
