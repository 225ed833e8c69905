//! The errors for a missing local chain. Each names the missing tool and the command that installs it.

use std::io;
use std::path::PathBuf;

/// The command that installs node and npm on the systems that we test on.
const INSTALL_TOOLS_COMMAND: &str = "apt-get install -y nodejs npm";

/// Why no usable anvil was found, and how to install one.
#[derive(Debug, thiserror::Error)]
pub enum MissingChain {
    #[error(
        "the local chain comes as a Linux x86-64 binary, and this is {os} {arch}: \
         set BURSAR_ANVIL to the path of an anvil of your own"
    )]
    Platform { os: &'static str, arch: &'static str },
    #[error("BURSAR_ANVIL names {0}, which is not a file")]
    Override(PathBuf),
    #[error("{0} is missing, the local chain is installed with it: {INSTALL_TOOLS_COMMAND}")]
    Tool(&'static str),
    #[error("{tool} does not work ({detail}): {INSTALL_TOOLS_COMMAND}")]
    BrokenTool { tool: &'static str, detail: String },
    #[error(
        "node {found} is too old, the local chain kit needs 18 or newer: {INSTALL_TOOLS_COMMAND}"
    )]
    OldNode { found: String },
    #[error("cannot use the folder {path}: {source}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("npm ci did not install {package}, is the package registry in reach?\n{detail}")]
    Install { package: &'static str, detail: String },
    #[error(
        "pip did not install {package}: is the package registry in reach, and is this Python 3.11 or newer \
         with its venv (apt-get install -y python3 python3-venv)?\n{detail}"
    )]
    Wheels { package: &'static str, detail: String },
    #[error("the contract does not compile:\n{0}")]
    Compile(String),
    #[error("no local chain is installed: cargo xtask devnet")]
    NotInstalled,
}
