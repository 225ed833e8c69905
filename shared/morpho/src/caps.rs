//! The ids of a Vault V2's caps: each cap limits the assets at one common risk (an adapter, a market, a collateral).
//!
//! Source: `MorphoMarketV1AdapterV2.ids` of Vault V2. A vault endorses a market if the cap of [`market_cap_id`] is
//! above zero.

use alloy_primitives::{Address, B256, keccak256};
use alloy_sol_types::SolValue;

use crate::market::MarketParams;

/// Returns the id of the cap on one market through one adapter.
pub fn market_cap_id(adapter: Address, market: &MarketParams) -> B256 {
    keccak256(("this/marketParams", adapter, market.to_abi()).abi_encode_params())
}

/// Returns the id of the cap on everything that an adapter lends.
pub fn adapter_cap_id(adapter: Address) -> B256 {
    keccak256(("this", adapter).abi_encode_params())
}

/// Returns the id of the cap on everything that is lent against one collateral token.
pub fn collateral_cap_id(token: Address) -> B256 {
    keccak256(("collateralToken", token).abi_encode_params())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;

    fn word(text: &str) -> Vec<u8> {
        let mut word = text.as_bytes().to_vec();
        word.resize(32, 0);
        word
    }

    fn number(value: u64) -> Vec<u8> {
        U256::from(value).to_be_bytes::<32>().to_vec()
    }

    /// The test writes the words by hand: the text's offset, the static words, the text's length and bytes.
    #[test]
    fn the_names_of_caps_are_the_hashes_of_abi_encoded_words() {
        let adapter = Address::repeat_byte(0xad);
        let market = MarketParams {
            loan_token: Address::repeat_byte(1),
            collateral_token: Address::repeat_byte(2),
            oracle: Address::repeat_byte(3),
            interest_model: Address::repeat_byte(4),
            lltv_e18: U256::from(915_000_000_000_000_000_u64),
        };
        let words = [
            number(7 * 32),
            adapter.into_word().to_vec(),
            market.loan_token.into_word().to_vec(),
            market.collateral_token.into_word().to_vec(),
            market.oracle.into_word().to_vec(),
            market.interest_model.into_word().to_vec(),
            market.lltv_e18.to_be_bytes::<32>().to_vec(),
            number(17),
            word("this/marketParams"),
        ];
        assert_eq!(market_cap_id(adapter, &market), keccak256(words.concat()));

        let words = [number(64), adapter.into_word().to_vec(), number(4), word("this")];
        assert_eq!(adapter_cap_id(adapter), keccak256(words.concat()));

        let words = [number(64), adapter.into_word().to_vec(), number(15), word("collateralToken")];
        assert_eq!(collateral_cap_id(adapter), keccak256(words.concat()));
    }
}
