//! Installs a set of Python packages pinned by hashes, once for all processes that share a target folder. Runs
//! pip, so it is only for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::kit::{Lock, error_tail, path_error, remove};
use super::kit_environment::KitEnvironment;
use super::missing::MissingChain;

/// A set of packages that are installed together, in their own virtual environment.
#[derive(Debug)]
pub struct Wheels {
    /// The name of the set in errors of its installation.
    pub package: &'static str,
    /// The text of `requirements.txt`: every package with its version and hashes.
    pub requirements: &'static str,
}

impl Wheels {
    /// Installs the packages unless they are installed; returns the Python that has them.
    pub(crate) fn install(&self, environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
        let python = environment
            .program("python3")
            .ok_or_else(|| self.broken_python("python3 is missing"))?;
        let folder = self.folder(&python, environment)?;
        let parent = environment.target.join("devnet");
        let ready = folder.join("bin/python");
        if ready.is_file() {
            return Ok(ready);
        }
        fs::create_dir_all(&parent).map_err(path_error(&parent))?;
        let _guard = Lock::wait(&parent.join("install.lock"))?;
        // Another process may have installed them while this one waited for the lock.
        if ready.is_file() {
            return Ok(ready);
        }
        let staging = folder.with_extension("partial");
        self.install_packages(&staging, &python, environment)?;
        remove(&folder)?;
        fs::rename(&staging, &folder).map_err(path_error(&folder))?;
        Ok(ready)
    }

    /// Returns the folder of the environment. Its name depends on the list and on the Python, because an environment
    /// refers to the Python that created it.
    fn folder(&self, python: &Path, environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
        let mut query = Command::new(python);
        let version = self.run(
            query.args(["-c", "import sys; print(sys.executable, sys.version)"]),
            environment,
        )?;
        let mut digest = hex::encode(Sha256::digest([self.requirements, &version].concat()));
        digest.truncate(16);
        Ok(environment.target.join("devnet").join(digest))
    }

    fn install_packages(
        &self,
        folder: &Path,
        python: &Path,
        environment: &KitEnvironment,
    ) -> Result<(), MissingChain> {
        remove(folder)?;
        self.run(Command::new(python).args(["-m", "venv"]).arg(folder), environment)?;
        let list = folder.join("requirements.txt");
        fs::write(&list, self.requirements).map_err(path_error(&list))?;
        // pip builds nothing here, and installs only what the list pins. The list is complete. Without `--no-deps`,
        // an old pip resolves a dependency with extras again and takes a release newer than the pin.
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--no-deps", "--require-hashes"])
            .args(["--only-binary", ":all:"])
            .args(["--no-input", "--disable-pip-version-check", "--quiet", "--requirement"])
            .arg(&list);
        self.run(&mut pip, environment)?;
        Ok(())
    }

    fn run(
        &self,
        command: &mut Command,
        environment: &KitEnvironment,
    ) -> Result<String, MissingChain> {
        let done = command.env("PATH", &environment.path).output();
        let done = done.map_err(|error| self.broken_python(&error.to_string()))?;
        if !done.status.success() {
            return Err(self.broken_python(&error_tail(&done)));
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn broken_python(&self, detail: &str) -> MissingChain {
        MissingChain::Wheels { package: self.package, detail: detail.to_owned() }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    const NONE: Wheels = Wheels { package: "nothing", requirements: "" };

    #[test]
    fn a_missing_python_error_contains_the_install_command() {
        let home = tempfile::tempdir().unwrap();
        let environment = KitEnvironment {
            path: home.path().as_os_str().to_owned(),
            anvil: None,
            skip: String::new(),
            target: home.path().join("target"),
        };
        let complaint = NONE.install(&environment).unwrap_err().to_string();
        assert!(complaint.contains("apt-get install -y python3 python3-venv"), "{complaint}");
        assert!(complaint.ends_with("python3 is missing"), "{complaint}");
        assert!(!home.path().join("target").exists());
    }
}
