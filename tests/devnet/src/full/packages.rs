//! The bytecode of third-party contracts. It comes from npm when a chain is built, pinned by a lock file, and
//! stays in the target folder: some of the licences forbid us to distribute it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use alloy_primitives::{Bytes, hex};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::DevnetError;
use crate::kit::{self, Kit, Lock};
use crate::kit_environment::KitEnvironment;
use crate::missing::MissingChain;

pub(super) const KIT: Kit = Kit {
    package: "the contracts of Uniswap and Morpho",
    manifest: include_str!("../../kit/packages/package.json"),
    lock: include_str!("../../kit/packages/package-lock.json"),
    proof_file: "node_modules/solc/soljson.js",
};

/// Compiles Morpho Blue, whose package contains only sources.
pub(super) const COMPILE_MORPHO: &str = include_str!("../../kit/packages/morpho.mjs");

/// The installed packages and the contracts compiled from them.
#[derive(Debug)]
pub(super) struct Packages {
    root: PathBuf,
    morpho: Morpho,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Morpho {
    morpho: Bytes,
}

/// The output formats of two compilers: Hardhat writes the code itself, Foundry an object that contains it.
#[derive(Deserialize)]
#[serde(untagged)]
enum CreationCode {
    Code(Bytes),
    Object { object: Bytes },
}

#[derive(Deserialize)]
struct Artifact {
    bytecode: CreationCode,
}

impl Packages {
    pub(super) fn installed(environment: &KitEnvironment) -> bool {
        KIT.installed(environment).is_some()
    }

    pub(super) fn compiled(environment: &KitEnvironment) -> bool {
        morpho_file(&KIT.folder(environment)).is_file()
    }

    /// Installs the packages unless they are installed.
    pub(super) fn install(environment: &KitEnvironment) -> Result<(), MissingChain> {
        KIT.install(environment).map(|_proof| ())
    }

    /// Installs and compiles whatever is missing.
    pub(super) fn install_and_compile(environment: &KitEnvironment) -> Result<Self, DevnetError> {
        Self::install(environment)?;
        let root = KIT.folder(environment);
        let morpho = parse_file(&compiled(&root, environment)?)?;
        Ok(Self { root: root.join("node_modules"), morpho })
    }

    /// Returns the creation code of an artifact's contract with its encoded constructor arguments.
    pub(super) fn creation_code(
        &self,
        artifact: &str,
        arguments: &[u8],
    ) -> Result<Bytes, DevnetError> {
        let artifact: Artifact = parse_file(&self.root.join(artifact))?;
        let (CreationCode::Code(code) | CreationCode::Object { object: code }) = artifact.bytecode;
        Ok([code.as_ref(), arguments].concat().into())
    }

    pub(super) fn morpho(&self, arguments: &[u8]) -> Bytes {
        [self.morpho.morpho.as_ref(), arguments].concat().into()
    }
}

/// Returns the path of the compiled Morpho. It depends on the compile script, so a changed
/// script leads to another file.
fn morpho_file(root: &Path) -> PathBuf {
    let mut digest = hex::encode(Sha256::digest(COMPILE_MORPHO));
    digest.truncate(16);
    root.join(format!("morpho-{digest}.json"))
}

/// Returns the file of the compiled Morpho, after compiling it if necessary.
fn compiled(root: &Path, environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
    let file = morpho_file(root);
    let _guard = Lock::wait(&file.with_extension("lock"))?;
    if file.is_file() {
        return Ok(file);
    }
    let script = file.with_extension("mjs");
    fs::write(&script, COMPILE_MORPHO).map_err(kit::path_error(&script))?;
    let partial = file.with_extension("partial");
    let done = Command::new(kit::node(environment)?)
        .args([&script, &partial])
        .current_dir(root)
        .output()
        .map_err(|error| MissingChain::BrokenTool { tool: "node", detail: error.to_string() })?;
    if !done.status.success() {
        return Err(MissingChain::Compile(kit::error_tail(&done)));
    }
    fs::rename(&partial, &file).map_err(kit::path_error(&file))?;
    Ok(file)
}

fn parse_file<T: DeserializeOwned>(file: &Path) -> Result<T, DevnetError> {
    let text = fs::read(file).map_err(|error| file_error(file, &error))?;
    serde_json::from_slice(&text).map_err(|error| file_error(file, &error))
}

fn file_error(file: &Path, error: &dyn std::error::Error) -> DevnetError {
    DevnetError::Contract(format!("{}: {error}", file.display()))
}
