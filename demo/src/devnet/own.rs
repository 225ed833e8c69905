//! The contracts of the local chain that are our own: source and bytecode lie side by side in `devnet/`,
//! and a test keeps one from drifting away from the other.

use alloy_primitives::Bytes;
use serde::Deserialize;

use super::DevnetError;

/// A contract of ours.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) name: &'static str,
    /// What the compiler made, and of what: the text of `devnet/<name>.json`.
    pub(super) compiled: &'static str,
    /// `devnet/contracts/<name>.sol`.
    #[cfg(test)]
    source: &'static str,
    /// The sources that it imports, in the order of their names.
    #[cfg(test)]
    imports: &'static [&'static str],
}

macro_rules! own {
    ($name:literal $(, imports $import:literal)*) => {
        Own {
            name: $name,
            compiled: include_str!(concat!("../../devnet/", $name, ".json")),
            #[cfg(test)]
            source: include_str!(concat!("../../devnet/contracts/", $name, ".sol")),
            #[cfg(test)]
            imports: &[$(include_str!(concat!("../../devnet/contracts/", $import, ".sol"))),*],
        }
    };
}

pub(super) const STABLE: Own = own!("Stable");
pub(super) const WETH: Own = own!("Weth");
pub(super) const ORACLE: Own = own!("Oracle");
pub(super) const ROUTER: Own = own!("Router");
pub(super) const VAULT: Own = own!("Vault");
pub(super) const EXACT_PERMIT2_PROXY: Own = own!("ExactPermit2Proxy");
pub(super) const PRISM: Own = own!("Prism");
pub(super) const WALLET: Own = own!("Wallet");
pub(super) const WALLET_FACTORY: Own = own!("WalletFactory", imports "Wallet");
pub(super) const HOSTILE_WALLET: Own = own!("HostileWallet", imports "Wallet");
pub(super) const HOSTILE_TOKEN: Own = own!("HostileToken", imports "Stable");
pub(super) const PLAIN_TOKEN: Own = own!("PlainToken");

/// All of them: what `cargo xtask devnet --recompile` compiles.
pub(super) const ALL: [Own; 12] = [
    STABLE,
    WETH,
    ORACLE,
    ROUTER,
    VAULT,
    EXACT_PERMIT2_PROXY,
    PRISM,
    WALLET,
    WALLET_FACTORY,
    HOSTILE_WALLET,
    HOSTILE_TOKEN,
    PLAIN_TOKEN,
];

#[derive(Deserialize)]
struct Compiled {
    bytecode: Bytes,
}

impl Own {
    /// The code that creates one, given its constructor's encoded arguments.
    pub(super) fn creation_code(&self, arguments: &[u8]) -> Result<Bytes, DevnetError> {
        let compiled: Compiled = serde_json::from_str(self.compiled).map_err(|error| {
            DevnetError::Contract(format!("devnet/{}.json: {error}", self.name))
        })?;
        Ok([compiled.bytecode.as_ref(), arguments].concat().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_bytecode_was_compiled_from_the_source_beside_it() {
        for own in ALL {
            let compiled: serde_json::Value = serde_json::from_str(own.compiled).unwrap();
            assert_eq!(
                compiled["source_sha256"],
                hex::encode(Sha256::digest([&[own.source], own.imports].concat().concat())),
                "{}.sol changed: cargo xtask devnet --recompile",
                own.name
            );
        }
    }
}
