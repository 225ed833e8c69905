//! Hostile text passes through the shipped program: into its log, a receipt page, and the console's terminal output.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bursar_devnet::report_skip;
use serde_json::{Value, json};

use crate::stage::{Engine, Home};

/// Sequences that the console itself never writes.
///
/// They erase the scrollback, set the title, write the clipboard, query the cursor and reset the terminal. The text
/// also contains an 8-bit colour, a device control string, and characters that delete, hide and reorder.
const HOSTILE: &str = "\u{1b}[3J\u{1b}]0;owned\u{7}\u{1b}]52;c;T1dORUQ=\u{7}\u{1b}[6n\u{1b}c\u{9b}31m\u{90}x\u{9c}\u{7f}\u{8}\u{0}\u{202e}gpj\r\n2026-01-01T00:00:00Z  INFO forged<script>alert(1)</script>\"'&";
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Polls until `ready` returns a value; panics after [`WAIT_MAX`].
fn poll_until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WAIT_MAX;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Sends one request unchanged. Returns the response; it is empty if the server closed the connection.
fn exchange(address: &str, head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    let length = format!(
        "\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _refused_early = stream.write_all(&[head, length.as_bytes(), body].concat());
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    answer
}

fn post(address: &str, path: &str, body: &Value) -> Value {
    let head = format!("POST {path} HTTP/1.1");
    let answer = exchange(address, head.as_bytes(), body.to_string().as_bytes());
    let text = String::from_utf8(answer).unwrap();
    let body = text.split_once("\r\n\r\n").map_or("", |(_head, body)| body);
    serde_json::from_str(body).unwrap_or(Value::Null)
}

/// Starts a node that answers with hostile text: as a JSON-RPC error, as invalid JSON or as a result.
fn lying_node() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut line) = (0, String::new());
            while matches!(lines.read_line(&mut line), Ok(2..)) && line != "\r\n" {
                let lower = line.to_ascii_lowercase();
                if let Some(count) = lower.strip_prefix("content-length:") {
                    length = count.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _gone = lines.read_exact(&mut body);
            let asked: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let error = json!({"code": -32000, "message": HOSTILE, "data": HOSTILE});
            let told = match n % 3 {
                0 => json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}).to_string(),
                1 => HOSTILE.to_owned(),
                _ => json!({"jsonrpc": "2.0", "id": asked["id"], "result": HOSTILE}).to_string(),
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                told.len()
            );
            let _gone = stream.write_all(&[head.as_bytes(), told.as_bytes()].concat());
        }
    });
    url
}

/// An engine with the most detailed log, after a hostile agent has attacked it.
struct Scene {
    home: Home,
    engine: Engine,
    address: String,
    log: PathBuf,
    /// A signed payment that the agent reported as failed, with hostile text. `held` is a payment that waits for
    /// approval.
    failed_payment: String,
    held_payment: String,
}

fn offer(url: &str) -> Value {
    let coin = bursar_core::networks::by_id_name_or_title("8453").unwrap().stablecoin;
    json!({
        "x402Version": 1,
        "error": HOSTILE,
        "accepts": [{
            "scheme": "exact",
            "network": "base",
            "maxAmountRequired": "1000000",
            "resource": url,
            "description": HOSTILE,
            "mimeType": HOSTILE,
            "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
            "maxTimeoutSeconds": 60,
            "asset": coin.address.to_checksum(None),
            "extra": {"name": HOSTILE, "version": HOSTILE, HOSTILE: HOSTILE},
        }],
    })
}

impl Scene {
    fn after_attack() -> Self {
        let mut home = Home::new();
        home.create_wallet();
        let log = home.dir.path().join("log");
        let mut command = home.command(&home.data(), "engine");
        command
            .env("BURSAR_LOG", "trace")
            .env("BURSAR_NETWORKS_8453_RPC", lying_node())
            .env("BURSAR_NETWORKS_8453_EXPLORER", "none")
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap());
        let mut engine = Engine(command.spawn().unwrap());
        let mut line = String::new();
        let out = engine.0.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, out).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("READY http://").unwrap().to_owned();
        let (id, token) = home.agent.clone().unwrap();
        let ask = |n: u32| {
            let url = format!("https://api.example.com/{n}?{HOSTILE}");
            let body = json!({"agent_id": id, "signature": token, "x402_data": offer(&url),
                              "request_url": url});
            let told = post(&address, "/sign", &body);
            assert!(told["request_id"].is_string(), "{told}");
            told["request_id"].as_str().unwrap().to_owned()
        };
        let (paid, held) = (ask(1), ask(2));
        home.must(&format!("approve {paid} --yes"));
        let report = json!({"agent_id": id, "signature": token, "transaction_id": paid,
                            "event": "failed", "error": HOSTILE});
        let told = post(&address, "/callback", &report);
        assert_eq!(told["status"], "ok", "{told}");
        let scene = Self { home, engine, address, log, failed_payment: paid, held_payment: held };
        scene.send_hostile_text(&id, &token);
        scene
    }

    /// Sends hostile text in every other part of a request.
    fn send_hostile_text(&self, id: &str, token: &str) {
        let odd: Vec<u8> = HOSTILE.bytes().filter(|byte| !b"\r\n\0".contains(byte)).collect();
        for path in ["/sign", "/trade", "/callback", "/mandate", "/ping", "/status", "/balances"] {
            for body in [
                json!({"agent_id": HOSTILE, "signature": HOSTILE}),
                json!({"agent_id": id, "signature": HOSTILE, "payment_required": HOSTILE}),
                json!({"agent_id": id, "signature": token, "payment_required": HOSTILE}),
                json!({"agent_id": id, "signature": token, "x402_data": {HOSTILE: HOSTILE}}),
                json!({"agent_id": id, "signature": token, "transaction_id": HOSTILE, "event": HOSTILE}),
                json!({"agent_id": id, "signature": token, "idempotency_key": HOSTILE, HOSTILE: 1}),
                json!(HOSTILE),
            ] {
                post(&self.address, path, &body);
            }
            let head = format!("POST {path} HTTP/1.1");
            exchange(&self.address, head.as_bytes(), HOSTILE.as_bytes());
            for name in ["user-agent", "x-agent-id", "authorization", "content-type", "host"] {
                let head = [head.as_bytes(), b"\r\n", name.as_bytes(), b": ", &odd].concat();
                exchange(&self.address, &head, b"{}");
                // Removes the bytes that headers must not contain, so that the server accepts the request.
                let eight_bit: Vec<u8> = odd
                    .iter()
                    .copied()
                    .filter(|byte| (32..=126).contains(byte) || *byte >= 128)
                    .collect();
                let head =
                    [format!("POST {path} HTTP/1.1\r\n{name}: ").as_bytes(), &eight_bit].concat();
                exchange(&self.address, &head, b"{}");
            }
        }
        exchange(&self.address, &[b"GET /", &odd[..], b" HTTP/1.1"].concat(), b"");
        exchange(&self.address, &[&odd[..], b" / HTTP/1.1"].concat(), b"");
        exchange(&self.address, b"GET /receipt/%1b%5b3J%9b31m%0a HTTP/1.1", b"");
    }
}

/// Returns whether a character controls a terminal, is invisible, or reorders text.
fn is_dangerous_char(ch: char) -> bool {
    ch.is_control()
        || matches!(ch, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn t_20_foreign_text_is_inert_in_the_log_and_in_receipts() {
    let scene = Scene::after_attack();
    for id in [&scene.failed_payment, &scene.held_payment] {
        let head = format!("GET /receipt/{id} HTTP/1.1\r\naccept: text/html");
        let page = String::from_utf8(exchange(&scene.address, head.as_bytes(), b"")).unwrap();
        let (head, page) = page.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("200 OK") && head.contains("text/html"), "{head}");
        // Long words may break on a phone.
        let page = page.replace("<wbr>", "");
        assert!(page.contains("\\u{1b}[3J") && page.contains("&lt;script&gt;"), "{page}");
        assert!(!page.contains("<script") && !page.chars().any(is_dangerous_char), "{page:?}");
    }
    let log = std::fs::read(&scene.log).unwrap();
    let log = String::from_utf8(log).unwrap();
    for said in ["TRACE hyper", "code=", "reason="] {
        assert!(log.contains(said), "the log lacks {said}: is it the log?");
    }
    // Characters that reorder text are allowed here: they affect the reader, not the terminal.
    for line in log.lines() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        let stamp =
            line.get(..4).is_some_and(|year| year.bytes().all(|byte| byte.is_ascii_digit()));
        assert!(stamp && !line.starts_with("2026-01-01T00:00:00Z  INFO forged"), "{line:?}");
    }
    drop(scene.engine);
}

/// A terminal with the console, and a file with every byte that the console wrote to it.
struct Terminal {
    socket: PathBuf,
    output_file: PathBuf,
}

impl Terminal {
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-f", "/dev/null", "-S"]).arg(&self.socket).args(arguments);
        let done = command.env_remove("TMUX").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn open(home: &Home) -> Self {
        let terminal =
            Self { socket: home.dir.path().join("tmux"), output_file: home.dir.path().join("raw") };
        let data = format!("BURSAR_DATA_DIR={}", home.data().display());
        // The shell waits for a key, so that the console's first byte is captured too.
        let shell = format!("read -r go; exec '{}'", env!("CARGO_BIN_EXE_bursar"));
        let size = ["-x", "200", "-y", "60"];
        let start = ["new-session", "-d", "-s", "you", "-e", &data, "-e", "LC_ALL=C.UTF-8"];
        terminal.tmux(&[&start[..], &size, &["sh", "-c", &shell]].concat());
        terminal.tmux(&[
            "pipe-pane",
            "-O",
            "-t",
            "you",
            &format!("exec cat > '{}'", terminal.output_file.display()),
        ]);
        terminal.press("Enter");
        terminal
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", "-t", "you", key]);
    }

    /// Waits until the text is on the screen.
    fn wait_for_text(&self, text: &str) {
        poll_until(text, || {
            self.tmux(&["capture-pane", "-p", "-J", "-t", "you"]).contains(text).then_some(())
        });
    }

    /// Closes an overlay and waits until it is closed. Otherwise the next key could combine with the pending Escape.
    fn close_overlay(&self) {
        self.press("Escape");
        poll_until("the overlay is closed", || {
            let screen = self.tmux(&["capture-pane", "-p", "-J", "-t", "you"]);
            (!screen.contains("esc ")).then_some(())
        });
    }

    /// Returns every byte between the sequences that enter and leave the alternate screen.
    fn written_output(&self) -> String {
        let left = |raw: &str| raw.contains("\u{1b}[?1049l");
        let raw = poll_until("it leaves the screen", || {
            String::from_utf8(std::fs::read(&self.output_file).ok()?).ok().filter(|raw| left(raw))
        });
        let start = raw.find('\u{1b}').unwrap();
        let end = raw.find("\u{1b}[?1049l").unwrap();
        raw.get(start..end).unwrap().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        command.args(["-f", "/dev/null", "-S"]).arg(&self.socket).arg("kill-server");
        let _ended_already = command.stderr(Stdio::null()).status();
    }
}

/// Removes the sequences that the console itself writes; all of them are listed here.
fn strip_console_sequences(raw: &str) -> String {
    // The last two ask for the background.
    const EXACT_SEQUENCES: [&str; 8] =
        ["[?1049h", "[?2004h", "[?2004l", "[?25l", "[?25h", "[2J", "]11;?", "\\"];
    let mut parts = raw.split('\u{1b}');
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(after) = EXACT_SEQUENCES.iter().find_map(|exact| part.strip_prefix(*exact)) {
            rest.push_str(after);
        } else if let Some(title) = part.strip_prefix("]0;Bursar") {
            // The window title, which contains only a count.
            let (title, after) = title.split_once('\u{7}').unwrap();
            assert!(
                title.chars().all(|ch| " ()".contains(ch) || ch.is_ascii_alphanumeric()),
                "{title:?}"
            );
            rest.push_str(after);
        } else {
            assert!(part.starts_with('['), "{part:?}");
            let sequence = part.strip_prefix('[').unwrap();
            let end = sequence.find(|ch: char| !ch.is_ascii_digit() && ch != ';').unwrap();
            // A cursor position or a colour.
            let (_numbers, last) = sequence.split_at(end);
            assert!(last.starts_with(['H', 'm']), "{part:?}");
            rest.push_str(last.strip_prefix(['H', 'm']).unwrap());
        }
    }
    rest
}

#[test]
fn t_20_no_foreign_control_sequence_reaches_a_real_terminal() {
    let skipped = std::env::var("BURSAR_TEST_SKIP").unwrap_or_default();
    if skipped.split(',').any(|part| part.trim() == "tmux") {
        report_skip("BURSAR_TEST_SKIP names tmux");
        return;
    }
    let scene = Scene::after_attack();
    let terminal = Terminal::open(&scene.home);
    terminal.wait_for_text("1 WAITING");
    terminal.press("a");
    terminal.wait_for_text("esc ");
    terminal.wait_for_text("\\u{1b}[3J");
    terminal.close_overlay();
    // Shows every pane, and then one entry of the activity.
    for pane in ["2", "3", "4", "6", "5"] {
        terminal.press(pane);
        terminal.wait_for_text(&format!("> {pane} "));
    }
    terminal.wait_for_text("failed: \"\\u{1b}[3J");
    terminal.press("Enter");
    terminal.wait_for_text("esc ");
    terminal.close_overlay();
    terminal.press("q");
    let rest = strip_console_sequences(&terminal.written_output());
    assert!(rest.contains("\\u{1b}[3J") && rest.contains("\\u{9b}31m"), "{rest}");
    // The bell rings when a payment is pending.
    let found: Vec<char> =
        rest.chars().filter(|ch| is_dangerous_char(*ch) && *ch != '\u{7}').collect();
    assert!(found.is_empty(), "{found:?} in {rest:?}");
    assert!(!rest.contains("\u{7}]") && rest.matches('\u{7}').count() <= 1, "{rest:?}");
}
