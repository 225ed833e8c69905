//! Checks that wallet file and journal exist, are readable and match.

use std::path::Path;
use std::sync::Arc;

use bursar_control::answers::CheckAnswer;
use bursar_core::text;
use bursar_core::time::Moment;

use crate::context::EngineContext;
use crate::core::View;
use crate::journal::check_closed_journal;
use crate::ports::NoFailpoints;
use crate::vault::file::WalletFiles;
use crate::vault::kdf::KdfBounds;

pub(super) fn check(engine: &EngineContext) -> Vec<CheckAnswer> {
    let view = engine.core.view();
    let files = files(engine.folder.path(), engine.edition.kdf_bounds);
    let wallet = match &view.state.wallet {
        Some(known) => {
            judge_wallet(Some(known.name.as_str()), files.check(&known.name).map_err(error_text))
        }
        None => match engine.vault.file_names().first() {
            Some(name) => unknown_file(name.as_str()),
            None => judge_wallet(None, Ok(())),
        },
    };
    let mut checks = vec![wallet, judge_journal(&view)];
    checks.extend(refused_before(&view, &engine.core.now()));
    checks
}

/// Runs the checks without an engine. Opens the journal for reading only.
pub(super) fn check_without_engine(path: &Path) -> Vec<CheckAnswer> {
    let journal = path.join("journal.redb");
    let wallet = match files(path, KdfBounds::PRODUCTION).names() {
        Ok(names) => match names.first() {
            Some(name) => {
                let file = files(path, KdfBounds::PRODUCTION).check(name).map_err(error_text);
                judge_wallet(Some(name.as_str()), file)
            }
            None => judge_wallet(None, Ok(())),
        },
        Err(error) => judge_wallet(Some("wallet folder"), Err(error_text(error))),
    };
    let missing = !journal.exists();
    let chain =
        if missing { Ok(()) } else { check_closed_journal(&journal).map(drop).map_err(error_text) };
    let has_wallet = wallet.advice.is_none();
    vec![wallet, judge_journal_file(missing, has_wallet, chain)]
}

fn files(path: &Path, bounds: KdfBounds) -> WalletFiles {
    WalletFiles::new(path, bounds, Arc::new(NoFailpoints))
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn judge_wallet(name: Option<&str>, file: Result<(), String>) -> CheckAnswer {
    match (name, file) {
        (None, _) => {
            let advice = "create one: bursar wallet create <name>";
            CheckAnswer::warn("wallet", "none yet", advice)
        }
        (Some(name), Ok(())) => CheckAnswer::ok("wallet", format!("the file of {name} is intact")),
        (Some(name), Err(why)) => CheckAnswer::fail(
            "wallet",
            format!("{name}: {why}"),
            "restore a backup: bursar wallet restore <file>, or try the previous save: bursar wallet open",
        ),
    }
}

/// Returns the failed check for a wallet file without a wallet in the journal.
fn unknown_file(name: &str) -> CheckAnswer {
    let finding = format!("the journal has no wallet, but there is a wallet file {name}");
    CheckAnswer::fail("wallet", finding, format!("adopt it: bursar wallet recover {name}"))
}

fn judge_journal(view: &View) -> CheckAnswer {
    if let Some(why) = &view.failure {
        let advice = "put the folder back or free the disk, then restart the engine";
        return CheckAnswer::fail("journal", format!("it cannot be written: {why}"), advice);
    }
    match &view.untrusted_reason {
        Some(why) => CheckAnswer::fail(
            "journal",
            format!("it does not match the wallet: {why}"),
            "see what is wrong: bursar audit verify, then accept it: bursar audit accept",
        ),
        None => CheckAnswer::ok("journal", format!("{} entries, opened", view.head.seq)),
    }
}

/// Returns a failed check if signed requests are refused because a clock was ahead earlier.
fn refused_before(view: &View, moment: &Moment) -> Option<CheckAnswer> {
    let first = text::utc(view.refused_before(moment)?);
    let finding =
        format!("requests signed before {first} are refused: a clock once showed a later time");
    let advice = "set the clock if it is wrong; else: bursar audit accept";
    Some(CheckAnswer::fail("signed requests", finding, advice))
}

fn judge_journal_file(missing: bool, has_wallet: bool, chain: Result<(), String>) -> CheckAnswer {
    match (missing, has_wallet, chain) {
        (true, true, _) => CheckAnswer::fail(
            "journal",
            "it is missing, although there is a wallet file",
            "restore a backup: bursar wallet restore <file>; without one: bursar wallet recover <name>",
        ),
        (true, false, _) => CheckAnswer::ok("journal", "none yet"),
        (false, _, Ok(())) => CheckAnswer::ok("journal", "no damage found"),
        (false, _, Err(why)) => {
            CheckAnswer::fail("journal", why, "restore a backup: bursar wallet restore <file>")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Head;
    use bursar_control::answers::CheckResult::{Fail, Ok as Fine, Warn};
    use bursar_domain::State;

    fn view(untrusted: bool, failed: bool) -> View {
        let reason = |is: bool| is.then(|| "why".to_owned());
        View {
            state: State::default(),
            burst_lapses_at: None,
            authorized: 0,
            head: Head::default(),
            untrusted_reason: reason(untrusted),
            is_verified: !untrusted,
            failure: reason(failed),
            forgotten_before_day: 0,
        }
    }

    #[test]
    fn what_is_broken_or_missing_fails() {
        assert_eq!(judge_wallet(None, Ok(())).result, Warn);
        assert_eq!(judge_wallet(Some("main"), Ok(())).result, Fine);
        assert_eq!(judge_wallet(Some("main"), Err("damaged".into())).result, Fail);
        assert_eq!(judge_journal(&view(false, false)).result, Fine);
        assert_eq!(judge_journal(&view(true, false)).result, Fail);
        assert_eq!(judge_journal(&view(false, true)).result, Fail);
        assert_eq!(judge_journal_file(true, true, Ok(())).result, Fail);
        assert_eq!(judge_journal_file(true, false, Ok(())).result, Fine);
        assert_eq!(judge_journal_file(false, true, Ok(())).result, Fine);
        assert_eq!(judge_journal_file(false, true, Err("broken".into())).result, Fail);
    }
}
