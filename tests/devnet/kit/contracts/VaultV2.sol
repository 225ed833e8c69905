// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {IAsset, SafeToken, WAD, divideUp, min} from "./Blue.sol";

// A stand-in for Morpho's Vault V2, of which no package exists: what a depositor reads and calls, with the
// errors and events of the original. Only the owner names owner and curator, as there. Roles, time locks and
// abdication are left out: anyone may change anything else, so never for a public chain.

interface IAdapter {
    function allocate(bytes memory data, uint256 assets, bytes4 selector, address sender)
        external
        returns (bytes32[] memory ids, int256 change);
    function deallocate(bytes memory data, uint256 assets, bytes4 selector, address sender)
        external
        returns (bytes32[] memory ids, int256 change);
    function realAssets() external view returns (uint256);
}

interface IAdapterRegistry {
    function isInRegistry(address account) external view returns (bool);
}

interface IGate {
    function canReceiveShares(address account) external view returns (bool);
    function canSendShares(address account) external view returns (bool);
    function canReceiveAssets(address account) external view returns (bool);
    function canSendAssets(address account) external view returns (bool);
}

contract VaultV2 {
    uint256 private constant MAX_PENALTY = 0.02e18;
    // 200 % a year, the most that the original allows.
    uint64 private constant MAX_RATE = 200e16 / uint64(365 days);

    address internal immutable _asset;
    uint8 internal immutable _decimals;
    uint256 public immutable virtualShares;

    string public name;
    string public symbol;

    address public owner;
    address public curator;
    address public adapterRegistry;
    address public receiveSharesGate;
    address public sendSharesGate;
    address public receiveAssetsGate;
    address public sendAssetsGate;

    uint256 public totalSupply;
    mapping(address => uint256) internal _balances;
    mapping(address => mapping(address => uint256)) public allowance;

    uint128 public _totalAssets;
    uint64 public lastUpdate;
    // The most by which the assets grow, per second times 10^18. The highest value means without a bound.
    uint64 public maxRate = MAX_RATE;
    uint96 public performanceFee;
    address public performanceFeeRecipient;
    uint96 public managementFee;
    address public managementFeeRecipient;

    address[] internal _adapters;
    mapping(address => bool) public isAdapter;
    address public liquidityAdapter;
    bytes public liquidityData;
    mapping(address => uint256) public forceDeallocatePenalty;
    mapping(bytes32 => uint256) public absoluteCap;
    // A share of the assets times 10^18.
    mapping(bytes32 => uint256) public relativeCap;
    mapping(bytes32 => uint256) public allocation;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Deposit(address indexed sender, address indexed onBehalf, uint256 assets, uint256 shares);
    event Withdraw(
        address indexed sender, address indexed receiver, address indexed onBehalf, uint256 assets, uint256 shares
    );
    event ForceDeallocate(
        address indexed sender, address adapter, uint256 assets, address indexed onBehalf, bytes32[] ids, uint256 penaltyAssets
    );
    event SetOwner(address indexed newOwner);
    event SetCurator(address indexed newCurator);

    error Unauthorized();
    error NotAdapter();
    error NotInAdapterRegistry();
    error PenaltyTooHigh();
    error ZeroAllocation();
    error ZeroAbsoluteCap();
    error AbsoluteCapExceeded();
    error RelativeCapExceeded();
    error CannotReceiveShares();
    error CannotSendShares();
    error CannotReceiveAssets();
    error CannotSendAssets();

    constructor(address owner_, address asset_) {
        owner = owner_;
        _asset = asset_;
        lastUpdate = uint64(block.timestamp);
        uint8 assetDecimals = IAsset(asset_).decimals();
        uint8 offset = assetDecimals < 18 ? 18 - assetDecimals : 0;
        _decimals = assetDecimals + offset;
        virtualShares = 10 ** offset;
    }

    // What the owner sets, at once.

    function setOwner(address newOwner) external {
        if (msg.sender != owner) revert Unauthorized();
        owner = newOwner;
        emit SetOwner(newOwner);
    }

    function setCurator(address newCurator) external {
        if (msg.sender != owner) revert Unauthorized();
        curator = newCurator;
        emit SetCurator(newCurator);
    }

    // What the original leaves to curator and allocators, most of it behind a time lock.

    function setNameAndSymbol(string memory name_, string memory symbol_) external {
        (name, symbol) = (name_, symbol_);
    }

    function setAdapterRegistry(address registry) external {
        adapterRegistry = registry;
    }

    // Refuses what the registry does not know. Adapters that were added before a registry was set stay.
    function addAdapter(address adapter) external {
        if (adapterRegistry != address(0) && !IAdapterRegistry(adapterRegistry).isInRegistry(adapter)) {
            revert NotInAdapterRegistry();
        }
        if (isAdapter[adapter]) return;
        isAdapter[adapter] = true;
        _adapters.push(adapter);
    }

    function removeAdapter(address adapter) external {
        if (!isAdapter[adapter]) return;
        isAdapter[adapter] = false;
        for (uint256 i = 0; i < _adapters.length; i++) {
            if (_adapters[i] != adapter) continue;
            _adapters[i] = _adapters[_adapters.length - 1];
            _adapters.pop();
            return;
        }
    }

    function setLiquidityAdapterAndData(address adapter, bytes memory data) external {
        (liquidityAdapter, liquidityData) = (adapter, data);
    }

    function setCaps(bytes32 id, uint256 absolute, uint256 relative_) external {
        (absoluteCap[id], relativeCap[id]) = (absolute, relative_);
    }

    function setReceiveSharesGate(address gate) external {
        receiveSharesGate = gate;
    }

    function setSendSharesGate(address gate) external {
        sendSharesGate = gate;
    }

    function setReceiveAssetsGate(address gate) external {
        receiveAssetsGate = gate;
    }

    function setSendAssetsGate(address gate) external {
        sendAssetsGate = gate;
    }

    function setMaxRate(uint64 rate) external {
        accrueInterest();
        maxRate = rate;
    }

    function setFees(uint96 performance, uint96 management, address recipient) external {
        accrueInterest();
        (performanceFee, managementFee) = (performance, management);
        (performanceFeeRecipient, managementFeeRecipient) = (recipient, recipient);
    }

    function setForceDeallocatePenalty(address adapter, uint256 penalty) external {
        if (penalty > MAX_PENALTY) revert PenaltyTooHigh();
        forceDeallocatePenalty[adapter] = penalty;
    }

    function allocate(address adapter, bytes memory data, uint256 assets) external {
        accrueInterest();
        _allocate(adapter, data, assets);
    }

    function deallocate(address adapter, bytes memory data, uint256 assets) external {
        _deallocate(adapter, data, assets);
    }

    // What a depositor calls.

    function deposit(uint256 assets, address onBehalf) external returns (uint256 shares) {
        accrueInterest();
        shares = previewDeposit(assets);
        _enter(assets, shares, onBehalf);
    }

    function mint(uint256 shares, address onBehalf) external returns (uint256 assets) {
        accrueInterest();
        assets = previewMint(shares);
        _enter(assets, shares, onBehalf);
    }

    function withdraw(uint256 assets, address receiver, address onBehalf) public returns (uint256 shares) {
        accrueInterest();
        shares = previewWithdraw(assets);
        _exit(assets, shares, receiver, onBehalf);
    }

    function redeem(uint256 shares, address receiver, address onBehalf) external returns (uint256 assets) {
        accrueInterest();
        assets = previewRedeem(shares);
        _exit(assets, shares, receiver, onBehalf);
    }

    // Brings assets back to the idle balance. The penalty is a withdrawal of `onBehalf` whose assets stay with the
    // vault: its total falls with its shares, and the assets count again as later interest.
    function forceDeallocate(address adapter, bytes memory data, uint256 assets, address onBehalf)
        external
        returns (uint256 penaltyShares)
    {
        bytes32[] memory ids = _deallocate(adapter, data, assets);
        uint256 penalty = divideUp(assets * forceDeallocatePenalty[adapter], WAD);
        penaltyShares = withdraw(penalty, address(this), onBehalf);
        emit ForceDeallocate(msg.sender, adapter, assets, onBehalf, ids, penalty);
    }

    // Makes several calls of the sender in one transaction: all of them, or none with the error of the first that
    // reverts.
    function multicall(bytes[] calldata data) external {
        for (uint256 i = 0; i < data.length; i++) {
            (bool done, bytes memory answer) = address(this).delegatecall(data[i]);
            if (done) continue;
            assembly {
                revert(add(answer, 32), mload(answer))
            }
        }
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

    function accrueInterest() public {
        (uint256 assets, uint256 performanceShares, uint256 managementShares) = accrueInterestView();
        _totalAssets = uint128(assets);
        lastUpdate = uint64(block.timestamp);
        if (performanceShares != 0) _create(performanceFeeRecipient, performanceShares);
        if (managementShares != 0) _create(managementFeeRecipient, managementShares);
    }

    // What a depositor reads.

    function asset() public view virtual returns (address) {
        return _asset;
    }

    function decimals() public view virtual returns (uint8) {
        return _decimals;
    }

    function balanceOf(address account) public view virtual returns (uint256) {
        return _balances[account];
    }

    function adaptersLength() external view virtual returns (uint256) {
        return _adapters.length;
    }

    function adapters(uint256 index) external view virtual returns (address) {
        return _adapters[index];
    }

    function totalAssets() external view returns (uint256 assets) {
        (assets,,) = accrueInterestView();
    }

    // A loss counts at once, and a gain no faster than `maxRate`.
    function accrueInterestView()
        public
        view
        returns (uint256 assets, uint256 performanceShares, uint256 managementShares)
    {
        uint256 elapsed = block.timestamp - lastUpdate;
        assets = IAsset(_asset).balanceOf(address(this));
        for (uint256 i = 0; i < _adapters.length; i++) assets += IAdapter(_adapters[i]).realAssets();
        if (maxRate != type(uint64).max) {
            assets = min(assets, _totalAssets + _totalAssets * elapsed * maxRate / WAD);
        }
        uint256 interest = assets > _totalAssets ? assets - _totalAssets : 0;
        uint256 performance = canReceiveShares(performanceFeeRecipient) ? interest * performanceFee / WAD : 0;
        uint256 management =
            canReceiveShares(managementFeeRecipient) ? assets * elapsed * managementFee / WAD : 0;
        uint256 others = assets - performance - management;
        performanceShares = performance * (totalSupply + virtualShares) / (others + 1);
        managementShares = management * (totalSupply + virtualShares) / (others + 1);
    }

    function convertToShares(uint256 assets) external view returns (uint256) {
        return previewDeposit(assets);
    }

    function convertToAssets(uint256 shares) external view returns (uint256) {
        return previewRedeem(shares);
    }

    function previewDeposit(uint256 assets) public view virtual returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return assets * allShares / allAssets;
    }

    function previewMint(uint256 shares) public view virtual returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return divideUp(shares * allAssets, allShares);
    }

    function previewWithdraw(uint256 assets) public view virtual returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return divideUp(assets * allShares, allAssets);
    }

    function previewRedeem(uint256 shares) public view virtual returns (uint256) {
        (uint256 allShares, uint256 allAssets) = _totals();
        return shares * allAssets / allShares;
    }

    // No limit is told, by design: gates and adapters can refuse for reasons that no view function knows.

    function maxDeposit(address) external pure returns (uint256) {
        return 0;
    }

    function maxMint(address) external pure returns (uint256) {
        return 0;
    }

    function maxWithdraw(address) external pure returns (uint256) {
        return 0;
    }

    function maxRedeem(address) external pure returns (uint256) {
        return 0;
    }

    function canReceiveShares(address account) public view virtual returns (bool) {
        return receiveSharesGate == address(0) || IGate(receiveSharesGate).canReceiveShares(account);
    }

    function canSendShares(address account) public view returns (bool) {
        return sendSharesGate == address(0) || IGate(sendSharesGate).canSendShares(account);
    }

    function canReceiveAssets(address account) public view returns (bool) {
        return account == address(this) || receiveAssetsGate == address(0)
            || IGate(receiveAssetsGate).canReceiveAssets(account);
    }

    function canSendAssets(address account) public view returns (bool) {
        return sendAssetsGate == address(0) || IGate(sendAssetsGate).canSendAssets(account);
    }

    // Both with the virtual amounts, and with the fee shares that are due.
    function _totals() private view returns (uint256 allShares, uint256 allAssets) {
        (uint256 assets, uint256 performanceShares, uint256 managementShares) = accrueInterestView();
        allShares = totalSupply + performanceShares + managementShares + virtualShares;
        allAssets = assets + 1;
    }

    function _enter(uint256 assets, uint256 shares, address onBehalf) private {
        if (!canReceiveShares(onBehalf)) revert CannotReceiveShares();
        if (!canSendAssets(msg.sender)) revert CannotSendAssets();
        SafeToken.take(_asset, msg.sender, address(this), assets);
        _create(onBehalf, shares);
        _totalAssets += uint128(assets);
        emit Deposit(msg.sender, onBehalf, assets, shares);
        if (liquidityAdapter != address(0)) _allocate(liquidityAdapter, liquidityData, assets);
    }

    function _exit(uint256 assets, uint256 shares, address receiver, address onBehalf) private {
        if (!canSendShares(onBehalf)) revert CannotSendShares();
        if (!canReceiveAssets(receiver)) revert CannotReceiveAssets();
        uint256 idle = IAsset(_asset).balanceOf(address(this));
        if (assets > idle && liquidityAdapter != address(0)) {
            _deallocate(liquidityAdapter, liquidityData, assets - idle);
        }
        _spend(onBehalf, shares);
        _balances[onBehalf] -= shares;
        totalSupply -= shares;
        emit Transfer(onBehalf, address(0), shares);
        _totalAssets -= uint128(assets);
        SafeToken.give(_asset, receiver, assets);
        emit Withdraw(msg.sender, receiver, onBehalf, assets, shares);
    }

    function _allocate(address adapter, bytes memory data, uint256 assets) private {
        if (!isAdapter[adapter]) revert NotAdapter();
        SafeToken.give(_asset, adapter, assets);
        (bytes32[] memory ids, int256 change) = IAdapter(adapter).allocate(data, assets, msg.sig, msg.sender);
        for (uint256 i = 0; i < ids.length; i++) {
            bytes32 id = ids[i];
            allocation[id] = uint256(int256(allocation[id]) + change);
            if (absoluteCap[id] == 0) revert ZeroAbsoluteCap();
            if (allocation[id] > absoluteCap[id]) revert AbsoluteCapExceeded();
            if (relativeCap[id] != WAD && allocation[id] > uint256(_totalAssets) * relativeCap[id] / WAD) {
                revert RelativeCapExceeded();
            }
        }
    }

    function _deallocate(address adapter, bytes memory data, uint256 assets) private returns (bytes32[] memory ids) {
        if (!isAdapter[adapter]) revert NotAdapter();
        int256 change;
        (ids, change) = IAdapter(adapter).deallocate(data, assets, msg.sig, msg.sender);
        for (uint256 i = 0; i < ids.length; i++) {
            if (allocation[ids[i]] == 0) revert ZeroAllocation();
            allocation[ids[i]] = uint256(int256(allocation[ids[i]]) + change);
        }
        SafeToken.take(_asset, adapter, address(this), assets);
    }

    function _create(address to, uint256 shares) private {
        totalSupply += shares;
        _balances[to] += shares;
        emit Transfer(address(0), to, shares);
    }

    function _move(address from, address to, uint256 value) private returns (bool) {
        if (!canSendShares(from)) revert CannotSendShares();
        if (!canReceiveShares(to)) revert CannotReceiveShares();
        _balances[from] -= value;
        _balances[to] += value;
        emit Transfer(from, to, value);
        return true;
    }

    function _spend(address holder, uint256 value) private {
        if (holder == msg.sender || allowance[holder][msg.sender] == type(uint256).max) return;
        allowance[holder][msg.sender] -= value;
    }
}
