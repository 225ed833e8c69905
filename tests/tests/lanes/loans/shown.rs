//! Information about loans for the operator: positions, allowances and the doctor's report.

use alloy_primitives::U256;
use bursar_chain::abi::erc20::IErc20;
use bursar_control::answers::{Answer, CheckResult, VenueTrust};
use bursar_devnet::Call;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::json;

use crate::loans::stage::{AUTOMATIC, DOLLAR, ROBINHOOD, Stage};

/// Shows positions in vaults and in a market, with their earnings of a month.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_show_vaults_and_markets_with_what_they_earned() {
    for id in [BASE, ROBINHOOD] {
        let Some(mut stage) = Stage::on(id, AUTOMATIC).await else { return };
        let market = stage.chain.loan_market().expect("a market");
        let mut venues: Vec<String> =
            stage.contracts.lending.vaults().iter().map(|one| one.to_checksum(None)).collect();
        venues.push(format!("{:#x}", market.id()));
        for venue in &venues {
            let (status, answer) = stage.supply(venue, 500).await;
            assert_eq!(status, 200, "{answer}");
        }
        stage.pass_month().await;
        let answer = stage.operator.must("positions").await;
        let Answer::Positions(shown) = answer else { panic!("{answer:?}") };
        assert_eq!(shown.positions.len(), venues.len(), "{shown:?}");
        for venue in &venues {
            let own = shown.positions.iter().find(|one| one.venue == *venue);
            let own = own.unwrap_or_else(|| panic!("{venue} is missing: {shown:?}"));
            let worth: u128 = own.worth.atoms.parse().expect("an amount");
            let earned: u128 = own.earned.as_ref().expect("known").atoms.parse().expect("above");
            assert!(earned > 0 && earned == worth - 500 * DOLLAR, "{own:?}");
            assert_ne!(own.trust, VenueTrust::Refused, "{own:?}");
            assert_eq!(own.withdrawable.as_ref(), Some(&own.worth), "{own:?}");
        }
    }
}

/// The allowance that another program gave to a vault is found and revoked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn allowances_of_venues_are_found_and_revoked() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let vault = stage.contracts.lending.vaults()[0];
    let given = [(vault, 7 * DOLLAR), (stage.contracts.lending.morpho, 9 * DOLLAR)];
    for (spender, amount) in given {
        let approve = IErc20::approveCall { spender, value: U256::from(amount) };
        stage.chain.send_as(&Call::new(stage.owner, stage.dollar(), &approve)).await.expect("sent");
    }
    let answer = stage.operator.must("allowances").await;
    let Answer::Allowances(shown) = answer else { panic!("{answer:?}") };
    assert_eq!(shown.allowances.len(), given.len(), "{shown:?}");
    for (spender, amount) in given {
        let spender = spender.to_checksum(None);
        let found = shown.allowances.iter().find(|one| one.spender == spender);
        let found = found.unwrap_or_else(|| panic!("{spender} is missing: {shown:?}"));
        assert_eq!(found.amount.atoms, amount.to_string());
    }
    stage.operator.must("allowances --revoke --yes").await;
    for (spender, _amount) in given {
        assert_eq!(stage.allowance(spender).await, U256::ZERO);
    }
}

/// The doctor finds the contracts, and reports one that has disappeared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_checks_what_loans_need() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    // A local chain has only some vaults of the table.
    let lending = stage.chain.network().lending.expect("a network of loans");
    for vault in lending.pinned_vaults {
        let code = stage.chain.request("eth_getCode", json!([vault, "latest"])).await;
        if code.expect("code") == "0x" {
            stage.chain.request("anvil_setCode", json!([vault, "0x00"])).await.expect("set");
        }
    }
    for name in ["Morpho on Base", "rehearsals on Base", "scan of Base"] {
        assert_eq!(check(&mut stage, name).await, CheckResult::Ok, "{name}");
    }
    let gone = json!([stage.contracts.lending.adapter_registry, "0x"]);
    stage.chain.request("anvil_setCode", gone).await.expect("set");
    assert_eq!(check(&mut stage, "Morpho on Base").await, CheckResult::Warn);
}

async fn check(stage: &mut Stage, name: &str) -> CheckResult {
    let answer = stage.operator.must("doctor").await;
    let Answer::Doctor { checks } = answer else { panic!("{answer:?}") };
    let found = checks.iter().find(|one| one.check == name);
    found.unwrap_or_else(|| panic!("no check {name}: {checks:?}")).result
}
