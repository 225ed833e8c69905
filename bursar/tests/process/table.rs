//! The results of every command in four states.
//!
//! The columns of a row are the command's name in the envelope, a line that succeeds (empty if none can here), a line
//! that fails with its code, the code with a locked wallet, and the code without an engine and a password. In the
//! last two columns an empty code means success.

use crate::commands::Row;

const fn row(
    name: &'static str,
    fine: &'static str,
    (bad, fault): (&'static str, &'static str),
    locked: &'static str,
    down: &'static str,
) -> Row {
    Row {
        name,
        succeeding_line: fine,
        failing_line: bad,
        failing_code: fault,
        code_if_locked: locked,
        code_without_engine: down,
    }
}

/// The rows are ordered so that no command removes an object that a later one needs.
///
/// Balances are read while every network is disabled, because no node answers. Words in braces are values that the
/// stage creates.
///
/// Fifteen commands cannot succeed here, for one of these reasons. The wallet already exists and the engine runs. Only
/// a jump of the clock would make a renewal due. Without a network, nothing is measured or sent, and nothing can be
/// cancelled. No Ledger is plugged in.
#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    row("wallet.create", "", ("wallet create again", "WALLET_EXISTS"), "WALLET_EXISTS", "WALLET_EXISTS"),
    row("wallet.status", "wallet status", ("wallet status x", "BAD_INPUT"), "", ""),
    row("wallet.passwd", "wallet passwd --password-stdin", ("wallet passwd --password-file {wrong}", "WRONG_PASSWORD"), "WALLET_LOCKED", ""),
    row("wallet.backup", "wallet backup {new}.backup", ("wallet backup {wrong}", "IN_USE"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("wallet.restore", "", ("wallet restore {wrong}", "ENGINE_RUNNING"), "ENGINE_RUNNING", "BAD_INPUT"),
    row("wallet.recover", "", ("wallet recover main", "WALLET_EXISTS"), "WALLET_EXISTS", "WALLET_EXISTS"),
    row("wallet.delete", "", ("wallet delete --confirm main", "IN_USE"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("seed.create", "seed create --reveal", ("seed create", "CONFIRMATION_NEEDED"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("seed.import", "seed import --seed-file {phrase}", ("seed import --seed-file {wrong}", "BAD_INPUT"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("seed.list", "seed list", ("seed list x", "BAD_INPUT"), "", ""),
    row("seed.words", "seed words S001 --reveal", ("seed words S009 --reveal", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("address.create", "address create more 7 --seed S001", ("address create pay 0 --seed S001", "NAME_TAKEN"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("address.list", "address list", ("address list x", "BAD_INPUT"), "", ""),
    row("address.show", "address show pay --qr", ("address show nothing", "NOTHING_FOUND"), "", ""),
    row("address.ledger.list", "", ("address ledger list --count 51", "BAD_INPUT"), "BAD_INPUT", "BAD_INPUT"),
    row("address.ledger.add", "", ("address ledger add 0,x", "BAD_INPUT"), "BAD_INPUT", "BAD_INPUT"),
    row("address.ledger.verify", "", ("address ledger verify nothing", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("address.rename", "address rename spare fresh", ("address rename nothing fresh", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("address.export", "address export pay --reveal", ("address export pay", "CONFIRMATION_NEEDED"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("address.delete", "address delete unused --yes", ("address delete pay --yes", "IN_USE"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("policy.test", "policy test p 1", ("policy test p much", "BAD_INPUT"), "", ""),
    row("network.disable", "network disable base", ("network disable nowhere", "NOTHING_FOUND"), "", ""),
    row("address.balance", "address balance pay", ("address balance nothing", "NOTHING_FOUND"), "", "ENGINE_DOWN"),
    row("address.send", "", ("address send nothing {payee} 1 --network base --confirm 1", "NOTHING_FOUND"), "WALLET_LOCKED", "ENGINE_DOWN"),
    row("address.sends", "address sends", ("address sends x", "BAD_INPUT"), "", ""),
    row("address.cancel", "", ("address cancel 00000000", "NOTHING_FOUND"), "NOTHING_FOUND", "ENGINE_DOWN"),
    row("balances", "balances", ("balances --network nowhere", "NOTHING_FOUND"), "", "ENGINE_DOWN"),
    row("quote", "", ("quote nothing 1 ETH USDC --network base", "NOTHING_FOUND"), "NOTHING_FOUND", "ENGINE_DOWN"),
    row("allowances", "allowances", ("allowances --network nowhere", "NOTHING_FOUND"), "", "ENGINE_DOWN"),
    row("venues", "venues", ("venues --network nowhere", "NOTHING_FOUND"), "", "ENGINE_DOWN"),
    row("venue.trust", "", ("venue trust 0x0000000000000000000000000000000000000001 --network nowhere", "NOTHING_FOUND"), "NOTHING_FOUND", "ENGINE_DOWN"),
    row("venue.untrust", "", ("venue untrust 0x0000000000000000000000000000000000000001 --network nowhere", "NOTHING_FOUND"), "NOTHING_FOUND", "NOTHING_FOUND"),
    row("position.withdraw", "", ("position withdraw 0x0000000000000000000000000000000000000001 all --network nowhere", "NOTHING_FOUND"), "NOTHING_FOUND", "ENGINE_DOWN"),
    row("position.write-off", "", ("position write-off 0x0000000000000000000000000000000000000001 --network nowhere", "NOTHING_FOUND"), "NOTHING_FOUND", "ENGINE_DOWN"),
    row("positions", "positions", ("positions --network nowhere", "NOTHING_FOUND"), "", "ENGINE_DOWN"),
    row("payee.name", "payee name {payee} Acme --network base", ("payee name 0x12 Acme", "BAD_INPUT"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("payee.list", "payee list", ("payee list x", "BAD_INPUT"), "", ""),
    row("payee.forget", "payee forget {payee} --network base", ("payee forget 0x12", "BAD_INPUT"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("network.enable", "network enable base", ("network enable nowhere", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("policy.create", "policy create q --day 1", ("policy create p", "NAME_TAKEN"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("policy.edit", "policy edit p --day 110 --yes", ("policy edit nothing --day 1", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("policy.list", "policy list", ("policy list x", "BAD_INPUT"), "", ""),
    row("policy.show", "policy show p", ("policy show nothing", "NOTHING_FOUND"), "", ""),
    row("policy.delete", "policy delete unused --yes", ("policy delete p --yes", "IN_USE"), "", ""),
    row("agent.register", "agent register new", ("agent register bot", "NAME_TAKEN"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("agent.commission", "agent commission idle p pay", ("agent commission idle nothing pay", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("agent.list", "agent list", ("agent list x", "BAD_INPUT"), "", ""),
    row("agent.show", "agent show bot", ("agent show nothing", "NOTHING_FOUND"), "", ""),
    row("agent.instructions", "agent instructions idle", ("agent instructions nothing", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("agent.edit", "agent edit bot --policy p", ("agent edit bot", "BAD_INPUT"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("mandate.create", "mandate create bot", ("mandate create nothing", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("mandate.list", "mandate list", ("mandate list x", "BAD_INPUT"), "", ""),
    row("mandate.show", "mandate show bot", ("mandate show nothing", "NOTHING_FOUND"), "NOTHING_FOUND", "NOTHING_FOUND"),
    row("mandate.upload", "", ("mandate upload nothing", "NOTHING_FOUND"), "NOTHING_FOUND", "NOTHING_FOUND"),
    row("mandate.retire", "mandate retire bot", ("mandate retire nothing", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("mandate.verify", "mandate verify {mandate}", ("mandate verify {wrong}", "BAD_INPUT"), "", ""),
    row("agent.suspend", "agent suspend bot", ("agent suspend nothing", "NOTHING_FOUND"), "", ""),
    row("agent.resume", "agent resume bot", ("agent resume nothing", "NOTHING_FOUND"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("agent.renew", "", ("agent renew bot", "BAD_INPUT"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("agent.delete", "agent delete old --confirm old", ("agent delete nothing --confirm nothing", "NOTHING_FOUND"), "", ""),
    row("server.stop", "server stop", ("server stop x", "BAD_INPUT"), "", "ENGINE_DOWN"),
    row("server.start", "server start", ("server start x", "BAD_INPUT"), "", ""),
    row("server.status", "server status", ("server status x", "BAD_INPUT"), "", ""),
    row("requests", "requests --all", ("requests x", "BAD_INPUT"), "", ""),
    row("approve", "approve {first} --yes", ("approve 00000000 --yes", "REQUEST_NOT_FOUND"), "WALLET_LOCKED", "ENGINE_DOWN"),
    row("deny", "deny {second} too dear", ("deny 00000000", "REQUEST_NOT_FOUND"), "", "ENGINE_DOWN"),
    row("history", "history", ("history --since yesterday", "BAD_INPUT"), "", ""),
    row("history.export", "history export {new}", ("history export {wrong}", "IN_USE"), "", ""),
    row("activity", "activity", ("activity --limit many", "BAD_INPUT"), "", ""),
    row("receipt", "receipt {first}", ("receipt 00000000", "NOTHING_FOUND"), "", ""),
    row("receipt.verify", "", ("receipt verify {wrong}", "BAD_INPUT"), "BAD_INPUT", "BAD_INPUT"),
    row("config.get", "config get server.listen", ("config get nothing", "BAD_INPUT"), "", ""),
    row("config.explain", "config explain lock.idle", ("config explain nothing", "BAD_INPUT"), "", ""),
    row("config.set", "config set server.autostart true", ("config set server.autostart perhaps", "BAD_INPUT"), "", ""),
    row("config.list", "config list", ("config list x", "BAD_INPUT"), "", ""),
    row("network.list", "network list", ("network list x", "BAD_INPUT"), "", ""),
    row("network.rpc", "network rpc base http://127.0.0.1:9", ("network rpc base nonsense", "BAD_INPUT"), "", ""),
    row("freeze", "freeze", ("freeze x", "BAD_INPUT"), "", ""),
    row("thaw", "thaw", ("thaw --password-file {wrong}", "WRONG_PASSWORD"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("names", "names", ("names x", "BAD_INPUT"), "", "ENGINE_DOWN"),
    row("icons", "", ("icons", "BAD_INPUT"), "BAD_INPUT", "ENGINE_DOWN"),
    row("status", "status", ("status x", "BAD_INPUT"), "", ""),
    row("doctor", "doctor", ("doctor x", "BAD_INPUT"), "", ""),
    row("audit.verify", "audit verify", ("audit verify --head 00", "BAD_INPUT"), "", ""),
    row("audit.accept", "audit accept", ("audit accept --password-file {wrong}", "WRONG_PASSWORD"), "WALLET_LOCKED", "CONFIRMATION_NEEDED"),
    row("wallet.lock", "wallet lock", ("wallet lock x", "BAD_INPUT"), "", ""),
    row("wallet.open", "wallet open", ("wallet open --password-file {wrong}", "WRONG_PASSWORD"), "", "CONFIRMATION_NEEDED"),
];
