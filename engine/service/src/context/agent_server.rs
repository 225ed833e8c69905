//! Starts, stops and describes the agent server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::DRAIN_TIMEOUT_MS;
use bursar_core::settings::keys::Key;

use super::EngineContext;
use crate::agent_api::listen::{bind, free_address};
use crate::agent_api::{Api, Exposure, Lanes, Server, ServerConfig};
use crate::config::Source;

impl EngineContext {
    /// Returns the agent server's API without a socket.
    pub(crate) fn api(&self) -> Api {
        Api::new(
            self.core.clone(),
            Arc::clone(&self.vault),
            self.ports.clone(),
            Lanes {
                execution: self.execution.clone(),
                trading: Arc::clone(&self.trading),
                lending: Arc::clone(&self.lending),
                execution_counter: self.executed.clone(),
                funds: Arc::clone(&self.funds),
            },
            self.chain_time.clone(),
            self.server_config(),
        )
    }

    fn server_config(&self) -> ServerConfig {
        ServerConfig {
            edition: self.edition.clone(),
            folder: self.folder.path().to_owned(),
            disk_room: Arc::clone(&self.disk_room),
            exposure: self.exposure(),
            settings: Arc::clone(&self.settings),
        }
    }

    /// Returns the exposure of the agent server that the operator has set.
    fn exposure(&self) -> Exposure {
        let lasting = self.core.view().settings().allow_lan;
        let open = lasting || self.lan_until_stopped.load(Ordering::SeqCst);
        if open { Exposure::Lan } else { Exposure::Loopback }
    }

    /// Restarts a running server if its exposure no longer matches the settings.
    ///
    /// # Errors
    /// The new address cannot be bound.
    pub(crate) async fn follow_exposure(&self) -> Result<(), Fault> {
        let open = self.server.lock().await.as_ref().map(Server::is_open_to_network);
        if open.is_some_and(|open| open != (self.exposure() == Exposure::Lan)) {
            self.stop_server().await;
            self.start_server().await?;
        }
        Ok(())
    }

    /// Starts the agent server unless it runs already, and returns its address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub(crate) async fn start_server(&self) -> Result<SocketAddr, Fault> {
        let mut server = self.server.lock().await;
        if let Some(running) = server.as_ref() {
            return Ok(running.address);
        }
        let config = self.settings.get();
        let may_move =
            self.edition.takes_free_port && config.source(Key::Listen) == Source::Default;
        let (address, listeners) = match bind(config.listen, self.exposure()).await {
            Err(fault) if may_move && fault.code == Code::InUse => {
                bind(free_address(config.listen), self.exposure()).await?
            }
            bound => bound?,
        };
        *server = Some(Server::start(Arc::new(self.api()), address, listeners));
        tracing::info!(%address, "agent server started");
        if self.exposure() == Exposure::Lan {
            tracing::warn!("every machine of the network can call the agent server");
        }
        Ok(address)
    }

    /// Stops the agent server. Waits at most [`DRAIN_TIMEOUT_MS`] for calls in flight.
    pub(crate) async fn stop_server(&self) {
        if let Some(server) = self.server.lock().await.take() {
            server.stop(Duration::from_millis(DRAIN_TIMEOUT_MS)).await;
            tracing::info!("agent server stopped");
        }
    }
}
