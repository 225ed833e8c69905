//! Computes prices with integers. The result is rounded up once, at the end.

use alloy_primitives::U256;

/// Decimal places of a price.
pub const PRICE_DECIMALS: u8 = 18;
/// Number of tokens that a price is for.
const TOKENS_PER_PRICE: u64 = 1_000;

/// Dollars per thousand tokens, in units of 10^-18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u128);

/// The prices of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// The rate for the prompt.
    pub input: Rate,
    /// The rate for the answer.
    pub output: Rate,
}

/// Token counts of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleTokens {
    pub prompt: u64,
    /// The maximum number of tokens of all choices together, with their predictions.
    pub completion: u64,
}

impl Rates {
    /// Uses one price for prompt and answer.
    pub fn flat(rate: Rate) -> Self {
        Self { input: rate, output: rate }
    }

    /// Returns the amount in the smallest unit of a dollar token with `decimals`.
    ///
    /// The amount is rounded up, and at least one unit. `None` means that it exceeds 256 bits.
    pub fn amount(&self, tokens: SaleTokens, decimals: u8) -> Option<U256> {
        let part = |rate: Rate, count: u64| U256::from(rate.0).checked_mul(U256::from(count));
        let sum =
            part(self.input, tokens.prompt)?.checked_add(part(self.output, tokens.completion)?)?;
        let scaled = sum.checked_mul(power_of_ten(decimals)?)?;
        let unit = power_of_ten(PRICE_DECIMALS)?.checked_mul(U256::from(TOKENS_PER_PRICE))?;
        Some(scaled.div_ceil(unit).max(U256::ONE))
    }
}

fn power_of_ten(exponent: u8) -> Option<U256> {
    U256::from(10).checked_pow(U256::from(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> Rate {
        let units = bursar_core::money::parse_decimal(text, PRICE_DECIMALS).unwrap();
        Rate(units.to::<u128>())
    }

    fn flat(text: &str, prompt: u64, completion: u64) -> u64 {
        let amount = Rates::flat(rate(text)).amount(SaleTokens { prompt, completion }, 6);
        amount.unwrap().to::<u64>()
    }

    #[test]
    fn prices_are_rounded_up_once_and_at_least_one_unit() {
        // The default of 0.001 dollars per thousand tokens is one unit of USDC per token.
        assert_eq!(flat("0.001", 20, 1_024), 1_044);
        assert_eq!(flat("0.001", 0, 0), 1);
        assert_eq!(flat("0", 1_000, 1_000), 1);
        // At 0.1 unit per token, 10 tokens cost one unit and 11 cost two.
        assert_eq!(flat("0.0001", 4, 6), 1);
        assert_eq!(flat("0.0001", 5, 6), 2);
        // Two halves of a unit cost one, not two: only the sum is rounded.
        assert_eq!(flat("0.0005", 1, 1), 1);
        let apart = Rates { input: rate("0.00015"), output: rate("0.0006") };
        let tokens = SaleTokens { prompt: 1_000, completion: 1_000 };
        assert_eq!(apart.amount(tokens, 6), Some(U256::from(750)));
        assert_eq!(apart.amount(tokens, 18), Some(U256::from(750_000_000_000_000u64)));
    }

    #[test]
    fn an_amount_over_256_bits_is_none() {
        let rates = Rates::flat(Rate(u128::MAX));
        let tokens = SaleTokens { prompt: u64::MAX, completion: u64::MAX };
        assert!(rates.amount(tokens, 6).is_some());
        assert_eq!(rates.amount(tokens, 77), None);
        assert_eq!(rates.amount(tokens, 78), None);
    }

    proptest! {
        /// The amount is the exact price rounded up, and never decreases with more tokens.
        #[test]
        fn an_amount_is_the_exact_price_rounded_up_and_monotonic(
            input in 0u128..10u128.pow(21), output in 0u128..10u128.pow(21),
            prompt in 0u64..1_000_000, completion in 0u64..1_000_000, decimals in 0u8..19,
        ) {
            let rates = Rates { input: Rate(input), output: Rate(output) };
            let at = |prompt, completion| rates.amount(SaleTokens { prompt, completion }, decimals).unwrap();
            let amount = at(prompt, completion);
            let exact = U256::from(input) * U256::from(prompt) + U256::from(output) * U256::from(completion);
            let exact = exact * U256::from(10).pow(U256::from(decimals));
            let unit = U256::from(10).pow(U256::from(21));
            prop_assert!(amount * unit >= exact && amount >= U256::ONE);
            prop_assert!(amount == U256::ONE || (amount - U256::ONE) * unit < exact);
            prop_assert!(at(prompt + 1, completion) >= amount && at(prompt, completion + 1) >= amount);
        }
    }
}
