//! Owns the secrets of a wallet and their encoding inside the sealed payload. Every buffer has its full size from the
//! start and is wiped, because a buffer that grows would leave a copy behind.

use std::collections::BTreeMap;
use std::fmt;

use bursar_core::ids::{AgentId, SeedId};
use secrecy::{ExposeSecret, SecretBox};
use zeroize::Zeroizing;

use crate::vault::seed::Seed;

/// The shared secret of an agent in `hmac` mode, or a retired seal key.
pub type AgentSecret = SecretBox<[u8; 32]>;

/// The newest head of the journal that the wallet file records.
///
/// A journal that does not contain this entry was replaced, for example by an older copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalNote {
    pub seq: u64,
    pub head: [u8; 32],
}

/// The error that a seed with this id exists.
///
/// A seed is never overwritten, because its addresses would be lost with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the wallet already has a seed {0}")]
pub struct SeedIdTaken(pub SeedId);

/// Everything that the password protects.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) seeds: BTreeMap<SeedId, Seed>,
    pub(super) agents: BTreeMap<AgentId, AgentSecret>,
    pub(super) note: Option<JournalNote>,
    /// Seal keys of earlier passwords; the journal's last seal may still be under one of them.
    pub(super) retired_seal_keys: Vec<SecretBox<[u8; 32]>>,
}

impl Contents {
    /// Encodes the contents. Returns `None` if a count exceeds its field, which happens only far beyond the
    /// maximum size of a file.
    pub(super) fn encode(&self) -> Option<Zeroizing<Vec<u8>>> {
        let mut out = Zeroizing::new(Vec::with_capacity(self.encoded_len()));
        out.extend(encode_count(self.seeds.len())?);
        for (id, seed) in &self.seeds {
            let entropy = seed.expose_entropy();
            out.extend(id.0.to_be_bytes());
            out.push(u8::try_from(entropy.len()).ok()?);
            out.extend_from_slice(entropy);
        }
        out.extend(encode_count(self.agents.len())?);
        for (id, secret) in &self.agents {
            out.extend_from_slice(id.as_str().as_bytes());
            out.extend_from_slice(secret.expose_secret());
        }
        out.push(u8::from(self.note.is_some()));
        if let Some(note) = &self.note {
            out.extend(note.seq.to_be_bytes());
            out.extend_from_slice(&note.head);
        }
        out.extend(encode_count(self.retired_seal_keys.len())?);
        for key in &self.retired_seal_keys {
            out.extend_from_slice(key.expose_secret());
        }
        Some(out)
    }

    /// Decodes the contents. Returns `None` for bytes that [`Self::encode`] does not write.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let mut contents = Self::default();
        for _ in 0..rest.count()? {
            let id = SeedId(u16::from_be_bytes(*rest.array()?));
            let [length] = *rest.array()?;
            let seed = Seed::from_entropy(rest.bytes(length.into())?).ok()?;
            if contents.seeds.insert(id, seed).is_some() {
                return None;
            }
        }
        for _ in 0..rest.count()? {
            let id = std::str::from_utf8(rest.array::<6>()?).ok()?.parse().ok()?;
            if contents.agents.insert(id, box_secret(rest.array()?)).is_some() {
                return None;
            }
        }
        contents.note = match rest.array()? {
            [0] => None,
            [1] => {
                let seq = u64::from_be_bytes(*rest.array()?);
                Some(JournalNote { seq, head: *rest.array()? })
            }
            _ => return None,
        };
        for _ in 0..rest.count()? {
            contents.retired_seal_keys.push(box_secret(rest.array()?));
        }
        rest.0.is_empty().then_some(contents)
    }

    fn encoded_len(&self) -> usize {
        let seeds: usize = self.seeds.values().map(|seed| 3 + seed.expose_entropy().len()).sum();
        let agents = self.agents.len() * (6 + 32);
        let note = if self.note.is_some() { 1 + 8 + 32 } else { 1 };
        4 + seeds + 4 + agents + note + 4 + self.retired_seal_keys.len() * 32
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents")
            .field("seeds", &self.seeds.len())
            .field("agents", &self.agents.len())
            .field("note", &self.note)
            .finish_non_exhaustive()
    }
}

/// Copies a secret directly into its own heap allocation: a growing map moves its values, but not the contents of
/// boxes.
pub fn box_secret(secret: &[u8; 32]) -> SecretBox<[u8; 32]> {
    SecretBox::init_with_mut(|kept: &mut [u8; 32]| kept.copy_from_slice(secret))
}

fn encode_count(entries: usize) -> Option<[u8; 4]> {
    u32::try_from(entries).ok().map(u32::to_be_bytes)
}

/// The bytes that remain to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn count(&mut self) -> Option<u32> {
        self.array().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn any_contents() -> impl Strategy<Value = Contents> {
        let entropy = (4..=8usize).prop_flat_map(|words| vec(any::<u8>(), words * 4));
        let agent = any::<[u8; 8]>().prop_map(AgentId::from_entropy);
        let note = any::<Option<(u64, [u8; 32])>>();
        (
            btree_map(any::<u16>(), entropy, 0..5),
            btree_map(agent, any::<[u8; 32]>(), 0..5),
            note,
            vec(any::<[u8; 32]>(), 0..3),
        )
            .prop_map(|(seeds, agents, note, retired)| Contents {
                seeds: seeds
                    .into_iter()
                    .map(|(id, entropy)| (SeedId(id), Seed::from_entropy(&entropy).unwrap()))
                    .collect(),
                agents: agents.into_iter().map(|(id, key)| (id, box_secret(&key))).collect(),
                note: note.map(|(seq, head)| JournalNote { seq, head }),
                retired_seal_keys: retired.iter().map(box_secret).collect(),
            })
    }

    proptest! {
        #[test]
        fn contents_round_trip_and_fit_the_preallocated_buffer(contents in any_contents()) {
            let bytes = contents.encode().unwrap();
            prop_assert_eq!(bytes.len(), contents.encoded_len());
            prop_assert_eq!(bytes.capacity(), contents.encoded_len());
            let read = Contents::decode(&bytes).unwrap();
            prop_assert_eq!(read.encode().unwrap(), bytes.clone());
            prop_assert_eq!(read.note, contents.note);
            for cut in 0..bytes.len() {
                prop_assert!(Contents::decode(&bytes[..cut]).is_none());
            }
            let mut longer = bytes.to_vec();
            longer.push(0);
            prop_assert!(Contents::decode(&longer).is_none());
        }

        #[test]
        fn decoding_arbitrary_wallet_contents_never_panics(bytes in vec(any::<u8>(), 0..200)) {
            if let Some(read) = Contents::decode(&bytes) {
                prop_assert!(read.encode().is_some());
            }
        }
    }

    #[test]
    fn a_duplicate_id_in_wallet_contents_is_rejected() {
        let mut contents = Contents::default();
        let id: AgentId = "ABC123".parse().unwrap();
        contents.agents.insert(id, box_secret(&[5; 32]));
        let once = contents.encode().unwrap();
        let agent = &once[8..8 + 38];
        let twice = [&[0, 0, 0, 0, 0, 0, 0, 2][..], agent, agent, &[0, 0, 0, 0, 0]].concat();
        assert!(Contents::decode(&once).is_some());
        assert!(Contents::decode(&twice).is_none());
    }
}
