//! Loads the settings from the file and the environment, and checks them.

use std::path::{Path, PathBuf};

use bursar_core::networks::ChainId;
use bursar_serve::access::add_key_file;
use bursar_serve::settings::{ConfigFault, Environment, non_blank, set_from_environment};

use crate::config::file;
use crate::config::settings::Config;
use crate::config::table::network::NETWORK;
use crate::config::table::service::SERVICE;
use crate::config::table::suffix;

impl Config {
    /// Reads the settings from the file, if there is one, and from the environment.
    ///
    /// Relative paths are relative to the folder of the file, or without a file to the working folder.
    ///
    /// # Errors
    /// The first key that is invalid, and where it is set.
    pub fn load(file: Option<&Path>, env: Environment<'_>) -> Result<Self, ConfigFault> {
        let mut config = Self::default();
        if let Some(file) = file {
            file::apply(&mut config, file)?;
        }
        config.apply_environment(env)?;
        if let Some(folder) = file.and_then(Path::parent) {
            config.resolve_paths(folder);
        }
        config.read_api_keys_file()?;
        config.check()?;
        Ok(config)
    }

    fn apply_environment(&mut self, env: Environment<'_>) -> Result<(), ConfigFault> {
        let variable = "DATABASE_URL".to_owned();
        if non_blank(env, &variable).is_some() {
            let why = "PostgreSQL is not supported: unset it, and set FACILITATOR_STORE to a file";
            return Err(ConfigFault::Variable { variable, why: why.to_owned() });
        }
        set_from_environment(SERVICE, self, "", env)?;
        for (chain, network) in &mut self.networks {
            set_from_environment(NETWORK, network, &suffix(*chain), env)?;
        }
        Ok(())
    }

    fn resolve_paths(&mut self, folder: &Path) {
        // Joining an absolute path returns it unchanged.
        let resolve = |path: &mut PathBuf| *path = folder.join(&*path);
        resolve(&mut self.store);
        self.api_keys_file.iter_mut().for_each(resolve);
        for network in self.networks.values_mut() {
            network.signers.iter_mut().for_each(resolve);
            network.retired_signers.iter_mut().for_each(resolve);
            network.authorizer.iter_mut().for_each(resolve);
            network.password_file.iter_mut().for_each(resolve);
        }
    }

    /// Checks keys that depend on each other.
    fn check(&self) -> Result<(), ConfigFault> {
        for (chain, network) in &self.networks {
            if network.is_configured() && network.authorizer.is_some() {
                self.check_receivers(*chain)?;
            }
            if network.upto_facilitator.is_some() && !network.upto_contracts.is_empty() {
                let variable = format!("UPTO_FACILITATOR{}", suffix(*chain));
                let why = "payers name either upto_facilitator or the first of upto_contracts: keep one of the two"
                    .to_owned();
                return Err(ConfigFault::Variable { variable, why });
            }
            let lacks_price =
                network.max_gas_share_percent.is_some() && network.native_micro_usd.is_none();
            if network.is_configured() && lacks_price {
                let variable = format!("NATIVE_USD{}", suffix(*chain));
                let why =
                    "max_gas_share_percent needs native_usd: set the price of the coin".to_owned();
                return Err(ConfigFault::Variable { variable, why });
            }
        }
        Ok(())
    }

    /// Checks that every API key has its own receivers. The configs of channels are public, and a refund takes money
    /// that the receiver has not claimed yet, so the authorizer signs no refund for a key without receivers. If there
    /// are no API keys at all, the authorizer signs only claims.
    fn check_receivers(&self, chain: ChainId) -> Result<(), ConfigFault> {
        let nameless = self.api_keys.iter().find(|key| key.receivers.is_empty());
        let Some(key) = nameless else { return Ok(()) };
        let variable = format!("AUTHORIZER_FILE{}", suffix(chain));
        let why =
            format!("an authorizer needs the receivers of each key: add those of {}", key.name);
        Err(ConfigFault::Variable { variable, why })
    }

    fn read_api_keys_file(&mut self) -> Result<(), ConfigFault> {
        match &self.api_keys_file {
            Some(file) => add_key_file(&mut self.api_keys, file),
            None => Ok(()),
        }
    }
}
