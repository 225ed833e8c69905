//! Settings. The environment overrides the TOML file, which overrides the built-in defaults. One table (`table`)
//! defines every key for file, environment and manual. The upstream's key comes from the environment or from its own
//! file, never from the settings file.

mod models;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::rpc::{ENDPOINTS_MAX, RpcConfig};
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_outbound::{HeaderValue, Plain, Target, TargetFault};
use bursar_serve::access::IpRanges;
use bursar_serve::logs::LogFormat;
use bursar_serve::settings::{
    ConfigFault, Environment, Wrong, filled_in, read_file, secret_text_of, set_from_environment,
    set_from_table,
};
use secrecy::SecretString;
use toml::Value;

use crate::offer::{Method, Terms};
use crate::price::{Rate, Rates};
use crate::unpaid::{Bounds, Dollars, SCALE};

pub use models::Model;
pub use table::reference;

/// The default upstream.
pub const DEFAULT_UPSTREAM: &str = "https://api.openai.com/v1";
/// The default facilitator: the operator's own, on this machine.
pub const DEFAULT_FACILITATOR: &str = "http://127.0.0.1:4402";
/// Default price per thousand tokens, in units of 10^-18 dollars: 0.001 dollars.
const DEFAULT_RATE: Rate = Rate(1_000_000_000_000_000);
/// Maximum length of a key, in bytes.
const SECRET_BYTES_MAX: usize = 4_096;

/// All settings.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub metrics_listen: Option<SocketAddr>,
    /// The public URL of the service. `None` uses the host of each request.
    pub public_url: Option<String>,
    pub store: PathBuf,
    pub upstream_url: Place,
    pub upstream_key: Option<SecretString>,
    pub upstream_key_file: Option<PathBuf>,
    pub facilitator_url: Place,
    pub facilitator_key: Option<SecretString>,
    pub facilitator_key_file: Option<PathBuf>,
    /// Nodes that must know a pending settlement's transaction, in order of use.
    pub rpc: Rpc,
    pub allow_plain_http: bool,
    pub wallet_address: Option<Address>,
    pub networks: Vec<&'static Network>,
    pub asset: Option<Address>,
    pub asset_decimals: Option<u8>,
    pub asset_name: Option<String>,
    pub asset_version: Option<String>,
    pub asset_method: Method,
    /// Price of models that are not in the table.
    pub price: Rate,
    pub models: BTreeMap<String, Model>,
    /// Whether models that are not in the table are sold. `None` means: only if there is no table.
    pub other_models: Option<bool>,
    pub default_model: Option<String>,
    pub completion_tokens: u64,
    pub max_completion_tokens: u64,
    pub max_prompt_tokens: u64,
    /// The member that carries the bound to the upstream.
    pub bound_field: &'static str,
    pub extra_fields: Vec<String>,
    pub body_bytes: usize,
    pub upstream_ms: u64,
    pub upstream_idle_ms: u64,
    pub max_timeout_seconds: u64,
    pub in_flight: usize,
    /// Limits on unpaid sales.
    pub unpaid: Bounds,
    pub rate_per_minute: u32,
    pub trusted_proxies: IpRanges,
    pub drain_ms: u64,
    pub log_format: LogFormat,
}

impl Default for Config {
    fn default() -> Self {
        let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            listen: here(4021),
            metrics_listen: Some(here(4022)),
            public_url: None,
            store: PathBuf::from("proxy.redb"),
            upstream_url: Place(DEFAULT_UPSTREAM.to_owned()),
            upstream_key: None,
            upstream_key_file: None,
            facilitator_url: Place(DEFAULT_FACILITATOR.to_owned()),
            facilitator_key: None,
            facilitator_key_file: None,
            rpc: Rpc::Default,
            allow_plain_http: false,
            wallet_address: None,
            networks: by_chain(ChainId(8453)).into_iter().collect(),
            asset: None,
            asset_decimals: None,
            asset_name: None,
            asset_version: None,
            asset_method: Method::Eip3009,
            price: DEFAULT_RATE,
            models: BTreeMap::new(),
            other_models: None,
            default_model: None,
            completion_tokens: 1_024,
            max_completion_tokens: 32_768,
            max_prompt_tokens: 131_072,
            bound_field: "max_completion_tokens",
            extra_fields: Vec::new(),
            body_bytes: 1 << 20,
            upstream_ms: 300_000,
            upstream_idle_ms: 60_000,
            max_timeout_seconds: 600,
            in_flight: 1_024,
            unpaid: Bounds { per_payer: dollars(10), total: dollars(100) },
            rate_per_minute: 300,
            trusted_proxies: IpRanges::default(),
            drain_ms: 30_000,
            log_format: LogFormat::Text,
        }
    }
}

/// Converts whole dollars to [`Dollars`].
fn dollars(whole: u64) -> Dollars {
    let unit = U256::from(10).saturating_pow(U256::from(SCALE));
    U256::from(whole).saturating_mul(unit)
}

/// The nodes to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rpc {
    /// The public nodes in each network's row.
    Default,
    /// No nodes: pending settlements are not accepted.
    Off,
    /// The operator's nodes, each for the network that it names, or for the only one.
    Nodes(Vec<(Option<ChainId>, Place)>),
}

/// A URL from the settings. It may contain a key, so `Debug` redacts it.
#[derive(Clone, PartialEq, Eq)]
pub struct Place(pub(crate) String);

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place([redacted])")
    }
}

/// Why settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error(transparent)]
    Config(#[from] ConfigFault),
    #[error("{key}: {why}.")]
    Key { key: &'static str, why: String },
}

impl Config {
    /// Reads the file, if one is named, and the environment. Relative paths are relative to the folder of the file,
    /// or to the working folder without a file.
    ///
    /// # Errors
    /// The first invalid key and its source.
    pub fn load(file: Option<&Path>, env: Environment<'_>) -> Result<Self, Unusable> {
        let mut config = Self::default();
        if let Some(file) = file {
            config.apply_file(file)?;
        }
        set_from_environment(table::SERVICE, &mut config, "", env)?;
        if let Some(folder) = file.and_then(Path::parent) {
            config.place_paths(folder);
        }
        config.read_secrets(env)?;
        config.fits()?;
        Ok(config)
    }

    fn apply_file(&mut self, file: &Path) -> Result<(), ConfigFault> {
        let mut keys = read_file(file)?;
        let models = keys.remove("models");
        set_from_table(table::SERVICE, self, "", &keys).map_err(|wrong| wrong.within(file))?;
        match models {
            None => Ok(()),
            Some(Value::Table(models)) => {
                self.models = models::read(&models).map_err(|wrong| wrong.within(file))?;
                Ok(())
            }
            Some(_other) => {
                let why = "write a table for each model, like [models.\"gpt-4o-mini\"]".to_owned();
                Err(Wrong { key: "models".to_owned(), why }.within(file))
            }
        }
    }

    fn place_paths(&mut self, folder: &Path) {
        // Joining an absolute path replaces the folder.
        let place = |path: &mut PathBuf| *path = folder.join(&*path);
        place(&mut self.store);
        self.upstream_key_file.iter_mut().for_each(place);
        self.facilitator_key_file.iter_mut().for_each(place);
    }

    fn read_secrets(&mut self, env: Environment<'_>) -> Result<(), Unusable> {
        self.upstream_key = secret(env, "UPSTREAM_API_KEY", self.upstream_key_file.as_deref())?;
        self.facilitator_key =
            secret(env, "FACILITATOR_API_KEY", self.facilitator_key_file.as_deref())?;
        Ok(())
    }

    /// Checks settings that depend on each other.
    fn fits(&self) -> Result<(), Unusable> {
        let wrong = |key, why: &str| Err(Unusable::Key { key, why: why.to_owned() });
        let Some(pay_to) = self.wallet_address else {
            return wrong("WALLET_ADDRESS", "set it to the address that receives the payments");
        };
        self.upstream()?;
        self.facilitator()?;
        let one = self.networks.len() == 1;
        self.nodes()?;
        if self.asset.is_some() && !one {
            return wrong("ASSET", "an asset is on one network: set NETWORK to one");
        }
        for terms in self.terms()? {
            if pay_to == terms.asset {
                return wrong(
                    "WALLET_ADDRESS",
                    "it is the token contract, which would keep the money",
                );
            }
        }
        let seconds = self.upstream_ms.div_ceil(1_000).saturating_add(SETTLING_SECONDS);
        if self.max_timeout_seconds < seconds {
            let why = format!(
                "payments would expire before their answers: set it to {seconds} or more, or lower upstream_ms"
            );
            return Err(Unusable::Key { key: "max_timeout_seconds", why });
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
    pub fn upstream(&self) -> Result<Target, Unusable> {
        target("UPSTREAM_URL", &self.upstream_url.0, self.plain())
    }

    /// Returns the facilitator's URL.
    ///
    /// # Errors
    /// The URL is invalid or not allowed.
    pub fn facilitator(&self) -> Result<Target, Unusable> {
        target("FACILITATOR_URL", &self.facilitator_url.0, self.plain())
    }

    /// Returns the nodes of each network that has any.
    ///
    /// # Errors
    /// A URL is invalid or not allowed, or its network is not in `NETWORK`, or a network has too many nodes.
    pub fn nodes(&self) -> Result<Vec<RpcConfig>, Unusable> {
        let wrong = |why: &str| Err(Unusable::Key { key: "RPC_URL", why: why.to_owned() });
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
                    return wrong("a node's network is not in NETWORK: leave it out");
                }
                None | Some(_) => {}
            }
            target("RPC_URL", &url.0, self.plain())?;
        }
        let mut all = Vec::with_capacity(self.networks.len());
        for network in &self.networks {
            let is_its = |chain: &Option<ChainId>| chain.is_none_or(|chain| chain == network.chain);
            let own =
                named.iter().filter(|(chain, _url)| is_its(chain)).map(|(_, url)| url.0.clone());
            let mut urls: Vec<String> = own.collect();
            if urls.is_empty() {
                urls = network.rpc.iter().map(|url| (*url).to_owned()).collect();
            }
            if urls.len() > ENDPOINTS_MAX {
                return wrong("a network has too many nodes: list at most 8");
            }
            if !urls.is_empty() {
                all.push(RpcConfig::new(network.chain, urls).over(self.plain()));
            }
        }
        Ok(all)
    }

    fn plain(&self) -> Plain {
        Plain::allowed(self.allow_plain_http)
    }

    /// Returns the terms that all offers of a network share, one entry per network.
    ///
    /// # Errors
    /// The asset is not the network's dollar token, and a setting that describes it is missing.
    pub fn terms(&self) -> Result<Vec<Arc<Terms>>, Unusable> {
        let all = self.networks.iter().map(|network| self.terms_on(network));
        all.collect()
    }

    fn terms_on(&self, network: &'static Network) -> Result<Arc<Terms>, Unusable> {
        let coin = &network.stablecoin;
        let asset = self.asset.unwrap_or(coin.address);
        let known = asset == coin.address;
        let missing = |key, what: &str| {
            let why = format!("the asset is not the network's dollar token: set its {what}");
            Unusable::Key { key, why }
        };
        let decimals = self.asset_decimals.or(known.then_some(coin.decimals));
        let text = |set: &Option<String>, usual: &str| {
            set.clone().or_else(|| known.then(|| usual.to_owned()))
        };
        let (name, version) = match self.asset_method {
            // Permit2 signs in its own EIP-712 domain.
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

    /// Returns the settings of a model, or `None` if it is not sold. The name is `None` if the request names no
    /// model.
    pub fn model(&self, name: Option<&str>) -> Option<Model> {
        if let Some(model) = name.and_then(|name| self.models.get(name)) {
            return Some(model.clone());
        }
        // If no model is named, the upstream chooses one.
        let others = self.other_models.unwrap_or(self.models.is_empty());
        others.then(|| Model::of(Rates::flat(self.price)))
    }

    /// Returns the upstream's key as a header.
    ///
    /// # Errors
    /// The key contains characters that a header cannot have.
    pub fn upstream_header(&self) -> Result<Option<HeaderValue>, Unusable> {
        bearer("UPSTREAM_API_KEY", self.upstream_key.as_ref())
    }

    /// Returns the facilitator's key as a header.
    ///
    /// # Errors
    /// The key contains characters that a header cannot have.
    pub fn facilitator_header(&self) -> Result<Option<HeaderValue>, Unusable> {
        bearer("FACILITATOR_API_KEY", self.facilitator_key.as_ref())
    }
}

/// Seconds that a payment must outlast the longest answer: for settlement and clock differences.
pub const SETTLING_SECONDS: u64 = 90;

/// Formats a key as a bearer header.
fn bearer(
    key: &'static str,
    secret: Option<&SecretString>,
) -> Result<Option<HeaderValue>, Unusable> {
    use secrecy::ExposeSecret;
    let Some(secret) = secret else { return Ok(None) };
    let value = HeaderValue::from_str(&format!("Bearer {}", secret.expose_secret()));
    let mut value = value.map_err(|_shows_it| {
        let why = "it contains characters that a header cannot have: copy it again".to_owned();
        Unusable::Key { key, why }
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn target(key: &'static str, url: &str, plain: Plain) -> Result<Target, Unusable> {
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
        Unusable::Key { key, why }
    })
}

/// Reads a key from the environment, or else from its file.
fn secret(
    env: Environment<'_>,
    variable: &'static str,
    file: Option<&Path>,
) -> Result<Option<SecretString>, Unusable> {
    let text = match (filled_in(env, variable), file) {
        (Some(text), _) => text,
        (None, Some(file)) => secret_text_of(file)?,
        (None, None) => return Ok(None),
    };
    let text = text.trim();
    if text.is_empty() || text.len() > SECRET_BYTES_MAX {
        let why = "it is empty or too long for a key".to_owned();
        return Err(Unusable::Key { key: variable, why });
    }
    let secret = SecretString::from(text.to_owned());
    bearer(variable, Some(&secret))?;
    Ok(Some(secret))
}

#[cfg(test)]
mod tests;
