//! Checks the enabled networks: chain id of the endpoints, stablecoin contract against our table, and this machine's
//! clock against the newest block.

use alloy_primitives::{Bytes, U256, keccak256};
use bursar_chain::chain_clock;
use bursar_chain::final_count::{PastState, past_state};
use bursar_chain::ports::{BlockTag, ChainFault, EndpointLabel};
use bursar_chain::rpc::BATCH_MAX;
use bursar_control::answers::CheckAnswer;
use bursar_core::lane::Lane;
use bursar_core::limits::{CLOCK_OFF_CHAIN_MS_MAX, CLOCK_OFF_CHAIN_WARN_MS};
use bursar_core::networks::{ChainId, Network, Stablecoin};
use url::Url;

use super::{gas, lending};
use crate::config::Config;
use crate::context::EngineContext;
use crate::lanes::trading::{UnexpectedContract, Wiring};

pub(super) async fn check(
    row: &Network,
    engine: &EngineContext,
    config: &Config,
) -> Vec<CheckAnswer> {
    let ports = &engine.ports;
    let Some(chain) = ports.chains.get(&row.chain) else {
        let advice = format!("bursar network rpc {} <url>", row.chain);
        return vec![CheckAnswer::warn(row.title, "enabled, but without an endpoint", advice)];
    };
    let identity = judge_chain_id(row, chain.chain_id().await);
    if identity.advice.is_some() {
        return vec![identity];
    }
    let identity = match config.submit_rpc.get(&row.chain) {
        Some(urls) => judge_submission(row, identity, urls, chain.submit_chain_id().await),
        None => identity,
    };
    let coin = &row.stablecoin;
    let ask = |name: &str| {
        let hash = keccak256(name);
        let selector = Bytes::copy_from_slice(hash.0.first_chunk::<4>().map_or(&[], |four| four));
        chain.call(coin.address, selector, BlockTag::Latest)
    };
    let (decimals, domain) = (ask("decimals()").await, ask("DOMAIN_SEPARATOR()").await);
    let time = chain_clock::clock_lead_ms(&*chain, &*ports.clock).await;
    let mut checks = vec![identity, judge_token(row, decimals, domain), judge_clock(row, time)];
    checks.extend(judge_batches(row, chain.batch_refusal(BATCH_MAX).await));
    let state = past_state(&*chain, coin.address, row.gas.confirmations).await;
    checks.extend(judge_finality(row, state));
    if let Some(found) = row.exchange {
        checks.extend(judge_exchange(row, Wiring::read(&*chain, row, found).await));
    }
    if engine.edition.rules.lanes.contains(&Lane::Loan)
        && let Some(contracts) = row.lending
    {
        let progress = engine.lending.scan().progress(row.chain);
        checks.extend(lending::check(row, contracts, &*chain, progress).await);
    }
    checks.extend(gas::check(row, &engine.core.view().state, &*chain).await);
    checks
}

/// Judges the answer to a batch of the size that the wallet sends. Returns nothing if such batches work.
fn judge_batches(
    row: &Network,
    refusal: Result<Option<String>, ChainFault>,
) -> Option<CheckAnswer> {
    let title = format!("batches on {}", row.title);
    let advice = format!("try another endpoint: bursar network rpc {} <url>", row.chain);
    let finding = match refusal {
        Ok(None) => return None,
        Ok(Some(said)) => format!(
            "the endpoint does not accept a batch of {BATCH_MAX} requests ({said}): smaller batches or single \
             requests are sent, which takes longer"
        ),
        Err(fault) => format!("not known: {fault}"),
    };
    Some(CheckAnswer::warn(title, finding, advice))
}

/// Judges whether the nodes keep the past states that the check of finality reads. Returns nothing if they do.
fn judge_finality(row: &Network, state: Result<PastState, ChainFault>) -> Option<CheckAnswer> {
    let title = format!("final blocks on {}", row.title);
    let advice =
        format!("use an endpoint that keeps 128 blocks: bursar network rpc {} <url>", row.chain);
    let finding = match state {
        Ok(PastState::Kept) => return None,
        Ok(PastState::NewestOnly(said)) => format!(
            "the endpoint has only the state of its newest block ({said}): after a start, sends become final later \
             and need more requests"
        ),
        Ok(PastState::Refused(said)) => format!(
            "the endpoint does not report which transactions are final ({said}): sends, trades and loans stay open"
        ),
        Err(fault) => format!("not known: {fault}"),
    };
    Some(CheckAnswer::warn(title, finding, advice))
}

/// Judges the contracts that trades use. Payments do not depend on them.
fn judge_exchange(row: &Network, wiring: Result<Wiring, ChainFault>) -> Vec<CheckAnswer> {
    let title = |name: &str| format!("{name} on {}", row.title);
    let wiring = match wiring {
        Ok(wiring) => wiring,
        Err(fault) => {
            let advice = "run bursar doctor again, or try another endpoint";
            let finding = format!("could not be read: {fault}");
            return vec![CheckAnswer::warn(title("Uniswap"), finding, advice)];
        }
    };
    let parts = [
        ("Uniswap v3", wiring.v3, "trades there are refused"),
        ("Uniswap v4", wiring.v4, "trades there are refused"),
        ("ETH price feed", wiring.feed, "trades of ETH there wait for you"),
    ];
    let judge = |(name, found, follows): (&str, Result<(), UnexpectedContract>, &str)| match found {
        Ok(()) => CheckAnswer::ok(title(name), "its contracts are as expected"),
        Err(unexpected) => {
            let advice = "try another endpoint: bursar network rpc <network> <url>, or report it";
            CheckAnswer::warn(title(name), format!("{unexpected}: {follows}"), advice)
        }
    };
    parts.into_iter().map(judge).collect()
}

fn judge_chain_id(row: &Network, answered: Result<ChainId, ChainFault>) -> CheckAnswer {
    let advice = format!(
        "try another endpoint: bursar network rpc {0} <url>, or turn the network off: bursar network disable {0}",
        row.chain
    );
    match answered {
        Ok(id) if id == row.chain => {
            CheckAnswer::ok(row.title, format!("its endpoint serves chain {id}"))
        }
        Ok(id) => CheckAnswer::fail(row.title, format!("the endpoint serves chain {id}"), advice),
        Err(fault) => CheckAnswer::fail(row.title, fault.to_string(), advice),
    }
}

/// Adds the endpoints that receive transactions to the result of the chain id check.
fn judge_submission(
    row: &Network,
    line: CheckAnswer,
    urls: &[Url],
    answered: Result<Option<ChainId>, ChainFault>,
) -> CheckAnswer {
    let hosts: Vec<String> = urls.iter().map(|url| EndpointLabel::of(url).to_string()).collect();
    let finding = format!("{}; transactions are sent to {}", line.finding, hosts.join(", "));
    let advice = format!(
        "try another: bursar config set networks.{0}.submit_rpc <url>, or none to send to the endpoint above",
        row.chain
    );
    match answered {
        Ok(Some(id)) if id == row.chain => {
            CheckAnswer::ok(row.title, format!("{finding}, which serves it too"))
        }
        Ok(Some(id)) => {
            CheckAnswer::fail(row.title, format!("{finding}, which serves chain {id}"), advice)
        }
        // The setting changed meanwhile: the chain has no separate endpoints for transactions.
        Ok(None) => line,
        Err(fault) => CheckAnswer::fail(row.title, format!("{finding}: {fault}"), advice),
    }
}

fn judge_token(
    row: &Network,
    decimals: Result<Bytes, ChainFault>,
    domain: Result<Bytes, ChainFault>,
) -> CheckAnswer {
    let title = format!("{} on {}", row.stablecoin.symbol, row.title);
    let advice = "do not pay there: bursar network disable <network>, and report it";
    let (decimals, domain) = match (decimals, domain) {
        (Ok(decimals), Ok(domain)) => (decimals, domain),
        (Err(fault), _) | (_, Err(fault)) => {
            let advice = "run bursar doctor again, or try another endpoint";
            return CheckAnswer::warn(title, format!("could not be read: {fault}"), advice);
        }
    };
    let Stablecoin { decimals: known, domain_separator, .. } = row.stablecoin;
    let right =
        U256::try_from_be_slice(&decimals) == Some(U256::from(known)) && !decimals.is_empty();
    if !right {
        let finding = format!("its decimals are not {known}, as Bursar expects");
        return CheckAnswer::fail(title, finding, advice);
    }
    if domain.as_ref() != domain_separator.as_slice() {
        let finding = "its signing domain is not the one that Bursar expects";
        return CheckAnswer::fail(title, finding, advice);
    }
    CheckAnswer::ok(title, "decimals and signing domain are as expected")
}

fn judge_clock(row: &Network, ahead: Result<Option<i64>, ChainFault>) -> CheckAnswer {
    let title = format!("clock by {}", row.title);
    let advice = "set this machine's clock: timedatectl set-ntp true";
    match ahead {
        Err(fault) => CheckAnswer::warn(title, fault.to_string(), "run bursar doctor again"),
        Ok(None) => CheckAnswer::ok(title, "not known: the chain produces no blocks now"),
        Ok(Some(ms)) => {
            let side = if ms < 0 { "behind" } else { "ahead of" };
            let finding = format!("{} s {side} the newest block", (ms / 1000).abs());
            match ms.saturating_abs() {
                off if off > CLOCK_OFF_CHAIN_MS_MAX => CheckAnswer::fail(
                    title,
                    format!("{finding}: payments need your approval"),
                    advice,
                ),
                off if off > CLOCK_OFF_CHAIN_WARN_MS => CheckAnswer::warn(title, finding, advice),
                _near => CheckAnswer::ok(title, finding),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_control::answers::CheckResult::{Fail, Ok as Fine, Warn};
    use bursar_core::networks::NETWORKS;

    fn unavailable() -> ChainFault {
        ChainFault::Unavailable { tried: Vec::new() }
    }

    fn word(value: u8) -> Bytes {
        U256::from(value).to_be_bytes::<32>().to_vec().into()
    }

    #[test]
    fn an_endpoint_of_another_chain_or_none_fails() {
        let row = &NETWORKS[0];
        assert_eq!(judge_chain_id(row, Ok(row.chain)).result, Fine);
        assert_eq!(judge_chain_id(row, Ok(ChainId(7))).result, Fail);
        assert_eq!(judge_chain_id(row, Err(unavailable())).result, Fail);
    }

    #[test]
    fn a_refused_batch_is_reported_with_what_the_node_said() {
        let row = &NETWORKS[0];
        assert!(judge_batches(row, Ok(None)).is_none());
        let refused = judge_batches(row, Ok(Some("no batches (code -32600)".to_owned()))).unwrap();
        assert_eq!(refused.result, Warn);
        assert!(refused.finding.contains("no batches (code -32600)"), "{}", refused.finding);
        assert_eq!(judge_batches(row, Err(unavailable())).unwrap().result, Warn);
    }

    #[test]
    fn endpoints_that_transactions_are_sent_to_are_part_of_the_line() {
        let row = &NETWORKS[0];
        let urls =
            ["https://relay.test/KEY?k=KEY", "https://b.test"].map(|url| url.parse().unwrap());
        let line =
            |answered| judge_submission(row, judge_chain_id(row, Ok(row.chain)), &urls, answered);
        let fine = line(Ok(Some(row.chain)));
        assert_eq!((fine.result, fine.advice), (Fine, None));
        let hosts = "transactions are sent to https://relay.test:443, https://b.test:443";
        assert!(fine.finding.contains(hosts), "{}", fine.finding);
        for broken in [line(Ok(Some(ChainId(7)))), line(Err(unavailable()))] {
            assert_eq!(broken.result, Fail);
            let advice = broken.advice.unwrap();
            assert!(advice.contains(&format!("networks.{}.submit_rpc", row.chain)), "{advice}");
            assert!(!broken.finding.contains("KEY"), "{}", broken.finding);
        }
    }

    #[test]
    fn a_token_that_is_not_the_tables_fails() {
        let row = &NETWORKS[0];
        let domain = || Bytes::from(row.stablecoin.domain_separator.to_vec());
        let result = |decimals, domain| judge_token(row, decimals, domain).result;
        assert_eq!(result(Ok(word(6)), Ok(domain())), Fine);
        assert_eq!(result(Ok(word(18)), Ok(domain())), Fail);
        assert_eq!(result(Ok(Bytes::new()), Ok(domain())), Fail, "there is no such contract");
        assert_eq!(result(Ok(word(6)), Ok(word(6))), Fail);
        assert_eq!(result(Ok(word(6)), Ok(Bytes::new())), Fail);
        assert_eq!(result(Err(unavailable()), Ok(domain())), Warn);
        assert_eq!(result(Ok(word(6)), Err(unavailable())), Warn);
    }

    #[test]
    fn a_clock_is_judged_by_how_far_it_is_off_and_by_no_sleeping_chain() {
        let row = &NETWORKS[0];
        for (ms, expected) in [
            (0, Fine),
            (120_000, Fine),
            (120_001, Warn),
            (-120_001, Warn),
            (600_000, Warn),
            (600_001, Fail),
            (-600_001, Fail),
        ] {
            assert_eq!(judge_clock(row, Ok(Some(ms))).result, expected, "{ms}");
        }
        assert_eq!(judge_clock(row, Ok(None)).result, Fine);
        assert_eq!(judge_clock(row, Err(unavailable())).result, Warn);
    }
}
