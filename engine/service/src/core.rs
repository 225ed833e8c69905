//! The single writer: it alone owns the [`State`] and the [`Journal`].
//!
//! Other modules send actions to the core or read the published [`View`].
//!
//! `step` is synchronous: it decides each action, applies the events, commits all of them with one fsync and only
//! then answers. Only records of signatures may wait for a later commit. Production runs it on one thread
//! ([`handle`]); the simulator calls it step by step. After a failed commit the core decides nothing: the content of
//! the disk is unknown until a restart replays the journal.

pub mod handle;
mod judgement;
mod publish;
mod slips;
mod snapshot;
mod trade_ends;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::limits::CLOCK_OFF_CHAIN_MS_MAX;
use bursar_core::time::{Moment, Utc};
use bursar_domain::apply::ChangedRecord;
use bursar_domain::idempotency::Prior;
use bursar_domain::identity::Identity;
use bursar_domain::settlement::Stage;
use bursar_domain::{
    Action, Command, Decision, Effect, Entry, Event, Refusal, Reply, Request, State, Status, check,
};
use bursar_submit::{Action as OutboxAction, OutboxKey};
use bursar_x402::Echo;
use bursar_x402::signature::Signature65;

pub use publish::View;
use slips::ToSign;
use snapshot::decode_state;

use crate::edition::{Edition, Retention};
use crate::journal::{Committed, Head, Journal, JournalError, SigningOrder, Slip, Store};
use crate::rules::Rules;
use crate::vault::gate::Gate;

/// The result of one decided action.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub answer: ActionAnswer,
    /// The signatures that the action allows, issued after its commit.
    pub orders: Vec<SigningOrder>,
    /// The work for outboxes, released after the commit.
    pub work: Vec<Work>,
}

/// One step of work for an outbox.
#[derive(Debug, Clone)]
pub struct Work {
    pub action: bursar_submit::Action,
    /// What to sign, if the action is a signature.
    pub order: Option<SigningOrder>,
}

/// The answer to a decided action.
#[derive(Debug, Clone)]
pub enum ActionAnswer {
    Done,
    /// The rules refuse the action after a judgement. If the action is an ask, no record describes the refusal.
    Refused(Refusal),
    /// The request in its new state.
    Request(Arc<Request>),
    /// The same ask was answered before, with this request.
    Earlier(Arc<Request>),
    /// The ask repeats this payment, which was already settled.
    Settled(Arc<Request>),
    /// The stage of a reported payment.
    Reported(Stage),
}

/// Owns the state and the journal, and decides every action.
#[derive(Debug)]
pub struct Core {
    state: State,
    journal: Journal,
    gate: Arc<Gate>,
    rules: Rules,
    retention: Retention,
    /// Whether the journal's index leads from a transaction to its payment.
    indexes_transactions: bool,
    /// Why the journal does not match the wallet; `None` if no mismatch is known. While set, no payment is automatic.
    untrusted_reason: Option<String>,
    /// Whether the last unlock verified the journal, or the operator accepted it. False until the first unlock.
    is_verified: bool,
    /// Why the core stopped deciding; `None` while it decides.
    failure: Option<String>,
    last_snapshot: u64,
    /// Whether the stored snapshot has a tag of the wallet, so that an unlock reads only the entries after it.
    is_snapshot_sealed: bool,
}

impl Core {
    /// Opens the core: restores the state from the journal's snapshot and the entries after it.
    ///
    /// # Errors
    /// The store cannot be read, the chain is damaged, the replayed state violates an invariant, or the journal is another
    /// edition's.
    pub fn open(
        store: Box<dyn Store>,
        edition: &Edition,
        gate: Arc<Gate>,
        rules: Rules,
    ) -> Result<Self, JournalError> {
        let mut journal = Journal::open(store)?;
        let fresh = || State::new(Arc::clone(&edition.rules));
        let kept = journal.snapshot()?;
        let is_sealed = kept.as_ref().is_some_and(|snapshot| snapshot.tag.is_some());
        let kept = kept.and_then(|snapshot| decode_state(&snapshot, &edition.rules));
        let keeps_sealed = is_sealed && kept.is_some();
        let (mut state, from) = kept.unwrap_or_else(|| (fresh(), Head::default()));
        let last_snapshot = from.seq;
        let _proof = journal.replay(from, |entry| {
            rules.apply(&mut state, entry);
        })?;
        if let Err(failure) = journal.complete_payees(fresh()) {
            tracing::warn!(%failure, "the index of payees could not be completed, so earlier payments are not shown");
        }
        let core = Self {
            state,
            journal,
            gate,
            rules,
            retention: edition.retention,
            indexes_transactions: edition.wire.receipts_by_hash,
            untrusted_reason: None,
            is_verified: false,
            failure: None,
            last_snapshot,
            is_snapshot_sealed: keeps_sealed,
        };
        check::check(&core.state).map_err(|violation| core.violation_error(&violation))?;
        let (journal, program) = (core.state.journal_edition, edition.name);
        if core.state.seq > 0 && journal != program {
            return Err(JournalError::WrongEdition { journal, program });
        }
        Ok(core)
    }

    /// Checks the state's invariants after a step: all of them in debug builds, else only the cheap ones.
    fn check_invariants(&self) -> Result<(), JournalError> {
        let found = if cfg!(debug_assertions) {
            check::check(&self.state)
        } else {
            check::check_held(&self.state)
        };
        found.map_err(|violation| self.violation_error(&violation))
    }

    fn violation_error(&self, violation: &check::Violation) -> JournalError {
        JournalError::Damaged { seq: self.state.seq, reason: violation.to_string() }
    }

    /// Returns the current state, which may be ahead of the disk.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns why the core stopped deciding, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns why the journal does not match the wallet; `None` if no mismatch is known.
    pub fn untrusted_reason(&self) -> Option<&str> {
        self.untrusted_reason.as_deref()
    }

    /// Decides, applies and commits a batch, and returns one result for each action, in order.
    ///
    /// # Errors
    /// `Err` for an action that the rules reject before they judge it, for example `WALLET_LOCKED`. After a failed
    /// commit every action gets `JOURNAL_FAILED`.
    pub fn step(&mut self, moment: &Moment, actions: Vec<Action>) -> Vec<Result<Outcome, Fault>> {
        let count = actions.len();
        match self.try_step(moment, actions) {
            Ok(outcomes) => outcomes,
            Err(fault) => vec![Err(fault); count],
        }
    }

    fn try_step(
        &mut self,
        moment: &Moment,
        actions: Vec<Action>,
    ) -> Result<Vec<Result<Outcome, Fault>>, Fault> {
        if self.failure.is_some() {
            // A failed core decides nothing, but keeps the signature in memory: the agent may have it already, and
            // polls return it.
            for action in &actions {
                if let Action::Signed { id, signature } = action {
                    self.keep_in_memory(*id, signature);
                }
            }
            return Err(Fault::new(Code::JournalFailed));
        }
        let mut drafts = Vec::with_capacity(actions.len());
        for action in actions {
            drafts.push(self.draft(moment, action).map_err(|damage| self.fail(&damage))?);
        }
        // The record of a signature can be rebuilt after a crash, so it waits for the next commit.
        let durable =
            drafts.iter().filter_map(DraftResult::accepted).any(|draft| draft.must_be_durable);
        let proof = if durable {
            Some(self.commit(moment).map_err(|damage| self.fail(&damage))?)
        } else {
            self.reissue_proof(&drafts).map_err(|damage| self.fail(&damage))?
        };
        Ok(self.settle(drafts, proof.as_ref()))
    }

    fn keep_in_memory(&mut self, id: RequestId, signature: &Signature65) {
        if let Some(request) = self.state.authorized.get_mut(&id)
            && let Status::Authorized { signature: slot, .. } = &mut Arc::make_mut(request).status
        {
            slot.get_or_insert(*signature);
        }
    }

    /// Returns the proof for slips without a new commit: the entries that permit them are already on disk. `None` if
    /// the drafts need no slip.
    fn reissue_proof(&self, drafts: &[DraftResult]) -> Result<Option<Committed>, JournalError> {
        let wanted = drafts
            .iter()
            .filter_map(DraftResult::accepted)
            .any(|draft| !draft.slips.is_empty() || draft.signs_at_an_outbox());
        if !wanted {
            return Ok(None);
        }
        self.journal.replay(self.journal.durable(), |_none| ()).map(Some)
    }

    /// Commits the pending entries, if there are any.
    pub fn flush(&mut self, moment: &Moment) {
        if self.failure.is_none()
            && self.journal.has_pending()
            && let Err(damage) = self.commit(moment)
        {
            self.fail(&damage);
        }
    }

    /// Decides one action and applies its events in memory.
    fn draft(&mut self, moment: &Moment, action: Action) -> Result<DraftResult, JournalError> {
        let action = self.with_history(action)?;
        let command = Command {
            moment: moment.clone(),
            unlocked: self.gate.is_unlocked(),
            trusted: self.untrusted_reason.is_none(),
            action,
        };
        let Decision { events, effects, reply } = match self.rules.decide(&self.state, &command) {
            Ok(decision) => decision,
            Err(refusal) => return Ok(DraftResult::Refused(refusal)),
        };
        let must_be_durable = !events.is_empty();
        let stops_agents = events.iter().any(|one| {
            matches!(one, Event::Frozen | Event::AgentSuspended { .. } | Event::AgentDeleted { .. })
        });
        let mut touched = Vec::new();
        for event in events {
            if let Some(ChangedRecord::Request(request)) = self.record(event, moment)? {
                touched.push(request);
            }
        }
        if must_be_durable {
            self.check_invariants()?;
        }
        Ok(DraftResult::Accepted(Draft {
            answer: self.answer(reply, &touched)?,
            slips: effects.iter().filter_map(ToSign::of).collect(),
            work: effects
                .into_iter()
                .filter_map(|effect| match effect {
                    Effect::Outbox(key, action) => Some((key, action)),
                    _signature => None,
                })
                .collect(),
            must_be_durable: must_be_durable && !matches!(command.action, Action::Signed { .. }),
            stops_agents,
        }))
    }

    fn with_history(&self, mut action: Action) -> Result<Action, JournalError> {
        if let Action::Report(report) = &mut action {
            report.context.earlier_reply = self.journal.report_stage(&report.identity)?;
            report.context.request = self.find(report.id)?.map(|request| (*request).clone());
            report.context.settlement = match &report.context.request {
                Some(request) => self.journal.settlement(request)?,
                None => None,
            };
        }
        match &mut action {
            Action::Ask(ask) => ask.prior = self.prior(&ask.identity)?,
            Action::Recall(recall) => recall.prior = self.prior(&recall.identity)?,
            _other => {}
        }
        Ok(action)
    }

    fn prior(&self, identity: &Identity) -> Result<Prior, JournalError> {
        let mut prior = self.journal.prior(identity)?;
        // The stored record may not have the signature of an authorization yet.
        if let Some(same) = &mut prior.newest
            && let Some(open) = self.state.authorized.get(&same.id)
        {
            same.status.clone_from(&open.status);
        }
        Ok(prior)
    }

    fn record(
        &mut self,
        event: Event,
        moment: &Moment,
    ) -> Result<Option<ChangedRecord>, JournalError> {
        // The journal's time never goes back, even if the machine's clock does.
        let at = moment.utc.max(self.state.clock);
        let new = matches!(
            event,
            Event::PaymentAuthorized { .. }
                | Event::DeviceAwaited { .. }
                | Event::ExecutionStarted { .. }
                | Event::RequestHeld { .. }
                | Event::RequestRefused { .. }
        );
        let (event, echo) = without_echo(event);
        let entry: Entry = self.journal.append(event, at)?;
        // A report without a proof settles nothing, so the lookup that it starts may be the first to index the payment.
        let reported = matches!(entry.event, Event::SettlementReported { .. });
        if let Event::SettlementReported { identity, .. } = &entry.event {
            self.journal.index_report(identity);
        }
        let mut touched = self.rules.apply(&mut self.state, &entry);
        self.journal.note_payment(&entry, touched.as_ref());
        match &mut touched {
            Some(ChangedRecord::Request(request)) => {
                if let Some(echo) = echo
                    && let Some(payment) = Arc::make_mut(request).ask.payment_mut()
                {
                    payment.echo = echo;
                }
                *request = self.journal.record_request(request, new)?;
            }
            Some(ChangedRecord::Settlement(settlement)) => {
                self.journal.record_settlement(settlement)?;
                if reported || settlement.stage == Stage::Verified {
                    self.journal.index_settled(settlement)?;
                }
                if self.indexes_transactions {
                    self.journal.index_transaction(settlement)?;
                }
            }
            None => {}
        }
        Ok(touched)
    }

    /// Converts a reply to the answer, with the request that the reply names.
    fn answer(&self, reply: Reply, touched: &[Arc<Request>]) -> Result<ActionAnswer, JournalError> {
        Ok(match reply {
            Reply::Done => ActionAnswer::Done,
            Reply::Refused(refusal) => ActionAnswer::Refused(refusal),
            Reply::Earlier(request) => ActionAnswer::Earlier(Arc::from(request)),
            Reply::Settled(request) => ActionAnswer::Settled(Arc::from(request)),
            Reply::Reported(stage) => ActionAnswer::Reported(stage),
            Reply::Request(id) => match touched.iter().rev().find(|request| request.id == id) {
                Some(request) => ActionAnswer::Request(Arc::clone(request)),
                None => ActionAnswer::Request(self.find(id)?.ok_or_else(|| {
                    let reason = "a decided request has no record".to_owned();
                    JournalError::Damaged { seq: self.state.seq, reason }
                })?),
            },
        })
    }

    fn commit(&mut self, moment: &Moment) -> Result<Committed, JournalError> {
        // The cost of a snapshot grows with the number of authorizations. With at least as many entries between two
        // snapshots, the cost per entry stays bounded. A locked wallet cannot seal a snapshot. An unsealed snapshot
        // must not replace a sealed one, because the next unlock would then read the whole journal.
        let open = u64::try_from(self.state.authorized.len()).unwrap_or(u64::MAX);
        let is_sealing = self.journal.is_sealing();
        if self.state.seq.saturating_sub(self.last_snapshot)
            >= self.retention.snapshot_every.max(open)
            && (is_sealing || !self.is_snapshot_sealed)
        {
            if let Ok(bytes) = postcard::to_allocvec(&self.state) {
                self.journal.set_snapshot(bytes);
                (self.last_snapshot, self.is_snapshot_sealed) = (self.state.seq, is_sealing);
            }
            if let Some(day) = first_remembered_day(moment, self.retention.signed_days) {
                self.journal.forget_signed_before(day);
            }
        }
        self.journal.commit()
    }

    /// Converts drafts to outcomes. Reads the epoch only after a freeze in the same batch has raised it.
    fn settle(
        &self,
        drafts: Vec<DraftResult>,
        proof: Option<&Committed>,
    ) -> Vec<Result<Outcome, Fault>> {
        // An action that stops agents raises the epoch even if the same batch thaws them again. A freeze that lasts
        // does not raise it again: `issue` already denies slips to frozen agents, and the operator's slips must stay
        // valid.
        if drafts.iter().filter_map(DraftResult::accepted).any(|draft| draft.stops_agents) {
            self.gate.raise();
        }
        let epoch = self.gate.epoch();
        let issue = |to_sign: &ToSign| slips::issue(&self.state, proof, to_sign, epoch);
        // A freeze stops agents. The operator's transfers continue.
        let work = |(outbox, action): (OutboxKey, OutboxAction)| {
            let order = match &action {
                OutboxAction::Sign { id, attempt, .. } => proof.and_then(|proof| {
                    let at = self.state.outboxes.get(&outbox);
                    Slip::for_attempt(proof, &at, *id, *attempt, epoch)
                }),
                _no_signature => None,
            };
            Work { action, order }
        };
        let outcome = |drafted: DraftResult| {
            let draft = match drafted {
                DraftResult::Accepted(draft) => draft,
                DraftResult::Refused(refusal) => return Err(fault(&refusal)),
            };
            Ok(Outcome {
                answer: draft.answer,
                orders: draft.slips.iter().filter_map(issue).collect(),
                work: draft.work.into_iter().map(work).collect(),
            })
        };
        drafts.into_iter().map(outcome).collect()
    }

    /// Stops all decisions. The waiting callers and all later ones receive the error.
    fn fail(&mut self, damage: &JournalError) -> Fault {
        self.gate.raise();
        self.failure = Some(damage.to_string());
        tracing::error!(%damage, "the journal failed: decisions have stopped until a restart");
        Fault::new(Code::JournalFailed).with_detail(damage)
    }

    /// Commits pending entries, stops changes to the history file until [`Core::end_copy`], and returns its path, if
    /// there is one.
    ///
    /// # Errors
    /// `JOURNAL_FAILED`, or `DATA_FOLDER` with the cause.
    pub fn begin_copy(&mut self, moment: &Moment) -> Result<Option<PathBuf>, Fault> {
        self.flush(moment);
        if self.failure.is_some() {
            return Err(Fault::new(Code::JournalFailed));
        }
        self.journal.begin_copy().map_err(|error| copy_fault(&error))
    }

    /// Copies the journal's short file to `to`, if given, and allows changes to the history file again.
    ///
    /// # Errors
    /// `DATA_FOLDER` with the cause.
    pub fn end_copy(&mut self, to: Option<&Path>) -> Result<(), Fault> {
        self.journal.end_copy(to).map_err(|error| copy_fault(&error))
    }

    /// Whether entries are pending for [`Core::flush`].
    pub fn has_pending(&self) -> bool {
        self.journal.has_pending()
    }

    /// Returns a request, open or finished.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn find(&self, id: RequestId) -> Result<Option<Arc<Request>>, JournalError> {
        // A device's signature cannot be made again. So after a failed commit, callers get only a signature that is
        // on disk.
        if self.failure.is_some()
            && let Some(durable) = self.journal.reader().request(id)?
            && durable.device_turn().is_some()
        {
            return Ok(Some(Arc::new(durable)));
        }
        let waiting = || self.state.held.get(&id).or_else(|| self.state.waiting.get(&id));
        match self.state.authorized.get(&id).or_else(waiting) {
            Some(request) => self.with_recorded_data(request).map(Some),
            None => Ok(self.journal.record(id)?.map(Arc::new)),
        }
    }

    /// Completes a request of the state with the data that only its record contains.
    fn with_recorded_data(&self, request: &Arc<Request>) -> Result<Arc<Request>, JournalError> {
        let Some(record) = self.journal.record(request.id)? else { return Ok(Arc::clone(request)) };
        Ok(Arc::new(Request { status: request.status.clone(), ..record }))
    }

    /// Builds the view that other threads read without a message to the core.
    pub fn view(&self) -> View {
        View {
            state: self.state.copy_to_publish(),
            burst_lapses_at: self.state.burst_lapses_at(),
            authorized: self.state.authorized.len(),
            head: self.journal.durable(),
            untrusted_reason: self.untrusted_reason.clone(),
            is_verified: self.is_verified,
            failure: self.failure.clone(),
            forgotten_before_day: self.journal.forgotten_before_day().unwrap_or(u32::MAX),
        }
    }
}

/// A decided action, before its commit.
#[derive(Debug)]
enum DraftResult {
    /// The events of the action are applied.
    Accepted(Draft),
    /// The rules rejected the action before they judged it. It has no events.
    Refused(Refusal),
}

impl DraftResult {
    fn accepted(&self) -> Option<&Draft> {
        match self {
            Self::Accepted(draft) => Some(draft),
            Self::Refused(_) => None,
        }
    }
}

/// An action that is decided and applied but not yet on disk.
#[derive(Debug)]
struct Draft {
    /// Sent after the commit.
    answer: ActionAnswer,
    slips: Vec<ToSign>,
    work: Vec<(OutboxKey, OutboxAction)>,
    must_be_durable: bool,
    /// Whether the action stops agents: once it is answered, no slip issued before it may be signed.
    stops_agents: bool,
}

impl Draft {
    fn signs_at_an_outbox(&self) -> bool {
        self.work.iter().any(|(_outbox, action)| matches!(action, OutboxAction::Sign { .. }))
    }
}

/// Moves the echo of a payment out of the event. Only the record keeps it: state and snapshots are copied often, and
/// the merchant chooses the echo's length.
fn without_echo(mut event: Event) -> (Event, Option<Echo>) {
    let echo = match &mut event {
        Event::PaymentAuthorized { draft: asked, .. }
        | Event::DeviceAwaited { draft: asked, .. }
        | Event::RequestHeld { draft: asked, .. } => asked.ask.payment_mut().map(|payment| {
            let stripped = payment.echo.without_parts();
            std::mem::replace(&mut payment.echo, stripped)
        }),
        _other => None,
    };
    (event, echo)
}

/// Returns the first day (since 1970) whose signed asks are remembered, or `None` if none may be forgotten now.
///
/// Signed asks of forgotten days are refused, until `audit accept` remembers them again. So the clock is used only if
/// the newest block of a chain agrees with it, and then the earlier of the two times decides.
fn first_remembered_day(moment: &Moment, days: i64) -> Option<u32> {
    let block = moment.chain_hint?;
    if moment.utc.since_ms(block).saturating_abs() > CLOCK_OFF_CHAIN_MS_MAX {
        return None;
    }
    Some(day_minus(moment.utc.min(block), days))
}

/// Returns the day (since 1970) that lies `days` before the day of `at`.
fn day_minus(at: Utc, days: i64) -> u32 {
    let today = at.seconds().div_euclid(86_400);
    u32::try_from(today.saturating_sub(days)).unwrap_or(0)
}

fn copy_fault(error: &JournalError) -> Fault {
    Fault::because(Code::DataFolder, format!("The journal was not copied: {error}."))
}

/// Converts a refusal into the error that callers receive.
pub(crate) fn fault(refusal: &Refusal) -> Fault {
    Fault::because(refusal.code, refusal.sentence())
}
