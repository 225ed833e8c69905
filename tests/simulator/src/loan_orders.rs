//! Checks that the world makes when a loan is signed: limits, venue, rehearsal and approval.

use alloy_primitives::{Address, Bytes, U256};
use bursar_auditor::observations::{Signed, SignedContent, Transaction};
use bursar_chain::ports::Clock;
use bursar_core::networks::ChainId;

use crate::evm::{Contracts, VenueName, approval};
use crate::loan_book::LoanOrder;
use crate::loan_checks::broken;
use crate::world::{World, WorldFailure};

/// The seconds after which a measurement is surely from after a node's trouble.
const MEASURED_S: u64 = 120;

/// The funds of an address, in the smallest unit of the stablecoin.
struct OwnedFunds {
    lent: U256,
    liquid: U256,
}

impl World {
    /// Checks a signature of a loan against the policy and the chains.
    pub(crate) fn check_loan_order(
        &mut self,
        order: &LoanOrder,
        signed: &Signed,
    ) -> Result<(), WorldFailure> {
        // A step that was recorded earlier is judged by the state of that time.
        let is_now = order.at_ms == self.clock.now().utc.0;
        let SignedContent::Transaction(sent) = &signed.content else {
            return broken("orders", format!("{order:?} is no transaction"));
        };
        if !order.is_main {
            return check_allowance(order, sent);
        }
        if is_now && order.is_first && !self.concurrency.keeps_in_flight {
            self.check_works(order, sent)?;
        }
        if !order.is_main || !order.is_first || !order.supplies {
            return Ok(());
        }
        if order.counted_micros > order.max_deposit {
            let what = format!("{order:?} exceeds the largest deposit");
            return broken("deposits", what);
        }
        let OwnedFunds { lent, liquid } = self.owned(order.owner, &order.networks);
        let ceiling = ceiling(order, lent, liquid);
        let highest = self.loans.ceilings.entry(order.owner).or_default();
        *highest = (*highest).max(ceiling);
        if !is_now {
            return Ok(());
        }
        let mined = |request: &String| self.loans.main_transactions.contains_key(request);
        let others = order.others.iter().filter(|(request, _usd)| !mined(request));
        let others: u64 = others.map(|(_request, usd)| *usd).sum();
        let after = lent + U256::from(others) + U256::from(order.counted_micros);
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

    /// Checks that a loan succeeds on the state that the nodes show, as its rehearsal did.
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

    /// Checks that no supply is signed while a network of the policy cannot be read.
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

    /// Checks that no supply goes to a vault that pays nothing out.
    fn check_exit(&self, order: &LoanOrder) -> Result<(), WorldFailure> {
        let chain = self.chains.iter().find(|chain| chain.id() == order.chain);
        let closed = chain.and_then(|chain| {
            chain.with_ledger(|ledger| {
                let state = &ledger.state_of(ledger.shown_head())?.lending;
                let mut names = state.names().into_iter();
                let venue = names.find(|venue| venue.to_string() == order.venue)?;
                (!state.allows_withdrawals(venue)).then_some(venue)
            })
        });
        match closed.flatten() {
            Some(venue) => broken("gates", format!("{order:?}, but {venue} lets nothing out")),
            None => Ok(()),
        }
    }

    /// Checks that a supply goes to a venue that the wallet may trust, by what the nodes show of it.
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

    /// Returns the funds of an address on some networks, as far as the wallet can know them.
    ///
    /// While nodes hide positions or are behind, the supplied less the withdrawn amount counts.
    fn owned(&self, owner: Address, networks: &[u64]) -> OwnedFunds {
        let mut owned = OwnedFunds { lent: U256::ZERO, liquid: U256::ZERO };
        for chain in self.chains.iter().filter(|chain| networks.contains(&chain.id())) {
            let id = chain.id();
            let coin = Contracts::of(ChainId(id)).dollar();
            let read = chain.with_ledger(|ledger| {
                let (state, time) = (&ledger.state, ledger.time);
                let lies = ledger.lag_blocks > 0 || !ledger.hidden_shares.is_empty();
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

/// Checks that an approval before a loan names its venue, and no more than the deposit.
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
    // When the request is over, its reservation is zero, but a replacement with a higher fee repeats the amount.
    let is_exact = !order.is_first || amount <= U256::from(order.counted_micros);
    if !is_venue || !is_exact || sent.to.to_lowercase() != coin {
        return broken("approvals", format!("{order:?} does not allow {sent:?}"));
    }
    Ok(())
}
