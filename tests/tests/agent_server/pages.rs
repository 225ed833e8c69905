//! Requests that come from web pages, or by names that are not ours: refused on every route.

use crate::raw::Caller;
use crate::stage::{Stage, UNLIMITED};

/// The lines that mark a request, whether `Host: localhost` stands beside them, and the refusal's status
/// and code; none where it is no reason to refuse.
const MARKS: &[(&str, bool, Option<(u16, &str)>)] = &[
    ("Origin: http://evil.test", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    ("Origin: http://localhost:9402", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    ("Origin: null", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    ("Referer: http://localhost:9402/", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    ("Sec-Fetch-Site: cross-site", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    ("Sec-Fetch-Site: same-origin", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    ("Sec-Fetch-Site: same-site", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    ("Sec-Fetch-Site:", true, Some((403, "BROWSER_ORIGIN_REJECTED"))),
    (
        "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site",
        true,
        Some((403, "BROWSER_ORIGIN_REJECTED")),
    ),
    ("Sec-Fetch-Site: none", true, None),
    ("Sec-Fetch-Mode: cors", true, None),
    ("Host: evil.test:9402", false, Some((403, "FOREIGN_HOST_REJECTED"))),
    ("Host: 0.0.0.0:9402", false, Some((403, "FOREIGN_HOST_REJECTED"))),
    ("Host: localhost.evil.test", false, Some((403, "FOREIGN_HOST_REJECTED"))),
    ("Host:", false, Some((403, "FOREIGN_HOST_REJECTED"))),
    ("Host: localhost", true, Some((400, "BAD_REQUEST"))),
    ("Host: evil.test", true, Some((400, "BAD_REQUEST"))),
];

const ROUTES: &[(&str, &str)] = &[
    ("GET", "/health"),
    ("GET", "/status"),
    ("POST", "/status"),
    ("POST", "/ping"),
    ("POST", "/sign"),
    ("GET", "/sign/status/00000000-0000-4000-8000-000000000000"),
    ("GET", "/sign/status/"),
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
async fn t_23_no_route_answers_a_page_or_a_foreign_name() {
    let stage = Stage::new(UNLIMITED).await;
    for (number, (mark, with_host, refusal)) in MARKS.iter().enumerate() {
        let lines =
            if *with_host { format!("Host: localhost\r\n{mark}") } else { (*mark).to_owned() };
        for (method, path) in ROUTES {
            let before = stage.head().await;
            let body = stage.payable(u64::try_from(number).expect("small"));
            let mut caller = Caller::to(stage.address).await;
            let reply = caller.ask(&request(method, path, &lines, &body)).await;
            let what = format!("{method} {path} {mark:?}: {reply:?}");
            match refusal {
                Some((status, code)) => {
                    assert_eq!((reply.status, reply.code().as_str()), (*status, *code), "{what}");
                    assert_eq!(stage.head().await, before, "{what}");
                }
                None => {
                    assert!(!matches!(reply.status, 403), "{what}");
                    assert_eq!(stage.head().await != before, *path == "/sign", "{what}");
                }
            }
            silent_to_pages(&reply.headers, &what);
        }
        let mut caller = Caller::to(stage.address).await;
        let preflight = format!("{lines}\r\nAccess-Control-Request-Method: POST");
        for (_method, path) in ROUTES {
            let reply = caller.ask(&request("OPTIONS", path, &preflight, "")).await;
            assert!(matches!(reply.status, 400 | 403 | 404 | 405), "{path} {mark:?}: {reply:?}");
            silent_to_pages(&reply.headers, path);
        }
    }
}

#[tokio::test]
async fn t_23_a_proxys_form_names_a_foreign_host_on_every_route() {
    let stage = Stage::new(UNLIMITED).await;
    let before = stage.head().await;
    for host in ["evil.test", "localhost", "127.0.0.1:9402"] {
        for (method, path) in ROUTES {
            let mut caller = Caller::to(stage.address).await;
            let target = format!("http://{host}{path}");
            let raw = request(method, &target, "Host: localhost", &stage.payable(1));
            let reply = caller.ask(&raw).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (403, "FOREIGN_HOST_REJECTED"),
                "{method} {target}"
            );
            silent_to_pages(&reply.headers, &target);
        }
    }
    assert_eq!(stage.head().await, before);
}

/// No page may read an answer.
fn silent_to_pages(headers: &[(String, String)], what: &str) {
    let cors = headers.iter().any(|(name, _)| name.starts_with("access-control-"));
    assert!(!cors, "{what}");
}
