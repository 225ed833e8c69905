//! The head of a request: bounded while it arrives, and checked before hyper gets it.
//!
//! This module checks conditions that hyper does not check:
//!
//! - Lines end in CRLF. No line is folded, has spaces around a header's name, or contains control bytes except tabs.
//! - There is at most one `Content-Length`, of plain digits.
//! - `Transfer-Encoding` is absent, or is `chunked` in HTTP/1.1 without a `Content-Length`.
//! - GET and HEAD have no body, except on the paths of
//!   [`BodyBounds::get_with_body_paths`](super::bounds::BodyBounds::get_with_body_paths).
//! - `Expect` is absent or `100-continue`.
//! - `Connection` is ASCII. Upgrades are refused under [`Bounds::refuse_upgrade`].
//! - The target is a valid URI, in visible ASCII and without a fragment.

use http::{Method, Uri};

use super::bounds::{Bounds, HeadBounds};
use super::chunks::{Chunks, Framing};
use super::refusal::Refusal;

/// Maximum number of header lines: hyper refuses more.
const LINES_MAX: usize = 100;
/// Maximum number of digits of a `Content-Length`: enough for any accepted length.
const LENGTH_DIGITS_MAX: usize = 16;

/// Finds the end of a head. It reads each byte only once, even if the bytes arrive one by one.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    scanned_bytes: usize,
    previous: u8,
    /// Complete lines, including the request line.
    complete_lines: usize,
    /// Bytes of the current line, without its end.
    line_bytes: usize,
}

impl HeadScan {
    /// Returns the length of the head once it is complete.
    pub(super) fn advance(
        &mut self,
        buffer: &[u8],
        bounds: &HeadBounds,
    ) -> Result<Option<usize>, Refusal> {
        for &byte in buffer.get(self.scanned_bytes..).unwrap_or_default() {
            if self.scanned_bytes >= bounds.bytes_max {
                return Err(Refusal::HeadTooLarge);
            }
            self.scanned_bytes += 1;
            let ends = byte == b'\n';
            if ends != (self.previous == b'\r') {
                return Err(Refusal::Malformed);
            }
            self.previous = byte;
            if ends {
                match (self.line_bytes, self.complete_lines) {
                    (0, 0) => return Err(Refusal::Malformed),
                    (0, _some) => return Ok(Some(self.scanned_bytes)),
                    (_text, _any) => {
                        (self.complete_lines, self.line_bytes) = (self.complete_lines + 1, 0)
                    }
                }
            } else if byte != b'\r' {
                self.line_bytes += 1;
                self.check_byte(byte, bounds)?;
            }
        }
        Ok(None)
    }

    fn check_byte(&self, byte: u8, bounds: &HeadBounds) -> Result<(), Refusal> {
        if byte.is_ascii_control() && byte != b'\t' {
            return Err(Refusal::Malformed);
        }
        let line_too_long = self.complete_lines == 0 && self.line_bytes > bounds.line_bytes_max;
        if line_too_long || self.complete_lines > bounds.lines_max {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(())
    }
}

/// The result of checking a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) framing: Framing,
}

/// Checks a complete head.
pub(super) fn check(head: &[u8], bounds: &Bounds) -> Result<Head, Refusal> {
    let malformed = Refusal::Malformed;
    let mut lines = [httparse::EMPTY_HEADER; LINES_MAX];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(head) {
        Ok(httparse::Status::Complete(end)) if end == head.len() => {}
        Ok(_partial_or_more) => return Err(malformed),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLarge),
        Err(_malformed) => return Err(malformed),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        return Err(malformed);
    };
    // Clients never send a fragment, and hyper would cut it off.
    if target.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#') {
        return Err(malformed);
    }
    // hyper parses the target in the same way, and would answer an invalid one itself with 400 without a body.
    if target.parse::<Uri>().is_err() {
        return Err(Refusal::Target);
    }
    let fields = BodyFields::read(request.headers, minor == 1, bounds.refuse_upgrade)?;
    let framing = match (fields.length, fields.chunked) {
        (Some(_), true) => return Err(Refusal::Length),
        (None, true) => Framing::Chunked(Chunks::START),
        (None | Some(0), false) => Framing::Complete,
        (Some(length), false) => Framing::Length(length),
    };
    // Many servers ignore a body of GET or HEAD, and would parse the body as the next request.
    let is_read = method == Method::GET.as_str() || method == Method::HEAD.as_str();
    if is_read
        && framing != Framing::Complete
        && !may_have_body(target, bounds.body.get_with_body_paths)
    {
        return Err(malformed);
    }
    Ok(Head { framing })
}

fn may_have_body(target: &str, paths: &[&str]) -> bool {
    !paths.is_empty()
        && target.parse::<Uri>().is_ok_and(|uri| paths.iter().any(|path| *path == uri.path()))
}

/// The headers that decide where a request ends.
#[derive(Debug, Default)]
struct BodyFields {
    length: Option<u64>,
    chunked: bool,
    expects_continue: bool,
}

impl BodyFields {
    fn read(
        headers: &[httparse::Header<'_>],
        is_new: bool,
        refuse_upgrade: bool,
    ) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            // For most headers the length alone shows that they do not matter here.
            match header.name.len() {
                6 if is("expect") => {
                    let known = header.value.eq_ignore_ascii_case(b"100-continue");
                    if !known || std::mem::replace(&mut fields.expects_continue, true) {
                        return Err(Refusal::Malformed);
                    }
                }
                7 if refuse_upgrade && is("upgrade") => return Err(Refusal::Malformed),
                10 if is("connection") => check_connection_header(header.value, refuse_upgrade)?,
                14 if is("content-length") => {
                    let known = fields.length.replace(parse_content_length(header.value)?);
                    known.map_or(Ok(()), |_twice| Err(Refusal::Length))?;
                }
                17 if is("transfer-encoding") => {
                    let known = is_new && header.value.eq_ignore_ascii_case(b"chunked");
                    if !known || std::mem::replace(&mut fields.chunked, true) {
                        return Err(Refusal::Malformed);
                    }
                }
                _other => {}
            }
        }
        Ok(fields)
    }
}

fn parse_content_length(digits: &[u8]) -> Result<u64, Refusal> {
    let plain = digits.len() <= LENGTH_DIGITS_MAX && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_text| plain);
    text.and_then(|text| text.parse().ok()).ok_or(Refusal::Length)
}

fn check_connection_header(value: &[u8], refuse_upgrade: bool) -> Result<(), Refusal> {
    let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let upgrades = refuse_upgrade && options.any(|one| one.eq_ignore_ascii_case(b"upgrade"));
    if upgrades || !value.is_ascii() { Err(Refusal::Malformed) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
