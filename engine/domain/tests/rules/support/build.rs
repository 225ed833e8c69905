//! Builders for tests: a commissioned agent, policies, payments, identities.
//!
//! They are deterministic, with figures as small as the guarantee under test allows.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, U256, keccak256};
use bursar_core::derivation::Layout;
use bursar_core::hosts::{HostEntry, HostLists};
use bursar_core::ids::{AgentId, Name, SeedId};
use bursar_core::json;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::{self, Network};
use bursar_core::policy::Policy;
use bursar_core::time::Utc;
use bursar_domain::agents::Credential;
use bursar_domain::assets::Price;
use bursar_domain::event::AddressAdded;
use bursar_domain::identity::{Identity, KeyClaim};
use bursar_domain::wallets::Backing;
use bursar_domain::{Action, PaymentAsk, Request};
use bursar_x402::Echo;
use bursar_x402::required::PaymentRequired;
use bursar_x402::signature::Signature65;
use k256::ecdsa::SigningKey;

use super::World;
use super::clock::Clock;

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Returns the code of agent 0, 1 or 2.
pub(crate) fn agent(index: usize) -> AgentId {
    ["ABC123", "DEF456", "GHI789"][index].parse().expect("an agent code")
}

/// A policy with 100 dollars a day, 10 per request, automatic below 1.
pub(crate) fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.payments.daily = Usd::dollars(100);
    policy.payments.per_request = Usd::dollars(10);
    policy.payments.auto_below = Usd::dollars(1);
    policy
}

pub(crate) fn hosts(allowed: &[&str], blocked: &[&str]) -> HostLists {
    let read = |list: &[&str]| {
        list.iter().map(|text| HostEntry::parse(text).expect("a host entry")).collect()
    };
    HostLists { allowed: read(allowed), blocked: read(blocked) }
}

/// The network whose stablecoin the tests pay with.
pub(crate) fn base() -> &'static Network {
    networks::by_id_or_v1_name("base").expect("a row of the table")
}

pub(crate) fn payee() -> Address {
    Address::repeat_byte(0x22)
}

/// Returns the key of the address labelled `main` or, for any other label, `spare`.
fn key(label: &str) -> SigningKey {
    let byte = if label == "main" { 0x11 } else { 0x12 };
    SigningKey::from_slice(&[byte; 32]).expect("a scalar in range")
}

static ADDRESSES: LazyLock<[Address; 2]> = LazyLock::new(|| {
    ["main", "spare"].map(|label| {
        let point = key(label).verifying_key().to_encoded_point(false);
        let (_format, coordinates) = point.as_bytes().split_first().expect("a point");
        Address::from_word(keccak256(coordinates))
    })
});

pub(crate) fn address(label: &str) -> Address {
    ADDRESSES[usize::from(label != "main")]
}

/// A payment of `micros` micro-dollars to `api.example`, valid for a minute.
pub(crate) fn payment(micros: u64) -> PaymentAsk {
    PaymentAsk {
        chain: base().chain,
        asset: base().stablecoin.address,
        amount: Atoms(U256::from(micros)),
        usd: Usd(micros),
        payee: payee(),
        valid_seconds: 60,
        request_url: Some("https://api.example/report".to_owned()),
        resource_url: Some("https://api.example/report".to_owned()),
        other_urls: Vec::new(),
        domain_contradicted: false,
        padding: 0,
        price: Price::Reference,
        echo: ECHO.clone(),
    }
}

static ECHO: LazyLock<Echo> = LazyLock::new(|| {
    let text = "{\"x402Version\":2,\"accepts\":[{\"scheme\":\"exact\",\"network\":\"base\",\
        \"amount\":\"1\",\"asset\":\"0x22\",\"payTo\":\"0x33\",\"maxTimeoutSeconds\":60}]}";
    let value = json::parse(text.as_bytes(), 32).expect("JSON");
    let challenge = PaymentRequired::parse(&value).expect("a challenge");
    Echo::new(&challenge, &challenge.offers[0]).expect("a short challenge")
});

/// The identity of a signed request. Each `number` stands for another signature.
pub(crate) fn signed_identity(number: u64, at: Utc) -> Identity {
    let day = u32::try_from(at.seconds().div_euclid(86_400)).unwrap_or(0);
    Identity::Hmac { day, digest: hash(&[b"signature", &number.to_be_bytes()]) }
}

/// The identity of a bearer agent's request.
pub(crate) fn bearer_identity(agent: &AgentId, content: &[u8], key: Option<&str>) -> Identity {
    let agent = agent.as_str().as_bytes();
    let key_bytes = key.unwrap_or("").as_bytes();
    Identity::Bearer {
        digest: hash(&[b"ask", agent, &hash(&[content]), key_bytes]),
        key: key.map(|_given| KeyClaim {
            name: hash(&[b"key", agent, key_bytes]),
            content: hash(&[content]),
        }),
    }
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    keccak256(parts.join(&b'|')).0
}

/// The payer's signature of an authorized request; for any other, a well-formed signature.
pub(crate) fn signature(request: Option<&Request>) -> Signature65 {
    let digest = request.and_then(Request::digest).unwrap_or_default();
    sign(request.map_or("main", |request| request.label.as_str()), digest)
}

/// The signature of the address with this label.
pub(crate) fn sign(label: &str, digest: B256) -> Signature65 {
    let key = key(label);
    let (signature, parity) = key.sign_prehash_recoverable(digest.as_slice()).expect("signed");
    let (r, s) = signature.split_bytes();
    let [r, s] = [r, s].map(|scalar| B256::from_slice(&scalar));
    Signature65::new(r, s, parity.to_byte()).expect("a low s")
}

/// A wallet with two addresses, and a first agent under `policy`.
pub(crate) fn world(clock: Clock, policy: &Policy) -> World {
    let mut world = wallet(clock);
    register(&mut world, 0, Credential::Hmac { secret_hash: [7; 32] });
    world.must(Action::CreatePolicy {
        name: super::policy_name(),
        policy: Box::new(policy.clone()),
    });
    world.must(commission(0, super::policy_name().as_str(), "main"));
    world
}

/// A wallet with a seed and two addresses.
pub(crate) fn wallet(clock: Clock) -> World {
    let mut world = World::empty(clock);
    world.must(Action::CreateWallet { name: name("wallet"), wallet_id: [9; 16] });
    world.must(Action::AddSeed { id: SeedId(1), words: 12 });
    for (index, label) in ["main", "spare"].into_iter().enumerate() {
        world.must(add_address(label, u32::try_from(index).expect("a small index")));
    }
    world
}

pub(crate) fn add_address(label: &str, index: u32) -> Action {
    Action::AddAddress(Box::new(AddressAdded {
        label: name(label),
        description: "pays".to_owned(),
        index,
        backing: Backing::Seed(SeedId(1)),
        path: format!("m/44'/60'/0'/0/{index}"),
        address: address(label),
    }))
}

pub(crate) fn register(world: &mut World, index: usize, credential: Credential) {
    let name = name(&format!("agent {index}"));
    world.must(Action::RegisterAgent { id: agent(index), name, credential });
}

pub(crate) fn commission(index: usize, policy: &str, label: &str) -> Action {
    Action::Commission { agent: agent(index), policy: name(policy), label: name(label) }
}

/// A world whose first agent pays from an address of a device, labelled `main`.
pub(crate) fn world_with_device(clock: Clock, policy: &Policy) -> World {
    let mut world = World::empty(clock);
    world.must(Action::CreateWallet { name: name("wallet"), wallet_id: [9; 16] });
    world.must(Action::AddAddress(Box::new(AddressAdded {
        label: name("main"),
        description: String::new(),
        index: 0,
        backing: Backing::Device { layout: Layout::Live },
        path: "m/44'/60'/0'/0/0".to_owned(),
        address: address("main"),
    })));
    register(&mut world, 0, Credential::Hmac { secret_hash: [7; 32] });
    world.must(Action::CreatePolicy {
        name: super::policy_name(),
        policy: Box::new(policy.clone()),
    });
    world.must(commission(0, super::policy_name().as_str(), "main"));
    world
}

/// A world at noon UTC on a winter's day, under [`policy`].
pub(crate) fn ordinary_world() -> World {
    world(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy())
}
