//! The value of a market's shares: our arithmetic against the real contract, over random states.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolValue};
use bursar_chain::abi::erc20::IErc20;
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_core::networks::MULTICALL3;
use bursar_devnet::full::{Contracts, lending_chain_or_skip};
use bursar_morpho::market::{AccruedMarket, BorrowRate, Market};
use bursar_morpho::views::{decode_amount, market};
use bursar_morpho::{LoanAmount, MarketParams, calls};
use bursar_tests::dice::Dice;
use bursar_tests::offers::BASE;
use futures::{StreamExt, stream};
use serde_json::{Value, json};

/// Number of random states, and of states that are checked concurrently.
const STATES_COUNT: usize = 10_000;
const CONCURRENT_STATES: usize = 16;
/// Balance of the account, and of the singleton contract.
const ACCOUNT_BALANCE: u128 = 1 << 120;

/// An action of the account in the market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarketAction {
    SupplyAssets(U256),
    SupplyShares(U256),
    WithdrawAssets(U256),
    WithdrawShares(U256),
}

/// A state of the market, the account's position in it, and its action.
#[derive(Debug, Clone, Copy)]
struct Case {
    market: Market,
    position_shares: U256,
    action: MarketAction,
}

fn amount(dice: &mut Dice, most: u128) -> u128 {
    let wide = (u128::from(dice.next_u64()) << 64) | u128::from(dice.next_u64());
    let narrow = wide >> dice.roll(128);
    if most == 0 { 0 } else { narrow % most }
}

fn case(dice: &mut Dice, now_s: u64) -> Case {
    let assets = amount(dice, 1 << 90);
    let shares = if dice.chance(1, 5) {
        amount(dice, 1 << 110)
    } else {
        assets / 1_000 * u128::from(900_000_000 + dice.roll(200_000_000))
    };
    let (lent, lent_shares) = (amount(dice, assets + 1), amount(dice, 1 << 110));
    let market = Market {
        total_supply_assets: assets,
        total_supply_shares: shares,
        total_borrow_assets: lent,
        total_borrow_shares: lent_shares,
        last_update: u128::from(now_s - amount(dice, 300_000_000) as u64),
        fee_e18: if dice.chance(1, 2) { 0 } else { amount(dice, 250_000_000_000_000_001) },
    };
    let held = U256::from(amount(dice, shares + 1));
    let some = |dice: &mut Dice, most: u128| U256::from(amount(dice, most).max(1));
    let action = match dice.roll(4) {
        0 => MarketAction::SupplyAssets(some(dice, 1 << 90)),
        1 => MarketAction::SupplyShares(some(dice, 1 << 110)),
        2 => MarketAction::WithdrawAssets(some(dice, assets + 2)),
        _ => MarketAction::WithdrawShares(some(dice, held.saturating_to::<u128>() + 2)),
    };
    Case { market, position_shares: held, action }
}

impl Case {
    /// The storage of the singleton in this state: slots 2 and 3 map to positions and markets.
    fn storage(&self, id: B256) -> Value {
        let market: U256 = keccak256((id, U256::from(3)).abi_encode()).into();
        let owners = keccak256((id, U256::from(2)).abi_encode());
        let position = keccak256((MULTICALL3, owners).abi_encode());
        let pair = |low: u128, high: u128| B256::from(U256::from(low) | (U256::from(high) << 128));
        let one = &self.market;
        let slot = |by: u64| B256::from(market + U256::from(by)).to_string();
        json!({
            slot(0): pair(one.total_supply_assets, one.total_supply_shares),
            slot(1): pair(one.total_borrow_assets, one.total_borrow_shares),
            slot(2): pair(one.last_update, one.fee_e18),
            position.to_string(): B256::from(self.position_shares),
        })
    }

    fn call(&self, params: &MarketParams) -> Bytes {
        let call = match self.action {
            MarketAction::SupplyAssets(assets) => {
                calls::supply(params, LoanAmount::Assets(assets), MULTICALL3)
            }
            MarketAction::SupplyShares(shares) => {
                calls::supply(params, LoanAmount::Shares(shares), MULTICALL3)
            }
            MarketAction::WithdrawAssets(assets) => {
                calls::withdraw_from_market(params, LoanAmount::Assets(assets), MULTICALL3)
            }
            MarketAction::WithdrawShares(shares) => {
                calls::withdraw_from_market(params, LoanAmount::Shares(shares), MULTICALL3)
            }
        };
        call.expect("a call")
    }

    /// Returns the assets and shares that our arithmetic moves, or `None` if the contract must refuse.
    fn expected(&self, market: &AccruedMarket) -> Option<(U256, U256)> {
        let (assets, shares) = match self.action {
            MarketAction::SupplyAssets(assets) => (assets, market.shares_floor(assets)?),
            MarketAction::SupplyShares(shares) => (market.assets_ceil(shares)?, shares),
            MarketAction::WithdrawAssets(assets) => (assets, market.shares_ceil(assets)?),
            MarketAction::WithdrawShares(shares) => (market.assets_floor(shares)?, shares),
        };
        let totals = market.totals();
        let fits = |total: u128, more: U256| U256::from(total) + more <= U256::from(u128::MAX);
        let is_possible = match self.action {
            MarketAction::SupplyAssets(_) | MarketAction::SupplyShares(_) => {
                assets <= U256::from(ACCOUNT_BALANCE)
                    && fits(totals.total_supply_assets, assets)
                    && fits(totals.total_supply_shares, shares)
            }
            MarketAction::WithdrawAssets(_) | MarketAction::WithdrawShares(_) => {
                shares <= self.position_shares && assets <= market.liquidity()
            }
        };
        is_possible.then_some((assets, shares))
    }
}

/// Interest, fee, virtual amounts and rounding agree to the unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_conversions_equal_those_of_the_contract() {
    let Some(chain) = lending_chain_or_skip(BASE).await else { return };
    let kit = Contracts::of(BASE).expect("a full chain").lending;
    let loans = chain.loan_market().expect("a market");
    let params = MarketParams {
        loan_token: loans.loan_token,
        collateral_token: loans.collateral_token,
        oracle: loans.oracle,
        interest_model: loans.irm,
        lltv_e18: loans.lltv,
    };
    let id = params.id();
    assert_eq!(id, loans.id());
    for account in [MULTICALL3, kit.morpho] {
        chain.mint(account, ACCOUNT_BALANCE).await.expect("minted");
    }
    let mut dice = Dice::new(0x5ba4e5);
    let (mut moved, mut refused) = (0, 0);
    for rate in [None, Some(0), Some(1), Some(7), Some(60), Some(300), Some(2_000), Some(0)] {
        if let Some(percent) = rate {
            chain.set_borrow_rate(&loans, percent).await.expect("set");
        }
        let block = chain.request("eth_getBlockByNumber", json!(["latest", false])).await;
        let now = block.expect("a block")["timestamp"].as_str().expect("a number").to_owned();
        let now_s: u64 = now.parse::<U256>().expect("a number").saturating_to();
        let cases: Vec<Case> = (0..STATES_COUNT / 8).map(|_one| case(&mut dice, now_s)).collect();
        let asked = cases.iter().map(|case| ask(&chain, kit.morpho, &params, case));
        let answers: Vec<Vec<IMulticall3::CallResult>> =
            stream::iter(asked).buffered(CONCURRENT_STATES).collect().await;
        for (case, answers) in cases.iter().zip(answers) {
            let [time, rate, _approved, accrued, totals, done] = answers.as_slice() else {
                panic!("{answers:?}");
            };
            let number = |one: &IMulticall3::CallResult| decode_amount(&one.returnData);
            let time = number(time).expect("a time").saturating_to();
            let rate = number(rate).expect("a rate");
            let Ok(ours) = case.market.accrue(BorrowRate::PerSecond(rate), time) else {
                assert!(!accrued.success, "{case:?} with {rate}: the contract can count it");
                refused += 1;
                continue;
            };
            assert!(accrued.success, "{case:?} with {rate}: {accrued:?}");
            let theirs = market::decode_market(&totals.returnData).expect("totals");
            assert_eq!(*ours.totals(), theirs, "{case:?} with {rate}");
            let Some((assets, shares)) = case.expected(&ours) else {
                assert!(!done.success, "{case:?}");
                refused += 1;
                continue;
            };
            assert!(done.success, "{case:?}: {done:?}");
            let shown = <(U256, U256)>::abi_decode_params(&done.returnData).expect("two numbers");
            assert_eq!(shown, (assets, shares), "{case:?}");
            moved += 1;
        }
    }
    assert_eq!(moved + refused, STATES_COUNT);
    assert!(
        moved > STATES_COUNT / 2 && refused > STATES_COUNT / 50,
        "{moved} moved, {refused} refused"
    );
}

/// Runs a case in one call, so that all steps see the same time.
async fn ask(
    chain: &bursar_devnet::Devnet,
    morpho: Address,
    params: &MarketParams,
    case: &Case,
) -> Vec<IMulticall3::CallResult> {
    let approve = IErc20::approveCall { spender: morpho, value: U256::MAX };
    let steps: [(Address, Bytes); 6] = [
        (MULTICALL3, IMulticall3::getCurrentBlockTimestampCall {}.abi_encode().into()),
        (params.interest_model, market::borrow_rate_call(params, &case.market)),
        (params.loan_token, approve.abi_encode().into()),
        (morpho, market::accrue_interest_call(params)),
        (morpho, market::market_call(params.id())),
        (morpho, case.call(params)),
    ];
    let calls = steps.map(|(target, data)| IMulticall3::Call3 {
        target,
        allowFailure: true,
        callData: data,
    });
    let data = IMulticall3::aggregate3Call { calls: calls.to_vec() }.abi_encode();
    let call = json!({ "to": MULTICALL3, "data": Bytes::from(data), "gas": "0x1c9c380" });
    let state = json!({ morpho.to_string(): { "stateDiff": case.storage(params.id()) } });
    let answer = chain.request("eth_call", json!([call, "latest", state])).await.expect("it runs");
    let answer: Bytes = answer.as_str().expect("bytes").parse().expect("bytes");
    IMulticall3::aggregate3Call::abi_decode_returns(&answer).expect("results")
}
