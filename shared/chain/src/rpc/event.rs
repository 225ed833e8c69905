//! Decodes one event of a contract, from a receipt, `eth_getLogs` or a simulation.

use serde::Deserialize;

use crate::ports::Log;
use crate::rpc::quantity::{Unusable, address_of, bytes_of, hash_of};

/// Maximum number of topics of an event: LOG4 is the largest log instruction of the EVM.
const TOPICS_MAX: usize = 4;

#[derive(Deserialize)]
pub(super) struct WireEvent {
    address: String,
    topics: Vec<String>,
    data: String,
}

impl WireEvent {
    pub(super) fn read(&self) -> Result<Log, Unusable> {
        if self.topics.len() > TOPICS_MAX {
            return Err(Unusable("a log has more than four topics"));
        }
        Ok(Log {
            address: address_of(&self.address)?,
            topics: self.topics.iter().map(|topic| hash_of(topic)).collect::<Result<_, _>>()?,
            data: bytes_of(&self.data)?,
        })
    }
}
