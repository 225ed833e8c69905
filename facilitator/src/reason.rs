//! Why a payment was rejected or not settled: the codes of `invalidReason` and `errorReason`.
//!
//! The names are those of the specification. Where the specification has no name, we use the name of the official
//! libraries, or else our own. A released code never changes its meaning.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

bursar_core::code_table! {
    /// A stable code for a verdict against a payment.
    pub enum Reason;

    // From the specification.
    InvalidSignature "invalid_signature" "The signature does not match the payer and these terms: sign again.";
    InsufficientBalance "insufficient_balance" "The payer's balance is too low: fund the address or pay from another.";
    TooLittle "invalid_exact_evm_payload_authorization_value" "The payment is below the required amount: sign the amount of the requirements.";
    Expired "invalid_exact_evm_payload_authorization_valid_before" "The payment has expired or expires within six seconds: sign a new one.";
    NotYetValid "invalid_exact_evm_payload_authorization_valid_after" "The payment is not valid yet: wait, or sign a valid one.";
    UnsupportedNetwork "unsupported_network" "This facilitator does not serve that network: see /supported.";
    FacilitatorMismatch "facilitator_mismatch" "The witness names neither a signer nor a contract of this facilitator: see extra.facilitatorAddress in /supported.";
    GasTooHigh "gas_too_high" "Gas costs more than this facilitator pays for this payment now: try again later.";
    // From the official libraries.
    Version "invalid_x402_version" "x402Version must be 1 or 2, and the same everywhere in the request.";
    UnsupportedScheme "unsupported_scheme" "This facilitator does not serve that scheme: see /supported.";
    SchemeMismatch "invalid_exact_evm_scheme" "The payment's scheme is not the required one.";
    NetworkMismatch "invalid_exact_evm_network_mismatch" "The payment's network is not the required one.";
    UnsupportedPayload "unsupported_payload_type" "This facilitator does not settle this type of payload.";
    Recipient "invalid_exact_evm_recipient_mismatch" "The payment goes to an address other than payTo.";
    TooMuch "invalid_exact_evm_payload_authorization_value_mismatch" "The payment is above the required amount: exact means exactly that amount.";
    MissingDomain "invalid_exact_evm_missing_eip712_domain" "The token's EIP-712 domain is unknown: send extra.name and extra.version.";
    NameMismatch "invalid_exact_evm_token_name_mismatch" "The token's EIP-712 domain does not match extra: name, version, or a verifyingContract or chainId in it.";
    NotDeployed "asset_not_deployed_contract" "There is no contract at the address of the asset.";
    NotEip3009 "invalid_exact_evm_eip3009_not_supported" "The token does not support transfers by authorization: pay by permit2.";
    NonceUsed "invalid_exact_evm_nonce_already_used" "This nonce was used or cancelled: sign a new payment only if this one did not reach the payee.";
    Simulation "invalid_exact_evm_transaction_simulation_failed" "The transfer would fail on the chain now.";
    NotMoved "invalid_exact_evm_transfer_event_mismatch" "The token does not move exactly the amount to the payee.";
    TransactionFailed "invalid_exact_evm_transaction_failed" "The transaction was mined, but the payment in it failed.";
    FactoryNotAllowed "eip6492_factory_not_allowed" "This facilitator does not deploy wallets through that factory.";
    DeploymentFailed "smart_wallet_deployment_failed" "This facilitator cannot deploy the payer's wallet for this scheme: deploy it first.";
    Undeployed "invalid_exact_evm_payload_undeployed_smart_wallet" "The payer's wallet is not deployed, and the signature has no deployment data.";
    Pending "settlement_pending" "The transaction is in flight: send the same request again to get its result.";
    UptoScheme "invalid_upto_evm_scheme" "The payment's scheme is not the required one, upto.";
    UptoNetwork "invalid_upto_evm_network_mismatch" "The payment's network is not the required one.";
    UptoExceeds "invalid_upto_evm_payload_settlement_exceeds_amount" "The amount to settle is above the authorized amount: settle at most what the payer signed.";
    UptoTransactionFailed "invalid_upto_evm_transaction_failed" "The transaction was mined, but the payment in it failed.";
    BatchScheme "invalid_batch_settlement_evm_scheme" "The payment's scheme is not the required one, batch-settlement.";
    BatchNetwork "invalid_batch_settlement_evm_network_mismatch" "The payment's network is not the required one.";
    BatchPayloadType "invalid_batch_settlement_evm_payload_type" "This endpoint does not accept a payload of this type.";
    ChannelIdInvalid "invalid_batch_settlement_evm_channel_id_invalid" "channelId must be 0x and 64 hex digits.";
    ChannelIdMismatch "invalid_batch_settlement_evm_channel_id_mismatch" "channelId is not the id of channelConfig on this network: hash the config again.";
    ChannelReceiver "invalid_batch_settlement_evm_receiver_mismatch" "The receiver of the channel is not payTo.";
    ChannelAuthorizer "invalid_batch_settlement_evm_receiver_authorizer_mismatch" "The receiverAuthorizer of the channel is not extra.receiverAuthorizer.";
    ChannelToken "invalid_batch_settlement_evm_token_mismatch" "The token of the channel is not the required asset.";
    ChannelDelay "invalid_batch_settlement_evm_withdraw_delay_mismatch" "The withdrawDelay of the channel is not the required one.";
    ChannelDelayRange "invalid_batch_settlement_evm_withdraw_delay_out_of_range" "withdrawDelay must be from 900 to 2592000 seconds.";
    ChannelNotFound "invalid_batch_settlement_evm_channel_not_found" "The channel has no balance: deposit first.";
    VoucherSignature "invalid_batch_settlement_evm_voucher_signature" "The voucher's signature does not match the channel and its amount: sign again.";
    VoucherExceedsBalance "invalid_batch_settlement_evm_cumulative_exceeds_balance" "The amount is above the channel's balance: deposit more.";
    VoucherBelowClaimed "invalid_batch_settlement_evm_cumulative_below_claimed" "The amount is not above what was already claimed from the channel.";
    DepositPayload "invalid_batch_settlement_evm_deposit_payload" "A deposit must have exactly one authorization, and this one has two.";
    DepositEip3009Missing "invalid_batch_settlement_evm_erc3009_authorization_required" "The deposit has no erc3009Authorization.";
    DepositPermit2Missing "invalid_batch_settlement_evm_permit2_authorization_required" "The deposit has no permit2Authorization.";
    DepositSpender "invalid_batch_settlement_evm_permit2_invalid_spender" "The spender must be the Permit2 collector: see /contracts.";
    DepositAmount "invalid_batch_settlement_evm_permit2_amount_mismatch" "The permit's amount is not the deposit's.";
    DepositAllowance "invalid_batch_settlement_evm_permit2_allowance_required" "The payer must approve Permit2 for this token once.";
    DepositPermitAmount "invalid_batch_settlement_evm_eip2612_amount_mismatch" "The EIP-2612 permit must be for the amount of the deposit.";
    DepositApprovalOff "invalid_batch_settlement_evm_erc20_approval_unavailable" "This facilitator does not broadcast approvals: approve Permit2 first.";
    DepositBelowMinimum "invalid_batch_settlement_evm_deposit_below_min_deposit" "The deposit is below this facilitator's min_deposit for that token.";
    DepositSimulation "invalid_batch_settlement_evm_deposit_simulation_failed" "The deposit would fail on the chain now.";
    DepositTransactionFailed "invalid_batch_settlement_evm_deposit_transaction_failed" "The transaction was mined, but the deposit in it failed.";
    ClaimPayload "invalid_batch_settlement_evm_claim_payload" "A claim must have 1 to 100 rows, each for a different channel, and all with the same receiverAuthorizer.";
    ClaimSimulation "invalid_batch_settlement_evm_claim_simulation_failed" "The claim would fail on the chain now.";
    ClaimTransactionFailed "invalid_batch_settlement_evm_claim_transaction_failed" "The transaction was mined, but the claim in it failed.";
    AuthorizerMismatch "invalid_batch_settlement_evm_authorizer_address_mismatch" "The signature of the receiver's authorizer is missing, and the channel names another authorizer than this facilitator's.";
    AuthorizerMissing "invalid_batch_settlement_evm_authorizer_not_configured" "The signature of the receiver's authorizer is missing, and this facilitator does not sign for it.";
    NothingToSettle "invalid_batch_settlement_evm_nothing_to_settle" "There is nothing to pay out: all that was claimed is paid out already.";
    SweepSimulation "invalid_batch_settlement_evm_settle_simulation_failed" "The payout would fail on the chain now.";
    RefundAmount "invalid_batch_settlement_evm_refund_amount_invalid" "The amount to refund must be above zero.";
    RefundNoBalance "invalid_batch_settlement_evm_refund_no_balance" "The channel has nothing left to refund.";
    RefundNonce "refund_nonce_mismatch" "The nonce is not the next one of the channel's refunds: see refundNonce of the channel.";
    RefundSimulation "invalid_batch_settlement_evm_refund_simulation_failed" "The refund would fail on the chain now.";
    RefundTransactionFailed "invalid_batch_settlement_evm_refund_transaction_failed" "The transaction was mined, but the refund in it failed.";
    Permit2Spender "invalid_permit2_spender" "The spender must be the scheme's Permit2 proxy: see /contracts.";
    Permit2Token "permit2_token_mismatch" "The permit's token is not the required one.";
    Permit2Amount "permit2_amount_mismatch" "The permit is above the required amount: sign exactly that amount.";
    Permit2Recipient "invalid_permit2_recipient_mismatch" "The permit's witness names another payee than payTo.";
    Permit2Allowance "permit2_allowance_required" "The payer must approve Permit2 for this token once.";
    Permit2Proxy "permit2_proxy_not_deployed" "Permit2 or the scheme's proxy is not on this network: pay by eip3009.";
    Permit2Nonce "permit2_invalid_nonce" "This permit's nonce was used: sign a new one only if this payment did not reach the payee.";
    Permit2Simulation "permit2_simulation_failed" "The permit would fail on the chain now.";
    Eip2612Format "invalid_eip2612_extension_format" "The info of eip2612GasSponsoring is incomplete or not valid.";
    Eip2612From "eip2612_from_mismatch" "The EIP-2612 permit is not from the payer.";
    Eip2612Asset "eip2612_asset_mismatch" "The EIP-2612 permit is for another token.";
    Eip2612Spender "eip2612_spender_not_permit2" "The EIP-2612 permit must name Permit2 as the spender.";
    Eip2612Deadline "eip2612_deadline_expired" "The EIP-2612 permit expires before the payment: sign it with the same deadline.";
    Permit2612Amount "permit2_2612_amount_mismatch" "The EIP-2612 permit must be for the amount of the payment.";
    ApprovalFormat "invalid_erc20_approval_extension_format" "The info of erc20ApprovalGasSponsoring is incomplete, not valid or too long.";
    ApprovalFrom "erc20_approval_from_mismatch" "The approval is not from the payer.";
    ApprovalAsset "erc20_approval_asset_mismatch" "The approval is for another token.";
    ApprovalSpender "erc20_approval_spender_not_permit2" "The approval must name Permit2 as the spender.";
    ApprovalParse "erc20_approval_tx_parse_failed" "The signed approval is not a transaction of type 0 or 2.";
    ApprovalTarget "erc20_approval_tx_wrong_target" "The signed approval is not sent to the token.";
    ApprovalSelector "erc20_approval_tx_wrong_selector" "The signed approval does not call approve.";
    ApprovalTxSpender "erc20_approval_tx_wrong_spender" "The signed approval approves another spender than Permit2.";
    ApprovalCalldata "erc20_approval_tx_invalid_calldata" "The signed approval has arguments that are not valid.";
    ApprovalSigner "erc20_approval_tx_signer_mismatch" "The signed approval is signed by another account than the payer.";
    ApprovalSignature "erc20_approval_tx_invalid_signature" "The signature of the approval is not valid on this network.";
    ApprovalFailed "erc20_approval_tx_failed" "The approval was mined without effect, or would fail: sign a new one.";
    ApprovalBroadcast "erc20_approval_broadcast_failed" "No node accepts the approval now: check its nonce, its fee and the payer's coin.";
    Duplicate "duplicate_settlement" "This payment is settled, or being settled elsewhere: do not pay again; the hash is in extra.transaction.";
    UnexpectedVerify "unexpected_verify_error" "The network's nodes or the disk do not answer: try again.";
    UnexpectedSettle "unexpected_settle_error" "Nodes or the disk do not answer, or too many payments are in flight: send the same request again. The payment may have been accepted.";
    // Our own codes.
    OutOfGas "facilitator_out_of_gas" "No signer of this facilitator can pay for gas now, so the payment was not made: try again later or elsewhere.";
    GasBudget "gas_budget_spent" "The gas budget of the day, for this caller or for all, is used up: try again tomorrow.";
    Withdrawn "settlement_withdrawn" "Neither the transaction nor the approval before it was accepted in time, so the payment was withdrawn and not made: send the request again.";
    BelowMinimum "amount_below_minimum" "The payment is below this facilitator's min_amount for that token.";
    DeadlineTooLate "upto_deadline_too_late" "The authorization is valid for more than 31 days: sign one with an earlier deadline.";
    PrismAllowance "prism_allowance_required" "The payer must approve the Prism contract for this token once.";
    PrismNonce "prism_invalid_nonce" "The nonce is not the payer's next for this token: see getNonce of the Prism contract.";
    PrismUnavailable "prism_unavailable" "The Prism contract does not accept payments from this facilitator now.";
    PayeeNotServed "pay_to_not_allowed" "This facilitator does not settle payments to that payee.";
    AssetNotServed "asset_not_allowed" "This facilitator does not settle payments in that token.";
}

/// Serialized as the wire code, so rows of the table may be reordered.
impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Another version of this program wrote an unknown code. The payment failed in any case.
        let known = Self::ALL.iter().find(|reason| reason.text() == text);
        Ok(known.copied().unwrap_or(Self::TransactionFailed))
    }
}

/// A verdict against a payment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Rejection {
    pub reason: Reason,
    /// The text is for people; no code depends on it.
    pub message: String,
    /// The payer, if the request was read that far.
    pub payer: Option<Address>,
    /// The transaction that settled the payment earlier.
    pub settled_in: Option<B256>,
}

impl Rejection {
    /// Creates a rejection with its own message.
    pub fn with_message(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), payer: None, settled_in: None }
    }

    /// Adds the payer, if it is known.
    #[must_use]
    pub fn for_payer(mut self, payer: impl Into<Option<Address>>) -> Self {
        self.payer = payer.into();
        self
    }

    /// Adds the reason of a revert, decoded from the revert data, to the message.
    #[must_use]
    pub fn with_revert(mut self, data: &Bytes) -> Self {
        let why = bursar_chain::revert::reason(data);
        self.message = format!("{} ({})", self.message, bursar_core::text::visible(&why));
        self
    }

    /// Adds the transaction that settled the payment earlier, and names it in the message.
    #[must_use]
    pub fn with_settlement(mut self, hash: B256) -> Self {
        self.message = format!("{} Its transaction is {hash}.", self.message);
        self.settled_in = Some(hash);
        self
    }
}

impl From<Reason> for Rejection {
    fn from(reason: Reason) -> Self {
        Self::with_message(reason, reason.sentence())
    }
}

/// The table of all codes for the manual, in Markdown.
pub fn reference() -> String {
    let row = |reason: &Reason| format!("| `{}` | {} |\n", reason.text(), reason.sentence());
    let rows: String = Reason::ALL.iter().map(row).collect();
    format!("| Code | What happened, and what to do |\n|---|---|\n{rows}")
}
