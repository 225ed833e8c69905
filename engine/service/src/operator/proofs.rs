//! The command `receipt <id> --proof FILE`: anchors the journal if no anchor covers the receipt yet, lets the paying
//! address sign, and writes the proof.

use std::sync::Arc;

use bursar_control::answers::{Answer, ProofAnswer, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_domain::deadline::Deadline;
use bursar_domain::proofs::{Anchor, ProofAction, Statement};
use bursar_domain::settlement::SettlementStatus;
use bursar_domain::{Action, Status};
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
    "It authorizes nothing. A signature that a Ledger made for the payment is in it, and can no longer be redeemed.",
];

/// Writes the proof of a receipt to `file`.
///
/// # Errors
/// The receipt cannot be proven yet, the journal is damaged, no anchor has the given head, the operator declines, or the
/// address does not sign.
pub(super) async fn prove(
    engine: &Arc<EngineContext>,
    id: RequestId,
    file: String,
    head: Option<Hash>,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    require_trusted_journal(engine)?;
    let found = survey(engine, id).await?;
    require_final(engine, &found)?;
    agree(dialogue, DISCLOSES.map(str::to_owned).to_vec(), "Write the proof?").await?;
    dialogue.progress("reading the journal").await;
    let (found, anchor) = match (choose(&found, head), head) {
        (Some(anchor), _) => (found, anchor),
        (None, Some(_head)) => return Err(no_anchor(&found)),
        (None, None) => anchor_now(engine, id).await?,
    };
    let proof = bare_proof(engine, id, &found, &anchor).await?;
    // Nothing is signed that a reader would refuse.
    require_good(engine, &proof, &anchor)?;
    let statement = statement(engine, &found, &proof.statement);
    let mut warnings = Vec::new();
    let proof = match sign(engine, &statement, dialogue).await? {
        Some(signature) => ProofFile { statement, signature: Some(signature), ..proof },
        None => {
            let message = "The wallet no longer has the paying address, so the proof is not signed: it convinces only a \
                           reader who noted its head.";
            warnings.push(Warning { code: "NOT_SIGNED".to_owned(), message: message.to_owned() });
            proof
        }
    };
    require_good(engine, &proof, &anchor)?;
    dialogue.part(proof.to_text()).await?;
    let signer = proof.signature.as_ref().map(|_signed| proof.statement.signer.to_checksum(None));
    let answer = ProofAnswer {
        file,
        request: id.to_string(),
        head: hash_hex(&anchor.hash),
        through: anchor.anchor.through,
        entries: proof.statement.entries,
        signer,
    };
    Ok(Done { answer: Answer::Proof(answer), warnings, secret: None })
}

/// Checks a proof as its reader will, who noted the head.
fn require_good(
    engine: &EngineContext,
    proof: &ProofFile,
    anchor: &FoundAnchor,
) -> Result<(), Fault> {
    let text = proof.to_text();
    let rules = Arc::clone(&engine.edition.rules);
    let defect = match proofs::check(text.as_bytes(), Some(anchor.hash), rules) {
        Ok(checked) => checked.defects.into_iter().next(),
        Err(unreadable) => Some(unreadable.to_string()),
    };
    defect.map_or(Ok(()), |defect| {
        let message = format!("At this head the receipt cannot be proven: {defect}.");
        Err(Fault::because(Code::RequestNoLongerValid, message))
    })
}

/// Refuses a request that is open, that paid nothing, or whose payment can still be redeemed.
fn require_final(engine: &EngineContext, found: &Survey) -> Result<(), Fault> {
    let refused = |why: &str| Err(Fault::because(Code::RequestNoLongerValid, why.to_owned()));
    let Some(request) = &found.request else {
        return refused("The journal has no entry of this request.");
    };
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
            // A transaction that is not this payment leaves it redeemable, so only its own settlement counts.
            let status = found.settlement.as_ref().map(|known| known.status());
            let now = u64::try_from(engine.core.now().utc.seconds()).unwrap_or(0);
            let has_lapsed = request.lapses_at().is_none_or(|lapses| lapses <= now);
            if status == Some(SettlementStatus::Verified) || has_lapsed {
                return Ok(());
            }
            let until = request.lapses_at().and_then(|lapses| i64::try_from(lapses).ok());
            let until = until.map_or_else(String::new, |at| text::utc(Utc::from_seconds(at)));
            refused(&format!(
                "The payment can still be settled: its receipt can be proven after {until}, or once the chain shows it."
            ))
        }
    }
}

/// Reads what the journal has about a request.
async fn survey(engine: &EngineContext, id: RequestId) -> Result<Survey, Fault> {
    let rules = Arc::clone(&engine.edition.rules);
    read(engine, move |reader, published| proofs::survey(reader, published, rules, id)).await
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

/// Appends an anchor of everything that is published now. Returns what the journal has about the request then.
async fn anchor_now(engine: &EngineContext, id: RequestId) -> Result<(Survey, FoundAnchor), Fault> {
    let anchor: Anchor = read(engine, proofs::next_anchor).await?;
    act(engine, Action::Proof(ProofAction::Anchor(anchor))).await?;
    let found = survey(engine, id).await?;
    let own = found.anchors.iter().rev().find(|one| one.anchor == anchor).cloned();
    own.map(|own| (found, own)).ok_or_else(|| Fault::new(Code::InternalError))
}

/// Builds the proof without a signature, and without what only a signature vouches for.
async fn bare_proof(
    engine: &EngineContext,
    id: RequestId,
    found: &Survey,
    anchor: &FoundAnchor,
) -> Result<ProofFile, Fault> {
    let request = found.request.as_ref().ok_or_else(|| Fault::new(Code::InternalError))?;
    let place = anchor.anchor;
    let (leaf, path) =
        read(engine, move |reader, head| proofs::anchored(reader, head, &place, id)).await?;
    let entries = found.entries_through(place.through);
    let statement = Statement {
        request: id,
        head: anchor.hash,
        entries: entries.iter().map(|(seq, _bytes)| *seq).collect(),
        agent: request.agent.clone(),
        agent_member: engine.edition.wire.agent_member,
        agent_name: None,
        mandate: None,
        signer: request.from,
        until: None,
    };
    let entries = entries.into_iter().map(|(_seq, bytes)| bytes).collect();
    let anchor = anchor.bytes.clone();
    Ok(ProofFile { entries, anchor, leaf, path, statement, signature: None })
}

/// Returns the statement with the names of agent and mandate, and the time that a device has.
fn statement(engine: &EngineContext, found: &Survey, bare: &Statement) -> Statement {
    let state = &engine.core.view().state;
    let on_device = state.is_on_device(bare.signer);
    Statement {
        agent_name: state.agents.get(&bare.agent).map(|agent| agent.name.clone()),
        mandate: found.request.as_ref().and_then(|request| request.mandate),
        until: on_device.then(|| Deadline::after(&engine.core.now()).utc),
        ..bare.clone()
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
    let epoch = order.slip.epoch();
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
        Err(SignFault::Stale) if by_device && epoch == engine.vault.epoch() => {
            let message = "The statement was not signed in time: run the command again.";
            Err(Fault::because(Code::RequestExpired, message))
        }
        Err(SignFault::Stale) => Err(void()),
        Err(SignFault::Refused(why)) if by_device => Err(Fault::because(
            Code::LedgerRejected,
            format!("The statement was not signed: {why}."),
        )),
        Err(SignFault::Refused(why)) => Err(Fault::new(Code::InternalError).with_detail(why)),
    }
}
