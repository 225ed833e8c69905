//! Ledger's own host library drives the simulated device through the recorded cases.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bursar_devnet::install::packages;
use bursar_ledger_device::app::EthereumApp;
use bursar_ledger_device::device::Device;
use bursar_ledger_device::key::Seed;
use bursar_ledger_device::server::serve;
use serde_json::Value;

use crate::ledger::transcripts::PACKAGES;

#[test]
fn the_host_library_gets_the_recorded_results_from_the_simulated_device() {
    let kit = packages(&PACKAGES).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = here.join("../shared/ledger/tests/vectors/ledger-ethereum.json");
    let recorded: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let seed = Seed::from_words(recorded["mnemonic"].as_str().unwrap()).unwrap();
    let ports = serve(Arc::new(Device::new(EthereumApp::new(seed))), 0, 0).unwrap();

    let folder = tempfile::tempdir().unwrap();
    fs::copy(here.join("ledger/cases.mjs"), folder.path().join("cases.mjs")).unwrap();
    symlink(kit.join("node_modules"), folder.path().join("node_modules")).unwrap();
    let output = Command::new("node")
        .current_dir(folder.path())
        .arg("cases.mjs")
        .args([path.to_str().unwrap(), &ports.commands.to_string(), &ports.control.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let cases = recorded["cases"].as_array().unwrap();
    assert_eq!(lines.lines().count(), cases.len());
    let mut exchanges = 0;
    for (line, case) in lines.lines().zip(cases) {
        let now: Value = serde_json::from_str(line).unwrap();
        assert_eq!(now["name"], case["name"]);
        assert_eq!(now["apdus"], case["apdus"], "{}", case["name"]);
        match case["result"]["sw"].as_str() {
            Some(word) => assert_eq!(now["result"]["sw"], word, "{}", case["name"]),
            None => assert_eq!(now["result"], case["result"], "{}", case["name"]),
        }
        exchanges += now["apdus"].as_array().unwrap().len() / 2;
    }
    assert_eq!(exchanges, 79);
}
