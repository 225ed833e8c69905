//! Where agents are sent with their secrets.

use std::net::SocketAddr;

use super::Shared;
use crate::agent_api::listen::{another, is_taken};

/// The agent server's address for agents.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) url: Option<String>,
    /// Why there is no address.
    pub(crate) problem: Option<String>,
    /// The server is there now.
    pub(crate) serving: bool,
}

impl Shared {
    pub(crate) async fn door(&self) -> Door {
        match self.server.lock().await.as_ref() {
            Some(server) => {
                let url = format!("http://{}", server.address);
                Door { url: Some(url), problem: None, serving: true }
            }
            None => to_be(self.settings.get().listen),
        }
    }
}

/// Where the server will be, unless an agent that went there now would meet somebody else.
fn to_be(listen: SocketAddr) -> Door {
    let problem = if listen.port() == 0 {
        Some("the agent server is not running, and picks a free port when it starts".to_owned())
    } else if is_taken(listen) {
        let another = another(listen);
        Some(format!("another program listens on {listen}, not the agent server. {another}"))
    } else {
        None
    };
    let url = problem.is_none().then(|| format!("http://{listen}"));
    Door { url, problem, serving: false }
}
