//! The settings keys of the service, and the settings table of the manual.

use bursar_core::networks::by_id_or_v1_name;
use bursar_serve::logs::LogFormat;
use bursar_serve::settings::{Key, RawSetting, TABLE_HEAD, put, table_rows};
use toml::Value;

use super::models::{MODEL, rate};
use super::values::{Config, CorsOrigins, Rpc, SecretUrl};
use crate::answer_memory::MEMORY_BYTES_MIN;
use crate::offer::Method;
use crate::unpaid::{DOLLAR_DECIMALS, Dollars};

/// Returns the settings table of the manual as Markdown.
pub fn reference() -> String {
    let models =
        table_rows(MODEL, "models.\"<name>\".", "").replace("| `` |", "| in the file alone |");
    format!("{TABLE_HEAD}{}{models}", table_rows(SERVICE, "", ""))
}

/// Reads a limit on unpaid sales. Zero is refused: no answer could be sold.
fn unpaid_limit(given: RawSetting<'_>) -> Result<Dollars, String> {
    let amount = given.decimal(DOLLAR_DECIMALS)?;
    let some = Some(amount).filter(|amount| !amount.is_zero());
    some.ok_or_else(|| {
        "it must be more than 0: answers are unpaid until they are settled".to_owned()
    })
}

/// Reads `off`, `default`, or nodes. A node is a URL, or `eip155:8453=https://…` to name its network.
fn rpc(given: RawSetting<'_>) -> Result<Rpc, String> {
    let texts = match given {
        RawSetting::Value(Value::String(_)) => vec![given.text()?],
        other => other.list()?,
    };
    match texts.as_slice() {
        [] | ["off"] => return Ok(Rpc::Off),
        ["default"] => return Ok(Rpc::Default),
        _nodes => {}
    }
    let node = |text: &str| {
        let named = text.split_once('=').filter(|(name, _url)| !name.contains('/'));
        let Some((name, url)) = named else { return Ok((None, SecretUrl(text.to_owned()))) };
        let network = by_id_or_v1_name(name.trim()).ok_or_else(|| {
            "the part before = must be a known network, like eip155:8453".to_owned()
        })?;
        Ok((Some(network.chain), SecretUrl(url.trim().to_owned())))
    };
    texts.into_iter().map(node).collect::<Result<_, String>>().map(Rpc::Nodes)
}

/// Reads origins as browsers send them, or `*` for all.
fn origins(given: RawSetting<'_>) -> Result<CorsOrigins, String> {
    let texts = given.list()?;
    match texts.as_slice() {
        [] => return Ok(CorsOrigins::None),
        ["*"] => return Ok(CorsOrigins::Any),
        _listed => {}
    }
    let wanted = "each entry must be an origin like https://app.example, in lower case and without a path and a \
                  default port; or write only *";
    let default_ports = [("http", ":80"), ("https", ":443")];
    let is_origin = |text: &str| {
        text.split_once("://").is_some_and(|(scheme, host)| {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let named = |text: &str, more: &[u8]| {
                !text.is_empty() && text.bytes().all(|byte| plain(byte) || more.contains(&byte))
            };
            let is_default =
                default_ports.iter().any(|(name, port)| *name == scheme && host.ends_with(port));
            named(scheme, b"+-.") && named(host, b"-._:[]") && !is_default
        })
    };
    let read = |text: &str| is_origin(text).then(|| text.to_owned());
    let listed: Option<_> = texts.into_iter().map(read).collect();
    listed.map(CorsOrigins::Listed).ok_or_else(|| wanted.to_owned())
}

fn owned_text(given: RawSetting<'_>) -> Result<String, String> {
    given.text().map(str::to_owned)
}

/// Keys of the service.
pub(super) const SERVICE: &[Key<Config>] = &[
    Key {
        name: "wallet_address",
        variable: "WALLET_ADDRESS",
        default: "required",
        meaning: "The address that receives the payments.",
        set: |config, given| put(&mut config.wallet_address, given.address().map(Some)),
    },
    Key {
        name: "price_per_1k_tokens",
        variable: "PRICE_PER_1K_TOKENS",
        default: "0.001",
        meaning: "The price in dollars of 1000 tokens, for models that are not in the table.",
        set: |config, given| put(&mut config.price, rate(given)),
    },
    Key {
        name: "facilitator_url",
        variable: "FACILITATOR_URL",
        default: "http://127.0.0.1:4402",
        meaning: "The facilitator that verifies and settles payments.",
        set: |config, given| put(&mut config.facilitator_url, owned_text(given).map(SecretUrl)),
    },
    Key {
        name: "facilitator_api_key_file",
        variable: "FACILITATOR_API_KEY_FILE",
        default: "none",
        meaning: "A file with the facilitator's API key, if it needs one; or `FACILITATOR_API_KEY` in the \
             environment.",
        set: |config, given| put(&mut config.facilitator_key_file, given.path().map(Some)),
    },
    Key {
        name: "upstream_url",
        variable: "UPSTREAM_URL",
        default: "https://api.openai.com/v1",
        meaning: "The OpenAI-compatible API that is sold, including `/v1`.",
        set: |config, given| put(&mut config.upstream_url, owned_text(given).map(SecretUrl)),
    },
    Key {
        name: "upstream_api_key_file",
        variable: "UPSTREAM_API_KEY_FILE",
        default: "none",
        meaning: "A file with the key of that API; or `UPSTREAM_API_KEY` in the environment.",
        set: |config, given| put(&mut config.upstream_key_file, given.path().map(Some)),
    },
    Key {
        name: "rpc",
        variable: "RPC_URL",
        default: "the network's public node",
        meaning: "Nodes of the network, one URL or several: a pending settlement is accepted only if one \
             of them knows its transaction. With several networks write \
             `eip155:8453=https://…`. With `off`, no pending settlement is accepted.",
        set: |config, given| put(&mut config.rpc, rpc(given)),
    },
    Key {
        name: "allow_plain_http",
        variable: "PROXY_ALLOW_PLAIN_HTTP",
        default: "false",
        meaning: "Whether upstream, facilitator and nodes at private addresses may use http. Those on this \
             machine always may, public addresses never.",
        set: |config, given| put(&mut config.allow_plain_http, given.flag()),
    },
    Key {
        name: "listen",
        variable: "PROXY_LISTEN",
        default: "127.0.0.1:4021",
        meaning: "The address on which customers are served.",
        set: |config, given| put(&mut config.listen, given.socket()),
    },
    Key {
        name: "metrics_listen",
        variable: "PROXY_METRICS_LISTEN",
        default: "127.0.0.1:4022",
        meaning: "The address on which metrics are read; `off` for none.",
        set: |config, given| put(&mut config.metrics_listen, given.socket_or_off()),
    },
    Key {
        name: "public_url",
        variable: "PROXY_PUBLIC_URL",
        default: "that of the request, with http",
        meaning: "The URL of the service for customers, without a path: set it behind an https proxy.",
        set: |config, given| {
            let text = owned_text(given)?;
            let is_origin = |url: &url::Url| {
                matches!(url.scheme(), "http" | "https")
                    && (url.path(), url.query(), url.fragment()) == ("/", None, None)
                    && (url.username(), url.password()) == ("", None)
            };
            let url = url::Url::parse(&text).ok().filter(is_origin);
            let url = url.ok_or_else(|| "it must be like https://llm.example".to_owned())?;
            let plain = url.as_str().trim_end_matches('/').to_owned();
            put(&mut config.public_url, Ok(Some(plain)))
        },
    },
    Key {
        name: "network",
        variable: "NETWORK",
        default: "eip155:8453",
        meaning: "The networks of the payments: one or several.",
        set: |config, given| {
            let names = match given {
                RawSetting::Value(Value::String(_)) => vec![given.text()?],
                other => other.list()?,
            };
            let known = |name: &str| {
                by_id_or_v1_name(name)
                    .ok_or_else(|| "each must be a known network, like eip155:8453".to_owned())
            };
            let mut networks = Vec::with_capacity(names.len());
            for name in names {
                let network = known(name)?;
                if !networks.contains(&network) {
                    networks.push(network);
                }
            }
            if networks.is_empty() {
                return Err("set at least one network".to_owned());
            }
            put(&mut config.networks, Ok(networks))
        },
    },
    Key {
        name: "asset",
        variable: "ASSET",
        default: "the network's dollar token",
        meaning: "The token that is accepted; it counts as a dollar.",
        set: |config, given| put(&mut config.asset, given.address().map(Some)),
    },
    Key {
        name: "asset_decimals",
        variable: "ASSET_DECIMALS",
        default: "the dollar token's",
        meaning: "Decimals of `asset`, if it is not the dollar token.",
        set: |config, given| put(&mut config.asset_decimals, given.whole_number(0..=36).map(Some)),
    },
    Key {
        name: "asset_name",
        variable: "ASSET_NAME",
        default: "the dollar token's",
        meaning: "EIP-712 name of `asset`, if it is not the dollar token.",
        set: |config, given| put(&mut config.asset_name, owned_text(given).map(Some)),
    },
    Key {
        name: "asset_version",
        variable: "ASSET_VERSION",
        default: "the dollar token's",
        meaning: "EIP-712 version of `asset`, if it is not the dollar token.",
        set: |config, given| put(&mut config.asset_version, owned_text(given).map(Some)),
    },
    Key {
        name: "asset_transfer",
        variable: "ASSET_TRANSFER",
        default: "eip3009",
        meaning: "How the asset is transferred: `eip3009` or `permit2`.",
        set: |config, given| {
            let method = match given.text()? {
                "eip3009" => Ok(Method::Eip3009),
                "permit2" => Ok(Method::Permit2),
                _other => Err("it must be eip3009 or permit2".to_owned()),
            };
            put(&mut config.asset_method, method)
        },
    },
    Key {
        name: "other_models",
        variable: "PROXY_OTHER_MODELS",
        default: "only without a table",
        meaning: "Whether models that are not in the table are sold, at `price_per_1k_tokens`.",
        set: |config, given| put(&mut config.other_models, given.flag().map(Some)),
    },
    Key {
        name: "default_model",
        variable: "PROXY_DEFAULT_MODEL",
        default: "none",
        meaning: "The model of requests that name none. Without it the upstream chooses, or such requests \
             are refused if other models are not sold.",
        set: |config, given| put(&mut config.default_model, owned_text(given).map(Some)),
    },
    Key {
        name: "completion_tokens",
        variable: "PROXY_COMPLETION_TOKENS",
        default: "1024",
        meaning: "The bound on an answer if a request sets none. It is priced, and sent upstream.",
        set: |config, given| put(&mut config.completion_tokens, given.whole_number(1..=10_000_000)),
    },
    Key {
        name: "max_completion_tokens",
        variable: "PROXY_MAX_COMPLETION_TOKENS",
        default: "32768",
        meaning: "The highest bound that a request may set.",
        set: |config, given| {
            put(&mut config.max_completion_tokens, given.whole_number(1..=10_000_000))
        },
    },
    Key {
        name: "max_prompt_tokens",
        variable: "PROXY_MAX_PROMPT_TOKENS",
        default: "131072",
        meaning: "The longest prompt that is sold.",
        set: |config, given| put(&mut config.max_prompt_tokens, given.whole_number(1..=10_000_000)),
    },
    Key {
        name: "bound_field",
        variable: "PROXY_BOUND_FIELD",
        default: "max_completion_tokens",
        meaning: "The parameter that carries the bound to the upstream: `max_completion_tokens`, \
             or `max_tokens` for older servers.",
        set: |config, given| {
            let field = match given.text()? {
                "max_completion_tokens" => Ok("max_completion_tokens"),
                "max_tokens" => Ok("max_tokens"),
                _other => Err("it must be max_completion_tokens or max_tokens".to_owned()),
            };
            put(&mut config.bound_field, field)
        },
    },
    Key {
        name: "extra_fields",
        variable: "PROXY_EXTRA_FIELDS",
        default: "none",
        meaning: "Further parameters of a body that are passed on. They are not priced: check whether they \
             cost you.",
        set: |config, given| {
            let fields = given.list()?.into_iter().map(str::to_owned).collect();
            put(&mut config.extra_fields, Ok(fields))
        },
    },
    Key {
        name: "body_bytes",
        variable: "PROXY_BODY_BYTES",
        default: "1048576",
        meaning: "The longest body of a request.",
        set: |config, given| put(&mut config.body_bytes, given.whole_number(1_024..=16_777_216)),
    },
    Key {
        name: "upstream_ms",
        variable: "PROXY_UPSTREAM_MS",
        default: "300000",
        meaning: "How long the upstream may take for a whole answer, or for the first event of a \
             stream with content.",
        set: |config, given| put(&mut config.upstream_ms, given.whole_number(100..=3_600_000)),
    },
    Key {
        name: "upstream_idle_ms",
        variable: "PROXY_UPSTREAM_IDLE_MS",
        default: "60000",
        meaning: "How long the upstream may pause within an answer.",
        set: |config, given| put(&mut config.upstream_idle_ms, given.whole_number(100..=3_600_000)),
    },
    Key {
        name: "max_timeout_seconds",
        variable: "PROXY_MAX_TIMEOUT_SECONDS",
        default: "600",
        meaning: "How long customers sign payments for: at least 90 seconds longer than `upstream_ms`. \
             Wallets may refuse more than 3600.",
        set: |config, given| put(&mut config.max_timeout_seconds, given.whole_number(60..=86_400)),
    },
    Key {
        name: "in_flight",
        variable: "PROXY_IN_FLIGHT",
        default: "1024",
        meaning: "How many paid requests are served at a time.",
        set: |config, given| put(&mut config.in_flight, given.whole_number(1..=65_536)),
    },
    Key {
        name: "answers_bytes",
        variable: "PROXY_ANSWERS_BYTES",
        default: "134217728",
        meaning: "Memory for answers that are not streams, at least 16777216: one half for 64 KiB of each \
             request in progress, the other for longer answers. Without room a request is refused before it pays.",
        set: |config, given| {
            let least = u64::try_from(MEMORY_BYTES_MIN).unwrap_or(u64::MAX);
            put(&mut config.answers_bytes, given.whole_number(least..=1 << 40))
        },
    },
    Key {
        name: "max_unpaid_usd_per_payer",
        variable: "PROXY_MAX_UNPAID_USD_PER_PAYER",
        default: "10",
        meaning: "The most that one payer may owe at any time, in dollars: the prices of unsettled \
             answers in progress, and of delivered answers whose settlement is pending.",
        set: |config, given| put(&mut config.unpaid.per_payer_max, unpaid_limit(given)),
    },
    Key {
        name: "max_unpaid_usd",
        variable: "PROXY_MAX_UNPAID_USD",
        default: "100",
        meaning: "The same for all payers together.",
        set: |config, given| put(&mut config.unpaid.total_max, unpaid_limit(given)),
    },
    Key {
        name: "rate_per_minute",
        variable: "PROXY_RATE_PER_MINUTE",
        default: "300",
        meaning: "Requests per minute from one client address; 0 sets no limit. Programs on this machine \
             have no limit.",
        set: |config, given| put(&mut config.rate_per_minute, given.whole_number(0..=1_000_000)),
    },
    Key {
        name: "trusted_proxies",
        variable: "PROXY_TRUSTED_PROXIES",
        default: "none",
        meaning: "IP addresses and CIDR ranges of proxies whose `X-Forwarded-For` is trusted.",
        set: |config, given| put(&mut config.trusted_proxies, given.ip_ranges()),
    },
    Key {
        name: "cors_origins",
        variable: "PROXY_CORS_ORIGINS",
        default: "none",
        meaning: "Origins whose pages may call the API from a browser and read prices and receipts, like \
             `https://app.example`; `*` for all.",
        set: |config, given| put(&mut config.cors_origins, origins(given)),
    },
    Key {
        name: "store",
        variable: "PROXY_STORE",
        default: "proxy.redb",
        meaning: "The file that stores payments and their answers.",
        set: |config, given| put(&mut config.store, given.path()),
    },
    Key {
        name: "drain_ms",
        variable: "PROXY_DRAIN_MS",
        default: "30000",
        meaning: "How long a stopping proxy waits for answers in progress, at most 600000.",
        set: |config, given| put(&mut config.drain_ms, given.whole_number(0..=600_000)),
    },
    Key {
        name: "log_format",
        variable: "PROXY_LOG_FORMAT",
        default: "text",
        meaning: "The format of log lines: `text` or `json`.",
        set: |config, given| put(&mut config.log_format, LogFormat::of(given)),
    },
];
