//! Formats every answer as aligned text, with the next useful command if there is one.

mod activity;
mod agent;
mod balances;
pub(super) mod context;
mod doctor;
mod engine;
mod history;
mod lending;
mod mandate;
mod payee;
mod plan;
mod policy;
mod proof;
mod qr;
mod receipt;
mod request;
mod sends;
mod settings;
mod trading;
mod wallet;

use bursar_control::answers::Answer;

use self::context::Context;
use super::sheet::Sheet;

pub(super) fn sheet(answer: &Answer, context: Context<'_>) -> Sheet {
    let mut sheet = Sheet::new();
    let to = &mut sheet;
    match answer {
        Answer::Wallet(wallet) => wallet::wallet(to, wallet, context),
        Answer::Seed(seed) => wallet::seed(to, seed, context),
        Answer::Seeds { seeds } => wallet::seeds(to, seeds),
        Answer::Address(address) => wallet::address(to, address, context),
        Answer::Addresses { addresses } => wallet::addresses(to, addresses),
        Answer::LedgerAddresses(listed) => wallet::ledger_addresses(to, listed),
        Answer::Send(send) => sends::send(to, send),
        Answer::Sends { sends } => sends::sends(to, sends),
        Answer::Balances { addresses } => balances::balances(to, addresses),
        Answer::Policy(policy) => policy::policy(to, policy),
        Answer::Policies { policies } => policy::policies(to, policies),
        Answer::Rehearsal(rehearsal) => policy::rehearsal(to, rehearsal),
        Answer::Deleted { name } => to.line(&format!("Deleted {name}.")),
        Answer::Agent(agent) => agent::agent(to, agent),
        Answer::Agents { agents } => agent::agents(to, agents),
        Answer::Credentials(credentials) => agent::credentials(to, credentials, context),
        Answer::Server(server) => engine::server(to, server, context),
        Answer::Requests { requests } => request::requests(to, requests, context),
        Answer::Decided(decided) => request::decision_result(to, decided),
        Answer::Denials(denials) => request::denials(to, denials),
        Answer::Mandate(one) => mandate::mandate(to, one),
        Answer::Mandates { mandates } => mandate::mandates(to, mandates),
        Answer::Ap2(ap2) => mandate::ap2(to, ap2),
        Answer::MandateCheck(check) => mandate::check(to, check),
        Answer::Payee(payee) => payee::payee(to, payee),
        Answer::Payees { payees } => payee::payees(to, payees),
        Answer::History(history) => history::history(to, history),
        Answer::Activity(activity) => activity::activity(to, activity),
        Answer::Exported(exported) => history::export_result(to, exported),
        Answer::Backup(backup) => wallet::backup(to, backup),
        Answer::Restored(restored) => wallet::restore_result(to, restored),
        Answer::Receipt(receipt) => receipt::receipt(to, receipt),
        Answer::Proof(proof) => proof::written(to, proof),
        Answer::ProofCheck(check) => proof::check(to, check),
        Answer::Quote(quote) => trading::quote(to, quote),
        Answer::Allowances(answer) => trading::allowances(to, answer),
        Answer::Venues(answer) => lending::venues(to, answer),
        Answer::Positions(answer) => lending::positions(to, answer),
        Answer::VenueSet(answer) => lending::venue_set(to, answer),
        Answer::WrittenOff(answer) => lending::written_off(to, answer),
        Answer::Setting(setting) => settings::setting(to, setting, context),
        Answer::Settings { settings } => settings::settings(to, settings, context),
        Answer::Doctor { checks } => doctor::checks(to, checks),
        Answer::Networks { networks } => engine::networks(to, networks),
        Answer::Frozen { frozen } => engine::frozen(to, *frozen),
        Answer::Status(status) => engine::status(to, status, context),
        Answer::Audit(audit) => engine::audit(to, audit),
        Answer::Plan(plan) => plan::plan(to, plan),
        Answer::Names(names) => to.line(&format!("{} agents", names.agents.len())),
        Answer::Icons(icons) => to.line(&format!("{} icons", icons.icons.len())),
    }
    sheet
}
