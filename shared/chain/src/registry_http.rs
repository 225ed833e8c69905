//! The real [`Registry`]: one request to a registry of mandates for each call.

use bursar_outbound::{Client, PlainHttpHosts, Reply, Target};

use crate::ports::{BoxFuture, Registry, RegistryFault, RegistryReply};

/// The longest mandate that a registry accepts, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 50_000;

/// The longest reply that is read, in bytes.
pub const REPLY_BYTES_MAX: usize = 65_536;

/// Timeout of one request, in milliseconds.
pub const TIMEOUT_MS: u64 = 30_000;

/// The path of a registry's interface below its base URL.
const PATH: [&str; 2] = ["api", "mandates"];

/// Calls registries over HTTPS, or over HTTP on this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegistryHttp;

/// Returns the base URL of a registry in one spelling, so that a registry is known by its URL.
///
/// # Errors
/// It is not https (or http on this machine), or contains a user name.
pub fn normalized_base(url: &str) -> Result<String, RegistryFault> {
    parse(url).map(|target| target.full_text().trim_end_matches('/').to_owned())
}

fn parse(base: &str) -> Result<Target, RegistryFault> {
    Target::parse(base, PlainHttpHosts::ThisMachine).map_err(|_fault| RegistryFault::Url)
}

fn client() -> Result<Client, RegistryFault> {
    Client::new(TIMEOUT_MS).map_err(RegistryFault::Machine)
}

fn answered(target: &Target, reply: Result<Reply, String>) -> Result<RegistryReply, RegistryFault> {
    let reply = reply
        .map_err(|reason| RegistryFault::NoReply { endpoint: target.label().clone(), reason })?;
    Ok(RegistryReply { status: reply.status.as_u16(), body: reply.body })
}

impl Registry for RegistryHttp {
    fn look_up<'a>(
        &'a self,
        base: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<RegistryReply, RegistryFault>> {
        Box::pin(async move {
            let target = parse(base)?.with_segments(&PATH).with_query("id", id);
            let reply = client()?.get(&target, REPLY_BYTES_MAX).await;
            answered(&target, reply)
        })
    }

    fn publish<'a>(
        &'a self,
        base: &'a str,
        document: String,
    ) -> BoxFuture<'a, Result<RegistryReply, RegistryFault>> {
        Box::pin(async move {
            if document.len() > DOCUMENT_BYTES_MAX {
                return Err(RegistryFault::TooLong);
            }
            let target = parse(base)?.with_segments(&PATH);
            let reply = client()?.post(&target, document.into_bytes(), REPLY_BYTES_MAX).await;
            answered(&target, reply)
        })
    }
}
