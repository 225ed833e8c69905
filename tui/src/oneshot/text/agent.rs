//! Agents and their credentials.

use bursar_control::answers::{AgentAnswer, CredentialsAnswer, SecretField};
use bursar_core::auth::AuthMode;
use bursar_core::limits::PADDING_BYTES_PER_DAY_MAX;
use bursar_core::status::AgentStatus;
use bursar_core::text::approximate_duration;

use super::context::Context;
use crate::oneshot::sheet::{Sheet, count_text, quote_shell_word};

pub(super) fn agent(to: &mut Sheet, agent: &AgentAnswer) {
    let pays_from = match (&agent.label, &agent.address) {
        (Some(label), Some(address)) => format!("{label}  {address}"),
        (Some(label), None) => label.clone(),
        (None, _) => "-".to_owned(),
    };
    let limit = agent.daily_limit.as_ref().map_or(String::new(), |limit| format!(" of {limit}"));
    let mut rows = vec![
        ("agent", format!("{} ({}), {}", agent.name, agent.agent_id, agent.auth_mode.text())),
        ("status", agent.status.text().to_owned()),
        ("policy", agent.policy.clone().unwrap_or_else(|| "-".to_owned())),
        ("pays from", pays_from),
        (
            "today",
            format!(
                "spent {}{limit} USD, {} waiting for your decision",
                agent.spent_today, agent.reserved
            ),
        ),
    ];
    if let Some(mandate) = agent.mandate {
        rows.push(("mandate", mandate.text().to_owned()));
    }
    if let Some(limit) = &agent.trade_limit {
        let AgentAnswer { traded_today, trades_reserved, .. } = agent;
        let text = format!("{traded_today} of {limit} USD today, {trades_reserved} in open trades");
        rows.push(("traded", text));
    }
    let requests = match agent.requests_limit {
        Some(most) => format!(" of {most}"),
        None => ", no limit".to_owned(),
    };
    rows.extend([
        ("renews", renewal_text(agent)),
        (
            "work",
            format!(
                "{} requests today{requests}{}; {} open",
                agent.requests_today,
                padding_text(agent.padding_today),
                count_text(usize::try_from(agent.open).unwrap_or(usize::MAX), "payment"),
            ),
        ),
    ]);
    to.rows(&rows);
    print_problems(to, std::slice::from_ref(agent));
    match agent.status {
        AgentStatus::Uncommissioned => {
            let command = format!("bursar agent commission {} <policy> <label>", agent.agent_id);
            to.next("Put it to work with", &command);
        }
        AgentStatus::Suspended => {
            to.next(
                "Let it work again with",
                &format!("bursar agent resume {}", quote_shell_word(&agent.name)),
            );
        }
        AgentStatus::Active | AgentStatus::LimitReached => {}
    }
}

/// Formats the padding of payment headers; empty below half of the limit.
fn padding_text(bytes: u64) -> String {
    if bytes < PADDING_BYTES_PER_DAY_MAX / 2 {
        return String::new();
    }
    format!(", {} KiB of padding of {}", bytes / 1_024, PADDING_BYTES_PER_DAY_MAX / 1_024)
}

fn renewal_text(agent: &AgentAnswer) -> String {
    match &agent.renews_at {
        Some(at) => {
            let left = agent.renews_in_seconds.map(approximate_duration);
            let left = left.map_or(String::new(), |left| format!(", in {left}"));
            format!("{at}{left} (midnight of this machine's time zone)")
        }
        None => agent.renews_at_unknown_reason.clone().unwrap_or_else(|| "-".to_owned()),
    }
}

pub(super) fn agents(to: &mut Sheet, agents: &[AgentAnswer]) {
    if agents.is_empty() {
        to.line("There is no agent yet.");
        return to.next("Next", "bursar agent register <name>");
    }
    let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let row = |agent: &AgentAnswer| {
        [
            agent.agent_id.clone(),
            agent.name.clone(),
            agent.status.text().to_owned(),
            agent.auth_mode.text().to_owned(),
            or_dash(&agent.policy),
            or_dash(&agent.label),
            agent.spent_today.clone(),
            agent.reserved.clone(),
            or_dash(&agent.daily_limit),
        ]
    };
    let head = ["CODE", "AGENT", "STATUS", "AUTH", "POLICY", "FROM", "SPENT", "RESERVED", "LIMIT"];
    to.table(head, &agents.iter().map(row).collect::<Vec<_>>());
    print_problems(to, agents);
}

/// Prints the problems of agents that their status does not show.
fn print_problems(to: &mut Sheet, agents: &[AgentAnswer]) {
    for agent in agents {
        if let Some(problem) = &agent.problem {
            to.next(&agent.name, problem);
        }
        if agent.renewal_held {
            to.next(
                &format!(
                    "{}: the clock is not confirmed, so today's allowance is held back. Grant it with",
                    agent.name
                ),
                &format!("bursar agent renew {}", quote_shell_word(&agent.name)),
            );
        }
    }
}

/// Prints the variables for an agent's environment. A shell can evaluate all lines, because the lines for people are
/// comments.
pub(super) fn credentials(to: &mut Sheet, credentials: &CredentialsAnswer, context: Context<'_>) {
    let (name, id) = (&credentials.name, &credentials.agent_id);
    to.line(&format!("# {name} ({id}): for this agent's environment only. Keep it secret."));
    to.line(&format!("export WALLET_AGENT_ID={}", quote_shell_word(id)));
    let returned_secret =
        context.returned_secret.filter(|secret| secret.field == SecretField::Token);
    match returned_secret.and_then(|secret| secret.text.as_deref()) {
        Some(token) => {
            to.line(match credentials.auth_mode {
                AuthMode::Bearer => {
                    "# The token is shown this once: the wallet keeps only its hash."
                }
                AuthMode::Hmac => {
                    "# The wallet keeps the token, encrypted: `bursar agent instructions` shows it again."
                }
            });
            token_line(to, token);
        }
        None => {
            to.line("# WALLET_AGENT_TOKEN: only its hash is stored. To replace it with a new token, run");
            to.line(&format!(
                "#   bursar agent instructions {} --regenerate",
                quote_shell_word(name)
            ));
        }
    }
    to.line(&format!("export WALLET_AUTH_MODE={}", credentials.auth_mode.text()));
    wallet_url(to, credentials, context);
    if context.command == "agent.register" {
        let command = format!("bursar agent commission {id} <policy> <label>");
        to.next("# Put it to work with", &command);
    }
}

/// Prints the variable with the wallet's URL. If the URL is unknown, prints a line that unsets the variable, because
/// with an outdated URL the agent could send its token to another program.
fn wallet_url(to: &mut Sheet, credentials: &CredentialsAnswer, context: Context<'_>) {
    let Some(url) = &credentials.url else {
        let why = credentials.url_unknown_reason.as_deref().unwrap_or("not known");
        to.line(&format!("# WALLET_URL: {why}"));
        return to.line("unset WALLET_URL");
    };
    to.line(&format!("export WALLET_URL={}", quote_shell_word(url)));
    if !credentials.serving {
        let start = if context.engine_running { "bursar server start" } else { "bursar engine" };
        to.line(&format!("# The server is not running. Start it with: {start}"));
    }
}

/// Prints the token. A token needs no quotes, so `try_quote` borrows it and leaves no copy in memory.
fn token_line(to: &mut Sheet, token: &str) {
    match shlex::try_quote(token) {
        Ok(quoted) => to.secret("export WALLET_AGENT_TOKEN=", &quoted),
        Err(_nul) => to.line("# WALLET_AGENT_TOKEN: the engine sent an invalid token."),
    }
}
