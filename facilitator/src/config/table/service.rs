//! The rows of the service.

use bursar_serve::access::api_keys;
use bursar_serve::logs::LogFormat;
use bursar_serve::settings::{Key, put};

use crate::config::settings::Config;
use crate::settle::success_rights::{ForeignSettlements, Repeats};

/// Keys of the service.
pub(in crate::config) const SERVICE: &[Key<Config>] = &[
    Key {
        name: "listen",
        variable: "FACILITATOR_LISTEN",
        default: "127.0.0.1:4402",
        meaning: "The address on which payments are verified and settled.",
        set: |config, given| put(&mut config.listen, given.socket()),
    },
    Key {
        name: "metrics_listen",
        variable: "FACILITATOR_METRICS_LISTEN",
        default: "127.0.0.1:4403",
        meaning: "The address on which metrics are read; `off` for none.",
        set: |config, given| put(&mut config.metrics_listen, given.socket_or_off()),
    },
    Key {
        name: "store",
        variable: "FACILITATOR_STORE",
        default: "facilitator.redb",
        meaning: "The file that stores settlements. `DATABASE_URL` is refused: PostgreSQL is not supported.",
        set: |config, given| {
            if given.text()?.contains("://") {
                return Err("it must be a file, not the URL of a database".to_owned());
            }
            put(&mut config.store, given.path())
        },
    },
    Key {
        name: "wait_ms",
        variable: "FACILITATOR_WAIT_MS",
        default: "8000",
        meaning: "How long a settle request waits for its block before it returns `settlement_pending`; at \
             most 10000.",
        set: |config, given| put(&mut config.wait_ms, given.whole_number(0..=10_000)),
    },
    Key {
        name: "retention_days",
        variable: "FACILITATOR_RETENTION_DAYS",
        default: "400",
        meaning: "How long records of ended payments are kept; 0 keeps them forever.",
        set: |config, given| put(&mut config.retention_days, given.whole_number(0..=36_500)),
    },
    Key {
        name: "batch_calls",
        variable: "FACILITATOR_BATCH_CALLS",
        default: "50",
        meaning: "How many settlements may share a transaction, 1 to 100.",
        set: |config, given| put(&mut config.batch_calls, given.whole_number(1..=100)),
    },
    Key {
        name: "batch_window_ms",
        variable: "FACILITATOR_BATCH_WINDOW_MS",
        default: "50",
        meaning: "How long a settlement waits for others that can share its transaction, at most \
             1000. It does not wait if no transaction is in flight.",
        set: |config, given| put(&mut config.batch_window_ms, given.whole_number(0..=1_000)),
    },
    Key {
        name: "in_flight",
        variable: "FACILITATOR_IN_FLIGHT",
        default: "16",
        meaning: "How many unmined transactions a signer may have at a time, 1 to 16.",
        set: |config, given| put(&mut config.in_flight, given.whole_number(1..=16)),
    },
    Key {
        name: "drain_ms",
        variable: "FACILITATOR_DRAIN_MS",
        default: "20000",
        meaning: "How long a stopping facilitator waits for requests in flight, at most 600000.",
        set: |config, given| put(&mut config.drain_ms, given.whole_number(0..=600_000)),
    },
    Key {
        name: "log_format",
        variable: "FACILITATOR_LOG_FORMAT",
        default: "text",
        meaning: "The format of log lines: `text` or `json`.",
        set: |config, given| put(&mut config.log_format, LogFormat::of(given)),
    },
    Key {
        name: "api_keys",
        variable: "FACILITATOR_API_KEYS",
        default: "none",
        meaning: "The API keys: `{ name, sha256 }` for each, in the environment `name:sha256`. The sha256 \
             is the digest of the key, never the key. Without keys, any caller is accepted. With an \
             `authorizer`, each key also lists its merchant's `receivers`: `receivers = [\"0x…\"]`, in the \
             environment `name:sha256:0x…+0x…`.",
        set: |config, given| put(&mut config.api_keys, api_keys(given)),
    },
    Key {
        name: "api_keys_file",
        variable: "FACILITATOR_API_KEYS_FILE",
        default: "none",
        meaning: "A file with further keys, one per line, written as in the environment.",
        set: |config, given| put(&mut config.api_keys_file, given.path().map(Some)),
    },
    Key {
        name: "pay_to",
        variable: "FACILITATOR_PAY_TO",
        default: "none",
        meaning: "The only addresses that may be paid. Without any, all may.",
        set: |config, given| put(&mut config.pay_to, given.addresses()),
    },
    Key {
        name: "rate_per_minute",
        variable: "FACILITATOR_RATE_PER_MINUTE",
        default: "600",
        meaning: "Requests per minute from one API key, or from one client address if there are no keys; 0 \
             sets no limit. Programs on this machine have no limit.",
        set: |config, given| put(&mut config.rate_per_minute, given.whole_number(0..=1_000_000)),
    },
    Key {
        name: "repeats",
        variable: "FACILITATOR_REPEATS",
        default: "duplicate",
        meaning: "The answer to a copy of a settled payment: with `duplicate` the code `duplicate_settlement` \
             and the hash, with `success` the success again.",
        set: |config, given| {
            config.repeats = match given.text()? {
                "duplicate" => Repeats::Duplicate,
                "success" => Repeats::Success,
                _other => return Err("it must be duplicate or success".to_owned()),
            };
            Ok(())
        },
    },
    Key {
        name: "foreign_settlements",
        variable: "FACILITATOR_FOREIGN_SETTLEMENTS",
        default: "duplicate",
        meaning: "The answer to a payment that another facilitator, another store or a stranger settled: with \
             `duplicate` the code `duplicate_settlement` and the hash, with `success` the success, once. With \
             `success` two facilitators of one payee both report it, so set it only for one of them, or for \
             merchants that share what they sold.",
        set: |config, given| {
            config.foreign_settlements = match given.text()? {
                "duplicate" => ForeignSettlements::Duplicate,
                "success" => ForeignSettlements::Success,
                _other => return Err("it must be duplicate or success".to_owned()),
            };
            Ok(())
        },
    },
    Key {
        name: "trusted_proxies",
        variable: "FACILITATOR_TRUSTED_PROXIES",
        default: "none",
        meaning: "IP addresses and CIDR ranges of proxies whose `X-Forwarded-For` is trusted.",
        set: |config, given| put(&mut config.trusted_proxies, given.ip_ranges()),
    },
];
