//! The client for URLs that a third party names: it connects only to addresses of the public internet.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use url::{Host, Url};

use crate::client::root_cause;
use crate::label::EndpointLabel;
use crate::public::is_public;
use crate::tls;

/// The port of https, the only one that the client connects to.
const PORT: u16 = 443;
/// A user agent without a product, so that a host does not learn that a wallet asks.
const USER_AGENT: &str = "Mozilla/5.0";

/// Why nothing was read from a URL that a third party named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublicFault {
    #[error("its URL is not https:// with a host name on port 443")]
    Url,
    #[error("{0}: {1}")]
    Failed(EndpointLabel, String),
    #[error("{0} answered with HTTP status {1}")]
    Status(EndpointLabel, u16),
}

/// A client that reads one answer from a public https server.
///
/// It resolves names itself and refuses a name with any address that is not public, follows no redirect, uses no proxy,
/// sends no cookie, and resumes no TLS session.
#[derive(Debug, Clone)]
pub struct PublicClient {
    timeout: Duration,
    // Constants, except in tests, which start a local server.
    scheme: &'static str,
    port: u16,
    permits: fn(IpAddr) -> bool,
}

impl PublicClient {
    /// Creates a client with a timeout in milliseconds for each exchange.
    pub fn new(timeout_ms: u64) -> Self {
        let timeout = Duration::from_millis(timeout_ms);
        Self { timeout, scheme: "https", port: PORT, permits: is_public }
    }

    /// Reads the answer of a URL, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`PublicFault`], which never shows the URL.
    pub async fn get(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, PublicFault> {
        let url = self.checked(url).ok_or(PublicFault::Url)?;
        let label = EndpointLabel::of(&url);
        let failed = |why: String| PublicFault::Failed(label.clone(), why);
        let client = self.client().map_err(failed)?;
        let mut reply = client.get(url).send().await.map_err(|error| failed(describe(&error)))?;
        let status = reply.status().as_u16();
        if status != 200 {
            return Err(PublicFault::Status(label, status));
        }
        let mut body = Vec::new();
        while let Some(chunk) = reply.chunk().await.map_err(|error| failed(describe(&error)))? {
            // Counts the bytes that arrive: Content-Length is optional and may be false.
            if chunk.len() > bytes_max.saturating_sub(body.len()) {
                return Err(failed(format!("the answer is longer than {bytes_max} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Builds a client for one exchange, which keeps nothing for the next one.
    fn client(&self) -> Result<reqwest::Client, String> {
        let mut tls = tls::config()?;
        tls.resumption = rustls::client::Resumption::disabled();
        reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .https_only(self.scheme == "https")
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(PublicNames { permits: self.permits }))
            .user_agent(USER_AGENT)
            .timeout(self.timeout)
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|error| root_cause(&error))
    }

    /// Returns the parsed URL if the client may connect to it.
    fn checked(&self, text: &str) -> Option<Url> {
        let url = Url::parse(text).ok()?;
        let is_name = matches!(url.host()?, Host::Domain(name) if !name.ends_with('.'));
        let has_no_user = url.username().is_empty() && url.password().is_none();
        let fits = url.scheme() == self.scheme
            && url.port_or_known_default() == Some(self.port)
            && is_name
            && has_no_user;
        fits.then_some(url)
    }
}

/// Describes a failure without the URL.
fn describe(error: &reqwest::Error) -> String {
    match error.is_timeout() {
        true => "no answer in time".to_owned(),
        false => root_cause(error),
    }
}

/// Resolves names, and fails if an address is not permitted.
struct PublicNames {
    permits: fn(IpAddr) -> bool,
}

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        let permits = self.permits;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if found.is_empty() || !found.iter().all(|address| permits(address.ip())) {
                return Err("its name has an address that is not public".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn only_https_urls_with_a_name_and_the_usual_port_are_fetched() {
        let client = PublicClient::new(1_000);
        for url in ["https://assets.example/icon.png", "https://assets.example:443/a?b=c"] {
            assert!(client.checked(url).is_some(), "{url}");
        }
        for url in [
            "",
            "icon.png",
            "http://assets.example/icon.png",
            "https://assets.example:8443/icon.png",
            "https://assets.example./icon.png",
            "https://1.1.1.1/icon.png",
            "https://[2606:4700::1]/icon.png",
            "https://0x7f000001/icon.png",
            "https://user@assets.example/icon.png",
            "https://:word@assets.example/icon.png",
            "file:///etc/passwd",
            "data:image/png;base64,AAAA",
        ] {
            assert!(client.checked(url).is_none(), "{url}");
        }
    }

    /// This machine's own name and `localhost` resolve to addresses that are not public.
    #[tokio::test]
    async fn a_name_with_a_private_address_is_not_connected_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = PublicClient { scheme: "http", port, ..PublicClient::new(5_000) };
        let fault = client.get(&format!("http://localhost:{port}/icon.png"), 1_000).await;
        let fault = fault.unwrap_err().to_string();
        assert!(fault.contains("not public"), "{fault}");
        let names = PublicNames { permits: is_public };
        assert!(names.resolve("localhost".parse().unwrap()).await.is_err());
        let names = PublicNames { permits: |_any| true };
        assert!(names.resolve("localhost".parse().unwrap()).await.is_ok());
        assert!(listener.accept().is_err(), "nothing connected");
    }

    /// Answers each connection with these bytes; then, if `is_endless`, with zeros until the client leaves.
    async fn start_server(answer: &'static str, is_endless: bool) -> PublicClient {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _peer)) = listener.accept().await {
                stream.read_u8().await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                while is_endless && stream.write_all(&[0; 4_096]).await.is_ok() {}
            }
        });
        PublicClient {
            timeout: Duration::from_secs(20),
            scheme: "http",
            port,
            permits: |_any| true,
        }
    }

    async fn fetched(answer: &'static str, is_endless: bool) -> Result<Vec<u8>, String> {
        let client = start_server(answer, is_endless).await;
        let url = format!("http://localhost:{}/private", client.port);
        let got = client.get(&url, 1_000).await.map_err(|fault| fault.to_string());
        assert!(
            !got.as_ref().is_err_and(|why| why.contains("private")),
            "no failure shows the URL"
        );
        got
    }

    #[tokio::test]
    async fn answers_are_read_within_the_bound_and_redirects_are_not_followed() {
        let ok = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\npng";
        assert_eq!(fetched(ok, false).await.unwrap(), b"png");
        let endless = fetched("HTTP/1.1 200 OK\r\n\r\n", true).await.unwrap_err();
        assert!(endless.contains("longer than 1000 bytes"), "{endless}");
        let huge = "HTTP/1.1 200 OK\r\ncontent-length: 50000000000\r\n\r\n";
        let huge = fetched(huge, true).await.unwrap_err();
        assert!(huge.contains("longer than 1000 bytes"), "{huge}");
        let away = "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: http://localhost:1/\r\n\
                    content-length: 0\r\n\r\n";
        let away = fetched(away, false).await.unwrap_err();
        assert!(away.contains("HTTP status 302"), "{away}");
        // A compressed answer is read as it is, not decompressed.
        let packed = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: gzip\r\n\
                      content-length: 3\r\n\r\npng";
        assert_eq!(fetched(packed, false).await.unwrap(), b"png");
    }

    #[tokio::test]
    async fn a_server_that_stops_answering_ends_at_the_timeout() {
        // Nothing accepts here: the connection waits in the queue of the listener.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let timeout = Duration::from_millis(50);
        let client = PublicClient { timeout, scheme: "http", port, permits: |_any| true };
        let late = client.get(&format!("http://localhost:{}/", client.port), 1_000).await;
        assert!(late.unwrap_err().to_string().contains("no answer in time"));
    }
}
