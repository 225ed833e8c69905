//! Policies: one of them in full, or the limits of all.

use bursar_control::answers::{
    LendingPolicyAnswer, PolicyAnswer, RehearsalAnswer, TradingPolicyAnswer,
};
use bursar_core::card::Lane;

use crate::oneshot::sheet::{Sheet, count_text, quote_foreign, quote_shell_word};
use crate::wording;

pub(super) fn policy(to: &mut Sheet, policy: &PolicyAnswer) {
    let used = match policy.agents {
        0 => "used by no agent".to_owned(),
        agents => format!("used by {}", count_text(agents, "agent")),
    };
    let payments = &policy.payments;
    let all = if policy.all_enabled { "all enabled: " } else { "" };
    let mut rows = change_rows(policy);
    rows.extend([
        ("policy", format!("{}, version {}, {used}", policy.name, policy.version)),
        ("networks", format!("{all}{}", list(&policy.networks, "none"))),
    ]);
    let limits = format!(
        "{} USD a day, {} a payment, {}",
        payments.daily,
        payments.per_request,
        automatic_limit(&payments.auto_below)
    );
    let of_payments = [
        ("  limits", limits),
        ("  domains", list(&payments.allowed_domains, "all except the blocked")),
        ("  blocked", list(&payments.blocked_domains, "none")),
    ];
    add_lane(&mut rows, ("payments", payments.enabled), of_payments);
    let trading = &policy.trading;
    let of_trading = [
        ("  limits", trading_limits(trading)),
        ("  prices", trading_prices(trading)),
        ("  tokens", trading_tokens(trading)),
        ("  hooks", list(&trading.hooks, "none without approval")),
    ];
    add_lane(&mut rows, ("trading", trading.enabled), of_trading);
    let lending = &policy.lending;
    let of_lending = [("  limits", lending_limits(lending)), ("  venues", venues(lending))];
    add_lane(&mut rows, ("lending", lending.enabled), of_lending);
    to.rows(&rows);
    if policy.agents == 0 {
        let command =
            format!("bursar agent commission <agent> {} <label>", quote_shell_word(&policy.name));
        to.next("Give it to an agent with", &command);
    }
}

/// Adds a lane with its details. The details of a lane that is off have no effect.
fn add_lane(
    rows: &mut Vec<(&'static str, String)>,
    (name, enabled): (&'static str, bool),
    details: impl IntoIterator<Item = (&'static str, String)>,
) {
    rows.push((name, switch(enabled)));
    if enabled {
        rows.extend(details);
    }
}

/// Returns the changes; empty unless the policy was edited.
fn change_rows(policy: &PolicyAnswer) -> Vec<(&'static str, String)> {
    match &policy.changes {
        None => Vec::new(),
        Some(none) if none.is_empty() => {
            vec![("changed", "nothing, the values were the same".to_owned())]
        }
        Some(changes) => changes.iter().map(|change| ("changed", change.text())).collect(),
    }
}

fn trading_limits(trading: &TradingPolicyAnswer) -> String {
    format!(
        "{} USD a day, {} a trade, {}; {} ETH stay for gas",
        trading.daily,
        trading.per_trade,
        automatic_limit(&trading.auto_below),
        trading.min_eth
    )
}

fn trading_prices(trading: &TradingPolicyAnswer) -> String {
    format!("at most {} slippage and {} price impact", trading.max_slippage, trading.max_impact)
}

fn trading_tokens(trading: &TradingPolicyAnswer) -> String {
    if trading.tokens.is_empty() {
        return "ETH, WETH and known dollar tokens; others with approval".to_owned();
    }
    format!("ETH, WETH, known dollar tokens, {}", trading.tokens.join(", "))
}

fn lending_limits(lending: &LendingPolicyAnswer) -> String {
    let share = lending.max_share.as_ref();
    let share = share.map_or(String::new(), |share| format!(", {share} of the balance"));
    format!(
        "{} USD in all{share}, {} a deposit, {}",
        lending.max_total,
        lending.max_deposit,
        automatic_limit(&lending.auto_below)
    )
}

fn venues(lending: &LendingPolicyAnswer) -> String {
    let which = if lending.curated_only { "trusted ones only" } else { "any" };
    format!(
        "{which}, {} a day",
        count_text(usize::try_from(lending.operations_per_day).unwrap_or(usize::MAX), "operation")
    )
}

pub(super) fn policies(to: &mut Sheet, policies: &[PolicyAnswer]) {
    if policies.is_empty() {
        to.line("There is no policy yet.");
        return to.next("Next", "bursar policy create <name> --day 5 --txn 1");
    }
    let row = |policy: &PolicyAnswer| {
        [
            policy.name.clone(),
            policy.version.to_string(),
            policy.agents.to_string(),
            switch(policy.payments.enabled),
            policy.payments.daily.clone(),
            policy.payments.per_request.clone(),
            if is_zero(&policy.payments.auto_below) {
                "never".to_owned()
            } else {
                format!("below {}", policy.payments.auto_below)
            },
        ]
    };
    let head = ["POLICY", "VERSION", "AGENTS", "PAYMENTS", "DAY", "PAYMENT", "AUTOMATIC"];
    to.table(head, &policies.iter().map(row).collect::<Vec<_>>());
}

pub(super) fn rehearsal(to: &mut Sheet, rehearsal: &RehearsalAnswer) {
    let code = rehearsal.code.as_ref().map_or(String::new(), |code| format!(" ({code})"));
    let RehearsalAnswer { lane, usd: amount, network, verdict, .. } = rehearsal;
    let what = match lane {
        Lane::Payment => {
            let domain = rehearsal.domain.as_ref();
            let domain = domain.map_or("any domain".to_owned(), |domain| quote_foreign(domain));
            ("payment", format!("{amount} USD to {domain} on {network}"))
        }
        Lane::Trade => {
            let percent = |given: &Option<String>| given.clone().unwrap_or_default();
            let (slippage, impact) = (percent(&rehearsal.slippage), percent(&rehearsal.impact));
            let text =
                format!("{amount} USD on {network}, slippage {slippage}, price impact {impact}");
            ("trade", text)
        }
        Lane::Loan => ("supply", format!("{amount} USD to a curated venue on {network}")),
    };
    to.rows(&[
        what,
        ("policy", rehearsal.policy.clone()),
        ("verdict", format!("{}{code}", wording::verdict(*lane, *verdict))),
        ("why", rehearsal.reason.clone()),
    ]);
    to.next(
        "Change the policy with",
        &format!("bursar policy edit {}", quote_shell_word(&rehearsal.policy)),
    );
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Formats the automatic limit. A limit of zero disables automatic payments, because no amount is below zero.
fn automatic_limit(below: &str) -> String {
    if is_zero(below) { "always asks".to_owned() } else { format!("automatic below {below}") }
}

fn is_zero(amount: &str) -> bool {
    amount.bytes().all(|b| matches!(b, b'0' | b'.'))
}

fn list(entries: &[String], none: &str) -> String {
    if entries.is_empty() { none.to_owned() } else { entries.join(", ") }
}
