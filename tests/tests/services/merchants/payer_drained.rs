//! A payer that moves its money away while the merchant waits for the settlement.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_tests::sdk::Framework;
use serde_json::json;

use crate::merchants::market::{Market, PAYER_BALANCE};

sol! {
    function transfer(address to, uint256 value) external returns (bool);
}

/// More blocks than a settlement needs to be final.
const BLOCKS_UNTIL_FINAL: u64 = 30;

/// The payer's transfer pays more for gas, so it precedes the settlement in the block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payer_that_empties_its_balance_before_the_block_receives_nothing() {
    let Some(market) = Market::open(&Framework::ALL, "wait_ms = 1000").await else { return };
    for merchant in &market.merchants {
        let paid = market.payment().await;
        let header = merchant.header(&paid).await;
        let payer = paid.terms.from;
        let gas = U256::from(10).pow(U256::from(20));
        market.chain.request("anvil_setBalance", json!([payer, gas])).await.expect("set");
        market.chain.request("anvil_impersonateAccount", json!([payer])).await.expect("set");
        market.chain.set_automine(false).await.expect("set");
        let mined = market.mined_count().await;
        let empty = async {
            market.wait_for_broadcast(mined).await;
            let call =
                transferCall { to: Address::repeat_byte(0x77), value: U256::from(PAYER_BALANCE) };
            let price = U256::from(10).pow(U256::from(12));
            let transfer = json!({
                "from": payer, "to": paid.terms.token, "gas": "0x30d40", "maxFeePerGas": price,
                "maxPriorityFeePerGas": price, "data": Bytes::from(call.abi_encode()),
            });
            market.chain.request("eth_sendTransaction", json!([transfer])).await.expect("sent");
            market.chain.mine(1).await.expect("mined");
        };
        let (answer, ()) = tokio::join!(merchant.pay(&header), empty);
        market.chain.set_automine(true).await.expect("set");
        // The facilitator reports a failed transaction only when its block is final.
        market.chain.mine(BLOCKS_UNTIL_FINAL).await.expect("mined");
        let answer = market.repeat_until_final(merchant, &header, answer).await;
        assert!(!answer.delivered, "{:?}", merchant.framework);
        assert_eq!(market.charges().await, 0, "{:?}", merchant.framework);
    }
    market.mine_until_quiet().await;
    assert_eq!(market.charges().await, 0);
    market.recorder.assert_truthful();
    market.close().await;
}
