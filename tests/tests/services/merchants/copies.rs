//! Many copies of one signed payment: the merchant delivers once, the payer pays once, and no transaction reverts.

use bursar_tests::payer::SignedPayment;
use bursar_tests::sdk::Framework;
use futures::StreamExt;
use serde_json::Value;

use crate::merchants::market::Market;
use crate::merchants::merchant::{Merchant, MerchantAnswer};

/// Concurrent connections.
const CONNECTIONS: usize = 64;
const DUPLICATE: &str = "duplicate_settlement";

fn deliveries(answers: &[MerchantAnswer]) -> usize {
    answers.iter().filter(|answer| answer.delivered).count()
}

/// Asserts that one copy bought the content and the payee was paid once. The merchant and the facilitator refused all
/// others as duplicates.
async fn assert_bought_once(
    market: &Market,
    paid: &SignedPayment,
    answers: &[MerchantAnswer],
    case: &str,
) {
    assert_eq!(deliveries(answers), 1, "{case}");
    for refused in answers.iter().filter(|answer| !answer.delivered) {
        assert_eq!(refused.reason, DUPLICATE, "{case}");
    }
    assert!(market.is_charged(paid).await, "{case}");
    let settlements = market.recorder.settlements(&paid.terms.nonce.to_string());
    let success = |answer: &&Value| answer["success"] == true;
    assert_eq!(settlements.iter().filter(success).count(), 1, "{case}");
    for refused in settlements.iter().filter(|answer| !success(answer)) {
        assert_eq!(refused["errorReason"], DUPLICATE, "{case}: {refused}");
    }
}

/// Sends copies to the merchants round-robin, `at_once` of them concurrently.
async fn send_copies(
    market: &Market,
    merchants: &[&Merchant],
    paid: &SignedPayment,
    copies: usize,
    at_once: usize,
) -> Vec<MerchantAnswer> {
    let mut headers = Vec::new();
    for merchant in merchants {
        headers.push((*merchant, merchant.header(paid).await));
    }
    let charges = market.charges().await;
    let shows = (0..copies).map(|copy| {
        let (merchant, header) = &headers[copy % headers.len()];
        merchant.pay(header)
    });
    let answers = futures::stream::iter(shows).buffer_unordered(at_once).collect().await;
    assert_eq!(market.charges().await, charges + 1, "{copies} copies, {at_once} at a time");
    answers
}

/// The hardest race: `/verify` accepts every copy before the first one settles.
async fn all_verified_before_any_settles(market: &Market, merchant: &Merchant) {
    let paid = market.payment().await;
    market.recorder.hold_settles();
    let release = async {
        market.recorder.wait_until_held(CONNECTIONS).await;
        market.recorder.release_settles();
    };
    let merchants = [merchant];
    let copies = send_copies(market, &merchants, &paid, CONNECTIONS, CONNECTIONS);
    let (answers, ()) = tokio::join!(copies, release);
    let case = format!("{:?}, all verified before any settles", merchant.framework);
    assert_bought_once(market, &paid, &answers, &case).await;
}

async fn assert_delivers_once(framework: Framework) {
    let Some(market) = Market::open(&[framework], "").await else { return };
    let merchant = &market.merchants[0];
    for copies in [16, 100, 1_000] {
        let case = format!("{framework:?}, {copies} copies in parallel");
        let paid = market.payment().await;
        let served = merchant.paid_handler_runs().await;
        let mut answers = send_copies(&market, &[merchant], &paid, copies, CONNECTIONS).await;
        // Sends one more copy after the race.
        answers.push(merchant.pay(&merchant.header(&paid).await).await);
        assert_eq!(answers.len(), copies + 1, "{case}");
        assert_bought_once(&market, &paid, &answers, &case).await;
        // The middleware runs the handler before it settles, and discards the result for a refused copy.
        assert!(merchant.paid_handler_runs().await > served, "{case}");
    }
    all_verified_before_any_settles(&market, merchant).await;
    let case = format!("{framework:?}, 16 copies in sequence");
    let paid = market.payment().await;
    let served = merchant.paid_handler_runs().await;
    let answers = send_copies(&market, &[merchant], &paid, 16, 1).await;
    assert_bought_once(&market, &paid, &answers, &case).await;
    assert!(answers[0].delivered, "{case}");
    assert_eq!(merchant.paid_handler_runs().await, served + 1, "{case}");
    market.recorder.assert_truthful();
    market.assert_none_reverted().await;
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hono_delivers_once_for_up_to_1000_copies_of_a_payment() {
    assert_delivers_once(Framework::Hono).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn express_delivers_once_for_up_to_1000_copies_of_a_payment() {
    assert_delivers_once(Framework::Express).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastapi_delivers_once_for_up_to_1000_copies_of_a_payment() {
    assert_delivers_once(Framework::FastApi).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merchants_with_the_same_payee_deliver_once_between_them() {
    let Some(market) = Market::open(&Framework::ALL, "").await else { return };
    let all: Vec<&Merchant> = market.merchants.iter().collect();
    for merchants in [&all[..2], &all[1..], &all[..]] {
        for at_once in [16, 1] {
            let frameworks: Vec<Framework> =
                merchants.iter().map(|merchant| merchant.framework).collect();
            let case = format!("{frameworks:?}, {at_once} at a time");
            let paid = market.payment().await;
            let answers = send_copies(&market, merchants, &paid, 16, at_once).await;
            assert_eq!(answers.len(), 16, "{case}");
            assert_bought_once(&market, &paid, &answers, &case).await;
        }
    }
    market.recorder.assert_truthful();
    market.assert_none_reverted().await;
    market.close().await;
}
