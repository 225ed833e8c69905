//! The second port: orders of a test, one line each, answered by one line.

use std::time::Duration;

use crate::app::Model;
use crate::device::{Decision, Device, Lie};
use crate::key::Seed;
use crate::settings::Switch;

/// The orders, for the error of an unknown one.
const ORDERS: &str = "press, refuse, auto press|refuse|off, screen, wait, lock, unlock, plug, unplug, cut before|after N, \
app ethereum|NAME VERSION, version A.B.C, model flex|nano, blind on|off, raw on|off, step blind|raw, seed WORDS, delay MS, \
lie truncated|longer|changed|earlier|off, log";

/// Carries an order out and returns the line that answers it.
pub fn run(device: &Device, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    order(device, &words).unwrap_or_else(|| format!("error: the orders are {ORDERS}"))
}

fn order(device: &Device, words: &[&str]) -> Option<String> {
    match words {
        ["press"] => return Some(pressed(device, Decision::Press)),
        ["refuse"] => return Some(pressed(device, Decision::Refuse)),
        ["auto", which] => device.decide_itself(match *which {
            "press" => Some(Decision::Press),
            "refuse" => Some(Decision::Refuse),
            "off" => None,
            _other => return None,
        }),
        ["screen"] => {
            return Some(device.screen().map_or("none".to_owned(), |pages| pages.join(" / ")));
        }
        ["wait"] => return Some(device.wait_for_prompt().join(" / ")),
        ["lock"] => device.set_locked(true),
        ["unlock"] => device.set_locked(false),
        ["plug"] => device.set_plugged(true),
        ["unplug"] => device.set_plugged(false),
        ["cut", "before", count] => device.cut(Some(count.parse().ok()?), None),
        ["cut", "after", count] => device.cut(None, Some(count.parse().ok()?)),
        ["app", "ethereum"] => device.open(None),
        ["app", name, version] => device.open(Some(((*name).to_owned(), (*version).to_owned()))),
        ["version", text] => {
            let numbers: Vec<u8> =
                text.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            let version: [u8; 3] = numbers.try_into().ok()?;
            device.change(|app| {
                app.version = version;
                app.version_text = (*text).to_owned();
            });
        }
        ["model", "flex"] => device.change(|app| app.model = Model::Flex),
        ["model", "nano"] => device.change(|app| app.model = Model::NanoSPlus),
        ["blind", switch] => {
            let is_on = is_on(switch)?;
            device.change(|app| app.blind_signing = is_on);
        }
        ["raw", switch] => {
            let is_on = is_on(switch)?;
            device.change(|app| app.raw_messages = is_on);
        }
        ["step", which] => {
            let is_on = device.step_towards(match *which {
                "blind" => Switch::BlindSigning,
                "raw" => Switch::RawMessages,
                _other => return None,
            });
            return Some(if is_on { "on" } else { "off" }.to_owned());
        }
        ["seed", words @ ..] => {
            let seed = Seed::from_words(&words.join(" "))?;
            device.change(|app| app.seed = seed);
        }
        ["delay", milliseconds] => {
            device.set_delay(Duration::from_millis(milliseconds.parse().ok()?))
        }
        ["lie", which] => device.set_lie(
            0,
            match *which {
                "truncated" => Some(Lie::Truncated),
                "longer" => Some(Lie::Longer),
                "changed" => Some(Lie::Changed),
                "earlier" => Some(Lie::Earlier),
                "off" => None,
                _other => return None,
            },
        ),
        ["log"] => return Some(device.log().join("; ")),
        _other => return None,
    }
    Some("ok".to_owned())
}

fn pressed(device: &Device, decision: Decision) -> String {
    if device.press(decision) {
        "ok".to_owned()
    } else {
        "error: no prompt is on the screen".to_owned()
    }
}

fn is_on(switch: &str) -> Option<bool> {
    match switch {
        "on" => Some(true),
        "off" => Some(false),
        _other => None,
    }
}
