//! IP addresses and ranges as operators write them: `10.0.0.1`, `10.0.0.0/8`, `fd00::/8`.

use std::net::IpAddr;

use ipnet::IpNet;

/// A set of address ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpRanges(Vec<IpNet>);

impl IpRanges {
    /// Parses each text as an address or a range (CIDR); returns `None` if one is invalid.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        texts.into_iter().map(parse).collect::<Option<_>>().map(Self)
    }

    /// Returns whether a range contains the address.
    ///
    /// IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|range| range.contains(&address))
    }
}

/// Parses an address or a range. Rejects a range whose address has bits after its prefix.
///
/// `10.0.0.1/8` is more likely a typing error than the intention to trust 16 million addresses.
fn parse(text: &str) -> Option<IpNet> {
    let Some((address, prefix)) = text.split_once('/') else {
        let address: IpAddr = text.parse().ok()?;
        return Some(address.to_canonical().into());
    };
    let address: IpAddr = address.parse().ok()?;
    // `contains` converts mapped addresses to IPv4, so an IPv6 prefix length would not apply to them.
    let mapped = address.to_canonical() != address;
    // Parsing a number would accept a sign.
    if mapped || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let range = IpNet::new(address, prefix.parse().ok()?).ok()?;
    (range.network() == address).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(range: &str, address: &str) -> bool {
        IpRanges::parse([range]).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_range_holds_the_addresses_that_share_its_prefix() {
        for (range, address) in [
            ("10.0.0.0/8", "10.0.0.0"),
            ("10.0.0.0/8", "10.255.255.255"),
            ("10.0.0.4/30", "10.0.0.7"),
            ("192.168.1.7", "192.168.1.7"),
            ("192.168.1.7/32", "192.168.1.7"),
            ("0.0.0.0/0", "255.1.2.3"),
            ("10.0.0.0/8", "::ffff:10.9.8.7"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("fd00::/8", "fdff::1"),
            ("2001:db8::/33", "2001:db8:7fff::1"),
            ("::1", "::1"),
            ("::/0", "2001:db8::1"),
        ] {
            assert!(contains(range, address), "{range} {address}");
        }
        for (range, address) in [
            ("10.0.0.0/8", "11.0.0.0"),
            ("10.0.0.0/8", "9.255.255.255"),
            ("10.0.0.4/30", "10.0.0.8"),
            ("10.0.0.4/30", "10.0.0.3"),
            ("192.168.1.7", "192.168.1.6"),
            ("0.0.0.0/0", "::1"),
            ("::/0", "1.2.3.4"),
            ("fd00::/8", "fc00::1"),
            ("2001:db8::/33", "2001:db8:8000::1"),
        ] {
            assert!(!contains(range, address), "{range} {address}");
        }
        assert!(!IpRanges::default().contains([127, 0, 0, 1].into()));
    }

    #[test]
    fn invalid_address_ranges_are_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "/8",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/8 ",
            "10.0.0.0/8/8",
            "10.0.0.1/8",
            "fd00::1/8",
            "::/129",
            "::/999",
            "10.0.0.0/255.0.0.0",
            "localhost",
            "10.0.0",
            "::ffff:10.0.0.0/104",
        ] {
            assert_eq!(IpRanges::parse([text]), None, "{text}");
            assert_eq!(IpRanges::parse(["10.0.0.1", text]), None, "{text}");
        }
    }
}
