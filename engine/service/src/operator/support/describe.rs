//! Converts the state into the answers of commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_control::answers::{
    AddressAnswer, AgentAnswer, EXECUTING_SHOWN, ExecutingAnswer, NetworkAnswer, PolicyAnswer,
    RequestAnswer, SeedAnswer, ServerAnswer, UnattendedAnswer, WalletAnswer,
};
use bursar_control::card_text;
use bursar_core::auth::AuthMode;
use bursar_core::card::Card;
use bursar_core::ids::{RequestId, SeedId};
use bursar_core::limits::REQUESTS_PER_DAY_MAX;
use bursar_core::money::Usd;
use bursar_core::networks::{NETWORKS, Network};
use bursar_core::status::{PolicyVerdict, RequestStatus};
use bursar_core::text;
use bursar_core::time::{Moment, Utc};
use bursar_domain::agents::{Agent, PolicyRecord};
use bursar_domain::allowance::Renewal;
use bursar_domain::assess::Verdict;
use bursar_domain::loans::LoanAsk;
use bursar_domain::plan::{Execution, ExecutionEnd};
use bursar_domain::settlement::{Settlement, SettlementStatus};
use bursar_domain::trades::TradeAsk;
use bursar_domain::wallets::{Backing, PayingAddress, Seed};
use bursar_domain::{LaneAsk, Request, State, Status, plan_text};

use super::mandate_status;
use crate::context::EngineContext;

pub(crate) fn wallet(engine: &EngineContext) -> WalletAnswer {
    let view = engine.core.view();
    let known = view.state.wallet.as_ref();
    let unknown = if known.is_none() { engine.vault.file_names().into_iter().next() } else { None };
    WalletAnswer {
        exists: known.is_some(),
        name: known.map(|wallet| wallet.name.as_str().to_owned()),
        locked: !engine.vault.is_unlocked(),
        locks_in_s: engine.locks_in_s(),
        recoverable: unknown.map(|name| name.as_str().to_owned()),
        seeds: known.map_or(0, |wallet| wallet.seeds.len()),
        addresses: known.map_or(0, |wallet| wallet.addresses.len()),
    }
}

pub(crate) fn seed(id: SeedId, seed: &Seed) -> SeedAnswer {
    SeedAnswer { id: id.to_string(), words: seed.words, created: text::utc(seed.created) }
}

pub(crate) fn address(known: &PayingAddress) -> AddressAnswer {
    let backing = match known.backing {
        Backing::Seed(seed) => format!("seed {seed}"),
        Backing::Device { layout } => format!("Ledger ({})", layout.name()),
    };
    AddressAnswer {
        confirmed: false,
        uri: None,
        label: known.label.as_str().to_owned(),
        index: known.index,
        description: known.description.clone(),
        backing,
        path: known.path.clone(),
        address: known.address.to_checksum(None),
    }
}

pub(crate) fn policy(state: &State, record: &PolicyRecord) -> PolicyAnswer {
    let users = state.agents.values().filter(|agent| {
        agent.commission.as_ref().is_some_and(|given| given.policy.key() == record.name.key())
    });
    let reached = NETWORKS.iter().filter(|row| {
        state.is_network_enabled(row.chain) && record.policy.networks.allows(row.chain)
    });
    PolicyAnswer::of(
        record.name.as_str(),
        (record.version, record.serial),
        users.count(),
        reached.map(|row| format!("{} ({})", row.title, row.chain)).collect(),
        &record.policy,
    )
}

pub(crate) fn agent(engine: &EngineContext, state: &State, agent: &Agent) -> AgentAnswer {
    let moment = engine.core.now();
    let given = agent.commission.as_ref();
    let label = given.map(|given| &given.label);
    let paying = label.and_then(|label| state.wallet.as_ref()?.address(label));
    let policy = state.policy_of(agent);
    let daily = policy.map(|policy| policy.payments.daily);
    let trading = policy.map(|policy| &policy.trading).filter(|trading| trading.enabled);
    let lost = agent.credential.mode() == AuthMode::Hmac
        && engine.vault.is_unlocked()
        && engine.vault.gate().with_agent_secret(&agent.id, |secret| secret.is_none());
    let renews = state.renews_after(agent, &moment);
    let renews = renews.map(|(earliest, day)| engine.ports.clock.midnight(earliest, day));
    let renews_at = renews.map(text::utc);
    let wait_ms = renews.map(|at| u64::try_from(at.since_ms(moment.utc)).unwrap_or(0));
    AgentAnswer {
        agent_id: agent.id.to_string(),
        name: agent.name.as_str().to_owned(),
        auth_mode: agent.credential.mode(),
        status: state.status(agent, &moment),
        policy: given.map(|given| given.policy.as_str().to_owned()),
        label: label.map(|label| label.as_str().to_owned()),
        address: paying.map(|paying| paying.address.to_checksum(None)),
        spent_today: state.spent(agent, &moment).payment.to_string(),
        reserved: agent.reserved.payment.to_string(),
        daily_limit: daily.map(|daily| daily.to_string()),
        traded_today: state.spent(agent, &moment).trade.to_string(),
        trades_reserved: agent.reserved.trade.to_string(),
        trade_limit: trading.map(|trading| trading.daily.to_string()),
        renewal_held: given.is_some_and(|given| {
            matches!(given.window.start.renewal(&moment), Renewal::HeldBack(_))
        }),
        requests_today: agent.usage.counts_on(moment.utc.max(state.clock)).0,
        requests_limit: (!engine.core.view().settings().rate_limit_off).then_some(REQUESTS_PER_DAY_MAX),
        padding_today: agent.usage.counts_on(moment.utc.max(state.clock)).1,
        open: agent.open_payments,
        renews_at_unknown_reason: renews_at
            .is_none()
            .then(|| state.renewal_doubt(agent).to_owned()),
        renews_at,
        renews_in_seconds: wait_ms.map(|ms| ms.div_ceil(1_000)),
        mandate: mandate_status::status(state, &agent.id),
        problem: lost.then(|| {
            "the wallet file lacks the agent's secret: `agent instructions <agent> --regenerate` issues a new one"
                .to_owned()
        }),
    }
}

pub(crate) async fn server(engine: &EngineContext) -> ServerAnswer {
    let running = engine.server.lock().await;
    let url = running.as_ref().map(|server| format!("http://{}", server.address));
    let open_to_network = running.as_ref().is_some_and(|server| server.is_open_to_network());
    let locked = !engine.vault.is_unlocked();
    ServerAnswer { running: url.is_some(), url, open_to_network, locked }
}

pub(crate) fn network(state: &State, row: &Network) -> NetworkAnswer {
    NetworkAnswer {
        chain_id: row.chain.0,
        caip2: row.caip2(),
        name: row.title.to_owned(),
        stablecoin: row.stablecoin.symbol.to_owned(),
        enabled: state.is_network_enabled(row.chain),
    }
}

pub(crate) fn request(request: &Request, card: Option<Card>, moment: &Moment) -> RequestAnswer {
    let (summary, asset, payee) = match &request.ask {
        LaneAsk::Payment(payment) => {
            // The token's address has its own field.
            let text = payment.foreign().and_then(|asset| asset.text.as_ref());
            let summary = text.map_or_else(
                || payment.described_amount().text,
                |text| text.amount(payment.amount, payment.asset).text,
            );
            (summary, payment.asset, payment.payee)
        }
        LaneAsk::Trade(trade) => {
            let asset = trade.token_in.address.unwrap_or_default();
            (trade_text(trade), asset, request.from)
        }
        LaneAsk::Loan(loan) => {
            let coin = request.ask.network().map(|network| network.stablecoin.address);
            (loan_text(loan), coin.unwrap_or_default(), request.from)
        }
    };
    let (status, left_ms) = match &request.status {
        Status::Held { deadline, .. } => (RequestStatus::Pending, Some(deadline.left_ms(moment))),
        Status::Authorized { signature: Some(_), .. } => (RequestStatus::Signed, None),
        Status::Authorized { signature: None, .. } => (RequestStatus::Executing, None),
        Status::Executing(execution) | Status::Ended(execution) => (trade_status(execution), None),
        Status::Refused { .. } => (RequestStatus::Refused, None),
        Status::Denied { .. } => (RequestStatus::Denied, None),
        Status::Expired { .. } => (RequestStatus::Expired, None),
        Status::AwaitingDevice(_) => {
            (RequestStatus::AwaitingDevice, request.device_left_ms(moment))
        }
        Status::NotSigned { .. } => (RequestStatus::NotSigned, None),
    };
    let quoted = match &request.ask {
        LaneAsk::Payment(_) => None,
        LaneAsk::Trade(trade) => Some(trade.quote.at),
        LaneAsk::Loan(loan) => Some(loan.quote.at),
    };
    let quoted = quoted.filter(|_at| card.is_some());
    let age = |at: Utc| u64::try_from(moment.utc.0.saturating_sub(at.0)).unwrap_or(0);
    RequestAnswer {
        id: request.id.to_string(),
        lane: request.ask.lane(),
        agent_id: request.agent.to_string(),
        status,
        step: step(request),
        summary,
        amount: request.ask.amount(),
        asset: asset.to_checksum(None),
        payee: payee.to_checksum(None),
        payee_name: card.as_ref().and_then(|card| card.payee_name.clone()),
        domain: request.ask.host(),
        created: text::utc(request.created),
        expires_in_seconds: left_ms.map(|ms| ms.div_ceil(1000)),
        expires_in_ms: left_ms,
        quote_age_ms: quoted.map(age),
        typing_threshold: None,
        card,
    }
}

/// Describes a request that waits for its device. `place` is the label of its queue status.
pub(crate) fn describe_at_device(
    answer: &mut RequestAnswer,
    state: &State,
    request: &Request,
    place: &str,
    moment: &Moment,
) {
    if request.execution().is_none() {
        answer.step = Some(place.to_owned());
        return;
    }
    answer.step = step_at_device(state, request, place);
    if request.is_running() {
        let left_ms = state.device_signature_left_ms(request, moment);
        answer.status = RequestStatus::AwaitingDevice;
        answer.expires_in_ms = Some(left_ms);
        answer.expires_in_seconds = Some(left_ms.div_ceil(1_000));
    }
}

/// Returns the step of a plan that the device must sign now, like `1/2 token approval, confirm on device`.
fn step_at_device(state: &State, request: &Request, place: &str) -> Option<String> {
    plan_text::device_signature_text(state, request).map(|press| format!("{press}, {place}"))
}

/// Returns the verdict of a policy, its code and its reason as text. `acts` is the reason if no approval is needed.
pub(crate) fn verdict(
    verdict: &Verdict,
    amount: Usd,
    auto_below: Usd,
    acts: &str,
) -> (PolicyVerdict, Option<String>, String) {
    match verdict {
        Verdict::Act => (PolicyVerdict::Act, None, acts.to_owned()),
        Verdict::Hold(why) => {
            let reason = card_text::hold_text(*why, amount, auto_below);
            let code = Some(why.text().to_owned());
            (PolicyVerdict::Hold, code, format!("needs your approval: {reason}"))
        }
        Verdict::Refuse(refusal) => {
            (PolicyVerdict::Refuse, Some(refusal.code.text().to_owned()), refusal.describe())
        }
    }
}

/// Formats a trade, like `25.000000 USDC > WETH`.
fn trade_text(trade: &TradeAsk) -> String {
    format!("{} > {}", trade.input_text(), trade.symbol_text(&trade.token_out))
}

/// Formats a loan, like `supply 25.000000 USDC`.
fn loan_text(loan: &LoanAsk) -> String {
    format!("{} {}", loan.action.text(), loan.amount_text())
}

/// Returns the current step of a running plan.
pub(crate) fn step(request: &Request) -> Option<String> {
    match &request.status {
        Status::Executing(execution) => plan_text::progress(execution),
        Status::Held { .. }
        | Status::Authorized { .. }
        | Status::Ended(_)
        | Status::Refused { .. }
        | Status::Denied { .. }
        | Status::Expired { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. } => None,
    }
}

/// Returns the first requests whose plans run, the earliest first. `places` are their labels in the device queue.
pub(crate) fn executing_answers(
    state: &State,
    places: &BTreeMap<RequestId, String>,
) -> Vec<ExecutingAnswer> {
    let mut running: Vec<&Arc<Request>> = state.executing.values().collect();
    running.sort_by_key(|request| request.seq);
    let described = running.into_iter().filter_map(|request| {
        Some(ExecutingAnswer {
            id: request.id.to_string(),
            agent_id: request.agent.to_string(),
            summary: match &request.ask {
                LaneAsk::Trade(trade) => trade_text(trade),
                LaneAsk::Loan(loan) => loan_text(loan),
                LaneAsk::Payment(_) => return None,
            },
            step: match places.get(&request.id) {
                Some(place) => step_at_device(state, request, place)?,
                None => step(request)?,
            },
        })
    });
    described.take(EXECUTING_SHOWN).collect()
}

/// Returns the status of a request: that of its settlement, if one was reported.
pub(crate) fn request_status(request: &Request, settlement: Option<&Settlement>) -> RequestStatus {
    match (&request.status, settlement.map(Settlement::status)) {
        (Status::Held { .. }, _) => RequestStatus::Pending,
        (Status::Executing(execution) | Status::Ended(execution), _) => trade_status(execution),
        (Status::Refused { .. }, _) => RequestStatus::Refused,
        (Status::Denied { .. }, _) => RequestStatus::Denied,
        (Status::Expired { .. }, _) => RequestStatus::Expired,
        (Status::AwaitingDevice(_), _) => RequestStatus::AwaitingDevice,
        (Status::NotSigned { .. }, _) => RequestStatus::NotSigned,
        (Status::Authorized { .. }, Some(SettlementStatus::Submitted)) => RequestStatus::Submitted,
        (Status::Authorized { .. }, Some(SettlementStatus::Failed)) => RequestStatus::Failed,
        (Status::Authorized { .. }, Some(SettlementStatus::SettledByReport)) => {
            RequestStatus::Settled
        }
        (Status::Authorized { .. }, Some(SettlementStatus::Refuted)) => RequestStatus::Refuted,
        (Status::Authorized { .. }, Some(SettlementStatus::Verified)) => RequestStatus::Verified,
        (Status::Authorized { signature: Some(_), .. }, None) => RequestStatus::Signed,
        (Status::Authorized { signature: None, .. }, None) => RequestStatus::Executing,
    }
}

/// Returns the status of an allowed request with a plan.
pub(crate) fn trade_status(execution: &Execution) -> RequestStatus {
    match &execution.end {
        None => RequestStatus::Executing,
        Some(ExecutionEnd::Executed { .. }) => RequestStatus::Executed,
        Some(ExecutionEnd::Rejected(_)) => RequestStatus::Refused,
        Some(ExecutionEnd::Failed { .. }) => RequestStatus::Failed,
    }
}

/// Returns agents' spending of today, if the wallet is open and no person has opened it.
pub(crate) fn unattended_answer(engine: &EngineContext) -> Option<UnattendedAnswer> {
    let view = engine.core.view();
    let is_so = view.state.unattended.active && engine.vault.is_unlocked();
    let spent = view.state.unattended.spent_at(&engine.core.now());
    // After a restore the whole day counts as spent.
    let shown = view.state.settings.unattended_daily.filter(|_limit| spent == Usd(u64::MAX));
    is_so.then(|| UnattendedAnswer {
        spent: shown.unwrap_or(spent).to_string(),
        limit: view.state.settings.unattended_daily.map(|limit| limit.to_string()),
    })
}
