use super::*;

const STABLECOIN: Address = Address::repeat_byte(0x01);
const CURATOR: Address = Address::repeat_byte(0x02);
const OWNER: Address = Address::repeat_byte(0x03);
const PINNED: Address = Address::repeat_byte(0x04);
const REGISTRY: Address = Address::repeat_byte(0x05);
const MODEL: Address = Address::repeat_byte(0x06);
const STRANGER: Address = Address::repeat_byte(0xff);

fn trusted() -> TrustList<'static> {
    TrustList {
        stablecoin: STABLECOIN,
        curators: &[CURATOR],
        owners: &[OWNER],
        pinned_vaults: &[PINNED],
        adapter_registry: REGISTRY,
        interest_model: MODEL,
    }
}

fn adapter(origin: AdapterOrigin) -> AdapterReading {
    AdapterReading { adapter: Address::repeat_byte(0xad), origin }
}

fn trusted_vault() -> VaultReading {
    let inner_vault = Address::repeat_byte(0x17);
    VaultReading {
        vault: Address::repeat_byte(0x99),
        kind: VaultKind::V2,
        is_from_official_factory: true,
        asset: STABLECOIN,
        curator: CURATOR,
        owner: OWNER,
        adapters: vec![
            adapter(AdapterOrigin::Markets),
            adapter(AdapterOrigin::Vault { inner_vault, is_inner_official: true }),
        ],
        adapter_registry: Some(REGISTRY),
    }
}

fn pinned() -> VaultReading {
    VaultReading { vault: PINNED, owner: STRANGER, adapter_registry: None, ..trusted_vault() }
}

fn metamorpho() -> VaultReading {
    let (adapters, adapter_registry) = (Vec::new(), None);
    VaultReading { kind: VaultKind::MetaMorpho, adapters, adapter_registry, ..trusted_vault() }
}

fn judge(vault: &VaultReading) -> Trust {
    judge_vault(vault, &trusted())
}

#[test]
fn a_vault_of_trusted_curator_and_owner_is_curated() {
    assert_eq!(judge(&trusted_vault()), Trust::Curated);
    assert_eq!(judge(&metamorpho()), Trust::Curated);
    let empty = VaultReading { adapters: Vec::new(), ..trusted_vault() };
    assert_eq!(judge(&empty), Trust::Curated);
}

#[test]
fn a_pin_stands_in_for_the_owner_and_the_registry() {
    assert_eq!(judge(&pinned()), Trust::Pinned);
    let owned = VaultReading { owner: OWNER, ..pinned() };
    assert_eq!(judge(&owned), Trust::Pinned);
    assert_eq!(judge(&VaultReading { vault: PINNED, ..metamorpho() }), Trust::Pinned);
}

#[test]
fn a_curator_alone_proves_nothing() {
    for vault in [trusted_vault(), metamorpho()] {
        let named_by_a_stranger = VaultReading { owner: STRANGER, ..vault };
        let expected = Trust::NewNeedsConfirmation(NeedsConfirmation::Owner(STRANGER));
        assert_eq!(judge(&named_by_a_stranger), expected);
    }
    for registry in [None, Some(Address::ZERO), Some(STRANGER)] {
        let unbound = VaultReading { adapter_registry: registry, ..trusted_vault() };
        assert_eq!(judge(&unbound), Trust::NewNeedsConfirmation(NeedsConfirmation::Registry));
    }
}

/// Each fault refuses a vault with a trusted owner, a pinned vault, and a vault with an unknown owner.
#[test]
fn factory_asset_adapters_and_curator_refuse_every_vault() {
    let hostile = adapter(AdapterOrigin::Unofficial);
    let inner = adapter(AdapterOrigin::Vault { inner_vault: STRANGER, is_inner_official: false });
    for vault in [trusted_vault(), pinned(), VaultReading { owner: STRANGER, ..trusted_vault() }] {
        let with = |bad| {
            let adapters = [vault.adapters.clone(), vec![bad]].concat();
            VaultReading { adapters, ..vault.clone() }
        };
        let rows = [
            (
                VaultReading { is_from_official_factory: false, ..vault.clone() },
                UntrustedReason::Factory,
            ),
            (VaultReading { asset: STRANGER, ..vault.clone() }, UntrustedReason::Asset(STRANGER)),
            (
                VaultReading { curator: STRANGER, ..vault.clone() },
                UntrustedReason::Curator(STRANGER),
            ),
            (with(hostile), UntrustedReason::Adapter(hostile.adapter)),
            (with(inner), UntrustedReason::InnerVault(STRANGER)),
        ];
        for (vault, reason) in rows {
            assert_eq!(judge(&vault), Trust::Refused(reason));
        }
    }
}

#[test]
fn a_role_that_is_not_filled_is_never_trusted() {
    let zero = &[Address::ZERO][..];
    let careless = TrustList { curators: zero, owners: zero, ..trusted() };
    let orphan = VaultReading { curator: Address::ZERO, owner: Address::ZERO, ..trusted_vault() };
    let expected = Trust::Refused(UntrustedReason::Curator(Address::ZERO));
    assert_eq!(judge_vault(&orphan, &careless), expected);

    let careless = TrustList { owners: zero, ..trusted() };
    let ownerless = VaultReading { owner: Address::ZERO, ..trusted_vault() };
    let expected = Trust::NewNeedsConfirmation(NeedsConfirmation::Owner(Address::ZERO));
    assert_eq!(judge_vault(&ownerless, &careless), expected);
}

#[test]
fn a_market_needs_the_official_model_and_a_trusted_vault_that_lends_to_it() {
    let good = MarketReading {
        loan_token: STABLECOIN,
        interest_model: MODEL,
        last_update: 1,
        cap: U256::ONE,
    };
    let rows = [
        (good, Trust::Curated),
        (MarketReading { last_update: 0, ..good }, Trust::Refused(UntrustedReason::NoMarket)),
        (
            MarketReading { loan_token: STRANGER, ..good },
            Trust::Refused(UntrustedReason::Asset(STRANGER)),
        ),
        (
            MarketReading { interest_model: STRANGER, ..good },
            Trust::Refused(UntrustedReason::InterestModel(STRANGER)),
        ),
        (MarketReading { cap: U256::ZERO, ..good }, Trust::Refused(UntrustedReason::NotEndorsed)),
    ];
    for (market, expected) in rows {
        assert_eq!(judge_market(&market, &trusted()), expected);
    }
}

#[test]
fn each_reason_is_one_plain_sentence() {
    let texts = [
        UntrustedReason::Factory.to_string(),
        UntrustedReason::Asset(STRANGER).to_string(),
        UntrustedReason::Adapter(STRANGER).to_string(),
        UntrustedReason::InnerVault(STRANGER).to_string(),
        UntrustedReason::Curator(STRANGER).to_string(),
        UntrustedReason::NoMarket.to_string(),
        UntrustedReason::InterestModel(STRANGER).to_string(),
        UntrustedReason::NotEndorsed.to_string(),
        NeedsConfirmation::Owner(STRANGER).to_string(),
        NeedsConfirmation::Registry.to_string(),
    ];
    for text in texts {
        assert!(!text.ends_with('.') && text.len() < 140, "{text}");
    }
}
