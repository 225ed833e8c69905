//! The wallet from an agent's view, with retries. A restarted engine is away for seconds and then locked until
//! its operator opens it. Identical requests get identical answers, so retrying is safe.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

/// How long to wait for a wallet that does not answer.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    pub(super) pause: Duration,
    pub(super) tries: u32,
}

impl RetryPolicy {
    /// Two minutes: enough to start an engine and type a password.
    pub const USUAL: Self = Self { pause: Duration::from_millis(500), tries: 240 };

    /// For callers that retry by themselves.
    pub const NONE: Self = Self { pause: Duration::ZERO, tries: 1 };

    fn time_limit(self) -> String {
        format!("{} s at most", self.pause.saturating_mul(self.tries).as_secs())
    }
}

/// One wallet during one purchase.
pub(super) struct Wallet<'a> {
    pub(super) client: reqwest::Client,
    pub(super) url: &'a str,
    pub(super) retry: RetryPolicy,
    pub(super) tell: &'a (dyn Fn(&str) + Sync),
    /// Whether the wallet was away, so that it may be locked now.
    pub(super) was_away: bool,
}

impl Wallet<'_> {
    /// Posts `body`, or sends a GET request without one.
    pub(super) async fn call(
        &mut self,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let url = format!("{}{path}", self.url);
        let (mut reported_away, mut reported_locked) = (false, false);
        let mut tried = 0u32;
        loop {
            let request = match body {
                Some(body) => self.client.post(&url).json(body),
                None => self.client.get(&url),
            };
            let last = match send(request).await {
                Ok(answer) if self.was_away && may_be_locked(&answer) => {
                    if !reported_locked {
                        (self.tell)("the wallet may be locked: waiting until `bursar wallet open`");
                        reported_locked = true;
                    }
                    Ok(answer)
                }
                Ok(answer) => {
                    if reported_away || reported_locked {
                        (self.tell)("the wallet answers again: continuing");
                    }
                    return Ok(answer);
                }
                Err(error) => {
                    self.was_away = true;
                    if !reported_away && self.retry.tries > 1 {
                        let limit = self.retry.time_limit();
                        (self.tell)(&format!("the wallet does not answer: waiting, {limit}"));
                        reported_away = true;
                    }
                    Err(error)
                }
            };
            tried = tried.saturating_add(1);
            if tried >= self.retry.tries {
                return last.with_context(|| {
                    format!("the wallet at {} does not answer: is an engine running?", self.url)
                });
            }
            tokio::time::sleep(self.retry.pause).await;
        }
    }
}

/// A locked wallet reports this to bearer agents. To hmac agents it answers as to unknown callers.
fn may_be_locked((status, answer): &(u16, Value)) -> bool {
    matches!((status, answer["code"].as_str()), (503, _) | (401, Some("AUTH_FAILED")))
}

async fn send(request: reqwest::RequestBuilder) -> reqwest::Result<(u16, Value)> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    // A partial answer counts as none: the engine went away while writing it.
    let bytes = response.bytes().await?;
    Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use axum::routing::post;
    use serde_json::json;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::net::TcpListener;

    const QUICK: RetryPolicy = RetryPolicy { pause: Duration::from_millis(20), tries: 500 };

    fn wallet_at<'a>(
        url: &'a str,
        retry: RetryPolicy,
        tell: &'a (dyn Fn(&str) + Sync),
    ) -> Wallet<'a> {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Wallet { client, url, retry, tell, was_away: false }
    }

    /// Serves a wallet that is locked for its first answers.
    async fn serve(listener: TcpListener, locked: u32) {
        let calls = AtomicU32::new(0);
        let answer = move |body: String| {
            if calls.fetch_add(1, Ordering::SeqCst) < locked {
                (StatusCode::UNAUTHORIZED, json!({ "code": "AUTH_FAILED" }).to_string())
            } else {
                (StatusCode::OK, body)
            }
        };
        let answer = std::sync::Arc::new(answer);
        let sign = post(move |body: String| async move { answer(body) });
        let app = axum::Router::new().route("/sign", sign);
        axum::serve(listener, app).await.unwrap();
    }

    #[tokio::test]
    async fn the_agent_waits_for_a_wallet_that_is_away_and_then_locked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let url = format!("http://{address}");
        let steps = Mutex::new(Vec::new());
        let tell = |step: &str| steps.lock().unwrap().push(step.to_owned());
        let body = json!({ "ask": 1 });
        let mut wallet = wallet_at(&url, QUICK, &tell);
        let restarted = async {
            while steps.lock().unwrap().is_empty() {
                tokio::time::sleep(QUICK.pause).await;
            }
            serve(TcpListener::bind(address).await.unwrap(), 3).await;
        };
        let answer = tokio::select! {
            answer = wallet.call("/sign", Some(&body)) => answer.unwrap(),
            () = restarted => panic!("the server ended"),
        };
        assert_eq!(answer, (200, body));
        let steps = steps.lock().unwrap();
        assert_eq!(steps.len(), 3, "each once: {steps:?}");
        assert!(steps[0].contains("waiting, 10 s at most") && steps[1].contains("wallet open"));
    }

    #[tokio::test]
    async fn the_agent_does_not_retry_a_plain_refusal() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let body = json!({});
        let mut wallet = wallet_at(&url, QUICK, &|step| panic!("{step}"));
        let answer = tokio::select! {
            answer = wallet.call("/sign", Some(&body)) => answer.unwrap(),
            () = serve(listener, u32::MAX) => panic!("the server ended"),
        };
        assert_eq!(answer.0, 401);
    }

    #[tokio::test]
    async fn an_exhausted_retry_reports_what_to_do() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        for retry in [RetryPolicy { tries: 3, ..QUICK }, RetryPolicy::NONE] {
            let steps = Mutex::new(0);
            let tell = |_step: &str| *steps.lock().unwrap() += 1;
            let mut wallet = wallet_at(&url, retry, &tell);
            let error = wallet.call("/sign", None).await.unwrap_err();
            assert!(format!("{error:#}").contains("is an engine running?"), "{error:#}");
            assert_eq!(*steps.lock().unwrap(), u32::from(retry.tries > 1), "{retry:?}");
        }
    }
}
