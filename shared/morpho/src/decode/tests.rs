use super::*;
use alloy_primitives::{Bytes, hex};

use crate::abi::encode;
use crate::calls::{self, ForcedPart, LoanAmount};

const SINGLETON: Address = Address::repeat_byte(0x11);
const VAULT: Address = Address::repeat_byte(0x22);
const ADAPTER: Address = Address::repeat_byte(0x33);
const OWNER: Address = Address::repeat_byte(0x55);
const OTHER: Address = Address::repeat_byte(0x66);

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn market() -> MarketParams {
    MarketParams {
        loan_token: Address::repeat_byte(1),
        collateral_token: Address::repeat_byte(2),
        oracle: Address::repeat_byte(3),
        interest_model: Address::repeat_byte(4),
        lltv_e18: n(5),
    }
}

fn approve() -> Bytes {
    encode(&IErc20::approveCall { spender: OTHER, value: n(7) })
}

/// Returns the receiver, the call data and the meaning of one call of each kind.
fn calls() -> Vec<(Address, Bytes, Decoded)> {
    let (id, vault) = (market().id(), VAULT);
    let by_assets = LoanAmount::Assets(n(7));
    let by_shares = LoanAmount::Shares(n(8));
    let supplied = |assets, shares| Decoded::MarketSupply {
        market: id,
        assets: n(assets),
        shares: n(shares),
        owner: OWNER,
        has_callback_data: false,
    };
    let withdrawn = |assets, shares| Decoded::MarketWithdraw {
        market: id,
        assets: n(assets),
        shares: n(shares),
        owner: OWNER,
        receiver: OWNER,
    };
    let forced = |market| Decoded::ForceDeallocate {
        vault,
        adapter: ADAPTER,
        market,
        assets: n(7),
        owner: OWNER,
    };
    let force = |market| calls::force_deallocate(ADAPTER, market, n(7), OWNER).unwrap();
    vec![
        (vault, approve(), Decoded::Approve { token: vault, spender: OTHER, amount: n(7) }),
        (
            vault,
            calls::deposit(n(7), OWNER).unwrap(),
            Decoded::Deposit { vault, assets: n(7), receiver: OWNER },
        ),
        (
            vault,
            calls::mint(n(8), OWNER).unwrap(),
            Decoded::Mint { vault, shares: n(8), receiver: OWNER },
        ),
        (
            vault,
            calls::withdraw(n(7), OWNER).unwrap(),
            Decoded::Withdraw { vault, assets: n(7), receiver: OWNER, owner: OWNER },
        ),
        (
            vault,
            calls::redeem(n(8), OWNER).unwrap(),
            Decoded::Redeem { vault, shares: n(8), receiver: OWNER, owner: OWNER },
        ),
        (SINGLETON, calls::supply(&market(), by_assets, OWNER).unwrap(), supplied(7, 0)),
        (SINGLETON, calls::supply(&market(), by_shares, OWNER).unwrap(), supplied(0, 8)),
        (
            SINGLETON,
            calls::withdraw_from_market(&market(), by_assets, OWNER).unwrap(),
            withdrawn(7, 0),
        ),
        (
            SINGLETON,
            calls::withdraw_from_market(&market(), by_shares, OWNER).unwrap(),
            withdrawn(0, 8),
        ),
        (vault, force(Some(&market())), forced(Some(id))),
        (vault, force(None), forced(None)),
    ]
}

/// Returns one `multicall` of the vault with these parts.
fn multicall(parts: &[Bytes]) -> Bytes {
    encode(&IVaultV2::multicallCall { data: parts.to_vec() })
}

#[test]
fn a_multicall_is_decoded_by_its_parts_in_order() {
    let rows: Vec<_> = calls().into_iter().filter(|(to, ..)| *to == VAULT).collect();
    let parts: Vec<Bytes> = rows.iter().map(|(_to, data, _decoded)| data.clone()).collect();
    let expected: Vec<Decoded> = rows.iter().map(|(.., decoded)| *decoded).collect();
    let all = multicall(&parts);
    assert_eq!(decode_parts(SINGLETON, VAULT, &all), expected);
    // `decode_call` does not know a multicall. A nested multicall, an empty one and one to the singleton are unknown.
    assert_eq!(decode_call(SINGLETON, VAULT, &all), unknown(VAULT, &all));
    let nested = multicall(&[parts[0].clone(), all.clone()]);
    let first = expected[0];
    assert_eq!(decode_parts(SINGLETON, VAULT, &nested), [first, unknown(VAULT, &all)]);
    let none = multicall(&[]);
    assert_eq!(decode_parts(SINGLETON, VAULT, &none), [unknown(VAULT, &none)]);
    assert_eq!(decode_parts(SINGLETON, SINGLETON, &all), [unknown(SINGLETON, &all)]);
    for data in [&all[..all.len() - 1], &[&all[..], &[0; 32]].concat()] {
        assert_eq!(decode_parts(SINGLETON, VAULT, data), [unknown(VAULT, data)]);
    }
    for (to, data, decoded) in calls() {
        assert_eq!(decode_parts(SINGLETON, to, &data), [decoded]);
    }
}

#[test]
fn only_forced_deallocations_and_then_a_withdrawal_are_a_forced_exit() {
    let force = calls::force_deallocate(ADAPTER, None, n(7), OWNER).unwrap();
    let redeem = calls::redeem(n(8), OWNER).unwrap();
    let withdraw = calls::withdraw(n(7), OWNER).unwrap();
    let deposit = calls::deposit(n(7), OWNER).unwrap();
    let part = ForcedPart { adapter: ADAPTER, market: None, assets: n(7) };
    let built = calls::forced_exit(&[part], LoanAmount::Shares(n(8)), OWNER).unwrap();
    assert_eq!(built, multicall(&[force.clone(), redeem.clone()]));
    let exit = |data: &Bytes| forced_exit_from(&decode_parts(SINGLETON, VAULT, data));
    for end in [&redeem, &withdraw] {
        let parts = [force.clone(), force.clone(), end.clone()];
        assert_eq!(exit(&multicall(&parts)), Some(VAULT));
        assert_eq!(exit(end), None, "a plain withdrawal forces nothing");
        assert_eq!(exit(&multicall(std::slice::from_ref(end))), None);
        assert_eq!(exit(&multicall(&[end.clone(), force.clone()])), None);
        assert_eq!(exit(&multicall(&[force.clone(), end.clone(), end.clone()])), None);
        assert_eq!(exit(&multicall(&[force.clone(), approve(), end.clone()])), None);
    }
    assert_eq!(exit(&multicall(&[force.clone(), deposit])), None);
    assert_eq!(exit(&force), None);
    assert_eq!(forced_exit_from(&[]), None);
}

fn unknown(to: Address, data: &[u8]) -> Decoded {
    Decoded::Unknown { to, selector: data.first_chunk().copied() }
}

#[test]
fn calls_are_decoded_as_they_were_encoded() {
    for (to, data, expected) in calls() {
        assert_eq!(decode_call(SINGLETON, to, &data), expected);
    }
}

/// The calls of [`calls`] name one account as owner and receiver, as plans do. These calls name two accounts.
#[test]
fn owner_and_receiver_are_not_confused() {
    let (params, market) = (market().to_abi(), market().id());
    let (vault, assets, shares) = (VAULT, n(7), n(8));
    let rows = [
        (
            vault,
            encode(&IVault::withdrawCall { assets, receiver: OTHER, owner: OWNER }),
            Decoded::Withdraw { vault, assets, receiver: OTHER, owner: OWNER },
        ),
        (
            vault,
            encode(&IVault::redeemCall { shares, receiver: OTHER, owner: OWNER }),
            Decoded::Redeem { vault, shares, receiver: OTHER, owner: OWNER },
        ),
        (
            SINGLETON,
            encode(&IMorphoBlue::withdrawCall {
                params,
                assets,
                shares,
                onBehalf: OWNER,
                receiver: OTHER,
            }),
            Decoded::MarketWithdraw { market, assets, shares, owner: OWNER, receiver: OTHER },
        ),
    ];
    for (to, data, expected) in rows {
        assert_eq!(decode_call(SINGLETON, to, &data), expected);
    }
}

#[test]
fn a_callback_of_the_singleton_is_shown() {
    for (data, has_callback_data) in [(&[][..], false), (&[0], true), (&[1, 2, 3], true)] {
        let call = encode(&IMorphoBlue::supplyCall {
            params: market().to_abi(),
            assets: n(7),
            shares: n(0),
            onBehalf: OWNER,
            data: Bytes::copy_from_slice(data),
        });
        let expected = Decoded::MarketSupply {
            market: market().id(),
            assets: n(7),
            shares: n(0),
            owner: OWNER,
            has_callback_data,
        };
        assert_eq!(decode_call(SINGLETON, SINGLETON, &call), expected);
    }
}

#[test]
fn functions_of_markets_are_those_of_the_singleton_and_no_others() {
    for (to, data, _) in calls() {
        let swapped = if to == SINGLETON { VAULT } else { SINGLETON };
        assert_eq!(decode_call(SINGLETON, swapped, &data), unknown(swapped, &data));
    }
}

#[test]
fn call_data_that_the_encoder_does_not_write_is_unknown() {
    for (to, data, _) in calls() {
        let mut wide = data.to_vec();
        // The first word of every function is an address, or an amount of one byte.
        wide[4] = 0xff;
        let is_amount = decode_call(SINGLETON, to, &wide) != unknown(to, &wide);
        let amount_first = [hex!("6e553f65"), hex!("94bf804d"), hex!("b460af94"), hex!("ba087652")];
        assert_eq!(is_amount, amount_first.iter().any(|selector| data.starts_with(selector)));

        for length in [data.len() - 1, data.len() - 32, 35, 4] {
            let cut = &data[..length];
            assert_eq!(decode_call(SINGLETON, to, cut), unknown(to, cut));
        }
        for extra in [1, 31, 32] {
            let long = [&data[..], &vec![0; extra]].concat();
            assert_eq!(decode_call(SINGLETON, to, &long), unknown(to, &long));
        }
        let other = [&[1, 2, 3, 4], &data[4..]].concat();
        let selector = Some([1, 2, 3, 4]);
        assert_eq!(decode_call(SINGLETON, to, &other), Decoded::Unknown { to, selector });
    }
}

/// An offset points to the empty bytes of a forced exit or a supply. The encoder always writes the same offset.
#[test]
fn bytes_at_an_odd_offset_are_unknown() {
    let force = calls::force_deallocate(ADAPTER, None, n(7), OWNER).unwrap();
    let supply = calls::supply(&market(), LoanAmount::Assets(n(7)), OWNER).unwrap();
    // The last byte of the offset's word.
    for (to, data, offset_at) in [(VAULT, force, 4 + 63), (SINGLETON, supply, 4 + 9 * 32 - 1)] {
        let mut data = [&data[..], &[0; 32]].concat();
        data[offset_at] += 32;
        assert_eq!(decode_call(SINGLETON, to, &data), unknown(to, &data));
    }
}

#[test]
fn a_forced_exit_with_data_of_another_form_is_unknown() {
    for data in [vec![0; 32], vec![0xff; 160], vec![0; 159], vec![0; 192]] {
        let call = IVaultV2::forceDeallocateCall {
            adapter: ADAPTER,
            data: data.into(),
            assets: n(7),
            onBehalf: OWNER,
        };
        let data = encode(&call);
        assert_eq!(decode_call(SINGLETON, VAULT, &data), unknown(VAULT, &data));
    }
}

#[test]
fn call_data_without_a_selector_is_unknown() {
    for to in [SINGLETON, VAULT] {
        for data in [&[][..], &[0x6e], &[0x6e, 0x55, 0x3f]] {
            assert_eq!(decode_call(SINGLETON, to, data), Decoded::Unknown { to, selector: None });
        }
        let selector = Some([0x6e, 0x55, 0x3f, 0x65]);
        let data = hex!("6e553f65");
        assert_eq!(decode_call(SINGLETON, to, &data), Decoded::Unknown { to, selector });
    }
}

#[test]
fn a_decoded_call_can_be_stored() {
    let unknown = [unknown(VAULT, &[1, 2, 3, 4]), unknown(VAULT, &[])];
    let known = calls().into_iter().map(|(_, _, decoded)| decoded);
    for decoded in known.chain(unknown) {
        let bytes = postcard::to_allocvec(&decoded).unwrap();
        assert_eq!(postcard::from_bytes::<Decoded>(&bytes), Ok(decoded));
        let text = serde_json::to_string(&decoded).unwrap();
        assert_eq!(serde_json::from_str::<Decoded>(&text).unwrap(), decoded);
    }
}
