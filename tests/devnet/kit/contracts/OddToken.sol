// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// An ERC-20 that follows the standard and surprises all the same: its decimals and balances change, it
// refuses transfers, or it calls another contract in the middle of one. Anyone may mint and change it.
contract OddToken {
    enum Quirk {
        None,
        // An allowance changes only to or from zero.
        ZeroFirst,
        // No transfer by an allowance, with a reason that moves a terminal's cursor.
        Refuses,
        // The same, except in the block of the approval: a simulation of both succeeds.
        RefusesLater,
        // The callback runs before each transfer by an allowance, except in the block of the approval.
        CallsLater,
        // The callback runs before each transfer by an allowance.
        Calls,
        // An allowance lasts until the end of its block, so that a simulation of both succeeds.
        Forgets
    }

    struct Callback {
        address to;
        bytes data;
    }

    uint256 private constant ONE = 1e18;

    string public name;
    string public symbol;
    uint8 public decimals = 6;
    Quirk public quirk;
    // Units of balance for each share, times 10^18.
    uint256 public index = ONE;
    Callback private callback;
    bool private calling;

    mapping(address => uint256) private shares;
    mapping(address => uint256) private approvedAt;
    mapping(address => mapping(address => uint256)) private allowances;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event CalledBack(bool done);

    constructor(string memory name_, string memory symbol_, Quirk quirk_) {
        name = name_;
        symbol = symbol_;
        quirk = quirk_;
    }

    function setQuirk(Quirk quirk_) external {
        quirk = quirk_;
    }

    function setDecimals(uint8 decimals_) external {
        decimals = decimals_;
    }

    // All balances become index_ / 10^18 of what was minted.
    function setIndex(uint256 index_) external {
        index = index_;
    }

    function setCallback(address to, bytes calldata data) external {
        callback = Callback(to, data);
    }

    // Makes a call as the token, for example to approve what the callback spends.
    function run(address to, bytes calldata data) external {
        (bool done,) = to.call(data);
        require(done, "the call failed");
    }

    function balanceOf(address owner) public view returns (uint256) {
        return shares[owner] * index / ONE;
    }

    function allowance(address owner, address spender) public view returns (uint256) {
        if (quirk == Quirk.Forgets && block.number != approvedAt[owner]) return 0;
        return allowances[owner][spender];
    }

    function mint(address to, uint256 value) external {
        shares[to] += value * ONE / index;
        emit Transfer(address(0), to, value);
    }

    function approve(address spender, uint256 value) external returns (bool) {
        require(quirk != Quirk.ZeroFirst || value == 0 || allowances[msg.sender][spender] == 0, "not zero");
        allowances[msg.sender][spender] = value;
        approvedAt[msg.sender] = block.number;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _transfer(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        bool later = block.number != approvedAt[from];
        require(quirk != Quirk.Refuses && (quirk != Quirk.RefusesLater || !later), "\x1b[2J\x1b[31mno\x07");
        if (quirk == Quirk.Calls || (quirk == Quirk.CallsLater && later)) _call();
        uint256 allowed = allowance(from, msg.sender);
        if (allowed != type(uint256).max) allowances[from][msg.sender] = allowed - value;
        _transfer(from, to, value);
        return true;
    }

    function _transfer(address from, address to, uint256 value) private {
        uint256 moved = (value * ONE + index - 1) / index;
        shares[from] -= moved;
        shares[to] += moved;
        emit Transfer(from, to, value);
    }

    // What the callee answers does not matter.
    function _call() private {
        if (calling) return;
        calling = true;
        (bool done,) = callback.to.call(callback.data);
        emit CalledBack(done);
        calling = false;
    }
}
