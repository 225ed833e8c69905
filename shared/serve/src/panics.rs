//! The message of a panic in a service: where the program panicked, and what to do. The message never includes the
//! panic's own text, which may contain data of callers.

use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::exit;

/// The store of this process, once it is known, and the name of its library.
static STORE_AND_LIBRARY: OnceLock<(PathBuf, &'static str)> = OnceLock::new();

/// Sets the store that the message of a panic names.
///
/// A panic in a source file whose path contains `library` counts as a panic of the store.
pub fn name_store(store: &Path, library: &'static str) {
    // The first call wins: a service has one store.
    let _named = STORE_AND_LIBRARY.set((store.to_owned(), library));
}

/// Replaces the message of panics. A panic in the store's library ends the process with [`exit::STORE_UNUSABLE`],
/// because the library panics on some kinds of damage instead of reporting them.
pub(crate) fn install(name: &'static str) {
    std::panic::set_hook(Box::new(move |panic| {
        let store = STORE_AND_LIBRARY.get().filter(|(_path, library)| is_panic_in(library, panic));
        let store = store.map(|(path, _library)| path);
        // A stderr that cannot be written cannot be reported anywhere.
        let _dropped = writeln!(io::stderr(), "{}", message(name, panic, store));
        if store.is_some() {
            #[expect(
                clippy::exit,
                reason = "an abort would hide the cause from a service manager"
            )]
            std::process::exit(i32::from(exit::STORE_UNUSABLE));
        }
    }));
}

/// Returns the source file and line of a panic.
///
/// For a file of a library, the path begins at the library's folder and shows no other folder of this machine.
pub fn location(panic: &PanicHookInfo<'_>) -> String {
    let Some(at) = panic.location() else { return "an unknown place".to_owned() };
    let of_library = at.file().split_once("/registry/src/").and_then(|(_home, rest)| {
        let (_registry, file) = rest.split_once('/')?;
        Some(file)
    });
    format!("{}:{}", of_library.unwrap_or(at.file()), at.line())
}

fn is_panic_in(library: &str, panic: &PanicHookInfo<'_>) -> bool {
    panic.location().is_some_and(|location| location.file().contains(library))
}

fn message(name: &str, panic: &PanicHookInfo<'_>, store: Option<&PathBuf>) -> String {
    let location = location(panic);
    match store {
        Some(store) => format!(
            "{name}: the store {} is damaged (at {location}): restore a backup of it",
            store.display()
        ),
        None => {
            format!("{name}: stopped by a bug at {location}: start it again, and report this line")
        }
    }
}
