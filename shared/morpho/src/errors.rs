//! Turns a revert of a vault or of the singleton into one short sentence, and decides whether a later try may succeed.

use std::fmt;

use alloy_primitives::{U256, hex};
use alloy_sol_types::{Panic, Revert, SolError, SolInterface};
use bursar_core::text::quoted;

use crate::abi::errors::VaultErrors::VaultErrorsErrors as VaultError;
use crate::gates::GateKind;

/// Maximum number of characters that are shown of a contract's text.
const TEXT_CHARS_MAX: usize = 120;

/// Why a deposit or a withdrawal reverts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevertReason {
    /// The venue's money is lent out at the moment. A later or smaller withdrawal may succeed.
    NotLiquid,
    /// Another known reason.
    Known(&'static str),
    /// A contract's own text: quoted, with control characters made visible, and cut after a maximum length.
    Text(String),
    /// A Solidity panic, by its code.
    Panic(String),
    /// A selector that is not known.
    Selector([u8; 4]),
    /// No data, or too little for a selector.
    Unreadable,
}

impl RevertReason {
    /// Returns whether the same call may succeed later, because the venue only lacks free money now.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotLiquid => true,
            Self::Known(_)
            | Self::Text(_)
            | Self::Panic(_)
            | Self::Selector(_)
            | Self::Unreadable => false,
        }
    }
}

/// A sentence without a full stop.
impl fmt::Display for RevertReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLiquid => {
                f.write_str("the venue has too little free money for this at present")
            }
            Self::Known(sentence) => f.write_str(sentence),
            Self::Text(text) => write!(f, "the contract refused: {text}"),
            Self::Panic(code) => write!(f, "the contract failed with panic {code}"),
            Self::Selector(selector) => {
                write!(f, "unknown error {}", hex::encode_prefixed(selector))
            }
            Self::Unreadable => f.write_str("the contract gave no readable reason"),
        }
    }
}

/// Reads the data of a revert.
pub fn reason(data: &[u8]) -> RevertReason {
    if let Ok(error) = VaultError::abi_decode_validate(data) {
        return vault_reason(&error);
    }
    if let Ok(revert) = Revert::abi_decode_validate(data) {
        return text_reason(&revert.reason);
    }
    if let Ok(panic) = Panic::abi_decode_validate(data) {
        return panic_reason(&panic);
    }
    if data.iter().all(|byte| *byte == 0) {
        return RevertReason::Unreadable;
    }
    data.first_chunk::<4>()
        .map_or(RevertReason::Unreadable, |selector| RevertReason::Selector(*selector))
}

fn vault_reason(error: &VaultError) -> RevertReason {
    RevertReason::Known(match error {
        VaultError::TransferReverted(_) | VaultError::NotEnoughLiquidity(_) => {
            return RevertReason::NotLiquid;
        }
        VaultError::TransferFromReverted(_) => {
            "the vault could not take the money: the allowance or the balance is too small"
        }
        VaultError::CannotReceiveShares(_) => GateKind::ReceiveShares.refusal(),
        VaultError::CannotSendShares(_) => GateKind::SendShares.refusal(),
        VaultError::CannotReceiveAssets(_) => GateKind::ReceiveAssets.refusal(),
        VaultError::CannotSendAssets(_) => GateKind::SendAssets.refusal(),
        VaultError::Unauthorized(_) => {
            "the vault does not allow the paying address to make this call"
        }
        VaultError::CapExceeded(_)
        | VaultError::AbsoluteCapExceeded(_)
        | VaultError::RelativeCapExceeded(_)
        | VaultError::AllCapsReached(_) => {
            "the deposit would exceed a cap of the vault, although the vault may have room elsewhere"
        }
        VaultError::ZeroAbsoluteCap(_) => "the vault has a cap of zero where its deposits would go",
        VaultError::ERC20InsufficientBalance(_) => "the balance is too small",
        VaultError::ERC20InsufficientAllowance(_) => "the allowance is too small",
    })
}

/// Explains a revert text of Morpho Blue, as listed in its `ErrorsLib.sol`.
fn text_reason(text: &str) -> RevertReason {
    match text {
        "insufficient liquidity" => RevertReason::NotLiquid,
        "inconsistent input" => {
            RevertReason::Known("the market needs either assets or shares, not both")
        }
        "market not created" => RevertReason::Known("the market does not exist"),
        "zero assets" => RevertReason::Known("the amount is zero"),
        "zero address" => RevertReason::Known("an address of the call is the zero address"),
        "unauthorized" => RevertReason::Known("the caller may not act for this position"),
        "max uint128 exceeded" => {
            RevertReason::Known("the amount exceeds what the market can count")
        }
        "transfer reverted" | "transfer returned false" => {
            RevertReason::Known("the token refused the transfer out of the market")
        }
        "transferFrom reverted" | "transferFrom returned false" => RevertReason::Known(
            "the market could not take the money: the allowance or the balance is too small",
        ),
        foreign => RevertReason::Text(quoted(foreign, TEXT_CHARS_MAX)),
    }
}

/// Solidity's panic code 0x11 is an arithmetic overflow or underflow: here, a subtraction from too small a position.
fn panic_reason(panic: &Panic) -> RevertReason {
    if panic.code == U256::from(0x11) {
        return RevertReason::Known("the amount exceeds the position");
    }
    RevertReason::Panic(format!("0x{:x}", panic.code))
}

#[cfg(test)]
mod tests;
