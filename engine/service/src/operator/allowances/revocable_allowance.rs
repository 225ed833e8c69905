//! An allowance that was read from a chain.

use std::sync::Arc;

use bursar_control::answers::AllowanceAnswer;
use bursar_core::amount::Amount;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::Network;
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_domain::wallets::PayingAddress;

use super::tokens::TokenLabel;
use crate::lanes::allowances::Allowance;

/// The start of the year 10000 in Unix seconds. Answers show no later times.
const YEAR_10000: u64 = 253_402_300_800;

/// An allowance with everything that its revocation needs.
pub(super) struct RevocableAllowance {
    pub(super) known: Arc<PayingAddress>,
    pub(super) network: &'static Network,
    pub(super) allowance: Allowance,
    pub(super) token: TokenLabel,
}

impl RevocableAllowance {
    /// Describes the allowance before a revocation.
    pub(super) fn describe(&self) -> AllowanceAnswer {
        let Self { known, network, allowance, token } = self;
        let unlimited = allowance.is_unlimited();
        let atoms = Atoms(allowance.amount);
        let amount = match token.decimals.filter(|_decimals| token.verified) {
            Some(decimals) => {
                let amount = TokenAmount { atoms, decimals };
                Amount::new(amount, &token.symbol, Some(allowance.token))
            }
            None => Amount::of_foreign(atoms, token.decimals, &token.symbol, allowance.token),
        };
        // An expiry after the year 9999 means that the allowance never expires.
        let until = allowance.until.filter(|seconds| *seconds < YEAR_10000);
        let until = until.and_then(|seconds| i64::try_from(seconds).ok());
        AllowanceAnswer {
            label: known.label.as_str().to_owned(),
            address: known.address.to_checksum(None),
            network: network.title.to_owned(),
            caip2: network.caip2(),
            token_address: allowance.token.to_checksum(None),
            symbol: token.symbol.clone(),
            verified: token.verified,
            spender: allowance.spender.to_checksum(None),
            spender_name: allowance.spender_name.to_owned(),
            amount,
            unlimited,
            until: until.map(|seconds| text::utc(Utc::from_seconds(seconds))),
            outcome: None,
            status: None,
            tx_hash: None,
        }
    }
}
