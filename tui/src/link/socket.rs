//! Opens the engine's local socket: a Unix socket, or a named pipe on Windows. This module sends nothing.

use std::io;
use std::path::Path;
use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::tokio::prelude::*;
use interprocess::local_socket::{GenericFilePath, ToFsName};

/// Timeout of a connection attempt. A local socket answers at once or not at all.
const CONNECT_MS: u64 = 2_000;

pub(super) async fn connect(path: &str) -> Result<Stream, Fault> {
    let name = Path::new(path).to_fs_name::<GenericFilePath>().map_err(connection_fault)?;
    match tokio::time::timeout(Duration::from_millis(CONNECT_MS), Stream::connect(name)).await {
        Ok(connected) => connected.map_err(connection_fault),
        Err(_elapsed) => {
            let message =
                "The engine on this data folder did not answer within 2 seconds: try again.";
            Err(Fault::because(Code::EngineDown, message))
        }
    }
}

fn connection_fault(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let message =
                "The engine's socket belongs to another user: run the command as that user.";
            Fault::because(Code::DataFolder, message).with_detail(error)
        }
        _nobody_listens => Fault::new(Code::EngineDown).with_detail(error),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_without_a_listener_means_that_no_engine_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let path = path.to_str().unwrap();
        assert_eq!(connect(path).await.unwrap_err().code, Code::EngineDown);

        drop(std::os::unix::net::UnixListener::bind(path).unwrap());
        assert_eq!(connect(path).await.unwrap_err().code, Code::EngineDown);

        let too_long = format!("{path}{}", "x".repeat(200));
        assert_eq!(connect(&too_long).await.unwrap_err().code, Code::EngineDown);
    }

    #[tokio::test]
    async fn a_listening_engine_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        connect(path.to_str().unwrap()).await.unwrap();
    }
}
