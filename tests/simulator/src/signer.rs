//! The signer that the world controls: the vault signs, and the world decides when.

use std::sync::{Arc, Mutex, OnceLock};

use alloy_primitives::{Address, B256};
use bursar_auditor::observations::{Observation, Signed};
use bursar_chain::ports::BoxFuture;
use bursar_core::derivation::Template;
use bursar_engine::journal::{Slip, Terms};
use bursar_engine::ports::{SignFault, Signer};
use bursar_engine::vault::Vault;
use bursar_engine::vault::derive::{PrivateKey, private_key};
use bursar_engine::vault::seed::Seed;
use bursar_x402::signature::Signature65;
use secrecy::SecretString;
use tokio::sync::oneshot;

use crate::faults::{PlantedBug, WorldFaults};
use crate::orders::PHRASE;
use crate::tape::Tape;

/// Signs at once, or when the world releases the slip.
#[derive(Debug)]
pub(crate) struct WorldSigner {
    faults: Arc<WorldFaults>,
    tape: Tape,
    vault: OnceLock<Arc<Vault>>,
    queue: Mutex<Queue>,
    /// Planted bug: whether to sign slips that a freeze has made stale.
    ignores_freeze: bool,
}

/// Returns the addresses of the wallet's first keys.
pub(crate) fn addresses() -> &'static [Address] {
    static ADDRESSES: OnceLock<Vec<Address>> = OnceLock::new();
    ADDRESSES.get_or_init(|| keys(16).map(|key| key.address()).collect())
}

fn keys(count: u32) -> impl Iterator<Item = PrivateKey> {
    let phrase = SecretString::from(PHRASE);
    let seed = Seed::from_phrase(&phrase).expect("a phrase");
    let master = seed.bip39_seed(&SecretString::from("")).expect("a master");
    (0..count).map(move |index| {
        let path = Template::SEEDS.path(index).expect("a path");
        private_key(&master, &path).expect("a key")
    })
}

/// Signs with the key of an address, without the checks of the vault.
pub(crate) fn sign_by_key(signer: Address, digest: &B256) -> Signature65 {
    let key = keys(100).find(|key| key.address() == signer).expect("one of ours");
    Signature65::from_bytes(&key.sign_digest(digest).expect("signed")).expect("65 bytes")
}

#[derive(Debug, Default)]
struct Queue {
    is_slow: bool,
    release_senders: Vec<oneshot::Sender<bool>>,
}

impl WorldSigner {
    pub(crate) fn new(faults: &Arc<WorldFaults>) -> Self {
        Self {
            faults: Arc::clone(faults),
            tape: faults.tape().clone(),
            vault: OnceLock::new(),
            queue: Mutex::default(),
            ignores_freeze: faults.plant() == Some(PlantedBug::FreezeIgnored),
        }
    }

    pub(crate) fn set_vault(&self, vault: &Arc<Vault>) {
        self.vault.set(Arc::clone(vault)).expect("one vault per process");
    }

    /// Sets whether signatures wait for [`WorldSigner::release`] from now on.
    pub(crate) fn set_slow(&self, slow: bool) {
        self.queue.lock().unwrap().is_slow = slow;
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.queue.lock().unwrap().is_slow
    }

    /// Releases the oldest pending signature, or refuses it.
    pub(crate) fn release(&self, agreed: bool) {
        let mut queue = self.queue.lock().unwrap();
        if !queue.release_senders.is_empty() {
            let _gone = queue.release_senders.remove(0).send(agreed);
        }
    }

    pub(crate) fn release_all(&self) {
        for sender in self.queue.lock().unwrap().release_senders.drain(..) {
            let _gone = sender.send(true);
        }
    }
}

impl Signer for WorldSigner {
    fn asks_a_person(&self, _slip: &Slip) -> bool {
        self.is_slow()
    }

    fn sign(&self, slip: Slip, terms: Terms) -> BoxFuture<'_, Result<Signature65, SignFault>> {
        Box::pin(async move {
            let wait = {
                let mut queue = self.queue.lock().unwrap();
                queue.is_slow.then(|| {
                    let (go, wait) = oneshot::channel();
                    queue.release_senders.push(go);
                    wait
                })
            };
            if let Some(wait) = wait
                && !wait.await.unwrap_or(false)
            {
                if let Some(request) = slip.request() {
                    self.tape.write(Observation::Declined { request: request.to_string() });
                }
                return Err(SignFault::Refused("no".to_owned()));
            }
            let vault = self.vault.get().expect("a vault");
            let (signer, digest, request) = (slip.signer(), slip.digest(), slip.request());
            let signature = match vault.sign(slip.clone(), terms).await {
                Err(SignFault::Stale) if self.ignores_freeze => sign_by_key(signer, &digest),
                signed => signed?,
            };
            let (content, owner) = self.faults.contents().of(signer, digest);
            self.tape.write(Observation::Signed(Signed {
                signer: format!("{signer:#x}"),
                digest: format!("{digest:#x}"),
                request: request.map(|id| id.to_string()).or(owner),
                content,
            }));
            Ok(signature)
        })
    }
}
