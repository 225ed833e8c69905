//! Composes the engine: folder, settings, journal, core, vault, lanes and servers.

mod journal_file;
mod upkeep;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::lane::Lane;
use bursar_core::limits::{DRAIN_TIMEOUT_MS, FREE_DISK_BYTES_MIN};
use bursar_core::lock_cause::LockCause;
use bursar_domain::Action;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_api::Api;
use crate::backup::replace;
use crate::blocking::blocking;
use crate::chain_time::HintedClock;
use crate::config::LiveConfig;
use crate::context::EngineContext;
pub use crate::context::Mode;
use crate::control::{ControlChannel, RunningControl, serve_attached};
use crate::core::Core;
use crate::core::handle::{CoreLoop, Handle};
use crate::disk_room::DiskRoom;
use crate::edition::Edition;
use crate::endpoints;
use crate::funds::Funds;
use crate::journal::Store;
use crate::lanes::devices;
use crate::lanes::lending::Lending;
use crate::lanes::lending::scan::{self, FileStore, MemoryStore, ScanStore, ScanTask};
use crate::lanes::payments::{self, Execution};
use crate::lanes::plans;
use crate::lanes::trading::Trading;
use crate::lanes::tx_driver::{self, TxDriver};
use crate::operator::wallet::lock::lock;
use crate::operator::wallet::open::open_with;
use crate::ports::{Devices, Ports, Signer};
use crate::service::data_dir::DataFolder;
use crate::service::instance::InstanceLock;
use crate::vault::Vault;
use crate::vault::file::WalletFiles;
use crate::vault::gate::Gate;

use self::journal_file::{damaged_fault, open_fault, open_journal};

/// The options of an engine.
#[derive(Debug)]
pub struct Options {
    pub folder: DataFolder,
    pub lock: InstanceLock,
    pub edition: Edition,
    pub mode: Mode,
    /// Overrides the setting `server.listen`.
    pub listen: Option<String>,
    /// Replaces the system's ports; tests only.
    pub ports: Option<Ports>,
    /// Replaces the journal file: for tests, and for a restore, which must not open the folder's journal.
    pub store: Option<Box<dyn Store>>,
    /// Whether a new journal may begin although a wallet file exists: the journal of that wallet is lost.
    pub begin_journal: bool,
    /// The hardware devices of the system's ports; `None` in a build without support for them.
    pub devices: Option<Arc<dyn Devices>>,
    /// The source of the password that opens the wallet at this start, in words; `None` if a person opens it.
    pub start_unlock: Option<String>,
}

impl Options {
    /// Returns options with the system's ports and the journal of the folder.
    pub fn new(folder: DataFolder, lock: InstanceLock, edition: Edition, mode: Mode) -> Self {
        let (listen, ports, store, devices, start_unlock) = (None, None, None, None, None);
        let begin_journal = false;
        Self {
            folder,
            lock,
            edition,
            mode,
            listen,
            ports,
            store,
            begin_journal,
            devices,
            start_unlock,
        }
    }
}

/// A running engine, to be ended by [`Engine::stop`]; a drop acts like a crash, which is safe.
#[derive(Debug)]
pub struct Engine {
    context: Arc<EngineContext>,
    control: tokio::sync::Mutex<Option<Box<dyn RunningControl>>>,
    _lock: InstanceLock,
}

impl Engine {
    /// Reads settings and journal and starts the core, without listening yet.
    ///
    /// # Errors
    /// `JOURNAL_DAMAGED`, an invalid setting, or an unusable data folder.
    pub async fn open(options: Options) -> Result<Self, Fault> {
        let (engine, core_loop) = Self::open_without_thread(options).await?;
        core_loop.start().map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(engine)
    }

    /// Opens an engine whose core has no thread, for simulations: the caller runs the core's batches.
    ///
    /// # Errors
    /// Those of [`Engine::open`].
    pub async fn open_without_thread(options: Options) -> Result<(Self, CoreLoop), Fault> {
        let Options { folder, lock, edition, mode, listen, ports, store, .. } = options;
        complete_restore(&folder)?;
        // If the journal is not in the folder, results of the scan are not stored there either.
        let scan_store: Arc<dyn ScanStore> = match store {
            Some(_) => Arc::new(MemoryStore::default()),
            None => Arc::new(FileStore::new(folder.file("lending-scan.json"))),
        };
        let settings = Arc::new(LiveConfig::open(&folder, listen, edition.sealed)?);
        let ports = match ports {
            Some(ports) => ports,
            None => endpoints::system_ports(&settings.get(), options.devices)?,
        };
        let gate = Arc::new(Gate::default());
        let begin_journal = options.begin_journal;
        let core = open_core(&folder, &ports, &edition, &gate, store, begin_journal).await?;
        // Everything that is created from here on uses the clock with the chains' time.
        let chain_time = HintedClock::new(Arc::clone(&ports.clock));
        let ports = Ports { clock: Arc::new(chain_time.clone()), ..ports };
        let (core, core_loop) = Handle::new(core, Arc::clone(&ports.clock));
        let files =
            WalletFiles::new(folder.path(), edition.kdf_bounds, Arc::clone(&ports.failpoints));
        let vault = Arc::new(Vault::new(files, edition.kdf, gate));
        let tasks = TaskTracker::new();
        let (device_turn, stopping) = (crate::device::Turn::default(), CancellationToken::new());
        let (users, device_queue) = devices::new(&ports, &device_turn, &core, &vault, &stopping);
        let execution = execution(&ports, &core, &tasks, users.signer);
        let funds = Arc::new(Funds::new(&ports));
        let trading = Arc::new(Trading::new(&ports));
        let lending = Arc::new(Lending::new(&ports));
        let (results, saved) = (Arc::clone(lending.scan()), Arc::clone(&scan_store));
        blocking(move || scan::load(&results, &*saved)).await?;
        let last_used_ms = AtomicU64::new(ports.clock.mono_ms());
        let disk_room = Arc::new(DiskRoom::new(Arc::clone(&ports.disk), folder.path().to_owned()));
        let context = Arc::new(EngineContext {
            folder,
            edition,
            settings,
            mode,
            ports,
            disk_room,
            core,
            vault,
            execution,
            chain_time,
            funds,
            trading,
            lending,
            executed: plans::ExecutionCounter::default(),
            tasks,
            server: tokio::sync::Mutex::new(None),
            lan_until_stopped: AtomicBool::new(false),
            wallet_changes: tokio::sync::Mutex::new(()),
            device_turn,
            device_status: users.status,
            device_retries: users.retries,
            backups: tokio::sync::Mutex::new(()),
            uploads: tokio::sync::Mutex::new(()),
            password_tries: tokio::sync::Mutex::default(),
            last_used_ms,
            stopping,
            consoles: Arc::new(()),
            start_unlock: options.start_unlock,
        });
        if mode == Mode::Full {
            spawn_background(&context, scan_store, users.turns);
            context.tasks.spawn(device_queue.run());
        }
        Ok((Self { context, control: tokio::sync::Mutex::new(None), _lock: lock }, core_loop))
    }

    /// Returns whether the journal has a wallet.
    pub fn wallet_exists(&self) -> bool {
        self.context.core.view().state.wallet.is_some()
    }

    /// Returns whether the settings start the agent server with the engine.
    pub fn autostart(&self) -> bool {
        self.context.settings.get().autostart
    }

    /// Returns the vault.
    pub fn vault(&self) -> &Arc<Vault> {
        &self.context.vault
    }

    /// Returns whether the agent server runs, or is being started or stopped.
    pub fn serves_agents(&self) -> bool {
        self.context.server.try_lock().map_or(true, |server| server.is_some())
    }

    /// Returns whether payments are refused because the disk of the data folder has too little room.
    pub fn is_disk_short(&self) -> bool {
        self.context.disk_room.is_short()
    }

    /// Returns the ports to the outside.
    pub fn ports(&self) -> &Ports {
        &self.context.ports
    }

    /// Returns the handle of the core.
    pub fn core(&self) -> &Handle {
        &self.context.core
    }

    /// Returns the agent server's API without a socket.
    pub fn api(&self) -> Api {
        self.context.api()
    }

    /// Connects a program in this process; frames stay in kernel memory and in buffers that are wiped.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if no file descriptors are left.
    pub fn connect(&self) -> Result<tokio::net::UnixStream, Fault> {
        let (ours, theirs) = tokio::net::UnixStream::pair()
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        self.context.tasks.spawn(serve_attached(Arc::clone(&self.context), Box::new(ours)));
        Ok(theirs)
    }

    /// Connects a program in memory, only for tests and simulations, because its buffers are not wiped.
    pub fn attach(&self) -> tokio::io::DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        self.context.tasks.spawn(serve_attached(Arc::clone(&self.context), Box::new(ours)));
        theirs
    }

    /// Records the start of an engine that serves agents; a single command does not call it.
    ///
    /// A regular stop locks the wallet. So if the wallet was open and no lock precedes the start, the earlier engine
    /// crashed.
    ///
    /// # Errors
    /// The journal cannot be written: `DISK_FULL` or `JOURNAL_FAILED`.
    pub async fn record_start(&self) -> Result<(), Fault> {
        match self.context.core.act(Action::RecordStart).await {
            Ok(_noted) => Ok(()),
            Err(fault) if fault.code == Code::JournalFailed => Err(self.fault_of_start(fault)),
            Err(fault) => {
                // Only log a warning: later calls return the cause to their callers.
                tracing::warn!(code = %fault.code, "could not record the start of the engine in the journal");
                Ok(())
            }
        }
    }

    /// Converts a fault that ends a start. A journal failure on a full disk becomes `DISK_FULL`, after which a
    /// service manager may retry.
    fn fault_of_start(&self, fault: Fault) -> Fault {
        let folder = self.context.folder.path();
        let free = self.context.ports.disk.free_bytes(folder);
        if fault.code == Code::JournalFailed && free.is_ok_and(|free| free < FREE_DISK_BYTES_MIN) {
            return Fault { detail: fault.detail, ..Fault::new(Code::DiskFull) };
        }
        fault
    }

    /// Opens the wallet with a password that was given at the start: no person entered it.
    ///
    /// # Errors
    /// Those of an unlock, such as a wrong password.
    pub async fn unlock(&self, password: SecretString) -> Result<(), Fault> {
        let warnings = open_with(&self.context, password, false).await;
        for warning in warnings.map_err(|fault| self.fault_of_start(fault))? {
            tracing::warn!(code = warning.code, "{}", warning.message);
        }
        Ok(())
    }

    /// Listens for the operator's programs.
    ///
    /// # Errors
    /// `DATA_FOLDER` if the socket cannot be created.
    pub async fn serve_control(&self, channel: ControlChannel) -> Result<(), Fault> {
        *self.control.lock().await = Some(channel.start(&self.context)?);
        Ok(())
    }

    /// Starts the agent server and returns its address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start_server(&self) -> Result<SocketAddr, Fault> {
        self.context.start_server().await
    }

    /// Stops the engine: rejects new calls, waits for work in flight, locks the wallet and commits.
    ///
    /// It waits up to [`DRAIN_TIMEOUT_MS`] for calls, and then up to [`DRAIN_TIMEOUT_MS`] for other tasks.
    pub async fn stop(self) {
        if let Err(fault) = self.end().await {
            tracing::error!(code = %fault.code, %fault, "the engine could not be stopped as planned");
        }
    }

    /// Stops the engine like [`Engine::stop`].
    ///
    /// # Errors
    /// The journal could not be closed, or restored files could not be put in place. The next start puts them in
    /// place.
    pub async fn end(self) -> Result<(), Fault> {
        self.context.stopping.cancel();
        if let Some(control) = self.control.lock().await.take() {
            control.stop(&self.context.folder);
        }
        self.context.stop_server().await;
        self.context.tasks.close();
        let patience = Duration::from_millis(DRAIN_TIMEOUT_MS);
        if tokio::time::timeout(patience, self.context.tasks.wait()).await.is_err() {
            tracing::warn!("work was still in progress when the engine stopped");
        }
        lock(&self.context, LockCause::Stop).await;
        self.context.core.stop().await?;
        // A restore completes here, after the files are closed, or at the next start.
        complete_restore(&self.context.folder)
    }
}

/// Completes a confirmed restore, and removes leftovers of an interrupted backup or restore.
fn complete_restore(folder: &DataFolder) -> Result<(), Fault> {
    crate::operator::backup::remove_leftovers(folder.path());
    replace::finish(folder.path()).map_err(|error| {
        let folder = folder.path().display();
        let text = format!("Restored files cannot be put in place in {folder}: {error}.");
        Fault::because(Code::of_disk(&error), text)
    })
}

/// Opens the journal, or uses the caller's `store`, and replays it on a blocking thread.
async fn open_core(
    folder: &DataFolder,
    ports: &Ports,
    edition: &Edition,
    gate: &Arc<Gate>,
    store: Option<Box<dyn Store>>,
    begin_journal: bool,
) -> Result<Core, Fault> {
    let (own_folder, ports, edition) = (folder.clone(), ports.clone(), edition.clone());
    let gate = Arc::clone(gate);
    let replayed = tokio::task::spawn_blocking(move || {
        let folder = &own_folder;
        let store = match store {
            Some(store) => store,
            None => open_journal(folder, &ports, &edition, begin_journal)?,
        };
        let core = Core::open(store, &edition, gate, ports.rules);
        let mut core = core.map_err(|error| open_fault(folder, &error))?;
        for outcome in core.step(&ports.clock.now(), vec![Action::NameEdition]) {
            outcome?;
        }
        Ok(core)
    });
    replayed.await.map_err(|_panicked| damaged_fault(folder, &"its structure is broken"))?
}

/// Creates the part that executes payments. `signer` signs them.
fn execution(
    ports: &Ports,
    core: &Handle,
    tasks: &TaskTracker,
    signer: impl Signer + 'static,
) -> Execution {
    Execution {
        signer: Arc::new(signer),
        core: core.clone(),
        tasks: tasks.clone(),
        failpoints: Arc::clone(&ports.failpoints),
        clock: Arc::clone(&ports.clock),
    }
}

/// Starts the tasks that a serving engine runs: upkeep, chain lookups of settlements, the outboxes, trades, and the
/// scan of the lending lane.
fn spawn_background(
    context: &Arc<EngineContext>,
    scan_store: Arc<dyn ScanStore>,
    turns: devices::Turns,
) {
    context.tasks.spawn(upkeep::run(Arc::clone(context)));
    let (core, ports) = (context.core.clone(), context.ports.clone());
    context.tasks.spawn(payments::follow(core, ports.clone(), context.stopping.clone()));
    let (execution, stopping) = (context.execution.clone(), context.stopping.clone());
    if context.edition.rules.lanes.contains(&Lane::Loan) {
        context.tasks.spawn(scan::run(ScanTask {
            scan: Arc::clone(context.lending.scan()),
            store: scan_store,
            core: context.core.clone(),
            ports: ports.clone(),
            stopping: stopping.clone(),
        }));
    }
    context.tasks.spawn(tx_driver::run(TxDriver { execution, ports, stopping }));
    context.tasks.spawn(plans::run(plans::Worker {
        ports: context.ports.clone(),
        trading: Arc::clone(&context.trading),
        lending: Arc::clone(&context.lending),
        execution_counter: context.executed.clone(),
        core: context.core.clone(),
        signer: Arc::clone(&context.execution.signer),
        turns,
        tasks: context.tasks.clone(),
        stopping: context.stopping.clone(),
    }));
}
