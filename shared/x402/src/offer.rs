//! One offer of a resource server, as parsed. [`crate::requirements`] decides whether the wallet can pay it.

use alloy_primitives::{Address, U256};
use bursar_core::address::{self, AddressError};
use bursar_core::json::{Object, Value};
use bursar_core::networks::{self, ChainId, Network};

use crate::error::X402Error;
use crate::fields::Fields;
use crate::version::Version;

/// Timeout of an offer without `maxTimeoutSeconds`, in seconds: the default of official servers.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 300;

/// The name of the amount's field in version 1.
pub(crate) const V1_AMOUNT: &str = "maxAmountRequired";
/// The name of the amount's field in version 2.
pub(crate) const V2_AMOUNT: &str = "amount";

/// One element of `accepts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The scheme; `exact` if the offer names no scheme.
    pub scheme: String,
    /// The network as written in the offer.
    pub network_text: String,
    /// The row of the network table that the text names, if any.
    pub network: Option<&'static Network>,
    /// In the smallest unit of the asset.
    pub amount: U256,
    /// The asset as written in the offer.
    ///
    /// On non-EVM chains it is not an EVM address.
    pub asset: String,
    /// The payee as written in the offer; like `asset`, it may not be an EVM address.
    pub pay_to: String,
    pub max_timeout_seconds: u64,
    pub extra: Extra,
    /// The URL of the resource, which version 1 offers name.
    pub resource: Option<String>,
    /// The offer's JSON, to send back unchanged, because servers compare the whole offer.
    pub raw: Value,
}

/// The members of `extra` that this wallet reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extra {
    /// The `name` that the offer claims for the token's EIP-712 domain.
    pub name: Option<String>,
    /// The `version` that the offer claims for the token's EIP-712 domain.
    pub version: Option<String>,
    /// `assetTransferMethod`: `eip3009`, `permit2` and so on.
    pub transfer_method: Option<String>,
    /// The members that claim other parts of the domain, as offered.
    pub domain: DomainMembers,
}

/// The members of `extra` that would change the EIP-712 domain of the payment.
///
/// Their values may be of any type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainMembers {
    verifying_contract: Option<Value>,
    chain_id: Option<Value>,
    salt: Option<Value>,
}

impl DomainMembers {
    fn parse(extra: &Fields<'_>) -> Self {
        let member = |key| extra.value(key).cloned();
        Self {
            verifying_contract: member("verifyingContract"),
            chain_id: member("chainId"),
            salt: member("salt"),
        }
    }

    /// Returns whether the members allow the domain of this token on this chain.
    ///
    /// An offer can name another contract, such as a gateway that pools deposits. That contract does not accept the
    /// token's authorizations, and the token does not accept the contract's.
    pub fn is_of_token(&self, token: Address, chain: ChainId) -> bool {
        let is_token =
            |named: &Value| named.as_str().and_then(|text| address::read(text).ok()) == Some(token);
        let is_chain = |named: &Value| {
            let text = named.as_str().or_else(|| named.as_number().map(|number| number.text()));
            text.and_then(|text| text.parse().ok()) == Some(chain.0)
        };
        self.verifying_contract.as_ref().is_none_or(is_token)
            && self.chain_id.as_ref().is_none_or(is_chain)
            && self.salt.is_none()
    }
}

impl Offer {
    /// Reads element `index` of `accepts`.
    ///
    /// Offers that the wallet can never pay (another scheme, a non-EVM chain) must have the same form, because official
    /// clients require it, too.
    pub(crate) fn parse(raw: &Value, version: Version, index: usize) -> Result<Self, X402Error> {
        let path = format!("accepts[{index}].");
        let object = raw
            .as_object()
            .ok_or_else(|| X402Error::format(format!("accepts[{index}] is not an object")))?;
        let fields = Fields::new(object, &path);
        let text = |key| fields.text(key).map(|found| found.map(str::to_owned));
        let network_text = fields.required("network", fields.digits("network")?)?;
        Ok(Self {
            scheme: text("scheme")?.unwrap_or_else(|| "exact".to_owned()),
            network_text: network_text.to_owned(),
            network: networks::by_id_or_v1_name(network_text),
            amount: amount(&fields, version)?,
            asset: fields.required("asset", text("asset")?)?,
            pay_to: fields.required("payTo", text("payTo")?)?,
            max_timeout_seconds: fields
                .count("maxTimeoutSeconds")?
                .unwrap_or(DEFAULT_TIMEOUT_SECONDS),
            extra: Extra::parse(fields.object("extra")?, &path)?,
            resource: text("resource")?.filter(|url| !url.is_empty()),
            raw: raw.clone(),
        })
    }

    /// Returns whether EIP-3009 pays the offer: the offer names it, or no method.
    pub fn is_eip3009(&self) -> bool {
        self.extra.transfer_method.as_deref().is_none_or(|method| method == "eip3009")
    }

    /// Returns the asset as an EVM address.
    ///
    /// # Errors
    /// The text is not an EVM address, or its checksum is wrong.
    pub fn asset_address(&self) -> Result<Address, AddressError> {
        address::read(&self.asset)
    }

    /// Returns the payee as an EVM address.
    ///
    /// # Errors
    /// The text is not an EVM address, or its checksum is wrong.
    pub fn payee_address(&self) -> Result<Address, AddressError> {
        address::read(&self.pay_to)
    }
}

impl Extra {
    pub(crate) fn parse(object: Option<&Object>, path: &str) -> Result<Self, X402Error> {
        let Some(object) = object else { return Ok(Self::default()) };
        let path = format!("{path}extra.");
        let fields = Fields::new(object, &path);
        let text = |key| fields.text(key).map(|found| found.map(str::to_owned));
        Ok(Self {
            name: text("name")?,
            version: text("version")?,
            transfer_method: text("assetTransferMethod")?,
            domain: DomainMembers::parse(&fields),
        })
    }
}

/// Reads the amount from the field of the challenge's own version.
///
/// The other version's field may also be present, with the same digits. It is an error if it has other digits, or if
/// the own version's field is missing.
fn amount(fields: &Fields<'_>, version: Version) -> Result<U256, X402Error> {
    let (ours, theirs) = match version {
        Version::V1 => (V1_AMOUNT, V2_AMOUNT),
        Version::V2 => (V2_AMOUNT, V1_AMOUNT),
    };
    let (found, other) = (fields.digits(ours)?, fields.digits(theirs)?);
    if other.is_some() && found != other {
        return Err(fields.error(theirs, "contradicts x402Version"));
    }
    fields.required(ours, fields.amount(ours)?)
}
