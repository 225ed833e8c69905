//! Explains to the operator why an amount is unknown: the network and its endpoints. Agents receive no endpoint names.
//! Of a URL only scheme, host and port are shown, because the rest may contain API keys.

use bursar_chain::ports::EndpointLabel;
use bursar_core::networks::Network;

use crate::config::Config;
use crate::funds::UnknownReason;

/// Maximum number of endpoints named in a reason: the first ones, which are tried first.
const ENDPOINTS_NAMED_MAX: usize = 3;

/// Returns the reason as one sentence.
pub(crate) fn reason(why: UnknownReason, network: &Network, config: &Config) -> String {
    let title = network.title;
    match why {
        UnknownReason::NoEndpoint => {
            let set = format!("`network rpc {} <url>`", network.chain);
            format!("No endpoint is set for {title}: {set}.")
        }
        UnknownReason::NoAnswer => {
            format!(
                "No endpoint of {title} gave a valid answer{}.",
                asked_endpoints(network, config)
            )
        }
        UnknownReason::TooSlow => {
            format!("{title} did not answer in time{}.", asked_endpoints(network, config))
        }
        UnknownReason::NotAToken => {
            format!("The token's contract on {title} gave no valid balance.")
        }
    }
}

fn asked_endpoints(network: &Network, config: &Config) -> String {
    let urls = config.rpc.get(&network.chain).map_or(&[][..], Vec::as_slice);
    let named: Vec<String> = urls
        .iter()
        .take(ENDPOINTS_NAMED_MAX)
        .map(|url| EndpointLabel::of(url).to_string())
        .collect();
    match (named.as_slice(), urls.len().saturating_sub(ENDPOINTS_NAMED_MAX)) {
        ([], _) => String::new(),
        (some, 0) => format!(" (asked {})", some.join(", ")),
        (some, more) => format!(" (asked {} and {more} more)", some.join(", ")),
    }
}
