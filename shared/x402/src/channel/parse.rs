//! Reads payloads from JSON. Numbers are decimal strings or integers, as in the rest of the protocol.

use alloy_primitives::{B256, Bytes, U256};
use bursar_core::json::{Object, Value};

use super::payload::{
    CLAIM_ROWS_MAX, ChannelVoucher, ClaimRequest, ClaimRow, CompletedRefund, Deposit,
    DepositAuthorization, RefundRequest, SettleRequest, SignedVoucher,
};
use super::{
    ChannelConfig, ChannelFault, ChannelPayload, Eip3009Authorization, PayloadError,
    Permit2Authorization, WithdrawDelay,
};
use crate::error::X402Error;
use crate::fields::Fields;

/// The members that a server adds to a payer's refund. If any of them is present, all required members must be
/// present.
const COMPLETED_REFUND_MEMBERS: [&str; 4] =
    ["refundNonce", "claims", "refundAuthorizerSignature", "claimAuthorizerSignature"];

impl ChannelPayload {
    /// Reads a payload.
    ///
    /// `path` is its place in the input, such as `paymentPayload.payload.`; empty at the top.
    ///
    /// # Errors
    /// [`PayloadError`]; the texts name the member.
    pub fn parse(payload: &Object, path: &str) -> Result<Self, PayloadError> {
        let fields = Fields::new(payload, path);
        match fields.text("type")? {
            Some("deposit") => Ok(Self::Deposit(Box::new(deposit(&fields)?))),
            Some("voucher") => Ok(Self::Voucher(ChannelVoucher {
                config: fields.nested("channelConfig", config)?,
                voucher: fields.nested("voucher", voucher)?,
            })),
            Some("refund") if is_completed(&fields) => {
                Ok(Self::CompletedRefund(Box::new(completed_refund(&fields)?)))
            }
            Some("refund") => Ok(Self::Refund(RefundRequest {
                config: fields.nested("channelConfig", config)?,
                voucher: fields.nested("voucher", voucher)?,
                amount: fields.value("amount").map(|_| uint128(&fields, "amount")).transpose()?,
            })),
            Some("claim") => Ok(Self::Claim(claim(&fields)?)),
            Some("settle") => Ok(Self::Settle(SettleRequest {
                receiver: fields.address("receiver")?,
                token: fields.address("token")?,
            })),
            Some(_) | None => Err(ChannelFault::PayloadType.into()),
        }
    }
}

fn is_completed(fields: &Fields<'_>) -> bool {
    COMPLETED_REFUND_MEMBERS.iter().any(|key| fields.value(key).is_some())
}

fn deposit(fields: &Fields<'_>) -> Result<Deposit, PayloadError> {
    let (amount, authorization) = fields.nested("deposit", |deposit| {
        let authorization = deposit.nested("authorization", authorization)?;
        Ok::<_, PayloadError>((uint128(deposit, "amount")?, authorization))
    })?;
    Ok(Deposit {
        config: fields.nested("channelConfig", config)?,
        voucher: fields.nested("voucher", voucher)?,
        amount,
        authorization,
    })
}

fn authorization(fields: &Fields<'_>) -> Result<DepositAuthorization, PayloadError> {
    let [eip3009, permit2] = ["erc3009Authorization", "permit2Authorization"];
    match (fields.value(eip3009).is_some(), fields.value(permit2).is_some()) {
        (true, false) => {
            Ok(DepositAuthorization::Eip3009(fields.nested(eip3009, eip3009_authorization)?))
        }
        (false, true) => {
            Ok(DepositAuthorization::Permit2(fields.nested(permit2, permit2_authorization)?))
        }
        (true, true) => Err(ChannelFault::DepositPayload.into()),
        (false, false) => Err(ChannelFault::Erc3009AuthorizationRequired.into()),
    }
}

fn eip3009_authorization(fields: &Fields<'_>) -> Result<Eip3009Authorization, X402Error> {
    Ok(Eip3009Authorization {
        valid_after: uint256(fields, "validAfter")?,
        valid_before: uint256(fields, "validBefore")?,
        salt: number_or_hex(fields, "salt")?,
        signature: fields.bytes("signature")?,
    })
}

fn permit2_authorization(fields: &Fields<'_>) -> Result<Permit2Authorization, PayloadError> {
    let (token, amount) = fields.nested("permitted", |permitted| {
        Ok::<_, X402Error>((permitted.address("token")?, uint256(permitted, "amount")?))
    })?;
    Ok(Permit2Authorization {
        from: fields.address("from")?,
        token,
        amount,
        spender: fields.address("spender")?,
        nonce: uint256(fields, "nonce")?,
        deadline: uint256(fields, "deadline")?,
        channel_id: fields.nested("witness", channel_id)?,
        signature: fields.bytes("signature")?,
    })
}

fn completed_refund(fields: &Fields<'_>) -> Result<CompletedRefund, PayloadError> {
    Ok(CompletedRefund {
        claims: claims(fields)?,
        config: fields.nested("channelConfig", config)?,
        voucher: fields.nested("voucher", voucher)?,
        amount: uint128(fields, "amount")?,
        nonce: uint256(fields, "refundNonce")?,
        refund_signature: optional_bytes(fields, "refundAuthorizerSignature")?,
        claim_signature: optional_bytes(fields, "claimAuthorizerSignature")?,
    })
}

fn claim(fields: &Fields<'_>) -> Result<ClaimRequest, PayloadError> {
    let claims = claims(fields)?;
    if claims.is_empty() {
        // The escrow reverts on an empty batch.
        return Err(fields.error("claims", "is empty").into());
    }
    Ok(ClaimRequest {
        claims,
        claim_signature: optional_bytes(fields, "claimAuthorizerSignature")?,
    })
}

/// Reads the claims. It checks their number first, so that a long list is refused without reading any claim.
fn claims(fields: &Fields<'_>) -> Result<Vec<ClaimRow>, PayloadError> {
    let rows = fields.required("claims", fields.array("claims")?)?;
    if rows.len() > CLAIM_ROWS_MAX {
        return Err(PayloadError::TooManyClaims(rows.len()));
    }
    let read = |(index, row): (usize, &Value)| {
        let key = format!("claims[{index}]");
        let object = row.as_object().ok_or_else(|| fields.error(&key, "is not an object"))?;
        fields.within(&key, object, claim_row)
    };
    rows.iter().enumerate().map(read).collect::<Result<_, X402Error>>().map_err(Into::into)
}

fn claim_row(fields: &Fields<'_>) -> Result<ClaimRow, X402Error> {
    let (channel, max_claimable) = fields.nested("voucher", |voucher| {
        let channel = voucher.nested("channel", config)?;
        Ok::<_, X402Error>((channel, uint128(voucher, "maxClaimableAmount")?))
    })?;
    Ok(ClaimRow {
        channel,
        max_claimable,
        signature: fields.bytes("signature")?,
        total_claimed: uint128(fields, "totalClaimed")?,
    })
}

fn config(fields: &Fields<'_>) -> Result<ChannelConfig, X402Error> {
    Ok(ChannelConfig {
        payer: fields.address("payer")?,
        payer_authorizer: fields.address("payerAuthorizer")?,
        receiver: fields.address("receiver")?,
        receiver_authorizer: fields.address("receiverAuthorizer")?,
        token: fields.address("token")?,
        withdraw_delay: withdraw_delay(fields, "withdrawDelay")?,
        salt: word(fields, "salt")?,
    })
}

fn voucher(fields: &Fields<'_>) -> Result<SignedVoucher, PayloadError> {
    Ok(SignedVoucher {
        channel_id: channel_id(fields)?,
        max_claimable: uint128(fields, "maxClaimableAmount")?,
        signature: fields.bytes("signature")?,
    })
}

/// Reads `channelId`, in hex digits of any case.
fn channel_id(fields: &Fields<'_>) -> Result<B256, PayloadError> {
    fields.required("channelId", fields.text("channelId")?)?;
    fields.word("channelId")?.ok_or_else(|| ChannelFault::ChannelIdInvalid.into())
}

fn word(fields: &Fields<'_>, key: &str) -> Result<B256, X402Error> {
    fields.required(key, fields.text(key)?)?;
    fields.word(key)?.ok_or_else(|| fields.error(key, "is not 0x and 64 hex digits"))
}

fn uint256(fields: &Fields<'_>, key: &str) -> Result<U256, X402Error> {
    fields.required(key, fields.amount(key)?)
}

fn uint128(fields: &Fields<'_>, key: &str) -> Result<u128, X402Error> {
    let number = uint256(fields, key)?;
    u128::try_from(number).map_err(|_too_large| fields.error(key, "is not below 2^128"))
}

fn withdraw_delay(fields: &Fields<'_>, key: &str) -> Result<WithdrawDelay, X402Error> {
    let seconds = u64::try_from(uint256(fields, key)?).ok();
    let delay = seconds.and_then(|seconds| WithdrawDelay::try_from(seconds).ok());
    delay.ok_or_else(|| fields.error(key, "is not below 2^40"))
}

/// Reads a number in hex digits with `0x`, as official clients write a deposit's salt, or in decimal digits.
fn number_or_hex(fields: &Fields<'_>, key: &str) -> Result<U256, X402Error> {
    let text = fields.required(key, fields.digits(key)?)?;
    let Some(digits) = text.strip_prefix("0x") else { return uint256(fields, key) };
    let is_word =
        (1..=64).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_word.then(|| U256::from_str_radix(digits, 16).ok()).flatten();
    number.ok_or_else(|| fields.error(key, "is not 0x and at most 64 hex digits"))
}

fn optional_bytes(fields: &Fields<'_>, key: &str) -> Result<Option<Bytes>, X402Error> {
    fields.value(key).map(|_present| fields.bytes(key)).transpose()
}
