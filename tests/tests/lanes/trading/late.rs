//! T-53: a stop between the approval of a trade and the signature of its swap.

use alloy_primitives::{Address, U256};
use bursar_tests::operator::Expect;
use serde_json::json;

use crate::trading::operations::Operation;
use crate::trading::stage::{DOLLAR, MANUAL, Stage};

/// Events that stop a plan; each can be undone later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopEvent {
    Freeze,
    Lock,
    Suspend,
    /// A crash, and a restart just after the plan's time has ended.
    CrashAndLate,
}

impl StopEvent {
    async fn begin(self, stage: &mut Stage) {
        match self {
            Self::Freeze => {
                stage.operator.must("freeze").await;
            }
            Self::Lock => {
                stage.operator.must("wallet lock").await;
            }
            Self::Suspend => {
                stage.operator.must("agent suspend bot").await;
            }
            Self::CrashAndLate => stage.engine.kill(),
        }
    }

    async fn end(self, stage: &mut Stage) {
        match self {
            Self::Freeze => {
                stage.operator.must("thaw").await;
            }
            Self::Lock => {
                stage.operator.must("wallet open").await;
            }
            Self::Suspend => {
                stage.operator.must("agent resume bot").await;
            }
            Self::CrashAndLate => {
                let skewed = stage.engine.now_s() - jiff::Timestamp::now().as_second();
                stage.engine.set_clock_offset(1_000 * skewed + 301_000);
                stage.restart(None).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_53_no_swap_is_signed_after_a_stop_or_after_five_minutes() {
    let Some(mut stage) = Stage::set_up(MANUAL).await else { return };
    let (sold, weth, coin) = (stage.dollar(), stage.contracts.weth, Address::ZERO);
    let sale = |bought, v4| Operation { sold, bought, units: 30 * DOLLAR, amount: "30", v4 };
    // The crash is last, because it advances the clock, which does not go back.
    for stop in [StopEvent::Freeze, StopEvent::Lock, StopEvent::Suspend, StopEvent::CrashAndLate] {
        for sale in [sale(weth, false), sale(coin, true)] {
            let case = format!("{stop:?} {sale:?}");
            let before = stage.balance(sold).await;
            let first = stage.head().await + 1;
            let (status, answer) = stage.trade(&sale.request(&stage)).await;
            assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{case}: {answer}");
            stage.hold_blocks().await;
            stage.approve_held().await;
            // The token's approval is signed but not in a block, so the swap is not signed.
            stage.await_pending(sold, false).await;
            stop.begin(&mut stage).await;
            stage.resume_blocks().await;
            stage.chain.mine(20).await.expect("mined");
            stop.end(&mut stage).await;
            let end = stage.end_of(&answer["request_id"]).await;
            assert_eq!(end["status"], "rejected", "{case}: {end}");
            let spender = if sale.v4 { stage.contracts.permit2 } else { stage.contracts.v3.router };
            stage.await_trade_closed(&answer["request_id"]).await;
            assert_eq!(stage.allowance(sold, spender).await, U256::ZERO, "{case}");
            assert_eq!(stage.volume_left().await, 1_000.0, "{case}");
            assert_eq!(stage.balance(sold).await, before, "{case}");
            // The owner has sent the approval and its revocation.
            let sent = stage.mined_since(first).await;
            let approved: Vec<U256> = sent.iter().filter_map(|one| one.approved_amount()).collect();
            assert_eq!(approved, [U256::from(sale.units), U256::ZERO], "{case}: {sent:?}");
            assert_eq!(sent.len(), 2, "{case}: {sent:?}");
        }
    }
}
