//! The world: executes a plan step by step, and shows the auditor everything that is visible from outside.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bursar_auditor::Auditor;
use bursar_auditor::observations::{
    Answer, Ask, End, Observation, Payment, Signed, SignedContent, Ticket, TradeAnswer, TradeState,
};
use bursar_chain::clock::manual::ManualClock;
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_devnet::agent::Agent;
use bursar_engine::ports::Chains;
use bursar_tests::dice::Dice;
use bursar_tests::engine::NEW_YEAR_S;
use serde_json::Value;
use tempfile::TempDir;

use crate::auditor_facts;
use crate::chain::WorldChain;
use crate::device::WorldDevice;
use crate::device_steps::DevicePayments;
use crate::disk::Disk;
use crate::evm;
use crate::faults::{PlantedBug, WorldFaults};
use crate::image::Image;
use crate::invariants::TradeFacts;
use crate::lending_policy;
use crate::loan_book::{LoanBook, LoanOrder};
use crate::loans::SentLoan;
use crate::patience::AwaitedAnswer;
use crate::plan::{JournalBounds, Plan, Swarm};
use crate::prices::WorldPrices;
use crate::process::Process;
use crate::random::WorldRandom;
use crate::run::Outcome;
use crate::signer;
use crate::store::DiskHealth;
use crate::tape::{Tape, TapeEntry};
use crate::trades::SentTrade;
use crate::wire;

/// The milliseconds that a machine takes to boot. Not zero, because a boot clock of zero counts as missing.
pub(crate) const BOOT_MS: i64 = 30_000;

/// One `/sign` request, kept so that it can be repeated.
#[derive(Debug, Clone)]
pub(crate) struct SentCall {
    pub(crate) agent: usize,
    pub(crate) ask: Ask,
    pub(crate) body: Value,
}

/// Opens the markets of a world that trades or lends. In some worlds, allowances from earlier exist.
fn open_markets(chains: &[Arc<WorldChain>], plan: &Plan, start: Utc, plant: Option<PlantedBug>) {
    let mut dice = Dice::new(plan.seed ^ 0xa110);
    let time = u64::try_from(start.seconds()).unwrap_or(0);
    for chain in chains {
        let id = ChainId(chain.id());
        let mut state = evm::initial(id, signer::addresses());
        if dice.chance(1, 3) {
            evm::leave_allowances(&mut state, id, signer::addresses(), &mut dice);
        }
        if plan.swarm.loans {
            evm::venues::open_venues(&mut state, &evm::Contracts::of(id), time);
        }
        state.price_by_dust = plant == Some(PlantedBug::ImpactByDust);
        chain.open_market(state, time);
        if plant == Some(PlantedBug::SwapBeforeApproval) {
            chain.with_ledger(|ledger| {
                ledger.pretends_allowances = signer::addresses().to_vec();
            });
        }
    }
}

/// The rule that a world broke, and a description.
pub(crate) type WorldFailure = (String, String);

/// Which steps run concurrently; see `Step::Together`.
#[derive(Debug, Default)]
pub(crate) struct Concurrency {
    /// Whether calls and orders stay in flight, so that the world does not wait for them.
    pub(crate) keeps_in_flight: bool,
    /// Whether the next step stays in flight.
    pub(crate) holds_next: bool,
    /// Whether a call or order of the last step is in flight.
    pub(crate) last_is_in_flight: bool,
}

pub(crate) struct World {
    pub(crate) swarm: Swarm,
    pub(crate) bounds: JournalBounds,
    pub(crate) dice: Dice,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) zone: &'static str,
    pub(crate) boot: u32,
    /// The time on a correct clock.
    pub(crate) true_time: Utc,
    pub(crate) block_offset_ms: Option<i64>,
    /// The true time when the clocks were last shown. `newest_block` is the time of the newest block at that moment.
    pub(crate) shown_time: Utc,
    pub(crate) newest_block: Utc,
    pub(crate) prices: Arc<WorldPrices>,
    /// The current faults of the price sources; see `Step::Prices`.
    pub(crate) price_faults: u8,
    pub(crate) chains: Vec<Arc<WorldChain>>,
    pub(crate) ports: Chains,
    pub(crate) faults: Arc<WorldFaults>,
    pub(crate) random: Arc<WorldRandom>,
    pub(crate) disk: Disk,
    pub(crate) health: Arc<Mutex<DiskHealth>>,
    pub(crate) tape: Tape,
    pub(crate) auditor: Auditor,
    pub(crate) process: Option<Process>,
    pub(crate) folder: PathBuf,
    _home: TempDir,
    pub(crate) step_number: usize,
    pub(crate) concurrency: Concurrency,
    pub(crate) ticket: Ticket,
    /// The call and answer of a patient client.
    pub(crate) awaited_answer: AwaitedAnswer,
    /// The order whose password is being checked or queued for checking.
    pub(crate) password_order: Option<Ticket>,
    /// The agents and their credentials.
    pub(crate) agents: Vec<Agent>,
    pub(crate) sent_calls: Vec<SentCall>,
    pub(crate) sent_trades: Vec<SentTrade>,
    pub(crate) ids: Vec<String>,
    pub(crate) trade_ids: Vec<String>,
    pub(crate) payments: Vec<(String, Payment)>,
    pub(crate) cards: Vec<(String, String)>,
    pub(crate) request_number: u64,
    pub(crate) next_index: u32,
    /// Credentials that operators were shown but that are not in `agents` yet.
    pub(crate) new_credentials: Arc<Mutex<Vec<Agent>>>,
    /// Ids of signed requests that no response has returned yet.
    pub(crate) unreturned_ids: BTreeSet<String>,
    /// Ids of signed trades that no response has returned yet.
    pub(crate) unreturned_trades: BTreeSet<String>,
    /// Ids of signed loans that no response has returned yet.
    pub(crate) unreturned_loans: BTreeSet<String>,
    pub(crate) facts: TradeFacts,
    pub(crate) loans: LoanBook,
    pub(crate) sent_loans: Vec<SentLoan>,
    pub(crate) loan_ids: Vec<String>,
    /// The hardware device; `None` in a world without one.
    pub(crate) device: Option<Arc<WorldDevice>>,
    pub(crate) device_payments: DevicePayments,
    /// The lending variant with which each policy was created.
    pub(crate) lending_variants: [usize; 4],
    /// Steps until the failed disk is noticed and the process restarted.
    pub(crate) steps_until_restart: Option<u32>,
    pub(crate) outcome: Outcome,
    pub(crate) tail: Vec<(usize, TapeEntry)>,
}

impl World {
    /// Creates a world with a wallet that is already set up.
    pub(crate) fn new(plan: &Plan, plant: Option<PlantedBug>) -> Self {
        let image = Image::get(plan.swarm.edition, plan.swarm.sectors);
        let mut world = Self::with_empty_folder(plan, plant);
        world.disk = image.copy_to(&world.folder, plan.bounds.carry_bytes);
        (world.ticket, world.next_index) = (image.ticket, image.next_index);
        image.observations.iter().for_each(|seen| world.tape.write(seen.clone()));
        world
    }

    /// Builds the wallet with which every world begins.
    pub(crate) fn build_image(mut self) -> Result<Image, WorldFailure> {
        self.begin()?;
        self.set_up_wallet()?;
        if let Some(process) = self.process.take() {
            process.stop();
        }
        self.tape.write(Observation::Stopped);
        self.feed_auditor()?;
        let public = |(_at, seen)| match seen {
            TapeEntry::Public(seen) => Some(seen),
            TapeEntry::Audited(_) | TapeEntry::Loan(_) => None,
        };
        let seen = self.tail.into_iter().filter_map(public).collect();
        Ok(Image::of(&self.folder, &self.disk, seen, self.ticket, self.next_index))
    }

    /// Creates a world with an empty data folder.
    pub(crate) fn with_empty_folder(plan: &Plan, plant: Option<PlantedBug>) -> Self {
        let tape = Tape::default();
        let shm = std::path::Path::new("/dev/shm");
        let home = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        let home = home.expect("a folder");
        let folder = home.path().join("data");
        bursar_engine::service::data_dir::DataFolder::open(&folder).expect("a folder");
        let settings = "[server]\nrate_per_minute = 10000000\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(folder.join("settings.toml"), settings).expect("settings");
        let start = Utc::from_seconds(NEW_YEAR_S);
        let clock = Arc::new(ManualClock::new(start.plus_ms(-BOOT_MS)));
        clock.advance(BOOT_MS.unsigned_abs());
        let edition = plan.swarm.edition;
        let chains: Vec<Arc<WorldChain>> = wire::chains(edition)[..2]
            .iter()
            .map(|id| Arc::new(WorldChain::new(ChainId(*id), &tape, &clock, plant)))
            .collect();
        if plan.swarm.has_markets() {
            open_markets(&chains, plan, start, plant);
        }
        let has_nodes = plan.swarm.blocks || plan.swarm.has_markets();
        let each = chains.iter().filter(|_chain| has_nodes);
        let ports = each.map(|chain| (ChainId(chain.id()), Arc::clone(chain) as _)).collect();
        Self {
            swarm: plan.swarm,
            bounds: plan.bounds,
            dice: Dice::new(plan.seed ^ 0x5eed),
            clock: Arc::clone(&clock),
            zone: "UTC",
            boot: 1,
            true_time: start,
            block_offset_ms: has_nodes.then_some(0),
            shown_time: start,
            newest_block: start,
            prices: Arc::new(WorldPrices::new(&tape, &clock, plant)),
            price_faults: 0,
            chains,
            ports,
            faults: WorldFaults::new(&tape, plant, plan.bounds.signed_days, edition),
            random: Arc::new(WorldRandom::new(plan.seed ^ 0xfeed, plant)),
            disk: Disk::new(plan.swarm.sectors, plan.bounds.carry_bytes),
            health: Arc::default(),
            auditor: Auditor::new(auditor_facts::of_networks(edition, plan.bounds.signed_days))
                .with_lending(&auditor_facts::of_lending(plan.swarm.loans)),
            process: None,
            folder,
            _home: home,
            step_number: 0,
            concurrency: Concurrency::default(),
            ticket: 0,
            awaited_answer: AwaitedAnswer::default(),
            password_order: None,
            agents: Vec::new(),
            sent_calls: Vec::new(),
            sent_trades: Vec::new(),
            ids: Vec::new(),
            trade_ids: Vec::new(),
            payments: Vec::new(),
            cards: Vec::new(),
            request_number: 0,
            next_index: 0,
            new_credentials: Arc::default(),
            unreturned_ids: BTreeSet::new(),
            unreturned_trades: BTreeSet::new(),
            unreturned_loans: BTreeSet::new(),
            facts: TradeFacts::default(),
            loans: LoanBook::default(),
            sent_loans: Vec::new(),
            loan_ids: Vec::new(),
            device: plan.swarm.devices.then(|| WorldDevice::new(&tape, plant, plan.swarm.trades)),
            device_payments: DevicePayments::default(),
            lending_variants: lending_policy::draw(plan.seed),
            steps_until_restart: None,
            outcome: Outcome::default(),
            tail: Vec::new(),
            tape,
        }
    }

    pub(crate) fn run(&mut self, plan: &Plan) -> Result<(), WorldFailure> {
        self.run_steps(plan)?;
        self.finish()?;
        self.check_allowances()?;
        self.compare_replay()?;
        self.check_other_editions()
    }

    pub(crate) fn run_steps(&mut self, plan: &Plan) -> Result<(), WorldFailure> {
        self.feed_auditor()?;
        for chain in &self.chains {
            chain.show_allowances(signer::addresses());
        }
        self.note_allowances();
        self.begin()?;
        self.order_open(true)?;
        self.create_policies()?;
        self.set_up_device()?;
        for (at, step) in plan.steps.iter().enumerate() {
            self.step_number = at;
            self.step(*step)?;
            if (plan.watchful || at % 32 == 31) && !self.concurrency.last_is_in_flight {
                self.compare_replay()?;
            }
        }
        self.step_number = plan.steps.len();
        Ok(())
    }

    pub(crate) fn end(mut self) -> Outcome {
        if let Some(process) = self.process.take() {
            process.stop();
        }
        self.outcome.rule_counts.clone_from(self.auditor.rule_counts());
        self.outcome
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.ticket += 1;
        self.ticket
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("a running process")
    }

    pub(crate) fn feed_auditor(&mut self) -> Result<(), WorldFailure> {
        self.take_credentials();
        for seen in self.tape.take() {
            let seen = match seen {
                TapeEntry::Public(seen) => {
                    self.note_observation(&seen);
                    self.check_transaction(&seen)?;
                    seen
                }
                TapeEntry::Audited(seen) => {
                    if let Observation::Device(seen) = &seen {
                        self.device_payments.keep_ids(seen);
                    }
                    self.keep_for_tail(TapeEntry::Audited(seen.clone()));
                    seen
                }
                TapeEntry::Loan(seen) => {
                    self.note_loan(seen)?;
                    continue;
                }
            };
            self.awaited_answer.note(&seen);
            if let Err(violation) = self.auditor.observe(&seen) {
                return Err((violation.rule.to_owned(), violation.what));
            }
        }
        Ok(())
    }

    /// Keeps an entry of the tape for the description of a failure.
    fn keep_for_tail(&mut self, seen: TapeEntry) {
        if self.tail.len() >= 4000 {
            self.tail.drain(..2000);
        }
        self.tail.push((self.step_number, seen));
    }

    /// Returns the journal's record of a signature for a loan; `None` for other signatures.
    pub(crate) fn loan_order(&self, signed: &Signed) -> Option<LoanOrder> {
        let (signer, digest) = (signed.signer.parse().ok()?, signed.digest.parse().ok()?);
        self.faults.contents().loan(signer, digest)
    }

    /// Keeps ids, payments and cards for later steps, and counts the observation in the outcome.
    fn note_observation(&mut self, seen: &Observation) {
        self.outcome.observations += 1;
        self.keep_for_tail(TapeEntry::Public(seen.clone()));
        match seen {
            Observation::OrderEnded { ticket, .. } if self.password_order == Some(*ticket) => {
                self.password_order = None
            }
            Observation::Died | Observation::Stopped => self.password_order = None,
            _other => {}
        }
        match seen {
            Observation::Answered { answer, .. } => {
                let id = match answer {
                    Answer::Header { id, payment } => {
                        if !self.payments.iter().any(|(known, _)| known == id) {
                            self.payments.push((id.clone(), payment.clone()));
                        }
                        Some(id)
                    }
                    Answer::Pending { id }
                    | Answer::Executing { id }
                    | Answer::AlreadySigned { id }
                    | Answer::Rejected { id, .. } => Some(id),
                    Answer::Refused { code, id, .. } => {
                        *self.outcome.codes.entry(code.clone()).or_default() += 1;
                        id.as_ref()
                    }
                    Answer::Trade(trade) => {
                        self.note_trade(trade);
                        None
                    }
                    Answer::Loan(_) | Answer::Standing(_) | Answer::Reported { .. } => None,
                };
                if let Some(id) = id {
                    self.unreturned_ids.remove(id);
                    if !self.ids.contains(id) {
                        self.ids.push(id.clone());
                    }
                }
            }
            Observation::Signed(signed) if self.loan_order(signed).is_some() => {
                if let Some(id) = &signed.request
                    && !self.loan_ids.contains(id)
                {
                    self.unreturned_loans.insert(id.clone());
                }
            }
            Observation::Signed(signed) => {
                let trade = signed.content != SignedContent::Undecodable;
                let (known, unreturned) = if trade {
                    (&self.trade_ids, &mut self.unreturned_trades)
                } else {
                    (&self.ids, &mut self.unreturned_ids)
                };
                if let Some(id) = &signed.request
                    && !known.contains(id)
                {
                    unreturned.insert(id.clone());
                }
            }
            Observation::OrderEnded { end: End::Refused { code }, .. } => {
                *self.outcome.codes.entry(code.clone()).or_default() += 1;
            }
            Observation::OrderEnded { end: End::Held(cards), .. } => {
                self.cards.extend(cards.iter().map(|held| (held.id.clone(), held.card.clone())));
                let surplus = self.cards.len().saturating_sub(60);
                self.cards.drain(..surplus);
            }
            Observation::DiskFailed => self.steps_until_restart = Some(8),
            _other => {}
        }
    }

    fn check_transaction(&mut self, seen: &Observation) -> Result<(), WorldFailure> {
        match seen {
            Observation::Signed(signed) => match self.loan_order(signed) {
                Some(order) => self.check_loan_order(&order, signed),
                None => self.check_signed(signed),
            },
            Observation::Included(included) => self.check_included(included),
            Observation::Unmined { hash, .. } => {
                self.forget_unmined(hash);
                self.loans.forget(hash);
                Ok(())
            }
            Observation::NonceTaken { .. } => {
                self.facts.was_displaced = true;
                Ok(())
            }
            _other => Ok(()),
        }
    }

    fn note_trade(&mut self, answer: &TradeAnswer) {
        let code = match &answer.state {
            TradeState::Executed { .. } => Some("EXECUTED".to_owned()),
            TradeState::Rejected { reason_code, .. } => reason_code.clone(),
            TradeState::Failed { code } => code.clone(),
            TradeState::Pending | TradeState::Executing => None,
        };
        if let Some(code) = code {
            *self.outcome.codes.entry(code).or_default() += 1;
        }
        let Some(id) = &answer.id else { return };
        self.unreturned_trades.remove(id);
        if !self.trade_ids.contains(id) {
            self.trade_ids.push(id.clone());
        }
    }

    /// Stops all faults and lets time pass until all pending work must have finished.
    fn finish(&mut self) -> Result<(), WorldFailure> {
        self.faults.disarm();
        self.settle()?;
        if *self.health.lock().unwrap() != DiskHealth::Healthy
            || self.process().core().failure().is_some()
        {
            self.die()?;
        }
        let signer = Arc::clone(&self.process().signer);
        signer.set_slow(false);
        signer.release_all();
        self.calm_device()?;
        self.end_market_trouble();
        if self.swarm.has_markets() && self.block_offset_ms.is_none() {
            self.block_offset_ms = Some(0);
        }
        self.settle()?;
        // This is long enough for queued passwords to be checked after wrong ones.
        self.pass(300_000)?;
        if !self.process().is_open() {
            self.order_open(true)?;
        }
        self.pass(30_000)?;
        self.order_thaw(true)?;
        self.pass(30_000)?;
        self.tape.write(Observation::Calm);
        for _turn in 0..6 {
            if self.swarm.trades {
                self.attend_device(8)?;
            }
            self.pass(180_000)?;
        }
        self.exit_all()?;
        for id in self.ids.clone() {
            self.poll(&id)?;
        }
        for id in self.trade_ids.clone() {
            self.poll_trade(&id)?;
        }
        for id in self.loan_ids.clone() {
            self.poll_loan(&id)?;
        }
        self.check_loans_over()?;
        for agent in 0..self.agents.len() {
            self.read_standing(agent)?;
        }
        self.poll_device_payments(true)?;
        self.poll_device_trades(true)?;
        self.tape.write(Observation::Over);
        self.feed_auditor()
    }
}
