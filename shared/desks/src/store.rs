//! Where a service keeps its desks. One suite (`tests/conformance.rs`) holds every implementation to this.

use bursar_chain::ports::BoxFuture;
use bursar_submit::{Desk, DeskKey, Event, Outcome, SubmissionId};

/// A desk, and the commit that made it what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub desk: Desk,
    /// Counts the commits of this desk; zero for one that was never used.
    pub version: u64,
}

/// Why something was not kept. Nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// Somebody else has changed the desk since it was read: read it again.
    #[error("another process has changed it")]
    Conflict,
    /// A submission of this id has ended: it is not begun again.
    #[error("this submission has ended")]
    Over(Outcome),
    /// Another submission holds this nonce, perhaps at a desk that this process does not know.
    #[error("another submission holds nonce {0}")]
    NonceTaken(u64),
    /// What the store did is not known. Where it kept it after all, the next commit is a conflict and finds
    /// out.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// What a store answers.
pub type StoreReply<'a, T> = BoxFuture<'a, Result<T, StoreFault>>;

/// Durable desks. An answer is given once it is on disk.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// A desk as it stands; an empty one where nothing was ever kept.
    fn load(&self, key: DeskKey) -> StoreReply<'_, Kept>;

    /// Every desk at which something is open.
    fn busy(&self) -> StoreReply<'_, Vec<DeskKey>>;

    /// Keeps what happened at a desk since `after`, all of it or nothing, and answers the new version.
    /// (network, signer, nonce) is held by one submission at a time, and an id that has ended does not begin
    /// again, whatever the caller believes.
    fn commit(&self, key: DeskKey, after: u64, events: Vec<Event>) -> StoreReply<'_, u64>;

    /// How a submission ended, however long ago.
    fn outcome(&self, key: DeskKey, id: SubmissionId) -> StoreReply<'_, Option<Outcome>>;
}

/// What a commit changes beside the desk, judged the same way by every store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) reserved: Vec<(u64, SubmissionId)>,
    pub(crate) released: Vec<u64>,
    pub(crate) ended: Vec<(SubmissionId, Outcome)>,
    pub(crate) opened: Vec<SubmissionId>,
}

/// Applies events to a desk, and answers what else they change.
pub(crate) fn apply_all(desk: &mut Desk, events: &[Event]) -> Changes {
    let mut changes = Changes::default();
    for event in events {
        match event {
            Event::Opened { id, .. } => changes.opened.push(*id),
            Event::Reserved { id, nonce } => changes.reserved.push((*nonce, *id)),
            Event::Finished { id, outcome } => {
                changes.ended.push((*id, *outcome));
                let nonce = desk.open.get(id).and_then(|one| one.nonce);
                // What was mined keeps its nonce for good; of what was not, the nonce is free again.
                let free = matches!(outcome, Outcome::Dropped | Outcome::Displaced);
                changes.released.extend(nonce.filter(|_nonce| free));
            }
            _others => {}
        }
        bursar_submit::apply(desk, event);
    }
    changes
}
