//! The messages of `bursar engine` to a service manager: readiness, the state in words, progress of the core, the
//! stop.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::stage::{Engine, Home};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A service manager that only reads its socket, and a data folder.
struct Manager {
    socket: UnixDatagram,
    home: Home,
}

impl Manager {
    fn new() -> Self {
        let home = Home::new();
        let socket = UnixDatagram::bind(home.dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Self { socket, home }
    }

    fn address(&self) -> PathBuf {
        self.home.dir.path().join("notify")
    }

    /// Builds the command with which the manager starts an engine.
    fn command(&self) -> Command {
        let mut command = self.home.command(&self.home.data(), "engine");
        command.env("NOTIFY_SOCKET", self.address());
        command
    }

    /// Returns the next message; `None` if none arrives within a short time.
    fn next(&self) -> Option<String> {
        let mut buffer = [0; 4096];
        match self.socket.recv(&mut buffer) {
            Ok(count) => Some(String::from_utf8(buffer[..count].to_vec()).unwrap()),
            Err(error) => {
                let is_quiet = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(is_quiet, "{error}");
                None
            }
        }
    }

    /// Waits for a line. Returns all messages up to and including it.
    fn wait_for(&self, line: &str) -> Vec<String> {
        let (end, mut received) = (Instant::now() + TIMEOUT, Vec::new());
        loop {
            assert!(Instant::now() < end, "{line} did not arrive, only {received:?}");
            let Some(message) = self.next() else { continue };
            let is_wanted = message.lines().any(|one| one == line);
            received.push(message);
            if is_wanted {
                return received;
            }
        }
    }
}

#[test]
fn each_state_reaches_the_manager() {
    let mut manager = Manager::new();
    let (engine, line) = Engine::spawn(manager.command());
    let address = line.trim().strip_prefix("READY http://").unwrap().to_owned();
    let ready = manager.wait_for("READY=1");
    let state = "STATUS=no wallet yet: create one with `bursar wallet create`";
    assert!(ready.iter().any(|one| one.starts_with("READY=1") && one.contains(state)), "{ready:?}");
    manager.home.create_wallet();
    manager.wait_for("STATUS=serving");
    manager.home.ask(&address);
    manager.wait_for("STATUS=serving, 1 waiting");
    manager.home.must("freeze");
    manager.wait_for("STATUS=agents are frozen: unfreeze them with `bursar thaw`");
    manager.home.must("wallet lock");
    manager.wait_for("STATUS=locked: open it with `bursar wallet open`");
    assert_eq!(engine.stop_with(Signal::TERM).0, Some(0));
    manager.wait_for("STOPPING=1");
}

#[test]
fn progress_is_reported_only_to_a_watchdog() {
    let manager = Manager::new();
    let mut watched = manager.command();
    watched.env("WATCHDOG_USEC", "300000");
    let (engine, _line) = Engine::spawn(watched);
    for _each in 0..3 {
        manager.wait_for("WATCHDOG=1");
    }
    // If the watchdog belongs to another process, the engine reports no progress.
    drop(engine);
    let manager = Manager::new();
    let mut other = manager.command();
    other.env("WATCHDOG_USEC", "300000").env("WATCHDOG_PID", "1");
    let (_engine, _line) = Engine::spawn(other);
    let mut received = manager.wait_for("READY=1");
    manager.home.must("wallet create main");
    received.extend(manager.wait_for("STATUS=serving"));
    // Reads for longer than several intervals of a watchdog.
    for _quiet in 0..10 {
        received.extend(manager.next());
    }
    assert!(!received.iter().any(|message| message.contains("WATCHDOG=1")), "{received:?}");
}

#[test]
fn a_start_that_fails_is_never_ready() {
    let manager = Manager::new();
    manager.home.must("wallet create main");
    let wrong = manager.home.dir.path().join("wrong");
    crate::stage::write_private_file(&wrong, "another password");
    let mut command = manager.command();
    let output = command.env("BURSAR_PASSWORD_FILE", wrong).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    while let Some(message) = manager.next() {
        assert!(!message.contains("READY=1"), "{message}");
    }
}
