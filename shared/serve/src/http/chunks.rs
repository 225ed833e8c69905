//! Where a request's body ends, byte by byte as it arrives.
//!
//! hyper decodes bodies too. It ignores chunk extensions, accepts trailers and reads a chunk's length in ways that other
//! readers do not, so a body is checked here before hyper gets its bytes.

use super::refusal::Refusal;

/// Hex digits of a chunk's length: more than any body that is accepted.
const DIGITS_MAX: u8 = 8;

/// What of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Nothing.
    Complete,
    /// So many bytes, at least one.
    Length(u64),
    Chunked(Chunks),
}

impl Framing {
    /// How many of the next bytes belong to the body; those after it are of the next request.
    pub(super) fn advance(&mut self, bytes: &[u8], bytes_max: u64) -> Result<usize, Refusal> {
        match self {
            Self::Complete => Ok(0),
            Self::Length(left) => {
                let arrived = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let taken = arrived.min(*left);
                *left = left.saturating_sub(taken);
                if *left == 0 {
                    *self = Self::Complete;
                }
                Ok(usize::try_from(taken).unwrap_or(bytes.len()))
            }
            Self::Chunked(chunks) => {
                let taken = chunks.advance(bytes, bytes_max)?;
                if chunks.next == Next::End {
                    *self = Self::Complete;
                }
                Ok(taken)
            }
        }
    }
}

/// Chunks without extensions or trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunks {
    next: Next,
    /// Data of all chunks so far.
    total: u64,
}

/// What the next byte must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Size { digits: u8, size: u64 },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    LastCr,
    LastLf,
    End,
}

impl Chunks {
    pub(super) const START: Self = Self { next: Next::Size { digits: 0, size: 0 }, total: 0 };

    fn advance(&mut self, bytes: &[u8], bytes_max: u64) -> Result<usize, Refusal> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.next {
                Next::End => break,
                Next::Data { left } => {
                    let here = u64::try_from(bytes.len() - at).unwrap_or(u64::MAX).min(left);
                    at += usize::try_from(here).unwrap_or(0);
                    let left = left - here;
                    self.next = if left == 0 { Next::DataCr } else { Next::Data { left } };
                }
                _framing => {
                    self.next = self.after(byte, bytes_max)?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// What follows a byte outside the data.
    fn after(&mut self, byte: u8, bytes_max: u64) -> Result<Next, Refusal> {
        match (self.next, byte) {
            (Next::Size { digits: 1.., size }, b'\r') => Ok(Next::SizeEnd { size }),
            (Next::Size { digits: ..DIGITS_MAX, .. }, _) if byte.is_ascii_hexdigit() => {
                let Next::Size { digits, size } = self.next else { return Err(Refusal::Malformed) };
                let digit = char::from(byte).to_digit(16).ok_or(Refusal::Malformed)?;
                Ok(Next::Size { digits: digits + 1, size: size * 16 + u64::from(digit) })
            }
            (Next::SizeEnd { size: 0 }, b'\n') => Ok(Next::LastCr),
            (Next::SizeEnd { size }, b'\n') => {
                self.total = self.total.saturating_add(size);
                if self.total > bytes_max {
                    return Err(Refusal::BodyTooLarge);
                }
                Ok(Next::Data { left: size })
            }
            (Next::DataCr, b'\r') => Ok(Next::DataLf),
            (Next::DataLf, b'\n') => Ok(Next::Size { digits: 0, size: 0 }),
            (Next::LastCr, b'\r') => Ok(Next::LastLf),
            (Next::LastLf, b'\n') => Ok(Next::End),
            _other => Err(Refusal::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 100;

    /// Bytes of the body, or why it is refused; the same in one piece and byte by byte.
    fn read(text: &str) -> Result<usize, Refusal> {
        let mut framing = Framing::Chunked(Chunks::START);
        let whole = framing.advance(text.as_bytes(), MAX);
        let mut slow = Framing::Chunked(Chunks::START);
        let mut taken = Ok(0);
        for byte in text.as_bytes() {
            let Ok(so_far) = taken else { break };
            taken = slow.advance(&[*byte], MAX).map(|more| so_far + more);
        }
        assert_eq!(whole, taken, "{text:?}");
        whole.inspect(|_| {
            assert_eq!((framing, slow), (Framing::Complete, Framing::Complete), "{text:?}")
        })
    }

    #[test]
    fn chunks_end_where_they_say() {
        assert_eq!(read("0\r\n\r\n"), Ok(5));
        assert_eq!(read("2\r\n{}\r\n0\r\n\r\n"), Ok(12));
        assert_eq!(read("0001\r\n{\r\n1\r\n}\r\n00\r\n\r\nGET /"), Ok(21));
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_refused() {
        for text in [
            "2;name=value\r\n{}\r\n0\r\n\r\n",
            "2 \r\n{}\r\n0\r\n\r\n",
            " 2\r\n{}\r\n0\r\n\r\n",
            "+2\r\n{}\r\n0\r\n\r\n",
            "0x2\r\n{}\r\n0\r\n\r\n",
            "\r\n{}\r\n0\r\n\r\n",
            "2\n{}\n0\n\n",
            "2\r{}\r\n0\r\n\r\n",
            "2\r\n{}0\r\n\r\n",
            "2\r\n{}\n0\r\n\r\n",
            "2\r\n{}\r\n0\r\nX: y\r\n\r\n",
            "2\r\n{}\r\n0\n\n",
            "000000002\r\n{}\r\n0\r\n\r\n",
        ] {
            assert_eq!(read(text), Err(Refusal::Malformed), "{text:?}");
        }
        assert_eq!(read("65\r\n"), Err(Refusal::BodyTooLarge));
        assert_eq!(read("ffffffff\r\n"), Err(Refusal::BodyTooLarge));
    }

    #[test]
    fn a_length_is_counted_down() {
        let mut framing = Framing::Length(5);
        assert_eq!(framing.advance(b"abc", MAX), Ok(3));
        assert_eq!(framing, Framing::Length(2));
        assert_eq!(framing.advance(b"defg", MAX), Ok(2));
        assert_eq!(framing, Framing::Complete);
        assert_eq!(framing.advance(b"fg", MAX), Ok(0));
    }
}
