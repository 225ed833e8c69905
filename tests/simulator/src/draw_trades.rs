//! Draws the steps of worlds that trade.

use bursar_tests::dice::Dice;

use crate::plan::{NodeMode, Pick, Plan, PlannedTrade, PoolChoice, Step, TradeSize};

const DOLLAR: u64 = 1_000_000;

/// Draws a trade for an agent.
pub(crate) fn planned(dice: &mut Dice, agent: Pick) -> PlannedTrade {
    let near = |dice: &mut Dice| {
        if dice.chance(3, 4) { dice.between(-2, 2) } else { dice.between(-20_000_000, 20_000_000) }
    };
    let size = match dice.roll(16) {
        0..=6 => TradeSize::Micros(DOLLAR + dice.roll(55 * DOLLAR)),
        7 => TradeSize::Micros(dice.one_of(&[1, 100, 10_000, 1_000_000])),
        8 | 9 => TradeSize::Threshold(near(dice)),
        10 => TradeSize::Largest(near(dice)),
        11 | 12 => TradeSize::Left(near(dice)),
        13 => TradeSize::Balance(near(dice)),
        14 => TradeSize::AboveFloor(dice.roll(400_000)),
        _ => TradeSize::Micros(40 * DOLLAR + dice.roll(120 * DOLLAR)),
    };
    let floor = matches!(size, TradeSize::AboveFloor(_));
    let pool = match dice.roll(20) {
        0..=2 => PoolChoice::Best(dice.index(15)),
        3 => PoolChoice::Wrap,
        4 if dice.chance(1, 3) => PoolChoice::Missing,
        5 | 6 => PoolChoice::Named(dice.one_of(&[10, 11, 12, 13, 13])),
        _ if floor => PoolChoice::Named(dice.one_of(&[0, 7])),
        _ => PoolChoice::Named(dice.index(15)),
    };
    // Pool 0 has the native coin as its second token, pool 7 as its first.
    let flip = if floor { pool == PoolChoice::Named(0) } else { dice.chance(1, 2) };
    PlannedTrade {
        agent,
        chain: usize::from(dice.chance(1, 5)),
        pool,
        flip,
        native: floor || dice.chance(1, 2),
        size,
        slippage_bps: match dice.roll(4) {
            0 => Some(dice.one_of(&[0, 10, 99, 100, 101, 299, 300, 301])),
            1 => Some(dice.one_of(&[50, 100, 200, 250])),
            _ => None,
        },
        deadline_s: match dice.roll(10) {
            0 => Some(dice.one_of(&[-10, 0, 1, 2, 4, 8])),
            1 => Some(dice.one_of(&[20, 60, 119, 600, 3_600])),
            _ => None,
        },
        key: dice.chance(1, 4).then(|| dice.roll(3) as u8),
    }
}

/// Draws a trade that waits for the operator, in a pool without a hook.
pub(crate) fn held(dice: &mut Dice, agent: Pick) -> PlannedTrade {
    let above = i64::try_from(dice.roll(20 * DOLLAR)).unwrap_or(0);
    PlannedTrade {
        pool: PoolChoice::Named(dice.one_of(&[0, 1, 2, 4, 7, 8, 9])),
        size: TradeSize::Threshold(above),
        deadline_s: None,
        chain: 0,
        ..planned(dice, agent)
    }
}

/// Draws a trade that policies allow without an approval.
///
/// If `native` is true it sells native coins, so that its swap is its first transaction.
pub(crate) fn automatic(dice: &mut Dice, agent: Pick, native: bool) -> PlannedTrade {
    let pool = if native { dice.one_of(&[0, 7]) } else { dice.one_of(&[0, 1, 8, 9]) };
    PlannedTrade {
        pool: PoolChoice::Named(pool),
        flip: native && pool == 0,
        native,
        size: TradeSize::Micros(5 * DOLLAR + dice.roll(40 * DOLLAR)),
        deadline_s: None,
        chain: 0,
        ..planned(dice, agent)
    }
}

/// Picks the newest of up to six agents.
const NEWEST: Pick = Pick(59 * 4 + 1);

impl Plan {
    /// Adds trades that pay for gas to the end of some worlds that trade.
    pub(crate) fn with_gas_burners(mut self) -> Self {
        let mut dice = Dice::new(self.seed ^ 0x6a5);
        if self.swarm.trades && dice.chance(1, 6) {
            let late = dice.chance(2, 3);
            let count = if late { 22 } else { 12 };
            let planned = automatic(&mut dice, NEWEST, true);
            self.steps.extend(new_trader(if late { 4 } else { 1 }));
            self.steps.push(Step::GasBurners { planned, count, late });
        }
        self
    }

    /// In some worlds, adds trades at the end, after the nodes have lost the method that simulates whole plans.
    pub(crate) fn with_lost_simulation(mut self) -> Self {
        let mut dice = Dice::new(self.seed ^ 0x10_57);
        if self.swarm.trades && dice.chance(1, 8) {
            let mut trade = || {
                let planned = automatic(&mut dice, NEWEST, false);
                Step::Trade(PlannedTrade { slippage_bps: None, key: None, ..planned })
            };
            let mode = if self.seed.is_multiple_of(2) {
                NodeMode::OverridesOnly
            } else {
                NodeMode::SingleCalls
            };
            self.steps.extend(new_trader(1));
            self.steps.extend([
                trade(),
                Step::Mine { blocks: 4 },
                Step::Nodes { chain: 0, mode },
                trade(),
                trade(),
                Step::Mine { blocks: 4 },
                Step::Nodes { chain: 0, mode: NodeMode::Honest },
            ]);
        }
        self
    }
}

/// Returns the steps that register an agent that may trade under this variant of the policy.
///
/// The first steps end trouble that would stop the registration or the trades.
fn new_trader(variant: usize) -> [Step; 12] {
    let which = 3;
    let commission = |label| Step::Commission { agent: NEWEST, policy: which, label };
    [
        Step::Open { right: true },
        Step::RightClock,
        Step::Thaw { right: true },
        Step::Pass { ms: 30_000 },
        Step::Network { chain: 0, on: true },
        Step::Nodes { chain: 0, mode: NodeMode::Honest },
        Step::Prices { faults: 0 },
        Step::CreatePolicy { which, variant },
        Step::EditPolicy { which, variant },
        Step::Register { bearer: false, name: 5 },
        commission(1),
        commission(0),
    ]
}

/// Draws trouble with a market, a node or a block.
pub(crate) fn trouble(dice: &mut Dice) -> Step {
    let chain = usize::from(dice.chance(1, 5));
    match dice.roll(24) {
        0..=4 => Step::MovePool {
            chain,
            pool: dice.index(15),
            permille: dice.one_of(&[700, 950, 980, 997, 1_003, 1_020, 1_050, 1_400]),
        },
        5..=7 => Step::PriceMove {
            permille: dice.one_of(&[500, 790, 810, 900, 970, 990, 1_010, 1_031, 1_100, 1_300]),
        },
        8 | 9 => Step::Prices { faults: dice.one_of(&[0, 0, 0, 1, 2, 4]) },
        10..=13 => Step::Nodes { chain, mode: mode(dice) },
        14..=17 => Step::Reorg { chain, lose: dice.chance(1, 4) },
        18 => Step::DropTx { chain },
        19..=21 => Step::ReplaceNonce { chain },
        22 => Step::BaseFee { chain, permille: dice.one_of(&[10, 50, 120, 400]) },
        _ => Step::Rebase,
    }
}

fn mode(dice: &mut Dice) -> NodeMode {
    match dice.roll(16) {
        0 => NodeMode::Down,
        1 => NodeMode::OverridesOnly,
        2 => NodeMode::SingleCalls,
        3 => NodeMode::Forgets,
        4 => NodeMode::LosesAnswers,
        5 | 6 => NodeMode::Quotes(dice.one_of(&[900, 960, 990, 1_010, 1_040, 1_200])),
        _ => NodeMode::Honest,
    }
}
