//! Connects to the engine of a data folder.

use std::time::Duration;

use bursar_control::wire::ControlFile;
use bursar_core::client::Program;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::Link;
use super::handshake;
use super::socket;

/// Maximum number of attempts to connect if the connection ends during the handshake.
const HANDSHAKE_TRIES: u8 = 5;
/// Time after the first attempt during which another may start. It is shorter than the timeout of a handshake, so a
/// silent engine is tried only once.
const HANDSHAKE_RETRY: Duration = Duration::from_secs(2);

impl Link {
    /// Connects to the engine that the control file of a data folder names.
    ///
    /// Both sides prove that they know the file's token. The engine shows `program` as the origin of the operator's
    /// decisions over this link.
    ///
    /// # Errors
    /// Fails if no engine answers, if a side cannot prove the token, or if the protocols differ. `BUSY` if the
    /// connection ends during the handshake, or the handshake takes too long.
    pub async fn connect(file: &ControlFile, program: Program) -> Result<Self, Fault> {
        let mut tries = HANDSHAKE_TRIES;
        let begun = tokio::time::Instant::now();
        loop {
            tries = tries.saturating_sub(1);
            let mut link = Self::over(socket::connect(&file.socket).await?);
            match handshake::prove(&mut link, &file.token, program).await {
                Ok(()) => return Ok(link),
                // The engine may have evicted this connection: if too many connections have not proved the token yet,
                // the engine closes the oldest of them.
                Err(fault)
                    if fault.code == Code::EngineDown
                        && tries > 0
                        && begun.elapsed() < HANDSHAKE_RETRY => {}
                Err(fault) if fault.code == Code::EngineDown => {
                    let message = "The engine did not complete the handshake: too many programs may be \
                         using its control socket. Try again.";
                    return Err(Fault::because(Code::Busy, message));
                }
                Err(fault) => return Err(fault),
            }
        }
    }
}
