//! A payment channel for tests, written by hand from x402's documentation of batch settlement: the signatures and the
//! calls of its payer and its receiver.

use alloy_primitives::aliases::U40;
use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::Call;
use bursar_devnet::full::CHAINS;
use serde_json::json;

use crate::full::{Log, Trader};
use crate::payer::{Payer, digest, now_s};
use crate::proxy::{permissions, permit2_domain};

sol! {
    #[derive(Debug)]
    struct ChannelConfig {
        address payer; address payerAuthorizer; address receiver; address receiverAuthorizer;
        address token; uint40 withdrawDelay; bytes32 salt;
    }
    #[derive(Debug)]
    struct Voucher { ChannelConfig channel; uint128 maxClaimableAmount; }
    #[derive(Debug)]
    struct VoucherClaim { Voucher voucher; bytes signature; uint128 totalClaimed; }

    interface IBatchSettlement {
        function deposit(
            ChannelConfig config, uint128 amount, address collector, bytes collectorData
        ) external;
        function claim(VoucherClaim[] voucherClaims) external;
        function claimWithSignature(VoucherClaim[] voucherClaims, bytes authorizerSignature)
            external;
        function settle(address receiver, address token) external;
        function initiateWithdraw(ChannelConfig config, uint128 amount) external;
        function finalizeWithdraw(ChannelConfig config) external;
        function refund(ChannelConfig config, uint128 amount) external;
        function refundWithSignature(
            ChannelConfig config, uint128 amount, uint256 nonce, bytes receiverAuthorizerSignature
        ) external;
        function multicall(bytes[] data) external returns (bytes[] results);
        function getChannelId(ChannelConfig config) external view returns (bytes32);
        function getVoucherDigest(bytes32 channelId, uint128 maxClaimableAmount)
            external view returns (bytes32);
        function getRefundDigest(bytes32 channelId, uint256 nonce, uint128 amount)
            external view returns (bytes32);
        function getClaimBatchDigest(VoucherClaim[] voucherClaims) external view returns (bytes32);
        function channels(bytes32 channelId)
            external view returns (uint128 balance, uint128 totalClaimed);
        function pendingWithdrawals(bytes32 channelId)
            external view returns (uint128 amount, uint40 initiatedAt);
        function receivers(address receiver, address token)
            external view returns (uint128 totalClaimed, uint128 totalSettled);
        function refundNonce(bytes32 channelId) external view returns (uint256);
    }
}

pub(crate) const RECEIVER: Address = Address::repeat_byte(0x41);
/// An account without a right in any channel.
pub(crate) const STRANGER: Address = Address::repeat_byte(0x42);

const CONFIG: &str = "ChannelConfig(address payer,address payerAuthorizer,address receiver,\
                      address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)";
const CLAIM_ENTRY: &str =
    "ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)";

/// A channel of the trader, who pays dollars to [`RECEIVER`].
pub(crate) struct Channel {
    pub(crate) trader: Trader,
    pub(crate) payer: Payer,
    /// The key that signs vouchers.
    pub(crate) voucher_key: Payer,
    /// The key that signs the receiver's claims and refunds.
    pub(crate) authorizer: Payer,
    pub(crate) config: ChannelConfig,
}

impl Channel {
    /// Prepares a channel without a deposit; `None` if chain tests are skipped.
    pub(crate) async fn on(chain: ChainId) -> Option<Self> {
        let [payer, voucher_key, authorizer] = [0xc1, 0xc2, 0xc3].map(Payer::new);
        let trader = Trader::with_address(chain, payer.address()).await?;
        let config = ChannelConfig {
            payer: trader.address,
            payerAuthorizer: voucher_key.address(),
            receiver: RECEIVER,
            receiverAuthorizer: authorizer.address(),
            token: trader.dollar(),
            withdrawDelay: U40::from(900),
            salt: B256::repeat_byte(1),
        };
        for account in [RECEIVER, STRANGER, voucher_key.address(), authorizer.address()] {
            trader.fund(account).await;
        }
        Some(Self { trader, payer, voucher_key, authorizer, config })
    }

    /// Prepares a channel with a deposit.
    pub(crate) async fn with_deposit(amount: u128) -> Option<Self> {
        let channel = Self::on(ChainId(8453)).await?;
        channel.trader.must(&channel.deposit_by_authorization(amount, 1)).await;
        Some(channel)
    }

    pub(crate) fn contract(&self) -> Address {
        self.trader.contracts.batch_settlement
    }

    pub(crate) fn call(&self, from: Address, call: &impl SolCall) -> Call {
        Call::new(from, self.contract(), call)
    }

    pub(crate) fn domain(&self) -> B256 {
        let kind = keccak256(
            "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
        );
        let (name, version) = (keccak256("x402 Batch Settlement"), keccak256("1"));
        let chain = U256::from(self.trader.network.chain.0);
        keccak256((kind, name, version, chain, self.contract()).abi_encode_params())
    }

    fn words_of(config: &ChannelConfig) -> [B256; 8] {
        [
            keccak256(CONFIG),
            config.payer.into_word(),
            config.payerAuthorizer.into_word(),
            config.receiver.into_word(),
            config.receiverAuthorizer.into_word(),
            config.token.into_word(),
            U256::from(config.withdrawDelay).into(),
            config.salt,
        ]
    }

    pub(crate) fn id_of(&self, config: &ChannelConfig) -> B256 {
        digest(self.domain(), &Self::words_of(config))
    }

    pub(crate) fn id(&self) -> B256 {
        self.id_of(&self.config)
    }

    fn voucher_words(&self, config: &ChannelConfig, ceiling: u128) -> [B256; 3] {
        let kind = keccak256("Voucher(bytes32 channelId,uint128 maxClaimableAmount)");
        [kind, self.id_of(config), U256::from(ceiling).into()]
    }

    /// Returns a row of a claim, signed by the channel's voucher key.
    pub(crate) fn row(&self, ceiling: u128, total: u128) -> VoucherClaim {
        self.row_of(&self.config, &self.voucher_key, ceiling, total)
    }

    pub(crate) fn row_of(
        &self,
        config: &ChannelConfig,
        key: &Payer,
        ceiling: u128,
        total: u128,
    ) -> VoucherClaim {
        let signature = key.sign_under(self.domain(), &self.voucher_words(config, ceiling)).into();
        let voucher = Voucher { channel: config.clone(), maxClaimableAmount: ceiling };
        VoucherClaim { voucher, signature, totalClaimed: total }
    }

    /// Returns the receiver's call of `claim` with one valid row.
    pub(crate) fn claim(&self, total: u128) -> Call {
        let rows = vec![self.row(total, total)];
        self.call(RECEIVER, &IBatchSettlement::claimCall { voucherClaims: rows })
    }

    pub(crate) fn batch_words(&self, rows: &[VoucherClaim]) -> [B256; 2] {
        let entries = rows.iter().flat_map(|row| {
            let (ceiling, total) = (row.voucher.maxClaimableAmount, row.totalClaimed);
            let id = self.id_of(&row.voucher.channel);
            let entry = (keccak256(CLAIM_ENTRY), id, U256::from(ceiling), U256::from(total));
            keccak256(entry.abi_encode_params()).0
        });
        let kind = format!("ClaimBatch(ClaimEntry[] claims){CLAIM_ENTRY}");
        [keccak256(kind), keccak256(entries.collect::<Vec<u8>>())]
    }

    /// Returns a stranger's call of `claimWithSignature`.
    pub(crate) fn signed_claim(&self, rows: Vec<VoucherClaim>, key: &Payer) -> Call {
        let signature = key.sign_under(self.domain(), &self.batch_words(&rows));
        let claim = IBatchSettlement::claimWithSignatureCall {
            voucherClaims: rows,
            authorizerSignature: signature.into(),
        };
        self.call(STRANGER, &claim)
    }

    pub(crate) fn refund_words(&self, amount: u128, nonce: u64) -> [B256; 4] {
        let kind = keccak256("Refund(bytes32 channelId,uint256 nonce,uint128 amount)");
        [kind, self.id(), U256::from(nonce).into(), U256::from(amount).into()]
    }

    /// Returns a stranger's call of `refundWithSignature`.
    pub(crate) fn signed_refund(&self, amount: u128, nonce: u64, key: &Payer) -> Call {
        let signature = key.sign_under(self.domain(), &self.refund_words(amount, nonce));
        let refund = IBatchSettlement::refundWithSignatureCall {
            config: self.config.clone(),
            amount,
            nonce: U256::from(nonce),
            receiverAuthorizerSignature: signature.into(),
        };
        self.call(STRANGER, &refund)
    }

    /// Returns a stranger's call that deposits through a given collector.
    pub(crate) fn deposit(&self, amount: u128, collector: Address, data: Vec<u8>) -> Call {
        let config = self.config.clone();
        let deposit =
            IBatchSettlement::depositCall { config, amount, collector, collectorData: data.into() };
        self.call(STRANGER, &deposit)
    }

    /// Returns a deposit by an authorization of the payer (EIP-3009).
    pub(crate) fn deposit_by_authorization(&self, amount: u128, salt: u64) -> Call {
        let kind = "ReceiveWithAuthorization(address from,address to,uint256 value,\
                    uint256 validAfter,uint256 validBefore,bytes32 nonce)";
        let collector = self.trader.contracts.erc3009_collector;
        let (salt, after, before) =
            (U256::from(salt), U256::ZERO, U256::from(now_s().saturating_add(60)));
        let words = [
            keccak256(kind),
            self.config.payer.into_word(),
            collector.into_word(),
            U256::from(amount).into(),
            after.into(),
            before.into(),
            keccak256((self.id(), salt).abi_encode_params()),
        ];
        let signature = self.payer.sign_struct(self.trader.network, &words);
        let data = (after, before, salt, Bytes::from(signature)).abi_encode_params();
        self.deposit(amount, collector, data)
    }

    /// Returns a deposit by Permit2, with an encoded permit of the token or without one.
    pub(crate) fn deposit_by_permit2(&self, amount: u128, nonce: u64, permit2612: Vec<u8>) -> Call {
        let collector = self.trader.contracts.permit2_collector;
        let kind = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                    uint256 nonce,uint256 deadline,DepositWitness witness)\
                    DepositWitness(bytes32 channelId)\
                    TokenPermissions(address token,uint256 amount)";
        let witness = (keccak256("DepositWitness(bytes32 channelId)"), self.id());
        let (nonce, deadline) = (U256::from(nonce), U256::from(now_s().saturating_add(60)));
        let words = [
            keccak256(kind),
            permissions(self.config.token, amount),
            collector.into_word(),
            nonce.into(),
            deadline.into(),
            keccak256(witness.abi_encode_params()),
        ];
        let signature = self.payer.sign_under(permit2_domain(&self.trader), &words);
        let data = (nonce, deadline, Bytes::from(signature), Bytes::from(permit2612));
        self.deposit(amount, collector, data.abi_encode_params())
    }

    /// Returns the channel's balance and its claimed amount.
    pub(crate) async fn state(&self) -> (u128, u128) {
        let asked = IBatchSettlement::channelsCall { channelId: self.id() };
        let state = self.trader.devnet.read(self.contract(), asked).await.unwrap();
        (state.balance, state.totalClaimed)
    }

    /// Returns the receiver's claimed and swept amounts.
    pub(crate) async fn receiver(&self) -> (u128, u128) {
        let asked =
            IBatchSettlement::receiversCall { receiver: RECEIVER, token: self.config.token };
        let state = self.trader.devnet.read(self.contract(), asked).await.unwrap();
        (state.totalClaimed, state.totalSettled)
    }

    pub(crate) async fn refund_nonce(&self) -> U256 {
        let asked = IBatchSettlement::refundNonceCall { channelId: self.id() };
        self.trader.devnet.read(self.contract(), asked).await.unwrap()
    }

    /// Returns the amount of the pending withdrawal and whether there is one.
    pub(crate) async fn pending(&self) -> (u128, bool) {
        let asked = IBatchSettlement::pendingWithdrawalsCall { channelId: self.id() };
        let state = self.trader.devnet.read(self.contract(), asked).await.unwrap();
        (state.amount, state.initiatedAt != U40::ZERO)
    }

    /// Sends a call; returns the contract's own events.
    pub(crate) async fn events(&self, call: &Call) -> Vec<Log> {
        let receipt = self.trader.must(call).await;
        let logs = self.trader.logs(&receipt).await;
        logs.into_iter().filter(|log| log.address == self.contract()).collect()
    }

    /// Sends a call; returns the first topics of the contract's own events.
    pub(crate) async fn event_topics(&self, call: &Call) -> Vec<B256> {
        self.events(call).await.iter().map(|log| log.topics[0]).collect()
    }

    pub(crate) async fn balance(&self, of: Address) -> U256 {
        self.trader.balance(self.config.token, of).await
    }

    /// Advances the chain's clock.
    pub(crate) async fn advance_clock(&self, seconds: u64) {
        self.trader.devnet.request("evm_increaseTime", json!([seconds])).await.unwrap();
        self.trader.devnet.request("evm_mine", json!([])).await.unwrap();
    }
}

#[tokio::test]
async fn the_views_return_the_documented_digests() {
    for chain in CHAINS {
        let Some(channel) = Channel::on(chain).await else { return };
        let (devnet, contract) = (&channel.trader.devnet, channel.contract());
        let id = channel.id();
        let config = channel.config.clone();
        let asked = IBatchSettlement::getChannelIdCall { config };
        assert_eq!(devnet.read(contract, asked).await.unwrap(), id);

        let domain = channel.domain();
        let asked = IBatchSettlement::getVoucherDigestCall { channelId: id, maxClaimableAmount: 7 };
        let voucher = digest(domain, &channel.voucher_words(&channel.config, 7));
        assert_eq!(devnet.read(contract, asked).await.unwrap(), voucher);

        let nonce = U256::from(3);
        let asked = IBatchSettlement::getRefundDigestCall { channelId: id, nonce, amount: 9 };
        let refund = digest(domain, &channel.refund_words(9, 3));
        assert_eq!(devnet.read(contract, asked).await.unwrap(), refund);

        for rows in [vec![], vec![channel.row(7, 5)], vec![channel.row(7, 5), channel.row(9, 8)]] {
            let batch = digest(domain, &channel.batch_words(&rows));
            let asked = IBatchSettlement::getClaimBatchDigestCall { voucherClaims: rows };
            assert_eq!(devnet.read(contract, asked).await.unwrap(), batch);
        }
    }
}

#[test]
fn the_functions_have_the_selectors_that_x402_documents() {
    let calls = [
        (IBatchSettlement::depositCall::SELECTOR, hex!("140f1e75")),
        (IBatchSettlement::claimCall::SELECTOR, hex!("29237b0c")),
        (IBatchSettlement::claimWithSignatureCall::SELECTOR, hex!("e43ce1f2")),
        (IBatchSettlement::settleCall::SELECTOR, hex!("9db32a8f")),
        (IBatchSettlement::initiateWithdrawCall::SELECTOR, hex!("cf5cf3dc")),
        (IBatchSettlement::finalizeWithdrawCall::SELECTOR, hex!("e88377b1")),
        (IBatchSettlement::refundCall::SELECTOR, hex!("dce4bfae")),
        (IBatchSettlement::refundWithSignatureCall::SELECTOR, hex!("b77433e9")),
        (IBatchSettlement::multicallCall::SELECTOR, hex!("ac9650d8")),
        (IBatchSettlement::getChannelIdCall::SELECTOR, hex!("5e5e0b87")),
        (IBatchSettlement::channelsCall::SELECTOR, hex!("7a7ebd7b")),
        (IBatchSettlement::pendingWithdrawalsCall::SELECTOR, hex!("b7f06ebe")),
        (IBatchSettlement::receiversCall::SELECTOR, hex!("21ff6389")),
        (IBatchSettlement::refundNonceCall::SELECTOR, hex!("f0dc792e")),
    ];
    for (ours, documented) in calls {
        assert_eq!(ours, documented);
    }
}
