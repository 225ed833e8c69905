//! `bursar-proxy check`: reports problems before the first customer meets them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use bursar_chain::chain_clock::is_wrong;
use bursar_chain::ports::Clock;
use bursar_core::json::{self, Number, Value};
use bursar_core::limits::CLOCK_OFF_CHAIN_WARN_MS;
use bursar_core::networks::by_id_or_v1_name;
use bursar_rows::{StoreError, StoreUnusable};
use bursar_serve::findings::{Findings, Severity};
use bursar_serve::panics;
use bursar_serve::secret_file;

use crate::book::redb_store::RedbStore;
use crate::clock_watch::{self, ClockComparison};
use crate::config::Config;
use crate::fault::Code;
use crate::price::{Rate, SaleTokens};
use crate::service::{StartFault, clock, facilitator_of, nodes_of, upstream_of};
use crate::unpaid;

/// Checks prices, key files, store, nodes, clock, facilitator and upstream.
///
/// # Errors
/// [`StartFault`] if the service could not start with these settings.
pub async fn check(config: &Config) -> Result<Findings, StartFault> {
    let mut findings = Findings::default();
    prices(config, &mut findings);
    store(config, &mut findings);
    let clock = clock()?;
    nodes(config, &clock, &mut findings).await?;
    let facilitator = facilitator_of(config, &clock)?;
    let nodes = nodes_of(config, &clock)?;
    let compared = clock_watch::compare(&nodes, &facilitator, &config.networks, &*clock).await;
    clocks(compared, &mut findings);
    match facilitator.supported().await {
        Ok(supported) => supported_kinds(config, &supported, facilitator.label(), &mut findings),
        Err(why) => {
            let text =
                format!("{} does not answer ({why}): no payment is taken", facilitator.label());
            findings.add(Severity::Bad, "facilitator", text);
        }
    }
    let upstream = upstream_of(config, &clock)?;
    match upstream.models().await {
        Ok(list) if list.status < 400 => {
            models(config, &list.body, upstream.label(), &mut findings)
        }
        Ok(list) => {
            let text = format!("{} answers {} to GET /models", upstream.label(), list.status);
            findings.add(Severity::Warning, "upstream", text);
        }
        Err(fault) if fault.code == Code::UpstreamKey => {
            let text =
                format!("{} refuses UPSTREAM_API_KEY: no answer can be sold", upstream.label());
            findings.add(Severity::Bad, "upstream", text);
        }
        Err(fault) => {
            let text = format!("{}: {}", upstream.label(), fault.code.text());
            findings.add(Severity::Bad, "upstream", text);
        }
    }
    if config.upstream_key.is_none() {
        findings.add(
            Severity::Warning,
            "upstream",
            "it is called without a key: UPSTREAM_API_KEY is not set",
        );
    }
    Ok(findings)
}

/// Checks that each network has a node that can confirm a pending settlement.
async fn nodes(
    config: &Config,
    clock: &Arc<dyn Clock>,
    findings: &mut Findings,
) -> Result<(), StartFault> {
    let nodes = nodes_of(config, clock)?;
    for network in &config.networks {
        let title = network.title;
        let (severity, text) = match nodes.of(network.chain) {
            None => (
                Severity::Warning,
                format!(
                    "{title} has no node, so pending settlements are not accepted: set RPC_URL"
                ),
            ),
            Some(node) => match node.chain_id().await {
                Ok(_id) => (Severity::Good, format!("a node of {title} answers")),
                Err(fault) => (
                    Severity::Warning,
                    format!("pending settlements on {title} are not accepted: {fault}"),
                ),
            },
        };
        findings.add(severity, "node", text);
    }
    Ok(())
}

/// Reports the difference between this machine's clock and each of the other clocks.
fn clocks(comparison: ClockComparison, findings: &mut Findings) {
    for (name, ahead_ms) in comparison {
        let Some(ms) = ahead_ms else {
            let text =
                format!("the clock could not be compared with {name}: no answer, or no new blocks");
            findings.add(Severity::Good, "clock", text);
            continue;
        };
        let side = if ms < 0 { "behind" } else { "ahead of" };
        let found = format!("this machine's clock is {} s {side} {name}", (ms / 1_000).abs());
        let remedy = "set it (timedatectl set-ntp true), because payments are judged by it";
        if is_wrong(ms) {
            findings.add(Severity::Bad, "clock", format!("{found}: {remedy}"));
        } else if ms.saturating_abs() > CLOCK_OFF_CHAIN_WARN_MS {
            findings.add(Severity::Warning, "clock", format!("{found}: {remedy}"));
        } else {
            findings.add(Severity::Good, "clock", found);
        }
    }
}

/// Checks that one answer of maximum length to the longest prompt is within the unpaid limits, for each model.
/// Further choices (`n`) and predictions can cost more.
fn unpaid_limits(config: &Config, findings: &mut Findings) {
    let most = config.unpaid.per_payer_max.min(config.unpaid.total_max);
    let other = config.model(None).map(|model| ("a model that is not in the table", model));
    let listed = config.models.iter().map(|(name, model)| (name.as_str(), model.clone()));
    for (name, model) in listed.chain(other) {
        let completion = model.max_completion_tokens.unwrap_or(config.max_completion_tokens);
        let tokens = SaleTokens { prompt: config.max_prompt_tokens, completion };
        let highest_price = model.rates.amount(tokens, unpaid::DOLLAR_DECIMALS);
        if highest_price.is_none_or(|price| price > most) {
            let text = format!(
                "the longest answer of {name} costs more than the limits of unpaid answers and is \
                 refused: raise max_unpaid_usd_per_payer and max_unpaid_usd, or lower \
                 max_prompt_tokens or max_completion_tokens"
            );
            findings.add(Severity::Warning, "prices", text);
        }
    }
}

fn prices(config: &Config, findings: &mut Findings) {
    unpaid_limits(config, findings);
    let free = |rate: Rate| rate.0 == 0;
    if config.model(None).is_some() && free(config.price) {
        let text = "PRICE_PER_1K_TOKENS is 0: an answer at this price costs the smallest unit";
        findings.add(Severity::Warning, "prices", text);
    }
    for (name, model) in &config.models {
        if free(model.rates.input) && free(model.rates.output) {
            findings.add(
                Severity::Warning,
                "prices",
                format!("{name} has price 0: every answer costs the smallest unit"),
            );
        }
    }
    if config.models.is_empty() {
        let text = "every model of the upstream, expensive ones too, is sold at PRICE_PER_1K_TOKENS: set \
             prices in a table of models";
        findings.add(Severity::Warning, "prices", text);
    }
    if config.default_model.is_none() {
        let text = "requests without a model go upstream without one, or are refused if other models are not \
             sold: set PROXY_DEFAULT_MODEL";
        findings.add(Severity::Warning, "prices", text);
    }
    for file in [&config.upstream_key_file, &config.facilitator_key_file].into_iter().flatten() {
        if is_open_to_others(file) {
            let text = format!("{} can be read by other accounts: chmod 600", file.display());
            findings.add(Severity::Warning, "keys", text);
        }
    }
    if config.public_url.is_none() && !config.listen.ip().is_loopback() {
        let text = "the URL in offers is http:// and the host of the request: set PROXY_PUBLIC_URL";
        findings.add(Severity::Warning, "proxy", text);
    }
    if let Some(pay_to) = config.wallet_address {
        findings.add(Severity::Good, "prices", format!("payments go to {pay_to}"));
    }
}

fn is_open_to_others(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|file| secret_file::mode_if_exposed(&file).is_some())
}

fn store(config: &Config, findings: &mut Findings) {
    let path = config.store.display();
    // The check does not create the store: it may run as another user than the service.
    if !config.store.exists() {
        findings.add(Severity::Good, "store", format!("{path} will be created at the first start"));
        return;
    }
    panics::name_store(&config.store, bursar_rows::LIBRARY);
    match RedbStore::open_file(&config.store) {
        Ok(_store) => findings.add(Severity::Good, "store", format!("{path} can be used")),
        Err(StoreError::Io(why)) => {
            let text = format!("{path} cannot be used now ({why}): a running proxy locks it");
            findings.add(Severity::Warning, "store", text);
        }
        Err(error) => {
            let unusable = StoreUnusable::at_start(&config.store, error);
            findings.add(Severity::Bad, "store", unusable.to_string());
        }
    }
}

fn supported_kinds(config: &Config, supported: &Value, label: &str, findings: &mut Findings) {
    let kinds = supported.get("kinds").and_then(Value::as_array).unwrap_or_default();
    for network in &config.networks {
        for version in [1, 2] {
            let fits = |kind: &Value| {
                let text = |key| kind.get(key).and_then(Value::as_str);
                let listed_version =
                    kind.get("x402Version").and_then(Value::as_number).and_then(Number::as_u64);
                text("scheme") == Some("exact")
                    && text("network").and_then(by_id_or_v1_name) == Some(network)
                    && listed_version == Some(version)
            };
            if kinds.iter().any(fits) {
                let text =
                    format!("{label} settles exact on {} in version {version}", network.title);
                findings.add(Severity::Good, "facilitator", text);
            } else {
                let severity = if version == 2 { Severity::Bad } else { Severity::Warning };
                let text = format!(
                    "{label} does not settle exact on {} in version {version}: such payments are refused",
                    network.title
                );
                findings.add(severity, "facilitator", text);
            }
        }
    }
}

fn models(config: &Config, body: &[u8], label: &str, findings: &mut Findings) {
    let list = json::parse_few(body, 16, 1 << 16).ok();
    let rows = list.as_ref().and_then(|list| list.get("data")).and_then(Value::as_array);
    let Some(rows) = rows else {
        findings.add(
            Severity::Warning,
            "upstream",
            format!("{label} answers, but without a list of models"),
        );
        return;
    };
    findings.add(
        Severity::Good,
        "upstream",
        format!("{label} answers, with {} models", rows.len()),
    );
    let listed_models: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.get("id").and_then(Value::as_str)).collect();
    let priced = config.models.keys().chain(&config.default_model);
    for name in priced.filter(|name| !listed_models.contains(name.as_str())) {
        let text = format!("{name} is sold here, but is not in the list of {label}");
        findings.add(Severity::Warning, "upstream", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rest: &[(&str, &str)]) -> String {
        let env = |name: &str| {
            let all = [&[("WALLET_ADDRESS", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C")], rest]
                .concat();
            all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let config = Config::load(None, &env).unwrap();
        let mut findings = Findings::default();
        unpaid_limits(&config, &mut findings);
        let mut text = Vec::new();
        findings.write_to(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn check_reports_a_wrong_clock() {
        let text = |ahead_ms| {
            let mut findings = Findings::default();
            clocks(ClockComparison::from([("eip155:8453".to_owned(), ahead_ms)]), &mut findings);
            let mut text = Vec::new();
            findings.write_to(&mut text).unwrap();
            (findings.has_bad(), String::from_utf8(text).unwrap())
        };
        for (ahead_ms, bad, words) in [
            (Some(119_000), false, "119 s ahead of eip155:8453"),
            (Some(-121_000), false, "121 s behind eip155:8453: set it"),
            (Some(600_001), true, "600 s ahead of eip155:8453: set it"),
            (None, false, "could not be compared with eip155:8453"),
        ] {
            let (is_bad, text) = text(ahead_ms);
            assert_eq!((is_bad, text.contains(words)), (bad, true), "{text}");
            assert_eq!(text.contains("timedatectl"), text.contains("set it"), "{text}");
        }
    }

    #[test]
    fn check_reports_answers_that_exceed_the_unpaid_limits() {
        assert_eq!(findings(&[]), "");
        // 131,072 and 32,768 tokens at 0.001 dollars per thousand cost 0.16384 dollars.
        for (bound, fits) in [("0.16384", true), ("0.163839", false)] {
            let per_payer = findings(&[("PROXY_MAX_UNPAID_USD_PER_PAYER", bound)]);
            let total = findings(&[("PROXY_MAX_UNPAID_USD", bound)]);
            assert_eq!((per_payer.is_empty(), total.is_empty()), (fits, fits), "{bound}");
        }
        assert!(findings(&[("PRICE_PER_1K_TOKENS", "1")]).contains("max_unpaid_usd"));
    }
}
