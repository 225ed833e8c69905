//! Our own contracts of the local chain. Source and bytecode are side by side in `kit/`, and a test keeps them
//! in step.

use alloy_primitives::Bytes;
use serde::Deserialize;

use crate::error::DevnetError;

/// One of our contracts.
#[derive(Debug)]
pub(crate) struct OwnContract {
    pub(crate) name: &'static str,
    /// The compiler's `evmVersion`: the oldest one that the contract can run on.
    pub(crate) evm: &'static str,
    /// The text of `kit/<name>.json`: the bytecode and the hash of its source.
    pub(crate) compiled: &'static str,
    /// The text of `kit/contracts/<name>.sol`.
    #[cfg(test)]
    source: &'static str,
    /// The sources that the contract imports, sorted by name.
    #[cfg(test)]
    imports: &'static [&'static str],
}

macro_rules! own_contract {
    ($name:literal $(, imports $import:literal)*) => {
        own_contract!($name for "paris" $(, imports $import)*)
    };
    ($name:literal for $evm:literal $(, imports $import:literal)*) => {
        OwnContract {
            name: $name,
            evm: $evm,
            compiled: include_str!(concat!("../kit/", $name, ".json")),
            #[cfg(test)]
            source: include_str!(concat!("../kit/contracts/", $name, ".sol")),
            #[cfg(test)]
            imports: &[$(include_str!(concat!("../kit/contracts/", $import, ".sol"))),*],
        }
    };
}

pub(crate) const STABLE: OwnContract = own_contract!("Stable");
pub(crate) const WETH: OwnContract = own_contract!("Weth");
pub(crate) const ORACLE: OwnContract = own_contract!("Oracle");
pub(crate) const ROUTER: OwnContract = own_contract!("Router");
pub(crate) const IRM: OwnContract = own_contract!("Irm", imports "Blue");
pub(crate) const VAULT_V2: OwnContract = own_contract!("VaultV2", imports "Blue");
pub(crate) const VAULT_V2_FACTORY: OwnContract =
    own_contract!("VaultV2Factory", imports "Blue", imports "VaultV2");
pub(crate) const META_MORPHO: OwnContract = own_contract!("MetaMorpho", imports "Blue");
pub(crate) const META_MORPHO_FACTORY: OwnContract =
    own_contract!("MetaMorphoFactory", imports "Blue", imports "MetaMorpho");
pub(crate) const MARKET_ADAPTER_FACTORY: OwnContract =
    own_contract!("MarketAdapterFactory", imports "Blue", imports "MarketAdapter");
pub(crate) const VAULT_V1_ADAPTER_FACTORY: OwnContract =
    own_contract!("VaultV1AdapterFactory", imports "Blue", imports "VaultV1Adapter");
pub(crate) const ADAPTER_REGISTRY: OwnContract = own_contract!("AdapterRegistry");
pub(crate) const GATE: OwnContract = own_contract!("Gate");
pub(crate) const LYING_VAULT: OwnContract =
    own_contract!("LyingVault", imports "Blue", imports "VaultV2");
pub(crate) const ODD_ADAPTER: OwnContract = own_contract!("OddAdapter", imports "Blue");
pub(crate) const FORGER: OwnContract = own_contract!("Forger");
// Transient storage needs cancun.
pub(crate) const EXACT_PERMIT2_PROXY: OwnContract = own_contract!(
    "ExactPermit2Proxy" for "cancun",
    imports "NonReentrant",
    imports "Permit2",
    imports "Permit2Proxy"
);
pub(crate) const UPTO_PERMIT2_PROXY: OwnContract = own_contract!(
    "UptoPermit2Proxy" for "cancun",
    imports "NonReentrant",
    imports "Permit2",
    imports "Permit2Proxy"
);
pub(crate) const BATCH_SETTLEMENT: OwnContract = own_contract!(
    "BatchSettlement" for "cancun",
    imports "DepositCollector",
    imports "NonReentrant",
    imports "Signature"
);
pub(crate) const ERC3009_DEPOSIT_COLLECTOR: OwnContract =
    own_contract!("Erc3009DepositCollector", imports "DepositCollector");
pub(crate) const PERMIT2_DEPOSIT_COLLECTOR: OwnContract =
    own_contract!("Permit2DepositCollector", imports "DepositCollector", imports "Permit2");
pub(crate) const PRISM: OwnContract = own_contract!("Prism");
pub(crate) const WALLET: OwnContract = own_contract!("Wallet");
pub(crate) const WALLET_FACTORY: OwnContract = own_contract!("WalletFactory", imports "Wallet");
pub(crate) const HOSTILE_WALLET: OwnContract = own_contract!("HostileWallet", imports "Wallet");
pub(crate) const HOSTILE_TOKEN: OwnContract = own_contract!("HostileToken", imports "Stable");
pub(crate) const PLAIN_TOKEN: OwnContract = own_contract!("PlainToken");
pub(crate) const PERMIT_TOKEN: OwnContract = own_contract!("PermitToken", imports "PlainToken");
pub(crate) const ODD_TOKEN: OwnContract = own_contract!("OddToken");
pub(crate) const HOOK: OwnContract = own_contract!("Hook");

/// All of our contracts, which `cargo xtask devnet --recompile` compiles.
pub(crate) const ALL: [OwnContract; 30] = [
    STABLE,
    WETH,
    ORACLE,
    ROUTER,
    IRM,
    VAULT_V2,
    VAULT_V2_FACTORY,
    META_MORPHO,
    META_MORPHO_FACTORY,
    MARKET_ADAPTER_FACTORY,
    VAULT_V1_ADAPTER_FACTORY,
    ADAPTER_REGISTRY,
    GATE,
    LYING_VAULT,
    ODD_ADAPTER,
    FORGER,
    EXACT_PERMIT2_PROXY,
    UPTO_PERMIT2_PROXY,
    BATCH_SETTLEMENT,
    ERC3009_DEPOSIT_COLLECTOR,
    PERMIT2_DEPOSIT_COLLECTOR,
    PRISM,
    WALLET,
    WALLET_FACTORY,
    HOSTILE_WALLET,
    HOSTILE_TOKEN,
    PLAIN_TOKEN,
    PERMIT_TOKEN,
    ODD_TOKEN,
    HOOK,
];

#[derive(Deserialize)]
struct CompiledContract {
    bytecode: Bytes,
}

impl OwnContract {
    /// Returns the creation code with the encoded constructor arguments.
    pub(crate) fn creation_code(&self, arguments: &[u8]) -> Result<Bytes, DevnetError> {
        let compiled: CompiledContract = serde_json::from_str(self.compiled)
            .map_err(|error| DevnetError::Contract(format!("kit/{}.json: {error}", self.name)))?;
        Ok([compiled.bytecode.as_ref(), arguments].concat().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_bytecode_matches_its_source() {
        for contract in ALL {
            let compiled: serde_json::Value = serde_json::from_str(contract.compiled).unwrap();
            assert_eq!(
                compiled["source_sha256"],
                hex::encode(Sha256::digest(
                    [&[contract.source], contract.imports].concat().concat()
                )),
                "{}.sol changed: cargo xtask devnet --recompile",
                contract.name
            );
        }
    }
}
