//! Tests of how values are parsed.

use alloy_primitives::{Address, U256};
use proptest::prelude::*;

use super::*;

fn gas_price(text: &str) -> Result<u128, String> {
    base(&format!("max_gas_price_gwei = {text}"))
        .map(|network| network.max_gas_price)
        .map_err(|fault| fault.to_string())
}

fn balance(text: &str) -> Result<U256, String> {
    base(&format!("min_signer_balance = {text}"))
        .map(|network| network.min_signer_balance)
        .map_err(|fault| fault.to_string())
}

#[test]
fn a_gas_price_in_gwei_is_read_to_the_wei() {
    for (text, wei) in [
        ("\"0.5\"", 500_000_000),
        ("\"1\"", 1_000_000_000),
        ("1", 1_000_000_000),
        ("\"0.000000001\"", 1),
        ("\"12.345678901\"", 12_345_678_901),
        ("\"1000000\"", 1_000_000_000_000_000),
        ("\" 2 \"", 2_000_000_000),
    ] {
        assert_eq!(gas_price(text), Ok(wei), "{text}");
    }
}

#[test]
fn inexact_gas_price_is_rejected() {
    for (text, word) in [
        ("\"0.0000000001\"", "more than 9 digits"),
        ("\"-1\"", "decimal number"),
        ("-1", "decimal number"),
        ("\"+1\"", "decimal number"),
        ("\"1e3\"", "decimal number"),
        ("\"1.\"", "decimal number"),
        ("\".5\"", "decimal number"),
        ("\"01\"", "decimal number"),
        ("\"0x10\"", "decimal number"),
        ("\"1_000\"", "decimal number"),
        ("\"1 gwei\"", "decimal number"),
        ("\"٣\"", "decimal number"),
        ("\"NaN\"", "decimal number"),
        ("0.5", "quotes"),
        ("1e3", "quotes"),
        ("inf", "quotes"),
        ("true", "quotes"),
        ("[1]", "quotes"),
        ("\"\"", "empty"),
        ("\"0\"", "above 0"),
        ("\"0.000000000\"", "above 0"),
        ("\"1000000.000000001\"", "at most"),
        ("\"340282366920938463463374607432\"", "at most"),
        ("\"9999999999999999999999999999999\"", "at most"),
        ("\"99999999999999999999999999999999\"", "decimal number"),
        (
            "\"115792089237316195423570985008687907853269984665640564039457584007913129639936\"",
            "number",
        ),
    ] {
        let why = gas_price(text).unwrap_err();
        assert!(why.contains(word) && why.contains("max_gas_price_gwei"), "{text}: {why}");
    }
}

#[test]
fn a_balance_with_a_point_is_in_coins_and_without_one_in_wei() {
    for (text, wei) in [
        ("\"0.01\"", 10_000_000_000_000_000_u128),
        ("\"1.0\"", 1_000_000_000_000_000_000),
        ("\"1\"", 1),
        ("1", 1),
        ("0", 0),
        ("\"0.000000000000000001\"", 1),
        ("\"5000000000000000\"", 5_000_000_000_000_000),
    ] {
        assert_eq!(balance(text), Ok(U256::from(wei)), "{text}");
    }
    let too_much = format!("\"{}.0\"", u128::MAX);
    for (text, word) in [
        ("\"0.0000000000000000001\"", "more than 18 digits"),
        ("0.01", "quotes"),
        ("-1", "decimal number"),
        ("\"9999999999999999999999999999999.0\"", "it is too large"),
        (&too_much, "decimal number"),
    ] {
        let why = balance(text).unwrap_err();
        assert!(why.contains(word), "{text}: {why}");
    }
}

proptest! {
    #[test]
    fn any_gas_price_within_bounds_round_trips_to_the_wei(wei in 1..=1_000_000_000_000_000_u128) {
        let text = format!("{}.{:09}", wei / 1_000_000_000, wei % 1_000_000_000);
        prop_assert_eq!(RawSetting::Text(&text).decimal(9), Ok(U256::from(wei)));
        let mut network = Config::default().networks[&BASE].clone();
        let key = table::network::NETWORK.iter().find(|key| key.name == "max_gas_price_gwei").unwrap();
        prop_assert_eq!((key.set)(&mut network, RawSetting::Text(&text)), Ok(()));
        prop_assert_eq!(network.gas().ceiling, wei);
    }

    #[test]
    fn no_settings_error_repeats_the_given_text(text in "\\PC{0,40}[~^|;]") {
        let mut config = Config::default();
        for key in table::service::SERVICE {
            if let Err(why) = (key.set)(&mut config, RawSetting::Text(&text)) {
                prop_assert!(!why.contains(text.trim()) || text.trim().len() < 2, "{}", why);
            }
        }
        let mut network = config.networks[&BASE].clone();
        for key in table::network::NETWORK {
            if let Err(why) = (key.set)(&mut network, RawSetting::Text(&text)) {
                prop_assert!(!why.contains(text.trim()) || text.trim().len() < 2, "{}", why);
            }
        }
    }

    #[test]
    fn any_settings_file_is_parsed_or_rejected_without_panic(text in "\\PC{0,60}(\n\\PC{0,30}){0,4}") {
        let _either = load(&text, &[]);
    }
}

#[test]
fn numeric_settings_enforce_their_bounds() {
    let service = |key: &str, value: u64| load(&format!("{key} = {value}"), &[]).is_ok();
    let network = |key: &str, value: u64| base(&format!("{key} = {value}")).is_ok();
    type ValueCheck<'a> = &'a dyn Fn(&str, u64) -> bool;
    let rows: [(ValueCheck<'_>, &str, u64, u64); 10] = [
        (&service, "wait_ms", 0, 10_000),
        (&service, "retention_days", 0, 36_500),
        (&service, "batch_calls", 1, 100),
        (&service, "batch_window_ms", 0, 1_000),
        (&service, "in_flight", 1, 16),
        (&service, "drain_ms", 0, 600_000),
        (&service, "rate_per_minute", 0, 1_000_000),
        (&network, "poll_ms", 20, 10_000),
        (&network, "confirmations", 1, 1_000),
        (&network, "gas_cap_contract", 100_000, 30_000_000),
    ];
    for (taken, key, lowest, highest) in rows {
        assert!(taken(key, lowest) && taken(key, highest), "{key}");
        assert!(!taken(key, highest + 1), "{key}");
        assert!(lowest == 0 || !taken(key, lowest - 1), "{key}");
    }
    assert!(network("block_gas_share_percent", 1) && network("block_gas_share_percent", 100));
    assert!(!network("block_gas_share_percent", 0) && !network("block_gas_share_percent", 101));
    for value in ["-1", "1.0", "\"1\"", "true", "[]", "99999999999999999999"] {
        assert!(load(&format!("wait_ms = {value}"), &[]).is_err(), "{value}");
    }
    for value in ["-1", "1.0", "1e3", "0x1", "18446744073709551616", "one"] {
        assert!(from_env(&[("FACILITATOR_WAIT_MS", value)]).is_err(), "{value}");
    }
}

#[test]
fn network_limits_its_endpoints_and_signers() {
    let list = |one: &str, count| vec![format!("\"{one}\""); count].join(",");
    let rpc = |count| base(&format!("rpc = [{}]", list("http://a", count)));
    let signers = |count| base(&format!("signers = [{}]", list("a", count)));
    assert_eq!((rpc(8).unwrap().rpc.len(), signers(16).unwrap().signers.len()), (8, 16));
    assert!(rpc(9).is_err() && signers(17).is_err());
}

#[test]
fn an_address_in_mixed_case_must_keep_its_checksum() {
    let prism = |text: &str| base(&format!("prism = \"{text}\"")).map(|network| network.prism);
    let right = "0x402085c248EeA27D92E8b30b2C58ed07f9E20001";
    let upper = format!("0x{}", right.trim_start_matches("0x").to_uppercase());
    for text in [right, &right.to_lowercase(), &upper] {
        assert_eq!(prism(text).unwrap(), right.parse::<Address>().unwrap());
    }
    for (text, word) in [
        ("0x402085c248EeA27D92E8b30b2C58ed07f9e20001", "checksum"),
        ("0x402085c248eea27d92e8b30b2c58ed07f9e2000", "40 hex digits"),
        ("402085c248eea27d92e8b30b2c58ed07f9e20001", "40 hex digits"),
        ("0x402085c248eea27d92e8b30b2c58ed07f9e2000g", "40 hex digits"),
        ("0x0x2085c248eea27d92e8b30b2c58ed07f9e20001", "40 hex digits"),
        ("0x0000000000000000000000000000000000000000", "zero address"),
    ] {
        let why = prism(text).unwrap_err().to_string();
        assert!(why.contains(word), "{text}: {why}");
    }
    let wrong = "0x402085c248EeA27D92E8b30b2C58ed07f9e20001";
    for setting in ["tokens", "min_amount", "upto_contracts"] {
        let value = if setting == "min_amount" { format!("{wrong}=1") } else { wrong.to_owned() };
        let why = base(&format!("{setting} = [\"{value}\"]")).unwrap_err().to_string();
        assert!(why.contains("checksum"), "{setting}: {why}");
    }
}

#[test]
fn a_network_is_served_with_a_node_and_a_signer() {
    assert!(!base("rpc = [\"http://a\"]").unwrap().is_configured());
    assert!(!base("signers = [\"a\"]").unwrap().is_configured());
    assert!(base("rpc = [\"http://a\"]\nsigners = [\"a\"]").unwrap().is_configured());
}

#[test]
fn network_gas_is_the_table_row_with_the_settings_applied() {
    let network = base("max_gas_price_gwei = 3\npoll_ms = 50\nconfirmations = 9").unwrap();
    let row = network.network.gas;
    let gas = network.gas();
    assert_eq!((gas.ceiling, gas.poll_ms, gas.confirmations), (3_000_000_000, 50, 9));
    assert_eq!((gas.model, gas.tip, gas.patience_ms), (row.model, row.tip, row.patience_ms));
}

#[test]
fn an_empty_list_of_tokens_takes_any_and_a_list_takes_the_dollar_token_too() {
    let other = Address::repeat_byte(0xaa);
    let any = base("").unwrap();
    assert!(any.accepts_token(other));
    let some = base("tokens = [\"0x00000000000000000000000000000000000000bb\"]").unwrap();
    assert!(some.accepts_token(Address::with_last_byte(0xbb)));
    assert!(some.accepts_token(some.network.stablecoin.address));
    assert!(!some.accepts_token(other));
}

#[test]
fn default_wallet_factories_apply_until_others_are_set() {
    assert_eq!(base("").unwrap().eip6492_factories, DEFAULT_FACTORIES.into_iter().collect());
    assert!(base("eip6492_factories = []").unwrap().eip6492_factories.is_empty());
}
