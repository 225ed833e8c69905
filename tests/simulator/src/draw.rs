//! Draws plans from seeds, and sets the frequency of each step.

use bursar_core::edition::{EditionName, EditionRules};
use bursar_core::lane::Lane;
use bursar_tests::dice::Dice;

use crate::draw_trades;
use crate::plan::{
    CardChoice, FAULT_POINTS, JournalBounds, Oddity, PAYMENT_POINT_COUNT, Pick, Plan,
    PlannedPayment, PlannedTrade, RepeatVariant, Size, Step, Swarm, UNPROVEN_EVENTS, ZONES,
};
use crate::wire::{POLICIES, URLS};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Limits of unattended days in micro-dollars, from less than one payment to more than all payments together.
const UNATTENDED_DAILY: [Option<u64>; 7] = [
    None,
    Some(0),
    Some(700_000),
    Some(2_000_000),
    Some(5_000_000),
    Some(60_000_000),
    Some(1_000_000_000),
];

/// Draws the steps of one plan.
struct Draw<'a> {
    dice: &'a mut Dice,
    swarm: Swarm,
    agents: u64,
    /// Number of requests drawn so far, approximately.
    asks: u64,
}

impl Plan {
    /// Draws the plan of a seed in the full edition. A third of all worlds trade, and a third lend.
    pub fn of(seed: u64) -> Self {
        Self::draw(seed, EditionName::Full)
    }

    /// Draws the plan of a seed in the payments-only edition. Half of the agents' reports have no proof.
    pub fn of_payments(seed: u64) -> Self {
        let mut plan = Self::draw(seed, EditionName::Payments);
        let mut dice = Dice::new(seed ^ 0x9a7);
        for mut step in std::mem::take(&mut plan.steps) {
            if let Step::Report { event, .. } = &mut step
                && dice.chance(1, 2)
            {
                *event += UNPROVEN_EVENTS;
            }
            if !Step::follows_at_once(&plan.steps) && dice.chance(1, 32) {
                plan.steps.extend(disabled_while_held(&mut dice));
            }
            plan.steps.push(step);
        }
        plan
    }

    fn draw(seed: u64, edition: EditionName) -> Self {
        let lanes = EditionRules::of(edition).lanes;
        let mut dice = Dice::new(seed);
        let mut swarm = Swarm::draw(&mut dice);
        // The real store takes as much time as everything else together. So few worlds use it, and these worlds contain
        // all kinds of orders.
        let mut market = Dice::new(seed ^ 0x7ade);
        swarm.edition = edition;
        swarm.trades = market.chance(1, 3) && lanes.contains(&Lane::Trade);
        let real = dice.chance(1, 5);
        swarm.sectors &= real || (swarm.trades && market.chance(1, 2));
        swarm.edits |= swarm.sectors;
        let bounds = JournalBounds::draw(&mut dice);
        let length = if dice.chance(1, 48) { 120 + dice.roll(280) } else { 20 + dice.roll(36) };
        let agents = 1 + dice.roll(3);
        let mut draw = Draw { dice: &mut dice, swarm, agents, asks: 0 };
        let mut steps = Vec::new();
        for agent in 0..agents {
            steps.push(draw.registration(agent));
            steps.push(draw.commission(agent));
        }
        while steps.len() < usize::try_from(length).unwrap_or(50) {
            let step = draw.step();
            steps.push(step);
            if matches!(step, Step::SetClock { .. }) && draw.dice.chance(1, 2) {
                draw.excursion(&mut steps);
            }
            if step == Step::Together {
                steps.push(draw.concurrent_step());
                if draw.dice.chance(1, 3) {
                    steps.push(Step::Together);
                    steps.push(draw.concurrent_step());
                }
                steps.push(draw.concurrent_step());
            }
        }
        let plan = Self { seed, swarm, bounds, watchful: false, steps };
        let plan = if lanes.contains(&Lane::Loan) { plan.with_loans(agents) } else { plan };
        plan.with_device()
            .with_device_trades()
            .with_unattended_days()
            .with_gas_burners()
            .with_patience(agents)
            .with_lost_simulation()
    }
}

impl Plan {
    /// Sets a limit on unattended days, and replaces most unlocks by a person with unattended ones.
    fn with_unattended_days(mut self) -> Self {
        let mut dice = Dice::new(self.seed ^ 0x0a77);
        self.swarm.unattended = dice.chance(1, 4);
        if !self.swarm.unattended {
            return self;
        }
        let mut steps = vec![Step::UnattendedDaily { micros: dice.one_of(&UNATTENDED_DAILY) }];
        for step in std::mem::take(&mut self.steps) {
            if !Step::follows_at_once(&steps) {
                match dice.roll(16) {
                    0 => steps.extend([Step::Lock, Step::OpenUnattended]),
                    1 if self.swarm.restarts => steps.extend([Step::Restart, Step::OpenUnattended]),
                    2 if dice.chance(1, 4) => {
                        steps
                            .push(Step::UnattendedDaily { micros: dice.one_of(&UNATTENDED_DAILY) });
                    }
                    _ => {}
                }
            }
            let person = dice.chance(1, 3);
            let opens = step == Step::Open { right: true };
            steps.push(if opens && !person { Step::OpenUnattended } else { step });
        }
        Self { steps, ..self }
    }
}

/// Draws a payment that is held while its network is disabled, and is then approved.
fn disabled_while_held(dice: &mut Dice) -> [Step; 4] {
    let chain = dice.index(2);
    let agent = Pick(dice.roll(24));
    let planned = PlannedPayment::draw_plain(dice, agent);
    let planned = PlannedPayment { chain, size: Size::Threshold(1), ..planned };
    [
        Step::Ask(planned),
        Step::Network { chain, on: false },
        // The newest of the requests that picks prefer.
        Step::Approve { pick: Pick(21), card: CardChoice::Now },
        Step::Network { chain, on: true },
    ]
}

impl PlannedPayment {
    /// Draws a payment without oddities, at most at the automatic threshold.
    pub(crate) fn draw_plain(dice: &mut Dice, agent: Pick) -> Self {
        let mut draw = Draw { dice, swarm: Swarm::default(), agents: 1, asks: 0 };
        let key = draw.dice.chance(1, 4).then(|| draw.dice.roll(3) as u8);
        Self { agent, key, ..draw.crowd_payment() }
    }
}

impl Draw<'_> {
    fn pick(&mut self) -> Pick {
        Pick(self.dice.roll(4000))
    }

    fn agent(&mut self) -> Pick {
        Pick(self.dice.roll(self.agents * 8))
    }

    fn registration(&mut self, agent: u64) -> Step {
        Step::Register { bearer: agent % 2 == 1 || self.dice.chance(1, 3), name: agent as usize }
    }

    fn commission(&mut self, agent: u64) -> Step {
        let (policy, label) = (self.dice.index(2), self.dice.index(2));
        Step::Commission { agent: Pick(agent * 4 + 1), policy, label }
    }

    fn duration_ms(&mut self) -> u64 {
        match self.dice.roll(10) {
            0..=4 => self.dice.roll(90 * SECOND),
            5 | 6 => self.dice.roll(20 * MINUTE),
            7 => self.dice.roll(8 * HOUR),
            8 => 19 * HOUR + self.dice.roll(7 * HOUR),
            _ if self.swarm.long => self.dice.roll(40 * DAY),
            _ => self.dice.roll(3 * DAY),
        }
    }

    /// Adds requests while the clock is set wrong, then corrects the clock, and repeats earlier requests.
    ///
    /// No time passes between these steps.
    fn excursion(&mut self, steps: &mut Vec<Step>) {
        let before = self.asks;
        for right in [false, true] {
            for _busy in 0..self.dice.roll(4) {
                let planned = self.crowd_payment();
                let count = 2 + self.dice.roll(14) as u8;
                let crowd = self.swarm.crowds && self.dice.chance(1, 2);
                steps.push(if crowd { Step::Crowd { planned, count } } else { Step::Ask(planned) });
                self.asks += if crowd { u64::from(count) } else { 1 };
            }
            if !right {
                steps.push(Step::RightClock);
            }
        }
        for _again in 0..1 + self.dice.roll(3) {
            let pick = Pick(4 * before.saturating_sub(1 + self.dice.roll(3)));
            steps.push(Step::Repeat { pick, variant: RepeatVariant::None });
        }
    }

    fn offset(&mut self) -> i64 {
        if self.dice.chance(3, 4) {
            self.dice.between(-1, 1)
        } else {
            self.dice.between(-900_000, 900_000)
        }
    }

    fn draw_payment(&mut self) -> PlannedPayment {
        let size = match self.dice.roll(12) {
            0..=3 => Size::Micros(1 + self.dice.roll(3_000_000)),
            4 => Size::Micros(self.dice.one_of(&[0, 1, 10_000, 5_000_000])),
            5..=7 => Size::Threshold(self.offset()),
            8 => Size::Largest(self.offset()),
            9 => Size::Micros(1 + self.dice.roll(400_000)),
            _ => Size::Left(self.offset()),
        };
        let url = |dice: &mut Dice| dice.chance(4, 5).then(|| dice.index(URLS.len()));
        let oddity = match self.dice.roll(40) {
            0 => Oddity::Token,
            1 => Oddity::Contradicts,
            2 => Oddity::ToNobody,
            3 => Oddity::ToItself,
            4 => Oddity::ToTheToken,
            5 => Oddity::OtherScheme,
            6 => Oddity::OtherMethod,
            7 => Oddity::SecondOffer,
            _ => Oddity::None,
        };
        PlannedPayment {
            agent: self.agent(),
            size,
            request_url: url(self.dice),
            resource_url: url(self.dice),
            chain: if self.dice.chance(1, 6) { 1 + self.dice.index(2) } else { 0 },
            version: if self.dice.chance(1, 5) { 1 } else { 2 },
            timeout_s: match self.dice.roll(8) {
                0 => None,
                1 => Some(self.dice.one_of(&[0, 29, 30, 3600, 3601, 86_400, u64::MAX >> 16])),
                _ => Some(60),
            },
            oddity,
            key: self.dice.chance(1, 4).then(|| self.dice.roll(3) as u8),
        }
    }

    fn repeat_variant(&mut self) -> RepeatVariant {
        match self.dice.roll(12) {
            0 | 1 => RepeatVariant::SignedAgain,
            2 | 3 => RepeatVariant::OtherUrl(self.dice.index(URLS.len())),
            4 => RepeatVariant::OtherKey(self.dice.roll(3) as u8),
            5 => RepeatVariant::WrongProof,
            6 => RepeatVariant::Stale,
            7 => RepeatVariant::UnknownAgent,
            _ => RepeatVariant::None,
        }
    }

    fn card_choice(&mut self) -> CardChoice {
        match self.dice.roll(6) {
            0 | 1 => CardChoice::Before(self.pick()),
            2 => CardChoice::Unnamed,
            _ => CardChoice::Now,
        }
    }

    fn step(&mut self) -> Step {
        if self.swarm.trades && self.dice.chance(3, 5) {
            return self.trade_step();
        }
        match self.dice.roll(100) {
            0..=29 => {
                self.asks += 1;
                Step::Ask(self.draw_payment())
            }
            30..=37 => Step::Repeat { pick: self.pick(), variant: self.repeat_variant() },
            38..=41 => Step::Poll { pick: self.pick() },
            42..=44 => Step::Standing { agent: self.agent() },
            45..=47 => Step::List,
            48..=57 => Step::Approve { pick: self.pick(), card: self.card_choice() },
            58..=60 => Step::Deny { pick: self.pick() },
            61 | 62 => {
                let agent = self.dice.chance(1, 8).then(|| self.agent());
                let (event, hash) = (self.dice.roll(3) as u8, self.dice.roll(3) as u8);
                Step::Report { pick: self.pick(), event, hash, agent }
            }
            63 => Step::Redeem { pick: self.pick() },
            64 if self.dice.chance(1, 2) => {
                Step::LateSettlementReport { planned: self.crowd_payment(), pick: self.pick() }
            }
            64..=72 => Step::Pass { ms: self.duration_ms() },
            73 | 74 => Step::ToExpiry { off_ms: self.dice.between(-1, 1) },
            75 => Step::ToMidnight { off_ms: self.dice.between(-1, 1) },
            76..=79 => self.crowd_step(),
            80..=85 => self.operator_step(),
            86..=93 => self.fault_step(),
            _ => self.clock_step(),
        }
    }

    fn planned_trade(&mut self) -> PlannedTrade {
        let agent = self.agent();
        draw_trades::planned(self.dice, agent)
    }

    fn trade_step(&mut self) -> Step {
        match self.dice.roll(100) {
            0..=29 => Step::Trade(self.planned_trade()),
            30..=55 => Step::Mine { blocks: 1 + self.dice.roll(6) as u8 },
            56..=60 => Step::RepeatTrade { pick: self.pick(), variant: self.repeat_variant() },
            61..=63 => Step::PollTrade { pick: self.pick() },
            64..=68 => Step::Approve { pick: self.pick(), card: self.card_choice() },
            69 => Step::Deny { pick: self.pick() },
            70..=73 => Step::MovedTrade {
                planned: {
                    let agent = self.agent();
                    draw_trades::held(self.dice, agent)
                },
                permille: self.dice.one_of(&[900, 960, 980, 994, 1_000, 1_010, 1_100]),
            },
            74..=83 => draw_trades::trouble(self.dice),
            84 => {
                let agent = self.agent();
                Step::DisplacedTrade { planned: draw_trades::automatic(self.dice, agent, true) }
            }
            85 if self.swarm.freezes => {
                let agent = self.agent();
                Step::FrozenTrade { planned: draw_trades::automatic(self.dice, agent, false) }
            }
            86 if self.swarm.crowds => Step::TradeCopies {
                planned: self.planned_trade(),
                count: 2 + self.dice.roll(4) as u8,
            },
            87 | 88 if self.swarm.crowds => Step::TradeCrowd {
                planned: self.planned_trade(),
                count: 2 + self.dice.roll(5) as u8,
            },
            89 if self.swarm.together => Step::Together,
            90..=95 => self.fault_step(),
            _ => Step::Pass { ms: self.dice.roll(90 * SECOND) },
        }
    }

    fn crowd_step(&mut self) -> Step {
        match (self.swarm.crowds, self.swarm.together, self.dice.roll(4)) {
            (true, _, 0) => {
                Step::Copies { planned: self.draw_payment(), count: 2 + self.dice.roll(15) as u8 }
            }
            (true, _, 1 | 2) => {
                let (planned, count) = (self.crowd_payment(), 2 + self.dice.roll(25) as u8);
                Step::Crowd { planned, count }
            }
            (_, true, _) => Step::Together,
            _ => Step::Ask(self.draw_payment()),
        }
    }

    /// Draws a plain request, mostly just below the automatic threshold. Many of them reach the daily limit.
    fn crowd_payment(&mut self) -> PlannedPayment {
        let size = if self.dice.chance(2, 3) {
            Size::Threshold(-1)
        } else {
            Size::Micros(1 + self.dice.roll(1_000_000))
        };
        PlannedPayment {
            size,
            request_url: Some(0),
            resource_url: None,
            chain: 0,
            timeout_s: Some(60),
            oddity: Oddity::None,
            key: None,
            ..self.draw_payment()
        }
    }

    /// Draws a step that can run concurrently with another one.
    fn concurrent_step(&mut self) -> Step {
        let swarm = self.swarm;
        if swarm.trades && self.dice.chance(1, 3) {
            return Step::Trade(self.planned_trade());
        }
        match self.dice.roll(14) {
            0..=3 => Step::Approve { pick: self.pick(), card: self.card_choice() },
            4 => Step::Deny { pick: self.pick() },
            5 | 6 if swarm.edits => Step::EditPolicy {
                which: self.dice.index(2),
                variant: self.dice.index(POLICIES.len()),
            },
            7 if swarm.edits => Step::Suspend { agent: self.agent() },
            8 if swarm.edits => self.commission(0),
            9 if swarm.freezes => Step::Freeze,
            10 if swarm.locks => Step::Lock,
            11 => Step::Repeat { pick: self.pick(), variant: RepeatVariant::None },
            _ => Step::Ask(self.draw_payment()),
        }
    }

    fn operator_step(&mut self) -> Step {
        if !self.swarm.edits {
            return Step::List;
        }
        match self.dice.roll(26) {
            0..=6 => Step::EditPolicy {
                which: self.dice.index(2),
                variant: self.dice.index(POLICIES.len()),
            },
            7..=9 => Step::Commission {
                agent: self.agent(),
                policy: self.dice.index(3),
                label: self.dice.index(3),
            },
            10 => Step::Suspend { agent: self.agent() },
            11..=13 => Step::Resume { agent: self.agent() },
            14 => Step::Renew { agent: self.agent() },
            15 => Step::DeleteAgent { agent: self.agent() },
            16 => Step::Register { bearer: self.dice.chance(1, 2), name: self.dice.index(6) },
            17 => Step::ReplaceToken { agent: self.agent() },
            18 => Step::Network { chain: self.dice.index(3), on: self.dice.chance(2, 3) },
            19 => Step::MaxValidity { seconds: self.dice.one_of(&[60, 3600, 86_400]) },
            20 => Step::CreatePolicy {
                which: self.dice.index(4),
                variant: self.dice.index(POLICIES.len()),
            },
            21 => Step::DeletePolicy { which: self.dice.index(4) },
            22 => Step::AddAddress { label: self.dice.index(4) },
            _named => match self.dice.roll(2) {
                0 => Step::RenameAddress { label: self.dice.index(4), to: self.dice.index(4) },
                _ => Step::DeleteAddress { label: self.dice.index(4) },
            },
        }
    }

    /// Draws trouble with the process, the keys or the disk.
    fn fault_step(&mut self) -> Step {
        let swarm = self.swarm;
        match self.dice.roll(16) {
            0 | 1 if swarm.crashes => Step::Crash,
            2..=4 if swarm.crashes => Step::CrashAt {
                point: self.dice.index(if swarm.trades {
                    FAULT_POINTS.len()
                } else {
                    PAYMENT_POINT_COUNT
                }),
                after: self.dice.roll(5) as u32,
            },
            5 if swarm.restarts => Step::Restart,
            6 if swarm.disk => {
                Step::DiskFails { after: self.dice.roll(6) as u32, written: self.dice.chance(1, 2) }
            }
            7 | 8 if swarm.slow_signer => Step::SlowSigner { slow: self.dice.chance(2, 3) },
            9 | 10 if swarm.slow_signer => Step::Release { agreed: self.dice.chance(4, 5) },
            11 if swarm.locks => Step::Lock,
            12 if swarm.freezes => Step::Freeze,
            13 if swarm.freezes => Step::Thaw { right: self.dice.chance(4, 5) },
            14 | 15 if swarm.freezes => Step::Thaw { right: true },
            // Only these kinds of trouble lock the wallet, so only they need it opened again.
            _ if swarm.crashes || swarm.restarts || swarm.disk || swarm.locks => {
                Step::Open { right: self.dice.chance(9, 10) }
            }
            _ => Step::List,
        }
    }

    fn clock_step(&mut self) -> Step {
        let swarm = self.swarm;
        match self.dice.roll(8) {
            0 if swarm.clocks => Step::SetClock { ms: -(self.duration_ms() as i64) },
            1 if swarm.clocks => Step::SetClock { ms: self.duration_ms() as i64 },
            2 if swarm.clocks => {
                let days = if swarm.long { 60 } else { 10 };
                Step::SetClock { ms: self.dice.between(-days * DAY as i64, days * DAY as i64) }
            }
            4 | 5 if swarm.clocks && self.dice.chance(1, 2) => Step::RightClock,
            3 if swarm.zones => Step::Zone { which: self.dice.index(ZONES.len()) },
            4 if swarm.sleeps => Step::Sleep { ms: self.duration_ms() },
            5 if swarm.restarts => Step::Reboot,
            6 if swarm.blocks => Step::Block {
                ms: self
                    .dice
                    .chance(2, 3)
                    .then(|| self.dice.between(-2 * HOUR as i64, 2 * HOUR as i64)),
            },
            _ => Step::Pass { ms: self.duration_ms() },
        }
    }
}
