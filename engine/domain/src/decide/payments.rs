//! Payments: the verdict on a request, its terms and its signature.

use alloy_primitives::Address;
use bursar_core::codes::Code;
use bursar_core::hosts::{self, HostLists};
use bursar_core::ids::RequestId;
use bursar_core::time::Moment;
use bursar_x402::Echo;
use bursar_x402::authorization::{Authorization, validity};
use bursar_x402::signature::Signature65;

use super::intake::Intake;
use crate::approval::may_work;
use crate::assess::payments::{PaymentContext, assess, check_hosts};
use crate::assess::{Verdict, clock_is_off};
use crate::command::{Ask, Command};
use crate::decision::{Decision, Effect, Reply};
use crate::event::Event;
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, PaymentAsk, Request, Status};
use crate::state::State;

/// Applies the policy to a new payment.
pub(super) fn verdict(intake: &Intake<'_>, payment: &PaymentAsk) -> Verdict {
    let Intake { state, command, from, policy, spent, queue } = *intake;
    assess(&PaymentContext {
        ask: payment,
        from,
        policy,
        network_enabled: state.is_network_enabled(payment.chain),
        trusted: command.trusted,
        is_clock_off: clock_is_off(&command.moment),
        max_validity_s: state.settings.max_validity_s,
        spent: spent.payment,
        reserved: queue.reserved.payment,
        held_by_agent: queue.count_of_agent,
        held_in_all: queue.count_in_all,
    })
}

/// Records a signature once. A repeat, or a signature for a finished request, changes nothing.
pub(super) fn record_signature(state: &State, id: RequestId, signature: &Signature65) -> Decision {
    let unsigned = state.authorized.get(&id).is_some_and(|request| {
        matches!(request.status, Status::Authorized { signature: None, .. })
    });
    let event = Event::PaymentSigned { id, signature: *signature };
    Decision::done(if unsigned { vec![event] } else { Vec::new() })
}

pub(super) fn reissue(state: &State, command: &Command) -> Decision {
    let works = |request: &Request| {
        state.agents.get(&request.agent).is_some_and(|agent| may_work(state, agent).is_ok())
    };
    let unsigned = state.authorized.values().filter(|request| {
        matches!(request.status, Status::Authorized { signature: None, .. })
            && request.is_redeemable(command.moment.utc)
            && works(request)
    });
    // The authorizations in an untrusted journal may be forged.
    let effects = if command.unlocked && command.trusted {
        unsigned.map(|request| Effect::Sign(request.id)).collect()
    } else {
        Vec::new()
    };
    Decision { events: Vec::new(), effects, reply: Reply::Done }
}

/// Strips a refused payment for storage: keeps only URL origins, because their length is attacker-controlled.
///
/// The echo is dropped, because nothing will be sent back.
pub(super) fn strip_refused(ask: PaymentAsk) -> PaymentAsk {
    PaymentAsk {
        echo: Echo::none(),
        request_url: ask.request_url.as_deref().and_then(origin),
        resource_url: ask.resource_url.as_deref().and_then(origin),
        other_urls: ask.other_urls.iter().filter_map(|url| origin(url)).collect(),
        ..ask
    }
}

fn origin(url: &str) -> Option<String> {
    let host = hosts::host_of(url).ok()?;
    let (scheme, rest) = url.split_once("://")?;
    let scheme = if scheme.eq_ignore_ascii_case("http") { "http" } else { "https" };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_host, port)| port);
    let port = port.filter(|port| port.parse::<u16>().is_ok() && port.len() <= 5);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{scheme}://{host}{port}"))
}

/// Applies the host lists to a repeated payment request whose URL differs from that of the first request.
///
/// A bearer identity does not include the URL, so a stored answer could otherwise bypass the lists.
pub(super) fn check_repeat_url(
    hosts: &HostLists,
    ask: &Ask,
    first: &Request,
) -> Result<(), Refusal> {
    // A refused request keeps only the origins of its URLs, and its answer grants nothing.
    let refused = matches!(first.status, Status::Refused { .. });
    let (LaneAsk::Payment(asked), LaneAsk::Payment(answered)) = (&ask.ask, &first.ask) else {
        return Ok(());
    };
    if refused || asked.request_url == answered.request_url {
        return Ok(());
    }
    check_hosts(hosts, asked.request_url.as_deref(), answered).map(|_passes_or_was_held| ())
}

/// Returns the terms to sign: amount and payee of `ask`, paying address, validity.
///
/// The terms are valid for the requested number of seconds after `moment`, but at least for 30 seconds.
pub(super) fn terms(
    from: Address,
    ask: &PaymentAsk,
    moment: &Moment,
    nonce: [u8; 32],
) -> Result<Authorization, Refusal> {
    let now = u64::try_from(moment.utc.seconds()).map_err(|_before_1970| {
        Refusal::because(
            Code::InternalError,
            "This machine's clock is set before 1970: set the clock.",
        )
    })?;
    let validity = validity(ask.echo.version(), now, ask.valid_seconds)
        .map_err(|_too_far| Refusal::new(Code::InvalidX402Format))?;
    Ok(Authorization {
        from,
        to: ask.payee,
        value: ask.amount.0,
        valid_after: validity.after,
        valid_before: validity.before,
        nonce: nonce.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_keeps_only_url_origins() {
        for (url, kept) in [
            ("http://127.0.0.1:8402/large?x=1", Some("http://127.0.0.1:8402")),
            ("https://api.example/report", Some("https://api.example")),
            ("HTTPS://API.example:444", Some("https://api.example:444")),
            ("https://api.example?to=b:80", Some("https://api.example")),
            ("no url", None),
        ] {
            assert_eq!(origin(url).as_deref(), kept, "{url}");
        }
    }
}
