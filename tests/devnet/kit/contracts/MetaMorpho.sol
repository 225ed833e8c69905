// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {Blue, IAsset, IMorpho, Market, MarketParams, SafeToken, WAD, divideUp, min} from "./Blue.sol";

// A stand-in for a MetaMorpho vault of version 1.1, of which no package has the code: what a depositor reads
// and calls. As there, its limits are meaningful, it has no gates, and a loss does not lower its share price:
// it is kept in `lostAssets`. Roles, time locks and the guardian are left out: anyone may change markets, caps
// and fee, so never for a public chain.

struct MarketConfig {
    uint184 cap;
    bool enabled;
    uint64 removableAt;
}

contract MetaMorpho {
    IMorpho public immutable MORPHO;
    address internal immutable _asset;
    uint8 public immutable DECIMALS_OFFSET;
    uint8 public immutable decimals;

    string public name;
    string public symbol;

    address public owner;
    address public curator;
    uint96 public fee;
    address public feeRecipient;
    uint256 public timelock;
    uint256 public lastTotalAssets;
    uint256 public lostAssets;

    bytes32[] public supplyQueue;
    bytes32[] public withdrawQueue;
    mapping(bytes32 => MarketConfig) public config;

    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares);
    event Withdraw(
        address indexed sender, address indexed receiver, address indexed owner, uint256 assets, uint256 shares
    );
    event SetCurator(address indexed newCurator);

    error AllCapsReached();
    error NotEnoughLiquidity();
    error OwnableUnauthorizedAccount(address account);
    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);

    constructor(
        address owner_,
        IMorpho morpho_,
        uint256 timelock_,
        address asset_,
        string memory name_,
        string memory symbol_
    ) {
        (owner, MORPHO, timelock, _asset) = (owner_, morpho_, timelock_, asset_);
        (name, symbol) = (name_, symbol_);
        uint8 assetDecimals = IAsset(asset_).decimals();
        DECIMALS_OFFSET = assetDecimals < 18 ? 18 - assetDecimals : 0;
        decimals = assetDecimals + DECIMALS_OFFSET;
        IAsset(asset_).approve(address(morpho_), type(uint256).max);
    }

    function setCurator(address newCurator) external {
        if (msg.sender != owner) revert OwnableUnauthorizedAccount(msg.sender);
        curator = newCurator;
        emit SetCurator(newCurator);
    }

    function transferOwnership(address newOwner) external {
        if (msg.sender != owner) revert OwnableUnauthorizedAccount(msg.sender);
        owner = newOwner;
    }

    // The first cap of a market enables it and puts it last in both queues.
    function setCap(MarketParams memory params, uint184 cap) external {
        bytes32 id = Blue.id(params);
        if (!config[id].enabled) {
            config[id].enabled = true;
            supplyQueue.push(id);
            withdrawQueue.push(id);
        }
        config[id].cap = cap;
    }

    function setFee(uint96 fee_, address recipient) external {
        _accrue();
        (fee, feeRecipient) = (fee_, recipient);
    }

    // Moves assets from one market to another.
    function reallocate(MarketParams memory from, MarketParams memory to, uint256 assets) external {
        MORPHO.withdraw(from, assets, 0, address(this), address(this));
        MORPHO.supply(to, assets, 0, address(this), "");
    }

    function deposit(uint256 assets, address receiver) external returns (uint256 shares) {
        _accrue();
        shares = previewDeposit(assets);
        _enter(assets, shares, receiver);
    }

    function mint(uint256 shares, address receiver) external returns (uint256 assets) {
        _accrue();
        assets = previewMint(shares);
        _enter(assets, shares, receiver);
    }

    function withdraw(uint256 assets, address receiver, address owner_) external returns (uint256 shares) {
        _accrue();
        shares = previewWithdraw(assets);
        _exit(assets, shares, receiver, owner_);
    }

    function redeem(uint256 shares, address receiver, address owner_) external returns (uint256 assets) {
        _accrue();
        assets = previewRedeem(shares);
        _exit(assets, shares, receiver, owner_);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return _move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        _spend(from, value);
        return _move(from, to, value);
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function asset() external view returns (address) {
        return _asset;
    }

    function supplyQueueLength() external view returns (uint256) {
        return supplyQueue.length;
    }

    function withdrawQueueLength() external view returns (uint256) {
        return withdrawQueue.length;
    }

    function totalAssets() external view returns (uint256 assets) {
        (, assets,) = _accrued();
    }

    function convertToShares(uint256 assets) external view returns (uint256) {
        return previewDeposit(assets);
    }

    function convertToAssets(uint256 shares) external view returns (uint256) {
        return previewRedeem(shares);
    }

    function previewDeposit(uint256 assets) public view returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return assets * allShares / allAssets;
    }

    function previewMint(uint256 shares) public view returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return divideUp(shares * allAssets, allShares);
    }

    function previewWithdraw(uint256 assets) public view returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return divideUp(assets * allShares, allAssets);
    }

    function previewRedeem(uint256 shares) public view returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return shares * allAssets / allShares;
    }

    function maxDeposit(address) public view returns (uint256 assets) {
        for (uint256 i = 0; i < supplyQueue.length; i++) assets += _room(supplyQueue[i]);
    }

    function maxMint(address) external view returns (uint256) {
        return previewDeposit(maxDeposit(address(0)));
    }

    function maxWithdraw(address owner_) public view returns (uint256) {
        uint256 free;
        for (uint256 i = 0; i < withdrawQueue.length; i++) free += _free(withdrawQueue[i]);
        return min(previewRedeem(balanceOf[owner_]), free);
    }

    function maxRedeem(address owner_) external view returns (uint256) {
        return min(previewDeposit(maxWithdraw(owner_)), balanceOf[owner_]);
    }

    function _accrued() private view returns (uint256 feeShares, uint256 assets, uint256 lost) {
        uint256 real;
        for (uint256 i = 0; i < withdrawQueue.length; i++) {
            real += Blue.supplied(MORPHO, withdrawQueue[i], address(this));
        }
        lost = real + lostAssets < lastTotalAssets ? lastTotalAssets - real : lostAssets;
        assets = real + lost;
        uint256 feeAssets = (assets - lastTotalAssets) * fee / WAD;
        feeShares = feeAssets * (totalSupply + 10 ** DECIMALS_OFFSET) / (assets - feeAssets + 1);
    }

    // Both with the virtual amounts, and with the fee shares that are due.
    function _totals() private view returns (uint256 allShares, uint256 allAssets) {
        (uint256 feeShares, uint256 assets,) = _accrued();
        return (totalSupply + feeShares + 10 ** DECIMALS_OFFSET, assets + 1);
    }

    function _accrue() private {
        (uint256 feeShares, uint256 assets, uint256 lost) = _accrued();
        (lastTotalAssets, lostAssets) = (assets, lost);
        if (feeShares != 0) _create(feeRecipient, feeShares);
    }

    function _room(bytes32 id) private view returns (uint256) {
        uint256 supplied = Blue.supplied(MORPHO, id, address(this));
        return config[id].cap > supplied ? config[id].cap - supplied : 0;
    }

    function _free(bytes32 id) private view returns (uint256) {
        Market memory m = Blue.expected(MORPHO, id);
        (uint256 shares,,) = MORPHO.position(id, address(this));
        return min(Blue.worth(m, shares), uint256(m.totalSupplyAssets) - m.totalBorrowAssets);
    }

    function _enter(uint256 assets, uint256 shares, address receiver) private {
        SafeToken.take(_asset, msg.sender, address(this), assets);
        _create(receiver, shares);
        emit Deposit(msg.sender, receiver, assets, shares);
        uint256 left = assets;
        for (uint256 i = 0; i < supplyQueue.length && left > 0; i++) {
            uint256 part = min(left, _room(supplyQueue[i]));
            if (part == 0) continue;
            MORPHO.supply(MORPHO.idToMarketParams(supplyQueue[i]), part, 0, address(this), "");
            left -= part;
        }
        if (left > 0) revert AllCapsReached();
        lastTotalAssets += assets;
    }

    function _exit(uint256 assets, uint256 shares, address receiver, address owner_) private {
        lastTotalAssets = lastTotalAssets > assets ? lastTotalAssets - assets : 0;
        uint256 left = assets;
        for (uint256 i = 0; i < withdrawQueue.length && left > 0; i++) {
            uint256 part = min(left, _free(withdrawQueue[i]));
            if (part == 0) continue;
            MORPHO.withdraw(MORPHO.idToMarketParams(withdrawQueue[i]), part, 0, address(this), address(this));
            left -= part;
        }
        if (left > 0) revert NotEnoughLiquidity();
        _spend(owner_, shares);
        if (balanceOf[owner_] < shares) revert ERC20InsufficientBalance(owner_, balanceOf[owner_], shares);
        balanceOf[owner_] -= shares;
        totalSupply -= shares;
        emit Transfer(owner_, address(0), shares);
        SafeToken.give(_asset, receiver, assets);
        emit Withdraw(msg.sender, receiver, owner_, assets, shares);
    }

    function _create(address to, uint256 shares) private {
        totalSupply += shares;
        balanceOf[to] += shares;
        emit Transfer(address(0), to, shares);
    }

    function _move(address from, address to, uint256 value) private returns (bool) {
        if (balanceOf[from] < value) revert ERC20InsufficientBalance(from, balanceOf[from], value);
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
        return true;
    }

    function _spend(address holder, uint256 value) private {
        uint256 allowed = allowance[holder][msg.sender];
        if (holder == msg.sender || allowed == type(uint256).max) return;
        if (allowed < value) revert ERC20InsufficientAllowance(msg.sender, allowed, value);
        allowance[holder][msg.sender] = allowed - value;
    }
}
