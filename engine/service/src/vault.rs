//! The keys: encrypted in the wallet file, in memory only while the wallet is open. The vault signs the
//! digest of a slip and nothing else, and nobody but this module names a private key.

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
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::AuthMode;
use bursar_core::ids::{AgentId, Name, SeedId};
use bursar_domain::State;
use bursar_domain::agents::Credential;
use bursar_domain::command::RecoveredWallet;
use bursar_domain::wallets::{Backing, Wallet};
use bursar_x402::signature::Signature65;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::journal::{Head, Slip};
use crate::ports::{SignFault, Signer};
use derive::{DerivationPath, Layout, PrivateKey};
use file::{
    AgentSecret, Fallback, JournalNote, OpenWallet, OpenedFrom, WalletFileError, WalletFiles,
};
use gate::{Gate, Keyring};
use kdf::KdfParams;
use seed::Seed;

/// The one wallet of a data folder. Its slow parts (key derivation, files) belong on a blocking thread.
#[derive(Debug)]
pub struct Vault {
    files: WalletFiles,
    kdf: KdfParams,
    gate: Arc<Gate>,
    // A mutex, not a message: changes of the wallet file are rare, serialised, and block on the disk.
    open: Mutex<Option<OpenWallet>>,
}

/// A key of the journal's seals.
pub type SealKey = Zeroizing<[u8; 32]>;

/// What an opened file tells of the journal.
pub struct Prepared {
    /// The key of the journal's seals and, while the journal may still end with one of their seals, those
    /// of earlier passwords.
    pub seal_keys: Vec<SealKey>,
    /// Where the journal stood when the file was saved.
    pub note: Option<Head>,
    /// Why the previous save had to be opened, if so; to be shown loudly.
    pub fallback: Option<Fallback>,
}

/// What came of opening the gate.
#[derive(Debug, Default)]
pub struct Admitted {
    /// For the operator.
    pub warnings: Vec<String>,
    /// The journal's entry that the wallet file names now; `None` where it names an older one.
    pub noted: Option<u64>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("note", &self.note).finish_non_exhaustive()
    }
}

impl Vault {
    pub fn new(files: WalletFiles, kdf: KdfParams, gate: Arc<Gate>) -> Self {
        Self { files, kdf, gate, open: Mutex::new(None) }
    }

    pub fn is_unlocked(&self) -> bool {
        self.gate.is_unlocked()
    }

    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    fn opened(&self) -> MutexGuard<'_, Option<OpenWallet>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the wallet file. Answers the id that the journal will know it by; nothing can be signed
    /// before [`Vault::admit`].
    pub fn create(&self, name: &Name, password: &SecretString) -> Result<[u8; 16], Fault> {
        let wallet = self.files.create(name, password, self.kdf).map_err(fault)?;
        let id = wallet.wallet_id();
        *self.opened() = Some(wallet);
        Ok(id)
    }

    /// Takes back a wallet whose event was never committed.
    pub fn discard(&self, name: &Name) -> Result<(), Fault> {
        self.lock();
        self.files.delete(name).map_err(fault)
    }

    /// Opens the file of the wallet that the journal knows. The gate stays shut: the journal must be
    /// judged first, with the keys that this answers.
    pub fn prepare(&self, known: &Wallet, password: &SecretString) -> Result<Prepared, Fault> {
        let (wallet, from) = self.files.open(&known.name, password).map_err(fault)?;
        if wallet.wallet_id() != known.wallet_id {
            return Err(Fault::because(
                Code::WalletDamaged,
                format!(
                    "{} is not the wallet of this journal: restore the right file.",
                    self.files.file(&known.name).display()
                ),
            ));
        }
        let prepared = Prepared {
            seal_keys: seal_keys(&wallet),
            note: journal_note(&wallet),
            fallback: match from {
                OpenedFrom::Current => None,
                OpenedFrom::Previous { why } => Some(why),
            },
        };
        *self.opened() = Some(wallet);
        Ok(prepared)
    }

    /// Derives the keys that `state` names and opens the gate. `sealed` is the head of a journal that fits
    /// the wallet: only by such a one is anything dropped that no event names, for an older journal does
    /// not name what it does not know yet.
    pub fn admit(&self, state: &State, sealed: Option<Head>) -> Result<Admitted, Fault> {
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
            Ok(Admitted { warnings, noted })
        })
    }

    /// Where the journal stood when the file of the open wallet was told.
    pub fn journal_note(&self) -> Result<Option<Head>, Fault> {
        self.with(|wallet| Ok(journal_note(wallet)))
    }

    /// The wallet file as it is on disk, and the key of a backup that holds it.
    pub fn for_backup(&self, salt: &[u8; 32]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Fault> {
        self.with(|wallet| Ok(wallet.for_backup(salt)))
    }

    /// What the file of a wallet holds that no journal knows, without its secrets. The wallet stays closed.
    pub fn recoverable(
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

    /// The wallet files of the folder, whether or not the journal knows them.
    pub fn file_names(&self) -> Vec<Name> {
        self.files.names().unwrap_or_default()
    }

    /// The private key of an address, as wallets take it: 0x and 64 hex digits.
    pub fn private_key(&self, id: SeedId, path: &str) -> Result<Zeroizing<String>, Fault> {
        let path = DerivationPath::parse(path).map_err(bad_path)?;
        let key = self.with(|wallet| Ok(key_at(wallet, id, &path)?.expose_bytes()))?;
        let mut digits = Zeroizing::new([0u8; 64]);
        hex::encode_to_slice(*key, digits.as_mut_slice())
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        let digits = std::str::from_utf8(digits.as_slice())
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        // Its whole size from the start: a text that grew would leave a copy behind.
        let mut text = Zeroizing::new(String::with_capacity(66));
        text.push_str("0x");
        text.push_str(digits);
        Ok(text)
    }

    /// Keys leave memory; slips issued before are worthless.
    pub fn lock(&self) {
        self.gate.close();
        *self.opened() = None;
    }

    /// Whether the password is that of the open wallet.
    pub fn verify_password(&self, password: &SecretString) -> Result<(), Fault> {
        self.with(|wallet| wallet.verify_password(password).map_err(fault))
    }

    pub fn change_password(&self, new: &SecretString) -> Result<(), Fault> {
        self.with(|wallet| wallet.change_password(new, self.kdf).map_err(fault))
    }

    /// The key of the journal's seals, and after it those of earlier passwords.
    pub fn seal_keys(&self) -> Result<Vec<SealKey>, Fault> {
        self.with(|wallet| Ok(seal_keys(wallet)))
    }

    /// Remembers in the wallet file where the journal stands.
    pub fn note_journal(&self, head: Head) -> Result<(), Fault> {
        self.change(|wallet| {
            wallet.set_journal_note(JournalNote { seq: head.seq, head: head.hash });
            Ok(())
        })
    }

    /// The journal's head is sealed with the newest key: the older ones are not needed any more.
    pub fn note_sealed(&self, head: Head) -> Result<(), Fault> {
        self.change(|wallet| {
            wallet.set_journal_note(JournalNote { seq: head.seq, head: head.hash });
            wallet.forget_retired_seal_keys();
            Ok(())
        })
    }

    /// Puts a seed into the wallet file; the event that makes it count follows.
    pub fn add_seed(&self, id: SeedId, seed: Seed) -> Result<(), Fault> {
        self.change(|wallet| {
            // Left by a change whose event was never committed: nothing was derived from it.
            if wallet.seeds().contains_key(&id) {
                wallet.retain(|known| known != id, |_agent| true);
            }
            wallet
                .add_seed(id, seed)
                .map_err(|taken| Fault::because(Code::InUse, taken.to_string()))
        })
    }

    /// The address that a seed has at an index, and its path.
    pub fn derive(&self, id: SeedId, index: u32) -> Result<(String, Address), Fault> {
        let path = Layout::SOFTWARE.path(index).map_err(bad_path)?;
        let key = self.with(|wallet| key_at(wallet, id, &path))?;
        Ok((path.to_string(), key.address()))
    }

    /// Takes the key of a new address into use.
    pub fn use_address(&self, id: SeedId, path: &str) -> Result<(), Fault> {
        let path = DerivationPath::parse(path).map_err(bad_path)?;
        let key = self.with(|wallet| key_at(wallet, id, &path))?;
        self.gate.add_key(key);
        Ok(())
    }

    /// Stores an agent's shared secret; the event that makes it count follows. Answers its check.
    pub fn store_agent_secret(&self, id: &AgentId, secret: &[u8; 32]) -> Result<[u8; 32], Fault> {
        self.change(|wallet| {
            wallet.set_agent_secret(id.clone(), secret);
            Ok(())
        })?;
        Ok(agent_check(id, secret))
    }

    /// Takes an agent's secret into use, once the event that names it is on disk.
    pub fn use_agent_secret(&self, id: &AgentId, secret: &Zeroizing<[u8; 32]>) {
        self.gate.add_agent(id.clone(), secret.clone());
    }

    /// Forgets the secret of an agent whose deletion is on disk. In a locked wallet the next unlock does it.
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

    /// The words of a seed, to be shown to the operator again.
    pub fn seed_phrase(&self, id: SeedId) -> Result<Zeroizing<String>, Fault> {
        self.with(|wallet| {
            let seed = wallet.seeds().get(&id).ok_or_else(|| {
                Fault::because(
                    Code::NothingFound,
                    format!("There is no seed {id}: see `seed list`."),
                )
            })?;
            seed.phrase().map_err(|error| Fault::new(Code::InternalError).with_detail(error))
        })
    }

    /// An agent's shared secret, to be shown to the operator again.
    pub fn agent_secret(&self, id: &AgentId) -> Result<Option<Zeroizing<[u8; 32]>>, Fault> {
        self.with(|wallet| {
            Ok(wallet.agent_secret(id).map(|secret| Zeroizing::new(*secret.expose_secret())))
        })
    }

    fn with<T>(
        &self,
        use_it: impl FnOnce(&mut OpenWallet) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match self.opened().as_mut() {
            Some(wallet) => use_it(wallet),
            None => Err(Fault::new(Code::WalletLocked)),
        }
    }

    /// A change and its save.
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

    fn sign(&self, slip: Slip) -> BoxFuture<'_, Result<Signature65, SignFault>> {
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

/// A hash of an agent's code and secret; the journal keeps it, so that an older wallet file cannot bring a
/// replaced secret back.
fn agent_check(id: &AgentId, secret: &[u8; 32]) -> [u8; 32] {
    let hash = Sha256::new().chain_update(b"bursar agent secret").chain_update(id.as_str());
    hash.chain_update(secret).finalize().into()
}

/// Keys of all addresses and secrets of all agents that the journal names. What the file lacks makes its
/// address or agent unusable, and nothing else.
fn keyring(
    wallet: &OpenWallet,
    state: &State,
    warnings: &mut Vec<String>,
) -> Result<Keyring, Fault> {
    let mut keyring = Keyring::default();
    // Stretching a phrase takes as long as deriving many keys: once for each seed.
    let mut masters: BTreeMap<SeedId, Result<Master, Fault>> = BTreeMap::new();
    for address in state.wallet.iter().flat_map(|wallet| wallet.addresses.values()) {
        let Backing::Seed(seed) = address.backing;
        let path = DerivationPath::parse(&address.path).map_err(bad_path)?;
        let master = masters.entry(seed).or_insert_with(|| master_of(wallet, seed));
        let key = master.as_ref().map_err(Fault::clone).and_then(|master| key_below(master, &path));
        match key {
            // The seed of another wallet would pay from another address.
            Ok(key) if key.address() == address.address => keyring.add_key(key),
            Ok(_another) => {
                warnings.push(format!("The seed {seed} does not derive {}.", address.label))
            }
            Err(fault) => warnings.push(format!("{} cannot pay: {fault}", address.label)),
        }
    }
    let mut lacking = Vec::new();
    for (id, agent) in state.agents.iter() {
        let Credential::Hmac { check } = &agent.credential else { continue };
        match wallet.agent_secret(id) {
            Some(secret) if agent_check(id, secret.expose_secret()) == *check => {
                keyring.add_agent(id.clone(), Zeroizing::new(*secret.expose_secret()));
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
    key_below(&master_of(wallet, id)?, path)
}

/// What all keys of a seed are derived from (BIP-39).
type Master = Zeroizing<[u8; 64]>;

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

fn key_below(master: &Master, path: &DerivationPath) -> Result<PrivateKey, Fault> {
    derive::private_key(master, path)
        .map_err(|error| Fault::new(Code::InternalError).with_detail(error))
}

fn bad_path(error: derive::PathError) -> Fault {
    Fault::because(Code::BadInput, error.to_string())
}

/// The wallet file's own words; they name the way out.
pub(crate) fn fault(error: WalletFileError) -> Fault {
    let code = match &error {
        WalletFileError::AlreadyExists { .. } => Code::WalletExists,
        WalletFileError::NotFound { .. } => Code::NoWallet,
        WalletFileError::WrongPassword { .. } => Code::WrongPassword,
        WalletFileError::Damaged { .. }
        | WalletFileError::UnsupportedVersion { .. }
        | WalletFileError::KdfOutOfBounds { .. } => Code::WalletDamaged,
        WalletFileError::BadName { .. } | WalletFileError::TooLarge { .. } => Code::BadInput,
        WalletFileError::TooOpen { .. } | WalletFileError::Io { .. } => Code::DataFolder,
        WalletFileError::OutOfMemory { .. } | WalletFileError::NotSealed { .. } => {
            Code::InternalError
        }
    };
    Fault::because(code, error.to_string())
}
