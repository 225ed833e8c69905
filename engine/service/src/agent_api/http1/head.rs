//! The head of a request: bounded while it arrives, then judged. What two readers could understand in two
//! ways is refused: bare line ends, folded lines, odd spaces, control bytes.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use bursar_core::codes::Code;
use bursar_core::limits::{HEAD_BYTES, HEAD_LINES, HEAD_MS, REQUEST_LINE_BYTES};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::framing::{self, Framing};
use super::wire::{Broken, Wire};

/// A request without its body, and how the connection goes on with it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) request: Request<()>,
    pub(super) framing: Framing,
    /// The peer wants to send another request after this one.
    pub(super) keeps_alive: bool,
    /// The peer sends its body after it was told to go on.
    pub(super) waits_for_continue: bool,
}

/// Reads the head of which the first bytes have come.
pub(super) async fn read<S>(wire: &mut Wire<S>) -> Result<Head, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let deadline = Instant::now() + Duration::from_millis(HEAD_MS);
    let mut scan = Scan::default();
    let end = loop {
        if let Some(end) = scan.advance(&wire.buffer)? {
            break end;
        }
        wire.more(deadline).await?;
    };
    Ok(judge(wire.buffer.split_to(end).freeze())?)
}

/// Looks at each byte once, however slowly they come.
#[derive(Debug, Default)]
struct Scan {
    /// Bytes looked at.
    seen: usize,
    previous: u8,
    /// Lines that have ended, the request line among them.
    lines: usize,
    /// Bytes of the line at hand, without its end.
    line: usize,
}

impl Scan {
    /// Where the head ends, once it does.
    fn advance(&mut self, buffer: &[u8]) -> Result<Option<usize>, Code> {
        for &byte in buffer.get(self.seen..).unwrap_or_default() {
            if self.seen >= HEAD_BYTES {
                return Err(Code::HeadTooLarge);
            }
            self.seen += 1;
            let ends = byte == b'\n';
            if ends != (self.previous == b'\r') {
                return Err(Code::BadRequest);
            }
            self.previous = byte;
            if ends {
                if self.line == 0 {
                    return if self.lines == 0 {
                        Err(Code::BadRequest)
                    } else {
                        Ok(Some(self.seen))
                    };
                }
                self.lines += 1;
                self.line = 0;
            } else if byte != b'\r' {
                self.line += 1;
                self.judge_byte(byte)?;
            }
        }
        Ok(None)
    }

    fn judge_byte(&self, byte: u8) -> Result<(), Code> {
        if byte.is_ascii_control() && byte != b'\t' {
            return Err(Code::BadRequest);
        }
        let line_too_long = self.lines == 0 && self.line > REQUEST_LINE_BYTES;
        if line_too_long || self.lines > HEAD_LINES {
            return Err(Code::HeadTooLarge);
        }
        Ok(())
    }
}

fn judge(head: Bytes) -> Result<Head, Code> {
    let malformed = Code::BadRequest;
    let mut lines = [httparse::EMPTY_HEADER; HEAD_LINES];
    let mut tokens = httparse::Request::new(&mut lines);
    match tokens.parse(&head) {
        Ok(httparse::Status::Complete(end)) if end == head.len() => {}
        Ok(httparse::Status::Complete(_) | httparse::Status::Partial) => return Err(malformed),
        // Too many lines have been counted already; a version that is none of ours is malformed.
        Err(_malformed) => return Err(malformed),
    }
    let (Some(method), Some(target), Some(minor)) = (tokens.method, tokens.path, tokens.version)
    else {
        return Err(malformed);
    };
    // A fragment is never sent, and its reader would cut it off.
    if target.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#') {
        return Err(malformed);
    }
    let mut request = Request::new(());
    *request.version_mut() = if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|_odd| malformed)?;
    *request.uri_mut() =
        Uri::from_maybe_shared(head.slice_ref(target.as_bytes())).map_err(|_odd| malformed)?;
    let headers = request.headers_mut();
    headers.reserve(tokens.headers.len());
    for line in tokens.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_odd| malformed)?;
        let value = HeaderValue::from_maybe_shared(head.slice_ref(line.value));
        headers.append(name, value.map_err(|_odd| malformed)?);
    }
    let framing = framing::of(&request)?;
    let is_new = minor == 1;
    let options = Options::of(request.headers())?;
    let keeps_alive = !options.close && (is_new || options.keep_alive);
    let waits_for_continue = expects_continue(request.headers())? && is_new;
    Ok(Head { request, framing, keeps_alive, waits_for_continue })
}

/// What `Connection` says.
#[derive(Debug, Default)]
struct Options {
    close: bool,
    keep_alive: bool,
}

impl Options {
    /// This server speaks one protocol.
    fn of(headers: &HeaderMap) -> Result<Self, Code> {
        if headers.contains_key(header::UPGRADE) {
            return Err(Code::BadRequest);
        }
        let mut options = Self::default();
        for value in headers.get_all(header::CONNECTION) {
            let value = value.to_str().map_err(|_not_ascii| Code::BadRequest)?;
            for option in value.split(',').map(str::trim) {
                if option.eq_ignore_ascii_case("upgrade") {
                    return Err(Code::BadRequest);
                }
                options.close |= option.eq_ignore_ascii_case("close");
                options.keep_alive |= option.eq_ignore_ascii_case("keep-alive");
            }
        }
        Ok(options)
    }
}

fn expects_continue(headers: &HeaderMap) -> Result<bool, Code> {
    let mut expectations = headers.get_all(header::EXPECT).iter();
    match (expectations.next(), expectations.next()) {
        (None, _) => Ok(false),
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(true),
        (Some(_), _) => Err(Code::BadRequest),
    }
}
