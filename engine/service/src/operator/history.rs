//! The commands `history …` and `receipt`. They read the journal's request records and send no message to the core.
//! Lists and searches by prefix read the newest record first.

mod csv;
mod refused;

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use bursar_control::answers::{
    Answer, ExportAnswer, HistoryAnswer, HistoryRow, LoanAnswer, ReceiptAnswer, TradeAnswer,
};
use bursar_control::grammar::{
    HistoryExport, HistoryFilter, HistoryLane, HistoryOrder, ReceiptOrder,
};
use bursar_core::card::Lane;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::limits::{EXPORT_PART_BYTES, EXPORT_PART_TIMEOUT_MS, HISTORY_ROWS_MAX};
use bursar_core::status::RequestStatus;
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_domain::loans::LoanAsk;
use bursar_domain::payees;
use bursar_domain::plan::{Execution, ExecutionEnd, PlanStep};
use bursar_domain::settlement::Settlement;
use bursar_domain::trades::TradeAsk;
use bursar_domain::{LaneAsk, PaymentAsk, Request, State};
use tokio::sync::mpsc;

use super::dialogue::Dialogue;
use super::proofs;
use super::requests::ID_DIGITS_MIN;
use super::support::Done;
use super::support::describe::{request_status, step};
use crate::blocking::blocking;
use crate::context::EngineContext;
use crate::journal::{Reader, StoreError, parse_head, read_fault};
use crate::receipts;

/// Rows shown without `--limit`.
const DEFAULT_LIMIT: usize = 20;
/// Maximum number of parts of an export that are queued for the program.
const QUEUED_PARTS_MAX: usize = 4;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: HistoryOrder,
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    let limit = order.filter.limit;
    let scan = HistoryQuery::new(engine, &order.filter)?;
    match order.export {
        None => list(scan, limit.unwrap_or(DEFAULT_LIMIT)).await,
        Some(HistoryExport::Export { file, jsonl }) => {
            let form = if jsonl { ExportForm::JsonLines } else { ExportForm::Csv };
            export(scan, limit, (file, form), dialogue).await
        }
    }
}

/// A resolved filter, with the reader and state that it applies to.
struct HistoryQuery {
    reader: Arc<dyn Reader>,
    state: State,
    agent: Option<AgentId>,
    lane: Option<Lane>,
    status: Option<RequestStatus>,
    since: Option<Utc>,
    until: Option<Utc>,
}

impl HistoryQuery {
    fn new(engine: &EngineContext, filter: &HistoryFilter) -> Result<Self, Fault> {
        let state = engine.core.view().state.clone();
        Ok(Self {
            reader: engine.core.reader(),
            agent: filter.agent.as_ref().map(|name| agent(&state, name)).transpose()?,
            lane: filter.lane.map(HistoryLane::lane),
            status: filter.status,
            since: filter.since.map(|since| since.from(engine.core.now().utc)),
            until: filter.until.map(|until| until.from(engine.core.now().utc)),
            state,
        })
    }

    /// Visits the matching requests, newest first. The visitor returns `false` to stop.
    fn visit_matching(
        &self,
        mut visit: impl FnMut(&LaneAsk, HistoryRow) -> bool,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        self.reader.newest(&mut |request| {
            // The journal's time never goes back: all further requests are older.
            if self.since.is_some_and(|since| request.created < since) {
                return false;
            }
            if self.until.is_some_and(|until| request.created >= until) {
                return true;
            }
            if self.agent.as_ref().is_some_and(|agent| *agent != request.agent) {
                return true;
            }
            if self.lane.is_some_and(|lane| lane != request.ask.lane()) {
                return true;
            }
            let settlement = match self.reader.settlement(request.seq) {
                Ok(settlement) => settlement,
                Err(error) => {
                    failed = Some(error);
                    return false;
                }
            };
            let status = request_status(&request, settlement.as_ref());
            if self.status.is_some_and(|wanted| wanted != status) {
                return true;
            }
            visit(&request.ask, row(&self.state, &request, settlement.as_ref(), status))
        })?;
        failed.map_or(Ok(()), Err)
    }
}

/// Resolves an agent's name or id. Accepts every well-formed id, because the records of deleted agents remain.
fn agent(state: &State, name: &Name) -> Result<AgentId, Fault> {
    let known = state.find_agent(name).map(|agent| agent.id.clone());
    known.or_else(|| name.as_str().parse().ok()).ok_or_else(|| {
        Fault::because(Code::NothingFound, format!("There is no agent {name}: see `agent list`."))
    })
}

async fn list(scan: HistoryQuery, limit: usize) -> Result<Done, Fault> {
    if !(1..=HISTORY_ROWS_MAX).contains(&limit) {
        return Err(Fault::because(
            Code::BadInput,
            format!("--limit must be 1 to {HISTORY_ROWS_MAX}; `history export` has no maximum."),
        ));
    }
    let read = blocking(move || {
        let (mut requests, mut more) = (Vec::new(), false);
        scan.visit_matching(|_ask, row| {
            more = requests.len() >= limit;
            if !more {
                requests.push(row);
            }
            !more
        })?;
        Ok(HistoryAnswer { requests, more })
    });
    read.await?.map(|answer| Answer::History(answer).into()).map_err(damage_fault)
}

/// The form of an exported file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExportForm {
    Csv,
    /// One JSON object for each request.
    JsonLines,
}

impl ExportForm {
    fn head(self) -> String {
        match self {
            Self::Csv => csv::head(),
            Self::JsonLines => String::new(),
        }
    }

    fn push(self, part: &mut String, ask: &LaneAsk, row: &HistoryRow) {
        match self {
            Self::Csv => csv::push(part, row, ask.payment().and_then(PaymentAsk::host_url)),
            Self::JsonLines => {
                // A row has only texts, numbers and switches.
                part.push_str(&serde_json::to_string(row).unwrap_or_default());
                part.push('\n');
            }
        }
    }
}

/// Sends the file in parts to the program, which writes the file.
///
/// The program runs in the operator's working directory with the operator's permissions. The engine may run in
/// another directory, under another account.
///
/// # Errors
/// `CANCELLED` if the program accepts no part for `EXPORT_PART_TIMEOUT_MS`.
async fn export(
    scan: HistoryQuery,
    limit: Option<usize>,
    (file, form): (String, ExportForm),
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    let (parts, mut ready) = mpsc::channel::<String>(QUEUED_PARTS_MAX);
    let limit = limit.unwrap_or(usize::MAX);
    let reading = tokio::task::spawn_blocking(move || {
        let (mut part, mut rows) = (form.head(), 0usize);
        let mut listening = true;
        scan.visit_matching(|ask, row| {
            if rows >= limit {
                return false;
            }
            form.push(&mut part, ask, &row);
            rows = rows.saturating_add(1);
            if part.len() >= EXPORT_PART_BYTES {
                listening = parts.blocking_send(std::mem::take(&mut part)).is_ok();
            }
            listening
        })?;
        let _stopped_listening = parts.blocking_send(part);
        Ok::<_, StoreError>(rows)
    });
    let patience = Duration::from_millis(EXPORT_PART_TIMEOUT_MS);
    while let Some(part) = ready.recv().await {
        let sent = tokio::time::timeout(patience, dialogue.part(part)).await;
        sent.map_err(|_elapsed| Fault::new(Code::Cancelled))??;
    }
    let rows = reading.await.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    let rows = u64::try_from(rows.map_err(damage_fault)?).unwrap_or(u64::MAX);
    Ok(Answer::Exported(ExportAnswer { file, rows }).into())
}

fn row(
    state: &State,
    request: &Request,
    settlement: Option<&Settlement>,
    status: RequestStatus,
) -> HistoryRow {
    let columns = match &request.ask {
        LaneAsk::Payment(payment) => payment_columns(payment),
        LaneAsk::Trade(trade) => trade_columns(request, trade),
        LaneAsk::Loan(loan) => loan_columns(request, loan),
    };
    let agent = state.agents.get(&request.agent).map(|agent| agent.name.as_str().to_owned());
    let host = request.ask.host();
    let reported = settlement.and_then(|known| known.tx_hash);
    let swap = request.execution().and_then(Execution::main_step).and_then(PlanStep::hash);
    let tx_hash = reported.or(swap).map(|hash| hash.to_string());
    let token = "Bursar does not know this token";
    HistoryRow {
        id: request.id.to_string(),
        created: text::utc(request.created),
        ended: request.ended_at().map(text::utc),
        lane: request.ask.lane(),
        agent_id: request.agent.to_string(),
        agent_unknown_reason: reason_if_absent(&agent, "the agent was deleted"),
        agent,
        label: request.label.as_str().to_owned(),
        status,
        step: step(request),
        amount: request.ask.amount(),
        symbol_unknown_reason: reason_if_absent(&columns.symbol, token),
        symbol: columns.symbol,
        usd_unknown_reason: reason_if_absent(&columns.usd, token),
        usd: columns.usd,
        asset: columns.asset,
        network: format!("eip155:{}", request.ask.chain()),
        payee: columns.payee,
        payee_name: payees::label(state, request).cloned(),
        host_unknown_reason: reason_if_absent(&host, "no URL was named"),
        host,
        tx_hash_unknown_reason: reason_if_absent(&tx_hash, "no transaction was reported"),
        tx_hash,
        trade: request.trade().map(|trade| trade_answer(request, trade)),
        loan: request.loan().map(|loan| loan_answer(request, loan)),
        refused: refused::explain(state, request).map(|refused| refused.why),
    }
}

/// The columns of a row that differ by lane.
struct LaneColumns {
    symbol: Option<String>,
    usd: Option<String>,
    asset: String,
    payee: String,
}

fn payment_columns(payment: &PaymentAsk) -> LaneColumns {
    let text = payment.foreign().and_then(|asset| asset.text.as_ref());
    let coin = payment.stablecoin();
    LaneColumns {
        symbol: coin
            .map(|coin| coin.symbol.to_owned())
            .or_else(|| text.map(|text| text.symbol.clone())),
        usd: (!payment.is_unpriced()).then(|| payment.usd.to_string()),
        asset: payment.asset.to_checksum(None),
        payee: payment.payee.to_checksum(None),
    }
}

fn trade_columns(request: &Request, trade: &TradeAsk) -> LaneColumns {
    let token = &trade.token_in;
    LaneColumns {
        symbol: Some(token.symbol.clone()),
        usd: trade.quote.value_in.map(|usd| usd.to_string()),
        asset: token.address.unwrap_or_default().to_checksum(None),
        payee: request.from.to_checksum(None),
    }
}

fn loan_columns(request: &Request, loan: &LoanAsk) -> LaneColumns {
    let coin = request.ask.network().map(|network| &network.stablecoin);
    LaneColumns {
        symbol: coin.map(|coin| coin.symbol.to_owned()),
        usd: loan.value(&loan.quote).map(|usd| usd.to_string()),
        asset: coin.map_or(String::new(), |coin| coin.address.to_checksum(None)),
        payee: request.from.to_checksum(None),
    }
}

fn loan_answer(request: &Request, loan: &LoanAsk) -> LoanAnswer {
    let (moved, position) = match request.execution().and_then(|one| one.end.as_ref()) {
        Some(ExecutionEnd::Executed { received, position, .. }) => (*received, *position),
        Some(ExecutionEnd::Rejected(_) | ExecutionEnd::Failed { .. }) | None => (None, None),
    };
    LoanAnswer {
        action: loan.action.text().to_owned(),
        venue: loan.venue.to_string(),
        venue_name: loan.quote.venue.as_ref().map_or(String::new(), |venue| venue.name.clone()),
        moved: moved.map(|atoms| loan.assets(atoms)),
        position: position.map(|atoms| loan.assets(atoms)),
    }
}

fn trade_answer(request: &Request, trade: &TradeAsk) -> TradeAnswer {
    let token = &trade.token_out;
    let end = request.execution().and_then(|execution| execution.end.as_ref());
    let received = match end {
        Some(ExecutionEnd::Executed { received, .. }) => *received,
        Some(ExecutionEnd::Rejected(_) | ExecutionEnd::Failed { .. }) | None => None,
    };
    TradeAnswer {
        symbol_out: token.symbol.clone(),
        asset_out: token.address.unwrap_or_default().to_checksum(None),
        amount_out: received.map(|atoms| trade.amount(token, atoms)),
    }
}

fn reason_if_absent<T>(value: &Option<T>, reason: &str) -> Option<String> {
    value.is_none().then(|| reason.to_owned())
}

pub(super) async fn receipt(
    engine: &Arc<EngineContext>,
    order: ReceiptOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let Some(wanted) = order.id.filter(|_id| order.check.is_none()) else {
        let message = "A proof is checked without an engine: run `receipt verify` in a shell.";
        return Err(Fault::because(Code::BadInput, message));
    };
    let head = order.head.as_deref().map(parse_head).transpose()?;
    let reader = engine.core.reader();
    let found = blocking(move || {
        let request = find(&*reader, &wanted)?;
        let settlement = reader.settlement(request.seq).map_err(damage_fault)?;
        Ok::<_, Fault>((request, settlement))
    });
    let (request, settlement) = found.await??;
    if let Some(file) = order.proof {
        return proofs::prove(engine, request.id, file, head, dialogue).await;
    }
    let view = engine.core.view();
    let agent_key = engine.edition.wire.agent_member.text();
    let agent = view.state.agents.get(&request.agent);
    let name = agent.map(|agent| agent.name.as_str());
    let receipt = receipts::receipt(agent_key, name, &request, settlement.as_ref());
    if let Some(file) = order.html {
        dialogue.part(receipts::page(&receipt)).await?;
        return Ok(Answer::Exported(ExportAnswer { file, rows: 1 }).into());
    }
    // The same JSON that the agent server sends, parsed for the reply.
    let form = serde_json::from_str(&receipt.to_compact())
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    let refused = refused::explain(&view.state, &request);
    let origins_only = request.keeps_origins_only();
    let payee_name = payees::label(&view.state, &request).cloned();
    Ok(Answer::Receipt(ReceiptAnswer { form, payee_name, refused, origins_only }).into())
}

/// Finds the request of a transaction: a payment that was reported with it, or a trade or loan whose main transaction it
/// is.
fn by_transaction(reader: &dyn Reader, hash: B256) -> Result<Option<Request>, StoreError> {
    let (mut found, mut failed) = (None, None);
    reader.newest(&mut |request| {
        let main = request.execution().and_then(Execution::main_step).and_then(PlanStep::hash);
        match reader.settlement(request.seq) {
            Ok(settlement) => {
                let reported = settlement.and_then(|known| known.tx_hash);
                if [main, reported].contains(&Some(hash)) {
                    found = Some(request);
                }
            }
            Err(error) => failed = Some(error),
        }
        found.is_none() && failed.is_none()
    })?;
    failed.map_or(Ok(found), Err)
}

/// Finds a request by its full id, by a prefix of the id, or by the hash of its transaction.
fn find(reader: &dyn Reader, wanted: &str) -> Result<Request, Fault> {
    let unknown = |text: String| Fault::because(Code::NothingFound, text);
    if let Some(hash) = wanted.starts_with("0x").then(|| wanted.parse::<B256>().ok()).flatten() {
        let found = by_transaction(reader, hash).map_err(damage_fault)?;
        return found.ok_or_else(|| {
            unknown("No request has this transaction.".to_owned()).with_hint("history")
        });
    }
    if let Ok(id) = wanted.parse::<RequestId>() {
        let found = reader.request(id).map_err(damage_fault)?;
        return found
            .ok_or_else(|| unknown("No request has this id.".to_owned()).with_hint("history"));
    }
    let hex = wanted.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    if !hex || wanted.bytes().filter(|b| *b != b'-').count() < ID_DIGITS_MIN {
        let rule = "Give at least the first four hex digits of the request's id.";
        return Err(Fault::because(Code::BadInput, rule));
    }
    let mut fits = reader.by_prefix(wanted).map_err(damage_fault)?;
    if fits.len() > 1 {
        let ids: Vec<String> = fits.iter().map(|request| request.id.to_string()).collect();
        let message = format!("Several ids begin like this: {}. Give more digits.", ids.join(", "));
        return Err(Fault::because(Code::Ambiguous, message));
    }
    fits.pop().ok_or_else(|| {
        let wanted = text::snippet(wanted);
        unknown(format!("No request id begins with {wanted}.")).with_hint("history")
    })
}

fn damage_fault(error: StoreError) -> Fault {
    read_fault(&error)
}
