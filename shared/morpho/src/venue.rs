//! The id of a venue, as agents write it: a vault's address or a market's id.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{Address, B256};
use bursar_core::address::{self, AddressError};
use serde_with::{DeserializeFromStr, SerializeDisplay};

/// Identifies a vault of either kind, or a market of the singleton.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, DeserializeFromStr,
)]
pub enum VenueId {
    /// The vault's address.
    Vault(Address),
    /// The market's [id](crate::MarketParams::id).
    Market(B256),
}

/// A text that is neither a vault's address nor a market's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVenueId {
    #[error(
        "a venue is a vault's address, 0x and 40 hex digits, or a market's id, 0x and 64 hex digits"
    )]
    Form,
    #[error("the checksum of this address is wrong: copy it again")]
    Checksum,
}

/// Number of hex digits of a market's id.
const MARKET_ID_DIGITS: usize = 64;

/// Writes the checksummed address of a vault, or the id of a market in lower case.
impl fmt::Display for VenueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vault(address) => write!(f, "{address}"),
            Self::Market(id) => write!(f, "{id}"),
        }
    }
}

/// Accepts hex digits of either case. An address in mixed case must have the right checksum.
impl FromStr for VenueId {
    type Err = InvalidVenueId;

    fn from_str(text: &str) -> Result<Self, InvalidVenueId> {
        let digits = text.strip_prefix("0x").ok_or(InvalidVenueId::Form)?;
        if digits.len() == MARKET_ID_DIGITS {
            return digits.parse().map(Self::Market).map_err(|_hex| InvalidVenueId::Form);
        }
        address::read(text).map(Self::Vault).map_err(|error| match error {
            AddressError::Form | AddressError::Zero => InvalidVenueId::Form,
            AddressError::Checksum => InvalidVenueId::Checksum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, b256};

    const VAULT: &str = "BeEff033F34C046626B8D0A041844C5d1A5409dd";
    const MARKET: &str = "b323495f7e4148be5643a4ea4a8221eef163e4bccfdedc2a6f4696baacbc86cc";

    fn vault() -> VenueId {
        VenueId::Vault(address!("BeEff033F34C046626B8D0A041844C5d1A5409dd"))
    }

    fn market() -> VenueId {
        VenueId::Market(b256!("b323495f7e4148be5643a4ea4a8221eef163e4bccfdedc2a6f4696baacbc86cc"))
    }

    #[test]
    fn a_venue_is_shown_whole_and_read_in_any_case() {
        for (digits, venue) in [(VAULT, vault()), (MARKET, market())] {
            assert_eq!(venue.to_string(), format!("0x{digits}"));
            for digits in [digits, &digits.to_lowercase(), &digits.to_uppercase()] {
                assert_eq!(format!("0x{digits}").parse(), Ok(venue));
            }
        }
    }

    #[test]
    fn a_text_of_another_form_names_no_venue() {
        let of_each = |digits: &str| {
            let one_less = digits.split_at(1).1;
            let two_less = digits.split_at(2).1;
            [
                digits.to_owned(),
                format!("0X{digits}"),
                format!("0x0x{digits}"),
                format!("0x0x{two_less}"),
                format!("0x{one_less}"),
                format!("0x{two_less}"),
                format!("0x{digits}0"),
                format!("0x{digits}00"),
                format!("0xg{one_less}"),
                format!("0xé{two_less}"),
                format!("0x {one_less}"),
                format!("0x+{one_less}"),
                format!(" 0x{digits}"),
                format!("0x{digits} "),
                format!("0x{digits}\n"),
            ]
        };
        let others = ["", "0x", "steakhouse"].map(str::to_owned);
        for text in others.into_iter().chain(of_each(VAULT)).chain(of_each(MARKET)) {
            assert_eq!(text.parse::<VenueId>(), Err(InvalidVenueId::Form), "{text:?}");
        }
    }

    #[test]
    fn a_vault_with_a_wrong_checksum_is_refused() {
        let wrong = format!("0x{}", VAULT.replace("BeE", "BEe"));
        assert_eq!(wrong.parse::<VenueId>(), Err(InvalidVenueId::Checksum));
        // The id of a market has no checksum.
        assert_eq!(format!("0x{}", MARKET.replace("b323", "B323")).parse(), Ok(market()));
    }

    #[test]
    fn vaults_sort_before_markets() {
        let last_vault = VenueId::Vault(Address::repeat_byte(0xff));
        let first_market = VenueId::Market(B256::ZERO);
        let mut venues = [market(), first_market, last_vault, vault()];
        venues.sort();
        assert_eq!(venues, [vault(), last_vault, first_market, market()]);
    }
}
