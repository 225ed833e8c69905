//! The command `doctor`: checks what a wallet needs, and changes nothing. Each check consists of a probe and a pure
//! function that judges the probe's result.

mod devices;
mod folder;
mod gas;
mod icons;
mod lending;
mod machine;
mod mandates;
mod networks;
mod records;

use std::path::Path;
use std::sync::Arc;

use bursar_control::answers::{Answer, CheckAnswer, CheckResult};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::NETWORKS;

use super::dialogue::Dialogue;
use super::support::{Done, describe};
use crate::blocking::blocking;
use crate::config::Config;
use crate::context::{EngineContext, Mode};

/// Runs all checks in an engine: either the running engine, or the engine of the command's own process.
pub(super) async fn run(
    engine: &Arc<EngineContext>,
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    let (shared, alone) = (Arc::clone(engine), engine.mode == Mode::Maintenance);
    let mut checks = blocking(move || {
        let mut checks = folder::check(shared.folder.path(), &*shared.ports.disk, true);
        checks.push(folder::check_lock(alone));
        checks.push(CheckAnswer::ok("settings", "settings.toml and the environment are valid"));
        checks.extend(records::check(&shared));
        checks.extend(machine::check(&shared.core.now()));
        checks
    })
    .await?;
    checks.extend(devices::check(&engine.ports).await);
    dialogue.progress("asking the networks").await;
    let state = engine.core.view().state.clone();
    let enabled = NETWORKS.iter().filter(|row| state.is_network_enabled(row.chain));
    let config = engine.settings.get();
    checks.extend(mandates::check(&state));
    checks.push(icons::check(config.icons, &engine.funds.icons().known()));
    let probes = enabled.map(|row| networks::check(row, engine, &config));
    checks.extend(futures::future::join_all(probes).await.into_iter().flatten());
    let server = describe::server(engine).await;
    let daily = state.settings.unattended_daily;
    // If the command is its own engine, it does not know how the service starts.
    if !alone {
        checks.push(machine::check_unlock(engine.start_unlock.as_deref(), daily));
    }
    checks.push(machine::check_server(server.url.as_deref(), alone, &state.settings));
    Ok(Answer::Doctor { checks }.into())
}

/// Runs the checks that need no engine.
///
/// `fault` is the error if an engine could not start or be reached.
///
/// Creates no folder and no file.
pub fn without_engine(path: &Path, fault: Option<&Fault>) -> Answer {
    let mut checks = folder::check(path, &crate::ports::SystemDisk, false);
    let environment = |name: &str| std::env::var(name).ok();
    let settings = Config::load(&path.join("settings.toml"), &environment, None);
    checks.push(match &settings {
        Ok(_read) => CheckAnswer::ok("settings", "settings.toml and the environment are valid"),
        Err(wrong) => {
            CheckAnswer::fail("settings", wrong.message.clone(), "correct the named setting")
        }
    });
    checks.extend(records::check_without_engine(path));
    checks.extend(machine::check_without_engine());
    if let Some(fault) = fault.filter(|fault| !checks.iter().any(|c| c.finding == fault.message)) {
        // The engine found a problem that no check found. The problem replaces the check of the same name, unless
        // that check failed too.
        let about = match fault.code {
            Code::JournalDamaged => "journal",
            Code::DataFolder => "data folder",
            _other => "engine",
        };
        checks.retain(|check| check.check != about || check.result == CheckResult::Fail);
        let failed = CheckAnswer::fail(about, fault.message.clone(), "");
        let advice = fault.hint.as_ref().map(|command| format!("bursar {command}"));
        checks.push(CheckAnswer { advice, ..failed });
    }
    Answer::Doctor { checks }
}
