//! Scenarios of single submissions, step by step.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers stand outside #[test]")]

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_submit::fees::FeeQuote;
use bursar_submit::{
    Action, Call, Event, Fees, FoundReceipt, Input, Outbox, OutboxKey, Outcome, Quote, Raw,
    Refusal, Rules, SendAnswer, SubmissionId, Trouble, apply, raised_offer, resume, step,
};
use bursar_x402::signature::Signature65;
use k256::ecdsa::SigningKey;

const RULES: Rules =
    Rules { confirmations: 3, patience_ms: 10_000, window: 2, ceiling: 4_000, person_signs: false };

struct Story {
    rules: Rules,
    outbox: Outbox,
    key: SigningKey,
    now: Utc,
    price: u128,
    pending: u64,
    mined: u64,
}

impl Story {
    fn begin() -> Self {
        let key = SigningKey::from_slice(&[7; 32]).unwrap();
        let point = key.verifying_key().to_encoded_point(false);
        let signer = Address::from_word(keccak256(&point.as_bytes()[1..]));
        let outbox = Outbox::new(OutboxKey { chain: ChainId(1), signer });
        Self { rules: RULES, outbox, key, now: Utc(0), price: 100, pending: 0, mined: 0 }
    }

    fn input(&mut self, input: Input) -> (Vec<Event>, Vec<Action>) {
        let taken = step(&self.outbox, &self.rules, self.now, input).unwrap();
        taken.events.iter().for_each(|event| apply(&mut self.outbox, event));
        (taken.events, taken.actions)
    }

    fn open(&mut self, n: u8) {
        let call = call(n);
        self.input(Input::Open { id: id(n), call, ceiling: 1_000, until: None });
    }

    fn input_quote(&mut self) -> (Vec<Event>, Vec<Action>) {
        let fees = Fees::Dynamic { max_fee: self.price, tip: 8 };
        let fee = FeeQuote { fees, needed: self.price / 2 };
        self.input(Input::Quoted(Quote {
            fee,
            plain_gas: 21_000,
            pending: self.pending,
            mined: self.mined,
        }))
    }

    /// Answers the next quote and every signature request; returns the broadcasts.
    fn quote_and_sign(&mut self) -> Vec<(SubmissionId, Raw)> {
        let (_events, actions) = self.input_quote();
        let mut sent = Vec::new();
        for action in actions {
            let Action::Sign { id, attempt, digest } = action else { continue };
            let signature = self.sign(digest);
            let (_kept, actions) = self.input(Input::Signature { id, attempt, signature });
            sent.extend(actions.into_iter().map(|action| match action {
                Action::Send { id, raw } => (id, raw),
                other => panic!("{other:?}"),
            }));
        }
        sent
    }

    fn sign(&self, digest: B256) -> Signature65 {
        let (scalars, parity) = self.key.sign_prehash_recoverable(digest.as_slice()).unwrap();
        let (r, s) = scalars.split_bytes();
        Signature65::new(B256::from_slice(&r), B256::from_slice(&s), parity.to_byte()).unwrap()
    }

    /// Reports the transaction twice, as required, in a block that is deep enough.
    fn report_mined(&mut self, n: u8, raw: &Raw, asked: usize) -> Vec<Event> {
        self.input(lookup_with_receipt(n, Some(raw), asked, 4, 9));
        self.input(lookup_with_receipt(n, Some(raw), asked, 4, 9)).0
    }

    fn nonce(&self, n: u8) -> Option<u64> {
        self.outbox.open.get(&id(n))?.nonce
    }

    fn trouble(&self, n: u8) -> Option<Trouble> {
        self.outbox.open.get(&id(n))?.trouble
    }
}

fn id(n: u8) -> SubmissionId {
    SubmissionId([n; 16])
}

fn call(n: u8) -> Call {
    Call { to: Address::ZERO, value: U256::from(n), data: Bytes::new(), gas_limit: 21_000 }
}

fn lookup_with_receipt(n: u8, found: Option<&Raw>, asked: usize, block: u64, head: u64) -> Input {
    let found =
        found.map(|raw| FoundReceipt { hash: raw.hash, block, block_hash: B256::ZERO, ok: true });
    let settled = if found.is_some() { head } else { 0 };
    Input::LookedUp { id: id(n), asked, found, known: true, head, settled }
}

#[test]
fn a_submission_succeeds_once_its_block_is_final() {
    let mut story = Story::begin();
    story.open(1);
    let sent = story.quote_and_sign();
    let [(_id, raw)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(story.input(lookup_with_receipt(1, None, 1, 0, 5)).0, []);
    assert_eq!(story.input(lookup_with_receipt(1, Some(raw), 1, 6, 6)).0.len(), 1, "included");
    assert_eq!(
        story.input(lookup_with_receipt(1, Some(raw), 1, 6, 7)).0,
        [],
        "two blocks are not three"
    );
    let (events, _) = story.input(lookup_with_receipt(1, Some(raw), 1, 6, 8));
    let outcome = Outcome::Succeeded { hash: raw.hash, block: 6 };
    assert_eq!(events, [Event::Finished { id: id(1), outcome }]);
    assert_eq!((story.outbox.floor, story.outbox.open.len()), (1, 0));
}

#[test]
fn an_offer_rises_by_an_eighth_and_either_attempt_may_be_mined() {
    let mut story = Story::begin();
    story.open(1);
    let first = story.quote_and_sign();
    story.now = Utc(9_999);
    assert_eq!(story.input_quote().0, [], "not before its time");
    story.now = Utc(10_000);
    let second = story.quote_and_sign();
    let offers: Vec<Fees> =
        story.outbox.open[&id(1)].attempts.iter().map(|attempt| attempt.fees).collect();
    let dynamic = |max_fee, tip| Fees::Dynamic { max_fee, tip };
    assert_eq!(offers, [dynamic(100, 8), dynamic(113, 9)]);
    assert_ne!(first[0].1.hash, second[0].1.hash);
    // The first attempt was mined after all.
    story.report_mined(1, &first[0].1, 2);
    assert!(story.outbox.open.is_empty());
}

#[test]
fn a_pending_signature_blocks_further_offers() {
    let mut story = Story::begin();
    story.open(1);
    let (events, _actions) = story.input_quote();
    assert_eq!(events.len(), 2, "a nonce and the leave to sign");
    story.now = Utc(1_000_000);
    assert_eq!(story.input_quote(), (vec![], vec![]));
    let again = resume(&story.outbox, &RULES, story.now);
    let signs = again.iter().filter(|action| matches!(action, Action::Sign { attempt: 0, .. }));
    assert_eq!(signs.count(), 1, "after a restart the same is asked");
}

#[test]
fn a_submission_waits_while_the_price_exceeds_its_ceiling() {
    let mut story = Story::begin();
    story.price = 5_000;
    story.open(1);
    assert_eq!(story.quote_and_sign(), []);
    assert_eq!((story.nonce(1), story.trouble(1)), (None, Some(Trouble::TooExpensive)));
    assert_eq!(story.input_quote().0, [], "said once");
    story.price = 800;
    let sent = story.quote_and_sign();
    assert_eq!((sent.len(), story.trouble(1)), (1, None));
    for _patience in 0..10 {
        story.now = story.now.plus_ms(10_000);
        story.quote_and_sign();
    }
    let most =
        story.outbox.open[&id(1)].attempts.iter().map(|attempt| attempt.fees.max_price()).max();
    assert!(most.unwrap() <= 1_000, "{most:?}");
}

#[test]
fn at_most_the_window_holds_nonces_in_order_of_arrival() {
    let mut story = Story::begin();
    (1..=3).for_each(|n| story.open(n));
    story.quote_and_sign();
    assert_eq!([story.nonce(1), story.nonce(2), story.nonce(3)], [Some(0), Some(1), None]);
    story.pending = 2;
    let hash = story.outbox.open[&id(1)].attempts[0].raw.clone().unwrap();
    story.report_mined(1, &hash, 1);
    story.quote_and_sign();
    assert_eq!(story.nonce(3), Some(2));
}

#[test]
fn a_cancel_drops_unsigned_calls_and_replaces_signed_ones() {
    let mut story = Story::begin();
    story.open(1);
    story.input_quote();
    let (events, _) = story.input(Input::Cancel { id: id(1) });
    assert_eq!(events, [Event::Finished { id: id(1), outcome: Outcome::Dropped }]);
    story.open(2);
    let whole = story.quote_and_sign();
    assert_eq!(story.nonce(2), Some(0), "nobody used it");
    story.input(Input::Cancel { id: id(2) });
    let nothing = story.quote_and_sign();
    assert_eq!(nothing.len(), 1);
    // The empty transaction is requested only once.
    assert_eq!(story.quote_and_sign(), []);
    let events = story.report_mined(2, &nothing[0].1, 2);
    let outcome = Outcome::Cancelled { hash: nothing[0].1.hash, block: 4 };
    assert_eq!(events.last(), Some(&Event::Finished { id: id(2), outcome }));
    assert_ne!(whole[0].1.hash, nothing[0].1.hash);
}

#[test]
fn a_mined_submission_cannot_be_cancelled() {
    let mut story = Story::begin();
    story.open(1);
    let sent = story.quote_and_sign();
    story.input(lookup_with_receipt(1, Some(&sent[0].1), 1, 4, 4));
    let refused = step(&story.outbox, &RULES, story.now, Input::Cancel { id: id(1) });
    assert_eq!(refused, Err(Refusal::TooLate));
}

#[test]
fn a_reused_id_is_refused_and_a_repeated_open_has_no_effect() {
    let mut story = Story::begin();
    story.open(1);
    let again = |call| Input::Open { id: id(1), call, ceiling: 1_000, until: None };
    assert_eq!(story.input(again(call(1))), (vec![], vec![]));
    let other = step(&story.outbox, &RULES, story.now, again(call(2)));
    assert_eq!(other, Err(Refusal::OtherCall));
}

#[test]
fn an_implausible_pending_count_is_not_followed() {
    let mut story = Story::begin();
    story.open(1);
    story.quote_and_sign();
    story.pending = 1_000_000;
    story.open(2);
    assert_eq!(story.quote_and_sign(), []);
    assert_eq!((story.nonce(2), story.trouble(2)), (None, Some(Trouble::NonceJump)));
    story.pending = 1;
    story.quote_and_sign();
    assert_eq!(story.nonce(2), Some(1));
}

#[test]
fn a_nonce_gap_is_used_by_the_queue_or_filled() {
    let mut story = Story::begin();
    // A node counts transactions that do not exist, so the first nonce is too high.
    story.pending = 2;
    story.open(1);
    story.quote_and_sign();
    assert_eq!(story.nonce(1), Some(2));
    story.pending = 0;
    story.open(2);
    story.quote_and_sign();
    assert_eq!(story.nonce(2), Some(0), "the gap comes first");
    story.pending = 1;
    assert_eq!(story.quote_and_sign(), [], "it may only be late");
    story.now = Utc(10_000);
    story.quote_and_sign();
    let fillers: Vec<_> = story.outbox.open.values().filter(|one| one.filler).collect();
    assert_eq!(fillers.len(), 1);
    assert_eq!((fillers[0].nonce, fillers[0].call.value), (Some(1), U256::ZERO));
    assert_eq!(fillers[0].call.to, story.outbox.key.signer);
}

#[test]
fn a_repeated_answer_reports_its_trouble_once() {
    let mut story = Story::begin();
    story.open(1);
    story.quote_and_sign();
    let unfunded = Input::Answered { id: id(1), answer: SendAnswer::Unfunded };
    assert_eq!(story.input(unfunded.clone()).0.len(), 1);
    assert_eq!(story.input(unfunded), (vec![], vec![]));
    let clear = Input::Answered { id: id(1), answer: SendAnswer::AlreadyKnown };
    story.input(clear);
    assert_eq!(story.trouble(1), None);
}

#[test]
fn one_lookup_or_a_contradicting_count_is_not_final() {
    let mut story = Story::begin();
    story.open(1);
    let sent = story.quote_and_sign();
    let raw = &sent[0].1;
    let (events, _) = story.input(lookup_with_receipt(1, Some(raw), 1, 4, 900));
    assert_eq!(events.len(), 1, "only that it is in a block: {events:?}");
    // The same node reports that the signer has sent nothing yet.
    let found = Some(FoundReceipt { hash: raw.hash, block: 4, block_hash: B256::ZERO, ok: false });
    let contradicted =
        Input::LookedUp { id: id(1), asked: 1, found, known: true, head: 900, settled: 0 };
    story.input(contradicted.clone());
    assert_eq!(story.input(contradicted), (vec![], vec![]));
    // A receipt from a block above the head has no confirmations.
    let mut quick = Story::begin();
    quick.open(1);
    let sent = quick.quote_and_sign();
    let early = lookup_with_receipt(1, Some(&sent[0].1), 1, 9, 8);
    quick.input(early.clone());
    assert_eq!(quick.input(early).0, []);
}

#[test]
fn a_submission_at_its_ceiling_can_still_be_cancelled() {
    let mut story = Story::begin();
    story.price = 1_000;
    story.open(1);
    story.quote_and_sign();
    story.now = Utc(10_000);
    assert_eq!(story.quote_and_sign(), [], "nothing more may be offered for it");
    assert_eq!(story.trouble(1), Some(Trouble::TooExpensive));
    story.input(Input::Cancel { id: id(1) });
    let nothing = story.quote_and_sign();
    assert_eq!(nothing.len(), 1, "for doing nothing more may");
    let last = story.outbox.open[&id(1)].attempts.last().unwrap().fees.max_price();
    assert!(last > 1_000 && last <= RULES.ceiling, "{last}");
}

#[test]
fn a_late_signature_is_not_broadcast_after_a_cancel() {
    let mut story = Story::begin();
    story.open(1);
    story.quote_and_sign();
    story.now = Utc(10_000);
    let (_events, actions) = story.input_quote();
    let [Action::Sign { attempt, digest, .. }] = actions.as_slice() else { panic!("{actions:?}") };
    let (attempt, digest) = (*attempt, *digest);
    story.input(Input::Cancel { id: id(1) });
    let late = Input::Signature { id: id(1), attempt, signature: story.sign(digest) };
    assert_eq!(story.input(late), (vec![], vec![]));
    assert_eq!(story.quote_and_sign().len(), 1, "and nothing takes its place");
}

#[test]
fn no_higher_offer_if_a_higher_price_would_not_help() {
    for answer in [SendAnswer::Unfunded, SendAnswer::Refused] {
        let mut story = Story::begin();
        story.open(1);
        story.quote_and_sign();
        story.input(Input::Answered { id: id(1), answer });
        story.now = Utc(1_000_000);
        assert_eq!(story.quote_and_sign(), [], "{answer:?}");
        story.input(Input::Cancel { id: id(1) });
        assert_eq!(story.quote_and_sign().len(), 1, "{answer:?}");
    }
}

#[test]
fn a_pending_count_is_followed_only_within_the_fillable_gap() {
    let mut story = Story::begin();
    (story.pending, story.mined) = (33, 0);
    story.open(1);
    assert_eq!((story.quote_and_sign().len(), story.trouble(1)), (0, Some(Trouble::NonceJump)));
    // No account can have sent that many transactions (the limit of EIP-2681).
    (story.pending, story.mined) = (u64::MAX - 1, u64::MAX - 1);
    assert_eq!((story.quote_and_sign().len(), story.trouble(1)), (0, Some(Trouble::NonceJump)));
    // Another program has used the key, so the nonces are far ahead.
    (story.pending, story.mined) = (5_001, 5_000);
    story.quote_and_sign();
    assert_eq!(story.nonce(1), Some(5_001));
}

#[test]
fn only_bytes_that_the_signer_signed_for_these_terms_are_genuine() {
    let mut story = Story::begin();
    story.open(1);
    story.quote_and_sign();
    let key = story.outbox.key;
    let one = story.outbox.open[&id(1)].clone();
    assert!(one.is_genuine(&key));
    let mut other = one.clone();
    other.call.value = U256::from(9);
    assert!(!other.is_genuine(&key), "other terms");
    let mut bytes = one.clone();
    let raw = bytes.attempts[0].raw.as_mut().unwrap();
    raw.bytes = Bytes::from_static(&[2, 1, 1]);
    assert!(!bytes.is_genuine(&key), "any bytes");
    let stranger = OutboxKey { signer: Address::repeat_byte(3), ..key };
    assert!(!one.is_genuine(&stranger), "another signer");
}

#[test]
fn a_lagging_node_does_not_undo_an_inclusion() {
    let mut story = Story::begin();
    story.open(1);
    let sent = story.quote_and_sign();
    story.input(lookup_with_receipt(1, Some(&sent[0].1), 1, 6, 6));
    let (events, actions) = story.input(lookup_with_receipt(1, None, 1, 0, 5));
    assert_eq!((events.len(), actions.len()), (0, 1), "the same bytes again, and no news");
    let (events, _) = story.input(lookup_with_receipt(1, None, 1, 0, 7));
    assert_eq!(events, [Event::BackToPending { id: id(1) }]);
}

fn open_until(story: &mut Story, n: u8, until: Utc) {
    story.input(Input::Open { id: id(n), call: call(n), ceiling: 1_000, until: Some(until) });
}

fn lookup_unknown(n: u8, asked: usize) -> Input {
    Input::LookedUp { id: id(n), asked, found: None, known: false, head: 5, settled: 0 }
}

#[test]
fn a_cancelled_call_is_not_broadcast_again_even_where_every_node_forgot_it() {
    let mut story = Story::begin();
    story.open(1);
    let whole = story.quote_and_sign();
    story.input(Input::Cancel { id: id(1) });
    let (_events, actions) = story.input(lookup_unknown(1, 1));
    assert!(!actions.iter().any(|action| matches!(action, Action::Send { .. })), "{actions:?}");
    assert_eq!(resume(&story.outbox, &RULES, story.now).first(), Some(&Action::Quote));
    assert!(!story.outbox.open[&id(1)].may_send(whole[0].1.hash, story.now));
    let nothing = story.quote_and_sign();
    assert!(story.outbox.open[&id(1)].may_send(nothing[0].1.hash, story.now));
    let is_call = |hash: B256| story.outbox.open[&id(1)].is_call(hash);
    assert!(is_call(whole[0].1.hash) && !is_call(nothing[0].1.hash));
    let (_events, actions) = story.input(lookup_unknown(1, 2));
    let raw = nothing[0].1.clone();
    assert_eq!(actions, [Action::Send { id: id(1), raw }], "the transaction that does nothing is");
}

#[test]
fn an_expired_unsigned_call_is_dropped() {
    let until = Utc(1_000);
    let end = |n| Event::Finished { id: id(n), outcome: Outcome::Dropped };
    // The call is dropped at the next tick, at the next quote, or when its signature arrives.
    let mut story = Story::begin();
    open_until(&mut story, 1, until);
    story.now = Utc(999);
    assert_eq!(story.input(Input::Tick).0, []);
    story.now = until;
    assert_eq!(story.input(Input::Tick).0, [end(1)]);
    let mut story = Story::begin();
    open_until(&mut story, 1, until);
    story.now = until;
    assert_eq!(story.input_quote().0, [end(1)]);
    let mut story = Story::begin();
    open_until(&mut story, 1, until);
    let (_events, actions) = story.input_quote();
    let [Action::Sign { id: of, attempt, digest }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    let signature = story.sign(*digest);
    let late = Input::Signature { id: *of, attempt: *attempt, signature };
    story.now = until;
    assert_eq!(story.input(late), (vec![end(1)], vec![]));
    // An expired call is not opened.
    let again = Input::Open { id: id(2), call: call(2), ceiling: 9, until: Some(until) };
    assert_eq!(step(&story.outbox, &RULES, story.now, again), Err(Refusal::Expired));
}

#[test]
fn an_expired_signed_call_is_replaced_by_an_empty_transaction() {
    let until = Utc(1_000);
    let mut story = Story::begin();
    open_until(&mut story, 1, until);
    let whole = story.quote_and_sign();
    // The call remains while a node knows it, because it was broadcast in time.
    story.now = until;
    let known =
        Input::LookedUp { id: id(1), asked: 1, found: None, known: true, head: 5, settled: 0 };
    assert_eq!(story.input(known), (vec![], vec![]));
    let (events, actions) = story.input(lookup_unknown(1, 1));
    assert_eq!(events, [Event::CancelWanted { id: id(1) }]);
    assert_eq!(actions, [Action::Quote]);
    let nothing = story.quote_and_sign();
    assert_eq!(nothing.len(), 1);
    assert_ne!(nothing[0].1.hash, whole[0].1.hash);
    let outcome = Outcome::Cancelled { hash: nothing[0].1.hash, block: 4 };
    let events = story.report_mined(1, &nothing[0].1, 2);
    assert_eq!(events.last(), Some(&Event::Finished { id: id(1), outcome }));
}

#[test]
fn an_expired_call_gets_no_higher_offer() {
    let mut story = Story::begin();
    open_until(&mut story, 1, Utc(5_000));
    let whole = story.quote_and_sign();
    story.now = Utc(10_000);
    let more = story.quote_and_sign();
    assert_eq!(more.len(), 1);
    let cancelled = Outcome::Cancelled { hash: more[0].1.hash, block: 4 };
    let events = story.report_mined(1, &more[0].1, 2);
    assert_eq!(events.last(), Some(&Event::Finished { id: id(1), outcome: cancelled }));
    assert_ne!(more[0].1.hash, whole[0].1.hash);
}

#[test]
fn a_used_nonce_is_not_a_refusal_and_changes_no_trouble() {
    for (before, trouble) in [
        (SendAnswer::Accepted, None),
        (SendAnswer::Underpriced, Some(Trouble::Underpriced)),
        (SendAnswer::Unfunded, Some(Trouble::Unfunded)),
    ] {
        let mut story = Story::begin();
        story.open(1);
        story.quote_and_sign();
        story.input(Input::Answered { id: id(1), answer: before });
        for silent in [SendAnswer::NonceTooLow, SendAnswer::Unclear] {
            let (events, _actions) = story.input(Input::Answered { id: id(1), answer: silent });
            assert_eq!(events, [], "{silent:?} after {before:?}");
            assert_eq!(story.trouble(1), trouble);
        }
    }
}

#[test]
fn a_person_is_asked_once_for_each_attempt_that_the_host_requests() {
    let mut story = Story { rules: RULES.with_person_signing(), ..Story::begin() };
    story.open(1);
    story.open(2);
    let raise = |story: &Story| {
        let fees = Fees::Dynamic { max_fee: story.price, tip: 8 };
        let fee = FeeQuote { fees, needed: story.price / 2 };
        Input::Raise {
            id: id(1),
            quote: Quote { fee, plain_gas: 21_000, pending: 0, mined: 0 },
            most: u128::MAX,
        }
    };
    let unsigned = raise(&story);
    let refused = step(&story.outbox, &story.rules, story.now, unsigned);
    assert_eq!(refused, Err(Refusal::NotRaised), "nothing is signed yet");
    let first = story.quote_and_sign();
    assert_eq!(first.len(), 1, "one submission at a time holds a nonce");
    let offers = |story: &Story| -> Vec<Fees> {
        story.outbox.open[&id(1)].attempts.iter().map(|attempt| attempt.fees).collect()
    };
    let whole = Fees::Dynamic { max_fee: 1_000, tip: 8 };
    assert_eq!(offers(&story), [whole], "the whole ceiling");
    // Without a request of the host, no further offer is signed, however long the call waits and however the price
    // rises.
    for later in 1..50 {
        story.now = Utc(later * 10_000);
        story.price = 100 * u128::try_from(later).unwrap();
        assert!(story.quote_and_sign().is_empty());
    }
    let again = raise(&story);
    let (_events, actions) = story.input(again);
    let [Action::Sign { attempt: 1, digest, .. }] = actions[..] else { panic!("{actions:?}") };
    let signature = story.sign(digest);
    story.input(Input::Signature { id: id(1), attempt: 1, signature });
    assert!(offers(&story)[1].max_price() > 1_000, "more than before, within the rules' ceiling");
    // The empty transaction of a cancelled call is requested once, and not again after a refusal.
    story.input(Input::Cancel { id: id(1) });
    let (_events, actions) = story.input_quote();
    let [Action::Sign { attempt: 2, .. }] = actions[..] else { panic!("{actions:?}") };
    story.input(Input::Declined { id: id(1), attempt: 2 });
    assert!(story.quote_and_sign().is_empty());
    let again = raise(&story);
    let (_events, actions) = story.input(again);
    assert!(matches!(actions[..], [Action::Sign { attempt: 3, .. }]), "{actions:?}");
}

/// If the host accepts one wei less per unit of gas than the offer needs, the request is refused and changes nothing.
#[test]
fn a_raised_offer_never_exceeds_what_the_host_agreed_to() {
    let mut story = Story { rules: RULES.with_person_signing(), ..Story::begin() };
    story.open(1);
    story.quote_and_sign();
    story.price = 2_000;
    let fees = Fees::Dynamic { max_fee: story.price, tip: 8 };
    let fee = FeeQuote { fees, needed: story.price / 2 };
    let quote = Quote { fee, plain_gas: 21_000, pending: 0, mined: 0 };
    let offer = raised_offer(&story.outbox, &story.rules, id(1), &quote).unwrap();
    let raise = |most| Input::Raise { id: id(1), quote, most };
    let short = raise(offer.max_price() - 1);
    let refused = step(&story.outbox, &story.rules, story.now, short);
    assert_eq!(refused, Err(Refusal::NotRaised));
    let (_events, actions) = story.input(raise(offer.max_price()));
    assert!(matches!(actions[..], [Action::Sign { attempt: 1, .. }]), "{actions:?}");
    assert_eq!(story.outbox.open[&id(1)].attempts[1].fees, offer);
}

#[test]
fn a_cancel_asks_a_person_for_the_empty_transaction_whatever_was_asked_before() {
    for refused_first in [false, true] {
        let mut story = Story { rules: RULES.with_person_signing(), ..Story::begin() };
        story.open(1);
        story.quote_and_sign();
        let fees = Fees::Dynamic { max_fee: story.price, tip: 8 };
        let fee = FeeQuote { fees, needed: story.price / 2 };
        let quote = Quote { fee, plain_gas: 21_000, pending: 0, mined: 0 };
        story.input(Input::Raise { id: id(1), quote, most: u128::MAX });
        if refused_first {
            story.input(Input::Declined { id: id(1), attempt: 1 });
        }
        story.input(Input::Cancel { id: id(1) });
        let (_events, actions) = story.input_quote();
        let [Action::Sign { attempt: 2, .. }] = actions[..] else { panic!("{actions:?}") };
    }
}

#[test]
fn a_person_signs_a_higher_empty_transaction_only_if_the_first_pays_too_little() {
    let mut story = Story { rules: RULES.with_person_signing(), ..Story::begin() };
    open_until(&mut story, 1, Utc(1_000));
    story.quote_and_sign();
    story.now = Utc(1_000);
    assert_eq!(story.quote_and_sign().len(), 1, "the empty transaction");
    let paid = story.outbox.open[&id(1)].attempts[1].fees.max_price();

    // Ten times the patience later it still pays the price.
    story.now = Utc(101_000);
    assert!(story.quote_and_sign().is_empty(), "the person is not asked without need");

    // Half of the offer is what the next block needs.
    story.price = paid * 2 + 2;
    assert_eq!(story.quote_and_sign().len(), 1);
    let raised = story.outbox.open[&id(1)].attempts[2].fees.max_price();
    assert!(raised >= story.price, "{raised}");

    // The person is not asked again at once, even if prices rise further.
    story.price *= 3;
    assert!(story.quote_and_sign().is_empty());
}
