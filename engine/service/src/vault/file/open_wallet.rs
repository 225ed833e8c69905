//! Owns an open wallet: its secrets, the key that seals them, and its saves. A change is certain to be on disk only
//! after [`OpenWallet::save`] has returned without an error.

use std::collections::BTreeMap;
use std::fmt;

use bursar_core::ids::{AgentId, SeedId};
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::contents::{AgentSecret, Contents, JournalNote, SeedIdTaken, box_secret};
use super::disk::MAX_FILE_BYTES;
use super::error::WalletFileError;
use super::format::WalletText;
use super::keys::{Keys, WalletIdentity, random};
use super::save::WalletCopies;
use crate::vault::kdf::{KdfBounds, KdfParams};
use crate::vault::seed::Seed;

/// The decrypted contents of a wallet file.
///
/// All secrets are wiped on drop.
pub struct OpenWallet {
    copies: WalletCopies,
    bounds: KdfBounds,
    keys: Keys,
    contents: Contents,
    /// Each attempt to save raises it, so that a save that failed half-way and the next one have different numbers.
    generation: u64,
    /// The bytes of the last good save. The next save writes them as the previous copy. The current file is not
    /// copied: if the wallet was opened from the previous copy, the current file may be damaged.
    saved_bytes: Vec<u8>,
}

impl OpenWallet {
    pub(super) fn create(
        copies: WalletCopies,
        bounds: KdfBounds,
        password: &SecretString,
        kdf: KdfParams,
    ) -> Result<Self, WalletFileError> {
        let file = copies.current();
        let mut wallet_id = [0; 16];
        random(&file, &mut wallet_id)?;
        let owner = WalletIdentity { wallet_id, name: copies.name().to_owned() };
        let keys = Keys::make(&file, owner, password, kdf, &bounds)?;
        let contents = Contents::default();
        let saved = keys.seal(&file, 1, &contents)?.render();
        copies.put_current(&saved)?;
        Ok(Self { copies, bounds, keys, contents, generation: 1, saved_bytes: saved })
    }

    pub(super) fn of(
        copies: WalletCopies,
        bounds: KdfBounds,
        keys: Keys,
        contents: Contents,
        text: &WalletText,
    ) -> Self {
        Self {
            copies,
            bounds,
            keys,
            contents,
            generation: text.generation,
            saved_bytes: text.render(),
        }
    }

    /// Returns the name that the wallet was created with.
    pub fn name(&self) -> &str {
        self.copies.name()
    }

    /// Returns the random id of the wallet, which does not depend on its name.
    pub fn wallet_id(&self) -> [u8; 16] {
        self.keys.lock().wallet_id
    }

    /// Returns the number of the last save, or of the last attempt if that failed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the seeds by their ids.
    pub fn seeds(&self) -> &BTreeMap<SeedId, Seed> {
        &self.contents.seeds
    }

    /// Adds a seed in memory.
    ///
    /// # Errors
    /// The id is taken.
    pub fn add_seed(&mut self, id: SeedId, seed: Seed) -> Result<(), SeedIdTaken> {
        if self.contents.seeds.contains_key(&id) {
            return Err(SeedIdTaken(id));
        }
        self.contents.seeds.insert(id, seed);
        Ok(())
    }

    /// Returns the shared secret of an agent.
    pub fn agent_secret(&self, id: &AgentId) -> Option<&AgentSecret> {
        self.contents.agents.get(id)
    }

    /// Sets the shared secret of an agent, and replaces an earlier one.
    pub fn set_agent_secret(&mut self, id: AgentId, secret: &[u8; 32]) {
        self.contents.agents.insert(id, box_secret(secret));
    }

    /// Removes the secret of an agent, and returns whether there was one.
    pub fn remove_agent_secret(&mut self, id: &AgentId) -> bool {
        self.contents.agents.remove(id).is_some()
    }

    /// Returns the journal's head that the contents record.
    pub fn journal_note(&self) -> Option<JournalNote> {
        self.contents.note
    }

    /// Records the journal's head, for the next save.
    pub fn set_journal_note(&mut self, note: JournalNote) {
        self.contents.note = Some(note);
    }

    /// Drops the seeds and secrets that the two predicates reject, and returns whether it dropped any.
    pub fn retain(
        &mut self,
        mut seed: impl FnMut(SeedId) -> bool,
        mut agent: impl FnMut(&AgentId) -> bool,
    ) -> bool {
        let before = (self.contents.seeds.len(), self.contents.agents.len());
        self.contents.seeds.retain(|id, _secret| seed(*id));
        self.contents.agents.retain(|id, _secret| agent(id));
        before != (self.contents.seeds.len(), self.contents.agents.len())
    }

    /// Returns the key of the journal's seals: HMAC-SHA256 under the master key.
    ///
    /// A change of the password changes it.
    pub fn seal_key(&self) -> Zeroizing<[u8; 32]> {
        self.keys.seal_key()
    }

    /// Returns the bytes of the last good save, and the key of a backup that contains them.
    pub fn for_backup(&self, salt: &[u8; 32]) -> (Vec<u8>, Zeroizing<[u8; 32]>) {
        (self.saved_bytes.clone(), self.keys.backup_key(salt))
    }

    /// Returns the agents with their secrets.
    pub fn agents(&self) -> impl Iterator<Item = (&AgentId, &AgentSecret)> {
        self.contents.agents.iter()
    }

    /// Returns the seal keys of earlier passwords.
    ///
    /// After a crash between a password change and the journal's first seal under the new key, the last seal uses one
    /// of them.
    pub fn retired_seal_keys(&self) -> &[AgentSecret] {
        &self.contents.retired_seal_keys
    }

    /// Drops the seal keys of earlier passwords.
    ///
    /// Call it when the journal's head is sealed under [`Self::seal_key`], then save. Otherwise an old password and an
    /// old copy of the file would suffice to seal a journal.
    pub fn forget_retired_seal_keys(&mut self) {
        self.contents.retired_seal_keys.clear();
    }

    /// Checks a password that the operator enters again.
    ///
    /// It costs as much as opening the wallet.
    ///
    /// # Errors
    /// The password is wrong, or the key cannot be derived.
    pub fn verify_password(&self, password: &SecretString) -> Result<(), WalletFileError> {
        let file = self.copies.current();
        let again = Keys::unlock(&file, self.keys.lock(), password, &self.bounds)?;
        if again.is_same_key(&self.keys) {
            Ok(())
        } else {
            Err(WalletFileError::WrongPassword { file })
        }
    }

    /// Writes the contents as the current save and keeps the save before as the previous copy.
    ///
    /// # Errors
    /// The disk holds the old or the new save; the caller may try again.
    pub fn save(&mut self) -> Result<(), WalletFileError> {
        self.begin_generation();
        let text = self.seal_under(&self.keys)?;
        self.copies.put_both(&text, &self.saved_bytes)?;
        self.saved_bytes = text;
        Ok(())
    }

    /// Seals everything under a new password, salt and master key.
    ///
    /// Every copy under the old password is removed before it returns.
    ///
    /// # Errors
    /// The wallet in memory keeps the old password, and the disk may hold copies under the old or the new password.
    /// Opening with the old password undoes the change; opening with the new password completes it.
    pub fn change_password(
        &mut self,
        new: &SecretString,
        kdf: KdfParams,
    ) -> Result<(), WalletFileError> {
        let file = self.copies.current();
        let lock = self.keys.lock();
        // Create a new master key too: an attacker with the old password and an old copy has the old key.
        let owner = WalletIdentity { wallet_id: lock.wallet_id, name: lock.name.clone() };
        let keys = Keys::make(&file, owner, new, kdf, &self.bounds)?;
        self.contents.retired_seal_keys.push(box_secret(&self.keys.seal_key()));
        self.begin_generation();
        let changed = self.seal_under(&keys).and_then(|text| {
            // Writes both copies, so that the old password also opens the wallet until the change is complete.
            self.copies.put_both(&text, &self.saved_bytes)?;
            self.copies.remove_temporaries()?;
            self.copies.remove_previous()?;
            Ok(text)
        });
        match changed {
            Ok(text) => {
                self.keys = keys;
                self.saved_bytes = text;
                Ok(())
            }
            Err(failure) => {
                self.contents.retired_seal_keys.pop();
                Err(failure)
            }
        }
    }

    fn begin_generation(&mut self) {
        // 2^64 saves cannot happen, and an edited number does not authenticate.
        self.generation = self.generation.saturating_add(1);
    }

    fn seal_under(&self, keys: &Keys) -> Result<Vec<u8>, WalletFileError> {
        let file = self.copies.current();
        let text = keys.seal(&file, self.generation, &self.contents)?.render();
        // A file too large to be read back must not be written.
        if text.len() > MAX_FILE_BYTES {
            return Err(WalletFileError::TooLarge { file });
        }
        Ok(text)
    }
}

impl fmt::Debug for OpenWallet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenWallet")
            .field("name", &self.name())
            .field("generation", &self.generation)
            .field("contents", &self.contents)
            .finish_non_exhaustive()
    }
}
