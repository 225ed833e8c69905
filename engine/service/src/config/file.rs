//! The structure of `settings.toml`. It declares keys of the journal only to reject them with an error that names
//! the command to set them.

use std::collections::BTreeMap;
use std::ops::Range;

use bursar_core::networks::{ChainId, by_id_or_v1_name};
use bursar_core::settings::keys::Key;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::effective::{Config, Source};
use super::values::{
    check_rate, check_window, journal_only, parse_console_palette, parse_console_time,
    parse_loopback, parse_notices, parse_optional_url, parse_urls,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    server: ServerTable,
    payments: PaymentsTable,
    console: ConsoleTable,
    networks: BTreeMap<String, NetworkTable>,
    prices: PricesTable,
    registry: RegistryTable,
    lock: LockTable,
    unattended: UnattendedTable,
    confirm_typing_above: Option<IgnoredAny>,
    icons: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerTable {
    listen: Option<String>,
    rate_per_minute: Option<u32>,
    signature_window_s: Option<u64>,
    autostart: Option<bool>,
    hosts: Option<IgnoredAny>,
    lan_bearer: Option<IgnoredAny>,
    allow_lan: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PaymentsTable {
    verify_settlements: Option<bool>,
    max_validity: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConsoleTable {
    notify: Option<String>,
    time: Option<String>,
    palette: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PricesTable {
    url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RegistryTable {
    url: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LockTable {
    idle: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UnattendedTable {
    daily: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NetworkTable {
    rpc: Option<Vec<String>>,
    submit_rpc: Option<Vec<String>>,
    explorer: Option<String>,
    enabled: Option<IgnoredAny>,
}

/// Returns a parser's message with the line number and the key.
///
/// It omits the line itself and every value, because an endpoint may contain a secret.
pub(super) fn at_line(text: &str, span: Option<Range<usize>>, message: &str) -> String {
    let start = span.map_or(0, |span| span.start);
    let before = text.bytes().take(start).filter(|byte| *byte == b'\n').count();
    let wrong = message.split_once(": ").filter(|(kind, _value)| kind.starts_with("invalid "));
    let why = match (wrong, message.rsplit_once(", expected ")) {
        (Some((kind, _value)), Some((_found, wanted))) => format!("{kind}, expected {wanted}"),
        _other => message.replace('\n', ", "),
    };
    let line = text.lines().nth(before).unwrap_or_default();
    let key = line.split_once('=').map(|(key, _value)| key.trim()).filter(|key| is_key(key));
    let key = key.map(|key| format!(" ({key})")).unwrap_or_default();
    format!("line {}{key}: {why}", before.saturating_add(1))
}

fn is_key(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte))
}

/// Applies the values of the file.
pub(super) fn apply(config: &mut Config, text: &str) -> Result<(), String> {
    let file: File =
        toml::from_str(text).map_err(|error| at_line(text, error.span(), error.message()))?;
    refuse_what_loosens(&file)?;
    let mut from_file = |key: Key| config.sources.insert(key, Source::File);
    if let Some(listen) = &file.server.listen {
        config.listen = parse_loopback(listen).map_err(|why| format!("server.listen: {why}"))?;
        from_file(Key::Listen);
    }
    if let Some(rate) = file.server.rate_per_minute {
        let rate = check_rate(rate).map_err(|why| format!("server.rate_per_minute: {why}"))?;
        config.rate_per_minute = rate;
        from_file(Key::Rate);
    }
    if let Some(seconds) = file.server.signature_window_s {
        let seconds =
            check_window(seconds).map_err(|why| format!("server.signature_window_s: {why}"))?;
        config.signature_window_s = seconds;
        from_file(Key::SignatureWindow);
    }
    if let Some(autostart) = file.server.autostart {
        config.autostart = autostart;
        from_file(Key::Autostart);
    }
    if let Some(verify) = file.payments.verify_settlements {
        config.verify_settlements = verify;
        from_file(Key::VerifySettlements);
    }
    if let Some(notify) = &file.console.notify {
        config.notices = parse_notices(notify).map_err(|why| format!("console.notify: {why}"))?;
        from_file(Key::ConsoleNotify);
    }
    if let Some(time) = &file.console.time {
        config.console_time =
            parse_console_time(time).map_err(|why| format!("console.time: {why}"))?;
        from_file(Key::ConsoleTime);
    }
    if let Some(palette) = &file.console.palette {
        config.console_palette =
            parse_console_palette(palette).map_err(|why| format!("console.palette: {why}"))?;
        from_file(Key::ConsolePalette);
    }
    if let Some(icons) = file.icons {
        config.icons = icons;
        from_file(Key::Icons);
    }
    if let Some(text) = &file.prices.url {
        config.prices = parse_optional_url(text).map_err(|why| format!("prices.url: {why}"))?;
        from_file(Key::PricesUrl);
    }
    apply_networks(config, &file.networks)
}

fn apply_networks(
    config: &mut Config,
    networks: &BTreeMap<String, NetworkTable>,
) -> Result<(), String> {
    let mut met: BTreeMap<ChainId, &String> = BTreeMap::new();
    for (name, table) in networks {
        let row = by_id_or_v1_name(name)
            .ok_or_else(|| format!("networks.{name} is not a supported network"))?;
        if let Some(other) = met.insert(row.chain, name) {
            return Err(format!(
                "networks.{other} and networks.{name} are the same network: keep one"
            ));
        }
        if let Some(rpc) = &table.rpc {
            let urls = parse_urls(rpc.iter().map(String::as_str));
            let urls = urls.map_err(|why| format!("networks.{name}.rpc: {why}"))?;
            config.rpc.insert(row.chain, urls);
            config.sources.insert(Key::NetworkRpc(row.chain), Source::File);
        }
        if let Some(submit) = &table.submit_rpc {
            let urls = parse_urls(submit.iter().map(String::as_str));
            let urls = urls.map_err(|why| format!("networks.{name}.submit_rpc: {why}"))?;
            config.set_submit_rpc(row.chain, urls);
            config.sources.insert(Key::NetworkSubmitRpc(row.chain), Source::File);
        }
        if let Some(text) = &table.explorer {
            let url = parse_optional_url(text)
                .map_err(|why| format!("networks.{name}.explorer: {why}"))?;
            config.set_explorer(row.chain, url);
            config.sources.insert(Key::NetworkExplorer(row.chain), Source::File);
        }
    }
    Ok(())
}

fn refuse_what_loosens(file: &File) -> Result<(), String> {
    let networks = file.networks.iter().filter(|(_name, table)| table.enabled.is_some());
    let enabled = networks.filter_map(|(name, _table)| by_id_or_v1_name(name)).next();
    let found = [
        (file.server.allow_lan.is_some(), Some(Key::AllowLan)),
        (file.server.hosts.is_some(), Some(Key::Hosts)),
        (file.server.lan_bearer.is_some(), Some(Key::LanBearer)),
        (file.payments.max_validity.is_some(), Some(Key::MaxValidity)),
        (file.registry.url.is_some(), Some(Key::RegistryUrl)),
        (file.lock.idle.is_some(), Some(Key::IdleLock)),
        (file.unattended.daily.is_some(), Some(Key::UnattendedDaily)),
        (file.confirm_typing_above.is_some(), Some(Key::ConfirmTypingAbove)),
        (enabled.is_some(), enabled.map(|row| Key::NetworkEnabled(row.chain))),
    ];
    match found.into_iter().find_map(|(is, key)| key.filter(|_key| is)) {
        Some(key) => Err(format!("{key}: {}", journal_only(key))),
        None => Ok(()),
    }
}
