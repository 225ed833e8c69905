//! `requests`, and the decisions `approve` and `deny`, also with hostile agents.

use bursar_control::answers::{Answer, RequestAnswer};
use bursar_control::card_text;
use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, Prompt, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::limits::{HELD_PER_AGENT_MAX, HOLD_MS, LISTED_URL_CHARS_MAX, URL_BYTES_MAX};
use bursar_core::status::RequestStatus;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{BASE, challenge, header};
use bursar_tests::operator::{Expect, Operator};
use bursar_tui::link::Received;

use super::activity::ask;

/// A card shows if its approval would be refused.
#[tokio::test]
async fn a_card_shows_that_its_approval_would_be_refused() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 5 --txn 3").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let mut ids = Vec::new();
    for n in 0..2 {
        let offer = header(&challenge(BASE, 2_000_000, &format!("https://a.example/{n}")));
        let (status, answer) = engine.post("/sign", &bot.ask(engine.now_s(), &offer, None)).await;
        assert_eq!(status, 202, "{answer}");
        ids.push(answer["request_id"].as_str().unwrap().to_owned());
    }
    let mut operator = engine.operator();
    let obstacles_of = async |operator: &mut Operator| {
        let listed = operator.outcome("requests").await;
        let Ok(Answer::Requests { requests }) = listed.reply.result else { panic!("{listed:?}") };
        let obstacle = |request: RequestAnswer| request.card.unwrap().obstacle;
        requests.into_iter().map(obstacle).collect::<Vec<_>>()
    };
    assert_eq!(obstacles_of(&mut operator).await, [None, None]);
    operator.must("freeze").await;
    assert!(
        obstacles_of(&mut operator).await.iter().all(|one| one.as_ref().unwrap().contains("thaw"))
    );
    operator.must("thaw").await;
    operator.must("policy edit p --txn 1").await;
    let obstacles = obstacles_of(&mut operator).await;
    assert!(obstacles.iter().all(|one| one.as_ref().unwrap().contains("per-request")));
    let listed = operator.outcome("requests").await;
    let Ok(Answer::Requests { requests }) = &listed.reply.result else { panic!("{listed:?}") };
    let lines = card_text::lines(requests[0].card.as_ref().unwrap()).join("\n");
    assert!(lines.contains("cannot be approved now: Exceeds per-request maximum"));
    let refused = operator.run_refused(&format!("approve {} --yes", ids[0])).await;
    assert!(refused.message.starts_with("Not approved, and the request is closed"));
    operator.must("policy edit p --txn 3").await;
    operator.must(&format!("approve {} --yes", ids[1])).await;
}

/// A decision that comes too late says how the request ended, in words and as a status.
#[tokio::test]
async fn a_late_decision_names_how_the_request_ended() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 3").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(ask(&engine, &bot, 2_000_000, n).await);
    }
    operator.must(&format!("approve {} --yes", ids[0])).await;
    operator.must(&format!("deny {}", ids[1])).await;
    engine.clock.advance(u64::try_from(HOLD_MS).unwrap() + 1000);
    for (id, code, status) in [
        (&ids[0], Code::AlreadyDecided, RequestStatus::Signed),
        (&ids[1], Code::AlreadyDecided, RequestStatus::Denied),
        (&ids[2], Code::RequestExpired, RequestStatus::Expired),
    ] {
        for line in [format!("approve {id} --yes"), format!("deny {id}")] {
            let refused = operator.run_refused(&line).await;
            assert_eq!((refused.code, refused.request_status), (code, Some(status)), "{line}");
        }
    }
}

#[tokio::test]
async fn a_digest_is_given_whole() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 3").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let id = ask(&engine, &bot, 2_000_000, 1).await;
    let mut operator = engine.operator();
    let listed = operator.outcome("requests").await;
    let Ok(Answer::Requests { requests }) = listed.reply.result else { panic!("{listed:?}") };
    let digest = requests[0].card.as_ref().unwrap().digest.clone();
    for (shown, code) in [(&digest[..12], Code::BadInput), (&*"0".repeat(64), Code::CardChanged)] {
        let refused = operator.run_refused(&format!("approve {id} --card {shown} --yes")).await;
        assert_eq!(refused.code, code, "{shown}");
    }
    operator.must(&format!("approve {id} --card {digest} --yes")).await;
}

/// The wrong data folder must not look like an empty queue.
#[tokio::test]
async fn a_folder_without_a_wallet_is_not_an_empty_queue() {
    let engine = TestEngine::start(Setup::default()).await;
    let mut operator = engine.operator();
    let listed = operator.outcome("requests").await;
    assert_eq!(listed.reply.warnings.len(), 1, "{listed:?}");
    assert_eq!(listed.reply.warnings[0].code, "NO_WALLET");
    for line in ["deny --all", "deny --agent bot"] {
        assert_eq!(operator.run_refused(line).await.code, Code::NoWallet, "{line}");
    }
}

#[tokio::test]
async fn a_queue_of_long_urls_can_still_be_shown_and_decided() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let long = |n: usize| format!("https://a.example/{n}/{}", "x".repeat(URL_BYTES_MAX - 40));
    let mut waiting = 0;
    for agent in 0..25 {
        let bot = engine.add_agent(&format!("bot{agent}"), "bearer").await;
        for n in 0..HELD_PER_AGENT_MAX {
            engine.clock.advance(300);
            let offer = header(&challenge(BASE, 1000, &long(n)));
            let ask = bot.ask(engine.now_s(), &offer, Some(&long(n)));
            let (status, answer) = engine.post("/sign", &ask).await;
            assert_eq!(status, 202, "{answer}");
            waiting += 1;
        }
    }
    let mut operator = engine.operator();
    let listed = operator.outcome("requests --all").await;
    let Ok(Answer::Requests { requests }) = listed.reply.result else { panic!("{listed:?}") };
    assert_eq!((requests.len(), listed.reply.warnings), (waiting, vec![]), "all fit");
    // The list shows the start of each URL with its whole host, and the receipt shows the whole URL. An
    // approval binds the whole URL too.
    let first = &requests[0];
    let card = first.card.as_ref().unwrap();
    for url in [&card.terms.request_url, &card.terms.resource_url] {
        let url = url.as_ref().unwrap();
        assert!(url.starts_with("https://a.example/0/xxx") && url.ends_with('…'), "{url}");
        assert_eq!(url.chars().count(), LISTED_URL_CHARS_MAX + 1);
    }
    assert!(
        card_text::lines(card).join("\n").contains(&format!("in full: receipt {}", &first.id[..8]))
    );
    let Answer::Receipt(receipt) = operator.must(&format!("receipt {}", first.id)).await else {
        panic!()
    };
    assert_eq!(receipt.form["payment"]["requestUrl"], long(0));
    operator.must(&format!("approve {} --yes --card {}", first.id, card.digest)).await;
    for request in &requests[1..] {
        operator.must(&format!("deny {}", request.id)).await;
    }
    let rest = operator.outcome("requests").await;
    let Ok(Answer::Requests { requests: rest, .. }) = rest.reply.result else { panic!() };
    assert_eq!(rest, []);
}

/// If the operator has seen no card, a short prefix may name an unintended request.
#[tokio::test]
async fn a_request_needs_four_characters_or_eight_without_its_card() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 10").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let mut waiting = Vec::new();
    for n in 0..3 {
        let offer = header(&challenge(BASE, 2_000_000, &format!("https://a.example/{n}")));
        let (status, answer) = engine.post("/sign", &bot.ask(engine.now_s(), &offer, None)).await;
        assert_eq!(status, 202, "{answer}");
        waiting.push(answer["request_id"].as_str().unwrap().to_owned());
    }
    let mut operator = engine.operator();
    let [first, second, third] = waiting.as_slice() else { panic!("{waiting:?}") };
    for line in [format!("approve {}", &first[..3]), format!("deny {}", &first[..3])] {
        assert_eq!(operator.run_refused(&line).await.code, Code::BadInput, "{line}");
    }
    for short in [&first[..4], &first[..7]] {
        let refused = operator.run_refused(&format!("approve {short} --yes")).await;
        assert_eq!(refused.code, Code::BadInput, "{short}");
        assert!(refused.message.contains("eight characters"), "{refused}");
    }
    operator.must(&format!("approve {} --yes", &first[..8])).await;
    // With the card shown, any unique prefix of four characters or more is enough.
    let seen = (4..8).find(|&length| !third.starts_with(&second[..length])).expect("they differ");
    operator.must(&format!("approve {}", &second[..seen])).await;
    operator.must(&format!("deny {}", &third[..8])).await;
}

/// More requests than `requests` and `history` show.
const NEWER_REQUESTS: u64 = 60;

#[tokio::test]
async fn the_first_eight_digits_find_a_request_before_any_number_of_newer_ones() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10 --auto 0.5").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let busy = engine.add_agent("busy", "bearer").await;
    let mut held = Vec::new();
    for n in 0..3 {
        held.push(ask(&engine, &bot, 2_000_000, n).await);
    }
    let [approved, denied, expired] = held.iter().map(|id| &id[..8]).collect::<Vec<_>>()[..] else {
        panic!("{held:?}")
    };
    let mut operator = engine.operator();
    for n in 0..NEWER_REQUESTS {
        assert_ne!(ask(&engine, &busy, 1_000, 100 + n).await, "");
    }
    // The price is unusual for this payee.
    operator.must(&format!("approve {approved} --yes --confirm 2")).await;
    operator.must(&format!("deny {denied}")).await;
    engine.clock.advance(u64::try_from(HOLD_MS).unwrap() + 1_000);
    // Records the expiry, and then more requests than the lists show.
    for n in 0..NEWER_REQUESTS {
        assert_ne!(ask(&engine, &busy, 1_000, 200 + n).await, "");
    }
    for (id, code, sentence) in [
        (approved, Code::AlreadyDecided, format!("{approved} was approved by ")),
        (denied, Code::AlreadyDecided, format!("{denied} was denied by ")),
        (expired, Code::RequestExpired, String::new()),
    ] {
        for line in [format!("approve {id} --yes"), format!("deny {id}")] {
            let refused = operator.run_refused(&line).await;
            assert_eq!(refused.code, code, "{line}: {refused}");
            assert!(refused.message.starts_with(&sentence), "{line}: {refused}");
        }
        let receipt = operator.must(&format!("receipt {id}")).await.data();
        assert!(receipt.to_string().contains(&format!("\"{id}-")), "{receipt}");
    }
}

#[tokio::test]
async fn digits_that_begin_several_ids_are_ambiguous() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let mut twins = Vec::new();
    for n in 0..2 {
        engine.random.push(&[[0xab; 8], [n; 8]].concat());
        twins.push(ask(&engine, &bot, 2_000_000, n.into()).await);
    }
    let mut operator = engine.operator();
    for line in ["approve abababab --yes", "deny abababab", "deny abab"] {
        let refused = operator.run_refused(line).await;
        assert_eq!(refused.code, Code::Ambiguous, "{line}: {refused}");
    }
    // With enough digits the prefix names one request; afterwards only the other request is pending.
    operator.must(&format!("deny {}", twins[0])).await;
    operator.must("deny abababab").await;
    // If both requests have ended, the prefix names neither.
    for line in ["approve abababab --yes", "deny abababab"] {
        let refused = operator.run_refused(line).await;
        assert_eq!(refused.code, Code::Ambiguous, "{line}: {refused}");
    }
    let named = operator.run_refused(&format!("deny {}", twins[1])).await;
    assert_eq!(named.code, Code::AlreadyDecided, "{named}");
}

/// Returns a wallet with two agents and two held requests of each.
async fn two_agents_with_requests() -> TestEngine {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    for name in ["reader", "writer"] {
        let agent = engine.add_agent(name, "bearer").await;
        for n in 0..2 {
            engine.clock.advance(300);
            let offer = header(&challenge(BASE, 1_000_000, &format!("https://{name}.example/{n}")));
            let ask = agent.ask(engine.now_s(), &offer, None);
            assert_eq!(engine.post("/sign", &ask).await.0, 202);
        }
    }
    engine
}

async fn held_hosts(operator: &mut Operator) -> Vec<String> {
    let Answer::Requests { requests } = operator.must("requests").await else { panic!() };
    requests.into_iter().map(|request| request.domain.unwrap()).collect()
}

#[tokio::test]
async fn one_command_denies_the_requests_of_one_agent_or_of_all() {
    let engine = two_agents_with_requests().await;
    let mut operator = engine.operator();
    assert_eq!(operator.run_refused("deny --agent nobody").await.code, Code::NothingFound);
    let Answer::Requests { requests } = operator.must("requests").await else { panic!() };
    let both = format!("deny {} --agent reader", &requests[2].id[..8]);
    assert_eq!(operator.run_refused(&both).await.code, Code::BadInput);
    let outcome = operator.outcome("deny --agent READER looped on one page").await;
    let [Prompt::Confirm { lines, question }] = outcome.prompts.as_slice() else { panic!() };
    assert_eq!(
        (lines.as_slice(), question.as_str()),
        (&["2 of reader".to_owned()][..], "Deny these 2 requests?")
    );
    let Ok(Answer::Denials(denials)) = outcome.reply.result else { panic!() };
    assert_eq!((denials.denied.len(), denials.not_denied), (2, Vec::new()));
    assert_eq!(held_hosts(&mut operator).await, ["writer.example", "writer.example"]);
    // Each request has its own entry, with the reason.
    let Answer::Activity(page) = operator.must("activity --raw --limit 2").await else { panic!() };
    for entry in page.entries {
        assert_eq!(entry.kind.text(), "payment.denied");
        assert!(entry.detail.unwrap().contains("looped on one page"));
    }
    operator.asking = Asking::Silent;
    assert_eq!(operator.run_refused("deny --all").await.code, Code::ConfirmationNeeded);
    assert_eq!(held_hosts(&mut operator).await.len(), 2, "without a yes nothing is denied");
    operator.asking = Asking::Agreed;
    let Answer::Denials(denials) = operator.must("deny --all").await else { panic!() };
    assert_eq!(denials.denied.len(), 2);
    let Answer::Denials(none) = operator.must("deny --all").await else { panic!() };
    assert_eq!((none.denied.len(), none.not_denied.len()), (0, 0));
}

/// A request that another operator decides while the question is open is named, and the others are denied.
#[tokio::test]
async fn a_request_decided_elsewhere_is_named() {
    let engine = two_agents_with_requests().await;
    let (mut first, mut second) = (engine.operator(), engine.operator());
    let Answer::Requests { requests } = first.must("requests").await else { panic!() };
    let id = requests[0].id.clone();
    let mut link = engine.attach();
    let order = Box::new(Order::parse_line("deny --all").unwrap());
    link.send(&ToEngine::Run { id: 1, order, asking: Asking::Interactive }).await.unwrap();
    let prompt = link.receive().await.unwrap();
    assert!(matches!(prompt, Received::Message(ToClient::Prompt { .. })), "{prompt:?}");
    second.must(&format!("deny {id}")).await;
    link.send(&ToEngine::Answer { id: 1, yes: true }).await.unwrap();
    let done = link.receive().await.unwrap();
    let Received::Message(ToClient::Done { reply, .. }) = done else { panic!("{done:?}") };
    let Ok(Answer::Denials(denials)) = reply.result else { panic!("{reply:?}") };
    assert_eq!(denials.denied.len(), 3);
    let [failed] = denials.not_denied.as_slice() else { panic!("{denials:?}") };
    assert_eq!((&failed.id, failed.code), (&id, Code::AlreadyDecided));
}

#[tokio::test]
async fn a_suspension_offers_to_deny_the_agents_requests() {
    let engine = two_agents_with_requests().await;
    let mut operator = engine.operator();
    let warned = operator.outcome("agent suspend reader").await.reply.warnings;
    assert_eq!(warned[0].code, "REQUESTS_WAIT");
    assert!(warned[0].message.contains("(2)") && warned[0].message.contains("deny --agent"));
    assert_eq!(held_hosts(&mut operator).await.len(), 4);
    let warned = operator.outcome("agent suspend writer --deny").await.reply.warnings;
    assert_eq!(warned, []);
    assert_eq!(held_hosts(&mut operator).await, ["reader.example", "reader.example"]);
}
