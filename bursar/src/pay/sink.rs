//! Where the answer's body goes: to standard output as it comes and as it is, or into memory for `--json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_outbound::Answered;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncWriteExt, Stdout};

/// What one object may hold; streaming has no bound.
const MEMORY_BYTES: usize = 8 << 20;

pub(super) enum Sink {
    Stdout {
        out: Stdout,
        /// Something is out that cannot be taken back.
        begun: bool,
    },
    Memory {
        body: Vec<u8>,
        /// There was more than fits.
        over: bool,
    },
}

/// Why a body did not arrive whole.
pub(super) enum Broken {
    /// The connection ended too early.
    There(String),
    /// It can be put nowhere.
    Here(Fault),
}

impl Sink {
    pub(super) fn new(json: bool) -> Self {
        if json {
            Self::Memory { body: Vec::new(), over: false }
        } else {
            // Not the blocking one: a reader that has stopped must not keep Ctrl-C from being heard.
            Self::Stdout { out: tokio::io::stdout(), begun: false }
        }
    }

    /// Passes on what comes of an answer, piece by piece.
    pub(super) async fn fill(&mut self, answer: &mut Answered) -> Result<(), Broken> {
        while let Some(chunk) = answer.chunk().await.map_err(Broken::There)? {
            self.take(&chunk).await.map_err(Broken::Here)?;
        }
        Ok(())
    }

    pub(super) async fn take(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Stdout { out, begun } => {
                *begun |= !chunk.is_empty();
                let written = async {
                    out.write_all(chunk).await?;
                    out.flush().await
                };
                written.await.map_err(|error| {
                    let message = format!("The answer could not be written: {error}.");
                    Fault::because(Code::InternalError, message)
                })
            }
            Self::Memory { body, .. } if chunk.len() <= MEMORY_BYTES.saturating_sub(body.len()) => {
                body.extend_from_slice(chunk);
                Ok(())
            }
            Self::Memory { body, over } => {
                *over = true;
                body.clear();
                let message = "The answer is longer than the 8 MiB that fit into one JSON object: without \
                               --json it is streamed.";
                Err(Fault::because(Code::ResourceFailed, message))
            }
        }
    }

    /// Forgets a body that broke off; not possible once some of it is out.
    pub(super) fn begin_again(&mut self) -> bool {
        match self {
            Self::Stdout { begun, .. } => !*begun,
            Self::Memory { body, .. } => {
                body.clear();
                true
            }
        }
    }

    /// The body for `--json`: text where it is UTF-8.
    pub(super) fn describe(&self, data: &mut Map<String, Value>) {
        let (body, encoding) = match self {
            Self::Stdout { .. } | Self::Memory { over: true, .. } => (Value::Null, Value::Null),
            Self::Memory { body, .. } => match std::str::from_utf8(body) {
                Ok(text) => (json!(text), json!("text")),
                Err(_binary) => (json!(STANDARD.encode(body)), json!("base64")),
            },
        };
        data.insert("body".to_owned(), body);
        data.insert("body_encoding".to_owned(), encoding);
        if matches!(self, Self::Memory { over: true, .. }) {
            data.insert("body_unknown_reason".to_owned(), json!("it is longer than 8 MiB"));
        }
    }
}
