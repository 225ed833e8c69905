//! The lending ceiling: with two agents on one address, with a node that hides positions,
//! and after the operator's exit.

use alloy_primitives::U256;
use bursar_control::answers::Answer;
use bursar_core::card::HoldReason;
use bursar_core::status::SendStatus;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::json;

use crate::loans::stage::{AUTOMATIC, DOLLAR, Stage};

/// Two agents make eight simultaneous supplies of 1,000 dollars under a ceiling of 4,000.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_share_an_address_share_its_ceiling() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let other = stage.another_agent("other").await;
    let vaults = stage.contracts.lending.vaults();
    let mut bodies = Vec::new();
    for round in 0..4 {
        for agent in [None, Some(&other)] {
            let venue = vaults[round % 2].to_checksum(None);
            let mut request = stage.request("supply", &venue);
            request["amount"] = json!("1000");
            bodies.push(stage.request_body(agent, &request));
        }
    }
    let calls = bodies.iter().map(|body| stage.post("/position", body));
    let answers = futures::future::join_all(calls).await;
    let executed = answers.iter().filter(|(_status, one)| one["status"] == "executed").count();
    let refused =
        answers.iter().filter(|(_status, one)| one["code"] == "EXPOSURE_EXCEEDED").count();
    // A request may measure an older block than the one that another request recorded. If the share price is lower
    // there, the supply is held.
    let Answer::Requests { requests } = stage.operator.must("requests").await else {
        panic!("no list")
    };
    let holds: Vec<_> =
        requests.iter().map(|one| one.card.as_ref().map(|card| card.hold)).collect();
    assert!(holds.iter().all(|hold| *hold == Some(HoldReason::SharePriceFell)), "{holds:?}");
    assert!((1..=4).contains(&executed), "{answers:?}");
    assert_eq!(executed + refused + holds.len(), 8, "{answers:?}");
    let mut worth = U256::ZERO;
    for vault in &vaults {
        worth += stage.worth(*vault).await;
        assert_eq!(stage.allowance(*vault).await, U256::ZERO);
    }
    assert!(worth <= U256::from(4_000 * DOLLAR + 1_000), "{worth}");
}

/// Even if the chain shows no position, the amount that the journal lent still counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_vanishes_lifts_no_ceiling_until_it_is_written_off() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let [first, second] = stage.contracts.lending.vaults()[..] else { panic!("two vaults") };
    let (venue, lost) = (second.to_checksum(None), first.to_checksum(None));
    for _supply in 0..3 {
        let (status, answer) = stage.supply(&lost, 1_200).await;
        assert_eq!(status, 200, "{answer}");
    }
    stage.chain.request("anvil_setCode", json!([first, "0x"])).await.expect("set");
    let (_status, answer) = stage.supply(&venue, 500).await;
    assert_eq!(answer["code"], "EXPOSURE_EXCEEDED", "{answer}");
    let write_off = format!("position write-off {lost} --network base --yes");
    let answer = stage.operator.must(&write_off).await;
    let Answer::WrittenOff(booked) = answer else { panic!("{answer:?}") };
    assert_eq!((booked.before.as_str(), booked.after.as_str()), ("3600.00", "0.00"));
    let (status, answer) = stage.supply(&venue, 500).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
}

/// While agents are frozen, the operator withdraws everything, which frees the ceiling again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_withdraws_while_agents_are_frozen() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let vault = stage.contracts.lending.vaults()[0];
    let venue = vault.to_checksum(None);
    for _supply in 0..3 {
        let (status, answer) = stage.supply(&venue, 1_300).await;
        assert_eq!(status, 200, "{answer}");
    }
    stage.operator.must("freeze").await;
    let (_status, answer) = stage.withdraw_all(&venue).await;
    assert_eq!(answer["code"], "AGENTS_FROZEN", "{answer}");
    let part = format!("position withdraw {venue} 400.5 --network base --yes");
    let before = stage.dollars().await;
    let answer = stage.operator.must(&part).await;
    let Answer::Send(send) = answer else { panic!("{answer:?}") };
    assert!(matches!(send.status, SendStatus::Done | SendStatus::Included), "{send:?}");
    assert_eq!(send.summary, "withdrawal of 400.500000 USDC");
    assert_eq!(stage.dollars().await - before, U256::from(400_500_000u64));
    stage.operator.must(&format!("position withdraw {venue} all --network base --yes")).await;
    assert_eq!(stage.worth(vault).await, U256::ZERO);
    stage.await_booked(2).await;
    stage.operator.must("thaw").await;
    let (status, answer) = stage.supply(&venue, 1_400).await;
    assert_eq!((status, &answer["status"]), (200, &json!("executed")), "{answer}");
}
