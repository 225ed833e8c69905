//! A toy model behind an OpenAI-compatible API, on a free loopback port.
//!
//! It knows two answers and counts words as tokens. It is made for tests and the demonstration.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The model's name.
pub const NAME: &str = "toy-1";

/// A running model server, which stops when dropped.
#[derive(Debug)]
pub struct Model {
    url: String,
    server: JoinHandle<()>,
}

impl Model {
    /// Starts a server that accepts only requests with this API key.
    ///
    /// # Errors
    /// No port is available.
    pub async fn serve(key: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let app = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(chat))
            .with_state(Arc::new(format!("Bearer {key}")));
        let server = tokio::spawn(async move {
            let _ended = axum::serve(listener, app).await;
        });
        Ok(Self { url, server })
    }

    /// Returns the base URL, up to and including `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.server.abort();
    }
}

type Key = State<Arc<String>>;

fn is_known(key: &str, headers: &HeaderMap) -> bool {
    headers.get(header::AUTHORIZATION).is_some_and(|value| value.as_bytes() == key.as_bytes())
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn error_response(status: StatusCode, message: &str) -> Response {
    let error =
        json!({ "message": message, "type": "invalid_request_error", "param": null, "code": null });
    json_response(status, &json!({ "error": error }))
}

async fn models(State(key): Key, headers: HeaderMap) -> Response {
    if !is_known(&key, &headers) {
        return error_response(StatusCode::UNAUTHORIZED, "the key is wrong");
    }
    let one = json!({ "id": NAME, "object": "model", "created": 1_790_000_000, "owned_by": "bursar-demo" });
    json_response(StatusCode::OK, &json!({ "object": "list", "data": [one] }))
}

async fn chat(State(key): Key, headers: HeaderMap, body: Bytes) -> Response {
    if !is_known(&key, &headers) {
        return error_response(StatusCode::UNAUTHORIZED, "the key is wrong");
    }
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return error_response(StatusCode::BAD_REQUEST, "the body is not valid JSON");
    };
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let question = messages.last().and_then(|message| message["content"].as_str());
    let Some(question) = question else {
        return error_response(StatusCode::BAD_REQUEST, "the last message has no text");
    };
    let bound =
        ["max_completion_tokens", "max_tokens"].iter().find_map(|key| request[*key].as_u64());
    let limit = usize::try_from(bound.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let words: Vec<String> =
        answer_to(question).split_inclusive(' ').take(limit).map(str::to_owned).collect();
    let usage = json!({
        "prompt_tokens": question.split_whitespace().count(), "completion_tokens": words.len(),
        "total_tokens": question.split_whitespace().count().saturating_add(words.len()),
    });
    if request["stream"] == json!(true) {
        let with_usage = request["stream_options"]["include_usage"] == json!(true);
        return stream_response(&words, with_usage.then_some(usage));
    }
    let message = json!({ "role": "assistant", "content": words.concat() });
    json_response(
        StatusCode::OK,
        &json!({
            "id": "chatcmpl-toy", "object": "chat.completion", "created": 1_790_000_000, "model": NAME,
            "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
            "usage": usage,
        }),
    )
}

fn stream_response(words: &[String], usage: Option<Value>) -> Response {
    let frame = |choices: Value, usage: Option<&Value>| {
        let mut frame = json!({
            "id": "chatcmpl-toy", "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": NAME, "choices": choices,
        });
        if let Some(usage) = usage {
            frame["usage"] = usage.clone();
        }
        format!("data: {frame}\n\n")
    };
    let choice =
        |delta: Value, end: Value| json!([{ "index": 0, "delta": delta, "finish_reason": end }]);
    let mut frames: Vec<String> = words
        .iter()
        .map(|word| frame(choice(json!({ "content": word }), Value::Null), None))
        .collect();
    frames.push(frame(choice(json!({}), json!("stop")), None));
    frames.extend(usage.map(|usage| frame(json!([]), Some(&usage))));
    frames.push("data: [DONE]\n\n".to_owned());
    let pieces =
        stream::iter(frames.into_iter().map(|piece| Ok::<_, Infallible>(Bytes::from(piece))));
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (StatusCode::OK, kind, Body::from_stream(pieces)).into_response()
}

/// Returns one of the model's two answers.
fn answer_to(question: &str) -> String {
    let about = question.to_lowercase();
    if about.contains("x402") {
        "x402 is a way to pay over HTTP: a server answers 402 with its price, the client signs a payment \
         and asks again, and the server settles it on a chain."
            .to_owned()
    } else {
        let words = question.split_whitespace().count();
        format!(
            "I am a toy, and you asked me in {words} words. A larger model would know more about them."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(body: &Value, key: &str) -> (u16, String) {
        let model = Model::serve("k").await.unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{}/chat/completions", model.url())).json(body);
        let response = request.bearer_auth(key).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    #[tokio::test]
    async fn the_toy_model_requires_its_key_and_bounds_its_tokens() {
        let mut body = json!({ "messages": [{ "role": "user", "content": "What is x402?" }], "max_tokens": 3 });
        assert_eq!(ask(&body, "other").await.0, 401);
        let (status, text) = ask(&body, "k").await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (status, &answer["choices"][0]["message"]["content"]),
            (200, &json!("x402 is a "))
        );
        assert_eq!(answer["usage"]["completion_tokens"], 3);
        body["stream"] = json!(true);
        let (_status, text) = ask(&body, "k").await;
        assert!(text.starts_with("data: {") && text.ends_with("data: [DONE]\n\n"));
        assert_eq!(text.matches("data: ").count(), 5);
        assert_eq!(ask(&json!({ "messages": [] }), "k").await.0, 400);
    }
}
