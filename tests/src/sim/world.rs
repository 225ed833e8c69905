//! The world: carries out a plan step by step, and lets the auditor see all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bursar_auditor::seen::{Answer, Ask, Call, Clocks, End, Payment, Seen, Ticket};
use bursar_auditor::{Auditor, Facts, NetworkFact};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{Chain, Clock};
use bursar_core::networks::{ChainId, NETWORKS};
use bursar_core::time::Utc;
use bursar_domain::Status;
use bursar_engine::journal::MemoryStore;
use bursar_engine::ports::{Chains, Random};
use serde_json::Value;
use tempfile::TempDir;

use super::chain::WorldChain;
use super::faults::{Plant, WorldFaults};
use super::image::Image;
use super::life::{Around, Life};
use super::plan::{POINTS, Plan, Step, Swarm, ZONES};
use super::store::{Health, WorldStore};
use super::tape::Tape;
use crate::agent::Agent;
use crate::dice::Dice;
use crate::engine::{NEW_YEAR_S, test_edition};

/// How long a machine takes to start. A boot clock that shows zero is taken for none.
const BOOT_MS: i64 = 30_000;

/// The engine looks at its clock every second.
const NOTICED_MS: u64 = 1_001;

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub seen: u64,
    pub lives: u32,
    /// At which points the process died.
    pub deaths: BTreeMap<&'static str, u64>,
    /// Codes that agents and operators were told.
    pub codes: BTreeMap<String, u64>,
    /// What the auditor had to judge.
    pub judged: BTreeMap<&'static str, u64>,
    /// What was seen last: the same seed gives the same.
    pub tail: Vec<String>,
}

/// Why a run failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step after which it was noticed.
    pub step: usize,
    pub rule: String,
    pub what: String,
    /// The last that was seen before.
    pub tail: Vec<String>,
}

/// Runs a plan to its end.
///
/// # Errors
/// What the auditor, or the world itself, objects to.
pub fn run(plan: &Plan, plant: Option<Plant>) -> Result<Outcome, Failure> {
    run_telling(plan, plant, false)
}

/// The same, and what was seen goes into the outcome.
///
/// # Errors
/// As [`run`].
pub fn run_telling(plan: &Plan, plant: Option<Plant>, tells: bool) -> Result<Outcome, Failure> {
    let mut world = World::new(plan, plant);
    let ran = catch_unwind(AssertUnwindSafe(|| world.live(plan)));
    let step = world.at;
    let told = |(at, seen): (usize, Seen)| format!("{at}: {seen:?}");
    let tail = std::mem::take(&mut world.tail);
    let tail = || tail.into_iter().map(told).collect::<Vec<String>>();
    match ran {
        Ok(Ok(())) if tells => Ok(Outcome { tail: tail(), ..world.end() }),
        Ok(Ok(())) => Ok(world.end()),
        Ok(Err((rule, what))) => Err(Failure { step, rule, what, tail: tail() }),
        Err(thrown) => {
            let what = thrown.downcast_ref::<String>().cloned();
            let what = what.or(thrown.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let what = what.unwrap_or_else(|| "something".to_owned());
            Err(Failure { step, rule: "panic".to_owned(), what, tail: tail() })
        }
    }
}

/// Entropy from the seed.
#[derive(Debug)]
pub(crate) struct WorldRandom {
    dice: Mutex<Dice>,
    plant: Option<Plant>,
    last: Mutex<Option<Vec<u8>>>,
}

impl Random for WorldRandom {
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()> {
        let mut dice = self.dice.lock().unwrap();
        dice.fill(bytes);
        if self.plant == Some(Plant::NonceReused) && bytes.len() == 32 {
            let mut last = self.last.lock().unwrap();
            if let Some(last) = last.as_ref()
                && dice.chance(1, 8)
            {
                bytes.copy_from_slice(last);
            }
            *last = Some(bytes.to_vec());
        }
        Ok(())
    }
}

/// One `/sign` that was said: to be said again.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) agent: usize,
    pub(super) ask: Ask,
    pub(super) body: Value,
}

/// An agent as the world holds its credentials.
#[derive(Debug, Clone)]
pub(super) struct Hand {
    pub(super) agent: Agent,
}

pub(super) type Trouble = (String, String);

pub(super) struct World {
    pub(super) swarm: Swarm,
    pub(super) dice: Dice,
    pub(super) clock: Arc<ManualClock>,
    zone: &'static str,
    boot: u32,
    /// What an honest clock would show.
    honest: Utc,
    block_off_ms: Option<i64>,
    pub(super) chains: Vec<Arc<WorldChain>>,
    ports: Chains,
    pub(super) faults: Arc<WorldFaults>,
    random: Arc<WorldRandom>,
    disk: MemoryStore,
    pub(super) health: Arc<Mutex<Health>>,
    pub(super) tape: Tape,
    auditor: Auditor,
    pub(super) life: Option<Life>,
    folder: PathBuf,
    _home: TempDir,
    pub(super) at: usize,
    pub(super) together: bool,
    ticket: Ticket,
    pub(super) hands: Vec<Hand>,
    pub(super) said: Vec<Said>,
    pub(super) ids: Vec<String>,
    pub(super) payments: Vec<(String, Payment)>,
    pub(super) cards: Vec<(String, String)>,
    pub(super) number: u64,
    pub(super) next_index: u32,
    /// Credentials that were shown and not taken up yet.
    pub(super) learnt: Arc<Mutex<Vec<(String, Agent)>>>,
    /// Ids that were signed and of which nobody was told yet.
    untold: BTreeSet<String>,
    /// Steps until a failed disk is noticed and the process started anew.
    noticed: Option<u32>,
    outcome: Outcome,
    tail: Vec<(usize, Seen)>,
}

impl World {
    /// With a furnished wallet.
    fn new(plan: &Plan, plant: Option<Plant>) -> Self {
        let image = Image::get();
        let mut world = Self::bare(plan, plant);
        world.disk = image.copy_to(&world.folder);
        (world.ticket, world.next_index) = (image.ticket, image.next_index);
        image.seen.iter().for_each(|seen| world.tape.write(seen.clone()));
        world
    }

    /// Makes the wallet that every world begins with.
    pub(super) fn furnished(mut self) -> Result<Image, Trouble> {
        self.begin()?;
        self.furnish()?;
        if let Some(life) = self.life.take() {
            life.stop();
        }
        self.tape.write(Seen::Stopped);
        self.hear()?;
        let seen = self.tail.into_iter().map(|(_at, seen)| seen).collect();
        Ok(Image::of(&self.folder, &self.disk, seen, self.ticket, self.next_index))
    }

    /// With an empty folder.
    pub(super) fn bare(plan: &Plan, plant: Option<Plant>) -> Self {
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
        let chains: Vec<Arc<WorldChain>> =
            [8453, 4663].into_iter().map(|id| Arc::new(WorldChain::new(ChainId(id)))).collect();
        let ports: Chains = if plan.swarm.blocks {
            let each = [8453, 4663].into_iter().zip(&chains);
            each.map(|(id, chain)| (ChainId(id), Arc::clone(chain) as Arc<dyn Chain>)).collect()
        } else {
            Chains::default()
        };
        let networks = NETWORKS.iter().map(|row| NetworkFact {
            chain: row.chain.0,
            on: row.on_by_default,
            stablecoin: format!("{:#x}", row.stablecoin.address),
        });
        Self {
            swarm: plan.swarm,
            dice: Dice::new(plan.seed ^ 0x5eed),
            clock,
            zone: "UTC",
            boot: 1,
            honest: start,
            block_off_ms: plan.swarm.blocks.then_some(0),
            chains,
            ports,
            faults: WorldFaults::new(&tape, plant),
            random: Arc::new(WorldRandom {
                dice: Mutex::new(Dice::new(plan.seed ^ 0xfeed)),
                plant,
                last: Mutex::default(),
            }),
            disk: MemoryStore::default(),
            health: Arc::default(),
            auditor: Auditor::new(Facts { networks: networks.collect() }),
            tape,
            life: None,
            folder,
            _home: home,
            at: 0,
            together: false,
            ticket: 0,
            hands: Vec::new(),
            said: Vec::new(),
            ids: Vec::new(),
            payments: Vec::new(),
            cards: Vec::new(),
            number: 0,
            next_index: 0,
            learnt: Arc::default(),
            untold: BTreeSet::new(),
            noticed: None,
            outcome: Outcome::default(),
            tail: Vec::new(),
        }
    }

    fn live(&mut self, plan: &Plan) -> Result<(), Trouble> {
        self.hear()?;
        self.begin()?;
        self.order_open(true)?;
        self.create_policies()?;
        for (at, step) in plan.steps.iter().enumerate() {
            self.at = at;
            self.step(*step)?;
            if plan.watchful || at % 32 == 31 {
                self.compare_replay()?;
            }
        }
        self.at = plan.steps.len();
        self.calm_down()?;
        self.compare_replay()
    }

    fn end(mut self) -> Outcome {
        if let Some(life) = self.life.take() {
            life.stop();
        }
        self.outcome.judged.clone_from(self.auditor.reached());
        self.outcome
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.ticket += 1;
        self.ticket
    }

    pub(super) fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("it lives")
    }

    pub(super) fn begin(&mut self) -> Result<(), Trouble> {
        self.tape.revive();
        *self.health.lock().unwrap() = Health::Well;
        self.noticed = None;
        let store = WorldStore::new(&self.disk, &self.health, &self.faults);
        let around = Around {
            folder: &self.folder,
            clock: &self.clock,
            random: &self.random,
            faults: &self.faults,
            chains: &self.ports,
            tape: &self.tape,
            eager: self.swarm.eager,
        };
        self.life = Some(Life::begin(&around, Box::new(store)));
        self.outcome.lives += 1;
        self.tape.write(Seen::Started);
        self.show_clocks()?;
        self.settle()?;
        for id in std::mem::take(&mut self.untold) {
            self.poll(&id)?;
        }
        Ok(())
    }

    /// The process is gone, without a word.
    pub(super) fn die(&mut self) -> Result<(), Trouble> {
        self.tape.kill();
        self.hear()?;
        self.life = None;
        let point = self.faults.disarm().unwrap_or("anywhere");
        *self.outcome.deaths.entry(point).or_default() += 1;
        self.tape.revive();
        self.tape.write(Seen::Died);
        self.hear()?;
        self.begin()
    }

    pub(super) fn stop_and_start(&mut self, reboots: bool) -> Result<(), Trouble> {
        self.settle()?;
        self.faults.disarm();
        if let Some(life) = self.life.take() {
            life.stop();
        }
        self.hear()?;
        self.tape.write(Seen::Stopped);
        if reboots {
            self.boot += 1;
            self.clock.set_boot_id(&format!("boot-{}", self.boot));
            self.honest = self.honest.plus_ms(BOOT_MS);
            self.clock.advance(BOOT_MS.unsigned_abs());
        }
        self.hear()?;
        self.begin()
    }

    /// Lets everything come to rest, and the auditor hear of it.
    pub(super) fn settle(&mut self) -> Result<(), Trouble> {
        if !self.life().go_on() {
            return self.die();
        }
        self.hear()
    }

    fn hear(&mut self) -> Result<(), Trouble> {
        self.learn();
        for seen in self.tape.take() {
            self.note(&seen);
            if let Err(violation) = self.auditor.see(&seen) {
                return Err((violation.rule.to_owned(), violation.what));
            }
        }
        Ok(())
    }

    /// What the world remembers of what happens, to work on it later.
    fn note(&mut self, seen: &Seen) {
        self.outcome.seen += 1;
        if self.tail.len() >= 4000 {
            self.tail.drain(..2000);
        }
        self.tail.push((self.at, seen.clone()));
        match seen {
            Seen::Answered { answer, .. } => {
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
                    Answer::Standing(_) | Answer::Reported { .. } => None,
                };
                if let Some(id) = id {
                    self.untold.remove(id);
                    if !self.ids.contains(id) {
                        self.ids.push(id.clone());
                    }
                }
            }
            Seen::Signed(signed) => {
                if let Some(id) = &signed.request
                    && !self.ids.contains(id)
                {
                    self.untold.insert(id.clone());
                }
            }
            Seen::Obeyed { end: End::Refused { code }, .. } => {
                *self.outcome.codes.entry(code.clone()).or_default() += 1;
            }
            Seen::Obeyed { end: End::Waiting(cards), .. } => {
                self.cards.extend(cards.iter().map(|held| (held.id.clone(), held.card.clone())));
                let surplus = self.cards.len().saturating_sub(60);
                self.cards.drain(..surplus);
            }
            Seen::DiskFailed => self.noticed = Some(8),
            _other => {}
        }
    }

    /// The clocks as they are now, if the auditor has not heard of it.
    pub(super) fn show_clocks(&mut self) -> Result<(), Trouble> {
        let moment = self.clock.now();
        let block = self.block_off_ms.map(|off| self.honest.plus_ms(off));
        for chain in &self.chains {
            chain.set_block(block);
        }
        self.tape.write(Seen::Clocks(Clocks {
            wall_ms: moment.utc.0,
            zone: self.zone.to_owned(),
            boot: self.boot,
            boot_ms: moment.boottime_ms,
            block_ms: block.map(|block| block.0),
        }));
        self.hear()
    }

    pub(super) fn pass(&mut self, ms: u64) -> Result<(), Trouble> {
        self.honest = self.honest.plus_ms(i64::try_from(ms).unwrap_or(0));
        self.clock.advance(ms);
        self.show_clocks()?;
        self.settle()?;
        if ms >= 100 {
            self.life().rest();
            self.settle()?;
        }
        Ok(())
    }

    pub(super) fn set_clock(&mut self, ms: i64) -> Result<(), Trouble> {
        let to = self.clock.now().utc.plus_ms(ms);
        let least = Utc::from_seconds(NEW_YEAR_S - 400 * 86_400);
        let most = Utc::from_seconds(NEW_YEAR_S + 4000 * 86_400);
        self.clock.set_utc(to.clamp(least, most));
        self.show_clocks()?;
        self.settle()?;
        self.notice()
    }

    /// A moment in which the wallet sees what became of the clocks.
    fn notice(&mut self) -> Result<(), Trouble> {
        self.pass(NOTICED_MS)
    }

    pub(super) fn weather(&mut self, step: Step) -> Result<(), Trouble> {
        match step {
            Step::Pass { ms } => self.pass(ms),
            Step::ToExpiry { off_ms } => {
                let moment = self.clock.now();
                let held = self.life().core().state().held.values().cloned().collect::<Vec<_>>();
                let left = held.iter().filter_map(|request| match &request.status {
                    Status::Held { deadline, .. } => Some(deadline.left_ms(&moment)),
                    _other => None,
                });
                let Some(left) = left.filter(|left| *left > 1).min() else { return Ok(()) };
                self.pass(left.saturating_add_signed(off_ms))
            }
            Step::ToMidnight { off_ms } => {
                let now =
                    jiff::Timestamp::from_millisecond(self.clock.now().utc.0).expect("a time");
                let local = now.in_tz(self.zone).expect("a zone");
                let next = local.tomorrow().and_then(|day| day.start_of_day()).expect("a day");
                let ms = next.timestamp().as_millisecond() - now.as_millisecond() + off_ms;
                self.pass(u64::try_from(ms.max(0)).unwrap_or(0))
            }
            Step::SetClock { ms } => self.set_clock(ms),
            Step::Zone { which } => {
                self.zone = ZONES[which];
                self.clock.set_zone(self.zone).expect("a zone");
                self.show_clocks()?;
                self.settle()?;
                self.notice()
            }
            Step::Sleep { ms } => {
                self.honest = self.honest.plus_ms(i64::try_from(ms).unwrap_or(0));
                self.clock.suspend(ms);
                self.show_clocks()?;
                self.settle()?;
                self.notice()
            }
            Step::Block { ms } => {
                self.block_off_ms = ms;
                self.show_clocks()
            }
            _other => Ok(()),
        }
    }

    pub(super) fn count_down(&mut self) -> Result<(), Trouble> {
        match &mut self.noticed {
            Some(0) => self.die(),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The journal alone gives the state again.
    fn compare_replay(&mut self) -> Result<(), Trouble> {
        self.life().rest();
        self.settle()?;
        if *self.health.lock().unwrap() == Health::Failed || self.life().core().failed().is_some() {
            return Ok(());
        }
        let faults = self.faults.for_replay();
        let again = bursar_engine::core::Core::open(
            Box::new(self.disk.clone()),
            &test_edition(),
            Arc::default(),
            faults,
        );
        let again = again.map_err(|error| ("I-c".to_owned(), format!("no replay: {error}")))?;
        if again.state() != self.life().core().state() {
            let (now, then) = (self.life().core().state().clone(), again.state());
            return Err(("I-c".to_owned(), format!("now {now:#?}\n\nby the journal {then:#?}")));
        }
        Ok(())
    }

    /// Nothing fails any more, time passes: everything must come to its end.
    fn calm_down(&mut self) -> Result<(), Trouble> {
        self.together = false;
        self.faults.disarm();
        self.settle()?;
        if *self.health.lock().unwrap() != Health::Well || self.life().core().failed().is_some() {
            self.die()?;
        }
        let signer = Arc::clone(&self.life().signer);
        signer.set_slow(false);
        signer.release_all();
        self.settle()?;
        self.order_open(true)?;
        self.order_thaw(true)?;
        self.tape.write(Seen::Calm);
        for _turn in 0..6 {
            self.pass(180_000)?;
        }
        for id in self.ids.clone() {
            self.poll(&id)?;
        }
        for hand in 0..self.hands.len() {
            self.read_standing(hand)?;
        }
        self.tape.write(Seen::Over);
        self.hear()
    }

    fn step(&mut self, step: Step) -> Result<(), Trouble> {
        self.count_down()?;
        let was_together = std::mem::take(&mut self.together);
        match step {
            Step::Together => {
                self.together = true;
                return Ok(());
            }
            Step::Ask(_) | Step::Repeat { .. } | Step::Poll { .. } | Step::Standing { .. } => {}
            Step::Approve { .. } | Step::Deny { .. } | Step::Freeze | Step::Lock => {}
            Step::Suspend { .. } | Step::EditPolicy { .. } | Step::Commission { .. } => {}
            // Everything else comes alone.
            _alone if was_together => self.settle()?,
            _alone => {}
        }
        match step {
            Step::Ask(wish) => self.ask(&wish),
            Step::Repeat { pick, twist } => self.repeat(pick, twist),
            Step::Copies { wish, count } => self.copies(&wish, count),
            Step::Crowd { wish, count } => self.crowd(&wish, count),
            Step::Poll { pick } => match pick.of(self.ids.len()) {
                Some(at) => self.poll(&self.ids[at].clone()),
                None => Ok(()),
            },
            Step::Standing { agent } => match agent.of(self.hands.len()) {
                Some(at) => self.read_standing(at),
                None => Ok(()),
            },
            Step::Report { pick, event, hash, agent } => self.report(pick, event, hash, agent),
            Step::Redeem { pick } => self.redeem(pick),
            Step::Restart => self.stop_and_start(false),
            Step::Reboot => self.stop_and_start(true),
            Step::Crash => self.die(),
            Step::CrashAt { point, after } => {
                self.faults.arm(POINTS[point], after);
                Ok(())
            }
            Step::DiskFails { after, written } => {
                *self.health.lock().unwrap() = Health::Fails { after, written };
                Ok(())
            }
            Step::SlowSigner { slow } => {
                self.life().signer.set_slow(slow);
                if !slow {
                    self.life().signer.release_all();
                }
                self.settle()
            }
            Step::Release { agreed } => {
                self.life().signer.release(agreed);
                self.settle()
            }
            weather @ (Step::Pass { .. }
            | Step::ToExpiry { .. }
            | Step::ToMidnight { .. }
            | Step::SetClock { .. }
            | Step::Zone { .. }
            | Step::Sleep { .. }
            | Step::Block { .. }) => self.weather(weather),
            order => self.operate(order),
        }
    }

    pub(super) fn poll(&mut self, id: &str) -> Result<(), Trouble> {
        let call = Call::Poll { id: id.to_owned() };
        self.call(call, "GET", &format!("/sign/status/{id}"), None, super::wire::answer)
    }
}
