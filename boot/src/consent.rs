//! The operator's consent to open the wallet without a person.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use secrecy::SecretString;

use crate::credential;
use crate::limit;
use crate::operator::Operator;
use crate::plan::{InstallRequest, Plan};
use crate::relocation;
use crate::service::Service;

/// The consent, with the wallet's password and the chosen limit.
pub(crate) struct Consent {
    pub(crate) password: SecretString,
    /// The limit of unattended days; `None` if it is off.
    pub(crate) daily: Option<Usd>,
}

/// Explains the unattended unlock, and asks for the consent, the limit and the password.
///
/// # Errors
/// `NO_WALLET`, `DECLINED`, `CONFIRMATION_NEEDED`, `BAD_INPUT` for an invalid limit, `WRONG_PASSWORD`, or an error of
/// reading the password.
pub(crate) fn ask(
    wanted: &InstallRequest,
    plan: &Plan,
    service: &Service,
    operator: &dyn Operator,
) -> Result<Consent, Fault> {
    let given = wanted.daily.as_deref().map(limit::parse).transpose()?;
    let moved = plan.folder_to_relocate.as_deref().and_then(relocation::unfinished_or_new_source);
    let folder = moved.unwrap_or_else(|| service.data.clone());
    if !relocation::has_wallet(&folder) {
        let message = "There is no wallet to open yet: install the service without --unlock, create a wallet, then run \
                       the command with --unlock.";
        return Err(Fault::because(Code::NoWallet, message));
    }
    if !operator.confirm(&credential::explanation(plan.tier), "Let the wallet open without you?")? {
        return Err(Fault::new(Code::Declined));
    }
    let daily = match given {
        Some(daily) => daily,
        None => limit::parse(&operator.line(
            "The most that agents may spend in a day while the wallet was opened without you, in dollars (or off): ",
            "--daily",
        )?)?,
    };
    let password = operator.password()?;
    operator.progress("checking the password");
    operator.verify(&folder, &password)?;
    Ok(Consent { password, daily })
}
