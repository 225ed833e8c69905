//! Listening sockets of a service.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Length of the accept queue. If a burst overflows the queue, TCP clients retry after a second. The kernel may set a
/// lower limit (`net.core.somaxconn`).
const BACKLOG: u32 = 4_096;

/// The address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({why}): choose another address for listen or metrics_listen")]
pub struct ListenFault {
    pub address: SocketAddr,
    pub why: String,
}

/// Binds a listener and returns it with its actual address; port 0 picks a free port.
///
/// # Errors
/// [`ListenFault`] if the address cannot be bound.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenFault> {
    let fault = |fault: std::io::Error| ListenFault { address, why: fault.to_string() };
    let listener = bind(address).map_err(fault)?;
    let local = listener.local_addr().map_err(fault)?;
    Ok((listener, local))
}

/// The bound listeners of a service, each with its actual address.
#[derive(Debug)]
pub struct Listeners {
    /// For callers.
    pub public: TcpListener,
    pub address: SocketAddr,
    /// For metrics; `None` if they are off.
    pub metrics: Option<TcpListener>,
    pub metrics_address: Option<SocketAddr>,
}

impl Listeners {
    /// Binds both listeners, as [`listen`] does.
    ///
    /// # Errors
    /// [`ListenFault`] for the first address that cannot be bound.
    pub async fn bind(
        public: SocketAddr,
        metrics: Option<SocketAddr>,
    ) -> Result<Self, ListenFault> {
        let (public, address) = listen(public).await?;
        let metrics = match metrics {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let (metrics, metrics_address) = metrics.unzip();
        Ok(Self { public, address, metrics, metrics_address })
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows this option would let another program take the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
