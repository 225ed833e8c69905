//! Runs a simulated Ledger device: `bursar-ledger-device "<words>" [command port] [control port]`. Prints both
//! addresses.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use bursar_ledger_device::app::EthereumApp;
use bursar_ledger_device::device::Device;
use bursar_ledger_device::key::Seed;
use bursar_ledger_device::server::serve;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let words = arguments.next().unwrap_or_default();
    let mut port = || arguments.next().map_or(Ok(0), |port| port.parse::<u16>());
    let (Some(seed), Ok(commands), Ok(control)) = (Seed::from_words(&words), port(), port()) else {
        eprintln!("usage: bursar-ledger-device \"<12 to 24 words>\" [command port] [control port]");
        return ExitCode::from(2);
    };
    let ports = match serve(Arc::new(Device::new(EthereumApp::new(seed))), commands, control) {
        Ok(ports) => ports,
        Err(error) => {
            eprintln!("a port cannot be opened: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = std::io::stdout();
    let printed = writeln!(out, "commands {} control {}", ports.commands, ports.control);
    if printed.and_then(|()| out.flush()).is_err() {
        return ExitCode::FAILURE;
    }
    loop {
        std::thread::park();
    }
}
