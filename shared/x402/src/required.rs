//! A payment challenge as parsed: version, resource and offers. This module chooses no offer, and has no defaults for
//! values that decide about money.

use bursar_core::json::{Object, Value};

use crate::bounds;
use crate::error::X402Error;
use crate::fields::Fields;
use crate::offer::{Offer, V1_AMOUNT, V2_AMOUNT};
pub use crate::version::Version;

/// A parsed challenge, which all later steps use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRequired {
    pub version: Version,
    /// The top-level resource as offered, to send back.
    pub resource: Option<Value>,
    /// The URL in `resource`.
    resource_url: Option<String>,
    /// The extensions as offered, to send back.
    pub extensions: Option<Value>,
    /// All offers, at least one.
    pub offers: Vec<Offer>,
}

impl PaymentRequired {
    /// Reads a decoded header, or the `x402_data` of a request.
    ///
    /// The challenge may be in the member in which MCP (version 1) and A2A hand it to an agent.
    ///
    /// # Errors
    /// `InvalidFormat`, whose text names the member.
    pub fn parse(challenge: &Value) -> Result<Self, X402Error> {
        bounds::check(challenge)?;
        let challenge = unwrapped(challenge)?;
        let object =
            challenge.as_object().ok_or_else(|| X402Error::format("it is not an object"))?;
        let fields = Fields::new(object, "");
        let accepts = accepts(&fields)?;
        let version = version(&fields, accepts)?;
        let offers = accepts.iter().enumerate();
        Ok(Self {
            version,
            resource: fields.value("resource").cloned(),
            resource_url: resource_url(&fields)?.map(str::to_owned),
            extensions: fields.object("extensions")?.cloned().map(Value::from),
            offers: offers
                .map(|(index, raw)| Offer::parse(raw, version, index))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the URL of the resource that an offer sells.
    ///
    /// Version 2 names the URL at the top level, version 1 in the offer. If the URL is missing at that place, this
    /// method returns the URL at the other place.
    pub fn resource_url<'a>(&'a self, offer: &'a Offer) -> Option<&'a str> {
        let (top, own) = (self.resource_url.as_deref(), offer.resource.as_deref());
        match self.version {
            Version::V1 => own.or(top),
            Version::V2 => top.or(own),
        }
    }

    /// Returns the distinct resource URLs of the challenge apart from the URL that `offer` sells.
    ///
    /// # Errors
    /// `InvalidFormat` if there are more than [`OTHER_URLS_MAX`].
    pub fn other_urls(&self, offer: &Offer) -> Result<Vec<String>, X402Error> {
        let mut urls: Vec<&str> = self.resource_url(offer).into_iter().collect();
        let first = urls.len();
        let named = self.offers.iter().filter_map(|offer| offer.resource.as_deref());
        for url in self.resource_url.as_deref().into_iter().chain(named) {
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        let others = urls.get(first..).unwrap_or_default();
        if others.len() > OTHER_URLS_MAX {
            return Err(X402Error::format("it names more than 7 further resource URLs"));
        }
        Ok(others.iter().map(|url| (*url).to_owned()).collect())
    }
}

/// Maximum number of resource URLs in a challenge apart from the chosen offer's URL.
///
/// The wallet checks and shows all of them.
pub const OTHER_URLS_MAX: usize = 7;

/// The members in which other transports hand a challenge to an agent: an error of an MCP tool in version 1, and the
/// metadata of an A2A message.
const WRAPPERS: [&[&str]; 2] = [&["x402/error", "data"], &["x402.payment.required"]];

/// Returns the challenge without the member around it.
fn unwrapped(challenge: &Value) -> Result<&Value, X402Error> {
    if challenge.get("accepts").is_some() {
        return Ok(challenge);
    }
    if challenge.get("structuredContent").is_some() {
        return Err(X402Error::format(
            "it is a whole tool result: send the value of structuredContent",
        ));
    }
    let path =
        WRAPPERS.iter().find(|path| path.first().is_some_and(|key| challenge.get(key).is_some()));
    let Some(path) = path else { return Ok(challenge) };
    let inner = path.iter().try_fold(challenge, |value, key| value.get(key));
    inner.ok_or_else(|| X402Error::format("x402/error has no data"))
}

fn accepts<'a>(fields: &Fields<'a>) -> Result<&'a [Value], X402Error> {
    let listed = fields.required("accepts", fields.value("accepts"))?;
    let listed = listed.as_array().ok_or_else(|| fields.error("accepts", "is not a list"))?;
    match listed.len() {
        0 => Err(fields.error("accepts", "is empty")),
        1..=bounds::OFFERS_MAX => Ok(listed),
        _more => Err(fields.error("accepts", "has more than 32 offers")),
    }
}

/// Returns the declared version. If no version is declared, the member name of the amounts implies it, provided that
/// all offers use the same name.
fn version(fields: &Fields<'_>, accepts: &[Value]) -> Result<Version, X402Error> {
    match fields.value("x402Version") {
        Some(_) => match fields.count("x402Version") {
            Ok(Some(1)) => Ok(Version::V1),
            Ok(Some(2)) => Ok(Version::V2),
            Ok(_) | Err(_) => Err(fields.error("x402Version", "must be 1 or 2")),
        },
        None => inferred_version(accepts).ok_or_else(|| {
            fields.error("x402Version", "is missing, and the offers do not imply it")
        }),
    }
}

fn inferred_version(accepts: &[Value]) -> Option<Version> {
    let has = |key| {
        let given = |offer: &Object| offer.get(key).is_some_and(|value| *value != Value::Null);
        accepts.iter().filter_map(Value::as_object).any(given)
    };
    match (has(V1_AMOUNT), has(V2_AMOUNT)) {
        (true, false) => Some(Version::V1),
        (false, true) => Some(Version::V2),
        (true, true) | (false, false) => None,
    }
}

/// Returns the URL of `resource`, which is an object with `url` or the URL itself. An empty URL counts as missing.
fn resource_url<'a>(fields: &Fields<'a>) -> Result<Option<&'a str>, X402Error> {
    let url = match fields.value("resource") {
        None => None,
        Some(Value::String(url)) => Some(url.as_str()),
        Some(Value::Object(resource)) => Fields::new(resource, "resource.").text("url")?,
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            return Err(fields.error("resource", "must be an object or a URL"));
        }
    };
    Ok(url.filter(|url| !url.is_empty()))
}

#[cfg(test)]
mod tests;
