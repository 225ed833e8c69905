//! The stored form of values. The journal stores them as postcard, where the order of variants matters; clients get
//! them as JSON.
#![cfg(test)]

use std::fmt::Debug;

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::{AdapterKind, VaultKind};
use bursar_morpho::trust::NeedsConfirmation;
use bursar_morpho::{GateKind, MarketParams, SharePrice, Trust, UntrustedReason, VenueId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PARTY: Address = Address::repeat_byte(0xab);

fn assert_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Vec<u8> {
    let bytes = postcard::to_allocvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
    bytes
}

/// Asserts the stored forms of a value. `start` is the beginning of the postcard form: the numbers of the variant and
/// of the inner variant.
fn assert_stored<T>(value: T, start: &[u8], expected: &Value)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let bytes = assert_round_trip(&value);
    assert_eq!(bytes.get(..start.len()), Some(start), "{value:?}");
    assert_eq!(&serde_json::to_value(&value).unwrap(), expected);
}

#[test]
fn kinds_keep_their_stored_form() {
    assert_stored(VaultKind::V2, &[0], &json!("v2"));
    assert_stored(VaultKind::MetaMorpho, &[1], &json!("metamorpho"));
    assert_stored(AdapterKind::Markets, &[0], &json!("markets"));
    assert_stored(AdapterKind::MetaMorpho, &[1], &json!("metamorpho"));
    assert_stored(GateKind::ReceiveShares, &[0], &json!("receive_shares"));
    assert_stored(GateKind::SendAssets, &[1], &json!("send_assets"));
    assert_stored(GateKind::SendShares, &[2], &json!("send_shares"));
    assert_stored(GateKind::ReceiveAssets, &[3], &json!("receive_assets"));
}

#[test]
fn judgements_keep_their_stored_form() {
    let party = json!("0xabababababababababababababababababababab");
    assert_stored(Trust::Curated, &[0], &json!("curated"));
    assert_stored(Trust::Pinned, &[1], &json!("pinned"));
    let new = |unproven| Trust::NewNeedsConfirmation(unproven);
    let owner = json!({ "new_needs_confirmation": { "owner": party } });
    assert_stored(new(NeedsConfirmation::Owner(PARTY)), &[2, 0], &owner);
    let registry = json!({ "new_needs_confirmation": "registry" });
    assert_stored(new(NeedsConfirmation::Registry), &[2, 1], &registry);
    let rows = [
        (UntrustedReason::Factory, json!("factory")),
        (UntrustedReason::Asset(PARTY), json!({ "asset": party })),
        (UntrustedReason::Adapter(PARTY), json!({ "adapter": party })),
        (UntrustedReason::InnerVault(PARTY), json!({ "inner_vault": party })),
        (UntrustedReason::Curator(PARTY), json!({ "curator": party })),
        (UntrustedReason::NoMarket, json!("no_market")),
        (UntrustedReason::InterestModel(PARTY), json!({ "interest_model": party })),
        (UntrustedReason::NotEndorsed, json!("not_endorsed")),
        (UntrustedReason::Unreadable, json!("unreadable")),
    ];
    for (number, (reason, expected)) in (0_u8..).zip(rows) {
        assert_stored(Trust::Refused(reason), &[3, number], &json!({ "refused": expected }));
    }
}

#[test]
fn parameters_of_a_market_keep_their_stored_form() {
    let params = MarketParams {
        loan_token: PARTY,
        collateral_token: Address::ZERO,
        oracle: PARTY,
        interest_model: PARTY,
        lltv_e18: U256::from(915_000_000_000_000_000_u64),
    };
    let party = json!("0xabababababababababababababababababababab");
    let expected = json!({
        "loan_token": party,
        "collateral_token": "0x0000000000000000000000000000000000000000",
        "oracle": party,
        "interest_model": party,
        "lltv_e18": "0xcb2bba6f17b8000",
    });
    assert_stored(params, &[], &expected);
}

#[test]
fn names_and_prices_of_venues_keep_their_stored_form() {
    let vault = json!("0xABaBaBaBABabABabAbAbABAbABabababaBaBABaB");
    assert_stored(VenueId::Vault(PARTY), &[42, b'0', b'x', b'A'], &vault);
    let id = "ab".repeat(32);
    let market = VenueId::Market(B256::repeat_byte(0xab));
    assert_stored(market, &[66, b'0', b'x', b'a'], &json!(format!("0x{id}")));

    let price = SharePrice::new(U256::from(5), U256::from(9)).unwrap();
    assert_stored(price, &[], &json!({ "assets": "0x5", "shares": "0x9" }));
}
