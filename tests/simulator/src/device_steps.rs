//! Payments from a hardware device: the steps of agents, operators and the person at the device.

use alloy_primitives::Address;
use bursar_auditor::observations::{
    Answer, DeviceAsk, DeviceLimits, DeviceObservation, Observation, Order, TradingPolicy,
};
use bursar_chain::ports::Clock;
use bursar_control::grammar::Order as Parsed;
use bursar_demo::operator::Operator;
use bursar_devnet::agent::Agent;
use bursar_ledger_device::device::Decision;
use bursar_tests::dice::Dice;
use bursar_tests::engine::ask;
use bursar_tests::offers;
use bursar_tests::operator::PASSWORD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::device_trades::{self, DeviceTradeStep, DeviceTrades};
use crate::orders::parse_cached;
use crate::plan::{Pick, Plan, Step, Swarm};
use crate::trading_policy;
use crate::wire::{self, Limits, PLAIN};
use crate::world::{World, WorldFailure};

const SECOND: u64 = 1_000;
/// A label, a policy and names that no other step uses.
const LABEL: &str = "ledger";
const POLICY: &str = "ledgers";
const NAMES: [&str; 2] = ["gil", "hal"];
const LIMITS: Limits =
    Limits { daily: 6_000_000, per_request: 5_000_000, auto_below: 2_000_000, ..PLAIN };
/// The fault points that a device payment passes.
const DEVICE_FAULT_POINTS: [&str; 8] = [
    "device.ready",
    "device.prompted",
    "device.answered",
    "device.recorded",
    "journal.before_commit",
    "journal.before_sync",
    "journal.after_commit",
    "reply.before",
];

/// A step of a device payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceStep {
    /// An agent asks for a payment of `micros` micro-dollars, valid for `timeout_s` seconds.
    Ask {
        agent: u8,
        micros: u64,
        timeout_s: u64,
    },
    /// An agent repeats a request.
    Repeat {
        pick: Pick,
    },
    Poll {
        pick: Pick,
    },
    Standing {
        agent: u8,
    },
    Approve {
        pick: Pick,
    },
    Deny {
        pick: Pick,
    },
    /// An operator denies the newest request while the device shows its prompt, and the person approves it at once.
    DenyAndPress,
    Suspend {
        agent: u8,
    },
    Resume {
        agent: u8,
    },
    /// The person decides about the prompt on the device.
    Decide {
        presses: bool,
    },
    /// The person approves the prompt, and the cable is pulled before the answer.
    PressAndPull,
    /// Like `PressAndPull`. Then an operator denies the newest request, and the agents read their reserved amounts.
    PressPullAndDeny,
    Cable {
        plugged: bool,
    },
    Pin {
        locked: bool,
    },
    App {
        other: bool,
    },
    Switch {
        on: bool,
    },
    Swap {
        other: bool,
    },
    /// The device is swapped before the n-th command from now.
    SwapAt {
        command: u64,
    },
    CutBefore {
        command: u64,
    },
    CutAfter {
        command: u64,
    },
    CrashAt {
        point: usize,
        after: u32,
    },
    Pass {
        ms: u64,
    },
    /// A step of a trade.
    Trade(DeviceTradeStep),
}

/// Inserts device steps between the steps of a plan.
pub(crate) fn mix_in_device_steps(dice: &mut Dice, swarm: Swarm, steps: Vec<Step>) -> Vec<Step> {
    let mut mixed = Vec::new();
    for step in steps {
        let more = if Step::follows_at_once(&mixed) { 0 } else { dice.roll(4) };
        for _one in 0..more {
            mixed.push(Step::Device(draw_device_step(dice, swarm)));
        }
        mixed.push(step);
    }
    mixed
}

fn draw_device_step(dice: &mut Dice, swarm: Swarm) -> DeviceStep {
    let agent = dice.roll(2) as u8;
    let pick = Pick(dice.roll(4_000));
    // Most payments need no operator.
    let most = if dice.chance(1, 4) { 520 } else { 199 };
    match dice.roll(40) {
        0..=9 => DeviceStep::Ask {
            agent,
            micros: 10_000 * (1 + dice.roll(most)),
            timeout_s: dice.one_of(&[30, 60, 60, 60, 300]),
        },
        10 => DeviceStep::Repeat { pick },
        11 => DeviceStep::Poll { pick },
        12 => DeviceStep::Standing { agent },
        13 => DeviceStep::Approve { pick },
        14 => DeviceStep::Deny { pick },
        15 => DeviceStep::DenyAndPress,
        16 if swarm.edits => DeviceStep::Suspend { agent },
        17 if swarm.edits => DeviceStep::Resume { agent },
        18..=25 => DeviceStep::Decide { presses: dice.chance(5, 6) },
        26 if dice.chance(1, 2) => DeviceStep::PressPullAndDeny,
        26 => DeviceStep::PressAndPull,
        27 | 28 => DeviceStep::Cable { plugged: dice.chance(3, 4) },
        29 => DeviceStep::Pin { locked: dice.chance(1, 3) },
        30 => DeviceStep::App { other: dice.chance(1, 3) },
        31 => DeviceStep::Switch { on: dice.chance(2, 3) },
        32 => DeviceStep::Swap { other: dice.chance(1, 3) },
        33 => DeviceStep::SwapAt { command: 1 + dice.roll(40) },
        34 => DeviceStep::CutBefore { command: 1 + dice.roll(40) },
        35 => DeviceStep::CutAfter { command: 1 + dice.roll(40) },
        36 | 37 if swarm.crashes => DeviceStep::CrashAt {
            point: dice.index(DEVICE_FAULT_POINTS.len()),
            after: dice.roll(2) as u32,
        },
        _ => DeviceStep::Pass {
            ms: dice.one_of(&[250, SECOND, 2 * SECOND, 16 * SECOND, 40 * SECOND]),
        },
    }
}

impl Plan {
    /// Adds a device to a quarter of all worlds. Worlds that lend get one less often, because device steps are many.
    pub(crate) fn with_device(mut self) -> Self {
        let mut dice = Dice::new(self.seed ^ 0x1ed6e4);
        self.swarm.devices = dice.chance(1, 4) && (!self.swarm.loans || dice.chance(1, 3));
        if self.swarm.devices {
            self.steps = mix_in_device_steps(&mut dice, self.swarm, self.steps);
        }
        self
    }
}

/// A request of an agent that pays from the device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceCall {
    agent: usize,
    /// The number of the call. A repeat has the same number.
    call: u64,
    body: Value,
}

/// The world's knowledge of the payments from its device.
#[derive(Debug, Default)]
pub(crate) struct DevicePayments {
    agents: Vec<Agent>,
    calls: Vec<DeviceCall>,
    ids: Vec<String>,
    asked: u64,
    /// The address whose key is on the device.
    pub(crate) address: Option<Address>,
    pub(crate) trades: DeviceTrades,
}

/// Reads an answer. Recovers the signer of a payment header from the header's terms.
fn answer(status: u16, body: &Value) -> Answer {
    let mut answer = wire::answer(status, body);
    if let (Answer::Header { payment, .. }, Some(header)) =
        (&mut answer, body["header_value"].as_str())
    {
        payment.signer = Some(offers::signed_terms(header).1.to_lowercase());
    }
    answer
}

impl DevicePayments {
    pub(crate) fn agent_ids(&self) -> Vec<String> {
        self.agents.iter().map(|agent| agent.id.clone()).collect()
    }

    /// Returns the agents that pay and trade from the device.
    pub(crate) fn agents(&self) -> &[Agent] {
        &self.agents
    }

    /// Keeps the ids that answers returned.
    pub(crate) fn keep_ids(&mut self, seen: &DeviceObservation) {
        let answer = match seen {
            DeviceObservation::Answered { answer, .. } => answer,
            DeviceObservation::Trade(seen) => return self.trades.keep_ids(seen),
            _other => return,
        };
        let (Answer::Header { id, .. }
        | Answer::AlreadySigned { id }
        | Answer::Pending { id }
        | Answer::Executing { id }
        | Answer::Rejected { id, .. }) = answer
        else {
            return;
        };
        if !self.ids.contains(id) {
            self.ids.push(id.clone());
        }
    }
}

impl World {
    /// Enrols an address of the device, and commissions two agents that pay from it.
    pub(crate) fn set_up_device(&mut self) -> Result<(), WorldFailure> {
        if !self.swarm.devices {
            return Ok(());
        }
        self.faults.watch_devices();
        let order = Order::AddAddress { label: LABEL.to_owned() };
        self.order(order, format!("address ledger add 0 {LABEL}"), true)?;
        let state = self.process().core().state();
        let known = state.wallet.iter().flat_map(|wallet| wallet.addresses.values());
        let mut known = known.filter(|known| known.label.as_str() == LABEL);
        let address = known.next().expect("it is enrolled").address;
        self.device_payments.address = Some(address);
        self.chains.iter().for_each(|chain| chain.watch_device(address));
        let address = format!("{address:#x}");
        self.show_device(DeviceObservation::Enrolled { address });
        let (trading, options) = match self.swarm.trades {
            true => (trading_policy::device_policy(), trading_policy::device_options()),
            false => (TradingPolicy::default(), String::new()),
        };
        let policy = LIMITS.auditor_policy(self.swarm.edition, trading);
        let order = Order::CreatePolicy { name: POLICY.to_owned(), policy };
        let line =
            format!("policy create {POLICY} {} {options}", LIMITS.options(self.swarm.edition));
        self.order(order, line, true)?;
        for (name, bearer) in NAMES.into_iter().zip([true, false]) {
            let order = Order::RegisterAgent { name: name.to_owned(), bearer };
            let auth = if bearer { "bearer" } else { "hmac" };
            self.order(order, format!("agent register {name} --auth {auth}"), true)?;
            // Other steps never use these agents.
            let agent = self.agents.pop().expect("it is registered");
            let id = agent.id.clone();
            let limits = DeviceLimits {
                daily: LIMITS.daily,
                per_request: LIMITS.per_request,
                auto_below: LIMITS.auto_below,
                trades: device_trades::limits(self.swarm.trades),
            };
            let (agent_id, is_signed) = (id.clone(), !bearer);
            self.show_device(DeviceObservation::Commissioned {
                agent: agent_id,
                is_signed,
                limits,
            });
            self.device_payments.agents.push(agent);
            let order = Order::Commission {
                agent: id.clone(),
                policy: POLICY.to_owned(),
                label: LABEL.to_owned(),
            };
            self.order(order, format!("agent commission {id} {POLICY} {LABEL}"), true)?;
        }
        Ok(())
    }

    pub(crate) fn device_step(&mut self, step: DeviceStep) -> Result<(), WorldFailure> {
        let Some(device) = self.device.clone() else { return Ok(()) };
        match step {
            DeviceStep::Ask { agent, micros, timeout_s } => {
                return self.ask_device(usize::from(agent), micros, timeout_s);
            }
            DeviceStep::Repeat { pick } => {
                let calls = &self.device_payments.calls;
                let Some(call) = pick.of(calls.len()).map(|at| calls[at].clone()) else {
                    return Ok(());
                };
                return self.send_device(call);
            }
            DeviceStep::Poll { pick } => {
                let Some(id) = self.pick_device_id(pick) else { return Ok(()) };
                return self.poll_device(&id, false);
            }
            DeviceStep::Standing { agent } => {
                return self.read_device_standing(agent.into(), false);
            }
            DeviceStep::Approve { pick } => {
                let Some(id) = self.pick_device_id(pick) else { return Ok(()) };
                return self.approve_on_device(id);
            }
            DeviceStep::Deny { pick } => {
                let Some(id) = self.pick_device_id(pick) else { return Ok(()) };
                return self.run_device_order(format!("deny {id}"));
            }
            DeviceStep::DenyAndPress => {
                let Some(id) = self.device_payments.ids.last().cloned() else { return Ok(()) };
                self.run_device_order(format!("deny {id}"))?;
                device.press(Decision::Press);
            }
            DeviceStep::Suspend { agent } => {
                let agent = self.device_payments.agents[usize::from(agent)].id.clone();
                let line = format!("agent suspend {agent}");
                return self.order(Order::Suspend { agent }, line, true);
            }
            DeviceStep::Resume { agent } => {
                let agent = self.device_payments.agents[usize::from(agent)].id.clone();
                let line = format!("agent resume {agent}");
                return self.order(Order::Resume { agent }, line, true);
            }
            DeviceStep::Decide { presses: true } => device.press(Decision::Press),
            DeviceStep::Decide { presses: false } => device.press(Decision::Refuse),
            DeviceStep::PressAndPull => device.press_and_pull(),
            DeviceStep::PressPullAndDeny => {
                device.press_and_pull();
                let Some(id) = self.device_payments.ids.last().cloned() else { return Ok(()) };
                self.run_device_order(format!("deny {id}"))?;
                self.read_device_standing(0, false)?;
                self.read_device_standing(1, false)?;
            }
            DeviceStep::Cable { plugged } => device.set_plugged(plugged),
            DeviceStep::Pin { locked } => device.set_locked(locked),
            DeviceStep::App { other } => device.set_other_app(other),
            DeviceStep::Switch { on } => device.set_switch(on),
            DeviceStep::Swap { other } => device.swap(other),
            DeviceStep::SwapAt { command } => device.swap_at(command),
            DeviceStep::CutBefore { command } => device.pull_cable_at(Some(command), None),
            DeviceStep::CutAfter { command } => device.pull_cable_at(None, Some(command)),
            DeviceStep::CrashAt { point, after } => {
                self.faults.arm(DEVICE_FAULT_POINTS[point], after)
            }
            DeviceStep::Pass { ms } => return self.pass(ms),
            DeviceStep::Trade(step) => return self.device_trade_step(step),
        }
        self.settle()
    }

    pub(crate) fn show_device(&self, seen: DeviceObservation) {
        self.tape.write_audited(Observation::Device(seen));
    }

    fn pick_device_id(&self, pick: Pick) -> Option<String> {
        let ids = &self.device_payments.ids;
        pick.of(ids.len()).map(|at| ids[at].clone())
    }

    fn ask_device(
        &mut self,
        agent: usize,
        micros: u64,
        timeout_s: u64,
    ) -> Result<(), WorldFailure> {
        let payments = &mut self.device_payments;
        payments.asked += 1;
        let url = format!("https://api.example.com/{}", payments.asked);
        let mut challenge = offers::challenge(offers::BASE, micros, &url);
        challenge["accepts"][0]["maxTimeoutSeconds"] = timeout_s.into();
        let now = self.clock.now().utc.seconds();
        let body = payments.agents[agent].ask(now, &offers::header(&challenge), None);
        let call = self.device_payments.asked;
        let accepts = &challenge["accepts"][0];
        let text = |name: &str| accepts[name].as_str().expect("a text").to_lowercase();
        let payment = DeviceAsk {
            chain: offers::BASE.0,
            asset: text("asset"),
            payee: text("payTo"),
            amount: micros.into(),
        };
        self.show_device(DeviceObservation::Called { call, payment });
        self.send_device(DeviceCall { agent, call, body })
    }

    fn send_device(&mut self, call: DeviceCall) -> Result<(), WorldFailure> {
        self.device_payments.calls.push(call.clone());
        let (agent, number) = (call.agent, Some(call.call));
        self.call_device("POST", "/sign", Some(call.body), (agent, number), false, answer)
    }

    fn call_device(
        &mut self,
        method: &'static str,
        path: &str,
        body: Option<Value>,
        (agent, call): (usize, Option<u64>),
        settled: bool,
        read: fn(u16, &Value) -> Answer,
    ) -> Result<(), WorldFailure> {
        let agent = self.device_payments.agents[agent].id.clone();
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let path = path.to_owned();
        let (http, tape) = (self.process().http.clone(), self.tape.clone());
        self.process().spawn(async move {
            let (status, bytes) = ask(http, method, &path, body).await;
            let answer = read(status, &serde_json::from_slice(&bytes).unwrap_or(Value::Null));
            tape.write_audited(Observation::Device(DeviceObservation::Answered {
                agent,
                call,
                answer,
                settled,
            }));
        });
        self.settle()
    }

    fn poll_device(&mut self, id: &str, settled: bool) -> Result<(), WorldFailure> {
        self.call_device("GET", &format!("/sign/status/{id}"), None, (0, None), settled, answer)
    }

    fn read_device_standing(&mut self, agent: usize, settled: bool) -> Result<(), WorldFailure> {
        let now = self.clock.now().utc.seconds();
        let body = self.device_payments.agents[agent].read(now);
        self.call_device("POST", "/status", Some(body), (agent, None), settled, wire::standing)
    }

    /// Polls the newest payments. At the end of a run, polls all of them and reads the standings of their agents.
    pub(crate) fn poll_device_payments(&mut self, settled: bool) -> Result<(), WorldFailure> {
        let newest = if settled { usize::MAX } else { 6 };
        let ids: Vec<String> =
            self.device_payments.ids.iter().rev().take(newest).cloned().collect();
        for id in ids {
            self.poll_device(&id, settled)?;
        }
        for agent in 0..if settled { self.device_payments.agents.len() } else { 0 } {
            self.read_device_standing(agent, true)?;
        }
        Ok(())
    }

    /// Lets an operator approve a request whose key is on the device.
    pub(crate) fn approve_on_device(&mut self, request: String) -> Result<(), WorldFailure> {
        let line = format!("approve {request} --yes");
        self.show_device(DeviceObservation::Decided { request, approved: true });
        self.run_device_order(line)
    }

    /// Gives an order about a device payment. Only the device module of the auditor judges it.
    pub(crate) fn run_device_order(&mut self, line: String) -> Result<(), WorldFailure> {
        let parsed = parse_cached(line);
        let denied = match &parsed {
            Parsed::Deny(deny) => deny.id.clone(),
            _other => None,
        };
        let mut operator = Operator::new(self.process().attach(), PASSWORD);
        let tape = self.tape.clone();
        self.process().spawn(async move {
            // The link breaks when the process dies.
            let Ok(outcome) = operator.run_order(parsed).await else { return };
            if let Some(request) = denied.filter(|_id| outcome.reply.result.is_ok()) {
                let decided = DeviceObservation::Decided { request, approved: false };
                tape.write_audited(Observation::Device(decided));
            }
        });
        self.settle()
    }

    /// Ends all device trouble, and lets the person refuse the prompt on the screen.
    pub(crate) fn calm_device(&mut self) -> Result<(), WorldFailure> {
        let Some(device) = self.device.clone() else { return Ok(()) };
        device.end_trouble();
        device.press(Decision::Refuse);
        self.settle()
    }
}
