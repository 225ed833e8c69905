//! The frames of the control channel, between an operator's program and its engine. A frame is a length (u32,
//! big-endian), a kind, and either JSON or the id of a command with a secret in raw bytes. Each side proves by HMAC
//! that it knows the token of the data folder, which is never sent.

use bursar_core::client::Program;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::json;
use bursar_core::limits::FRAME_DEPTH_MAX;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::answers::{ActivityRow, Reply};
use crate::grammar::Order;

/// Protocol version, raised with every change of a frame that an older program would misread.
pub const PROTOCOL: u32 = 4;

/// Bytes of the big-endian length before each frame.
const LENGTH_BYTES: usize = 4;

const KIND_JSON: u8 = 0;
const KIND_SECRET: u8 = 1;

/// The content of `control.json` in the data folder, which is the capability to use the engine.
#[derive(Clone, Serialize, Deserialize)]
pub struct ControlFile {
    pub socket: String,
    /// 32 bytes in hex, generated at each start of the engine.
    pub token: String,
    pub pid: u32,
    /// The edition of the engine.
    #[serde(default)]
    pub edition: EditionName,
}

impl std::fmt::Debug for ControlFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlFile").field("socket", &self.socket).field("pid", &self.pid).finish()
    }
}

/// A message from a program to the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ToEngine {
    Hello {
        protocol: u32,
        version: String,
        nonce: String,
        #[serde(default)]
        program: Program,
    },
    Proof {
        proof: String,
    },
    Run {
        id: u64,
        order: Box<Order>,
        asking: Asking,
    },
    /// The answer to a yes-or-no prompt.
    Answer {
        id: u64,
        yes: bool,
    },
    /// The operator cancelled the command; its prompts receive no further answers.
    Cancel {
        id: u64,
    },
}

/// Which confirmations a command may request.
///
/// Secrets are requested in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asking {
    /// The program can ask a person.
    Interactive,
    /// The program does not ask. The command fails if it needs a confirmation that no option gives.
    Silent,
    /// The operator has given ordinary confirmations in advance, by `--yes` or on a card of the console.
    Agreed,
    /// The command changes nothing: its answer lists what it would ask and change.
    DryRun,
}

/// A message from the engine to a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ToClient {
    Hello {
        protocol: u32,
        version: String,
        nonce: String,
        proof: String,
    },
    Refused {
        fault: Fault,
    },
    Welcome,
    Progress {
        id: u64,
        text: String,
    },
    /// The next part of a file that the command produces. The program writes it, with its user's permissions.
    Part {
        id: u64,
        text: String,
    },
    /// New journal entries, oldest first, for a program that watches.
    Entries {
        id: u64,
        entries: Vec<ActivityRow>,
    },
    Prompt {
        id: u64,
        prompt: Prompt,
    },
    Done {
        id: u64,
        reply: Box<Reply>,
    },
}

/// A question to the operator in the middle of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Answered by a secret frame.
    Secret { what: SecretPrompt },
    /// Lines to show, and a yes-or-no question.
    Confirm { lines: Vec<String>, question: String },
    /// The operator must type this amount. The answer is a secret frame, as for a password, so that all typed input
    /// takes the same path.
    TypeAmount { lines: Vec<String>, amount: String },
    /// The operator must type the name of the object that will be lost permanently. The answer is a secret frame.
    TypeName { lines: Vec<String>, name: String },
}

/// The secret that a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretPrompt {
    Password,
    /// A new password, to be typed twice.
    NewPassword,
    SeedPhrase,
}

/// A frame as sent, without its length.
#[derive(PartialEq, Eq)]
pub enum Frame {
    Json(Vec<u8>),
    /// A secret that answers a prompt of command `id`, or that the command's reply refers to.
    Secret {
        id: u64,
        bytes: Zeroizing<Vec<u8>>,
    },
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Frame::Json(bytes) => write!(f, "Json({} bytes)", bytes.len()),
            Frame::Secret { id, .. } => write!(f, "Secret({id})"),
        }
    }
}

/// The bytes are not a valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the frame is malformed")]
pub struct FrameError;

impl Frame {
    /// Serializes a message as a JSON frame.
    ///
    /// # Errors
    /// The message cannot be serialized.
    pub fn json(message: &impl Serialize) -> Result<Self, FrameError> {
        serde_json::to_vec(message).map(Frame::Json).map_err(|_unserializable| FrameError)
    }

    /// Returns the body that follows the length.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let (kind, head, body): (u8, &[u8], &[u8]) = match self {
            Frame::Json(body) => (KIND_JSON, &[], body),
            Frame::Secret { id, bytes } => (KIND_SECRET, &id.to_be_bytes(), bytes),
        };
        let size = body.len().saturating_add(head.len()).saturating_add(1);
        let mut out = Zeroizing::new(Vec::with_capacity(size));
        out.push(kind);
        out.extend_from_slice(head);
        out.extend_from_slice(body);
        out
    }

    /// Returns length and body as sent.
    ///
    /// The buffer is wiped on drop, so that a secret leaves no copy behind.
    pub fn packed(&self) -> Zeroizing<Vec<u8>> {
        let body = self.encode();
        let mut out = Zeroizing::new(Vec::with_capacity(body.len().saturating_add(LENGTH_BYTES)));
        // A body that is too long for the length field gets the largest length, which every reader rejects.
        out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(&body);
        out
    }

    /// Reads a frame from the body that follows the length.
    ///
    /// # Errors
    /// The body is empty, of an unknown kind, or too short for a secret.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let (kind, body) = bytes.split_first().ok_or(FrameError)?;
        match *kind {
            KIND_JSON => Ok(Frame::Json(body.to_vec())),
            KIND_SECRET => {
                let (id, secret) = body.split_first_chunk::<8>().ok_or(FrameError)?;
                let bytes = Zeroizing::new(secret.to_vec());
                Ok(Frame::Secret { id: u64::from_be_bytes(*id), bytes })
            }
            _unknown => Err(FrameError),
        }
    }

    /// Parses a JSON frame strictly: bounded depth, unique keys, a known message.
    ///
    /// # Errors
    /// The frame is a secret, or its JSON is not valid or not a known message.
    pub fn message<T: for<'de> Deserialize<'de>>(&self) -> Result<T, FrameError> {
        let Frame::Json(bytes) = self else { return Err(FrameError) };
        json::parse(bytes, FRAME_DEPTH_MAX).map_err(|_not_strict| FrameError)?;
        serde_json::from_slice(bytes).map_err(|_unknown| FrameError)
    }
}

/// Reads frames one by one into memory that is wiped.
///
/// Each body gets its own buffer, which never grows, so no abandoned buffer contains a secret.
#[derive(Default)]
pub struct FrameReader {
    length: [u8; LENGTH_BYTES],
    /// Bytes received so far, of the length and then of the body.
    received: usize,
    body: Option<Zeroizing<Vec<u8>>>,
    body_bytes_max: usize,
}

impl std::fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameReader").field("have", &self.received).finish_non_exhaustive()
    }
}

impl FrameReader {
    /// Creates a reader of frames of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { body_bytes_max: most, ..Self::default() }
    }

    /// Sets the longest body, in bytes, from the next frame on.
    pub fn allow(&mut self, most: usize) {
        self.body_bytes_max = most;
    }

    /// Returns the buffer for the next bytes; never empty.
    pub fn buffer(&mut self) -> &mut [u8] {
        let have = self.received;
        let whole = match &mut self.body {
            Some(body) => body.as_mut_slice(),
            None => &mut self.length,
        };
        whole.get_mut(have..).unwrap_or_default()
    }

    /// Counts bytes written to [`FrameReader::buffer`], and returns the frame if it is complete.
    ///
    /// # Errors
    /// The frame is longer than allowed, empty, or malformed.
    pub fn advance(&mut self, count: usize) -> Result<Option<Frame>, FrameError> {
        self.received = self.received.saturating_add(count);
        let Some(body) = &self.body else {
            if self.received < LENGTH_BYTES {
                return Ok(None);
            }
            let length = usize::try_from(u32::from_be_bytes(self.length)).unwrap_or(usize::MAX);
            if length == 0 || length > self.body_bytes_max {
                return Err(FrameError);
            }
            (self.body, self.received) = (Some(Zeroizing::new(vec![0; length])), 0);
            return Ok(None);
        };
        if self.received < body.len() {
            return Ok(None);
        }
        let frame = Frame::decode(body);
        (self.body, self.received) = (None, 0);
        frame.map(Some)
    }

    /// Returns whether no part of a frame has arrived, so that the stream may end here.
    pub fn is_at_frame_boundary(&self) -> bool {
        self.received == 0 && self.body.is_none()
    }
}

/// The side of the handshake whose proof is computed.
///
/// Over the same nonces, the proofs of the two sides differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Engine,
    Client,
}

/// Returns the HMAC-SHA256 under the token over the side's name and both nonces, in hex.
pub fn proof(token: &str, side: Side, client_nonce: &str, engine_nonce: &str) -> String {
    let role = match side {
        Side::Engine => "engine",
        Side::Client => "client",
    };
    let message = format!("bursar control {PROTOCOL}\n{role}\n{client_nonce}\n{engine_nonce}");
    // HMAC takes keys of any length, so this cannot fail; an empty proof would match nothing.
    match Hmac::<Sha256>::new_from_slice(token.as_bytes()) {
        Ok(mac) => hex::encode(mac.chain_update(message).finalize().into_bytes()),
        Err(_impossible) => String::new(),
    }
}

/// Compares two proofs in constant time.
///
/// An empty proof never matches.
pub fn proof_matches(expected: &str, given: &str) -> bool {
    !expected.is_empty() && bool::from(expected.as_bytes().ct_eq(given.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_side_proves_the_token_without_sending_it() {
        let engine = proof("secret", Side::Engine, "c", "e");
        assert!(proof_matches(&engine, &proof("secret", Side::Engine, "c", "e")));
        for other in [
            proof("other", Side::Engine, "c", "e"),
            proof("secret", Side::Client, "c", "e"),
            proof("secret", Side::Engine, "x", "e"),
            proof("secret", Side::Engine, "c", "x"),
            String::new(),
        ] {
            assert!(!proof_matches(&engine, &other));
        }
        assert!(!proof_matches("", ""));
    }

    #[test]
    fn debug_output_of_a_secret_frame_hides_the_secret() {
        let frame = Frame::Secret { id: 3, bytes: Zeroizing::new(b"hunter2!".to_vec()) };
        assert_eq!(format!("{frame:?}"), "Secret(3)");
        assert_eq!(Frame::decode(&frame.encode()).unwrap(), frame);
    }

    #[test]
    fn a_json_frame_is_read_strictly() {
        let twice = Frame::Json(br#"{"frame":"cancel","id":1,"id":2}"#.to_vec());
        assert_eq!(twice.message::<ToEngine>(), Err(FrameError));
        let once = Frame::Json(br#"{"frame":"cancel","id":1}"#.to_vec());
        assert_eq!(once.message::<ToEngine>(), Ok(ToEngine::Cancel { id: 1 }));
    }

    #[test]
    fn frame_reader_accepts_pieces_of_any_size() {
        let secret = |text: &[u8]| Frame::Secret { id: 7, bytes: Zeroizing::new(text.to_vec()) };
        let sent = [secret(b"hunter2!"), Frame::Json(b"{}".to_vec()), secret(b"")];
        let stream: Vec<u8> = sent.iter().flat_map(|frame| frame.packed().to_vec()).collect();
        for piece in 1..40 {
            let mut reader = FrameReader::new(17);
            let (mut got, mut left) = (Vec::new(), stream.as_slice());
            while !left.is_empty() {
                let space = reader.buffer();
                let count = piece.min(space.len()).min(left.len());
                space[..count].copy_from_slice(&left[..count]);
                left = &left[count..];
                got.extend(reader.advance(count).unwrap());
                assert_eq!(
                    reader.is_at_frame_boundary(),
                    sent.iter().take(got.len()).map(|f| f.packed().len()).sum::<usize>()
                        == stream.len() - left.len()
                );
            }
            assert_eq!(got, sent);
        }
        for (most, length) in [(16, 17), (17, 0), (17, u32::MAX)] {
            let mut reader = FrameReader::new(most);
            reader.buffer().copy_from_slice(&u32::to_be_bytes(length));
            assert_eq!(reader.advance(4), Err(FrameError), "{most}, {length}");
        }
    }

    proptest! {
        #[test]
        fn frame_decoder_never_panics(bytes: Vec<u8>) {
            if let Ok(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(&*frame.encode(), &bytes[..]);
                let _unknown = frame.message::<ToEngine>();
            }
        }
    }
}
