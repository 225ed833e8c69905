//! The command `audit …`: verifies or accepts the whole chain of journal entries.

use std::sync::Arc;

use bursar_control::answers::{Answer, AuditAnswer, Warning};
use bursar_control::grammar::AuditOrder;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_domain::State;
use bursar_domain::payees::TallyReplay;

use super::dialogue::Dialogue;
use super::dry_run::announce_rule;
use super::support::Done;
use super::support::password::prove_operator;
use super::wallet::open::apply_exposure;
use super::wallet::seal::accept;
use crate::blocking::blocking;
use crate::context::EngineContext;
use crate::journal::{
    JournalError, Reader, hash_hex, parse_head, rows_equal, visit_after, walk_chain,
};

/// From this many entries on, the memory of an audit is returned to the system.
const LARGE_AUDIT_ENTRIES: u64 = 100_000;
/// Maximum number of comparisons of the payee rows while new payments arrive.
const COMPARISONS_MAX: usize = 100;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: AuditOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    match order {
        AuditOrder::Verify { head } => verify(engine, head.as_deref()).await,
        AuditOrder::Accept => {
            prove_operator(engine, dialogue).await?;
            announce_rule(true, || {
                "accepts the journal as it is: payments are automatic again".to_owned()
            })?;
            accept(engine).await?;
            let mut done = verify(engine, None).await?;
            // The settings of the accepted journal are in force now, so show the operator those that loosen a
            // protection.
            done.warnings.extend(apply_exposure(engine).await);
            let loosened = engine.core.view().state.settings.describe_weakened();
            done.warnings.extend(loosened.into_iter().map(|what| Warning {
                code: "LOOSENED".to_owned(),
                message: format!("With this journal, {what}: see `config list`."),
            }));
            Ok(done)
        }
    }
}

async fn verify(engine: &Arc<EngineContext>, head: Option<&str>) -> Result<Done, Fault> {
    let wanted = head.map(parse_head).transpose()?;
    // Take the head before reading the chain: the chain must contain it, and may have grown since.
    let view = engine.core.view();
    let (reader, shared, published) = (engine.core.reader(), Arc::clone(engine), view.head);
    let read = move || {
        let mut count = TallyReplay::from(State::new(Arc::clone(&shared.edition.rules)));
        let (mut met, mut passed) = (wanted.is_none(), published.seq == 0);
        let head = walk_chain(&*reader, |entry, hash| {
            met = met || wanted == Some(hash);
            passed = passed || (entry.seq == published.seq && hash == published.hash);
            count.next(entry);
            true
        })?;
        if !passed {
            let reason = "it differs from the entry that was committed".to_owned();
            return Err(JournalError::Damaged { seq: published.seq.min(head.seq), reason });
        }
        if !met {
            return Err(JournalError::HeadUnmet);
        }
        let known = payee_rows_match(count, &*reader, head.seq)?;
        if head.seq >= LARGE_AUDIT_ENTRIES {
            bursar_heap::release_free_pages();
        }
        Ok::<_, JournalError>((head, known))
    };
    let (head, payees_known) = blocking(read)
        .await?
        .map_err(|error| Fault::because(Code::JournalDamaged, format!("{error}.")))?;
    let answer = Answer::Audit(AuditAnswer {
        entries: head.seq,
        head: hash_hex(&head.hash),
        sealed: engine.vault.is_unlocked() && view.untrusted_reason.is_none(),
        untrusted: view.untrusted_reason.clone(),
    });
    let mut done = Done::from(answer);
    if !payees_known {
        done.warnings.push(Warning {
            code: "PAYEES_WRONG".to_owned(),
            message: "The index of earlier payments does not match the journal: `audit accept` rebuilds it."
                .to_owned(),
        });
    }
    Ok(done)
}

/// Whether the payee rows match the count up to entry `last`.
///
/// New payments can change the rows meanwhile. If the rows differ, counts the newer entries and compares again. If
/// there are no newer entries, the rows are wrong.
fn payee_rows_match(
    mut count: TallyReplay,
    reader: &dyn Reader,
    mut last: u64,
) -> Result<bool, JournalError> {
    for _comparison in 0..COMPARISONS_MAX {
        if rows_equal(reader, &count.tally)? {
            return Ok(true);
        }
        let newest = visit_after(reader, last, |entry| {
            count.next(&entry);
            Ok(())
        })?;
        if newest == last {
            return Ok(false);
        }
        last = newest;
    }
    Ok(false)
}
