//! The card of a held request. It is built only here, so that all screens show the same card.

use alloy_primitives::Address;
use bursar_core::card::{self, Balance, Card, Change, Lane, Terms};
use bursar_core::ids::Name;
use bursar_core::money::{Atoms, TokenAmount, Usd};
use bursar_core::text;
use bursar_core::time::{Moment, Utc};
use bursar_x402::authorization::MIN_VALIDITY_SECONDS;

use crate::approval::obstacle;
use crate::requests::{LaneAsk, PaymentAsk, Request, Status};
use crate::state::State;

/// The operator approves payments below this amount without typing it, unless `confirm_typing_above` is lower.
pub const DEFAULT_TYPED_FROM: Usd = Usd::dollars(5);

/// Returns the label of an address of this wallet.
pub fn own_label(state: &State, address: Address) -> Option<Name> {
    let mut known = state.wallet.as_ref()?.addresses.values();
    known.find(|known| known.address == address).map(|known| known.label.clone())
}

/// Returns the current label of the paying address: its old label may belong to another address now.
fn label_now(state: &State, request: &Request) -> Name {
    own_label(state, request.from).unwrap_or_else(|| request.label.clone())
}

/// Returns the paying address's balance before and after the payment, in the request's asset.
pub fn balance(payment: &PaymentAsk, held: TokenAmount, symbol: &str, read: Utc) -> Balance {
    let after = held.atoms.0.checked_sub(payment.amount.0);
    let after = after.map(|left| TokenAmount { atoms: Atoms(left), decimals: held.decimals });
    Balance {
        before: held.to_string(),
        after: after.map(|after| after.to_string()),
        symbol: symbol.to_owned(),
        read: text::utc(read),
    }
}

/// Returns the card of what an approval of `request` would do now.
///
/// `None` if the request is not held, or if its agent or policy no longer exists: then there is nothing to approve.
pub fn card(state: &State, request: &Request, moment: &Moment) -> Option<Card> {
    let Status::Held { reason, deadline } = &request.status else { return None };
    let agent = state.agents.get(&request.agent)?;
    let policy = state.policy(&agent.commission.as_ref()?.policy)?;
    let LaneAsk::Payment(payment) = &request.ask;
    let network = payment.network()?;
    let payments = &policy.policy.payments;
    let spent = state.spent(agent, moment).payment;
    let terms = Terms {
        lane: Lane::Payment,
        agent: request.agent.clone(),
        address: request.from.to_checksum(None),
        network: network.caip2(),
        asset: payment.asset.to_checksum(None),
        payee: payment.payee.to_checksum(None),
        amount: payment.amount.to_string(),
        valid_seconds: payment.valid_seconds.max(MIN_VALIDITY_SECONDS),
        request_url: payment.request_url.clone(),
        resource_url: payment.resource_url.clone(),
        other_urls: payment.other_urls.clone(),
    };
    let digest = card::digest(&terms, *reason, policy.version);
    // A tenth of the policy's largest payment: above that, an accidental approval is expensive.
    let tenth = Usd(payments.per_request.0.checked_div(10).unwrap_or(0));
    let typed_from = state.settings.confirm_typing_above.unwrap_or(tenth.max(DEFAULT_TYPED_FROM));
    Some(Card {
        id: request.id,
        terms,
        hold: *reason,
        obstacle: obstacle(state, request, moment).map(|refusal| refusal.describe()),
        policy: policy.name.clone(),
        policy_version: policy.version,
        agent_name: agent.name.clone(),
        label: label_now(state, request),
        network_title: format!("{} ({})", network.title, network.chain),
        amount: payment.amount_text(),
        unpriced: payment.unpriced,
        usd: payment.usd,
        spent: Change { before: spent, after: spent.checked_add(payment.usd).ok()? },
        daily_limit: payments.daily,
        per_request_max: payments.per_request,
        auto_below: payments.auto_below,
        reserved: agent.reserved.payment,
        expires_in_seconds: deadline.left_ms(moment).div_ceil(1000),
        type_amount: payment.usd >= typed_from,
        digest,
        payee_label: own_label(state, payment.payee),
        // The caller that shows the card adds these: no decision may depend on them.
        paid_before: None,
        paid_before_unknown_reason: None,
        balance: None,
        balance_unknown_reason: None,
    })
}
