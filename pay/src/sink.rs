//! The destination of the response body: standard output as a stream, or memory for `--json`.

use std::io::IsTerminal;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_outbound::ReplyStream;

use tokio::io::{AsyncWriteExt, Stdout};

use crate::answer::BodyAnswer;

/// Maximum size of a body in memory. A stream has no bound.
const MEMORY_BYTES_MAX: usize = 8 << 20;

pub(crate) enum Sink {
    Stdout {
        out: Stdout,
        /// Whether any output was written, because then the response cannot start again.
        begun: bool,
        /// Set if standard output is a terminal, which must not receive control characters.
        shown: Option<TerminalFilter>,
    },
    Memory {
        body: Vec<u8>,
        /// Whether the body exceeded [`MEMORY_BYTES_MAX`].
        over: bool,
    },
}

/// Replaces control characters with question marks.
///
/// Newlines and tabs are kept, but not carriage returns. The two-byte control characters (U+0080 to U+009F) are
/// replaced even if they arrive in two pieces.
#[derive(Debug, Default)]
pub(crate) struct TerminalFilter {
    /// Whether the last byte is held back, because it may start a two-byte control character.
    is_byte_held_back: bool,
}

impl TerminalFilter {
    fn without_controls(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(chunk.len().saturating_add(1));
        for &byte in chunk {
            if std::mem::take(&mut self.is_byte_held_back) {
                if (0x80..=0x9f).contains(&byte) {
                    plain.push(b'?');
                    continue;
                }
                plain.push(0xc2);
            }
            match byte {
                0xc2 => self.is_byte_held_back = true,
                b'\n' | b'\t' => plain.push(byte),
                0..=0x1f | 0x7f => plain.push(b'?'),
                _other => plain.push(byte),
            }
        }
        plain
    }
}

/// The reason why a body is incomplete.
pub(crate) enum BodyError {
    /// The connection ended too early.
    Connection(String),
    /// The body could not be written to its destination.
    Output(Fault),
}

impl Sink {
    pub(crate) fn new(json: bool) -> Self {
        if json {
            Self::Memory { body: Vec::new(), over: false }
        } else {
            // Standard output is asynchronous, so that a reader that has stopped cannot block Ctrl-C.
            let shown = std::io::stdout().is_terminal().then(TerminalFilter::default);
            Self::Stdout { out: tokio::io::stdout(), begun: false, shown }
        }
    }

    /// Passes the body of a response on in pieces.
    pub(crate) async fn pass_on_body(&mut self, answer: &mut ReplyStream) -> Result<(), BodyError> {
        while let Some(chunk) = answer.chunk().await.map_err(BodyError::Connection)? {
            self.pass_on_chunk(&chunk).await.map_err(BodyError::Output)?;
        }
        Ok(())
    }

    pub(crate) async fn pass_on_chunk(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Stdout { out, begun, shown } => {
                *begun |= !chunk.is_empty();
                let plain = shown.as_mut().map(|shown| shown.without_controls(chunk));
                let written = async {
                    out.write_all(plain.as_deref().unwrap_or(chunk)).await?;
                    out.flush().await
                };
                written.await.map_err(|error| {
                    let message = format!("The answer could not be written: {error}.");
                    Fault::because(Code::InternalError, message)
                })
            }
            Self::Memory { body, .. }
                if chunk.len() <= MEMORY_BYTES_MAX.saturating_sub(body.len()) =>
            {
                body.extend_from_slice(chunk);
                Ok(())
            }
            Self::Memory { body, over } => {
                *over = true;
                body.clear();
                let message = "The answer is longer than 8 MiB, the maximum with --json: leave --json out \
                     to stream it.";
                Err(Fault::because(Code::ResourceFailed, message))
            }
        }
    }

    /// Discards a truncated body. Returns `false` if a part was already written, so that it cannot be discarded.
    pub(crate) fn discard(&mut self) -> bool {
        match self {
            Self::Stdout { begun, .. } => !*begun,
            Self::Memory { body, .. } => {
                body.clear();
                true
            }
        }
    }

    /// Describes the body for `--json`: as text if it is UTF-8, otherwise as base64.
    pub(crate) fn describe(&self) -> BodyAnswer {
        match self {
            Self::Stdout { .. } => BodyAnswer::default(),
            Self::Memory { over: true, .. } => BodyAnswer {
                body_unknown_reason: Some("it is longer than 8 MiB"),
                ..BodyAnswer::default()
            },
            Self::Memory { body, .. } => {
                let (body, encoding) = match std::str::from_utf8(body) {
                    Ok(text) => (text.to_owned(), "text"),
                    Err(_binary) => (STANDARD.encode(body), "base64"),
                };
                BodyAnswer {
                    body: Some(body),
                    body_encoding: Some(encoding),
                    body_unknown_reason: None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_on_a_terminal_contains_no_control_characters() {
        let text = "a\u{1b}[2Jb\u{9b}1mc\r\n\tä¢\u{7f}d".as_bytes();
        let wanted = "a?[2Jb?1mc?\n\tä¢?d";
        for cut in 0..=text.len() {
            let mut shown = TerminalFilter::default();
            let (first, second) = text.split_at(cut);
            let plain = [shown.without_controls(first), shown.without_controls(second)].concat();
            assert_eq!(String::from_utf8(plain).unwrap(), wanted, "{cut}");
        }
    }
}
