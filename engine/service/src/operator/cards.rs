//! Adds context to cards: earlier payments to the payee, from the journal's rows, and the balance of the paying
//! address, from the balance cache. Both are read without the core, and no decision depends on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::card::{Balance, Card};
use bursar_core::money::TokenAmount;
use bursar_core::time::Moment;
use bursar_domain::payees::{Payee, PaymentTotals};
use bursar_domain::{LaneAsk, PaymentAsk, Request, State, cards};

use super::support::balance_error;
use crate::config::Config;
use crate::context::EngineContext;
use crate::funds::{AccountKey, CachedBalance, UnknownReason};
use crate::journal::Reader;

/// The data that a card shows in addition to the state.
pub(super) struct CardContext {
    reader: Arc<dyn Reader>,
    config: Arc<Config>,
    balances: BTreeMap<AccountKey, Result<CachedBalance, UnknownReason>>,
}

impl CardContext {
    /// Reads the context. Waits at most one second, for any number of requests.
    pub(super) async fn of(engine: &EngineContext, requests: &[Arc<Request>]) -> Self {
        let paying =
            requests.iter().filter_map(|request| Some((request.from, request.ask.network()?)));
        let balances = engine.funds.cached_balances(paying).await;
        Self { reader: engine.core.reader(), config: engine.settings.get(), balances }
    }

    /// Returns the card with its context, or `None` if there is nothing to approve.
    pub(super) fn card(&self, state: &State, request: &Request, moment: &Moment) -> Option<Card> {
        let mut card = cards::card(state, request, moment)?;
        // The card of a trade shows its own prices.
        let LaneAsk::Payment(payment) = &request.ask else { return Some(card) };
        match self.reader.payee_totals(&Payee::of(payment)) {
            Ok(paid) => card.paid_before = Some(PaymentTotals::to_card(paid)),
            Err(failure) => card.paid_before_unknown_reason = Some(failure.to_string()),
        }
        match self.balance(request, payment) {
            Ok(balance) => card.balance = Some(balance),
            Err(why) => card.balance_unknown_reason = Some(why),
        }
        Some(card)
    }

    fn balance(&self, request: &Request, payment: &PaymentAsk) -> Result<Balance, String> {
        const UNKNOWN_TOKEN: &str = "Bursar does not know this token.";
        let network = payment.network().ok_or(UNKNOWN_TOKEN)?;
        let unknown = |why| balance_error::reason(why, network, &self.config);
        let known = self.balances.get(&(request.from, payment.chain));
        let cached = match known {
            Some(Ok(cached)) => cached,
            Some(Err(why)) => return Err(unknown(*why)),
            None => return Err("The request arrived while balances were being read.".to_owned()),
        };
        let asset = Some(payment.asset);
        let held = cached.funds.held.iter().find(|held| held.token == asset && held.is_verified());
        let held = held.ok_or(UNKNOWN_TOKEN)?;
        let atoms = held.amount.map_err(unknown)?;
        let decimals = held.decimals.ok_or(UNKNOWN_TOKEN)?;
        let held_now = TokenAmount { atoms, decimals };
        Ok(cards::balance(payment, held_now, &held.symbol, cached.read))
    }
}
