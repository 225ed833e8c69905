//! The table of input bounds: requests at each bound and one above it, with the expected answer.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use bursar_core::limits::BODY_VALUES_MAX;
use bursar_tests::agent::Agent;
use bursar_tests::offers::{BASE, challenge};
use serde_json::{Value, json};

pub(crate) const MIB: usize = 1 << 20;
/// A request body with the expected status and code.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: (u16, &'static str),
}

pub(crate) const PAID: (u16, &str) = (200, "");
const BAD_JSON: (u16, &str) = (400, "INVALID_JSON");
const BAD_HEADER: (u16, &str) = (400, "INVALID_PAYMENT_REQUIRED");
const BAD_FORMAT: (u16, &str) = (400, "INVALID_X402_FORMAT");
const BAD_REQUEST: (u16, &str) = (400, "INVALID_REQUEST");
const TOO_LARGE: (u16, &str) = (413, "PAYLOAD_TOO_LARGE");

struct Table<'a> {
    agent: &'a Agent,
    cases: Vec<Case>,
}

impl Table<'_> {
    fn offer(&self) -> Value {
        let mut offer = challenge(BASE, 1_000, "https://api.example.com/");
        // Makes every line a separate payment.
        offer["error"] = json!(format!("line {}", self.cases.len()));
        offer
    }

    fn open(&self) -> String {
        format!("\"agent_id\":\"{}\",\"signature\":\"{}\"", self.agent.id, self.agent.token)
    }

    fn add_body(&mut self, name: &str, body: impl Into<Vec<u8>>, wanted: (u16, &'static str)) {
        self.cases.push(Case { name: name.to_owned(), body: body.into(), expected: wanted });
    }

    /// Adds a body with these members next to agent and signature.
    fn add_members(&mut self, name: &str, members: &str, wanted: (u16, &'static str)) {
        self.add_body(name, format!("{{{},{members}}}", self.open()), wanted);
    }

    /// Adds a valid payment with extra members.
    fn add_payment_members(&mut self, name: &str, members: &str, wanted: (u16, &'static str)) {
        let header = STANDARD.encode(self.offer().to_string());
        self.add_members(name, &format!("\"payment_required\":\"{header}\",{members}"), wanted);
    }

    fn add_header(&mut self, name: &str, text: &str, wanted: (u16, &'static str)) {
        self.add_members(name, &format!("\"payment_required\":\"{text}\""), wanted);
    }

    /// Adds the same challenge as a header and as JSON; only the code of a refusal may differ.
    fn add_challenge(
        &mut self,
        name: &str,
        change: impl Fn(&mut Value),
        wanted: (u16, &'static str),
    ) {
        let mut offer = self.offer();
        change(&mut offer);
        let as_data = if wanted == BAD_HEADER { BAD_FORMAT } else { wanted };
        offer["form"] = json!("header");
        let text = STANDARD.encode(offer.to_string());
        self.add_header(&format!("{name}, header"), &text, wanted);
        offer["form"] = json!("data");
        self.add_members(&format!("{name}, data"), &format!("\"x402_data\":{offer}"), as_data);
    }
}

fn nested(levels: usize) -> Value {
    let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn table(agent: &Agent) -> Vec<Case> {
    let mut table = Table { agent, cases: Vec::new() };
    headers(&mut table);
    challenges(&mut table);
    bodies(&mut table);
    many_values(&mut table);
    table.cases
}

fn headers(table: &mut Table<'_>) {
    let filled = |offer: Value, bytes: usize| {
        let text = offer.to_string();
        let room = bytes - text.len();
        text + &" ".repeat(room)
    };
    let whole = filled(table.offer(), 64 << 10);
    table.add_header("64 KiB", &STANDARD.encode(&whole), PAID);
    table.add_header("64 KiB and a byte", &STANDARD.encode(whole + " "), BAD_HEADER);
    table.add_header("a million characters", &"A".repeat(1_000_000), BAD_HEADER);
    // Both need base64 padding, so their length is one byte over a multiple of three.
    let mut odd = table.offer().to_string();
    while odd.len() % 3 != 1 {
        odd.push(' ');
    }
    let padded = STANDARD.encode(&odd);
    assert!(padded.ends_with("=="));
    table.add_header("padded", &padded, PAID);
    table.add_header("unpadded", &STANDARD_NO_PAD.encode(&odd), PAID);
    let mut odd = table.offer();
    odd["error"] = json!("???>>>~~~ÿÿÿ");
    let url_safe = URL_SAFE.encode(odd.to_string());
    assert!(url_safe.contains(['-', '_']));
    table.add_header("url-safe", &url_safe, BAD_HEADER);
    table.add_header("white space", &format!(" {padded}"), BAD_HEADER);
    table.add_header("a line end", &format!("{padded}\\n"), BAD_HEADER);
    table.add_header("twice", &format!("{padded}{padded}"), BAD_HEADER);
    table.add_header("one character", "e", BAD_HEADER);
    table.add_header("empty", "", BAD_HEADER);
    table.add_header("no JSON", &STANDARD.encode("{}x"), BAD_HEADER);
    table.add_header("not UTF-8", &STANDARD.encode(b"{\"a\":\"\xff\"}"), BAD_HEADER);
    table.add_header("BOM inside", &STANDARD.encode("\u{feff}{}"), BAD_HEADER);
    table.add_header("NaN inside", &STANDARD.encode("{\"a\":NaN}"), BAD_HEADER);
    table.add_header("a key twice inside", &STANDARD.encode("{\"a\":1,\"\\u0061\":2}"), BAD_HEADER);
    table.add_header("an array inside", &STANDARD.encode("[]"), BAD_FORMAT);
    table.add_members("a number", "\"payment_required\":5", BAD_HEADER);
}

fn challenges(table: &mut Table<'_>) {
    // `accepts[0].extra.x` opens four levels.
    let deep =
        |levels: usize| move |offer: &mut Value| offer["accepts"][0]["extra"]["x"] = nested(levels);
    table.add_challenge("32 levels", deep(28), PAID);
    table.add_challenge("33 levels", deep(29), BAD_HEADER);
    let offers = |count: usize| {
        move |offer: &mut Value| {
            let first = offer["accepts"][0].clone();
            offer["accepts"] = json!(vec![first; count]);
        }
    };
    table.add_challenge("32 offers", offers(32), PAID);
    table.add_challenge("33 offers", offers(33), BAD_FORMAT);
    table.add_challenge("no offers", offers(0), BAD_FORMAT);
    let text = |bytes: usize| {
        move |offer: &mut Value| {
            offer["note"] = json!("é".repeat(bytes / 2) + &"x".repeat(bytes % 2))
        }
    };
    table.add_challenge("4 KiB of text", text(4096), PAID);
    table.add_challenge("4 KiB of text and a byte", text(4097), BAD_FORMAT);
    let key = |bytes: usize| move |offer: &mut Value| offer[&"k".repeat(bytes)] = json!(1);
    table.add_challenge("4 KiB of key", key(4096), PAID);
    table.add_challenge("4 KiB of key and a byte", key(4097), BAD_FORMAT);
    let url = |bytes: usize| {
        let url = format!("https://api.example.com/{}", "u".repeat(bytes - 24));
        move |offer: &mut Value| offer["resource"]["url"] = json!(url)
    };
    table.add_challenge("4 KiB of URL", url(4096), PAID);
    table.add_challenge("4 KiB of URL and a byte", url(4097), BAD_FORMAT);
    // For `x402_data` the bound applies to the compact JSON form.
    for (bytes, wanted) in [(64 << 10, PAID), ((64 << 10) + 1, BAD_FORMAT)] {
        let mut offer = table.offer();
        let fill = |offer: &mut Value, room: usize| {
            let whole = room / 4000;
            offer["fill"] = json!(vec!["f".repeat(3997); whole]);
            offer["rest"] = json!("r".repeat(room % 4000));
        };
        fill(&mut offer, 60_000);
        let around = offer.to_string().len() - 60_000;
        fill(&mut offer, bytes - around);
        // The commas and the bracket of the list do not grow in proportion to the room, so the last field makes up the
        // difference.
        let rest = offer["rest"].as_str().unwrap().len() + bytes;
        offer["rest"] = json!("r".repeat(rest - offer.to_string().len()));
        assert_eq!(offer.to_string().len(), bytes);
        let spaced = serde_json::to_string_pretty(&offer).unwrap();
        table.add_members(
            &format!("{bytes} bytes of data"),
            &format!("\"x402_data\":{spaced}"),
            wanted,
        );
    }
    let kept = "k".repeat(3_900);
    let echo = |parts: usize| {
        let kept = kept.clone();
        move |offer: &mut Value| {
            offer["accepts"][0]["extra"]["kept"] = json!(vec![kept.clone(); parts])
        }
    };
    table.add_challenge("an offer that is kept", echo(4), PAID);
    table.add_challenge("an offer too long to be kept", echo(5), BAD_FORMAT);
}

fn bodies(table: &mut Table<'_>) {
    for (bytes, wanted) in [(4096, PAID), (4097, BAD_REQUEST)] {
        let url = format!("https://api.example.com/{}", "u".repeat(bytes - 24));
        table.add_payment_members(
            &format!("{bytes} bytes of request_url"),
            &format!("\"request_url\":\"{url}\""),
            wanted,
        );
    }
    for (levels, wanted) in [(126, PAID), (127, BAD_JSON), (100_000, BAD_JSON)] {
        let nested = format!("\"x\":{}{}", "[".repeat(levels), "]".repeat(levels));
        table.add_payment_members(&format!("{} levels of body", levels + 1), &nested, wanted);
    }
    for (bytes, wanted) in [(MIB, PAID), (MIB + 1, TOO_LARGE)] {
        table.add_payment_members(&format!("{bytes} bytes of body"), "\"x\":\"\"", wanted);
        let line = table.cases.last_mut().unwrap();
        let room = bytes - line.body.len();
        let end = line.body.split_off(line.body.len() - 2);
        line.body.extend(vec![b'x'; room]);
        line.body.extend(end);
        assert_eq!(line.body.len(), bytes);
    }
    for (digits, wanted) in [(4300, PAID), (4301, BAD_JSON)] {
        table.add_payment_members(
            &format!("{digits} digits"),
            &format!("\"x\":{}", "9".repeat(digits)),
            wanted,
        );
    }
    for (name, member) in [
        ("a key twice", "\"x\":1,\"x\":1"),
        ("a key twice after unescaping", "\"x\":1,\"\\u0078\":2"),
        ("a key twice, deep", "\"x\":{\"y\":[{\"z\":1,\"z\":2}]}"),
        ("another agent beside ours", "\"agent_\\u0069d\":\"ZZZ999\""),
        ("NaN", "\"x\":NaN"),
        ("Infinity", "\"x\":-Infinity"),
        ("a double too large", "\"x\":1e400"),
        ("half a pair", "\"x\":\"\\ud800\""),
        ("half a pair as a key", "\"\\udfff\":1"),
        ("halves in the wrong order", "\"x\":\"\\udc00\\ud800\""),
        ("a control character", "\"x\":\"\u{1}\""),
        ("a comment", "\"x\":1/**/"),
        ("a comma too many", "\"x\":1,"),
        ("a leading zero", "\"x\":01"),
        ("a plus", "\"x\":+1"),
        ("hexadecimal", "\"x\":0x1"),
    ] {
        table.add_payment_members(name, member, BAD_JSON);
    }
    let good = table.offer();
    let good = format!("{{{},\"x402_data\":{good}}}", table.open());
    table.add_body("BOM", format!("\u{feff}{good}"), BAD_JSON);
    table.add_body(
        "UTF-16",
        good.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
        BAD_JSON,
    );
    table.add_body("not UTF-8", [good.as_bytes(), b"\xff"].concat(), BAD_JSON);
    table.add_body("two values", format!("{good}{good}"), BAD_JSON);
    table.add_body("NUL behind", format!("{good}\0"), BAD_JSON);
    table.add_body("half", good[..good.len() / 2].to_owned(), BAD_JSON);
    for text in ["[]", "\"x\"", "5", "null", "true", "[{}]"] {
        table.add_body(text, text, BAD_JSON);
    }
    table.add_body("nothing", "", (400, "MISSING_AGENT_ID"));
}

/// As many small values as a mebibyte holds: input that is small on the wire must not become large in memory.
fn many_values(table: &mut Table<'_>) {
    let fill = |item: &str| {
        let room = MIB - 2_000;
        let mut text = String::with_capacity(room);
        while text.len() + item.len() < room {
            text.push_str(item);
        }
        text.pop();
        text
    };
    for item in ["0,", "{},", "[],", "\"\",", "null,", "{\"a\":0},", "[[[]]],", "1e5,"] {
        let crowd = fill(item);
        let count = crowd.len() / item.len();
        let inside = format!("\"x402_data\":{{\"x402Version\":2,\"accepts\":[{crowd}]}}");
        table.add_members(&format!("{count} offers {item}"), &inside, BAD_JSON);
        table.add_payment_members(
            &format!("{count} times {item}"),
            &format!("\"x\":[{crowd}]"),
            BAD_JSON,
        );
    }
    // At the bound and one above it. Body, agent, signature, payment header and list count as values too.
    let room = BODY_VALUES_MAX - 5;
    for (count, wanted) in [(room, PAID), (room + 1, BAD_JSON)] {
        let zeros = vec!["0"; count].join(",");
        table.add_payment_members(&format!("{count} values"), &format!("\"x\":[{zeros}]"), wanted);
    }
    let mut keys = String::new();
    for n in 0..90_000 {
        keys.push_str(&format!("\"{n:05}\":0,"));
    }
    keys.pop();
    table.add_payment_members("90,000 keys", &format!("\"x\":{{{keys}}}"), BAD_JSON);
    let twins = format!("{},\"00000\":1", keys);
    table.add_payment_members("90,000 keys and a twin", &format!("\"x\":{{{twins}}}"), BAD_JSON);
}
