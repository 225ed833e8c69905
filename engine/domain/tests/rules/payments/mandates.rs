//! Mandates: what is signed, when it is signed again, when it is stale, and what a payment keeps of it.

use bursar_core::codes::Code;
use bursar_core::ids::AgentId;
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::policy::{AllowedNetworks, Policy};
use bursar_core::settings::Setting;
use bursar_domain::agents::Credential;
use bursar_domain::event::Entry;
use bursar_domain::mandate_terms::stale_reasons;
use bursar_domain::mandates::{
    IssuedMandate, MandateAction, MandateEnd, MandateEvent, MandateGrant, Purpose,
};
use bursar_domain::registrations::{Upload, UploadEnd};
use bursar_domain::unsealed_tail::may_follow_a_seal;
use bursar_domain::{Action, Decision, Effect, Event, Refusal, Reply};
use bursar_mandate::{
    AgentMember, Fingerprint, MandateId, PolicyId, RegistryEntry, RegistryRefusal,
};
use proptest::prelude::*;

use crate::support::build::{self, agent, name, ordinary_world, payment, policy};
use crate::support::clock::Clock;
use crate::support::{World, policy_name};

const CREDENTIAL: Credential = Credential::Hmac { secret_hash: [7; 32] };

fn grant(world: &mut World) -> MandateGrant {
    let mut draw = || {
        let mut bytes = [0x41; 16];
        bytes[8..].copy_from_slice(&world.draw().to_be_bytes());
        bytes
    };
    MandateGrant {
        agent: agent(0),
        id: MandateId::from_entropy(draw()),
        policy_id: PolicyId::from_entropy(draw()),
        credential: CREDENTIAL,
        fingerprint: Fingerprint([3; 8]),
        agent_member: AgentMember::Id,
        issuer_version: "0.1.0".to_owned(),
        is_new: false,
    }
}

fn create(world: &mut World) -> Result<Decision, Refusal> {
    let grant = grant(world);
    world.run(Action::Mandate(MandateAction::Grant(Box::new(grant))))
}

fn retire(world: &mut World) -> Result<Decision, Refusal> {
    let id = grant(world).id;
    world.run(Action::Mandate(MandateAction::Retire { agent: agent(0), id }))
}

fn open(world: &World) -> IssuedMandate {
    (**world.state.mandates.unsigned.get(&agent(0)).expect("an unsigned mandate")).clone()
}

/// Signs the open mandate with the key of an address.
fn sign_as(world: &mut World, label: &str) -> Result<Decision, Refusal> {
    let draft = open(world).draft;
    let signature = build::sign(label, draft.digest());
    world.run(Action::Mandate(MandateAction::Sign { id: draft.id, signature }))
}

/// Creates and signs a mandate.
#[track_caller]
fn signed(world: &mut World) -> MandateId {
    create(world).unwrap();
    let id = open(world).draft.id;
    sign_as(world, "main").unwrap();
    id
}

fn in_force(world: &World) -> Option<MandateId> {
    world.state.mandates.in_force(&agent(0)).map(|signed| signed.issued.draft.id)
}

fn reasons(world: &World) -> Vec<&'static str> {
    stale_reasons(&world.state, &world.state.mandates.signed[&agent(0)])
}

fn edit(world: &mut World, change: impl FnOnce(&mut Policy)) {
    let mut policy = policy();
    change(&mut policy);
    world.must(Action::EditPolicy { name: policy_name(), policy: Box::new(policy) });
}

fn sign_effect(of: usize) -> Vec<Effect> {
    vec![Effect::SignMandate(agent(of))]
}

#[test]
fn the_text_is_recorded_before_it_is_signed_and_the_same_command_signs_the_same_text() {
    let mut world = ordinary_world();
    let decision = create(&mut world).unwrap();
    assert_eq!(decision.effects, sign_effect(0));
    let [Event::Mandate(MandateEvent::Issued(issued))] = &decision.events[..] else {
        panic!("{decision:?}")
    };
    assert_eq!(issued.text, issued.draft.text());
    let terms = &issued.draft.terms;
    assert_eq!(terms.wallet, build::address("main"));
    assert_eq!(terms.networks, [ChainId(4663), ChainId(8453)]);
    assert_eq!(terms.limits.currency, "USD", "the two networks have different dollars");
    assert_eq!(
        [terms.limits.daily, terms.limits.per_request, terms.limits.auto_below],
        [Usd::dollars(100), Usd::dollars(10), Usd::dollars(1)]
    );
    assert_eq!(in_force(&world), None, "it is not signed");
    // After a crash the command is repeated, with other random ids and at a later time.
    let mut world = world.restarted();
    world.clock.pass(60_000);
    let again = create(&mut world).unwrap();
    assert_eq!((again.events, again.effects), (vec![], sign_effect(0)));
    assert_eq!(open(&world), **issued);
    sign_as(&mut world, "main").unwrap();
    assert_eq!(in_force(&world), Some(issued.draft.id));
    let third = create(&mut world).unwrap();
    assert_eq!((third.events, third.effects), (vec![], vec![]), "it states what holds");
    world.assert_replays();
}

#[test]
fn only_the_key_of_the_paying_address_signs_and_only_once() {
    let mut world = ordinary_world();
    create(&mut world).unwrap();
    assert_eq!(sign_as(&mut world, "spare").unwrap_err().code, Code::InternalError);
    assert_eq!(in_force(&world), None);
    let draft = open(&world).draft;
    sign_as(&mut world, "main").unwrap();
    let signature = build::sign("main", draft.digest());
    let repeat =
        world.run(Action::Mandate(MandateAction::Sign { id: draft.id, signature })).unwrap();
    assert_eq!(repeat.events, [], "it is recorded already");
    let unknown = MandateId::from_entropy([9; 16]);
    let refused =
        world.run(Action::Mandate(MandateAction::Sign { id: unknown, signature })).unwrap_err();
    assert_eq!(refused.code, Code::RequestNoLongerValid);
    // An entry that an attacker wrote into the file does not put a mandate in force either.
    edit(&mut world, |policy| policy.payments.daily = Usd::dollars(7));
    create(&mut world).unwrap();
    let forged = open(&world).draft;
    world.forge(Event::Mandate(MandateEvent::Signed { agent: agent(0), id: forged.id, signature }));
    assert_eq!(in_force(&world), Some(draft.id));
}

#[test]
fn mandates_need_a_sealed_journal_and_a_grant_needs_an_agent_that_may_work() {
    let mut world = ordinary_world();
    let code = |world: &mut World| create(world).unwrap_err().code;
    world.unlocked = false;
    assert_eq!(code(&mut world), Code::WalletLocked);
    (world.unlocked, world.trusted) = (true, false);
    assert_eq!(code(&mut world), Code::JournalUntrusted);
    world.trusted = true;
    world.must(Action::Freeze);
    assert_eq!(code(&mut world), Code::AgentsFrozen);
    world.must(Action::Thaw);
    world.must(Action::Suspend { agent: agent(0) });
    assert_eq!(code(&mut world), Code::AgentSuspended);
    world.must(Action::Resume { agent: agent(0) });
    let mut other = grant(&mut world);
    other.credential = Credential::Bearer { sha256: [8; 32] };
    let refused = world.run(Action::Mandate(MandateAction::Grant(Box::new(other)))).unwrap_err();
    assert_eq!(refused.code, Code::Busy, "its credential was replaced");
    build::register(&mut world, 1, CREDENTIAL);
    let other = MandateGrant { agent: agent(1), ..grant(&mut world) };
    let refused = world.run(Action::Mandate(MandateAction::Grant(Box::new(other)))).unwrap_err();
    assert_eq!(refused.code, Code::AgentNotCommissioned);
    edit(&mut world, |policy| policy.payments.daily = Usd(1_000_000_000_000_001));
    assert_eq!(code(&mut world), Code::BadInput);
    edit(&mut world, |policy| {
        policy.networks = AllowedNetworks::Only([ChainId(1)].into());
    });
    assert_eq!(code(&mut world), Code::BadInput, "Ethereum is disabled");
    assert!(world.state.mandates.unsigned.is_empty());
}

#[test]
fn limits_of_a_policy_without_payments_are_zero_and_shared_dollars_have_their_symbol() {
    let mut world = ordinary_world();
    edit(&mut world, |policy| {
        policy.payments.enabled = false;
        policy.networks = AllowedNetworks::Only([ChainId(8453)].into());
    });
    create(&mut world).unwrap();
    let limits = open(&world).draft.terms.limits;
    assert_eq!(limits.currency, "USDC");
    assert_eq!([limits.daily, limits.per_request, limits.auto_below], [Usd::ZERO; 3]);
}

#[test]
fn each_changed_term_makes_a_mandate_stale_until_it_is_changed_back_or_signed_again() {
    let mut world = ordinary_world();
    let first = signed(&mut world);
    assert_eq!(reasons(&world), [""; 0]);
    edit(&mut world, |policy| policy.payments.daily = Usd::dollars(50));
    assert_eq!(reasons(&world), ["Daily limit changed"]);
    assert_eq!(in_force(&world), Some(first), "it is never signed again by itself");
    edit(&mut world, |policy| policy.payments.per_request = Usd::dollars(9));
    assert_eq!(reasons(&world), ["Per-request maximum changed"]);
    edit(&mut world, |policy| policy.payments.auto_below = Usd::ZERO);
    assert_eq!(reasons(&world), ["Auto-approve threshold changed"]);
    edit(&mut world, |policy| policy.networks = AllowedNetworks::Only([ChainId(8453)].into()));
    assert_eq!(reasons(&world), ["Allowed networks changed"]);
    edit(&mut world, |policy| policy.trading.enabled = true);
    assert_eq!(reasons(&world), ["Policy changed"], "its id is a signed term");
    let second = signed(&mut world);
    assert_ne!(first, second);
    assert_eq!(reasons(&world), [""; 0]);
    world.must(Action::SetNetwork { chain: ChainId(8453), enabled: false });
    assert_eq!(reasons(&world), ["Allowed networks changed"], "a disabled network is not listed");
    world.must(Action::SetNetwork { chain: ChainId(8453), enabled: true });
    assert_eq!(reasons(&world), [""; 0]);
    world.must(build::commission(0, policy_name().as_str(), "spare"));
    assert_eq!(reasons(&world), ["Paying address changed"]);
    world.must(build::commission(0, policy_name().as_str(), "main"));
    let credential = Credential::Bearer { sha256: [8; 32] };
    world.must(Action::ReplaceCredential { agent: agent(0), credential });
    assert_eq!(reasons(&world), ["Agent credentials changed"]);
    world.must(Action::ReplaceCredential { agent: agent(0), credential: CREDENTIAL });
    let mut other = policy();
    other.trading.enabled = true;
    world.must(Action::CreatePolicy { name: name("other"), policy: Box::new(other) });
    world.must(build::commission(0, "other", "main"));
    assert_eq!(reasons(&world), ["Agent was assigned a different policy"]);
    world.must(Action::DeleteAgent { agent: agent(0) });
    assert_eq!(reasons(&world), ["Agent was deleted"]);
    world.assert_replays();
}

#[test]
fn policy_version_has_one_random_id_in_all_mandates() {
    let mut world = ordinary_world();
    build::register(&mut world, 1, CREDENTIAL);
    world.must(build::commission(1, policy_name().as_str(), "main"));
    signed(&mut world);
    let other = MandateGrant { agent: agent(1), ..grant(&mut world) };
    world.must(Action::Mandate(MandateAction::Grant(Box::new(other))));
    let id = |world: &World, agent: &AgentId| {
        let mandates = &world.state.mandates;
        let open = mandates.unsigned.get(agent).map(|open| open.draft.terms.policy_id);
        open.unwrap_or_else(|| mandates.signed[agent].issued.draft.terms.policy_id)
    };
    let first = id(&world, &agent(0));
    assert_eq!(id(&world, &agent(1)), first);
    edit(&mut world, |policy| policy.payments.daily = Usd::dollars(50));
    signed(&mut world);
    assert_ne!(id(&world, &agent(0)), first, "another version");
    assert_eq!(world.state.mandates.policy_ids.len(), 1, "the former version exists no longer");
}

#[test]
fn changed_terms_replace_a_mandate_that_waits_for_its_signature() {
    let mut world = ordinary_world();
    create(&mut world).unwrap();
    let first = open(&world).draft;
    edit(&mut world, |policy| policy.payments.daily = Usd::dollars(50));
    let decision = create(&mut world).unwrap();
    let (agent, id) = (agent(0), first.id);
    let ended = Event::Mandate(MandateEvent::Ended { agent, id, end: MandateEnd::Superseded });
    assert_eq!((decision.events.len(), &decision.events[0]), (2, &ended));
    let signature = build::sign("main", first.digest());
    let late =
        world.run(Action::Mandate(MandateAction::Sign { id: first.id, signature })).unwrap_err();
    assert_eq!(late.code, Code::RequestNoLongerValid);
    assert!(open(&world).draft.issued >= first.issued.plus_ms(1_000), "it is the later one");
}

#[test]
fn new_mandate_with_the_same_terms_is_signed_only_if_the_operator_says_so() {
    let mut world = ordinary_world();
    let first = signed(&mut world);
    let again = MandateGrant { is_new: true, ..grant(&mut world) };
    world.must(Action::Mandate(MandateAction::Grant(Box::new(again))));
    sign_as(&mut world, "main").unwrap();
    assert_ne!(in_force(&world), Some(first));
}

#[test]
fn retirement_withdraws_the_limits_whatever_stopped_the_agent() {
    for stop in [
        Action::Suspend { agent: agent(0) },
        Action::Freeze,
        Action::DeleteAgent { agent: agent(0) },
    ] {
        let mut world = ordinary_world();
        assert_eq!(retire(&mut world).unwrap_err().code, Code::NothingFound);
        signed(&mut world);
        world.must(stop);
        let decision = retire(&mut world).unwrap();
        assert_eq!(decision.effects, sign_effect(0));
        let retirement = open(&world);
        assert_eq!(retirement.purpose, Purpose::Retirement);
        let terms = &retirement.draft.terms;
        assert_eq!(terms.limits.daily, Usd::ZERO);
        assert_eq!(terms.networks, [ChainId(4663), ChainId(8453)]);
        let again = retire(&mut world).unwrap();
        assert_eq!((again.events, again.effects), (vec![], sign_effect(0)), "the same text");
        sign_as(&mut world, "main").unwrap();
        assert_eq!(in_force(&world), None);
        let done = retire(&mut world).unwrap();
        assert_eq!((done.events, done.effects), (vec![], vec![]), "it is retired");
        world.assert_replays();
    }
}

#[test]
fn grant_waits_for_a_retirement_that_is_not_signed() {
    let mut world = ordinary_world();
    signed(&mut world);
    retire(&mut world).unwrap();
    edit(&mut world, |policy| policy.payments.daily = Usd::dollars(50));
    assert_eq!(create(&mut world).unwrap_err().code, Code::InUse);
    sign_as(&mut world, "main").unwrap();
    signed(&mut world);
    assert_eq!(reasons(&world), [""; 0]);
}

#[test]
fn mandate_of_a_device_ends_after_15_minutes_or_when_a_person_refuses() {
    let new = || build::world_with_device(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy());
    let mut world = new();
    create(&mut world).unwrap();
    let first = open(&world);
    world.clock.pass(899_999);
    assert_eq!(world.must(Action::Tick).events, []);
    world.clock.pass(1);
    // The device answered at the last moment, before a tick recorded the end.
    let signature = build::sign("main", first.draft.digest());
    let late =
        world.run(Action::Mandate(MandateAction::Sign { id: first.draft.id, signature })).unwrap();
    assert!(matches!(late.reply, Reply::Refused(_)), "{late:?}");
    assert!(world.state.mandates.unsigned.is_empty());
    create(&mut world).unwrap();
    assert_ne!(open(&world).draft.id, first.draft.id);
    world.clock.pass(900_000);
    let ended = world.must(Action::Tick).events;
    assert!(matches!(
        ended[..],
        [Event::Mandate(MandateEvent::Ended { end: MandateEnd::TimedOut, .. })]
    ));
    create(&mut world).unwrap();
    let id = open(&world).draft.id;
    assert_eq!(world.must(Action::Mandate(MandateAction::Decline { id })).events.len(), 1);
    assert_eq!(world.must(Action::Mandate(MandateAction::Decline { id })).events, []);
    assert_eq!(in_force(&world), None);
}

#[test]
fn payment_keeps_the_mandate_that_was_in_force_when_it_was_authorized() {
    let mut world = ordinary_world();
    let before = world.signs(payment(100_000));
    let first = signed(&mut world);
    let held = world.holds(payment(2_000_000));
    let during = world.signs(payment(100_000));
    edit(&mut world, |policy| policy.payments.daily = Usd::dollars(50));
    let second = signed(&mut world);
    world.approves(held);
    retire(&mut world).unwrap();
    sign_as(&mut world, "main").unwrap();
    let after = world.signs(payment(100_000));
    let kept = |id| world.records[&id].mandate;
    assert_eq!(kept(before), None);
    assert_eq!(kept(during), Some(first));
    assert_eq!(kept(held), Some(second), "it was authorized by the approval");
    assert_eq!(kept(after), None);
    world.assert_replays();
}

#[test]
fn unsigned_mandates_do_not_survive_an_accepted_journal_a_restore_or_their_agent() {
    let drop = |world: &mut World, action: Action| {
        create(world).unwrap();
        world.must(action);
        assert!(world.state.mandates.unsigned.is_empty());
    };
    let mut world = ordinary_world();
    drop(&mut world, Action::AcceptJournal);
    drop(&mut world, Action::RecordRestore);
    drop(&mut world, Action::DeleteAgent { agent: agent(0) });
    let mut world = ordinary_world();
    signed(&mut world);
    world.must(Action::AcceptJournal);
    assert!(in_force(&world).is_some(), "a signed one stays");
    world.must(Action::DeleteWallet { is_file_gone: true });
    assert_eq!(in_force(&world), None);
}

const BASE_URL: &str = "https://registry.example";

fn upload(id: MandateId) -> Upload {
    Upload { agent: agent(0), id, base: BASE_URL.to_owned() }
}

fn begin(world: &mut World, id: MandateId) -> Result<Decision, Refusal> {
    world.run(Action::Mandate(MandateAction::BeginUpload(upload(id))))
}

fn end(world: &mut World, id: MandateId, end: UploadEnd) {
    world.must(Action::Mandate(MandateAction::EndUpload { upload: upload(id), end }));
}

fn confirmed(id: MandateId) -> UploadEnd {
    UploadEnd::Published(RegistryEntry { id: id.to_string(), url: None })
}

fn other_refusal() -> UploadEnd {
    UploadEnd::Refused(RegistryRefusal::Other(429))
}

/// A world with a registry and a signed mandate.
fn world_with_a_registry() -> (World, MandateId) {
    let mut world = ordinary_world();
    world.must(Action::Set(Setting::Registry(Some(BASE_URL.to_owned()))));
    let id = signed(&mut world);
    (world, id)
}

/// Returns the mandates that the registry may publish, each with whether it confirmed that.
fn published(world: &World) -> Vec<(MandateId, bool)> {
    let all = world.state.mandates.registrations(&agent(0)).iter();
    let all = all.flat_map(|one| &one.publications);
    all.map(|one| (one.id(), one.confirmed().is_some())).collect()
}

#[test]
fn upload_counts_as_published_until_an_answer_shows_otherwise() {
    let (mut world, id) = world_with_a_registry();
    begin(&mut world, id).unwrap();
    assert_eq!(published(&world), [(id, false)]);
    // The first attempt may have arrived: the refusal of the second shows nothing about it.
    begin(&mut world, id).unwrap();
    end(&mut world, id, other_refusal());
    assert_eq!(published(&world), [(id, false)]);
    end(&mut world, id, UploadEnd::Refused(RegistryRefusal::SignerMismatch));
    assert_eq!(published(&world), []);
    begin(&mut world, id).unwrap();
    end(&mut world, id, other_refusal());
    assert_eq!(published(&world), [], "a refused first attempt published nothing");
    begin(&mut world, id).unwrap();
    end(&mut world, id, confirmed(id));
    assert_eq!(published(&world), [(id, true)]);
    begin(&mut world, id).unwrap();
    end(&mut world, id, other_refusal());
    assert_eq!(published(&world), [(id, true)], "it was published before");
    // An answer about a mandate that was never sent changes nothing.
    end(&mut world, MandateId::from_entropy([9; 16]), UploadEnd::Absent);
    assert_eq!(published(&world), [(id, true)]);
    end(&mut world, id, UploadEnd::Absent);
    assert_eq!(published(&world), []);
    world.assert_replays();
}

#[test]
fn only_the_newest_mandate_is_published_and_only_at_the_registry_that_is_set() {
    let (mut world, first) = world_with_a_registry();
    edit(&mut world, |policy| policy.payments.daily = Usd::dollars(50));
    let stale = begin(&mut world, first).unwrap_err();
    assert_eq!(stale.code, Code::RequestNoLongerValid);
    let second = signed(&mut world);
    assert_eq!(begin(&mut world, first).unwrap_err().code, Code::RequestNoLongerValid);
    let elsewhere = Upload { base: "https://other.example".to_owned(), ..upload(second) };
    let refused = world.run(Action::Mandate(MandateAction::BeginUpload(elsewhere))).unwrap_err();
    assert_eq!(refused.code, Code::RequestNoLongerValid);
    begin(&mut world, second).unwrap();
    // A retirement is published whatever stopped the agent.
    world.must(Action::DeleteAgent { agent: agent(0) });
    assert_eq!(begin(&mut world, second).unwrap_err().code, Code::RequestNoLongerValid);
    world.must(Action::Freeze);
    retire(&mut world).unwrap();
    let retirement = open(&world).draft.id;
    sign_as(&mut world, "main").unwrap();
    let still = |world: &World| world.state.mandates.published_after_retirement(&agent(0)).count();
    assert_eq!(still(&world), 1);
    begin(&mut world, retirement).unwrap();
    end(&mut world, retirement, confirmed(retirement));
    assert_eq!(still(&world), 1, "the registry may still show the limits");
    end(&mut world, second, UploadEnd::Absent);
    assert_eq!((still(&world), published(&world)), (0, vec![(retirement, true)]));
    world.assert_replays();
}

#[test]
fn retirement_is_signed_by_the_address_whose_limits_are_published() {
    let (mut world, first) = world_with_a_registry();
    begin(&mut world, first).unwrap();
    end(&mut world, first, confirmed(first));
    world.must(build::commission(0, policy_name().as_str(), "spare"));
    create(&mut world).unwrap();
    sign_as(&mut world, "spare").unwrap();
    retire(&mut world).unwrap();
    sign_as(&mut world, "spare").unwrap();
    retire(&mut world).unwrap();
    sign_as(&mut world, "main").unwrap();
    assert_eq!(retire(&mut world).unwrap().events, []);
    world.assert_replays();
}

#[test]
fn restored_or_accepted_journal_doubts_what_registries_publish() {
    for action in [Action::AcceptJournal, Action::RecordRestore] {
        let (mut world, id) = world_with_a_registry();
        begin(&mut world, id).unwrap();
        end(&mut world, id, confirmed(id));
        world.must(action.clone());
        assert_eq!(published(&world), [(id, false)]);
        // A retirement after the backup would be lost, so the limits are not published again.
        let is_refused = begin(&mut world, id).is_err();
        assert_eq!(is_refused, action == Action::RecordRestore);
        world.assert_replays();
    }
}

#[test]
fn no_event_about_a_mandate_follows_a_seal() {
    let mut world = ordinary_world();
    create(&mut world).unwrap();
    let issued = open(&world);
    let (agent, id) = (agent(0), issued.draft.id);
    let signature = build::sign("main", issued.draft.digest());
    for event in [
        Event::Mandate(MandateEvent::Issued(Box::new(issued))),
        Event::Mandate(MandateEvent::Signed { agent: agent.clone(), id, signature }),
        Event::Mandate(MandateEvent::Ended { agent: agent.clone(), id, end: MandateEnd::Declined }),
        Event::Mandate(MandateEvent::UploadBegun(upload(id))),
        Event::Mandate(MandateEvent::UploadEnded { upload: upload(id), end: UploadEnd::Absent }),
    ] {
        let entry = Entry { seq: world.state.seq + 1, at: world.now().utc, event };
        assert!(!may_follow_a_seal(&world.state, &entry), "{entry:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A mandate is stale exactly if a mandate that is issued now would state other terms.
    #[test]
    fn mandate_is_stale_exactly_if_a_signed_term_differs(changes in prop::collection::vec(0..9u8, 0..6)) {
        let mut world = ordinary_world();
        signed(&mut world);
        let mut now = policy();
        for change in changes {
            let edited = match change {
                0 => { now.payments.daily = Usd::dollars(50); true }
                1 => { now.payments.auto_below = Usd::ZERO; true }
                2 => { now.payments.enabled = !now.payments.enabled; true }
                3 => { now = policy(); true }
                _other => false,
            };
            let action = match change {
                _policy if edited => Action::EditPolicy { name: policy_name(), policy: Box::new(now.clone()) },
                4 => Action::SetNetwork { chain: ChainId(8453), enabled: false },
                5 => Action::SetNetwork { chain: ChainId(8453), enabled: true },
                6 => build::commission(0, policy_name().as_str(), "spare"),
                7 => build::commission(0, policy_name().as_str(), "main"),
                _rename => Action::RenameAddress { from: name("spare"), to: name("spare2") },
            };
            let _unchanged_or_unknown = world.run(action);
        }
        let before = world.state.mandates.signed[&agent(0)].issued.draft.clone();
        let is_stale = !reasons(&world).is_empty();
        let new = MandateGrant { is_new: true, ..grant(&mut world) };
        if world.run(Action::Mandate(MandateAction::Grant(Box::new(new)))).is_ok() {
            prop_assert_eq!(open(&world).draft.terms != before.terms, is_stale);
        } else {
            prop_assert!(is_stale);
        }
    }
}
