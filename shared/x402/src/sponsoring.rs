//! The extensions with which a payer without an allowance pays by Permit2: `eip2612GasSponsoring` and
//! `erc20ApprovalGasSponsoring`. This module reads them from the payer's `paymentPayload.extensions`.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::json::{Object, Value};
use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::signature;

/// The key of the extension with an EIP-2612 permit.
pub const EIP2612_KEY: &str = "eip2612GasSponsoring";
/// The key of the extension with a signed approval transaction.
pub const ERC20_APPROVAL_KEY: &str = "erc20ApprovalGasSponsoring";

/// A signed EIP-2612 permit of the payer for Permit2.
///
/// The proxies and the collector of x402 revert if `value` differs from the amount of the Permit2 authorization. They
/// ignore a permit that the token rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eip2612Permit {
    /// In the smallest unit of the token.
    pub value: U256,
    /// Unix seconds.
    pub deadline: U256,
    pub v: u8,
    pub r: B256,
    pub s: B256,
}

/// The `info` of `eip2612GasSponsoring`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eip2612Info {
    pub from: Address,
    pub asset: Address,
    pub spender: Address,
    pub permit: Eip2612Permit,
}

/// The `info` of `erc20ApprovalGasSponsoring`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalInfo {
    pub from: Address,
    pub asset: Address,
    pub spender: Address,
    /// The signed transaction that makes the approval.
    pub signed_transaction: Bytes,
}

/// An extension whose `info` does not have the required form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the `info` of the gas-sponsoring extension has an invalid member")]
pub struct InvalidInfo;

/// Reads `eip2612GasSponsoring`.
///
/// Returns `None` if a member is missing or empty. A client that does not use the extension returns the server's own
/// `info` unchanged, and that `info` lacks these members.
///
/// # Errors
/// [`InvalidInfo`].
pub fn eip2612(extensions: &Object) -> Result<Option<Eip2612Info>, InvalidInfo> {
    let members =
        ["from", "asset", "spender", "amount", "nonce", "deadline", "signature", "version"];
    let Some(info) = info(extensions, EIP2612_KEY, &members) else { return Ok(None) };
    let info = CommonInfo::new(info)?;
    let _nonce = info.number("nonce")?;
    let (v, r, s) = signature::split(&info.bytes("signature")?).ok_or(InvalidInfo)?;
    let permit = Eip2612Permit {
        value: info.number("amount")?,
        deadline: info.number("deadline")?,
        v,
        r,
        s,
    };
    let CommonInfo { from, asset, spender, .. } = info;
    Ok(Some(Eip2612Info { from, asset, spender, permit }))
}

/// Reads `erc20ApprovalGasSponsoring`.
///
/// Returns `None` if a member is missing or empty.
///
/// # Errors
/// [`InvalidInfo`].
pub fn erc20_approval(extensions: &Object) -> Result<Option<ApprovalInfo>, InvalidInfo> {
    let members = ["from", "asset", "spender", "amount", "signedTransaction", "version"];
    let Some(info) = info(extensions, ERC20_APPROVAL_KEY, &members) else { return Ok(None) };
    let info = CommonInfo::new(info)?;
    let _amount = info.number("amount")?;
    let signed_transaction = info.bytes("signedTransaction")?;
    let CommonInfo { from, asset, spender, .. } = info;
    Ok(Some(ApprovalInfo { from, asset, spender, signed_transaction }))
}

/// Returns the `info` of an extension, if each of these members is present and not empty.
fn info<'a>(extensions: &'a Object, key: &str, members: &[&str]) -> Option<&'a Object> {
    let info = extensions.get(key)?.as_object()?.get("info")?.as_object()?;
    let is_given = |member: &&str| {
        info.get(member).is_some_and(|value| *value != Value::Null && value.as_str() != Some(""))
    };
    members.iter().all(is_given).then_some(info)
}

/// The members that both extensions have.
struct CommonInfo<'a> {
    fields: Fields<'a>,
    from: Address,
    asset: Address,
    spender: Address,
}

impl<'a> CommonInfo<'a> {
    fn new(info: &'a Object) -> Result<Self, InvalidInfo> {
        let fields = Fields::new(info, "");
        let address = |key| fields.address(key).map_err(|_error| InvalidInfo);
        let (from, asset, spender) = (address("from")?, address("asset")?, address("spender")?);
        let version = fields.text("version").map_err(|_error| InvalidInfo)?.ok_or(InvalidInfo)?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !version.split('.').all(is_number) {
            return Err(InvalidInfo);
        }
        Ok(Self { fields, from, asset, spender })
    }

    fn number(&self, key: &str) -> Result<U256, InvalidInfo> {
        self.fields.amount(key).ok().flatten().ok_or(InvalidInfo)
    }

    fn bytes(&self, key: &str) -> Result<Bytes, InvalidInfo> {
        self.fields.bytes(key).map_err(|_error| InvalidInfo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::json::parse;

    const PAYER: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    const TOKEN: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";

    fn extensions(key: &str, info: &str) -> Object {
        let text = format!("{{\"{key}\":{{\"info\":{info},\"schema\":{{}}}}}}");
        parse(text.as_bytes(), 32).unwrap().as_object().unwrap().clone()
    }

    fn permit(v: &str) -> String {
        let (r, s) = ("11".repeat(32), "22".repeat(32));
        format!(
            "{{\"from\":\"{PAYER}\",\"asset\":\"{TOKEN}\",\"spender\":\"{PERMIT2}\",\"amount\":\"7\",\
             \"nonce\":\"0\",\"deadline\":\"1900000000\",\"signature\":\"0x{r}{s}{v}\",\"version\":\"1\"}}"
        )
    }

    #[test]
    fn an_eip2612_permit_is_read_with_v_as_tokens_expect_it() {
        for (v, read) in [("1b", 27), ("1c", 28), ("00", 27), ("01", 28)] {
            let info = eip2612(&extensions(EIP2612_KEY, &permit(v))).unwrap().unwrap();
            let permit = Eip2612Permit {
                value: U256::from(7),
                deadline: U256::from(1_900_000_000),
                v: read,
                r: B256::repeat_byte(0x11),
                s: B256::repeat_byte(0x22),
            };
            let address = |text: &str| text.parse().unwrap();
            let (from, asset) = (address(PAYER), address(TOKEN));
            assert_eq!(info, Eip2612Info { from, asset, spender: address(PERMIT2), permit });
        }
    }

    #[test]
    fn an_offer_that_comes_back_unused_is_no_permit() {
        let offer = "{\"description\":\"gas is paid\",\"version\":\"1\"}";
        assert_eq!(eip2612(&extensions(EIP2612_KEY, offer)), Ok(None));
        assert_eq!(erc20_approval(&extensions(ERC20_APPROVAL_KEY, offer)), Ok(None));
        assert_eq!(eip2612(&extensions("another", &permit("1b"))), Ok(None));
        let empty = permit("1b").replace("\"nonce\":\"0\"", "\"nonce\":\"\"");
        assert_eq!(eip2612(&extensions(EIP2612_KEY, &empty)), Ok(None));
    }

    #[test]
    fn a_permit_of_another_form_is_invalid() {
        for (from, to) in [
            ("\"1b\"", "\"1b\""),
            (PAYER, "0x1"),
            (TOKEN, "usdc"),
            ("\"amount\":\"7\"", "\"amount\":\"-7\""),
            ("\"amount\":\"7\"", "\"amount\":\"0x7\""),
            ("\"deadline\":\"1900000000\"", "\"deadline\":\"soon\""),
            ("\"version\":\"1\"", "\"version\":\"v1\""),
            ("\"version\":\"1\"", "\"version\":\"1.\""),
            ("1b\"", "1d\""),
            ("1b\"", "\""),
            ("\"signature\":\"0x11", "\"signature\":\"11"),
        ] {
            let text = permit("1b").replace(from, to);
            let is_changed = text != permit("1b");
            let read = eip2612(&extensions(EIP2612_KEY, &text));
            assert_eq!(read.is_err(), is_changed, "{from}: {read:?}");
        }
    }

    #[test]
    fn a_signed_approval_is_read_as_it_is() {
        let text = format!(
            "{{\"from\":\"{PAYER}\",\"asset\":\"{TOKEN}\",\"spender\":\"{PERMIT2}\",\"amount\":\"7\",\
             \"signedTransaction\":\"0x02f8ab\",\"version\":\"1\"}}"
        );
        let read = |text: &str| erc20_approval(&extensions(ERC20_APPROVAL_KEY, text));
        let info = read(&text).unwrap().unwrap();
        assert_eq!(info.signed_transaction.as_ref(), [0x02, 0xf8, 0xab]);
        for (from, to) in [("0x02f8ab", "0x02f8a"), ("0x02f8ab", "02f8ab"), (PERMIT2, "permit2")] {
            assert_eq!(read(&text.replace(from, to)), Err(InvalidInfo), "{to}");
        }
    }
}
