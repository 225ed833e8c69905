//! The loans that agents request, and the operator's decisions about them.

use alloy_primitives::{Address, U256};
use bursar_auditor::observations::{
    Call, Loan, LoanAction, LoanAmount as Amount, LoanAsk, Observation, Order, Ticket, VenueKind,
};
use bursar_chain::ports::Clock;
use bursar_control::grammar::{Approve, Deny, Order as Parsed};
use bursar_core::networks::ChainId;
use bursar_core::policy::AllowedNetworks;
use bursar_core::policy::LendingPolicy;
use bursar_devnet::agent::Agent;
use bursar_domain::loan_context::reserved;
use bursar_tests::engine::ask;
use serde_json::{Value, json};

use crate::calls::{mark_wrong, proof};
use crate::evm::notes::atoms;
use crate::evm::{Contracts, VenueChange, VenueName, venues};
use crate::loan_book::{LoanObservation, LoanWish};
use crate::plan::{LoanAmount, Pick, PlannedLoan, RepeatVariant, Step};
use crate::wire;
use crate::world::{World, WorldFailure};

/// One `/position` request, kept so that it can be repeated.
#[derive(Debug, Clone)]
pub(crate) struct SentLoan {
    agent: usize,
    wish: LoanWish,
    ask: LoanAsk,
    body: Value,
}

/// The policy of an agent, and its funds in one venue.
struct Lender {
    policy: LendingPolicy,
    /// The room below the ceiling, in millionths of a dollar.
    ceiling_left: u64,
    /// The address's balance in the smallest unit of the stablecoin, as `worth` and `free` are.
    balance: U256,
    worth: U256,
    free: U256,
    shares: U256,
}

/// Returns a loan of another size, so that no two loans are the same request.
fn resized(planned: PlannedLoan, number: u8) -> PlannedLoan {
    let size = match planned.size {
        LoanAmount::Micros(micros) => LoanAmount::Micros(micros + u64::from(number)),
        LoanAmount::Threshold(by) => LoanAmount::Threshold(by - i64::from(number)),
        other => other,
    };
    PlannedLoan { size, ..planned }
}

impl World {
    pub(crate) fn loan_step(&mut self, step: Step) -> Result<(), WorldFailure> {
        match step {
            Step::Loan(planned) => self.loan(&planned),
            Step::LoanCopies { planned, count } => {
                let Some(sent) = self.build_loan(&planned) else { return Ok(()) };
                self.concurrency.keeps_in_flight = true;
                for _copy in 0..count {
                    self.send_loan(sent.clone())?;
                }
                self.concurrency.keeps_in_flight = false;
                self.settle()
            }
            Step::LoanCrowd { planned, count } => {
                self.concurrency.keeps_in_flight = true;
                for one in 0..count {
                    self.loan(&resized(planned, one))?;
                }
                self.concurrency.keeps_in_flight = false;
                self.settle()
            }
            Step::RepeatLoan { pick, variant } => self.repeat_loan(pick, variant),
            Step::PollLoan { pick } => match pick.of(self.loan_ids.len()) {
                Some(at) => self.poll_loan(&self.loan_ids[at].clone()),
                None => Ok(()),
            },
            Step::Venues { agent, chain } => self.list_venues(agent, chain),
            Step::ApproveLoan { pick } => self.decide_loan(pick, true),
            Step::DenyLoan { pick } => self.decide_loan(pick, false),
            Step::ChangedLoan { planned, change } => {
                self.loan(&planned)?;
                self.change_venue_of(&planned, change);
                self.decide_loan(Pick(1), true)?;
                self.mine(6)
            }
            Step::InterruptedLoan { planned, change } => {
                self.loan(&planned)?;
                self.change_venue_of(&planned, change);
                self.mine(8)
            }
            Step::FrozenLoan { planned } => {
                self.loan(&planned)?;
                self.operate(Step::Freeze)?;
                if self.dice.chance(1, 2) {
                    self.mine(2)?;
                }
                self.order_thaw(true)?;
                self.mine(5)
            }
            Step::Outsider { chain, venue, change } => {
                if let Some(id) = self.chains.get(chain).map(|chain| ChainId(chain.id())) {
                    let named = venues::named_venues(&Contracts::of(id));
                    self.change_venue(chain, named[venue % named.len()], change);
                }
                self.settle()
            }
            Step::PauseCoin { chain, paused } => {
                self.pause_coin(chain, paused);
                self.settle()
            }
            Step::HidePositions { chain, hidden } => {
                self.hide_positions(chain, hidden);
                self.settle()
            }
            Step::BlindLoans { planned, withdrawn, count } => {
                if withdrawn > 0 {
                    let (venue, size) = (venues::NAMED_VENUES, LoanAmount::Shares(withdrawn));
                    let deadline_s = None;
                    self.loan(&PlannedLoan { venue, supply: false, size, deadline_s, ..planned })?;
                    self.mine(8)?;
                }
                self.hide_all_positions(true);
                for one in 0..count {
                    self.loan(&resized(planned, one))?;
                    self.mine(8)?;
                }
                self.hide_all_positions(false);
                self.settle()
            }
            Step::EditLending { which, variant } => self.edit_lending(which, variant),
            _other => Ok(()),
        }
    }

    fn loan(&mut self, planned: &PlannedLoan) -> Result<(), WorldFailure> {
        match self.build_loan(planned) {
            Some(sent) => self.send_loan(sent),
            None => Ok(()),
        }
    }

    pub(crate) fn send_loan(&mut self, sent: SentLoan) -> Result<(), WorldFailure> {
        self.sent_loans.push(sent.clone());
        self.call_loan(sent)
    }

    fn call_loan(&mut self, sent: SentLoan) -> Result<(), WorldFailure> {
        let ticket = self.ticket();
        let agent = self.agents[sent.agent].id.clone();
        self.tape.write_loan(LoanObservation::Asked { ticket, agent, wish: sent.wish });
        let call = Call::Loan(Box::new(sent.ask));
        let body = sent.body.to_string().into_bytes();
        self.ask_about_loan((ticket, call), "/position", body)
    }

    /// Sends a request for a loan, or a poll of one.
    fn ask_about_loan(
        &mut self,
        (ticket, call): (Ticket, Call),
        path: &str,
        body: Vec<u8>,
    ) -> Result<(), WorldFailure> {
        let is_request = matches!(call, Call::Loan(_));
        self.tape.write_audited(Observation::Called { ticket, call });
        let (http, tape, path) = (self.process().http.clone(), self.tape.clone(), path.to_owned());
        self.process().spawn(async move {
            let method = if is_request { "POST" } else { "GET" };
            let (status, bytes) = ask(http, method, &path, body).await;
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let seen = wire::loan_answer(status, &body);
            let answer = wire::position_answer(&seen, &body);
            tape.write_audited(Observation::Answered { ticket, answer });
            let ticket = if is_request { ticket } else { 0 };
            tape.write_loan(LoanObservation::Answered { ticket, answer: seen });
        });
        if self.concurrency.keeps_in_flight { Ok(()) } else { self.settle() }
    }

    pub(crate) fn poll_loan(&mut self, id: &str) -> Result<(), WorldFailure> {
        let path = format!("/position/status/{id}");
        let poll = (self.ticket(), Call::PollLoan { id: id.to_owned() });
        self.ask_about_loan(poll, &path, Vec::new())
    }

    fn list_venues(&mut self, agent: Pick, chain: usize) -> Result<(), WorldFailure> {
        let Some(agent) = agent.of(self.agents.len()) else { return Ok(()) };
        let Some(chain) = self.chains.get(chain).map(|chain| chain.id()) else { return Ok(()) };
        let client = self.agents[agent].clone();
        let at = self.clock.now().utc.seconds();
        let body = client.position(at, &json!({ "chain_id": chain })).to_string().into_bytes();
        let (http, tape) = (self.process().http.clone(), self.tape.clone());
        self.process().spawn(async move {
            let (status, bytes) = ask(http, "POST", "/venues", body).await;
            let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            if status == 200 {
                let own = wire::own_venues(&body);
                tape.write_loan(LoanObservation::Listed { agent: client.id, chain, own });
            }
        });
        if self.concurrency.keeps_in_flight { Ok(()) } else { self.settle() }
    }

    fn repeat_loan(&mut self, pick: Pick, variant: RepeatVariant) -> Result<(), WorldFailure> {
        let Some(which) = pick.of(self.sent_loans.len()) else { return Ok(()) };
        let mut sent = self.sent_loans[which].clone();
        let client = self.agents[sent.agent].clone();
        let now = self.clock.now().utc.seconds();
        match variant {
            RepeatVariant::None | RepeatVariant::OtherUrl(_) if !client.uses_bearer => {}
            RepeatVariant::None | RepeatVariant::OtherUrl(_) | RepeatVariant::SignedAgain => {
                resign(&mut sent, now, &client);
            }
            RepeatVariant::OtherKey(key) => {
                sent.body["idempotency_key"] = json!(key_name(key));
                sent.ask.idempotency_key = Some(key_name(key));
                if client.uses_bearer {
                    resign(&mut sent, now, &client);
                }
            }
            RepeatVariant::Stale => {
                let off = self.dice.one_of(&[-301, -300, 300, 301, -90_000]);
                resign(&mut sent, now + off, &client);
            }
            RepeatVariant::WrongProof => {
                let wrong = Agent { token: format!("AT_{}", "5".repeat(64)), ..client };
                resign(&mut sent, now, &wrong);
                mark_wrong(&mut sent.ask.proof);
                return self.call_loan(sent);
            }
            RepeatVariant::UnknownAgent => {
                sent.body["agent_id"] = json!("ZZZ999");
                sent.ask.agent = "ZZZ999".to_owned();
                resign(&mut sent, now, &client);
                mark_wrong(&mut sent.ask.proof);
                return self.call_loan(sent);
            }
        }
        self.send_loan(sent)
    }

    /// Builds a request that no agent has sent before; `None` without agents.
    pub(crate) fn build_loan(&mut self, planned: &PlannedLoan) -> Option<SentLoan> {
        let agent = planned.agent.of(self.agents.len())?;
        let (at, venue) = self.venue_of(agent, planned)?;
        let chain = self.chains.get(at)?.id();
        let lender = self.lender(agent, at, venue)?;
        let mut position = position(chain, venue, planned.supply);
        let amount = self.add_size(&mut position, planned, venue, &lender)?;
        let mut deadline = None;
        if let Some(off) = planned.deadline_s {
            let time = self.chains[at].with_ledger(|ledger| ledger.time)?;
            deadline = Some(time.saturating_add_signed(off));
            position["deadline"] = json!(deadline);
        }
        let wish = LoanWish { chain, venue, supplies: planned.supply };
        Some(self.sign_loan(agent, wish, (amount, deadline), &position, planned.key))
    }

    fn sign_loan(
        &self,
        agent: usize,
        wish: LoanWish,
        (amount, deadline_s): (Amount, Option<u64>),
        position: &Value,
        key: Option<u8>,
    ) -> SentLoan {
        let (client, at) = (&self.agents[agent], self.clock.now().utc.seconds());
        let mut body = client.position(at, position);
        let key = key.map(key_name);
        if let Some(key) = &key {
            body["idempotency_key"] = json!(key);
        }
        let signature = body["signature"].as_str().expect("a text").to_owned();
        let is_vault = matches!(wish.venue, VenueName::Vault(_));
        let ask = LoanAsk {
            agent: client.id.clone(),
            proof: proof(client, at, signature, true),
            content: position.to_string(),
            idempotency_key: key,
            loan: Loan {
                chain: wish.chain,
                action: if wish.supplies { LoanAction::Supply } else { LoanAction::Withdraw },
                venue: wish.venue.to_string(),
                kind: if is_vault { VenueKind::Vault } else { VenueKind::Market },
                amount,
                deadline_s,
            },
        };
        SentLoan { agent, wish, ask, body }
    }

    /// Returns the chain and the venue of a loan.
    ///
    /// Numbers beyond the named venues pick a venue in which the agent's address has a position.
    fn venue_of(&mut self, agent: usize, planned: &PlannedLoan) -> Option<(usize, VenueName)> {
        let Some(which) = planned.venue.checked_sub(venues::NAMED_VENUES) else {
            let chain = self.chains.get(planned.chain)?.id();
            let named = venues::named_venues(&Contracts::of(ChainId(chain)));
            return Some((planned.chain, *named.get(planned.venue)?));
        };
        let owner = self.owner_of(agent)?;
        let each = self.chains.iter().enumerate().flat_map(|(at, chain)| {
            let names = chain.with_ledger(|ledger| {
                let mut names = ledger.state.lending.names();
                names.retain(|venue| !ledger.state.lending.shares_of(*venue, owner).is_zero());
                names
            });
            names.unwrap_or_default().into_iter().map(move |venue| (at, venue))
        });
        let held: Vec<(usize, VenueName)> = each.collect();
        (!held.is_empty()).then(|| held[which % held.len()])
    }

    /// Returns the paying address of an agent.
    pub(crate) fn owner_of(&mut self, agent: usize) -> Option<Address> {
        let id = self.agents[agent].id.clone();
        let state = self.process().core().state();
        let known = state.agents.values().find(|known| known.id.as_str() == id)?;
        let label = &known.commission.as_ref()?.label;
        state.wallet.as_ref()?.address(label).map(|known| known.address)
    }

    fn add_size(
        &self,
        position: &mut Value,
        planned: &PlannedLoan,
        venue: VenueName,
        lender: &Lender,
    ) -> Option<Amount> {
        let off = |base: u64, by: i64| U256::from(base.saturating_add_signed(by));
        let near = |base: U256, by: i64| {
            let part = U256::from(by.unsigned_abs());
            if by < 0 { base.saturating_sub(part) } else { base + part }
        };
        let assets = match planned.size {
            LoanAmount::Micros(micros) => U256::from(micros),
            LoanAmount::Threshold(by) => off(lender.policy.auto_below.0, by),
            LoanAmount::Largest(by) => off(lender.policy.max_deposit.0, by),
            LoanAmount::Ceiling(by) => {
                off(lender.ceiling_left.min(lender.policy.max_deposit.0), by)
            }
            LoanAmount::Balance(by) => near(lender.balance, by),
            LoanAmount::Position(by) => near(lender.worth, by),
            LoanAmount::Free(by) => near(lender.free, by),
            LoanAmount::Shares(permille) if !planned.supply => {
                let shares = lender.shares * U256::from(permille) / U256::from(1_000);
                if shares.is_zero() {
                    return None;
                }
                let decimals = if matches!(venue, VenueName::Vault(_)) { 18 } else { 0 };
                position["denomination"] = json!("shares");
                position["amount"] = json!(decimal(shares, decimals));
                return Some(Amount::Shares(atoms(shares)));
            }
            LoanAmount::All if !planned.supply => {
                position["withdraw_all"] = json!(true);
                return Some(Amount::All);
            }
            LoanAmount::Shares(_) | LoanAmount::All => U256::from(20 * venues::DOLLAR),
        };
        if assets.is_zero() {
            return None;
        }
        position["amount"] = json!(decimal(assets, 6));
        Some(Amount::Assets(atoms(assets)))
    }

    fn lender(&mut self, agent: usize, chain: usize, venue: VenueName) -> Option<Lender> {
        let id = self.agents[agent].id.clone();
        let moment = self.clock.now();
        let state = self.process().core().state();
        let known = state.agents.values().find(|known| known.id.as_str() == id);
        let policy = known.and_then(|known| state.policy_of(known));
        let policy = policy.map(|policy| policy.lending.clone()).unwrap_or_default();
        let owner = self.owner_of(agent).unwrap_or_default();
        let state = self.process().core().state();
        let coming = reserved(state, &moment, owner, &AllowedNetworks::AllEnabled, None).0;
        let deployed = self.deployed(owner);
        let left = policy.max_total.0.saturating_sub(deployed).saturating_sub(coming);
        let coin = Contracts::of(ChainId(self.chains[chain].id())).dollar();
        self.chains[chain].with_ledger(|ledger| {
            let (state, time) = (&ledger.state, ledger.time);
            let shares = state.lending.shares_of(venue, owner);
            Lender {
                policy,
                ceiling_left: left,
                balance: state.balance(coin, owner),
                worth: state.worth(venue, shares, time),
                free: state.withdrawable(venue, owner, time),
                shares,
            }
        })
    }

    /// Returns the value of an address's positions in all venues, in millionths of a dollar.
    fn deployed(&self, owner: Address) -> u64 {
        let each = self.chains.iter().filter_map(|chain| {
            chain.with_ledger(|ledger| {
                let (state, time) = (&ledger.state, ledger.time);
                let worth = |venue: VenueName| {
                    state.worth(venue, state.lending.shares_of(venue, owner), time)
                };
                state.lending.names().into_iter().map(worth).sum::<U256>()
            })
        });
        u64::try_from(each.sum::<U256>()).unwrap_or(u64::MAX)
    }

    /// Decides about a held loan.
    fn decide_loan(&mut self, pick: Pick, approves: bool) -> Result<(), WorldFailure> {
        let state = self.process().core().state();
        let held = state.held.values().filter(|request| request.loan().is_some());
        let held: Vec<String> = held.map(|request| request.id.to_string()).collect();
        let held: Vec<String> = held.into_iter().filter(|id| self.is_shown(id)).collect();
        let known = if held.is_empty() { self.loan_ids.clone() } else { held };
        let Some(at) = pick.of(known.len()) else { return Ok(()) };
        self.decide_loan_of(known[at].clone(), approves)
    }

    fn decide_loan_of(&mut self, id: String, approves: bool) -> Result<(), WorldFailure> {
        let (order, parsed) = if approves {
            let approve =
                Approve { id: id.clone(), card: None, yes: false, confirm: None, wait: None };
            (Order::Approve { id, card: None }, Parsed::Approve(approve))
        } else {
            let deny = Deny::one(id.clone());
            (Order::Deny { id }, Parsed::Deny(deny))
        };
        self.run_order(order, parsed, true)
    }

    /// Asks to withdraw an agent's whole position in a venue.
    pub(crate) fn withdraw_all(
        &mut self,
        agent: usize,
        chain: usize,
        venue: VenueName,
    ) -> Result<(), WorldFailure> {
        // Wait for a second in which the agent has signed nothing yet.
        self.pass(1_100)?;
        let chain = self.chains[chain].id();
        let wish = LoanWish { chain, venue, supplies: false };
        let mut position = position(chain, venue, false);
        position["withdraw_all"] = json!(true);
        // Use a separate key, because the wallet still answers an equal request that was denied or has expired.
        self.request_number += 1;
        let key = u8::try_from(100 + self.request_number % 100).ok();
        let sent = self.sign_loan(agent, wish, (Amount::All, None), &position, key);
        self.send_loan(sent)
    }

    /// Approves a loan if it is held.
    pub(crate) fn approve_loan(&mut self, id: &str) -> Result<(), WorldFailure> {
        let pending = self.loans.answers.get(id).is_some_and(|answer| answer.status == "pending");
        if pending { self.decide_loan_of(id.to_owned(), true) } else { Ok(()) }
    }

    /// Returns whether a loan is being executed or waits for the operator.
    pub(crate) fn has_open_loans(&mut self) -> bool {
        let state = self.process().core().state();
        let mut all = state.held.values().chain(state.executing.values());
        all.any(|request| request.loan().is_some())
            || state.outboxes.with_open_submissions().next().is_some()
    }

    /// Changes the venue of a loan.
    fn change_venue_of(&mut self, planned: &PlannedLoan, change: VenueChange) {
        let agent = planned.agent.of(self.agents.len());
        if let Some((chain, venue)) = agent.and_then(|agent| self.venue_of(agent, planned)) {
            self.change_venue(chain, venue, change);
        }
    }

    fn change_venue(&mut self, chain: usize, venue: VenueName, change: VenueChange) {
        let Some(chain) = self.chains.get(chain) else { return };
        let contracts = Contracts::of(ChainId(chain.id()));
        chain.with_ledger(|ledger| {
            ledger.change_from_outside(|state, time| {
                state.change_venue(&contracts, venue, change, time)
            });
        });
    }

    fn pause_coin(&mut self, chain: usize, paused: bool) {
        let Some(chain) = self.chains.get(chain) else { return };
        let coin = Contracts::of(ChainId(chain.id())).dollar();
        chain.with_ledger(|ledger| {
            ledger.change_from_outside(|state, _time| {
                if let Some(coin) = state.tokens.get_mut(&coin) {
                    coin.paused = paused;
                }
            });
        });
    }

    fn hide_all_positions(&mut self, hidden: bool) {
        for chain in 0..self.chains.len() {
            self.hide_positions(chain, hidden);
        }
    }

    fn hide_positions(&mut self, chain: usize, hidden: bool) {
        self.loans.nodes_lied |= hidden;
        let Some(chain) = self.chains.get(chain) else { return };
        chain.with_ledger(|ledger| {
            ledger.hidden_shares.clear();
            for venue in ledger.state.lending.names() {
                for owner in crate::signer::addresses() {
                    let shares = ledger.state.lending.shares_of(venue, *owner);
                    if hidden && !shares.is_zero() {
                        ledger.hidden_shares.insert((venue, *owner), shares);
                    }
                }
            }
        });
    }

    /// Ends all trouble in venues, so that plans can end.
    pub(crate) fn calm_venues(&mut self) {
        for chain in 0..self.chains.len() {
            self.pause_coin(chain, false);
            if let Some(chain) = self.chains.get(chain) {
                chain.with_ledger(|ledger| ledger.hidden_shares.clear());
            }
        }
    }
}

fn position(chain: u64, venue: VenueName, supplies: bool) -> Value {
    json!({
        "action": if supplies { "supply" } else { "withdraw" },
        "venue": venue.to_string(),
        "venue_kind": if matches!(venue, VenueName::Vault(_)) { "vault" } else { "market" },
        "chain_id": chain,
    })
}

/// Returns the name of an idempotency key. Payments and trades may use the same names.
fn key_name(key: u8) -> String {
    format!("key-{key}")
}

fn resign(sent: &mut SentLoan, at: i64, agent: &Agent) {
    let mut fields = sent.body.as_object().expect("an object").clone();
    for name in ["agent_id", "signature", "idempotency_key"] {
        fields.remove(name);
    }
    let signature = agent.sign(at, &fields);
    sent.body["signature"] = json!(signature);
    sent.ask.proof = proof(agent, at, signature, true);
}

/// Formats an amount in whole coins.
fn decimal(atoms: U256, decimals: usize) -> String {
    let padded = format!("{:0>width$}", atoms.to_string(), width = decimals + 1);
    let (whole, part) = padded.split_at(padded.len() - decimals);
    if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") }
}
