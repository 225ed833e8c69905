//! Where a request to settle comes in, and its answer goes out: found good, kept, waited for.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use bursar_core::networks::ChainId;
use bursar_desks::store::StoreFault;
use bursar_submit::fees;
use bursar_x402::settlement::SettlementRequest;
use tokio::sync::watch;

use crate::book::ledger::{Known, Ledger, Progress};
use crate::book::{Record, State};
use crate::node::Hurry;
use crate::payment::{Payment, PaymentKey};
use crate::reason::{Reason, Refused};
use crate::settle::dispatch::Settler;
use crate::settle::trace;
use crate::verify::{self, Fault, Read};

/// How old what is known of the price of gas may be.
const PRICE_TTL_MS: u64 = 2_000;

/// More payments under way than this are not taken on: they would wait too long.
const OPEN_MAX: usize = 20_000;

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
    pub payees: std::collections::BTreeSet<Address>,
    /// How long an answer waits for a block.
    pub wait_ms: u64,
    prices: crate::memory::Memory<ChainId, bool>,
}

impl Door {
    pub fn new(
        settlers: BTreeMap<ChainId, Arc<Settler>>,
        ledger: Ledger,
        payees: std::collections::BTreeSet<Address>,
        wait_ms: u64,
    ) -> Self {
        Self { settlers, ledger, payees, wait_ms, prices: crate::memory::Memory::new(PRICE_TTL_MS) }
    }

    /// Who settles what a request asks for.
    fn settler(&self, request: &SettlementRequest) -> Result<&Arc<Settler>, Refused> {
        let chain = verify::chain_of(request)?;
        if !verify::serves_payee(&self.payees, request.asked.pay_to) {
            return Err(Reason::PayeeNotServed.into());
        }
        self.settlers.get(&chain).ok_or_else(|| Reason::UnsupportedNetwork.into())
    }

    /// Whether a payment is good. Changes nothing.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn verify(&self, request: &SettlementRequest) -> Result<Payment, Fault> {
        let settler = self.settler(request)?;
        let read = verify::read(&settler.served, request)?;
        verify::check(&settler.served, &read, Hurry::Now).await
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
        let end = self.settle_until(settler, request, deadline).await;
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
        request: &SettlementRequest,
        deadline: u64,
    ) -> Result<End, Stop> {
        let served = &settler.served;
        // A payment that has expired meanwhile may have been settled in time.
        let read = match verify::read_at_any_time(served, request) {
            Ok(read) => read,
            Err(fault) => return Err(fault.into()),
        };
        let chain = served.place.chain;
        if let Some(known) = self.ledger.find(read.key(chain)).await.map_err(Trouble::from)?
            && let Some(end) = self.known(settler, &read, known, deadline).await?
        {
            return Ok(end.repeated());
        }
        let now = served.now_seconds();
        crate::exact::check_time(&read.terms, now)
            .map_err(|reason| Refused::from(reason).of(read.terms.payer))
            .map_err(Fault::from)?;
        let payment = match self.good(settler, &read, deadline).await {
            Ok(payment) => payment,
            Err(Stop::Fault(Fault::Refused(refused))) if refused.reason == Reason::NonceUsed => {
                return self.settled_by_another(settler, &read, refused).await;
            }
            Err(stop) => return Err(stop),
        };
        if !self.is_affordable(settler).await? {
            return Ok(End::Refused(Refused::from(Reason::GasTooHigh).of(payment.terms.payer)));
        }
        if self.ledger.waiting().0 >= OPEN_MAX {
            return Err(Trouble::Busy.into());
        }
        let accepted_at = served.clock.now().utc;
        let record =
            Record { payment: payment.clone(), accepted_at, attempts: 0, state: State::Queued };
        settler.points.reach("settle.before accept");
        let taken = self.ledger.accept(record).await.map_err(Trouble::from)?;
        settler.points.reach("settle.after accept");
        if taken.new
            && let Known::Open(record, _progress) = &taken.known
        {
            settler.enqueue(Arc::clone(record));
        }
        let new = taken.new;
        match self.known(settler, &read, taken.known, deadline).await? {
            Some(end) if new => Ok(end),
            Some(end) => Ok(end.repeated()),
            None => {
                Ok(End::Refused(Refused::from(Reason::TransactionFailed).of(payment.terms.payer)))
            }
        }
    }

    /// What is to be told of a payment that is known. `None` where it has failed: it may be tried again.
    async fn known(
        &self,
        settler: &Settler,
        read: &Read,
        known: Known,
        deadline: u64,
    ) -> Result<Option<End>, Stop> {
        let record = match &known {
            Known::Open(record, _progress) => Arc::clone(record),
            Known::Ended(record) => Arc::new((**record).clone()),
        };
        let payer = record.payment.terms.payer;
        // Only who has the very payment hears what became of it.
        if !verify::is_same(&settler.served, read, &record.payment).await? {
            let failed = matches!(record.state, State::Failed { .. });
            let duplicate = End::Refused(Refused::from(Reason::Duplicate).of(payer));
            return Ok((!failed).then_some(duplicate));
        }
        match known {
            Known::Ended(record) => Ok(ended(&record.state, payer, true)),
            Known::Open(_record, progress) => {
                let end = wait(settler, progress, deadline).await;
                Ok(Some(match end {
                    Progress::Ended(state) => match ended(&state, payer, false) {
                        Some(end) => end,
                        None => End::Pending { hash: None, payer },
                    },
                    Progress::Sent(hash) => End::Pending { hash: Some(hash), payer },
                    Progress::Accepted => End::Pending { hash: None, payer },
                }))
            }
        }
    }

    /// Finds a payment good. One whose nonce is not the next yet waits for those before it, if they are under
    /// way.
    async fn good(&self, settler: &Settler, read: &Read, deadline: u64) -> Result<Payment, Stop> {
        loop {
            let fault = match verify::check(&settler.served, read, Hurry::Patient).await {
                Ok(payment) => return Ok(payment),
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

    /// A payment that was used before it came here is settled, if its money moved as it should.
    async fn settled_by_another(
        &self,
        settler: &Settler,
        read: &Read,
        refused: Refused,
    ) -> Result<End, Stop> {
        let served = &settler.served;
        let payment = verify::signed_payment(served, read).await?;
        let found = trace::find_recent(served, &payment).await.map_err(Fault::Chain)?;
        let Some((hash, block)) = found else { return Ok(End::Refused(refused)) };
        let at = served.clock.now().utc;
        let payer = payment.terms.payer;
        let state = State::Settled { hash, block, at };
        let record = Record { payment, accepted_at: at, attempts: 0, state };
        let taken = self.ledger.accept(record).await.map_err(Trouble::from)?;
        let told = match &taken.known {
            Known::Ended(record) => ended(&record.state, payer, false),
            Known::Open(record, _progress) => ended(&record.state, payer, false),
        };
        Ok(told.unwrap_or(End::Settled { hash, payer, repeated: false }))
    }

    /// Whether the network's price of gas is within what is paid.
    async fn is_affordable(&self, settler: &Settler) -> Result<bool, Stop> {
        let served = &settler.served;
        let (chain, now) = (served.place.chain, served.clock.mono_ms());
        if let Some(known) = self.prices.get(&chain, now) {
            return Ok(known);
        }
        let gas = served.config.gas();
        let facts = served.chain.fee_facts().await.map_err(Fault::Chain)?;
        settler.learn_block_gas(facts.block_gas);
        let affordable = match fees::quote(&gas, &facts) {
            Ok(quote) => fees::within(&quote, gas.ceiling).is_some(),
            Err(fault) => return Err(Trouble::Unavailable(fault.to_string()).into()),
        };
        self.prices.learn(chain, affordable, now);
        Ok(affordable)
    }
}

/// The payment of the same payer and token with the nonce before, where nonces count up.
fn before(settler: &Settler, read: &Read) -> Option<PaymentKey> {
    use alloy_primitives::U256;
    let nonce = U256::from_be_bytes(read.terms.nonce.0).checked_sub(U256::from(1))?;
    let mut terms = read.terms.clone();
    terms.nonce = B256::new(nonce.to_be_bytes());
    Some(PaymentKey::of(settler.served.place.chain, read.method.id(), &terms))
}

/// `again`: what has failed may be tried again.
fn ended(state: &State, payer: Address, again: bool) -> Option<End> {
    match state {
        State::Settled { hash, .. } => Some(End::Settled { hash: *hash, payer, repeated: false }),
        State::Failed { .. } if again => None,
        State::Failed { reason, message, .. } => {
            Some(End::Refused(Refused::because(*reason, message.clone()).of(payer)))
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
