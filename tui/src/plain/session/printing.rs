//! What the session prints: cards, news and texts. Each text that is not a card ends the time in which the last card
//! is the last thing printed.

use bursar_control::answers::{Answer, RequestAnswer, SilentNetworkAnswer};
use bursar_core::text::visible;
use zeroize::Zeroizing;

use super::Session;
use crate::console::model::rows::short;
use crate::oneshot;
use crate::plain::effect::Effect;
use crate::plain::news::Item;
use crate::plain::words;

impl Session {
    /// Prints a text of our own, which may have several lines.
    pub(super) fn print(&mut self, text: &str) {
        self.last_card = None;
        let fitted = words::fit(text, &self.setup);
        self.effects.push(Effect::Print(Zeroizing::new(fitted)));
    }

    /// Prints one line that may contain foreign text.
    pub(super) fn print_escaped(&mut self, line: &str) {
        self.print(&visible(line));
    }

    /// Prints lines that may contain foreign text.
    pub(super) fn print_lines(&mut self, text: &str) {
        let lines: Vec<String> = text.trim_end().lines().map(visible).collect();
        self.print(&lines.join("\n"));
    }

    /// Prints a text with a secret as it is, because a change of its lines would copy the secret.
    pub(super) fn print_secret(&mut self, text: Zeroizing<String>) {
        self.last_card = None;
        self.effects.push(Effect::Print(text));
    }

    /// Prints a request with its card, and the commands that decide about it.
    pub(super) fn print_request(&mut self, request: &RequestAnswer) {
        let requests = vec![request.clone()];
        let answer = Answer::Requests { requests };
        let text = oneshot::answer_text("requests", &answer, &[], None, true, "");
        let decides = |line: &&str| {
            line.starts_with("Decide with: ") || line.starts_with("Sign it on the Ledger")
        };
        let shown = text.lines().filter(|line| !self.setup.observe || !decides(line));
        let shown: Vec<&str> = shown.collect();
        self.print(&shown.join("\n"));
        self.last_card = request.card.clone().map(Box::new);
        if let Some(queued) = self.server.find_queued(&request.id) {
            self.news.note_printed(queued, self.now_ms);
        }
    }

    /// Returns whether news waits, because a question is open or comes next.
    pub(super) fn holds_news(&self) -> bool {
        self.question.is_some() || self.secret_for.is_some() || self.looking.is_some()
    }

    /// Prints news, unless a question is open: its card must stay the last thing printed.
    pub(super) fn report_news(&mut self) {
        if self.holds_news() || !self.greet() {
            return;
        }
        self.report_networks();
        let decides = self.running.as_ref().is_some_and(|run| {
            run.decides.is_some() || matches!(run.order, "deny" | "agent.suspend")
        });
        for item in self.news.take(&self.server, self.now_ms, !decides) {
            match item {
                Item::New(request) => self.print_request(&request),
                Item::More(1) => self.print("One more request is waiting. Show all with: requests"),
                Item::More(more) => {
                    self.print(&format!(
                        "{more} more requests are waiting. Show all with: requests"
                    ));
                }
                Item::Left { id, left_ms } => {
                    let left = words::time_left(left_ms);
                    self.print_escaped(&format!("{} expires in {left}.", short(&id)));
                }
                Item::Ended { id, how } => self.print_escaped(&format!("{}: {how}.", short(&id))),
            }
        }
    }

    /// Prints which networks do not answer any more, and which do again.
    fn report_networks(&mut self) {
        let silent: Vec<_> = self.server.silent().cloned().collect();
        let printed = std::mem::replace(&mut self.printed_silent, silent.clone());
        let is_in = |list: &[SilentNetworkAnswer], one: &SilentNetworkAnswer| {
            list.iter().any(|other| other.network == one.network)
        };
        for network in silent.iter().filter(|network| !is_in(&printed, network)) {
            self.print_escaped(&format!("{}.", network.text()));
        }
        for network in printed.iter().filter(|network| !is_in(&silent, network)) {
            self.print_escaped(&format!("{} answers again.", network.network));
        }
    }

    /// Prints the state at the start once it is known. Returns whether it was printed.
    fn greet(&mut self) -> bool {
        if !self.is_greeted && self.server.status.is_some() && self.has_requests {
            self.is_greeted = true;
            self.print(&words::state(&self.server, self.setup.owner));
            self.printed_silent = self.server.silent().cloned().collect();
            if self.server.pending(self.now_ms).next().is_none() {
                self.print("No requests are waiting.");
            }
        }
        self.is_greeted
    }
}
