// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

interface IMarketAdapters {
    function isMorphoMarketV1AdapterV2(address account) external view returns (bool);
}

interface IVaultAdapters {
    function isMorphoVaultV1Adapter(address account) external view returns (bool);
}

// A stand-in for the registry of adapters: knows those of the two official factories.
contract AdapterRegistry {
    IMarketAdapters public immutable marketAdapters;
    IVaultAdapters public immutable vaultAdapters;

    constructor(IMarketAdapters marketAdapters_, IVaultAdapters vaultAdapters_) {
        (marketAdapters, vaultAdapters) = (marketAdapters_, vaultAdapters_);
    }

    function isInRegistry(address account) external view returns (bool) {
        return marketAdapters.isMorphoMarketV1AdapterV2(account)
            || vaultAdapters.isMorphoVaultV1Adapter(account);
    }
}
