//! One served network: its nodes, its contracts, and the facts that are cached about them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, B256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault, Clock};
use bursar_chain::simulate::Simulator;
use bursar_core::networks::{MULTICALL3, Network};
use bursar_x402::channel::ChannelConfig;

use crate::batch::authorizer::Authorizer;
use crate::batch::state::ChannelState;
use crate::config::NetworkConfig;
use crate::contracts::Contracts;
use crate::head::Head;
use crate::node::NodeBatcher;
use crate::ttl_map::TtlMap;
use crate::upto::contract::UptoContract;
use crate::work::SenderRule;

/// How long the lookup of a payer's code is cached. A settlement reads the code of a payer that signed with its key
/// again, because the account may have received code since.
const CODE_TTL_MS: u64 = 60_000;

/// How long a token's domain is cached.
const DOMAIN_TTL_MS: u64 = 15 * 60_000;

/// How long the config of a channel is remembered.
const CHANNEL_TTL_MS: u64 = 31 * 24 * 60 * 60_000;

/// How long the state of a channel is kept. It is used only within the block in which it was read.
const CHANNEL_STATE_TTL_MS: u64 = 60_000;

/// Our accounts on a network.
#[derive(Debug, Default)]
pub struct Accounts {
    /// The active signers, in the order of the settings.
    pub signers: Vec<Address>,
    pub retired_signers: Vec<Address>,
    pub authorizer: Option<Authorizer>,
}

/// A served network: its settings, nodes, accounts and contracts, with the facts that are cached about them.
#[derive(Debug)]
pub struct NetworkContext {
    pub config: NetworkConfig,
    pub contracts: Contracts,
    pub chain: Arc<dyn Chain>,
    pub node: NodeBatcher,
    pub clock: Arc<dyn Clock>,
    /// Accounts that pay gas, in the order of the settings.
    ///
    /// The first account is the sender of simulations. Exceptions are simulations that are batched through Multicall3,
    /// and jobs that are bound to another account.
    pub signers: Vec<Address>,
    /// Former signers, which send only the jobs that are bound to them.
    pub retired_signers: Vec<Address>,
    /// Contracts that payers of the scheme `upto` may name as the facilitator.
    ///
    /// The first one is offered to new payers.
    pub upto_contracts: Vec<UptoContract>,
    /// Signs claims and refunds of payment channels for their receivers.
    pub authorizer: Option<Authorizer>,
    /// Whether an account has code.
    pub code_cache: TtlMap<Address, bool>,
    /// EIP-712 domain separators that tokens returned.
    pub domain_cache: TtlMap<Address, B256>,
    /// The configs of channels that requests named.
    pub channel_config_cache: TtlMap<B256, ChannelConfig>,
    /// The newest block.
    pub head: Head,
    /// The states of channels, each with the block that was the newest before the read.
    pub channel_state_cache: TtlMap<B256, (u64, ChannelState)>,
    /// Simulates transfers that cannot be batched, because only our signers may send them or because Multicall3 is
    /// missing.
    pub simulator: Simulator,
    multicall: AtomicBool,
    /// Contracts of schemes that were found on the network. They cannot disappear.
    // The lock is held for a single lookup.
    found_contracts: Mutex<BTreeSet<Address>>,
}

/// The contracts that payers of the scheme `upto` may name, in the order of the settings.
pub fn upto_contracts(config: &NetworkConfig) -> Vec<UptoContract> {
    let contract =
        |senders: &Vec<Address>| UptoContract::new(config.upto_permit2_proxy, senders.clone());
    config.upto_contracts.iter().map(contract).collect()
}

impl NetworkContext {
    /// Creates the network without asking any node.
    pub fn new(
        config: NetworkConfig,
        chain: Arc<dyn Chain>,
        clock: Arc<dyn Clock>,
        accounts: Accounts,
    ) -> Self {
        let Accounts { signers, retired_signers, authorizer } = accounts;
        let contracts = Contracts {
            chain: config.chain(),
            multicall3: MULTICALL3,
            permit2: config.permit2,
            exact_permit2_proxy: config.exact_permit2_proxy,
            upto_permit2_proxy: config.upto_permit2_proxy,
            prism: config.prism,
            escrow: config.batch_settlement,
            erc3009_collector: config.erc3009_collector,
            permit2_collector: config.permit2_collector,
        };
        Self {
            contracts,
            node: NodeBatcher::new(Arc::clone(&chain), Arc::clone(&clock)),
            chain,
            clock,
            signers,
            retired_signers,
            upto_contracts: upto_contracts(&config),
            authorizer,
            code_cache: TtlMap::new(CODE_TTL_MS),
            domain_cache: TtlMap::new(DOMAIN_TTL_MS),
            channel_config_cache: TtlMap::new(CHANNEL_TTL_MS),
            head: Head::default(),
            channel_state_cache: TtlMap::new(CHANNEL_STATE_TTL_MS),
            simulator: Simulator::default(),
            multicall: AtomicBool::new(false),
            found_contracts: Mutex::default(),
            config,
        }
    }

    /// Returns the accounts to which a rule binds a job; `None` if every signer may send the job.
    pub fn bound_senders(&self, rule: SenderRule) -> Option<Vec<Address>> {
        match rule {
            SenderRule::Any => None,
            SenderRule::FirstSigner => Some(self.signers.first().copied().into_iter().collect()),
            SenderRule::Only(account) => Some(vec![account]),
            SenderRule::ThroughContract(contract) => Some(self.senders_through(contract)),
        }
    }

    /// The account from which a job with this rule is simulated.
    pub fn simulated_sender(&self, rule: SenderRule) -> Address {
        let bound = self.bound_senders(rule).and_then(|senders| senders.first().copied());
        bound.or(self.signers.first().copied()).unwrap_or_default()
    }

    /// The account or contract that payers of the scheme `upto` name as the facilitator.
    pub fn upto_facilitator(&self) -> Option<Address> {
        let contract = self.upto_contracts.first().map(|contract| contract.address);
        contract.or(self.config.upto_facilitator).or(self.signers.first().copied())
    }

    /// Whether payers of the scheme `upto` may name this account or contract as the facilitator.
    pub fn is_upto_facilitator(&self, address: Address) -> bool {
        self.is_upto_contract(address) || self.is_signer(address)
    }

    /// Whether an address is a contract that payers of the scheme `upto` may name as the facilitator.
    pub fn is_upto_contract(&self, address: Address) -> bool {
        self.upto_contracts.iter().any(|contract| contract.address == address)
    }

    /// Our accounts that can call a contract: the active accounts, or the retired ones if no active account can.
    fn senders_through(&self, contract: Address) -> Vec<Address> {
        let known = self.upto_contracts.iter().find(|known| known.address == contract);
        let Some(known) = known else { return Vec::new() };
        let listed = |signers: &[Address]| -> Vec<Address> {
            signers.iter().filter(|signer| known.senders.contains(signer)).copied().collect()
        };
        let active = listed(&self.signers);
        if active.is_empty() { listed(&self.retired_signers) } else { active }
    }

    /// Whether an account is one of our signers, active or retired.
    pub fn is_signer(&self, account: Address) -> bool {
        self.signers.contains(&account) || self.retired_signers.contains(&account)
    }

    /// All our accounts, active ones first.
    pub fn all_signers(&self) -> impl Iterator<Item = Address> + '_ {
        self.signers.iter().chain(&self.retired_signers).copied()
    }

    /// The network's row in the table of networks.
    pub fn table_row(&self) -> &'static Network {
        self.config.network
    }

    /// Whether the network has Multicall3.
    ///
    /// A positive answer is cached, because the contract cannot disappear.
    ///
    /// # Errors
    /// No node answers.
    pub async fn has_multicall(&self) -> Result<bool, ChainFault> {
        if self.multicall.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let code = self.chain.code_at(self.contracts.multicall3, BlockTag::Latest).await?;
        self.multicall.store(!code.is_empty(), Ordering::Relaxed);
        Ok(!code.is_empty())
    }

    /// Whether an earlier lookup found Multicall3.
    ///
    /// Asks no node.
    pub fn is_multicall_known(&self) -> bool {
        self.multicall.load(Ordering::Relaxed)
    }

    /// Whether earlier lookups found all these contracts on the network.
    ///
    /// Asks no node.
    pub fn has_found(&self, contracts: &[Address]) -> bool {
        let found = self.found_contracts();
        contracts.iter().all(|contract| found.contains(contract))
    }

    /// Whether a contract exists.
    ///
    /// A positive answer is cached, because the contract cannot disappear.
    ///
    /// # Errors
    /// No node answers.
    pub async fn has_contract(&self, contract: Address) -> Result<bool, ChainFault> {
        if self.has_found(&[contract]) {
            return Ok(true);
        }
        let code = self.chain.code_at(contract, BlockTag::Latest).await?;
        if !code.is_empty() {
            self.found_contracts().insert(contract);
        }
        Ok(!code.is_empty())
    }

    /// Looks for the given contracts that were not found yet.
    ///
    /// If no node answers, a contract counts as not found.
    pub async fn look_for(&self, contracts: BTreeSet<Address>) {
        for contract in contracts {
            if let Err(fault) = self.has_contract(contract).await {
                tracing::debug!(%contract, %fault, "could not look for a contract");
            }
        }
    }

    fn found_contracts(&self) -> MutexGuard<'_, BTreeSet<Address>> {
        self.found_contracts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a token is trusted to run no code but its own: the network's dollar token, and the tokens of the
    /// settings.
    pub fn trusts_token(&self, token: Address) -> bool {
        token == self.table_row().stablecoin.address || self.config.tokens.contains(&token)
    }

    /// The current time in Unix seconds.
    pub fn now_seconds(&self) -> u64 {
        u64::try_from(self.clock.utc().seconds()).unwrap_or(0)
    }
}
