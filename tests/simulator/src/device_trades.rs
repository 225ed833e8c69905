//! Trades from a hardware device: the steps of agents, operators and the person at the device.

use bursar_auditor::observations::{
    Answer, DeviceObservation, DeviceTradeAnswer, DeviceTradeLimits, DeviceTradeObservation,
    Observation,
};
use bursar_chain::ports::Clock;
use bursar_ledger_device::device::Decision;
use bursar_tests::dice::Dice;
use bursar_tests::engine::ask;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::device_entries::CALLS_MAX;
use crate::device_steps::DeviceStep;
use crate::draw_trades;
use crate::plan::{NodeMode, Pick, Plan, PlannedTrade, PoolChoice, Step, TradeSize};
use crate::trading_policy;
use crate::wire;
use crate::world::{World, WorldFailure};

const SECOND: u64 = 1_000;
const DOLLAR: u64 = 1_000_000;
/// The fault points of a plan whose steps a person signs.
const TRADE_FAULT_POINTS: [&str; 14] = [
    "plan.allowance_open",
    "plan.allowance_opened",
    "plan.permit_order",
    "plan.permit_ordered",
    "plan.permit_signed",
    "plan.permit_recorded",
    "plan.swap_open",
    "plan.swap_opened",
    "plan.revocation_open",
    "plan.revocation_opened",
    "plan.end",
    "outbox.send",
    "outbox.sent",
    "journal.after_commit",
];

/// A step of a trade from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceTradeStep {
    /// An agent asks for a trade. Its size is in millionths of a dollar.
    Ask(PlannedTrade),
    /// An agent repeats a request.
    Repeat {
        pick: Pick,
    },
    Poll {
        pick: Pick,
    },
    Approve {
        pick: Pick,
    },
    Deny {
        pick: Pick,
    },
    /// An operator denies the newest trade while the device shows its prompt, and the person approves it at once.
    DenyAndPress,
    /// The person approves the prompt on the screen, if there is one, and a block is mined: so many times.
    Attend {
        times: u8,
    },
    /// The person approves so many prompts, and refuses the next one.
    RefuseAfter {
        presses: u8,
    },
    /// The person approves so many prompts, and pulls the cable before the answer to the next one.
    PullAfter {
        presses: u8,
    },
    /// The person approves so many prompts and one more. Then another transaction takes the nonce of the one that was
    /// sent.
    DisplaceAfter {
        presses: u8,
    },
    /// The person approves so many prompts and one more. Then the block of the transaction is removed.
    ReorgAfter {
        presses: u8,
        lose: bool,
    },
    /// The person approves so many prompts and one more, while the nodes forget what they accept.
    ForgetAfter {
        presses: u8,
    },
    /// The setting that lets the device sign calls of contracts.
    BlindSigning {
        on: bool,
    },
    CrashAt {
        point: usize,
        after: u32,
    },
}

/// A call of `POST /trade`, kept so that it can be repeated.
#[derive(Debug, Clone)]
struct TradeCall {
    /// The number of the call. A repeat has the same number.
    call: u64,
    body: Value,
}

/// The world's knowledge of the trades from its device.
#[derive(Debug, Default)]
pub(crate) struct DeviceTrades {
    calls: Vec<TradeCall>,
    ids: Vec<String>,
    call_count: u64,
}

impl DeviceTrades {
    /// Keeps the id that an answer returned.
    pub(crate) fn keep_ids(&mut self, seen: &DeviceTradeObservation) {
        let DeviceTradeObservation::Answered(answer) = seen else { return };
        let Answer::Trade(trade) = &answer.answer else { return };
        if let Some(id) = trade.id.as_ref().filter(|id| !self.ids.contains(*id)) {
            self.ids.push(id.clone());
        }
    }
}

/// Returns the limits of the agents that trade from the device.
pub(crate) fn limits(trades: bool) -> DeviceTradeLimits {
    if !trades {
        return DeviceTradeLimits::default();
    }
    let policy = trading_policy::device_policy();
    DeviceTradeLimits {
        daily: policy.daily,
        per_trade: policy.per_trade,
        auto_below: policy.auto_below,
        max_slippage_bps: policy.max_slippage_bps,
    }
}

impl World {
    pub(crate) fn device_trade_step(&mut self, step: DeviceTradeStep) -> Result<(), WorldFailure> {
        let Some(device) = self.device.clone().filter(|_device| self.swarm.trades) else {
            return Ok(());
        };
        match step {
            DeviceTradeStep::Ask(planned) => return self.ask_device_trade(&planned),
            DeviceTradeStep::Repeat { pick } => {
                let calls = &self.device_payments.trades.calls;
                let Some(call) = pick.of(calls.len()).map(|at| calls[at].clone()) else {
                    return Ok(());
                };
                return self.send_device_trade(&call);
            }
            DeviceTradeStep::Poll { pick } => {
                let Some(id) = self.pick_device_trade(pick) else { return Ok(()) };
                return self.poll_device_trade(&id, false);
            }
            DeviceTradeStep::Approve { pick } => {
                let Some(id) = self.pick_device_trade(pick) else { return Ok(()) };
                return self.approve_on_device(id);
            }
            DeviceTradeStep::Deny { pick } => {
                let Some(id) = self.pick_device_trade(pick) else { return Ok(()) };
                return self.run_device_order(format!("deny {id}"));
            }
            DeviceTradeStep::DenyAndPress => {
                let newest = self.device_payments.trades.ids.last().cloned();
                let Some(id) = newest else { return Ok(()) };
                self.run_device_order(format!("deny {id}"))?;
                device.press(Decision::Press);
            }
            DeviceTradeStep::Attend { times } => return self.attend_device(times),
            DeviceTradeStep::RefuseAfter { presses } => {
                self.press_prompts(presses)?;
                device.press(Decision::Refuse);
            }
            DeviceTradeStep::PullAfter { presses } => {
                self.press_prompts(presses)?;
                device.press_and_pull();
                self.settle()?;
                device.set_plugged(true);
            }
            DeviceTradeStep::DisplaceAfter { presses } => {
                self.press_prompts(presses)?;
                device.press(Decision::Press);
                self.settle()?;
                self.chains.iter().for_each(|chain| chain.take_next_nonce());
            }
            DeviceTradeStep::ReorgAfter { presses, lose } => {
                self.press_prompts(presses)?;
                device.press(Decision::Press);
                self.settle()?;
                self.mine(1)?;
                self.chains.iter().for_each(|chain| chain.reorganize(lose));
            }
            DeviceTradeStep::ForgetAfter { presses } => {
                self.press_prompts(presses)?;
                self.chains.iter().for_each(|chain| chain.set_mode(NodeMode::Forgets));
                device.press(Decision::Press);
                self.settle()?;
                self.chains.iter().for_each(|chain| chain.set_mode(NodeMode::Honest));
            }
            DeviceTradeStep::BlindSigning { on } => device.set_blind_signing(on),
            DeviceTradeStep::CrashAt { point, after } => {
                self.faults.arm(TRADE_FAULT_POINTS[point], after)
            }
        }
        self.settle()
    }

    fn pick_device_trade(&self, pick: Pick) -> Option<String> {
        let ids = &self.device_payments.trades.ids;
        pick.of(ids.len()).map(|at| ids[at].clone())
    }

    /// Lets the person approve the prompt on the screen, if there is one, and mines a block: so many times.
    pub(crate) fn attend_device(&mut self, times: u8) -> Result<(), WorldFailure> {
        let Some(device) = self.device.clone() else { return Ok(()) };
        for _time in 0..times {
            device.press(Decision::Press);
            self.settle()?;
            self.mine(1)?;
        }
        Ok(())
    }

    /// Lets the person approve so many prompts, and waits for the next one.
    fn press_prompts(&mut self, presses: u8) -> Result<(), WorldFailure> {
        let Some(device) = self.device.clone() else { return Ok(()) };
        let mut left = presses;
        for _block in 0..12 {
            if device.has_prompt() {
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                device.press(Decision::Press);
                self.settle()?;
            }
            self.mine(1)?;
        }
        Ok(())
    }

    fn ask_device_trade(&mut self, planned: &PlannedTrade) -> Result<(), WorldFailure> {
        let TradeSize::Micros(micros) = planned.size else { return Ok(()) };
        let call = self.device_payments.trades.call_count + 1;
        let Some(worth) = self.input_worth(planned, micros).filter(|_worth| call < CALLS_MAX)
        else {
            return Ok(());
        };
        // The number of the call makes each input unique.
        let unit = alloy_primitives::U256::from(CALLS_MAX);
        let amount = worth / unit * unit + alloy_primitives::U256::from(call);
        let Some((fields, trade)) = self.trade_fields(planned, amount) else { return Ok(()) };
        self.device_payments.trades.call_count = call;
        let now = self.clock.now().utc.seconds();
        let agents = self.device_payments.agents();
        let client = &agents[usize::try_from(planned.agent.0).unwrap_or(0) % agents.len()];
        let mut body = client.trade(now, &fields);
        if client.uses_bearer {
            body["idempotency_key"] = json!(format!("device-{call}"));
        }
        let agent = client.id.clone();
        let called = DeviceTradeObservation::Called { call, agent, trade };
        self.show_device(DeviceObservation::Trade(called));
        let call = TradeCall { call, body };
        self.device_payments.trades.calls.push(call.clone());
        self.send_device_trade(&call)
    }

    fn send_device_trade(&mut self, call: &TradeCall) -> Result<(), WorldFailure> {
        let about = (Some(call.call), None);
        self.call_device_trade("POST", "/trade", Some(&call.body), about, false)
    }

    fn poll_device_trade(&mut self, id: &str, settled: bool) -> Result<(), WorldFailure> {
        let path = format!("/trade/status/{id}");
        self.call_device_trade("GET", &path, None, (None, Some(id.to_owned())), settled)
    }

    fn call_device_trade(
        &mut self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
        (call, polled): (Option<u64>, Option<String>),
        settled: bool,
    ) -> Result<(), WorldFailure> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let path = path.to_owned();
        let (http, tape) = (self.process().http.clone(), self.tape.clone());
        self.process().spawn(async move {
            let (status, bytes) = ask(http, method, &path, body).await;
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let least_out = body["quote"]["amount_out_min"].to_string().parse().ok();
            let answer = wire::trade_answer(status, &body);
            let answer = DeviceTradeAnswer { call, polled, answer, least_out, settled };
            let seen = DeviceTradeObservation::Answered(Box::new(answer));
            tape.write_audited(Observation::Device(DeviceObservation::Trade(seen)));
        });
        self.settle()
    }

    /// Polls the newest trades of the device; at the end of a run, all of them.
    pub(crate) fn poll_device_trades(&mut self, settled: bool) -> Result<(), WorldFailure> {
        let newest = if settled { usize::MAX } else { 3 };
        let ids = &self.device_payments.trades.ids;
        let ids: Vec<String> = ids.iter().rev().take(newest).cloned().collect();
        ids.iter().try_for_each(|id| self.poll_device_trade(id, settled))
    }
}

fn draw_trade(dice: &mut Dice) -> PlannedTrade {
    let agent = Pick(dice.roll(2));
    let drawn = draw_trades::planned(dice, agent);
    // Most trades need no operator.
    let micros = match dice.roll(8) {
        0 | 1 => 60 * DOLLAR + dice.roll(45 * DOLLAR),
        2 => 100_000 + dice.roll(DOLLAR),
        _ => 3 * DOLLAR + dice.roll(54 * DOLLAR),
    };
    let pool = match drawn.pool {
        _any if dice.chance(2, 3) => PoolChoice::Named(dice.one_of(&[0, 1, 2, 7, 8, 8, 9, 14])),
        pool => pool,
    };
    let slippage_bps = drawn.slippage_bps.filter(|_any| dice.chance(1, 3));
    let deadline_s = drawn.deadline_s.filter(|_any| dice.chance(1, 2));
    let size = TradeSize::Micros(micros);
    PlannedTrade { agent, pool, size, slippage_bps, deadline_s, key: None, ..drawn }
}

fn draw_device_trade(dice: &mut Dice, crashes: bool) -> Step {
    let pick = Pick(dice.roll(4_000));
    let step = match dice.roll(40) {
        0..=7 => DeviceTradeStep::Ask(draw_trade(dice)),
        8..=17 => DeviceTradeStep::Attend { times: 1 + dice.roll(6) as u8 },
        18..=20 => DeviceTradeStep::RefuseAfter { presses: dice.roll(4) as u8 },
        21 | 22 => DeviceTradeStep::PullAfter { presses: dice.roll(3) as u8 },
        23..=25 => DeviceTradeStep::Repeat { pick },
        26 => DeviceTradeStep::Poll { pick },
        27..=30 => DeviceTradeStep::Approve { pick },
        31 => DeviceTradeStep::Deny { pick },
        32 => DeviceTradeStep::DenyAndPress,
        33 => DeviceTradeStep::BlindSigning { on: dice.chance(3, 4) },
        34 | 35 if crashes => DeviceTradeStep::CrashAt {
            point: dice.index(TRADE_FAULT_POINTS.len()),
            after: dice.roll(2) as u32,
        },
        34 | 35 => draw_disturbance(dice),
        36 => return Step::BaseFee { chain: 0, permille: dice.one_of(&[10, 50, 120, 400]) },
        _ => {
            let ms = dice.one_of(&[SECOND, 16 * SECOND, 60 * SECOND, 172 * SECOND, 301 * SECOND]);
            return Step::Pass { ms };
        }
    };
    Step::Device(DeviceStep::Trade(step))
}

/// Draws trouble with a transaction that a person has just approved.
fn draw_disturbance(dice: &mut Dice) -> DeviceTradeStep {
    let presses = dice.roll(3) as u8;
    match dice.roll(3) {
        0 => DeviceTradeStep::DisplaceAfter { presses },
        1 => DeviceTradeStep::ReorgAfter { presses, lose: dice.chance(1, 3) },
        _ => DeviceTradeStep::ForgetAfter { presses },
    }
}

/// Ends the trouble of the device, and plays one trade from its request to its end or to a refusal.
fn draw_calm_trade(dice: &mut Dice) -> Vec<Step> {
    let device = Step::Device;
    let trade = |step| Step::Device(DeviceStep::Trade(step));
    let mut steps = vec![
        Step::Open { right: true },
        Step::Thaw { right: true },
        device(DeviceStep::Cable { plugged: true }),
        device(DeviceStep::Pin { locked: false }),
        device(DeviceStep::App { other: false }),
        device(DeviceStep::Swap { other: false }),
        trade(DeviceTradeStep::BlindSigning { on: true }),
        device(DeviceStep::Decide { presses: false }),
        device(DeviceStep::Resume { agent: 0 }),
        device(DeviceStep::Resume { agent: 1 }),
        trade(DeviceTradeStep::Ask(draw_trade(dice))),
        trade(DeviceTradeStep::Approve { pick: Pick(1) }),
    ];
    match dice.roll(4) {
        0 => steps.push(trade(DeviceTradeStep::RefuseAfter { presses: dice.roll(4) as u8 })),
        1 => steps.push(trade(draw_disturbance(dice))),
        _ => {}
    }
    steps.push(trade(DeviceTradeStep::Attend { times: 12 }));
    steps.push(trade(DeviceTradeStep::Repeat { pick: Pick(4_001) }));
    steps
}

impl Plan {
    /// Adds trades from the device to worlds that trade and have a device.
    pub(crate) fn with_device_trades(mut self) -> Self {
        if !self.swarm.devices || !self.swarm.trades {
            return self;
        }
        let mut dice = Dice::new(self.seed ^ 0x7ade_1ed6);
        let mut mixed = Vec::new();
        for step in std::mem::take(&mut self.steps) {
            let follows = Step::follows_at_once(&mixed);
            let more = if follows { 0 } else { dice.roll(3) };
            for _one in 0..more {
                mixed.push(draw_device_trade(&mut dice, self.swarm.crashes));
            }
            if !follows && dice.chance(1, 16) {
                mixed.extend(draw_calm_trade(&mut dice));
            }
            mixed.push(step);
        }
        Self { steps: mixed, ..self }
    }
}
