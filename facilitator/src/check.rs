//! `bursar-facilitator check`: reports whether nodes, contracts, signers and the store work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::Address;
use alloy_sol_types::SolCall;
use bursar_chain::chain_clock;
use bursar_chain::clock::SystemClock;
use bursar_chain::final_count::{PastState, past_state};
use bursar_chain::ports::{BlockTag, Chain, Clock};
use bursar_chain::rpc::BATCH_MAX;
use bursar_core::limits::CLOCK_OFF_CHAIN_WARN_MS;
use bursar_core::networks::{CREATE2_DEPLOYER, ChainId, MULTICALL3, by_chain};
use bursar_outbox::store::StoreFault;
use bursar_rows::StoreError;
use bursar_serve::findings::{Findings, Severity};
use bursar_serve::panics;

use crate::book::record::Record;
use crate::book::redb_store::RedbPayments;
use crate::book::store::PaymentStore;
use crate::config::{Config, Endpoint, NetworkConfig};
use crate::exact::prism;
use crate::keys::{KeyFault, KeyLocks, KeyRing};
use crate::network::upto_contracts;
use crate::service::{StartFault, chain_of, check_facilitators, load_keys, sender_files};
use crate::transfer::erc20::IErc20;
use crate::upto::contract::UptoContract;
use crate::work::SenderRule;

/// Checks nodes, contracts, signers and the store.
///
/// # Errors
/// [`StartFault`]: the facilitator would not start.
pub async fn check(config: &Config) -> Result<Findings, StartFault> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new()?);
    let mut check = Check::default();
    let keys = load_keys(config)?;
    if keys.is_empty() {
        return Err(StartFault::NoNetwork);
    }
    check_facilitators(config, &keys)?;
    let mut unconfigured = Vec::new();
    for network in config.networks.values() {
        let Some(ring) = keys.get(&network.chain()) else {
            unconfigured.push(network.network.title);
            continue;
        };
        let signers: Vec<Address> = ring.addresses().chain(ring.retired()).collect();
        check.check_network(network, &clock, &signers).await?;
        let text = match ring.authorizer() {
            Some(authorizer) => format!(
                "{} signs claims of payment channels for any caller, and refunds for {} API keys",
                authorizer.address(),
                config.api_keys.len()
            ),
            None => "the scheme batch-settlement is not listed, because no authorizer is set; channels of merchants \
                     that sign with their own key are settled"
                .to_owned(),
        };
        check.findings.add(Severity::Good, network.network.title, text);
    }
    let served: Vec<_> = keys.keys().filter_map(|chain| Some(by_chain(*chain)?.title)).collect();
    check.findings.add(Severity::Good, "configured", served.join(", "));
    if !unconfigured.is_empty() {
        let text = format!("{}: requests receive unsupported_network", unconfigured.join(", "));
        check.findings.add(Severity::Good, "not configured", text);
    }
    check.check_key_files(config);
    check.check_store(config, &keys).await;
    Ok(check.findings)
}

/// Returns the account or contract to which an open job is bound, if it is not in the settings.
fn unknown_facilitator(
    config: &Config,
    keys: &BTreeMap<ChainId, KeyRing>,
    record: &Record,
) -> Option<(ChainId, Address)> {
    let work = record.job.work();
    let chain = work.chain();
    let (named, is_known) = match work.sender() {
        SenderRule::Any | SenderRule::FirstSigner => return None,
        SenderRule::Only(account) => {
            (account, keys.get(&chain).is_some_and(|ring| ring.get(account).is_some()))
        }
        SenderRule::ThroughContract(contract) => {
            let known = config.networks.get(&chain).map(upto_contracts).unwrap_or_default();
            (contract, known.iter().any(|known| known.address == contract))
        }
    };
    (!is_known).then_some((chain, named))
}

/// Returns the remedy for a contract of `upto_contracts` that is not deployed.
async fn deployment_remedy(chain: &dyn Chain) -> String {
    match chain.code_at(CREATE2_DEPLOYER, BlockTag::Latest).await {
        Ok(code) if code.is_empty() => format!(
            "it cannot be deployed here, because the network has no deployment proxy at \
             {CREATE2_DEPLOYER}: remove it from upto_contracts"
        ),
        Ok(_) | Err(_) => "`bursar-facilitator upto-contract` prints how to deploy it".to_owned(),
    }
}

#[derive(Default)]
struct Check {
    findings: Findings,
}

impl Check {
    async fn check_network(
        &mut self,
        network: &NetworkConfig,
        clock: &Arc<dyn Clock>,
        signers: &[Address],
    ) -> Result<(), StartFault> {
        let title = network.network.title;
        // Each node is checked separately, because a working node would hide a broken one.
        let mut any_answers = false;
        for endpoint in &network.rpc {
            let one_node = NetworkConfig { rpc: vec![endpoint.clone()], ..network.clone() };
            let chain = chain_of(&one_node, clock)?;
            match chain.chain_id().await {
                Ok(_ours) => {
                    any_answers = true;
                    self.findings.add(
                        Severity::Good,
                        title,
                        format!("{} answers", endpoint.label()),
                    );
                    self.check_batches(title, endpoint, &chain).await;
                    if let Some(signer) = signers.first() {
                        self.check_past_state(network, endpoint, &chain, *signer).await;
                    }
                }
                Err(fault) => self.findings.add(Severity::Bad, title, fault.to_string()),
            }
        }
        if !any_answers {
            return Ok(());
        }
        let chain = chain_of(network, clock)?;
        self.check_clock(network, &chain, &**clock).await;
        self.check_contracts(network, &chain).await;
        self.check_upto_contracts(network, &chain).await;
        self.check_domain(network, &chain).await;
        for signer in signers {
            self.check_signer(network, &chain, *signer).await;
        }
        Ok(())
    }

    /// Reports a node that does not accept a batch of requests of the size that settling needs.
    async fn check_batches(&mut self, title: &'static str, endpoint: &Endpoint, chain: &dyn Chain) {
        match chain.batch_refusal(BATCH_MAX).await {
            Ok(None) => {}
            Ok(Some(said)) => {
                let text = format!(
                    "{} does not accept a batch of {BATCH_MAX} requests ({said}): smaller batches or single requests \
                     are sent, which takes longer and needs a higher rate limit",
                    endpoint.label()
                );
                self.findings.add(Severity::Warning, title, text);
            }
            Err(fault) => self.findings.add(Severity::Bad, title, fault.to_string()),
        }
    }

    /// Reports a node that lacks the state of past blocks, from which we read whether a transaction is final.
    async fn check_past_state(
        &mut self,
        network: &NetworkConfig,
        endpoint: &Endpoint,
        chain: &dyn Chain,
        signer: Address,
    ) {
        let (title, label) = (network.network.title, endpoint.label());
        let (severity, text) = match past_state(chain, signer, network.confirmations).await {
            Ok(PastState::Kept) => return,
            Ok(PastState::NewestOnly(said)) => (
                Severity::Warning,
                format!(
                    "{label} has only the state of its newest block ({said}): after a start, transactions become \
                     final later and need more requests; prefer a node that keeps the state of 128 blocks"
                ),
            ),
            Ok(PastState::Refused(said)) => (
                Severity::Bad,
                format!(
                    "{label} does not report which transactions are final ({said}): payments are settled, but their records \
                     stay open unless another node reports it; use a node that keeps the state of 128 blocks"
                ),
            ),
            Err(fault) => (Severity::Bad, fault.to_string()),
        };
        self.findings.add(severity, title, text);
    }

    /// Compares this machine's clock with the newest block. Waits for another block if the newest seems old.
    async fn check_clock(&mut self, network: &NetworkConfig, chain: &dyn Chain, clock: &dyn Clock) {
        let title = network.network.title;
        let (severity, text) = match chain_clock::clock_lead_ms(chain, clock).await {
            Err(fault) => (Severity::Bad, fault.to_string()),
            Ok(None) => {
                let text = "the clock could not be compared: the network produces no blocks now";
                (Severity::Good, text.to_owned())
            }
            Ok(Some(ms)) => {
                let side = if ms < 0 { "behind" } else { "ahead of" };
                let found = format!(
                    "this machine's clock is {} s {side} the newest block",
                    (ms / 1_000).abs()
                );
                let remedy = "set it (timedatectl set-ntp true)";
                if chain_clock::is_wrong(ms) {
                    (Severity::Bad, format!("{found}: {remedy}, because payments are judged by it"))
                } else if ms.saturating_abs() > CLOCK_OFF_CHAIN_WARN_MS {
                    (Severity::Warning, format!("{found}: {remedy}"))
                } else {
                    (Severity::Good, found)
                }
            }
        };
        self.findings.add(severity, title, text);
    }

    /// Reports whether a program uses the key files of the signers, such as a running facilitator.
    fn check_key_files(&mut self, config: &Config) {
        let files: BTreeSet<_> = sender_files(config).collect();
        for file in files {
            let (severity, text) = match KeyLocks::lock_files([file]) {
                Ok(_free) => (Severity::Good, format!("{} is used by no program", file.display())),
                Err(KeyFault::InUse { .. }) => {
                    let text = format!(
                        "{} is used by a running program: no other program can use it now",
                        file.display()
                    );
                    (Severity::Good, text)
                }
                Err(fault) => (Severity::Bad, fault.to_string()),
            };
            self.findings.add(severity, "keys", text);
        }
    }

    /// Reports the payments and transactions in flight, and whether their signers are still in the settings.
    async fn check_store(&mut self, config: &Config, keys: &BTreeMap<ChainId, KeyRing>) {
        let title = "store";
        let path = config.store.display();
        if !config.store.exists() {
            self.findings.add(
                Severity::Good,
                title,
                format!("{path} will be created at the first start"),
            );
            return;
        }
        panics::name_store(&config.store, bursar_rows::LIBRARY);
        let open = match RedbPayments::open_file(&config.store) {
            Ok((payments, _outboxes)) => payments.open().await,
            Err(fault) => Err(fault),
        };
        let open = match open {
            Ok(open) => open,
            Err(StoreFault::Failed(StoreError::Io(why))) => {
                let text = format!("{path} cannot be read ({why}); a running facilitator locks it");
                self.findings.add(Severity::Warning, title, text);
                return;
            }
            Err(fault) => {
                let unusable = StartFault::store(config, &fault);
                self.findings.add(Severity::Bad, title, unusable.to_string());
                return;
            }
        };
        let text = format!("{path} can be read, and {} payments are in flight", open.records.len());
        self.findings.add(Severity::Good, title, text);
        let own_batches = open.batches.iter().filter(|batch| batch.found_transaction.is_none());
        let removed: BTreeSet<(ChainId, Address)> = own_batches
            .map(|batch| (batch.chain, batch.signer))
            .filter(|(chain, signer)| {
                keys.get(chain).is_none_or(|ring| ring.get(*signer).is_none())
            })
            .collect();
        for (chain, signer) in removed {
            let text = format!(
                "{signer} has transactions in flight on {chain} but is not in the settings: add it, so that they are \
                 sent again or replaced"
            );
            self.findings.add(Severity::Bad, title, text);
        }
        let senderless: BTreeSet<(ChainId, Address)> = open
            .records
            .iter()
            .filter_map(|record| unknown_facilitator(config, keys, record))
            .collect();
        for (chain, named) in senderless {
            let text = format!(
                "payments on {chain} name {named} as their facilitator, which is not in the settings: \
                 add it again to signers, retired_signers or upto_contracts, or they expire"
            );
            self.findings.add(Severity::Bad, title, text);
        }
    }

    async fn check_contracts(&mut self, network: &NetworkConfig, chain: &dyn Chain) {
        let title = network.network.title;
        let wanted = [
            (
                network.network.stablecoin.address,
                "the dollar token",
                Severity::Bad,
                "no payment in it can be settled",
            ),
            (
                MULTICALL3,
                "Multicall3",
                Severity::Bad,
                "payments cannot share a transaction, and no payer's wallet can be deployed",
            ),
            (
                network.permit2,
                "Permit2",
                Severity::Warning,
                "permit2 and upto payments are refused",
            ),
            (
                network.exact_permit2_proxy,
                "the exact Permit2 proxy",
                Severity::Warning,
                "permit2 payments are refused",
            ),
            (
                network.upto_permit2_proxy,
                "the upto Permit2 proxy",
                Severity::Warning,
                "the scheme upto is not offered",
            ),
            (
                network.batch_settlement,
                "the escrow of payment channels",
                Severity::Warning,
                "the scheme batch-settlement is not offered",
            ),
            (
                network.erc3009_collector,
                "the EIP-3009 collector",
                Severity::Warning,
                "the scheme batch-settlement is not offered",
            ),
            (
                network.permit2_collector,
                "the Permit2 collector",
                Severity::Warning,
                "the scheme batch-settlement is not offered",
            ),
            (network.prism, "Prism", Severity::Warning, "prism payments are refused"),
        ];
        for (address, name, severity, consequence) in wanted {
            match chain.code_at(address, BlockTag::Latest).await {
                Ok(code) if code.is_empty() => {
                    self.findings.add(
                        severity,
                        title,
                        format!("{name} is missing at {address}: {consequence}"),
                    );
                }
                Ok(_code) => {
                    self.findings.add(Severity::Good, title, format!("{name} is at {address}"))
                }
                Err(fault) => self.findings.add(Severity::Bad, title, fault.to_string()),
            }
        }
    }

    /// Reports the contracts of `upto_contracts`. The address of such a contract proves its code and its accounts.
    async fn check_upto_contracts(&mut self, network: &NetworkConfig, chain: &dyn Chain) {
        let title = network.network.title;
        for (index, contract) in upto_contracts(network).into_iter().enumerate() {
            let UptoContract { address, senders, .. } = contract;
            match chain.code_at(address, BlockTag::Latest).await {
                Ok(code) if code.is_empty() => {
                    let consequence = if index == 0 {
                        "the scheme upto is not offered"
                    } else {
                        "payments that name it are refused"
                    };
                    let remedy = deployment_remedy(chain).await;
                    let text = format!(
                        "a contract of upto_contracts is missing at {address}: {consequence}; {remedy}"
                    );
                    self.findings.add(Severity::Warning, title, text);
                }
                Ok(_code) => {
                    let each: Vec<_> = senders.iter().map(Address::to_string).collect();
                    let text = format!(
                        "the upto contract {address} can be called by {} alone",
                        each.join(", ")
                    );
                    self.findings.add(Severity::Good, title, text);
                }
                Err(fault) => self.findings.add(Severity::Bad, title, fault.to_string()),
            }
        }
    }

    async fn check_domain(&mut self, network: &NetworkConfig, chain: &dyn Chain) {
        let (title, coin) = (network.network.title, &network.network.stablecoin);
        let data = IErc20::DOMAIN_SEPARATORCall {}.abi_encode();
        match chain.call(coin.address, data.into(), BlockTag::Latest).await {
            Ok(word) if word.as_ref() == coin.domain_separator.as_slice() => {
                self.findings.add(
                    Severity::Good,
                    title,
                    format!(
                        "{} has the expected EIP-712 domain: {} {}",
                        coin.symbol, coin.domain_name, coin.domain_version
                    ),
                );
            }
            Ok(_other) => {
                let text = format!(
                    "{} has an unexpected EIP-712 domain: the signatures of its payers are refused",
                    coin.symbol
                );
                self.findings.add(Severity::Bad, title, text);
            }
            Err(fault) => self.findings.add(Severity::Bad, title, fault.to_string()),
        }
    }

    async fn check_signer(&mut self, network: &NetworkConfig, chain: &dyn Chain, signer: Address) {
        let title = network.network.title;
        let coin = network.network.native;
        match chain.balance(signer, BlockTag::Latest).await {
            Ok(wei) => {
                let enough = wei >= network.min_signer_balance;
                let severity = if enough { Severity::Good } else { Severity::Bad };
                let amount = alloy_primitives::utils::format_ether(wei);
                let less = if enough { "" } else { ", less than min_signer_balance: fund it" };
                self.findings.add(severity, title, format!("{signer} has {amount} {coin}{less}"));
            }
            Err(fault) => self.findings.add(Severity::Bad, title, fault.to_string()),
        }
        // If the contract is missing, `contracts` has reported that already.
        let question = prism::is_facilitator_call(network.prism, signer);
        if let Ok(answer) = chain.call(question.to, question.data, BlockTag::Latest).await
            && !answer.is_empty()
            && answer.iter().all(|byte| *byte == 0)
        {
            let text =
                format!("{signer} is not a facilitator of Prism: prism payments are refused");
            self.findings.add(Severity::Warning, title, text);
        }
    }
}
