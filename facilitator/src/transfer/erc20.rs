//! Events and functions of ERC-20 tokens, and the transfer event of a payment.

use alloy_primitives::U256;
use alloy_sol_types::{SolEvent, sol};
use bursar_chain::ports::Log;

use crate::payment::{Payment, Terms};

sol! {
    #[derive(Debug)]
    interface IErc20 {
        event Transfer(address indexed from, address indexed to, uint256 value);
        function balanceOf(address owner) external view returns (uint256);
        function approve(address spender, uint256 amount) external returns (bool);
        function allowance(address owner, address spender) external view returns (uint256);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
    }
}

/// Whether an event is the token's transfer of exactly this payment.
pub(crate) fn is_transfer_of(payment: &Payment, log: &Log) -> bool {
    is_transfer_of_amount(&payment.terms, payment.amount, log)
}

/// Whether an event is the token's transfer of `amount` from the payer to the payee.
pub(crate) fn is_transfer_of_amount(terms: &Terms, amount: U256, log: &Log) -> bool {
    let topics =
        [IErc20::Transfer::SIGNATURE_HASH, terms.payer.into_word(), terms.payee.into_word()];
    log.address == terms.token
        && log.topics == topics
        && log.data.as_ref() == amount.to_be_bytes::<32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, Bytes, b256};

    #[test]
    fn only_the_exact_transfer_event_matches() {
        let terms = Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            authorized_amount: U256::from(5),
            nonce: B256::ZERO,
            valid_after: U256::ZERO,
            valid_before: U256::from(1),
            facilitator: None,
        };
        let log = Log {
            address: terms.token,
            topics: vec![
                b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
                terms.payer.into_word(),
                terms.payee.into_word(),
            ],
            data: U256::from(1).to_be_bytes::<32>().into(),
        };
        assert!(is_transfer_of_amount(&terms, U256::from(1), &log));
        for odd in [
            Log { address: Address::ZERO, ..log.clone() },
            Log { data: U256::from(2).to_be_bytes::<32>().into(), ..log.clone() },
            Log { data: Bytes::new(), ..log.clone() },
            Log { topics: log.topics[..2].to_vec(), ..log.clone() },
            Log { topics: [log.topics[0], log.topics[2], log.topics[1]].to_vec(), ..log.clone() },
        ] {
            assert!(!is_transfer_of_amount(&terms, U256::from(1), &odd), "{odd:?}");
        }
    }
}
