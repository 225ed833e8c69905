//! The answers that the facilitator must give, derived from the model of the escrow's books.

use std::collections::BTreeSet;

use crate::facilitator::channel_model::{
    Batch, ChannelState, Method, Mined, Model, Refund, Row, Sender, Transaction, VoucherKey,
};
use crate::facilitator::channel_requests::{
    Expected, Forged, Job, NamedTransaction, Request, Success,
};

/// The facilitator's decision about a job before it stores the job.
enum Verdict {
    Refuse(String),
    /// The job is already done, so no transaction is needed.
    Close,
    Send,
    /// An actor's own transaction used the deposit's authorization.
    Found(Mined),
}

/// The effect of a facilitator transaction for a job.
struct Effect {
    amount: Option<u128>,
    /// The balance that a deposit's event reports.
    new_balance: Option<u128>,
}

fn code(name: &str) -> String {
    format!("invalid_batch_settlement_evm_{name}")
}

fn refuse(name: &str) -> Result<(), String> {
    Err(code(name))
}

fn require(is_good: bool, name: &str) -> Result<(), String> {
    if is_good { Ok(()) } else { refuse(name) }
}

impl Model {
    /// Notes the vouchers that a request contains.
    pub(crate) fn note_vouchers(&mut self, request: &Request) {
        match request {
            Request::Deposit { number, ceiling, forged } if *forged != Some(Forged::Voucher) => {
                self.note_voucher(self.authorizations[*number].channel, *ceiling);
            }
            Request::Claim(batch) => self.note_rows(&batch.rows),
            Request::Refund(refund) => self.note_rows(&refund.claims.rows),
            Request::Deposit { .. } | Request::Sweep(_) => {}
        }
    }

    pub(crate) fn note_rows(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| !row.is_forged) {
            self.note_voucher(row.channel, row.ceiling);
        }
    }

    pub(crate) fn note_voucher(&mut self, channel: usize, ceiling: u128) {
        self.highest_vouchers[channel] = self.highest_vouchers[channel].max(ceiling);
    }

    /// Returns whether a forged voucher signature is detected without a node.
    fn is_forgery_detected_without_node(&self, channel: usize) -> bool {
        self.terms(channel).voucher_key != VoucherKey::Payer
    }

    pub(crate) fn job(&self, request: &Request) -> Job {
        match request {
            Request::Deposit { number, .. } => Job::Deposit(*number),
            Request::Claim(batch) => Job::Claim(
                batch.rows.iter().map(|row| (row.channel, row.ceiling, row.total)).collect(),
            ),
            Request::Sweep(receiver) => {
                Job::Sweep(*receiver, self.view.receivers[*receiver].claimed)
            }
            Request::Refund(refund) => Job::Refund(refund.channel, refund.nonce),
        }
    }

    /// Finds faults in the request alone.
    fn check_request(&self, request: &Request) -> Result<(), String> {
        match request {
            Request::Deposit { number, forged, .. } => {
                let channel = self.authorizations[*number].channel;
                let is_forged = *forged == Some(Forged::Voucher)
                    && self.is_forgery_detected_without_node(channel);
                require(!is_forged, "voucher_signature")
            }
            Request::Claim(batch) => self.check_rows(&batch.rows),
            Request::Sweep(_) => Ok(()),
            Request::Refund(refund) => {
                require(refund.amount > 0, "refund_amount_invalid")?;
                if refund.claims.rows.is_empty() {
                    Ok(())
                } else {
                    self.check_rows(&refund.claims.rows)
                }
            }
        }
    }

    fn check_rows(&self, rows: &[Row]) -> Result<(), String> {
        let mut channels = BTreeSet::new();
        let authorizer = rows.first().map(|row| self.terms(row.channel).authorizer);
        for row in rows {
            let is_other = Some(self.terms(row.channel).authorizer) != authorizer;
            require(!is_other && channels.insert(row.channel), "claim_payload")?;
            require(row.total <= row.ceiling, "claim_simulation_failed")?;
            require(
                !(row.is_forged && self.is_forgery_detected_without_node(row.channel)),
                "voucher_signature",
            )?;
        }
        Ok(())
    }

    /// Finds faults in claims that only the chain shows.
    fn judge_claims(&self, batch: &Batch) -> Result<(), String> {
        let exceeds = |row: &Row| row.total > self.view.channels[row.channel].balance;
        require(!batch.rows.iter().any(exceeds), "cumulative_exceeds_balance")?;
        require(!batch.rows.iter().any(|row| row.is_forged), "voucher_signature")?;
        require(!batch.is_forged, "claim_simulation_failed")
    }

    fn raises_claimed(&self, row: &Row) -> bool {
        row.total > self.view.channels[row.channel].claimed
    }

    fn judge(&self, request: &Request) -> Verdict {
        let result = match request {
            Request::Deposit { number, ceiling, forged } => {
                return self
                    .judge_deposit(*number, *ceiling, *forged)
                    .unwrap_or_else(Verdict::Refuse);
            }
            Request::Claim(batch) => {
                let is_done = !batch.rows.iter().any(|row| self.raises_claimed(row));
                match self.judge_claims(batch) {
                    Ok(()) if is_done => return Verdict::Close,
                    other => other,
                }
            }
            Request::Sweep(receiver) => {
                let totals = &self.view.receivers[*receiver];
                require(totals.claimed > totals.settled, "nothing_to_settle")
            }
            Request::Refund(refund) => self.judge_refund(refund),
        };
        result.map_or_else(Verdict::Refuse, |()| Verdict::Send)
    }

    fn judge_refund(&self, refund: &Refund) -> Result<(), String> {
        if !refund.claims.rows.is_empty() {
            self.judge_claims(&refund.claims)?;
        }
        self.judge_refund_alone(refund)
    }

    /// Finds faults in a refund whose claims are valid.
    fn judge_refund_alone(&self, refund: &Refund) -> Result<(), String> {
        let state = &self.view.channels[refund.channel];
        require(state.balance > 0, "channel_not_found")?;
        if state.nonce != refund.nonce {
            return Err("refund_nonce_mismatch".to_owned());
        }
        require(!refund.is_forged, "refund_simulation_failed")?;
        let own = refund.claims.rows.iter().filter(|row| row.channel == refund.channel);
        let claimed = own.map(|row| row.total).fold(state.claimed, u128::max);
        require(state.balance > claimed, "refund_no_balance")
    }

    fn judge_deposit(
        &self,
        number: usize,
        ceiling: u128,
        forged: Option<Forged>,
    ) -> Result<Verdict, String> {
        let authorization = self.authorizations[number];
        let (amount, method) = (authorization.amount, authorization.method);
        let state = &self.view.channels[authorization.channel];
        let payer = self.terms(authorization.channel).payer;
        require(amount > 0, "deposit_below_min_deposit")?;
        if forged == Some(Forged::Authorization) {
            return Err("invalid_signature".to_owned());
        }
        if let Some(spent) = self.used_authorizations.get(&number) {
            let is_good = forged.is_none() && ceiling <= state.balance && ceiling > state.claimed;
            return match spent.mined.filter(|_mined| is_good) {
                Some(mined) => Ok(Verdict::Found(mined)),
                None if method == Method::Permit2 => Err("permit2_invalid_nonce".to_owned()),
                None => Err("invalid_exact_evm_nonce_already_used".to_owned()),
            };
        }
        if self.view.payer_tokens[payer] < amount {
            return Err("insufficient_balance".to_owned());
        }
        let is_allowed = method == Method::Eip3009 || self.layout.approvals[payer];
        require(is_allowed, "permit2_allowance_required")?;
        let after = state.balance.checked_add(amount);
        require(after.is_some(), "deposit_simulation_failed")?;
        require(forged != Some(Forged::Voucher), "voucher_signature")?;
        require(after.is_some_and(|after| ceiling <= after), "cumulative_exceeds_balance")?;
        require(ceiling > state.claimed, "cumulative_below_claimed")?;
        Ok(Verdict::Send)
    }

    /// Executes a job's transaction by the facilitator, which checked the job against the state `judged`. Returns
    /// `None` if the transaction does not prove the job.
    fn execute(&mut self, request: &Request, judged: &Self) -> Option<Effect> {
        let proves = |batch: &Batch, added: &[bool]| {
            let mut rows = batch.rows.iter().zip(added);
            rows.all(|(row, added)| *added || !judged.raises_claimed(row))
        };
        match request {
            Request::Deposit { number, .. } => {
                let new_balance = self.deposit(*number, None)?;
                let amount = Some(self.authorizations[*number].amount);
                Some(Effect { amount, new_balance: Some(new_balance) })
            }
            Request::Claim(batch) => {
                let added = self.signed_claim(batch)?;
                proves(batch, &added).then_some(Effect { amount: None, new_balance: None })
            }
            Request::Sweep(receiver) => {
                let amount = Some(self.sweep(*receiver)).filter(|amount| *amount > 0)?;
                Some(Effect { amount: Some(amount), new_balance: None })
            }
            Request::Refund(refund) => {
                let before = self.view.clone();
                if !refund.claims.rows.is_empty() {
                    self.signed_claim(&refund.claims)?;
                }
                let Some(amount) = self.signed_refund(refund) else {
                    self.view = before;
                    return None;
                };
                (amount > 0).then_some(Effect { amount: Some(amount), new_balance: None })
            }
        }
    }

    fn success(
        &self,
        request: &Request,
        job: Job,
        proof: NamedTransaction,
        effect: &Effect,
    ) -> Expected {
        let (channel, payer) = match request {
            Request::Deposit { number, .. } => (Some(self.authorizations[*number].channel), true),
            Request::Refund(refund) => (Some(refund.channel), true),
            Request::Claim(_) | Request::Sweep(_) => (None, false),
        };
        let payer = channel.filter(|_channel| payer).map(|channel| self.terms(channel).payer);
        let state = channel.map(|channel| {
            let now = self.view.channels[channel];
            let balance = effect.new_balance.unwrap_or(now.balance);
            (channel, ChannelState { balance, ..now })
        });
        Expected::Success(Success { job, proof, payer, amount: effect.amount, state })
    }

    fn known_answer(&self, request: &Request, job: &Job, is_keyed: bool) -> Option<Expected> {
        if self.is_uncertain(job) {
            return None;
        }
        if let Some((first, mined)) = self.done_elsewhere.get(job) {
            let duplicate = Expected::Duplicate { job: job.clone(), is_same: false };
            return Some(if first == request { Expected::Elsewhere(*mined) } else { duplicate });
        }
        let (first, was_keyed) = self.book.get(job)?;
        let is_same = first == request;
        Some(if is_same && is_keyed && *was_keyed {
            Expected::Again(job.clone())
        } else {
            Expected::Duplicate { job: job.clone(), is_same }
        })
    }

    fn is_uncertain(&self, job: &Job) -> bool {
        matches!(job, Job::Sweep(receiver, total) if self.uncertain_sweeps.contains(&(*receiver, *total)))
    }

    /// Settles a request. Returns the possible answers, each with the books afterwards.
    pub(crate) fn settle(&self, request: &Request, is_keyed: bool) -> Vec<(Expected, Self)> {
        let job = self.job(request);
        if let Err(code) = self.check_request(request) {
            return vec![(Expected::Refused(code), self.clone())];
        }
        if let Some(known) = self.known_answer(request, &job, is_keyed) {
            return vec![(known, self.clone())];
        }
        if self.is_uncertain(&job) && matches!(self.judge(request), Verdict::Refuse(_)) {
            let codes = ["duplicate_settlement".to_owned(), code("nothing_to_settle")];
            return codes.map(|code| (Expected::Refused(code), self.clone())).into();
        }
        let nothing = Effect { amount: None, new_balance: None };
        let mut after = self.clone();
        after.book.insert(job.clone(), (request.clone(), is_keyed));
        match self.judge(request) {
            Verdict::Refuse(code) => vec![(Expected::Refused(code), self.clone())],
            Verdict::Close => {
                vec![(after.success(request, job, NamedTransaction::Nothing, &nothing), after)]
            }
            Verdict::Found(mined) => {
                let mut after = self.clone();
                after.done_elsewhere.insert(job, (request.clone(), mined));
                vec![(Expected::Elsewhere(mined), after)]
            }
            Verdict::Send => {
                let effect = after.execute(request, self).expect("a job that was accepted");
                // This payout is recorded under its true total.
                if let Job::Sweep(receiver, total) = job {
                    after.uncertain_sweeps.remove(&(receiver, total));
                }
                let mut all =
                    vec![(after.success(request, job, NamedTransaction::Own, &effect), after)];
                all.extend(
                    self.penalty(request).map(|code| (Expected::Refused(code), self.clone())),
                );
                all
            }
        }
    }

    /// Returns the refusal of a job whose authorizer may be penalized.
    fn penalty(&self, request: &Request) -> Option<String> {
        let (channel, name) = match request {
            Request::Claim(batch) => (batch.rows.first()?.channel, "claim_transaction_failed"),
            Request::Refund(refund) => (refund.channel, "refund_transaction_failed"),
            Request::Deposit { .. } | Request::Sweep(_) => return None,
        };
        self.penalized.contains(&self.terms(channel).authorizer).then(|| code(name))
    }

    /// Settles a request that was checked against the state `judged`, before a simultaneous request, and carried out
    /// after that request. Returns no outcome if no transaction is sent.
    pub(crate) fn settle_late(
        &self,
        request: &Request,
        judged: &Self,
        other: Option<&Transaction>,
    ) -> Vec<(Expected, Self)> {
        let is_accepted = judged.check_request(request).is_ok()
            && judged.known_answer(request, &judged.job(request), false).is_none()
            && matches!(judged.judge(request), Verdict::Send);
        let job = judged.job(request);
        let between = self.settle_between(request, judged).into_iter();
        if !is_accepted || self.book.contains_key(&job) {
            return between.collect();
        }
        let mut after = self.clone();
        let recorded = |mut model: Self| {
            model.book.insert(job.clone(), (request.clone(), false));
            model
        };
        if let Some(effect) = after.execute(request, judged) {
            let after = recorded(after);
            let success = after.success(request, job.clone(), NamedTransaction::Own, &effect);
            let mut outcomes = vec![(success, after)];
            outcomes.extend(between);
            if self.is_counted_twice(request, judged) {
                let code = "insufficient_balance".to_owned();
                outcomes.push((Expected::Refused(code), self.clone()));
            }
            return outcomes;
        }
        // The job failed in its block: the facilitator searches for another transaction that
        // did the job, and checks again.
        let found = match (request, other) {
            (Request::Sweep(receiver), Some(Transaction::Sweep(paid))) if receiver == paid => {
                let totals = &judged.view.receivers[*receiver];
                Some(totals.claimed - totals.settled)
            }
            (Request::Refund(mine), Some(Transaction::SignedRefund(theirs)))
                if (mine.channel, mine.nonce, mine.amount)
                    == (theirs.channel, theirs.nonce, theirs.amount) =>
            {
                let before = judged.view.channels[mine.channel].available();
                Some(mine.amount.min(before))
            }
            _others => None,
        };
        let mut outcomes = if let Some(amount) = found {
            let after = recorded(after);
            let effect = Effect { amount: Some(amount), new_balance: None };
            vec![(after.success(request, job.clone(), NamedTransaction::Own, &effect), after)]
        } else {
            after.settle(request, false)
        };
        outcomes.extend(between);
        outcomes
    }

    /// Returns the refusal of a refund whose claims were checked against the state `judged`, before a simultaneous
    /// action, while its other terms were checked after that action. The facilitator reads the claims first.
    fn settle_between(&self, request: &Request, judged: &Self) -> Option<(Expected, Self)> {
        let Request::Refund(refund) = request else { return None };
        let has_claims = !refund.claims.rows.is_empty();
        let is_read = judged.check_request(request).is_ok()
            && judged.known_answer(request, &judged.job(request), false).is_none()
            && (!has_claims || judged.judge_claims(&refund.claims).is_ok());
        let code = self.judge_refund_alone(refund).err().filter(|_code| is_read)?;
        Some((Expected::Refused(code), self.clone()))
    }

    /// Returns whether a deposit may be refused because a simultaneous deposit of its payer counts twice. The other
    /// deposit is mined and has reduced the balance, but the facilitator still counts it as in flight.
    fn is_counted_twice(&self, request: &Request, judged: &Self) -> bool {
        let Request::Deposit { number, .. } = request else { return false };
        let authorization = self.authorizations[*number];
        let payer = self.terms(authorization.channel).payer;
        let left = self.view.payer_tokens[payer];
        let other = judged.view.payer_tokens[payer].saturating_sub(left);
        other > 0 && left < other.saturating_add(authorization.amount)
    }

    /// Returns the verdict on a deposit.
    pub(crate) fn verify(&self, request: &Request, is_keyed: bool) -> Expected {
        let Request::Deposit { number, .. } = request else {
            unreachable!("only deposits are drawn")
        };
        let channel = self.authorizations[*number].channel;
        let payer = self.terms(channel).payer;
        if let Err(code) = self.check_request(request) {
            return Expected::Refused(code);
        }
        match self.known_answer(request, &self.job(request), is_keyed) {
            Some(Expected::Again(_job)) => return Expected::Valid { payer, state: None },
            Some(Expected::Elsewhere(mined)) => return Expected::Elsewhere(mined),
            Some(_duplicate) => return Expected::Refused("duplicate_settlement".to_owned()),
            None => {}
        }
        let state = Some((channel, self.view.channels[channel]));
        match self.judge(request) {
            Verdict::Refuse(code) => Expected::Refused(code),
            Verdict::Send | Verdict::Close => Expected::Valid { payer, state },
            Verdict::Found(mined) => Expected::Elsewhere(mined),
        }
    }

    /// Returns the verdict on a voucher, or on a payer's request for a refund.
    pub(crate) fn verify_voucher(&self, row: &Row, is_refund: bool) -> Expected {
        let state = self.view.channels[row.channel];
        let ceiling = row.ceiling;
        let verdict = require(!row.is_forged, "voucher_signature")
            .and_then(|()| require(state.balance > 0, "channel_not_found"))
            .and_then(|()| require(ceiling <= state.balance, "cumulative_exceeds_balance"))
            .and_then(|()| {
                let is_low = ceiling < state.claimed || (ceiling == state.claimed && !is_refund);
                require(!is_low, "cumulative_below_claimed")
            });
        match verdict {
            Ok(()) => {
                let payer = self.terms(row.channel).payer;
                Expected::Valid { payer, state: Some((row.channel, state)) }
            }
            Err(code) => Expected::Refused(code),
        }
    }

    pub(crate) fn report(&self, channel: usize) -> Expected {
        let state = self.view.channels[channel];
        let is_known = state.balance > 0 || state.claimed > 0 || state.nonce > 0;
        Expected::Report(channel, is_known.then_some(state))
    }

    /// Applies an actor's own transaction, as it was mined.
    pub(crate) fn send(
        &self,
        transaction: &Transaction,
        by: Sender,
        mined: Mined,
    ) -> (Expected, Self) {
        let mut after = self.clone();
        let is_done = after.carry_out(transaction, by, mined).is_some();
        (Expected::Mined(is_done), after)
    }
}
