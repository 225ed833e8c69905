//! The report of `doctor`.

use bursar_control::answers::{CheckAnswer, CheckResult};

use crate::oneshot::sheet::Sheet;

/// Prints one line for each check, with the advice below a check that needs it.
pub(super) fn checks(to: &mut Sheet, checks: &[CheckAnswer]) {
    let width = checks.iter().map(|check| check.check.chars().count()).max().unwrap_or(0);
    for check in checks {
        let CheckAnswer { check, result, finding, advice } = check;
        let mut lines = finding.lines();
        let first = lines.next().unwrap_or_default();
        to.line(&format!("{:<4}  {check:<width$}  {first}", result.text()));
        lines.for_each(|line| to.line(&format!("{:6}{:width$}  {line}", "", "")));
        if let Some(advice) = advice {
            to.line(&format!("{:6}{:width$}  -> {advice}", "", ""));
        }
    }
    let failed = checks.iter().filter(|check| check.result == CheckResult::Fail).count();
    let warned = checks.iter().filter(|check| check.result == CheckResult::Warn).count();
    to.blank();
    match failed {
        0 => to.line(&format!("Nothing failed, {warned} to check.")),
        _some => to.line(&format!("{failed} failed, {warned} to check. Run again: bursar doctor")),
    }
}
