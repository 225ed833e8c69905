// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// An ERC-4626 vault that lends everything it is given through one Morpho market, in the place of a vault
// of Morpho's own, of which no package exists. As theirs, it counts interest that the market has not booked
// yet, and its shares have 18 decimals. The market must have no fee.

struct MarketParams {
    address loanToken;
    address collateralToken;
    address oracle;
    address irm;
    uint256 lltv;
}

struct Market {
    uint128 totalSupplyAssets;
    uint128 totalSupplyShares;
    uint128 totalBorrowAssets;
    uint128 totalBorrowShares;
    uint128 lastUpdate;
    uint128 fee;
}

interface IMorpho {
    function supply(MarketParams memory, uint256 assets, uint256 shares, address onBehalf, bytes memory data)
        external
        returns (uint256, uint256);
    function withdraw(MarketParams memory, uint256 assets, uint256 shares, address onBehalf, address receiver)
        external
        returns (uint256, uint256);
    function market(bytes32 id) external view returns (Market memory);
    function position(bytes32 id, address user) external view returns (uint256, uint128, uint128);
}

interface IIrm {
    function borrowRateView(MarketParams memory, Market memory) external view returns (uint256);
}

interface IAsset {
    function approve(address spender, uint256 value) external returns (bool);
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}

contract Vault {
    // Morpho's own virtual amounts, and ours: the first depositor cannot make a share expensive.
    uint256 private constant MARKET_SHARES = 1e6;
    uint256 private constant VAULT_SHARES = 1e12;
    uint256 private constant WAD = 1e18;

    uint8 public constant decimals = 18;
    string public name;
    string public symbol;

    address public immutable asset;
    IMorpho public immutable morpho;
    bytes32 public immutable marketId;
    // Vaults of the first kind say how much may come and go; those of the second answer 0 to every such
    // question, by design.
    bool public immutable tellsLimits;
    MarketParams public params;

    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares);
    event Withdraw(
        address indexed sender, address indexed receiver, address indexed owner, uint256 assets, uint256 shares
    );

    constructor(
        string memory name_,
        string memory symbol_,
        IMorpho morpho_,
        MarketParams memory params_,
        bool tellsLimits_
    ) {
        (name, symbol, morpho, params, tellsLimits) = (name_, symbol_, morpho_, params_, tellsLimits_);
        asset = params_.loanToken;
        marketId = keccak256(abi.encode(params_));
        IAsset(params_.loanToken).approve(address(morpho_), type(uint256).max);
    }

    function deposit(uint256 assets, address receiver) external returns (uint256 shares) {
        shares = previewDeposit(assets);
        _enter(assets, shares, receiver);
    }

    function mint(uint256 shares, address receiver) external returns (uint256 assets) {
        assets = previewMint(shares);
        _enter(assets, shares, receiver);
    }

    function withdraw(uint256 assets, address receiver, address owner) external returns (uint256 shares) {
        shares = previewWithdraw(assets);
        _leave(assets, shares, receiver, owner);
    }

    function redeem(uint256 shares, address receiver, address owner) external returns (uint256 assets) {
        assets = previewRedeem(shares);
        _leave(assets, shares, receiver, owner);
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

    function totalAssets() public view returns (uint256) {
        (uint256 shares,,) = morpho.position(marketId, address(this));
        Market memory m = _expected();
        return shares * (uint256(m.totalSupplyAssets) + 1) / (uint256(m.totalSupplyShares) + MARKET_SHARES);
    }

    function convertToShares(uint256 assets) public view returns (uint256) {
        return assets * (totalSupply + VAULT_SHARES) / (totalAssets() + 1);
    }

    function convertToAssets(uint256 shares) public view returns (uint256) {
        return shares * (totalAssets() + 1) / (totalSupply + VAULT_SHARES);
    }

    function previewDeposit(uint256 assets) public view returns (uint256) {
        return convertToShares(assets);
    }

    function previewMint(uint256 shares) public view returns (uint256) {
        return _divideUp(shares * (totalAssets() + 1), totalSupply + VAULT_SHARES);
    }

    function previewWithdraw(uint256 assets) public view returns (uint256) {
        return _divideUp(assets * (totalSupply + VAULT_SHARES), totalAssets() + 1);
    }

    function previewRedeem(uint256 shares) public view returns (uint256) {
        return convertToAssets(shares);
    }

    function maxDeposit(address) external view returns (uint256) {
        return tellsLimits ? type(uint128).max : 0;
    }

    function maxMint(address) external view returns (uint256) {
        return tellsLimits ? type(uint128).max : 0;
    }

    function maxWithdraw(address owner) public view returns (uint256) {
        if (!tellsLimits) return 0;
        Market memory m = _expected();
        uint256 free = uint256(m.totalSupplyAssets) - m.totalBorrowAssets;
        uint256 owned = convertToAssets(balanceOf[owner]);
        return owned < free ? owned : free;
    }

    function maxRedeem(address owner) external view returns (uint256) {
        uint256 shares = convertToShares(maxWithdraw(owner));
        return shares < balanceOf[owner] ? shares : balanceOf[owner];
    }

    function _enter(uint256 assets, uint256 shares, address receiver) private {
        require(IAsset(asset).transferFrom(msg.sender, address(this), assets), "the asset did not come");
        totalSupply += shares;
        balanceOf[receiver] += shares;
        emit Transfer(address(0), receiver, shares);
        emit Deposit(msg.sender, receiver, assets, shares);
        morpho.supply(params, assets, 0, address(this), "");
    }

    function _leave(uint256 assets, uint256 shares, address receiver, address owner) private {
        _spend(owner, shares);
        balanceOf[owner] -= shares;
        totalSupply -= shares;
        emit Transfer(owner, address(0), shares);
        emit Withdraw(msg.sender, receiver, owner, assets, shares);
        morpho.withdraw(params, assets, 0, address(this), receiver);
    }

    function _move(address from, address to, uint256 value) private returns (bool) {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
        return true;
    }

    function _spend(address owner, uint256 value) private {
        if (owner == msg.sender || allowance[owner][msg.sender] == type(uint256).max) return;
        allowance[owner][msg.sender] -= value;
    }

    // The market as it would be once it books the interest since its last update: the same sum as Morpho's.
    function _expected() private view returns (Market memory m) {
        m = morpho.market(marketId);
        uint256 elapsed = block.timestamp - m.lastUpdate;
        if (elapsed == 0 || m.totalBorrowAssets == 0) return m;
        uint256 first = IIrm(params.irm).borrowRateView(params, m) * elapsed;
        uint256 second = first * first / (2 * WAD);
        uint256 third = second * first / (3 * WAD);
        uint128 interest = uint128(uint256(m.totalBorrowAssets) * (first + second + third) / WAD);
        m.totalSupplyAssets += interest;
        m.totalBorrowAssets += interest;
    }

    function _divideUp(uint256 value, uint256 by) private pure returns (uint256) {
        return (value + by - 1) / by;
    }
}
