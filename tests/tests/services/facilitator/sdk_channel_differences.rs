//! The fields in which our answers about payment channels differ from those of npm's `@x402/evm`.

use crate::facilitator::reference_differences::{
    ABSENT, Difference, EVERY_CASE, HASH, LOWER_CASE, MIXED_CASE, REASON_ADDRESS_SPELLING,
    REASON_NEXT_STEP, REASON_REPEAT_FINDS, REASON_SETTLED_ONCE, REASON_SPECIFIED_NAME, TEXT,
    differs,
};

const REASON_PAYER_NAMED: &str = "The request names the payer. The field is optional.";
const REASON_PRECISE_CODE: &str =
    "The code names what is wrong, where theirs names a failed check or another one.";
const REASON_ROWS_FIRST: &str =
    "We check each row before a simulation: the escrow skips rows without checking them.";
const REASON_CLAIM_SENT_ONCE: &str =
    "A claim is sent once. A repeat without an idempotency key names it.";
const REASON_NOTHING_RECORDED: &str =
    "The escrow would record nothing, so there is no reason to pay gas.";
const REASON_AUTHORIZER_REQUIRED: &str =
    "Only a facilitator with an authorizer lists the scheme, so ours has one.";
const REASON_UNBOUND_VOUCHER: &str =
    "They settle a refund whose voucher belongs to another channel.";

/// Every field in which an answer of ours differs, and the reason.
pub(crate) const DIFFERENCES: [Difference; 51] = [
    differs(EVERY_CASE, "payer", MIXED_CASE, LOWER_CASE, REASON_ADDRESS_SPELLING),
    differs(EVERY_CASE, "payer", ABSENT, LOWER_CASE, REASON_PAYER_NAMED),
    differs(EVERY_CASE, "invalidMessage", ABSENT, TEXT, REASON_NEXT_STEP),
    differs(EVERY_CASE, "errorMessage", ABSENT, TEXT, REASON_NEXT_STEP),
    differs(
        "verify a deposit, of nothing",
        "invalidReason",
        "invalid_batch_settlement_evm_cumulative_exceeds_balance",
        "invalid_batch_settlement_evm_deposit_below_min_deposit",
        REASON_PRECISE_CODE,
    ),
    differs(
        "verify a deposit, forged authorization",
        "invalidReason",
        "invalid_batch_settlement_evm_receive_authorization_signature",
        "invalid_signature",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify a deposit, forged permit",
        "invalidReason",
        "invalid_batch_settlement_evm_permit2_invalid_signature",
        "invalid_signature",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify a deposit, expired",
        "invalidReason",
        "invalid_batch_settlement_evm_payload_authorization_valid_before",
        "invalid_exact_evm_payload_authorization_valid_before",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify a deposit, not yet valid",
        "invalidReason",
        "invalid_batch_settlement_evm_payload_authorization_valid_after",
        "invalid_exact_evm_payload_authorization_valid_after",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify a deposit, expired permit",
        "invalidReason",
        "invalid_batch_settlement_evm_permit2_deadline_expired",
        "invalid_exact_evm_payload_authorization_valid_before",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify a deposit, no money",
        "invalidReason",
        "invalid_batch_settlement_evm_insufficient_balance",
        "insufficient_balance",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "verify a deposit, Permit2 is required",
        "invalidReason",
        "invalid_batch_settlement_evm_payload_type",
        "invalid_batch_settlement_evm_permit2_authorization_required",
        REASON_PRECISE_CODE,
    ),
    differs(
        "settle a deposit, forged authorization",
        "errorReason",
        "invalid_batch_settlement_evm_receive_authorization_signature",
        "invalid_signature",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle a deposit, forged permit",
        "errorReason",
        "invalid_batch_settlement_evm_permit2_invalid_signature",
        "invalid_signature",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle a deposit, expired",
        "errorReason",
        "invalid_batch_settlement_evm_payload_authorization_valid_before",
        "invalid_exact_evm_payload_authorization_valid_before",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle a deposit, expired permit",
        "errorReason",
        "invalid_batch_settlement_evm_permit2_deadline_expired",
        "invalid_exact_evm_payload_authorization_valid_before",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle a deposit, no money",
        "errorReason",
        "invalid_batch_settlement_evm_insufficient_balance",
        "insufficient_balance",
        REASON_SPECIFIED_NAME,
    ),
    differs(
        "settle a deposit again",
        "errorReason",
        "invalid_batch_settlement_evm_deposit_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs("settle a deposit again", "extra.transaction", ABSENT, HASH, REASON_REPEAT_FINDS),
    differs(
        "verify a settled deposit",
        "invalidReason",
        "invalid_batch_settlement_evm_deposit_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs("verify a settled deposit", "extra.transaction", ABSENT, HASH, REASON_REPEAT_FINDS),
    differs(
        "settle a claim with a forged voucher",
        "errorReason",
        "invalid_batch_settlement_evm_claim_simulation_failed",
        "invalid_batch_settlement_evm_voucher_signature",
        REASON_ROWS_FIRST,
    ),
    differs(
        "settle a claim above the balance",
        "errorReason",
        "invalid_batch_settlement_evm_claim_simulation_failed",
        "invalid_batch_settlement_evm_cumulative_exceeds_balance",
        REASON_ROWS_FIRST,
    ),
    differs(
        "settle a claim of an unknown channel",
        "errorReason",
        "invalid_batch_settlement_evm_claim_simulation_failed",
        "invalid_batch_settlement_evm_cumulative_exceeds_balance",
        REASON_ROWS_FIRST,
    ),
    differs(
        "settle a claim again",
        "errorReason",
        ABSENT,
        "duplicate_settlement",
        REASON_CLAIM_SENT_ONCE,
    ),
    differs("settle a claim again", "extra.transaction", ABSENT, HASH, REASON_REPEAT_FINDS),
    differs("settle a claim again", "success", "true", "false", REASON_CLAIM_SENT_ONCE),
    differs("settle a claim again", "transaction", HASH, "", REASON_CLAIM_SENT_ONCE),
    differs("settle a claim that adds nothing", "transaction", HASH, "", REASON_NOTHING_RECORDED),
    differs("settle a claim of less", "transaction", HASH, "", REASON_NOTHING_RECORDED),
    differs(
        "settle a payout again",
        "errorReason",
        "invalid_batch_settlement_evm_nothing_to_settle",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs("settle a payout again", "extra.transaction", ABSENT, HASH, REASON_REPEAT_FINDS),
    differs(
        "settle a refund of nothing",
        "errorReason",
        "invalid_batch_settlement_evm_refund_simulation_failed",
        "invalid_batch_settlement_evm_refund_amount_invalid",
        REASON_PRECISE_CODE,
    ),
    differs(
        "settle a refund of an unknown channel",
        "errorReason",
        "invalid_batch_settlement_evm_refund_no_balance",
        "invalid_batch_settlement_evm_channel_not_found",
        REASON_PRECISE_CODE,
    ),
    differs(
        "settle a refund with a later nonce",
        "errorReason",
        "invalid_batch_settlement_evm_refund_simulation_failed",
        "refund_nonce_mismatch",
        REASON_PRECISE_CODE,
    ),
    differs(
        "settle a refund of a part again",
        "errorReason",
        "invalid_batch_settlement_evm_refund_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs(
        "settle a refund of a part again",
        "extra.transaction",
        ABSENT,
        HASH,
        REASON_REPEAT_FINDS,
    ),
    differs(
        "settle a refund with an old nonce",
        "errorReason",
        "invalid_batch_settlement_evm_refund_simulation_failed",
        "duplicate_settlement",
        REASON_SETTLED_ONCE,
    ),
    differs(
        "settle a refund of another channel id",
        "amount",
        "1000",
        ABSENT,
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "errorReason",
        ABSENT,
        "invalid_batch_settlement_evm_channel_id_mismatch",
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "extra.channelState.balance",
        "999000",
        ABSENT,
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "extra.channelState.channelId",
        HASH,
        ABSENT,
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "extra.channelState.refundNonce",
        "1",
        ABSENT,
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "extra.channelState.totalClaimed",
        "0",
        ABSENT,
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "extra.channelState.withdrawRequestedAt",
        "0",
        ABSENT,
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "success",
        "true",
        "false",
        REASON_UNBOUND_VOUCHER,
    ),
    differs(
        "settle a refund of another channel id",
        "transaction",
        HASH,
        "",
        REASON_UNBOUND_VOUCHER,
    ),
    differs("supported", "signers", MIXED_CASE, LOWER_CASE, REASON_ADDRESS_SPELLING),
    differs(
        "supported",
        "kinds.extra.receiverAuthorizer",
        ABSENT,
        LOWER_CASE,
        REASON_AUTHORIZER_REQUIRED,
    ),
    differs(
        "settle a claim without consent",
        "errorReason",
        "invalid_batch_settlement_evm_authorizer_not_configured",
        "invalid_batch_settlement_evm_authorizer_address_mismatch",
        REASON_AUTHORIZER_REQUIRED,
    ),
    differs(
        "settle a refund without consent",
        "errorReason",
        "invalid_batch_settlement_evm_authorizer_not_configured",
        "invalid_batch_settlement_evm_authorizer_address_mismatch",
        REASON_AUTHORIZER_REQUIRED,
    ),
];
