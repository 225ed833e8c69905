// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// Morpho Blue as its callers see it, and the value of a position in it, interest included that the market has
// not booked yet. Imported by the vaults and adapters; no contract itself.

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
    function accrueInterest(MarketParams memory) external;
    function market(bytes32 id) external view returns (Market memory);
    function position(bytes32 id, address user) external view returns (uint256, uint128, uint128);
    function idToMarketParams(bytes32 id) external view returns (MarketParams memory);
}

interface IIrm {
    function borrowRateView(MarketParams memory, Market memory) external view returns (uint256);
}

interface IAsset {
    function approve(address spender, uint256 value) external returns (bool);
    function balanceOf(address owner) external view returns (uint256);
    function decimals() external view returns (uint8);
}

uint256 constant WAD = 1e18;

function min(uint256 one, uint256 other) pure returns (uint256) {
    return one < other ? one : other;
}

function divideUp(uint256 value, uint256 by) pure returns (uint256) {
    return (value + by - 1) / by;
}

library Blue {
    // Morpho's virtual amounts.
    uint256 private constant SHARES = 1e6;
    uint256 private constant ASSETS = 1;

    function id(MarketParams memory params) internal pure returns (bytes32) {
        return keccak256(abi.encode(params));
    }

    // The market as it would be once it books the interest since its last update: the same sum as Morpho's.
    function expected(IMorpho morpho, bytes32 market) internal view returns (Market memory m) {
        m = morpho.market(market);
        uint256 elapsed = block.timestamp - m.lastUpdate;
        MarketParams memory params = morpho.idToMarketParams(market);
        if (elapsed == 0 || m.totalBorrowAssets == 0 || params.irm == address(0)) return m;
        uint256 first = IIrm(params.irm).borrowRateView(params, m) * elapsed;
        uint256 second = first * first / (2 * WAD);
        uint256 third = second * first / (3 * WAD);
        uint256 interest = uint256(m.totalBorrowAssets) * (first + second + third) / WAD;
        m.totalSupplyAssets += uint128(interest);
        m.totalBorrowAssets += uint128(interest);
        if (m.fee == 0) return m;
        uint256 fee = interest * m.fee / WAD;
        m.totalSupplyShares +=
            uint128(fee * (m.totalSupplyShares + SHARES) / (m.totalSupplyAssets - fee + ASSETS));
    }

    function worth(Market memory m, uint256 shares) internal pure returns (uint256) {
        return shares * (uint256(m.totalSupplyAssets) + ASSETS) / (uint256(m.totalSupplyShares) + SHARES);
    }

    function supplied(IMorpho morpho, bytes32 market, address owner) internal view returns (uint256) {
        (uint256 shares,,) = morpho.position(market, owner);
        return worth(expected(morpho, market), shares);
    }
}

// Token calls that fail in the words of Vault V2.
library SafeToken {
    error NoCode();
    error TransferReverted();
    error TransferReturnedFalse();
    error TransferFromReverted();
    error TransferFromReturnedFalse();

    function give(address token, address to, uint256 value) internal {
        if (token.code.length == 0) revert NoCode();
        (bool done, bytes memory answer) =
            token.call(abi.encodeWithSignature("transfer(address,uint256)", to, value));
        if (!done) revert TransferReverted();
        if (answer.length != 0 && !abi.decode(answer, (bool))) revert TransferReturnedFalse();
    }

    function take(address token, address from, address to, uint256 value) internal {
        if (token.code.length == 0) revert NoCode();
        (bool done, bytes memory answer) = token.call(
            abi.encodeWithSignature("transferFrom(address,address,uint256)", from, to, value)
        );
        if (!done) revert TransferFromReverted();
        if (answer.length != 0 && !abi.decode(answer, (bool))) revert TransferFromReturnedFalse();
    }
}
