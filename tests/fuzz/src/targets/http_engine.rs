//! Requests of agents to the wallet's agent server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_tests::agent::Agent;
use bursar_tests::dice::Dice;
use bursar_tests::payer::now_s;
use serde_json::{Map, Value, json};

use super::health::Health;
use super::wallet::{StateWatch, Wallet, offer, offer_v2};
use crate::draw::{dice_of, mutate_bytes};
use crate::http::{Body, Request, exchange};
use crate::json::mutated;
use crate::oracle::check_engine_answer;
use crate::programs::Programs;
use crate::report::escaped;
use crate::scene::{Outcome, Scene};

/// Number of consecutive refused requests after which the state is compared.
const REFUSALS_PER_COMPARISON: u64 = 12;
const ADDRESS: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const VENUE: &str = "0xBeEff033F34C046626B8D0A041844C5d1A5409dd";
const ID: &str = "6f1c2b1e-3b0a-4a86-9a7b-0c2f3f4d5e6f";

#[derive(Debug)]
struct AgentServer {
    wallet: Wallet,
    health: Health,
    state: StateWatch,
    /// Counts the valid payments, so that none repeats another.
    payments: u64,
}

pub(super) fn open(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let wallet = Wallet::start(programs, 500)?;
    let health = Health::default();
    Ok(Box::new(AgentServer {
        wallet,
        health,
        state: StateWatch::new(REFUSALS_PER_COMPARISON),
        payments: 0,
    }))
}

pub(super) fn now() -> i64 {
    i64::try_from(now_s()).expect("a date of this century")
}

/// Returns the fields of a request to an endpoint that an agent signs.
pub(super) fn fields(dice: &mut Dice, number: u64) -> (&'static str, Value) {
    let url = format!("https://api.example.com/{number}");
    let amount = dice.one_of(&[1, 1_000, 400_000, 1_000_000, 6_000_000]);
    match dice.roll(12) {
        0..3 => ("/sign", json!({ "x402_data": offer(amount, &url), "request_url": url })),
        3..6 => {
            let header = offer_v2(amount, &url);
            let header = if dice.chance(1, 2) {
                mutated(dice, &header)
            } else {
                header.to_string().into_bytes()
            };
            ("/sign", json!({ "payment_required": STANDARD.encode(header), "request_url": url }))
        }
        6 | 7 => {
            let mut trade = json!({
                "token_in": ADDRESS, "token_out": "ETH", "amount_in": "1.5", "chain_id": 8453, "fee_tier": 500,
                "max_slippage_bps": 50, "deadline": now() + 600,
            });
            if dice.chance(1, 3) {
                trade["tick_spacing"] = json!(10);
                trade["hooks"] = json!("0x0000000000000000000000000000000000000000");
            }
            ("/trade", json!({ "trade": trade }))
        }
        8 => ("/venues", json!({ "position": { "chain_id": 8453 } })),
        9 => {
            let action = dice.one_of(&["supply", "withdraw"]);
            let position = json!({
                "action": action, "venue": VENUE, "venue_kind": "vault", "amount": "25.5", "chain_id": 8453,
                "denomination": "assets", "protocol": "morpho", "withdraw_all": false,
            });
            ("/position", json!({ "position": position }))
        }
        10 => (
            "/callback",
            json!({ "transaction_id": ID, "event": "settled", "tx_hash": format!("0x{:064x}", number) }),
        ),
        _read => {
            (dice.one_of(&["/mandate", "/balances", "/status"]), json!({ "action": "agent_read" }))
        }
    }
}

/// Adds the agent's proof to the fields, as the manual describes.
pub(super) fn signed_fields(agent: &Agent, path: &str, fields: &Value) -> Value {
    let members = fields.as_object().cloned().unwrap_or_default();
    let message = match path {
        "/callback" => Map::from_iter([("callback".to_owned(), fields.clone())]),
        _flat => members.clone(),
    };
    let mut body = Value::Object(members);
    body["signature"] = json!(agent.sign(now(), &message));
    body["agent_id"] = json!(agent.id);
    if let Some(members) = body.as_object_mut() {
        members.remove("action");
    }
    body
}

impl AgentServer {
    fn request(&mut self, dice: &mut Dice) -> Request {
        if dice.chance(1, 6) {
            let paths = [
                "/",
                "/agent",
                "/agent/partner",
                "/health",
                "/openapi.json",
                "/sign/helper",
                "/status",
                "/sign/status/6f1c2b1e-3b0a-4a86-9a7b-0c2f3f4d5e6f",
                "/trade/status/6f1c2b1e-3b0a-4a86-9a7b-0c2f3f4d5e6f",
                "/position/status/6f1c2b1e-3b0a-4a86-9a7b-0c2f3f4d5e6f",
                "/receipt/6f1c2b1e-3b0a-4a86-9a7b-0c2f3f4d5e6f",
            ];
            return Request::get(dice.one_of(&paths));
        }
        if dice.chance(1, 20) {
            return Request::post("/ping", json!({ "agent_id": self.wallet.bearer.id }));
        }
        self.payments += 1;
        let (path, mut fields) = fields(dice, self.payments);
        let agent = if dice.chance(1, 3) { &self.wallet.hmac } else { &self.wallet.bearer };
        let before_proof = dice.chance(1, 2);
        if before_proof && !agent.uses_bearer {
            // Mutates the fields before signing: with a valid proof, they reach the rules behind the authentication.
            fields = serde_json::from_slice(&mutated(dice, &fields)).unwrap_or(fields);
        }
        let mut body = signed_fields(agent, path, &fields);
        if agent.uses_bearer && path == "/sign" {
            body["idempotency_key"] = json!(format!("key-{}-{}", self.payments, dice.next_u64()));
        }
        let mut request = Request::post(path, body);
        if before_proof && agent.uses_bearer {
            if let Body::Json(value) = &request.body {
                request.body = Body::Bytes(mutated(dice, value));
            }
        } else if !before_proof {
            request.mutate(dice);
        }
        request
    }
}

impl Scene for AgentServer {
    fn send_valid(&mut self) -> Result<(), String> {
        self.payments += 1;
        let url = format!("https://api.example.com/good/{}", self.payments);
        let fields = json!({ "x402_data": offer(1_000, &url), "request_url": url });
        let mut body = signed_fields(&self.wallet.bearer, "/sign", &fields);
        body["idempotency_key"] = json!(format!("good-{}", self.payments));
        let bytes = Request::post("/sign", body).encode();
        let reply = exchange(self.wallet.engine.address, &bytes, false)?.ok_or("no answer")?;
        self.state = StateWatch::new(REFUSALS_PER_COMPARISON);
        match reply.json() {
            Some(value) if reply.status == 200 && value["status"] == "success" => Ok(()),
            _other => Err(format!("{} {}", reply.status, escaped(&reply.body))),
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let request = self.request(dice);
        let mut bytes = request.encode();
        let raw = dice.chance(1, 15);
        if raw {
            mutate_bytes(dice, &mut bytes);
        }
        let mut outcome = Outcome { input: escaped(&bytes), ..Outcome::default() };
        let violated = &mut outcome.violated;
        let mut accepted = raw;
        outcome.class = match exchange(
            self.wallet.engine.address,
            &bytes,
            raw || is_body_too_short(&request),
        ) {
            Err(why) => {
                violated.push(why);
                "none".into()
            }
            Ok(None) => "closed".into(),
            Ok(Some(reply)) => {
                accepted |= reply.status < 400 && request.method == "POST";
                check_engine_answer(&reply, violated)
            }
        };
        violated.extend(self.wallet.engine.health_fault());
        if violated.is_empty() {
            violated.extend(self.state.compare_after(&self.wallet, accepted));
        }
        outcome
    }

    fn measure(&mut self) {
        self.health.measure(&self.wallet.engine);
    }

    fn check_at_end(&mut self) -> Vec<String> {
        let mut violated = self.health.compare(&self.wallet.engine);
        match self.wallet.must("audit verify") {
            Ok(_verified) => {}
            Err(why) => violated.push(format!("the journal does not verify: {why}")),
        }
        violated
    }

    fn is_alive(&mut self) -> bool {
        self.wallet.engine.health_fault().is_none()
    }
}

/// Returns whether the body is shorter than its headers state, so that the server waits for more.
pub(super) fn is_body_too_short(request: &Request) -> bool {
    let framing = ["content-length", "transfer-encoding", "expect"];
    request.headers.iter().any(|(name, _)| framing.contains(&name.as_str()))
        || matches!(request.body, Body::None) && request.method != "GET"
}

/// Returns the generator of a scene's own values, such as keys.
pub(super) fn scene_dice(seed: u64, name: &str) -> Dice {
    dice_of(seed, name, u64::MAX)
}
