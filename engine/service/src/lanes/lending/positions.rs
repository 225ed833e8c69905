//! The positions of addresses in vaults.

use alloy_primitives::{Address, U256};
use bursar_chain::token;
use bursar_core::networks::{Network, VaultKind};
use bursar_domain::Refusal;
use bursar_morpho::vault::metamorpho_withdrawable;
use bursar_morpho::views::{self, vault};
use bursar_morpho::{GateKind, Trust};

use super::lane::Lending;
use super::survey::survey_at;
use super::vault_list::VaultList;
use super::vault_read::VaultFacts;
use crate::lanes::batch::{Answers, Batch};

/// The positions of one address.
#[derive(Debug, Clone, Default)]
pub struct OwnerPositions {
    /// The positions that are not empty.
    pub positions: Vec<Position>,
    /// Vaults that cannot be read, with the reason; the address may have positions in them.
    pub unreadable: Vec<(Address, &'static str)>,
    /// The number of positions that were read, empty ones included.
    pub read_count: usize,
}

/// The position of one address in one vault.
///
/// Amounts are in the stablecoin's smallest unit.
#[derive(Debug, Clone)]
pub struct Position {
    pub venue: Address,
    /// The name that the vault reports.
    pub name: String,
    pub trust: Trust,
    pub curator: Address,
    pub owner: Address,
    pub shares: U256,
    /// The amount that all shares redeem for, as the vault reports it.
    pub worth: U256,
    /// The amount that can be withdrawn now; `None` if that is not known.
    pub withdrawable: Option<U256>,
    /// Why nothing can be withdrawn; `None` if no gate is closed.
    pub obstacle: Option<&'static str>,
}

impl Lending {
    /// Reads the positions of several addresses, in their order, all at one block.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn positions(
        &self,
        network: &Network,
        owners: &[Address],
    ) -> Result<Vec<OwnerPositions>, Refusal> {
        let mut all = vec![OwnerPositions::default(); owners.len()];
        let Some(contracts) = network.lending else { return Ok(all) };
        let (chain, block) = self.at_newest_block(network).await?;
        let list = VaultList::read(self.scan(), &*chain, block, network, contracts).await?;
        let mut survey = survey_at(&*chain, block, network, contracts, &list.vaults).await?;
        survey.unreadable.retain(|(vault, _reason)| list.always_mentions(*vault));
        let venues: Vec<&VaultFacts> =
            survey.venues.iter().filter(|one| one.lends_stablecoin).collect();
        let mut batch = Batch::default();
        let places: Vec<Vec<usize>> = owners
            .iter()
            .map(|owner| {
                let call =
                    |venue: &&VaultFacts| batch.add(venue.address, token::balance_call(*owner));
                venues.iter().map(call).collect()
            })
            .collect();
        let shares = batch.run_at(&*chain, block).await?;
        let mut batch = Batch::default();
        let mut asked = Vec::new();
        for (index, ((positions, owner), places)) in
            all.iter_mut().zip(owners).zip(places).enumerate()
        {
            positions.unreadable.clone_from(&survey.unreadable);
            for (venue, at) in venues.iter().zip(places) {
                positions.read_count = positions.read_count.saturating_add(1);
                let places = match shares.number(at) {
                    Ok(U256::ZERO) => continue,
                    Ok(shares) => Some(VaultPositionReads::ask(&mut batch, venue, *owner, shares)),
                    Err(_odd) => None,
                };
                asked.push((index, *venue, places));
            }
        }
        let answers = batch.run_at(&*chain, block).await?;
        for (index, venue, places) in asked {
            let Some(positions) = all.get_mut(index) else { continue };
            match places.and_then(|places| places.read(venue, &answers)) {
                Some(position) => positions.positions.push(position),
                None => {
                    positions.unreadable.push((venue.address, "its balance gives no valid answer"));
                }
            }
        }
        Ok(all)
    }
}

/// The batch indexes of the answers about one position.
struct VaultPositionReads {
    shares: U256,
    worth: usize,
    exit: ExitLimitReads,
}

enum ExitLimitReads {
    /// Vault V2: whether the gates of a withdrawal let the address pass.
    Gates([(GateKind, usize); 2]),
    /// MetaMorpho: the vault's answer to `maxWithdraw`.
    MaxWithdraw(usize),
}

impl VaultPositionReads {
    fn ask(batch: &mut Batch, venue: &VaultFacts, owner: Address, shares: U256) -> Self {
        let mut add = |data| batch.add(venue.address, data);
        Self {
            shares,
            worth: add(vault::preview_redeem_call(shares)),
            exit: match venue.kind {
                VaultKind::V2 => ExitLimitReads::Gates(
                    [GateKind::SendShares, GateKind::ReceiveAssets]
                        .map(|gate| (gate, add(vault::passes_gate_call(gate, owner)))),
                ),
                VaultKind::MetaMorpho => {
                    ExitLimitReads::MaxWithdraw(add(vault::max_withdraw_call(owner)))
                }
            },
        }
    }

    fn read(&self, venue: &VaultFacts, answers: &Answers) -> Option<Position> {
        let worth = answers.number(self.worth).ok()?;
        let (withdrawable, obstacle) = match &self.exit {
            ExitLimitReads::MaxWithdraw(at) => {
                (Some(metamorpho_withdrawable(worth, answers.number(*at).ok()?)), None)
            }
            ExitLimitReads::Gates(gates) => {
                // A gate without an answer counts as closed.
                let passes =
                    |at: usize| answers.bytes(at).ok().and_then(|one| views::decode_flag(one));
                let closed = gates.iter().find(|(_gate, at)| passes(*at) != Some(true));
                match closed {
                    Some((gate, _at)) => (Some(U256::ZERO), Some(gate.refusal())),
                    None => (venue.liquid.map(|liquid| liquid.min(worth)), None),
                }
            }
        };
        Some(Position {
            venue: venue.address,
            name: venue.name.clone(),
            trust: venue.trust,
            curator: venue.curator,
            owner: venue.owner,
            shares: self.shares,
            worth,
            withdrawable,
            obstacle,
        })
    }
}
