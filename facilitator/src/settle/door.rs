//! Where a request to settle comes in, and its answer goes out: found good, kept, waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_desks::store::StoreFault;
use bursar_x402::settlement::SettlementRequest;
use tokio::sync::watch;

use crate::book::ledger::{Claim, Known, Ledger, Progress, Taken};
use crate::book::{ATTEMPTS_MAX, Record, State};
use crate::network::Served;
use crate::node::Hurry;
use crate::payment::{Payment, PaymentKey};
use crate::reason::{Reason, Refused};
use crate::settle::dispatch::Settler;
use crate::settle::trace;
use crate::verify::{self, Fault, Good, Read};

/// More payments under way than this are not taken on: they would wait too long.
const OPEN_MAX: usize = 20_000;
/// The same of one payer.
const OPEN_OF_PAYER_MAX: usize = 256;

/// How long a payment rests whose transactions came to nothing.
const REST_MS: i64 = 10 * 60_000;

/// What became of a request to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// `repeated`: another request asked for it before this one, and may have been told so too.
    Settled {
        hash: B256,
        payer: Address,
        repeated: bool,
    },
    /// On its way; the hash, once something was broadcast.
    Pending {
        hash: Option<B256>,
        payer: Address,
    },
    Refused(Refused),
}

impl End {
    /// The same for who was not the first to ask.
    fn repeated(self) -> Self {
        match self {
            Self::Settled { hash, payer, .. } => Self::Settled { hash, payer, repeated: true },
            other => other,
        }
    }
}

/// Why there is no end to tell.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Malformed(#[from] bursar_x402::error::X402Error),
    /// Nodes or disk: nothing was taken on, or it is not known whether.
    #[error("{0}")]
    Unavailable(String),
    /// As much is under way as there may be.
    #[error("too many payments are under way")]
    Busy,
}

impl From<StoreFault> for Trouble {
    fn from(fault: StoreFault) -> Self {
        Self::Unavailable(fault.to_string())
    }
}

/// All networks of a facilitator.
#[derive(Debug)]
pub struct Door {
    pub settlers: BTreeMap<ChainId, Arc<Settler>>,
    pub ledger: Ledger,
    /// Who may be paid; empty: anybody.
    pub payees: BTreeSet<Address>,
    /// How long an answer waits for a block.
    pub wait_ms: u64,
}

impl Door {
    /// Who settles what a request asks for.
    fn settler(&self, request: &SettlementRequest) -> Result<&Arc<Settler>, Refused> {
        let chain = verify::chain_of(request)?;
        self.settlers.get(&chain).ok_or_else(|| Reason::UnsupportedNetwork.into())
    }

    fn admit(&self, served: &Served, read: &Read) -> Result<(), Refused> {
        if !self.payees.is_empty() && !self.payees.contains(&read.terms.payee) {
            return Err(Refused::from(Reason::PayeeNotServed).of(read.terms.payer));
        }
        verify::admit(served, read)
    }

    /// Whether a payment is good. Changes nothing.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn verify(&self, request: &SettlementRequest) -> Result<Payment, Fault> {
        let settler = self.settler(request)?;
        let served = &settler.served;
        let read = verify::read(served, request)?;
        self.admit(served, &read)?;
        let good = verify::check(served, &read, Hurry::Now).await?;
        if !settler.price().await?.affordable {
            return Err(Refused::from(Reason::GasTooHigh).of(read.terms.payer).into());
        }
        Ok(good.payment)
    }

    /// Carries a payment out, once; whoever asks again hears the same.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn settle(&self, request: &SettlementRequest) -> Result<End, Trouble> {
        let settler = match self.settler(request) {
            Ok(settler) => settler,
            Err(refused) => return Ok(End::Refused(refused)),
        };
        let clock = &settler.served.clock;
        let deadline = clock.mono_ms().saturating_add(self.wait_ms);
        // A payment that has expired meanwhile, or that would not be taken on any more, may have been settled.
        let end = match verify::read(&settler.served, request) {
            Ok(read) => self.settle_until(settler, &read, deadline).await,
            Err(fault) => Err(fault.into()),
        };
        match end {
            Ok(end) => Ok(end),
            Err(Stop::Fault(Fault::Refused(refused))) => Ok(End::Refused(refused)),
            Err(Stop::Fault(Fault::Malformed(fault))) => Err(fault.into()),
            Err(Stop::Fault(Fault::Chain(fault))) => Err(Trouble::Unavailable(fault.to_string())),
            Err(Stop::Trouble(trouble)) => Err(trouble),
        }
    }

    async fn settle_until(
        &self,
        settler: &Arc<Settler>,
        read: &Read,
        deadline: u64,
    ) -> Result<End, Stop> {
        let served = &settler.served;
        let key = read.key(served.place.chain);
        let mut attempts = 0;
        if let Some(known) = self.ledger.find(key).await.map_err(Trouble::from)? {
            if let Some(end) = known_end(settler, read, &known, deadline, true).await {
                return Ok(end.repeated());
            }
            attempts = known.record().attempts;
        }
        self.admit(served, read).map_err(Fault::from)?;
        // cancel-safe: nothing is taken on before it was found good.
        let good = tokio::select! {
            good = self.good(settler, read, deadline) => good,
            () = served.clock.sleep_until(deadline) => {
                return Err(Trouble::Unavailable("the nodes are slow".to_owned()).into());
            }
        };
        let Good { payment, balance } = match good {
            Ok(good) => good,
            Err(Stop::Fault(Fault::Refused(refused))) => {
                // Another request for it may have been quicker, and settled it meanwhile.
                if let Some(known) = self.ledger.find(key).await.map_err(Trouble::from)?
                    && let Some(end) = known_end(settler, read, &known, deadline, true).await
                {
                    return Ok(end.repeated());
                }
                return self.settled_by_another(settler, read, refused).await;
            }
            Err(stop) => return Err(stop),
        };
        let price = settler.price().await.map_err(Fault::Chain)?;
        let payer = payment.terms.payer;
        if !price.affordable {
            return Ok(End::Refused(Refused::from(Reason::GasTooHigh).of(payer)));
        }
        if settler.wasteful.get(&payer, served.clock.mono_ms()).is_some() {
            let why = "The payer's last payment cost gas and moved nothing: wait a minute.";
            return Ok(End::Refused(Refused::because(Reason::TransactionFailed, why).of(payer)));
        }
        let claim = self.claim_room(&payment, balance)?;
        let accepted_at = served.clock.now().utc;
        let record = Record {
            payment,
            accepted_at,
            since_block: price.block,
            attempts,
            state: State::Queued,
        };
        let taken = self.take_on(settler, record, claim).await?;
        let end = known_end(settler, read, &taken.known, deadline, false).await;
        let end = end.unwrap_or(End::Pending { hash: None, payer });
        Ok(if taken.new { end } else { end.repeated() })
    }

    /// That a payer does not fill the house, and does not owe more than there is: of payments that are each
    /// good and together are not, all but some would cost gas and move nothing.
    fn claim_room(&self, payment: &Payment, balance: U256) -> Result<Claim, Stop> {
        if self.ledger.open_count() >= OPEN_MAX {
            return Err(Trouble::Busy.into());
        }
        let terms = &payment.terms;
        let mut crowded = false;
        let claim = self.ledger.claim(payment, |count, owed| {
            crowded = count >= OPEN_OF_PAYER_MAX;
            !crowded && owed.saturating_add(terms.amount) <= balance
        });
        match claim {
            Some(claim) => Ok(claim),
            None if crowded => Err(Trouble::Busy.into()),
            None => {
                let refused = Refused::from(Reason::InsufficientBalance).of(terms.payer);
                Err(Fault::Refused(refused).into())
            }
        }
    }

    /// Keeps a payment and has it wait for its transaction: also if the caller hangs up meanwhile.
    async fn take_on(
        &self,
        settler: &Arc<Settler>,
        record: Record,
        claim: Claim,
    ) -> Result<Taken, Stop> {
        let (ledger, settler) = (self.ledger.clone(), Arc::clone(settler));
        let tasks = settler.tasks.clone();
        let taking = tasks.spawn(async move {
            settler.points.reach("settle.before accept");
            let taken = ledger.accept(record).await?;
            // From here on it counts as what has not ended.
            drop(claim);
            settler.points.reach("settle.after accept");
            if taken.new
                && let Known::Open(record, _progress) = &taken.known
            {
                settler.enqueue(Arc::clone(record));
            }
            Ok::<_, StoreFault>(taken)
        });
        let taken =
            taking.await.map_err(|_ended| Trouble::Unavailable("it is ending".to_owned()))?;
        Ok(taken.map_err(Trouble::from)?)
    }

    /// Finds a payment good. One whose nonce is not the next yet waits for those before it, if they are under
    /// way.
    async fn good(&self, settler: &Settler, read: &Read, deadline: u64) -> Result<Good, Stop> {
        loop {
            let fault = match verify::check(&settler.served, read, Hurry::Patient).await {
                Ok(good) => return Ok(good),
                Err(fault) => fault,
            };
            let Fault::Refused(refused) = &fault else { return Err(fault.into()) };
            if refused.reason != Reason::PrismNonce {
                return Err(fault.into());
            }
            let Some(before) = before(settler, read) else { return Err(fault.into()) };
            let known = self.ledger.find(before).await.map_err(Trouble::from)?;
            let Some(Known::Open(_record, progress)) = known else { return Err(fault.into()) };
            match wait(settler, progress, deadline).await {
                Progress::Ended(_state) => {}
                Progress::Accepted | Progress::Sent(_) => return Err(fault.into()),
            }
        }
    }

    /// A payment that was used before it came here is settled, if its money moved as it should; else it is
    /// refused.
    async fn settled_by_another(
        &self,
        settler: &Settler,
        read: &Read,
        refused: Refused,
    ) -> Result<End, Stop> {
        let used = [Reason::NonceUsed, Reason::Permit2Nonce];
        if !used.contains(&refused.reason) {
            return Ok(End::Refused(refused));
        }
        let served = &settler.served;
        let payment = verify::signed_payment(served, read).await?;
        // Whether a contract has signed cannot be told here, and who has not signed learns nothing.
        if !verify::is_signed_by_key(&payment) {
            return Ok(End::Refused(refused));
        }
        let found = match trace::find_recent(settler, &payment).await {
            Ok(found) => found,
            Err(fault) => return Err(Trouble::Unavailable(fault.to_string()).into()),
        };
        let Some((hash, block)) = found else { return Ok(End::Refused(refused)) };
        let at = served.clock.now().utc;
        let payer = payment.terms.payer;
        let state = State::Settled { hash, block, at };
        let record = Record { payment, accepted_at: at, since_block: block, attempts: 0, state };
        let taken = self.ledger.accept(record).await.map_err(Trouble::from)?;
        let told = ended(taken.known.record(), false, at);
        Ok(told.unwrap_or(End::Settled { hash, payer, repeated: false }))
    }
}

/// What is to be told of a payment that is known, once it has ended or time is up. `None` where it has failed and
/// may be tried again.
async fn known_end(
    settler: &Settler,
    read: &Read,
    known: &Known,
    deadline: u64,
    may_try_again: bool,
) -> Option<End> {
    let record = known.record();
    let payer = record.payment.terms.payer;
    // Only who has the very payment hears what became of it.
    if !verify::is_same(read, &record.payment) {
        let failed = matches!(record.state, State::Failed { .. });
        return (!failed).then(|| End::Refused(Refused::from(Reason::Duplicate).of(payer)));
    }
    let now = settler.served.clock.now().utc;
    match known {
        Known::Ended(record) => ended(record, may_try_again, now),
        Known::Open(record, progress) => {
            let pending = |hash| Some(End::Pending { hash, payer });
            match wait(settler, progress.clone(), deadline).await {
                Progress::Ended(state) => {
                    let record = Record { state, ..(**record).clone() };
                    ended(&record, false, now).or(Some(End::Pending { hash: None, payer }))
                }
                Progress::Sent(hash) => pending(Some(hash)),
                Progress::Accepted => pending(None),
            }
        }
    }
}

/// The payment of the same payer and token with the nonce before, where nonces count up.
fn before(settler: &Settler, read: &Read) -> Option<PaymentKey> {
    let nonce = U256::from_be_bytes(read.terms.nonce.0).checked_sub(U256::from(1))?;
    let mut terms = read.terms.clone();
    terms.nonce = B256::new(nonce.to_be_bytes());
    Some(PaymentKey::of(settler.served.place.chain, read.method.id(), &terms))
}

/// What has failed may be tried again, but not what has cost several transactions just now.
fn ended(record: &Record, may_try_again: bool, now: Utc) -> Option<End> {
    let payer = record.payment.terms.payer;
    match &record.state {
        State::Settled { hash, .. } => Some(End::Settled { hash: *hash, payer, repeated: false }),
        State::Failed { reason, message, at } => {
            let rests = record.attempts >= ATTEMPTS_MAX && now.since_ms(*at) < REST_MS;
            let told = End::Refused(Refused::because(*reason, message.clone()).of(payer));
            (!may_try_again || rests).then_some(told)
        }
        State::Queued | State::Sent { .. } => None,
    }
}

/// Waits for an end, within the time; cancel-safe.
async fn wait(
    settler: &Settler,
    mut progress: watch::Receiver<Progress>,
    deadline: u64,
) -> Progress {
    let over = |progress: &Progress| matches!(progress, Progress::Ended(_));
    // cancel-safe: both only wait.
    tokio::select! {
        _found = progress.wait_for(over) => {}
        () = settler.served.clock.sleep_until(deadline) => {}
        // What is under way is gone on with at the next start.
        () = settler.stopping.cancelled() => {}
    }
    progress.borrow().clone()
}

/// Why a settle ends early.
#[derive(Debug)]
enum Stop {
    Fault(Fault),
    Trouble(Trouble),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}
