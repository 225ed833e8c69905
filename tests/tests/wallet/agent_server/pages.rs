//! Requests from web pages, or with foreign host names: refused on every route.

use crate::agent_server::stage::{Stage, UNLIMITED};
use bursar_tests::raw::RawClient;

/// Headers of web pages; they are sent with `Host: localhost`.
const PAGE_HEADERS: &[&str] = &[
    "Origin: http://evil.test",
    "Origin: http://localhost:9402",
    "Origin: null",
    "Referer: http://localhost:9402/",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-origin",
    "Sec-Fetch-Site: same-site",
    "Sec-Fetch-Site:",
    "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site",
];
const FOREIGN_HOST_HEADERS: &[&str] =
    &["Host: evil.test:9402", "Host: 0.0.0.0:9402", "Host: localhost.evil.test", "Host:"];
const AMBIGUOUS_HOST_HEADERS: &[&str] =
    &["Host: localhost\r\nHost: localhost", "Host: localhost\r\nHost: evil.test"];

/// Every route, and `/nowhere`, which does not exist.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/health"),
    ("GET", "/status"),
    ("POST", "/status"),
    ("POST", "/ping"),
    ("POST", "/sign"),
    ("GET", "/sign/status/00000000-0000-4000-8000-000000000000"),
    ("GET", "/sign/status/"),
    ("GET", "/sign/helper"),
    ("POST", "/callback"),
    ("GET", "/receipt/00000000-0000-4000-8000-000000000000"),
    ("GET", "/receipt/"),
    ("POST", "/mandate"),
    ("POST", "/balances"),
    ("POST", "/trade"),
    ("GET", "/trade/status/00000000-0000-4000-8000-000000000000"),
    ("GET", "/trade/status/"),
    ("POST", "/venues"),
    ("POST", "/position"),
    ("GET", "/position/status/00000000-0000-4000-8000-000000000000"),
    ("GET", "/position/status/"),
    ("GET", "/agent"),
    ("GET", "/agent/partner"),
    ("GET", "/agent/1claw"),
    ("GET", "/agent/other"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
    ("POST", "/nowhere"),
];

fn request(method: &str, target: &str, lines: &str, body: &str) -> Vec<u8> {
    let body = if method == "POST" { body } else { "" };
    let length = body.len();
    format!("{method} {target} HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

#[tokio::test]
async fn t_23_no_route_answers_a_web_page_or_a_foreign_host_name() {
    let stage = Stage::new(UNLIMITED).await;
    let before = stage.head().await;
    let pages = PAGE_HEADERS
        .iter()
        .map(|page| (format!("Host: localhost\r\n{page}"), 403, "BROWSER_ORIGIN_REJECTED"));
    let foreign =
        FOREIGN_HOST_HEADERS.iter().map(|host| ((*host).to_owned(), 403, "FOREIGN_HOST_REJECTED"));
    let ambiguous =
        AMBIGUOUS_HOST_HEADERS.iter().map(|hosts| ((*hosts).to_owned(), 400, "BAD_REQUEST"));
    for (lines, status, code) in pages.chain(foreign).chain(ambiguous) {
        for (method, path) in ROUTES {
            let mut caller = RawClient::to(stage.address).await;
            let reply = caller.ask(&request(method, path, &lines, &stage.payable(1))).await;
            let what = format!("{method} {path} {lines:?}: {reply:?}");
            assert_eq!((reply.status, reply.code().as_str()), (status, code), "{what}");
            assert_no_cors(&reply.headers, &what);
            let preflight = format!("{lines}\r\nAccess-Control-Request-Method: POST");
            let mut caller = RawClient::to(stage.address).await;
            let reply = caller.ask(&request("OPTIONS", path, &preflight, "")).await;
            assert_eq!((reply.status, reply.code().as_str()), (status, code), "{what}: {reply:?}");
            assert_no_cors(&reply.headers, path);
            assert_eq!(stage.head().await, before, "{what}");
        }
    }
}

#[tokio::test]
async fn t_23_requests_of_programs_are_served_and_preflights_are_not() {
    let stage = Stage::new(UNLIMITED).await;
    // Node's fetch sends this mode on every POST.
    for (n, mark) in [(1, "Sec-Fetch-Mode: cors"), (2, "Sec-Fetch-Site: none"), (3, "X: y")] {
        let lines = format!("Host: localhost\r\n{mark}");
        let mut caller = RawClient::to(stage.address).await;
        let reply = caller.ask(&request("POST", "/sign", &lines, &stage.payable(n))).await;
        assert_eq!(reply.json()["status"], "success", "{mark}: {reply:?}");
        assert_no_cors(&reply.headers, mark);
        for (_method, path) in ROUTES {
            let reply = caller.ask(&request("OPTIONS", path, &lines, "")).await;
            assert!(matches!(reply.status, 404 | 405), "{path} {mark}: {reply:?}");
            assert_no_cors(&reply.headers, path);
        }
    }
}

#[tokio::test]
async fn t_23_an_absolute_request_target_is_refused_on_every_route() {
    let stage = Stage::new(UNLIMITED).await;
    let before = stage.head().await;
    for host in ["evil.test", "localhost", "127.0.0.1:9402"] {
        for (method, path) in ROUTES {
            let mut caller = RawClient::to(stage.address).await;
            let target = format!("http://{host}{path}");
            let raw = request(method, &target, "Host: localhost", &stage.payable(1));
            let reply = caller.ask(&raw).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (403, "FOREIGN_HOST_REJECTED"),
                "{method} {target}"
            );
            assert_no_cors(&reply.headers, &target);
        }
    }
    assert_eq!(stage.head().await, before);
}

/// [`ROUTES`] covers the server's OpenAPI document, and a program can call each route.
#[tokio::test]
async fn t_23_the_list_of_routes_matches_the_server() {
    let stage = Stage::new(UNLIMITED).await;
    let ask = async |method: &str, path: &str| {
        let mut caller = RawClient::to(stage.address).await;
        caller.ask(&request(method, path, "Host: localhost", "{}")).await
    };
    let described = ask("GET", "/openapi.json").await.json();
    let described = described["paths"].as_object().expect("paths");
    assert!(described.len() > 10, "{described:?}");
    for (path, methods) in described {
        let begin = path.split('{').next().expect("a part");
        for method in methods.as_object().expect("methods").keys() {
            let known = ROUTES.iter().any(|(known, route)| {
                known.eq_ignore_ascii_case(method)
                    && (route == path || is_one_of(route, begin, path))
            });
            assert!(known, "{method} {path} is not on the list");
        }
    }
    for (method, path) in ROUTES.iter().filter(|(_, path)| *path != "/nowhere") {
        let reply = ask(method, path).await;
        assert_ne!(reply.code(), ask(method, "/nowhere").await.code(), "{method} {path}");
    }
}

/// Returns whether a route is an instance of a path that ends in a parameter.
fn is_one_of(route: &str, begin: &str, path: &str) -> bool {
    path.ends_with('}') && route.strip_prefix(begin).is_some_and(|rest| !rest.is_empty())
}

/// Asserts that no web page may read the answer: it has no CORS header.
fn assert_no_cors(headers: &[(String, String)], what: &str) {
    let cors = headers.iter().any(|(name, _)| name.starts_with("access-control-"));
    assert!(!cors, "{what}");
}
