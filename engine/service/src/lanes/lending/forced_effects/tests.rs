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

fn units(value: u64) -> U256 {
    U256::from(value)
}

/// An exit of 400 units with a penalty of 4, from a position of 2,000 shares that are worth 1,000 units.
fn sample_exit() -> ExpectedEffects {
    let network = by_chain(ChainId(8453)).unwrap();
    let contracts = network.lending.unwrap();
    ExpectedEffects {
        owner: OWNER,
        vault: VAULT,
        singleton: contracts.singleton,
        allowed_changes: AllowedChanges::of(VenueId::Vault(VAULT), OWNER, network, contracts),
        assets: Some(units(400)),
        penalty: units(4),
        coins: units(50),
        allowance: units(7),
        shares: units(2_000),
        worth: units(1_000),
    }
}

fn log(address: Address, event: &impl SolEvent) -> Log {
    let encoded = event.encode_log_data();
    Log { address, topics: encoded.topics().to_vec(), data: encoded.data }
}

fn withdrawal(receiver: Address, assets: u64, shares: u64) -> Log {
    let (assets, shares) = (units(assets), units(shares));
    log(VAULT, &IVault::Withdraw { sender: OWNER, receiver, owner: OWNER, assets, shares })
}

fn transfer(token: Address, from: Address, to: Address) -> Log {
    log(token, &IErc20::Transfer { from, to, value: units(3) })
}

fn read_result(value: u64) -> SimulatedCall {
    let word: B256 = units(value).into();
    SimulatedCall::without_details(true, Bytes::copy_from_slice(&word[..]))
}

/// The simulation of an exit with these events. `reads` are the coins, the allowance and the shares after it.
fn simulation_with(logs: Vec<Log>, reads: [u64; 3]) -> Simulation {
    let call = SimulatedCall { logs, ..SimulatedCall::without_details(true, Bytes::new()) };
    Simulation {
        method: SimulationMethod::SimulateV1,
        calls: vec![Some(call)],
        reads: Some(reads.map(read_result).to_vec()),
    }
}

fn honest_logs() -> Vec<Log> {
    vec![withdrawal(VAULT, 4, 8), withdrawal(OWNER, 400, 800)]
}

fn honest_simulation() -> Simulation {
    simulation_with(honest_logs(), [450, 7, 1_192])
}

fn refusal(simulated: &Simulation) -> String {
    let refusal = sample_exit().check(simulated).expect_err("refused");
    assert_eq!(refusal.code, Code::WouldFail, "{refusal:?}");
    let sentence = refusal.sentence().to_owned();
    let what = sentence.strip_prefix("The transaction would have unexpected effects: ");
    what.unwrap_or_else(|| panic!("{sentence}")).trim_end_matches('.').to_owned()
}

#[test]
fn what_arrives_and_the_shares_of_amount_and_penalty_are_returned() {
    let left = Outflow { assets: units(400), shares: units(808) };
    assert_eq!(sample_exit().check(&honest_simulation()), Ok(left));
    // Without events the penalty is unknown, so only the value of all shares that leave is checked.
    let without = Simulation { method: SimulationMethod::StateOverride, ..honest_simulation() };
    assert_eq!(sample_exit().check(&without), Ok(left));
    let all = ExpectedEffects { assets: None, ..sample_exit() };
    assert_eq!(all.check(&honest_simulation()), Ok(left));
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
            refusal(&simulation_with(logs, [450, 7, 1_192])),
            "the penalty differs from the expected one"
        );
    }
}

#[test]
fn shares_that_leave_without_a_price_are_refused() {
    // 820 shares are worth 410 units, but the amount and the penalty are 404.
    let logs = vec![withdrawal(VAULT, 4, 8), withdrawal(OWNER, 400, 812)];
    let dear = simulation_with(logs, [450, 7, 1_180]);
    let said = "more shares leave than the amount and the penalty are worth";
    assert_eq!(refusal(&dear), said);
    assert_eq!(refusal(&Simulation { method: SimulationMethod::StateOverride, ..dear }), said);
    // The events and the balance differ by a share.
    let logs = vec![withdrawal(VAULT, 4, 8), withdrawal(OWNER, 400, 799)];
    let said = "the number of shares that leave is not the number given back";
    assert_eq!(refusal(&simulation_with(logs, [450, 7, 1_192])), said);
}

#[test]
fn anything_else_that_changes_is_refused() {
    let network = by_chain(ChainId(8453)).unwrap();
    let coin = network.stablecoin.address;
    let with = |more: Log| {
        let logs = honest_logs().into_iter().chain([more]).collect();
        simulation_with(logs, [450, 7, 1_192])
    };
    let said = "another token or allowance of the paying address changes";
    assert_eq!(refusal(&with(transfer(STRANGER, OWNER, STRANGER))), said);
    let approval = Approvals::Approval { owner: OWNER, spender: STRANGER, value: units(1) };
    assert_eq!(refusal(&with(log(coin, &approval))), said);
    // Transfers between the vault and its adapters do not concern the owner.
    assert!(sample_exit().check(&with(transfer(coin, STRANGER, VAULT))).is_ok());

    for (reads, said) in [
        ([50, 7, 1_192], "nothing arrives"),
        ([49, 7, 1_192], "nothing arrives"),
        ([449, 7, 1_192], "the amount that arrives is not the withdrawn amount"),
        ([451, 7, 1_192], "the amount that arrives is not the withdrawn amount"),
        ([450, 8, 1_192], "an allowance changes"),
        ([450, 7, 2_001], "shares arrive"),
    ] {
        assert_eq!(refusal(&simulation_with(honest_logs(), reads)), said, "{reads:?}");
    }
    let mut paying = honest_simulation();
    let value = units(1);
    if let Some(call) = paying.calls[0].as_mut() {
        call.native_transfers = vec![Transfer { from: OWNER, to: VAULT, value }];
    }
    assert_eq!(refusal(&paying), "the native coin moves");
}

#[test]
fn a_failure_or_a_node_without_a_view_of_the_end_is_refused() {
    let reverted =
        SimulatedCall::without_details(false, Bytes::from_static(&[0xac, 0xe2, 0xa4, 0x7e]));
    let illiquid = Simulation { calls: vec![Some(reverted)], ..honest_simulation() };
    let refusal = sample_exit().check(&illiquid).expect_err("refused");
    assert_eq!(refusal.code, Code::InsufficientLiquidity);
    let blind = Simulation { reads: None, ..honest_simulation() };
    assert_eq!(sample_exit().check(&blind).expect_err("refused").code, Code::ChainUnavailable);
}
