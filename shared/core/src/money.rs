//! Money as integers: token amounts in the token's smallest unit, dollars in micro-dollars. Every sum is checked, and
//! every conversion names its rounding.

use std::fmt;

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

/// Why a text is not a valid amount, or a sum is not possible.
///
/// The message names the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("an amount needs plain digits, like 12 or 0.25")]
    Format,
    #[error("the amount has more decimal places than its unit")]
    TooFine,
    #[error("the amount is too large")]
    Overflow,
}

/// The direction in which a conversion rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Away from zero, for amounts that count against a limit.
    Up,
    /// Towards zero, for amounts that we expect to receive.
    Down,
}

/// An amount in a token's smallest unit.
///
/// The decimals are not part of it; see [`TokenAmount`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Atoms(pub U256);

impl Atoms {
    /// Parses the atomic form of the x402 wire: `0|[1-9][0-9]{0,77}`.
    ///
    /// # Errors
    /// `Format` for any other text, `Overflow` above 2^256 - 1.
    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        let digits = (1..=78).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        if !digits || (text.len() > 1 && text.starts_with('0')) {
            return Err(MoneyError::Format);
        }
        U256::from_str_radix(text, 10).map(Self).map_err(|_too_large| MoneyError::Overflow)
    }

    /// Converts to dollars, for a token whose whole coin is worth one dollar.
    ///
    /// # Errors
    /// `Overflow` if the result exceeds `u64` micro-dollars, or `decimals` exceeds 83.
    pub fn to_usd(self, decimals: u8, round: Round) -> Result<Usd, MoneyError> {
        let micros = match decimals.checked_sub(6) {
            Some(extra) => {
                let scale = power_of_ten(extra)?;
                let (whole, rest) = self.0.div_rem(scale);
                let up = round == Round::Up && !rest.is_zero();
                whole.checked_add(U256::from(u8::from(up))).ok_or(MoneyError::Overflow)?
            }
            None => {
                let missing = 6u8.checked_sub(decimals).ok_or(MoneyError::Overflow)?;
                self.0.checked_mul(power_of_ten(missing)?).ok_or(MoneyError::Overflow)?
            }
        };
        u64::try_from(micros).map(Usd).map_err(|_too_large| MoneyError::Overflow)
    }
}

impl fmt::Display for Atoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A token amount with its decimals.
///
/// `Display` prints every decimal and never rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenAmount {
    pub atoms: Atoms,
    pub decimals: u8,
}

impl fmt::Display for TokenAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = match power_of_ten(self.decimals) {
            Ok(scale) => self.atoms.0.div_rem(scale),
            // One whole coin is more than any amount of 256 bits.
            Err(_overflow) => (U256::ZERO, self.atoms.0),
        };
        match usize::from(self.decimals) {
            0 => write!(f, "{whole}"),
            width => write!(f, "{whole}.{:0>width$}", rest.to_string()),
        }
    }
}

impl TokenAmount {
    /// Formats the amount without trailing zeros: `0.25`, `3`.
    pub fn plain(&self) -> String {
        let text = self.to_string();
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    }

    /// Formats the amount for a column.
    ///
    /// Amounts of tokens with at most six decimals keep all decimals; amounts of other tokens lose trailing zeros.
    pub fn to_column_text(&self) -> String {
        if self.decimals > 6 { self.plain() } else { self.to_string() }
    }
}

/// Dollars in micro-dollars: 1,000,000 is one dollar.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Usd(pub u64);

impl Usd {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);

    /// Converts whole dollars.
    pub const fn dollars(dollars: u32) -> Self {
        // At most 4.3e15 micro-dollars, which fits. `u64::from` is not const.
        #[expect(clippy::as_conversions, reason = "a wider type loses nothing")]
        Self((dollars as u64).saturating_mul(1_000_000))
    }

    /// Adds two amounts.
    ///
    /// # Errors
    /// `Overflow` if the sum does not fit.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_add(other.0).map(Self).ok_or(MoneyError::Overflow)
    }

    /// Subtracts `other`.
    ///
    /// # Errors
    /// `Overflow` if `other` is larger than `self`.
    pub fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_sub(other.0).map(Self).ok_or(MoneyError::Overflow)
    }

    /// Returns `self` minus `taken`, at least zero.
    ///
    /// A limit lowered below what is already spent leaves zero, not a debt.
    pub fn left_after(self, taken: Self) -> Self {
        Self(self.0.saturating_sub(taken.0))
    }

    /// Parses dollars with up to six decimals.
    ///
    /// # Errors
    /// Those of [`parse_decimal`], and `Overflow` above `u64` micro-dollars.
    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        let micros = parse_decimal(text, 6)?;
        u64::try_from(micros).map(Self).map_err(|_too_large| MoneyError::Overflow)
    }
}

/// Prints at least two decimals, and more if the amount has them: `10.00`, `0.012`.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.checked_div(1_000_000).unwrap_or(0);
        let micros = self.0.checked_rem(1_000_000).unwrap_or(0);
        let digits = format!("{micros:06}");
        let shown = digits.trim_end_matches('0');
        write!(f, "{whole}.{shown:0<2}")
    }
}

/// Serializes dollars as text, `"12.00"`, for readers other than Rust programs.
pub mod usd_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Usd;

    /// Writes the amount as text.
    pub fn serialize<S: Serializer>(usd: &Usd, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(usd)
    }

    /// Reads the amount from text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        let text = String::deserialize(deserializer)?;
        Usd::parse(&text).map_err(de::Error::custom)
    }
}

/// An amount of a network's native coin in wei.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Wei(pub u128);

impl Wei {
    /// Parses an amount in coins, with up to eighteen decimals.
    ///
    /// # Errors
    /// Those of [`parse_decimal`], and `Overflow` above `u128` wei.
    pub fn parse_coins(text: &str) -> Result<Self, MoneyError> {
        let wei = parse_decimal(text, 18)?;
        u128::try_from(wei).map(Self).map_err(|_too_large| MoneyError::Overflow)
    }

    /// Formats the amount in whole coins, without trailing zeros.
    pub fn as_coins(self) -> String {
        let amount = TokenAmount { atoms: Atoms(U256::from(self.0)), decimals: 18 }.to_string();
        amount.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A share in basis points, hundredths of a percent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Bps(pub u16);

impl Bps {
    /// Parses a percentage from 0 to 100 with up to two decimals.
    ///
    /// # Errors
    /// Those of [`parse_decimal`], and `Overflow` above 100.
    pub fn parse_percent(text: &str) -> Result<Self, MoneyError> {
        let bps = parse_decimal(text, 2)?;
        let bps = u16::try_from(bps).map_err(|_too_large| MoneyError::Overflow)?;
        if bps > 10_000 { Err(MoneyError::Overflow) } else { Ok(Self(bps)) }
    }
}

impl fmt::Display for Bps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = TokenAmount { atoms: Atoms(U256::from(self.0)), decimals: 2 }.to_string();
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Parses `(0|[1-9][0-9]{0,30})(\.[0-9]+)?` into units of 10^-`scale`.
///
/// # Errors
/// `TooFine` for more than `scale` decimals, because amounts are never rounded. `Format` for any other text, `Overflow`
/// if the result exceeds 256 bits.
pub fn parse_decimal(text: &str, scale: u8) -> Result<U256, MoneyError> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_dangling) => return Err(MoneyError::Format),
        None => (text, ""),
    };
    let plain = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let whole_fits = (1..=31).contains(&whole.len()) && (whole == "0" || !whole.starts_with('0'));
    if !whole_fits || !plain(whole) || !plain(fraction) {
        return Err(MoneyError::Format);
    }
    if fraction.len() > usize::from(scale) {
        return Err(MoneyError::TooFine);
    }
    let width = usize::from(scale);
    let digits = format!("{whole}{fraction:0<width$}");
    U256::from_str_radix(&digits, 10).map_err(|_too_large| MoneyError::Overflow)
}

fn power_of_ten(exponent: u8) -> Result<U256, MoneyError> {
    U256::from(10).checked_pow(U256::from(exponent)).ok_or(MoneyError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dollars_are_written_with_two_decimals_or_all_they_have() {
        for (micros, text) in [
            (0, "0.00"),
            (1, "0.000001"),
            (12_000, "0.012"),
            (10_000_000, "10.00"),
            (1_500_000, "1.50"),
        ] {
            assert_eq!(Usd(micros).to_string(), text);
            assert_eq!(Usd::parse(text), Ok(Usd(micros)));
        }
    }

    #[test]
    fn dollars_as_text_are_read_as_they_are_written() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Price(#[serde(with = "usd_text")] Usd);
        let json = serde_json::to_string(&Price(Usd(1_500_000))).unwrap();
        assert_eq!(json, "\"1.50\"");
        assert_eq!(serde_json::from_str::<Price>(&json).unwrap(), Price(Usd(1_500_000)));
        assert!(serde_json::from_str::<Price>("\"1.5e3\"").is_err());
    }

    #[test]
    fn amounts_with_any_number_of_decimals_are_formatted() {
        let amount = |decimals| TokenAmount { atoms: Atoms(U256::MAX), decimals }.to_string();
        let digits = U256::MAX.to_string();
        assert_eq!(amount(0), digits);
        let (whole, fraction) = digits.split_at(1);
        assert_eq!(amount(77), format!("{whole}.{fraction}"));
        assert_eq!(amount(78), format!("0.{digits}"));
        assert_eq!(amount(255), format!("0.{digits:0>255}"));
    }

    #[test]
    fn amounts_accept_plain_digits_only() {
        for bad in [
            "", " 1", "1 ", "+1", "-1", "1e3", "0x10", ".5", "5.", "01", "1,5", "١", "1_0", "NaN",
            "∞",
        ] {
            assert_eq!(Usd::parse(bad), Err(MoneyError::Format), "{bad}");
            assert_eq!(Atoms::parse(bad), Err(MoneyError::Format), "{bad}");
        }
        assert_eq!(Atoms::parse("0"), Ok(Atoms(U256::ZERO)));
        assert_eq!(Atoms::parse(&"9".repeat(78)), Err(MoneyError::Overflow));
        assert_eq!(Atoms::parse(&"9".repeat(79)), Err(MoneyError::Format));
        assert_eq!(Usd::parse("0.1234567"), Err(MoneyError::TooFine));
        assert_eq!(Usd::parse("18446744073709.551616"), Err(MoneyError::Overflow));
        assert_eq!(Bps::parse_percent("100"), Ok(Bps(10_000)));
        assert_eq!(Bps::parse_percent("100.01"), Err(MoneyError::Overflow));
    }

    #[test]
    fn only_tokens_with_few_decimals_keep_trailing_zeros() {
        for (atoms, decimals, whole, plain, column) in [
            (250_000, 6, "0.250000", "0.25", "0.250000"),
            (3_000_000, 6, "3.000000", "3", "3.000000"),
            (2_500_000, 7, "0.2500000", "0.25", "0.25"),
            (10, 0, "10", "10", "10"),
        ] {
            let amount = TokenAmount { atoms: Atoms(U256::from(atoms)), decimals };
            assert_eq!(amount.to_string(), whole);
            assert_eq!(
                (amount.plain().as_str(), amount.to_column_text().as_str()),
                (plain, column)
            );
        }
    }

    #[test]
    fn conversion_to_dollars_rounds_as_requested() {
        let wei = Atoms(U256::from(1_000_000_000_001u64));
        assert_eq!(wei.to_usd(18, Round::Up), Ok(Usd(2)));
        assert_eq!(wei.to_usd(18, Round::Down), Ok(Usd(1)));
        assert_eq!(Atoms(U256::from(25)).to_usd(2, Round::Up), Ok(Usd(250_000)));
        assert_eq!(Atoms(U256::MAX).to_usd(6, Round::Down), Err(MoneyError::Overflow));
    }

    #[test]
    fn t_15_sums_at_the_edge_are_errors() {
        assert_eq!(Usd(u64::MAX).checked_add(Usd(1)), Err(MoneyError::Overflow));
        assert_eq!(Usd(1).checked_sub(Usd(2)), Err(MoneyError::Overflow));
        assert_eq!(Usd(1).left_after(Usd(2)), Usd::ZERO);
        assert_eq!(Usd(5).left_after(Usd(2)), Usd(3));
    }

    proptest! {
        #[test]
        fn t_15_a_formatted_amount_parses_to_itself(micros: u64, wei: u128, bps in 0u16..=10_000) {
            prop_assert_eq!(Usd::parse(&Usd(micros).to_string()), Ok(Usd(micros)));
            prop_assert_eq!(Wei::parse_coins(&Wei(wei).as_coins()), Ok(Wei(wei)));
            let percent = Bps(bps).to_string();
            prop_assert_eq!(Bps::parse_percent(percent.trim_end_matches('%')), Ok(Bps(bps)));
        }

        #[test]
        fn t_15_formatted_atoms_parse_to_themselves(words: [u64; 4]) {
            let atoms = Atoms(U256::from_limbs(words));
            prop_assert_eq!(Atoms::parse(&atoms.to_string()), Ok(atoms));
        }
    }
}
