//! Applies the rules to a hypothetical payment of an agent that has spent nothing.

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::Network;
use bursar_core::policy::Policy;
use bursar_core::time::Moment;
use bursar_x402::Echo;
use bursar_x402::authorization::MIN_VALIDITY_SECONDS;

use super::payments::{PaymentContext, assess};
use super::{Verdict, clock_is_off};
use crate::assets::Price;
use crate::due::expiry_if_due;
use crate::refusal::Refusal;
use crate::requests::PaymentAsk;
use crate::state::State;

/// A payee that is neither the payer nor the token.
const PAYEE: Address = Address::repeat_byte(0x11);

/// Returns what `policy` would decide now about a payment of `usd`.
pub fn rehearse(
    state: &State,
    policy: &Policy,
    network: &Network,
    usd: Usd,
    url: Option<String>,
    moment: &Moment,
    trusted: bool,
) -> Verdict {
    if state.frozen.is_some() {
        return Verdict::Refuse(Refusal::new(Code::AgentsFrozen));
    }
    let ask = PaymentAsk {
        chain: network.chain,
        asset: network.stablecoin.address,
        // Never signed: the rules only check that it is not zero.
        amount: Atoms(U256::from(usd.0)),
        usd,
        price: Price::Reference,
        payee: PAYEE,
        valid_seconds: MIN_VALIDITY_SECONDS,
        request_url: url,
        resource_url: None,
        other_urls: Vec::new(),
        domain_contradicted: false,
        padding: 0,
        echo: Echo::none(),
    };
    let waiting = state.held.values().filter(|request| expiry_if_due(request, moment).is_none());
    assess(&PaymentContext {
        ask: &ask,
        from: Address::ZERO,
        policy,
        network_enabled: state.network_enabled(network.chain),
        trusted,
        clock_off: clock_is_off(moment),
        max_validity_s: state.settings.max_validity_s,
        spent: Usd::ZERO,
        reserved: Usd::ZERO,
        held_by_agent: 0,
        held_in_all: waiting.count(),
    })
}
