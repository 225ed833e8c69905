//! The unlock tier with a TPM, which an emulator provides.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{BootEnd, Machine};
use bursar_devnet::report_skip;

/// An emulated TPM 2 that listens on this machine.
struct Tpm(Child);

impl Drop for Tpm {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

impl Tpm {
    fn start(state: &std::path::Path, port: u16) -> Self {
        std::fs::create_dir_all(state).unwrap();
        let control = port + 1;
        let child = Command::new("swtpm")
            .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear"])
            .arg("--tpmstate")
            .arg(format!("dir={}", state.display()))
            .args(["--server", &format!("type=tcp,port={port},bindaddr=127.0.0.1")])
            .args(["--ctrl", &format!("type=tcp,port={control},bindaddr=127.0.0.1")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let tpm = Self(child);
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", control)).is_err() {
            assert!(Instant::now() < end, "swtpm does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        tpm
    }
}

/// Finds a free port whose successor is free too.
fn free_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// Returns whether this machine has the libraries with which systemd reaches a TPM over the network.
fn has_libraries() -> bool {
    let known = Command::new("/sbin/ldconfig").arg("-p").output().map(|output| output.stdout);
    let known = String::from_utf8_lossy(&known.unwrap_or_default()).into_owned();
    ["libtss2-esys.so", "libtss2-mu.so", "libtss2-rc.so", "libtss2-tcti-swtpm.so"]
        .into_iter()
        .all(|library| known.contains(library))
}

#[test]
fn the_password_opens_with_this_machines_tpm_only() {
    let Some(mut machine) = Machine::new() else { return };
    if Command::new("swtpm").arg("--version").output().is_err() || !has_libraries() {
        report_skip(
            "swtpm or its libraries are missing (apt-get install -y swtpm libtss2-tcti-swtpm0 \
             libtss2-esys-3.0.2-0 libtss2-mu0 libtss2-rc0)",
        );
        return;
    }
    let port = free_ports();
    let device = format!("SYSTEMD_TPM2_DEVICE=swtpm:host=127.0.0.1,port={port}");
    machine.share_network(&device);
    let state = machine.path("tpm-state");
    let tpm = Tpm::start(&state, port);
    let script = format!("export {device}; touch /dev/tpmrm0\n");
    let first = machine.boot(
        &format!(
            "{script}$B install-service --system --yes; furnish\n\
             step unlock $B install-service --system --unlock --daily 5 --yes --password-file $PW\n\
             step status owner status\n"
        ),
        BootEnd::PowerCut,
    );
    assert!(first.must("unlock").contains("unlock    host key and TPM"), "{}", first.text());
    assert!(first.must("unlock").contains("the disk alone does not open the wallet"));
    assert!(first.must("status").contains("opens without you (host key and TPM)"));
    drop(tpm);

    let tpm = Tpm::start(&state, port);
    let second =
        machine.boot("step pay pay a 1000000\nstep doctor owner doctor\n", BootEnd::PowerCut);
    assert_eq!(second.must("pay"), "200 signed", "{}", second.text());
    assert!(second.step("doctor").1.contains("host key and TPM"), "{}", second.text());
    drop(tpm);

    // The disk is moved to another machine, which has a different TPM.
    let _other = Tpm::start(&machine.path("tpm-other"), port);
    let third = machine.boot("step state systemctl show bursar --property=ActiveState,ExecMainStatus\nstep status $B service status\n", BootEnd::PowerCut);
    assert!(third.must("state").contains("ExecMainStatus=243"), "{}", third.text());
    let (code, text) = third.step("status");
    assert_eq!(code, 3);
    assert!(text.contains("cannot be opened on this machine"), "{text}");
}
