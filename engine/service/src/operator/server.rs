//! The commands `server …`, `network …`, `freeze`, `thaw` and `status`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_chain::ports::Chain;
use bursar_control::answers::{Answer, ServerAnswer, SilentNetworkAnswer, StatusAnswer, Warning};
use bursar_control::grammar::{NetworkOrder, ServerOrder, StatusOrder};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::{NETWORKS, Network};
use bursar_core::settings::keys::Key;
use bursar_core::text;
use bursar_domain::Action;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::config;
use super::dialogue::Dialogue;
use super::dry_run::{self, announce_rule, is_dry_run};
use super::support::lookup;
use super::support::password::prove_operator;
use super::support::{Done, act, describe, require_trusted_journal};
use super::wallet::open::reissue;
use super::{device_status, requests};
use crate::context::EngineContext;
use crate::journal::hash_hex;

pub(super) async fn server(engine: &Arc<EngineContext>, order: ServerOrder) -> Result<Done, Fault> {
    match order {
        ServerOrder::Start { allow_lan } => start(engine, allow_lan).await?,
        ServerOrder::Stop => {
            announce_rule(false, || "stops the agent server".to_owned())?;
            engine.lan_until_stopped.store(false, Ordering::SeqCst);
            engine.stop_server().await;
        }
        ServerOrder::Status => {}
    }
    let answer = describe::server(engine).await;
    let warnings = lan_warnings(engine, &answer).await;
    Ok(Done { answer: Answer::Server(answer), warnings, secret: None })
}

/// Returns warnings for a server that is open to the network: other machines can read plain HTTP.
async fn lan_warnings(engine: &Arc<EngineContext>, answer: &ServerAnswer) -> Vec<Warning> {
    if !answer.open_to_network {
        return Vec::new();
    }
    let warning = |code: &str, message: String| Warning { code: code.to_owned(), message };
    let mut warnings = vec![warning(
        "OPEN_TO_NETWORK",
        "Every machine on the network can call the agent server and read its traffic: use hmac agents."
            .to_owned(),
    )];
    if let Some(server) = engine.server.lock().await.as_ref() {
        warnings.extend(server.api.lan_bearers().iter().map(|agent| {
            let message = format!(
                "The bearer token of agent {agent} came over the network, where others can read it: issue \
                 another with `agent instructions {agent} --regenerate`, or `config set server.lan_bearer refuse`."
            );
            warning("LAN_BEARER", message)
        }));
    }
    warnings
}

/// Starts the agent server. Restarts a running one if its exposure changes, because bound sockets cannot change.
async fn start(engine: &Arc<EngineContext>, allow_lan: bool) -> Result<(), Fault> {
    if allow_lan {
        require_trusted_journal(engine)?;
        if !engine.vault.is_unlocked() {
            return Err(Fault::new(Code::WalletLocked));
        }
    }
    let runs = engine.server.lock().await.is_some();
    let is_same = runs && engine.lan_until_stopped.load(Ordering::SeqCst) == allow_lan;
    if is_same && is_dry_run() {
        return dry_run::stop(Vec::new(), None);
    }
    announce_rule(true, || {
        let open = if allow_lan { ", open to the network" } else { "" };
        format!("starts the agent server{open}")
    })?;
    let before = engine.lan_until_stopped.swap(allow_lan, Ordering::SeqCst);
    let started = match engine.follow_exposure().await {
        Ok(()) => engine.start_server().await.map(|_address| ()),
        Err(fault) => Err(fault),
    };
    if started.is_err() {
        engine.lan_until_stopped.store(before, Ordering::SeqCst);
    }
    started
}

pub(super) async fn network(
    engine: &Arc<EngineContext>,
    order: NetworkOrder,
) -> Result<Done, Fault> {
    let (name, enabled) = match order {
        NetworkOrder::List => return Ok(networks(engine)),
        NetworkOrder::Enable { network } => (network, true),
        NetworkOrder::Disable { network } => (network, false),
        NetworkOrder::Rpc { network, urls } => {
            let chain = lookup::network(&engine.edition.rules, &network)?.chain;
            return config::set(engine, Key::NetworkRpc(chain), &urls).await;
        }
    };
    let chain = lookup::network(&engine.edition.rules, &name)?.chain;
    act(engine, Action::SetNetwork { chain, enabled }).await?;
    Ok(networks(engine))
}

fn networks(engine: &EngineContext) -> Done {
    let view = engine.core.view();
    let rows = engine.edition.rules.rows().map(|row| describe::network(&view.state, row));
    Answer::Networks { networks: rows.collect() }.into()
}

pub(super) async fn freeze(engine: &Arc<EngineContext>) -> Result<Done, Fault> {
    act(engine, Action::Freeze).await?;
    Ok(Answer::Frozen { frozen: true }.into())
}

pub(super) async fn thaw(
    engine: &Arc<EngineContext>,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    prove_operator(engine, dialogue).await?;
    act(engine, Action::Thaw).await?;
    reissue(engine).await;
    Ok(Answer::Frozen { frozen: false }.into())
}

pub(super) async fn status(engine: &Arc<EngineContext>, order: StatusOrder) -> Result<Done, Fault> {
    let reachable = if order.asks_networks() { Some(reachable(engine).await) } else { None };
    let view = engine.core.view();
    Ok(Answer::Status(StatusAnswer {
        wallet: describe::wallet(engine),
        server: describe::server(engine).await,
        agents: view.state.agents.len(),
        requests: requests::pending(&view.state, &engine.core.now()).len(),
        executing: describe::executing_answers(&view.state, &device_status::labels(engine, &view)),
        device: device_status::answer(engine),
        ledger_emulator: device_status::emulator(engine),
        consoles: Arc::strong_count(&engine.consoles).saturating_sub(1),
        frozen: view.state.frozen.is_some(),
        journal: view.head.seq,
        head: hash_hex(&view.head.hash),
        untrusted: view.untrusted_reason.clone(),
        refused_before: view.refused_before(&engine.core.now()).map(text::utc),
        failed: view.failure.clone(),
        disk_full: engine.disk_room.is_short(),
        reachable,
        silent: silent(engine),
        start_unlock: engine.start_unlock.clone(),
        unattended: describe::unattended_answer(engine),
        data: engine.folder.path().display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
    .into())
}

/// Returns the enabled networks of which no endpoint answers.
fn silent(engine: &EngineContext) -> Vec<SilentNetworkAnswer> {
    let now = engine.core.now();
    let describe = |(row, _chain, since_ms): (&Network, Arc<dyn Chain>, u64)| {
        let ago_ms = i64::try_from(now.mono_ms.saturating_sub(since_ms)).unwrap_or(i64::MAX);
        let since = text::utc(now.utc.plus_ms(ago_ms.saturating_neg()));
        SilentNetworkAnswer { network: row.title.to_owned(), since }
    };
    engine.silent_chains().into_iter().map(describe).collect()
}

/// Returns the first enabled network of which an endpoint answers with the right chain id; empty if none does.
async fn reachable(engine: &EngineContext) -> Vec<String> {
    let state = engine.core.view().state.clone();
    let enabled = NETWORKS.iter().filter(|row| state.is_network_enabled(row.chain));
    let mut asked: FuturesUnordered<_> = enabled
        .map(|row| async move {
            let chain = engine.ports.chains.get(&row.chain)?;
            let answered = chain.chain_id().await.is_ok_and(|chain| chain == row.chain);
            answered.then(|| row.title.to_owned())
        })
        .collect();
    while let Some(answered) = asked.next().await {
        if let Some(network) = answered {
            return vec![network];
        }
    }
    Vec::new()
}
