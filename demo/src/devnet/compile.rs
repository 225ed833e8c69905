//! `cargo xtask devnet --recompile`: writes `devnet/Stable.json` anew from `devnet/contracts/Stable.sol`,
//! with a compiler that its own lock file pins. Only a change of the contract needs it; tests never do.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::{self, Kit};
use super::missing::MissingChain;
use super::surroundings::Surroundings;

const COMPILER: Kit = Kit {
    package: "solc",
    manifest: include_str!("../../devnet/compiler/package.json"),
    lock: include_str!("../../devnet/compiler/package-lock.json"),
    proof: "node_modules/solc/soljson.js",
};

/// Compiles the contract and returns the file that was written.
pub fn recompile() -> Result<PathBuf, MissingChain> {
    let around = Surroundings::read();
    COMPILER.install(&around)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("devnet");
    let written = source.join("Stable.json");
    let done = Command::new(kit::node(&around)?)
        .arg(source.join("compiler/compile.mjs"))
        .arg(source.join("contracts/Stable.sol"))
        .arg("Stable")
        .arg(&written)
        .current_dir(COMPILER.folder(&around))
        .output()
        .map_err(|error| MissingChain::BrokenTool { tool: "node", detail: error.to_string() })?;
    if done.status.success() {
        return Ok(written);
    }
    Err(MissingChain::Compile(kit::last_words(&done)))
}
