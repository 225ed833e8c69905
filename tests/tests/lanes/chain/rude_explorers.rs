//! Explorers that flood, stall, redirect, or send garbage.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::chain::explorers::{
    KEY, Scene, UncalledServer, assert_chain_balances_intact, token, token_list,
};

const EXPLORER_FAILED_MESSAGE: &str =
    "The explorer gave no valid answer: other tokens may be missing.";

/// How the test's server misbehaves.
#[derive(Debug, Clone)]
enum Misbehavior {
    /// Sends these bytes and closes the connection.
    Sends(String),
    /// Sends this head, then data without end.
    Floods(String),
    /// Sends this head, then one byte every 20 ms.
    Drips(String),
    Waits,
}

async fn misbehave(
    mut stream: TcpStream,
    how: Misbehavior,
    sent: watch::Sender<u64>,
) -> io::Result<()> {
    let mut head = [0; 4096];
    let _request = stream.read(&mut head).await?;
    match how {
        Misbehavior::Sends(answer) => stream.write_all(answer.as_bytes()).await?,
        Misbehavior::Floods(answer) => {
            stream.write_all(answer.as_bytes()).await?;
            loop {
                stream.write_all(&[b' '; 1 << 16]).await?;
                sent.send_modify(|sent| *sent += 1 << 16);
            }
        }
        Misbehavior::Drips(answer) => {
            stream.write_all(answer.as_bytes()).await?;
            loop {
                stream.write_all(b" ").await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Misbehavior::Waits => std::future::pending().await,
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_17_an_explorer_that_misbehaves_costs_its_tokens_and_nothing_else() {
    let uncalled = UncalledServer::new();
    let ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let body = |status: &str, text: &str| {
        Misbehavior::Sends(format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        ))
    };
    let moved = |status: &str| {
        let location = uncalled.url();
        Misbehavior::Sends(format!(
            "HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ))
    };
    let deep = "[".repeat(1 << 16);
    let misdeeds = [
        Misbehavior::Floods(format!("{ok}content-length: 1073741824\r\n\r\n")),
        Misbehavior::Floods(format!("{ok}connection: close\r\n\r\n[")),
        Misbehavior::Floods(format!("{ok}transfer-encoding: chunked\r\n\r\n40000000\r\n")),
        Misbehavior::Floods("HTTP/1.1 200 OK\r\nx-endless: ".to_owned()),
        Misbehavior::Drips(format!("{ok}content-length: 1000\r\n\r\n")),
        Misbehavior::Drips("HTTP/1.1 200".to_owned()),
        Misbehavior::Waits,
        moved("301 Moved Permanently"),
        moved("302 Found"),
        moved("307 Temporary Redirect"),
        moved("308 Permanent Redirect"),
        Misbehavior::Sends(String::new()),
        Misbehavior::Sends("nonsense\r\n\r\n".to_owned()),
        Misbehavior::Sends(format!("{ok}content-length: 100\r\n\r\n[")),
        Misbehavior::Sends(format!("{ok}content-encoding: gzip\r\ncontent-length: 2\r\n\r\n[]x")),
        body("200 OK", &deep),
        body("200 OK", "{\"items\":[]}"),
        body("200 OK", "<html>checking your browser</html>"),
        body("200 OK", "[{\"token\":{\"type\":\"ERC-20\"},\"value\":\"1\"}]"),
        body(
            "200 OK",
            &json!([token(1, "GOOD"), {"token": token(2, "BAD")["token"], "value": "-1"}])
                .to_string(),
        ),
        body("204 No Content", ""),
        body("401 Unauthorized", KEY),
        body("403 Forbidden", "[]"),
        body("429 Too Many Requests", "[]"),
        // Only on Robinhood Chain, and only for an empty address, a 500 may mean that the explorer does not know the
        // address.
        body("500 Internal Server Error", "[]"),
        body("503 Service Unavailable", "[]"),
    ];
    let (how, hows) = watch::channel(Misbehavior::Waits);
    let (sent, told_sent) = watch::channel(0u64);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/{KEY}?apikey={KEY}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _peer)) = listener.accept().await {
            let _until_it_hangs_up =
                tokio::spawn(misbehave(stream, hows.borrow().clone(), sent.clone()));
        }
    });
    let scene = Scene::set_up(&url).await;
    for misbehavior in misdeeds {
        how.send_replace(misbehavior.clone());
        let before = *told_sent.borrow();
        let (answer, bytes) = scene.balances_answer().await;
        let gzip = matches!(&misbehavior, Misbehavior::Sends(text) if text.contains("gzip"));
        assert_chain_balances_intact(&answer);
        assert_eq!(answer["balances"].as_array().map(Vec::len), Some(3), "{misbehavior:?}");
        // The engine does not decode an encoding that it did not request: it reads the two bytes as a list.
        let failed = (!gzip).then(|| json!(format!("eip155:8453: {EXPLORER_FAILED_MESSAGE}")));
        assert_eq!(answer.get("balances_error"), failed.as_ref(), "{misbehavior:?}");
        let text = String::from_utf8(bytes).expect("UTF-8");
        assert!(!text.contains(KEY) && !text.contains("127.0.0.1"), "{text}");
        // The engine reads 8 MiB; the buffers of two sockets hold some more.
        let flooded = *told_sent.borrow() - before;
        assert!(flooded < 40 << 20, "{misbehavior:?}: {flooded} bytes");
        let shown = scene.balances_output().await;
        assert_eq!(shown.contains(&format!("Base: {EXPLORER_FAILED_MESSAGE}")), !gzip, "{shown}");
        assert!(!shown.contains(KEY), "{shown}");
    }
    uncalled.assert_untouched();

    // A failure is not permanent: the explorer is read again.
    how.send_replace(body("200 OK", &token_list(&["BACK".to_owned()])));
    let (answer, _bytes) = scene.balances_answer().await;
    assert_eq!(answer["balances"][3]["symbol"], "BACK", "{answer}");
    how.send_replace(body("404 Not Found", "{\"message\":\"Not found\"}"));
    let (answer, _bytes) = scene.balances_answer().await;
    assert_eq!(
        (answer["balances"].as_array().map(Vec::len), answer.get("balances_error")),
        (Some(3), None)
    );
}
