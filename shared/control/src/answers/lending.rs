//! Vaults in which a stablecoin is lent, and the positions of this wallet in them.

use bursar_core::amount::Amount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::trading::UnreadAnswer;

/// The vaults that Bursar knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VenuesAnswer {
    pub venues: Vec<VenueAnswer>,
    /// Networks that could not be read.
    pub unread: Vec<UnreadVenueAnswer>,
}

/// A network, or one vault of it, that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadVenueAnswer {
    pub network: String,
    /// The vault; `None` if no vault of the network could be read.
    pub venue: Option<String>,
    pub reason: String,
}

/// Whether Bursar trusts a vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VenueTrust {
    /// The curator and the owner of the venue are trusted.
    Curated,
    /// The curator is trusted, and the venue's address is trusted with any owner.
    Pinned,
    /// The operator confirmed the venue with its present curator and owner.
    Confirmed,
    /// Bursar found no reason against the venue, but the operator has not confirmed it.
    New,
    /// The venue was trusted before. Since then it changed, or the operator withdrew the trust.
    Changed,
    /// Bursar found a reason against the venue.
    Refused,
}

/// One vault, as the chain describes it now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VenueAnswer {
    pub network: String,
    pub caip2: String,
    /// The vault's address.
    pub venue: String,
    /// `vault_v2` or `metamorpho`.
    pub kind: String,
    /// The name that the vault itself claims, unverified, as is `symbol`.
    pub name: String,
    pub symbol: String,
    /// The account that chooses the vault's markets; the zero address if there is none.
    pub curator: String,
    /// The account that may name another curator.
    pub owner: String,
    pub trust: VenueTrust,
    /// Why the vault is or is not trusted.
    pub reason: String,
    /// The assets under management, in the stablecoin; `None` if the vault lends another token.
    pub total_assets: Option<Amount>,
    /// The amount that all lenders together could withdraw now; `None` if it is unknown.
    pub liquid: Option<Amount>,
}

/// The positions of this wallet in vaults that Bursar knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PositionsAnswer {
    pub positions: Vec<PositionAnswer>,
    /// The addresses whose positions could not be read; they may have further positions.
    pub unread: Vec<UnreadAnswer>,
    /// The number of positions that were read, including empty positions.
    pub read: usize,
}

/// The position of one address in one vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PositionAnswer {
    pub label: String,
    pub address: String,
    pub network: String,
    pub caip2: String,
    pub venue: String,
    /// The name that the vault itself claims, unverified.
    pub name: String,
    pub trust: VenueTrust,
    /// Why the vault is or is not trusted.
    pub reason: String,
    pub shares: Amount,
    /// The amount for which all shares could be redeemed now.
    pub worth: Amount,
    /// `worth` minus the amount that agents lent and have not withdrawn.
    ///
    /// It is negative after a loss. `None` for a position that the journal does not know.
    #[serde(default)]
    pub earned: Option<Amount>,
    /// The part that can be withdrawn now; `None` if it is unknown.
    pub withdrawable: Option<Amount>,
    /// Why nothing can be withdrawn although the position has a value, such as a closed gate.
    pub obstacle: Option<String>,
}

/// A venue that the operator trusts, or no longer trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VenueSetAnswer {
    pub network: String,
    pub venue: String,
    pub trusted: bool,
}

/// A loss that the operator booked.
///
/// Amounts are in dollars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenOffAnswer {
    pub label: String,
    pub network: String,
    pub venue: String,
    /// The amounts that count against the ceiling, before and after.
    pub before: String,
    pub after: String,
}
