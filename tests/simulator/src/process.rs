//! One life of the process: an engine, its core and its runtime on one thread.
//!
//! A process ends by an orderly stop, or is dropped, which the code inside cannot tell from `kill -9`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use axum::Router;
use bursar_auditor::observations::{End, Observation, Ticket};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::icon_http::IconHttp;
use bursar_chain::registry_http::RegistryHttp;
use bursar_demo::operator::Operator;
use bursar_device::emulator::InProcess;
use bursar_engine::agent_api::router;
use bursar_engine::core::Core;
use bursar_engine::core::handle::CoreLoop;
use bursar_engine::edition::Edition;
use bursar_engine::engine::{Engine, Mode, Options};
use bursar_engine::journal::Store;
use bursar_engine::ports::{Chains, Ports, PriceSource};
use bursar_engine::rules::Rules;
use bursar_engine::service::data_dir::DataFolder;
use bursar_ledger::port::Devices;
use bursar_tests::doubles::TestDisk;
use bursar_tests::engine::lock_folder;
use bursar_tests::operator::PASSWORD;
use bursar_tui::link::Link;
use secrecy::SecretString;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::device::WorldDevice;
use crate::faults::WorldFaults;
use crate::signer::WorldSigner;
use crate::tape::{ProcessDied, Tape};

/// The parts of a world that outlive one process.
pub(crate) struct Environment<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) clock: &'a Arc<ManualClock>,
    pub(crate) random: &'a Arc<crate::random::WorldRandom>,
    pub(crate) faults: &'a Arc<WorldFaults>,
    pub(crate) chains: &'a Chains,
    pub(crate) prices: PriceSource,
    pub(crate) tape: &'a Tape,
    /// Whether the core takes a turn at every poll, instead of only when all tasks are idle.
    pub(crate) runs_core_at_every_poll: bool,
    pub(crate) edition: Edition,
    /// `None` in a world without a device.
    pub(crate) device: Option<&'a Arc<WorldDevice>>,
}

pub(crate) struct Process {
    engine: Option<Arc<Engine>>,
    /// The running unlock without a person, and the ticket of its order.
    unlocking: Mutex<Option<(Ticket, JoinHandle<()>)>>,
    core_loop: Option<CoreLoop>,
    pub(crate) http: Router,
    pub(crate) signer: Arc<WorldSigner>,
    /// The operators that are idle.
    pub(crate) operators: Arc<Mutex<Vec<Operator>>>,
    idle: Arc<Idle>,
    runs_core_at_every_poll: bool,
    tape: Tape,
    // Last field, because it must be dropped last: its tasks may still hold the other fields.
    runtime: Runtime,
}

/// Signals that no task on the runtime can make progress.
#[derive(Default)]
struct Idle {
    flag: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Idle {
    fn mark_idle(&self) {
        self.flag.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }
}

impl Process {
    pub(crate) fn begin(environment: &Environment<'_>, store: Box<dyn Store>) -> Self {
        let idle = Arc::new(Idle::default());
        let parked = Arc::clone(&idle);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .on_thread_park(move || parked.mark_idle())
            .build()
            .expect("a runtime");
        let folder = DataFolder::open(environment.folder).expect("the folder can be used");
        let lock = lock_folder(&folder);
        let signer = Arc::new(WorldSigner::new(environment.faults));
        let head = store.head().map_or(0, |head| head.seq);
        let mut options = Options::new(folder, lock, environment.edition.clone(), Mode::Full);
        options.store = Some(store);
        let disk = TestDisk::default();
        disk.free_bytes.store(u64::MAX, Ordering::SeqCst);
        options.ports = Some(Ports {
            clock: Arc::clone(environment.clock) as _,
            random: Arc::clone(environment.random) as _,
            disk: Arc::new(disk),
            failpoints: Arc::clone(environment.faults) as _,
            chains: environment.chains.clone(),
            explorers: Default::default(),
            prices: environment.prices.clone(),
            icons: Arc::new(IconHttp::new()),
            registry: Arc::new(RegistryHttp),
            devices: environment.device.map(|device| {
                Arc::new(InProcess::new(Arc::clone(device) as _)) as Arc<dyn Devices>
            }),
            signer: Some(Arc::clone(&signer) as _),
            rules: Rules::with_mutated_rules(Arc::clone(environment.faults) as _),
        });
        environment.faults.note_start();
        let opened = runtime.block_on(Engine::open_without_thread(options));
        environment.faults.note_journal_read(head);
        let (engine, core_loop) =
            opened.unwrap_or_else(|fault| panic!("the engine does not start: {fault}"));
        signer.set_vault(engine.vault());
        let http = router(Arc::new(engine.api()));
        Self {
            engine: Some(Arc::new(engine)),
            unlocking: Mutex::default(),
            core_loop: Some(core_loop),
            http,
            signer,
            operators: Arc::default(),
            idle,
            runs_core_at_every_poll: environment.runs_core_at_every_poll,
            tape: environment.tape.clone(),
            runtime,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        self.core_loop.as_ref().expect("a running process").core()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.vault().is_unlocked())
    }

    /// Attaches an operator to the engine.
    pub(crate) fn attach(&self) -> Link {
        let _on = self.runtime.enter();
        Link::over(self.engine.as_ref().expect("a running process").attach())
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Opens the wallet with the password given at the start, and writes the end of that order to the tape.
    pub(crate) fn unlock(&self, ticket: Ticket) {
        let engine = Arc::clone(self.engine.as_ref().expect("a running process"));
        let tape = self.tape.clone();
        let unlocking = self.runtime.spawn(async move {
            let end = match engine.unlock(SecretString::from(PASSWORD)).await {
                Ok(()) => End::Done,
                Err(fault) => End::Refused { code: fault.code.to_string() },
            };
            tape.write(Observation::OrderEnded { ticket, end });
        });
        *self.unlocking.lock().unwrap() = Some((ticket, unlocking));
    }

    /// Ends an unlock that still waits after wrong passwords, as stopping the program does.
    fn stop_unlocking(&mut self) {
        let unlocking = self.unlocking.lock().unwrap().take();
        let Some((ticket, unlocking)) = unlocking.filter(|(_ticket, one)| !one.is_finished())
        else {
            return;
        };
        unlocking.abort();
        self.run_until_idle();
        let end = End::Refused { code: "ENGINE_DOWN".to_owned() };
        self.tape.write(Observation::OrderEnded { ticket, end });
    }

    /// Runs all tasks until none can make progress. Returns whether the process is alive.
    pub(crate) fn run_until_idle(&mut self) -> bool {
        let Self { core_loop, idle, runs_core_at_every_poll: eager, runtime, tape, .. } = self;
        idle.flag.store(false, Ordering::SeqCst);
        runtime.block_on(std::future::poll_fn(|cx| {
            let idle_now = idle.flag.swap(false, Ordering::SeqCst);
            if tape.is_dead() {
                return Poll::Ready(());
            }
            if idle_now || *eager {
                match give_core_a_turn(core_loop) {
                    Some(true) => {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    // The core has nothing to do or has ended, so the process is idle as soon as the other tasks are.
                    Some(false) | None if idle_now => return Poll::Ready(()),
                    Some(false) | None => {}
                }
            }
            *idle.waker.lock().unwrap() = Some(cx.waker().clone());
            Poll::Pending
        }));
        !tape.is_dead()
    }

    /// Lets the core write what it has deferred, as it does when idle.
    pub(crate) fn flush_core(&mut self) {
        if let Some(mut core_loop) = self.core_loop.take() {
            let flushed = catch_death(|| core_loop.flush());
            if flushed.is_some() {
                self.core_loop = Some(core_loop);
            }
        }
    }

    /// Stops the engine in an orderly way.
    pub(crate) fn stop(mut self) {
        self.stop_unlocking();
        let engine = self.engine.take().expect("a running process");
        let engine = Arc::into_inner(engine).expect("nothing else uses the engine");
        let done = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&done);
        self.runtime.spawn(async move {
            engine.stop().await;
            stopped.store(true, Ordering::SeqCst);
        });
        self.signer.release_all();
        self.run_until_idle();
        // The core takes no turn after a stop was requested, so the other tasks end in this second run.
        self.run_until_idle();
        assert!(done.load(Ordering::SeqCst) || self.tape.is_dead(), "the engine does not stop");
    }
}

/// Gives the core one turn. Returns whether it had work; `None` if it has ended.
fn give_core_a_turn(core_loop: &mut Option<CoreLoop>) -> Option<bool> {
    let current = core_loop.take()?;
    let (current, worked) = catch_death(|| current.process_queued())??;
    *core_loop = Some(current);
    Some(worked)
}

/// Runs `work`; returns `None` if the process died during it.
fn catch_death<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(payload) if payload.is::<ProcessDied>() => None,
        Err(panic) => resume_unwind(panic),
    }
}
