//! `cargo xtask devnet --recompile`: compiles our own contracts from `kit/contracts` again, with a compiler
//! pinned by its own lock file. Only a changed contract needs it; tests never do.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::{self, Kit};
use super::kit_environment::KitEnvironment;
use super::missing::MissingChain;
use super::own_contracts::{self, OwnContract};

const COMPILER: Kit = Kit {
    package: "solc",
    manifest: include_str!("../kit/compiler/package.json"),
    lock: include_str!("../kit/compiler/package-lock.json"),
    proof: "node_modules/solc/soljson.js",
};

/// Compiles our contracts and returns the folder with their bytecode.
///
/// # Errors
/// The compiler cannot be installed, or a contract does not compile.
pub fn recompile() -> Result<PathBuf, MissingChain> {
    let environment = KitEnvironment::read();
    COMPILER.install(&environment)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
    for contract in &own_contracts::ALL {
        compile(contract, &folder, &environment)?;
    }
    Ok(folder)
}

fn compile(
    contract: &OwnContract,
    folder: &Path,
    environment: &KitEnvironment,
) -> Result<(), MissingChain> {
    let done = Command::new(kit::node(environment)?)
        .arg(folder.join("compiler/compile.mjs"))
        .arg(folder.join("contracts").join(contract.name).with_extension("sol"))
        .arg(contract.name)
        .arg(folder.join(contract.name).with_extension("json"))
        .arg(contract.evm)
        .current_dir(COMPILER.folder(environment))
        .output()
        .map_err(|error| MissingChain::BrokenTool { tool: "node", detail: error.to_string() })?;
    if done.status.success() {
        return Ok(());
    }
    Err(MissingChain::Compile(kit::error_tail(&done)))
}
