//! A journal rewritten without the key of the seals.

use bursar_control::answers::Answer;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::lock_cause::LockCause;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_domain::agents::Credential;
use bursar_domain::allowance::WindowStart;
use bursar_domain::{Event, Status};
use bursar_tests::operator::Expect;

use crate::tampering::forger::Forger;
use crate::tampering::stage::{Stage, assert_untrusted_warning};

/// Sets every limit to 1,000 dollars, a hundred times the operator's.
fn loosen_policy(policy: &mut Policy) {
    policy.payments.daily = Usd::dollars(1000);
    policy.payments.per_request = Usd::dollars(1000);
    policy.payments.auto_below = Usd::dollars(1000);
}

/// Returns name, serial number and value of the policy in the entries.
fn policy(forger: &mut Forger) -> (bursar_core::ids::Name, u64, Policy) {
    let set = forger.events().find_map(|event| match event {
        Event::PolicySet { name, serial, policy, .. } => {
            Some((name.clone(), *serial, (**policy).clone()))
        }
        _other => None,
    });
    set.expect("a policy")
}

/// Returns the agent with an allowance, and its start.
fn allowance(forger: &mut Forger) -> (bursar_core::ids::AgentId, WindowStart) {
    let given = forger.events().find_map(|event| match event {
        Event::AgentCommissioned { agent, start: Some(start), .. } => {
            Some((agent.clone(), start.clone()))
        }
        _other => None,
    });
    given.expect("a commission")
}

#[tokio::test]
async fn a_limit_edited_with_a_valid_chain_holds_every_payment_until_accepted() {
    let mut stage = Stage::new().await;
    let warnings = stage
        .restart_after(|stage| {
            let mut forger = Forger::open(&stage.journal());
            for event in forger.events() {
                if let Event::PolicySet { policy, .. } = event {
                    loosen_policy(policy);
                }
            }
            forger.write_back();
        })
        .await;
    assert_untrusted_warning(&warnings, "The journal does not match the wallet");
    stage.assert_held_as_untrusted().await;
    let audit = stage.audit().await;
    assert!(!audit.sealed && audit.untrusted.is_some(), "{audit:?}");
    let Answer::Status(status) = stage.operator().must("status").await else { panic!() };
    assert!(status.untrusted.is_some());

    // Neither a restart nor a lock restores trust, and a new password is refused.
    let changed = stage.operator().outcome("wallet passwd").await.reply.result;
    assert_eq!(changed.map_err(|fault| fault.code), Err(Code::JournalUntrusted));
    let warnings = stage.restart_after(|_stage| ()).await;
    assert_untrusted_warning(&warnings, "The journal does not match the wallet");
    stage.assert_held_as_untrusted().await;

    // Only the operator's password accepts the journal.
    let mut operator = stage.operator();
    operator.passwords.push_back("not the password".to_owned());
    assert_eq!(operator.run_refused("audit accept").await.code, Code::WrongPassword);
    stage.after_wrong_passwords = true;
    drop(operator);
    stage.assert_held_as_untrusted().await;
    let mut operator = stage.operator();
    let accepting = operator.must("audit accept");
    let Answer::Audit(accepted) = stage.engine().while_time_passes(accepting).await else {
        panic!()
    };
    drop(operator);
    assert!(accepted.sealed && accepted.untrusted.is_none(), "{accepted:?}");
    assert_eq!(stage.pay().await.0, 200);
    assert!(stage.restart_after(|_stage| ()).await.is_empty(), "accepted for good");
    assert_eq!(stage.pay().await.0, 200);
}

#[tokio::test]
async fn an_entry_after_the_last_seal_that_needed_an_open_wallet_is_untrusted() {
    let mut stage = Stage::new().await;
    stage.operator().must("agent suspend bot").await;
    stage.operator().must("network disable base").await;
    stage.close().await;
    // One entry records wrong passwords, which delays the next attempt.
    stage.after_wrong_passwords = true;
    let whole = std::fs::read(stage.journal()).unwrap();
    let (agent, start) = allowance(&mut Forger::open(&stage.journal()));
    let name = |text: &str| text.parse().unwrap();
    let bearer = Credential::Bearer { sha256: [7; 32] };
    for event in [
        Event::Thawed,
        Event::JournalAccepted,
        Event::AgentResumed { agent: agent.clone() },
        Event::NetworkSet { chain: ChainId(8453), enabled: true },
        Event::CredentialReplaced { agent: agent.clone(), credential: bearer.clone() },
        Event::AgentRegistered {
            id: "XYZ123".parse().unwrap(),
            name: name("thief"),
            credential: bearer,
        },
        Event::AgentCommissioned {
            agent,
            policy: name("p"),
            label: name("pay"),
            start: Some(start),
            before: None,
        },
        Event::WalletOpened { noted_entry: Some(1) },
        Event::WalletLocked { cause: LockCause::Operator, noted_entry: None },
        Event::PasswordChanged,
        Event::PasswordRefused { times: 7 },
    ] {
        stage.put_back(&whole);
        let mut forger = Forger::open(&stage.journal());
        forger.append(event.clone());
        forger.write_back();
        drop(forger);
        let warnings = stage.open().await;
        assert_untrusted_warning(
            &warnings,
            "came after the last seal, and only an open wallet can write it",
        );
        stage.close().await;
    }
}

#[tokio::test]
async fn operator_commands_while_locked_are_trusted() {
    let mut stage = Stage::new().await;
    stage.operator().must("wallet lock").await;
    for line in [
        "policy edit p --day 5",
        "network disable 4663",
        "freeze",
        "policy edit p --auto 0.2",
        "agent suspend bot",
    ] {
        stage.operator().must(line).await;
    }
    for line in ["policy edit p --day 6", "thaw", "agent resume bot", "network enable 4663"] {
        assert_eq!(stage.operator().run_refused(line).await.code, Code::WalletLocked, "{line}");
    }
    // An engine starts with a locked wallet.
    stage.engine().engine.record_start().await.unwrap();
    assert!(stage.restart_after(|_stage| ()).await.is_empty());
    stage.operator().must("thaw").await;
    stage.operator().must("agent resume bot").await;
    assert_eq!(stage.pay().await.0, 200);
}

#[tokio::test]
async fn a_policy_loosened_after_the_last_seal_is_untrusted() {
    let mut stage = Stage::new().await;
    let warnings = stage
        .restart_after(|stage| {
            let mut forger = Forger::open(&stage.journal());
            let (name, serial, mut policy) = policy(&mut forger);
            let serial = serial + 1;
            let before = Some(Box::new(policy.clone()));
            loosen_policy(&mut policy);
            forger.append(Event::PolicySet { name, serial, policy: Box::new(policy), before });
            forger.write_back();
        })
        .await;
    assert!(!warnings.is_empty(), "a limit a hundred times as high, unnoticed");
    stage.assert_held_as_untrusted().await;
}

/// An entry must state the true previous value, because the operator reads it.
#[tokio::test]
async fn a_tightening_after_the_last_seal_with_a_false_old_value_is_untrusted() {
    let mut stage = Stage::new().await;
    let warnings = stage
        .restart_after(|stage| {
            let mut forger = Forger::open(&stage.journal());
            let (name, serial, mut policy) = policy(&mut forger);
            let mut before = policy.clone();
            before.payments.daily = Usd::dollars(1);
            policy.payments.auto_below = Usd::ZERO;
            let (policy, before) = (Box::new(policy), Some(Box::new(before)));
            forger.append(Event::PolicySet { name, serial: serial + 1, policy, before });
            forger.write_back();
        })
        .await;
    assert_untrusted_warning(
        &warnings,
        "came after the last seal, and only an open wallet can write it",
    );
}

#[tokio::test]
async fn an_allowance_renewed_too_early_after_the_last_seal_is_untrusted() {
    let mut stage = Stage::new().await;
    let warnings = stage
        .restart_after(|stage| {
            let mut forger = Forger::open(&stage.journal());
            let (agent, start) = allowance(&mut forger);
            forger.append(Event::AllowanceRenewed { agent, start });
            forger.write_back();
        })
        .await;
    assert!(!warnings.is_empty(), "what was spent today is forgotten, unnoticed");
    stage.assert_held_as_untrusted().await;
}

#[tokio::test]
async fn a_missing_forged_or_moved_seal_is_untrusted() {
    let mut stage = Stage::new().await;
    stage.close().await;
    let whole = std::fs::read(stage.journal()).unwrap();
    let flipped = |at: usize| {
        move |mut seal: Vec<u8>| {
            seal[at] ^= 1;
            Some(seal)
        }
    };
    type Change = Box<dyn FnOnce(Vec<u8>) -> Option<Vec<u8>>>;
    let moved = |seal: Vec<u8>| Some([&[0, 0, 0, 0, 0, 0, 0, 1][..], &seal[8..]].concat());
    for change in [
        Box::new(|_seal| None) as Change,
        Box::new(moved),
        Box::new(flipped(7)),
        Box::new(flipped(8)),
        Box::new(flipped(39)),
    ] {
        stage.put_back(&whole);
        Forger::open(&stage.journal()).seal(change);
        let warnings = stage.open().await;
        assert_untrusted_warning(&warnings, "The journal does not match the wallet");
        stage.assert_held_as_untrusted().await;
        stage.close().await;
    }
}

#[tokio::test]
async fn a_snapshot_that_contradicts_the_entries_is_not_used() {
    let mut stage = Stage::new().await;
    let warnings = stage
        .restart_after(|stage| {
            let forger = Forger::open(&stage.journal());
            let mut state = forger.state();
            let policies = std::sync::Arc::make_mut(&mut state.policies);
            for record in policies.values_mut() {
                loosen_policy(&mut std::sync::Arc::make_mut(record).policy);
            }
            forger.snapshot(&state);
        })
        .await;
    let line = "policy show p";
    let Answer::Policy(policy) = stage.operator().must(line).await else { panic!() };
    let believed = policy.payments.daily != "10.00";
    assert!(!believed || !warnings.is_empty(), "unnoticed: {:?}", policy.payments);
}

#[tokio::test]
async fn requests_missing_from_the_index_are_reported_or_still_known() {
    let mut stage = Stage::new().await;
    let body = stage.next_ask();
    let (_, before) = stage.engine().post("/sign", &body).await;
    let warnings = stage.restart_after(|stage| Forger::open(&stage.journal()).clear_index()).await;
    let (_, after) = stage.engine().post("/sign", &body).await;
    assert!(before == after || !warnings.is_empty(), "first {before}, then {after}");
}

/// Records for polls and history are outside the chain (SECURITY.md): they may be wrong, but decide nothing.
#[tokio::test]
async fn an_edited_record_changes_no_spending() {
    let mut stage = Stage::new().await;
    let body = stage.next_ask();
    stage.engine().post("/sign", &body).await;
    let Answer::Agents { agents: before } = stage.operator().must("agent list").await else {
        panic!()
    };
    stage
        .restart_after(|stage| {
            Forger::open(&stage.journal()).edit_records(|request| {
                if let Status::Authorized { at, .. } = request.status {
                    let told_until = bursar_domain::requests::Deadline {
                        utc: at,
                        boot_id: String::new(),
                        boot_ms: 0,
                    };
                    request.status = Status::Denied {
                        reason: None,
                        at,
                        by: Client::Inside,
                        repeatable_until: told_until,
                    };
                }
            });
        })
        .await;
    let Answer::Agents { agents: after } = stage.operator().must("agent list").await else {
        panic!()
    };
    assert_eq!(before, after, "what was spent comes from the chain");
}
