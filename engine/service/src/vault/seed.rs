//! Owns seed phrases (BIP-39, English). Stores only the entropy: the words are written on demand and wiped.
//! Never generates entropy.

use std::fmt;

use bip39::{Language, Mnemonic};
use secrecy::{ExposeSecret, ExposeSecretMut, SecretBox, SecretSlice, SecretString};
use zeroize::{Zeroizing, zeroize_stack};

/// Stack bytes to wipe: bip39 keeps word numbers, bits and PBKDF2 state there. Covers debug builds too.
const STACK_BYTES: usize = 32 * 1024;

/// The length of a new phrase.
///
/// An imported phrase may also have 15, 18 or 21 words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordCount {
    Twelve,
    TwentyFour,
}

/// Why a phrase is invalid.
///
/// The texts never repeat a word: a word with a typing error is still a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SeedError {
    #[error("a seed phrase has 12, 15, 18, 21 or 24 words, this has {0}")]
    WordCount(usize),
    #[error("word {0} is not in the English BIP-39 list: check its spelling")]
    UnknownWord(usize),
    #[error("the checksum of the words is wrong: check their spelling and order")]
    Checksum,
    #[error("a seed has 16, 20, 24, 28 or 32 bytes of entropy, this has {0}")]
    EntropySize(usize),
}

/// A seed phrase, stored as its entropy.
///
/// It is wiped on drop, has no `Clone`, and its `Debug` is redacted.
pub struct Seed {
    entropy: SecretSlice<u8>,
}

impl Seed {
    /// Creates a seed from random bytes, which the caller takes from the system.
    pub fn generate(words: WordCount, entropy: &[u8; 32]) -> Self {
        let (half, _rest) = entropy.split_at(16);
        let taken = match words {
            WordCount::Twelve => half,
            WordCount::TwentyFour => entropy.as_slice(),
        };
        Self { entropy: taken.to_vec().into() }
    }

    /// Restores a stored seed.
    ///
    /// # Errors
    /// The entropy does not have 16, 20, 24, 28 or 32 bytes.
    pub fn from_entropy(entropy: &[u8]) -> Result<Self, SeedError> {
        match entropy.len() {
            16 | 20 | 24 | 28 | 32 => Ok(Self { entropy: entropy.to_vec().into() }),
            other => Err(SeedError::EntropySize(other)),
        }
    }

    /// Parses the words as a person types them: surrounding white space, repeated blanks, tabs, line ends and
    /// capital letters do not matter.
    ///
    /// # Errors
    /// The number of words, a word or the checksum is wrong.
    pub fn from_phrase(phrase: &SecretString) -> Result<Self, SeedError> {
        let normal = normalise(phrase.expose_secret());
        let seed = parse(&normal);
        zeroize_stack::<STACK_BYTES>();
        seed
    }

    /// Returns the words, separated by one blank.
    ///
    /// It is only for `seed create`, and for `seed words` after the password.
    ///
    /// # Errors
    /// The entropy has an invalid size, which the constructors exclude.
    pub fn phrase(&self) -> Result<Zeroizing<String>, SeedError> {
        let phrase = write_words(self.entropy.expose_secret());
        zeroize_stack::<STACK_BYTES>();
        phrase
    }

    /// Returns the 64 bytes from which keys are derived: PBKDF2 over the words and the passphrase.
    ///
    /// BIP-39 calls these bytes the seed. The 2048 rounds cost milliseconds, so callers should derive all keys from
    /// one result.
    ///
    /// # Errors
    /// The entropy has an invalid size, which the constructors exclude.
    pub fn bip39_seed(&self, passphrase: &SecretString) -> Result<SecretBox<[u8; 64]>, SeedError> {
        // Keep the bytes on the heap: moving an array would leave copies of it on the stack.
        let mut bytes = SecretBox::new(Box::new([0; 64]));
        let filled =
            derive_bip39_seed(self.entropy.expose_secret(), passphrase, bytes.expose_secret_mut());
        zeroize_stack::<STACK_BYTES>();
        filled.map(|()| bytes)
    }

    /// Returns the number of words of the phrase.
    pub fn word_count(&self) -> usize {
        // BIP-39 encodes 11 bits per word, and 32 of 33 bits are entropy: four bytes make three words.
        self.entropy.expose_secret().len() / 4 * 3
    }

    /// Returns the entropy for the wallet file, which seals it.
    pub fn expose_entropy(&self) -> &[u8] {
        self.entropy.expose_secret()
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed([redacted])")
    }
}

/// Normalises a phrase. The result is never longer than the input, so the buffer does not grow and leave words
/// behind.
fn normalise(phrase: &str) -> Zeroizing<String> {
    let mut normal = Zeroizing::new(String::with_capacity(phrase.len()));
    for word in phrase.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.extend(word.chars().map(|letter| letter.to_ascii_lowercase()));
    }
    normal
}

// The next three functions are not inlined, so that their stack frames lie below the caller's, where `zeroize_stack`
// wipes them.

#[inline(never)]
fn parse(normal: &str) -> Result<Seed, SeedError> {
    let mnemonic = Mnemonic::parse_in_normalized(Language::English, normal).map_err(refusal)?;
    let (bytes, length) = mnemonic.to_entropy_array();
    let bytes = Zeroizing::new(bytes);
    Seed::from_entropy(bytes.get(..length).unwrap_or_default())
}

#[inline(never)]
fn write_words(entropy: &[u8]) -> Result<Zeroizing<String>, SeedError> {
    let mnemonic = mnemonic(entropy)?;
    // The longest English word has 8 letters, and a phrase has at most 24 words.
    let mut phrase = Zeroizing::new(String::with_capacity(24 * 9));
    for word in mnemonic.words() {
        if !phrase.is_empty() {
            phrase.push(' ');
        }
        phrase.push_str(word);
    }
    Ok(phrase)
}

#[inline(never)]
fn derive_bip39_seed(
    entropy: &[u8],
    passphrase: &SecretString,
    bytes: &mut [u8; 64],
) -> Result<(), SeedError> {
    let seed = Zeroizing::new(mnemonic(entropy)?.to_seed(passphrase.expose_secret()));
    bytes.copy_from_slice(seed.as_slice());
    Ok(())
}

fn mnemonic(entropy: &[u8]) -> Result<Mnemonic, SeedError> {
    Mnemonic::from_entropy_in(Language::English, entropy).map_err(refusal)
}

fn refusal(error: bip39::Error) -> SeedError {
    match error {
        bip39::Error::BadWordCount(words) => SeedError::WordCount(words),
        bip39::Error::UnknownWord(index) => SeedError::UnknownWord(index.saturating_add(1)),
        bip39::Error::BadEntropyBitCount(bits) => SeedError::EntropySize(bits / 8),
        // Only English is compiled in, so a phrase cannot be ambiguous.
        bip39::Error::InvalidChecksum | bip39::Error::AmbiguousLanguages(_) => SeedError::Checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_phrase_has_the_requested_length_and_parses() {
        for (words, count) in [(WordCount::Twelve, 12), (WordCount::TwentyFour, 24)] {
            let seed = Seed::generate(words, &std::array::from_fn(|i| u8::try_from(i).unwrap()));
            let phrase = seed.phrase().unwrap();
            assert_eq!((phrase.split(' ').count(), seed.word_count()), (count, count));
            let read = Seed::from_phrase(&SecretString::from(phrase.as_str())).unwrap();
            assert_eq!(read.expose_entropy(), seed.expose_entropy());
        }
    }

    #[test]
    fn seed_words_fit_the_preallocated_buffer() {
        let longest = Language::English.word_list().iter().map(|word| word.len()).max();
        assert_eq!(longest, Some(8));
        assert_eq!(normalise("  ZOO\u{3000}zoo\n").as_str(), "zoo zoo");
    }

    #[test]
    fn a_refusal_points_at_the_word_without_repeating_it() {
        let phrase = SecretString::from(format!("{}secretish", "abandon ".repeat(11)));
        let refusal = Seed::from_phrase(&phrase).unwrap_err();
        assert_eq!(refusal, SeedError::UnknownWord(12));
        assert!(!refusal.to_string().contains("secretish"));
        assert_eq!(
            format!("{:?}", Seed::generate(WordCount::Twelve, &[9; 32])),
            "Seed([redacted])"
        );
    }
}
