//! A facilitator of one network over the chain in memory, with real files and outboxes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_consensus::transaction::RlpEcdsaEncodableTx;
use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{Address, B256, TxKind, U256, keccak256};
use alloy_sol_types::SolCall;
use bursar_chain::clock::paused::PausedClock;
use bursar_chain::failpoints::NoFailpoints;
use bursar_chain::follower::Follower;
use bursar_chain::ports::{BoxFuture, Chain, Clock};
use bursar_chain::tx_driver::SignOutcome;
use bursar_core::json::Value;
use bursar_facilitator::book::gas::GasUsage;
use bursar_facilitator::book::ledger::Ledger;
use bursar_facilitator::book::redb_store::RedbPayments;
use bursar_facilitator::book::store::PaymentStore;
use bursar_facilitator::book::{Record, RequestOrigin};
use bursar_facilitator::config::NetworkConfig;
use bursar_facilitator::contracts::Contracts;
use bursar_facilitator::job_key::JobKey;
use bursar_facilitator::metrics::Metrics;
use bursar_facilitator::network::{Accounts, NetworkContext};
use bursar_facilitator::payment::{MethodId, Terms};
use bursar_facilitator::settle::intake::{SettleError, SettleOutcome, SettlementService};
use bursar_facilitator::settle::queue::DispatchLimits;
use bursar_facilitator::settle::settler::{Settler, SettlerDeps, SignerSlot};
use bursar_facilitator::settle::success_rights::{ForeignSettlements, Repeats, SuccessRights};
use bursar_facilitator::transfer::domain::SigningDomain;
use bursar_outbox::service::{OutboxDeps, ServiceOutbox, Signer};
use bursar_outbox::store::Store;
use bursar_submit::OutboxKey;
use bursar_x402::settlement::SettlementRequest;
use bursar_x402::signature::Signature65;
use k256::ecdsa::SigningKey;
use serde_json::Value as Json;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::contracts::{CHAIN, IToken, PERMIT2, PROXY, network};
use crate::world::{GWEI, START_TIME, World};

pub(crate) const SHOP: Address = Address::repeat_byte(0x55);
/// One coin, in wei.
pub(crate) const COIN: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

fn key(n: u8) -> SigningKey {
    SigningKey::from_slice(&[n; 32]).unwrap()
}

fn address(key: &SigningKey) -> Address {
    let point = key.verifying_key().to_encoded_point(false);
    Address::from_slice(&keccak256(&point.as_bytes()[1..])[12..])
}

fn sign(key: &SigningKey, digest: B256) -> Signature65 {
    let (signature, id) = key.sign_prehash_recoverable(digest.as_slice()).unwrap();
    let bytes = signature.to_bytes();
    let (r, s) = (B256::from_slice(&bytes[..32]), B256::from_slice(&bytes[32..]));
    Signature65::new(r, s, 27 + id.to_byte()).unwrap()
}

/// A signer with the keys of all our signers.
#[derive(Debug)]
struct Keys;

impl Signer for Keys {
    fn sign(&self, outbox: OutboxKey, digest: B256) -> BoxFuture<'_, SignOutcome> {
        let key = (1..9).map(key).find(|key| address(key) == outbox.signer).unwrap();
        Box::pin(async move { SignOutcome::Signed(sign(&key, digest)) })
    }
}

pub(crate) fn signer(n: u8) -> Address {
    address(&key(n))
}

/// Returns the address of the payer with this number.
pub(crate) fn payer(n: u8) -> Address {
    address(&key(100 + n))
}

/// The settings of a stage.
#[derive(Debug, Clone)]
pub(crate) struct StageConfig {
    pub(crate) config: NetworkConfig,
    pub(crate) limits: DispatchLimits,
    pub(crate) signers: u8,
    pub(crate) wait_ms: u64,
    pub(crate) foreign_settlements: ForeignSettlements,
}

impl Default for StageConfig {
    fn default() -> Self {
        let config = NetworkConfig { confirmations: 3, ..NetworkConfig::of(network()) };
        let limits = DispatchLimits {
            batch_max: 50,
            has_multicall: false,
            window_ms: 50,
            in_flight_max: 16,
            transaction_gas_max: u64::MAX,
            data_gas: 0,
        };
        let foreign_settlements = ForeignSettlements::Duplicate;
        Self { config, limits, signers: 1, wait_ms: 4_000, foreign_settlements }
    }
}

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) config: StageConfig,
    pub(crate) clock: Arc<PausedClock>,
    pub(crate) world: Arc<World>,
    pub(crate) settlement: Arc<SettlementService>,
    pub(crate) ledger: Ledger,
    pub(crate) settler: Arc<Settler>,
    pub(crate) metrics: Arc<Metrics>,
    /// The transactions of the first signer.
    pub(crate) outbox: Arc<ServiceOutbox>,
    stopping: CancellationToken,
    outboxes: TaskTracker,
    folder: tempfile::TempDir,
    /// The task that mines a block each second.
    miner: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(miner) = &self.miner {
            miner.abort();
        }
        self.stopping.cancel();
    }
}

impl Stage {
    pub(crate) async fn with_defaults() -> Self {
        Self::with(StageConfig::default()).await
    }

    /// Sets up a stage. Each signer has one coin, and each payer a million units.
    pub(crate) async fn with(plan: StageConfig) -> Self {
        let clock = Arc::new(PausedClock::new(START_TIME));
        let world = World::new(Arc::clone(&clock));
        (1..=plan.signers).for_each(|n| world.fund(signer(n), COIN));
        (1..=9).for_each(|n| world.give(payer(n), 1_000_000));
        let folder = tempfile::tempdir().unwrap();
        Self::open(plan, clock, world, folder).await
    }

    async fn open(
        plan: StageConfig,
        clock: Arc<PausedClock>,
        world: Arc<World>,
        folder: tempfile::TempDir,
    ) -> Self {
        let file = folder.path().join("facilitator.redb");
        // The previous stage releases the file once all its tasks have ended.
        let (payments, outbox_rows) = loop {
            match RedbPayments::open_file(&file) {
                Ok(opened) => break opened,
                Err(_held) => tokio::task::yield_now().await,
            }
        };
        let payments: Arc<dyn PaymentStore> = Arc::new(payments);
        let now = clock.now().utc;
        let (ledger, open) = Ledger::load(payments, now).await.unwrap();
        let (stopping, outboxes) = (CancellationToken::new(), TaskTracker::new());
        let chain: Arc<dyn Chain> = Arc::clone(&world) as _;
        let any_clock: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let signers: Vec<Address> = (1..=plan.signers).map(signer).collect();
        let follower = Arc::new(Follower::default());
        let mut signer_slots = BTreeMap::new();
        for signer in &signers {
            let gas = plan.config.gas();
            let means = OutboxDeps {
                store: Arc::new(outbox_rows.clone()) as Arc<dyn Store>,
                chain: Arc::clone(&chain),
                signer: Arc::new(Keys),
                clock: Arc::clone(&any_clock),
                gas: bursar_core::networks::Gas { ceiling: gas.ceiling * 2, ..gas },
                window: 16,
                follower: Arc::clone(&follower),
                failpoints: Arc::new(NoFailpoints),
            };
            let key = OutboxKey { chain: CHAIN, signer: *signer };
            let outbox = ServiceOutbox::open(key, means, outboxes.clone(), stopping.clone()).await;
            let outbox = outbox.unwrap();
            outbox.ensure_running();
            signer_slots.insert(*signer, SignerSlot { outbox });
        }
        let outbox = Arc::clone(&signer_slots[&signer(1)].outbox);
        let network_context = Arc::new(NetworkContext::new(
            plan.config.clone(),
            chain,
            Arc::clone(&any_clock),
            Accounts { signers, ..Accounts::default() },
        ));
        let metrics = Arc::new(Metrics::default());
        let deps = SettlerDeps {
            network: network_context,
            ledger: ledger.clone(),
            signer_slots,
            outboxes: Arc::new(outbox_rows),
            limits: plan.limits,
            metrics: Arc::clone(&metrics),
            failpoints: Arc::new(NoFailpoints),
            stopping: stopping.clone(),
        };
        let settler = Settler::start(deps, (open.records, open.batches));
        let settlement = Arc::new(SettlementService {
            settlers: BTreeMap::from([(CHAIN, Arc::clone(&settler))]),
            ledger: ledger.clone(),
            payees: BTreeSet::new(),
            wait_ms: plan.wait_ms,
            success_rights: SuccessRights::new(Repeats::Duplicate),
            foreign_settlements: plan.foreign_settlements,
            failpoints: Arc::new(NoFailpoints),
        });
        Self {
            config: plan,
            clock,
            world,
            settlement,
            ledger,
            settler,
            metrics,
            outbox,
            stopping,
            outboxes,
            folder,
            miner: None,
        }
    }

    /// Stops, and starts again on the same files, possibly with other settings.
    pub(crate) async fn restart(mut self, change: impl FnOnce(&mut StageConfig)) -> Self {
        if let Some(miner) = self.miner.take() {
            miner.abort();
        }
        self.stopping.cancel();
        self.settler.tasks.close();
        self.settler.tasks.wait().await;
        self.outboxes.close();
        self.outboxes.wait().await;
        let mut plan = self.config.clone();
        change(&mut plan);
        let (clock, world) = (Arc::clone(&self.clock), Arc::clone(&self.world));
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        drop(self);
        Self::open(plan, clock, world, folder).await
    }

    /// Stops the facilitator and starts it again with an empty store.
    pub(crate) async fn restart_without_store(self) -> Self {
        let file = self.folder.path().join("facilitator.redb");
        self.restart(move |_plan| std::fs::remove_file(&file).unwrap()).await
    }

    /// Restricts the payees that are accepted to `payees`.
    pub(crate) fn restrict_payees(&mut self, payees: Vec<Address>) {
        let settlement = Arc::get_mut(&mut self.settlement).unwrap();
        settlement.payees = payees.into_iter().collect();
    }

    /// Makes a block each second from now on.
    pub(crate) fn keep_mining(&mut self) {
        let world = Arc::clone(&self.world);
        self.miner = Some(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                world.mine();
            }
        }));
    }

    pub(crate) fn stop_mining(&mut self) {
        if let Some(miner) = self.miner.take() {
            miner.abort();
        }
    }

    pub(crate) fn clock_ms(&self) -> u64 {
        self.clock.mono_ms()
    }

    pub(crate) async fn advance_clock(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Signs a payment from a payer to the shop, with this nonce, valid for `seconds`.
    pub(crate) fn sign_payment_valid_for(
        &self,
        payer: u8,
        amount: u64,
        nonce: u64,
        seconds: i64,
    ) -> SignedPayment {
        let before = self.clock.now().utc.seconds() + seconds;
        let terms = Terms {
            token: network().stablecoin.address,
            payer: self::payer(payer),
            payee: SHOP,
            authorized_amount: U256::from(amount),
            nonce: keccak256(nonce.to_be_bytes()),
            valid_after: U256::ZERO,
            valid_before: U256::from(before),
            facilitator: None,
        };
        SignedPayment::signed(payer, terms)
    }

    /// Signs a payment by Permit2 with an approval. The payer has coin for the approval's gas.
    pub(crate) fn sign_payment_with_approval(
        &self,
        payer: u8,
        amount: u64,
        nonce: u64,
    ) -> SignedPayment {
        let plain = self.sign_payment_valid_for(payer, amount, nonce, 300);
        self.world.fund(self::payer(payer), COIN);
        SignedPayment::with_approval(payer, plain.terms, 0)
    }

    pub(crate) fn sign_payment(&self, payer: u8, amount: u64, nonce: u64) -> SignedPayment {
        self.sign_payment_valid_for(payer, amount, nonce, 300)
    }

    pub(crate) async fn settle(&self, pay: &SignedPayment) -> Result<SettleOutcome, SettleError> {
        self.settle_by(pay, caller_origin(1)).await
    }

    pub(crate) async fn settle_by(
        &self,
        pay: &SignedPayment,
        by: RequestOrigin,
    ) -> Result<SettleOutcome, SettleError> {
        self.settlement.settle(&pay.request, &by.into()).await
    }

    /// Settles in a separate task.
    pub(crate) fn spawn_settle(
        &self,
        pay: &SignedPayment,
    ) -> tokio::task::JoinHandle<Result<SettleOutcome, SettleError>> {
        self.spawn_settle_by(pay, caller_origin(1))
    }

    /// Settles for a requester in a separate task.
    pub(crate) fn spawn_settle_by(
        &self,
        pay: &SignedPayment,
        by: RequestOrigin,
    ) -> tokio::task::JoinHandle<Result<SettleOutcome, SettleError>> {
        let (settlement, request) = (Arc::clone(&self.settlement), pay.request.clone());
        tokio::spawn(async move { settlement.settle(&request, &by.into()).await })
    }

    pub(crate) async fn record(&self, pay: &SignedPayment) -> Option<Record> {
        let known = self.ledger.find(pay.key).await.unwrap();
        known.map(|known| known.record().clone())
    }

    /// Returns the gas that counts against a caller now.
    pub(crate) fn usage(&self, caller: u8) -> GasUsage {
        self.ledger.gas_usage(CHAIN, caller_origin(caller).caller, self.clock.now().utc)
    }

    /// Returns the shop's balance, in smallest units.
    pub(crate) fn shop_balance(&self) -> u64 {
        self.world.balance_of(SHOP)
    }
}

/// Returns a caller without an idempotency key.
pub(crate) fn caller_origin(caller: u8) -> RequestOrigin {
    RequestOrigin { caller: B256::repeat_byte(caller), idempotency: None }
}

/// Returns a request of caller 1 with this idempotency key.
pub(crate) fn keyed_origin(key: u8) -> RequestOrigin {
    RequestOrigin { caller: B256::repeat_byte(1), idempotency: Some(B256::repeat_byte(key)) }
}

fn contracts() -> Contracts {
    Contracts {
        chain: CHAIN,
        multicall3: bursar_core::networks::MULTICALL3,
        permit2: Address::ZERO,
        exact_permit2_proxy: Address::ZERO,
        upto_permit2_proxy: Address::ZERO,
        prism: Address::ZERO,
        escrow: Address::repeat_byte(0x20),
        erc3009_collector: Address::repeat_byte(0x21),
        permit2_collector: Address::repeat_byte(0x22),
    }
}

/// A payer's signature of terms in a domain.
fn signature_of(
    payer: u8,
    method: MethodId,
    contracts: &Contracts,
    (separator, terms): (B256, &Terms),
) -> Signature65 {
    let method = bursar_facilitator::transfer::registry::method(method);
    let digest = bursar_facilitator::transfer::domain::digest(
        separator,
        method.struct_hash(contracts, terms),
    );
    sign(&key(100 + payer), digest)
}

fn signature_bytes(signature: &Signature65) -> Vec<u8> {
    [signature.r().as_slice(), signature.s().as_slice(), &[signature.v()]].concat()
}

fn hex(bytes: &[u8]) -> String {
    format!("0x{}", alloy_primitives::hex::encode(bytes))
}

/// A signed transaction that approves Permit2.
fn approval(key: &SigningKey, token: Address, nonce: u64) -> Vec<u8> {
    let approve = IToken::approveCall { spender: PERMIT2, amount: U256::MAX };
    let tx = TxEip1559 {
        chain_id: CHAIN.0,
        nonce,
        gas_limit: 60_000,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: TxKind::Call(token),
        value: U256::ZERO,
        access_list: Default::default(),
        input: approve.abi_encode().into(),
    };
    let signed = sign(key, tx.signature_hash());
    let (r, s) = (U256::from_be_bytes(signed.r().0), U256::from_be_bytes(signed.s().0));
    let signature = alloy_primitives::Signature::new(r, s, signed.v() == 28);
    let mut raw = vec![2];
    tx.rlp_encode_signed(&signature, &mut raw);
    raw
}

/// A signed payment.
#[derive(Debug, Clone)]
pub(crate) struct SignedPayment {
    pub(crate) terms: Terms,
    pub(crate) request: SettlementRequest,
    pub(crate) key: JobKey,
    pub(crate) signature: Signature65,
}

impl SignedPayment {
    pub(crate) fn signed(payer: u8, terms: Terms) -> Self {
        Self::signed_with(payer, terms, |signature| signature, "USD Coin")
    }

    /// Signs a payment like `signed`, then changes the signature. The request contains `name` as the token's name.
    pub(crate) fn signed_with(
        payer: u8,
        terms: Terms,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
        name: &str,
    ) -> Self {
        let extra = serde_json::json!({"name": name, "version": "2"});
        Self::signed_for(payer, terms, change, extra)
    }

    /// Signs a payment like `signed_with`, for requirements with this `extra`.
    pub(crate) fn signed_for(
        payer: u8,
        terms: Terms,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
        extra: serde_json::Value,
    ) -> Self {
        let separator = network().stablecoin.domain_separator;
        let signature = signature_of(payer, MethodId::Eip3009, &contracts(), (separator, &terms));
        let payload = serde_json::json!({
            "signature": hex(&change(signature_bytes(&signature))),
            "authorization": {
                "from": terms.payer, "to": terms.payee, "value": terms.authorized_amount.to_string(),
                "validAfter": "0", "validBefore": terms.valid_before.to_string(),
                "nonce": terms.nonce,
            },
        });
        Self::from_parts(MethodId::Eip3009, terms, signature, (payload, None, extra))
    }

    /// Signs a payment by Permit2 whose payer has not approved Permit2, with an approval that has this nonce.
    pub(crate) fn with_approval(payer: u8, terms: Terms, nonce: u64) -> Self {
        let method = bursar_facilitator::transfer::registry::method(MethodId::Permit2);
        let contracts = Contracts { permit2: PERMIT2, exact_permit2_proxy: PROXY, ..contracts() };
        let SigningDomain::Known(separator) = method.domain(&contracts) else {
            panic!("of Permit2")
        };
        let signature = signature_of(payer, MethodId::Permit2, &contracts, (separator, &terms));
        let raw = approval(&self::key(100 + payer), terms.token, nonce);
        let payload = serde_json::json!({
            "signature": hex(&signature_bytes(&signature)),
            "permit2Authorization": {
                "permitted": {"token": terms.token, "amount": terms.authorized_amount.to_string()},
                "from": terms.payer, "spender": PROXY,
                "nonce": U256::from_be_bytes(terms.nonce.0).to_string(),
                "deadline": terms.valid_before.to_string(),
                "witness": {"to": terms.payee, "validAfter": terms.valid_after.to_string()},
            },
        });
        let extensions = serde_json::json!({ "erc20ApprovalGasSponsoring": { "schema": {}, "info": {
            "from": terms.payer, "asset": terms.token, "spender": PERMIT2,
            "amount": U256::MAX.to_string(), "signedTransaction": hex(&raw), "version": "1",
        } } });
        let extra = serde_json::json!({
            "name": "USD Coin", "version": "2", "assetTransferMethod": "permit2",
        });
        Self::from_parts(MethodId::Permit2, terms, signature, (payload, Some(extensions), extra))
    }

    /// The payment as a request with this payload, these extensions and this `extra` of the requirements.
    fn from_parts(
        method: MethodId,
        terms: Terms,
        signature: Signature65,
        (payload, extensions, extra): (Json, Option<Json>, Json),
    ) -> Self {
        let mut body = serde_json::json!({
            "x402Version": 2,
            "paymentPayload": {
                "x402Version": 2,
                "accepted": {"scheme": "exact", "network": "eip155:8453"},
                "payload": payload,
            },
            "paymentRequirements": {
                "scheme": "exact", "network": "eip155:8453", "asset": terms.token,
                "payTo": terms.payee, "amount": terms.authorized_amount.to_string(), "maxTimeoutSeconds": 60,
                "extra": extra,
            },
        });
        if let Some(extensions) = extensions {
            body["paymentPayload"]["extensions"] = extensions;
        }
        let body: Value = bursar_core::json::parse(body.to_string().as_bytes(), 16).unwrap();
        let request = SettlementRequest::parse(&body).unwrap();
        let key = JobKey::of(CHAIN, method, &terms);
        Self { terms, request, key, signature }
    }

    /// Returns the call that settles the payment, for any sender.
    pub(crate) fn call(&self) -> alloy_primitives::Bytes {
        let Terms {
            payer,
            payee,
            authorized_amount: authorized,
            nonce,
            valid_after,
            valid_before,
            ..
        } = self.terms;
        IToken::transferWithAuthorizationCall {
            from: payer,
            to: payee,
            value: authorized,
            validAfter: valid_after,
            validBefore: valid_before,
            nonce,
            v: self.signature.v(),
            r: self.signature.r(),
            s: self.signature.s(),
        }
        .abi_encode()
        .into()
    }
}
