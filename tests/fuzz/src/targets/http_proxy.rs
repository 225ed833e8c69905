//! Requests of customers to the proxy.

use alloy_primitives::B256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_core::networks::{ChainId, by_chain};
use bursar_tests::dice::Dice;
use bursar_tests::payer::{Payer, TransferMethod, now_s};
use bursar_tests::proxy::{SELLER, chat, streaming_chat};
use serde_json::{Value, json};

use super::health::Health;
use super::http_engine::{is_body_too_short, scene_dice};
use crate::draw::mutate_bytes;
use crate::http::{Body, Reply, Request, exchange};
use crate::json::mutated;
use crate::oracle::check_proxy_answer;
use crate::process::Service;
use crate::programs::{PROXY, Programs, write_private};
use crate::report::escaped;
use crate::scene::{Outcome, Scene};
use crate::stub::{Stub, answers};

/// The only endpoint that is sold.
pub(super) const CHAT: &str = "/v1/chat/completions";

/// A proxy with its upstream, its facilitator and its node.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) service: Service,
    pub(super) upstream: Stub,
    pub(super) facilitator: Stub,
    pub(super) node: Stub,
    pub(super) home: tempfile::TempDir,
}

impl Proxy {
    pub(super) fn start(programs: &Programs) -> Result<Self, String> {
        let home = tempfile::tempdir().expect("a folder");
        let upstream = Stub::start(answers::upstream);
        let facilitator = Stub::start(answers::facilitator);
        let node = Stub::start(answers::node);
        write_settings(home.path(), [&upstream.url, &facilitator.url, &node.url]);
        let mut command = programs.command(PROXY, home.path());
        command.arg("--config").arg(home.path().join("proxy.toml"));
        let service = Service::start(command, &home.path().join("log"))?;
        Ok(Self { service, upstream, facilitator, node, home })
    }

    /// Sends a request and returns the answer.
    pub(super) fn ask(&self, request: &Request) -> Result<Reply, String> {
        exchange(self.service.address, &request.encode(), false)?.ok_or("no answer".to_owned())
    }

    /// Asks for the price of a body and pays it, with a key and a nonce drawn from the dice.
    pub(super) fn pay_for(
        &self,
        dice: &mut Dice,
        body: &Value,
        version: u64,
    ) -> Result<Request, String> {
        let request = Request::post(CHAT, body.clone());
        let challenge = self.ask(&request)?;
        let offers = challenge.json().unwrap_or_default();
        if challenge.status != 402 || !offers["accepts"][0].is_object() {
            return Err(format!("no offer: {} {}", challenge.status, escaped(&challenge.body)));
        }
        let v2 = challenge.header("payment-required").unwrap_or_default();
        let v2 = STANDARD.decode(v2).map_err(|error| error.to_string())?;
        let v2: Value = serde_json::from_slice(&v2).map_err(|error| error.to_string())?;
        let payment = pay(dice, version, &offers["accepts"][0], &v2);
        let name = if version == 1 { "x-payment" } else { "payment-signature" };
        Ok(request.with_header(name, STANDARD.encode(payment.to_string())))
    }
}

/// Signs an offer and returns the JSON of the payment header.
fn pay(dice: &mut Dice, version: u64, v1: &Value, v2: &Value) -> Value {
    let network = by_chain(ChainId(8453)).expect("Base");
    let mut word = [0; 32];
    dice.fill(&mut word[1..]);
    word[31] |= 1;
    let payer = Payer::from_word(B256::new(word));
    let amount = v1["maxAmountRequired"].as_str().and_then(|digits| digits.parse().ok());
    let mut terms = payer.terms(network, SELLER, amount.unwrap_or_default());
    dice.fill(&mut word);
    terms.nonce = B256::new(word);
    terms.valid_before_s = now_s() + v1["maxTimeoutSeconds"].as_u64().unwrap_or_default();
    let payload = payer.pay(TransferMethod::Eip3009, &terms).payload;
    if version == 1 {
        json!({ "x402Version": 1, "scheme": "exact", "network": v1["network"], "payload": payload })
    } else {
        json!({
            "x402Version": 2, "accepted": v2["accepts"][0], "resource": v2["resource"], "payload": payload,
        })
    }
}

/// Writes the settings `proxy.toml` and the key that they name.
pub(super) fn write_settings(home: &std::path::Path, [upstream, facilitator, node]: [&str; 3]) {
    write_private(&home.join("key"), bursar_tests::upstream::KEY.as_bytes());
    let text = format!(
        "listen = \"127.0.0.1:0\"\nmetrics_listen = \"127.0.0.1:0\"\nwallet_address = \"{SELLER}\"\n\
         upstream_url = \"{upstream}/v1\"\nfacilitator_url = \"{facilitator}\"\nupstream_api_key_file = \"key\"\n\
         rpc = \"{node}\"\nrate_per_minute = 0\ndrain_ms = 1000\nupstream_ms = 5000\nupstream_idle_ms = 2000\n\
         max_unpaid_usd = \"100000\"\nmax_unpaid_usd_per_payer = \"100000\"\n\n\
         [models.toy]\ninput_per_1k = \"0.001\"\noutput_per_1k = \"0.002\"\n"
    );
    write_private(&home.join("proxy.toml"), text.as_bytes());
}

#[derive(Debug)]
struct ProxyServerScene {
    proxy: Proxy,
    health: Health,
    scene_dice: Dice,
    sales: u64,
}

pub(super) fn open(programs: &Programs, seed: u64) -> Result<Box<dyn Scene>, String> {
    let proxy = Proxy::start(programs)?;
    let own = scene_dice(seed, "http-proxy");
    Ok(Box::new(ProxyServerScene { proxy, health: Health::default(), scene_dice: own, sales: 0 }))
}

/// Returns a chat request with many optional members.
pub(super) fn chat_with_options(dice: &mut Dice) -> Value {
    let mut body = json!({
        "model": "toy", "max_completion_tokens": 100, "temperature": 0.5, "top_p": 1, "n": 1, "stop": ["x"],
        "messages": [
            { "role": "system", "content": "be brief" },
            { "role": "user", "content": [{ "type": "text", "text": "hello" }], "name": "me" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c1", "type": "function", "function": { "name": "clock", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "noon" },
        ],
        "tools": [{ "type": "function", "function": {
            "name": "clock", "description": "the time",
            "parameters": { "type": "object", "properties": { "zone": { "type": "string" } } },
        } }],
        "response_format": { "type": "json_object" }, "seed": 7, "user": "u", "presence_penalty": 0,
    });
    if dice.chance(1, 3) {
        body["stream"] = json!(true);
        body["stream_options"] = json!({ "include_usage": true });
    }
    body
}

impl ProxyServerScene {
    /// Returns whether a refused request calls the upstream. `calls` is the number of calls before it.
    ///
    /// A counted call may belong to an earlier request whose customer has left, so the request is sent again.
    fn is_called_by(&self, bytes: &[u8], calls: u64) -> bool {
        let upstream = &self.proxy.upstream;
        if upstream.posts(CHAT) == calls {
            return false;
        }
        let calls = upstream.posts(CHAT);
        let _same_refusal = exchange(self.proxy.service.address, bytes, false);
        upstream.posts(CHAT) != calls
    }

    fn request(&mut self, dice: &mut Dice) -> Result<Request, String> {
        if dice.chance(1, 6) {
            let paths = ["/v1/models", "/health", "/readyz", "/openapi.json", CHAT];
            let mut request = Request::get(dice.one_of(&paths));
            request.mutate(dice);
            return Ok(request);
        }
        let body = match dice.roll(4) {
            0 => chat(&format!("hello {}", dice.next_u64())),
            1 => streaming_chat(&format!("hello {}", dice.next_u64())),
            _rich => chat_with_options(dice),
        };
        if dice.chance(1, 2) {
            let mut request = Request::post(CHAT, body.clone());
            match dice.roll(2) {
                0 => request.body = Body::Bytes(mutated(dice, &body)),
                _all => request.mutate(dice),
            }
            return Ok(request);
        }
        let version = 1 + dice.roll(2);
        let mut request = self.proxy.pay_for(dice, &body, version)?;
        match dice.roll(3) {
            0 => request.mutate(dice),
            1 => {
                let header = request.headers.last_mut().expect("the payment");
                let value = STANDARD.decode(&header.1).map_err(|error| error.to_string())?;
                let value: Value =
                    serde_json::from_slice(&value).map_err(|error| error.to_string())?;
                header.1 = STANDARD.encode(mutated(dice, &value)).into_bytes();
                let short: Vec<u8> = header.1.iter().take(12_000).copied().collect();
                header.1 = short;
            }
            _valid => {}
        }
        Ok(request)
    }
}

impl Scene for ProxyServerScene {
    fn send_valid(&mut self) -> Result<(), String> {
        for version in [1, 2] {
            self.sales += 1;
            let body = chat(&format!("a valid question {}", self.sales));
            let request = self.proxy.pay_for(&mut self.scene_dice, &body, version)?;
            let reply = self.proxy.ask(&request)?;
            let text = reply.json().unwrap_or_default();
            let content = &text["choices"][0]["message"]["content"];
            if reply.status != 200 || content != "some words" {
                return Err(format!("{} {}", reply.status, escaped(&reply.body)));
            }
        }
        Ok(())
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let request = match self.request(dice) {
            Ok(request) => request,
            Err(why) => {
                let mut violated = vec![format!("a valid request has no price: {why}")];
                violated.extend(self.proxy.service.health_fault());
                return Outcome { class: "no price".into(), input: String::new(), violated };
            }
        };
        let mut bytes = request.encode();
        let raw = dice.chance(1, 15);
        if raw {
            mutate_bytes(dice, &mut bytes);
        }
        let mut outcome = Outcome { input: escaped(&bytes), ..Outcome::default() };
        let violated = &mut outcome.violated;
        let calls = self.proxy.upstream.posts(CHAT);
        outcome.class = match exchange(
            self.proxy.service.address,
            &bytes,
            raw || is_body_too_short(&request),
        ) {
            Err(why) => {
                violated.push(why);
                "none".into()
            }
            Ok(None) => "closed".into(),
            Ok(Some(reply)) => check_proxy_answer(&reply, false, violated),
        };
        // The stubs verify, answer and settle every request, so a refusal comes before the upstream is called.
        let refused = outcome.class.starts_with('4') && !raw && !is_body_too_short(&request);
        if refused && self.is_called_by(&bytes, calls) {
            violated.push(format!("{} after a call of the upstream", outcome.class));
        }
        violated.extend(self.proxy.service.health_fault());
        outcome
    }

    fn measure(&mut self) {
        self.health.measure(&self.proxy.service);
    }

    fn check_at_end(&mut self) -> Vec<String> {
        self.health.compare(&self.proxy.service)
    }

    fn is_alive(&mut self) -> bool {
        self.proxy.service.health_fault().is_none()
    }
}
