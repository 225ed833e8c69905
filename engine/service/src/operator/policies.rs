//! The command `policy …`.

use std::sync::Arc;

use bursar_control::answers::{Answer, PolicyAnswer, RehearsalAnswer, Warning};
use bursar_control::grammar::{PolicyOptions, PolicyOrder};
use bursar_core::card::Lane;
use bursar_core::change::{self, Change};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::hosts;
use bursar_core::ids::Name;
use bursar_core::money::{Bps, Usd};
use bursar_core::networks::{self, Network};
use bursar_core::policy::Policy;
use bursar_domain::agents::PolicyRecord;
use bursar_domain::assess::{Verdict, rehearsal};
use bursar_domain::{Action, State};

use super::dialogue::Dialogue;
use super::support::confirm::agree;
use super::support::{Done, act, describe, lookup};
use crate::context::EngineContext;
use crate::lanes::trading::default_slippage;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: PolicyOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    match order {
        PolicyOrder::List => {
            let view = engine.core.view();
            let records = view.state.policies.values();
            let policies = records.map(|record| describe::policy(&view.state, record)).collect();
            Ok(Answer::Policies { policies }.into())
        }
        PolicyOrder::Show { name } => show(engine, &name),
        PolicyOrder::Test {
            name,
            amount,
            domain,
            network,
            trade,
            slippage,
            impact,
            supply,
            lent,
        } => {
            let record = find(engine, &name)?;
            let network = network.as_deref();
            if supply {
                let test = SupplyTest { amount, lent: lent.unwrap_or_default() };
                rehearse_supply(engine, &record, network, test)
            } else if trade {
                let test = TradeTest { amount, slippage, impact: impact.unwrap_or_default() };
                rehearse_trade(engine, &record, network, test)
            } else {
                rehearse(engine, &record, amount, domain, network)
            }
        }
        PolicyOrder::Create { name, options } => {
            let policy = Box::new(options.apply(&Policy::default()));
            let warnings = ineffective_limits(&policy);
            act(engine, Action::CreatePolicy { name: name.clone(), policy }).await?;
            Ok(Done { warnings, ..show(engine, &name)? })
        }
        PolicyOrder::Edit { name, options } => edit(engine, name, &options, dialogue).await,
        PolicyOrder::Delete { name } => {
            act(engine, Action::DeletePolicy { name: name.clone() }).await?;
            Ok(Answer::Deleted { name: name.as_str().to_owned() }.into())
        }
    }
}

/// Changes the given fields of a policy. Asks first if the change allows more than before.
async fn edit(
    engine: &Arc<EngineContext>,
    name: Name,
    options: &PolicyOptions,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let before = find(engine, &name)?;
    let policy = Box::new(options.apply(&before.policy));
    let changes = policy.changes(&before.policy);
    let looser: Vec<Change> = changes.iter().filter(|change| change.loosens).cloned().collect();
    if !looser.is_empty() {
        let agents = answer(engine, &name)?.agents;
        let lines = looser.iter().map(Change::text).collect();
        agree(dialogue, lines, &loosening_question(agents)).await?;
        if find(engine, &name)?.serial != before.serial {
            return Err(Fault::new(Code::PolicyChanged));
        }
    }
    let mut warnings = ineffective_limits(&policy);
    act(engine, Action::EditPolicy { name: name.clone(), policy }).await?;
    let mut now = answer(engine, &name)?;
    warnings.extend(loosening_warning(&looser, now.agents));
    now.changes = Some(changes);
    Ok(Done { answer: Answer::Policy(now), warnings, secret: None })
}

/// Returns the question before a change that allows more than before.
fn loosening_question(agents: usize) -> String {
    format!("Allow this for {}, from the next request on?", agents_text(agents))
}

fn agents_text(agents: usize) -> String {
    match agents {
        0 => "any agent with this policy".to_owned(),
        1 => "its agent".to_owned(),
        more => format!("its {more} agents"),
    }
}

/// Warns of limits that another limit makes ineffective: allowed, but most likely a mistake.
fn ineffective_limits(policy: &Policy) -> Vec<Warning> {
    let limits = &policy.payments;
    let mut warnings = Vec::new();
    let mut warn = |message: &str| {
        let code = "LIMIT_WITHOUT_EFFECT".to_owned();
        warnings.push(Warning { code, message: message.to_owned() });
    };
    if limits.auto_below > limits.per_request {
        warn("--auto is above --txn, so no payment needs your approval for its amount.");
    }
    if limits.per_request > limits.daily {
        warn("--txn is above --day: the daily limit refuses payments above --day.");
    }
    warnings
}

/// Warns of changes that allow more than before: a typing mistake looks like any other edit.
fn loosening_warning(looser: &[Change], agents: usize) -> Option<Warning> {
    if looser.is_empty() {
        return None;
    }
    let message = format!(
        "This allows more than before for {}, effective at once: {}.",
        agents_text(agents),
        change::describe(looser)
    );
    Some(Warning { code: "LOOSENED".to_owned(), message })
}

/// Evaluates a hypothetical payment under the policy. Records nothing.
fn rehearse(
    engine: &EngineContext,
    record: &PolicyRecord,
    amount: Usd,
    domain: Option<String>,
    network: Option<&str>,
) -> Result<Done, Fault> {
    let view = engine.core.view();
    let row = network_of(&view.state, record, network, |_any| true)?;
    let url = domain.as_ref().map(|domain| format!("https://{domain}/"));
    if url.as_deref().is_some_and(|url| hosts::host_of(url).is_err()) {
        let message = "--domain needs a domain like api.example.com.";
        return Err(Fault::because(Code::BadInput, message));
    }
    let (moment, trusted) = (engine.core.now(), view.untrusted_reason.is_none());
    let verdict =
        rehearsal::rehearse(&view.state, &record.policy, row, amount, url, &moment, trusted);
    let told = rehearsal_answer(record, row, Lane::Payment, amount, &verdict);
    Ok(Answer::Rehearsal(RehearsalAnswer { domain, ..told }).into())
}

/// A hypothetical trade.
struct TradeTest {
    amount: Usd,
    /// `None` for the policy's own slippage.
    slippage: Option<Bps>,
    impact: Bps,
}

/// Evaluates a hypothetical trade under the policy. Records nothing.
fn rehearse_trade(
    engine: &EngineContext,
    record: &PolicyRecord,
    network: Option<&str>,
    TradeTest { amount, slippage, impact }: TradeTest,
) -> Result<Done, Fault> {
    let view = engine.core.view();
    let row = network_of(&view.state, record, network, |row| row.exchange.is_some())?;
    let slippage = slippage.unwrap_or_else(|| default_slippage(&record.policy.trading));
    let ask = rehearsal::plain_trade(row, amount, slippage, impact).ok_or_else(|| {
        let message = format!("Trading is not supported on {}.", row.title);
        Fault::because(Code::UnknownNetwork, message)
    })?;
    let (moment, trusted) = (engine.core.now(), view.untrusted_reason.is_none());
    let promised = rehearsal::NO_COMMITMENTS;
    let verdict =
        rehearsal::rehearse_trade(&view.state, &record.policy, &ask, promised, &moment, trusted);
    let told = rehearsal_answer(record, row, Lane::Trade, amount, &verdict);
    let (slippage, impact) = (Some(slippage.to_string()), Some(impact.to_string()));
    Ok(Answer::Rehearsal(RehearsalAnswer { slippage, impact, ..told }).into())
}

/// A hypothetical supply.
struct SupplyTest {
    amount: Usd,
    /// The amount that the address has lent already.
    lent: Usd,
}

/// Evaluates a hypothetical supply under the policy. Records nothing.
fn rehearse_supply(
    engine: &EngineContext,
    record: &PolicyRecord,
    network: Option<&str>,
    SupplyTest { amount, lent }: SupplyTest,
) -> Result<Done, Fault> {
    let view = engine.core.view();
    let row = network_of(&view.state, record, network, |row| row.lending.is_some())?;
    let ask = rehearsal::plain_supply(row, amount).ok_or_else(|| {
        let message = format!("Lending is not supported on {}.", row.title);
        Fault::because(Code::UnknownNetwork, message)
    })?;
    let (moment, trusted) = (engine.core.now(), view.untrusted_reason.is_none());
    let verdict =
        rehearsal::rehearse_supply(&view.state, &record.policy, &ask, lent, &moment, trusted);
    Ok(Answer::Rehearsal(rehearsal_answer(record, row, Lane::Loan, amount, &verdict)).into())
}

/// Describes the verdict about a request of `amount`, without the fields that only one lane has.
fn rehearsal_answer(
    record: &PolicyRecord,
    row: &Network,
    lane: Lane,
    amount: Usd,
    verdict: &Verdict,
) -> RehearsalAnswer {
    let Policy { payments, trading, lending, .. } = &record.policy;
    let (auto_below, acts) = match lane {
        Lane::Payment => (payments.auto_below, "signed without asking you"),
        Lane::Trade => (trading.auto_below, "executed without asking you"),
        Lane::Loan => (lending.auto_below, "executed without asking you"),
    };
    let (verdict, code, reason) = describe::verdict(verdict, amount, auto_below, acts);
    RehearsalAnswer {
        policy: record.name.as_str().to_owned(),
        lane,
        usd: amount.to_string(),
        network: row.title.to_owned(),
        domain: None,
        slippage: None,
        impact: None,
        verdict,
        code,
        reason,
    }
}

/// Returns the named network, or the first one that is enabled, allowed and `fits`.
fn network_of(
    state: &State,
    record: &PolicyRecord,
    network: Option<&str>,
    fits: impl Fn(&Network) -> bool,
) -> Result<&'static Network, Fault> {
    let allowed = |row: &&Network| {
        state.is_network_enabled(row.chain) && record.policy.networks.allows(row.chain) && fits(row)
    };
    match network {
        Some(name) => lookup::network(&state.edition, name),
        None => networks::base_first().find(allowed).ok_or(Fault::new(Code::NetworkDisabled)),
    }
}

fn show(engine: &EngineContext, name: &Name) -> Result<Done, Fault> {
    Ok(Answer::Policy(answer(engine, name)?).into())
}

fn answer(engine: &EngineContext, name: &Name) -> Result<PolicyAnswer, Fault> {
    let record = find(engine, name)?;
    Ok(describe::policy(&engine.core.view().state, &record))
}

fn find(engine: &EngineContext, name: &Name) -> Result<Arc<PolicyRecord>, Fault> {
    engine.core.view().state.policy(name).cloned().ok_or_else(|| {
        Fault::because(Code::NothingFound, format!("There is no policy {name}: see `policy list`."))
    })
}
