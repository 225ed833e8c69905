//! The sockets that agents connect to. They prevent other programs from binding the same address, because such a
//! program would receive agents' tokens.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::LISTEN_BACKLOG;
use tokio::net::{TcpListener, TcpSocket};

use super::lan::Exposure;

/// Binds `listen`, or with LAN exposure its port on every address of this machine.
///
/// For `127.0.0.1` and for LAN exposure, it also binds the port on IPv6, because an agent that connects to
/// `localhost` or to the machine's name may use either family. It binds IPv4 alone if the port is 0 or the machine
/// has no IPv6. Returns the address for programs on this machine, and the listeners.
///
/// # Errors
/// `IN_USE` if the port is taken or cannot be bound, `BAD_INPUT` for loopback exposure on another address.
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
    let listener = open(first).map_err(|error| bind_fault(first, &error))?;
    let bound = listener.local_addr().map_err(|error| bind_fault(first, &error))?;
    // 0.0.0.0 is not an address to connect to, so name the loopback address.
    let address = match exposure {
        Exposure::Loopback => bound,
        Exposure::Lan => SocketAddr::from((Ipv4Addr::LOCALHOST, bound.port())),
    };
    let mut listeners = vec![listener];
    if let Some(sibling) = sibling.filter(|sibling| sibling.port() != 0) {
        match open(sibling) {
            Ok(listener) => listeners.push(listener),
            // The other program would receive requests that are meant for this server.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(bind_fault(sibling, &error));
            }
            Err(error) => tracing::debug!(%error, "not listening on IPv6"),
        }
    }
    Ok((address, listeners))
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // Without this option, [::] would accept IPv4 too, and binding it next to the IPv4 socket would fail.
            rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
            socket
        }
    };
    // Lets an engine start right after another has ended. Unlike SO_REUSEPORT, SO_REUSEADDR does not let two
    // listeners share the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

fn bind_fault(address: SocketAddr, error: &io::Error) -> Fault {
    let port = address.port();
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => format!("another program listens on port {port}"),
        _other => error.to_string(),
    };
    let message = format!(
        "The agent server cannot listen on {address}: {why}. Set a free port, then start it again."
    );
    Fault::because(Code::InUse, message).with_hint(free_port_command(address))
}

/// Whether another program listens on this address and would receive the requests sent to it.
pub fn is_taken(address: SocketAddr) -> bool {
    open(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// Returns the command that sets a free port for the server.
pub fn free_port_command(taken: SocketAddr) -> String {
    format!("config set server.listen {}", free_address(taken))
}

/// Returns a loopback address with a free port near the taken one.
pub fn free_address(taken: SocketAddr) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), free_port_near(taken.port()))
}

/// How many ports are tried above a port that is taken.
const PORTS_TRIED_MAX: u16 = 20;

/// Finds a free port near a taken one. A fixed port is better than a random one, because agents are configured with
/// it once. Returns 0 if it finds no free port: the system then chooses a port.
fn free_port_near(port: u16) -> u16 {
    let mut near = (1..=PORTS_TRIED_MAX).filter_map(|step| port.checked_add(step));
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
            let hint = fault.hint.unwrap();
            let free = hint.strip_prefix("config set server.listen 127.0.0.1:").unwrap();
            let free: u16 = free.parse().unwrap();
            let taken = address.port();
            assert!(
                (taken + 1..=taken + PORTS_TRIED_MAX).contains(&free),
                "{free} instead of {taken}"
            );
        }
    }

    #[tokio::test]
    async fn binding_fails_if_the_port_is_taken_on_the_other_address_family() {
        let Ok(stranger) = open(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))) else {
            return; // A machine without IPv6 has no such program.
        };
        let port = stranger.local_addr().unwrap().port();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let fault = bind(listen, Exposure::Loopback).await.unwrap_err();
        assert_eq!(fault.code, Code::InUse);
    }

    #[tokio::test]
    async fn t_24_only_lan_exposure_binds_unspecified_addresses() {
        let open_address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        assert!(bind(open_address, Exposure::Loopback).await.is_err());
        let (address, listeners) = bind(any_port(), Exposure::Lan).await.unwrap();
        assert!(address.ip().is_loopback(), "that is what programs of this machine call");
        let bound = listeners[0].local_addr().unwrap();
        assert!(bound.ip().is_unspecified());
        assert_eq!((bound.port(), listeners.len()), (address.port(), 1));
    }
}
