//! The TLS configuration of all clients. It is built once, because the root certificates are some hundred files.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_platform_verifier::BuilderVerifierExt;

static CONFIG: OnceLock<ClientConfig> = OnceLock::new();

/// Returns the configuration of clients: the system's root certificates, and HTTP/1.1 only.
///
/// The first call reads the certificates. After a failure the next call reads them again.
pub(crate) fn config() -> Result<ClientConfig, String> {
    if let Some(known) = CONFIG.get() {
        return Ok(known.clone());
    }
    let built = build().map_err(|error| {
        format!("the certificates of this system cannot be used: {error}; install ca-certificates")
    })?;
    Ok(CONFIG.get_or_init(|| built).clone())
}

fn build() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = builder.with_platform_verifier()?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
