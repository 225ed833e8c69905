//! Why an amount is not known, for the operator: which network was asked, and whom. Agents get no endpoint's
//! name, and nobody gets more of a URL than scheme, host and port, for the rest may hold keys.

use bursar_chain::ports::EndpointLabel;
use bursar_core::networks::Network;

use crate::config::Config;
use crate::funds::Unknown;

/// Endpoints that are named: the first are asked first.
const NAMED: usize = 3;

/// The reason in one sentence.
pub(crate) fn reason(why: Unknown, network: &Network, config: &Config) -> String {
    let title = network.title;
    match why {
        Unknown::NoEndpoint => {
            let set = format!("`network rpc {} <url>`", network.chain);
            format!("No endpoint is set for {title}: {set}.")
        }
        Unknown::NoAnswer => {
            format!("No endpoint of {title} gave a valid answer{}.", asked(network, config))
        }
        Unknown::TooSlow => format!("{title} did not answer in time{}.", asked(network, config)),
        Unknown::NotAToken => format!("The token's contract on {title} gave no valid balance."),
    }
}

fn asked(network: &Network, config: &Config) -> String {
    let urls = config.rpc.get(&network.chain).map_or(&[][..], Vec::as_slice);
    let named: Vec<String> =
        urls.iter().take(NAMED).map(|url| EndpointLabel::of(url).to_string()).collect();
    match (named.as_slice(), urls.len().saturating_sub(NAMED)) {
        ([], _) => String::new(),
        (some, 0) => format!(" (asked {})", some.join(", ")),
        (some, more) => format!(" (asked {} and {more} more)", some.join(", ")),
    }
}
