use super::adapter::IMarketAdapter;
use super::blue::{IInterestModel, IMorphoBlue};
use super::errors::VaultErrors;
use super::factory::{
    IMarketAdapterFactory, IMetaMorphoFactory, IVaultAdapterFactory, IVaultV2Factory,
};
use super::token::IErc20;
use super::vault::{IMetaMorpho, IVault, IVaultV2};
use super::*;
use alloy_primitives::{b256, hex};
use alloy_sol_types::SolError;

fn assert_selectors(rows: &[([u8; 4], &str)]) {
    for (selector, expected) in rows {
        assert_eq!(hex::encode(selector), *expected);
    }
}

#[test]
fn the_selectors_of_the_singleton_are_those_of_the_contract() {
    assert_selectors(&[
        (IMorphoBlue::idToMarketParamsCall::SELECTOR, "2c3c9157"),
        (IMorphoBlue::marketCall::SELECTOR, "5c60e39a"),
        (IMorphoBlue::positionCall::SELECTOR, "93c52062"),
        (IMorphoBlue::supplyCall::SELECTOR, "a99aad89"),
        (IMorphoBlue::withdrawCall::SELECTOR, "5c2bea49"),
        (IMorphoBlue::accrueInterestCall::SELECTOR, "151c1ade"),
        (IInterestModel::borrowRateViewCall::SELECTOR, "8c00bf6b"),
    ]);
}

#[test]
fn the_selectors_of_factories_and_adapters_are_those_of_the_contracts() {
    assert_selectors(&[
        (IVaultV2Factory::isVaultV2Call::SELECTOR, "5edec50d"),
        (IMetaMorphoFactory::isMetaMorphoCall::SELECTOR, "29b5352c"),
        (IMarketAdapterFactory::isMorphoMarketV1AdapterV2Call::SELECTOR, "d6aebf94"),
        (IMarketAdapter::marketIdsLengthCall::SELECTOR, "ace48b45"),
        (IMarketAdapter::marketIdsCall::SELECTOR, "779a9683"),
        (IMarketAdapter::expectedSupplyAssetsCall::SELECTOR, "99f7e861"),
    ]);
    // The signature comes from the contract's source, because no selector of the deployed contract is on record.
    assert_eq!(
        IVaultAdapterFactory::isMorphoVaultV1AdapterCall::SIGNATURE,
        "isMorphoVaultV1Adapter(address)"
    );
}

#[test]
fn the_selectors_of_both_kinds_of_vaults_are_those_of_the_contracts() {
    assert_selectors(&[
        (IVault::depositCall::SELECTOR, "6e553f65"),
        (IVault::mintCall::SELECTOR, "94bf804d"),
        (IVault::withdrawCall::SELECTOR, "b460af94"),
        (IVault::redeemCall::SELECTOR, "ba087652"),
        (IVault::previewDepositCall::SELECTOR, "ef8b30f7"),
        (IVault::previewMintCall::SELECTOR, "b3d7f6b9"),
        (IVault::previewWithdrawCall::SELECTOR, "0a28a477"),
        (IVault::previewRedeemCall::SELECTOR, "4cdad506"),
        (IVault::convertToAssetsCall::SELECTOR, "07a2d13a"),
        (IVault::assetCall::SELECTOR, "38d52e0f"),
        (IVault::totalAssetsCall::SELECTOR, "01e1d114"),
        (IVault::totalSupplyCall::SELECTOR, "18160ddd"),
        (IVault::balanceOfCall::SELECTOR, "70a08231"),
        (IVault::maxWithdrawCall::SELECTOR, "ce96cb77"),
        (IVault::curatorCall::SELECTOR, "e66f53b7"),
        (IVault::ownerCall::SELECTOR, "8da5cb5b"),
    ]);
}

#[test]
fn the_selectors_of_one_kind_of_vault_are_those_of_the_contract() {
    assert_selectors(&[
        (IVaultV2::adaptersLengthCall::SELECTOR, "5aa22bc8"),
        (IVaultV2::adaptersCall::SELECTOR, "4ef501ac"),
        (IVaultV2::adapterRegistryCall::SELECTOR, "50b5c16a"),
        (IVaultV2::liquidityAdapterCall::SELECTOR, "ad468d11"),
        (IVaultV2::liquidityDataCall::SELECTOR, "2e029228"),
        (IVaultV2::virtualSharesCall::SELECTOR, "c719946c"),
        (IVaultV2::absoluteCapCall::SELECTOR, "bc0dd374"),
        (IVaultV2::forceDeallocatePenaltyCall::SELECTOR, "99e99183"),
        (IVaultV2::forceDeallocateCall::SELECTOR, "e4d38cd8"),
        (IVaultV2::multicallCall::SELECTOR, "ac9650d8"),
        (IVaultV2::canReceiveSharesCall::SELECTOR, "98c9b49c"),
        (IVaultV2::canSendSharesCall::SELECTOR, "8e511e4d"),
        (IVaultV2::canReceiveAssetsCall::SELECTOR, "0d326b18"),
        (IVaultV2::canSendAssetsCall::SELECTOR, "20fe8d58"),
        (IMetaMorpho::withdrawQueueLengthCall::SELECTOR, "33f91ebb"),
        (IMetaMorpho::withdrawQueueCall::SELECTOR, "62518ddf"),
        (IMetaMorpho::configCall::SELECTOR, "cc718f76"),
    ]);
}

#[test]
fn the_selector_and_the_topic_of_a_token_are_those_of_erc20() {
    assert_selectors(&[(IErc20::approveCall::SELECTOR, "095ea7b3")]);
    let transfer = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
    assert_eq!(IErc20::Transfer::SIGNATURE_HASH, transfer);
}

#[test]
fn the_selectors_of_errors_are_those_of_the_contracts() {
    assert_selectors(&[
        (VaultErrors::TransferFromReverted::SELECTOR, "e65b7a77"),
        (VaultErrors::TransferReverted::SELECTOR, "ace2a47e"),
        (VaultErrors::CannotReceiveShares::SELECTOR, "861a96d6"),
        (VaultErrors::CannotSendShares::SELECTOR, "876736d1"),
        (VaultErrors::CannotReceiveAssets::SELECTOR, "8181c5ea"),
        (VaultErrors::CannotSendAssets::SELECTOR, "515b7cd9"),
        (VaultErrors::Unauthorized::SELECTOR, "82b42900"),
        (VaultErrors::CapExceeded::SELECTOR, "a4875a49"),
        (VaultErrors::AbsoluteCapExceeded::SELECTOR, "4616e4af"),
        (VaultErrors::RelativeCapExceeded::SELECTOR, "44e1772c"),
        (VaultErrors::ZeroAbsoluteCap::SELECTOR, "bb1a23b9"),
        (VaultErrors::ERC20InsufficientBalance::SELECTOR, "e450d38c"),
        (VaultErrors::ERC20InsufficientAllowance::SELECTOR, "fb8f41b2"),
    ]);
}

#[test]
fn the_topics_are_those_of_the_contracts() {
    let rows = [
        (
            IVaultV2Factory::CreateVaultV2::SIGNATURE_HASH,
            b256!("341ce009267aa0d78cc12b34155e223904a51ed49d144beb6eb8be87813edb4e"),
        ),
        (
            IMetaMorphoFactory::CreateMetaMorpho::SIGNATURE_HASH,
            b256!("ed8c95d05909b0f217f3e68171ef917df4b278d5addfe4dda888e90279be7d1d"),
        ),
        (
            IVault::Deposit::SIGNATURE_HASH,
            b256!("dcbc1c05240f31ff3ad067ef1ee35ce4997762752e3a095284754544f4c709d7"),
        ),
        (
            IVault::Withdraw::SIGNATURE_HASH,
            b256!("fbde797d201c681b91056529119e0b02407c7bb96a4a2c75c01fc9667232c8db"),
        ),
        (
            IMorphoBlue::Supply::SIGNATURE_HASH,
            b256!("edf8870433c83823eb071d3df1caa8d008f12f6440918c20d75a3602cda30fe0"),
        ),
        (
            IMorphoBlue::Withdraw::SIGNATURE_HASH,
            b256!("a56fc0ad5702ec05ce63666221f796fb62437c32db1aa1aa075fc6484cf58fbf"),
        ),
    ];
    for (topic, expected) in rows {
        assert_eq!(topic, expected);
    }
}

#[test]
fn an_answer_with_surplus_bytes_is_not_decoded() {
    let answer = [0_u8; 32];
    assert_eq!(decode::<IVault::totalAssetsCall>(&answer), Some(alloy_primitives::U256::ZERO));
    assert_eq!(decode::<IVault::totalAssetsCall>(&answer[..31]), None);
    assert_eq!(decode::<IVault::totalAssetsCall>(&[0_u8; 33]), None);
    assert_eq!(decode::<IVault::totalAssetsCall>(&[0_u8; 64]), None);
}
