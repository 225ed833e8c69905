//! Where a service listens.

use std::net::SocketAddr;

use tokio::net::TcpListener;

/// Nobody can listen there.
#[derive(Debug, thiserror::Error)]
#[error("{address} cannot be listened on ({why}); set listen or metrics_listen to another")]
pub struct ListenFault {
    pub address: SocketAddr,
    pub why: String,
}

/// Listens, and says where: port 0 is any that is free.
///
/// # Errors
/// [`ListenFault`].
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenFault> {
    let fault = |fault: std::io::Error| ListenFault { address, why: fault.to_string() };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let local = listener.local_addr().map_err(fault)?;
    Ok((listener, local))
}
