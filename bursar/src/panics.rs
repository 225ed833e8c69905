//! The message of a panic: where the program broke and what to do. Never includes the panic's own text, which may
//! contain a secret.

use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::OnceLock;

use bursar_core::codes::Code;

/// The data folder of this process, once it is known.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Sets the data folder that the panic message names.
pub(crate) fn name_folder(folder: &std::path::Path) {
    // The first call wins: a process has one folder.
    let _named = FOLDER.set(folder.to_owned());
}

pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        let store = is_of_the_store(panic);
        // A closed standard error cannot be reported anywhere.
        let _closed = writeln!(io::stderr(), "{}", message(panic, store));
        // An abort would hide the cause, so exit with the code of the most likely cause: a damaged journal.
        if store && cfg!(panic = "abort") {
            #[expect(clippy::exit, reason = "the process is about to be aborted")]
            std::process::exit(i32::from(Code::JournalDamaged.exit()));
        }
    }));
}

/// Returns whether the panic came from redb, or from our files named after it. redb panics on some kinds of damage
/// instead of reporting them.
fn is_of_the_store(panic: &PanicHookInfo<'_>) -> bool {
    panic.location().is_some_and(|location| location.file().contains("redb"))
}

fn message(panic: &PanicHookInfo<'_>, store: bool) -> String {
    let location = panic
        .location()
        .map_or_else(|| "an unknown place".to_owned(), |at| format!("{}:{}", at.file(), at.line()));
    let folder = FOLDER.get().map(|folder| folder.join("journal.redb"));
    match folder.filter(|_known| store) {
        Some(journal) => format!(
            "bursar: the journal {} is damaged (at {location}). `bursar wallet restore <file>` restores a backup; \
             without one, move the journal away and run `bursar wallet recover <name>`.",
            journal.display()
        ),
        None => format!(
            "bursar: stopped by a bug at {location}. No answered request is lost: start it again, and report \
             this line."
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::install;

    /// The variable that makes the child process panic.
    const PANICS: &str = "BURSAR_TEST_PANICS";
    const PASSWORD: &str = "Kanarienvögel-4d1e Passwort";

    /// Runs in a child process with the program's hook. Covers each way in which a panic repeats its input.
    #[test]
    #[ignore = "started by the test below"]
    #[expect(
        clippy::unnecessary_literal_unwrap,
        clippy::string_slice,
        reason = "each of them is to panic"
    )]
    fn a_process_that_panics_with_a_password_in_hand() {
        if std::env::var_os(PANICS).is_none() {
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
            .env(PANICS, "1")
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
