//! `cargo xtask devnet --recompile`: compiles our own contracts from `kit/contracts` again, with a compiler
//! pinned by its own lock file. Only a changed contract needs it; tests never do.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::{self, Kit};
use super::missing::MissingChain;
use super::own::{self, Own};
use super::surroundings::Surroundings;

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
    let around = Surroundings::read();
    COMPILER.install(&around)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit");
    for own in &own::ALL {
        compile(own, &folder, &around)?;
    }
    Ok(folder)
}

fn compile(own: &Own, folder: &Path, around: &Surroundings) -> Result<(), MissingChain> {
    let done = Command::new(kit::node(around)?)
        .arg(folder.join("compiler/compile.mjs"))
        .arg(folder.join("contracts").join(own.name).with_extension("sol"))
        .arg(own.name)
        .arg(folder.join(own.name).with_extension("json"))
        .current_dir(COMPILER.folder(around))
        .output()
        .map_err(|error| MissingChain::BrokenTool { tool: "node", detail: error.to_string() })?;
    if done.status.success() {
        return Ok(());
    }
    Err(MissingChain::Compile(kit::last_words(&done)))
}
