//! Loans: the call data of each transaction.

use bursar_auditor::observations::*;

use crate::common::lending::*;
use crate::common::trading::{signs, signs_for};
use crate::common::{BASE, COIN, MAIN, SHOP, encode};

/// Plays a supply until its allowance is mined.
fn allowed(loan: &Loan) -> Lender {
    let mut lender = Lender::new(lending());
    lender.starts(loan, "one");
    let tx = lender.approve_tx(loan);
    lender.sends(&tx);
    lender
}

/// Returns a lender with a position of 40 dollars whose withdrawal may begin.
fn withdrawing(loan: &Loan) -> Lender {
    let mut lender = Lender::new(lending());
    lender.positions.insert((BASE, loan.venue.clone()), (40 * DOLLAR, 38 * DOLLAR));
    lender.starts(loan, "one");
    lender
}

#[test]
fn deposit_is_exact_and_for_the_paying_address() {
    let loan = supply(40);
    let amount = 40 * DOLLAR;
    for (to, data) in [
        (VAULT, deposit(amount + 1, MAIN)),
        (VAULT, deposit(amount - 1, MAIN)),
        (VAULT, deposit(amount, SHOP)),
        (STRANGER, deposit(amount, MAIN)),
        (VAULT, mint(0, MAIN)),
        (VAULT, mint(amount, SHOP)),
        (STRANGER, mint(amount, MAIN)),
        (VAULT, vault_withdraw(amount, MAIN, MAIN)),
        (SINGLETON, market_supply(amount, 0, MAIN, "")),
    ] {
        let mut lender = allowed(&loan);
        let tx = lender.tx(BASE, to, data);
        lender.rejects("call data", signs(&tx));
    }
    let mut lender = allowed(&loan);
    let tx = lender.tx(BASE, VAULT, deposit(amount, MAIN));
    lender.rejects("call data", signs(&Transaction { value: 1, ..tx }));
    let mut lender = allowed(&loan);
    let tx = lender.tx(OTHER_CHAIN, VAULT, deposit(amount, MAIN));
    lender.rejects("call data", signs(&tx));
}

/// The exact allowance limits the cost of the shares.
#[test]
fn shares_may_be_bought_instead() {
    let loan = supply(40);
    let mut lender = allowed(&loan);
    let tx = lender.tx(BASE, VAULT, mint(38 * DOLLAR, MAIN));
    lender.accepts(signs(&tx));
    let mut lender = withdrawing(&withdraw(LoanAmount::All));
    let tx = lender.tx(BASE, VAULT, mint(38 * DOLLAR, MAIN));
    lender.rejects("call data", signs(&tx));
}

#[test]
fn market_supply_names_its_market_and_no_callback() {
    let loan = to_market(supply(40));
    let amount = 40 * DOLLAR;
    let right = market_supply(amount, 0, MAIN, "");
    let other_market =
        right.replacen(&encode::address(INTEREST_MODEL), &encode::address(STRANGER), 1);
    for (to, data) in [
        (SINGLETON, market_supply(amount + 1, 0, MAIN, "")),
        (SINGLETON, market_supply(0, amount, MAIN, "")),
        (SINGLETON, market_supply(amount, 1, MAIN, "")),
        (SINGLETON, market_supply(amount, 0, SHOP, "")),
        (SINGLETON, market_supply(amount, 0, MAIN, &encode::word(1))),
        (SINGLETON, other_market),
        (STRANGER, right.clone()),
        (VAULT, deposit(amount, MAIN)),
    ] {
        let mut lender = allowed(&loan);
        let tx = lender.tx(BASE, to, data);
        lender.rejects("call data", signs(&tx));
    }
    let mut lender = allowed(&loan);
    let tx = lender.tx(BASE, SINGLETON, right);
    lender.accepts(signs(&tx));
}

#[test]
fn withdrawal_is_exact_and_to_the_paying_address() {
    let assets = withdraw(LoanAmount::Assets(10 * DOLLAR));
    let shares = withdraw(LoanAmount::Shares(10 * DOLLAR));
    let n = 10 * DOLLAR;
    for (loan, data, right) in [
        (&assets, vault_withdraw(n, MAIN, MAIN), true),
        (&assets, vault_withdraw(n, SHOP, MAIN), false),
        (&assets, vault_withdraw(n, MAIN, SHOP), false),
        (&assets, vault_withdraw(n + 1, MAIN, MAIN), false),
        (&assets, redeem(n, MAIN, MAIN), false),
        (&assets, deposit(n, MAIN), false),
        (&shares, redeem(n, MAIN, MAIN), true),
        (&shares, redeem(n, SHOP, MAIN), false),
        (&shares, redeem(n - 1, MAIN, MAIN), false),
        (&shares, vault_withdraw(n, MAIN, MAIN), false),
    ] {
        let mut lender = withdrawing(loan);
        let tx = lender.tx(BASE, VAULT, data);
        if right {
            lender.accepts(signs(&tx));
        } else {
            lender.rejects("call data", signs(&tx));
        }
    }
    let market = to_market(assets);
    for (moved, owner, receiver, right) in [
        ((n, 0), MAIN, MAIN, true),
        ((n, 0), MAIN, SHOP, false),
        ((n, 0), SHOP, MAIN, false),
        ((0, n), MAIN, MAIN, false),
        ((n, 1), MAIN, MAIN, false),
    ] {
        let mut lender = withdrawing(&market);
        let tx = lender.tx(BASE, SINGLETON, market_withdraw(moved, owner, receiver));
        if right {
            lender.accepts(signs(&tx));
        } else {
            lender.rejects("call data", signs(&tx));
        }
    }
}

#[test]
fn full_exit_is_by_all_shares() {
    let all = withdraw(LoanAmount::All);
    for (data, right) in [
        (redeem(38 * DOLLAR, MAIN, MAIN), true),
        (redeem(38 * DOLLAR - 1, MAIN, MAIN), false),
        (vault_withdraw(40 * DOLLAR, MAIN, MAIN), false),
    ] {
        let mut lender = withdrawing(&all);
        let tx = lender.tx(BASE, VAULT, data);
        if right {
            lender.accepts(signs(&tx));
        } else {
            lender.rejects("full exit", signs(&tx));
        }
    }
    let market = to_market(all);
    for (moved, right) in
        [((0, 38 * DOLLAR), true), ((40 * DOLLAR, 0), false), ((0, 37 * DOLLAR), false)]
    {
        let mut lender = withdrawing(&market);
        let tx = lender.tx(BASE, SINGLETON, market_withdraw(moved, MAIN, MAIN));
        if right {
            lender.accepts(signs(&tx));
        } else {
            lender.rejects("full exit", signs(&tx));
        }
    }
}

#[test]
fn allowance_is_exact_and_for_the_right_spender() {
    for loan in [supply(40), to_market(supply(40))] {
        let right = if loan.kind == VenueKind::Vault { VAULT } else { SINGLETON };
        let wrong = if loan.kind == VenueKind::Vault { SINGLETON } else { VAULT };
        for (token, spender, amount) in [
            (COIN, right, 40 * DOLLAR + 1),
            (COIN, right, 40 * DOLLAR - 1),
            (COIN, right, u128::MAX),
            (COIN, wrong, 40 * DOLLAR),
            (COIN, SHOP, 40 * DOLLAR),
            (OTHER_COIN, right, 40 * DOLLAR),
        ] {
            let mut lender = Lender::new(lending());
            lender.starts(&loan, "one");
            let tx = lender.tx(BASE, token, encode::approve(spender, amount));
            lender.rejects("allowance", signs(&tx));
        }
        let mut lender = allowed(&loan);
        let second = lender.approve_tx(&loan);
        lender.rejects("allowance", signs(&second));
    }
    // A withdrawal needs no allowance.
    let mut lender = withdrawing(&withdraw(LoanAmount::Assets(DOLLAR)));
    let tx = lender.tx(BASE, COIN, encode::approve(VAULT, DOLLAR));
    lender.rejects("allowance", signs(&tx));
}

#[test]
fn money_moves_once() {
    let mut lender = allowed(&supply(40));
    let tx = lender.main_tx(&supply(40));
    lender.signs_and_broadcasts(&tx);
    let second = lender.main_tx(&supply(40));
    lender.rejects("I-b", signs(&second));
    // The nonce is used again for another loan.
    let mut lender = allowed(&supply(40));
    let tx = lender.main_tx(&supply(40));
    lender.signs_and_broadcasts(&tx);
    let other = Transaction { data: deposit(41 * DOLLAR, MAIN), hash: "0xother".into(), ..tx };
    let found = lender.driver.rejects(Observation::Broadcast(other));
    assert_eq!(found.rule, "I-b");
}

#[test]
fn signature_that_was_not_shown_is_judged_at_the_broadcast() {
    let mut lender = allowed(&supply(40));
    let tx = lender.main_tx(&supply(40));
    lender.accepts(Observation::Broadcast(tx));
    let mut lender = allowed(&supply(40));
    let tx = lender.tx(BASE, VAULT, deposit(40 * DOLLAR, SHOP));
    lender.rejects("call data", Observation::Broadcast(tx));
}

#[test]
fn a_dearer_copy_and_a_cancellation_use_the_same_nonce() {
    let mut lender = allowed(&supply(40));
    let tx = lender.main_tx(&supply(40));
    lender.signs_and_broadcasts(&tx);
    lender.accepts(signs_for(&tx, "higher fee"));
    lender.accepts(Observation::Broadcast(Transaction { hash: "0xdearer".into(), ..tx.clone() }));
    lender.order(Order::Freeze);
    let (to, data, hash) = (MAIN.into(), String::new(), "0xcancel".into());
    let cancel = Transaction { to, data, hash, ..tx.clone() };
    lender.accepts(signs(&cancel));
    lender.accepts(Observation::Broadcast(cancel));
    lender.rejects("I-g", signs_for(&tx, "even higher fee"));
}
