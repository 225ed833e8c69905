//! The journal: its acceptance, and the records of unlocks and passwords.
//!
//! A journal that does not match the wallet is not sealed, so unlocks and password changes are not recorded in it.

use bursar_core::codes::Code;

use super::{plans, prompts, wallets};
use crate::command::Command;
use crate::decision::{Decision, require_sealed, require_unlocked};
use crate::due::renewals;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::state::State;

pub(super) fn accept(state: &State, command: &Command) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    // Accepting a journal does not accept its running plans, nor the payments that wait for a device.
    let mut events = plans::stop_all(state, Code::JournalUntrusted);
    events.extend(prompts::reject_all(state, Code::JournalUntrusted));
    events.push(Event::JournalAccepted);
    let now = command.moment.utc;
    let ahead = state.restored.filter(|at| *at > now);
    events.extend(ahead.map(|_later| Event::RestoreDated { at: now }));
    Ok(Decision::done(events))
}

/// Records an unlock, with everything that became due while the wallet was locked.
pub(super) fn record_unlock(
    state: &State,
    command: &Command,
    noted: Option<u64>,
    attended: bool,
) -> Decision {
    if require_sealed(command).is_err() {
        return Decision::done(Vec::new());
    }
    let mut events = if attended {
        vec![Event::WalletOpened { noted_entry: noted }]
    } else {
        let opened = Event::WalletOpenedUnattended { noted_entry: noted };
        let day = state.unattended.day_to_begin(&command.moment);
        std::iter::once(opened).chain(day).collect()
    };
    events.extend(renewals(state, &command.moment));
    events.extend(plans::stop_idle(state, command));
    Decision::done(events)
}

pub(super) fn record_password_change(command: &Command) -> Decision {
    let sealed = require_sealed(command).is_ok();
    Decision::done(if sealed { vec![Event::PasswordChanged] } else { Vec::new() })
}

pub(super) fn record_wrong_password(state: &State) -> Decision {
    let times = state.passwords_refused.saturating_add(1);
    Decision::done(vec![Event::PasswordRefused { times }])
}

/// Names the edition of a journal that has no entry yet. A journal of the full edition is not named.
pub(super) fn name_edition(state: &State) -> Decision {
    let edition = state.edition.name;
    let names = state.seq == 0 && edition != state.journal_edition;
    Decision::done(if names { vec![Event::EditionNamed { edition }] } else { Vec::new() })
}

/// Records the start of an engine. Without a wallet there is nothing to record.
pub(super) fn record_start(state: &State) -> Decision {
    let events = if state.wallet.is_some() { vec![Event::EngineStarted] } else { Vec::new() };
    Decision::done(events)
}

pub(super) fn record_restore(state: &State, command: &Command) -> Decision {
    Decision::done(wallets::end_after_restore(state, &command.moment))
}
