//! The names and ids that completion offers: no amounts, no secrets, and nothing read from a chain.

use bursar_control::answers::{Answer, NamesAnswer};
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::networks::NETWORKS;

use super::requests::pending;
use super::support::Done;
use crate::context::EngineContext;
use crate::journal::read_fault;

/// How many of the latest requests are offered.
const REQUESTS_MAX: usize = 50;

pub(super) fn list(engine: &EngineContext) -> Result<Done, Fault> {
    let view = engine.core.view();
    let state = &view.state;
    let short = |id: RequestId| id.short();
    let latest = engine.core.reader().latest(REQUESTS_MAX).map_err(|error| read_fault(&error))?;
    let wallet = state.wallet.as_ref();
    let addresses = wallet.iter().flat_map(|wallet| wallet.addresses.values());
    let seeds = wallet.iter().flat_map(|wallet| wallet.seeds.keys());
    let scan = engine.lending.scan();
    let vaults = NETWORKS.iter().flat_map(|row| scan.known_vaults(row.chain));
    let names = NamesAnswer {
        waiting: pending(state, &engine.core.now()).iter().map(|one| short(one.id)).collect(),
        requests: latest.iter().map(|request| short(request.id)).collect(),
        sends: state.outboxes.sends.keys().copied().map(short).collect(),
        agents: state.agents.values().map(|agent| agent.name.to_string()).collect(),
        policies: state.policies.values().map(|record| record.name.to_string()).collect(),
        addresses: addresses.map(|address| address.label.to_string()).collect(),
        venues: vaults.map(|(vault, _kind)| vault.to_checksum(None)).collect(),
        seeds: seeds.map(ToString::to_string).collect(),
        payees: state.payee_names.keys().map(|payee| payee.address.to_checksum(None)).collect(),
    };
    Ok(Answer::Names(names).into())
}
