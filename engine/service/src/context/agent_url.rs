//! The agent server's URL, which agents receive with their credentials.

use std::net::SocketAddr;

use super::EngineContext;
use crate::agent_api::listen::{free_port_command, is_taken};

/// The agent server's URL, or the reason why there is none.
#[derive(Debug)]
pub(crate) struct AgentUrl {
    pub(crate) url: Option<String>,
    /// Why there is no URL.
    pub(crate) problem: Option<String>,
    /// Whether the server is running.
    pub(crate) is_serving: bool,
}

impl EngineContext {
    /// Returns the URL of the agent server, whether it runs or not.
    pub(crate) async fn agent_url(&self) -> AgentUrl {
        match self.server.lock().await.as_ref() {
            Some(server) => {
                let url = format!("http://{}", server.address);
                AgentUrl { url: Some(url), problem: None, is_serving: true }
            }
            None => planned_url(self.settings.get().listen),
        }
    }
}

/// Returns the URL of a server that does not run yet, unless its port is unknown or taken by another program.
fn planned_url(listen: SocketAddr) -> AgentUrl {
    let problem = if listen.port() == 0 {
        Some("the agent server is not running, and picks a free port when it starts".to_owned())
    } else if is_taken(listen) {
        let command = free_port_command(listen);
        Some(format!(
            "another program listens on {listen}, not the agent server: set a free port with `{command}`, then \
             start the agent server"
        ))
    } else {
        None
    };
    let url = problem.is_none().then(|| format!("http://{listen}"));
    AgentUrl { url, problem, is_serving: false }
}
