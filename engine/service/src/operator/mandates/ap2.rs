//! The present terms of an agent as an IntentMandate of AP2 v0.1, for merchants that read that form. It is unsigned, so it
//! must require that a person confirms each cart.

use bursar_control::answers::{Answer, Ap2Answer, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks;
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_domain::State;
use bursar_domain::agents::Agent;
use bursar_domain::mandate_terms::PresentTerms;
use serde_json::{Value, json};

use crate::core::fault;
use crate::operator::support::Done;

/// Describes what an agent may pay, until a time.
///
/// # Errors
/// The time is past, or the agent has no terms.
pub(super) fn show(state: &State, agent: &Agent, until: Utc, now: Utc) -> Result<Done, Fault> {
    if until <= now {
        let message = "--until must be in the future, such as 7d or 2030-01-31.";
        return Err(Fault::because(Code::BadInput, message));
    }
    let terms = PresentTerms::of(state, agent).map_err(|refusal| fault(&refusal))?;
    let hosts = state.policy_of(agent).map(|policy| &policy.payments.hosts.allowed);
    let hosts: Vec<&str> = hosts.into_iter().flatten().map(|entry| entry.as_str()).collect();
    let merchants = if hosts.is_empty() { Value::Null } else { json!(hosts) };
    let limits = &terms.limits;
    let names = terms.networks.iter().map(|chain| {
        networks::by_chain(*chain).map_or_else(|| chain.to_string(), |row| row.title.to_owned())
    });
    let description = format!(
        "The agent {} may pay up to {} {currency} a payment and {} {currency} a day, on {}, from {}.",
        agent.id,
        limits.per_request,
        limits.daily,
        names.collect::<Vec<_>>().join(", "),
        terms.wallet.to_checksum(None),
        currency = limits.currency,
    );
    let document = json!({
        "user_cart_confirmation_required": true,
        "natural_language_description": description,
        "merchants": merchants,
        "skus": Value::Null,
        "requires_refundability": false,
        "intent_expiry": text::utc(until),
    });
    let message = "This document is not signed: it proves nothing. It discloses the limits, the networks, the address, and \
                   the domains that the policy allows.";
    let warning = Warning { code: "UNSIGNED".to_owned(), message: message.to_owned() };
    let answer = Answer::Ap2(Ap2Answer { signed: false, document });
    Ok(Done { answer, warnings: vec![warning], secret: None })
}
