//! Icons of the tokens in our table, from the URLs that explorers supply.
//!
//! They are fetched only when a console asks for them, in the background, and are kept in memory only.
//!
//! Tokens that only an explorer lists have none: with a picture they would look as if they were known, and the sender of
//! such a token could learn who looks at it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::Address;
use bursar_chain::ports::{Clock, Icons, Pixels, TokenBalance};
use bursar_core::networks::{ChainId, Network};
use tokio::sync::Semaphore;

use super::merge::known_tokens;

/// Fetches that run at once.
const CONCURRENT_MAX: usize = 2;
/// Pause after a failed fetch, in milliseconds.
const RETRY_MS: u64 = 600_000;

/// A token of our table on its network.
type TokenKey = (ChainId, Address);

/// The icons that are known, and the fetches of the others.
#[derive(Debug)]
pub struct TokenIcons {
    source: Arc<dyn Icons>,
    clock: Arc<dyn Clock>,
    // A mutex instead of an owning task: it is held only to access the map, which has at most a row for each token of
    // our table.
    known: Mutex<BTreeMap<TokenKey, Icon>>,
    turns: Semaphore,
}

#[derive(Debug)]
struct Icon {
    /// The first URL that an explorer supplied; later ones are ignored.
    url: String,
    state: IconState,
}

#[derive(Debug, Clone)]
enum IconState {
    Wanted,
    Running,
    Read(Arc<Pixels>),
    Failed { at_ms: u64, why: String },
}

/// The icons of a moment.
#[derive(Debug, Default)]
pub struct KnownIcons {
    pub read: Vec<(TokenKey, Arc<Pixels>)>,
    /// Why the last fetch of an icon failed.
    pub failed: Vec<(TokenKey, String)>,
    /// The number of icons that are being fetched.
    pub running: usize,
}

impl TokenIcons {
    /// Creates an empty store.
    pub fn new(source: Arc<dyn Icons>, clock: Arc<dyn Clock>) -> Self {
        let turns = Semaphore::new(CONCURRENT_MAX);
        Self { source, clock, known: Mutex::default(), turns }
    }

    /// Keeps the URLs of the tokens of our table.
    pub(super) fn note(&self, network: &'static Network, tokens: &[TokenBalance]) {
        let is_known = |token: &&TokenBalance| {
            known_tokens(network).any(|(_kind, known)| known.address == token.address)
        };
        let mut known = self.lock();
        for token in tokens.iter().filter(is_known) {
            let Some(url) = &token.icon else { continue };
            known
                .entry((network.chain, token.address))
                .or_insert_with(|| Icon { url: url.clone(), state: IconState::Wanted });
        }
    }

    /// Returns the icons that are known now, and fetches nothing.
    pub fn known(&self) -> KnownIcons {
        let mut all = KnownIcons::default();
        for (key, icon) in self.lock().iter() {
            match &icon.state {
                IconState::Wanted => {}
                IconState::Running => all.running = all.running.saturating_add(1),
                IconState::Read(pixels) => all.read.push((*key, Arc::clone(pixels))),
                IconState::Failed { why, .. } => all.failed.push((*key, why.clone())),
            }
        }
        all
    }

    /// Starts the fetches that are due, and returns the icons that are known now.
    pub fn fetch(self: &Arc<Self>) -> KnownIcons {
        let now_ms = self.clock.mono_ms();
        for (key, icon) in self.lock().iter_mut() {
            let is_due = match &icon.state {
                IconState::Wanted => true,
                IconState::Running | IconState::Read(_) => false,
                IconState::Failed { at_ms, .. } => now_ms.saturating_sub(*at_ms) >= RETRY_MS,
            };
            if is_due {
                icon.state = IconState::Running;
                tokio::spawn(Arc::clone(self).fetch_one(*key, icon.url.clone()));
            }
        }
        self.known()
    }

    async fn fetch_one(self: Arc<Self>, key: TokenKey, url: String) {
        let fetched = match self.turns.acquire().await {
            Ok(_turn) => self.source.fetch(&url).await,
            // The semaphore is never closed.
            Err(_closed) => return,
        };
        let state = match fetched {
            Ok(pixels) => IconState::Read(Arc::new(pixels)),
            Err(failure) => {
                tracing::info!(network = %key.0, token = %key.1, %failure, "an icon could not be read");
                IconState::Failed { at_ms: self.clock.mono_ms(), why: failure.to_string() }
            }
        };
        if let Some(icon) = self.lock().get_mut(&key) {
            icon.state = state;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TokenKey, Icon>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use alloy_primitives::U256;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_chain::ports::{BoxFuture, IconFault};
    use bursar_core::networks::by_chain;
    use bursar_core::time::Utc;

    use super::*;

    /// Answers each fetch with the next of these, and notes its URL.
    #[derive(Debug, Default)]
    struct Scripted {
        answers: Mutex<VecDeque<Result<Pixels, IconFault>>>,
        urls: Mutex<Vec<String>>,
    }

    impl Icons for Scripted {
        fn fetch<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Pixels, IconFault>> {
            self.urls.lock().unwrap().push(url.to_owned());
            let answer = self.answers.lock().unwrap().pop_front().unwrap();
            Box::pin(async move { answer })
        }
    }

    fn base() -> &'static Network {
        by_chain(ChainId(8453)).unwrap()
    }

    fn token(address: Address, icon: &str) -> TokenBalance {
        let icon = Some(icon.to_owned());
        TokenBalance { address, symbol: String::new(), decimals: None, amount: U256::ZERO, icon }
    }

    async fn settled(icons: &Arc<TokenIcons>) -> KnownIcons {
        while icons.known().running > 0 {
            tokio::task::yield_now().await;
        }
        icons.known()
    }

    #[tokio::test]
    async fn only_known_tokens_are_fetched_once_and_failures_again_after_a_pause() {
        let source = Arc::new(Scripted::default());
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(1_767_225_600)));
        let icons = Arc::new(TokenIcons::new(Arc::clone(&source) as _, Arc::clone(&clock) as _));
        let dollar = base().stablecoin.address;
        icons.note(
            base(),
            &[
                token(dollar, "https://a.example/1"),
                token(Address::repeat_byte(7), "https://evil.example/x"),
            ],
        );
        // A later URL of the same token is ignored.
        icons.note(base(), &[token(dollar, "https://a.example/2")]);
        assert!(source.urls.lock().unwrap().is_empty(), "nothing is fetched before a console asks");

        let pixels = Pixels::new(vec![1; Pixels::BYTES]).unwrap();
        source.answers.lock().unwrap().extend([Err(IconFault::NotAnIcon), Ok(pixels.clone())]);
        assert_eq!(icons.fetch().running, 1);
        let failed = settled(&icons).await;
        assert_eq!((failed.failed.len(), failed.read.len()), (1, 0));
        clock.advance(RETRY_MS - 1);
        assert_eq!(icons.fetch().running, 0);
        clock.advance(1);
        assert_eq!(icons.fetch().running, 1);
        let read = settled(&icons).await;
        assert_eq!(read.read, [((base().chain, dollar), Arc::new(pixels))]);
        clock.advance(10 * RETRY_MS);
        assert_eq!(icons.fetch().running, 0);
        assert_eq!(*source.urls.lock().unwrap(), ["https://a.example/1"; 2]);
    }
}
