//! The orders of operators in the world.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_auditor::observations::{
    End, LendingPolicy, Listed, Observation, Order, Policy, TradingPolicy,
};
use bursar_control::answers::Answer;
use bursar_control::grammar::{Approve, Deny, Order as Parsed};
use bursar_core::auth::AuthMode;
use bursar_core::card::Lane;
use bursar_core::money::Usd;
use bursar_demo::operator::{Operator, Outcome};
use bursar_devnet::agent::Agent;
use bursar_tests::operator::PASSWORD;

use crate::lending_policy;
use crate::plan::{CardChoice, Pick, Step};
use crate::trading_policy;
use crate::wire::{self, POLICIES};
use crate::world::{World, WorldFailure};

const WRONG_PASSWORD: &str = "wrong horse battery";
pub(crate) const PHRASE: &str = "test test test test test test test test test test test junk";
const AGENT_NAMES: [&str; 6] = ["ann", "bob", "cem", "dan", "eve", "fay"];

thread_local! {
    static PARSED_LINES: RefCell<BTreeMap<String, Parsed>> = const { RefCell::new(BTreeMap::new()) };
}

pub(crate) fn policy_name(which: usize) -> String {
    format!("p{which}")
}

fn address_label(which: usize) -> String {
    format!("a{which}")
}

/// Parses a command line. The result is cached, because parsing costs more than executing, and most lines repeat.
pub(crate) fn parse_cached(line: String) -> Parsed {
    PARSED_LINES.with_borrow_mut(|lines| {
        if lines.len() > 4096 {
            lines.clear();
        }
        let read = |line: &String| Parsed::parse_line(line).expect("a good line");
        lines.entry(line).or_insert_with_key(read).clone()
    })
}

impl World {
    /// Gives one order. Waits until all tasks are idle, unless the next step must run concurrently.
    pub(crate) fn order(
        &mut self,
        order: Order,
        line: String,
        right: bool,
    ) -> Result<(), WorldFailure> {
        let parsed = parse_cached(line);
        self.run_order(order, parsed, right)
    }

    pub(crate) fn run_order(
        &mut self,
        order: Order,
        parsed: Parsed,
        right: bool,
    ) -> Result<(), WorldFailure> {
        let ticket = self.ticket();
        self.tape.write(Observation::Ordered { ticket, order: order.clone() });
        let idle = Arc::clone(&self.process().operators);
        let free = idle.lock().unwrap().pop();
        let mut operator = free.unwrap_or_else(|| Operator::new(self.process().attach(), PASSWORD));
        operator.password = if right { PASSWORD } else { WRONG_PASSWORD }.to_owned();
        let field = self.bounds.edition(self.swarm.edition).wire.field;
        let (tape, new_credentials) = (self.tape.clone(), Arc::clone(&self.new_credentials));
        // Only the device module of the auditor judges device payments.
        let unlisted = self.device_payments.agent_ids();
        self.process().spawn(async move {
            // The link breaks when the process dies.
            let Ok(outcome) = operator.run_order(parsed).await else { return };
            idle.lock().unwrap().push(operator);
            new_credentials.lock().unwrap().extend(credentials(&outcome, field));
            tape.write(Observation::OrderEnded {
                ticket,
                end: order_end(&order, &outcome, &unlisted),
            });
        });
        if self.concurrency.keeps_in_flight {
            return Ok(());
        }
        self.settle()
    }

    pub(crate) fn order_open(&mut self, right: bool) -> Result<(), WorldFailure> {
        self.order_with_password(Order::OpenWallet { right }, "wallet open", right)
    }

    pub(crate) fn order_thaw(&mut self, right: bool) -> Result<(), WorldFailure> {
        self.order_with_password(Order::Thaw { right }, "thaw", right)
    }

    /// Opens the wallet as a start with a stored password does.
    fn open_unattended(&mut self) -> Result<(), WorldFailure> {
        if self.password_order.is_some() {
            return Ok(());
        }
        let ticket = self.ticket();
        self.password_order = Some(ticket);
        self.tape.write(Observation::Ordered { ticket, order: Order::OpenUnattended });
        self.process().unlock(ticket);
        self.settle()
    }

    /// Gives an order that needs the password. Like a real program, it never has two passwords in flight.
    fn order_with_password(
        &mut self,
        order: Order,
        line: &str,
        right: bool,
    ) -> Result<(), WorldFailure> {
        if self.password_order.is_some() {
            return Ok(());
        }
        self.password_order = Some(self.ticket + 1);
        self.order(order, line.to_owned(), right)
    }

    /// Creates the wallet, its seed and two addresses.
    pub(crate) fn set_up_wallet(&mut self) -> Result<(), WorldFailure> {
        self.order(Order::CreateWallet, "wallet create main".to_owned(), true)?;
        self.run_unobserved("seed import")?;
        self.add_address(0)?;
        self.add_address(1)
    }

    pub(crate) fn create_policies(&mut self) -> Result<(), WorldFailure> {
        for which in 0..2 {
            let variant = self.dice.index(POLICIES.len().min(7));
            self.create_policy(which, variant)?;
        }
        Ok(())
    }

    /// Runs a command that the auditor does not need to see.
    fn run_unobserved(&mut self, line: &'static str) -> Result<(), WorldFailure> {
        let mut operator = Operator::new(self.process().attach(), PASSWORD);
        operator.phrase = PHRASE.to_owned();
        self.process().spawn(async move {
            let outcome = operator.run(line).await.expect("a link");
            outcome.reply.result.expect("done");
        });
        self.settle()
    }

    fn add_address(&mut self, which: usize) -> Result<(), WorldFailure> {
        let order = Order::AddAddress { label: address_label(which) };
        self.next_index += 1;
        self.order(
            order,
            format!("address create {} {}", address_label(which), self.next_index),
            true,
        )
    }

    fn create_policy(&mut self, which: usize, variant: usize) -> Result<(), WorldFailure> {
        let (policy, options) = self.policy(variant);
        let name = policy_name(which);
        let lending = if self.swarm.loans {
            let variant = self.lending_variants[which % 4];
            self.show_lending(lending_policy::auditor_policy(variant));
            lending_policy::options(variant)
        } else {
            String::new()
        };
        let line = format!("policy create {name} {options} {lending}");
        self.order(Order::CreatePolicy { name, policy }, line, true)
    }

    /// Shows the auditor the lending limits that the next order sets.
    fn show_lending(&self, lending: LendingPolicy) {
        let ticket = self.ticket + 1;
        self.tape.write_audited(Observation::LendingOrdered { ticket, lending });
    }

    /// Edits the lending limits, and those of the other lanes.
    pub(crate) fn edit_lending(
        &mut self,
        which: usize,
        variant: usize,
    ) -> Result<(), WorldFailure> {
        let (policy, options) = self.policy(variant % POLICIES.len());
        self.show_lending(lending_policy::edited_policy(variant));
        let (name, lending) = (policy_name(which), lending_policy::edit_options(variant));
        let line = format!("policy edit {name} {options} {lending}");
        self.order(Order::EditPolicy { name, policy }, line, true)
    }

    /// Returns a policy in the auditor's type, and its command-line options.
    fn policy(&self, variant: usize) -> (Policy, String) {
        let (limits, edition) = (&POLICIES[variant], self.swarm.edition);
        let options = limits.options(edition);
        if !self.swarm.trades {
            return (limits.auditor_policy(edition, TradingPolicy::default()), options);
        }
        let options = format!("{options} {}", trading_policy::options(variant));
        (limits.auditor_policy(edition, trading_policy::auditor_policy(variant)), options)
    }

    pub(crate) fn operate(&mut self, step: Step) -> Result<(), WorldFailure> {
        let agent_id = |world: &Self, pick: Pick| {
            pick.of(world.agents.len()).map(|at| world.agents[at].id.clone())
        };
        match step {
            Step::List => self.order(Order::List, "requests".to_owned(), true),
            Step::Approve { pick, card } => self.approve(pick, card),
            Step::Deny { pick } => {
                let Some(id) = self.pick_held_id(pick) else { return Ok(()) };
                let deny = Parsed::Deny(Deny::one(id.clone()));
                self.run_order(Order::Deny { id }, deny, true)
            }
            Step::EditPolicy { which, variant } => {
                let (policy, options) = self.policy(variant);
                let name = policy_name(which);
                let line = format!("policy edit {name} {options}");
                self.order(Order::EditPolicy { name, policy }, line, true)
            }
            Step::CreatePolicy { which, variant } => self.create_policy(which, variant),
            Step::DeletePolicy { which } => {
                let name = policy_name(which);
                let line = format!("policy delete {name}");
                self.order(Order::DeletePolicy { name }, line, true)
            }
            Step::Register { bearer, name } => {
                let name = AGENT_NAMES[name % AGENT_NAMES.len()].to_owned();
                let auth = if bearer { "bearer" } else { "hmac" };
                let line = format!("agent register {name} --auth {auth}");
                self.order(Order::RegisterAgent { name, bearer }, line, true)
            }
            Step::ReplaceToken { agent } => {
                let Some(at) = agent.of(self.agents.len()) else { return Ok(()) };
                let known = self.agents[at].clone();
                if !known.uses_bearer || self.concurrency.keeps_in_flight {
                    return Ok(());
                }
                let line = format!("agent instructions {} --regenerate", known.id);
                self.order(Order::ReplaceToken { agent: known.id }, line, true)
            }
            Step::Commission { agent, policy: which, label: at } => {
                let Some(agent) = agent_id(self, agent) else { return Ok(()) };
                let (policy, label) = (policy_name(which), address_label(at));
                let line = format!("agent commission {agent} {policy} {label}");
                self.order(Order::Commission { agent, policy, label }, line, true)
            }
            Step::Suspend { agent } => {
                let Some(agent) = agent_id(self, agent) else { return Ok(()) };
                let line = format!("agent suspend {agent}");
                self.order(Order::Suspend { agent }, line, true)
            }
            Step::Resume { agent } => {
                let Some(agent) = agent_id(self, agent) else { return Ok(()) };
                let line = format!("agent resume {agent}");
                self.order(Order::Resume { agent }, line, true)
            }
            Step::Renew { agent } => {
                let Some(agent) = agent_id(self, agent) else { return Ok(()) };
                let line = format!("agent renew {agent}");
                self.order(Order::Renew { agent }, line, true)
            }
            Step::DeleteAgent { agent } => {
                let Some(agent) = agent_id(self, agent) else { return Ok(()) };
                let line = format!("agent delete {agent}");
                self.order(Order::DeleteAgent { agent }, line, true)
            }
            Step::AddAddress { label } => self.add_address(label),
            Step::RenameAddress { label: from, to } => {
                let line = format!("address rename {} {}", address_label(from), address_label(to));
                self.order(
                    Order::RenameAddress { label: address_label(from), to: address_label(to) },
                    line,
                    true,
                )
            }
            Step::DeleteAddress { label: which } => {
                let line = format!("address delete {}", address_label(which));
                self.order(Order::DeleteAddress { label: address_label(which) }, line, true)
            }
            Step::Network { chain, on } => {
                let chain = wire::chains(self.swarm.edition)[chain];
                let line = format!("network {} {chain}", if on { "enable" } else { "disable" });
                self.order(Order::SwitchNetwork { chain, on }, line, true)
            }
            Step::MaxValidity { seconds } => {
                let line = format!("config set payments.max_validity {seconds}");
                self.order(Order::MaxValidity { seconds }, line, true)
            }
            other => self.operate_wallet(other),
        }
    }

    /// Opens, locks or freezes the wallet, or limits unattended days.
    fn operate_wallet(&mut self, step: Step) -> Result<(), WorldFailure> {
        match step {
            Step::Open { right } => self.order_open(right),
            Step::OpenUnattended => self.open_unattended(),
            Step::UnattendedDaily { micros } => {
                let limit = micros.map_or("off".to_owned(), |micros| Usd(micros).to_string());
                let line = format!("config set unattended.daily {limit}");
                self.order(Order::UnattendedDaily { limit: micros }, line, true)
            }
            Step::Lock => self.order(Order::LockWallet, "wallet lock".to_owned(), true),
            Step::Freeze => self.order(Order::Freeze, "freeze".to_owned(), true),
            Step::Thaw { right } => self.order_thaw(right),
            _other => Ok(()),
        }
    }

    /// Returns the id of a held request. If none is held, or rarely by chance, it may be any request.
    fn pick_held_id(&mut self, pick: Pick) -> Option<String> {
        let held = &self.process().core().state().held;
        let held = held.values().filter(|request| request.loan().is_none());
        let held: Vec<String> = held.map(|request| request.id.to_string()).collect();
        let held: Vec<String> = held.into_iter().filter(|id| self.is_shown(id)).collect();
        let any = || self.ids.iter().chain(&self.trade_ids).cloned().collect();
        let candidates: Vec<String> =
            if held.is_empty() || pick.0.is_multiple_of(8) { any() } else { held };
        pick.of(candidates.len()).map(|at| candidates[at].clone())
    }

    /// Returns whether an answer or a list has shown the id of a request. An operator can name only such requests.
    pub(crate) fn is_shown(&self, id: &str) -> bool {
        let mut returned = self.ids.iter().chain(&self.trade_ids).chain(&self.loan_ids);
        returned.any(|known| known == id) || self.cards.iter().any(|(listed, _card)| listed == id)
    }

    fn approve(&mut self, pick: Pick, card: CardChoice) -> Result<(), WorldFailure> {
        let Some(id) = self.pick_held_id(pick) else { return Ok(()) };
        let named = |cards: &[(String, String)]| {
            cards.iter().rev().find(|(known, _)| *known == id).map(|(_, card)| card.clone())
        };
        let (id, card) = match card {
            CardChoice::Unnamed => (id, None),
            CardChoice::Before(pick) => match pick.of(self.cards.len()) {
                Some(at) => {
                    let (id, card) = self.cards[at].clone();
                    (id, Some(card))
                }
                None => (id, None),
            },
            CardChoice::Now => {
                if !self.concurrency.keeps_in_flight {
                    self.order(Order::List, "requests".to_owned(), true)?;
                }
                let card = named(&self.cards);
                (id, card)
            }
        };
        let approve =
            Approve { id: id.clone(), card: card.clone(), yes: false, confirm: None, wait: None };
        self.run_order(Order::Approve { id, card }, Parsed::Approve(approve), true)
    }

    /// Adds the credentials that operators were shown to the agents.
    pub(crate) fn take_credentials(&mut self) {
        for agent in std::mem::take(&mut *self.new_credentials.lock().unwrap()) {
            match self.agents.iter_mut().find(|known| known.id == agent.id) {
                Some(known) => *known = agent,
                None => self.agents.push(agent),
            }
        }
    }
}

fn credentials(outcome: &Outcome, field: &'static str) -> Option<Agent> {
    let Ok(Answer::Credentials(given)) = &outcome.reply.result else { return None };
    let token = outcome.secret.clone()?;
    let bearer = given.auth_mode == AuthMode::Bearer;
    Some(Agent { field, ..Agent::new(given.agent_id.clone(), token, bearer) })
}

fn order_end(order: &Order, outcome: &Outcome, unlisted: &[String]) -> End {
    match &outcome.reply.result {
        Err(fault) => End::Refused { code: fault.code.to_string() },
        Ok(Answer::Credentials(given)) if matches!(order, Order::RegisterAgent { .. }) => {
            End::Registered { agent: given.agent_id.clone() }
        }
        Ok(Answer::Address(added)) if matches!(order, Order::AddAddress { .. }) => {
            End::Added { address: added.address.to_lowercase() }
        }
        Ok(Answer::Requests { requests }) => {
            let requests = requests.iter().filter(|one| !unlisted.contains(&one.agent_id));
            let cards = requests.filter_map(|request| {
                Some(Listed {
                    id: request.id.clone(),
                    card: request.card.as_ref()?.digest.clone(),
                    agent: request.agent_id.clone(),
                    amount: request.amount.atoms.parse().unwrap_or(0),
                    asset: request.asset.to_lowercase(),
                    trade: request.lane != Lane::Payment,
                })
            });
            End::Held(cards.collect())
        }
        Ok(Answer::Decided(decided)) => End::Decided { status: decided.status.to_string() },
        Ok(_done) => End::Done,
    }
}
