//! Finds the end of a request's body, byte by byte as it arrives.
//!
//! hyper decodes bodies too, but it ignores chunk extensions, accepts trailers, and reads chunk lengths in ways that
//! other parsers do not. So this module checks bodies before hyper gets their bytes.

use super::refusal::Refusal;

/// Maximum number of hex digits of a chunk's length: enough for any accepted body.
const SIZE_DIGITS_MAX: u8 = 8;

/// The part of a body that has not arrived yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// The body is complete.
    Complete,
    /// The number of missing bytes, at least one.
    Length(u64),
    Chunked(Chunks),
}

impl Framing {
    /// Returns how many of `bytes` belong to the body. The bytes after them belong to the next request.
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
                if chunks.next == ExpectedByte::End {
                    *self = Self::Complete;
                }
                Ok(taken)
            }
        }
    }
}

/// The state of a chunked body, without extensions or trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunks {
    next: ExpectedByte,
    /// Bytes of data in all chunks so far.
    total: u64,
}

/// The next byte that is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedByte {
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
    pub(super) const START: Self =
        Self { next: ExpectedByte::Size { digits: 0, size: 0 }, total: 0 };

    fn advance(&mut self, bytes: &[u8], bytes_max: u64) -> Result<usize, Refusal> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.next {
                ExpectedByte::End => break,
                ExpectedByte::Data { left } => {
                    let here = u64::try_from(bytes.len() - at).unwrap_or(u64::MAX).min(left);
                    at += usize::try_from(here).unwrap_or(0);
                    let left = left - here;
                    self.next =
                        if left == 0 { ExpectedByte::DataCr } else { ExpectedByte::Data { left } };
                }
                _framing => {
                    self.next = self.state_after_byte(byte, bytes_max)?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// Returns the state after a byte that is not chunk data.
    fn state_after_byte(&mut self, byte: u8, bytes_max: u64) -> Result<ExpectedByte, Refusal> {
        match (self.next, byte) {
            (ExpectedByte::Size { digits: 1.., size }, b'\r') => Ok(ExpectedByte::SizeEnd { size }),
            (ExpectedByte::Size { digits: ..SIZE_DIGITS_MAX, .. }, _)
                if byte.is_ascii_hexdigit() =>
            {
                let ExpectedByte::Size { digits, size } = self.next else {
                    return Err(Refusal::Malformed);
                };
                let digit = char::from(byte).to_digit(16).ok_or(Refusal::Malformed)?;
                Ok(ExpectedByte::Size { digits: digits + 1, size: size * 16 + u64::from(digit) })
            }
            (ExpectedByte::SizeEnd { size: 0 }, b'\n') => Ok(ExpectedByte::LastCr),
            (ExpectedByte::SizeEnd { size }, b'\n') => {
                self.total = self.total.saturating_add(size);
                if self.total > bytes_max {
                    return Err(Refusal::BodyTooLarge);
                }
                Ok(ExpectedByte::Data { left: size })
            }
            (ExpectedByte::DataCr, b'\r') => Ok(ExpectedByte::DataLf),
            (ExpectedByte::DataLf, b'\n') => Ok(ExpectedByte::Size { digits: 0, size: 0 }),
            (ExpectedByte::LastCr, b'\r') => Ok(ExpectedByte::LastLf),
            (ExpectedByte::LastLf, b'\n') => Ok(ExpectedByte::End),
            _other => Err(Refusal::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 100;

    /// Returns the length of the body or its refusal, and checks that a read byte by byte has the same result.
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
    fn chunked_bodies_end_at_the_last_chunk() {
        assert_eq!(read("0\r\n\r\n"), Ok(5));
        assert_eq!(read("2\r\n{}\r\n0\r\n\r\n"), Ok(12));
        assert_eq!(read("0001\r\n{\r\n1\r\n}\r\n00\r\n\r\nGET /"), Ok(21));
    }

    #[test]
    fn ambiguous_chunk_framing_is_refused() {
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
    fn content_length_framing_counts_down() {
        let mut framing = Framing::Length(5);
        assert_eq!(framing.advance(b"abc", MAX), Ok(3));
        assert_eq!(framing, Framing::Length(2));
        assert_eq!(framing.advance(b"defg", MAX), Ok(2));
        assert_eq!(framing, Framing::Complete);
        assert_eq!(framing.advance(b"fg", MAX), Ok(0));
    }
}
