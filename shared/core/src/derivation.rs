//! Derivation paths (BIP-32) and the layouts of addresses (specification, "Address"). Derives no key.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// The bit that marks a hardened step.
const HARDENED: u32 = 1 << 31;

/// The pattern of the derivation paths of a seed or a hardware device.
///
/// Seeds of the wallet use [`Layout::Bip44`]; a hardware device may use any layout. With the same seed, layout and
/// index, both derive the same address. Journal entries contain the position of a variant, so new variants are
/// appended.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Layout {
    /// `m/44'/60'/x'/0/0`
    Live,
    /// `m/44'/60'/0'/0/x`
    Bip44,
    /// `m/44'/60'/0'/x`
    Legacy,
    /// A template that the operator entered.
    Custom,
}

impl Layout {
    /// Returns the name of the layout in commands.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the template of the layout; `None` if the operator must enter it.
    pub fn template(self) -> Option<Template> {
        match self {
            Self::Live => Some(Template(Cow::Borrowed("m/44'/60'/{}'/0/0"))),
            Self::Bip44 => Some(Template::SEEDS),
            Self::Legacy => Some(Template(Cow::Borrowed("m/44'/60'/0'/{}"))),
            Self::Custom => None,
        }
    }
}

/// A derivation path with [`Template::INDEX`] in place of one number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Cow<'static, str>);

impl Template {
    /// The template of addresses that are derived from a seed of the wallet.
    pub const SEEDS: Self = Self(Cow::Borrowed("m/44'/60'/0'/0/{}"));

    /// Stands for the index.
    pub const INDEX: &'static str = "{}";

    /// Returns the path of the address with this index.
    ///
    /// # Errors
    /// The index is above 2^31 - 1, where indexes are hardened.
    pub fn path(&self, index: u32) -> Result<DerivationPath, PathError> {
        DerivationPath::parse(&self.0.replace(Self::INDEX, &index.to_string()))
    }
}

impl FromStr for Template {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let is_index = |step: &&str| step.strip_suffix('\'').unwrap_or(step) == Self::INDEX;
        let whole_steps = text.split('/').filter(is_index).count();
        if whole_steps != 1 || text.matches(Self::INDEX).count() != 1 {
            return Err(PathError::NoIndex);
        }
        let template = Self(Cow::Owned(text.to_owned()));
        template.path(0)?;
        Ok(template)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a valid derivation path or template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("a derivation path begins with m, as in m/44'/60'/0'/0/0")]
    NoRoot,
    #[error("step {0} of the path must be a number, followed by ' if it is hardened")]
    BadStep(usize),
    #[error("an index is at most 2147483647")]
    IndexTooLarge,
    #[error("a derivation path has at most 255 steps")]
    TooDeep,
    #[error("a template contains {{}} once, in place of a whole step, as in m/44'/60'/0'/0/{{}}")]
    NoIndex,
}

/// A BIP-32 path in its only written form.
///
/// The form is `m`, then `/` and a decimal number for each step, and `'` if the step is hardened. Numbers have no sign
/// and no leading zeros. The marks `h` and `H` are rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivationPath(Vec<u32>);

impl DerivationPath {
    /// Parses a path.
    ///
    /// `m` alone is valid: it is the path of the root key.
    ///
    /// # Errors
    /// The text is not in the written form, an index is above 2^31 - 1, or there are more than 255 steps.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut parts = text.split('/');
        if parts.next() != Some("m") {
            return Err(PathError::NoRoot);
        }
        let mut steps = Vec::new();
        for (number, part) in (1..).zip(parts) {
            if number > usize::from(u8::MAX) {
                return Err(PathError::TooDeep);
            }
            steps.push(parse_step(number, part)?);
        }
        Ok(Self(steps))
    }

    /// Returns the steps as BIP-32 numbers, with the highest bit set on hardened steps: the form that a device
    /// receives.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

impl FromStr for DerivationPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl fmt::Display for DerivationPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("m")?;
        for step in &self.0 {
            let mark = if step & HARDENED == 0 { "" } else { "'" };
            write!(f, "/{}{mark}", step & !HARDENED)?;
        }
        Ok(())
    }
}

fn parse_step(number: usize, part: &str) -> Result<u32, PathError> {
    let (digits, mark) = match part.strip_suffix('\'') {
        Some(digits) => (digits, HARDENED),
        None => (part, 0),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !plain || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(PathError::BadStep(number));
    }
    // There are only digits, so parsing fails only if the number is too large.
    let index: u32 = digits.parse().map_err(|_overflow| PathError::IndexTooLarge)?;
    if index < HARDENED { Ok(index | mark) } else { Err(PathError::IndexTooLarge) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardened_steps_have_the_highest_bit_set() {
        let path = DerivationPath::parse("m/44'/60'/0'/0/5").unwrap();
        let steps: Vec<u32> = path.steps().collect();
        assert_eq!(steps, [0x8000_002c, 0x8000_003c, 0x8000_0000, 0, 5]);
        assert_eq!(DerivationPath::parse("m").unwrap().steps().count(), 0);
    }

    #[test]
    fn a_path_has_one_written_form() {
        for text in ["m", "m/0", "m/44'/60'/0'/0/7", "m/2147483647'/2147483647"] {
            assert_eq!(DerivationPath::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "m/", "m/00", "m/01'", "m/44h", "m/44H", "m/'", "m/1 ", " m/1", "m/1/m"] {
            assert!(DerivationPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_is_at_most_255_steps_deep() {
        let deep = |steps: usize| DerivationPath::parse(&format!("m{}", "/0".repeat(steps)));
        assert!(deep(255).is_ok());
        assert_eq!(deep(256), Err(PathError::TooDeep));
    }

    #[test]
    fn an_index_in_the_hardened_range_is_rejected() {
        for template in Layout::VARIANTS.iter().filter_map(|layout| layout.template()) {
            assert!(template.path(2_147_483_647).is_ok());
            assert_eq!(template.path(2_147_483_648), Err(PathError::IndexTooLarge));
        }
    }

    #[test]
    fn layouts_have_the_paths_of_the_specification() {
        for (layout, path) in [
            ("live", "m/44'/60'/5'/0/0"),
            ("bip44", "m/44'/60'/0'/0/5"),
            ("legacy", "m/44'/60'/0'/5"),
        ] {
            let layout: Layout = layout.parse().unwrap();
            assert_eq!(layout.template().unwrap().path(5).unwrap().to_string(), path);
        }
        assert_eq!("custom".parse(), Ok(Layout::Custom));
        assert_eq!(Layout::Custom.template(), None);
        assert_eq!(Template::SEEDS.path(5).unwrap().to_string(), "m/44'/60'/0'/0/5");
    }

    #[test]
    fn a_template_contains_the_index_once() {
        let template: Template = "m/44'/60'/3'/1/{}".parse().unwrap();
        assert_eq!(template.path(9).unwrap().to_string(), "m/44'/60'/3'/1/9");
        for (text, error) in [
            ("m/44'/60'/0'", PathError::NoIndex),
            ("m/{}/{}", PathError::NoIndex),
            ("44'/{}", PathError::NoRoot),
            ("m/1{}/0", PathError::NoIndex),
            ("m/{}/x", PathError::BadStep(2)),
        ] {
            assert_eq!(text.parse::<Template>(), Err(error), "{text}");
        }
    }
}
