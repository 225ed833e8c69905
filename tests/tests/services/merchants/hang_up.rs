//! A customer who disconnects while the merchant settles, and then pays again.

use bursar_tests::sdk::Framework;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::merchants::market::{Market, POLL_INTERVAL, wait_within_deadline};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_whose_customer_disconnected_is_charged_once() {
    let Some(market) = Market::open(&Framework::ALL, "").await else { return };
    for (n, merchant) in market.merchants.iter().enumerate() {
        let framework = merchant.framework;
        let paid = market.payment().await;
        let nonce = paid.terms.nonce.to_string();
        let header = merchant.header(&paid).await;
        let authority = merchant.authority();
        let request = format!(
            "GET /thing HTTP/1.1\r\nhost: {authority}\r\npayment-signature: {header}\r\n\r\n"
        );
        market.chain.set_automine(false).await.expect("set");
        let mined = market.mined_count().await;
        let mut connection = TcpStream::connect(authority).await.expect("connected");
        connection.write_all(request.as_bytes()).await.expect("sent");
        market.wait_for_broadcast(mined).await;
        drop(connection);
        let mut deliveries = usize::from(merchant.pay(&header).await.delivered);
        market.chain.mine(1).await.expect("mined");
        market.chain.set_automine(true).await.expect("set");
        // If the merchant did not receive the first answer, a copy receives it.
        let success = async {
            while !market.recorder.settlements(&nonce).iter().any(|one| one["success"] == true) {
                deliveries += usize::from(merchant.pay(&header).await.delivered);
                sleep(POLL_INTERVAL).await;
            }
        };
        wait_within_deadline("success", success).await;
        for _copy in 0..8 {
            deliveries += usize::from(merchant.pay(&header).await.delivered);
        }
        let settlements = market.recorder.settlements(&nonce);
        let successes = settlements.iter().filter(|one| one["success"] == true).count();
        assert_eq!(successes, 1, "{framework:?}: {settlements:?}");
        assert!(deliveries <= 1, "{framework:?} delivered {deliveries} times");
        assert_eq!(market.charges().await, n as u64 + 1, "{framework:?}");
    }
    market.recorder.assert_truthful();
    market.close().await;
}
