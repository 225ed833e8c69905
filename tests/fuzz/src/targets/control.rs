//! Frames to the wallet's control socket, before and after the proof of the token.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, PROTOCOL, Side, ToEngine, proof};
use bursar_tests::dice::Dice;
use serde_json::{Value, json};

use super::args::WALLET_LINES;
use super::health::Health;
use super::wallet::{PASSWORD, StateWatch, Wallet};
use crate::draw::{change_slightly, mutate_bytes};
use crate::json::mutated;
use crate::oracle::check_faults;
use crate::programs::Programs;
use crate::report::escaped;
use crate::scene::{Outcome, Scene};

/// Timeout of a wait for the end of a connection whose sending side is closed.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest frame from the engine. Answers with many rows have some hundred kilobytes.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// The id of the last command of a connection.
const LAST_COMMAND_ID: u64 = 999_999;
/// Number of connections without a valid proof after which the state is compared.
const CONNECTIONS_PER_COMPARISON: u64 = 40;

#[derive(Debug)]
struct Control {
    /// Whether the connections prove the token.
    proves: bool,
    wallet: Wallet,
    health: Health,
    state: StateWatch,
}

/// Opens a scene whose connections prove the token.
pub(super) fn open_proven(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    open(programs, true)
}

/// Opens a scene whose connections do not prove the token.
pub(super) fn open_unproven(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    open(programs, false)
}

fn open(programs: &Programs, proves: bool) -> Result<Box<dyn Scene>, String> {
    let wallet = Wallet::start(programs, 500)?;
    let state = StateWatch::new(CONNECTIONS_PER_COMPARISON);
    Ok(Box::new(Control { proves, wallet, health: Health::default(), state }))
}

/// Returns a frame with its length.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 1).expect("short");
    [&length.to_be_bytes()[..], &[kind], body].concat()
}

/// Returns the valid command that follows all others of a connection.
fn last_frame() -> Vec<u8> {
    let order = Order::parse_line("agent list").expect("a valid line");
    let run = ToEngine::Run { id: LAST_COMMAND_ID, order: Box::new(order), asking: Asking::Silent };
    frame(0, &serde_json::to_vec(&run).expect("JSON"))
}

/// One connection that reads frames.
struct Connection(UnixStream);

impl Connection {
    /// Returns the next frame: its kind and its body; `None` at the end.
    fn receive(&mut self) -> Result<Option<(u8, Vec<u8>)>, String> {
        let mut length = [0; 4];
        if !self.read_exactly(&mut length)? {
            return Ok(None);
        }
        let length = usize::try_from(u32::from_be_bytes(length)).expect("64 bits");
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(format!("a frame of {length} bytes"));
        }
        let mut body = vec![0; length];
        if !self.read_exactly(&mut body)? {
            return Err("half a frame".into());
        }
        Ok(Some((body[0], body[1..].to_vec())))
    }

    fn read_exactly(&mut self, buffer: &mut [u8]) -> Result<bool, String> {
        match self.0.read_exact(buffer) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(format!("the connection does not end within {} s", END_TIMEOUT.as_secs()))
            }
            // The engine hangs up on a malformed stream.
            Err(_ended) => Ok(false),
        }
    }
}

/// The frames that one connection sends.
struct Script {
    hello: Vec<u8>,
    /// Whether the connection sends a right proof.
    proves: bool,
    /// If set, mutates the proof.
    proof_dice: Option<Dice>,
    frames: Vec<Vec<u8>>,
    /// Whether the last frame may be incomplete, so that the engine may wait for its rest.
    is_cut: bool,
}

impl Script {
    fn draw(dice: &mut Dice, proves: bool) -> Self {
        let hello = json!({
            "frame": "hello", "protocol": PROTOCOL, "version": "0.1.0", "nonce": "c", "program": "command",
        });
        let mut script = Self {
            hello: frame(0, hello.to_string().as_bytes()),
            proves,
            proof_dice: None,
            frames: Vec::new(),
            is_cut: false,
        };
        if !proves && dice.chance(1, 2) {
            script.hello = frame(dice.roll(3) as u8, &mutated(dice, &hello));
            if dice.chance(1, 2) {
                mutate_bytes(dice, &mut script.hello);
            }
        } else if !proves {
            script.proof_dice = Some(Dice::new(dice.next_u64()));
        }
        for id in 0..=dice.roll(3) {
            let mut frame = draw_frame(dice, id);
            if dice.chance(1, 12) {
                script.is_cut = true;
                mutate_bytes(dice, &mut frame);
            }
            script.frames.push(frame);
        }
        script
    }
}

/// Returns a frame after the proof: a command, an answer or a secret, mostly mutated.
fn draw_frame(dice: &mut Dice, id: u64) -> Vec<u8> {
    let asking = dice.one_of(&[Asking::Interactive, Asking::Silent, Asking::Agreed]);
    let message = match dice.roll(6) {
        0 => ToEngine::Answer { id, yes: true },
        1 => ToEngine::Cancel { id },
        // Sends the right password, because wrong ones would delay later inputs.
        2 => return frame(1, &[&id.to_be_bytes()[..], PASSWORD.as_bytes()].concat()),
        _run => loop {
            if let Ok(order) = Order::parse_line(dice.one_of(WALLET_LINES)) {
                break ToEngine::Run { id, order: Box::new(order), asking };
            }
        },
    };
    let value = serde_json::to_value(&message).expect("JSON");
    let body =
        if dice.chance(3, 4) { mutated(dice, &value) } else { value.to_string().into_bytes() };
    frame(0, &body)
}

impl Control {
    /// Runs a script. Returns the class of its result.
    fn connect(&self, script: &Script, violated: &mut Vec<String>) -> Result<String, String> {
        let file = std::fs::read(self.wallet.home().join("data/control.json"));
        let file: Value = serde_json::from_slice(&file.expect("control.json")).expect("JSON");
        let socket = file["socket"].as_str().expect("a path");
        let stream = UnixStream::connect(socket).map_err(|error| format!("no socket: {error}"))?;
        stream.set_read_timeout(Some(END_TIMEOUT)).expect("a live socket");
        let mut connection = Connection(stream);
        let end = |connection: &Connection| {
            let _ended = connection.0.shutdown(std::net::Shutdown::Write);
        };
        let _hung_up = connection.0.write_all(&script.hello);
        if !script.proves && script.proof_dice.is_none() {
            end(&connection);
        }
        let Some((_, hello)) = connection.receive()? else { return Ok("closed at hello".into()) };
        let hello: Value = serde_json::from_slice(&hello).map_err(|error| error.to_string())?;
        let token = file["token"].as_str().expect("a token");
        let nonce = hello["nonce"].as_str().unwrap_or_default();
        let proof = json!({ "frame": "proof", "proof": proof(token, Side::Client, "c", nonce) });
        let mut bytes = frame(0, proof.to_string().as_bytes());
        if let Some(dice) = &script.proof_dice {
            let mut dice = dice.clone();
            while is_valid_proof(&bytes, &proof) {
                bytes = wrong_proof(&mut dice, token, nonce, &proof);
            }
        }
        let _hung_up = connection.0.write_all(&bytes);
        for frame in &script.frames {
            let _hung_up = connection.0.write_all(frame);
        }
        // The answer to the last frame shows that the engine has read everything before it, unless the engine has hung
        // up.
        let _hung_up = connection.0.write_all(&last_frame());
        if script.is_cut {
            end(&connection);
        }
        let mut class = "closed".to_owned();
        while let Some((kind, body)) = connection.receive()? {
            if kind != 0 {
                continue;
            }
            let message: Value =
                serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let name = message["frame"].as_str().unwrap_or_default();
            if !script.proves && name != "refused" {
                violated.push(format!("{name} without a proof: {message:.300}"));
            }
            check_faults(&message, violated);
            class = name.to_owned();
            if name == "done" && message["id"] == LAST_COMMAND_ID {
                end(&connection);
            } else if name == "done" {
                class = "done before".into();
            }
        }
        Ok(class)
    }
}

/// Returns a frame with a mutated proof, or with a proof for another side, nonce or token.
fn wrong_proof(dice: &mut Dice, token: &str, nonce: &str, right: &Value) -> Vec<u8> {
    let text = right["proof"].as_str().unwrap_or_default();
    let wrong = match dice.roll(8) {
        0 => proof(token, Side::Engine, "c", nonce),
        1 => proof(token, Side::Client, nonce, "c"),
        2 => proof(token, Side::Client, "c", ""),
        3 => proof("", Side::Client, "c", nonce),
        4 => change_slightly(dice, text),
        5 => String::new(),
        _any => return frame(0, &mutated(dice, right)),
    };
    frame(0, json!({ "frame": "proof", "proof": wrong }).to_string().as_bytes())
}

/// Returns whether a frame proves the token. A mutation may leave the proof unchanged.
fn is_valid_proof(sent: &[u8], proof: &Value) -> bool {
    let sent = sent.get(5..).and_then(|body| serde_json::from_slice::<Value>(body).ok());
    sent.is_some_and(|sent| sent["proof"] == proof["proof"])
}

impl Scene for Control {
    fn send_valid(&mut self) -> Result<(), String> {
        let hello = json!({
            "frame": "hello", "protocol": PROTOCOL, "version": "0.1.0", "nonce": "c", "program": "command",
        });
        let hello = frame(0, hello.to_string().as_bytes());
        let script =
            Script { hello, proves: true, proof_dice: None, frames: Vec::new(), is_cut: false };
        let mut violated = Vec::new();
        let class = self.connect(&script, &mut violated)?;
        self.wallet.must("agent list")?;
        if class == "done" && violated.is_empty() {
            Ok(())
        } else {
            Err(format!("a valid command ended as {class:?}: {violated:?}"))
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let script = Script::draw(dice, self.proves);
        let shown = [&script.hello[..], &script.frames.concat()].concat();
        let mut outcome = Outcome { input: escaped(&shown), ..Outcome::default() };
        let violated = &mut outcome.violated;
        outcome.class = match self.connect(&script, violated) {
            Ok(class) => class,
            Err(why) => {
                violated.push(why);
                "none".into()
            }
        };
        violated.extend(self.wallet.engine.health_fault());
        if violated.is_empty() {
            violated.extend(self.state.compare_after(&self.wallet, script.proves));
        }
        outcome
    }

    fn measure(&mut self) {
        self.health.measure(&self.wallet.engine);
    }

    fn check_at_end(&mut self) -> Vec<String> {
        let mut violated = self.health.compare(&self.wallet.engine);
        violated.extend(self.wallet.must("audit verify").err());
        violated
    }

    fn is_alive(&mut self) -> bool {
        self.wallet.engine.health_fault().is_none()
    }
}
