//! Checks about loans that the world makes itself, independent of the auditor.

use alloy_primitives::{Address, B256, U256};
use bursar_chain::ports::Clock;
use bursar_core::networks::ChainId;

use crate::evm::VenueName;
use crate::loan_book::{LoanAnswer, LoanMove, LoanObservation, LoanOrder};
use crate::tape::TapeEntry;
use crate::world::{World, WorldFailure};

pub(crate) fn broken(rule: &str, what: String) -> Result<(), WorldFailure> {
    Err((format!("loans: {rule}"), what))
}

/// Codes of the limits on lending. A withdrawal never ends with one of them.
const LIMIT_CODES: [&str; 4] =
    ["EXPOSURE_EXCEEDED", "EXPOSURE_UNREADABLE", "PER_DEPOSIT_EXCEEDED", "DAILY_OPS_EXCEEDED"];

/// The wei that pay for a withdrawal at any gas price.
const GAS_RESERVE_WEI: u128 = 5_000_000_000_000_000;

impl World {
    pub(crate) fn note_loan(&mut self, seen: LoanObservation) -> Result<(), WorldFailure> {
        if !matches!(seen, LoanObservation::Prices { .. }) {
            self.tail.push((self.step_number, TapeEntry::Loan(seen.clone())));
        }
        match seen {
            LoanObservation::Asked { ticket, wish, .. } => {
                self.loans.wishes.insert(ticket, wish);
                Ok(())
            }
            LoanObservation::Answered { ticket, answer } => self.loan_answered(ticket, answer),
            LoanObservation::Listed { agent, chain, own } => self.check_listed(&agent, chain, &own),
            LoanObservation::Moved(moved) => self.loan_moved(moved),
            LoanObservation::Prices { chain, block, worth } => {
                self.loans.prices.insert((chain, block), worth);
                Ok(())
            }
        }
    }

    /// Counts an outcome for the coverage.
    fn count_loan(&mut self, what: &str) {
        *self.outcome.codes.entry(format!("loan {what}")).or_default() += 1;
    }

    fn loan_answered(&mut self, ticket: u64, answer: LoanAnswer) -> Result<(), WorldFailure> {
        let wish = self.loans.wishes.remove(&ticket);
        if let Some(id) = &answer.id {
            self.unreturned_loans.remove(id);
            if !self.loan_ids.contains(id) {
                self.loan_ids.push(id.clone());
            }
            if let Some(wish) = wish {
                self.loans.by_id.insert(id.clone(), wish);
            }
        }
        let wish = wish.or_else(|| self.loans.by_id.get(answer.id.as_ref()?).copied());
        let side = match wish.map(|wish| wish.supplies) {
            Some(true) => "supply",
            Some(false) => "withdrawal",
            None => "loan",
        };
        match (answer.status.as_str(), answer.code()) {
            ("executed", _) => self.count_loan(&format!("executed: {side}")),
            (_other, Some(code)) => {
                let code = code.to_owned();
                self.count_loan(&format!("{side}: {code}"));
            }
            _open => {}
        }
        if let Some(code) = answer.code()
            && LIMIT_CODES.contains(&code)
            && wish.is_some_and(|wish| !wish.supplies)
        {
            return broken("limits", format!("a withdrawal was answered with {code}: {answer:?}"));
        }
        self.check_executed(&answer)?;
        self.loans.last_answer = Some(answer.clone());
        if let Some(id) = answer.id.clone() {
            self.loans.answers.insert(id, answer);
        }
        Ok(())
    }

    /// Checks that an executed loan reports the amounts in its block.
    fn check_executed(&self, answer: &LoanAnswer) -> Result<(), WorldFailure> {
        if answer.status != "executed" {
            return Ok(());
        }
        let hash = answer.hash.clone().unwrap_or_default();
        let Some(moved) = self.loans.moves.iter().find(|one| one.hash == hash) else {
            return broken("answers", format!("no block holds {hash}: {answer:?}"));
        };
        if !moved.succeeded || answer.moved.map(U256::from) != Some(moved.assets) {
            return broken("answers", format!("{answer:?} does not fit {moved:?}"));
        }
        let position = answer.position.map(U256::from);
        if !self.loans.nodes_lied && position.is_some_and(|shown| shown != moved.position) {
            return broken("answers", format!("{answer:?} shows another position than {moved:?}"));
        }
        Ok(())
    }

    /// Checks that the list of venues shows the positions of the agent's address.
    fn check_listed(
        &mut self,
        agent: &str,
        chain: u64,
        own: &[(String, Option<u128>)],
    ) -> Result<(), WorldFailure> {
        self.count_loan("listed");
        // The wallet reads a venue that is in no list only after a supply to it is final.
        if self.loans.nodes_lied || self.has_open_loans() {
            return Ok(());
        }
        let known = self.agents.iter().position(|known| known.id == agent);
        let Some(owner) = known.and_then(|agent| self.owner_of(agent)) else { return Ok(()) };
        let chain = self.chains.iter().find(|one| one.id() == chain);
        let wrong = chain.and_then(|chain| {
            chain.with_ledger(|ledger| {
                let (state, time) = (&ledger.state, ledger.time);
                let worth = |venue: VenueName| {
                    state.worth(venue, state.lending.shares_of(venue, owner), time)
                };
                let all = state.lending.names().into_iter();
                let mut all = all.map(|venue| (venue.to_string(), worth(venue)));
                all.find_map(|(venue, worth)| {
                    let shown = own.iter().find(|(known, _assets)| *known == venue);
                    let fits = match shown {
                        Some((_venue, Some(assets))) => U256::from(*assets) == worth,
                        Some((_venue, None)) => true,
                        None => worth.is_zero(),
                    };
                    (!fits).then(|| format!("{venue} is listed as {shown:?} and is {worth}"))
                })
            })
        });
        match wrong.flatten() {
            Some(what) => broken("positions", what),
            None => Ok(()),
        }
    }

    /// Checks a loan in a block: it is the only one of its request, moves only the owner's money, and keeps the
    /// ceiling.
    fn loan_moved(&mut self, moved: LoanMove) -> Result<(), WorldFailure> {
        let chain = self.chains.iter().find(|chain| chain.id() == moved.chain);
        let hash: B256 = moved.hash.parse().unwrap_or_default();
        let digest = chain.and_then(|chain| {
            chain.with_ledger(|ledger| ledger.included(hash).map(|one| one.tx.digest)).flatten()
        });
        let order = digest.and_then(|digest| self.faults.contents().loan(moved.owner, digest));
        let Some(order) = order else {
            return broken("orders", format!("{moved:?} was never ordered"));
        };
        if !moved.is_own || order.supplies != moved.supplies {
            return broken("call data", format!("{moved:?} is not what {order:?} says"));
        }
        let what = if moved.supplies { "supply" } else { "withdrawal" };
        if !moved.succeeded {
            self.count_loan(&format!("reverted: {what}"));
            self.loans.moves.push(moved);
            return Ok(());
        }
        self.count_loan(&format!("mined: {what}"));
        let first =
            self.loans.main_transactions.entry(order.request.clone()).or_insert(moved.hash.clone());
        if *first != moved.hash {
            let what = format!("two loans of {}: {first} and {}", order.request, moved.hash);
            return broken("once", what);
        }
        let (gives, gets) = (moved.paid, moved.received);
        let fits = if moved.supplies {
            gives == moved.assets
                && gets.is_zero()
                && moved.assets <= U256::from(order.counted_micros)
        } else {
            gets == moved.assets && gives.is_zero()
        };
        if !fits || moved.shares.is_zero() {
            return broken("amounts", format!("{moved:?} is not what {order:?} says"));
        }
        if order.is_all && !self.loans.nodes_lied && !moved.left.is_zero() {
            return broken("exit", format!("{moved:?} leaves a part of the position"));
        }
        let (supplies, owner) = (moved.supplies, moved.owner);
        self.loans.moves.push(moved);
        if supplies { self.check_ceiling(owner, &order) } else { Ok(()) }
    }

    /// After a block with a supply, checks that the principal of the address is not above the highest ceiling that was
    /// in force for one of its supplies.
    fn check_ceiling(&self, owner: Address, order: &LoanOrder) -> Result<(), WorldFailure> {
        let mut lent = U256::ZERO;
        for chain in self.chains.iter().filter(|chain| order.networks.contains(&chain.id())) {
            let id = chain.id();
            let names = chain.with_ledger(|ledger| ledger.state.lending.names());
            let each = names.unwrap_or_default().into_iter();
            lent += each.map(|venue| self.loans.principal(id, owner, venue)).sum::<U256>();
        }
        let ceiling = self.loans.ceilings.get(&owner).copied().unwrap_or_default();
        if lent > U256::from(ceiling) {
            let what = format!("{owner} has supplied {lent}, and its ceiling was {ceiling}");
            return broken("ceiling", what);
        }
        Ok(())
    }

    /// Withdraws all money once no faults remain: each venue that can pay must pay.
    pub(crate) fn exit_all(&mut self) -> Result<(), WorldFailure> {
        if !self.swarm.loans {
            return Ok(());
        }
        for agent in 0..self.agents.len() {
            let mut asked: Vec<(usize, VenueName)> = Vec::new();
            // A payment by one venue may use up the liquidity of another, so select the next venue after each
            // withdrawal.
            while let Some((at, venue)) =
                self.payable_venues(agent).into_iter().find(|place| !asked.contains(place))
            {
                asked.push((at, venue));
                let known = self.loan_ids.len();
                self.withdraw_all(agent, at, venue)?;
                // The answer comes only after the plan has ended.
                self.wait_for_plan()?;
                let Some(id) = self.loan_ids.get(known).cloned() else {
                    let last = self.loans.last_answer.as_ref();
                    // After the clock was set back, the timestamp of a signature may be older than that of the last
                    // one.
                    if last.and_then(LoanAnswer::code) == Some("AUTH_FAILED") {
                        break;
                    }
                    return broken("exit", format!("{venue} can pay, but {last:?}"));
                };
                self.approve_loan(&id)?;
                self.wait_for_plan()?;
                self.poll_loan(&id)?;
                let end = self.loans.answers.get(&id);
                if end.is_none_or(|end| end.status != "executed") {
                    return broken("exit", format!("{venue} can pay, but {end:?}"));
                }
            }
        }
        Ok(())
    }

    /// Lets enough blocks pass for a plan of one transaction, on any network.
    fn wait_for_plan(&mut self) -> Result<(), WorldFailure> {
        self.mine(2)?;
        self.pass(120_000)?;
        self.mine(2)
    }

    /// Returns the venues that can pay everything that an agent's address has there, if the agent may work and lend.
    fn payable_venues(&mut self, agent: usize) -> Vec<(usize, VenueName)> {
        let id = self.agents[agent].id.clone();
        let Some(owner) = self.owner_of(agent) else { return Vec::new() };
        let moment = self.clock.now();
        let ids: Vec<ChainId> = self.chains.iter().map(|chain| ChainId(chain.id())).collect();
        let state = self.process().core().state();
        let known = state.agents.values().find(|known| known.id.as_str() == id);
        let Some(known) = known.filter(|known| !known.suspended) else { return Vec::new() };
        let Some(policy) = state.policy_of(known).filter(|policy| policy.lending.enabled) else {
            return Vec::new();
        };
        let is_busy = state.executing.values().any(|request| request.from == owner)
            || state.held.values().any(|request| !request.is_hold_over(&moment));
        if is_busy {
            return Vec::new();
        }
        let usable =
            |chain: &ChainId| policy.networks.allows(*chain) && state.is_network_enabled(*chain);
        let networks: Vec<ChainId> = ids.into_iter().filter(usable).collect();
        let each = self.chains.iter().enumerate();
        let each = each.filter(|(_at, chain)| networks.contains(&ChainId(chain.id())));
        let each = each.flat_map(|(at, chain)| {
            let names = chain.with_ledger(|ledger| {
                let (state, time) = (&ledger.state, ledger.time);
                let mut names = state.lending.names();
                // The address itself pays for gas.
                let has_gas = state.native_of(owner) > U256::from(GAS_RESERVE_WEI);
                names.retain(|venue| {
                    let worth = state.worth(*venue, state.lending.shares_of(*venue, owner), time);
                    has_gas
                        && worth > U256::from(10)
                        // The venue also needs enough for the interest until the withdrawal.
                        && state.free_in(*venue, time) > worth + worth / U256::from(100)
                        && state.lending.allows_withdrawals(*venue)
                });
                names
            });
            names.unwrap_or_default().into_iter().map(move |venue| (at, venue))
        });
        each.collect()
    }

    /// Checks that no loan is open at the end of a run.
    pub(crate) fn check_loans_over(&mut self) -> Result<(), WorldFailure> {
        self.settle()?;
        let open = self.loans.answers.iter().find(|(_id, answer)| answer.is_open());
        match open {
            Some((id, answer)) => broken("liveness", format!("{id} is still {answer:?}")),
            None => Ok(()),
        }
    }
}
