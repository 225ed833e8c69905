//! The frames between an operator's program and its engine. A frame is a length (u32, big-endian), a kind
//! and a body: JSON, or a secret in raw bytes. The token of the data folder proves both sides to each
//! other by HMAC and never travels itself.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::answers::{ActivityRow, Reply};
use crate::client::Program;
use crate::fault::Fault;
use crate::grammar::Order;
use crate::json;
use crate::limits::FRAME_DEPTH;

/// Raised with every change of a frame that an older program would misread.
pub const PROTOCOL: u32 = 1;

/// The length before each frame, big-endian.
const LENGTH_BYTES: usize = 4;

const KIND_JSON: u8 = 0;
const KIND_SECRET: u8 = 1;

/// The content of `control.json` in the data folder: how to reach the engine. The file is the capability.
#[derive(Clone, Serialize, Deserialize)]
pub struct ControlFile {
    pub socket: String,
    /// 32 bytes in hex, new at each start of the engine.
    pub token: String,
    pub pid: u32,
}

impl std::fmt::Debug for ControlFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlFile").field("socket", &self.socket).field("pid", &self.pid).finish()
    }
}

/// From program to engine.
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
    /// The operator let go of the command: nothing more will be answered.
    Cancel {
        id: u64,
    },
}

/// How much a command may ask the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asking {
    /// Somebody is there.
    Interactive,
    /// Nobody is there: a prompt that no option answers is a failure.
    Silent,
    /// Nobody is there, and ordinary confirmations are given (`--yes`).
    Agreed,
}

/// From engine to program.
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
    /// The next piece of a file that the command makes: the program writes it, with its user's rights.
    Part {
        id: u64,
        text: String,
    },
    /// What happened next, oldest first, to a program that watches.
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

/// What the engine asks the operator in the middle of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Answered by a secret frame.
    Secret { what: SecretPrompt },
    /// Lines to show, and a question to answer with yes or no.
    Confirm { lines: Vec<String>, question: String },
    /// Answered by a secret frame as well, so that a typed amount and a password share one way.
    TypeAmount { lines: Vec<String>, amount: String },
    /// The name of what is lost for good, answered the same way.
    TypeName { lines: Vec<String>, name: String },
}

/// Which secret is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretPrompt {
    Password,
    /// A new password, to be typed twice.
    NewPassword,
    SeedPhrase,
}

/// A frame as it travels, without its length.
#[derive(PartialEq, Eq)]
pub enum Frame {
    Json(Vec<u8>),
    /// A secret that answers the prompt of command `id`, or that its reply names.
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

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the frame is malformed")]
pub struct FrameError;

impl Frame {
    /// The JSON frame of a message.
    pub fn json(message: &impl Serialize) -> Result<Self, FrameError> {
        serde_json::to_vec(message).map(Frame::Json).map_err(|_unserializable| FrameError)
    }

    /// The body that follows the length.
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

    /// Length and body, as they travel. The buffer is wiped: a secret leaves no copy behind.
    pub fn packed(&self) -> Zeroizing<Vec<u8>> {
        let body = self.encode();
        let mut out = Zeroizing::new(Vec::with_capacity(body.len().saturating_add(LENGTH_BYTES)));
        // A body that is too long for its length is refused by whoever reads it.
        out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(&body);
        out
    }

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

    /// Reads a JSON frame strictly: bounded depth, unique keys, a known message.
    pub fn message<T: for<'de> Deserialize<'de>>(&self) -> Result<T, FrameError> {
        let Frame::Json(bytes) = self else { return Err(FrameError) };
        json::parse(bytes, FRAME_DEPTH).map_err(|_not_strict| FrameError)?;
        serde_json::from_slice(bytes).map_err(|_unknown| FrameError)
    }
}

/// Collects the bytes of one frame after the other in memory that is wiped: each body is read into a buffer of its own
/// that never grows, so a secret is in no buffer that was left behind.
#[derive(Default)]
pub struct FrameReader {
    length: [u8; LENGTH_BYTES],
    /// Bytes of the length, then of the body, that have arrived.
    have: usize,
    body: Option<Zeroizing<Vec<u8>>>,
    most: usize,
}

impl std::fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameReader").field("have", &self.have).finish_non_exhaustive()
    }
}

impl FrameReader {
    /// For frames of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// From the next frame on they may have so many bytes.
    pub fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Where the next bytes go; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let have = self.have;
        let whole = match &mut self.body {
            Some(body) => body.as_mut_slice(),
            None => &mut self.length,
        };
        whole.get_mut(have..).unwrap_or_default()
    }

    /// Takes in that `count` bytes were written to [`FrameReader::space`]. Answers the frame that is whole now.
    ///
    /// # Errors
    /// The frame is longer than allowed, empty, or malformed.
    pub fn advance(&mut self, count: usize) -> Result<Option<Frame>, FrameError> {
        self.have = self.have.saturating_add(count);
        let Some(body) = &self.body else {
            if self.have < LENGTH_BYTES {
                return Ok(None);
            }
            let length = usize::try_from(u32::from_be_bytes(self.length)).unwrap_or(usize::MAX);
            if length == 0 || length > self.most {
                return Err(FrameError);
            }
            (self.body, self.have) = (Some(Zeroizing::new(vec![0; length])), 0);
            return Ok(None);
        };
        if self.have < body.len() {
            return Ok(None);
        }
        let frame = Frame::decode(body);
        (self.body, self.have) = (None, 0);
        frame.map(Some)
    }

    /// No part of a frame has arrived: the stream may end here.
    pub fn is_between(&self) -> bool {
        self.have == 0 && self.body.is_none()
    }
}

/// Which side proves itself; the two proofs over the same nonces differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Engine,
    Client,
}

/// HMAC-SHA256 under the token over the side's name and both nonces, in hex.
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

/// Compares proofs in constant time. An empty proof never matches.
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
    fn a_secret_frame_shows_nothing() {
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
    fn frames_are_read_in_pieces_of_any_size() {
        let secret = |text: &[u8]| Frame::Secret { id: 7, bytes: Zeroizing::new(text.to_vec()) };
        let sent = [secret(b"hunter2!"), Frame::Json(b"{}".to_vec()), secret(b"")];
        let stream: Vec<u8> = sent.iter().flat_map(|frame| frame.packed().to_vec()).collect();
        for piece in 1..40 {
            let mut reader = FrameReader::new(17);
            let (mut got, mut left) = (Vec::new(), stream.as_slice());
            while !left.is_empty() {
                let space = reader.space();
                let count = piece.min(space.len()).min(left.len());
                space[..count].copy_from_slice(&left[..count]);
                left = &left[count..];
                got.extend(reader.advance(count).unwrap());
                assert_eq!(
                    reader.is_between(),
                    sent.iter().take(got.len()).map(|f| f.packed().len()).sum::<usize>()
                        == stream.len() - left.len()
                );
            }
            assert_eq!(got, sent);
        }
        for (most, length) in [(16, 17), (17, 0), (17, u32::MAX)] {
            let mut reader = FrameReader::new(most);
            reader.space().copy_from_slice(&u32::to_be_bytes(length));
            assert_eq!(reader.advance(4), Err(FrameError), "{most}, {length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            if let Ok(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(&*frame.encode(), &bytes[..]);
                let _unknown = frame.message::<ToEngine>();
            }
        }
    }
}
