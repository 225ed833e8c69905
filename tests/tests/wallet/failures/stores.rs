//! A store of a service that is damaged, empty or on a full disk: one sentence names it, and the exit code says whether
//! a restart helps.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bursar_core::networks::{ChainId, by_chain};
use bursar_devnet::report_skip;
use bursar_facilitator::book::redb_store::RedbPayments;
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::mount::Mount;
use bursar_tests::process::{EngineProcess, StartOptions};
use bursar_tests::proxy::ProxyHome;
use bursar_tests::service::{ServiceProcess, program_path};

use crate::failures::disk::fill_disk;
use crate::failures::stage::{make_pipe, set_up_wallet, start_refused_unchecked};

const FACILITATOR: &str = "bursar-test-facilitator";
const PROXY: &str = "bursar-test-proxy";
/// The URL of a node that does not answer: nothing listens on port 9.
const UNREACHABLE_URL: &str = "http://127.0.0.1:9";

/// A service with its settings.
struct Service {
    program: &'static str,
    settings: PathBuf,
    store: PathBuf,
    _homes: (Option<FacilitatorHome>, Option<ProxyHome>),
}

/// Returns both services, each with a store at its default place or in `folder`.
fn services(folder: Option<&Path>) -> [Service; 2] {
    let set = |name: &str| match folder {
        Some(folder) => format!("store = \"{}\"", folder.join(name).display()),
        None => String::new(),
    };
    let network = by_chain(ChainId(8453)).unwrap();
    let home = FacilitatorHome::new(network, UNREACHABLE_URL, 1, &set("facilitator.redb"), "");
    let facilitator = Service {
        program: FACILITATOR,
        settings: home.settings(),
        store: home.config().store,
        _homes: (Some(home), None),
    };
    let home = ProxyHome::new(UNREACHABLE_URL, UNREACHABLE_URL, &set("proxy.redb"));
    let proxy = Service {
        program: PROXY,
        settings: home.settings(),
        store: home.config().store,
        _homes: (None, Some(home)),
    };
    [facilitator, proxy]
}

impl Service {
    fn command(&self) -> Command {
        let mut command = Command::new(program_path(self.program));
        command.arg("--config").arg(&self.settings).stdin(Stdio::null());
        command.env("RUST_LOG", "off").env("RUST_BACKTRACE", "1").env("BURSAR_FAULT", "");
        command
    }

    /// Starts the service and stops it again, so that it has a store.
    fn run_once(&self) {
        let mut process = ServiceProcess::start(self.program, &self.settings, "off", None);
        process.signal(rustix::process::Signal::TERM);
        assert_eq!(process.wait().code(), Some(0), "{}", self.program);
    }

    /// Starts the service, which must end with an exit code and one sentence about its store.
    fn assert_refused(&self, exit: i32, words: &str, what: &str) {
        let Output { status, stderr, .. } = self.command().output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        let case = format!("{}, {what}: {status} {said}", self.program);
        assert_eq!(status.code(), Some(exit), "{case}");
        assert_eq!(said.trim().lines().count(), 1, "{case}");
        assert!(said.contains(&self.store.display().to_string()), "{case}");
        assert!(said.contains(words) && !said.contains("panicked"), "{case}");
    }
}

#[test]
fn a_damaged_or_empty_store_ends_a_service_with_13_and_one_sentence() {
    for service in services(None) {
        service.run_once();
        let whole = std::fs::read(&service.store).unwrap();
        for (what, bytes) in [
            ("nothing", &b""[..]),
            ("one byte", b"x"),
            ("a text", b"this was a store once\n"),
            ("zeros", &vec![0; whole.len()]),
            ("its first page", &whole[..4096]),
            ("half of it", &whole[..whole.len() / 2]),
        ] {
            std::fs::write(&service.store, bytes).unwrap();
            service.assert_refused(13, "is damaged", what);
            assert!(what != "nothing" || std::fs::read(&service.store).unwrap().is_empty());
        }
        std::fs::remove_file(&service.store).unwrap();
        std::fs::create_dir(&service.store).unwrap();
        service.assert_refused(13, "is damaged", "a folder");
        std::fs::remove_dir(&service.store).unwrap();
        std::fs::write(&service.store, &whole).unwrap();
        service.run_once();
    }
}

#[test]
fn damage_that_makes_the_store_panic_ends_a_service_with_13_and_one_sentence() {
    let [facilitator, _proxy] = services(None);
    facilitator.run_once();
    let whole = std::fs::read(&facilitator.store).unwrap();
    let copy = facilitator.store.with_extension("copy");
    for at in (0..whole.len()).filter(|at| whole[*at] != 0).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        std::fs::write(&copy, &bytes).unwrap();
        let opened = std::panic::catch_unwind(|| drop(RedbPayments::open_file(&copy)));
        if opened.is_ok() {
            continue;
        }
        std::fs::write(&facilitator.store, &bytes).unwrap();
        facilitator.assert_refused(13, "is damaged", &format!("byte {at}"));
        return;
    }
    println!("no byte makes the store panic");
}

#[test]
fn a_pipe_in_the_place_of_settings_or_store_is_refused_at_once() {
    for service in services(None) {
        service.run_once();
        std::fs::remove_file(&service.store).unwrap();
        make_pipe(&service.store);
        service.assert_refused(13, "it is not a regular file", "a pipe");
        std::fs::remove_file(&service.settings).unwrap();
        make_pipe(&service.settings);
        let mut child = service.command().stderr(Stdio::piped()).spawn().unwrap();
        let ended = (0..200).find_map(|_look| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            child.try_wait().unwrap()
        });
        let _ended_by_itself = child.kill();
        assert!(ended.is_some_and(|status| !status.success()), "{}: {ended:?}", service.program);
    }
}

/// A first start that is killed before its store is complete leaves none.
#[test]
fn a_first_start_that_is_killed_leaves_no_store() {
    let tried = Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        report_skip("strace cannot be used here");
        return;
    }
    for service in services(None) {
        for calls in ["fsync,fdatasync", "/^link"] {
            let plain = service.command();
            let inject = format!("inject={calls}:signal=SIGKILL:when=1");
            let mut traced = Command::new("strace");
            traced.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject]);
            traced.arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
            let status = traced.output().unwrap().status;
            assert!(!status.success(), "{}, {calls}: it was not killed", service.program);
            assert!(!service.store.exists(), "{}, {calls}: a store was left", service.program);
        }
        service.run_once();
        let folder = service.store.parent().unwrap();
        let left = std::fs::read_dir(folder).unwrap().flatten();
        let left: Vec<_> =
            left.filter(|file| file.path().to_string_lossy().contains(".new")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn small_disk(at: &Path) -> Option<Mount> {
    Mount::in_memory(at, 80)
        .inspect_err(|why| {
            report_skip(&format!("no small disk here, only root can mount one ({why})"))
        })
        .ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_a_service_with_15_and_a_restart_resumes() {
    let home = tempfile::tempdir().unwrap();
    let Some(_disk) = small_disk(home.path()) else { return };
    let filler = home.path().join("filler");
    for service in services(Some(home.path())) {
        // On a full disk, the first start fails and leaves no store.
        fill_disk(&mut File::create(&filler).unwrap(), || false);
        service.assert_refused(15, "is full", "a first start");
        assert!(!service.store.exists(), "{}", service.program);
        std::fs::remove_file(&filler).unwrap();
        service.run_once();
    }
    let [facilitator, _proxy] = services(Some(home.path()));
    let mut process = ServiceProcess::start(FACILITATOR, &facilitator.settings, "off", None);
    fill_disk(&mut File::create(&filler).unwrap(), || false);
    // After a pause, the first readiness check writes a probe to the disk.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = client.get(format!("{}/readyz", process.url)).send().await;
    assert_ne!(asked.ok().map(|answer| answer.status().as_u16()), Some(200));
    assert_eq!(process.wait().code(), Some(15));
    let log = std::fs::read_to_string(facilitator.settings.with_file_name("log")).unwrap();
    assert!(log.contains("is full") && !log.contains("panicked"), "{log}");
    std::fs::remove_file(&filler).unwrap();
    facilitator.run_once();
}

/// If the disk is still full after a kill, the next engine exits with 15, so that a service manager tries again.
#[tokio::test]
async fn an_engine_that_starts_on_a_full_disk_ends_with_15_until_there_is_room() {
    let home = tempfile::tempdir().unwrap();
    let Some(_disk) = small_disk(home.path()) else { return };
    let folder = home.path().join("data");
    let mut engine = EngineProcess::start(&folder, &StartOptions::default());
    set_up_wallet(&mut engine.operator().await).await;
    let filler = home.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    fill_disk(&mut file, || false);
    engine.kill();
    fill_disk(&mut file, || false);
    let start = StartOptions { has_password: true, ..StartOptions::default() };
    start_refused_unchecked(&folder, &start).assert_refusal(15, &["DISK_FULL", "ree some space"]);
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    let mut engine = EngineProcess::start(&folder, &start);
    assert_eq!(engine.terminate(), Some(0));
}
