//! The exposure of the server, and its effect on bearer tokens. Every machine on a local network can read plain
//! HTTP and replay a token.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::limits::{LAN_BEARER_AGENTS_MAX, LAN_BEARER_WARN_INTERVAL_MS};
use bursar_core::settings::LanBearer;

/// The machines that can reach the agent server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exposure {
    /// Programs on this machine.
    #[default]
    Loopback,
    /// Every machine that has a route to this machine.
    Lan,
}

/// Checks bearer proofs by their origin, and remembers the agents whose proofs came over the network.
#[derive(Debug)]
pub struct LanBearers {
    clock: Arc<dyn Clock>,
    /// The time of each agent's last warning, in monotonic milliseconds. A mutex instead of an owning task: it is
    /// held only to access the map.
    last_warnings_ms: Mutex<BTreeMap<AgentId, u64>>,
}

impl LanBearers {
    /// Creates an empty list.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last_warnings_ms: Mutex::default() }
    }

    /// Refuses bearer proofs from other machines if the operator's rule is `Refuse`. Call it before checking the
    /// token, so that right and wrong tokens get the same answer.
    ///
    /// # Errors
    /// `LAN_BEARER_REFUSED`.
    pub fn judge(&self, rule: LanBearer, peer: IpAddr, by_bearer: bool) -> Result<(), Fault> {
        match rule {
            LanBearer::Refuse if is_lan_bearer(peer, by_bearer) => {
                Err(Fault::new(Code::LanBearerRefused))
            }
            LanBearer::Refuse | LanBearer::Warn => Ok(()),
        }
    }

    /// Warns of an agent's bearer token from another machine, at most once per [`LAN_BEARER_WARN_INTERVAL_MS`]. Call it
    /// only for proven agents: unproven callers must not fill the list.
    pub fn record(&self, peer: IpAddr, by_bearer: bool, agent: &AgentId) {
        if is_lan_bearer(peer, by_bearer) && self.is_due(agent) {
            tracing::warn!(%agent, "a bearer token came over the network, where others can read it");
        }
    }

    /// Returns the agents whose tokens came from other machines.
    pub fn agents(&self) -> Vec<AgentId> {
        self.last_warnings_ms
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .cloned()
            .collect()
    }

    fn is_due(&self, agent: &AgentId) -> bool {
        let now = self.clock.mono_ms();
        let mut warned = self.last_warnings_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = warned.get_mut(agent) {
            let due = now.saturating_sub(*last) >= LAN_BEARER_WARN_INTERVAL_MS;
            if due {
                *last = now;
            }
            return due;
        }
        if warned.len() >= LAN_BEARER_AGENTS_MAX {
            let oldest = warned.iter().min_by_key(|(_agent, last)| **last);
            if let Some(oldest) = oldest.map(|(agent, _last)| agent.clone()) {
                warned.remove(&oldest);
            }
        }
        warned.insert(agent.clone(), now);
        true
    }
}

fn is_lan_bearer(peer: IpAddr, by_bearer: bool) -> bool {
    by_bearer && !peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;

    const REMOTE: [&str; 3] = ["192.168.1.9", "fd00::9", "::ffff:192.168.1.9"];
    const LOCAL: [&str; 3] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];

    fn new_bearers() -> (LanBearers, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(0)));
        (LanBearers::new(Arc::clone(&clock) as _), clock)
    }

    fn agent(number: usize) -> AgentId {
        let letter =
            |place: u32| char::from(b'A' + u8::try_from(number / 10usize.pow(place) % 10).unwrap());
        format!("{}{}{}{:03}", letter(5), letter(4), letter(3), number % 1000).parse().unwrap()
    }

    #[test]
    fn t_24_refuse_rejects_only_bearer_tokens_of_other_machines() {
        let (bearers, _clock) = new_bearers();
        for peer in REMOTE {
            let refused =
                bearers.judge(LanBearer::Refuse, peer.parse().unwrap(), true).unwrap_err();
            assert_eq!(refused.code, Code::LanBearerRefused, "{peer}");
            assert!(
                bearers.judge(LanBearer::Refuse, peer.parse().unwrap(), false).is_ok(),
                "{peer}"
            );
        }
        for peer in LOCAL {
            assert!(
                bearers.judge(LanBearer::Refuse, peer.parse().unwrap(), true).is_ok(),
                "{peer}"
            );
        }
    }

    #[test]
    fn t_24_warn_accepts_lan_bearer_tokens_and_records_their_agents() {
        let (bearers, clock) = new_bearers();
        let remote: IpAddr = REMOTE[0].parse().unwrap();
        assert!(bearers.judge(LanBearer::Warn, remote, true).is_ok());
        bearers.record(remote, false, &agent(1));
        for peer in LOCAL {
            bearers.record(peer.parse().unwrap(), true, &agent(2));
        }
        assert_eq!(bearers.agents(), []);
        bearers.record(remote, true, &agent(3));
        bearers.record(remote, true, &agent(3));
        assert_eq!(bearers.agents(), [agent(3)]);
        assert!(!bearers.is_due(&agent(3)));
        clock.advance(LAN_BEARER_WARN_INTERVAL_MS - 1);
        assert!(!bearers.is_due(&agent(3)));
        clock.advance(1);
        assert!(bearers.is_due(&agent(3)));
        assert!(!bearers.is_due(&agent(3)));
    }

    #[test]
    fn the_lan_bearer_list_is_bounded_and_evicts_the_oldest() {
        let (bearers, clock) = new_bearers();
        for number in 0..=LAN_BEARER_AGENTS_MAX {
            bearers.record(REMOTE[1].parse().unwrap(), true, &agent(number));
            clock.advance(1);
        }
        let agents = bearers.agents();
        assert_eq!(agents.len(), LAN_BEARER_AGENTS_MAX);
        assert!(!agents.contains(&agent(0)));
        assert!(agents.contains(&agent(LAN_BEARER_AGENTS_MAX)));
    }
}
