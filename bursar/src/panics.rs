//! What is said when the program itself is broken: where, and what to do. Never the panic's own text, which
//! may hold a secret.

use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::OnceLock;

use bursar_core::codes::Code;

/// The data folder of this process, once it is known.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Names the folder that a broken program leaves behind.
pub(crate) fn name_folder(folder: &std::path::Path) {
    // The first one stays: a process has one folder.
    let _named = FOLDER.set(folder.to_owned());
}

pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        let store = is_of_the_store(panic);
        // Nobody is left to be told that standard error is closed.
        let _closed = writeln!(io::stderr(), "{}", message(panic, store));
        // Where a panic ends the process, it ends it like the damage that it most likely is.
        if store && cfg!(panic = "abort") {
            #[expect(clippy::exit, reason = "the process is about to be aborted")]
            std::process::exit(i32::from(Code::JournalDamaged.exit()));
        }
    }));
}

/// The journal's store panics on some kinds of damage instead of reporting it.
fn is_of_the_store(panic: &PanicHookInfo<'_>) -> bool {
    panic.location().is_some_and(|location| location.file().contains("redb"))
}

fn message(panic: &PanicHookInfo<'_>, store: bool) -> String {
    let place = panic
        .location()
        .map_or_else(|| "an unknown place".to_owned(), |at| format!("{}:{}", at.file(), at.line()));
    let folder = FOLDER.get().map(|folder| folder.join("journal.redb"));
    match folder.filter(|_known| store) {
        Some(journal) => format!(
            "bursar: the journal {} is damaged (at {place}). `bursar wallet restore <file>` restores a backup; \
             without one, move the journal away and run `bursar wallet recover <name>`.",
            journal.display()
        ),
        None => format!(
            "bursar: stopped by a bug at {place}. No answered request is lost: start it again, and report \
             this line."
        ),
    }
}
