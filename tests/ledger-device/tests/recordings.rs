//! The simulated device answers every recorded exchange of the real one byte for byte.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test stand outside #[test]"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

#[derive(Deserialize)]
struct Recordings {
    mnemonic: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    apdus: Vec<String>,
    screens: Vec<String>,
}

fn recordings() -> Recordings {
    let text = include_str!("../../../shared/ledger/tests/vectors/ledger-ethereum.json");
    serde_json::from_str(text).unwrap()
}

/// The program, and its two connections.
struct Running {
    program: Child,
    commands: TcpStream,
    commands_at: String,
    control: BufReader<TcpStream>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.program.kill().ok();
        self.program.wait().ok();
    }
}

impl Running {
    fn start() -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bursar-ledger-device"))
            .arg(recordings().mnemonic)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["commands", commands, "control", control] = words[..] else { panic!("{line}") };
        Self {
            program,
            commands: TcpStream::connect(commands).unwrap(),
            commands_at: commands.to_owned(),
            control: BufReader::new(TcpStream::connect(control).unwrap()),
        }
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.control.get_mut(), "{order}").unwrap();
        let mut answer = String::new();
        self.control.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    fn must(&mut self, order: &str) {
        assert_eq!(self.order(order), "ok", "{order}");
    }

    fn send(&mut self, hex_text: &str) {
        let command = hex::decode(hex_text).unwrap();
        let length = u32::try_from(command.len()).unwrap();
        self.commands.write_all(&[&length.to_be_bytes()[..], &command].concat()).unwrap();
    }

    /// The data and the status word, as the recordings write them; `None` if the connection ended.
    fn receive(&mut self) -> Option<String> {
        let mut length = [0; 4];
        self.commands.read_exact(&mut length).ok()?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap();
        let mut answer = vec![0; length + 2];
        self.commands.read_exact(&mut answer).ok()?;
        Some(hex::encode(answer))
    }

    fn exchange(&mut self, hex_text: &str) -> String {
        self.send(hex_text);
        self.receive().unwrap()
    }
}

fn line<'a>(case: &'a Case, mark: &str) -> Vec<&'a str> {
    case.apdus.iter().filter_map(|line| line.strip_prefix(mark)).map(str::trim).collect()
}

#[test]
fn every_recorded_exchange_is_answered_byte_for_byte() {
    let mut device = Running::start();
    let (mut exchanges, mut asked) = (0, 0);
    for case in recordings().cases {
        if case.name == "configuration, blind signing on" {
            device.must("blind on");
        }
        let refuses = case.name.contains("rejected");
        let commands = line(&case, "=> ");
        for (number, (command, answer)) in commands.iter().zip(line(&case, "<= ")).enumerate() {
            device.send(command);
            // Only the last command of a case asks the person, in the cases that recorded a screen.
            if number + 1 == commands.len() && !case.screens.is_empty() {
                device.order("wait");
                device.must(if refuses { "refuse" } else { "press" });
                asked += 1;
            }
            assert_eq!(device.receive().as_deref(), Some(answer), "{}: {command}", case.name);
            exchanges += 1;
        }
    }
    assert_eq!((exchanges, asked), (79, 11));
}

const APP: &str = "b001000000";
const COIN: &str = "e004000046058000002c8000003c80000000000000000000000002ef822105058405f5e1008447868c008303345094b0b5b0106d69fe64545a60a68c014f7570d3f86185e8d4a5100080c0";

#[test]
fn the_screen_shows_what_is_signed() {
    let mut device = Running::start();
    device.send(COIN);
    let screen = device.order("wait");
    assert_eq!(
        screen,
        "Review transaction / From | 0x9858EfFD232B4033E47d90003D41EC34EcaEda94 / \
         Amount | 0.000001 ETH / To | 0xB0b5B0106D69fE64545A60A68C014f7570D3F861 / \
         Max fees | 0.000252 ETH / Network | Base"
    );
    assert_eq!(device.order("screen"), screen);
    device.must("refuse");
    assert_eq!(device.receive().as_deref(), Some("6985"));
    assert_eq!(device.order("screen"), "none");
    assert_eq!(device.order("press"), "error: no prompt is on the screen");
}

#[test]
fn a_locked_device_and_another_app_refuse() {
    let mut device = Running::start();
    device.must("lock");
    assert_eq!(device.exchange(APP), "5515");
    device.must("unlock");
    device.must("app BOLOS 1.4.0");
    assert_eq!(device.exchange(APP), "0105424f4c4f5305312e342e3001009000");
    assert_eq!(device.exchange(COIN), "6e00");
    device.must("app ethereum");
    device.send(COIN);
    device.order("wait");
    device.must("lock");
    assert_eq!(device.receive().as_deref(), Some("5515"));
}

#[test]
fn a_pulled_cable_ends_the_connection_and_the_prompt() {
    let mut device = Running::start();
    device.send(COIN);
    device.order("wait");
    device.must("unplug");
    assert_eq!(device.receive(), None);
    device.must("plug");
    device.commands = TcpStream::connect(&device.commands_at).unwrap();
    assert_eq!(device.order("screen"), "none");
    device.must("cut after 2");
    assert!(device.exchange(APP).ends_with("9000"));
    device.send(APP);
    assert_eq!(device.receive(), None);
}

#[test]
fn old_apps_do_not_know_typed_data_in_full() {
    let mut device = Running::start();
    let define = "e01a00000c454950373132446f6d61696e";
    let by_hashes = "e00c000055058000002c8000003c80000000000000000000000011111111111111111111111111111111111111111111111111111111111111112222222222222222222222222222222222222222222222222222222222222222";
    device.must("version 1.9.18");
    assert_eq!(device.exchange(define), "6d00");
    assert_eq!(device.exchange(by_hashes), "6a80");
    device.must("blind on");
    device.must("auto press");
    assert!(device.exchange(by_hashes).ends_with("9000"));
    device.must("version 1.4.9");
    assert_eq!(device.exchange(by_hashes), "6d00");
}
