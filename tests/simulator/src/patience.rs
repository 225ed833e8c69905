//! Clients that repeat a request as the documents say. They send the same body again if no answer arrives in time, if
//! the connection breaks, or if the answer reports a busy wallet or an unreachable node. Meanwhile the nodes and the
//! price API are slow.

use bursar_auditor::observations::{Answer, Observation, Ticket};
use bursar_tests::dice::Dice;

use crate::draw_loans;
use crate::draw_trades;
use crate::loans::SentLoan;
use crate::plan::{Pick, Plan, PlannedLoan, PlannedPayment, PlannedTrade, Slowness, Step};
use crate::trades::SentTrade;
use crate::world::{SentCall, World, WorldFailure};

/// The pause before a repeat that an answer asked for, in milliseconds.
const REPEAT_PAUSE_MS: u64 = 5_000;

/// The longest time between two checks of an open call, in milliseconds.
const POLL_MS_MAX: u64 = 2_500;

/// A request that its client sends until it gets an answer.
#[derive(Debug, Clone)]
enum Body {
    Payment(SentCall),
    Trade(SentTrade),
    Loan(SentLoan),
}

/// The call whose answer a client awaits, and that answer.
#[derive(Debug, Default)]
pub(crate) struct AwaitedAnswer {
    ticket: Ticket,
    /// Whether the answer asks for a repeat; `None` without an answer.
    answer: Option<bool>,
}

impl AwaitedAnswer {
    pub(crate) fn note(&mut self, seen: &Observation) {
        let Observation::Answered { ticket, answer } = seen else { return };
        if *ticket == self.ticket {
            self.answer = Some(asks_for_a_repeat(answer));
        }
    }
}

/// Returns whether an answer asks the client to send the same body again.
fn asks_for_a_repeat(answer: &Answer) -> bool {
    let Answer::Refused { code, .. } = answer else { return false };
    ["BUSY", "CHAIN_UNAVAILABLE", "RATE_LIMIT_EXCEEDED"].contains(&code.as_str())
}

impl World {
    pub(crate) fn run_patient_payment(
        &mut self,
        planned: &PlannedPayment,
        slow: Slowness,
    ) -> Result<(), WorldFailure> {
        match planned.agent.of(self.agents.len()) {
            Some(agent) => {
                let body = Body::Payment(self.build_call(agent, planned));
                self.send_until_answered(&body, slow)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn run_patient_trade(
        &mut self,
        planned: &PlannedTrade,
        slow: Slowness,
    ) -> Result<(), WorldFailure> {
        match self.build_trade(planned) {
            Some(sent) => self.send_until_answered(&Body::Trade(sent), slow),
            None => Ok(()),
        }
    }

    pub(crate) fn run_patient_loan(
        &mut self,
        planned: &PlannedLoan,
        slow: Slowness,
    ) -> Result<(), WorldFailure> {
        match self.build_loan(planned) {
            Some(sent) => self.send_until_answered(&Body::Loan(sent), slow),
            None => Ok(()),
        }
    }

    /// Sends a body until its client gets an answer that asks for no repeat, or gives up.
    fn send_until_answered(&mut self, body: &Body, slow: Slowness) -> Result<(), WorldFailure> {
        self.slow_down(slow);
        for one in 0..slow.tries {
            let answered = self.send_and_wait(body, slow)?;
            let is_lost = slow.loses_first && one == 0;
            match answered {
                Some(false) if !is_lost => break,
                Some(true) => self.pass(REPEAT_PAUSE_MS)?,
                Some(false) | None => {}
            }
            if !self.process().is_open() {
                // The process died, or the wallet was already locked. The operator opens it again.
                self.order_open(true)?;
            }
        }
        self.slow_down(Slowness::default());
        self.pass(slow.node_ms.max(REPEAT_PAUSE_MS))?;
        self.mine(3)
    }

    /// Sends a body and waits as long as its client does.
    ///
    /// Returns whether the answer asks for a repeat; `None` if no answer arrived.
    fn send_and_wait(&mut self, body: &Body, slow: Slowness) -> Result<Option<bool>, WorldFailure> {
        self.awaited_answer = AwaitedAnswer { ticket: self.ticket + 1, answer: None };
        let life = self.outcome.processes;
        match body.clone() {
            Body::Payment(sent) => self.send(sent)?,
            Body::Trade(sent) => self.send_trade(sent)?,
            Body::Loan(sent) => self.send_loan(sent)?,
        }
        let look_ms = slow.node_ms.clamp(POLL_MS_MAX / 5, POLL_MS_MAX);
        let mut left = slow.patience_ms;
        while left > 0 && self.awaited_answer.answer.is_none() && self.outcome.processes == life {
            self.pass(look_ms.min(left))?;
            left = left.saturating_sub(look_ms);
        }
        Ok(self.awaited_answer.answer)
    }

    /// Delays the nodes and the price API by this much.
    pub(crate) fn slow_down(&self, slow: Slowness) {
        for chain in &self.chains {
            chain.set_delay(slow.node_ms);
        }
        self.prices.set_hanging(slow.price_hangs);
    }
}

impl Plan {
    /// Inserts patient clients between the steps of a drawn plan.
    pub(crate) fn with_patience(mut self, agents: u64) -> Self {
        let mut dice = Dice::new(self.seed ^ 0x9a71e);
        let often = if self.swarm.has_markets() { 2 } else { 6 };
        if !dice.chance(1, often) {
            return self;
        }
        let setup = usize::try_from(2 * agents).unwrap_or(0).min(self.steps.len());
        for _one in 0..1 + dice.roll(3) {
            let at = setup + dice.index(self.steps.len() - setup + 1);
            let step = self.draw_patient(&mut dice, agents);
            self.steps.insert(at, step);
        }
        self
    }

    fn draw_patient(&self, dice: &mut Dice, agents: u64) -> Step {
        let slow = Slowness::draw(dice);
        let agent = Pick(dice.roll(agents * 8));
        let swarm = self.swarm;
        match dice.roll(7) {
            0..=2 if swarm.trades => {
                let planned = match dice.roll(3) {
                    0 => draw_trades::planned(dice, agent),
                    1 => draw_trades::held(dice, agent),
                    _ => draw_trades::automatic(dice, agent, false),
                };
                Step::PatientTrade { planned, slow }
            }
            0..=5 if swarm.loans => {
                Step::PatientLoan { planned: draw_loans::any_loan(dice, swarm, agents), slow }
            }
            3..=5 if swarm.trades => {
                let native = dice.chance(1, 2);
                Step::PatientTrade { planned: draw_trades::automatic(dice, agent, native), slow }
            }
            _payment => Step::PatientAsk { planned: PlannedPayment::draw_plain(dice, agent), slow },
        }
    }
}

impl Slowness {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            node_ms: dice.one_of(&[0, 0, 100, 400, 1_000, 2_500, 2_500, 6_000]),
            price_hangs: dice.chance(1, 3),
            // The documents say 35 seconds; some clients give up earlier.
            patience_ms: dice.one_of(&[35_000, 35_000, 35_000, 25_000, 10_000, 3_000, 500]),
            tries: 2 + dice.roll(3) as u8,
            loses_first: dice.chance(1, 2),
        }
    }
}
