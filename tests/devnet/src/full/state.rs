//! The recorded states of full chains: one file for each chain in the target folder. Its name contains a hash
//! of everything that determines its content. It is built once and loaded by every later chain.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bursar_core::networks::Network;
use sha2::{Digest, Sha256};

use super::addresses::Contracts;
use super::builder::Builder;
use super::packages::{self, Packages};
use crate::error::DevnetError;
use crate::kit::{Lock, path_error, remove};
use crate::kit_environment::KitEnvironment;
use crate::missing::MissingChain;
use crate::node::Devnet;
use crate::own_contracts;
use crate::process::Origin;

/// Every file that determines the content of a chain. A change to any of them leads to another state.
const STATE_SOURCES: &[(&str, &str)] = &[
    ("addresses.rs", include_str!("addresses.rs")),
    ("builder.rs", include_str!("builder.rs")),
    ("lending.rs", include_str!("lending.rs")),
    ("lending_abi.rs", include_str!("lending_abi.rs")),
    ("liquidity.rs", include_str!("liquidity.rs")),
    ("head.rs", include_str!("head.rs")),
    ("loans.rs", include_str!("loans.rs")),
    ("packages.rs", include_str!("packages.rs")),
    ("settling.rs", include_str!("settling.rs")),
    ("state.rs", include_str!("state.rs")),
    ("swaps.rs", include_str!("swaps.rs")),
    ("v3.rs", include_str!("v3.rs")),
    ("v4.rs", include_str!("v4.rs")),
    ("vault_lies.rs", include_str!("vault_lies.rs")),
    ("vault_settings.rs", include_str!("vault_settings.rs")),
    ("venues.rs", include_str!("venues.rs")),
    ("../call.rs", include_str!("../call.rs")),
    ("../node.rs", include_str!("../node.rs")),
    ("../process.rs", include_str!("../process.rs")),
    ("../stable.rs", include_str!("../stable.rs")),
    ("../stablecoin.rs", include_str!("../stablecoin.rs")),
    ("../transactions.rs", include_str!("../transactions.rs")),
    ("Multicall3.json", include_str!("../../kit/Multicall3.json")),
    ("Permit2.json", include_str!("../../kit/Permit2.json")),
];

/// Time by which a chain's clock starts before its recording. Every loader must therefore bring the clock up to date,
/// even for a state that is a second old. A mistake in this step shows at once and not a day later.
const CLOCK_OFFSET: Duration = Duration::from_secs(24 * 60 * 60);

/// The chain that a state holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) network: &'static Network,
    /// The number of the chain's first block.
    pub(super) from_block: u64,
}

/// Returns the file of a chain's state, after building it if necessary. One process builds it; others wait.
pub(super) async fn recorded_state(anvil: &Path, chain: Chain) -> Result<PathBuf, DevnetError> {
    recorded_state_in(KitEnvironment::read(), anvil, chain).await
}

async fn recorded_state_in(
    environment: KitEnvironment,
    anvil: &Path,
    chain: Chain,
) -> Result<PathBuf, DevnetError> {
    let file = state_file(anvil, chain, &environment)?;
    if file.is_file() {
        return Ok(file);
    }
    // The lock and the preparation block for a while, and this thread may have other tests to run.
    let lock = file.with_extension("lock");
    let prepare = move || {
        let packages = Packages::install_and_compile(&environment)?;
        let guard = Lock::wait(&lock)?;
        Ok::<_, DevnetError>((packages, guard))
    };
    let (packages, _guard) = tokio::task::spawn_blocking(prepare)
        .await
        .map_err(|error| DevnetError::Start(error.to_string()))??;
    if !file.is_file() {
        let partial = file.with_extension("partial");
        // A partial file that a killed build left must not be mistaken for the new one.
        remove(&partial)?;
        record(anvil, chain, &packages, &partial).await?;
        fs::rename(&partial, &file).map_err(path_error(&file))?;
    }
    Ok(file)
}

/// Returns whether [`recorded_state`] would find the state.
pub(super) fn is_recorded(anvil: &Path, chain: Chain) -> Result<bool, DevnetError> {
    Ok(state_file(anvil, chain, &KitEnvironment::read())?.is_file())
}

async fn record(
    anvil: &Path,
    chain: Chain,
    packages: &Packages,
    to: &Path,
) -> Result<(), DevnetError> {
    let Chain { network, from_block } = chain;
    let unknown = DevnetError::UnknownChain(network.chain);
    let contracts = Contracts::of(network.chain).ok_or(unknown)?;
    let from_s = now_s().saturating_sub(CLOCK_OFFSET.as_secs());
    let origin = Origin::Recorded { to: to.to_owned(), from_s, from_block };
    let devnet = Devnet::spawn(anvil, network, &origin).await?;
    devnet.check_empty(&contracts).await?;
    Builder::new(&devnet, contracts, packages).build().await?;
    devnet.finish().await
}

/// Returns the machine's time in seconds, the unit of the local chain.
pub(super) fn now_s() -> u64 {
    jiff::Timestamp::now().as_second().unsigned_abs()
}

fn state_file(
    anvil: &Path,
    chain: Chain,
    environment: &KitEnvironment,
) -> Result<PathBuf, DevnetError> {
    let folder = environment.target.join("devnet").join("states");
    fs::create_dir_all(&folder).map_err(path_error(&folder))?;
    let mut key = hex::encode(key(anvil, chain)?);
    key.truncate(16);
    Ok(folder.join(format!("{}-{key}.json", chain.network.chain)))
}

fn key(anvil: &Path, chain: Chain) -> Result<Vec<u8>, MissingChain> {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    };
    add(&format!("{chain:?}"));
    add(&stamp(anvil)?);
    for text in [packages::KIT.lock, packages::COMPILE_MORPHO] {
        add(text);
    }
    for contract in &own_contracts::ALL {
        add(contract.compiled);
    }
    for (_name, text) in STATE_SOURCES {
        add(text);
    }
    Ok(digest.finalize().to_vec())
}

/// Identifies an anvil binary by size and time, because hashing its 40 MB is slow. A state is tied to its anvil,
/// because another version may write states that this one cannot read.
fn stamp(anvil: &Path) -> Result<String, MissingChain> {
    let about = fs::metadata(anvil).map_err(path_error(anvil))?;
    let changed = about.modified().map_err(path_error(anvil))?;
    let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{} {} {}", anvil.display(), about.len(), changed.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::networks::{ChainId, by_chain};
    use std::os::unix::fs::{MetadataExt, symlink};

    fn chain(id: u64) -> Chain {
        Chain { network: by_chain(ChainId(id)).unwrap(), from_block: 0 }
    }

    /// Prepares a separate target folder that contains the packages of the real one.
    fn empty_target(folder: &Path) -> KitEnvironment {
        let environment = KitEnvironment::read();
        Packages::install_and_compile(&environment).unwrap();
        let empty = KitEnvironment { target: folder.to_owned(), ..environment.clone() };
        fs::create_dir(folder.join("devnet")).unwrap();
        symlink(packages::KIT.folder(&environment), packages::KIT.folder(&empty)).unwrap();
        empty
    }

    #[tokio::test]
    async fn concurrent_starts_build_one_state() {
        let Some(anvil) = crate::install::chain_or_skip() else { return };
        let folder = tempfile::tempdir().unwrap();
        let environment = empty_target(folder.path());
        let base = chain(8453);
        let start = || async {
            let file = recorded_state_in(environment.clone(), &anvil, base).await.unwrap();
            // A second build would replace the file, which changes its inode.
            (fs::metadata(&file).unwrap().ino(), file)
        };
        let (one, two, three) = tokio::join!(start(), start(), start());
        assert_eq!((&one, &one), (&two, &three));
        assert_eq!(start().await, one);
        let names = fs::read_dir(folder.path().join("devnet/states")).unwrap();
        let left = names.filter(|name| {
            name.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "partial")
        });
        assert_eq!(left.count(), 0);
    }

    #[tokio::test]
    async fn a_build_that_fails_leaves_no_state() {
        if crate::install::chain_or_skip().is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let environment = empty_target(folder.path());
        let base = chain(8453);
        let wrong = Path::new("/bin/false");
        assert!(recorded_state_in(environment.clone(), wrong, base).await.is_err());
        assert!(!state_file(wrong, base, &environment).unwrap().exists());
    }

    #[test]
    fn every_source_file_is_in_the_recipe() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/full");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            // Timing code does not affect the content of a chain.
            let counts =
                STATE_SOURCES.iter().any(|(counted, _)| *counted == name) || name == "times.rs";
            assert!(counts, "{name} is missing in STATE_SOURCES");
        }
    }

    #[test]
    fn another_chain_or_anvil_version_has_its_own_state() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "1").unwrap();
        fs::write(&other, "2").unwrap();
        let base = chain(8453);
        let robinhood = chain(4663);
        let first = key(&one, base).unwrap();
        assert_eq!(key(&one, base).unwrap(), first);
        assert_ne!(key(&other, base).unwrap(), first);
        assert_ne!(key(&one, robinhood).unwrap(), first);
        assert_ne!(key(&one, Chain { from_block: 7, ..base }).unwrap(), first);
        fs::write(&one, "10").unwrap();
        assert_ne!(key(&one, base).unwrap(), first);
    }
}
