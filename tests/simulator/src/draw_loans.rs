//! Draws the steps of worlds that lend.

use bursar_tests::dice::Dice;

use crate::evm::{VenueChange, venues};
use crate::lending_policy;
use crate::plan::{
    CardChoice, FAULT_POINTS, LoanAmount, NodeMode, Pick, Plan, PlannedLoan, RepeatVariant, Step,
    Swarm,
};

const SECOND: u64 = 1000;
const HOUR: u64 = 3_600 * SECOND;
const DOLLAR: u64 = venues::DOLLAR;

/// Draws whether a world lends: a third of all worlds do, and most of them do not trade.
pub(crate) fn draws_lending(dice: &mut Dice, trades: bool) -> bool {
    let (times, of) = if trades { (1, 5) } else { (2, 5) };
    dice.chance(times, of)
}

/// Puts steps of loans between the steps of a plan.
pub(crate) fn mix_in_loan_steps(
    dice: &mut Dice,
    swarm: Swarm,
    agents: u64,
    steps: Vec<Step>,
) -> Vec<Step> {
    let mut draw = Draw { dice, swarm, agents };
    let (setup, rest) = steps.split_at(usize::try_from(2 * agents).unwrap_or(0).min(steps.len()));
    let mut mixed = setup.to_vec();
    for step in rest {
        if !Step::follows_at_once(&mixed) && draw.dice.chance(3, 5) {
            let one = draw.step();
            mixed.push(one);
            let sends = matches!(one, Step::Loan(_) | Step::ApproveLoan { .. });
            if sends && draw.dice.chance(1, 2) {
                mixed.push(Step::Mine { blocks: 2 + draw.dice.roll(7) as u8 });
            }
            if one == Step::Together {
                for _both in 0..2 {
                    let one = draw.concurrent();
                    mixed.push(one);
                }
            }
        }
        mixed.push(*step);
    }
    mixed
}

/// Draws one loan.
pub(crate) fn any_loan(dice: &mut Dice, swarm: Swarm, agents: u64) -> PlannedLoan {
    Draw { dice, swarm, agents }.loan()
}

struct Draw<'a> {
    dice: &'a mut Dice,
    swarm: Swarm,
    agents: u64,
}

impl Draw<'_> {
    fn pick(&mut self) -> Pick {
        Pick(self.dice.roll(4000))
    }

    fn agent(&mut self) -> Pick {
        Pick(self.dice.roll(self.agents * 8))
    }

    fn chain(&mut self) -> usize {
        usize::from(self.dice.chance(2, 5))
    }

    /// Draws a venue, mostly one that the wallet may trust.
    fn venue(&mut self) -> usize {
        self.dice.one_of(&[0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6])
    }

    fn near_limit(&mut self) -> i64 {
        if self.dice.chance(3, 4) {
            self.dice.between(-2, 2)
        } else {
            self.dice.between(-20_000_000, 20_000_000)
        }
    }

    fn supply(&mut self) -> PlannedLoan {
        let size = match self.dice.roll(14) {
            0..=6 => LoanAmount::Micros(5 * DOLLAR + self.dice.roll(45 * DOLLAR)),
            7 => LoanAmount::Micros(self.dice.one_of(&[1, 100, 1_000_000])),
            8 | 9 => LoanAmount::Threshold(self.near_limit()),
            10 => LoanAmount::Largest(self.near_limit()),
            11 | 12 => LoanAmount::Ceiling(self.near_limit()),
            _ => LoanAmount::Balance(self.near_limit()),
        };
        self.planned(true, size)
    }

    fn withdrawal(&mut self) -> PlannedLoan {
        let size = match self.dice.roll(14) {
            0..=4 => LoanAmount::All,
            5 | 6 => LoanAmount::Shares(self.dice.one_of(&[1, 300, 500, 999, 1_000, 1_001])),
            7 | 8 => LoanAmount::Position(self.near_limit()),
            9 | 10 => LoanAmount::Free(self.near_limit()),
            11 => LoanAmount::Threshold(self.near_limit()),
            _ => LoanAmount::Micros(1 + self.dice.roll(60 * DOLLAR)),
        };
        let planned = self.planned(false, size);
        if self.dice.chance(1, 6) {
            return planned;
        }
        // Picks a venue in which the address has a position.
        PlannedLoan { venue: venues::NAMED_VENUES + self.dice.index(4), ..planned }
    }

    fn planned(&mut self, supply: bool, size: LoanAmount) -> PlannedLoan {
        PlannedLoan {
            agent: self.agent(),
            chain: self.chain(),
            venue: self.venue(),
            supply,
            size,
            deadline_s: match self.dice.roll(12) {
                0 => Some(self.dice.one_of(&[-10, 0, 1, 2, 4, 8])),
                1 => Some(self.dice.one_of(&[20, 60, 3_600])),
                _ => None,
            },
            key: self.dice.chance(1, 5).then(|| self.dice.roll(3) as u8),
        }
    }

    fn loan(&mut self) -> PlannedLoan {
        if self.dice.chance(3, 5) { self.supply() } else { self.withdrawal() }
    }

    /// Draws a supply that most policies allow without an approval, to a vault that the wallet may trust.
    fn plain_supply(&mut self) -> PlannedLoan {
        let size = LoanAmount::Micros(10 * DOLLAR + self.dice.roll(30 * DOLLAR));
        PlannedLoan {
            venue: self.dice.one_of(&[0, 0, 1, 2, 3]),
            deadline_s: None,
            ..self.planned(true, size)
        }
    }

    /// Draws a supply that is as large as most policies allow without an approval, or a little larger than the ceiling
    /// leaves room for.
    fn blind_supply(&mut self) -> PlannedLoan {
        let size = if self.dice.chance(3, 4) {
            LoanAmount::Threshold(-1 - self.dice.between(0, 15_000_000))
        } else {
            LoanAmount::Ceiling(self.dice.one_of(&[0, 1, 5_000_000]))
        };
        PlannedLoan { size, ..self.plain_supply() }
    }

    /// Draws a supply that waits for the operator.
    fn held_supply(&mut self) -> PlannedLoan {
        let above = i64::try_from(self.dice.roll(8 * DOLLAR)).unwrap_or(0);
        PlannedLoan { size: LoanAmount::Threshold(above), ..self.plain_supply() }
    }

    fn draw_held_loan(&mut self) -> PlannedLoan {
        if self.dice.chance(3, 4) { self.held_supply() } else { self.withdrawal() }
    }

    fn plain(&mut self) -> PlannedLoan {
        if self.dice.chance(3, 4) { self.plain_supply() } else { self.withdrawal() }
    }

    fn change(&mut self) -> VenueChange {
        match self.dice.roll(26) {
            0..=2 => VenueChange::Rate(self.dice.one_of(&[0, 50, 400, 2_000])),
            3 | 4 => VenueChange::Loss(self.dice.one_of(&[1, 20, 300])),
            5..=8 => VenueChange::Drain(self.dice.one_of(&[0, 0, 15, 300])),
            9..=11 => VenueChange::Return,
            12..=14 => VenueChange::CloseGate(self.dice.roll(4) as u8),
            15 | 16 => VenueChange::OpenGates,
            17 => VenueChange::StrangeCurator,
            18 | 19 => VenueChange::RightCurator,
            20 => VenueChange::StrangeOwner,
            21 => VenueChange::OddAdapter,
            22 => VenueChange::RightAdapters,
            23 | 24 => VenueChange::Donation(self.dice.one_of(&[1, 500, 50_000])),
            _ => VenueChange::NoCap,
        }
    }

    fn outsider(&mut self) -> Step {
        Step::Outsider { chain: self.chain(), venue: self.venue(), change: self.change() }
    }

    fn step(&mut self) -> Step {
        match self.dice.roll(100) {
            0..=25 => Step::Loan(self.supply()),
            26..=39 => Step::Loan(self.withdrawal()),
            40..=57 => Step::Mine { blocks: 1 + self.dice.roll(7) as u8 },
            58..=60 => Step::RepeatLoan { pick: self.pick(), variant: self.variant() },
            61 | 62 => Step::PollLoan { pick: self.pick() },
            63..=65 => Step::Venues { agent: self.agent(), chain: self.chain() },
            66..=69 => Step::ApproveLoan { pick: self.pick() },
            70 => Step::DenyLoan { pick: self.pick() },
            71..=73 => Step::ChangedLoan { planned: self.draw_held_loan(), change: self.change() },
            74..=76 => Step::InterruptedLoan { planned: self.plain(), change: self.change() },
            77 | 78 if self.swarm.freezes => Step::FrozenLoan { planned: self.plain_supply() },
            77..=81 => self.outsider(),
            82 | 83 => Step::BlindLoans {
                planned: self.blind_supply(),
                withdrawn: self.dice.one_of(&[0, 500, 900]),
                count: 1 + self.dice.roll(5) as u8,
            },
            84 => Step::PauseCoin { chain: self.chain(), paused: self.dice.chance(1, 2) },
            85 => Step::HidePositions { chain: self.chain(), hidden: self.dice.chance(1, 2) },
            86 | 87 if self.swarm.crowds => {
                Step::LoanCopies { planned: self.loan(), count: 2 + self.dice.roll(4) as u8 }
            }
            88 | 89 if self.swarm.crowds => {
                Step::LoanCrowd { planned: self.loan(), count: 2 + self.dice.roll(5) as u8 }
            }
            90 if self.swarm.together => Step::Together,
            91 | 92 => self.trouble(),
            93 | 94 if self.swarm.crashes => Step::CrashAt {
                point: self.dice.index(FAULT_POINTS.len()),
                after: self.dice.roll(5) as u32,
            },
            95 => Step::EditLending {
                which: self.dice.index(2),
                variant: self.dice.index(lending_policy::VARIANT_COUNT),
            },
            96 => Step::Pass { ms: self.dice.roll(8 * HOUR) },
            _ => Step::Pass { ms: self.dice.roll(90 * SECOND) },
        }
    }

    fn variant(&mut self) -> RepeatVariant {
        match self.dice.roll(10) {
            0 | 1 => RepeatVariant::SignedAgain,
            2 => RepeatVariant::OtherKey(self.dice.roll(3) as u8),
            3 => RepeatVariant::WrongProof,
            4 => RepeatVariant::Stale,
            5 => RepeatVariant::UnknownAgent,
            _ => RepeatVariant::None,
        }
    }

    /// Draws trouble with a node or a block.
    fn trouble(&mut self) -> Step {
        let chain = self.chain();
        match self.dice.roll(12) {
            0 => Step::DropTx { chain },
            1 | 2 => Step::ReplaceNonce { chain },
            3 | 4 => Step::Reorg { chain, lose: self.dice.chance(1, 4) },
            5 => Step::BaseFee { chain, permille: self.dice.one_of(&[10, 50, 120, 400]) },
            _ => Step::Nodes { chain, mode: self.mode() },
        }
    }

    fn mode(&mut self) -> NodeMode {
        match self.dice.roll(12) {
            0 => NodeMode::Down,
            1 => NodeMode::OverridesOnly,
            2 => NodeMode::SingleCalls,
            3 => NodeMode::Forgets,
            4 => NodeMode::LosesAnswers,
            5 | 6 => NodeMode::Lags(1 + self.dice.roll(4)),
            _ => NodeMode::Honest,
        }
    }

    /// Draws a step that can run concurrently with another one.
    fn concurrent(&mut self) -> Step {
        match self.dice.roll(8) {
            0 | 1 => Step::ApproveLoan { pick: self.pick() },
            2 => Step::DenyLoan { pick: self.pick() },
            3 if self.swarm.freezes => Step::Freeze,
            4 if self.swarm.locks => Step::Lock,
            5 => Step::RepeatLoan { pick: self.pick(), variant: RepeatVariant::None },
            6 => Step::Approve { pick: self.pick(), card: CardChoice::Now },
            _ => Step::Loan(self.loan()),
        }
    }
}

impl Plan {
    /// Adds loans to a drawn plan, if its seed draws a world that lends.
    pub(crate) fn with_loans(self, agents: u64) -> Self {
        let mut dice = Dice::new(self.seed ^ 0x10a4);
        if !draws_lending(&mut dice, self.swarm.trades) {
            return self;
        }
        let swarm = Swarm { loans: true, ..self.swarm };
        let steps = mix_in_loan_steps(&mut dice, swarm, agents, self.steps);
        Self { swarm, steps, ..self }
    }
}
