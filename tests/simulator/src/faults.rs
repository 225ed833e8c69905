//! Fault points and planted bugs.
//!
//! The rules themselves stay unchanged. A planted bug changes their input or output, or the disk, the keys or the
//! randomness.

use std::io;
use std::sync::{Arc, Mutex};

use bursar_core::edition::EditionName;
use bursar_core::money::Usd;
use bursar_domain::allowance::WindowStart;
use bursar_domain::apply::ChangedRecord;
use bursar_domain::{Action, Command, Decision, Entry, Event, LaneAsk, Refusal, State, Status};
use bursar_engine::ports::Failpoints;
use bursar_engine::rules::MutatedRules;

use crate::contents::Contents;
use crate::device_entries::DeviceRecords;
use crate::device_faults;
use crate::loan_faults;
use crate::plan::Plan;
use crate::tape::Tape;
use crate::trade_faults;

macro_rules! plants {
    ($($name:ident $description:literal;)*) => {
        /// A planted bug, which the auditor must find.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PlantedBug {
            $(#[doc = $description] $name,)*
        }

        impl PlantedBug {
            /// All planted bugs.
            pub const ALL: &'static [PlantedBug] = &[$(PlantedBug::$name,)*];

            /// Returns the name used on the command line.
            pub fn name(self) -> &'static str {
                match self { $(PlantedBug::$name => stringify!($name),)* }
            }

            /// Returns the description of the bug, in one sentence.
            pub fn description(self) -> &'static str {
                match self { $(PlantedBug::$name => $description,)* }
            }

            /// Returns the plan of a seed in the edition that has the rule.
            pub fn plan(self, seed: u64) -> Plan {
                match self {
                    Self::UnprovenBackwards | Self::DisabledSigned | Self::EditionUnread => {
                        Plan::of_payments(seed)
                    }
                    _any => Plan::of(seed),
                }
            }

            /// Returns the bug of this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|plant| plant.name() == name)
            }
        }
    };
}

plants! {
    SignedFirst "a payment is signed before its record is on the disk";
    ForgottenSync "a commit is acknowledged before it is on disk";
    DoubleReturn "the reservation of a denied or expired request is returned twice";
    ThresholdIncluded "an amount equal to the threshold is signed without asking";
    UnattendedUnlimited "an unattended day has no limit";
    UnattendedAgain "an unlock begins another unattended day";
    ExpiryLate "an approval in the very millisecond of the expiry counts";
    LazyAllowance "a new allowance begins with its first request, not with its day";
    IdentitiesInMemory "a restart forgets which requests were answered";
    FreezeIgnored "a signature in flight is returned after a freeze or a lock";
    NonceReused "two payments have the same nonce";
    LimitReadOutside "parallel requests are judged by the allowance before all of them";
    ReplayByOrder "the effect of an entry depends on more than the entry";
    DeniedNotReturned "the reservation of a denied request stays spent";
    KeyUnbound "an idempotency key is accepted with other content";
    BootClockIgnored "a clock that is set forward renews an allowance";
    CommissionRenews "another commission begins another allowance";
    DenialForgotten "a bearer agent that repeats a denied request gets another hold";
    CarriedUncounted "approving a request held before the renewal is not counted";
    OtherUrlUnjudged "a stored answer is returned for another URL without checking the domain lists";
    ValidityFromAsk "an approved payment is valid from its request, not from its approval";
    NeverFlushed "a commit is acknowledged before it is flushed";
    LateSettledForgotten "a payment reported settled after it was asked for again is signed again";
    ForgottenByTheClock "signed requests are forgotten by the wall clock alone, and remembered from an earlier day again";
    OldLimitApproved "an approval is judged by limits a thousand times as high";
    RehearsalIgnored "a trade whose rehearsal fails is executed";
    PriceTooOld "a price of the API is used for more than a minute";
    FloorFromFresh "the minimum of a swap follows from the newest quote alone";
    SlippageTwice "the slippage is taken off the minimum twice";
    VolumeTwice "the volume of a trade without a swap is returned twice";
    VolumeOfDisplaced "the volume of a swap whose nonce was taken is returned";
    SwapAfterThaw "a swap that was stopped by a freeze is signed after the thaw";
    AllowanceShared "a second trade changes the allowance of one that runs";
    SwapBeforeApproval "a swap is signed before its approval";
    UnlimitedApproval "an approval is not limited to the input";
    ImpactByDust "the price impact is measured by a small quote alone";
    ValueByOutput "a trade is valued by its output";
    FillFromQuote "the quote is reported as the fill";
    HookAutomatic "a pool with an unlisted hook is used without asking";
    RepeatExecuted "a repeated trade is executed again";
    FailuresUncounted "trades that pay for gas and fail are not counted";
    FeeUncounted "the fee of a trade is not added to the volume of the day";
    LocalDeadline "the deadline of a swap follows from the local clock";
    FloorWithoutGas "the least native balance is checked without the cost of gas";
    CeilingIgnored "what may be lent is not limited";
    DepositUnlimited "a single deposit is not limited";
    ComingLoansForgotten "supplies that are still to come do not count against the ceiling";
    UntrustedVenue "money is lent to venues that are not trusted";
    WithdrawalLimited "a withdrawal is refused once the operations of the day are spent";
    ExposureCached "what an address has lent is read once and remembered";
    UnreadableIgnored "what cannot be read counts as nothing";
    JournalIgnored "what nodes do not show of a position is forgotten";
    InterestForgotten "interest is left out of what an address has lent";
    CuratorAlone "a trusted curator suffices, whoever owns the vault";
    GatesUnread "the gates on the way out of a vault are not read";
    MaxBelieved "the zero of a vault's maxWithdraw counts as its liquidity";
    ExitByAssets "a complete withdrawal names assets, not shares";
    LoanFreedEarly "a supply in a block that is not final reserves nothing";
    FreesTwice "a withdrawal frees its amount twice";
    AdapterApproved "the approval of a supply is given to an adapter of the vault";
    LoanUnlimited "the approval of a supply is not limited to the deposit";
    StaleCard "an approved loan is judged by what was measured for its card";
    RehearsalReused "after its approval a supply is not rehearsed again";
    DeniedPressCounts "what a device signed for a payment that was denied meanwhile is recorded";
    SignedBySoftware "a payment of a device is signed by a key in software";
    LapseForgotten "the value of a payment that a device may have signed never returns";
    NotDerived "a device is asked without the check that it has the address";
    OtherTermsAgain "after a prompt with an unknown outcome a device is asked for other terms";
    PressedAgain "a payment that a device signed is asked for again when its call is repeated";
    UnreadFreed "the value of a payment that a device may have signed returns at the end of the wait";
    SuppliedAgain "a restart forgets the open supply of a plan";
    LostMethodKept "after the nodes lost eth_simulateV1, everything that needs a rehearsal is refused";
    KeylessRepeated "a repeat without a key is a new trade or loan";
    StepChanged "a device is asked for another transaction than the recorded one";
    DeniedStillAsked "a denied trade still asks its device for signatures";
    SwapAskedAgain "after a prompt without a signature a device is asked for another swap of the same trade";
    UnprovenBackwards "a report without a proof moves the status of a payment backwards";
    DisabledSigned "a held payment on a network that was disabled is signed after its approval";
    EditionUnread "the edition that a journal names is not compared with the program";
    AllowanceLeft "an ended trade of a device does not revoke its allowance";
}

#[derive(Debug)]
pub(crate) struct WorldFaults {
    tape: Tape,
    contents: Contents,
    plant: Option<PlantedBug>,
    /// The number of days for which the wallet remembers signed requests.
    signed_days: i64,
    /// The edition of the program that reads the journal.
    program: EditionName,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The fault point at which the process dies, and how many times it survives that point before.
    death: Option<(&'static str, u32)>,
    /// The fault point at which the process died.
    died: Option<&'static str>,
    /// Number of entries applied.
    applied: u64,
    /// The state before the batch of commands that is being decided.
    before: Option<State>,
    /// The wall clock at the last decision, in Unix seconds.
    wall_s: i64,
    /// The first day whose signed requests the wallet still remembers, under a planted bug.
    forgotten: u32,
    loans: loan_faults::PlantMemory,
    of_devices: DeviceRecords,
}

impl WorldFaults {
    pub(crate) fn new(
        tape: &Tape,
        plant: Option<PlantedBug>,
        signed_days: i64,
        program: EditionName,
    ) -> Arc<Self> {
        Arc::new(Self {
            tape: tape.clone(),
            contents: Contents::default(),
            plant,
            signed_days,
            program,
            inner: Mutex::default(),
        })
    }

    pub(crate) fn plant(&self) -> Option<PlantedBug> {
        self.plant
    }

    /// Returns the contents behind the digests that the journal allows to be signed.
    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    pub(crate) fn tape(&self) -> &Tape {
        &self.tape
    }

    pub(crate) fn arm(&self, point: &'static str, after: u32) {
        self.inner.lock().unwrap().death = Some((point, after));
    }

    /// Disarms the fault point. Returns the point at which the process died, if it did.
    pub(crate) fn disarm(&self) -> Option<&'static str> {
        let mut inner = self.inner.lock().unwrap();
        inner.death = None;
        inner.died.take()
    }

    /// Returns whether the process survives this fault point.
    pub(crate) fn survives(&self, point: &'static str) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let Some((at, left)) = &mut inner.death else { return true };
        if *at != point {
            return true;
        }
        if *left > 0 {
            *left -= 1;
            return true;
        }
        inner.died = Some(point);
        false
    }

    /// Returns whether the process died inside the store. The caller of the commit cannot see that.
    pub(crate) fn has_died(&self) -> bool {
        self.inner.lock().unwrap().died.is_some()
    }

    /// Planted bug: forgets signed requests by the wall clock. Returns the first day that the wallet remembers.
    pub(crate) fn forgotten_day(&self) -> u32 {
        let mut inner = self.inner.lock().unwrap();
        let today = inner.wall_s.div_euclid(86_400);
        inner.forgotten = u32::try_from(today - self.signed_days).unwrap_or(0);
        inner.forgotten
    }

    pub(crate) fn forgotten(&self) -> u32 {
        self.inner.lock().unwrap().forgotten
    }

    /// From now on, shows the auditor the journal's records of devices.
    pub(crate) fn watch_devices(&self) {
        self.inner.lock().unwrap().of_devices.watch();
    }

    /// Notes a commit. The next decision begins a new batch.
    pub(crate) fn note_commit(&self) {
        let mut inner = self.inner.lock().unwrap();
        inner.before = None;
        inner.of_devices.commit(&self.tape);
    }

    /// Notes that a process begins to read the journal.
    pub(crate) fn note_start(&self) {
        let mut inner = self.inner.lock().unwrap();
        inner.loans.starts = true;
        inner.of_devices.start();
    }

    /// Notes that a process has read the journal, whose last entry is `head`.
    pub(crate) fn note_journal_read(&self, head: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.loans.starts = false;
        inner.of_devices.end_start(head, &self.tape);
    }

    /// Returns the same planted bug for a replay by the program of an edition, without fault points.
    pub(crate) fn for_replay(&self, program: EditionName) -> Arc<Self> {
        Self::new(&Tape::default(), self.plant, self.signed_days, program)
    }
}

impl Failpoints for WorldFaults {
    fn hit(&self, point: &'static str) -> io::Result<()> {
        if !self.survives(point) {
            self.tape.die();
        }
        Ok(())
    }
}

impl MutatedRules for WorldFaults {
    fn decide(&self, state: &State, command: &Command) -> Result<Decision, Refusal> {
        let Some(plant) = self.plant else { return bursar_domain::decide(state, command) };
        self.inner.lock().unwrap().wall_s = command.moment.utc.seconds();
        let (mut state, mut command) = (state.clone(), command.clone());
        if plant == PlantedBug::LimitReadOutside {
            let mut inner = self.inner.lock().unwrap();
            let before = inner.before.get_or_insert_with(|| state.clone());
            if let Action::Ask(ask) = &command.action
                && let (Some(then), Some(now)) =
                    (before.agents.get(&ask.agent), state.agents.get(&ask.agent))
            {
                let mut agent = (**now).clone();
                agent.commission.clone_from(&then.commission);
                agent.reserved = then.reserved;
                Arc::make_mut(&mut state.agents).insert(ask.agent.clone(), Arc::new(agent));
            }
        }
        change_input(plant, &mut state, &mut command);
        trade_faults::change_input(plant, &mut state, &mut command);
        let memory = &mut self.inner.lock().unwrap().loans;
        loan_faults::change_input(plant, memory, &mut state, &mut command)?;
        device_faults::change_input(plant, &mut state, &mut command);
        let mut decision = match bursar_domain::decide(&state, &command) {
            Err(refusal) => device_faults::decision_instead_of(plant, &command, refusal)?,
            Ok(decision) => decision,
        };
        trade_faults::change_output(plant, &command, &mut decision);
        device_faults::change_output(plant, &state, &command, &mut decision);
        Ok(change_output(plant, &state, &command, decision))
    }

    fn apply(&self, state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
        let held = match &entry.event {
            Event::RequestDenied { id, .. }
            | Event::RequestExpired { id, .. }
            | Event::PaymentApproved { id, .. } => state.held.get(id).cloned(),
            _other => None,
        };
        let running = match &entry.event {
            Event::StepEnded { id, .. } | Event::ExecutionEnded { id, .. }
                if self.plant.is_some() =>
            {
                state.executing.get(id).cloned()
            }
            Event::RequestDenied { id, .. } | Event::RequestExpired { id, .. }
                if self.plant.is_some() =>
            {
                state.held.get(id).cloned()
            }
            _other => None,
        };
        if let Some(plant) = self.plant {
            device_faults::change_before_entry(plant, state, entry);
        }
        let touched = bursar_domain::apply(state, entry);
        if self.plant == Some(PlantedBug::EditionUnread) {
            state.journal_edition = self.program;
        }
        if let Some(plant) = self.plant {
            device_faults::change_after_entry(plant, state, entry);
            trade_faults::change_state(plant, state, running.as_deref(), &entry.event);
            let memory = &mut self.inner.lock().unwrap().loans;
            loan_faults::change_state(plant, memory, state, running.as_deref(), &entry.event);
        }
        self.contents.record_entry(state, entry);
        self.inner.lock().unwrap().of_devices.add(state, entry);
        let count = {
            let mut inner = self.inner.lock().unwrap();
            inner.applied += 1;
            inner.applied
        };
        if let (
            Some(PlantedBug::CommissionRenews),
            Event::AgentCommissioned { agent, before: Some(_), .. },
        ) = (self.plant, &entry.event)
        {
            with_spent(state, agent, |_start, _spent| Usd::ZERO);
        }
        let (Some(plant), Some(held)) = (self.plant, held) else { return touched };
        let denied = matches!(entry.event, Event::RequestDenied { .. });
        let approved = matches!(entry.event, Event::PaymentApproved { .. });
        with_spent(state, &held.agent, |start, spent| match plant {
            PlantedBug::DoubleReturn if !approved => spent.left_after(held.ask.usd()),
            PlantedBug::DeniedNotReturned if denied => {
                Usd(spent.0.saturating_add(held.ask.usd().0))
            }
            PlantedBug::CarriedUncounted if approved && held.created < start.utc => {
                spent.left_after(held.ask.usd())
            }
            PlantedBug::ReplayByOrder => Usd(spent.0.saturating_add(count % 2)),
            _other => spent,
        });
        touched
    }
}

fn with_spent(
    state: &mut State,
    agent: &bursar_core::ids::AgentId,
    change: impl FnOnce(&WindowStart, Usd) -> Usd,
) {
    if let Some(agent) = Arc::make_mut(&mut state.agents).get_mut(agent)
        && let Some(given) = &mut Arc::make_mut(agent).commission
    {
        let window = &mut given.window;
        window.spent.payment = change(&window.start, window.spent.payment);
    }
}

fn change_input(plant: PlantedBug, state: &mut State, command: &mut Command) {
    match (plant, &mut command.action) {
        (PlantedBug::ThresholdIncluded, Action::Ask(_)) => {
            for record in Arc::make_mut(&mut state.policies).values_mut() {
                let payments = &mut Arc::make_mut(record).policy.payments;
                if payments.auto_below > Usd::ZERO {
                    payments.auto_below.0 += 1;
                }
            }
        }
        (PlantedBug::UnattendedUnlimited, Action::Ask(_)) => state.unattended.active = false,
        (PlantedBug::UnattendedAgain, Action::RecordUnlock { .. }) => state.unattended.day = None,
        (PlantedBug::OldLimitApproved, Action::Approve(_)) => {
            for record in Arc::make_mut(&mut state.policies).values_mut() {
                let payments = &mut Arc::make_mut(record).policy.payments;
                payments.per_request.0 = payments.per_request.0.saturating_mul(1000);
                payments.daily.0 = payments.daily.0.saturating_mul(1000);
            }
        }
        (PlantedBug::DisabledSigned, Action::Approve(_)) => {
            Arc::make_mut(&mut state.networks).values_mut().for_each(|enabled| *enabled = true);
        }
        (PlantedBug::UnprovenBackwards, Action::Report(report)) if !report.is_proven => {
            report.context.settlement = None;
        }
        (PlantedBug::ExpiryLate, Action::Approve(_)) => {
            command.moment.utc = command.moment.utc.plus_ms(-1);
            command.moment.boottime_ms = command.moment.boottime_ms.saturating_sub(1);
        }
        (PlantedBug::BootClockIgnored, Action::Tick) => {
            command.moment.boot_id = "another boot".to_owned();
        }
        (PlantedBug::KeyUnbound, Action::Ask(ask)) => ask.prior.last_with_key = None,
        (PlantedBug::DenialForgotten, Action::Ask(ask)) => {
            let bearer = ask.identity.claim_key().is_some()
                || ask.identity.index_key().first() == Some(&b'b');
            let denied = ask
                .prior
                .newest
                .as_ref()
                .is_some_and(|r| matches!(r.status, Status::Denied { .. }));
            if bearer && denied {
                ask.prior.newest = None;
            }
        }
        (PlantedBug::LateSettledForgotten, Action::Ask(ask)) => {
            let newest = ask.prior.newest.as_ref().map(|same| same.id);
            ask.prior.settled_payment =
                ask.prior.settled_payment.take().filter(|paid| Some(paid.id) == newest);
        }
        (PlantedBug::OtherUrlUnjudged, Action::Ask(ask)) => {
            if let Some(same) = &ask.prior.newest
                && let LaneAsk::Payment(first) = &same.ask
                && let Some(payment) = ask.ask.payment_mut()
            {
                payment.request_url.clone_from(&first.request_url);
            }
        }
        _other => {}
    }
}

fn change_output(
    plant: PlantedBug,
    state: &State,
    command: &Command,
    mut decision: Decision,
) -> Decision {
    for event in &mut decision.events {
        match (plant, event) {
            (PlantedBug::LazyAllowance, Event::AllowanceRenewed { start, .. }) => {
                start.utc = command.moment.utc;
            }
            (PlantedBug::ValidityFromAsk, Event::PaymentApproved { id, terms, .. }) => {
                if let Some(held) = state.held.get(id) {
                    let late = command.moment.utc.since_ms(held.created) / 1000;
                    terms.valid_before -= late.unsigned_abs();
                }
            }
            _other => {}
        }
    }
    decision
}
