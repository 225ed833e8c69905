//! The plan of a dry run.

use bursar_control::answers::PlanAnswer;

use crate::oneshot::sheet::Sheet;

pub(super) fn plan(to: &mut Sheet, plan: &PlanAnswer) {
    for line in &plan.shows {
        to.line(line);
    }
    if !plan.shows.is_empty() {
        to.blank();
    }
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.extend(plan.changes.iter().map(|change| ("change", change.clone())));
    if plan.changes.is_empty() {
        rows.push(("change", "none: the command changes nothing".to_owned()));
    }
    match plan.loosens {
        Some(true) => rows.push(("loosens", "yes: it allows more than before".to_owned())),
        Some(false) => rows.push(("loosens", "no".to_owned())),
        None => {}
    }
    rows.extend(plan.asks.iter().map(|asked| ("asks", asked.clone())));
    to.rows(&rows);
    to.line("This was a dry run: nothing was changed.");
}
