//! Reads all facts about the venue of one loan, and the amounts that the loan would move.

use alloy_primitives::{Address, U256, uint};
use bursar_chain::token;
use bursar_core::money::Atoms;
use bursar_core::networks::{Lending as Contracts, Network, VaultKind};
use bursar_domain::loans::{LendingKind, VenueFacts};
use bursar_morpho::caps::market_cap_id;
use bursar_morpho::trust::{MarketReading, UntrustedReason, judge_market};
use bursar_morpho::vault::metamorpho_withdrawable;
use bursar_morpho::views::vault;
use bursar_morpho::worth::{VIRTUAL_SHARES_MIN, has_enough_virtual_shares, virtual_shares_for};
use bursar_morpho::{GateKind, SharePrice, Trust, VenueId};

use super::position_read::ReadPosition;
use super::vault_read::{self, Structure, VaultFacts, VaultReads, trusted_parties};
use crate::lanes::batch::{Answers, Batch};

/// The number of shares whose worth is compared over time: many, so that rounding does not matter.
const PRICE_SHARES: U256 = uint!(1_000_000_000_000_000_000_000_000_U256);

const GATES: [GateKind; 4] =
    [GateKind::SendShares, GateKind::ReceiveAssets, GateKind::ReceiveShares, GateKind::SendAssets];

/// The amount that a loan would move, before it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preview {
    /// A supply of this amount.
    Supply(U256),
    /// A withdrawal of this amount.
    Assets(U256),
    /// A withdrawal of this number of shares.
    Shares(U256),
    /// A withdrawal of everything.
    All,
}

/// A vault that lends to a market, and its adapter; MetaMorpho has no adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Endorser {
    pub(super) vault: Address,
    pub(super) adapter: Option<Address>,
}

/// The parts of a venue that were found last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct VenueHint {
    /// The structure of the vault, or of the vault that lends to the market.
    pub(super) structure: Structure,
    pub(super) endorser: Option<Endorser>,
}

/// A venue at one block. Amounts are in the stablecoin's smallest unit.
#[derive(Debug, Clone)]
pub(super) struct ReadVenue {
    pub(super) facts: VenueFacts,
    /// The amount that moves.
    pub(super) assets: U256,
    pub(super) shares: U256,
    /// The part of the position that can be withdrawn now; `None` if that is not known.
    pub(super) withdrawable: Option<U256>,
    /// A gate that refuses a deposit; `None` if no gate does.
    pub(super) deposit_gate: Option<GateKind>,
    /// A gate that refuses a withdrawal; `None` if no gate does.
    pub(super) exit_gate: Option<GateKind>,
}

/// The outcome of reading a venue.
pub(super) enum VenueOutcome {
    Read(Box<ReadVenue>),
    /// The vault has other parts than expected: read again with these.
    OtherParts(Structure),
    /// The contract is not a venue, or cannot be read, for this reason.
    Unreadable(&'static str),
}

/// The batch indexes of the reads of a venue.
pub(super) enum VenueReads {
    Vault {
        vault: VaultReads,
        extras: VaultExtras,
    },
    Market {
        endorser: Option<(VaultReads, Option<usize>)>,
        symbol: Option<usize>,
        adapter: Option<Address>,
    },
}

/// The reads of a vault that do not concern its structure.
pub(super) struct VaultExtras {
    gates: [usize; 4],
    virtual_shares: usize,
    decimals: usize,
    price: usize,
    max_withdraw: usize,
    preview: Option<usize>,
}

/// The context in which a venue is read.
#[derive(Clone, Copy)]
pub(super) struct ReadContext<'a> {
    pub(super) network: &'a Network,
    pub(super) contracts: &'a Contracts,
    pub(super) owner: Address,
    pub(super) preview: Preview,
}

impl VenueReads {
    /// Adds the reads of a venue to the batch. `position` is the cached data of the owner's position in the venue.
    pub(super) fn ask(
        batch: &mut Batch,
        around: ReadContext<'_>,
        venue: VenueId,
        hint: &VenueHint,
        position: super::position_read::PositionHint,
    ) -> Self {
        let ReadContext { network, contracts, .. } = around;
        match venue {
            VenueId::Vault(address) => {
                let structure = hint.structure.clone();
                let vault = VaultReads::ask(batch, address, network, contracts, structure);
                Self::Vault { vault, extras: VaultExtras::ask(batch, around, address) }
            }
            VenueId::Market(_) => {
                let params = position.params;
                let endorser = hint.endorser.map(|endorser| {
                    let structure = hint.structure.clone();
                    let places =
                        VaultReads::ask(batch, endorser.vault, network, contracts, structure);
                    let cap = params.map(|params| match endorser.adapter {
                        Some(adapter) => {
                            let cap = vault::absolute_cap_call(market_cap_id(adapter, &params));
                            batch.add(endorser.vault, cap)
                        }
                        None => batch.add(endorser.vault, vault::market_config_call(params.id())),
                    });
                    (places, cap)
                });
                let adapter = hint.endorser.and_then(|endorser| endorser.adapter);
                let symbol =
                    params.map(|params| batch.add(params.collateral_token, token::symbol_call()));
                Self::Market { endorser, symbol, adapter }
            }
        }
    }

    /// Reads the answers. `position` is the owner's position at the same block.
    pub(super) fn read(
        &self,
        answers: &Answers,
        around: ReadContext<'_>,
        position: &ReadPosition,
    ) -> VenueOutcome {
        match self {
            Self::Vault { vault, extras: more } => {
                match vault.read(answers, around.network, around.contracts) {
                    vault_read::VaultOutcome::OtherParts(structure) => {
                        VenueOutcome::OtherParts(structure)
                    }
                    vault_read::VaultOutcome::Read(venue) => more
                        .read(answers, around, position, Some(&venue))
                        .map_or_else(VenueOutcome::Unreadable, |read| {
                            VenueOutcome::Read(Box::new(read))
                        }),
                    // A withdrawal must be possible even if an adapter stops answering.
                    vault_read::VaultOutcome::Unreadable(reason) => more
                        .read(answers, around, position, None)
                        .map_or(VenueOutcome::Unreadable(reason), |read| {
                            VenueOutcome::Read(Box::new(read))
                        }),
                }
            }
            Self::Market { endorser, symbol, adapter } => {
                let mut cap = U256::ZERO;
                if let Some((places, at)) = endorser {
                    match places.read(answers, around.network, around.contracts) {
                        vault_read::VaultOutcome::OtherParts(structure) => {
                            return VenueOutcome::OtherParts(structure);
                        }
                        vault_read::VaultOutcome::Read(venue) => {
                            cap = cap_of(answers, *at, &venue, *adapter);
                        }
                        // A vault that cannot be read endorses no market.
                        vault_read::VaultOutcome::Unreadable(_) => {}
                    }
                }
                match market_facts(answers, around, position, *symbol, cap) {
                    Some(read) => VenueOutcome::Read(Box::new(read)),
                    None => VenueOutcome::Unreadable("the market cannot be read"),
                }
            }
        }
    }
}

/// Returns the cap of a vault on a market, zero if the vault is not trusted.
fn cap_of(
    answers: &Answers,
    at: Option<usize>,
    venue: &VaultFacts,
    adapter: Option<Address>,
) -> U256 {
    let Some(at) = at.filter(|_asked| venue.is_trusted()) else { return U256::ZERO };
    match (venue.kind, adapter) {
        // The vault must still have this adapter.
        (VaultKind::V2, Some(adapter)) if venue.market_adapters.contains(&adapter) => {
            answers.number(at).unwrap_or(U256::ZERO)
        }
        (VaultKind::MetaMorpho, None) => {
            let config = answers.bytes(at).ok().and_then(|one| vault::decode_market_config(one));
            config.filter(|config| config.is_enabled).map_or(U256::ZERO, |config| config.cap)
        }
        (VaultKind::V2 | VaultKind::MetaMorpho, _) => U256::ZERO,
    }
}

impl VaultExtras {
    fn ask(batch: &mut Batch, around: ReadContext<'_>, address: Address) -> Self {
        let mut add = |data| batch.add(address, data);
        Self {
            gates: GATES.map(|gate| add(vault::passes_gate_call(gate, around.owner))),
            virtual_shares: add(vault::virtual_shares_call()),
            decimals: add(token::decimals_call()),
            price: add(vault::preview_redeem_call(PRICE_SHARES)),
            max_withdraw: add(vault::max_withdraw_call(around.owner)),
            preview: match around.preview {
                Preview::Supply(assets) => Some(add(vault::preview_deposit_call(assets))),
                Preview::Assets(assets) => Some(add(vault::preview_withdraw_call(assets))),
                Preview::Shares(shares) => Some(add(vault::preview_redeem_call(shares))),
                Preview::All => None,
            },
        }
    }

    /// Reads the answers. Without `venue` the vault cannot be judged, and only a withdrawal is possible.
    fn read(
        &self,
        answers: &Answers,
        around: ReadContext<'_>,
        position: &ReadPosition,
        venue: Option<&VaultFacts>,
    ) -> Result<ReadVenue, &'static str> {
        let number = |at| answers.number(at).map_err(|_odd| "it is not a vault");
        let preview = self.preview.map(number).transpose();
        let (assets, shares) = match (around.preview, preview) {
            (Preview::Supply(assets) | Preview::Assets(assets), Ok(Some(shares))) => {
                (assets, shares)
            }
            (Preview::Shares(shares), Ok(Some(assets))) => (assets, shares),
            (Preview::All, _) => (position.worth, position.shares),
            (Preview::Supply(_) | Preview::Assets(_) | Preview::Shares(_), Ok(None) | Err(_)) => {
                return Err("the vault gives no preview of this amount");
            }
        };
        let kind = venue.map(|venue| venue.kind);
        let is_v2 = kind != Some(VaultKind::MetaMorpho);
        let closed = |gates: &[(GateKind, usize)]| {
            let refuses = |at: usize| answers.flag(at) != Some(true);
            gates.iter().find(|(_gate, at)| is_v2 && refuses(*at)).map(|(gate, _at)| *gate)
        };
        let mut gates = [(GateKind::SendShares, 0); 4];
        for (slot, (gate, at)) in gates.iter_mut().zip(GATES.into_iter().zip(self.gates)) {
            *slot = (gate, at);
        }
        // The first two gates decide about withdrawals. An unreadable vault may be of the kind without gates.
        let exit_gate = gates.get(..2).filter(|_known| venue.is_some()).and_then(closed);
        let withdrawable = match (venue, kind) {
            (_, Some(VaultKind::MetaMorpho)) => {
                Some(metamorpho_withdrawable(position.worth, number(self.max_withdraw)?))
            }
            (Some(venue), _) => venue.liquid.map(|liquid| liquid.min(position.worth)),
            (None, _) => None,
        };
        let free = venue.and_then(|venue| venue.liquid);
        let decimals = number(self.decimals).ok().and_then(|one| u8::try_from(one).ok());
        let virtual_shares = match is_v2 {
            true => number(self.virtual_shares).unwrap_or(U256::ZERO),
            false => virtual_shares_for(around.network.stablecoin.decimals),
        };
        let facts = VenueFacts {
            kind: if is_v2 { LendingKind::VaultV2 } else { LendingKind::MetaMorpho },
            name: venue.map_or(String::new(), |venue| venue.name.clone()),
            symbol: venue.map_or(String::new(), |venue| venue.symbol.clone()),
            curator: venue.map(|venue| venue.curator),
            owner: venue.map(|venue| venue.owner),
            trust: venue.map_or(Trust::Refused(UntrustedReason::Unreadable), |venue| venue.trust),
            lends_stablecoin: venue.is_none_or(|venue| venue.lends_stablecoin),
            share_decimals: decimals.unwrap_or(18),
            resists_donations: has_enough_virtual_shares(virtual_shares),
            price: number(self.price).ok().and_then(|one| SharePrice::new(one, PRICE_SHARES)),
            free_liquidity: free.map(Atoms),
        };
        Ok(ReadVenue {
            facts,
            assets,
            shares,
            withdrawable,
            deposit_gate: closed(&gates),
            exit_gate,
        })
    }
}

fn market_facts(
    answers: &Answers,
    around: ReadContext<'_>,
    position: &ReadPosition,
    symbol: Option<usize>,
    cap: U256,
) -> Option<ReadVenue> {
    let (params, market) = position.market.as_ref()?;
    let (assets, shares) = match around.preview {
        Preview::Supply(assets) => (assets, market.shares_floor(assets)?),
        Preview::Assets(assets) => (assets, market.shares_ceil(assets)?),
        Preview::Shares(shares) => (market.assets_floor(shares)?, shares),
        Preview::All => (position.worth, position.shares),
    };
    let reading = MarketReading {
        loan_token: params.loan_token,
        interest_model: params.interest_model,
        last_update: market.totals().last_update,
        cap,
    };
    let trusted = trusted_parties(around.network, around.contracts);
    let symbol = symbol.and_then(|at| answers.bytes(at).ok()).map(|one| token::decode_text(one));
    let symbol = symbol.unwrap_or_default();
    let facts = VenueFacts {
        kind: LendingKind::Market,
        name: format!("{symbol} / {}", lltv_text(params.lltv_e18)),
        symbol,
        curator: None,
        owner: None,
        trust: judge_market(&reading, &trusted),
        lends_stablecoin: params.loan_token == around.network.stablecoin.address,
        share_decimals: 0,
        resists_donations: bursar_morpho::market::VIRTUAL_SHARES >= VIRTUAL_SHARES_MIN,
        price: SharePrice::new(market.assets_floor(PRICE_SHARES)?, PRICE_SHARES),
        free_liquidity: Some(Atoms(market.liquidity())),
    };
    Some(ReadVenue {
        facts,
        assets,
        shares,
        withdrawable: Some(market.withdrawable(position.shares)?),
        deposit_gate: None,
        exit_gate: None,
    })
}

/// Formats a loan-to-value limit like `86.0%`, rounded down. The limit has 18 decimals.
pub(super) fn lltv_text(lltv_e18: U256) -> String {
    let tenths = lltv_e18 / uint!(1_000_000_000_000_000_U256);
    let (whole, tenth) = tenths.div_rem(uint!(10_U256));
    format!("{whole}.{tenth}%")
}
