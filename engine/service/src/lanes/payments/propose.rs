//! Parses an agent's payment-required text into the ask that is checked, recorded, shown and signed.

use bursar_core::codes::Code;
use bursar_core::edition::EditionRules;
use bursar_core::fault::Fault;
use bursar_core::json::Value;
use bursar_core::limits::{HEADER_BYTES_BEFORE_PADDING, URL_BYTES_MAX};
use bursar_core::money::{Atoms, Round, Usd};
use bursar_core::networks::{ChainId, Network};
use bursar_domain::PaymentAsk;
use bursar_domain::assets::{ForeignAsset, Price};
use bursar_x402::Echo;
use bursar_x402::authorization::MIN_VALIDITY_SECONDS;
use bursar_x402::error::X402Error;
use bursar_x402::header;
use bursar_x402::required::PaymentRequired;
use bursar_x402::requirements::{Choice, DomainClaim, choose, domain_claim};

use super::token_domains::TokenDomains;

/// The merchant's challenge as the agent forwards it.
#[derive(Debug, Clone)]
pub enum PaymentInput {
    /// The header's text: base64 of JSON.
    Header(String),
    /// The challenge as a JSON object (`x402_data`).
    Data(Value),
}

/// Reads the challenge into an ask.
///
/// The chain is queried, through `domains`, only if the chosen offer contradicts our table of tokens. For a token
/// outside the table, the ask contains only the offer's claims.
///
/// # Errors
/// The challenge is invalid, its chosen offer cannot be read into an ask, or a URL is too long.
pub async fn propose(
    input: &PaymentInput,
    request_url: Option<String>,
    edition: &EditionRules,
    usable: impl Fn(ChainId) -> bool,
    domains: &TokenDomains,
) -> Result<PaymentAsk, Fault> {
    let (mut ask, contradicted) = read(input, request_url, edition, usable)?;
    if let Some(network) = contradicted {
        ask.domain_contradicted = !domains.confirms(network).await;
    }
    Ok(ask)
}

/// Reads the offer without I/O. Returns the ask, and the network whose token domain the offer contradicts.
fn read(
    input: &PaymentInput,
    request_url: Option<String>,
    edition: &EditionRules,
    usable: impl Fn(ChainId) -> bool,
) -> Result<(PaymentAsk, Option<&'static Network>), Fault> {
    let mut required = match input {
        PaymentInput::Header(text) => PaymentRequired::parse(&header::decode(text).map_err(fault)?),
        PaymentInput::Data(value) => PaymentRequired::parse(value),
    }
    .map_err(fault)?;
    // An offer on a network that only other editions know is not paid.
    for offer in &mut required.offers {
        offer.network = offer.network.filter(|row| edition.knows(row.chain));
    }
    let Choice { offer, network, asset, payee, is_reference_stablecoin: reference } =
        choose(&required.offers, usable).map_err(fault)?;
    if !offer.is_eip3009() {
        return Err(Fault::because(
            Code::InvalidPaymentData,
            "This wallet pays by EIP-3009 only, and the offer asks for another \
             assetTransferMethod.",
        ));
    }
    let resource_url = required.resource_url(offer).map(str::to_owned);
    let other_urls = required.other_urls(offer).map_err(fault)?;
    for url in [&request_url, &resource_url].into_iter().flatten().chain(&other_urls) {
        if url.len() > URL_BYTES_MAX {
            return Err(Fault::because(Code::InvalidRequest, "A URL is longer than 4 KiB."));
        }
    }
    let amount = Atoms(offer.amount);
    let priced = |error| Fault::because(Code::InvalidX402Format, format!("amount: {error}."));
    let (usd, price) = if reference {
        let usd = amount.to_usd(network.stablecoin.decimals, Round::Up).map_err(priced)?;
        (usd, Price::Reference)
    } else {
        let claim =
            ForeignAsset::from_claim(offer.extra.name.as_deref(), offer.extra.version.as_deref());
        (Usd::ZERO, Price::Foreign(Box::new(claim)))
    };
    let contradicted = match domain_claim(&offer.extra, &network.stablecoin) {
        DomainClaim::Contradicts if reference => Some(network),
        DomainClaim::Agrees | DomainClaim::Contradicts => None,
    };
    let ask = PaymentAsk {
        chain: network.chain,
        asset,
        amount,
        usd,
        payee,
        valid_seconds: offer.max_timeout_seconds.max(MIN_VALIDITY_SECONDS),
        request_url,
        resource_url,
        other_urls,
        price,
        domain_contradicted: false,
        padding: padding(input),
        echo: Echo::new(&required, offer).map_err(fault)?,
    };
    Ok((ask, contradicted))
}

/// Returns by how many bytes the challenge's JSON exceeds [`HEADER_BYTES_BEFORE_PADDING`]. Most honest challenges do
/// not exceed it.
fn padding(input: &PaymentInput) -> u32 {
    let bytes = match input {
        PaymentInput::Header(text) => text.len() / 4 * 3,
        PaymentInput::Data(value) => value.to_compact().len(),
    };
    u32::try_from(bytes.saturating_sub(HEADER_BYTES_BEFORE_PADDING)).unwrap_or(u32::MAX)
}

fn fault(error: X402Error) -> Fault {
    let code = match &error {
        X402Error::InvalidHeader(_) => Code::InvalidPaymentRequired,
        X402Error::InvalidFormat(_) => Code::InvalidX402Format,
        X402Error::InvalidPayment(_) => Code::InvalidPaymentData,
        X402Error::NoExactOffer => Code::UnsupportedScheme,
        X402Error::NoKnownNetwork => Code::UnknownNetwork,
    };
    Fault::because(code, format!("{error}."))
}
