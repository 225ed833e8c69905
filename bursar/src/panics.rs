//! The message of a panic: where it happened and what to do next. It never includes the panic's own text, which may
//! contain a secret.

use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use bursar_control::json_version::JsonVersion;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_serve::panics::location;
use bursar_tui::oneshot::{self, Options};

use crate::cli::GlobalOptions;
use crate::failure::in_another_folder;

/// The data folder of this process, once it is known.
static FOLDER: OnceLock<Folder> = OnceLock::new();

struct Folder {
    path: PathBuf,
    /// Whether the program takes all its commands in its window.
    is_sealed: bool,
}

/// The running command, if it must print one JSON object. A piped session sets it for each of its commands.
static JSON_COMMAND: Mutex<Option<String>> = Mutex::new(None);

/// Sets the command that [`report`] names if the store panics.
pub(crate) fn name_command(command: &str, json: bool) {
    if let Ok(mut known) = JSON_COMMAND.lock() {
        *known = json.then(|| command.to_owned());
    }
}

/// Sets the data folder that the panic message names.
pub(crate) fn name_folder(global: &GlobalOptions, folder: &Path) {
    // Only the first call has an effect: a process has one data folder.
    let _named =
        FOLDER.set(Folder { path: folder.to_owned(), is_sealed: global.control.is_none() });
}

pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        let journal = is_of_the_store(panic).then(|| journal_damaged(panic)).flatten();
        let Some(damage) = journal else {
            // A closed standard error cannot be reported anywhere.
            let _closed = writeln!(io::stderr(), "{}", message(panic));
            return;
        };
        // A release build would abort, which would hide the cause from scripts and service managers.
        #[expect(clippy::exit, reason = "no code after a panic of the store may decide anything")]
        std::process::exit(i32::from(report(damage)));
    }));
}

/// Returns whether the panic came from redb or from one of our files with redb in its name.
///
/// On some kinds of damage, redb panics instead of returning an error.
fn is_of_the_store(panic: &PanicHookInfo<'_>) -> bool {
    panic.location().is_some_and(|location| location.file().contains("redb"))
}

fn message(panic: &PanicHookInfo<'_>) -> String {
    format!(
        "bursar: stopped by a bug at {}. No answered request is lost: start it again, and report this line.",
        location(panic)
    )
}

/// Returns the most likely cause of a panic in the store; `None` before the data folder is known.
fn journal_damaged(panic: &PanicHookInfo<'_>) -> Option<Fault> {
    let folder = FOLDER.get()?;
    let journal = folder.path.join("journal.redb");
    let damage = format!("The journal {} is damaged (at {})", journal.display(), location(panic));
    if folder.is_sealed {
        return Some(in_another_folder(Code::JournalDamaged, &damage));
    }
    let message = format!(
        "{damage}. `bursar wallet restore <file>` restores a backup; without one, move the journal away and run `bursar \
         wallet recover <name>`."
    );
    Some(Fault::because(Code::JournalDamaged, message))
}

/// Reports a failure in the same form as a failed command, and returns its exit code.
fn report(fault: Fault) -> u8 {
    // Does not wait for the lock, because a thread that panicked may hold it.
    let command = JSON_COMMAND.try_lock().ok().and_then(|known| known.clone());
    let options = Options {
        json: command.as_ref().map(|_command| JsonVersion::default()),
        ..Options::default()
    };
    let (mut out, mut err) = (io::stdout(), io::stderr());
    oneshot::fail(command.as_deref(), fault, &options, &mut out, &mut err)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::install;

    /// The environment variable that makes the child process panic.
    const PANICS_VARIABLE: &str = "BURSAR_TEST_PANICS";
    const PASSWORD: &str = "Kanarienvögel-4d1e Passwort";

    /// Runs in a child process with the program's panic hook, and tries each kind of panic that repeats its input.
    #[test]
    #[ignore = "started by the test below"]
    #[expect(
        clippy::unnecessary_literal_unwrap,
        clippy::string_slice,
        reason = "each of them is to panic"
    )]
    fn a_process_that_panics_with_a_password_in_hand() {
        if std::env::var_os(PANICS_VARIABLE).is_none() {
            return;
        }
        install();
        let password = PASSWORD.to_owned();
        let panics: [fn(String); 5] = [
            |password| panic!("{password}"),
            |password| Err::<(), String>(password).unwrap(),
            |password| None::<()>.expect(&password),
            |password| assert_eq!(password, "", "{password}"),
            |password| drop(password[..10].to_owned()),
        ];
        for panic in panics {
            let password = password.clone();
            assert!(thread::spawn(move || panic(password)).join().is_err());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let task = runtime.spawn(async move { panic!("{password}") });
        assert!(runtime.block_on(task).is_err());
    }

    #[test]
    fn t_37_panic_messages_contain_no_part_of_the_panic_text() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["panics::tests::a_process_that_panics_with_a_password_in_hand"])
            .args(["--exact", "--ignored", "--nocapture"])
            .env(PANICS_VARIABLE, "1")
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{said:?}");
        let said = said.concat();
        assert_eq!(said.matches("stopped by a bug at ").count(), 6, "{said}");
        for part in ["Kanarien", "vögel", "4d1e", "Passwort"] {
            assert!(!said.contains(part), "{part} in {said}");
        }
    }
}
