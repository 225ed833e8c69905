use super::*;
use alloy_primitives::hex;

const OWNER: Address = Address::repeat_byte(0x0a);

fn market() -> MarketParams {
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

fn address_word(byte: u8) -> [u8; 32] {
    Address::repeat_byte(byte).into_word().0
}

fn market_words() -> Vec<[u8; 32]> {
    let mut words: Vec<_> = (1..=4).map(address_word).collect();
    words.push(word(5));
    words
}

/// Asserts that call data is the selector and then these words, which the tests write by hand.
fn assert_call(data: &Bytes, selector: [u8; 4], words: &[[u8; 32]]) {
    assert_eq!(data[..], [&selector[..], &words.concat()].concat());
}

#[test]
fn calls_of_vaults_have_their_words() {
    let (seven, owner) = (U256::from(7), address_word(0x0a));
    let two = [word(7), owner];
    let three = [word(7), owner, owner];
    assert_call(&deposit(seven, OWNER).unwrap(), hex!("6e553f65"), &two);
    assert_call(&mint(seven, OWNER).unwrap(), hex!("94bf804d"), &two);
    assert_call(&withdraw(seven, OWNER).unwrap(), hex!("b460af94"), &three);
    assert_call(&redeem(seven, OWNER).unwrap(), hex!("ba087652"), &three);
}

#[test]
fn calls_of_markets_have_exactly_one_amount() {
    let owner = address_word(0x0a);
    let assets = LoanAmount::Assets(U256::from(7));
    let shares = LoanAmount::Shares(U256::from(7));
    for (amount, amounts) in [(assets, [word(7), word(0)]), (shares, [word(0), word(7)])] {
        let head = [market_words(), amounts.to_vec()].concat();
        // The callback's data starts after nine words and is empty.
        let words = [head.clone(), vec![owner, word(9 * 32), word(0)]].concat();
        assert_call(&supply(&market(), amount, OWNER).unwrap(), hex!("a99aad89"), &words);
        let words = [head, vec![owner, owner]].concat();
        let call = withdraw_from_market(&market(), amount, OWNER).unwrap();
        assert_call(&call, hex!("5c2bea49"), &words);
    }
}

#[test]
fn a_forced_exit_names_the_market_of_a_market_adapter() {
    let adapter = Address::repeat_byte(0xad);
    let head = [address_word(0xad), word(4 * 32), word(7), address_word(0x0a)];
    let named = [head.to_vec(), vec![word(160)], market_words()].concat();
    let call = force_deallocate(adapter, Some(&market()), U256::from(7), OWNER).unwrap();
    assert_call(&call, hex!("e4d38cd8"), &named);

    let unnamed = [head.to_vec(), vec![word(0)]].concat();
    let call = force_deallocate(adapter, None, U256::from(7), OWNER).unwrap();
    assert_call(&call, hex!("e4d38cd8"), &unnamed);
}

#[test]
fn a_forced_exit_is_one_call_of_all_its_parts_in_order() {
    let (seven, eight) = (U256::from(7), U256::from(8));
    let [first, second] = [0xad, 0xae].map(Address::repeat_byte);
    let parts = [
        ForcedPart { adapter: first, market: Some(market()), assets: seven },
        ForcedPart { adapter: second, market: None, assets: eight },
    ];
    let one = force_deallocate(first, Some(&market()), seven, OWNER).unwrap();
    let two = force_deallocate(second, None, eight, OWNER).unwrap();
    for (amount, exit) in [
        (LoanAmount::Assets(seven), withdraw(seven, OWNER).unwrap()),
        (LoanAmount::Shares(seven), redeem(seven, OWNER).unwrap()),
    ] {
        let call = forced_exit(&parts, amount, OWNER).unwrap();
        // Each part consists of its length and its bytes, which zeros pad to whole words.
        let tails = [&one, &two, &exit].map(|part| {
            let mut tail = U256::from(part.len()).to_be_bytes_vec();
            tail.extend_from_slice(part);
            tail.resize(tail.len().next_multiple_of(32), 0);
            tail
        });
        let starts = [0, tails[0].len(), tails[0].len() + tails[1].len()];
        let starts = starts.map(|start| word(u64::try_from(3 * 32 + start).unwrap()));
        let head = [&hex!("ac9650d8")[..], &word(32), &word(3), &starts.concat()].concat();
        assert_eq!(call[..], [head, tails.concat()].concat());
    }
}

#[test]
fn a_forced_exit_without_a_part_or_an_amount_is_not_encoded() {
    let part = ForcedPart { adapter: OWNER, market: None, assets: U256::ONE };
    let one = LoanAmount::Assets(U256::ONE);
    assert_eq!(forced_exit(&[], one, OWNER), Err(CallFault::NoAmount));
    for none in [LoanAmount::Assets(U256::ZERO), LoanAmount::Shares(U256::ZERO)] {
        assert_eq!(forced_exit(&[part], none, OWNER), Err(CallFault::NoAmount));
    }
    let empty = ForcedPart { assets: U256::ZERO, ..part };
    assert_eq!(forced_exit(&[part, empty], one, OWNER), Err(CallFault::NoAmount));
    let nowhere = ForcedPart { adapter: Address::ZERO, ..part };
    assert_eq!(forced_exit(&[part, nowhere], one, OWNER), Err(CallFault::NoAddress));
    assert_eq!(forced_exit(&[part], one, Address::ZERO), Err(CallFault::NoAddress));
}

#[test]
fn a_call_without_amount_or_address_is_not_encoded() {
    let (zero, one, nowhere) = (U256::ZERO, U256::ONE, Address::ZERO);
    let market = market();
    for write in [deposit, mint, withdraw, redeem] {
        assert_eq!(write(zero, OWNER), Err(CallFault::NoAmount));
        assert_eq!(write(one, nowhere), Err(CallFault::NoAddress));
    }
    for write in [supply, withdraw_from_market] {
        for none in [LoanAmount::Assets(zero), LoanAmount::Shares(zero)] {
            assert_eq!(write(&market, none, OWNER), Err(CallFault::NoAmount));
        }
        for some in [LoanAmount::Assets(one), LoanAmount::Shares(one)] {
            assert_eq!(write(&market, some, nowhere), Err(CallFault::NoAddress));
        }
    }
    assert_eq!(force_deallocate(OWNER, None, zero, OWNER), Err(CallFault::NoAmount));
    assert_eq!(force_deallocate(nowhere, None, one, OWNER), Err(CallFault::NoAddress));
    assert_eq!(force_deallocate(OWNER, None, one, nowhere), Err(CallFault::NoAddress));
}
