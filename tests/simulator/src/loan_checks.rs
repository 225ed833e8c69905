//! What the world checks about loans by itself, until the auditor has rules for them.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_auditor::observations::{Signed, SignedContent, Transaction};
use bursar_chain::ports::Clock;
use bursar_core::networks::ChainId;

use crate::evm::{Contracts, VenueName, approval};
use crate::loan_book::{LoanAnswer, LoanMove, LoanOrder, LoanSeen};
use crate::tape::Seen;
use crate::world::{World, WorldFailure};

fn broken(rule: &str, what: String) -> Result<(), WorldFailure> {
    Err((format!("loans: {rule}"), what))
}

/// Codes that limit how much may be lent. A withdrawal never ends with one.
const LIMITS: [&str; 4] =
    ["EXPOSURE_EXCEEDED", "EXPOSURE_UNREADABLE", "PER_DEPOSIT_EXCEEDED", "DAILY_OPS_EXCEEDED"];

/// Seconds after which a measurement is surely newer than the trouble of a node.
const MEASURED_S: u64 = 120;

/// Wei that pay for a withdrawal at any price of gas.
const GAS_MONEY: u128 = 5_000_000_000_000_000;

/// What an address has, in the smallest unit of the stablecoin.
struct Owned {
    lent: U256,
    liquid: U256,
}

impl World {
    pub(crate) fn note_loan(&mut self, seen: LoanSeen) -> Result<(), WorldFailure> {
        if !matches!(seen, LoanSeen::Prices { .. }) {
            self.tail.push((self.at, Seen::Loan(seen.clone())));
        }
        match seen {
            LoanSeen::Asked { ticket, wish, .. } => {
                self.loans.wishes.insert(ticket, wish);
                Ok(())
            }
            LoanSeen::Answered { ticket, answer } => self.loan_answered(ticket, answer),
            LoanSeen::Listed { agent, chain, own } => self.check_listed(&agent, chain, &own),
            LoanSeen::Decided { id, approves, code } => {
                let limit = code.as_deref().filter(|code| LIMITS.contains(code));
                let withdraws = self.loans.by_id.get(&id).is_some_and(|wish| !wish.supplies);
                if let Some(code) = &code {
                    self.count_loan(&format!("decision: {code}"));
                } else {
                    self.count_loan(if approves { "approved" } else { "denied" });
                }
                match limit.filter(|_limit| withdraws) {
                    Some(code) => broken("limits", format!("{id} withdraws, and ended as {code}")),
                    None => Ok(()),
                }
            }
            LoanSeen::Moved(moved) => self.loan_moved(moved),
            LoanSeen::Prices { chain, block, worth } => {
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
                if ticket != 0 {
                    self.count_refusal();
                }
                self.count_loan(&format!("{side}: {code}"));
            }
            _open => {}
        }
        if let Some(code) = answer.code()
            && LIMITS.contains(&code)
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

    /// An executed loan reports what its block holds.
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

    /// The list shows what the agent's address has.
    fn check_listed(
        &mut self,
        agent: &str,
        chain: u64,
        own: &[(String, Option<u128>)],
    ) -> Result<(), WorldFailure> {
        self.count_loan("listed");
        // A venue that no list names is read once a supply to it is final.
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

    /// Checks a signature of a loan against the policy and the chains.
    pub(crate) fn check_loan_order(
        &mut self,
        order: &LoanOrder,
        signed: &Signed,
    ) -> Result<(), WorldFailure> {
        // What was recorded earlier is judged by what held then.
        let is_now = order.at_ms == self.clock.now().utc.0;
        let SignedContent::Transaction(sent) = &signed.content else {
            return broken("orders", format!("{order:?} is no transaction"));
        };
        if !order.is_main {
            return check_allowance(order, sent);
        }
        if is_now && order.is_first && !self.together {
            self.check_works(order, sent)?;
        }
        if !order.is_main || !order.is_first || !order.supplies {
            return Ok(());
        }
        if order.counted > order.max_deposit {
            let what = format!("{order:?} exceeds the largest deposit");
            return broken("deposits", what);
        }
        let Owned { lent, liquid } = self.owned(order.owner, &order.networks);
        let ceiling = ceiling(order, lent, liquid);
        let highest = self.loans.ceilings.entry(order.owner).or_default();
        *highest = (*highest).max(ceiling);
        if !is_now {
            return Ok(());
        }
        let mined = |request: &String| self.loans.mains.contains_key(request);
        let others = order.others.iter().filter(|(request, _usd)| !mined(request));
        let others: u64 = others.map(|(_request, usd)| *usd).sum();
        let after = lent + U256::from(others) + U256::from(order.counted);
        if after > U256::from(ceiling) {
            let what = format!(
                "{order:?}: {lent} are lent and {others} are to come, so the ceiling {ceiling} is exceeded"
            );
            return broken("ceiling", what);
        }
        self.check_readable(order)?;
        self.check_exit(order)?;
        self.check_venue(order)
    }

    /// A loan works on the state that nodes show: it was rehearsed.
    fn check_works(&self, order: &LoanOrder, sent: &Transaction) -> Result<(), WorldFailure> {
        let chain = self.chains.iter().find(|chain| chain.id() == order.chain);
        let value = U256::from(sent.value);
        let (Some(chain), Ok(to), Ok(data)) = (chain, sent.to.parse(), sent.data.parse()) else {
            return broken("orders", format!("{order:?} is not readable: {sent:?}"));
        };
        let data: Bytes = data;
        let done = chain.with_ledger(|ledger| {
            ledger.try_out(|machine| machine.run(order.owner, to, value, &data))
        });
        match done {
            Some(Err(why)) => {
                broken("rehearsal", format!("{order:?} cannot work: {why}, in {sent:?}"))
            }
            _works => Ok(()),
        }
    }

    /// No supply while a network of the policy cannot be read.
    fn check_readable(&self, order: &LoanOrder) -> Result<(), WorldFailure> {
        let counted = self.chains.iter().filter(|chain| order.networks.contains(&chain.id()));
        let now_s = u64::try_from(order.at_ms / 1_000).unwrap_or(0);
        for chain in counted {
            if chain.down_since().is_some_and(|since| since + MEASURED_S < now_s) {
                let what = format!("{order:?}, although {} cannot be read", chain.id());
                return broken("readable", what);
            }
        }
        Ok(())
    }

    /// No supply to a vault that lets nothing out.
    fn check_exit(&self, order: &LoanOrder) -> Result<(), WorldFailure> {
        let chain = self.chains.iter().find(|chain| chain.id() == order.chain);
        let closed = chain.and_then(|chain| {
            chain.with_ledger(|ledger| {
                let state = &ledger.state_of(ledger.shown_head())?.lending;
                let mut names = state.names().into_iter();
                let venue = names.find(|venue| venue.to_string() == order.venue)?;
                (!state.lets_out(venue)).then_some(venue)
            })
        });
        match closed.flatten() {
            Some(venue) => broken("gates", format!("{order:?}, but {venue} lets nothing out")),
            None => Ok(()),
        }
    }

    /// A supply goes to a venue that may be trusted, as far as nodes show it.
    fn check_venue(&self, order: &LoanOrder) -> Result<(), WorldFailure> {
        let chain = self.chains.iter().find(|chain| chain.id() == order.chain);
        let Some(chain) = chain.filter(|_chain| order.curated_only) else { return Ok(()) };
        let contracts = Contracts::of(ChainId(order.chain));
        let trusted = chain.with_ledger(|ledger| {
            let state = ledger.shown_state();
            let names = state.lending.names();
            let venue = names.into_iter().find(|venue| venue.to_string() == order.venue);
            venue.is_some_and(|venue| state.may_be_trusted(&contracts, venue))
        });
        match trusted {
            Some(false) => {
                broken("trust", format!("{order:?} goes to a venue that is not trusted"))
            }
            _trusted => Ok(()),
        }
    }

    /// Returns what an address has on some networks, as far as the wallet can know it: while nodes hide positions or are
    /// behind, what it supplied and did not withdraw.
    fn owned(&self, owner: Address, networks: &[u64]) -> Owned {
        let mut owned = Owned { lent: U256::ZERO, liquid: U256::ZERO };
        for chain in self.chains.iter().filter(|chain| networks.contains(&chain.id())) {
            let id = chain.id();
            let coin = Contracts::of(ChainId(id)).dollar();
            let read = chain.with_ledger(|ledger| {
                let (state, time) = (&ledger.state, ledger.time);
                let lies = ledger.lag > 0 || !ledger.hides.is_empty();
                let worth = |venue: VenueName| {
                    let worth = state.worth(venue, state.lending.shares_of(venue, owner), time);
                    let principal = self.loans.principal(id, owner, venue);
                    if lies { worth.min(principal) } else { worth }
                };
                let lent = state.lending.names().into_iter().map(worth).sum::<U256>();
                (lent, state.balance(coin, owner))
            });
            if let Some((lent, liquid)) = read {
                owned.lent += lent;
                owned.liquid += liquid;
            }
        }
        owned
    }

    /// A loan in a block is the only one of its request, moves the owner's money alone, and keeps the ceiling.
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
        let first = self.loans.mains.entry(order.request.clone()).or_insert(moved.hash.clone());
        if *first != moved.hash {
            let what = format!("two loans of {}: {first} and {}", order.request, moved.hash);
            return broken("once", what);
        }
        let (gives, gets) = (moved.paid, moved.received);
        let fits = if moved.supplies {
            gives == moved.assets && gets.is_zero() && moved.assets <= U256::from(order.counted)
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

    /// After a block with a supply: what is lent, by what was supplied, is not above the highest ceiling that was in
    /// force for a supply of the address.
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

    /// Takes all money back, once nothing fails any more: each venue that can pay pays.
    pub(crate) fn exit_all(&mut self) -> Result<(), WorldFailure> {
        if !self.swarm.loans {
            return Ok(());
        }
        for agent in 0..self.agents.len() {
            let mut asked: Vec<(usize, VenueName)> = Vec::new();
            // What one venue pays, another one may lack.
            while let Some((at, venue)) =
                self.payable(agent).into_iter().find(|place| !asked.contains(place))
            {
                asked.push((at, venue));
                let known = self.loan_ids.len();
                self.withdraw_all(agent, at, venue)?;
                // The call is answered once the plan has ended.
                self.wait_for_plan()?;
                let Some(id) = self.loan_ids.get(known).cloned() else {
                    let last = self.loans.last_answer.as_ref();
                    // After the clock was set back, a signature may be older than the last one.
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
    fn payable(&mut self, agent: usize) -> Vec<(usize, VenueName)> {
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
            || state.held.values().any(|request| !request.is_over(&moment));
        if is_busy {
            return Vec::new();
        }
        let usable =
            |chain: &ChainId| policy.networks.allows(*chain) && state.network_enabled(*chain);
        let networks: Vec<ChainId> = ids.into_iter().filter(usable).collect();
        let each = self.chains.iter().enumerate();
        let each = each.filter(|(_at, chain)| networks.contains(&ChainId(chain.id())));
        let each = each.flat_map(|(at, chain)| {
            let names = chain.with_ledger(|ledger| {
                let (state, time) = (&ledger.state, ledger.time);
                let mut names = state.lending.names();
                // Gas is paid by the address itself.
                let has_gas = state.native_of(owner) > U256::from(GAS_MONEY);
                names.retain(|venue| {
                    let worth = state.worth(*venue, state.lending.shares_of(*venue, owner), time);
                    has_gas
                        && worth > U256::from(10)
                        // There is also enough for the interest until then.
                        && state.free_in(*venue, time) > worth + worth / U256::from(100)
                        && state.lending.lets_out(*venue)
                });
                names
            });
            names.unwrap_or_default().into_iter().map(move |venue| (at, venue))
        });
        each.collect()
    }

    /// At the end no loan is open.
    pub(crate) fn check_loans_over(&mut self) -> Result<(), WorldFailure> {
        self.settle()?;
        let open = self.loans.answers.iter().find(|(_id, answer)| answer.is_open());
        match open {
            Some((id, answer)) => broken("liveness", format!("{id} is still {answer:?}")),
            None => Ok(()),
        }
    }
}

/// Returns the ceiling of a policy, in millionths of a dollar.
fn ceiling(order: &LoanOrder, lent: U256, liquid: U256) -> u128 {
    let most = u128::from(order.max_total);
    let share = order.max_share_bps.map(|bps| {
        let part = (lent + liquid) * U256::from(bps) / U256::from(10_000);
        u128::try_from(part).unwrap_or(u128::MAX)
    });
    share.map_or(most, |share| share.min(most))
}

/// An approval before a loan is given to its venue, for no more than the deposit.
fn check_allowance(order: &LoanOrder, sent: &Transaction) -> Result<(), WorldFailure> {
    let data: Result<Bytes, _> = sent.data.parse();
    let is_filler = data.as_ref().is_ok_and(|data| data.is_empty()) && sent.to == sent.from;
    if is_filler && sent.value == 0 {
        return Ok(());
    }
    let given = data.ok().and_then(|data| approval(&data));
    let Some((spender, amount)) = given else {
        return broken("approvals", format!("{order:?} is no approval: {sent:?}"));
    };
    let contracts = Contracts::of(ChainId(order.chain));
    let singleton = contracts.network.lending.map(|lending| lending.singleton);
    let is_market = order.venue.len() > "0x".len() + 2 * Address::len_bytes();
    let is_venue =
        if is_market { Some(spender) == singleton } else { order.venue == format!("{spender:#x}") };
    let coin = format!("{:#x}", contracts.dollar());
    // Once the request is over, its reservation is zero, and an offer of a higher fee repeats the amount.
    let is_exact = !order.is_first || amount <= U256::from(order.counted);
    if !is_venue || !is_exact || sent.to.to_lowercase() != coin {
        return broken("approvals", format!("{order:?} does not allow {sent:?}"));
    }
    Ok(())
}
