//! IP addresses and ranges as operators write them: `10.0.0.1`, `10.0.0.0/8`, `fd00::/8`.

use std::net::IpAddr;
use std::str::FromStr;

/// A set of address ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpRanges(Vec<IpRange>);

impl IpRanges {
    /// Returns whether a range contains the address. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|range| range.contains(address))
    }
}

impl FromIterator<IpRange> for IpRanges {
    fn from_iter<I: IntoIterator<Item = IpRange>>(ranges: I) -> Self {
        Self(ranges.into_iter().collect())
    }
}

/// One address, or all addresses with the same leading bits (CIDR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    address: IpAddr,
    /// Number of leading bits that must match.
    prefix: u8,
}

/// The text is not a valid address or range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it must be an IP address like 10.0.0.1 or a range like 10.0.0.0/8")]
pub struct InvalidIpRange;

impl IpRange {
    fn contains(self, address: IpAddr) -> bool {
        let skipped = |bits: u8| u32::from(bits.saturating_sub(self.prefix));
        match (self.address, address) {
            (IpAddr::V4(range), IpAddr::V4(address)) => {
                let differ = range.to_bits() ^ address.to_bits();
                differ.checked_shr(skipped(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(range), IpAddr::V6(address)) => {
                let differ = range.to_bits() ^ address.to_bits();
                differ.checked_shr(skipped(128)).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for IpRange {
    type Err = InvalidIpRange;

    /// Rejects a range whose address has bits after its prefix.
    ///
    /// `10.0.0.1/8` is more likely a typing error than the wish to trust 16 million addresses.
    fn from_str(text: &str) -> Result<Self, InvalidIpRange> {
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address: IpAddr = address.parse().map_err(|_not_one| InvalidIpRange)?;
        // `contains` converts mapped addresses to IPv4, so an IPv6 prefix length would not apply to them.
        let mapped = address.to_canonical() != address;
        let address = address.to_canonical();
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(_) if mapped => return Err(InvalidIpRange),
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map_err(|_too_long| InvalidIpRange)?
            }
            Some(_other) => return Err(InvalidIpRange),
        };
        if prefix > bits {
            return Err(InvalidIpRange);
        }
        let range = Self { address, prefix };
        if range.first() == address { Ok(range) } else { Err(InvalidIpRange) }
    }
}

impl IpRange {
    /// Returns the lowest address of the range.
    fn first(self) -> IpAddr {
        let skipped = |bits: u8| u32::from(bits.saturating_sub(self.prefix));
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(skipped(32)).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(skipped(128)).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(range: &str, address: &str) -> bool {
        let ranges = IpRanges::from_iter([range.parse().unwrap()]);
        ranges.contains(address.parse().unwrap())
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
            assert_eq!(text.parse::<IpRange>(), Err(InvalidIpRange), "{text}");
        }
    }
}
