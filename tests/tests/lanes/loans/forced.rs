//! Withdrawals with forced deallocations, for money of a vault that a plain withdrawal cannot reach.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolEvent, sol};
use bursar_control::answers::{ActivityRow, Answer, PositionAnswer, SendAnswer};
use bursar_control::wire::{Asking, Prompt};
use bursar_core::codes::Code;
use bursar_core::status::{EntryKind, SendStatus};
use bursar_devnet::full::LoanMarket;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::loans::stage::{AUTOMATIC, DOLLAR, Stage};

sol! {
    interface IVault {
        event Withdraw(
            address indexed sender, address indexed receiver, address indexed owner,
            uint256 assets, uint256 shares
        );
        event ForceDeallocate(
            address indexed sender, address adapter, uint256 assets, address indexed onBehalf,
            bytes32[] ids, uint256 penaltyAssets
        );

        function adapters(uint256 index) external view returns (address);
    }
}

/// A ready vault, its first adapter, and the market that it lends to.
struct Vault {
    address: Address,
    venue: String,
    adapter: Address,
    market: LoanMarket,
}

impl Vault {
    async fn prepare(stage: &Stage) -> Self {
        let address = stage.contracts.lending.vaults_v2[0];
        let adapter = stage.read(address, IVault::adaptersCall { index: U256::ZERO }).await;
        let market = stage.chain.loan_market().expect("a market");
        Self { address, venue: address.to_checksum(None), adapter, market }
    }

    /// Gives the vault a new liquidity adapter whose market is empty; the lent money stays in the old market.
    async fn empty_liquidity(&self, stage: &Stage) {
        let irm = stage.contracts.lending.irm;
        let empty = stage.chain.create_market(irm).await.expect("a market");
        stage.chain.add_market_adapter(self.address, &empty).await.expect("added");
    }

    /// Sets the penalty for an exit from an adapter, in hundredths of a percent.
    async fn set_penalty(&self, stage: &Stage, adapter: Address, bps: u64) {
        stage.chain.set_exit_penalty(self.address, adapter, bps).await.expect("set");
    }

    fn forced_withdrawal_line(&self, amount: &str) -> String {
        format!("{} --force-deallocate", self.plain_withdrawal_line(amount))
    }

    fn plain_withdrawal_line(&self, amount: &str) -> String {
        format!("position withdraw {} {amount} --network base", self.venue)
    }
}

/// The confirmation prompt for the operator, and the result of the withdrawal.
struct Withdrawal {
    lines: Vec<String>,
    send: SendAnswer,
    /// Adapter, amount and penalty of each forced deallocation, from the contract's own events.
    deallocations: Vec<(Address, U256, U256)>,
    /// The owner's withdrawn shares, including those for penalties.
    shares: U256,
}

impl Withdrawal {
    /// Returns the values of the lines with this name.
    fn values_of_lines(&self, name: &str) -> Vec<&str> {
        let lines = self.lines.iter().filter_map(|line| line.strip_prefix(name));
        lines.map(str::trim_start).collect()
    }

    fn penalty(&self) -> U256 {
        self.deallocations.iter().map(|(_adapter, _assets, penalty)| *penalty).sum()
    }
}

/// Makes a withdrawal that asks for a confirmation.
async fn withdraw(stage: &mut Stage, line: &str) -> Withdrawal {
    let outcome = stage.operator.outcome(line).await;
    let Ok(Answer::Send(send)) = outcome.reply.result else { panic!("{:?}", outcome.reply.result) };
    assert!(matches!(send.status, SendStatus::Done | SendStatus::Included), "{send:?}");
    let [Prompt::Confirm { lines, .. }] = &outcome.prompts[..] else {
        panic!("{:?}", outcome.prompts)
    };
    let (forced, shares) = events(stage, send.tx_hash.as_ref().expect("a hash")).await;
    Withdrawal { lines: lines.clone(), send, deallocations: forced, shares }
}

async fn events(stage: &Stage, hash: &str) -> (Vec<(Address, U256, U256)>, U256) {
    let receipt = stage.chain.request("eth_getTransactionReceipt", json!([hash])).await;
    let receipt: Value = receipt.expect("a receipt");
    let (mut forced, mut shares) = (Vec::new(), U256::ZERO);
    for log in receipt["logs"].as_array().expect("logs") {
        let topics = log["topics"].as_array().expect("topics").iter();
        let topics = topics.map(|one| one.as_str().expect("text").parse::<B256>().expect("a word"));
        let topics: Vec<B256> = topics.collect();
        let data: Bytes = log["data"].as_str().expect("text").parse().expect("bytes");
        if let Ok(one) = IVault::ForceDeallocate::decode_raw_log(topics.iter().copied(), &data) {
            assert_eq!((one.sender, one.onBehalf), (stage.owner, stage.owner));
            forced.push((one.adapter, one.assets, one.penaltyAssets));
        }
        if let Ok(one) = IVault::Withdraw::decode_raw_log(topics, &data) {
            shares += if one.owner == stage.owner { one.shares } else { U256::ZERO };
        }
    }
    (forced, shares)
}

async fn position(stage: &mut Stage, vault: &Vault) -> PositionAnswer {
    let answer = stage.operator.must("positions").await;
    let Answer::Positions(shown) = answer else { panic!("{answer:?}") };
    let own = shown.positions.into_iter().find(|one| one.venue == vault.venue);
    own.expect("a position")
}

/// Writes the position off; returns the amounts that the journal expected before and after that.
async fn write_off(stage: &mut Stage, vault: &Vault) -> (String, String) {
    let line = format!("position write-off {} --network base --yes", vault.venue);
    let answer = stage.operator.must(&line).await;
    let Answer::WrittenOff(booked) = answer else { panic!("{answer:?}") };
    (booked.before, booked.after)
}

/// A forced withdrawal of a part succeeds where a plain one fails, and every figure equals the contract's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_withdrawal_pays_what_a_plain_one_cannot() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let vault = Vault::prepare(&stage).await;
    let (status, answer) = stage.supply(&vault.venue, 1_000).await;
    assert_eq!(status, 200, "{answer}");
    vault.empty_liquidity(&stage).await;
    vault.set_penalty(&stage, vault.adapter, 100).await;
    let refused = stage.operator.run_refused(&vault.plain_withdrawal_line("400")).await;
    assert_eq!(refused.code, Code::InsufficientLiquidity, "{refused}");

    let (coins, shares) = (stage.dollars().await, stage.shares(vault.address).await);
    let done = withdraw(&mut stage, &vault.forced_withdrawal_line("400")).await;
    assert_eq!(done.values_of_lines("withdraws"), ["400.000000 USDC on Base"]);
    let price = "4.000000 USDC, 1.00 % of what arrives; it stays in the vault";
    assert_eq!(done.values_of_lines("penalty"), [price]);
    let part = format!(
        "400.000000 USDC out of the market {:#x} by the adapter {}, for 4.000000 USDC (1.00 %)",
        vault.market.id(),
        vault.adapter.to_checksum(None)
    );
    assert_eq!(done.values_of_lines("forces"), [part]);
    assert_eq!(done.values_of_lines("step").len(), 2, "{:?}", done.lines);
    assert_eq!(done.send.summary, "withdrawal of 400.000000 USDC");
    let (assets, penalty) = (U256::from(400 * DOLLAR), U256::from(4 * DOLLAR));
    assert_eq!(done.deallocations, [(vault.adapter, assets, penalty)]);
    assert_eq!(stage.dollars().await - coins, assets);
    assert_eq!(shares - stage.shares(vault.address).await, done.shares);
    assert_eq!(stage.allowance(vault.address).await, U256::ZERO);

    // The journal counts the amount that came back, without the penalty.
    stage.await_booked(1).await;
    let answer = stage.operator.must("activity --raw").await;
    let Answer::Activity(activity) = answer else { panic!("{answer:?}") };
    let booked = |row: &&ActivityRow| row.kind == EntryKind::LoanWithdrawalBooked;
    let booked = activity.entries.iter().find(booked).expect("booked");
    assert_eq!(booked.detail.as_deref(), Some("400000000 units came back"));
    let own = position(&mut stage, &vault).await;
    let worth: u128 = own.worth.atoms.parse().expect("an amount");
    assert!((596 * DOLLAR - 2..597 * DOLLAR).contains(&worth), "{own:?}");
    assert_eq!(own.earned.map(|amount| amount.atoms), Some(format!("-{}", 600 * DOLLAR - worth)));
    assert_eq!(own.withdrawable.as_ref().map(|amount| amount.atoms.as_str()), Some("0"));
    let (before, after) = write_off(&mut stage, &vault).await;
    assert_eq!((before.as_str(), &after[..3]), ("600.00", "596"));
}

/// Withdraws everything while agents are frozen: the position pays the penalty, and only dust remains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_position_is_forced_out_while_agents_are_frozen() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let vault = Vault::prepare(&stage).await;
    let (status, answer) = stage.supply(&vault.venue, 1_020).await;
    assert_eq!(status, 200, "{answer}");
    vault.empty_liquidity(&stage).await;
    vault.set_penalty(&stage, vault.adapter, 200).await;
    // Until the transaction is in a block, the interest exceeds a rounding error.
    stage.chain.set_borrow_rate(&vault.market, 4_000).await.expect("set");
    stage.operator.must("freeze").await;
    let (_status, answer) = stage.withdraw_all(&vault.venue).await;
    assert_eq!(answer["code"], "AGENTS_FROZEN", "{answer}");
    let unpaid = stage.operator.run_refused(&vault.forced_withdrawal_line("1010")).await;
    assert_eq!(unpaid.code, Code::InsufficientFunds, "{unpaid}");
    let most = unpaid.message.split("`all` would bring about ").nth(1).expect("an amount");
    assert!(most.starts_with("999.99") || most.starts_with("1000.0"), "{unpaid}");

    let coins = stage.dollars().await;
    let (shares, worth) = (stage.shares(vault.address).await, stage.worth(vault.address).await);
    let done = withdraw(&mut stage, &vault.forced_withdrawal_line("all")).await;
    let gained = stage.dollars().await - coins;
    let penalty = done.penalty();
    assert!(penalty.abs_diff(U256::from(20 * DOLLAR)) < U256::from(DOLLAR / 100), "{penalty}");
    assert_eq!(done.values_of_lines("penalty").len(), 1);
    let paid = gained + penalty;
    assert!(paid.abs_diff(worth) < U256::from(DOLLAR / 100), "{paid} of {worth}");
    let left = stage.shares(vault.address).await;
    assert_eq!(shares - left, done.shares);
    // The dust is worth less than a ten-thousandth of a dollar.
    assert!(stage.worth(vault.address).await < U256::from(DOLLAR / 10_000));

    stage.await_booked(1).await;
    let (before, after) = write_off(&mut stage, &vault).await;
    let still: f64 = before.parse().expect("a number");
    assert!((19.9..20.1).contains(&still), "the penalty still counts as lent: {before}");
    assert_eq!(after.parse::<f64>().expect("a number").round() as u64, 0);
}

/// The amount that a plain withdrawal can reach costs nothing. The remaining amount comes from the cheapest adapter
/// first, of either kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_missing_is_forced_and_from_the_cheapest_adapter_first() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let vault = Vault::prepare(&stage).await;
    let (status, answer) = stage.supply(&vault.venue, 1_000).await;
    assert_eq!(status, 200, "{answer}");
    let inner = stage.contracts.lending.metamorpho.expect("a vault of MetaMorpho");
    let second = stage.chain.add_vault_adapter(vault.address, inner).await.expect("added");
    // The vault has little free money now, so the supply waits.
    let (status, answer) = stage.supply(&vault.venue, 500).await;
    assert_eq!(status, 202, "{answer}");
    stage.approve_held().await;
    let end = stage.end_of(&answer).await;
    assert_eq!(end["status"], "executed", "{end}");
    vault.empty_liquidity(&stage).await;
    vault.set_penalty(&stage, vault.adapter, 200).await;
    vault.set_penalty(&stage, second, 50).await;
    let data = vault.market.encoded();
    let idle = stage.chain.deallocate(vault.address, vault.adapter, data, 100 * DOLLAR).await;
    idle.expect("idle");
    let needless = stage.operator.run_refused(&vault.forced_withdrawal_line("100")).await;
    assert_eq!(needless.code, Code::BadInput, "{needless}");

    let coins = stage.dollars().await;
    let done = withdraw(&mut stage, &vault.forced_withdrawal_line("800")).await;
    assert_eq!(stage.dollars().await - coins, U256::from(800 * DOLLAR));
    let [(cheap, most, low), (dear, rest, high)] = done.deallocations[..] else {
        panic!("two adapters")
    };
    assert_eq!((cheap, dear), (second, vault.adapter));
    assert!(most.abs_diff(U256::from(500 * DOLLAR)) < U256::from(DOLLAR / 100), "{most}");
    assert_eq!(most + rest, U256::from(700 * DOLLAR));
    assert_eq!(low, most.div_ceil(U256::from(200)));
    assert_eq!(high, rest.div_ceil(U256::from(50)));
    let shown = done.values_of_lines("penalty")[0].split(' ').next().expect("an amount").to_owned();
    let shown: U256 = shown.replace('.', "").parse().expect("an amount");
    // Interest moves the plan between the question and the transaction: more comes from the cheap adapter.
    assert!(shown >= done.penalty(), "{shown} {}", done.penalty());
    assert!(shown - done.penalty() < U256::from(DOLLAR / 10_000), "{shown} {}", done.penalty());
}

/// If money cannot be forced out, the withdrawal is refused with the reason, and nothing is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_forced_is_refused() {
    let Some(mut stage) = Stage::on(BASE, AUTOMATIC).await else { return };
    let vault = Vault::prepare(&stage).await;
    let market = format!("{:#x}", vault.market.id());
    let inner = stage.contracts.lending.metamorpho.expect("a vault").to_checksum(None);
    for venue in [&vault.venue, &inner, &market] {
        let (status, answer) = stage.supply(venue, 1_000).await;
        assert_eq!(status, 200, "{answer}");
    }
    let forced = |venue: &str, amount: &str| {
        format!("position withdraw {venue} {amount} --network base --force-deallocate --yes")
    };
    for (venue, amount) in [(&market, "5"), (&inner, "5"), (&vault.venue, "all")] {
        let refused = stage.operator.run_refused(&forced(venue, amount)).await;
        assert_eq!(refused.code, Code::BadInput, "{venue}: {refused}");
        assert!(refused.message.contains("out --force-deallocate"), "{refused}");
    }
    vault.empty_liquidity(&stage).await;
    vault.set_penalty(&stage, vault.adapter, 200).await;
    let refused = stage.operator.run_refused(&forced(&vault.venue, "1000.5")).await;
    assert_eq!(refused.code, Code::InsufficientFunds, "{refused}");
    stage.chain.drain_market(&vault.market, 50 * DOLLAR).await.expect("drained");
    for amount in ["51", "all"] {
        let refused = stage.operator.run_refused(&forced(&vault.venue, amount)).await;
        assert_eq!(refused.code, Code::InsufficientLiquidity, "{refused}");
        assert!(refused.message.contains("at most 50.000000 USDC"), "{refused}");
    }
    stage.operator.asking = Asking::Silent;
    let refused = stage.operator.run_refused(&vault.forced_withdrawal_line("50")).await;
    assert_eq!(refused.code, Code::ConfirmationNeeded, "{refused}");
    let answer = stage.operator.must("address sends").await;
    assert!(matches!(&answer, Answer::Sends { sends } if sends.is_empty()), "{answer:?}");
    stage.operator.must(&forced(&vault.venue, "50")).await;
}
