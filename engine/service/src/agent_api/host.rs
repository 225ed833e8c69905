//! The host names that this server answers to. A web page that rebinds its own name to this machine (DNS
//! rebinding) still sends that name, and is rejected.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{Request, Version, header};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_serve::http::LocalAddress;

use super::lan::Exposure;

/// The host names that a request may use for the server.
#[derive(Debug)]
pub(super) struct HostRule {
    exposure: Exposure,
    /// This machine's own names in lower case. With LAN exposure they are accepted in addition to the loopback names.
    names: Vec<String>,
}

impl HostRule {
    /// `machine` is this machine's host name.
    pub(super) fn new(exposure: Exposure, machine: &str) -> Self {
        let mut names = Vec::new();
        let machine = machine.to_ascii_lowercase();
        if exposure == Exposure::Lan && !machine.is_empty() {
            // Multicast DNS names a machine by the first label of its host name.
            let label = machine.split('.').next().unwrap_or_default();
            names.push(format!("{label}.local"));
            names.push(machine);
        }
        Self { exposure, names }
    }

    /// Rejects a request for another host. `hosts` is the setting `server.hosts`, in lower case.
    pub(super) fn judge(&self, request: &Request<Body>, hosts: &[String]) -> Result<(), Fault> {
        let foreign = || Fault::new(Code::ForeignHostRejected);
        // A request in absolute form, meant for proxies, can name another host than its Host header.
        if request.uri().authority().is_some() {
            return Err(foreign());
        }
        let mut named = request.headers().get_all(header::HOST).iter();
        let host = match (named.next(), named.next()) {
            (None, _) if request.version() == Version::HTTP_10 => return Ok(()),
            (Some(host), None) => host.to_str().map_err(|_not_ascii| foreign())?,
            (None, _) | (Some(_), Some(_)) => {
                return Err(Fault::because(Code::BadRequest, "Send exactly one Host header."));
            }
        };
        let name = without_port(host).ok_or_else(foreign)?.to_ascii_lowercase();
        let loopback = matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]");
        let known = self.names.contains(&name) || hosts.contains(&name);
        if loopback || known || self.is_own_address(&name, request) {
            Ok(())
        } else {
            Err(foreign())
        }
    }

    /// On a local network an agent may use an IP address as the host, but only the address that it connected to. An
    /// IP address cannot be rebound, and another address may mean another machine.
    fn is_own_address(&self, name: &str, request: &Request<Body>) -> bool {
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        let own = request.extensions().get::<LocalAddress>();
        match (self.exposure, bare.parse::<IpAddr>(), own) {
            (Exposure::Lan, Ok(named), Some(LocalAddress(own))) => {
                named.is_ipv6() == name.starts_with('[')
                    && named.to_canonical() == own.ip().to_canonical()
            }
            (Exposure::Lan | Exposure::Loopback, _, _) => false,
        }
    }
}

fn without_port(host: &str) -> Option<&str> {
    let end = if host.starts_with('[') {
        host.find(']')?.checked_add(1)?
    } else {
        host.find(':').unwrap_or(host.len())
    };
    let (name, port) = host.split_at_checked(end)?;
    let plain = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)], own: &str) -> Request<Body> {
        let mut request = Request::builder().uri("/sign");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(LocalAddress(own.parse().unwrap()));
        request
    }

    /// The setting `server.hosts`.
    fn listed_hosts() -> Vec<String> {
        vec!["wallet.lan".to_owned()]
    }

    fn code(rule: &HostRule, headers: &[(&str, &str)]) -> Option<Code> {
        rule.judge(&request(headers, "192.168.1.7:9402"), &listed_hosts())
            .err()
            .map(|fault| fault.code)
    }

    const FOREIGN: [&str; 11] = [
        "evil.test:9402",
        "0.0.0.0:9402",
        "localhost.evil.test",
        "",
        "127.0.0.1.",
        "127.0.0.2",
        "localhost:",
        "localhost:x",
        "[::1",
        "::1",
        "user@localhost",
    ];

    #[test]
    fn t_23_only_loopback_names_and_listed_hosts_are_served() {
        let rule = HostRule::new(Exposure::Loopback, "box");
        for good in
            ["localhost", "LOCALHOST:9402", "127.0.0.1:1", "[::1]:9402", "[::1]", "Wallet.LAN:9402"]
        {
            assert_eq!(code(&rule, &[("host", good)]), None, "{good}");
        }
        for bad in FOREIGN.into_iter().chain(["box", "box.local", "192.168.1.7"]) {
            assert_eq!(code(&rule, &[("host", bad)]), Some(Code::ForeignHostRejected), "{bad}");
        }
        assert_eq!(code(&rule, &[]), Some(Code::BadRequest));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(code(&rule, &two), Some(Code::BadRequest));
        let mut old = request(&[], "127.0.0.1:9402");
        *old.version_mut() = Version::HTTP_10;
        assert!(rule.judge(&old, &[]).is_ok());
    }

    #[test]
    fn t_24_lan_requests_may_name_the_machine_or_its_reached_address() {
        let rule = HostRule::new(Exposure::Lan, "Box.example.com");
        for good in [
            "192.168.1.7:9402",
            "192.168.1.7",
            "box.example.com",
            "BOX.local:9402",
            "wallet.lan",
            "localhost:9402",
        ] {
            assert_eq!(code(&rule, &[("host", good)]), None, "{good}");
        }
        for bad in
            FOREIGN.into_iter().chain(["192.168.1.8", "[192.168.1.7]", "10.0.0.1", "box", ".local"])
        {
            assert_eq!(code(&rule, &[("host", bad)]), Some(Code::ForeignHostRejected), "{bad}");
        }
        let by_v6 = |host| rule.judge(&request(&[("host", host)], "[fd00::7]:9402"), &[]);
        assert!(by_v6("[fd00::7]:9402").is_ok());
        assert!(by_v6("[FD00:0::7]").is_ok());
        assert!(by_v6("fd00::7").is_err());
        assert!(by_v6("[fd00::8]").is_err());
        // Without a connection, the server knows none of its own addresses.
        let mut nowhere = request(&[("host", "192.168.1.7")], "192.168.1.7:9402");
        nowhere.extensions_mut().clear();
        assert!(rule.judge(&nowhere, &[]).is_err());
    }
}
