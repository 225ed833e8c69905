//! URIs that ask another wallet to pay an address (EIP-681).

use alloy_primitives::Address;
use bursar_core::codes::Code;
use bursar_core::edition::EditionRules;
use bursar_core::fault::Fault;
use bursar_core::money::parse_decimal;
use bursar_core::networks::Network;
use bursar_core::text;

use crate::operator::support::lookup;

/// What the other wallet is asked to send.
pub(super) struct PaymentRequest {
    /// In whole coins.
    pub(super) amount: Option<String>,
    pub(super) token: Option<String>,
    pub(super) network: Option<String>,
}

impl PaymentRequest {
    /// Returns the URI of a payment to `payee`.
    ///
    /// # Errors
    /// `UNKNOWN_NETWORK`, `NOTHING_FOUND` for a token that is not in our table, or `BAD_INPUT` for an amount.
    pub(super) fn uri(&self, edition: &EditionRules, payee: Address) -> Result<String, Fault> {
        let network: &Network =
            lookup::network(edition, self.network.as_deref().unwrap_or("base"))?;
        let payee = payee.to_checksum(None);
        let (token, decimals) = match self.token.as_deref() {
            None => (Some(network.stablecoin.address), network.stablecoin.decimals),
            Some(name) => {
                let known = network.known_token(name).ok_or_else(|| unknown(name, network))?;
                (known.address, known.decimals)
            }
        };
        let atoms = self.amount.as_deref().map(|amount| {
            parse_decimal(amount, decimals)
                .map_err(|error| Fault::because(Code::BadInput, format!("--amount: {error}.")))
        });
        let atoms = atoms.transpose()?;
        let chain = network.chain;
        Ok(match (token, atoms) {
            (None, None) => format!("ethereum:{payee}@{chain}"),
            (None, Some(atoms)) => format!("ethereum:{payee}@{chain}?value={atoms}"),
            (Some(token), atoms) => {
                let token = token.to_checksum(None);
                let amount = atoms.map_or(String::new(), |atoms| format!("&uint256={atoms}"));
                format!("ethereum:{token}@{chain}/transfer?address={payee}{amount}")
            }
        })
    }
}

fn unknown(name: &str, network: &Network) -> Fault {
    let message = format!("{} is not a known token on {}.", text::snippet(name), network.title);
    Fault::because(Code::NothingFound, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYEE: Address = Address::repeat_byte(0x11);

    fn uri(amount: Option<&str>, token: Option<&str>, network: Option<&str>) -> String {
        let text = |text: &str| text.to_owned();
        let request = PaymentRequest {
            amount: amount.map(text),
            token: token.map(text),
            network: network.map(text),
        };
        request
            .uri(&EditionRules::default(), PAYEE)
            .unwrap_or_else(|fault| fault.code.text().to_owned())
    }

    #[test]
    fn the_uri_has_the_form_of_the_standard() {
        let payee = "0x1111111111111111111111111111111111111111";
        let usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
        assert_eq!(uri(None, Some("ETH"), None), format!("ethereum:{payee}@8453"));
        assert_eq!(
            uri(Some("0.5"), Some("eth"), Some("base")),
            format!("ethereum:{payee}@8453?value=500000000000000000")
        );
        assert_eq!(
            uri(Some("5"), Some("USDC"), Some("base")),
            format!("ethereum:{usdc}@8453/transfer?address={payee}&uint256=5000000")
        );
        assert_eq!(uri(None, None, None), format!("ethereum:{usdc}@8453/transfer?address={payee}"));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(uri(None, Some("SHIB"), None), "NOTHING_FOUND");
        assert_eq!(uri(Some("five"), None, None), "BAD_INPUT");
        assert_eq!(uri(Some("0.0000001"), None, None), "BAD_INPUT");
        assert_ne!(uri(None, None, Some("mars")), "");
    }
}
