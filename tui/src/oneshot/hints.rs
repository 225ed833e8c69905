//! The command that most likely helps after a refusal, for the envelope's `hint`.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

const HINTS: &[(Code, &str)] = &[
    (Code::EngineDown, "bursar engine"),
    (Code::VersionMismatch, "bursar engine"),
    (Code::WalletLocked, "bursar wallet open"),
    (Code::NoWallet, "bursar wallet create <name>"),
    (Code::AgentNotFound, "bursar agent list"),
    (Code::AgentSuspended, "bursar agent resume <agent>"),
    (Code::AgentNotCommissioned, "bursar agent commission <agent> <policy> <label>"),
    (Code::AgentsFrozen, "bursar thaw"),
    (Code::NetworkDisabled, "bursar network enable <network>"),
    (Code::RequestNotFound, "bursar requests"),
    (Code::AlreadyDecided, "bursar requests --all"),
    (Code::CardChanged, "bursar requests"),
    (Code::JournalUntrusted, "bursar audit verify"),
];

pub(super) fn of(fault: &Fault) -> Option<&'static str> {
    let code = fault.code;
    // A lost wallet is not replaced by a new one: the message states how to restore it.
    if code == Code::NoWallet && fault.message.contains("`bursar wallet restore") {
        return None;
    }
    HINTS.iter().find(|(known, _)| *known == code).map(|(_, hint)| *hint)
}
