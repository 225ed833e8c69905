// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {Stable} from "./Stable.sol";

// A stablecoin that lies about what it does with money, whoever moves it and by whatever right. It can be
// honest while a payment is looked at: anyone may change its mode.
contract HostileToken is Stable {
    enum Mode {
        Honest,
        // An authorization is not even used up.
        DoesNothing,
        // A hundredth, rounded up, goes to the token itself.
        TakesFee,
        // Reports what it does not do.
        OnlyReports,
        // Does what it does not report.
        MovesSilently
    }

    Mode public mode;

    constructor(string memory name_, string memory symbol_, string memory version_, Mode mode_)
        Stable(name_, symbol_, version_)
    {
        mode = mode_;
    }

    function setMode(Mode mode_) external {
        mode = mode_;
    }

    function _move(bytes32 typehash, Authorization memory a, bytes memory signature)
        internal
        override
    {
        if (mode != Mode.DoesNothing) super._move(typehash, a, signature);
    }

    function _transfer(address from, address to, uint256 value) internal override {
        if (mode == Mode.DoesNothing) return;
        if (mode == Mode.OnlyReports) {
            emit Transfer(from, to, value);
        } else if (mode == Mode.MovesSilently) {
            balanceOf[from] -= value;
            balanceOf[to] += value;
        } else if (mode == Mode.TakesFee) {
            uint256 fee = (value + 99) / 100;
            super._transfer(from, to, value - fee);
            super._transfer(from, address(this), fee);
        } else {
            super._transfer(from, to, value);
        }
    }
}
