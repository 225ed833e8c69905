//! Authenticates callers. A wrong proof, an unknown agent and, for HMAC agents, a locked wallet take about the same
//! work and get the same response bytes.

use std::sync::Arc;

use bursar_core::auth::AuthMode;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::json::Object;
use bursar_core::time::Utc;
use bursar_domain::agents::{Agent, Credential};
use bursar_domain::idempotency::is_fresh;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::message::{Endpoint, canonical_text};
use crate::core::View;
use crate::edition::AgentWire;
use crate::vault::gate::Gate;

/// A proof as written in the `signature` field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof<'a> {
    /// `SIG:<unix seconds>:<64 lower-case hex digits>`.
    Hmac { timestamp: u64, digest: [u8; 32] },
    /// `AT_<64 lower-case hex digits>`, with or without `Bearer ` before it.
    Bearer { token: &'a str },
}

impl<'a> Proof<'a> {
    /// Parses a proof in one of its two exact forms; returns `None` for any other text.
    ///
    /// A sign, a blank, an underscore or a leading zero in the timestamp is refused, although CPython's `int()`
    /// accepts them.
    pub fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("SIG:") {
            let (timestamp, digest) = rest.split_once(':')?;
            let plain = (1..=11).contains(&timestamp.len())
                && timestamp.bytes().all(|b| b.is_ascii_digit())
                && !timestamp.starts_with('0');
            let timestamp = timestamp.parse().ok().filter(|_number| plain)?;
            return Some(Proof::Hmac { timestamp, digest: lower_hex(digest)? });
        }
        let token = text.strip_prefix("Bearer ").unwrap_or(text);
        lower_hex(token.strip_prefix("AT_")?)?;
        Some(Proof::Bearer { token })
    }
}

fn lower_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || text.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

/// A caller whose proof for an agent was accepted.
#[derive(Debug, Clone)]
pub struct AuthenticatedCaller {
    pub agent: Arc<Agent>,
    pub by: ProvenBy,
}

/// The kind of proof. It is part of the request's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvenBy {
    /// The day of the signed timestamp, and the hash of agent, endpoint and signature.
    Hmac {
        day: u32,
        digest: [u8; 32],
    },
    Bearer,
}

/// The range of accepted signed timestamps.
#[derive(Debug, Clone, Copy)]
pub struct TimestampWindow {
    pub now: Utc,
    /// The maximum distance of a timestamp from `now`, in seconds.
    pub window_s: u64,
}

/// Checks a proof.
///
/// # Errors
/// `AUTH_FAILED`, always with the same text; `WALLET_LOCKED` only for a bearer agent with the right token.
pub fn authenticate(
    view: &View,
    gate: &Gate,
    fresh: TimestampWindow,
    endpoint: Endpoint,
    wire: &AgentWire,
    body: &Object,
    signature: Option<&str>,
) -> Result<AuthenticatedCaller, Fault> {
    let failed = || Fault::new(Code::AuthFailed);
    let named = body.get(wire.field).and_then(|id| id.as_str()).unwrap_or("");
    let agent = named.parse::<AgentId>().ok().and_then(|id| view.state.agents.get(&id));
    let text = signature.unwrap_or("");
    let proof = Proof::parse(text);

    // Check both kinds of proof for every caller, so that each call costs the same work. If there is no such agent or
    // no valid proof, a stand-in replaces it.
    let timestamp = match &proof {
        Some(Proof::Hmac { timestamp, .. }) => *timestamp,
        Some(Proof::Bearer { .. }) | None => 0,
    };
    let messages = endpoint.messages(wire, named, timestamp, body);
    let sendable = messages.is_some();
    let mut hmac_right = false;
    for message in messages.unwrap_or_else(|| vec![Object::new()]) {
        hmac_right |= hmac_matches(agent, gate, &canonical_text(message), &proof);
    }
    let bearer_right = bearer_matches(agent, &proof);

    match (agent, proof) {
        (Some(agent), Some(Proof::Hmac { timestamp, .. })) if hmac_right && sendable => {
            let signed = i64::try_from(timestamp).unwrap_or(i64::MAX);
            let day = u32::try_from(signed.div_euclid(86_400)).map_err(|_beyond| failed())?;
            // The signatures of forgotten days are no longer in the journal, so a replayed signature would look new.
            // A signature from before a restore may have been used after the backup was made.
            let lost = view.state.restored.is_some_and(|at| signed <= at.seconds());
            if !is_fresh(signed, fresh.now, fresh.window_s)
                || day < view.forgotten_before_day
                || lost
            {
                return Err(failed());
            }
            let digest = identity(&[
                b"hmac",
                agent.id.as_str().as_bytes(),
                endpoint.text().as_bytes(),
                text.as_bytes(),
            ]);
            Ok(AuthenticatedCaller { agent: Arc::clone(agent), by: ProvenBy::Hmac { day, digest } })
        }
        (Some(agent), Some(Proof::Bearer { .. })) if bearer_right => {
            if gate.is_unlocked() {
                Ok(AuthenticatedCaller { agent: Arc::clone(agent), by: ProvenBy::Bearer })
            } else {
                Err(Fault::new(Code::WalletLocked))
            }
        }
        _ => Err(failed()),
    }
}

fn hmac_matches(
    agent: Option<&Arc<Agent>>,
    gate: &Gate,
    canonical: &str,
    proof: &Option<Proof<'_>>,
) -> bool {
    const STAND_IN_HASH: [u8; 32] = [0; 32];
    let check = |secret: Option<&[u8; 32]>| {
        let given = match proof {
            Some(Proof::Hmac { digest, .. }) => *digest,
            Some(Proof::Bearer { .. }) | None => STAND_IN_HASH,
        };
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.unwrap_or(&STAND_IN_HASH)) else {
            return false;
        };
        #[cfg(test)]
        tests::note_hmac(canonical);
        let right = mac.chain_update(canonical.as_bytes()).verify_slice(&given).is_ok();
        right && secret.is_some()
    };
    match agent {
        Some(agent) if agent.credential.mode() == AuthMode::Hmac => {
            gate.with_agent_secret(&agent.id, check)
        }
        Some(_) | None => check(None),
    }
}

fn bearer_matches(agent: Option<&Arc<Agent>>, proof: &Option<Proof<'_>>) -> bool {
    let token = match proof {
        Some(Proof::Bearer { token }) => token,
        Some(Proof::Hmac { .. }) | None => "",
    };
    let given: [u8; 32] = Sha256::digest(token.as_bytes()).into();
    match agent.map(|agent| &agent.credential) {
        Some(Credential::Bearer { sha256 }) => bool::from(given.ct_eq(sha256)),
        Some(Credential::Hmac { .. }) | None => {
            let _same_work = given.ct_eq(&[0; 32]);
            false
        }
    }
}

/// Hashes the parts, each with its length, so that different lists never give the same bytes.
pub(super) fn identity(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use bursar_core::json::{Value, parse};
    use bursar_core::limits::BODY_DEPTH_MAX;
    use bursar_domain::State;
    use secrecy::SecretString;

    use crate::journal::Head;
    use crate::ports::NoFailpoints;
    use crate::vault::Vault;
    use crate::vault::file::WalletFiles;
    use crate::vault::kdf::{KdfBounds, KdfParams};

    const NOW_S: i64 = 1_767_225_600;
    const SECRET: [u8; 32] = [7; 32];

    thread_local! {
        static HMACS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// Records the length of a message whose HMAC is computed.
    pub(super) fn note_hmac(canonical: &str) {
        HMACS.with_borrow_mut(|lengths| lengths.push(canonical.len()));
    }

    fn agent(id: &str, credential: Credential) -> (AgentId, Arc<Agent>) {
        let id: AgentId = id.parse().unwrap();
        let agent = Agent {
            id: id.clone(),
            name: "bot".parse().unwrap(),
            credential,
            created: Utc::from_seconds(0),
            suspended: false,
            commission: None,
            reserved: Default::default(),
            refusals: Default::default(),
            open_payments: 0,
            usage: Default::default(),
            failed_plans: Default::default(),
        };
        (id, Arc::new(agent))
    }

    fn view() -> View {
        let agents = BTreeMap::from([
            agent("AAA111", Credential::Hmac { secret_hash: [0; 32] }),
            agent("BBB222", Credential::Bearer { sha256: [0; 32] }),
        ]);
        View {
            state: State { agents: Arc::new(agents), ..State::default() },
            burst_lapses_at: None,
            authorized: 0,
            head: Head::default(),
            untrusted_reason: None,
            is_verified: true,
            failure: None,
            forgotten_before_day: 0,
        }
    }

    fn open_vault(folder: &std::path::Path) -> Vault {
        let bounds = KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION };
        let kdf = KdfParams { memory_kib: 8, iterations: 1, parallelism: 1 };
        let files = WalletFiles::new(folder, bounds, Arc::new(NoFailpoints));
        let vault = Vault::new(files, kdf, Arc::default());
        vault.create(&"w".parse().unwrap(), &SecretString::from("a password")).unwrap();
        vault.admit(&State::default(), None).unwrap();
        vault.activate_agent_secret(&"AAA111".parse().unwrap(), &SECRET);
        vault
    }

    /// Returns whether the caller is accepted, and the lengths of the messages whose HMACs were computed.
    fn judge(gate: &Gate, id: &str, proof: &str) -> (bool, Vec<usize>) {
        let body = format!("{{\"agent_id\":\"{id}\",\"payment_required\":\"an offer\"}}");
        let Value::Object(body) = parse(body.as_bytes(), BODY_DEPTH_MAX).unwrap() else { panic!() };
        let fresh = TimestampWindow { now: Utc::from_seconds(NOW_S), window_s: 300 };
        HMACS.take();
        let view = view();
        let proven =
            authenticate(&view, gate, fresh, Endpoint::Sign, &AgentWire::FULL, &body, Some(proof));
        (proven.is_ok(), HMACS.take())
    }

    fn signed_proof(id: &str, timestamp: i64) -> String {
        let text = format!(
            "{{\"agent_id\":\"{id}\",\"payment_required\":\"an offer\",\"timestamp\":{timestamp}}}"
        );
        let mac = Hmac::<Sha256>::new_from_slice(&SECRET).unwrap().chain_update(text.as_bytes());
        format!("SIG:{timestamp}:{}", hex::encode(mac.finalize().into_bytes()))
    }

    /// A wrong proof, an unknown agent and a locked wallet cost the same HMAC as a right proof.
    #[test]
    fn t_06_every_proof_costs_one_hmac_of_the_same_length() {
        let folder = tempfile::tempdir().unwrap();
        let vault = open_vault(folder.path());
        let gate = Arc::clone(vault.gate());
        let right = signed_proof("AAA111", NOW_S);
        let (let_in, work) = judge(&gate, "AAA111", &right);
        assert!(let_in && work.len() == 1, "{work:?}");
        let wrong = format!("SIG:{NOW_S}:{}", "0".repeat(64));
        let refused = |when: &str| {
            for (who, id, proof) in [
                ("wrong signature", "AAA111", wrong.clone()),
                ("stale", "AAA111", signed_proof("AAA111", NOW_S - 400)),
                ("of another agent", "AAA111", signed_proof("BBB222", NOW_S)),
                ("unknown agent", "ZZZ999", wrong.clone()),
                ("unknown agent, signed", "ZZZ999", signed_proof("ZZZ999", NOW_S)),
                ("no agent's id", "zzz999", wrong.clone()),
                ("bearer agent", "BBB222", wrong.clone()),
            ] {
                assert_eq!(judge(&gate, id, &proof), (false, work.clone()), "{when}: {who}");
            }
        };
        refused("open");
        vault.lock();
        refused("locked");
        assert_eq!(judge(&gate, "AAA111", &right), (false, work), "locked: right");
        // An invalid proof or a token has no signed timestamp; the HMAC is computed nevertheless.
        for proof in ["", "SIG::", &format!("AT_{}", "0".repeat(64))] {
            for id in ["AAA111", "BBB222", "ZZZ999"] {
                assert_eq!(judge(&gate, id, proof).1.len(), 1, "{id} {proof}");
            }
        }
    }
}
