//! The operator's sends, with a wallet that is unlocked, locked or untrusted.

use alloy_primitives::{Address, B256, U256, keccak256};
use bursar_core::codes::Code;
use bursar_core::derivation::Layout;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::ChainId;
use bursar_domain::event::Entry;
use bursar_domain::outboxes::Send;
use bursar_domain::unsealed_tail::may_follow_a_seal;
use bursar_domain::wallets::Backing;
use bursar_domain::{Action, Effect, Event};
use bursar_submit::fees::FeeQuote;
use bursar_submit::{
    Action as OutboxAction, Call, Event as OutboxEvent, Fees, FoundReceipt, Input, Kind, OutboxKey,
    Outcome, Quote, SubmissionId,
};
use bursar_x402::signature::Signature65;
use k256::ecdsa::SigningKey;

use crate::support::build::ordinary_world;
use crate::support::{OPERATOR, World};

/// The key of the sending address.
fn key() -> SigningKey {
    SigningKey::from_slice(&[7; 32]).expect("a key")
}

fn signer() -> Address {
    let point = key().verifying_key().to_encoded_point(false);
    Address::from_word(keccak256(point.as_bytes().get(1..).expect("a point")))
}

fn sign(digest: B256) -> Signature65 {
    let (scalars, id) = key().sign_prehash_recoverable(digest.as_slice()).expect("signed");
    let (r, s) = scalars.split_bytes();
    Signature65::new(B256::from_slice(&r), B256::from_slice(&s), id.to_byte()).expect("valid")
}

fn outbox() -> OutboxKey {
    OutboxKey { chain: ChainId(8453), signer: signer() }
}

/// A world whose wallet contains the address of [`key`].
fn world() -> World {
    world_with(Backing::Seed("S001".parse().expect("a seed")))
}

fn world_with(backing: Backing) -> World {
    let mut world = ordinary_world();
    world.must(Action::AddAddress(Box::new(bursar_domain::event::AddressAdded {
        label: "sends".parse().expect("a name"),
        description: String::new(),
        index: 9,
        backing,
        path: "m/44'/60'/0'/0/9".to_owned(),
        address: signer(),
    })));
    world
}

fn send(n: u8) -> Send {
    let amount = TokenAmount { atoms: Atoms(U256::from(n)), decimals: 18 };
    Send {
        id: RequestId::from_entropy([n; 16]),
        label: "sends".parse().expect("a name"),
        from: signer(),
        chain: ChainId(8453),
        token: None,
        symbol: "ETH".to_owned(),
        to: Address::repeat_byte(0xaa),
        amount,
        call: Call {
            to: Address::repeat_byte(0xaa),
            value: U256::from(n),
            data: Default::default(),
            gas_limit: 21_000,
        },
        gas_price_max: 1_000,
        by: OPERATOR,
    }
}

fn outbox_action(input: Input) -> Action {
    Action::Outbox { key: outbox(), input: Box::new(input) }
}

fn gas_price_action() -> Action {
    let fee = FeeQuote { fees: Fees::Dynamic { max_fee: 100, tip: 1 }, needed: 50 };
    outbox_action(Input::Quoted(Quote { fee, plain_gas: 21_000, pending: 0, mined: 0 }))
}

fn submission_id(n: u8) -> SubmissionId {
    send(n).submission()
}

/// Opens a send and reports a gas price for it. Returns the digest to sign.
fn open_and_price(world: &mut World, n: u8) -> B256 {
    world.must(Action::Send(Box::new(send(n))));
    let decision = world.must(gas_price_action());
    let digest = decision.effects.iter().find_map(|effect| match effect {
        Effect::Outbox(_key, OutboxAction::Sign { digest, .. }) => Some(*digest),
        _other => None,
    });
    digest.expect("it is to be signed")
}

fn lookup_action(found: Option<FoundReceipt>, head: u64) -> Action {
    outbox_action(Input::LookedUp {
        id: submission_id(1),
        asked: 1,
        found,
        known: true,
        head,
        settled: head,
    })
}

#[test]
fn a_send_of_a_device_offers_the_whole_ceiling_and_holds_one_nonce() {
    let mut world = world_with(Backing::Device { layout: Layout::Live });
    world.must(Action::Send(Box::new(send(1))));
    world.must(Action::Send(Box::new(send(2))));
    let decision = world.must(gas_price_action());
    let offers: Vec<_> = decision
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Outbox { event: OutboxEvent::Authorized { id, fees, .. }, .. } => {
                Some((*id, *fees))
            }
            _other => None,
        })
        .collect();
    assert_eq!(
        offers,
        [(submission_id(1), Fees::Dynamic { max_fee: send(1).gas_price_max, tip: 1 })]
    );
}

#[test]
fn an_order_needs_an_open_wallet_a_trusted_journal_and_an_address_of_ours() {
    let mut world = world();
    world.unlocked = false;
    assert_eq!(world.run_refused(Action::Send(Box::new(send(1)))).code, Code::WalletLocked);
    (world.unlocked, world.trusted) = (true, false);
    assert_eq!(world.run_refused(Action::Send(Box::new(send(1)))).code, Code::JournalUntrusted);
    world.trusted = true;
    let foreign = Send { from: Address::repeat_byte(1), ..send(1) };
    assert_eq!(world.run_refused(Action::Send(Box::new(foreign))).code, Code::NothingFound);
    world.must(Action::SetNetwork { chain: ChainId(8453), enabled: false });
    assert_eq!(world.run_refused(Action::Send(Box::new(send(1)))).code, Code::NetworkDisabled);
    world.must(Action::SetNetwork { chain: ChainId(8453), enabled: true });
    world.must(Action::Send(Box::new(send(1))));
    assert_eq!(world.run_refused(Action::Send(Box::new(send(1)))).code, Code::AlreadyDecided);
}

#[test]
fn a_locked_wallet_broadcasts_and_probes_but_signs_nothing_new() {
    let mut world = world();
    let digest = open_and_price(&mut world, 1);
    world.must(Action::Send(Box::new(send(2))));
    let signs = |effect: &Effect| matches!(effect, Effect::Outbox(_, OutboxAction::Sign { .. }));
    let whole = world.must(Action::ResumeOutbox(outbox())).effects;
    assert!(whole.iter().any(signs) && !whole.iter().all(signs), "{whole:?}");
    for (unlocked, trusted) in [(true, false), (false, true)] {
        (world.unlocked, world.trusted) = (unlocked, trusted);
        let resumed = world.must(Action::ResumeOutbox(outbox())).effects;
        let others = whole.iter().filter(|effect| !signs(effect));
        assert!(resumed.iter().eq(others), "{resumed:?}");
    }
    // A gas price arrives, but authorizes nothing.
    assert_eq!(world.must(gas_price_action()).events, []);
    // A signer's refusal is not recorded now; the engine asks the signer again later.
    assert_eq!(
        world.must(outbox_action(Input::Declined { id: submission_id(1), attempt: 0 })).events,
        []
    );
    assert_eq!(
        world.run_refused(outbox_action(Input::Cancel { id: submission_id(1) })).code,
        Code::WalletLocked
    );
    // A signature in flight is recorded, and its transaction is broadcast.
    let signature = sign(digest);
    let kept =
        world.must(outbox_action(Input::Signature { id: submission_id(1), attempt: 0, signature }));
    let [Effect::Outbox(_, OutboxAction::Send { raw, .. })] = kept.effects.as_slice() else {
        panic!("{kept:?}")
    };
    let found = FoundReceipt { hash: raw.hash, block: 5, block_hash: B256::ZERO, ok: true };
    assert_eq!(world.must(lookup_action(Some(found), 5)).events.len(), 1);
    // A locked wallet may record the block, but only an unlocked wallet may record the end.
    assert_eq!(world.must(lookup_action(Some(found), 9)).events, []);
    world.unlocked = true;
    let ended = world.must(lookup_action(Some(found), 9)).events;
    let done = Outcome::Succeeded { hash: raw.hash, block: 5 };
    let finished = OutboxEvent::Finished { id: submission_id(1), outcome: done };
    assert_eq!(ended, [Event::Outbox { key: outbox(), event: finished }]);
    let record = world.state.outboxes.sends.get(&send(1).id).expect("a record").clone();
    assert_eq!(record.ended.map(|(outcome, _at)| outcome), Some(done));
    assert_eq!(world.restarted().state, world.state);
}

#[test]
fn nothing_that_allows_a_signature_or_forgets_one_may_follow_a_seal() {
    let mut world = world();
    let digest = open_and_price(&mut world, 1);
    let unsigned = world.state.clone();
    let now = world.now();
    let follows = |state: &bursar_domain::State, event: OutboxEvent| {
        let event = Event::Outbox { key: outbox(), event };
        let entry = Entry { seq: state.seq + 1, at: now.utc, event };
        may_follow_a_seal(state, &entry)
    };
    let raw = |signature| {
        let whole = world.state.outboxes.get(&outbox()).unsigned(submission_id(1), 0).expect("one");
        whole.signed(signature)
    };
    let (ours, theirs) = (sign(digest), sign(B256::repeat_byte(1)));
    let signed =
        |signature, raw| OutboxEvent::Signed { id: submission_id(1), attempt: 0, signature, raw };
    assert!(follows(&unsigned, signed(ours, raw(&ours))));
    assert!(!follows(&unsigned, signed(theirs, raw(&theirs))), "of another digest");
    assert!(!follows(&unsigned, signed(ours, raw(&theirs))), "other bytes");
    let call = send(3).call;
    let (kind, fees) = (Kind::Call, Fees::Legacy { gas_price: 1 });
    for event in [
        OutboxEvent::Opened { id: submission_id(3), call, ceiling: 1, filler: false, until: None },
        OutboxEvent::Reserved { id: submission_id(1), nonce: 5 },
        OutboxEvent::Authorized { id: submission_id(1), kind, fees, digest, at: now.utc },
        OutboxEvent::Declined { id: submission_id(1), attempt: 0 },
        OutboxEvent::CancelWanted { id: submission_id(1) },
        OutboxEvent::Finished { id: submission_id(1), outcome: Outcome::Dropped },
        OutboxEvent::Finished { id: submission_id(1), outcome: Outcome::NonceTaken },
        OutboxEvent::Finished {
            id: submission_id(1),
            outcome: Outcome::Reverted { hash: B256::ZERO, block: 1 },
        },
    ] {
        assert!(!follows(&unsigned, event.clone()), "{event:?}");
    }
    let order = Event::SendOrdered(Box::new(send(4)));
    let entry = Entry { seq: unsigned.seq + 1, at: now.utc, event: order };
    assert!(!may_follow_a_seal(&unsigned, &entry));
}

#[test]
fn accepting_a_journal_drops_unsigned_transactions() {
    let mut world = world();
    let digest = open_and_price(&mut world, 1);
    let signature = sign(digest);
    world.must(outbox_action(Input::Signature { id: submission_id(1), attempt: 0, signature }));
    let forged = open_and_price(&mut world, 2);
    world.must(Action::AcceptJournal);
    let outbox_now = world.state.outboxes.get(&outbox());
    assert!(outbox_now.open.contains_key(&submission_id(1)), "what was signed may be mined");
    assert!(!outbox_now.open.contains_key(&submission_id(2)));
    assert_eq!(outbox_now.open[&submission_id(1)].ceiling, 100, "and its ceiling does not rise");
    world.clock.pass(1_000_000);
    let offered = world.must(gas_price_action()).events;
    let allowed = |event: &Event| {
        matches!(event, Event::Outbox { event: OutboxEvent::Authorized { .. }, .. })
    };
    assert!(!offered.iter().any(allowed), "{offered:?}");
    let late = outbox_action(Input::Signature {
        id: submission_id(2),
        attempt: 0,
        signature: sign(forged),
    });
    assert_eq!(world.must(late).effects, []);
}

#[test]
fn a_forged_signature_does_not_survive_accepting_a_journal() {
    let mut world = world();
    open_and_price(&mut world, 1);
    let raw = bursar_submit::Raw { hash: B256::repeat_byte(1), bytes: vec![2, 1, 1].into() };
    let signature = sign(B256::repeat_byte(1));
    let forged = OutboxEvent::Signed { id: submission_id(1), attempt: 0, signature, raw };
    world.forge(Event::Outbox { key: outbox(), event: forged });
    assert!(world.state.outboxes.get(&outbox()).open[&submission_id(1)].is_signed());
    world.must(Action::AcceptJournal);
    assert!(world.state.outboxes.get(&outbox()).open.is_empty());
    // An untrusted journal does not allow a cancellation either.
    open_and_price(&mut world, 2);
    world.trusted = false;
    let cancel = outbox_action(Input::Cancel { id: submission_id(2) });
    assert_eq!(world.run_refused(cancel).code, Code::JournalUntrusted);
}

#[test]
fn an_address_with_a_transaction_on_its_way_is_not_deleted() {
    let mut world = world();
    world.must(Action::Send(Box::new(send(1))));
    let delete = Action::DeleteAddress { label: "sends".parse().expect("a name") };
    assert_eq!(world.run_refused(delete.clone()).code, Code::InUse);
    world.must(outbox_action(Input::Cancel { id: submission_id(1) }));
    world.must(delete);
}

/// Money in flight cannot be sent again.
///
/// For a token, the amounts of its sends count. For the native coin, the values and the highest cost of gas count.
/// Sends of another token or from another address do not count.
#[test]
fn amounts_in_flight_are_counted_per_token_and_coin() {
    let mut world = world();
    let (one, other) = (Some(Address::repeat_byte(1)), Some(Address::repeat_byte(2)));
    let token = |n: u8, token: Option<Address>, atoms: u64| Send {
        token,
        amount: TokenAmount { atoms: Atoms(U256::from(atoms)), decimals: 6 },
        call: Call { value: U256::ZERO, ..send(n).call },
        ..send(n)
    };
    let taken = |world: &World, token| world.state.outboxes.in_flight(&outbox(), token);
    assert_eq!(taken(&world, one), Some(U256::ZERO));
    world.must(Action::Send(Box::new(token(1, one, 500))));
    world.must(Action::Send(Box::new(token(2, one, 70))));
    world.must(Action::Send(Box::new(token(3, other, 9))));
    world.must(Action::Send(Box::new(send(4))));
    let gas = U256::from(4 * 21_000 * 1_000);
    assert_eq!(taken(&world, one), Some(U256::from(570)));
    assert_eq!(taken(&world, other), Some(U256::from(9)));
    assert_eq!(taken(&world, None), Some(U256::from(4) + gas));
    assert_eq!(taken(&world, Some(Address::repeat_byte(3))), Some(U256::ZERO));
    let other_network = OutboxKey { chain: ChainId(1), ..outbox() };
    assert_eq!(world.state.outboxes.in_flight(&other_network, one), Some(U256::ZERO));
    let foreign = OutboxKey { signer: Address::repeat_byte(9), ..outbox() };
    assert_eq!(world.state.outboxes.in_flight(&foreign, one), Some(U256::ZERO));
}
