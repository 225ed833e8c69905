//! The settings in force, and their change while the engine runs. A change is validated as a whole, then written to
//! the file, then applied. If the write fails, the settings in force stay the same. The file also stays the same,
//! unless only the last sync of its folder failed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::settings::keys::Key;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::edit::{Value, with_setting};
use super::effective::{Config, Environment};
use super::load::{SettingsError, text_of, unusable_file};
use crate::service::data_dir::DataFolder;

/// The settings in force.
#[derive(Debug)]
pub(crate) struct LiveConfig {
    file: PathBuf,
    /// The argument `--listen`, which overrides the file and the environment.
    listen: Option<String>,
    /// Whether the environment sets nothing.
    sealed: bool,
    current: watch::Sender<Arc<Config>>,
    /// Serializes changes, because each one reads the file that the previous one wrote.
    changes: Mutex<()>,
}

/// A validated change that is not written yet.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    live: &'a LiveConfig,
    text: String,
    pub(crate) before: Arc<Config>,
    pub(crate) after: Config,
    _one_at_a_time: MutexGuard<'a, ()>,
}

impl LiveConfig {
    /// Loads the settings. Those of a sealed program come from the file alone.
    pub(crate) fn open(
        folder: &DataFolder,
        listen: Option<String>,
        sealed: bool,
    ) -> Result<Self, Fault> {
        let file = folder.file("settings.toml");
        if sealed {
            refuse_variables(&variable)?;
        }
        let config = Config::load(&file, environment(sealed), listen.as_deref())?;
        let current = watch::Sender::new(Arc::new(config));
        Ok(Self { file, listen, sealed, current, changes: Mutex::new(()) })
    }

    pub(crate) fn get(&self) -> Arc<Config> {
        Arc::clone(&self.current.borrow())
    }

    /// Validates a change of one key. Without a value, the change removes the key from the file; its environment
    /// variable and `--listen` still apply.
    pub(crate) async fn change(
        &self,
        key: Key,
        value: Option<&Value>,
    ) -> Result<Change<'_>, Fault> {
        let one_at_a_time = self.changes.lock().await;
        // Read the file again: the operator may have edited it since the engine read it.
        let old = text_of(&self.file)?;
        let text = with_setting(&old, key, value).map_err(|why| unusable_file(&self.file, &why))?;
        let read =
            |text: &str| Config::read(text, environment(self.sealed), self.listen.as_deref());
        let after = read(&text).map_err(|wrong| match (wrong, read(&old)) {
            // The file was invalid before this change.
            (_, Err(SettingsError::File(why))) => unusable_file(&self.file, &why),
            (SettingsError::File(why) | SettingsError::Override(why), _) => {
                Fault::because(Code::BadInput, format!("{}.", why.trim_end_matches('.')))
            }
        })?;
        Ok(Change { live: self, text, before: self.get(), after, _one_at_a_time: one_at_a_time })
    }
}

impl Change<'_> {
    /// Writes the file, then applies the settings.
    pub(crate) fn make(self) -> Result<(), Fault> {
        replace(&self.live.file, &self.text).map_err(|error| {
            let file = self.live.file.display();
            Fault::because(
                Code::of_disk(&error),
                format!("{file} cannot be written: {error}. Check its folder and the free space."),
            )
        })?;
        self.live.current.send_replace(Arc::new(self.after));
        Ok(())
    }
}

/// Reads a variable of the environment.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn environment(sealed: bool) -> Environment<'static> {
    if sealed { &|_name| None } else { &variable }
}

/// Refuses variables that are settings, for a program that nothing outside can drive.
fn refuse_variables(environment: Environment<'_>) -> Result<(), Fault> {
    match Key::all().into_iter().map(|key| key.variable()).find(|name| environment(name).is_some())
    {
        None => Ok(()),
        Some(name) => Err(Fault::because(
            Code::BadInput,
            format!(
                "{name} is set, but this program takes settings from its window and its data folder only: unset it."
            ),
        )),
    }
}

/// Replaces the file atomically. The new file is closed to other accounts from the start.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // If the path is a link of the operator, replace the file that it points to and keep the link.
    let file = fs::canonicalize(file).unwrap_or_else(|_missing| file.to_owned());
    let folder = file.parent().unwrap_or(Path::new("/"));
    let fresh = folder.join(format!(".settings.toml.{}", std::process::id()));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = fs::OpenOptions::new();
    let mut open = options.write(true).create_new(true).mode(0o600).open(&fresh)?;
    let put = open
        .write_all(text.as_bytes())
        .and_then(|()| open.sync_all())
        .and_then(|()| fs::rename(&fresh, &file))
        .and_then(|()| fs::File::open(folder)?.sync_all());
    if put.is_err() {
        let _gone_already = fs::remove_file(&fresh);
    }
    put
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_program_refuses_every_variable_that_is_a_setting() {
        for key in Key::all() {
            let name = key.variable();
            let set = |asked: &str| (asked == name).then(|| "1".to_owned());
            let refused = refuse_variables(&set).unwrap_err();
            assert!(refused.message.starts_with(&name) && refused.message.contains("unset it"));
        }
        let others = |asked: &str| (asked == "BURSAR_LOG").then(|| "info".to_owned());
        assert_eq!(refuse_variables(&others), Ok(()));
        assert_eq!(environment(true)("HOME"), None);
    }
}
