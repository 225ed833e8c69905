//! Reads of the factories: whether a factory created a vault or an adapter. [`decode_flag`](super::decode_flag)
//! decodes each answer.

use alloy_primitives::{Address, Bytes};

use crate::abi::encode;
use crate::abi::factory::{
    IMarketAdapterFactory, IMetaMorphoFactory, IVaultAdapterFactory, IVaultV2Factory,
};
use bursar_core::networks::VaultKind;

/// Encodes the question whether the factory of this kind created a vault: `isVaultV2` or `isMetaMorpho`.
pub fn is_vault_call(kind: VaultKind, vault: Address) -> Bytes {
    match kind {
        VaultKind::V2 => encode(&IVaultV2Factory::isVaultV2Call { account: vault }),
        VaultKind::MetaMorpho => encode(&IMetaMorphoFactory::isMetaMorphoCall { account: vault }),
    }
}

/// Encodes the question whether the factory created a market adapter: `isMorphoMarketV1AdapterV2`.
pub fn is_market_adapter_call(adapter: Address) -> Bytes {
    encode(&IMarketAdapterFactory::isMorphoMarketV1AdapterV2Call { account: adapter })
}

/// Encodes the question whether the factory created a vault adapter: `isMorphoVaultV1Adapter`.
pub fn is_vault_adapter_call(adapter: Address) -> Bytes {
    encode(&IVaultAdapterFactory::isMorphoVaultV1AdapterCall { account: adapter })
}
