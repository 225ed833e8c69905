//! The URL that agents are given with their credentials.

use std::net::SocketAddr;

use super::EngineContext;
use crate::agent_api::listen::{another, is_taken};

/// The agent server's URL.
#[derive(Debug)]
pub(crate) struct AgentUrl {
    pub(crate) url: Option<String>,
    /// Why there is no URL.
    pub(crate) problem: Option<String>,
    /// The server is running.
    pub(crate) serving: bool,
}

impl EngineContext {
    /// The URL of the agent server, whether it runs or not.
    pub(crate) async fn agent_url(&self) -> AgentUrl {
        match self.server.lock().await.as_ref() {
            Some(server) => {
                let url = format!("http://{}", server.address);
                AgentUrl { url: Some(url), problem: None, serving: true }
            }
            None => planned(self.settings.get().listen),
        }
    }
}

/// The URL of a server that is not running yet, unless the port is unknown or taken by another program.
fn planned(listen: SocketAddr) -> AgentUrl {
    let problem = if listen.port() == 0 {
        Some("the agent server is not running, and picks a free port when it starts".to_owned())
    } else if is_taken(listen) {
        let another = another(listen);
        Some(format!("another program listens on {listen}, not the agent server. {another}"))
    } else {
        None
    };
    let url = problem.is_none().then(|| format!("http://{listen}"));
    AgentUrl { url, problem, serving: false }
}
