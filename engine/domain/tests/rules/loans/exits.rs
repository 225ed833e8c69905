//! Withdrawals of the operator: which calls count as one, and what the journal books for them.

use alloy_primitives::{Address, Bytes, U256};
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::by_chain;
use bursar_domain::loan_text;
use bursar_domain::outboxes::Send;
use bursar_domain::{Action, Refusal};
use bursar_morpho::decode::decode_parts;
use bursar_morpho::{ForcedPart, LoanAmount, VenueId, calls};
use bursar_submit::Call;

use crate::loans::asks::{BASE, quote, supply, vault, withdrawal};
use crate::loans::bench::{Bench, Fate};
use crate::support::{OPERATOR, build};

const VAULT: Address = Address::repeat_byte(0x77);
const ADAPTER: Address = Address::repeat_byte(0xad);

fn owner() -> Address {
    build::address("main")
}

fn forced_exit_call(parts: usize, exit: LoanAmount) -> Bytes {
    let part = ForcedPart { adapter: ADAPTER, market: None, assets: U256::from(30_000_000) };
    calls::forced_exit(&vec![part; parts], exit, owner()).expect("a call")
}

/// A send whose call should withdraw 30 dollars from the vault.
fn send(data: Bytes) -> Send {
    let coin = &by_chain(BASE).expect("a network").stablecoin;
    Send {
        id: RequestId::from_entropy([9; 16]),
        label: "main".parse().expect("a name"),
        from: owner(),
        chain: BASE,
        token: Some(coin.address),
        symbol: coin.symbol.to_owned(),
        to: VAULT,
        amount: TokenAmount { atoms: Atoms(U256::from(30_000_000)), decimals: coin.decimals },
        call: Call { to: VAULT, value: U256::ZERO, data, gas_limit: 100_000 },
        gas_price_max: 1_000,
        by: OPERATOR,
    }
}

#[test]
fn a_withdrawal_is_one_with_and_without_forced_deallocations() {
    let (assets, shares) = (LoanAmount::Assets(U256::ONE), LoanAmount::Shares(U256::ONE));
    for data in [
        calls::withdraw(U256::ONE, owner()).expect("a call"),
        calls::redeem(U256::ONE, owner()).expect("a call"),
        forced_exit_call(1, assets),
        forced_exit_call(16, shares),
    ] {
        let send = send(data);
        assert_eq!(send.withdrawn_from(), Some(VenueId::Vault(VAULT)));
        assert_eq!(send.amount_text(), "withdrawal of 30.000000 USDC");
    }
    let bare = calls::force_deallocate(ADAPTER, None, U256::ONE, owner()).expect("a call");
    // The parts of a valid withdrawal, in another order.
    let exit = calls::withdraw(U256::ONE, owner()).expect("a call");
    let turned = multicall(vec![exit, bare.clone()]);
    for data in [bare.clone(), multicall(vec![bare]), turned] {
        assert_eq!(send(data).withdrawn_from(), None);
    }
}

/// Encodes a multicall by hand, because no builder makes these calls.
fn multicall(parts: Vec<Bytes>) -> Bytes {
    let word = |value: usize| U256::from(value).to_be_bytes::<32>();
    let (mut heads, mut tails) = (Vec::new(), Vec::new());
    for part in &parts {
        heads.extend(word(parts.len() * 32 + tails.len()));
        tails.extend(word(part.len()));
        tails.extend_from_slice(part);
        tails.resize(tails.len().next_multiple_of(32), 0);
    }
    let selector = [0xac, 0x96, 0x50, 0xd8];
    [&selector[..], &word(32), &word(parts.len()), &heads, &tails].concat().into()
}

/// Only the amount that arrived lowers the amount lent. The penalty remains counted: it is a loss, not a withdrawal.
#[test]
fn the_penalty_of_a_forced_exit_stays_counted_as_lent() {
    let mut bench = Bench::new();
    bench.lends(0, supply(40_000_000));
    let place = supply(0).place(owner());
    assert_eq!((place.venue, bench.lent(&place)), (vault(0x77), 40_000_000));
    let mut send = send(forced_exit_call(2, LoanAmount::Shares(U256::ONE)));
    send.amount.atoms = Atoms(U256::from(39_200_000));
    let (id, key, submission) = (send.id, send.key(), send.submission());
    bench.world.must(Action::Send(Box::new(send)));
    let busy = |refused: Result<_, Refusal>| refused.map(drop).expect_err("in flight");
    busy(bench.write_off(place, 0));
    let decision = bench.price(key);
    bench.sign(key, &decision);
    bench.mine(key, submission, Fate::Succeeded);
    busy(bench.write_off(place, 0));
    let received = Some(Atoms(U256::from(39_200_000)));
    bench.world.must(Action::BookWithdrawal { id, received });
    assert_eq!((bench.lent(&place), bench.deployed("main")), (800_000, 800_000));
    // A second receipt books nothing. The operator then writes off the loss.
    bench.world.must(Action::BookWithdrawal { id, received });
    assert_eq!(bench.lent(&place), 800_000);
    bench.write_off(place, 0).expect("a loss");
    assert_eq!(bench.deployed("main"), 0);
}

#[test]
fn each_part_of_a_forced_exit_is_described() {
    let singleton = by_chain(BASE).and_then(|network| network.lending).expect("lends").singleton;
    let loan = withdrawal(30_000_000);
    let mut quote = quote(30_000_000);
    let data = forced_exit_call(1, LoanAmount::Assets(U256::from(29_000_000)));
    quote.calls = decode_parts(singleton, VAULT, &data);
    let adapter = ADAPTER.to_checksum(None);
    let texts = loan_text::calls(&loan, &quote);
    let first =
        format!("take 30.000000 USDC of the vault from its adapter {adapter}, for a penalty");
    assert_eq!(texts, [first, "withdraw exactly 29.000000 USDC from the vault".to_owned()]);
}

/// A second withdrawal was measured before the first one took its money, so it waits until the first one is mined.
#[test]
fn a_position_has_one_withdrawal_of_the_operator_that_waits_for_a_block() {
    let mut bench = Bench::new();
    bench.lends(0, supply(40_000_000));
    let plain = |id: u8| Send {
        id: RequestId::from_entropy([id; 16]),
        ..send(calls::withdraw(U256::ONE, owner()).expect("a call"))
    };
    let first = plain(1);
    let (key, submission) = (first.key(), first.submission());
    bench.world.must(Action::Send(Box::new(first)));
    let second = Action::Send(Box::new(plain(2)));
    assert_eq!(bench.world.run_refused(second.clone()).code, Code::Busy);
    let decision = bench.price(key);
    bench.sign(key, &decision);
    assert_eq!(bench.world.run_refused(second.clone()).code, Code::Busy, "it is signed");
    bench.mine(key, submission, Fate::Succeeded);
    bench.world.must(second);
}
