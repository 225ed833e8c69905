//! Reads the `position` object of a request, without I/O.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{Object, Value};
use bursar_core::money::{MoneyError, parse_decimal};
use bursar_core::networks::{self, ChainId, Lending as Contracts, Network};
use bursar_domain::Refusal;
use bursar_domain::loans::LoanAction;
use bursar_morpho::VenueId;

use crate::lanes::fields::{self, InputFault, malformed};

/// The fields of the `position` object; every other field is refused.
pub const POSITION_FIELDS: &[&str] = &[
    "action",
    "venue",
    "venue_kind",
    "amount",
    "withdraw_all",
    "denomination",
    "protocol",
    "chain_id",
    "deadline",
];

/// A loan as its agent requested it.
#[derive(Debug, Clone)]
pub struct LoanInput {
    pub(super) network: &'static Network,
    pub(super) action: LoanAction,
    pub(super) venue: VenueId,
    pub(super) size: SizeInput,
    /// In Unix seconds.
    pub(super) deadline: Option<u64>,
}

/// The size of a request. Amounts are text, because their decimals are not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SizeInput {
    Assets(String),
    Shares(String),
    All,
}

impl LoanInput {
    /// Reads the `position` object.
    ///
    /// # Errors
    /// A field is missing, invalid or unknown, or the network has no lending.
    pub fn read(position: &Object) -> Result<Self, InputFault> {
        fields::check_only_fields(position, "position", POSITION_FIELDS)?;
        fields::require_fields(position, &["action", "venue", "venue_kind"])?;
        let (network, _contracts) = network_of(position)?;
        let action = match text(position, "action")? {
            "supply" => LoanAction::Supply,
            "withdraw" => LoanAction::Withdraw,
            _other => return Err(malformed("action must be supply or withdraw.")),
        };
        if !matches!(position.get("protocol"), None | Some(Value::Null)) {
            let protocol = text(position, "protocol")?;
            if protocol != "morpho" {
                return Err(malformed("protocol must be morpho."));
            }
        }
        Ok(Self {
            network,
            action,
            venue: venue(position)?,
            size: size(position, action)?,
            deadline: fields::number(position, "deadline")?,
        })
    }

    /// Returns the chain id of the loan's network.
    pub fn chain(&self) -> ChainId {
        self.network.chain
    }

    /// Returns the venue of the loan.
    pub fn venue(&self) -> VenueId {
        self.venue
    }
}

/// Returns the network that an object names, or the default network of trades, and its contracts for loans.
///
/// # Errors
/// The network has no lending.
pub fn network_of(position: &Object) -> Result<(&'static Network, &'static Contracts), InputFault> {
    let chain = fields::number(position, "chain_id")?.map_or(networks::DEFAULT_TRADING, ChainId);
    let network = networks::by_chain(chain);
    network.and_then(|network| Some((network, network.lending?))).ok_or_else(|| {
        let message = format!("Lending is not supported on chain {chain}.");
        InputFault::Refused(Refusal::because(Code::UnsupportedNetwork, message))
    })
}

fn text<'a>(position: &'a Object, name: &str) -> Result<&'a str, InputFault> {
    position
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| malformed(format!("{name} must be text.")))
}

fn venue(position: &Object) -> Result<VenueId, InputFault> {
    let named = text(position, "venue")?.parse::<VenueId>();
    let venue = named.map_err(|invalid| malformed(format!("venue is not valid: {invalid}.")))?;
    let kind = match venue {
        VenueId::Vault(_) => "vault",
        VenueId::Market(_) => "market",
    };
    if text(position, "venue_kind")? == kind {
        return Ok(venue);
    }
    Err(malformed(
        "venue_kind must be vault for an address, and market for an id of 64 hex digits.",
    ))
}

fn size(position: &Object, action: LoanAction) -> Result<SizeInput, InputFault> {
    let all = match position.get("withdraw_all") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_other) => return Err(malformed("withdraw_all must be true or false.")),
    };
    let by_shares = match position.get("denomination") {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) if text == "assets" => false,
        Some(Value::String(text)) if text == "shares" => true,
        Some(_other) => return Err(malformed("denomination must be assets or shares.")),
    };
    if action == LoanAction::Supply && (all || by_shares) {
        return Err(malformed("withdraw_all and shares are only for withdrawals."));
    }
    let amount = match position.get("amount") {
        None | Some(Value::Null) => None,
        Some(_given) => Some(fields::decimal(position, "amount")?),
    };
    match (all, amount) {
        // With `withdraw_all`, an amount is not needed and is ignored.
        (true, _) => Ok(SizeInput::All),
        (false, None) => Err(malformed("missing required field(s): amount")),
        (false, Some(amount)) if by_shares => Ok(SizeInput::Shares(amount)),
        (false, Some(amount)) => Ok(SizeInput::Assets(amount)),
    }
}

/// Converts a decimal amount to the smallest unit. The amount must be above zero.
pub(super) fn amount(
    text: &str,
    decimals: u8,
    name: &str,
) -> Result<alloy_primitives::U256, Refusal> {
    let wrong = |error: MoneyError| {
        Refusal::because(Code::InvalidRequest, format!("{name} is not a valid amount: {error}."))
    };
    let amount = parse_decimal(text, decimals).map_err(wrong)?;
    if amount.is_zero() {
        let message = format!("{name} must be above zero.");
        return Err(Refusal::because(Code::InvalidRequest, message));
    }
    Ok(amount)
}

impl From<InputFault> for Fault {
    fn from(fault: InputFault) -> Self {
        match fault {
            InputFault::Malformed(fault) => fault,
            InputFault::Refused(refusal) => refusal.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::json;

    const VAULT: &str = "0xBeEff033F34C046626B8D0A041844C5d1A5409dd";

    fn refusal(venue: &str, more: &str) -> Option<String> {
        let text = format!(
            "{{\"action\":\"supply\",\"venue\":\"{venue}\",\"venue_kind\":\"vault\",\"amount\":\"1\"{more}}}"
        );
        let value = json::parse(text.as_bytes(), 8).unwrap();
        match LoanInput::read(value.as_object().unwrap()) {
            Ok(_read) => None,
            Err(InputFault::Malformed(fault)) => {
                assert_eq!(fault.code, Code::BadRequest);
                Some(fault.message.to_string())
            }
            Err(InputFault::Refused(refusal)) => panic!("{refusal:?}"),
        }
    }

    #[test]
    fn a_venue_with_a_wrong_checksum_is_refused() {
        let upper = VAULT.to_uppercase().replace('X', "x");
        for right in [VAULT, &VAULT.to_lowercase(), &upper] {
            assert_eq!(refusal(right, ""), None, "{right}");
        }
        let said = refusal(&VAULT.replace("BeE", "BEe"), "").unwrap();
        assert!(said.starts_with("venue") && said.contains("checksum"), "{said}");
    }

    #[test]
    fn an_unknown_field_is_refused_by_its_name() {
        for name in ["min_shares", "sender", "slippage"] {
            let said = refusal(VAULT, &format!(",\"{name}\":null")).unwrap();
            assert!(said.starts_with(&format!("\"{name}\" is not a field of position")), "{said}");
        }
    }
}
