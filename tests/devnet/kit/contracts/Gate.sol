// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// A gate of a Vault V2, for any of its four sides. Open at first. Never for a public chain: anyone may set it.
contract Gate {
    bool public open = true;

    function setOpen(bool open_) external {
        open = open_;
    }

    function canReceiveShares(address) external view returns (bool) {
        return open;
    }

    function canSendShares(address) external view returns (bool) {
        return open;
    }

    function canReceiveAssets(address) external view returns (bool) {
        return open;
    }

    function canSendAssets(address) external view returns (bool) {
        return open;
    }
}
