//! Loans: the trust in a venue at each supply, and the cases in which the operator must approve.

use bursar_auditor::observations::*;

use crate::common::lending::*;
use crate::common::trading::signs;
use crate::common::{BASE, COIN, approve};

const NONE: &str = "0x0000000000000000000000000000000000000000";

/// Returns a lender whose nodes report these facts about the vault.
fn with_vault(policy: LendingPolicy, facts: VenueFacts) -> Lender {
    let mut lender = Lender::new(policy);
    lender.venues.insert(VAULT.into(), facts);
    lender
}

fn bad_vaults() -> Vec<(&'static str, VenueFacts)> {
    let stranger = || STRANGER.to_owned();
    vec![
        ("trust", VenueFacts { official: false, ..vault() }),
        ("trust", VenueFacts { adapters_official: false, ..vault() }),
        ("trust", VenueFacts { asset: stranger(), ..vault() }),
        ("trust", VenueFacts { curator: stranger(), ..vault() }),
        ("trust", VenueFacts { owner: stranger(), ..vault() }),
        ("gates", VenueFacts { gates_open: false, ..vault() }),
        ("share price", VenueFacts { virtual_shares: 999_999, ..vault() }),
    ]
}

#[test]
fn venue_without_trust_gets_no_supply() {
    for (rule, facts) in bad_vaults() {
        with_vault(lending(), facts.clone()).start_rejected(rule, &supply(40));
        with_vault(lending(), facts.clone()).hold_rejected(rule, &supply(40));
        if rule == "trust" {
            with_vault(lending(), facts).ask_and_refuse(&supply(40), "one", "VENUE_NOT_PERMITTED");
        }
    }
    Lender::new(lending()).expect_refusal_rejected("trust", &supply(40), "VENUE_NOT_PERMITTED");
}

#[test]
fn trust_is_read_again_at_the_approval() {
    for (rule, facts) in bad_vaults() {
        let mut lender = Lender::new(lending());
        lender.holds(&supply(150), "one");
        lender.venues.insert(VAULT.into(), facts);
        lender.approves(&supply(150), "one");
        let tx = lender.approve_tx(&supply(150));
        lender.rejects(rule, signs(&tx));
    }
    let mut lender = Lender::new(lending());
    lender.holds(&supply(150), "one");
    let ticket = lender.driver.open_order(approve("one"));
    lender.reads_positions(BASE);
    lender.reads_positions(OTHER_CHAIN);
    let end = End::Decided { status: "executing".into() };
    lender.accepts(Observation::OrderEnded { ticket, end });
    let tx = lender.approve_tx(&supply(150));
    lender.rejects("trust", signs(&tx));
}

#[test]
fn pinned_vault_needs_a_trusted_curator_and_any_owner() {
    let pinned = Loan { venue: PINNED.into(), ..supply(40) };
    let facts = || VenueFacts { owner: STRANGER.into(), ..vault() };
    let mut lender = Lender::new(lending());
    lender.venues.insert(PINNED.into(), facts());
    lender.lends(&pinned, "one");
    let mut lender = Lender::new(lending());
    lender.venues.insert(PINNED.into(), VenueFacts { curator: STRANGER.into(), ..facts() });
    lender.start_rejected("trust", &pinned);
}

#[test]
fn new_venue_is_trusted_exactly_as_the_operator_confirmed_it() {
    let confirmed = |curator: &str, owner: &str| {
        let (chain, venue) = (BASE, VAULT.into());
        let (curator, owner) = (curator.into(), owner.into());
        Order::TrustVenue(Box::new(VenueConfirmation { chain, venue, curator, owner }))
    };
    let new = || {
        let owner = STRANGER.into();
        with_vault(lending(), VenueFacts { owner, ..vault() })
    };
    let mut lender = new();
    lender.order(confirmed(CURATOR, STRANGER));
    lender.lends(&supply(40), "one");
    // After the first supply, the owner gave the vault to another curator.
    lender.venues.insert(
        VAULT.into(),
        VenueFacts { owner: STRANGER.into(), curator: STRANGER.into(), ..vault() },
    );
    lender.start_rejected("trust", &supply(40));

    let mut lender = new();
    lender.order(confirmed(CURATOR, OWNER));
    lender.start_rejected("trust", &supply(40));

    let mut lender = new();
    lender.order(confirmed(CURATOR, STRANGER));
    lender.order(Order::UntrustVenue { chain: BASE, venue: VAULT.into() });
    lender.start_rejected("trust", &supply(40));

    // To confirm a venue makes new loans possible, so it needs an open wallet.
    let mut lender = new();
    lender.order(Order::LockWallet);
    let found = lender.driver.order_rejected(confirmed(CURATOR, STRANGER), End::Done);
    assert_eq!(found.rule, "orders");
}

#[test]
fn market_needs_the_official_model_and_a_trusted_vault() {
    let loan = to_market(supply(40));
    for facts in [
        VenueFacts { interest_model: Some(STRANGER.into()), ..market() },
        VenueFacts { interest_model: None, ..market() },
        VenueFacts { endorsed_by: vec![], ..market() },
        VenueFacts { endorsed_by: vec![STRANGER.into()], ..market() },
        VenueFacts { asset: NONE.into(), ..market() },
    ] {
        let mut lender = Lender::new(lending());
        lender.venues.insert(MARKET.into(), facts);
        lender.start_rejected("trust", &loan);
    }
    // The endorsing vault is no longer trusted.
    let facts = VenueFacts { owner: STRANGER.into(), ..vault() };
    with_vault(lending(), facts).start_rejected("trust", &loan);
    with_vault(lending(), VenueFacts { asset: COIN.into(), ..vault() }).lends(&loan, "one");
}

#[test]
fn withdrawal_needs_no_trust() {
    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    lender.venues.insert(VAULT.into(), VenueFacts { curator: STRANGER.into(), ..vault() });
    lender.lends(&withdraw(LoanAmount::All), "two");
}

#[test]
fn first_supply_to_an_uncurated_venue_asks() {
    let free = || LendingPolicy { restricted: false, ..lending() };
    let other = || VenueFacts { official: false, curator: STRANGER.into(), ..vault() };
    with_vault(free(), other()).start_rejected("must ask", &supply(40));
    let mut lender = with_vault(free(), other());
    lender.lends_approved(&supply(40), "one");
    lender.lends(&supply(40), "two");
    with_vault(free(), vault()).lends(&supply(40), "one");
    // The wallet cannot value another token.
    let token = VenueFacts { asset: STRANGER.into(), ..other() };
    with_vault(free(), token).hold_rejected("trust", &supply(40));
}

#[test]
fn threshold_is_strict_and_zero_is_manual_only() {
    Lender::new(lending()).lends(&supply(99), "one");
    Lender::new(lending()).start_rejected("I-j", &supply(100));
    Lender::new(lending()).holds(&supply(100), "one");
    let manual = LendingPolicy { auto_below: 0, ..lending() };
    Lender::new(manual).start_rejected("I-j", &supply(1));
    // A withdrawal by shares counts with the value of the shares.
    let mut lender = Lender::new(lending());
    lender.lends_approved(&supply(150), "one");
    lender.start_rejected("I-j", &withdraw(LoanAmount::All));
    let mut lender = Lender::new(lending());
    lender.lends_approved(&supply(150), "one");
    lender.start_rejected("I-j", &withdraw(LoanAmount::Assets(100 * DOLLAR)));
}

#[test]
fn low_liquidity_and_a_fallen_share_price_ask() {
    for (liquidity, right) in [(400, true), (399, false)] {
        let free_liquidity = liquidity * DOLLAR;
        let mut lender = with_vault(lending(), VenueFacts { free_liquidity, ..vault() });
        if right {
            lender.starts(&supply(40), "one");
        } else {
            lender.start_rejected("must ask", &supply(40));
        }
    }
    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    let lower = VenueFacts { share_price: vault().share_price.map(|price| price - 1), ..vault() };
    lender.venues.insert(VAULT.into(), lower.clone());
    lender.start_rejected("must ask", &supply(40));
    // Later prices are compared with the price that the operator approved.
    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    lender.venues.insert(VAULT.into(), lower);
    lender.lends_approved(&supply(41), "two");
    lender.lends(&supply(40), "three");
}

/// Returns a vault whose shares are worth more than before.
fn dearer_vault() -> VenueFacts {
    VenueFacts { share_price: vault().share_price.map(|price| price + 1), ..vault() }
}

/// Returns a lender whose second supply has its allowance, and whose next measurement showed a higher share price.
fn remeasured_supply() -> Lender {
    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    lender.starts(&supply(40), "two");
    let allowance = lender.approve_tx(&supply(40));
    lender.sends(&allowance);
    lender.venues.insert(VAULT.into(), dearer_vault());
    lender.reads(&supply(40));
    lender
}

#[test]
fn share_price_that_was_not_recorded_is_not_compared() {
    // The higher price was read only for a list of venues.
    let mut lender = Lender::new(lending());
    lender.lends(&supply(40), "one");
    lender.venues.insert(VAULT.into(), dearer_vault());
    lender.reads_venue(&supply(40));
    lender.venues.insert(VAULT.into(), vault());
    lender.lends(&supply(40), "two");
    // The plan ended instead of ordering its next step.
    let mut lender = remeasured_supply();
    lender.polls("two", LOAN_REJECTED);
    lender.venues.insert(VAULT.into(), vault());
    lender.starts(&supply(40), "three");
}

#[test]
fn share_prices_of_requests_and_steps_are_compared() {
    let mut lender = with_vault(lending(), dearer_vault());
    lender.holds(&supply(150), "one");
    lender.venues.insert(VAULT.into(), vault());
    lender.start_rejected("must ask", &supply(40));

    let mut lender = with_vault(lending(), dearer_vault());
    lender.ask_and_refuse(&supply(201), "one", "PER_DEPOSIT_EXCEEDED");
    lender.venues.insert(VAULT.into(), vault());
    lender.start_rejected("must ask", &supply(40));

    let mut lender = remeasured_supply();
    let tx = lender.main_tx(&supply(40));
    lender.signs_and_broadcasts(&tx);
    lender.moves(&supply(40), &tx, 40 * DOLLAR);
    lender.venues.insert(VAULT.into(), vault());
    lender.start_rejected("must ask", &supply(40));
}

#[test]
fn shares_that_redeem_for_too_little_are_refused() {
    for (redeems, right) in [(999, true), (998, false)] {
        let mut lender = Lender::new(lending());
        lender.redeems = redeems;
        if right {
            lender.starts(&supply(40), "one");
        } else {
            lender.hold_rejected("share price", &supply(40));
        }
    }
}

#[test]
fn unproven_effects_little_native_coin_and_a_doubted_journal_ask() {
    for outcome in [Rehearsal::Failed, Rehearsal::Unavailable] {
        for loan in [supply(40), withdraw(LoanAmount::Assets(DOLLAR))] {
            let mut lender = Lender::new(lending());
            lender.rehearsal = outcome;
            lender.start_rejected("must ask", &loan);
        }
    }
    let mut lender = Lender::new(lending());
    lender.native = 1_999;
    lender.start_rejected("must ask", &supply(40));
    for loan in [supply(40), withdraw(LoanAmount::Assets(DOLLAR))] {
        let mut lender = Lender::new(lending());
        lender.accepts(Observation::JournalDoubted { doubted: true });
        lender.start_rejected("must ask", &loan);
    }
}

#[test]
fn clock_far_behind_the_chain_asks() {
    for (ahead_s, right) in [(660, true), (661, false)] {
        let mut lender = Lender::new(lending());
        let time_s = lender.driver.second() + ahead_s;
        lender.accepts(Observation::Head(Head { chain: BASE, block: 1001, time_s }));
        if right {
            lender.starts(&supply(40), "one");
        } else {
            lender.start_rejected("must ask", &supply(40));
        }
    }
}

#[test]
fn step_before_the_answer_is_judged_too() {
    let mut lender = Lender::new(lending());
    lender.opens(&supply(100));
    let tx = lender.approve_tx(&supply(100));
    lender.rejects("I-j", signs(&tx));
    let mut lender = with_vault(lending(), VenueFacts { official: false, ..vault() });
    lender.opens(&supply(40));
    let tx = lender.approve_tx(&supply(40));
    lender.rejects("trust", signs(&tx));
}

#[test]
fn deadline_by_the_chains_time_and_empty_loans_are_refused() {
    let mut lender = Lender::new(lending());
    let now = lender.driver.second();
    let loan = Loan { deadline_s: Some(now - 1), ..supply(40) };
    lender.hold_rejected("deadline", &loan);
    let loan = Loan { deadline_s: Some(now), ..supply(40) };
    Lender::new(lending()).holds(&loan, "one");
    Lender::new(lending()).hold_rejected("refusals", &supply(0));
    Lender::new(lending()).hold_rejected("refusals", &withdraw(LoanAmount::Shares(0)));
}
