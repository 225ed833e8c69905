use super::*;
use alloy_primitives::{B256, Bytes, address};
use alloy_sol_types::SolEvent;
use bursar_chain::abi::erc20::IErc20 as Approvals;
use bursar_chain::ports::{SimulatedCall, Transfer};
use bursar_core::networks::{ChainId, by_chain};
use bursar_morpho::abi::token::IErc20;
use bursar_morpho::abi::vault::IVault;

const OWNER: Address = address!("0x0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a");
const VAULT: Address = address!("0x7777777777777777777777777777777777777777");
const STRANGER: Address = address!("0x5555555555555555555555555555555555555555");

fn n(value: u64) -> U256 {
    U256::from(value)
}

/// An exit of 400 units with a penalty of 4, from a position of 2,000 shares that are worth 1,000 units.
fn expected() -> Expected {
    let network = by_chain(ChainId(8453)).unwrap();
    let contracts = network.lending.unwrap();
    Expected {
        owner: OWNER,
        vault: VAULT,
        singleton: contracts.singleton,
        ours: AllowedChanges::of(VenueId::Vault(VAULT), OWNER, network, contracts),
        assets: Some(n(400)),
        penalty: n(4),
        coins: n(50),
        allowance: n(7),
        shares: n(2_000),
        worth: n(1_000),
    }
}

fn log(address: Address, event: &impl SolEvent) -> Log {
    let encoded = event.encode_log_data();
    Log { address, topics: encoded.topics().to_vec(), data: encoded.data }
}

fn withdrawal(receiver: Address, assets: u64, shares: u64) -> Log {
    let (assets, shares) = (n(assets), n(shares));
    log(VAULT, &IVault::Withdraw { sender: OWNER, receiver, owner: OWNER, assets, shares })
}

fn transfer(token: Address, from: Address, to: Address) -> Log {
    log(token, &IErc20::Transfer { from, to, value: n(3) })
}

fn read(value: u64) -> SimulatedCall {
    let word: B256 = n(value).into();
    SimulatedCall::without_details(true, Bytes::copy_from_slice(&word[..]))
}

/// The simulation of an exit with these events. `reads` are the coins, the allowance and the shares after it.
fn simulated(logs: Vec<Log>, reads: [u64; 3]) -> Simulation {
    let call = SimulatedCall { logs, ..SimulatedCall::without_details(true, Bytes::new()) };
    Simulation {
        method: SimulationMethod::SimulateV1,
        calls: vec![Some(call)],
        reads: Some(reads.map(read).to_vec()),
    }
}

fn honest_logs() -> Vec<Log> {
    vec![withdrawal(VAULT, 4, 8), withdrawal(OWNER, 400, 800)]
}

fn honest() -> Simulation {
    simulated(honest_logs(), [450, 7, 1_192])
}

fn refusal(simulated: &Simulation) -> String {
    let refusal = expected().check(simulated).expect_err("refused");
    assert_eq!(refusal.code, Code::WouldFail, "{refusal:?}");
    let sentence = refusal.sentence().to_owned();
    let what = sentence.strip_prefix("The transaction would have unexpected effects: ");
    what.unwrap_or_else(|| panic!("{sentence}")).trim_end_matches('.').to_owned()
}

#[test]
fn what_arrives_and_the_shares_of_amount_and_penalty_are_returned() {
    let left = Outflow { assets: n(400), shares: n(808) };
    assert_eq!(expected().check(&honest()), Ok(left));
    // Without events the penalty is unknown, so only the value of all shares that leave is checked.
    let without = Simulation { method: SimulationMethod::StateOverride, ..honest() };
    assert_eq!(expected().check(&without), Ok(left));
    let all = Expected { assets: None, ..expected() };
    assert_eq!(all.check(&honest()), Ok(left));
}

#[test]
fn another_penalty_is_refused_also_if_the_sum_is_right() {
    let rows = [
        vec![withdrawal(VAULT, 3, 8), withdrawal(OWNER, 400, 800)],
        vec![withdrawal(VAULT, 5, 8), withdrawal(OWNER, 400, 800)],
        vec![withdrawal(VAULT, 4, 8), withdrawal(VAULT, 4, 8), withdrawal(OWNER, 400, 792)],
        vec![withdrawal(OWNER, 400, 808)],
    ];
    for logs in rows {
        assert_eq!(
            refusal(&simulated(logs, [450, 7, 1_192])),
            "the penalty differs from the expected one"
        );
    }
}

#[test]
fn shares_that_leave_without_a_price_are_refused() {
    // 820 shares are worth 410 units, but the amount and the penalty are 404.
    let logs = vec![withdrawal(VAULT, 4, 8), withdrawal(OWNER, 400, 812)];
    let dear = simulated(logs, [450, 7, 1_180]);
    let said = "more shares leave than the amount and the penalty are worth";
    assert_eq!(refusal(&dear), said);
    assert_eq!(refusal(&Simulation { method: SimulationMethod::StateOverride, ..dear }), said);
    // The events and the balance differ by a share.
    let logs = vec![withdrawal(VAULT, 4, 8), withdrawal(OWNER, 400, 799)];
    let said = "the number of shares that leave is not the number given back";
    assert_eq!(refusal(&simulated(logs, [450, 7, 1_192])), said);
}

#[test]
fn anything_else_that_changes_is_refused() {
    let network = by_chain(ChainId(8453)).unwrap();
    let coin = network.stablecoin.address;
    let with = |more: Log| {
        let logs = honest_logs().into_iter().chain([more]).collect();
        simulated(logs, [450, 7, 1_192])
    };
    let said = "another token or allowance of the paying address changes";
    assert_eq!(refusal(&with(transfer(STRANGER, OWNER, STRANGER))), said);
    let approval = Approvals::Approval { owner: OWNER, spender: STRANGER, value: n(1) };
    assert_eq!(refusal(&with(log(coin, &approval))), said);
    // Transfers between the vault and its adapters do not concern the owner.
    assert!(expected().check(&with(transfer(coin, STRANGER, VAULT))).is_ok());

    for (reads, said) in [
        ([50, 7, 1_192], "nothing arrives"),
        ([49, 7, 1_192], "nothing arrives"),
        ([449, 7, 1_192], "the amount that arrives is not the withdrawn amount"),
        ([451, 7, 1_192], "the amount that arrives is not the withdrawn amount"),
        ([450, 8, 1_192], "an allowance changes"),
        ([450, 7, 2_001], "shares arrive"),
    ] {
        assert_eq!(refusal(&simulated(honest_logs(), reads)), said, "{reads:?}");
    }
    let mut paying = honest();
    let value = n(1);
    if let Some(call) = paying.calls[0].as_mut() {
        call.native_transfers = vec![Transfer { from: OWNER, to: VAULT, value }];
    }
    assert_eq!(refusal(&paying), "the native coin moves");
}

#[test]
fn a_failure_or_a_node_without_a_view_of_the_end_is_refused() {
    let reverted =
        SimulatedCall::without_details(false, Bytes::from_static(&[0xac, 0xe2, 0xa4, 0x7e]));
    let illiquid = Simulation { calls: vec![Some(reverted)], ..honest() };
    let refusal = expected().check(&illiquid).expect_err("refused");
    assert_eq!(refusal.code, Code::InsufficientLiquidity);
    let blind = Simulation { reads: None, ..honest() };
    assert_eq!(expected().check(&blind).expect_err("refused").code, Code::ChainUnavailable);
}
