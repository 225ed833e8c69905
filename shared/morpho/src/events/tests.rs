use super::*;
use alloy_sol_types::SolValue;

const EMITTER: Address = Address::repeat_byte(0xee);
const MARKET: B256 = B256::repeat_byte(0x1d);

fn account(byte: u8) -> Address {
    Address::repeat_byte(byte)
}

fn topic(byte: u8) -> B256 {
    account(byte).into_word()
}

fn amounts() -> Vec<u8> {
    (U256::from(7), U256::from(8)).abi_encode()
}

#[test]
fn a_created_vault_v2_is_the_fourth_topic() {
    let topics = [CREATE_VAULT_V2, topic(1), topic(2), topic(3)];
    let expected = VaultCreated {
        factory: EMITTER,
        kind: VaultKind::V2,
        vault: account(3),
        asset: account(2),
        owner: account(1),
    };
    assert_eq!(vault_created(EMITTER, &topics, &[9; 32]), Some(expected));
}

#[test]
fn a_created_metamorpho_vault_is_the_second_topic() {
    let topics = [CREATE_METAMORPHO, topic(3), topic(9), topic(2)];
    let data =
        (account(1), U256::from(86_400), "Steady USDC".to_owned(), "sUSDC".to_owned(), MARKET);
    let expected = VaultCreated {
        factory: EMITTER,
        kind: VaultKind::MetaMorpho,
        vault: account(3),
        asset: account(2),
        owner: account(1),
    };
    assert_eq!(vault_created(EMITTER, &topics, &data.abi_encode_params()), Some(expected));
}

#[test]
fn events_of_vaults_name_sender_receiver_and_owner() {
    let deposited = Deposited {
        contract: EMITTER,
        market_id: None,
        sender: account(1),
        owner: account(2),
        assets: U256::from(7),
        shares: U256::from(8),
    };
    let topics = [VAULT_DEPOSIT, topic(1), topic(2)];
    assert_eq!(vault_deposit(EMITTER, &topics, &amounts()), Some(deposited));

    let withdrawn = Withdrawn {
        contract: EMITTER,
        market_id: None,
        sender: account(1),
        receiver: account(2),
        owner: account(3),
        assets: U256::from(7),
        shares: U256::from(8),
    };
    let topics = [VAULT_WITHDRAW, topic(1), topic(2), topic(3)];
    assert_eq!(vault_withdrawal(EMITTER, &topics, &amounts()), Some(withdrawn));
}

#[test]
fn events_of_the_singleton_name_market_and_owner() {
    let deposited = Deposited {
        contract: EMITTER,
        market_id: Some(MARKET),
        sender: account(1),
        owner: account(2),
        assets: U256::from(7),
        shares: U256::from(8),
    };
    let topics = [MARKET_SUPPLY, MARKET, topic(1), topic(2)];
    assert_eq!(market_supply(EMITTER, &topics, &amounts()), Some(deposited));

    // The caller is in the data, before the amounts.
    let data = (account(1), U256::from(7), U256::from(8)).abi_encode();
    let withdrawn = Withdrawn {
        contract: EMITTER,
        market_id: Some(MARKET),
        sender: account(1),
        receiver: account(3),
        owner: account(2),
        assets: U256::from(7),
        shares: U256::from(8),
    };
    let topics = [MARKET_WITHDRAW, MARKET, topic(2), topic(3)];
    assert_eq!(market_withdrawal(EMITTER, &topics, &data), Some(withdrawn));
}

#[test]
fn an_event_with_other_topics_or_data_is_not_read() {
    let good = [VAULT_DEPOSIT, topic(1), topic(2)];
    let wide = B256::repeat_byte(0xff);
    let many: [&[B256]; 6] = [
        &[],
        &good[..2],
        &[VAULT_DEPOSIT, topic(1), topic(2), topic(3)],
        &[VAULT_WITHDRAW, topic(1), topic(2)],
        &[VAULT_DEPOSIT, topic(1), wide],
        &[VAULT_DEPOSIT, wide, topic(2)],
    ];
    for topics in many {
        assert_eq!(vault_deposit(EMITTER, topics, &amounts()), None, "{topics:?}");
    }
    let data = amounts();
    let long = [data.clone(), vec![0; 32]].concat();
    for data in [&[][..], &data[..63], &long, &long[..65]] {
        assert_eq!(vault_deposit(EMITTER, &good, data), None);
    }
}
