//! Root's commands on a server: they use the wallet of the machine's service, as the account that owns it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_engine::service::data_dir::DataFolder;

use crate::cli::GlobalOptions;

/// Continues as the account of the machine's service, if root names no data folder and has no wallet.
///
/// Files that root wrote into the folder would be unreadable for the service.
///
/// # Errors
/// The program cannot be started as that account. Returns nothing if it can.
pub(crate) fn continue_as_service(
    global: &GlobalOptions,
    arguments: &[OsString],
) -> Result<(), Fault> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Some(wallet) = bursar_boot::machine_wallet()?.filter(|wallet| wallet.uid != 0) else {
        return Ok(());
    };
    let folder = DataFolder::locate(global.folder_rule(), global.data.clone())?;
    let is_named = global.data.is_some()
        || std::env::var_os("BURSAR_DATA_DIR").is_some_and(|folder| !folder.is_empty());
    // A command that ran before left an empty folder: only one with a wallet is root's own.
    let is_own = || fs::read_dir(folder.join("wallets")).is_ok_and(|files| files.count() > 0);
    if folder != wallet.data && (is_named || is_own()) {
        return Ok(());
    }
    if !global.quiet {
        let (data, account) = (wallet.data.display(), wallet.account);
        // A closed standard error cannot be reported anywhere.
        let _closed = writeln!(
            io::stderr(),
            "bursar: using the wallet of the machine's service in {data}, as the account {account}"
        );
    }
    let program = std::env::current_exe()
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    let failed = Command::new(&program)
        .args(arguments.iter().skip(1))
        .env("BURSAR_DATA_DIR", &wallet.data)
        .env("HOME", &wallet.home)
        .env_remove("XDG_DATA_HOME")
        .env_remove("XDG_STATE_HOME")
        .uid(wallet.uid)
        .gid(wallet.gid)
        .exec();
    let message = format!(
        "{} cannot be started as the account {}: {failed}. Install it where that account can run it.",
        program.display(),
        wallet.account
    );
    Err(Fault::because(Code::NeedsRoot, message))
}
