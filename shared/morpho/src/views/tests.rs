use super::*;
use crate::calls::liquidity_data;
use crate::gates::GateKind;
use crate::market::{Market, MarketParams};
use alloy_primitives::{Bytes, hex};
use bursar_core::networks::VaultKind;

const ACCOUNT: Address = Address::repeat_byte(0x0a);
const ID: B256 = B256::repeat_byte(0x1d);

fn params() -> MarketParams {
    MarketParams {
        loan_token: Address::repeat_byte(1),
        collateral_token: Address::repeat_byte(2),
        oracle: Address::repeat_byte(3),
        interest_model: Address::repeat_byte(4),
        lltv_e18: U256::from(5),
    }
}

fn word(value: u64) -> [u8; 32] {
    U256::from(value).to_be_bytes()
}

fn words(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    values.into_iter().flat_map(word).collect()
}

fn assert_call(data: Bytes, selector: [u8; 4], arguments: &[[u8; 32]]) {
    assert_eq!(data[..], [&selector[..], &arguments.concat()].concat());
}

#[test]
fn reads_without_arguments_are_their_selector() {
    let rows = [
        (vault::asset_call(), hex!("38d52e0f")),
        (vault::curator_call(), hex!("e66f53b7")),
        (vault::owner_call(), hex!("8da5cb5b")),
        (vault::total_assets_call(), hex!("01e1d114")),
        (vault::total_supply_call(), hex!("18160ddd")),
        (vault::adapter_count_call(), hex!("5aa22bc8")),
        (vault::adapter_registry_call(), hex!("50b5c16a")),
        (vault::liquidity_adapter_call(), hex!("ad468d11")),
        (vault::liquidity_data_call(), hex!("2e029228")),
        (vault::virtual_shares_call(), hex!("c719946c")),
        (vault::withdraw_queue_length_call(), hex!("33f91ebb")),
        (adapter::market_count_call(), hex!("ace48b45")),
    ];
    for (data, selector) in rows {
        assert_call(data, selector, &[]);
    }
}

#[test]
fn reads_with_one_argument_have_its_word() {
    let account = ACCOUNT.into_word().0;
    let seven = U256::from(7);
    let rows = [
        (vault::balance_call(ACCOUNT), hex!("70a08231"), account),
        (vault::max_withdraw_call(ACCOUNT), hex!("ce96cb77"), account),
        (vault::force_deallocate_penalty_call(ACCOUNT), hex!("99e99183"), account),
        (vault::passes_gate_call(GateKind::ReceiveShares, ACCOUNT), hex!("98c9b49c"), account),
        (vault::passes_gate_call(GateKind::SendShares, ACCOUNT), hex!("8e511e4d"), account),
        (vault::passes_gate_call(GateKind::ReceiveAssets, ACCOUNT), hex!("0d326b18"), account),
        (vault::passes_gate_call(GateKind::SendAssets, ACCOUNT), hex!("20fe8d58"), account),
        (factory::is_vault_call(VaultKind::V2, ACCOUNT), hex!("5edec50d"), account),
        (factory::is_vault_call(VaultKind::MetaMorpho, ACCOUNT), hex!("29b5352c"), account),
        (factory::is_market_adapter_call(ACCOUNT), hex!("d6aebf94"), account),
        (vault::preview_deposit_call(seven), hex!("ef8b30f7"), word(7)),
        (vault::preview_mint_call(seven), hex!("b3d7f6b9"), word(7)),
        (vault::preview_withdraw_call(seven), hex!("0a28a477"), word(7)),
        (vault::preview_redeem_call(seven), hex!("4cdad506"), word(7)),
        (vault::convert_to_assets_call(seven), hex!("07a2d13a"), word(7)),
        (vault::adapter_call(7), hex!("4ef501ac"), word(7)),
        (vault::withdraw_queue_call(7), hex!("62518ddf"), word(7)),
        (adapter::market_id_call(7), hex!("779a9683"), word(7)),
        (vault::absolute_cap_call(ID), hex!("bc0dd374"), ID.0),
        (vault::market_config_call(ID), hex!("cc718f76"), ID.0),
        (adapter::supplied_call(ID), hex!("99f7e861"), ID.0),
        (market::market_params_call(ID), hex!("2c3c9157"), ID.0),
        (market::market_call(ID), hex!("5c60e39a"), ID.0),
    ];
    for (data, selector, argument) in rows {
        assert_call(data, selector, &[argument]);
    }
    let arguments = [ID.0, ACCOUNT.into_word().0];
    assert_call(market::position_call(ID, ACCOUNT), hex!("93c52062"), &arguments);
}

#[test]
fn each_gate_has_its_own_getter() {
    let kinds = [
        GateKind::ReceiveShares,
        GateKind::SendAssets,
        GateKind::SendShares,
        GateKind::ReceiveAssets,
    ];
    let mut getters = kinds.map(vault::gate_call).to_vec();
    assert!(getters.iter().all(|getter| getter.len() == 4));
    getters.sort();
    getters.dedup();
    assert_eq!(getters.len(), 4);
}

#[test]
fn interest_is_accrued_for_the_parameters() {
    let expected = [&hex!("151c1ade")[..], &liquidity_data(&params())].concat();
    assert_eq!(market::accrue_interest_call(&params())[..], expected);
}

#[test]
fn the_rate_is_asked_for_with_parameters_and_totals() {
    let totals = market::decode_market(&words(11..=16)).unwrap();
    let data = market::borrow_rate_call(&params(), &totals);
    let expected = [&hex!("8c00bf6b")[..], &liquidity_data(&params()), &words(11..=16)].concat();
    assert_eq!(data[..], expected);
}

#[test]
fn answers_of_markets_are_read_in_order() {
    let expected = Market {
        total_supply_assets: 11,
        total_supply_shares: 12,
        total_borrow_assets: 13,
        total_borrow_shares: 14,
        last_update: 15,
        fee_e18: 16,
    };
    assert_eq!(market::decode_market(&words(11..=16)), Some(expected));

    let position = market::decode_position(&words([1, 2, 3])).unwrap();
    assert_eq!(
        (position.supply_shares, position.borrow_shares, position.collateral),
        (U256::from(1), 2, 3)
    );

    let config = vault::decode_market_config(&words([9, 1, 8])).unwrap();
    assert_eq!((config.cap, config.is_enabled, config.removable_at), (U256::from(9), true, 8));
}

#[test]
fn parameters_of_another_market_are_not_read() {
    let answer = liquidity_data(&params());
    assert_eq!(market::decode_market_params(params().id(), &answer), Some(params()));
    assert_eq!(market::decode_market_params(ID, &answer), None);
    assert_eq!(market::decode_market_params(ID, &[0; 160]), None);
}

#[test]
fn the_data_of_a_market_adapter_names_its_market() {
    let data = liquidity_data(&params());
    let answer = [&words([32, 160])[..], &data].concat();
    let read = vault::decode_liquidity_data(&answer).unwrap();
    assert_eq!(adapter::decode_liquidity_market(&read), Some(params()));
    // A vault adapter gets empty data.
    let read = vault::decode_liquidity_data(&words([32, 0])).unwrap();
    assert_eq!((read.len(), adapter::decode_liquidity_market(&read)), (0, None));
    // The offset is not the one that the encoder writes.
    assert_eq!(vault::decode_liquidity_data(&words([64, 0, 0])), None);
}

#[test]
fn an_answer_that_is_short_long_or_out_of_range_is_not_read() {
    let full = |length| vec![0xff_u8; length];
    for length in [0, 1, 31, 33, 64] {
        assert_eq!(decode_address(&vec![0; length]), None);
        assert_eq!(decode_amount(&vec![0; length]), None);
        assert_eq!(decode_length(&vec![0; length]), None);
        assert_eq!(decode_flag(&vec![0; length]), None);
        assert_eq!(decode_market_id(&vec![0; length]), None);
    }
    assert_eq!(decode_address(&full(32)), None);
    assert_eq!(decode_length(&full(32)), None);
    assert_eq!(decode_flag(&word(2)), None);
    assert_eq!(decode_amount(&full(32)), Some(U256::MAX));
    assert_eq!(decode_flag(&word(1)), Some(true));
    assert_eq!(market::decode_market(&full(192)), None);
    assert_eq!(market::decode_market(&words(0..5)), None);
    assert_eq!(market::decode_market(&words(0..7)), None);
    assert_eq!(market::decode_position(&full(96)), None);
    assert_eq!(vault::decode_market_config(&words([9, 2, 8])), None);
    assert_eq!(adapter::decode_liquidity_market(&full(160)), None);
    assert_eq!(adapter::decode_liquidity_market(&words(0..6)), None);
}
