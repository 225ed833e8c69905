//! Addresses of the public internet, for hosts that a third party names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The special-purpose blocks of IPv4 (IANA registry, RFC 6890), and multicast.
const SPECIAL_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::BROADCAST, 32),
];

/// The only block of IPv6 that holds public unicast addresses, and the special-purpose blocks inside it.
const UNICAST_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    // Teredo, ORCHID and other protocols.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4, which contains an IPv4 address.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Returns whether an address is one of the public internet.
///
/// An IPv6 address that contains an IPv4 address (mapped, 6to4, NAT64) is not.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|(block, length)| {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(*length)).unwrap_or(0);
            address.to_bits() & mask == block.to_bits()
        }),
        IpAddr::V6(address) => {
            let within = |(block, length): &(Ipv6Addr, u32)| {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(*length)).unwrap_or(0);
                address.to_bits() & mask == block.to_bits()
            };
            within(&UNICAST_V6) && !SPECIAL_V6.iter().any(within)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for public in [
            "1.1.1.1",
            "100.63.255.255",
            "172.32.0.1",
            "223.255.255.255",
            "2606:4700::1",
            "2a00::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "::8.8.8.8",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00::1",
            "ff02::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
