//! The device on two ports of this machine.
//!
//! Commands use the framing of Ledger's emulator: a request is its length in four bytes and the command; an answer is
//! the length of its data, the data, and the status word, which the length does not count.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::control;
use crate::device::Device;

/// The largest request: a header of five bytes and 255 bytes of data.
const REQUEST_MAX: usize = 260;

/// The addresses of a running device.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub commands: SocketAddr,
    pub control: SocketAddr,
}

/// Opens both ports on 127.0.0.1 and serves them in threads of this process.
///
/// # Errors
/// A port cannot be opened.
pub fn serve(device: Arc<Device>, commands: u16, control: u16) -> io::Result<Ports> {
    let commands = TcpListener::bind(("127.0.0.1", commands))?;
    let control = TcpListener::bind(("127.0.0.1", control))?;
    let ports = Ports { commands: commands.local_addr()?, control: control.local_addr()? };
    let clients: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let (served, open) = (Arc::clone(&device), Arc::clone(&clients));
    thread::spawn(move || {
        for client in commands.incoming().flatten() {
            // Without a cable there is no device to connect to.
            if !served.is_plugged() {
                continue;
            }
            if let Ok(copy) = client.try_clone() {
                open.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
            }
            let device = Arc::clone(&served);
            thread::spawn(move || serve_commands(&device, client));
        }
    });
    thread::spawn(move || {
        for client in control.incoming().flatten() {
            let (device, clients) = (Arc::clone(&device), Arc::clone(&clients));
            thread::spawn(move || serve_control(&device, client, &clients));
        }
    });
    Ok(ports)
}

fn serve_commands(device: &Device, mut client: TcpStream) {
    let unplugged = device.unplugged();
    while let Ok(request) = read_request(&mut client) {
        let answer = match device.unplugged() {
            now if now == unplugged => device.exchange(&request),
            _pulled_since => None,
        };
        let Some((data, status)) = answer else { break };
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let bytes = [&length.to_be_bytes()[..], &data, &status.to_be_bytes()].concat();
        if client.write_all(&bytes).is_err() {
            break;
        }
    }
    // The other side may be gone already.
    client.shutdown(Shutdown::Both).ok();
}

fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > REQUEST_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut request = vec![0; length];
    client.read_exact(&mut request)?;
    Ok(request)
}

fn serve_control(device: &Device, client: TcpStream, clients: &Mutex<Vec<TcpStream>>) {
    let Ok(mut writer) = client.try_clone() else { return };
    for line in BufReader::new(client).lines() {
        let Ok(line) = line else { return };
        let answer = control::run(device, &line);
        if !device.is_plugged() {
            // A pulled cable ends every connection at once.
            for client in clients.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
                client.shutdown(Shutdown::Both).ok();
            }
        }
        if writeln!(writer, "{answer}").is_err() {
            return;
        }
    }
}
