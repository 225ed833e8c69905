//! The command `receipt <id> --proof FILE`: anchors the journal if no anchor covers the receipt yet, lets the paying
//! address sign, and writes the proof.

use std::sync::Arc;

use bursar_control::answers::{Answer, ProofAnswer, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text;
use bursar_domain::deadline::Deadline;
use bursar_domain::proofs::{Anchor, ProofAction, Statement};
use bursar_domain::settlement::{Settlement, SettlementStatus};
use bursar_domain::{Action, Request, Status};
use bursar_x402::signature::Signature65;

use super::dialogue::Dialogue;
use super::support::confirm::agree;
use super::support::{Done, act, require_trusted_journal};
use crate::blocking::blocking;
use crate::context::{EngineContext, Mode};
use crate::journal::{Hash, Head, JournalError, Reader, hash_hex};
use crate::ports::SignFault;
use crate::proofs::{self, FoundAnchor, ProofFile, Survey};

/// What every proof discloses.
const DISCLOSES: [&str; 4] = [
    "A proof shows its reader everything that the journal has about this request: payee, amounts, URLs, times,",
    "the label of the paying address, the agent's code and name, who approved it, and where it was refused for a limit, the limit.",
    "It also shows how many requests and entries the journal has. Other requests are only in hashes.",
    "It contains no signature of a payment, and authorizes nothing.",
];

/// Writes the proof of a receipt to `file`.
///
/// # Errors
/// The receipt cannot be proven yet, the journal is damaged, no anchor has the given head, the operator declines, or the
/// address does not sign.
pub(super) async fn prove(
    engine: &Arc<EngineContext>,
    (request, settlement): (Request, Option<Settlement>),
    file: String,
    head: Option<Hash>,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    require_final(engine, &request, settlement.as_ref())?;
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    require_trusted_journal(engine)?;
    agree(dialogue, DISCLOSES.map(str::to_owned).to_vec(), "Write the proof?").await?;
    dialogue.progress("reading the journal").await;
    let id = request.id;
    let found =
        read(engine, move |reader, published| proofs::survey(reader, published, id)).await?;
    let anchor = match (choose(&found, head), head) {
        (Some(anchor), _) => anchor,
        (None, Some(_head)) => return Err(no_anchor(&found)),
        (None, None) => anchor_now(engine, id).await?,
    };
    let entries = found.entries_through(anchor.anchor.through);
    let place = anchor.anchor;
    let (leaf, path) =
        read(engine, move |reader, head| proofs::anchored(reader, head, &place, id)).await?;
    let mut statement = statement(engine, &request, &anchor, &entries);
    let signature = sign(engine, &statement, dialogue).await?;
    let mut warnings = Vec::new();
    if signature.is_none() {
        // Only a signature would vouch for these.
        (statement.agent_name, statement.mandate) = (None, None);
        warnings.push(Warning {
            code: "NOT_SIGNED".to_owned(),
            message: "The wallet no longer has the paying address, so the proof is not signed: it convinces only a reader who noted its head."
                .to_owned(),
        });
    }
    let signer = signature.is_some().then(|| statement.signer.to_checksum(None));
    let numbers = statement.entries.clone();
    let proof = ProofFile {
        entries: entries.into_iter().map(|(_seq, bytes)| bytes).collect(),
        anchor: anchor.bytes,
        leaf,
        path,
        statement,
        signature,
    };
    let written = proof.to_text();
    let checked =
        proofs::check(written.as_bytes(), Some(anchor.hash), Arc::clone(&engine.edition.rules));
    if let Some(defect) = checked.ok().and_then(|checked| checked.defects.into_iter().next()) {
        let fault = Fault::because(Code::InternalError, "The proof that was made is not good.");
        return Err(fault.with_detail(defect));
    }
    dialogue.part(written).await?;
    let answer = ProofAnswer {
        file,
        request: id.to_string(),
        head: hash_hex(&anchor.hash),
        through: anchor.anchor.through,
        entries: numbers,
        signer,
    };
    Ok(Done { answer: Answer::Proof(answer), warnings, secret: None })
}

/// Refuses a request that is open, that paid nothing, or whose payment can still be redeemed.
fn require_final(
    engine: &EngineContext,
    request: &Request,
    settlement: Option<&Settlement>,
) -> Result<(), Fault> {
    let refused = |why: &str| Err(Fault::because(Code::RequestNoLongerValid, why.to_owned()));
    match &request.status {
        Status::Ended(_) => Ok(()),
        Status::Held { .. } | Status::AwaitingDevice(_) | Status::Executing(_) => {
            refused("The request is still open: its receipt can be proven when it has ended.")
        }
        Status::Refused { .. }
        | Status::Denied { .. }
        | Status::Expired { .. }
        | Status::NotSigned { .. } => refused("Nothing was paid, so there is nothing to prove."),
        Status::Authorized { .. } => {
            let status = settlement.map(Settlement::status);
            let is_known = status.is_some_and(|one| {
                [SettlementStatus::Verified, SettlementStatus::Refuted].contains(&one)
            });
            let now = u64::try_from(engine.core.now().utc.seconds()).unwrap_or(0);
            if is_known || request.lapses_at().is_none_or(|lapses| lapses <= now) {
                return Ok(());
            }
            let until = request.lapses_at().and_then(|lapses| i64::try_from(lapses).ok());
            let until = until
                .map_or_else(String::new, |at| text::utc(bursar_core::time::Utc::from_seconds(at)));
            refused(&format!(
                "The payment can still be settled: its receipt can be proven after {until}, or once the chain shows it."
            ))
        }
    }
}

/// Runs one pass over the journal on a blocking thread.
async fn read<T: Send + 'static>(
    engine: &EngineContext,
    pass: impl FnOnce(&dyn Reader, Head) -> Result<T, JournalError> + Send + 'static,
) -> Result<T, Fault> {
    let (reader, published) = (engine.core.reader(), engine.core.view().head);
    let passed = blocking(move || pass(&*reader, published)).await?;
    passed.map_err(|error| Fault::because(Code::JournalDamaged, format!("{error}.")))
}

/// Returns the newest anchor that covers all entries of the receipt, or the one with the given head.
fn choose(found: &Survey, head: Option<Hash>) -> Option<FoundAnchor> {
    let last = found.entries.last().map_or(u64::MAX, |(seq, _bytes)| *seq);
    let first = found.entries.first().map_or(u64::MAX, |(seq, _bytes)| *seq);
    let mut newest_first = found.anchors.iter().rev();
    let chosen = newest_first.find(|one| match head {
        Some(head) => one.hash == head && one.anchor.through >= first,
        None => one.anchor.through >= last,
    });
    chosen.cloned()
}

fn no_anchor(found: &Survey) -> Fault {
    let newest = found
        .anchors
        .last()
        .map_or_else(String::new, |newest| format!(" The newest is {}.", hash_hex(&newest.hash)));
    let message = format!(
        "No proof of this journal that covers the request has this head: only heads that proofs show can be given.{newest}"
    );
    Fault::because(Code::NothingFound, message)
}

/// Appends an anchor of everything that is published now.
async fn anchor_now(
    engine: &EngineContext,
    request: bursar_core::ids::RequestId,
) -> Result<FoundAnchor, Fault> {
    let anchor: Anchor = read(engine, proofs::next_anchor).await?;
    act(engine, Action::Proof(ProofAction::Anchor(anchor))).await?;
    let found = read(engine, move |reader, head| proofs::survey(reader, head, request)).await?;
    let own = found.anchors.into_iter().rev().find(|one| one.anchor == anchor);
    own.ok_or_else(|| Fault::new(Code::InternalError))
}

fn statement(
    engine: &EngineContext,
    request: &Request,
    anchor: &FoundAnchor,
    entries: &[(u64, Vec<u8>)],
) -> Statement {
    let state = &engine.core.view().state;
    let on_device = state.is_on_device(request.from);
    Statement {
        request: request.id,
        head: anchor.hash,
        entries: entries.iter().map(|(seq, _bytes)| *seq).collect(),
        agent: request.agent.clone(),
        agent_member: engine.edition.wire.agent_member,
        agent_name: state.agents.get(&request.agent).map(|agent| agent.name.clone()),
        mandate: request.mandate,
        signer: request.from,
        until: on_device.then(|| Deadline::after(&engine.core.now()).utc),
    }
}

/// Lets the paying address sign a statement; `None` if the wallet no longer has the address.
async fn sign(
    engine: &Arc<EngineContext>,
    statement: &Statement,
    dialogue: &dyn Dialogue,
) -> Result<Option<Signature65>, Fault> {
    let by_device = statement.until.is_some();
    // A command that is its own engine has no queue of devices, so the signer would never answer.
    if by_device && engine.mode == Mode::Maintenance {
        return Err(Fault::new(Code::EngineDown));
    }
    let action = ProofAction::State(Box::new(statement.clone()));
    let stated = match act(engine, Action::Proof(action)).await {
        Err(fault) if fault.code == Code::NothingFound => return Ok(None),
        other => other?,
    };
    let void = || {
        let message = "The right to sign was void: the wallet was locked, or agents were stopped. Run the command again.";
        Fault::because(Code::Busy, message)
    };
    let order = stated.orders.into_iter().next().ok_or_else(void)?;
    if by_device {
        let text = format!(
            "waiting for the Ledger, which shows this statement: hash {}",
            statement.digest()
        );
        dialogue.progress(&text).await;
    }
    match engine.execution.signer.sign(order.slip, order.terms).await {
        Ok(signature) => Ok(Some(signature)),
        Err(SignFault::NoKey) => Ok(None),
        Err(SignFault::Stale) => Err(void()),
        Err(SignFault::Refused(why)) if by_device => Err(Fault::because(
            Code::LedgerRejected,
            format!("The statement was not signed: {why}."),
        )),
        Err(SignFault::Refused(why)) => Err(Fault::new(Code::InternalError).with_detail(why)),
    }
}
