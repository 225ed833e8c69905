//! Holds the wallet's keys: encrypted in the wallet file, and in memory only while the wallet is open. The
//! vault signs only the digest of a slip. No other module names a private key; `address export` receives its text.

pub(crate) mod credential;
pub mod derive;
pub mod file;
pub mod gate;
pub mod kdf;
pub mod sealed;
pub mod seed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::Address;
use bursar_chain::ports::BoxFuture;
use bursar_core::auth::AuthMode;
use bursar_core::codes::Code;
use bursar_core::derivation::{DerivationPath, PathError, Template};
use bursar_core::fault::Fault;
use bursar_core::ids::{AgentId, Name, SeedId};
use bursar_domain::State;
use bursar_domain::agents::Credential;
use bursar_domain::command::RecoveredWallet;
use bursar_domain::wallets::{Backing, Wallet};
use bursar_x402::signature::Signature65;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use zeroize::Zeroizing;

use crate::journal::{Head, Slip, Terms};
use crate::ports::{SignFault, Signer};
use credential::agent_check;
use derive::PrivateKey;
use file::{
    AgentSecret, Fallback, JournalNote, OpenWallet, OpenedFrom, WalletFileError, WalletFiles,
};
use gate::{Gate, Keyring};
use kdf::KdfParams;
use seed::Seed;

/// Holds the only wallet of a data folder.
///
/// Its slow methods (key derivation, files) belong on a blocking thread.
#[derive(Debug)]
pub struct Vault {
    files: WalletFiles,
    kdf: KdfParams,
    gate: Arc<Gate>,
    // A mutex instead of an owning task: changes of the wallet file are rare, serialised, and block on the disk.
    open_wallet: Mutex<Option<OpenWallet>>,
}

/// A key that seals the journal.
pub type SealKey = Zeroizing<[u8; 32]>;

/// The result of opening a wallet file, for the check of the journal and for the operator.
pub struct PendingUnlock {
    /// The current key of the journal's seals, then those of earlier passwords while the journal may still end
    /// with one of their seals.
    pub seal_keys: Vec<SealKey>,
    /// The journal's head that the file last recorded.
    pub note: Option<Head>,
    /// Why the previous save was opened, if it was; the operator must see this.
    pub fallback: Option<Fallback>,
}

/// The result of opening the gate.
#[derive(Debug, Default)]
pub struct UnlockReport {
    /// Messages for the operator.
    pub warnings: Vec<String>,
    /// The number of the journal entry that the wallet file now names; `None` if it still names an older one.
    pub noted_entry: Option<u64>,
}

impl std::fmt::Debug for PendingUnlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("note", &self.note).finish_non_exhaustive()
    }
}

impl Vault {
    /// Creates a vault without an open wallet.
    pub fn new(files: WalletFiles, kdf: KdfParams, gate: Arc<Gate>) -> Self {
        Self { files, kdf, gate, open_wallet: Mutex::new(None) }
    }

    /// Whether the keys are in memory.
    pub fn is_unlocked(&self) -> bool {
        self.gate.is_unlocked()
    }

    /// Returns the gate, which the core and the agent server share.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    fn lock_open_wallet(&self) -> MutexGuard<'_, Option<OpenWallet>> {
        self.open_wallet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the wallet file and returns the id that the journal records; [`Vault::admit`] then allows signatures.
    ///
    /// # Errors
    /// `WALLET_EXISTS`, `BAD_INPUT` if the name cannot be a file name, `DATA_FOLDER` if the disk fails.
    pub fn create(&self, name: &Name, password: &SecretString) -> Result<[u8; 16], Fault> {
        let wallet = self.files.create(name, password, self.kdf).map_err(fault)?;
        let id = wallet.wallet_id();
        *self.lock_open_wallet() = Some(wallet);
        Ok(id)
    }

    /// Locks the vault and deletes the files of a wallet that the journal does not name, or no longer names.
    ///
    /// # Errors
    /// The file does not exist or cannot be removed.
    pub fn discard(&self, name: &Name) -> Result<(), Fault> {
        self.lock();
        self.files.delete(name).map_err(fault)
    }

    /// Opens the file of the wallet that the journal names.
    ///
    /// The gate stays closed: the caller must first check the journal with the returned keys.
    ///
    /// # Errors
    /// The password is wrong, or the file is missing, damaged or belongs to another wallet.
    pub fn prepare(&self, known: &Wallet, password: &SecretString) -> Result<PendingUnlock, Fault> {
        let (wallet, from) = self.files.open(&known.name, password).map_err(fault)?;
        if wallet.wallet_id() != known.wallet_id {
            return Err(Fault::because(
                Code::WalletDamaged,
                format!(
                    "{} does not belong to this journal: restore the right wallet file.",
                    self.files.file(&known.name).display()
                ),
            ));
        }
        let prepared = PendingUnlock {
            seal_keys: seal_keys(&wallet),
            note: journal_note(&wallet),
            fallback: match from {
                OpenedFrom::Current => None,
                OpenedFrom::Previous { why } => Some(why),
            },
        };
        *self.lock_open_wallet() = Some(wallet);
        Ok(prepared)
    }

    /// Derives the keys that `state` names and opens the gate.
    ///
    /// `sealed` is the journal's head if the journal matches the wallet. Only in that case the vault drops the seeds
    /// and secrets that no event names, because an older journal does not name newer ones.
    ///
    /// # Errors
    /// `WALLET_LOCKED` if no wallet file is open, `BAD_INPUT` if the state contains an invalid derivation path.
    pub fn admit(&self, state: &State, sealed: Option<Head>) -> Result<UnlockReport, Fault> {
        self.with(|wallet| {
            let (mut warnings, mut noted) = (Vec::new(), None);
            if let Some(head) = sealed {
                let known = state.wallet.as_ref();
                wallet.retain(
                    |seed| known.is_some_and(|known| known.seeds.contains_key(&seed)),
                    |agent| {
                        state
                            .agents
                            .get(agent)
                            .is_some_and(|a| a.credential.mode() == AuthMode::Hmac)
                    },
                );
                wallet.set_journal_note(JournalNote { seq: head.seq, head: head.hash });
                wallet.forget_retired_seal_keys();
                match wallet.save() {
                    Ok(()) => noted = Some(head.seq),
                    Err(error) => warnings.push(format!(
                        "The position of the journal could not be saved in the wallet file: \
                         {error}."
                    )),
                }
            }
            self.gate.open(keyring(wallet, state, &mut warnings)?);
            Ok(UnlockReport { warnings, noted_entry: noted })
        })
    }

    /// Returns the journal's head that the open wallet's file records.
    ///
    /// # Errors
    /// `WALLET_LOCKED`.
    pub fn journal_note(&self) -> Result<Option<Head>, Fault> {
        self.with(|wallet| Ok(journal_note(wallet)))
    }

    /// Returns the wallet file's last good save, and the key of a backup that contains it.
    ///
    /// # Errors
    /// `WALLET_LOCKED`.
    pub fn for_backup(&self, salt: &[u8; 32]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Fault> {
        self.with(|wallet| Ok(wallet.for_backup(salt)))
    }

    /// Lists the contents of a wallet file for `recover`, without its secrets and without opening the wallet.
    ///
    /// # Errors
    /// The password is wrong, or the file is missing or damaged.
    pub fn list_recoverable(
        &self,
        name: &Name,
        password: &SecretString,
    ) -> Result<RecoveredWallet, Fault> {
        let (wallet, _from) = self.files.open(name, password).map_err(fault)?;
        let words = |seed: &Seed| u8::try_from(seed.word_count()).unwrap_or(u8::MAX);
        let check = |(id, secret): (&AgentId, &AgentSecret)| {
            (id.clone(), agent_check(id, secret.expose_secret()))
        };
        Ok(RecoveredWallet {
            name: wallet.name().parse().map_err(|_bad| Fault::new(Code::InternalError))?,
            wallet_id: wallet.wallet_id(),
            seeds: wallet.seeds().iter().map(|(id, seed)| (*id, words(seed))).collect(),
            agents: wallet.agents().map(check).collect(),
        })
    }

    /// Returns the names of all wallet files in the folder, whether or not the journal names them; none if the folder
    /// cannot be read.
    pub fn file_names(&self) -> Vec<Name> {
        self.files.names().unwrap_or_default()
    }

    /// Returns the private key of an address as `0x` and 64 hex digits, the form that other wallets import.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, `BAD_INPUT` for an invalid path, `WALLET_DAMAGED` if the file lacks the seed.
    pub fn private_key(&self, id: SeedId, path: &str) -> Result<Zeroizing<String>, Fault> {
        let path = DerivationPath::parse(path).map_err(bad_path)?;
        let key = self.with(|wallet| Ok(key_at(wallet, id, &path)?.expose_bytes()))?;
        let mut digits = Zeroizing::new([0u8; 64]);
        hex::encode_to_slice(*key, digits.as_mut_slice())
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        let digits = std::str::from_utf8(digits.as_slice())
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        // Reserve the full capacity from the start: a string that grows would leave a copy of the key behind.
        let mut text = Zeroizing::new(String::with_capacity(66));
        text.push_str("0x");
        text.push_str(digits);
        Ok(text)
    }

    /// Returns the gate's epoch: slips of earlier epochs are void.
    pub(crate) fn epoch(&self) -> u64 {
        self.gate.epoch()
    }

    /// Removes the keys from memory, and voids the slips issued so far.
    pub fn lock(&self) {
        self.gate.close();
        *self.lock_open_wallet() = None;
    }

    /// Checks that the password is that of the open wallet.
    ///
    /// # Errors
    /// `WRONG_PASSWORD`, `WALLET_LOCKED`, or the key cannot be derived.
    pub fn verify_password(&self, password: &SecretString) -> Result<(), Fault> {
        self.with(|wallet| wallet.verify_password(password).map_err(fault))
    }

    /// Changes the password of the open wallet; see [`OpenWallet::change_password`].
    ///
    /// # Errors
    /// `WALLET_LOCKED`, the key cannot be derived, or the file cannot be written.
    pub fn change_password(&self, new: &SecretString) -> Result<(), Fault> {
        self.with(|wallet| wallet.change_password(new, self.kdf).map_err(fault))
    }

    /// Returns the key of the journal's seals, followed by those of earlier passwords.
    ///
    /// # Errors
    /// `WALLET_LOCKED`.
    pub fn seal_keys(&self) -> Result<Vec<SealKey>, Fault> {
        self.with(|wallet| Ok(seal_keys(wallet)))
    }

    /// Records the journal's head in the wallet file.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, or the file cannot be written.
    pub fn note_journal(&self, head: Head) -> Result<(), Fault> {
        self.change(|wallet| {
            wallet.set_journal_note(JournalNote { seq: head.seq, head: head.hash });
            Ok(())
        })
    }

    /// Records a head that is sealed with the newest key, and drops the seal keys of earlier passwords.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, or the file cannot be written.
    pub fn note_sealed(&self, head: Head) -> Result<(), Fault> {
        self.change(|wallet| {
            wallet.set_journal_note(JournalNote { seq: head.seq, head: head.hash });
            wallet.forget_retired_seal_keys();
            Ok(())
        })
    }

    /// Stores a seed in the wallet file; it counts only once its event is committed.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, or the file cannot be written.
    pub fn add_seed(&self, id: SeedId, seed: Seed) -> Result<(), Fault> {
        self.change(|wallet| {
            // A seed that has this id already is left over from an addition that was never committed.
            if wallet.seeds().contains_key(&id) {
                wallet.retain(|known| known != id, |_agent| true);
            }
            wallet
                .add_seed(id, seed)
                .map_err(|taken| Fault::because(Code::InUse, taken.to_string()))
        })
    }

    /// Derives the address of a seed at an index, and returns it with its path.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, `BAD_INPUT` if the index is too large, `WALLET_DAMAGED` if the file lacks the seed.
    pub fn derive(&self, id: SeedId, index: u32) -> Result<(String, Address), Fault> {
        let path = Template::SEEDS.path(index).map_err(bad_path)?;
        let key = self.with(|wallet| key_at(wallet, id, &path))?;
        Ok((path.to_string(), key.address()))
    }

    /// Activates the key of a new address.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, `BAD_INPUT` for an invalid path, `WALLET_DAMAGED` if the file lacks the seed.
    pub fn activate_address(&self, id: SeedId, path: &str) -> Result<(), Fault> {
        let path = DerivationPath::parse(path).map_err(bad_path)?;
        let key = self.with(|wallet| key_at(wallet, id, &path))?;
        self.gate.add_key(key);
        Ok(())
    }

    /// Stores an agent's shared secret, which counts only once its event is committed, and returns its check value.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, or the file cannot be written.
    pub fn store_agent_secret(&self, id: &AgentId, secret: &[u8; 32]) -> Result<[u8; 32], Fault> {
        self.change(|wallet| {
            wallet.set_agent_secret(id.clone(), secret);
            Ok(())
        })?;
        Ok(agent_check(id, secret))
    }

    /// Activates an agent's secret after its event is on disk.
    pub fn activate_agent_secret(&self, id: &AgentId, secret: &[u8; 32]) {
        self.gate.add_agent(id.clone(), file::box_secret(secret));
    }

    /// Removes the secret of an agent whose deletion is on disk.
    ///
    /// If the wallet is locked, the next unlock with a matching journal removes it from the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn forget_agent(&self, id: &AgentId) -> Result<(), Fault> {
        self.gate.forget_agent(id);
        if !self.is_unlocked() {
            return Ok(());
        }
        self.change(|wallet| {
            wallet.remove_agent_secret(id);
            Ok(())
        })
    }

    /// Returns the words of a seed, to show them to the operator again.
    ///
    /// # Errors
    /// `WALLET_LOCKED`, `NOTHING_FOUND` if there is no such seed.
    pub fn seed_phrase(&self, id: SeedId) -> Result<Zeroizing<String>, Fault> {
        self.with(|wallet| {
            let seed = wallet.seeds().get(&id).ok_or_else(|| {
                let text = format!("There is no seed {id}: see `seed list`.");
                Fault::because(Code::NothingFound, text)
            })?;
            seed.phrase().map_err(|error| Fault::new(Code::InternalError).with_detail(error))
        })
    }

    /// Returns an agent's shared secret, to show it to the operator again; `None` if it has none.
    ///
    /// # Errors
    /// `WALLET_LOCKED`.
    pub fn agent_secret(&self, id: &AgentId) -> Result<Option<AgentSecret>, Fault> {
        self.with(|wallet| {
            Ok(wallet.agent_secret(id).map(|secret| file::box_secret(secret.expose_secret())))
        })
    }

    fn with<T>(
        &self,
        use_it: impl FnOnce(&mut OpenWallet) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match self.lock_open_wallet().as_mut() {
            Some(wallet) => use_it(wallet),
            None => Err(Fault::new(Code::WalletLocked)),
        }
    }

    /// Changes the open wallet and saves it.
    fn change(
        &self,
        change: impl FnOnce(&mut OpenWallet) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.with(|wallet| {
            change(wallet)?;
            wallet.save().map_err(fault)
        })
    }
}

impl Signer for Vault {
    fn asks_a_person(&self, _slip: &Slip) -> bool {
        false
    }

    fn sign(&self, slip: Slip, _terms: Terms) -> BoxFuture<'_, Result<Signature65, SignFault>> {
        let signed = self.gate.sign(&slip);
        Box::pin(async move { signed })
    }
}

fn journal_note(wallet: &OpenWallet) -> Option<Head> {
    wallet.journal_note().map(|note| Head { seq: note.seq, hash: note.head })
}

fn seal_keys(wallet: &OpenWallet) -> Vec<SealKey> {
    let retired = wallet.retired_seal_keys().iter();
    let retired = retired.map(|key| Zeroizing::new(*key.expose_secret()));
    std::iter::once(wallet.seal_key()).chain(retired).collect()
}

/// Collects the keys of all addresses and the secrets of all HMAC agents that the journal names. A missing key or
/// secret disables only its own address or agent.
fn keyring(
    wallet: &OpenWallet,
    state: &State,
    warnings: &mut Vec<String>,
) -> Result<Keyring, Fault> {
    let mut keyring = Keyring::default();
    // Stretching a phrase costs as much as deriving many keys, so each seed is stretched once.
    let mut masters: BTreeMap<SeedId, Result<Master, Fault>> = BTreeMap::new();
    for address in state.wallet.iter().flat_map(|wallet| wallet.addresses.values()) {
        let Backing::Seed(seed) = address.backing else { continue };
        let path = DerivationPath::parse(&address.path).map_err(bad_path)?;
        let master = masters.entry(seed).or_insert_with(|| master_of(wallet, seed));
        let key =
            master.as_ref().map_err(Fault::clone).and_then(|master| derive_key_at(master, &path));
        match key {
            // The seed of another wallet derives another address.
            Ok(key) if key.address() == address.address => keyring.add_key(key),
            Ok(_another) => {
                warnings.push(format!("{}: seed {seed} derives another address.", address.label))
            }
            Err(fault) => warnings.push(format!("{} cannot pay: {fault}", address.label)),
        }
    }
    let mut lacking = Vec::new();
    for (id, agent) in state.agents.iter() {
        let Credential::Hmac { secret_hash: check } = &agent.credential else { continue };
        match wallet.agent_secret(id) {
            Some(secret) if agent_check(id, secret.expose_secret()) == *check => {
                keyring.add_agent(id.clone(), file::box_secret(secret.expose_secret()));
            }
            Some(_) | None => lacking.push((id, &agent.name)),
        }
    }
    if let Some((first, _name)) = lacking.first() {
        let names: Vec<_> = lacking.iter().map(|(id, name)| format!("{name} ({id})")).collect();
        let (secret, each) = match names.len() {
            1 => ("secret", ""),
            _more => ("secrets", ", for each agent"),
        };
        warnings.push(format!(
            "The wallet file lacks the {secret} of {}: `agent instructions {first} --regenerate` issues a new one{each}.",
            names.join(", ")
        ));
    }
    Ok(keyring)
}

fn key_at(wallet: &OpenWallet, id: SeedId, path: &DerivationPath) -> Result<PrivateKey, Fault> {
    derive_key_at(&master_of(wallet, id)?, path)
}

/// The 64 bytes from which all keys of a seed are derived (BIP-39).
type Master = SecretBox<[u8; 64]>;

fn master_of(wallet: &OpenWallet, id: SeedId) -> Result<Master, Fault> {
    let seed = wallet.seeds().get(&id).ok_or_else(|| {
        Fault::because(
            Code::WalletDamaged,
            format!("The wallet file lacks the seed {id}: restore a newer copy of the file."),
        )
    })?;
    seed.bip39_seed(&SecretString::from(""))
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))
}

fn derive_key_at(master: &Master, path: &DerivationPath) -> Result<PrivateKey, Fault> {
    derive::private_key(master, path)
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))
}

fn bad_path(error: PathError) -> Fault {
    Fault::because(Code::BadInput, error.to_string())
}

/// Converts an error of the wallet file. The error's own text stays, because it names the remedy.
pub(crate) fn fault(error: WalletFileError) -> Fault {
    let code = match &error {
        WalletFileError::AlreadyExists { .. } => Code::WalletExists,
        WalletFileError::NotFound { .. } => Code::NoWallet,
        WalletFileError::WrongPassword { .. } => Code::WrongPassword,
        WalletFileError::Damaged { .. }
        | WalletFileError::UnsupportedVersion { .. }
        | WalletFileError::KdfOutOfBounds { .. } => Code::WalletDamaged,
        WalletFileError::BadName { .. } | WalletFileError::TooLarge { .. } => Code::BadInput,
        WalletFileError::TooOpen { .. } => Code::DataFolder,
        WalletFileError::Io { source, .. } => Code::of_disk(source),
        WalletFileError::OutOfMemory { .. } | WalletFileError::NotSealed { .. } => {
            Code::InternalError
        }
    };
    let is_missing = matches!(error, WalletFileError::NotFound { .. });
    let fault = Fault::because(code, error.to_string());
    if is_missing { fault.with_hint("wallet restore <file>") } else { fault }
}
