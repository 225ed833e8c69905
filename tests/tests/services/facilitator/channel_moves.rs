//! Draws the next actions of a seed's actors.

use std::sync::Arc;

use bursar_tests::dice::Dice;

use crate::facilitator::channel_actions::Action;
use crate::facilitator::channel_draws::{near_bound, up_to, word};
use crate::facilitator::channel_model::{
    Authorization, Batch, Layout, Method, Model, Refund, Row, Sender, Transaction, VoucherKey,
};
use crate::facilitator::channel_requests::{Forged, Request};

/// Draws the actions of one seed.
#[derive(Debug)]
pub(crate) struct ActionScript {
    dice: Dice,
    layout: Arc<Layout>,
    /// All requests to settle so far, and whether each had an idempotency key.
    sent: Vec<(Request, bool)>,
    /// If set, only this channel is drawn.
    channel: Option<usize>,
    /// Steps that must follow, so that an action on a channel falls between two verdicts on its vouchers.
    planned: Vec<(usize, PlannedStep)>,
}

/// A step that was planned earlier.
#[derive(Debug, Clone, Copy)]
enum PlannedStep {
    Settlement,
    Voucher,
}

impl ActionScript {
    pub(crate) fn new(dice: Dice, layout: Arc<Layout>) -> Self {
        Self { dice, layout, sent: Vec::new(), channel: None, planned: Vec::new() }
    }

    /// Draws the number of steps.
    pub(crate) fn draw_length(&mut self) -> usize {
        8 + self.dice.index(20)
    }

    /// Draws the next action. A new authorization of a deposit is added to the model.
    pub(crate) fn draw_next(&mut self, model: &mut Model) -> Action {
        if let Some((channel, planned)) = self.planned.pop() {
            self.channel = Some(channel);
            let action = match planned {
                PlannedStep::Settlement => self.settlement(model),
                PlannedStep::Voucher => self.voucher(model),
            };
            self.channel = None;
            return action;
        }
        if self.dice.chance(1, 4) {
            return self.draw_simultaneous(model);
        }
        let action = self.draw_single(model);
        if let Action::Voucher { row, .. } = &action
            && self.dice.chance(1, 2)
        {
            self.planned =
                vec![(row.channel, PlannedStep::Voucher), (row.channel, PlannedStep::Settlement)];
        }
        action
    }

    /// Draws two simultaneous actions: copies, rivals for the same money, or any two.
    fn draw_simultaneous(&mut self, model: &mut Model) -> Action {
        let one = self.settlement(model);
        let other = match (self.dice.roll(8), &one) {
            (0, _any) => one.clone(),
            (1..=2, _any) => self.settlement(model),
            (3..=5, Action::Settle { request, .. }) => {
                let request = request.clone();
                self.draw_rival(model, &request)
            }
            _own => self.own_transaction(model),
        };
        let lag = self.dice.roll(40);
        let (one, other) = (Box::new(without_key(one)), Box::new(without_key(other)));
        Action::Simultaneous { one, other, lag }
    }

    /// Draws an actor's own transaction that competes with a request.
    fn draw_rival(&mut self, model: &mut Model, request: &Request) -> Action {
        let channel = match request {
            Request::Deposit { number, .. } => model.authorizations[*number].channel,
            Request::Claim(batch) => batch.rows[0].channel,
            Request::Refund(refund) => refund.channel,
            Request::Sweep(receiver) => {
                let transaction = Transaction::Sweep(*receiver);
                return Action::Send { transaction, by: Sender::Stranger };
            }
        };
        let terms = model.terms(channel).clone();
        let available = model.view.channels[channel].available();
        let receiver = Sender::Receiver(terms.receiver);
        let (transaction, by) = match self.dice.roll(6) {
            0..=1 => (transaction_of_request(request.clone()), Sender::Stranger),
            2..=3 => {
                let amount = near_bound(&mut self.dice, available).max(1);
                (Transaction::Refund { channel, amount }, receiver)
            }
            4 => (Transaction::Finalize { channel }, Sender::Payer(terms.payer)),
            _claim => (Transaction::Claim(vec![self.row(model, channel)]), receiver),
        };
        Action::Send { transaction, by }
    }

    fn draw_single(&mut self, model: &mut Model) -> Action {
        if self.channel_with_withdrawal(model).is_some() && self.dice.chance(1, 5) {
            return Action::PassTime { seconds: self.draw_passing_time(model) };
        }
        let is_empty = model.view.channels.iter().all(|channel| channel.balance == 0);
        match self.dice.roll(if is_empty { 6 } else { 24 }) {
            0..=10 => self.settlement(model),
            11..=12 => {
                Action::Verify { request: self.deposit(model), is_keyed: self.dice.chance(1, 2) }
            }
            13..=15 => self.voucher(model),
            16 => Action::Report(self.channel()),
            17..=18 => Action::PassTime { seconds: self.draw_passing_time(model) },
            _own => self.own_transaction(model),
        }
    }

    fn channel(&mut self) -> usize {
        self.channel.unwrap_or_else(|| self.dice.index(self.layout.channels.len()))
    }

    /// Returns a channel with a pending withdrawal, if there is one.
    fn channel_with_withdrawal(&self, model: &Model) -> Option<usize> {
        model.view.channels.iter().position(|state| state.initiated_s > 0)
    }

    fn draw_passing_time(&mut self, model: &Model) -> u64 {
        let channel = self.channel();
        let delay = model.terms(self.channel_with_withdrawal(model).unwrap_or(channel)).delay_s;
        self.dice.one_of(&[1, 60, delay - 1, delay, delay + 1])
    }

    fn voucher(&mut self, model: &Model) -> Action {
        let channel = self.channel();
        let state = model.view.channels[channel];
        let ceiling = match self.dice.roll(4) {
            0 => near_bound(&mut self.dice, state.claimed),
            1 => near_bound(&mut self.dice, state.balance),
            _valid => state
                .claimed
                .saturating_add(1)
                .saturating_add(up_to(&mut self.dice, state.available()))
                .min(state.balance),
        };
        let row = Row { channel, ceiling, total: 0, is_forged: self.dice.chance(1, 12) };
        Action::Voucher { row, is_refund: self.dice.chance(1, 4) }
    }

    fn settlement(&mut self, model: &mut Model) -> Action {
        let is_empty = model.view.channels.iter().all(|channel| channel.balance == 0);
        let kind = if is_empty { self.dice.roll(4) } else { self.dice.roll(14) };
        let request = match kind {
            0..=2 => self.deposit(model),
            4..=7 => Request::Claim(self.batch(model)),
            8..=9 => Request::Sweep(self.dice.index(self.layout.receivers)),
            3 | 10..=11 => Request::Refund(self.refund(model)),
            _repeat => {
                let Some(index) = self.some_index() else { return self.settlement(model) };
                let (request, was_keyed) = self.sent[index].clone();
                let is_keyed = was_keyed ^ self.dice.chance(1, 4);
                return Action::Settle { request, is_keyed, by_kind: self.dice.chance(1, 3) };
            }
        };
        let is_keyed = self.dice.chance(1, 3);
        self.sent.push((request.clone(), is_keyed));
        Action::Settle { request, is_keyed, by_kind: self.dice.chance(1, 3) }
    }

    fn some_index(&mut self) -> Option<usize> {
        (!self.sent.is_empty()).then(|| self.dice.index(self.sent.len()))
    }

    /// Draws a deposit. Some reuse an earlier authorization, with another voucher.
    fn deposit(&mut self, model: &mut Model) -> Request {
        let count = model.authorizations.len();
        let number = if count > 0 && self.dice.chance(1, 4) {
            self.dice.index(count)
        } else {
            self.authorization(model)
        };
        let authorization = model.authorizations[number];
        let state = model.view.channels[authorization.channel];
        let after = state.balance.saturating_add(authorization.amount);
        let ceiling = match self.dice.roll(8) {
            0 => near_bound(&mut self.dice, state.claimed),
            1 => near_bound(&mut self.dice, after),
            _valid => state
                .claimed
                .saturating_add(1)
                .saturating_add(up_to(&mut self.dice, after - state.claimed) / 4)
                .min(after),
        };
        let forged = match self.dice.roll(20) {
            0 => Some(Forged::Voucher),
            1 => Some(Forged::Authorization),
            _valid => None,
        };
        Request::Deposit { number, ceiling, forged }
    }

    fn authorization(&mut self, model: &mut Model) -> usize {
        let channel = self.channel();
        let held = model.view.payer_tokens[model.terms(channel).payer];
        let dice = &mut self.dice;
        let amount = match dice.roll(16) {
            0 => 0,
            1 => u128::MAX - up_to(dice, 9),
            2..=3 => near_bound(dice, held),
            4 => 1,
            _part => (1 + up_to(dice, held / 3)).min(held.max(1)),
        };
        let method = dice.one_of(&[Method::Eip3009, Method::Permit2]);
        model.authorizations.push(Authorization { channel, method, amount, nonce: word(dice) });
        model.authorizations.len() - 1
    }

    fn row(&mut self, model: &Model, channel: usize) -> Row {
        let state = model.view.channels[channel];
        let dice = &mut self.dice;
        let total = match dice.roll(8) {
            0 => near_bound(dice, state.claimed),
            1 => near_bound(dice, state.balance),
            _valid => state
                .claimed
                .saturating_add(1)
                .saturating_add(up_to(dice, state.available()) / 2)
                .min(state.balance),
        };
        let ceiling = match dice.roll(12) {
            0 => total.saturating_sub(1),
            1 => u128::MAX,
            2..=5 => total,
            _above => total.saturating_add(up_to(dice, state.available())),
        };
        Row { channel, ceiling, total, is_forged: dice.chance(1, 16) }
    }

    /// Draws claims, most of them of one authorizer.
    fn batch(&mut self, model: &Model) -> Batch {
        let first = self.channel();
        let mut rows = vec![self.row(model, first)];
        let count = self.layout.channels.len();
        for step in 1..count {
            let channel = (first + step) % count;
            let is_same = model.terms(channel).authorizer == model.terms(first).authorizer;
            if self.dice.chance(if is_same { 6 } else { 1 }, 12) {
                rows.push(self.row(model, channel));
            }
        }
        if self.dice.chance(1, 24) {
            rows.push(self.row(model, first));
        }
        Batch { rows, is_forged: self.dice.chance(1, 12) }
    }

    fn refund(&mut self, model: &Model) -> Refund {
        let channel = self.channel();
        let state = model.view.channels[channel];
        let dice = &mut self.dice;
        let amount = match dice.roll(12) {
            0 => 0,
            1 => u128::MAX,
            2..=3 => near_bound(dice, state.pending),
            _other => near_bound(dice, state.available()).max(1),
        };
        let nonce = match dice.roll(8) {
            0 => state.nonce + 1,
            1 => state.nonce.saturating_sub(1),
            _valid => state.nonce,
        };
        let is_forged = dice.chance(1, 12);
        let claims = if dice.chance(1, 3) { self.batch(model) } else { Batch::default() };
        Refund { channel, amount, nonce, claims, is_forged }
    }

    /// Draws an actor's own transaction: either an independent one, or a copy of a request that the actor has seen.
    fn own_transaction(&mut self, model: &mut Model) -> Action {
        let withdrawing =
            self.channel_with_withdrawal(model).filter(|_channel| self.dice.chance(1, 2));
        let channel = withdrawing.unwrap_or_else(|| self.channel());
        let terms = model.terms(channel).clone();
        let state = model.view.channels[channel];
        let (payer, receiver) = (Sender::Payer(terms.payer), Sender::Receiver(terms.receiver));
        let key = match terms.voucher_key {
            VoucherKey::Separate => Sender::VoucherKey(channel),
            VoucherKey::Named | VoucherKey::Payer => payer,
        };
        let authorizer = Sender::Authorizer(terms.authorizer);
        let drawn = if withdrawing.is_some() { 9 } else { self.dice.roll(16) };
        let (transaction, by) = match drawn {
            0..=1 => {
                let Request::Deposit { number, .. } = self.deposit(model) else { unreachable!() };
                (Transaction::Deposit(number), self.dice.one_of(&[payer, Sender::Stranger]))
            }
            2..=3 => {
                let rows = self.batch(model).rows;
                let by = [receiver, receiver, authorizer, Sender::Stranger];
                (Transaction::Claim(rows), self.dice.one_of(&by))
            }
            4..=5 => (Transaction::Sweep(terms.receiver), Sender::Stranger),
            6..=8 => {
                let amount =
                    near_bound(&mut self.dice, state.available()).max(self.dice.roll(4).into());
                let by = [payer, payer, key, receiver];
                (Transaction::Initiate { channel, amount }, self.dice.one_of(&by))
            }
            9..=10 => {
                let by = [payer, payer, key, Sender::Stranger];
                (Transaction::Finalize { channel }, self.dice.one_of(&by))
            }
            11 => {
                let amount = near_bound(&mut self.dice, state.available());
                let by = [receiver, authorizer, Sender::Stranger];
                (Transaction::Refund { channel, amount }, self.dice.one_of(&by))
            }
            _seen => (self.seen_request(model), Sender::Stranger),
        };
        Action::Send { transaction, by }
    }

    /// Draws a request that an actor has seen, as its own transaction.
    fn seen_request(&mut self, model: &mut Model) -> Transaction {
        let request = match self.some_index() {
            Some(index) if self.dice.chance(2, 3) => self.sent[index].0.clone(),
            _none => match self.settlement(model) {
                Action::Settle { request, .. } => request,
                _other => unreachable!("a request"),
            },
        };
        transaction_of_request(request)
    }
}

/// Converts a request to the transaction that the escrow accepts from any sender.
fn transaction_of_request(request: Request) -> Transaction {
    match request {
        Request::Deposit { number, .. } => Transaction::Deposit(number),
        Request::Claim(batch) => Transaction::SignedClaim(batch),
        Request::Sweep(receiver) => Transaction::Sweep(receiver),
        Request::Refund(refund) => Transaction::SignedRefund(refund),
    }
}

/// Removes a request's idempotency key, so that only one of two copies in a pair gets the success.
fn without_key(action: Action) -> Action {
    match action {
        Action::Settle { request, by_kind, .. } => {
            Action::Settle { request, is_keyed: false, by_kind }
        }
        other => other,
    }
}
