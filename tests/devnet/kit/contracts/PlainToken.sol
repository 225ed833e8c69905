// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// An ERC-20 without authorizations, which others move by an allowance alone. Anyone may mint, and may
// change what it answers to whoever calls.
contract PlainToken {
    enum Answer {
        // As the standard says.
        Yes,
        // Nothing at all, though it does what was asked: tokens older than the standard are like that.
        Nothing,
        // It moves nothing by an allowance and says so, where others revert.
        No
    }

    uint8 public constant decimals = 6;
    string public name;
    string public symbol;
    Answer public answer;

    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    constructor(string memory name_, string memory symbol_, Answer answer_) {
        name = name_;
        symbol = symbol_;
        answer = answer_;
    }

    function setAnswer(Answer answer_) external {
        answer = answer_;
    }

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    // The three that follow return a bool, or nothing: no declaration says both.
    function approve(address spender, uint256 value) external {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        _say(true);
    }

    function transfer(address to, uint256 value) external {
        _transfer(msg.sender, to, value);
        _say(true);
    }

    function transferFrom(address from, address to, uint256 value) external {
        if (answer == Answer.No) _say(false);
        allowance[from][msg.sender] -= value;
        _transfer(from, to, value);
        _say(true);
    }

    function _transfer(address from, address to, uint256 value) private {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    // Ends the call.
    function _say(bool yes) private view {
        uint256 length = answer == Answer.Nothing ? 0 : 32;
        assembly ("memory-safe") {
            mstore(0, yes)
            return(0, length)
        }
    }
}
