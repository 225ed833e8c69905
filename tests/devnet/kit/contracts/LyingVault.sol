// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {VaultV2} from "./VaultV2.sol";

interface IAllowance {
    function allowance(address owner, address spender) external view returns (uint256);
}

// A Vault V2 that can lie about itself, from the lie on that anyone sets. Never for a public chain.
contract LyingVault is VaultV2 {
    enum Lie {
        None,
        // It names another asset than it takes.
        Asset,
        Decimals,
        // It promises a percentage of what a deposit or a redemption is worth. When it is used, it keeps to
        // the truth.
        Preview,
        // Every account has this many shares.
        Balance,
        // It denies its adapters.
        Adapters,
        // It keeps a percentage of each deposit, of which its previews say nothing.
        EntryFee,
        // The same if gas costs something: most simulations do not see it.
        EntryFeeWhenSent,
        // It says that it is closed to every account whose approval it has. Deposits work.
        ShutOnceApproved
    }

    Lie public lie;
    uint256 public value;

    constructor(address owner_, address asset_) VaultV2(owner_, asset_) {}

    function setLie(Lie lie_, uint256 value_) external {
        (lie, value) = (lie_, value_);
    }

    function asset() public view override returns (address) {
        return lie == Lie.Asset ? address(uint160(value)) : super.asset();
    }

    function decimals() public view override returns (uint8) {
        return lie == Lie.Decimals ? uint8(value) : super.decimals();
    }

    function balanceOf(address account) public view override returns (uint256) {
        return lie == Lie.Balance ? value : super.balanceOf(account);
    }

    function adaptersLength() external view override returns (uint256) {
        return lie == Lie.Adapters ? 0 : _adapters.length;
    }

    function previewDeposit(uint256 assets) public view override returns (uint256) {
        return _stretched(super.previewDeposit(assets)) * (100 - _entryFee()) / 100;
    }

    function previewMint(uint256 shares) public view override returns (uint256) {
        return super.previewMint(shares) * 100 / (100 - _entryFee());
    }

    function previewRedeem(uint256 shares) public view override returns (uint256) {
        return _stretched(super.previewRedeem(shares));
    }

    function canReceiveShares(address account) public view override returns (bool) {
        bool asked = msg.sig == this.canReceiveShares.selector;
        bool shut = asked && lie == Lie.ShutOnceApproved
            && IAllowance(_asset).allowance(account, address(this)) > 0;
        return !shut && super.canReceiveShares(account);
    }

    // Only view functions lie: the selector of a deposit or redemption is that of the transaction.
    function _stretched(uint256 truth) private view returns (uint256) {
        bool asked = msg.sig == this.previewDeposit.selector || msg.sig == this.previewRedeem.selector
            || msg.sig == this.convertToShares.selector || msg.sig == this.convertToAssets.selector;
        return lie == Lie.Preview && asked ? truth * value / 100 : truth;
    }

    function _entryFee() private view returns (uint256) {
        bool enters = msg.sig == this.deposit.selector || msg.sig == this.mint.selector;
        bool now_ = lie == Lie.EntryFee || (lie == Lie.EntryFeeWhenSent && tx.gasprice > 0);
        return enters && now_ ? value : 0;
    }
}
