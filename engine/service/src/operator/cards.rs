//! Adds context to cards: earlier payments to the payee and its risks, from the journal's rows, and the balance of the
//! paying address, from the balance cache. Both are read without the core. Of decisions, only whether the amount must
//! be typed depends on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_core::card::{Balance, Card};
use bursar_core::money::{TokenAmount, Usd};
use bursar_core::networks::NETWORKS;
use bursar_core::time::Moment;
use bursar_domain::payee::Payee;
use bursar_domain::payees::{PaymentTotals, hosts};
use bursar_domain::risks::{PayeeFacts, payment_risks, resembles};
use bursar_domain::{LaneAsk, PaymentAsk, Request, State, cards};

use super::support::balance_error;
use crate::config::Config;
use crate::context::EngineContext;
use crate::funds::{AccountKey, CachedBalance, UnknownReason};
use crate::journal::{
    Reader, address_of_key, approved_price_key, host_and_parents, host_keys, host_of_key,
    price_keys, similar_keys,
};

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

    /// Creates the context of a decision for which no card is shown, so that balances are not needed.
    pub(super) fn without_balances(engine: &EngineContext) -> Self {
        let config = engine.settings.get();
        Self { reader: engine.core.reader(), config, balances: BTreeMap::new() }
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
        let typed_from = cards::typing_threshold(state, card.per_request_max);
        card.risks = payment_risks(&card, typed_from, &self.facts(state, payment));
        card.type_amount |= card.is_dangerous();
        Some(card)
    }

    /// Reads the facts from which risks follow. What cannot be read is not known.
    fn facts(&self, state: &State, payment: &PaymentAsk) -> PayeeFacts {
        let payee = Payee::of(payment);
        let prices = self.rows(&price_keys(&payee)).into_iter().map(|(_key, usd)| Usd(usd));
        let approved = self.rows(&approved_price_key(&payee));
        PayeeFacts {
            prices: prices.collect(),
            approved_price: approved.first().map(|(_key, usd)| Usd(*usd)),
            similar: self.similar(state, &payee),
            similar_host: hosts(payment).find_map(|host| self.similar_host(&host)),
        }
    }

    fn rows(&self, start: &[u8]) -> Vec<(Vec<u8>, u64)> {
        self.reader.index_rows(start).unwrap_or_default()
    }

    /// Returns an approved host that a host or one of its parent domains imitates.
    fn similar_host(&self, host: &str) -> Option<String> {
        host_and_parents(host).into_iter().find_map(|name| {
            let approved = self.rows(&host_keys(name));
            let mut approved = approved.iter().filter_map(|(key, _seq)| host_of_key(key));
            let first = approved.next()?;
            // A host that was approved itself imitates no other.
            (first != name && approved.all(|known| known != name)).then_some(first)
        })
    }

    /// Returns a known address that resembles the payee's: named, of this wallet, or paid with an approval.
    fn similar(&self, state: &State, payee: &Payee) -> Option<(Address, Option<String>)> {
        let named = state.payee_names.iter();
        let named = named.map(|(payee, label)| (payee.address, Some(label.to_string())));
        let own = state.wallet.iter().flat_map(|wallet| wallet.addresses.values());
        let own = own.map(|known| (known.address, Some(known.label.to_string())));
        let labelled = named.chain(own).find(|(known, _label)| resembles(*known, payee.address));
        labelled.or_else(|| {
            let approved = self.rows(&similar_keys(payee.address));
            let approved = approved.iter().filter_map(|(key, _chain)| address_of_key(key));
            let mut others = approved.filter(|known| *known != payee.address);
            others.next().or_else(|| self.similar_before(payee)).map(|known| (known, None))
        })
    }

    /// Returns an address that was approved before the index contained approvals.
    fn similar_before(&self, payee: &Payee) -> Option<Address> {
        NETWORKS.iter().find_map(|network| {
            let there = Payee { chain: network.chain, address: payee.address };
            let paid = self.reader.similar_payees(&there).unwrap_or_default();
            paid.first().map(|paid| paid.address)
        })
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
