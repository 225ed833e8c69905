//! Settings. The environment overrides the TOML file, which overrides the built-in defaults. `table` defines the keys
//! of the service for file, environment and manual; `models` defines the keys of each model. The API keys of upstream
//! and facilitator come from the environment or from their own files, never from the settings file.

mod models;
mod table;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_chain::rpc::{ENDPOINTS_MAX, RpcConfig};
use bursar_core::networks::{ChainId, Network};
use bursar_outbound::{HeaderValue, PlainHttpHosts, Target, TargetFault};
use bursar_serve::settings::{
    ConfigFault, Environment, InvalidKey, non_blank, read_file, read_secret_text,
    set_from_environment, set_from_table,
};
use secrecy::SecretString;
use toml::Value;

use crate::offer::{Method, Terms};
use crate::price::Rates;

pub use models::Model;
pub use table::reference;
pub use values::{
    Config, CorsOrigins, DEFAULT_FACILITATOR, DEFAULT_UPSTREAM, Rpc, SecretUrl, SettingsFault,
};

/// Maximum length of an API key, in bytes.
const SECRET_BYTES_MAX: usize = 4_096;

impl Config {
    /// Reads the settings from the file, if one is named, and from the environment.
    ///
    /// Relative paths are relative to the folder of the file, or to the working folder without a file.
    ///
    /// # Errors
    /// The first problem found: a file cannot be read, or a setting is invalid.
    pub fn load(file: Option<&Path>, env: Environment<'_>) -> Result<Self, SettingsFault> {
        let mut config = Self::default();
        if let Some(file) = file {
            config.apply_file(file)?;
        }
        set_from_environment(table::SERVICE, &mut config, "", env)?;
        if let Some(folder) = file.and_then(Path::parent) {
            config.resolve_paths(folder);
        }
        config.read_secrets(env)?;
        config.validate()?;
        Ok(config)
    }

    fn apply_file(&mut self, file: &Path) -> Result<(), ConfigFault> {
        let mut keys = read_file(file)?;
        let models = keys.remove("models");
        set_from_table(table::SERVICE, self, "", &keys).map_err(|wrong| wrong.in_file(file))?;
        match models {
            None => Ok(()),
            Some(Value::Table(models)) => {
                self.models = models::read(&models).map_err(|wrong| wrong.in_file(file))?;
                Ok(())
            }
            Some(_other) => {
                let why = "write a table for each model, like [models.\"gpt-4o-mini\"]".to_owned();
                Err(InvalidKey { key: "models".to_owned(), why }.in_file(file))
            }
        }
    }

    fn resolve_paths(&mut self, folder: &Path) {
        // Joining an absolute path replaces the folder.
        let resolve = |path: &mut PathBuf| *path = folder.join(&*path);
        resolve(&mut self.store);
        self.upstream_key_file.iter_mut().for_each(resolve);
        self.facilitator_key_file.iter_mut().for_each(resolve);
    }

    fn read_secrets(&mut self, env: Environment<'_>) -> Result<(), SettingsFault> {
        self.upstream_key = secret(env, "UPSTREAM_API_KEY", self.upstream_key_file.as_deref())?;
        self.facilitator_key =
            secret(env, "FACILITATOR_API_KEY", self.facilitator_key_file.as_deref())?;
        Ok(())
    }

    /// Checks required settings, URLs, and settings that depend on each other.
    fn validate(&self) -> Result<(), SettingsFault> {
        let wrong = |key, why: &str| Err(SettingsFault::Key { key, why: why.to_owned() });
        let Some(pay_to) = self.wallet_address else {
            return wrong("WALLET_ADDRESS", "set it to the address that receives the payments");
        };
        self.upstream()?;
        self.facilitator()?;
        let one = self.networks.len() == 1;
        self.nodes()?;
        if self.asset.is_some() && !one {
            return wrong("ASSET", "an asset is on one network: set NETWORK to that network");
        }
        for terms in self.terms()? {
            if pay_to == terms.asset {
                return wrong(
                    "WALLET_ADDRESS",
                    "it is the token contract, which would keep the money",
                );
            }
        }
        let seconds = self.upstream_ms.div_ceil(1_000).saturating_add(SETTLING_SECONDS_MIN);
        if self.max_timeout_seconds < seconds {
            let why = format!(
                "payments would expire before their answers: set it to {seconds} or more, or lower upstream_ms"
            );
            return Err(SettingsFault::Key { key: "max_timeout_seconds", why });
        }
        if self.completion_tokens > self.max_completion_tokens {
            return wrong("completion_tokens", "it is more than max_completion_tokens");
        }
        if let Some(model) = &self.default_model
            && self.model(Some(model)).is_none()
        {
            return wrong("default_model", "it is not sold: add it to the table of models");
        }
        Ok(())
    }

    /// Returns the upstream's URL.
    ///
    /// # Errors
    /// The URL is invalid or not allowed.
    pub fn upstream(&self) -> Result<Target, SettingsFault> {
        target("UPSTREAM_URL", &self.upstream_url.0, self.plain_http_hosts())
    }

    /// Returns the facilitator's URL.
    ///
    /// # Errors
    /// The URL is invalid or not allowed.
    pub fn facilitator(&self) -> Result<Target, SettingsFault> {
        target("FACILITATOR_URL", &self.facilitator_url.0, self.plain_http_hosts())
    }

    /// Returns the nodes of each network that has any.
    ///
    /// # Errors
    /// A URL is invalid or not allowed, or its network is not in `NETWORK`, or a network has too many nodes.
    pub fn nodes(&self) -> Result<Vec<RpcConfig>, SettingsFault> {
        let wrong = |why: &str| Err(SettingsFault::Key { key: "RPC_URL", why: why.to_owned() });
        let one = self.networks.len() == 1;
        let named = match &self.rpc {
            Rpc::Off => return Ok(Vec::new()),
            Rpc::Default => &[][..],
            Rpc::Nodes(named) => named,
        };
        for (chain, url) in named {
            match chain {
                None if !one => {
                    return wrong(
                        "there are several networks: write eip155:<id>=<URL> for each node",
                    );
                }
                Some(chain) if !self.networks.iter().any(|row| row.chain == *chain) => {
                    return wrong("the network of a node is not in NETWORK: remove that node");
                }
                None | Some(_) => {}
            }
            target("RPC_URL", &url.0, self.plain_http_hosts())?;
        }
        let mut all = Vec::with_capacity(self.networks.len());
        for network in &self.networks {
            let is_for_network =
                |chain: &Option<ChainId>| chain.is_none_or(|chain| chain == network.chain);
            let own = named
                .iter()
                .filter(|(chain, _url)| is_for_network(chain))
                .map(|(_, url)| url.0.clone());
            let mut urls: Vec<String> = own.collect();
            if urls.is_empty() {
                urls = network.rpc.iter().map(|url| (*url).to_owned()).collect();
            }
            if urls.len() > ENDPOINTS_MAX {
                return wrong("a network has too many nodes: list at most 8");
            }
            if !urls.is_empty() {
                all.push(
                    RpcConfig::new(network.chain, urls).with_plain_http(self.plain_http_hosts()),
                );
            }
        }
        Ok(all)
    }

    fn plain_http_hosts(&self) -> PlainHttpHosts {
        PlainHttpHosts::from_setting(self.allow_plain_http)
    }

    /// Returns the terms that all offers of a network share, one entry per network.
    ///
    /// # Errors
    /// The asset is not the network's dollar token, and a setting that describes it is missing.
    pub fn terms(&self) -> Result<Vec<Arc<Terms>>, SettingsFault> {
        let all = self.networks.iter().map(|network| self.terms_on(network));
        all.collect()
    }

    fn terms_on(&self, network: &'static Network) -> Result<Arc<Terms>, SettingsFault> {
        let coin = &network.stablecoin;
        let asset = self.asset.unwrap_or(coin.address);
        let known = asset == coin.address;
        let missing = |key, what: &str| {
            let why = format!("the asset is not the network's dollar token: set its {what}");
            SettingsFault::Key { key, why }
        };
        let decimals = self.asset_decimals.or(known.then_some(coin.decimals));
        let text = |set: &Option<String>, usual: &str| {
            set.clone().or_else(|| known.then(|| usual.to_owned()))
        };
        let (name, version) = match self.asset_method {
            // Permit2 has its own EIP-712 domain, so the token's name and version are unused.
            Method::Permit2 => (String::new(), String::new()),
            Method::Eip3009 => (
                text(&self.asset_name, coin.domain_name)
                    .ok_or_else(|| missing("asset_name", "EIP-712 name"))?,
                text(&self.asset_version, coin.domain_version)
                    .ok_or_else(|| missing("asset_version", "EIP-712 version"))?,
            ),
        };
        Ok(Arc::new(Terms {
            network,
            asset,
            decimals: decimals.ok_or_else(|| missing("asset_decimals", "decimals"))?,
            pay_to: self.wallet_address.unwrap_or_default(),
            method: self.asset_method,
            name,
            version,
            max_timeout_seconds: self.max_timeout_seconds,
        }))
    }

    /// Returns the settings of a model, or `None` if it is not sold.
    ///
    /// `name` is `None` if neither the request nor `default_model` names a model.
    pub fn model(&self, name: Option<&str>) -> Option<Model> {
        if let Some(model) = name.and_then(|name| self.models.get(name)) {
            return Some(model.clone());
        }
        // If a request names no model, the upstream chooses one, so the settings of unlisted models apply.
        let others = self.other_models.unwrap_or(self.models.is_empty());
        others.then(|| Model::of(Rates::flat(self.price)))
    }

    /// Returns the upstream's key as a header.
    ///
    /// # Errors
    /// The key contains characters that a header cannot have.
    pub fn upstream_authorization(&self) -> Result<Option<HeaderValue>, SettingsFault> {
        bearer("UPSTREAM_API_KEY", self.upstream_key.as_ref())
    }

    /// Returns the facilitator's key as a header.
    ///
    /// # Errors
    /// The key contains characters that a header cannot have.
    pub fn facilitator_authorization(&self) -> Result<Option<HeaderValue>, SettingsFault> {
        bearer("FACILITATOR_API_KEY", self.facilitator_key.as_ref())
    }
}

/// Minimum by which `max_timeout_seconds` must exceed the time of the longest answer, for signing, settlement and clock
/// differences.
pub const SETTLING_SECONDS_MIN: u64 = 90;

/// Formats a key as a bearer header.
fn bearer(
    key: &'static str,
    secret: Option<&SecretString>,
) -> Result<Option<HeaderValue>, SettingsFault> {
    use secrecy::ExposeSecret;
    let Some(secret) = secret else { return Ok(None) };
    let value = HeaderValue::from_str(&format!("Bearer {}", secret.expose_secret()));
    let mut value = value.map_err(|_shows_it| {
        let why = "it contains characters that a header cannot have: copy it again".to_owned();
        SettingsFault::Key { key, why }
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn target(key: &'static str, url: &str, plain: PlainHttpHosts) -> Result<Target, SettingsFault> {
    Target::parse(url, plain).map_err(|fault| {
        let why = match fault {
            TargetFault::NotAUrl => "it is not a valid URL: write it in full".to_owned(),
            TargetFault::Scheme(_) => "it must begin with https:// or http://".to_owned(),
            TargetFault::UserInfo(_) => "leave out the part before the @".to_owned(),
            TargetFault::PlainHttp(label) => format!(
                "{label} would be called without encryption: use https. allow_plain_http allows http to \
                 private addresses only"
            ),
        };
        SettingsFault::Key { key, why }
    })
}

/// Reads a key from the environment, or else from its file.
fn secret(
    env: Environment<'_>,
    variable: &'static str,
    file: Option<&Path>,
) -> Result<Option<SecretString>, SettingsFault> {
    let text = match (non_blank(env, variable), file) {
        (Some(text), _) => text,
        (None, Some(file)) => read_secret_text(file)?,
        (None, None) => return Ok(None),
    };
    let text = text.trim();
    if text.is_empty() || text.len() > SECRET_BYTES_MAX {
        let why = "it is empty or too long for a key".to_owned();
        return Err(SettingsFault::Key { key: variable, why });
    }
    let secret = SecretString::from(text.to_owned());
    bearer(variable, Some(&secret))?;
    Ok(Some(secret))
}

#[cfg(test)]
mod tests;
