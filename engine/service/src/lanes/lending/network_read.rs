//! Reads one network for an address, at one block: its stablecoins, its positions, and the venue of a loan.

use alloy_primitives::{Address, U256};
use bursar_chain::multicall::{self, ONE_BLOCK_READS_MAX, Read};
use bursar_chain::ports::Chain;
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_domain::Refusal;
use bursar_morpho::VenueId;

use super::hints::Hints;
use super::position_read::{self, PositionReads, ReadPosition};
use super::vault_read::ROUNDS_MAX;
use super::venue_read::{self, Preview, ReadContext, ReadVenue, VenueReads};
use crate::lanes::batch::{Batch, chain_unavailable};

/// The loan for which a network is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoanTarget {
    pub(super) venue: VenueId,
    pub(super) preview: Preview,
}

/// One network at one block.
#[derive(Debug, Clone)]
pub(super) struct ReadNetwork {
    /// In Unix seconds.
    pub(super) block_time: u64,
    /// The balance of the native coin, in wei.
    pub(super) native: U256,
    /// The balance of the stablecoin, in its smallest unit.
    pub(super) coins: U256,
    /// The stablecoin allowance of the venue's contract.
    pub(super) allowance: U256,
    /// The position in each venue; `None` if it cannot be read.
    pub(super) positions: Vec<(VenueId, Option<ReadPosition>)>,
    pub(super) venue: Option<Result<ReadVenue, &'static str>>,
}

/// Reads the state of one network for one owner.
pub(super) struct NetworkReader<'a> {
    pub(super) chain: &'a dyn Chain,
    pub(super) network: &'static Network,
    pub(super) contracts: &'static Contracts,
    pub(super) owner: Address,
    pub(super) hints: &'a Hints,
    /// The block to read at; `None` if each read uses the newest block.
    pub(super) block: Option<u64>,
}

/// The batch indexes of the answers about a network.
struct NetworkReads {
    time: usize,
    native: usize,
    coins: usize,
    allowance: Option<usize>,
    positions: Vec<(VenueId, PositionReads)>,
    venue: Option<(LoanTarget, ReadContext<'static>, VenueReads)>,
}

impl NetworkReader<'_> {
    /// Reads the network. If the parts of a venue differ from the cached parts, everything is read again, so that all
    /// figures are from one block.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`: no node answers, or the parts change with each read.
    pub(super) async fn read(
        &self,
        venues: &[VenueId],
        wanted: Option<LoanTarget>,
    ) -> Result<ReadNetwork, Refusal> {
        for _round in 0..ROUNDS_MAX {
            if let Some(read) = self.try_read(venues, wanted).await? {
                return Ok(read);
            }
        }
        let message = "The venues change faster than they can be read: try again.";
        Err(Refusal::because(Code::ChainUnavailable, message))
    }

    /// Returns the worth of the owner's position in a venue at a block, in the stablecoin's smallest unit; `None` if it
    /// cannot be read.
    pub(super) async fn position_at(&self, venue: VenueId, block: u64) -> Option<U256> {
        let (chain, singleton) = (self.network.chain, self.contracts.singleton);
        for _round in 0..ROUNDS_MAX {
            let mut batch = Batch::default();
            let time = batch.push(multicall::block_time());
            let hint = self.hints.position(chain, venue, self.owner);
            let places = PositionReads::ask(&mut batch, singleton, venue, self.owner, hint);
            let answers = batch.run_at(self.chain, block).await.ok()?;
            match places.read(&answers, answers.time(time).ok()?) {
                position_read::PositionOutcome::Read(position) => return Some(position.worth),
                position_read::PositionOutcome::WrongHint(hint) => {
                    self.hints.set_position(chain, venue, self.owner, hint);
                }
                position_read::PositionOutcome::Unreadable => return None,
            }
        }
        None
    }

    /// Reads everything once; `None` if some parts have to be read again.
    async fn try_read(
        &self,
        venues: &[VenueId],
        wanted: Option<LoanTarget>,
    ) -> Result<Option<ReadNetwork>, Refusal> {
        let mut batch = Batch::default();
        let places = self.add_reads(&mut batch, venues, wanted);
        let answers = match self.block {
            Some(block) => batch.run_at(self.chain, block).await?,
            None if batch.len() <= ONE_BLOCK_READS_MAX => batch.run(self.chain).await?,
            None => {
                let block =
                    self.chain.block_number().await.map_err(|_fault| chain_unavailable())?;
                batch.run_at(self.chain, block).await?
            }
        };

        let (chain, owner, hints) = (self.network.chain, self.owner, self.hints);
        let block_time = answers.time(places.time)?;
        let mut is_whole = true;
        let mut read = Vec::with_capacity(places.positions.len());
        for (venue, places) in &places.positions {
            match places.read(&answers, block_time) {
                position_read::PositionOutcome::Read(position) => {
                    hints.note_shares(chain, *venue, owner, position.shares);
                    read.push((*venue, Some(position)));
                }
                position_read::PositionOutcome::WrongHint(hint) => {
                    hints.set_position(chain, *venue, owner, hint);
                    is_whole = false;
                }
                position_read::PositionOutcome::Unreadable => read.push((*venue, None)),
            }
        }
        let mut found = None;
        if let Some((wanted, around, places)) = places.venue {
            let position = read.iter().find(|(venue, _position)| *venue == wanted.venue);
            found = match position.and_then(|(_venue, position)| position.as_ref()) {
                None if is_whole => Some(Err("the position in it cannot be read")),
                None => None,
                Some(position) => match places.read(&answers, around, position) {
                    venue_read::VenueOutcome::Read(venue) => Some(Ok(*venue)),
                    venue_read::VenueOutcome::Unreadable(reason) => Some(Err(reason)),
                    venue_read::VenueOutcome::OtherParts(structure) => {
                        hints.set_structure(chain, wanted.venue, structure);
                        is_whole = false;
                        None
                    }
                },
            };
        }
        if !is_whole {
            return Ok(None);
        }
        Ok(Some(ReadNetwork {
            block_time,
            native: answers.number(places.native)?,
            coins: answers.number(places.coins)?,
            allowance: places.allowance.map_or(Ok(U256::ZERO), |at| answers.number(at))?,
            positions: read,
            venue: found,
        }))
    }

    /// Adds the reads of the network to the batch.
    fn add_reads(
        &self,
        batch: &mut Batch,
        venues: &[VenueId],
        wanted: Option<LoanTarget>,
    ) -> NetworkReads {
        let Self { network, contracts, owner, hints, .. } = *self;
        let (chain, coin) = (network.chain, network.stablecoin.address);
        let time = batch.push(multicall::block_time());
        let native = batch.push(Read::Native(owner));
        let coins = batch.add(coin, token::balance_call(owner));
        let spender = wanted.map(|wanted| spender(contracts, wanted.venue));
        let allowance = spender.map(|one| batch.add(coin, token::allowance_call(owner, one)));
        let positions = venues.iter().map(|venue| {
            let hint = hints.position(chain, *venue, owner);
            (*venue, PositionReads::ask(batch, contracts.singleton, *venue, owner, hint))
        });
        let positions = positions.collect();
        let venue = wanted.map(|wanted| {
            let around = ReadContext { network, contracts, owner, preview: wanted.preview };
            let hint = hints.venue(chain, wanted.venue);
            let position = hints.position(chain, wanted.venue, owner);
            let places = VenueReads::ask(batch, around, wanted.venue, &hint, position);
            (wanted, around, places)
        });
        NetworkReads { time, native, coins, allowance, positions, venue }
    }
}

/// Returns the contract that takes the stablecoin of a supply.
pub(super) fn spender(contracts: &Contracts, venue: VenueId) -> Address {
    match venue {
        VenueId::Vault(vault) => vault,
        VenueId::Market(_) => contracts.singleton,
    }
}
