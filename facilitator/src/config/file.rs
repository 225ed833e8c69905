//! The TOML file: keys of the service, and one table of keys per network.

use std::collections::BTreeMap;
use std::path::Path;

use bursar_core::networks::{ChainId, by_id_or_v1_name};
use bursar_core::text::snippet;
use bursar_serve::settings::{ConfigFault, InvalidKey, read_file, set_from_table};
use toml::{Table, Value};

use crate::config::network::SERVABLE_NETWORKS;
use crate::config::settings::Config;
use crate::config::table::network::NETWORK;
use crate::config::table::service::SERVICE;

/// Applies the keys of the file.
pub(super) fn apply(config: &mut Config, file: &Path) -> Result<(), ConfigFault> {
    let mut keys = read_file(file)?;
    let networks = keys.remove("networks");
    set_from_table(SERVICE, config, "", &keys).map_err(|wrong| wrong.in_file(file))?;
    match networks {
        None => Ok(()),
        Some(Value::Table(networks)) => {
            apply_networks(config, &networks).map_err(|wrong| wrong.in_file(file))
        }
        Some(_other) => {
            let why = "write a table for each network, like [networks.base]".to_owned();
            Err(InvalidKey { key: "networks".to_owned(), why }.in_file(file))
        }
    }
}

fn apply_networks(config: &mut Config, networks: &Table) -> Result<(), InvalidKey> {
    let mut seen: BTreeMap<ChainId, &str> = BTreeMap::new();
    for (name, value) in networks {
        let wrong = |why| InvalidKey { key: format!("networks.{name}"), why };
        let chain = by_id_or_v1_name(name).map(|row| row.chain);
        let known = chain.and_then(|chain| config.networks.get_mut(&chain));
        let Some(network) = known else {
            return Err(wrong(format!(
                "this network is not supported; the networks are {}",
                served()
            )));
        };
        if let Some(other) = seen.insert(network.chain(), name) {
            return Err(wrong(format!(
                "networks.{} is the same network: keep one of the two",
                snippet(other)
            )));
        }
        let Value::Table(keys) = value else {
            return Err(wrong("it must be a table of keys".to_owned()));
        };
        set_from_table(NETWORK, network, &format!("networks.{name}."), keys)?;
    }
    Ok(())
}

fn served() -> String {
    let names: Vec<_> = SERVABLE_NETWORKS.iter().map(ChainId::to_string).collect();
    names.join(", ")
}
