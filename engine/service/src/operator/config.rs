//! The command `config …`. Settings that may loosen a protection are in the journal, and the core decides them. The
//! others are in `settings.toml`.

mod values;

use std::sync::Arc;

use bursar_chain::ports::EndpointLabel;
use bursar_chain::registry_http;
use bursar_control::answers::{Answer, SettingAnswer, Warning};
use bursar_control::grammar::ConfigOrder;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::{ChainId, NETWORKS};
use bursar_core::settings::Setting;
use bursar_core::settings::keys::{Key, Storage};
use bursar_domain::{Action, State};
use serde_json::{Value, json};
use url::Url;

use super::dry_run::announce;
use super::support::{Done, act};
use crate::config::{Config, Source};
use crate::context::EngineContext;
use crate::endpoints;

pub(super) async fn run(engine: &Arc<EngineContext>, order: ConfigOrder) -> Result<Done, Fault> {
    if let ConfigOrder::Get { key, .. }
    | ConfigOrder::Explain { key: Some(key), .. }
    | ConfigOrder::Set { key, .. } = &order
    {
        require_known(engine, *key)?;
    }
    match order {
        ConfigOrder::Get { key, reveal } | ConfigOrder::Explain { key: Some(key), reveal } => {
            Ok(Answer::Setting(SettingsView::current(engine).setting(key, reveal)).into())
        }
        ConfigOrder::Set { key, value } => set(engine, key, &value).await,
        ConfigOrder::List => Ok(all(engine, false)),
        ConfigOrder::Explain { key: None, reveal } => Ok(all(engine, reveal)),
    }
}

/// Returns whether the edition has a setting: not those of networks that it does not know.
fn is_known(engine: &EngineContext, key: Key) -> bool {
    key.network().is_none_or(|chain| engine.edition.rules.knows(chain))
}

fn require_known(engine: &EngineContext, key: Key) -> Result<(), Fault> {
    if is_known(engine, key) {
        return Ok(());
    }
    let why = format!("{key}: this edition does not know the network: see `network list`.");
    Err(Fault::because(Code::NothingFound, why))
}

fn all(engine: &EngineContext, reveal: bool) -> Done {
    let now = SettingsView::current(engine);
    let settings = Key::all()
        .into_iter()
        .filter(|key| is_known(engine, *key))
        .map(|key| now.setting(key, reveal))
        .collect();
    Answer::Settings { settings }.into()
}

/// Sets one key to the value parsed from `words`.
pub(super) async fn set(
    engine: &Arc<EngineContext>,
    key: Key,
    words: &[String],
) -> Result<Done, Fault> {
    let given = values::ParsedValue::parse(key, words);
    let given = given.map_err(|why| Fault::because(Code::BadInput, format!("{key}: {why}.")))?;
    let (was, _missing) = SettingsView::current(engine).value(key, false);
    match (key, &given) {
        (Key::Rate, values::ParsedValue::Number(0)) => {
            act(engine, Action::Set(Setting::RateLimitOff(true))).await?;
        }
        (Key::Rate, _) => {
            set_in_file(engine, key, &given, words).await?;
            act(engine, Action::Set(Setting::RateLimitOff(false))).await?;
        }
        (Key::NetworkEnabled(chain), _) => {
            let by_edition = || engine.edition.rules.enables(chain);
            let enabled = given.switch().unwrap_or_else(by_edition);
            act(engine, Action::SetNetwork { chain, enabled }).await?;
        }
        _other => match key.row().storage {
            Storage::File => set_in_file(engine, key, &given, words).await?,
            Storage::Journal => {
                let mut setting = given.setting(key).ok_or(Fault::new(Code::InternalError))?;
                if let Setting::Registry(Some(url)) = &mut setting {
                    let refused = |fault| Fault::because(Code::BadInput, format!("{fault}."));
                    *url = registry_http::normalized_base(url).map_err(refused)?;
                }
                act(engine, Action::Set(setting)).await?;
                if key == Key::AllowLan {
                    engine.follow_exposure().await?;
                }
            }
        },
    }
    let answer =
        SettingAnswer { was: Some(was), ..SettingsView::current(engine).setting(key, false) };
    Ok(Done {
        answer: Answer::Setting(answer),
        warnings: warnings(engine, key).await,
        secret: None,
    })
}

async fn set_in_file(
    engine: &Arc<EngineContext>,
    key: Key,
    given: &values::ParsedValue,
    words: &[String],
) -> Result<(), Fault> {
    let change = engine.settings.change(key, given.in_file().as_ref()).await?;
    // Check the endpoints before anything is written.
    let mut fresh = Vec::new();
    for chain in change.after.rpc.keys() {
        let of = |config: &Config| {
            (config.rpc.get(chain).cloned(), config.submit_rpc.get(chain).cloned())
        };
        if of(&change.before) != of(&change.after) {
            let to = endpoints::chain(&change.after, *chain, &engine.ports.clock)?;
            fresh.push((*chain, to));
        }
    }
    let mut explorers = Vec::new();
    for row in NETWORKS {
        if change.before.explorer.get(&row.chain) != change.after.explorer.get(&row.chain) {
            explorers.push((row.chain, endpoints::explorer(&change.after, row.chain)?));
        }
    }
    let prices = (change.before.prices != change.after.prices)
        .then(|| endpoints::prices(&change.after))
        .transpose()?;
    announce(|| {
        let (was, _missing) = SettingsView::current(engine).value(key, false);
        format!("settings.toml: {key} {was} -> {}", words.join(" "))
    })?;
    change.make()?;
    for (chain, to) in fresh {
        engine.ports.chains.set(chain, to);
    }
    for (chain, to) in explorers {
        engine.ports.explorers.set(chain, to);
    }
    if let Some(to) = prices {
        engine.ports.prices.set(to);
    }
    Ok(())
}

/// Returns warnings if the new value is not in effect now.
async fn warnings(engine: &Arc<EngineContext>, key: Key) -> Vec<Warning> {
    let warning = |code: &str, message: String| Warning { code: code.to_owned(), message };
    let mut warnings = Vec::new();
    match engine.settings.get().source(key) {
        Source::Environment => warnings.push(warning(
            "OVERRULED",
            format!("{} overrides settings.toml, so its value stays in effect.", key.variable()),
        )),
        Source::Argument => warnings.push(warning(
            "OVERRULED",
            "The engine was started with --listen, which overrides settings.toml.".to_owned(),
        )),
        Source::Default | Source::File => {}
    }
    let kept_by_server = match key {
        Key::Listen => true,
        Key::Rate
        | Key::Hosts
        | Key::LanBearer
        | Key::AllowLan
        | Key::SignatureWindow
        | Key::VerifySettlements
        | Key::Autostart
        | Key::NetworkEnabled(_)
        | Key::NetworkRpc(_)
        | Key::NetworkSubmitRpc(_)
        | Key::NetworkExplorer(_)
        | Key::PricesUrl
        | Key::RegistryUrl
        | Key::MaxValidity
        | Key::IdleLock
        | Key::UnattendedDaily
        | Key::ConfirmTypingAbove
        | Key::ConsoleNotify
        | Key::ConsoleTime
        | Key::ConsolePalette
        | Key::Icons => false,
    };
    if kept_by_server && engine.server.lock().await.is_some() {
        warnings.push(warning(
            "RESTART_SERVER",
            "The agent server still uses the old value: run `server stop`, then `server start`."
                .to_owned(),
        ));
    }
    warnings
}

/// The settings of the file and of the journal, read together.
struct SettingsView {
    config: Arc<Config>,
    state: State,
}

impl SettingsView {
    fn current(engine: &EngineContext) -> Self {
        Self { config: engine.settings.get(), state: engine.core.view().state.clone() }
    }

    fn setting(&self, key: Key, reveal: bool) -> SettingAnswer {
        let (value, missing) = self.value(key, reveal);
        let row = key.row();
        SettingAnswer {
            key: key.to_string(),
            value_unknown_reason: value.is_null().then(|| missing.to_owned()),
            value,
            was: None,
            source: self.source(key).to_owned(),
            default: row.default.to_owned(),
            help: row.help.to_owned(),
            accepts: row.kind.accepted_values().to_owned(),
            stored_in: row.storage.text().to_owned(),
            variable: (row.storage == Storage::File).then(|| key.variable()),
        }
    }

    /// Returns the value, and the reason to show if it is null.
    fn value(&self, key: Key, reveal: bool) -> (Value, &'static str) {
        let (config, settings) = (&self.config, &self.state.settings);
        let url = |url: &Url| shown_url(url, reveal);
        let value = match key {
            Key::Listen => json!(config.listen.to_string()),
            Key::Rate if settings.rate_limit_off => json!(0),
            Key::Rate => json!(config.rate_per_minute),
            Key::Hosts => json!(settings.hosts),
            Key::LanBearer => json!(settings.lan_bearer.text()),
            Key::AllowLan => json!(settings.allow_lan),
            Key::SignatureWindow => json!(config.signature_window_s),
            Key::Autostart => json!(config.autostart),
            Key::NetworkEnabled(chain) => json!(self.state.is_network_enabled(chain)),
            Key::NetworkRpc(chain) => json!(self.rpc(chain).iter().map(url).collect::<Vec<_>>()),
            Key::NetworkSubmitRpc(chain) => {
                let urls = config.submit_rpc.get(&chain);
                let shown = urls.map(|urls| urls.iter().map(url).collect::<Vec<_>>());
                return (json!(shown), "transactions are sent to the endpoints of rpc");
            }
            Key::NetworkExplorer(chain) => {
                return (json!(config.explorer.get(&chain).map(url)), "none is set");
            }
            Key::PricesUrl => {
                return (
                    json!(config.prices.as_ref().map(url)),
                    "trades that give or get ETH ask you",
                );
            }
            Key::RegistryUrl => {
                let registry = settings.registry.as_deref().and_then(|text| text.parse().ok());
                return (json!(registry.as_ref().map(url)), "mandates are not published");
            }
            Key::MaxValidity => json!(settings.max_validity_s),
            Key::IdleLock => settings.idle_lock_s.map_or(json!("off"), |seconds| json!(seconds)),
            Key::UnattendedDaily => {
                let amount = settings.unattended_daily.map(|amount| amount.to_string());
                json!(amount.unwrap_or_else(|| "off".to_owned()))
            }
            Key::VerifySettlements => json!(config.verify_settlements),
            Key::ConsoleNotify => json!(config.notices.text()),
            Key::ConsoleTime => json!(config.console_time.text()),
            Key::ConsolePalette => json!(config.console_palette.text()),
            Key::Icons => json!(config.icons),
            Key::ConfirmTypingAbove => {
                let amount = settings.confirm_typing_above.map(|amount| amount.to_string());
                return (json!(amount), "a tenth of the policy's largest payment, at least 5");
            }
        };
        (value, "")
    }

    fn rpc(&self, chain: ChainId) -> &[Url] {
        self.config.rpc.get(&chain).map_or(&[], Vec::as_slice)
    }

    fn source(&self, key: Key) -> &'static str {
        let settings = &self.state.settings;
        let default = bursar_core::settings::Settings::default();
        let journal = |is_set: bool| if is_set { "journal" } else { "default" };
        match key {
            Key::Rate if settings.rate_limit_off => "journal",
            Key::Hosts => journal(settings.hosts != default.hosts),
            Key::LanBearer => journal(settings.lan_bearer != default.lan_bearer),
            Key::AllowLan => journal(settings.allow_lan),
            Key::RegistryUrl => journal(settings.registry.is_some()),
            Key::MaxValidity => journal(settings.max_validity_s != default.max_validity_s),
            Key::IdleLock => journal(settings.idle_lock_s.is_some()),
            Key::UnattendedDaily => journal(settings.unattended_daily.is_some()),
            Key::ConfirmTypingAbove => journal(settings.confirm_typing_above.is_some()),
            Key::NetworkEnabled(chain) => journal(self.state.networks.contains_key(&chain)),
            Key::Listen
            | Key::Rate
            | Key::SignatureWindow
            | Key::Autostart
            | Key::NetworkRpc(_)
            | Key::NetworkSubmitRpc(_)
            | Key::NetworkExplorer(_)
            | Key::PricesUrl
            | Key::VerifySettlements
            | Key::ConsoleNotify
            | Key::ConsoleTime
            | Key::ConsolePalette
            | Key::Icons => self.config.source(key).text(),
        }
    }
}

/// Formats a URL. Without `reveal`, shows only scheme, host and port: path and query often contain API keys.
fn shown_url(url: &Url, reveal: bool) -> String {
    if reveal { url.to_string() } else { EndpointLabel::of(url).as_str().to_owned() }
}
