//! Mandates: those of the wallet's agents, and the check of any issuer's.

use bursar_control::answers::{
    Ap2Answer, MandateAnswer, MandateCheckAnswer, MandateStatus, RegistrationAnswer,
};

use crate::oneshot::sheet::{Sheet, quote_foreign};

pub(super) fn mandate(to: &mut Sheet, mandate: &MandateAnswer) {
    let MandateAnswer { currency, daily, per_request, auto_below, .. } = mandate;
    let limits =
        format!("{daily} {currency} a day, {per_request} a payment, {auto_below} without asking");
    to.rows(&[
        ("mandate", mandate.id.clone()),
        ("status", status_text(mandate)),
        ("agent", agent_text(mandate)),
        ("issued", mandate.issued.clone()),
        ("limits", limits),
        ("networks", mandate.networks.join(", ")),
        ("signed by", mandate.address.clone()),
        ("credential", format!("fingerprint {}", mandate.fingerprint)),
        ("hash", mandate.digest.clone()),
    ]);
    for registration in &mandate.registries {
        registered(to, registration);
    }
    if let Some(document) = &mandate.mandate {
        to.blank();
        to.line("For merchants:");
        to.line(&document.to_string());
    }
    let create = format!("bursar mandate create {}", mandate.agent_id);
    match mandate.status {
        MandateStatus::Stale => to.next("Sign one with the present terms", &create),
        MandateStatus::Unsigned => to.next("Sign it with", &create),
        MandateStatus::RetiredPublished => {
            to.next("Replace it there", &format!("bursar mandate retire {}", mandate.agent_id));
        }
        MandateStatus::InForce | MandateStatus::Retired => {}
    }
}

/// Shows what a registry publishes. Its URLs are quoted, because they are foreign.
fn registered(to: &mut Sheet, registration: &RegistrationAnswer) {
    let is_set = if registration.is_set { "" } else { " (not registry.url)" };
    for one in &registration.mandates {
        let id = if one.is_newest { "this mandate" } else { &one.mandate };
        let text = match (&one.confirmed, &one.registry_id) {
            (Some(at), Some(as_id)) => {
                let url = one
                    .url
                    .as_ref()
                    .map_or_else(String::new, |url| format!(", {}", quote_foreign(url)));
                format!("{id} since {at} as {as_id}{url}")
            }
            _unknown => format!("unknown whether it publishes {id}"),
        };
        to.rows(&[("registry", format!("{}{is_set}: {text}", registration.registry))]);
    }
}

/// Shows the document alone, so that it can be copied.
pub(super) fn ap2(to: &mut Sheet, ap2: &Ap2Answer) {
    to.line("Not signed. IntentMandate of AP2 v0.1:");
    to.line(&ap2.document.to_string());
}

pub(super) fn mandates(to: &mut Sheet, mandates: &[MandateAnswer]) {
    if mandates.is_empty() {
        to.line("No agent has a mandate.");
        return to.next("Sign one with", "bursar mandate create <agent>");
    }
    let row = |one: &MandateAnswer| {
        [
            one.agent_id.clone(),
            one.agent.clone().unwrap_or_else(|| "deleted".to_owned()),
            status_text(one),
            one.issued.clone(),
            format!("{} {}", one.daily, one.currency),
        ]
    };
    let rows: Vec<_> = mandates.iter().map(row).collect();
    to.table(["CODE", "AGENT", "STATUS", "ISSUED", "A DAY"], &rows);
}

fn status_text(mandate: &MandateAnswer) -> String {
    match mandate.stale_reasons.join("; ") {
        reasons if reasons.is_empty() => mandate.status.text().to_owned(),
        reasons => format!("{}: {reasons}", mandate.status.text()),
    }
}

fn agent_text(mandate: &MandateAnswer) -> String {
    let name = mandate.agent.as_deref().unwrap_or("deleted");
    format!("{name} ({}), policy {}", mandate.agent_id, mandate.policy)
}

/// Shows a mandate of any issuer. Its texts are quoted, because they are foreign.
pub(super) fn check(to: &mut Sheet, check: &MandateCheckAnswer) {
    let foreign = |text: &Option<String>| {
        text.as_ref().map_or_else(|| "-".to_owned(), |one| quote_foreign(one))
    };
    let limit = |text: &Option<String>| text.clone().unwrap_or_else(|| "not stated".to_owned());
    let own = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let networks: Vec<String> = check.networks.iter().map(|one| quote_foreign(one)).collect();
    let verdict = if check.good { "good" } else { "NOT GOOD" };
    let mut rows = vec![
        ("mandate", verdict.to_owned()),
        ("id", foreign(&check.id)),
        ("issued", foreign(&check.issued)),
        ("issuer", foreign(&check.issuer)),
        ("agent", foreign(&check.agent)),
        ("credential", format!("fingerprint {}", foreign(&check.fingerprint))),
        ("policy id", foreign(&check.policy_id)),
        ("currency", foreign(&check.currency)),
        ("a day", limit(&check.daily)),
        ("a payment", limit(&check.per_request)),
        ("automatic", limit(&check.auto_below)),
        ("networks", networks.join(", ")),
        ("pays from", own(&check.wallet)),
        ("signed by", own(&check.signer)),
    ];
    if check.registry_id.is_some() || check.registry_url.is_some() {
        let registry = [&check.registry_id, &check.registry_url].map(foreign).join(" ");
        rows.push(("registry", format!("{registry} (not signed)")));
    }
    to.rows(&rows);
    for defect in &check.defects {
        to.line(&format!("- {defect}"));
    }
    to.blank();
    to.line(&check.meaning);
}
