//! Parses single values of settings.

use std::net::SocketAddr;

use bursar_core::limits::SIGNATURE_WINDOW_RANGE_S;
use bursar_core::settings::keys::Key;
use bursar_core::settings::{ConsolePalette, ConsoleTime, Notices};
use url::Url;

pub(super) fn journal_only(key: Key) -> String {
    format!("it can weaken a protection: set it with `config set {key} <value>` only")
}

pub(super) fn parse_switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_bad| "write true or false".to_owned())
}

pub(super) fn parse_notices(text: &str) -> Result<Notices, String> {
    Notices::parse(text).ok_or_else(|| "write all, bell or none".to_owned())
}

pub(super) fn parse_console_time(text: &str) -> Result<ConsoleTime, String> {
    ConsoleTime::parse(text).ok_or_else(|| "write local or utc".to_owned())
}

pub(super) fn parse_console_palette(text: &str) -> Result<ConsolePalette, String> {
    ConsolePalette::parse(text).ok_or_else(|| "write auto, dark, light or mono".to_owned())
}

pub(super) fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_bad| format!("{text} is not an address like 127.0.0.1:9402"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(format!(
            "{text} is not a loopback address; to serve other machines, use `server start --allow-lan`"
        ))
    }
}

pub(super) fn check_rate(rate: u32) -> Result<u32, String> {
    match rate {
        0 => {
            Err("0 turns a protection off: set it with `config set server.rate_per_minute 0` only"
                .to_owned())
        }
        rate => Ok(rate),
    }
}

pub(super) fn check_window(seconds: u64) -> Result<u64, String> {
    let (least, most) = (SIGNATURE_WINDOW_RANGE_S.start(), SIGNATURE_WINDOW_RANGE_S.end());
    if SIGNATURE_WINDOW_RANGE_S.contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("it must be {least} to {most} seconds"))
    }
}

pub(super) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

pub(super) fn parse_urls<'a>(list: impl Iterator<Item = &'a str>) -> Result<Vec<Url>, String> {
    list.map(parse_url).collect()
}

/// Parses an endpoint. Errors never repeat the text, because path and query may contain an API key.
fn parse_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| format!("an endpoint is not a valid URL: {error}"))
}

/// Parses the URL of an explorer or of the price API. `none` turns the default off.
pub(super) fn parse_optional_url(text: &str) -> Result<Option<Url>, String> {
    if text == "none" {
        return Ok(None);
    }
    let url = Url::parse(text).map_err(|error| format!("it is not a valid URL: {error}"))?;
    if matches!(url.scheme(), "https" | "http") {
        Ok(Some(url))
    } else {
        Err("it must begin with https:// (or http:// on this machine), or be none".to_owned())
    }
}
