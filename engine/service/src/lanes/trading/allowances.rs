//! Reads the allowances that an address has given to the contracts of an exchange.

use alloy_primitives::{Address, U256};
use bursar_chain::{multicall, token};
use bursar_core::networks::Network;
use bursar_domain::Refusal;
use bursar_uniswap::read;

use super::lane::Trading;
use super::reads::Batch;
use crate::lanes::allowances::{Allowance, Allowances};

/// Number of tokens in one batch of reads.
const TOKENS_PER_READ: usize = 50;

impl Trading {
    /// Reads the allowances of `tokens` for the routers of the exchange.
    ///
    /// These are the allowances for SwapRouter02 and Permit2, and those within Permit2 for the Universal Router. An
    /// expired allowance within Permit2 counts as zero.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn allowances(
        &self,
        network: &Network,
        owner: Address,
        tokens: &[Address],
    ) -> Result<Allowances, Refusal> {
        let chain = self.chain(network)?;
        let mut all = Allowances::default();
        let Some(exchange) = network.exchange else { return Ok(all) };
        for tokens in tokens.chunks(TOKENS_PER_READ) {
            let mut batch = Batch::default();
            let time = batch.push(multicall::block_time());
            let spenders = [(exchange.v3.router, "SwapRouter02"), (exchange.permit2, "Permit2")];
            let router = exchange.v4.router;
            let mut places = Vec::with_capacity(tokens.len());
            for token in tokens {
                let own = spenders.map(|(spender, name)| {
                    (spender, name, batch.add(*token, token::allowance_call(owner, spender)))
                });
                let asked = read::permit2_allowance_call(owner, *token, router);
                places.push((*token, own, batch.add(exchange.permit2, asked)));
            }
            let answers = batch.run(&*chain).await?;
            let now = answers.time(time)?;
            for (token, own, within) in places {
                for (spender, spender_name, at) in own {
                    match answers.number(at) {
                        Ok(amount) => {
                            let until = None;
                            all.add(Allowance { token, spender, spender_name, amount, until });
                        }
                        Err(_invalid) if all.unreadable.last() == Some(&token) => {}
                        Err(_invalid) => all.unreadable.push(token),
                    }
                }
                let given = answers.permit2(within)?;
                let is_over = given.expiration < now;
                all.add(Allowance {
                    token,
                    spender: router,
                    spender_name: "the Universal Router, through Permit2",
                    amount: if is_over { U256::ZERO } else { given.amount },
                    until: Some(given.expiration),
                });
            }
        }
        Ok(all)
    }
}
