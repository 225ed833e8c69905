//! T-49: pools with hooks that take a part of a swap, and hooks that recognise who calls.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_devnet::full::{POOL_FEE, PoolV4, Side};
use bursar_devnet::{HookConduct, HookRights, HookWhen};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::trading::stage::{AUTOMATIC, DOLLAR, ETHER, Stage, atoms};

/// The fee value of a pool whose hook chooses the fee.
const DYNAMIC_FEE: u32 = 0x80_0000;

/// Half of the output, in millionths.
const HALF_PPM: u32 = 500_000;
/// The fee that a dishonest hook sets: 40 %.
const HIGH_FEE: u32 = 400_000;

/// The result of a trade through a hook that the policy lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TradeResult {
    Fills,
    Held(HoldReason),
    /// Refused with this code.
    Refused(&'static str),
}

impl Stage {
    /// Adds a pool of the native coin and the dollar token with a new hook.
    async fn add_hooked_pool(&self, rights: HookRights, conduct: HookConduct, fee: u32) -> PoolV4 {
        let hooks = self.chain.deploy_hook(rights, conduct).await.expect("deployed");
        let sides =
            [Side::new(Address::ZERO, 1_000 * ETHER), Side::new(self.dollar(), 3_000_000 * DOLLAR)];
        let pool = PoolV4 { sides, fee, hooks, ..self.pool_v4() };
        self.add_v4_pool(&pool).await;
        pool
    }

    /// Sells a hundredth of an ether in a pool.
    fn sale_in(&self, pool: &PoolV4) -> Value {
        json!({
            "chain_id": self.id().0, "token_in": "ETH", "token_out": self.dollar(),
            "amount_in": "0.01", "fee_tier": pool.fee, "tick_spacing": pool.tick_spacing,
            "hooks": pool.hooks, "max_slippage_bps": 100,
        })
    }
}

/// Trades through a pool, and checks that no fill is below its floor.
async fn trade_in(stage: &mut Stage, pool: &PoolV4) -> (u16, Value) {
    let dollar = stage.dollar();
    let before = stage.balance(dollar).await;
    let asked = stage.sale_in(pool);
    let (status, answer) = stage.trade(&asked).await;
    let gained = stage.balance(dollar).await - before;
    if answer["status"] == "executed" {
        assert_eq!(gained, atoms(&answer["amount_out"]), "{answer}");
        assert!(gained >= atoms(&answer["quote"]["amount_out_min"]), "{answer}");
    } else {
        assert_eq!(gained, U256::ZERO, "{answer}");
    }
    (status, answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_49_no_hook_fills_below_the_floor_listed_or_not() {
    use HookRights::{ChangesOutput, Watches};
    use HookWhen::{Always, Never, UnlessQuoted, WhenGasCosts};
    use TradeResult::{Fills, Held};
    let absurd = TradeResult::Refused("QUOTE_FAILED");
    let refused = TradeResult::Refused("WOULD_FAIL");
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let takes = |when, share| HookConduct { when, share, ..HookConduct::HONEST };
    let charges = |when| HookConduct { when, other_fee: HIGH_FEE, ..HookConduct::HONEST };
    let above = Held(HoldReason::ImpactAboveCeiling);
    for (name, rights, conduct, fee, listed) in [
        ("honest", Watches, HookConduct::HONEST, POOL_FEE, Fills),
        ("may take and does not", ChangesOutput, takes(Never, HALF_PPM), POOL_FEE, Fills),
        ("takes 1 % of all", ChangesOutput, takes(Always, 10_000), POOL_FEE, Fills),
        ("takes 10 % of all", ChangesOutput, takes(Always, 100_000), POOL_FEE, above),
        ("takes from routers", ChangesOutput, takes(UnlessQuoted, HALF_PPM), POOL_FEE, refused),
        ("takes where gas costs", ChangesOutput, takes(WhenGasCosts, HALF_PPM), POOL_FEE, refused),
        ("takes twice the output", ChangesOutput, takes(Always, 4 * HALF_PPM), POOL_FEE, absurd),
        ("a dynamic fee", Watches, HookConduct::HONEST, DYNAMIC_FEE, Fills),
        ("a high dynamic fee", Watches, charges(Always), DYNAMIC_FEE, above),
        ("a fee for routers", Watches, charges(UnlessQuoted), DYNAMIC_FEE, refused),
    ] {
        let pool = stage.add_hooked_pool(rights, conduct, fee).await;
        let sent = stage.nonce().await;
        // While the hook is not listed, every trade that would work is held.
        let (status, answer) = trade_in(&mut stage, &pool).await;
        if let TradeResult::Refused(code) = listed {
            assert_eq!((status, &answer["reason_code"]), (400, &json!(code)), "{name}");
        } else {
            assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{name}: {answer}");
            let held = stage.only_held().await;
            let hold = held.card.expect("a card").hold;
            let expected = if listed == Fills {
                HoldReason::HookedPool
            } else {
                HoldReason::ImpactAboveCeiling
            };
            assert_eq!(hold, expected, "{name}");
            stage.operator.must(&format!("deny {}", held.id)).await;
        }
        stage.operator.must(&format!("policy edit p --trade-hooks {}", pool.hooks)).await;
        let (status, answer) = trade_in(&mut stage, &pool).await;
        match listed {
            Fills => {
                assert_eq!(
                    (status, &answer["status"]),
                    (200, &json!("executed")),
                    "{name}: {answer}"
                );
            }
            Held(reason) => {
                assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{name}");
                let held = stage.only_held().await;
                assert_eq!(held.card.expect("a card").hold, reason, "{name}");
                stage.operator.must(&format!("deny {}", held.id)).await;
            }
            TradeResult::Refused(code) => {
                assert_eq!((status, &answer["reason_code"]), (400, &json!(code)), "{name}");
            }
        }
        let swaps = u64::from(listed == Fills);
        assert_eq!(stage.nonce().await - sent, swaps, "{name}");
    }
}

/// The rehearsal simulates the next block, in which this hook is still honest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_49_a_hook_that_waits_for_a_later_block_fills_nothing_below_the_floor() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let dollar = stage.dollar();
    let conduct = HookConduct { share: HALF_PPM, ..HookConduct::HONEST };
    let pool = stage.add_hooked_pool(HookRights::ChangesOutput, conduct, POOL_FEE).await;
    stage.operator.must(&format!("policy edit p --trade-hooks {}", pool.hooks)).await;
    let left = stage.volume_left().await;
    let before = stage.balance(dollar).await;
    stage.hold_blocks().await;
    // Two blocks come before: one sets the conduct, and one is the block of the rehearsal.
    let later = stage.head().await + 3;
    let setting = async {
        let conduct = HookConduct { when: HookWhen::FromBlock(later), ..conduct };
        stage.chain.set_hook_conduct(pool.hooks, conduct).await.expect("set");
    };
    let mining = async {
        stage.await_any_pending(pool.hooks).await;
        stage.chain.mine(1).await.expect("mined");
    };
    tokio::join!(setting, mining);
    assert_eq!(stage.head().await + 2, later);
    let asked = stage.sale_in(&pool);
    let body = stage.request_body(None, &asked);
    let client = stage.client();
    let asked = tokio::spawn(async move { client.post("/trade", &body).await });
    let router = stage.chain.network().exchange.expect("an exchange").v4.router;
    stage.await_pending(router, false).await;
    // The next block's base fee is too high for the swap.
    let price = |wei: u128| json!([U256::from(wei)]);
    let set = "anvil_setNextBlockBaseFeePerGas";
    stage.chain.request(set, price(100_000_000_000_000)).await.expect("set");
    stage.chain.mine(1).await.expect("mined");
    stage.chain.request(set, price(1_000_000)).await.expect("set");
    stage.resume_blocks().await;
    let (status, answer) = asked.await.expect("an answer");
    assert_eq!((status, &answer["status"]), (500, &json!("failed")), "{answer}");
    assert_eq!(stage.balance(dollar).await, before);
    assert_eq!(stage.volume_left().await, left);
}

/// The operator saw an honest hook, but only the hook's conduct at the approval counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_49_a_hook_that_turns_after_the_request_is_refused_at_the_approval() {
    let Some(mut stage) = Stage::set_up(AUTOMATIC).await else { return };
    let honest = HookConduct { share: HALF_PPM, ..HookConduct::HONEST };
    let pool = stage.add_hooked_pool(HookRights::ChangesOutput, honest, POOL_FEE).await;
    let (status, answer) = trade_in(&mut stage, &pool).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    let sent = stage.nonce().await;
    let turned = HookConduct { when: HookWhen::UnlessQuoted, ..honest };
    stage.chain.set_hook_conduct(pool.hooks, turned).await.expect("set");
    let approval = stage.approval().await;
    let fault = stage.operator.run_refused(&approval).await;
    assert!(fault.message.contains("would fail"), "{fault}");
    let (_status, end) = stage.poll(&answer["request_id"]).await;
    assert_eq!((&end["status"], &end["code"]), (&json!("rejected"), &json!("REQUOTE_FAILED")));
    assert_eq!(stage.nonce().await, sent);
}
