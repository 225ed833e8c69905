//! Plays one seed: carries out the drawn actions, and compares the facilitator's answers
//! and the chain with the model.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_tests::dice::Dice;
use bursar_tests::facilitator::idempotency_key;
use bursar_tests::payer::PERMIT2;
use serde_json::{Value, json};

use crate::facilitator::channel_actions::Action;
use crate::facilitator::channel_actors::Actors;
use crate::facilitator::channel_answers::{ActionResult, Answers};
use crate::facilitator::channel_audit::SpoilableCalls;
use crate::facilitator::channel_draws;
use crate::facilitator::channel_model::{
    ChainView, ChannelState, Layout, Mined, Model, Sender, VoucherKey,
};
use crate::facilitator::channel_moves::ActionScript;
use crate::facilitator::channel_requests::{Expected, Job, NamedTransaction, Request, Success};
use crate::facilitator::channel_world::{POLL_INTERVAL, World};

/// Number of tries to verify a voucher whose verdict is older than the newest block; they last at least a second.
const STALE_TRIES: usize = 200;
/// Blocks in which the facilitator searches for a deposit that it did not send. It searches slightly
/// more; new blocks may follow.
const SEARCHED_BLOCKS: u64 = 500;

/// A possible outcome: the expected result of each action, and the books afterwards.
type Outcome = (Vec<Expected>, Model);

/// A seed in progress.
pub(crate) struct Play<'a> {
    world: &'a World,
    races: &'a SpoilableCalls,
    seed: u64,
    actors: Arc<Actors>,
    model: Model,
    answers: Answers,
    /// Earlier states of the books, since the last fresh verdict on a voucher, if an actor has
    /// sent a transaction since then.
    earlier: Vec<Model>,
    steps: Vec<String>,
}

/// Plays a seed.
///
/// # Errors
/// Describes a difference from the model, and lists the steps up to it.
pub(crate) async fn play(world: &World, races: &SpoilableCalls, seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let layout = Arc::new(channel_draws::layout(&mut dice));
    let network = world.stage.network();
    let actors = Arc::new(Actors::new(&mut dice, &layout, network));
    let mut script = ActionScript::new(dice, Arc::clone(&layout));
    let mut play = Play {
        world,
        races,
        seed,
        actors: Arc::clone(&actors),
        model: Model::new(Arc::clone(&layout)),
        answers: Answers::new(actors, network),
        earlier: Vec::new(),
        steps: vec![format!("{layout:?}")],
    };
    play.set_up(&layout).await;
    world.add_seed(seed, &play.actors, layout.receivers);
    for _step in 0..script.draw_length() {
        let action = script.draw_next(&mut play.model);
        if let Err(fault) = play.step(&action).await {
            return Err(format!("{}\n{fault}", play.steps.join("\n")));
        }
    }
    world.remove_seed(seed, &play.model.view);
    Ok(())
}

impl Play<'_> {
    /// Funds the payers with tokens, and all accounts with coin for gas.
    async fn set_up(&self, layout: &Layout) {
        let chain = &self.world.stage.chain;
        for (payer, (funds, approves)) in
            self.actors.payers.iter().zip(layout.funds.iter().zip(&layout.approvals))
        {
            chain.mint(payer.address(), *funds).await.expect("minted");
            if *approves {
                let coin = self.world.stage.coin();
                chain.approve_as(payer.address(), coin, PERMIT2).await.expect("approved");
            }
        }
        let coin = U256::from(10).pow(U256::from(24));
        let senders = (0..self.actors.payers.len()).map(Sender::Payer);
        let senders = senders.chain((0..layout.receivers).map(Sender::Receiver));
        let senders = senders.chain((0..layout.authorizers).map(Sender::Authorizer));
        let senders = senders.chain((0..layout.channels.len()).map(Sender::VoucherKey));
        for sender in senders.chain([Sender::Stranger]) {
            let account = self.actors.address(sender);
            self.world.request("anvil_setBalance", json!([account, coin])).await;
        }
    }

    async fn step(&mut self, action: &Action) -> Result<(), String> {
        self.steps.push(format!("{action:?}"));
        action.note_vouchers(&mut self.model);
        let before = self.model.clone();
        let (observed, outcomes) = match action {
            Action::Simultaneous { one, other, lag } => {
                self.races.allow(&self.actors, &self.model, one);
                self.races.allow(&self.actors, &self.model, other);
                let (first, second) = tokio::join!(self.act(one), self.act_later(other, *lag));
                let outcomes = serial_and_late(&before, (one, &first), (other, &second));
                (vec![first, second], outcomes)
            }
            Action::Voucher { .. } => {
                (vec![self.act_until_fresh(action).await?], self.single_outcomes(action, None))
            }
            _single => {
                let observed = self.act(action).await;
                let outcomes = self.single_outcomes(action, observed.mined());
                (vec![observed], outcomes)
            }
        };
        for one in &observed {
            self.steps.push(format!("  -> {one:?}"));
        }
        let is_race = observed.len() > 1;
        let seen = if is_race { states_seen(&before, action) } else { Vec::new() };
        let stranger = self.actors.address(Sender::Stranger);
        let receivers = self.model.layout.receivers;
        let view = self.world.observe(&self.actors, receivers, stranger).await?;
        let mut faults = Vec::new();
        for (expected, after) in outcomes {
            match self.compare(&seen, (&expected, &after), &observed, &view).await {
                Ok(()) => {
                    for (part, expected) in action.parts().into_iter().zip(&expected) {
                        let pair = if is_race { "pair: " } else { "" };
                        self.world.count(format!("{pair}{} {}", part.name(), expected.name()));
                    }
                    self.adopt_outcome(action, after, &expected, &observed, &before);
                    return self.check_invariants();
                }
                Err(fault) => faults.push(format!("expected {expected:?}\n    {fault}")),
            }
        }
        Err(format!("no outcome of the model fits:\n  {}", faults.join("\n  ")))
    }

    fn single_outcomes(&self, action: &Action, mined: Option<Mined>) -> Vec<Outcome> {
        let each = action.outcomes(&self.model, mined).into_iter();
        each.map(|(expected, after)| (vec![expected], after)).collect()
    }

    /// Acts after this many calls to the node.
    async fn act_later(&self, action: &Action, lag: u64) -> ActionResult {
        for _question in 0..lag {
            self.world.request("eth_blockNumber", json!([])).await;
        }
        self.act(action).await
    }

    async fn act(&self, action: &Action) -> ActionResult {
        let (world, actors, model) = (self.world, &self.actors, &self.model);
        let post = async |path: &str, body: Value, is_keyed: bool| {
            let key = idempotency_key(&body);
            let (status, answer) = world.post(path, &body, is_keyed.then_some(&*key)).await;
            ActionResult::Answer(status, answer)
        };
        match action {
            Action::Settle { request, is_keyed, by_kind } => {
                let path = match request {
                    _any if !by_kind => "/settle",
                    Request::Deposit { .. } => "/batch/deposit",
                    Request::Claim(_) => "/batch/claim",
                    Request::Sweep(_) => "/batch/settle",
                    Request::Refund(_) => "/batch/refund",
                };
                post(path, actors.body(model, request), *is_keyed).await
            }
            Action::Verify { request, is_keyed } => {
                post("/verify", actors.body(model, request), *is_keyed).await
            }
            Action::Voucher { row, is_refund } => {
                post("/verify", actors.voucher_body(row, *is_refund), false).await
            }
            Action::Report(channel) => {
                let network = world.stage.network().caip2();
                let id = actors.channels[*channel].id;
                let path = format!("/batch/channel/{id}?network={network}");
                let (status, answer) = world.stage.facilitator.get(&path).await;
                ActionResult::Answer(status, answer)
            }
            Action::Send { transaction, by } => {
                let data = actors.call(model, transaction);
                ActionResult::Mined(world.send(actors.address(*by), data).await)
            }
            Action::PassTime { seconds } => {
                world.request("evm_increaseTime", json!([seconds])).await;
                ActionResult::Mined(Mined {
                    ok: true,
                    hash: Default::default(),
                    block: 0,
                    time_s: 0,
                })
            }
            Action::Simultaneous { .. } => unreachable!("pairs are not nested"),
        }
    }

    /// Verifies a voucher until the verdict reflects the newest block. After an actor's own transaction on the
    /// channel, the facilitator may use an older state for a tenth of a second.
    async fn act_until_fresh(&mut self, action: &Action) -> Result<ActionResult, String> {
        let Action::Voucher { row, .. } = action else { unreachable!("a voucher") };
        let is_read_again = self.model.terms(row.channel).voucher_key == VoucherKey::Payer;
        for _try in 0..STALE_TRIES {
            let observed = self.act(action).await;
            let is_of = |model: &Model| {
                let (expected, _after) = action.outcomes(model, None).remove(0);
                self.answers.check(&expected, &observed, &[]).is_ok()
            };
            if is_of(&self.model) || is_read_again || !self.earlier.iter().any(is_of) {
                return Ok(observed);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(format!("verdicts still show an old state of channel {}", row.channel))
    }

    /// Compares the observed results with an outcome. Answers to simultaneous requests may
    /// also show a state of `seen`.
    async fn compare(
        &self,
        seen: &[Model],
        (expected, after): (&[Expected], &Model),
        observed: &[ActionResult],
        view: &ChainView,
    ) -> Result<(), String> {
        if *view != after.view {
            return Err(format!("the chain has {view:?}\n    and the model {:?}", after.view));
        }
        let after = [after];
        let states: Vec<&Model> =
            if seen.is_empty() { Vec::new() } else { seen.iter().chain(after).collect() };
        let states = &*states;
        for (expected, observed) in expected.iter().zip(observed) {
            self.answers.check(expected, observed, states)?;
        }
        if let (
            [Expected::Success(Success { proof: NamedTransaction::Own, .. })],
            [ActionResult::Answer(_, body)],
        ) = (expected, observed)
        {
            let sent = self.world.request("eth_getTransactionByHash", json!([body["transaction"]]));
            let from = sent.await["from"].clone();
            let signers = &self.world.stage.home.signers;
            if !signers.iter().any(|signer| json!(signer) == from) {
                return Err(format!("{from} sent the transaction and is not a signer"));
            }
        }
        Ok(())
    }

    /// Adopts the outcome that matches the observed results.
    fn adopt_outcome(
        &mut self,
        action: &Action,
        after: Model,
        expected: &[Expected],
        observed: &[ActionResult],
        before: &Model,
    ) {
        let parts = action.parts();
        let sends = parts.iter().any(|part| matches!(part, Action::Send { .. }));
        match action {
            Action::Voucher { row, .. } if !row.is_forged => self.earlier.clear(),
            _any if sends || !self.earlier.is_empty() => self.earlier.push(before.clone()),
            _other => {}
        }
        self.model = after;
        for ((expected, observed), part) in expected.iter().zip(observed).zip(&parts) {
            let (Expected::Success(success), ActionResult::Answer(_status, body)) =
                (expected, observed)
            else {
                continue;
            };
            self.answers.store_success(&success.job, body);
            if let (Action::Settle { request: Request::Claim(batch), .. }, 2) = (part, parts.len())
                && body["transaction"] == ""
            {
                let authorizer = self.model.terms(batch.rows[0].channel).authorizer;
                self.model.penalized.insert(authorizer);
            }
        }
        if parts.len() == 2 {
            self.mark_uncertain_sweeps(&parts, before);
        }
        self.forget_old_deposits(observed);
    }

    /// A payout that was checked before a simultaneous claim is recorded under the total before that claim.
    fn mark_uncertain_sweeps(&mut self, parts: &[&Action], before: &Model) {
        for part in parts {
            let Action::Settle { request: Request::Sweep(receiver), .. } = part else { continue };
            let totals = [before, &self.model].map(|model| model.view.receivers[*receiver].claimed);
            let is_new = |total: &u128| !before.book.contains_key(&Job::Sweep(*receiver, *total));
            if totals[0] != totals[1] {
                let doubted = totals.into_iter().filter(is_new).map(|total| (*receiver, total));
                self.model.uncertain_sweeps.extend(doubted);
            }
        }
    }

    /// The facilitator searches only recent blocks for deposits that it did not send.
    fn forget_old_deposits(&mut self, observed: &[ActionResult]) {
        let newest = observed.iter().filter_map(ActionResult::mined).map(|mined| mined.block).max();
        let newest = newest.unwrap_or_default();
        for spent in self.model.used_authorizations.values_mut() {
            spent.mined = spent.mined.filter(|mined| mined.block + SEARCHED_BLOCKS > newest);
        }
    }

    fn check_invariants(&self) -> Result<(), String> {
        let view = &self.model.view;
        let given: U256 = self.model.layout.funds.iter().map(|funds| U256::from(*funds)).sum();
        if view.sum_of_all_units() != given {
            return Err(format!(
                "{given} units were given, and there are {}",
                view.sum_of_all_units()
            ));
        }
        for (state, signed) in view.channels.iter().zip(&self.model.highest_vouchers) {
            if state.claimed > *signed || state.claimed > state.balance {
                return Err(format!("{state:?} is above the highest voucher, {signed}"));
            }
        }
        let pending_above = |state: &ChannelState| state.initiated_s == 0 && state.pending > 0;
        if view.channels.iter().any(pending_above) {
            return Err(format!("seed {}: a withdrawal without a beginning", self.seed));
        }
        Ok(())
    }
}

/// Returns the states that answers to simultaneous requests may show: the books before both,
/// and after one of them alone.
fn states_seen(before: &Model, action: &Action) -> Vec<Model> {
    let mut states = vec![before.clone()];
    for part in action.parts() {
        if let Action::Settle { .. } = part {
            states.extend(part.outcomes(before, None).into_iter().map(|(_expected, after)| after));
        }
    }
    states
}

/// Returns the outcomes of two simultaneous actions: one after the other, in both orders. Also returns the outcomes in
/// which a request is checked before the other action and carried out after it.
fn serial_and_late(
    before: &Model,
    (one, first): (&Action, &ActionResult),
    (other, second): (&Action, &ActionResult),
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let (first, second) = (first.mined(), second.mined());
    for (expected_one, middle) in one.outcomes(before, first) {
        let late = other.late_outcomes(&middle, before, one);
        for (expected_other, after) in other.outcomes(&middle, second).into_iter().chain(late) {
            outcomes.push((vec![expected_one.clone(), expected_other], after));
        }
    }
    for (expected_other, middle) in other.outcomes(before, second) {
        let late = one.late_outcomes(&middle, before, other);
        for (expected_one, after) in one.outcomes(&middle, first).into_iter().chain(late) {
            outcomes.push((vec![expected_one, expected_other.clone()], after));
        }
    }
    outcomes
}
