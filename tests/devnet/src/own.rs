//! The contracts of the local chain that are our own: source and bytecode lie side by side in `kit/`,
//! and a test keeps one from drifting away from the other.

use alloy_primitives::Bytes;
use serde::Deserialize;

use crate::error::DevnetError;

/// A contract of ours.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) name: &'static str,
    /// What the compiler made, and of what: the text of `kit/<name>.json`.
    pub(crate) compiled: &'static str,
    /// `kit/contracts/<name>.sol`.
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
            compiled: include_str!(concat!("../kit/", $name, ".json")),
            #[cfg(test)]
            source: include_str!(concat!("../kit/contracts/", $name, ".sol")),
            #[cfg(test)]
            imports: &[$(include_str!(concat!("../kit/contracts/", $import, ".sol"))),*],
        }
    };
}

pub(crate) const STABLE: Own = own!("Stable");
pub(crate) const WETH: Own = own!("Weth");
pub(crate) const ORACLE: Own = own!("Oracle");
pub(crate) const ROUTER: Own = own!("Router");
pub(crate) const VAULT: Own = own!("Vault");
pub(crate) const EXACT_PERMIT2_PROXY: Own = own!("ExactPermit2Proxy");
pub(crate) const PRISM: Own = own!("Prism");
pub(crate) const WALLET: Own = own!("Wallet");
pub(crate) const WALLET_FACTORY: Own = own!("WalletFactory", imports "Wallet");
pub(crate) const HOSTILE_WALLET: Own = own!("HostileWallet", imports "Wallet");
pub(crate) const HOSTILE_TOKEN: Own = own!("HostileToken", imports "Stable");
pub(crate) const PLAIN_TOKEN: Own = own!("PlainToken");

/// All of them: what `cargo xtask devnet --recompile` compiles.
pub(crate) const ALL: [Own; 12] = [
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
    pub(crate) fn creation_code(&self, arguments: &[u8]) -> Result<Bytes, DevnetError> {
        let compiled: Compiled = serde_json::from_str(self.compiled)
            .map_err(|error| DevnetError::Contract(format!("kit/{}.json: {error}", self.name)))?;
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
