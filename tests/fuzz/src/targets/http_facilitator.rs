//! Requests of resource servers to the facilitator.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_tests::channel::Channel;
use bursar_tests::dice::Dice;
use bursar_tests::payer::{Payer, SignedPayment, TransferMethod};
use serde_json::{Value, json};

use super::health::Health;
use super::http_engine::{is_body_too_short, scene_dice};
use crate::draw::mutate_bytes;
use crate::http::{Body, Request, exchange};
use crate::json::mutated;
use crate::oracle::check_facilitator_answer;
use crate::process::{Service, run};
use crate::programs::{FACILITATOR, Programs, write_private};
use crate::report::escaped;
use crate::scene::{Outcome, Scene};
use crate::stub::{Stub, answers};

/// Time for which a payment may stay open after its last answer. Withdrawals take some seconds.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A facilitator with one signer on Base, and its node.
#[derive(Debug)]
pub(super) struct Facilitator {
    pub(super) service: Service,
    pub(super) node: Stub,
    pub(super) home: tempfile::TempDir,
    program: PathBuf,
}

impl Facilitator {
    /// Writes settings and keys, and starts the service.
    pub(super) fn start(programs: &Programs) -> Result<Self, String> {
        let (home, node) = (tempfile::tempdir().expect("a folder"), Stub::start(answers::node));
        write_settings(home.path(), &node.url);
        // `status` reads the metrics, so it must know their port.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let (file, free) = (home.path().join("facilitator.toml"), free.expect("a port"));
        let text = std::fs::read_to_string(&file).expect("written");
        let metrics = |port: &str| format!("metrics_listen = \"{port}\"");
        let text = text.replace(&metrics("127.0.0.1:0"), &metrics(&free.to_string()));
        write_private(&file, text.as_bytes());
        let mut command = programs.command(FACILITATOR, home.path());
        let program = command.get_program().into();
        command.arg("--config").arg(file);
        let service = Service::start(command, &home.path().join("log"))?;
        Ok(Self { service, node, home, program })
    }

    /// Returns the output of `status`.
    fn status(&self) -> Result<Value, String> {
        let mut command = Command::new(&self.program);
        command.env_clear().arg("--config").arg(self.home.path().join("facilitator.toml"));
        command.arg("status");
        let ended = run(command, self.home.path(), b"");
        serde_json::from_slice(&ended.stdout).map_err(|error| format!("status: {error}: {ended:?}"))
    }
}

/// Writes the settings `facilitator.toml` and the files that they name.
pub(super) fn write_settings(home: &std::path::Path, node: &str) {
    write_private(&home.join("signer.key"), format!("{:064x}", 0x5151).as_bytes());
    write_private(&home.join("authorizer.key"), "61".repeat(32).as_bytes());
    let text = format!(
        "listen = \"127.0.0.1:0\"\nmetrics_listen = \"127.0.0.1:0\"\nwait_ms = 200\nrate_per_minute = 0\n\
         drain_ms = 1000\n\n[networks.8453]\nrpc = [\"{node}\"]\nsigners = [\"signer.key\"]\n\
         authorizer = \"authorizer.key\"\npoll_ms = 20\n"
    );
    write_private(&home.join("facilitator.toml"), text.as_bytes());
}

pub(super) fn base() -> &'static Network {
    by_chain(ChainId(8453)).expect("Base")
}

/// Returns a payment whose key and nonce come from the dice.
pub(super) fn payment(dice: &mut Dice, method: TransferMethod) -> SignedPayment {
    let mut word = [0; 32];
    dice.fill(&mut word[1..]);
    word[31] |= 1;
    let payer = Payer::from_word(B256::new(word));
    let mut terms = payer.terms(base(), Address::repeat_byte(0x55), 1_000);
    dice.fill(&mut word);
    terms.nonce = B256::new(word);
    terms.facilitator = bursar_tests::facilitator::signer_address(0);
    payer.pay(method, &terms)
}

struct FacilitatorServerScene {
    facilitator: Facilitator,
    health: Health,
    scene_dice: Dice,
    channel: Channel,
}

pub(super) fn open(programs: &Programs, seed: u64) -> Result<Box<dyn Scene>, String> {
    let facilitator = Facilitator::start(programs)?;
    let own = scene_dice(seed, "http-facilitator");
    let key = B256::repeat_byte(7);
    let channel = Channel::new(base(), Payer::from_word(key), Address::repeat_byte(0x55));
    Ok(Box::new(FacilitatorServerScene {
        facilitator,
        health: Health::default(),
        scene_dice: own,
        channel,
    }))
}

/// Returns a valid request.
pub(super) fn request(dice: &mut Dice, channel: &Channel) -> Request {
    if dice.chance(1, 5) {
        let id = channel.id;
        let channel = format!("/batch/channel/{id}?network=eip155:8453");
        let paths = [
            "/supported",
            "/supported?view=summary",
            "/health",
            "/livez",
            "/readyz",
            "/contracts",
            "/openapi.json",
            "/batch/contracts",
            &channel,
        ];
        return Request::get(dice.one_of(&paths));
    }
    let methods = [
        TransferMethod::Eip3009,
        TransferMethod::Permit2,
        TransferMethod::Upto,
        TransferMethod::Prism,
    ];
    let method = dice.one_of(&methods);
    let paid = payment(dice, method);
    let mut request = match dice.roll(10) {
        0..4 => Request::post("/verify", paid.body(2)),
        4 => Request::post("/verify", paid.body(1)),
        5 => Request::post("/settle", paid.body(1 + dice.roll(2))),
        6 => Request::post("/settle", paid.short_body()),
        7 => Request::post("/verify", voucher(channel)),
        8 => Request::post("/batch/claim", claim(channel)),
        _payout => Request::post(
            "/batch/settle",
            json!({
                "network": "eip155:8453", "type": "settle", "receiver": channel.config.receiver,
                "token": channel.config.token,
            }),
        ),
    };
    if dice.chance(1, 3) {
        request = request.with_header("idempotency-key", format!("key-{}", dice.next_u64()));
    }
    request
}

fn voucher(channel: &Channel) -> Value {
    let wanted = json!({
        "scheme": "batch-settlement", "network": "eip155:8453", "amount": "1000", "asset": channel.config.token,
        "payTo": channel.config.receiver, "maxTimeoutSeconds": 60,
        "extra": { "receiverAuthorizer": channel.config.receiver_authorizer, "withdrawDelay": 900 },
    });
    let payload = json!({
        "type": "voucher", "channelConfig": channel.config_json(), "voucher": channel.voucher_json(1_000),
    });
    json!({
        "x402Version": 2, "paymentRequirements": wanted,
        "paymentPayload": { "x402Version": 2, "accepted": wanted, "payload": payload },
    })
}

fn claim(channel: &Channel) -> Value {
    let row = json!({
        "totalClaimed": "900", "signature": channel.voucher_signature(1_000),
        "voucher": { "maxClaimableAmount": "1000", "channel": channel.config_json() },
    });
    json!({ "network": "eip155:8453", "type": "claim", "claims": [row] })
}

impl Scene for FacilitatorServerScene {
    fn send_valid(&mut self) -> Result<(), String> {
        let address = self.facilitator.service.address;
        let ask = |request: Request| {
            let reply = exchange(address, &request.encode(), false)?.ok_or("no answer")?;
            Ok::<_, String>((reply.status, reply.json().unwrap_or_default()))
        };
        let (status, supported) = ask(Request::get("/supported"))?;
        if status != 200 || supported["kinds"].as_array().is_none_or(Vec::is_empty) {
            return Err(format!("/supported: {status} {supported}"));
        }
        let paid = payment(&mut self.scene_dice, TransferMethod::Eip3009);
        let (status, verdict) = ask(Request::post("/verify", paid.body(2)))?;
        let refused = ["invalid_payload", "invalid_signature"].map(Some);
        // The stub's chain knows no balances, so the verdict of a valid payment comes from the simulation.
        if ![200, 503].contains(&status) || refused.contains(&verdict["invalidReason"].as_str()) {
            return Err(format!("/verify: {status} {verdict}"));
        }
        let mut forged = paid.body(2);
        forged["paymentPayload"]["payload"]["authorization"]["validAfter"] = json!("1");
        let (status, verdict) = ask(Request::post("/verify", forged))?;
        if status != 200 || verdict["isValid"] != false {
            return Err(format!("/verify of a forged payment: {status} {verdict}"));
        }
        Ok(())
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let mut request = request(dice, &self.channel);
        match &request.body {
            Body::Json(value) if dice.chance(1, 2) => {
                request.body = Body::Bytes(mutated(dice, value))
            }
            _any => request.mutate(dice),
        }
        let mut bytes = request.encode();
        let raw = dice.chance(1, 15);
        if raw {
            mutate_bytes(dice, &mut bytes);
        }
        let mut outcome = Outcome { input: escaped(&bytes), ..Outcome::default() };
        let address = self.facilitator.service.address;
        let violated = &mut outcome.violated;
        outcome.class = match exchange(address, &bytes, raw || is_body_too_short(&request)) {
            Err(why) => {
                violated.push(why);
                "none".into()
            }
            Ok(None) => "closed".into(),
            Ok(Some(reply)) => check_facilitator_answer(&reply, violated),
        };
        violated.extend(self.facilitator.service.health_fault());
        outcome
    }

    fn measure(&mut self) {
        self.health.measure(&self.facilitator.service);
    }

    fn check_at_end(&mut self) -> Vec<String> {
        let mut violated = self.health.compare(&self.facilitator.service);
        // The stub's chain mines no transaction, so accepted payments are withdrawn and no gas is spent.
        let end = Instant::now() + WITHDRAWAL_TIMEOUT;
        loop {
            let status = match self.facilitator.status() {
                Ok(status) => status,
                Err(why) => {
                    violated.push(why);
                    break;
                }
            };
            let gas = &status["networks"]["eip155:8453"]["gasSpentTodayWei"];
            if status["openPayments"] == 0 && *gas == "0" && status["store"] == true {
                break;
            }
            if Instant::now() > end {
                violated.push(format!("requests that were refused stay open: {status}"));
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        violated
    }

    fn is_alive(&mut self) -> bool {
        self.facilitator.service.health_fault().is_none()
    }
}
