//! Reads RLP (Ethereum's encoding of transactions).

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Bytes(Vec<u8>),
    List(Vec<Item>),
}

/// Where an item stands in its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    is_list: bool,
    /// Bytes before the payload.
    start: usize,
    payload: usize,
}

impl Header {
    fn end(&self) -> Option<usize> {
        self.start.checked_add(self.payload)
    }
}

fn header(bytes: &[u8]) -> Option<Header> {
    let first = *bytes.first()?;
    let short = |is_list, base: u8| {
        Some(Header { is_list, start: 1, payload: usize::from(first.checked_sub(base)?) })
    };
    let long = |is_list, base: u8| {
        let count = usize::from(first.checked_sub(base)?);
        let start = count.checked_add(1)?;
        let digits = bytes.get(1..start)?;
        let payload = digits
            .iter()
            .try_fold(0usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))?;
        Some(Header { is_list, start, payload })
    };
    match first {
        0x00..=0x7f => Some(Header { is_list: false, start: 0, payload: 1 }),
        0x80..=0xb7 => short(false, 0x80),
        0xb8..=0xbf => long(false, 0xb7),
        0xc0..=0xf7 => short(true, 0xc0),
        0xf8..=0xff => long(true, 0xf7),
    }
}

/// Returns the length of the first item's encoding, once its header is there.
pub fn length(bytes: &[u8]) -> Option<usize> {
    header(bytes)?.end()
}

/// Reads the first item; returns it with the rest.
pub fn read(bytes: &[u8]) -> Option<(Item, &[u8])> {
    let header = header(bytes)?;
    let payload = bytes.get(header.start..header.end()?)?;
    let rest = bytes.get(header.end()?..)?;
    if !header.is_list {
        return Some((Item::Bytes(payload.to_vec()), rest));
    }
    let (mut items, mut left) = (Vec::new(), payload);
    while !left.is_empty() {
        let (item, after) = read(left)?;
        items.push(item);
        left = after;
    }
    Some((Item::List(items), rest))
}

/// Returns the number of whole items of a list of which the end is still missing.
pub fn items_so_far(bytes: &[u8]) -> Option<usize> {
    let header = header(bytes).filter(|header| header.is_list)?;
    let (mut count, mut left) = (0usize, bytes.get(header.start..)?);
    while let Some((_item, after)) = read(left) {
        count = count.checked_add(1)?;
        left = after;
    }
    Some(count)
}

impl Item {
    /// Returns the bytes; `None` for a list.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::List(_) => None,
        }
    }
}
