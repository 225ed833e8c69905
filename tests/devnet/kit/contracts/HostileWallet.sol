// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {NO, YES, isSignedBy} from "./Wallet.sol";

// A smart wallet (EIP-1271) that means whoever asks it ill. It can be honest while a payment is looked at
// and something else when the payment is carried out: anyone may change its mode.
contract HostileWallet {
    enum Mode {
        Honest,
        Reverts,
        // Answers with what means neither yes nor no.
        WrongAnswer,
        // Yes, and a megabyte behind it.
        HugeAnswer,
        BurnsGas,
        // Honest where a transaction is only looked at, which costs nothing.
        BurnsWhenSent,
        BurnsAbove,
        BurnsBelow,
        // Honest, at a price.
        BurnsThenAnswers,
        // Tries to move money of the token that asks, and answers whether or not that was possible.
        ReentersQuietly,
        ReentersLoudly
    }

    uint256 private constant HUGE = 1 << 20;

    address public immutable owner;
    Mode public mode;
    // What the modes reckon with that burn above, below, or so much.
    uint256 public amount;

    constructor(address owner_, Mode mode_, uint256 amount_) {
        owner = owner_;
        mode = mode_;
        amount = amount_;
    }

    function setMode(Mode mode_, uint256 amount_) external {
        mode = mode_;
        amount = amount_;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external returns (bytes4) {
        uint256 left = gasleft();
        if (mode == Mode.Reverts) revert("the wallet refuses");
        if (mode == Mode.BurnsGas) _burn();
        if (mode == Mode.BurnsWhenSent && tx.gasprice > 0) _burn();
        if (mode == Mode.BurnsAbove && left > amount) _burn();
        if (mode == Mode.BurnsBelow && left < amount) _burn();
        if (mode == Mode.BurnsThenAnswers) while (left - gasleft() < amount) {}
        if (mode == Mode.ReentersQuietly) _reenter();
        if (mode == Mode.ReentersLoudly) require(_reenter(), "the wallet could not re-enter");
        if (mode == Mode.WrongAnswer) return 0xdeadbeef;
        bytes4 answer = isSignedBy(owner, hash, signature) ? YES : NO;
        if (mode == Mode.HugeAnswer) _say(answer);
        return answer;
    }

    // What the EVM does not know takes all that is left, at once.
    function _burn() private pure {
        assembly ("memory-safe") {
            invalid()
        }
    }

    // Whoever asks may not let a wallet change anything; its call then takes all of its own gas and fails.
    function _reenter() private returns (bool done) {
        bytes memory call = abi.encodeWithSignature("transfer(address,uint256)", owner, 1);
        (done,) = msg.sender.call{gas: 100_000}(call);
    }

    function _say(bytes4 answer) private pure {
        assembly {
            mstore(0, answer)
            return(0, HUGE)
        }
    }
}
