//! The sockets that agents come by. An address is never shared with another program: who listens there
//! sees tokens.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::LISTEN_BACKLOG;
use tokio::net::{TcpListener, TcpSocket};

use super::lan::Exposure;

/// Binds the address, and its sibling of the other family where the port is fixed: an agent that says
/// `localhost`, or the machine's name, may come by either. Answers where programs of this machine call, and
/// the listeners.
///
/// # Errors
/// `IN_USE`, naming the port.
pub async fn bind(
    listen: SocketAddr,
    exposure: Exposure,
) -> Result<(SocketAddr, Vec<TcpListener>), Fault> {
    let port = listen.port();
    let (first, sibling) = match exposure {
        Exposure::Loopback if listen.ip() == Ipv4Addr::LOCALHOST => {
            (listen, Some(SocketAddr::from((Ipv6Addr::LOCALHOST, port))))
        }
        Exposure::Loopback if listen.ip().is_loopback() => (listen, None),
        Exposure::Loopback => {
            let why = format!(
                "The agent server listens on loopback addresses only, and {listen} is not one."
            );
            return Err(Fault::because(Code::BadInput, why));
        }
        Exposure::Lan => (
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
        ),
    };
    let listener = open(first).map_err(|error| failed(first, &error))?;
    let bound = listener.local_addr().map_err(|error| failed(first, &error))?;
    // 0.0.0.0 is no address that anybody calls.
    let address = match exposure {
        Exposure::Loopback => bound,
        Exposure::Lan => SocketAddr::from((Ipv4Addr::LOCALHOST, bound.port())),
    };
    let mut listeners = vec![listener];
    if let Some(sibling) = sibling.filter(|sibling| sibling.port() != 0) {
        match open(sibling) {
            Ok(listener) => listeners.push(listener),
            // Whoever is there would get what is meant for us.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(failed(sibling, &error));
            }
            Err(error) => tracing::debug!(%error, "not on IPv6"),
        }
    }
    Ok((address, listeners))
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // Else [::] would take IPv4 as well, and its own socket could not be had.
            rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
            socket
        }
    };
    // So that an engine can start where one has just ended. It shares nothing: SO_REUSEPORT would.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

fn failed(address: SocketAddr, error: &io::Error) -> Fault {
    let port = address.port();
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => format!("another program listens on port {port}"),
        _other => error.to_string(),
    };
    let message =
        format!("The agent server cannot listen on {address}: {why}. {}.", another(address));
    Fault::because(Code::InUse, message)
}

/// Whether somebody else listens there: what is sent to that address is for them.
pub fn is_taken(address: SocketAddr) -> bool {
    open(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// How the server comes to a port of its own.
pub fn another(taken: SocketAddr) -> String {
    let free = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), free_beside(taken.port()));
    format!(
        "Give it a free port with `bursar config set server.listen {free}`, then start it again"
    )
}

/// Ports that are tried beside one that is taken.
const NEAR: u16 = 20;

/// A fixed one is better than any, for agents are told it once; 0 takes any where none near is free.
fn free_beside(port: u16) -> u16 {
    let mut near = (1..=NEAR).filter_map(|step| port.checked_add(step));
    let is_free = |port: &u16| open(SocketAddr::from((Ipv4Addr::LOCALHOST, *port))).is_ok();
    near.find(is_free).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_port() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    }

    #[tokio::test]
    async fn a_port_in_use_is_named_and_never_shared() {
        let (address, _kept) = bind(any_port(), Exposure::Loopback).await.unwrap();
        assert!(is_taken(address));
        for exposure in [Exposure::Loopback, Exposure::Lan] {
            let fault = bind(address, exposure).await.unwrap_err();
            assert_eq!(fault.code, Code::InUse);
            assert!(fault.message.contains(&format!("port {}", address.port())), "{fault}");
            let command = "`bursar config set server.listen 127.0.0.1:";
            let (_told, free) = fault.message.split_once(command).unwrap();
            let free: u16 = free.split('`').next().unwrap().parse().unwrap();
            let taken = address.port();
            assert!((taken + 1..=taken + NEAR).contains(&free), "{free} instead of {taken}");
        }
    }

    #[tokio::test]
    async fn a_stranger_on_the_other_family_is_no_neighbour() {
        let Ok(stranger) = open(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))) else {
            return; // A machine without IPv6 has no such neighbour.
        };
        let port = stranger.local_addr().unwrap().port();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let fault = bind(listen, Exposure::Loopback).await.unwrap_err();
        assert_eq!(fault.code, Code::InUse);
    }

    #[tokio::test]
    async fn t_24_only_a_local_network_gets_the_open_addresses() {
        let open_address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        assert!(bind(open_address, Exposure::Loopback).await.is_err());
        let (address, listeners) = bind(any_port(), Exposure::Lan).await.unwrap();
        assert!(address.ip().is_loopback(), "that is what programs of this machine call");
        let bound = listeners[0].local_addr().unwrap();
        assert!(bound.ip().is_unspecified());
        assert_eq!((bound.port(), listeners.len()), (address.port(), 1));
    }
}
