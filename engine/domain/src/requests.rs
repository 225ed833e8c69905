//! Requests of agents: what was asked, under which terms, and what became of it. This module alone knows
//! the 15 minutes.

use alloy_primitives::{Address, B256};
use bursar_core::card::HoldReason;
use bursar_core::client::Client;
use bursar_core::hosts;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::limits::HOLD_MS;
use bursar_core::money::{Atoms, TokenAmount, Usd};
use bursar_core::networks::{self, ChainId, Network};
use bursar_core::time::{Moment, Utc};
use bursar_x402::Echo;
use bursar_x402::authorization::{Authorization, MIN_VALIDITY_SECONDS};
use bursar_x402::signature::Signature65;
use bursar_x402::typed_data::TokenDomain;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::refusal::Refusal;

/// One payment that an agent asked for: the immutable value that is checked, recorded, shown and signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentAsk {
    pub chain: ChainId,
    /// The network's reference stablecoin, or a token without a price.
    pub asset: Address,
    pub amount: Atoms,
    /// The amount in dollars, one to one for a reference stablecoin; zero where nobody can say.
    pub usd: Usd,
    /// Nobody can say what it is worth: no limit can judge it, so it is never signed.
    pub unpriced: bool,
    pub payee: Address,
    /// Seconds the authorization is to stay valid (`maxTimeoutSeconds`, at least 30).
    pub valid_seconds: u64,
    pub request_url: Option<String>,
    pub resource_url: Option<String>,
    /// Further URLs that the challenge names, in its order.
    pub other_urls: Vec<String>,
    /// The offer names another EIP-712 domain than our table, and the chain did not confirm ours.
    pub domain_contradicted: bool,
    /// Bytes of the payment header beyond what an honest offer has; see [`bursar_core::limits::PADDING_A_DAY`].
    pub padding: u32,
    /// What of the offer goes back with the payment. Requests in the state have none: it is in their records.
    pub echo: Echo,
}

/// A request with everything that is fixed when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub id: RequestId,
    /// The entry of the journal that made it: requests in the order of their making.
    pub seq: u64,
    pub agent: AgentId,
    pub created: Utc,
    /// Label of the paying address.
    pub label: Name,
    /// The paying address.
    pub from: Address,
    pub ask: PaymentAsk,
    pub identity: Identity,
    pub status: Status,
}

/// Where a request stands. It never goes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Waits for the operator.
    Held {
        reason: HoldReason,
        deadline: Deadline,
    },
    /// May be signed, and counts as spent whatever happens next: the terms are fixed, so the same
    /// signature can be made again after a crash.
    Authorized {
        terms: Authorization,
        at: Utc,
        by: Approver,
        signature: Option<Signature65>,
    },
    Refused {
        refusal: Refusal,
        at: Utc,
    },
    Denied {
        reason: Option<String>,
        at: Utc,
        by: Client,
        /// A bearer agent that asks the same hears the same until then.
        told_until: Deadline,
    },
    Expired {
        at: Utc,
        told_until: Deadline,
    },
}

/// Who let a payment through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Approver {
    Policy,
    Operator(Client),
}

/// The end of a hold, or of the memory of how one ended, on both clocks: setting the wall clock back does not
/// lengthen it within a boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    pub utc: Utc,
    pub boot_id: String,
    pub boot_ms: u64,
}

impl Deadline {
    /// 15 minutes from `moment`: the same for both.
    pub fn after(moment: &Moment) -> Self {
        Self {
            utc: moment.utc.plus_ms(HOLD_MS),
            boot_id: moment.boot_id.clone(),
            boot_ms: moment.boottime_ms.saturating_add(u64::try_from(HOLD_MS).unwrap_or(0)),
        }
    }

    /// Milliseconds left; at exactly zero the hold has ended.
    pub fn left_ms(&self, moment: &Moment) -> u64 {
        let wall = self.utc.since_ms(moment.utc);
        let same_boot = !self.boot_id.is_empty() && self.boot_id == moment.boot_id;
        let boot = self.boot_ms.saturating_sub(moment.boottime_ms);
        let wall = u64::try_from(wall).unwrap_or(0);
        if same_boot { wall.min(boot) } else { wall }
    }

    pub fn has_passed(&self, moment: &Moment) -> bool {
        self.left_ms(moment) == 0
    }
}

impl PaymentAsk {
    /// Every URL that the challenge names.
    pub fn challenge_urls(&self) -> impl Iterator<Item = &str> {
        self.resource_url.iter().chain(&self.other_urls).map(String::as_str)
    }

    /// The network's row; `None` only if the table lost a network that the journal knows.
    pub fn network(&self) -> Option<&'static Network> {
        networks::by_chain(self.chain)
    }

    /// Like `1.500000 USDC`, or bare units of a token that the table does not know.
    pub fn amount_text(&self) -> String {
        match self.network().filter(|_known| !self.unpriced) {
            Some(network) => {
                let coin = &network.stablecoin;
                let amount = TokenAmount { atoms: self.amount, decimals: coin.decimals };
                format!("{amount} {}", coin.symbol)
            }
            None => format!("{} units of {}", self.amount, self.asset.to_checksum(None)),
        }
    }

    /// Who asks for the money: the host of the URL that the agent called, else of the one that the offer
    /// names. Never more of it, for path and query may be private.
    pub fn host(&self) -> Option<String> {
        self.host_url().and_then(|url| hosts::host_of(url).ok())
    }

    /// The URL that [`PaymentAsk::host`] is of.
    pub fn host_url(&self) -> Option<&str> {
        self.request_url.as_deref().or(self.resource_url.as_deref())
    }
}

impl Request {
    /// What is signed for `terms`: the EIP-712 digest of EIP-3009's `TransferWithAuthorization` under the
    /// token domain of our table, never of the offer.
    pub fn digest(&self) -> Option<B256> {
        let Status::Authorized { terms, .. } = &self.status else { return None };
        if self.ask.unpriced {
            return None;
        }
        Some(TokenDomain::of_stablecoin(self.ask.network()?).digest(terms))
    }

    /// Whether a refusal left nothing of its URLs but their origins.
    pub fn keeps_origins_only(&self) -> bool {
        matches!(self.status, Status::Refused { .. }) && self.ask.echo == Echo::none()
    }

    /// Whether it waited until its time ran out: it waits no more, also before anybody has noted that.
    pub fn is_over(&self, moment: &Moment) -> bool {
        matches!(&self.status, Status::Held { deadline, .. } if deadline.has_passed(moment))
    }

    pub fn is_held(&self) -> bool {
        matches!(self.status, Status::Held { .. })
    }

    /// The second from which an authorization is worthless.
    pub fn valid_before(&self) -> Option<u64> {
        match &self.status {
            Status::Authorized { terms, .. } => Some(terms.valid_before),
            Status::Held { .. }
            | Status::Refused { .. }
            | Status::Denied { .. }
            | Status::Expired { .. } => None,
        }
    }

    /// The second of the journal's own time from which nobody needs the authorization any more. That time
    /// may run ahead of the clock that `valid_before` was counted by: a clock that was put back.
    pub fn lapses_at(&self) -> Option<u64> {
        let Status::Authorized { terms, at, .. } = &self.status else { return None };
        let at = u64::try_from(at.seconds()).unwrap_or(0);
        let lasts = self.ask.valid_seconds.max(MIN_VALIDITY_SECONDS);
        Some(terms.valid_before.max(at.saturating_add(lasts)))
    }

    /// Whether an authorization can still be redeemed at `now`.
    pub fn is_redeemable(&self, now: Utc) -> bool {
        let now = u64::try_from(now.seconds()).unwrap_or(0);
        self.valid_before().is_some_and(|before| now < before)
    }
}
