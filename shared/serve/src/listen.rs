//! Where a service listens.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted: a burst that does not fit is asked to come again after a second. The kernel
/// has a bound of its own (`net.core.somaxconn`).
const BACKLOG: u32 = 4_096;

/// Nobody can listen there.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({why}): set listen or metrics_listen to another address")]
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
    let listener = bind(address).map_err(fault)?;
    let local = listener.local_addr().map_err(fault)?;
    Ok((listener, local))
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows this would let another program take the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
