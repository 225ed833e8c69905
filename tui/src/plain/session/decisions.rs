//! Decisions about one request: the card is read again, printed if it is not the last thing printed, and the answer
//! applies to that card only.

use bursar_control::grammar::{Approve, Order};
use bursar_control::wire::{Asking, Prompt, ToEngine};
use bursar_core::card::Card;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use zeroize::Zeroizing;

use super::Session;
use crate::console::model::rows::{order_of, short};
use crate::console::model::server::Topic;
use crate::link::Secret;
use crate::plain::calls::Purpose;
use crate::plain::effect::Effect;
use crate::plain::question::{Meaning, Question, Wanted, is_same};
use crate::plain::typed;

impl Session {
    /// Reads the card of the next decision from the engine.
    pub(super) fn look_for_card(&mut self) {
        let is_free = self.running.is_none() && self.looking.is_none() && self.question.is_none();
        if !is_free || !self.is_up {
            return;
        }
        if let Some(wanted) = self.wanted.pop_front() {
            self.looking = Some(wanted);
            let id = self.calls.start(Purpose::Card);
            self.query(id, order_of(Topic::Requests));
        }
    }

    /// Asks for the decision, now that the requests are up to date.
    pub(super) fn ask_to_decide(&mut self) {
        let Some(wanted) = self.looking.take() else { return };
        let fits = |id: &str| id.parse::<RequestId>().is_ok_and(|id| id.has_prefix(&wanted.id));
        let pending = self.server.pending(self.now_ms);
        let found: Vec<_> = pending.filter(|row| fits(&row.request.id)).collect();
        let [queued] = found.as_slice() else {
            let why = match found.len() {
                0 => format!("No waiting request starts with {}.", wanted.id),
                _several => {
                    format!("Several requests start with {}: type more of the id.", wanted.id)
                }
            };
            return self.print_escaped(&why);
        };
        let request = queued.request.clone();
        let Some(card) = request.card.clone() else {
            return self.print("This request has no card, so it cannot be decided here.");
        };
        if wanted.digest.as_ref().is_some_and(|digest| *digest != card.digest) {
            return self.print_escaped(&Fault::new(Code::CardChanged).message);
        }
        if !self.last_card.as_ref().is_some_and(|last| is_same(last, &card)) {
            self.print_request(&request);
        }
        self.ask_about(wanted, request.id, card);
    }

    fn ask_about(&mut self, wanted: Wanted, id: String, card: Card) {
        let Wanted { denial, .. } = wanted;
        let shown = self.last_card.take();
        match denial {
            Some(reason) => self.ask(Question::Deny { id, reason }),
            // The card says why, and what can be done.
            None if card.obstacle.is_some() || card.device.is_some() => {
                self.print_escaped(&format!("{} cannot be approved here.", short(&id)));
            }
            None => {
                let card = shown.unwrap_or_else(|| Box::new(card));
                self.ask(Question::Approve { id, card });
            }
        }
    }

    /// Acts on a typed answer.
    pub(super) fn answer(&mut self, question: Question, typed: &str) {
        let meaning = question.read(typed);
        if let Meaning::No(why) = &meaning {
            self.print_escaped(why);
        }
        match (question, meaning) {
            (Question::Leave, Meaning::Yes) => self.effects.push(Effect::Leave(0)),
            (Question::Deny { id, reason }, Meaning::Yes) => {
                let order = typed::denial(id.clone(), reason);
                self.send(order, Asking::Silent, Some(id));
            }
            (Question::Approve { card, .. }, Meaning::Yes) => self.approve(&card, None),
            (Question::Approve { card, .. }, Meaning::Amount(usd)) => {
                self.approve(&card, Some(usd))
            }
            (Question::Engine { call, prompt }, meaning) => {
                self.answer_engine(call, &prompt, meaning)
            }
            (_question, _no) => {}
        }
    }

    /// Approves exactly the card that was printed.
    fn approve(&mut self, card: &Card, confirm: Option<Usd>) {
        let id = card.id.to_string();
        let order = Approve {
            id: id.clone(),
            card: Some(card.digest.clone()),
            yes: true,
            confirm,
            wait: None,
        };
        self.send(Order::Approve(order), Asking::Agreed, Some(id));
    }

    fn answer_engine(&mut self, call: u64, prompt: &Prompt, meaning: Meaning) {
        match (prompt, meaning) {
            (Prompt::Confirm { .. }, meaning) => {
                let yes = meaning == Meaning::Yes;
                self.effects.push(Effect::Send(ToEngine::Answer { id: call, yes }));
            }
            (_typed, Meaning::Text(text)) => {
                let secret = Secret(Zeroizing::new(text.into_bytes()));
                self.effects.push(Effect::SendSecret { id: call, secret });
            }
            (_typed, _no) => self.effects.push(Effect::Send(ToEngine::Cancel { id: call })),
        }
    }
}
