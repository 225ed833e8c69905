//! Payment channels in the tests of the facilitator.

use bursar_tests::payer::Payer;
use serde_json::Value;

use crate::facilitator::stage::Stage;

pub(crate) use bursar_tests::channel::{
    Channel, EIP3009_COLLECTOR, ESCROW, PERMIT2_COLLECTOR, PRICE,
};

/// A channel's first deposit, in smallest units.
pub(crate) const DEPOSIT: u128 = 1_000_000;

pub(crate) fn reason(answer: &Value) -> &str {
    let code = [&answer["errorReason"], &answer["invalidReason"]];
    code.into_iter().find_map(Value::as_str).unwrap_or_default()
}

/// Returns the full error code of the scheme for this name.
pub(crate) fn full_code(name: &str) -> String {
    format!("invalid_batch_settlement_evm_{name}")
}

impl Stage {
    pub(crate) async fn channel(&self) -> Channel {
        Channel::new(self.network(), self.payer().await, Payer::random().address())
    }

    /// Opens a channel with a deposit.
    pub(crate) async fn open_channel(&self) -> Channel {
        let channel = self.channel().await;
        let answer = self.settle(&channel.deposit(DEPOSIT, PRICE)).await;
        assert_eq!(answer["success"], true, "{answer}");
        channel
    }

    pub(crate) async fn settle_and_assert(&self, body: &Value) -> Value {
        let answer = self.settle(body).await;
        assert_eq!(answer["success"], true, "{answer}");
        answer
    }
}
