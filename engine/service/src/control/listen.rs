//! Listens on the control socket. In the engine, only this file uses the crate `interprocess`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_control::wire::ControlFile;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::tokio::prelude::*;
use interprocess::local_socket::{GenericFilePath, ListenerOptions};
use interprocess::os::unix::local_socket::ListenerOptionsExt as _;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::connection_limits::ConnectionLimits;
use super::running::RunningControl;
use super::session::serve_connected;
use crate::context::EngineContext;
use crate::service::data_dir::DataFolder;
use crate::service::instance;

/// The longest path for a socket. The limit is 108 bytes on Linux and 104 on macOS and the BSDs.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// The listening control socket.
#[derive(Debug)]
struct ControlServer {
    socket: PathBuf,
    stop: CancellationToken,
}

/// Listens, then publishes the socket and token in an owner-only file.
///
/// # Errors
/// `DATA_FOLDER` if the socket or file cannot be created.
pub(super) fn start(engine: &Arc<EngineContext>) -> Result<Box<dyn RunningControl>, Fault> {
    let (socket, listener) = listen(&engine.folder)?;
    let token = engine.random_hex()?;
    instance::publish_control(
        &engine.folder,
        &ControlFile {
            socket: socket.display().to_string(),
            token: token.clone(),
            pid: std::process::id(),
            edition: engine.edition.name,
        },
    )?;
    let stop = CancellationToken::new();
    let (shared, stopped) = (Arc::clone(engine), stop.clone());
    engine.tasks.spawn(async move {
        tokio::select! {
            () = stopped.cancelled() => {}
            () = accept(shared, listener, token) => {}
        }
    });
    Ok(Box::new(ControlServer { socket, stop }))
}

impl RunningControl for ControlServer {
    fn stop(&self, folder: &DataFolder) {
        let is_ours = instance::withdraw_control(folder);
        self.stop.cancel();
        if is_ours && let Err(error) = std::fs::remove_file(&self.socket) {
            tracing::debug!(%error, "no socket to remove");
        }
    }
}

async fn accept(engine: Arc<EngineContext>, listener: Listener, token: String) {
    let limits = ConnectionLimits::new();
    let token: Arc<str> = token.into();
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "the control socket did not accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(nonce) = engine.random_hex() else { continue };
        let peer = Peer::of(&stream);
        if !peer.is_ours() {
            tracing::warn!("another account tried to use the control socket");
            continue;
        }
        let unproven = limits.admit();
        let (engine, token) = (Arc::clone(&engine), Arc::clone(&token));
        let tasks = engine.tasks.clone();
        // The session ends itself when the engine stops. The engine waits for its last frames.
        tasks.spawn(async move {
            let served =
                serve_connected(engine, Box::new(stream), peer.pid, &token, &nonce, unproven).await;
            if let Err(error) = served {
                tracing::debug!(%error, "control session ended");
            }
        });
    }
}

/// The peer's account and process as the kernel reports them, if the platform does.
struct Peer {
    uid: Option<u32>,
    pid: Option<u32>,
}

impl Peer {
    fn of(stream: &interprocess::local_socket::tokio::Stream) -> Self {
        use interprocess::local_socket::traits::StreamCommon as _;
        let creds = stream.peer_creds().ok();
        let pid = creds.as_ref().and_then(|creds| creds.pid());
        Self {
            uid: creds.and_then(|creds| creds.euid()),
            pid: pid.and_then(|pid| pid.try_into().ok()),
        }
    }

    /// Returns whether the peer has our account. If the platform does not report it, only the token decides.
    fn is_ours(&self) -> bool {
        self.uid.is_none_or(|uid| uid == rustix::process::geteuid().as_raw())
    }
}

/// Listens on a socket in the data folder. If the folder cannot hold a socket, because its path is too long or its file
/// system has none (FAT, exFAT), the socket is in `XDG_RUNTIME_DIR`.
fn listen(folder: &DataFolder) -> Result<(PathBuf, Listener), Fault> {
    let near = folder.file("control.sock");
    let why = if near.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        "its path is too long".to_owned()
    } else {
        match listen_at(&near) {
            Ok(listener) => return Ok((near, listener)),
            Err(error) if Code::of_disk(&error) == Code::DiskFull => {
                return Err(unopened(&near, &error));
            }
            Err(error) => {
                // Some file systems create a plain file before they fail.
                let _none = std::fs::remove_file(&near);
                error.to_string()
            }
        }
    };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|folder| folder.is_absolute()).ok_or_else(|| {
        Fault::because(
            Code::DataFolder,
            format!(
                "The folder {} cannot hold the control socket ({why}): set XDG_RUNTIME_DIR, or choose another folder \
                 with --data.",
                folder.path().display()
            ),
        )
    })?;
    let own = DataFolder::open(&runtime.join("bursar"))?;
    let hash = Sha256::digest(folder.path().as_os_str().as_encoded_bytes());
    let short = hash.first_chunk::<8>().map(hex::encode).unwrap_or_default();
    let path = own.file(&format!("{short}.sock"));
    let listener = listen_at(&path).map_err(|error| unopened(&path, &error))?;
    Ok((path, listener))
}

fn unopened(socket: &Path, error: &std::io::Error) -> Fault {
    Fault::because(
        Code::of_disk(error),
        format!("The control socket {} cannot be opened: {error}.", socket.display()),
    )
}

fn listen_at(socket: &Path) -> std::io::Result<Listener> {
    // We hold the folder's lock, so an existing socket is stale.
    if socket.exists() {
        std::fs::remove_file(socket)?;
    }
    let named = || -> std::io::Result<ListenerOptions<'_>> {
        Ok(ListenerOptions::new().name(socket.as_os_str().to_fs_name::<GenericFilePath>()?))
    };
    // The socket gets mode 0600 before it has a name. Where that is unsupported, the folder's mode protects it.
    let listener = match named().and_then(|socket| socket.mode(0o600).create_tokio()) {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
            named().and_then(ListenerOptions::create_tokio)
        }
        made => made,
    }?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
