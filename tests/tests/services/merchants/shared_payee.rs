//! A payment that is shown to two sellers of one payee buys from exactly one of them, with
//! one facilitator or with two.

use std::collections::BTreeMap;

use crate::merchants::pair::{Order, Pair, Program, Sale};

/// Number of payments in each case, unless `BURSAR_PAYMENTS` overrides it: one in each order.
const PAYMENTS: usize = 5;
/// The orders in which payments are shown, used in turn.
const ORDERS: [Order; 5] = [
    Order::Together,
    Order::BeforeBlock,
    Order::Together,
    Order::FirstThenSecond,
    Order::SecondThenFirst,
];
const DUPLICATE: &str = "duplicate_settlement";

/// Sums over the payments of one case.
#[derive(Debug, Default)]
struct Tally {
    /// Payments for which this number of sellers delivered.
    by_deliveries: BTreeMap<usize, usize>,
    /// Deliveries of the first and of the second seller.
    by_seller: [usize; 2],
    /// Payments with this number of transfers on the chain.
    by_transfers: BTreeMap<usize, usize>,
    /// Codes of the refusals.
    refusals: BTreeMap<String, usize>,
    /// Descriptions of faults, each with its payment.
    faults: Vec<String>,
}

impl Tally {
    fn add(&mut self, sale: &Sale, payment: &str) {
        let delivered = || sale.answers.iter().filter(|answer| answer.delivered);
        for (seller, answer) in sale.answers.iter().enumerate() {
            self.by_seller[seller] += usize::from(answer.delivered);
            if !answer.delivered {
                // A proxy appends a sentence to the code of a payment that does not verify.
                let code = answer.reason.split(':').next().unwrap_or_default();
                *self.refusals.entry(code.to_owned()).or_default() += 1;
            }
        }
        *self.by_deliveries.entry(delivered().count()).or_default() += 1;
        *self.by_transfers.entry(sale.transfers.len()).or_default() += 1;
        // The receipt names the one transaction that moved the money.
        let receipts: Vec<&String> = delivered().map(|answer| &answer.transaction).collect();
        let transfers: Vec<&String> = sale.transfers.iter().collect();
        let repeated = sale.repeats.iter().any(|answer| answer.delivered);
        if receipts.len() != 1 || receipts != transfers || repeated {
            self.faults.push(format!("{payment}: {sale:?}"));
        }
    }
}

fn payments() -> usize {
    let count = std::env::var("BURSAR_PAYMENTS").ok().and_then(|text| text.parse().ok());
    count.unwrap_or(PAYMENTS)
}

/// Shows payments to two sellers and counts their deliveries.
async fn tally_payments(pair: &Pair, payments: usize, orders: &[Order]) -> Tally {
    let mut tally = Tally::default();
    for n in 0..payments {
        let order = orders[n % orders.len()];
        // Ten payments combine each order with both versions, and with the offers of both sellers.
        let signed_for = n / orders.len() % 2;
        let version = if n % 2 == 0 { 2 } else { 1 };
        let sale = pair.send_to_both(order, signed_for, version).await;
        tally.add(&sale, &format!("payment {n}, {order:?}"));
    }
    tally
}

async fn run_and_assert_one_delivery(program: Program, facilitators: u8) {
    let Some(pair) = Pair::open(program, facilitators, "").await else { return };
    assert_one_delivery(&pair, (program, facilitators), payments(), &ORDERS).await;
}

async fn assert_one_delivery(
    pair: &Pair,
    (program, facilitators): (Program, u8),
    payments: usize,
    orders: &[Order],
) {
    let tally = tally_payments(pair, payments, orders).await;
    println!("{program:?}, {facilitators} facilitator(s), {payments} payments: {tally:#?}");
    assert_eq!(tally.faults, Vec::<String>::new());
    assert_eq!(tally.refusals, BTreeMap::from([(DUPLICATE.to_owned(), payments)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_shops_with_one_facilitator_deliver_each_payment_once() {
    run_and_assert_one_delivery(Program::Shop, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_shops_with_two_facilitators_deliver_each_payment_once() {
    run_and_assert_one_delivery(Program::Shop, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_proxies_with_one_facilitator_deliver_each_payment_once() {
    run_and_assert_one_delivery(Program::Proxy, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_proxies_with_two_facilitators_deliver_each_payment_once() {
    run_and_assert_one_delivery(Program::Proxy, 2).await;
}

/// A proxy delivers on `settlement_pending`, so the facilitator whose transaction came second must not answer it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_another_facilitator_made_is_not_pending_before_its_block_is_final() {
    for program in [Program::Shop, Program::Proxy] {
        let Some(pair) = Pair::open(program, 2, "wait_ms = 1000").await else { return };
        assert_one_delivery(&pair, (program, 2), 2, &[Order::InLastBlock]).await;
    }
}
