//! Finds or installs the anvil binary: `BURSAR_ANVIL`, the kit in the target folder, or npm. A wallet never
//! calls this; npm runs only in tests and in `cargo xtask devnet`.

use std::path::PathBuf;

pub use super::kit::Kit;
use super::kit_environment::KitEnvironment;
pub use super::missing::MissingChain;
use super::skip::report_skip;
pub use super::wheels::Wheels;

/// The pinned local chain.
const ANVIL_KIT: Kit = Kit {
    package: "@foundry-rs/anvil-linux-amd64",
    manifest: include_str!("../kit/package.json"),
    lock: include_str!("../kit/package-lock.json"),
    // Names the platform's binary instead of the JavaScript wrapper, so that the process id is that of the chain.
    proof_file: "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil",
};

/// Returns the path of anvil, after installing it if necessary.
///
/// # Errors
/// The platform is not supported, a tool is missing, or the installation failed.
pub fn anvil_binary() -> Result<PathBuf, MissingChain> {
    binary(&KitEnvironment::read())
}

/// Returns the path of an anvil that is already on this machine: `BURSAR_ANVIL`, the installed kit, or `PATH`.
///
/// Installs nothing and runs nothing.
///
/// # Errors
/// There is no anvil, or `BURSAR_ANVIL` is not a file.
pub fn find_anvil() -> Result<PathBuf, MissingChain> {
    find(&KitEnvironment::read())
}

/// Returns the folder of a kit for tests, after installing it if necessary.
///
/// # Errors
/// A tool is missing, or the installation failed.
pub fn packages(kit: &Kit) -> Result<PathBuf, MissingChain> {
    let environment = KitEnvironment::read();
    kit.install(&environment)?;
    Ok(kit.folder(&environment))
}

/// Returns a Python with these packages for tests, after installing them if necessary.
///
/// # Errors
/// Python is missing, or the installation failed.
pub fn python(wheels: &Wheels) -> Result<PathBuf, MissingChain> {
    wheels.install(&KitEnvironment::read())
}

/// Returns the path of anvil for a test, or `None` if the test must be skipped.
///
/// If anvil is missing, the test fails with the command that installs it. If `BURSAR_TEST_SKIP` contains `chain`,
/// this function prints a notice instead and returns `None`, and the test returns.
pub fn chain_or_skip() -> Option<PathBuf> {
    let environment = KitEnvironment::read();
    if environment.skips("chain") {
        report_skip("BURSAR_TEST_SKIP names chain, and it needs the local chain");
        return None;
    }
    match binary(&environment) {
        Ok(path) => Some(path),
        Err(missing) => fail_test(&missing),
    }
}

#[expect(clippy::panic, reason = "called by tests only, to fail them with the line that helps")]
pub(crate) fn fail_test(missing: &MissingChain) -> ! {
    panic!("{missing}\n(BURSAR_TEST_SKIP=chain leaves the tests with a chain out)");
}

fn binary(environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
    if let Some(chosen) = anvil_from_environment(environment) {
        return chosen;
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(MissingChain::Platform {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
        });
    }
    ANVIL_KIT.install(environment)
}

fn find(environment: &KitEnvironment) -> Result<PathBuf, MissingChain> {
    if let Some(chosen) = anvil_from_environment(environment) {
        return chosen;
    }
    ANVIL_KIT
        .installed(environment)
        .or_else(|| environment.program("anvil"))
        .ok_or(MissingChain::NotInstalled)
}

/// Returns the path in `BURSAR_ANVIL`. A wrong path is an error, because a fallback would hide it.
fn anvil_from_environment(environment: &KitEnvironment) -> Option<Result<PathBuf, MissingChain>> {
    let path = environment.anvil.clone()?;
    Some(if path.is_file() { Ok(path) } else { Err(MissingChain::Override(path)) })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    fn environment(folder: &Path) -> KitEnvironment {
        KitEnvironment {
            path: folder.as_os_str().to_owned(),
            anvil: None,
            skip: String::new(),
            target: folder.join("target"),
        }
    }

    /// Writes the script in a separate process. Otherwise a child of another thread could inherit the file open for
    /// writing, and running the script would fail ("text file busy").
    fn script(folder: &Path, name: &str, body: &str) {
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", write, "sh"]).arg(folder.join(name)).arg(body);
        assert!(shell.status().unwrap().success());
    }

    #[test]
    fn a_missing_tool_error_contains_the_install_command() {
        let home = tempfile::tempdir().unwrap();
        let complaint = || binary(&environment(home.path())).unwrap_err().to_string();
        let line = "apt-get install -y nodejs npm";
        assert!(complaint().starts_with("node is missing") && complaint().ends_with(line));
        script(home.path(), "node", "echo v16.20.2");
        assert!(complaint().starts_with("npm is missing") && complaint().ends_with(line));
        script(home.path(), "npm", "echo 10.0.0");
        assert!(complaint().starts_with("node v16.20.2 is too old") && complaint().ends_with(line));
        script(home.path(), "node", "echo v18.0.0");
        script(home.path(), "npm", "echo not today >&2; exit 1");
        assert!(complaint().starts_with("npm does not work") && complaint().ends_with(line));
    }

    #[test]
    fn a_failed_install_leaves_nothing_that_looks_installed() {
        let home = tempfile::tempdir().unwrap();
        script(home.path(), "node", "echo v20.0.0");
        script(home.path(), "npm", "[ $1 = --version ] || { echo no registry >&2; exit 1; }");
        let error = binary(&environment(home.path())).unwrap_err().to_string();
        assert!(error.contains("no registry"), "{error}");
        let missing = find(&environment(home.path())).unwrap_err();
        assert_eq!(missing.to_string(), "no local chain is installed: cargo xtask devnet");
    }

    #[test]
    fn the_override_comes_first_and_must_exist() {
        let home = tempfile::tempdir().unwrap();
        let mut environment = environment(home.path());
        script(home.path(), "anvil", "");
        assert_eq!(find(&environment).unwrap(), home.path().join("anvil"));
        environment.anvil = Some(home.path().join("mine"));
        assert!(matches!(binary(&environment), Err(MissingChain::Override(_))));
        assert!(matches!(find(&environment), Err(MissingChain::Override(_))));
        script(home.path(), "mine", "");
        assert_eq!(binary(&environment).unwrap(), home.path().join("mine"));
    }

    #[test]
    fn the_lock_file_pins_bytes_and_names_no_host() {
        let compiler = include_str!("../kit/compiler/package-lock.json");
        let contracts = include_str!("../kit/packages/package-lock.json");
        for lock in [ANVIL_KIT.lock, compiler, contracts] {
            assert!(!lock.contains("http"));
            let parsed: serde_json::Value = serde_json::from_str(lock).unwrap();
            for (name, package) in parsed["packages"].as_object().unwrap() {
                assert!(name.is_empty() || package["integrity"].is_string(), "{name}");
            }
        }
    }
}
