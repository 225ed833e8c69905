//! One of the ways in which a resource server takes its money. Says what was offered and judges nothing:
//! whether the wallet can pay it is the business of [`crate::requirements`].

use alloy_primitives::{Address, U256};
use bursar_core::json::{Object, Value};
use bursar_core::networks::{self, Network};

use crate::error::X402Error;
use crate::fields::Fields;
use crate::required::Version;

/// What an offer without `maxTimeoutSeconds` asks for; official servers' own default.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 300;

/// The name of the amount in version 1.
pub(crate) const V1_AMOUNT: &str = "maxAmountRequired";
/// The name of the amount in version 2.
pub(crate) const V2_AMOUNT: &str = "amount";

/// One element of `accepts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// `exact` where the offer does not say.
    pub scheme: String,
    /// As offered.
    pub network_text: String,
    /// The row that the text names, if any.
    pub network: Option<&'static Network>,
    /// In the smallest unit of the asset.
    pub amount: U256,
    /// As offered: on other kinds of chain it is no EVM address.
    pub asset: String,
    /// As offered, like `asset`.
    pub pay_to: String,
    pub max_timeout_seconds: u64,
    pub extra: Extra,
    /// The URL of the resource, which version 1 offers name.
    pub resource: Option<String>,
    /// The offer itself, to be sent back as it came: servers compare it whole.
    pub raw: Value,
}

/// The members of `extra` that mean something to us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extra {
    /// What the offer claims to be `name` of the token's EIP-712 domain.
    pub name: Option<String>,
    /// What it claims to be `version` there.
    pub version: Option<String>,
    /// `assetTransferMethod`: `eip3009`, `permit2` and so on.
    pub transfer_method: Option<String>,
}

impl Offer {
    /// Reads the element number `index`. An offer that we could never pay (another scheme, another kind of
    /// chain) must have the same shape, as official clients demand it too.
    pub(crate) fn parse(raw: &Value, version: Version, index: usize) -> Result<Self, X402Error> {
        let place = format!("accepts[{index}].");
        let object = raw
            .as_object()
            .ok_or_else(|| X402Error::format(format!("accepts[{index}] is not an object")))?;
        let fields = Fields::new(object, &place);
        let text = |key| fields.text(key).map(|found| found.map(str::to_owned));
        let network_text = fields.required("network", fields.digits("network")?)?;
        Ok(Self {
            scheme: text("scheme")?.unwrap_or_else(|| "exact".to_owned()),
            network_text: network_text.to_owned(),
            network: networks::by_text(network_text),
            amount: amount(&fields, version)?,
            asset: fields.required("asset", text("asset")?)?,
            pay_to: fields.required("payTo", text("payTo")?)?,
            max_timeout_seconds: fields
                .count("maxTimeoutSeconds")?
                .unwrap_or(DEFAULT_TIMEOUT_SECONDS),
            extra: Extra::parse(fields.object("extra")?, &place)?,
            resource: text("resource")?.filter(|url| !url.is_empty()),
            raw: raw.clone(),
        })
    }

    /// Paid by EIP-3009: the way of an offer that does not say how.
    pub fn is_eip3009(&self) -> bool {
        self.extra.transfer_method.as_deref().is_none_or(|method| method == "eip3009")
    }

    /// The asset as an EVM address, where it is one.
    pub fn asset_address(&self) -> Option<Address> {
        address(&self.asset)
    }

    /// The payee as an EVM address, where it is one.
    pub fn payee_address(&self) -> Option<Address> {
        address(&self.pay_to)
    }
}

impl Extra {
    pub(crate) fn parse(object: Option<&Object>, place: &str) -> Result<Self, X402Error> {
        let Some(object) = object else { return Ok(Self::default()) };
        let place = format!("{place}extra.");
        let fields = Fields::new(object, &place);
        let text = |key| fields.text(key).map(|found| found.map(str::to_owned));
        Ok(Self {
            name: text("name")?,
            version: text("version")?,
            transfer_method: text("assetTransferMethod")?,
        })
    }
}

/// Only the field of the challenge's own version counts. The other version's may stand beside it with the
/// same digits, for clients that read both; alone or with other digits it contradicts the version.
fn amount(fields: &Fields<'_>, version: Version) -> Result<U256, X402Error> {
    let (ours, theirs) = match version {
        Version::V1 => (V1_AMOUNT, V2_AMOUNT),
        Version::V2 => (V2_AMOUNT, V1_AMOUNT),
    };
    let (found, other) = (fields.digits(ours)?, fields.digits(theirs)?);
    if other.is_some() && found != other {
        return Err(fields.refuse(theirs, "contradicts x402Version"));
    }
    fields.required(ours, fields.amount(ours)?)
}

/// `0x` and 40 hex digits in any case. Checksums are not demanded: official clients do not, and servers
/// exist that write them wrong.
pub(crate) fn address(text: &str) -> Option<Address> {
    let digits = text.strip_prefix("0x")?;
    let mut bytes = [0; 20];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(Address::new(bytes))
}
