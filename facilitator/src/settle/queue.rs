//! The queue of one network: which payments join the next transaction, and when. Pure.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::Address;

use crate::book::record::Record;
use crate::book::reservation::GasReservation;
use crate::job::{Job, are_distinguishable};
use crate::transaction;
use crate::work::SenderRule;

/// Maximum number of payments that are sent alone to examine for one that a signer can send now.
const LOOK_AHEAD_PAYMENTS_MAX: usize = 256;

/// When payments are sent, and how many together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchLimits {
    /// Maximum number of payments per transaction.
    pub batch_max: usize,
    /// Whether the network is known to have Multicall3.
    ///
    /// Payments that any signer may send share a transaction only through it.
    pub has_multicall: bool,
    /// How long a payment waits for others while transactions are in flight, in milliseconds.
    pub window_ms: u64,
    /// Maximum number of unmined transactions per signer.
    pub in_flight_max: usize,
    /// Maximum gas of a transaction.
    pub transaction_gas_max: u64,
    /// Gas for 1,000 bytes of data.
    pub data_gas: u64,
}

#[derive(Debug, Clone)]
struct QueuedPayment {
    record: Arc<Record>,
    since_ms: u64,
}

/// The payments that a lane contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneKind {
    /// Payments with this sender rule, which may share a transaction.
    Shared(SenderRule),
    /// Payments that are sent alone.
    Alone,
}

/// Payments of one kind, in order of arrival.
#[derive(Debug, Clone)]
struct Lane {
    kind: LaneKind,
    payments: VecDeque<QueuedPayment>,
}

/// Queued payments in lanes. A lane contains payments that may share a transaction, or those that are sent alone. The
/// lanes take turns, so that many payments of one kind do not delay the others.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Tokens whose payments may share a transaction.
    known_tokens: BTreeSet<Address>,
    /// The lanes, in the order of their first payments. Empty lanes are kept, because sender rules bound their number.
    lanes: Vec<Lane>,
    /// The index of the lane that goes first, if several are ready.
    next_lane: usize,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(known_tokens: BTreeSet<Address>) -> Self {
        Self { known_tokens, ..Self::default() }
    }

    /// Appends a payment.
    pub fn push(&mut self, record: Arc<Record>, now_ms: u64) {
        let known = |token| self.known_tokens.contains(&token);
        // A payment that failed in a shared transaction is tried alone.
        let shares = record.attempts == 0 && transaction::can_share(&record.job, known);
        let rule = record.job.work().sender();
        let kind = if shares { LaneKind::Shared(rule) } else { LaneKind::Alone };
        let queued = QueuedPayment { record, since_ms: now_ms };
        match self.lanes.iter_mut().find(|lane| lane.kind == kind) {
            Some(lane) => lane.payments.push_back(queued),
            None => self.lanes.push(Lane { kind, payments: VecDeque::from([queued]) }),
        }
    }

    /// Drops payments at the front of each lane that are no longer queued in the ledger.
    pub fn drop_withdrawn(&mut self, is_queued: impl Fn(&Record) -> bool) {
        for lane in &mut self.lanes {
            while lane.payments.pop_front_if(|first| !is_queued(&first.record)).is_some() {}
        }
    }

    /// Takes expired payments from the front of each lane, so that a payment that no signer can send ends too.
    pub fn take_expired(&mut self, is_expired: impl Fn(&Record) -> bool) -> Vec<Arc<Record>> {
        let mut expired = Vec::new();
        for lane in &mut self.lanes {
            while let Some(first) = lane.payments.pop_front_if(|first| is_expired(&first.record)) {
                expired.push(first.record);
            }
        }
        expired
    }

    /// The time of the next attempt, in milliseconds; `None` if nothing is queued. The attempt waits until a payment
    /// becomes due, or for `pause_ms` if a payment is due but no signer can send it.
    pub fn wake_ms(&self, limits: &DispatchLimits, now_ms: u64, pause_ms: u64) -> Option<u64> {
        let due = |lane: &Lane| Some(lane.kind.due_ms(lane.payments.front()?, limits));
        let wake = |due: u64| if due > now_ms { due } else { now_ms.saturating_add(pause_ms) };
        self.lanes.iter().filter_map(due).map(wake).min()
    }

    /// Takes the payments of the next transaction and picks its sender.
    ///
    /// A payment that is sent alone does not wait for others. While transactions are in flight, other payments wait
    /// up to `window_ms` so that they can share a transaction.
    pub fn next<S>(
        &mut self,
        limits: &DispatchLimits,
        idle: bool,
        now_ms: u64,
        sender: impl Fn(&Record) -> Option<S>,
        can_pay: impl Fn(&S, GasReservation) -> bool,
    ) -> Option<(S, Vec<Arc<Record>>)> {
        let count = self.lanes.len();
        for index in (self.next_lane..count).chain(0..self.next_lane.min(count)) {
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            if !idle && !lane.is_due(limits, now_ms) {
                continue;
            }
            let next = match lane.kind {
                LaneKind::Shared(_rule) => lane.next_shared(limits, &sender, &can_pay),
                LaneKind::Alone => lane.next_alone(&sender),
            };
            if next.is_some() {
                self.next_lane = index.saturating_add(1);
                return next;
            }
        }
        None
    }
}

impl LaneKind {
    /// Maximum number of payments of the lane per transaction.
    fn batch_max(self, limits: &DispatchLimits) -> usize {
        match self {
            Self::Shared(SenderRule::ThroughContract(_contract)) => limits.batch_max,
            Self::Shared(_multicall) if limits.has_multicall => limits.batch_max,
            Self::Shared(_) | Self::Alone => 1,
        }
    }

    /// When the first payment of the lane is sent at the latest, if a signer can send it.
    fn due_ms(self, first: &QueuedPayment, limits: &DispatchLimits) -> u64 {
        match self {
            Self::Shared(_rule) => first.since_ms.saturating_add(limits.window_ms),
            Self::Alone => first.since_ms,
        }
    }
}

impl Lane {
    /// Whether the first payment has waited long enough for others, or the lane fills a transaction.
    fn is_due(&self, limits: &DispatchLimits, now_ms: u64) -> bool {
        let is_full = self.payments.len() >= self.kind.batch_max(limits);
        let first = self.payments.front();
        first.is_some_and(|first| is_full || self.kind.due_ms(first, limits) <= now_ms)
    }

    /// Takes the next payment that a signer can send now.
    fn next_alone<S>(
        &mut self,
        sender: impl Fn(&Record) -> Option<S>,
    ) -> Option<(S, Vec<Arc<Record>>)> {
        // A payment that waits for its signer does not block the ones behind it.
        let mut candidates = self.payments.iter().enumerate().take(LOOK_AHEAD_PAYMENTS_MAX);
        let (index, sender) =
            candidates.find_map(|(index, queued)| Some((index, sender(&queued.record)?)))?;
        let alone = self.payments.remove(index)?;
        Some((sender, vec![alone.record]))
    }

    /// Takes the payments of the next shared transaction.
    fn next_shared<S>(
        &mut self,
        limits: &DispatchLimits,
        sender: impl Fn(&Record) -> Option<S>,
        can_pay: impl Fn(&S, GasReservation) -> bool,
    ) -> Option<(S, Vec<Arc<Record>>)> {
        let sender = sender(&self.payments.front()?.record)?;
        let records = self.take_shared(limits, |reservation| {
            reservation.gas <= limits.transaction_gas_max && can_pay(&sender, reservation)
        });
        Some((sender, records))
    }

    /// Takes the first payment, and the following payments that fit into its transaction.
    fn take_shared(
        &mut self,
        limits: &DispatchLimits,
        fits: impl Fn(GasReservation) -> bool,
    ) -> Vec<Arc<Record>> {
        let Some(first) = self.payments.pop_front() else { return Vec::new() };
        let reservation_of = |job: &Job| {
            let kilobytes = transaction::data_kilobytes(job);
            let data_gas = limits.data_gas.saturating_mul(kilobytes);
            GasReservation {
                gas: transaction::gas_share(job).saturating_add(data_gas),
                data_kilobytes: kilobytes,
            }
        };
        let mut total = reservation_of(&first.record.job);
        let mut taken = vec![first.record];
        let mut skipped = Vec::new();
        // The scan is bounded, because the queue may be long.
        let batch_max = self.kind.batch_max(limits);
        while taken.len() < batch_max
            && skipped.len() < batch_max
            && let Some(next) = self.payments.pop_front()
        {
            let job = &next.record.job;
            let mut total_with_next = total;
            total_with_next.add(reservation_of(job));
            let joins = fits(total_with_next)
                && taken.iter().all(|other| are_distinguishable(&other.job, job));
            if joins {
                total = total_with_next;
                taken.push(next.record);
            } else {
                skipped.push(next);
            }
        }
        for next in skipped.into_iter().rev() {
            self.payments.push_front(next);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::record::{RequestOrigin, State};
    use crate::payment::{MethodId, Payment, Terms};
    use alloy_primitives::{Address, B256, Bytes, U256};
    use bursar_core::networks::ChainId;
    use bursar_core::time::Utc;

    const LIMITS: DispatchLimits = DispatchLimits {
        batch_max: 3,
        has_multicall: true,
        window_ms: 50,
        in_flight_max: 1,
        transaction_gas_max: u64::MAX,
        data_gas: 0,
    };

    fn record(n: u8, method: MethodId) -> Arc<Record> {
        let terms = Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            authorized_amount: U256::from(n),
            nonce: B256::repeat_byte(n),
            valid_after: U256::ZERO,
            valid_before: U256::MAX,
            facilitator: None,
        };
        let payment = Payment {
            chain: ChainId(8453),
            method,
            terms,
            amount: U256::from(n),
            digest: B256::repeat_byte(n),
            signature: Bytes::new(),
            deployment: None,
            is_contract_payer: false,
            sponsoring: None,
        };
        Arc::new(Record {
            job: payment.into(),
            accepted_at: Utc(0),
            since_block: 0,
            attempts: 0,
            state: State::Queued,
            gas: 0,
            gas_caller: B256::ZERO,
            origin: RequestOrigin::default(),
            pending_returned: false,
            success_returned_at: None,
        })
    }

    fn payment_of(record: &mut Record) -> &mut Payment {
        let Job::Payment(payment) = &mut record.job else { panic!("a payment") };
        payment
    }

    fn queue(records: impl IntoIterator<Item = Arc<Record>>) -> Queue {
        let mut queue = Queue::new(BTreeSet::from([Address::repeat_byte(1)]));
        records.into_iter().for_each(|record| queue.push(record, 100));
        queue
    }

    fn next(
        queue: &mut Queue,
        limits: &DispatchLimits,
        idle: bool,
        now_ms: u64,
    ) -> Option<Vec<Arc<Record>>> {
        let any_signer = |_record: &Record| Some(());
        let taken = queue.next(limits, idle, now_ms, any_signer, |_sender, _aside| true);
        taken.map(|(_sender, records)| records)
    }

    fn numbers(taken: Option<Vec<Arc<Record>>>) -> Vec<u8> {
        let number = |record: &Arc<Record>| record.digest().0[0];
        taken.map(|taken| taken.iter().map(number).collect()).unwrap_or_default()
    }

    #[test]
    fn lone_payment_is_sent_at_once_and_others_wait_at_most_the_window() {
        let lone = || queue([record(1, MethodId::Eip3009)]);
        assert_eq!(numbers(next(&mut lone(), &LIMITS, true, 100)), [1]);
        assert_eq!(numbers(next(&mut lone(), &LIMITS, false, 149)), [0_u8; 0]);
        assert_eq!(numbers(next(&mut lone(), &LIMITS, false, 150)), [1]);
        let mut full = queue((1..=4).map(|n| record(n, MethodId::Eip3009)));
        assert_eq!(numbers(next(&mut full, &LIMITS, false, 100)), [1, 2, 3]);
        assert_eq!(numbers(next(&mut full, &LIMITS, false, 100)), [0_u8; 0]);
        assert_eq!(numbers(next(&mut full, &LIMITS, true, 100)), [4]);
    }

    #[test]
    fn queue_wakes_when_a_payment_is_due_or_after_a_pause_without_signer() {
        let wake = |queue: &Queue, now_ms| queue.wake_ms(&LIMITS, now_ms, 500);
        assert_eq!(wake(&queue([]), 100), None);
        let shared = queue([record(1, MethodId::Eip3009)]);
        assert_eq!(wake(&shared, 100), Some(150));
        assert_eq!(wake(&shared, 149), Some(150));
        assert_eq!(wake(&shared, 150), Some(650), "it is due and was not sent");
        let alone = queue([record(1, MethodId::Prism)]);
        assert_eq!(wake(&alone, 100), Some(600));
        let both = queue([record(1, MethodId::Prism), record(2, MethodId::Eip3009)]);
        assert_eq!(wake(&both, 100), Some(150), "one that waits for its signer delays no other");
    }

    #[test]
    fn unshareable_payments_are_sent_alone_in_order() {
        let mut contract = (*record(2, MethodId::Eip3009)).clone();
        payment_of(&mut contract).is_contract_payer = true;
        let mut again = (*record(4, MethodId::Eip3009)).clone();
        again.attempts = 1;
        let mut mixed = queue([
            record(1, MethodId::Eip3009),
            Arc::new(contract),
            record(3, MethodId::Prism),
            Arc::new(again),
            record(5, MethodId::Eip3009),
        ]);
        let five = DispatchLimits { batch_max: 5, ..LIMITS };
        assert_eq!(numbers(next(&mut mixed, &five, true, 100)), [1, 5]);
        for n in [2, 3, 4] {
            assert_eq!(numbers(next(&mut mixed, &LIMITS, false, 100)), [n]);
        }
        assert_eq!(numbers(next(&mut mixed, &LIMITS, true, 1_000)), [0_u8; 0]);
    }

    #[test]
    fn lone_and_shared_payments_take_turns() {
        let alone = (1..=3).map(|n| record(n, MethodId::Prism));
        let mut both = queue(alone.chain((4..=7).map(|n| record(n, MethodId::Eip3009))));
        let two = DispatchLimits { batch_max: 2, ..LIMITS };
        let order = (0..5).map(|_turn| numbers(next(&mut both, &two, false, 100)));
        assert_eq!(order.collect::<Vec<_>>(), [vec![1], vec![4, 5], vec![2], vec![6, 7], vec![3]]);
    }

    #[test]
    fn payments_through_a_contract_share_only_with_their_own_kind_and_block_no_other() {
        let through = |n, contract| {
            let mut through = (*record(n, MethodId::UptoPermit2ByContract)).clone();
            payment_of(&mut through).terms.facilitator = Some(Address::repeat_byte(contract));
            Arc::new(through)
        };
        let any = |n| record(n, MethodId::Permit2);
        let mixed = || queue([through(1, 7), any(2), through(3, 8), through(4, 7), any(5)]);
        let mut all = mixed();
        for together in [vec![1, 4], vec![2, 5], vec![3]] {
            assert_eq!(numbers(next(&mut all, &LIMITS, true, 100)), together);
        }
        let mut blocked = mixed();
        let busy = SenderRule::ThroughContract(Address::repeat_byte(7));
        let sender = |record: &Record| (record.job.work().sender() != busy).then_some(());
        let mut taken = || {
            let taken = blocked.next(&LIMITS, true, 100, sender, |_sender, _gas| true);
            numbers(taken.map(|(_sender, records)| records))
        };
        assert_eq!(taken(), [2, 5]);
        assert_eq!(taken(), [3]);
        assert_eq!(taken(), [0_u8; 0]);
        assert_eq!(numbers(next(&mut blocked, &LIMITS, true, 100)), [1, 4]);
        // Payments through a contract share a transaction without Multicall3; other payments need it.
        let without = DispatchLimits { has_multicall: false, ..LIMITS };
        let mut all = mixed();
        for together in [vec![1, 4], vec![2], vec![3], vec![5]] {
            assert_eq!(numbers(next(&mut all, &without, true, 100)), together);
        }
    }

    #[test]
    fn payments_in_unknown_tokens_never_share_a_transaction() {
        let mut unknown = (*record(2, MethodId::Permit2)).clone();
        payment_of(&mut unknown).terms.token = Address::repeat_byte(9);
        let mut both = queue([record(1, MethodId::Eip3009), Arc::new(unknown)]);
        assert_eq!(numbers(next(&mut both, &LIMITS, true, 100)), [1]);
        assert_eq!(numbers(next(&mut both, &LIMITS, true, 100)), [2]);
    }

    #[test]
    fn payments_with_indistinguishable_events_never_share_a_transaction() {
        let twin = |n| {
            let mut twin = (*record(n, MethodId::Permit2)).clone();
            let payment = payment_of(&mut twin);
            (payment.terms.authorized_amount, payment.amount) = (U256::from(7), U256::from(7));
            Arc::new(twin)
        };
        let mut twins = queue([twin(1), twin(2), record(3, MethodId::Permit2)]);
        assert_eq!(numbers(next(&mut twins, &LIMITS, true, 100)), [1, 3]);
        assert_eq!(numbers(next(&mut twins, &LIMITS, true, 100)), [2]);
    }

    #[test]
    fn withdrawn_payments_do_not_block_the_queue() {
        let mut contract = (*record(9, MethodId::Eip3009)).clone();
        payment_of(&mut contract).is_contract_payer = true;
        let mut all = queue((1..=3).map(|n| record(n, MethodId::Eip3009)));
        all.push(Arc::new(contract), 100);
        all.drop_withdrawn(|record| ![1, 9].contains(&record.digest().0[0]));
        assert_eq!(numbers(next(&mut all, &LIMITS, true, 100)), [2, 3]);
        assert_eq!(numbers(next(&mut all, &LIMITS, true, 100)), [0_u8; 0]);
    }

    #[test]
    fn payment_without_a_free_signer_blocks_no_other_and_keeps_its_place() {
        let alone = (1..=2).map(|n| record(n, MethodId::Prism));
        let mut contract = (*record(3, MethodId::Eip3009)).clone();
        payment_of(&mut contract).is_contract_payer = true;
        let shared = (4..=5).map(|n| record(n, MethodId::Eip3009));
        let mut all = queue(alone.chain([Arc::new(contract)]).chain(shared));
        let mut send = |free: &dyn Fn(&Record) -> bool| {
            let sender = |record: &Record| free(record).then_some(7);
            let sent = all.next(&LIMITS, true, 100, sender, |_sender, _aside| true);
            numbers(sent.map(|(sender, records)| {
                assert_eq!(sender, 7);
                records
            }))
        };
        let not_prism = |record: &Record| !matches!(&record.job, Job::Payment(payment) if payment.method == MethodId::Prism);
        assert_eq!(send(&|_record| false), [0_u8; 0]);
        assert_eq!(send(&|record| !transaction::can_share(&record.job, |_token| true)), [1]);
        assert_eq!(send(&not_prism), [4, 5]);
        assert_eq!(send(&not_prism), [3], "it passes the payment that waits for its signer");
        assert_eq!(send(&not_prism), [0_u8; 0]);
        assert_eq!(send(&|_record| true), [2]);
    }

    #[test]
    fn shared_transaction_respects_the_gas_limit() {
        let small = DispatchLimits {
            transaction_gas_max: 2 * transaction::gas_share(&record(1, MethodId::Eip3009).job),
            ..LIMITS
        };
        let mut all = queue((1..=3).map(|n| record(n, MethodId::Eip3009)));
        assert_eq!(numbers(next(&mut all, &small, true, 100)), [1, 2]);
        // One payment is always taken, however much gas it needs. Otherwise it would wait forever.
        let none = DispatchLimits { transaction_gas_max: 0, ..LIMITS };
        assert_eq!(numbers(next(&mut all, &none, true, 100)), [3]);
        // The gas for data counts, too. With data gas of half the limit per payment, only one payment fits.
        let mut all = queue((1..=3).map(|n| record(n, MethodId::Eip3009)));
        let data = DispatchLimits { data_gas: small.transaction_gas_max / 2, ..small };
        assert_eq!(numbers(next(&mut all, &data, true, 100)), [1]);
        assert_eq!(numbers(next(&mut all, &small, true, 100)), [2, 3]);
    }

    #[test]
    fn shared_transaction_respects_its_signers_balance() {
        let share = transaction::gas_share(&record(1, MethodId::Eip3009).job);
        let mut all = queue((1..=6).map(|n| record(n, MethodId::Eip3009)));
        let mut send = |most: GasReservation| {
            let can_pay = |signer: &u8, all: GasReservation| {
                assert_eq!(*signer, 7);
                all.gas <= most.gas && all.data_kilobytes <= most.data_kilobytes
            };
            let sent = all.next(&LIMITS, true, 100, |_record| Some(7), can_pay);
            numbers(sent.map(|(_signer, records)| records))
        };
        assert_eq!(send(GasReservation { gas: 2 * share, data_kilobytes: 9 }), [1, 2]);
        assert_eq!(send(GasReservation { gas: 2 * share - 1, data_kilobytes: 9 }), [3]);
        assert_eq!(send(GasReservation { gas: u64::MAX, data_kilobytes: 2 }), [4, 5]);
        assert_eq!(send(GasReservation::default()), [6]);
    }
}
