//! If a URL passes a policy's host lists, every HTTP client connects to a host that passes them too.
//!
//! An agent gives the URL to its own client, so the wallet must not read another host from it than the client does.

use bursar_core::hosts::{HostEntry, HostLists, PairVerdict};
use bursar_tests::dice::Dice;
use bursar_tests::sdk::Script;
use serde_json::{Value, json};

const ALLOWED_HOST: &str = "good.example";
const URLS: usize = 100_000;

const URL_STARTS: &[&str] = &[
    "https://",
    "http://",
    "HTTPS://",
    "https:",
    "https:/",
    "https:///",
    " https://",
    "https:\\\\",
    "//",
];

/// Pieces of URLs: some are parsed differently by each parser, and some should be parsed alike.
const URL_PIECES: &[&str] = &[
    ALLOWED_HOST,
    ALLOWED_HOST,
    ALLOWED_HOST,
    "evil.test",
    "evil.test",
    ".",
    "..",
    "@",
    "@",
    ":",
    ":443",
    "\\",
    "/",
    "//",
    "#",
    "?",
    "%40",
    "%2f",
    "%2e",
    "%5c",
    "%00",
    "%09",
    "%23",
    "\t",
    "\n",
    "\r",
    "\0",
    "\u{b}",
    "\u{7f}",
    "\u{85}",
    " ",
    ";",
    "&",
    "=",
    ",",
    "[",
    "]",
    "|",
    "^",
    "<",
    ">",
    "\"",
    "`",
    "{",
    "}",
    "*",
    "!",
    "$",
    "'",
    "(",
    "+",
    "~",
    "_",
    "\u{3002}",
    "\u{ff0e}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{2028}",
    "\u{2044}",
    "\u{ff0f}",
    "\u{2100}",
    "\u{ff20}",
    "\u{df}",
    "\u{212a}",
    "\u{1f4a9}",
    "127.1",
    "0x7f.1",
    "[::1]",
    "user:pw@",
    "xn--",
    "xn--zca",
];

fn url(dice: &mut Dice) -> String {
    let starts = if dice.chance(2, 3) { &URL_STARTS[..2] } else { URL_STARTS };
    let mut url = dice.one_of(starts).to_owned();
    for _piece in 0..1 + dice.roll(5) {
        url += dice.one_of(URL_PIECES);
    }
    url + dice.one_of(&["", "/", "/x", "\\", "?a=1"])
}

fn lists() -> HostLists {
    HostLists {
        allowed: vec![HostEntry::parse(ALLOWED_HOST).expect("a host")],
        blocked: Vec::new(),
    }
}

/// Asserts that each parser takes an allowed host from each URL, or none.
async fn assert_same_hosts(parsers: &mut Script, urls: &[String]) {
    let hosts = parsers.ask(&json!(urls)).await;
    for (url, hosts) in urls.iter().zip(hosts.as_array().expect("a list")) {
        for host in hosts.as_array().expect("a list").iter().filter_map(Value::as_str) {
            let host = host.trim().trim_end_matches('.').to_lowercase();
            let is_good = host == ALLOWED_HOST || host.ends_with(&format!(".{ALLOWED_HOST}"));
            // No person can own a host name with other characters, except below their own domain. Nor can a person own
            // a bare prefix of the good host's first label.
            let is_name = |one: char| one.is_ascii_alphanumeric() || "-._".contains(one);
            let is_odd = !host.chars().all(is_name) && !host.ends_with("evil.test");
            let is_beginning = ALLOWED_HOST.starts_with(&host) && !host.contains('.');
            let is_nobody = is_odd || is_beginning;
            assert!(is_good || is_nobody, "{url:?} leads to {host:?}: {hosts}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_passes_leads_no_client_to_another_host() {
    let mut dice = Dice::new(0x5eed);
    let lists = lists();
    let passed: Vec<String> = (0..URLS)
        .map(|_one| url(&mut dice))
        .filter(|url| lists.check_pair(Some(url), None) == PairVerdict::Pass)
        .collect();
    assert!(passed.len() > URLS / 200, "{}", passed.len());
    assert_same_hosts(&mut Script::start_python("url_hosts.py", &[]).await, &passed).await;
    assert_same_hosts(&mut Script::start("url_hosts.mjs", &[]).await, &passed).await;
}
