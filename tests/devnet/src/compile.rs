//! `cargo xtask devnet --recompile`: compiles our own contracts from `kit/contracts` and the facilitator's contract
//! again, with a compiler pinned by its own lock file. Only a changed contract needs it; tests never do.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::{self, Kit};
use super::kit_environment::KitEnvironment;
use super::missing::MissingChain;
use super::own_contracts;

const COMPILER: Kit = Kit {
    package: "solc",
    manifest: include_str!("../kit/compiler/package.json"),
    lock: include_str!("../kit/compiler/package-lock.json"),
    proof_file: "node_modules/solc/soljson.js",
};

/// Compiles our contracts and returns the folder with their bytecode.
///
/// # Errors
/// The compiler cannot be installed, or a contract does not compile.
pub fn recompile() -> Result<PathBuf, MissingChain> {
    let environment = KitEnvironment::read();
    COMPILER.install(&environment)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
    let sources = folder.join("contracts");
    for contract in &own_contracts::ALL {
        compile((contract.name, contract.evm), &sources, &folder, &environment)?;
    }
    let product = folder.join("../../../facilitator/contracts");
    compile(("UptoFacilitator", "paris"), &product, &product, &environment)?;
    Ok(folder)
}

/// Compiles a contract of the folder `sources` for an `evmVersion`, and writes its bytecode to `target`.
fn compile(
    (name, evm): (&str, &str),
    sources: &Path,
    target: &Path,
    environment: &KitEnvironment,
) -> Result<(), MissingChain> {
    let compiler = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/compiler/compile.mjs");
    let done = Command::new(kit::node(environment)?)
        .arg(compiler)
        .arg(sources.join(name).with_extension("sol"))
        .arg(name)
        .arg(target.join(name).with_extension("json"))
        .arg(evm)
        .current_dir(COMPILER.folder(environment))
        .output()
        .map_err(|error| MissingChain::BrokenTool { tool: "node", detail: error.to_string() })?;
    if done.status.success() {
        return Ok(());
    }
    Err(MissingChain::Compile(kit::error_tail(&done)))
}
