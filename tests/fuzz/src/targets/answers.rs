//! Mutated answers of nodes, price services, explorers, upstreams and facilitators, while a service calls them.

use bursar_tests::channel::Channel;
use bursar_tests::dice::Dice;
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{chat, streaming_chat};
use serde_json::json;

use super::health::Health;
use super::http_engine::{fields, scene_dice, signed_fields};
use super::http_facilitator::{self, Facilitator, base};
use super::http_proxy::Proxy;
use super::wallet::Wallet;
use crate::http::{Reply, Request, exchange};
use crate::oracle::{
    check_command_end, check_engine_answer, check_envelope, check_facilitator_answer,
    check_proxy_answer,
};
use crate::process::run;
use crate::programs::Programs;
use crate::scene::{Outcome, Scene};
use crate::stub::Stub;

/// Commands whose answers come from a node, a price service or an explorer.
const QUESTIONS: &[&str] = &[
    "balances",
    "address balance pay",
    "positions --network base",
    "allowances --network base",
    "venues --network base",
    "quote pay 0.001 ETH USDC --network base",
    "quote pay 1 USDC ETH --network base",
    "venue trust 0xBeEff033F34C046626B8D0A041844C5d1A5409dd --network base",
    "doctor",
];

/// Returns a request's text together with the mutated answers that it got.
fn with_answers(asked: &str, stub: &Stub) -> String {
    format!("{asked}\n  answered by: {}", stub.stop_mutating().join("\n  then: "))
}

/// Returns a violation if a stub got no request, because then nothing was tested.
fn stubs_without_requests(stubs: &[(&str, &Stub)]) -> Vec<String> {
    let silent = stubs.iter().filter(|(_, stub)| stub.calls() == 0);
    silent.map(|(name, _)| format!("the {name} was never asked")).collect()
}

#[derive(Debug)]
struct EngineScene {
    wallet: Wallet,
    health: Health,
    payments: u64,
}

pub(super) fn open_engine(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    // After a bad answer, the engine asks the node again after this pause, so that the next input reaches the node.
    let wallet = Wallet::start(programs, 40)?;
    Ok(Box::new(EngineScene { wallet, health: Health::default(), payments: 0 }))
}

impl EngineScene {
    fn stub(&self, number: u64) -> &Stub {
        match number {
            0 => &self.wallet.prices,
            1 => &self.wallet.explorer,
            _most => &self.wallet.node,
        }
    }
}

impl Scene for EngineScene {
    fn send_valid(&mut self) -> Result<(), String> {
        // Waits until the pause after the last bad answer is over.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let told = self.wallet.must("address balance pay");
            match told {
                Ok(told) if !told.is_null() => return Ok(()),
                Ok(told) => return Err(told.to_string()),
                Err(why) if std::time::Instant::now() > end => return Err(why),
                Err(_not_yet) => {}
            }
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let which = dice.roll(8);
        let mut outcome = Outcome::default();
        self.payments += 1;
        if dice.chance(1, 2) {
            let line = dice.one_of(QUESTIONS);
            let mut command = self.wallet.command();
            command.arg("--json").args(line.split_whitespace());
            self.stub(which).mutate_answers(Dice::new(dice.next_u64()));
            let ended = run(command, self.wallet.home(), b"");
            outcome.input = with_answers(line, self.stub(which));
            outcome.class =
                check_command_end(&ended, super::args::WALLET_EXITS, &mut outcome.violated);
            check_envelope(&ended, &mut outcome.violated);
        } else {
            let (path, fields) = loop {
                let drawn = fields(dice, self.payments);
                if !["/sign", "/callback"].contains(&drawn.0) {
                    break drawn;
                }
            };
            let request = Request::post(path, signed_fields(&self.wallet.bearer, path, &fields));
            self.stub(which).mutate_answers(Dice::new(dice.next_u64()));
            let answer = exchange(self.wallet.engine.address, &request.encode(), false);
            outcome.input = with_answers(&format!("{path} {fields}"), self.stub(which));
            outcome.class = class_of(answer, check_engine_answer, &mut outcome.violated);
        }
        outcome.violated.extend(self.wallet.engine.health_fault());
        outcome
    }

    fn measure(&mut self) {
        self.health.measure(&self.wallet.engine);
    }

    fn check_at_end(&mut self) -> Vec<String> {
        let mut violated = self.health.compare(&self.wallet.engine);
        violated.extend(stubs_without_requests(&[("node", &self.wallet.node)]));
        violated
    }

    fn is_alive(&mut self) -> bool {
        self.wallet.engine.health_fault().is_none()
    }
}

/// Returns the class of an answer. If there is an answer, `judge` decides its class.
fn class_of(
    answer: Result<Option<Reply>, String>,
    judge: fn(&Reply, &mut Vec<String>) -> String,
    violated: &mut Vec<String>,
) -> String {
    let (why, class) = match answer {
        Ok(Some(reply)) => return judge(&reply, violated),
        Ok(None) => ("no answer".to_owned(), "closed"),
        Err(why) => (why, "none"),
    };
    violated.push(why);
    class.to_owned()
}

struct FacilitatorScene {
    facilitator: Facilitator,
    health: Health,
    channel: Channel,
}

pub(super) fn open_facilitator(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let facilitator = Facilitator::start(programs)?;
    let key = alloy_primitives::B256::repeat_byte(7);
    let receiver = alloy_primitives::Address::repeat_byte(0x55);
    let channel = Channel::new(base(), Payer::from_word(key), receiver);
    Ok(Box::new(FacilitatorScene { facilitator, health: Health::default(), channel }))
}

impl Scene for FacilitatorScene {
    fn send_valid(&mut self) -> Result<(), String> {
        let request = Request::get("/health").encode();
        let reply = exchange(self.facilitator.service.address, &request, false)?;
        match reply {
            Some(reply) if reply.status == 200 => Ok(()),
            other => Err(format!("/health: {other:?}")),
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let request = http_facilitator::request(dice, &self.channel);
        self.facilitator.node.mutate_answers(Dice::new(dice.next_u64()));
        let answer = exchange(self.facilitator.service.address, &request.encode(), false);
        let asked = crate::report::escaped(&request.encode());
        let mut outcome =
            Outcome { input: with_answers(&asked, &self.facilitator.node), ..Outcome::default() };
        outcome.class = class_of(answer, check_facilitator_answer, &mut outcome.violated);
        outcome.violated.extend(self.facilitator.service.health_fault());
        outcome
    }

    fn measure(&mut self) {
        self.health.measure(&self.facilitator.service);
    }

    fn check_at_end(&mut self) -> Vec<String> {
        let mut violated = self.health.compare(&self.facilitator.service);
        violated.extend(stubs_without_requests(&[("node", &self.facilitator.node)]));
        violated
    }

    fn is_alive(&mut self) -> bool {
        self.facilitator.service.health_fault().is_none()
    }
}

/// Checks that the answer to the customer agrees with the number of settlements. Only a lying
/// facilitator may settle falsely.
fn check_charge(reply: &Reply, liar: &str, settled: u64) -> Option<String> {
    if liar == "facilitator" {
        return None;
    }
    let error = reply.json().unwrap_or_default();
    let charged = error["x402"]["charged"].as_str();
    match reply.status {
        200 if settled == 0 => Some("an answer was delivered and not settled".into()),
        400.. if charged == Some("no") && settled > 0 => {
            Some(format!("it was settled {settled} times, but the answer says no: {error}"))
        }
        400.. if charged.is_none() && settled > 0 => {
            Some(format!("the error {} of the upstream was settled", reply.status))
        }
        _other => None,
    }
}

#[derive(Debug)]
struct ProxyScene {
    proxy: Proxy,
    health: Health,
    scene_dice: Dice,
    sales: u64,
}

pub(super) fn open_proxy(programs: &Programs, seed: u64) -> Result<Box<dyn Scene>, String> {
    let proxy = Proxy::start(programs)?;
    let own = scene_dice(seed, "answers-proxy");
    Ok(Box::new(ProxyScene { proxy, health: Health::default(), scene_dice: own, sales: 0 }))
}

impl Scene for ProxyScene {
    fn send_valid(&mut self) -> Result<(), String> {
        self.sales += 1;
        let body = chat(&format!("a valid question {}", self.sales));
        let request = self.proxy.pay_for(&mut self.scene_dice, &body, 2)?;
        let reply = self.proxy.ask(&request)?;
        if reply.status == 200 { Ok(()) } else { Err(format!("{reply:?}")) }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let text = format!("hello {}", dice.next_u64());
        let body = if dice.chance(1, 2) { chat(&text) } else { streaming_chat(&text) };
        let version = 1 + dice.roll(2);
        let request = match self.proxy.pay_for(dice, &body, version) {
            Ok(request) => request,
            Err(why) => {
                let mut violated = vec![format!("a valid request has no price: {why}")];
                violated.extend(self.proxy.service.health_fault());
                return Outcome { class: "no price".into(), input: String::new(), violated };
            }
        };
        let (liar, name) = match dice.roll(5) {
            0..3 => (&self.proxy.upstream, "upstream"),
            3 => (&self.proxy.facilitator, "facilitator"),
            _node => (&self.proxy.node, "node"),
        };
        let settled = self.proxy.facilitator.posts("/settle");
        liar.mutate_answers(Dice::new(dice.next_u64()));
        let answer = self.proxy.ask(&request);
        let settled = self.proxy.facilitator.posts("/settle") - settled;
        let asked = format!("{name} {}", json!(body));
        let mut outcome = Outcome { input: with_answers(&asked, liar), ..Outcome::default() };
        outcome.class = match answer {
            Ok(reply) => {
                outcome.violated.extend(check_charge(&reply, name, settled));
                check_proxy_answer(&reply, name == "upstream", &mut outcome.violated)
            }
            // A stream that breaks after its first chunk may lack its last chunk.
            Err(why) if why.contains("odd chunk") && name == "upstream" => "broken stream".into(),
            Err(why) => {
                outcome.violated.push(why);
                "none".into()
            }
        };
        outcome.violated.extend(self.proxy.service.health_fault());
        outcome
    }

    fn measure(&mut self) {
        self.health.measure(&self.proxy.service);
    }

    fn check_at_end(&mut self) -> Vec<String> {
        let mut violated = self.health.compare(&self.proxy.service);
        let Proxy { upstream, facilitator, .. } = &self.proxy;
        violated.extend(stubs_without_requests(&[
            ("upstream", upstream),
            ("facilitator", facilitator),
        ]));
        violated
    }

    fn is_alive(&mut self) -> bool {
        self.proxy.service.health_fault().is_none()
    }
}
