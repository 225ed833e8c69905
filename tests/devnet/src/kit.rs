//! Installs a set of npm packages pinned by a lock file, once for all processes that share a target folder.
//! Runs npm, so it is only for tests and `cargo xtask devnet`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use super::kit_environment::KitEnvironment;
use super::missing::MissingChain;

const NODE_MAJOR_MIN: u32 = 18;

/// A set of packages that are installed together.
#[derive(Debug)]
pub struct Kit {
    /// The name of the set in errors of its installation.
    pub package: &'static str,
    /// The text of `package.json`.
    pub manifest: &'static str,
    /// The text of `package-lock.json`.
    pub lock: &'static str,
    /// A file of the kit, relative to its folder, whose existence proves the installation.
    pub proof_file: &'static str,
}

impl Kit {
    /// Returns the folder of the installed kit. Its name depends on the lock file, so a changed lock file never
    /// finds files of older versions.
    pub(crate) fn folder(&self, environment: &KitEnvironment) -> PathBuf {
        let mut digest = hex::encode(Sha256::digest(self.lock));
        digest.truncate(16);
        environment.target.join("devnet").join(digest)
    }

    /// Returns the proof file if the kit is installed. The folder gets its final name only when complete.
    pub(crate) fn installed(&self, environment: &KitEnvironment) -> Option<PathBuf> {
        Some(self.folder(environment).join(self.proof_file)).filter(|file| file.is_file())
    }

    /// Installs the kit unless it is installed; returns the proof file.
    pub(crate) fn install(&self, environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
        if let Some(file) = self.installed(environment) {
            return Ok(file);
        }
        let npm = check_tools(environment)?;
        let folder = self.folder(environment);
        let parent = environment.target.join("devnet");
        fs::create_dir_all(&parent).map_err(path_error(&parent))?;
        let _guard = Lock::wait(&parent.join("install.lock"))?;
        // Another process may have installed it while this one waited for the lock.
        if let Some(file) = self.installed(environment) {
            return Ok(file);
        }
        let staging = folder.with_extension("partial");
        self.install_packages(&staging, &npm, environment)?;
        remove(&folder)?;
        fs::rename(&staging, &folder).map_err(path_error(&folder))?;
        self.installed(environment).ok_or_else(|| MissingChain::Install {
            package: self.package,
            detail: format!("npm reported success without {}", self.proof_file),
        })
    }

    fn install_packages(
        &self,
        folder: &Path,
        npm: &Path,
        environment: &KitEnvironment,
    ) -> Result<(), MissingChain> {
        remove(folder)?;
        fs::create_dir_all(folder).map_err(path_error(folder))?;
        for (name, text) in [("package.json", self.manifest), ("package-lock.json", self.lock)] {
            let file = folder.join(name);
            fs::write(&file, text).map_err(path_error(&file))?;
        }
        // Packages' own scripts never run: the lock file pins their bytes, but not their behaviour.
        let done = Command::new(npm)
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps"])
            .current_dir(folder)
            .env("PATH", &environment.path)
            .output()
            .map_err(|error| broken_tool("npm", error.to_string()))?;
        if done.status.success() {
            return Ok(());
        }
        Err(MissingChain::Install { package: self.package, detail: error_tail(&done) })
    }
}

/// A file lock, exclusive among processes and threads, held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _held: File,
}

impl Lock {
    /// Blocks until the lock is free.
    pub(crate) fn wait(path: &Path) -> Result<Self, MissingChain> {
        let file = File::create(path).map_err(path_error(path))?;
        file.lock().map_err(path_error(path))?;
        Ok(Self { _held: file })
    }
}

/// Returns npm if node and npm work and are recent enough.
fn check_tools(environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
    let node = node(environment)?;
    let npm = environment.program("npm").ok_or(MissingChain::Tool("npm"))?;
    let found = version("node", &node, environment)?;
    let major = found.trim_start_matches('v').split('.').next().unwrap_or_default();
    match major.parse::<u32>() {
        Ok(major) if major >= NODE_MAJOR_MIN => {}
        Ok(_) => return Err(MissingChain::OldNode { found }),
        Err(_) => return Err(broken_tool("node", format!("--version says {found:?}"))),
    }
    version("npm", &npm, environment)?;
    Ok(npm)
}

/// Returns the path of node.
pub(crate) fn node(environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
    environment.program("node").ok_or(MissingChain::Tool("node"))
}

fn version(
    tool: &'static str,
    program: &Path,
    environment: &KitEnvironment,
) -> Result<String, MissingChain> {
    let output = Command::new(program)
        .arg("--version")
        .env("PATH", &environment.path)
        .output()
        .map_err(|error| broken_tool(tool, error.to_string()))?;
    if !output.status.success() {
        return Err(broken_tool(tool, error_tail(&output)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the exit status and the last lines of a program's error output.
pub(crate) fn error_tail(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let skip = lines.len().saturating_sub(12);
    let tail: Vec<&str> = lines.into_iter().skip(skip).collect();
    format!("{}\n{}", output.status, tail.join("\n"))
}

fn broken_tool(tool: &'static str, detail: String) -> MissingChain {
    MissingChain::BrokenTool { tool, detail }
}

/// Removes a file or folder if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), MissingChain> {
    let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(path_error(path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn path_error(path: &Path) -> impl Fn(io::Error) -> MissingChain + use<> {
    let path = path.to_owned();
    move |source| MissingChain::Folder { path: path.clone(), source }
}
