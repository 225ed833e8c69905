//! Every error of the public services has the form of its service: JSON with a code and a
//! sentence that names the remedy.

use std::process::Command;

use bursar_tests::raw::{RawClient, Reply};
use bursar_tests::service::program_path;

use crate::edge::stage::Service;

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// Asserts the form. Returns the code.
fn assert_error_form(service: &Service, shown: &str, reply: &Reply) -> String {
    let shown = format!("{}, {shown}: {reply:?}", service.name);
    assert_eq!(reply.header("content-type"), Some("application/json"), "{shown}");
    let body = reply.json();
    let (code, sentence) = match service.name {
        "proxy" => (&body["error"]["code"], &body["error"]["message"]),
        _facilitator => (&body["code"], &body["error"]),
    };
    let sentence = sentence.as_str().unwrap_or_else(|| panic!("{shown}"));
    assert!((20..400).contains(&sentence.len()) && sentence.ends_with(['.', ')']), "{shown}");
    code.as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
}

#[tokio::test]
async fn every_error_of_the_edge_and_the_router_has_a_code_and_a_sentence() {
    for service in Service::both().await {
        let is_proxy = service.name == "proxy";
        let long = "y".repeat(70_000);
        let body_route = service.body_route;
        for (raw, status, facilitator, proxy) in [
            (get("\\/x"), 400, "invalid_request", "invalid_request"),
            (get("%2fx"), 400, "invalid_request", "invalid_request"),
            (get("http:///x"), 400, "invalid_request", "invalid_request"),
            (get("/nowhere"), 404, "not_found", "not_found"),
            (get("/%ff"), 404, "not_found", "not_found"),
            (get("nowhere"), 404, "not_found", "not_found"),
            (get("*"), 404, "not_found", "not_found"),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 404, "not_found", "not_found"),
            (
                b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
                405,
                "method_not_allowed",
                "method_not_allowed",
            ),
            (get(body_route), 405, "method_not_allowed", "method_not_allowed"),
            (
                format!("GET /health HTTP/1.1\r\nX: {long}\r\n\r\n").into_bytes(),
                431,
                "head_too_large",
                "head_too_large",
            ),
            (b"GET  / HTTP/1.1\r\n\r\n".to_vec(), 400, "invalid_request", "invalid_request"),
            (
                format!(
                    "POST {body_route} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"
                )
                .into_bytes(),
                413,
                "body_too_large",
                "body_too_large",
            ),
        ] {
            let shown = String::from_utf8_lossy(&raw[..raw.len().min(80)]).into_owned();
            let reply = RawClient::to(service.address).await.ask(&raw).await;
            assert_eq!(reply.status, status, "{}, {shown}: {reply:?}", service.name);
            let code = assert_error_form(&service, &shown, &reply);
            assert_eq!(code, if is_proxy { proxy } else { facilitator }, "{shown}");
        }
    }
}

#[tokio::test]
async fn a_query_or_path_that_cannot_be_read_has_the_facilitators_form() {
    let service = Service::facilitator();
    let id = format!("0x{}", "00".repeat(32));
    for (target, code) in [
        ("/supported?view=summary&view=summary", "invalid_request"),
        ("/supported?view=%ff&view=a", "invalid_request"),
        ("/supported?view=other", "invalid_request"),
        (&format!("/batch/channel/{id}?network=8453&network=8453"), "invalid_request"),
        ("/batch/channel/%ff?network=8453", "invalid_request"),
        ("/batch/channel/x?network=8453", "invalid_request"),
        (&format!("/batch/channel/{id}?network=%1b%5b"), "invalid_request"),
    ] {
        let reply = RawClient::to(service.address).await.ask(&get(target)).await;
        assert_eq!(reply.status, 400, "{target}: {reply:?}");
        assert_eq!(assert_error_form(&service, target, &reply), code, "{target}");
    }
}

/// Messages shorten their quotations from the command line, the settings and file names, and stay on one line.
#[test]
fn errors_at_the_start_repeat_no_long_text_and_no_control_characters() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("settings.toml");
    let long = "\u{1b}[31m".repeat(4_000);
    std::fs::write(&settings, format!("\"{}\" = 1", "x\\u001b".repeat(4_000))).expect("written");
    let settings = settings.to_str().expect("UTF-8");
    let odd_store = folder.path().join("a\u{1b}[2Jb");
    std::fs::write(&odd_store, "no store").expect("written");
    let store = odd_store.to_str().expect("UTF-8");
    let address = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    for program in ["bursar-test-proxy", "bursar-test-facilitator"] {
        for arguments in [
            &[&long[..]][..],
            &["--config", settings],
            &["--config", &long],
            &[&format!("--{long}")],
            &[],
        ] {
            let mut command = Command::new(program_path(program));
            command.args(arguments).env("PROXY_STORE", store).env("FACILITATOR_STORE", store);
            let out = command.env("WALLET_ADDRESS", address).output().expect("run");
            let text = String::from_utf8_lossy(&out.stderr);
            assert!(!out.status.success() && !text.is_empty(), "{program} {text}");
            assert!(text.len() < 8_000, "{program}: {} bytes", text.len());
            assert!(!text.contains('\u{1b}'), "{program}: {text:?}");
        }
    }
}
