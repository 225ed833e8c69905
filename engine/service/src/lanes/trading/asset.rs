//! Tokens outside our table that an agent pays with: the facts that a token's contract reports, and the price of an
//! amount.
//!
//! The price is the cost of *buying* the amount, never the proceeds of selling it: the payer or the payee can own a
//! pool in which a valuable token looks worthless. Such a pool is only one of the routes, and the highest price counts.

use std::future::Future;

use alloy_primitives::{Address, B256, Bytes};
use bursar_chain::ports::Chain;
use bursar_chain::token;
use bursar_domain::PaymentAsk;
use bursar_domain::assets::{AssetQuote, DomainCheck, ForeignAsset, TokenText};
use bursar_x402::typed_data::TokenDomain;

use super::asset_routes::{PoolReads, Routes, Subject};
use super::lane::Trading;
use super::reads::{Answers, Batch};
use super::spec::DECIMALS_MAX;

/// Maximum time for all reads about a token together, in milliseconds of our clock.
const WAIT_MS: u64 = 3_000;

impl Trading {
    /// Reads what is known about the token of a payment.
    ///
    /// Data that no node returns in time stays unknown.
    ///
    /// `None` if the payment is in a reference stablecoin, or its network has no exchange.
    pub async fn appraise(&self, payment: &PaymentAsk) -> Option<ForeignAsset> {
        let mut asset = ForeignAsset {
            claimed_domain: payment.foreign()?.claimed_domain.clone(),
            ..ForeignAsset::default()
        };
        let network = payment.network()?;
        let exchange = network.exchange?;
        let (token, amount) = (payment.asset, payment.amount.0);
        let subject = Subject { network, exchange, token, amount };
        let Ok(chain) = self.chain(network) else { return Some(asset) };
        let until = self.ports.clock.mono_ms().saturating_add(WAIT_MS);
        let read =
            self.before_deadline(until, describe(&*chain, &subject, &mut asset)).await.flatten();
        if let Some(pools) = read
            && asset.domain != DomainCheck::Unconfirmed
        {
            let priced = self.price(&*chain, &subject, &pools);
            asset.quote = self.before_deadline(until, priced).await.flatten();
        }
        Some(asset)
    }

    /// Waits for an answer until `until_ms` on our monotonic clock.
    async fn before_deadline<T>(
        &self,
        until_ms: u64,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        // cancel-safe: both branches only read.
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = self.ports.clock.sleep_until(until_ms) => None,
        }
    }

    async fn price(
        &self,
        chain: &dyn Chain,
        subject: &Subject,
        pools: &[Address],
    ) -> Option<AssetQuote> {
        let wiring = self.wiring(chain, subject.network, subject.exchange).await.ok()?;
        wiring.v3.ok()?;
        let routes = Routes::through(subject, pools);
        routes.quote(chain, subject, self.ports.clock.utc()).await
    }
}

/// Reads the token's own answers into `asset`. Returns the pools that exist; `None` if a read fails.
async fn describe(
    chain: &dyn Chain,
    subject: &Subject,
    asset: &mut ForeignAsset,
) -> Option<Vec<Address>> {
    let mut batch = Batch::default();
    let pools = PoolReads::add(&mut batch, subject);
    // The reads of the token come last: if it burns all gas, only its own reads fail.
    let mut ask = |data: Bytes| batch.add(subject.token, data);
    let separator = ask(token::domain_separator_call());
    let state = ask(token::authorization_state_call(subject.token, B256::ZERO));
    let (decimals, symbol) = (ask(token::decimals_call()), ask(token::symbol_call()));
    let answers = batch.run(chain).await.ok()?;
    let pools = pools.existing(&answers)?;
    asset.domain = check_domain(subject, asset, &answers, separator, state)?;
    let bytes = |at: usize| answers.get(at).and_then(|answer| answer.as_ref().ok());
    asset.text = bytes(decimals).and_then(|decimals| {
        let text = token::decode_description(decimals, bytes(symbol).map_or(&[][..], |text| text))?;
        let text = Some(text).filter(|text| text.decimals <= DECIMALS_MAX)?;
        Some(TokenText { symbol: text.symbol, decimals: text.decimals })
    });
    Some(pools)
}

/// Compares the token's domain separator with the offer's claim, and checks that the token supports EIP-3009.
fn check_domain(
    subject: &Subject,
    asset: &ForeignAsset,
    answers: &Answers,
    separator: usize,
    state: usize,
) -> Option<DomainCheck> {
    let Some(claim) = &asset.claimed_domain else { return Some(DomainCheck::Unconfirmed) };
    let claimed = TokenDomain {
        name: claim.name.clone(),
        version: claim.version.clone(),
        chain: subject.network.chain,
        contract: subject.token,
    };
    // A revert counts as an empty answer.
    let answer = |at: usize| {
        answers.get(at).map(|answer| answer.as_ref().map_or(&[][..], |bytes| &bytes[..]))
    };
    let is_claimed = answer(separator)? == claimed.separator().as_slice();
    // `authorizationState` of EIP-3009 must return false: the token itself has never used an authorization.
    let takes_authorizations = answer(state)? == B256::ZERO.as_slice();
    let confirmed = is_claimed && takes_authorizations;
    Some(if confirmed { DomainCheck::Confirmed } else { DomainCheck::Unconfirmed })
}
