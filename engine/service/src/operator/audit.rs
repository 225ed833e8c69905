//! `audit …`: the whole chain, entry by entry.

use std::sync::Arc;

use bursar_core::answers::{Answer, AuditAnswer, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::AuditOrder;

use super::{Done, prove_operator, wallet};
use crate::control::Dialogue;
use crate::engine::{Shared, blocking};
use crate::journal::{Hash, hash_hex, verify_chain};

pub(super) async fn run(
    engine: &Arc<Shared>,
    order: AuditOrder,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    match order {
        AuditOrder::Verify { head } => verify(engine, head.as_deref()).await,
        AuditOrder::Accept => {
            prove_operator(engine, dialogue).await?;
            wallet::accept(engine).await?;
            let mut done = verify(engine, None).await?;
            // What was accepted holds from now on: nobody should find that out later.
            done.warnings.extend(wallet::open_to_whom(engine).await);
            let loosened = engine.core.view().state.settings.loosened();
            done.warnings.extend(loosened.into_iter().map(|what| Warning {
                code: "LOOSENED".to_owned(),
                message: format!("By this journal {what}: see `config list`."),
            }));
            Ok(done)
        }
    }
}

async fn verify(engine: &Arc<Shared>, head: Option<&str>) -> Result<Done, Fault> {
    let wanted = head.map(read_hash).transpose()?;
    let reader = engine.core.reader();
    let head = blocking(move || verify_chain(&*reader, wanted))
        .await?
        .map_err(|error| Fault::because(Code::JournalDamaged, format!("{error}.")))?;
    let view = engine.core.view();
    if head.seq == view.head.seq && head.hash != view.head.hash {
        return Err(Fault::because(
            Code::JournalDamaged,
            format!("the journal is damaged at entry {}: it is not what was written.", head.seq),
        ));
    }
    if head.seq < view.head.seq {
        return Err(Fault::because(
            Code::JournalDamaged,
            "The journal lost entries while it was open.",
        ));
    }
    Ok(Answer::Audit(AuditAnswer {
        entries: head.seq,
        head: hash_hex(&head.hash),
        sealed: engine.vault.is_unlocked() && view.untrusted.is_none(),
        untrusted: view.untrusted.clone(),
    })
    .into())
}

fn read_hash(text: &str) -> Result<Hash, Fault> {
    let mut hash = Hash::default();
    hex::decode_to_slice(text, &mut hash).map_err(|_bad| {
        Fault::because(Code::BadInput, "A head is 64 hex digits, as `status` shows it.")
    })?;
    Ok(hash)
}
