//! The wallet of the machine's service, for commands that root runs.

use std::path::PathBuf;

use bursar_core::fault::Fault;

use crate::account;
use crate::files::read;
use crate::paths::Paths;
use crate::service::Scope;
use crate::systemd;

/// The data folder of the machine's service, and the account that owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineWallet {
    pub data: PathBuf,
    pub account: &'static str,
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
}

/// Finds the wallet of the machine's service; `None` if Bursar is not installed as one.
///
/// # Errors
/// An error of reading the unit or the accounts.
pub fn machine_wallet() -> Result<Option<MachineWallet>, Fault> {
    let unit = read(&Paths::of(Scope::System)?.unit)?;
    let Some(data) = unit.as_deref().and_then(systemd::data_of) else { return Ok(None) };
    let Some(found) = account::find(account::ACCOUNT)? else { return Ok(None) };
    let (uid, gid) = (found.owner.uid, found.owner.gid);
    let data = PathBuf::from(data);
    Ok(Some(MachineWallet { data, account: account::ACCOUNT, uid, gid, home: found.home }))
}
