//! Test doubles of the engine's ports.

pub mod funds;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bursar_chain::clock::SystemClock;
use bursar_chain::ports::{BoxFuture, Clock};
use bursar_core::time::{LocalDay, Moment, Utc};
use bursar_engine::journal::{Slip, Terms};
use bursar_engine::ports::{Disk, Failpoints, Random, SignFault, Signer, SystemRandom};
use bursar_x402::signature::Signature65;
use tokio::sync::{mpsc, oneshot};

/// The system clock, shifted by the milliseconds in a file.
///
/// A test writes the file to move another process's time.
#[derive(Debug)]
pub struct SkewedClock {
    system: SystemClock,
    file: PathBuf,
    /// The largest forward shift so far. The monotonic clock keeps it when the wall clock goes back.
    largest_skew_ms: AtomicU64,
}

impl SkewedClock {
    /// Creates a clock that follows `file`; a missing file means no shift.
    pub fn new(file: PathBuf) -> Self {
        let system = SystemClock::new().expect("this machine has a time zone");
        Self { system, file, largest_skew_ms: AtomicU64::new(0) }
    }

    fn skew_ms(&self) -> i64 {
        std::fs::read_to_string(&self.file).ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0)
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Moment {
        let mut moment = self.system.now();
        let skew = self.skew_ms();
        let forward = u64::try_from(skew).unwrap_or(0);
        let forward = self.largest_skew_ms.fetch_max(forward, Ordering::SeqCst).max(forward);
        moment.utc = moment.utc.plus_ms(skew);
        moment.mono_ms += forward;
        moment.boottime_ms += forward;
        let zone = jiff::tz::TimeZone::system();
        let (day, start, offset) = bursar_chain::zone::day_of(moment.utc, &zone);
        (moment.local_day, moment.day_start, moment.offset_s) = (day, start, offset);
        moment
    }

    fn midnight(&self, earliest: Utc, day: LocalDay) -> Utc {
        self.system.midnight(earliest, day)
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while self.now().mono_ms < mono_ms {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
    }
}

/// Kills the process or fails the disk when a named fault point is reached for the nth time.
#[derive(Debug)]
pub struct InjectedFault {
    point: String,
    nth: usize,
    kind: FaultKind,
    times_reached: AtomicUsize,
}

/// The effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Kill,
    /// From the fault point on, the disk is full.
    Fail,
    /// The disk is full only once.
    FailOnce,
}

impl InjectedFault {
    /// Parses `kill:<point>:<n>`, `fail:<point>:<n>` or `once:<point>:<n>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        let (point, nth) = rest.rsplit_once(':')?;
        let kind = match kind {
            "kill" => FaultKind::Kill,
            "fail" => FaultKind::Fail,
            "once" => FaultKind::FailOnce,
            _unknown => return None,
        };
        Some(Self {
            point: point.to_owned(),
            nth: nth.parse().ok()?,
            kind,
            times_reached: AtomicUsize::new(0),
        })
    }
}

impl Failpoints for InjectedFault {
    fn hit(&self, point: &'static str) -> io::Result<()> {
        if point != self.point {
            return Ok(());
        }
        let hit = self.times_reached.fetch_add(1, Ordering::SeqCst) + 1;
        match self.kind {
            FaultKind::FailOnce if hit != self.nth => return Ok(()),
            FaultKind::Kill | FaultKind::Fail if hit < self.nth => return Ok(()),
            FaultKind::Fail | FaultKind::FailOnce => {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
            }
            FaultKind::Kill => {}
        }
        let pid = rustix::process::getpid();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        // Another thread may receive the signal first, so this thread must not continue.
        loop {
            std::thread::park();
        }
    }
}

/// Several faults at once, and optionally a file that records the fault points in the order they are reached.
#[derive(Debug, Default)]
pub struct FaultPlan {
    faults: Vec<InjectedFault>,
    reached_points_file: Option<Mutex<std::fs::File>>,
}

impl FaultPlan {
    /// Parses faults separated by commas.
    pub fn parse(text: &str) -> Option<Self> {
        let faults = text.split(',').map(InjectedFault::parse).collect::<Option<Vec<_>>>()?;
        Some(Self { faults, reached_points_file: None })
    }

    /// Appends the name of every fault point that is reached to `file`, one per line.
    #[must_use]
    pub fn recording(mut self, file: &Path) -> Self {
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
        self.reached_points_file = Some(Mutex::new(opened.expect("a file for the points")));
        self
    }
}

impl Failpoints for FaultPlan {
    fn hit(&self, point: &'static str) -> io::Result<()> {
        if let Some(file) = &self.reached_points_file {
            // Writes the line with one call, so that it is complete even if the process is killed right after it.
            let line = format!("{point}\n");
            io::Write::write_all(&mut *file.lock().unwrap(), line.as_bytes())?;
        }
        self.faults.iter().try_for_each(|fault| fault.hit(point))
    }
}

/// A disk that reports the free space that the test sets.
#[derive(Default)]
pub struct TestDisk {
    pub free_bytes: AtomicU64,
    /// Runs once, the next time that the engine asks for the free space.
    pub on_next_query: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl fmt::Debug for TestDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestDisk").field("free", &self.free_bytes).finish_non_exhaustive()
    }
}

impl Disk for TestDisk {
    fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
        let work = self.on_next_query.lock().unwrap().take();
        if let Some(work) = work {
            work();
        }
        Ok(self.free_bytes.load(Ordering::SeqCst))
    }
}

/// A signer whose answers come from the test.
///
/// It stands for a hardware device, or for a vault on a busy machine.
#[derive(Debug)]
pub struct SlowSigner {
    requests: mpsc::UnboundedSender<SignRequest>,
    /// Whether a person decides about signatures. Callers do not wait for a person, but they wait for a machine.
    is_person: bool,
}

/// A request to a [`SlowSigner`], and the channel for its answer.
#[derive(Debug)]
pub struct SignRequest {
    pub slip: Slip,
    pub terms: Terms,
    pub answer: oneshot::Sender<Result<Signature65, SignFault>>,
}

impl SlowSigner {
    /// Creates a signer like a hardware device, for which callers do not wait.
    pub fn person() -> (Arc<Self>, mpsc::UnboundedReceiver<SignRequest>) {
        Self::new(true)
    }

    /// Creates a signer like a vault on a busy machine, for which callers wait.
    pub fn machine() -> (Arc<Self>, mpsc::UnboundedReceiver<SignRequest>) {
        Self::new(false)
    }

    fn new(person: bool) -> (Arc<Self>, mpsc::UnboundedReceiver<SignRequest>) {
        let (requests, inbox) = mpsc::unbounded_channel();
        (Arc::new(Self { requests, is_person: person }), inbox)
    }
}

impl Signer for SlowSigner {
    fn asks_a_person(&self, _slip: &Slip) -> bool {
        self.is_person
    }

    fn sign(&self, slip: Slip, terms: Terms) -> BoxFuture<'_, Result<Signature65, SignFault>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let refused = || SignFault::Refused("the device went away".to_owned());
            self.requests.send(SignRequest { slip, terms, answer }).map_err(|_gone| refused())?;
            answered.await.map_err(|_gone| refused())?
        })
    }
}

/// Scripted entropy: a request of exactly the next piece's length returns that piece.
///
/// All other requests return system randomness.
#[derive(Debug, Default)]
pub struct ScriptedRandom {
    pieces: Mutex<VecDeque<Vec<u8>>>,
}

impl ScriptedRandom {
    /// Adds a piece of entropy to the script.
    pub fn push(&self, bytes: &[u8]) {
        self.pieces.lock().unwrap().push_back(bytes.to_vec());
    }

    /// Gives the next registered agent this code and this secret.
    pub fn next_agent(&self, code: &str, secret: &[u8; 32]) {
        let digit = |at: usize, first: u8| u64::from(code.as_bytes()[at] - first);
        let number = [
            (5, 10, b'0'),
            (4, 10, b'0'),
            (3, 10, b'0'),
            (2, 26, b'A'),
            (1, 26, b'A'),
            (0, 26, b'A'),
        ]
        .into_iter()
        .fold(0u64, |rest, (at, size, first)| rest * size + digit(at, first));
        self.push(&number.to_le_bytes());
        self.push(secret);
    }
}

impl Random for ScriptedRandom {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut pieces = self.pieces.lock().unwrap();
        match pieces.front() {
            Some(next) if next.len() == bytes.len() => {
                bytes.copy_from_slice(&pieces.pop_front().expect("it is there"));
                Ok(())
            }
            _other => SystemRandom.fill(bytes),
        }
    }
}
