//! Settings of the wallet, and the networks that it serves.

use bursar_core::codes::Code;
use bursar_core::networks::ChainId;
use bursar_core::settings::Setting;

use crate::command::Command;
use crate::decision::{Decision, require_unlocked};
use crate::event::Event;
use crate::refusal::Refusal;
use crate::state::State;

pub(super) fn set(
    state: &State,
    command: &Command,
    setting: &Setting,
) -> Result<Decision, Refusal> {
    if let Some(fault) = setting.accepted_values_if_invalid() {
        return Err(Refusal::because(
            Code::BadInput,
            format!("The value is not valid: this setting takes {fault}."),
        ));
    }
    if setting.loosens(&state.settings) {
        require_unlocked(command)?;
    }
    let mut after = (*state.settings).clone();
    setting.apply(&mut after);
    let same = after == *state.settings;
    let from = setting.current_value(&state.settings);
    let event = Event::SettingChanged { from, to: setting.clone() };
    Ok(Decision::done(if same { Vec::new() } else { vec![event] }))
}

pub(super) fn set_network(
    state: &State,
    command: &Command,
    chain: ChainId,
    enabled: bool,
) -> Result<Decision, Refusal> {
    if !state.edition.knows(chain) {
        return Err(Refusal::new(Code::UnknownNetwork));
    }
    if enabled {
        require_unlocked(command)?;
    }
    let same = state.is_network_enabled(chain) == enabled;
    let event = Event::NetworkSet { chain, enabled };
    Ok(Decision::done(if same { Vec::new() } else { vec![event] }))
}
