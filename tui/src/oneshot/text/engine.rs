//! The engine itself: status, server, networks, freeze, journal.

use bursar_control::answers::{
    AuditAnswer, DeviceAnswer, ExecutingAnswer, NetworkAnswer, ServerAnswer, StatusAnswer,
    UnattendedAnswer,
};

use super::context::Context;
use super::request::short;
use crate::oneshot::sheet::{Sheet, count_text};

pub(super) fn server(to: &mut Sheet, server: &ServerAnswer, context: Context<'_>) {
    to.rows(&[
        ("server", serving_text(server)),
        ("wallet", if server.locked { "locked" } else { "unlocked" }.to_owned()),
    ]);
    if server.running && server.locked {
        to.next("Agents are refused until you run", "bursar wallet open");
    } else if !server.running && context.command != "server.stop" {
        to.next(
            "Start it with",
            if context.engine_running { "bursar server start" } else { "bursar engine" },
        );
    }
}

fn serving_text(server: &ServerAnswer) -> String {
    match &server.url {
        Some(url) if server.running && server.open_to_network => {
            format!("running at {url}, and open to the network")
        }
        Some(url) if server.running => format!("running at {url}"),
        _no_address if server.running => "running".to_owned(),
        _no_address => "stopped".to_owned(),
    }
}

pub(super) fn networks(to: &mut Sheet, networks: &[NetworkAnswer]) {
    let row = |network: &NetworkAnswer| {
        [
            network.name.clone(),
            network.caip2.clone(),
            network.stablecoin.clone(),
            if network.enabled { "on" } else { "off" }.to_owned(),
        ]
    };
    let head = ["NETWORK", "CAIP-2", "PRICED IN", "STATE"];
    to.table(head, &networks.iter().map(row).collect::<Vec<_>>());
}

pub(super) fn frozen(to: &mut Sheet, frozen: bool) {
    if frozen {
        to.line("Frozen: every agent is refused and no agent's payment is signed, even after a restart.");
        to.next("Let them work again with", "bursar thaw");
    } else {
        to.line("Agents may work again.");
    }
}

/// Returns the rows about networks that do not answer, trades that run, and the Ledger.
fn running_rows(status: &StatusAnswer) -> impl Iterator<Item = (&'static str, String)> {
    let silent = status.silent.iter().map(|silent| ("network", silent.text()));
    let trades = status.executing.iter().map(|trade| ("trade", executing_text(trade)));
    let device = status.device.iter().map(|device| ("ledger", device_text(device)));
    silent.chain(trades).chain(device)
}

pub(super) fn status(to: &mut Sheet, status: &StatusAnswer, context: Context<'_>) {
    let wallet = &status.wallet;
    let about_wallet = if wallet.exists {
        format!(
            "{}, {}, {}, {}",
            wallet.name.as_deref().unwrap_or("-"),
            super::wallet::state(wallet),
            count_text(wallet.seeds, "seed"),
            // `count_text` appends only an s.
            if wallet.addresses == 1 {
                "1 address".to_owned()
            } else {
                format!("{} addresses", wallet.addresses)
            }
        )
    } else {
        "none yet".to_owned()
    };
    let mut rows = vec![
        ("engine", if context.engine_running { "running" } else { "not running" }.to_owned()),
        ("wallet", about_wallet),
        ("server", serving_text(&status.server)),
        (
            "agents",
            if status.frozen {
                format!("{}, frozen", status.agents)
            } else {
                status.agents.to_string()
            },
        ),
        ("requests", format!("{} waiting", status.requests)),
    ];
    rows.extend(running_rows(status));
    if let Some(at) = &status.ledger_emulator {
        rows.push(("emulator", format!("{at}: NOT a Ledger, its keys are in software")));
    }
    if let Some(with) = &status.start_unlock {
        rows.push(("at start", format!("the wallet opens without you ({with})")));
    }
    if let Some(spent) = &status.unattended {
        rows.push(("unattended", unattended_text(spent)));
    }
    rows.extend([
        ("journal", count_text(usize::try_from(status.journal).unwrap_or(usize::MAX), "record")),
        ("head", status.head.clone()),
        ("data", status.data.clone()),
        ("version", status.version.clone()),
    ]);
    to.rows(&rows);
    if let Some(why) = &status.untrusted {
        untrusted_journal(to, why);
    }
    if let Some(first) = &status.refused_before {
        refused_before(to, first);
    }
    if let Some(why) = &status.failed {
        to.blank();
        to.line(&format!("PAYMENTS ARE STOPPED: the journal could not be written: {why}"));
        to.line("Agents are refused until this is fixed: free or repair the data folder's disk.");
        return to
            .line("Then stop the engine, start it with `bursar engine`, and run `bursar doctor`.");
    }
    if status.disk_full {
        to.blank();
        to.line("PAYMENTS ARE REFUSED: the disk of the data folder has less than 64 MiB free.");
        to.line("Free some space. Commands such as freeze and deny still work.");
    }
    if !status.wallet.exists {
        let (what, command) = super::wallet::first(&status.wallet);
        to.next(&what, &command);
    } else if let Some((what, command)) = next(status, context) {
        to.next(what, command);
    }
}

fn device_text(device: &DeviceAnswer) -> String {
    format!("{} in its queue. {}", count_text(device.waiting, "request"), device.state)
}

fn unattended_text(today: &UnattendedAnswer) -> String {
    match &today.limit {
        Some(limit) => format!("agents spent {} of {limit} USD today", today.spent),
        None => {
            format!("agents spent {} USD today, without a limit (unattended.daily)", today.spent)
        }
    }
}

fn executing_text(trade: &ExecutingAnswer) -> String {
    let ExecutingAnswer { id, agent_id, summary, step } = trade;
    format!("{}  {summary}  agent {agent_id}  executing, {step}", short(id))
}

/// Returns the most urgent next step for the operator, with its command.
fn next(status: &StatusAnswer, context: Context<'_>) -> Option<(&'static str, &'static str)> {
    if !context.engine_running {
        Some(("Agents need a running engine. Start it with", "bursar engine"))
    } else if status.wallet.locked {
        Some(("Open the wallet with", "bursar wallet open"))
    } else if status.frozen {
        Some(("Let agents work again with", "bursar thaw"))
    } else if status.requests > 0 {
        Some(("See waiting requests with", "bursar requests"))
    } else if !status.server.running {
        Some(("Start the server with", "bursar server start"))
    } else {
        None
    }
}

fn refused_before(to: &mut Sheet, first: &str) {
    to.blank();
    to.line(&format!(
        "Requests that agents signed before {first} are refused: a clock once showed a later date."
    ));
    to.line("If the clock is wrong, set it. If it is right, accept requests again with: bursar audit accept");
}

fn untrusted_journal(to: &mut Sheet, why: &str) {
    to.blank();
    to.line(&format!("The journal is not trusted, so every payment needs your approval: {why}"));
    to.line("Check it with: bursar audit verify   If you trust it, run: bursar audit accept");
}

pub(super) fn audit(to: &mut Sheet, audit: &AuditAnswer) {
    to.rows(&[
        ("records", format!("{}, the hash chain is intact", audit.entries)),
        ("head", audit.head.clone()),
        (
            "seal",
            match (audit.sealed, &audit.untrusted) {
                (true, _) => "matches the wallet",
                (false, Some(_)) => "does not match the wallet",
                (false, None) => "not checked: open the wallet first",
            }
            .to_owned(),
        ),
    ]);
    match &audit.untrusted {
        Some(why) => untrusted_journal(to, why),
        None => to.next(
            "Write the head down, and later compare with",
            "bursar audit verify --head <head>",
        ),
    }
}
