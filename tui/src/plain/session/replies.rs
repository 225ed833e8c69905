//! The replies that end commands.

use bursar_control::answers::{Answer, Reply};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::status::DecidedStatus;
use zeroize::Zeroizing;

use super::{Running, Session, WATCH_RESTART_MS};
use crate::console::complete::with_hint_after;
use crate::console::model::feed::Feed;
use crate::console::model::server::Topic;
use crate::oneshot;
use crate::plain::calls::{Purpose, TOPICS};

impl Session {
    /// Handles a reply by the purpose for which its command ran.
    pub(super) fn reply(&mut self, id: u64, reply: Reply) {
        match self.calls.end(id) {
            Some(Purpose::Query(topic)) => self.query_done(topic, reply),
            Some(Purpose::Card) => self.card_done(reply),
            Some(Purpose::Watch) => self.watch_done(&reply.result),
            Some(Purpose::Line) => self.line_done(id, reply),
            None => {}
        }
    }

    /// Stores the answer to a query. After a failure the topic is queried again with the next poll or entry.
    fn query_done(&mut self, topic: Topic, reply: Reply) {
        let lacks_requests = reply.lacks_requests();
        let answer = match reply.result {
            Ok(answer) => answer,
            Err(fault) => return self.query_failed(topic, &fault),
        };
        if topic == Topic::Requests {
            self.server.is_truncated = lacks_requests;
            self.has_requests = true;
        }
        self.has_feed |= topic == Topic::Feed;
        self.server.store(topic, answer, self.now_ms);
    }

    fn query_failed(&mut self, topic: Topic, fault: &Fault) {
        match topic {
            Topic::Feed => self.calls.mark_stale(&[Topic::Feed]),
            // Commands can be typed although the state at the start is unknown.
            Topic::Status | Topic::Requests if !self.is_greeted => {
                self.is_greeted = true;
                self.print_fault(fault);
            }
            _later => {}
        }
    }

    fn card_done(&mut self, reply: Reply) {
        let lacks_requests = reply.lacks_requests();
        match reply.result {
            Ok(answer) => {
                self.server.is_truncated = lacks_requests;
                self.server.store(Topic::Requests, answer, self.now_ms);
                self.ask_to_decide();
            }
            Err(fault) => {
                self.looking = None;
                self.wanted.clear();
                self.print_fault(&fault);
            }
        }
    }

    /// Schedules the next watch, because without a watch the console would miss entries.
    fn watch_done(&mut self, result: &Result<Answer, Fault>) {
        self.watch_from_ms = self.now_ms.saturating_add(WATCH_RESTART_MS);
        // The feed contains entries of another journal, so it is loaded again.
        if result.as_ref().is_err_and(|fault| fault.code == Code::BadInput) {
            self.server.feed = Feed::default();
            self.has_feed = false;
            self.calls.mark_stale(&[Topic::Feed]);
        }
    }

    fn line_done(&mut self, id: u64, reply: Reply) {
        let secret = self.secrets.remove(&id);
        let Some(run) = self.running.take() else { return };
        self.question = None;
        self.calls.mark_stale(&TOPICS);
        match &reply.result {
            Ok(answer) => {
                self.note_own_decisions(answer);
                let Reply { warnings, secret: field, .. } = &reply;
                let has_secret = secret.is_some();
                let returned = field.map(|field| (field, secret));
                let text = oneshot::answer_text(run.order, answer, warnings, returned, true, "");
                self.print_answer(answer, text, has_secret);
            }
            Err(fault) => self.print_line_fault(&run, fault),
        }
    }

    fn print_answer(&mut self, answer: &Answer, text: Zeroizing<String>, has_secret: bool) {
        if has_secret {
            return self.print_secret(text);
        }
        self.print(text.trim_end());
        let Answer::Requests { requests } = answer else { return };
        for request in requests.iter().filter(|request| request.card.is_some()) {
            if let Some(queued) = self.server.find_queued(&request.id) {
                self.news.note_printed(queued, self.now_ms);
            }
        }
        self.last_card = requests.last().and_then(|last| last.card.clone()).map(Box::new);
    }

    /// Records that the operator knows the end of the requests that were just decided here.
    fn note_own_decisions(&mut self, answer: &Answer) {
        match answer {
            Answer::Decided(decided) if decided.status != DecidedStatus::AwaitingDevice => {
                let what = match decided.status {
                    DecidedStatus::Denied => "denied",
                    _approved => "approved",
                };
                self.server.record_decision(&decided.id, what, self.now_ms);
                self.news.note_end(&decided.id);
            }
            Answer::Denials(denials) => {
                for id in &denials.denied {
                    self.server.record_decision(id, "denied", self.now_ms);
                    self.news.note_end(id);
                }
            }
            _other => {}
        }
    }

    fn print_line_fault(&mut self, run: &Running, fault: &Fault) {
        let has_ended = matches!(
            fault.code,
            Code::AlreadyDecided | Code::RequestExpired | Code::RequestNotFound
        );
        if let (Some(id), true) = (&run.decides, has_ended) {
            self.news.note_end(id);
        }
        self.print_fault(fault);
    }

    fn print_fault(&mut self, fault: &Fault) {
        self.print_lines(&with_hint_after(fault, ""));
    }
}
