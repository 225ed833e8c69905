//! Names of endpoints in errors and logs.

use std::fmt::{self, Debug};

use url::Url;

/// Name of an endpoint in errors and logs: scheme, host and port.
///
/// It never contains the path, the query or the user, where most providers put API keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointLabel(String);

impl EndpointLabel {
    /// Returns the label of a URL.
    pub fn of(url: &Url) -> Self {
        let host = url.host_str().unwrap_or("?");
        let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
        Self(format!("{}://{host}{port}", url.scheme()))
    }

    /// Returns the label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Debug for EndpointLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointLabel({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_holds_no_path_query_or_user() {
        for (url, label) in [
            ("https://node.test/v2/KEY?apikey=KEY#KEY", "https://node.test:443"),
            ("https://KEY:KEY@node.test:8443/KEY", "https://node.test:8443"),
            ("http://[::1]:8545/KEY", "http://[::1]:8545"),
        ] {
            let made = EndpointLabel::of(&url.parse().unwrap());
            assert_eq!(made.as_str(), label);
            assert!(!format!("{made} {made:?}").contains("KEY"));
        }
    }
}
