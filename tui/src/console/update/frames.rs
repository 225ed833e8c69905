//! Handles frames from the engine.

use bursar_control::answers::{ActivityRow, Answer, Reply, SecretField, VenueTrust};
use bursar_control::grammar::Order;
use bursar_control::wire::{Prompt, ToClient};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::status::{DecidedStatus, EntryKind};
use bursar_core::text::quoted;
use zeroize::Zeroizing;

use super::{marks, run_line};
use crate::console::complete::with_hint;
use crate::console::model::feed::Feed;
use crate::console::model::overlay::{Overlay, Question, TextView};
use crate::console::model::rows::short;
use crate::console::model::server::{Topic, stale_topics};
use crate::console::model::words::Words;
use crate::console::model::{Intent, Model, Pane, Purpose, WATCH_RESTART_MS};
use crate::link::{Received, Secret};
use crate::oneshot;

/// Maximum number of characters that are shown of a venue's name, which is quoted.
const VENUE_NAME_CHARS_MAX: usize = 24;

/// The topics that a command of the operator may have changed.
const TOPICS_AFTER_LINE: &[Topic] = &[
    Topic::Status,
    Topic::Requests,
    Topic::Agents,
    Topic::Policies,
    Topic::Payments,
    Topic::Sends,
];

pub(super) fn handle_frame(model: &mut Model, frame: Received) -> Vec<Intent> {
    let message = match frame {
        Received::Secret { id, secret } => {
            model.secrets.insert(id, secret);
            return Vec::new();
        }
        Received::Message(message) => message,
    };
    match message {
        ToClient::Progress { id, text } => show_progress(model, id, text),
        ToClient::Entries { entries, .. } => {
            if entries.is_empty() {
                // The queue of the hardware devices changed.
                model.mark_stale(&[Topic::Status, Topic::Requests]);
            }
            for row in &entries {
                model.mark_stale(stale_topics(row.kind));
            }
            let since = model.server.feed.head();
            let is_refusal = |row: &&ActivityRow| {
                use EntryKind::{LoanRefused, PaymentRefused, TradeRefused};
                matches!(row.kind, PaymentRefused | TradeRefused | LoanRefused)
            };
            let refused = entries.iter().filter(|row| row.seq > since).filter(is_refusal);
            let refused: Vec<String> = refused.map(refusal).collect();
            model.server.append(entries, model.now_ms);
            note_refused(model, &refused);
        }
        ToClient::Prompt { id, prompt } => {
            if let Some(Purpose::Line { order }) = model.purposes.get(&id) {
                let mut question = Question::new(id, order, prompt, model.now_ms);
                question.fault = model.retry_reasons.remove(&id);
                model.prompts.push_back(question);
            }
        }
        ToClient::Done { id, mut reply } => {
            if let Err(fault) = &mut reply.result {
                fault.message = model.setup.commands_in(&fault.message).into_owned();
            }
            handle_reply(model, id, *reply);
        }
        // These frames do not occur: the content of files is written elsewhere, and the handshake is over.
        ToClient::Part { .. }
        | ToClient::Hello { .. }
        | ToClient::Refused { .. }
        | ToClient::Welcome => {}
    }
    Vec::new()
}

/// Shows the progress of a command: in its dialog if one is open, and else in the bottom line. In the window of a sealed
/// program, a text about a Ledger's screen opens a dialog, which closes when the command ends.
fn show_progress(model: &mut Model, id: u64, text: String) {
    if let Some(Overlay::Ask(question)) = &mut model.overlay
        && question.call == id
        && question.is_sent
    {
        question.progress = Some(text);
        return;
    }
    let on_device = matches!(model.purposes.get(&id), Some(Purpose::Line { order }) if order.starts_with("address.ledger"));
    if on_device && model.setup.is_sealed() {
        let mut view = TextView::new("Ledger", Zeroizing::new(text));
        view.call = Some(id);
        model.unread.push_back(view);
        return;
    }
    model.note(text);
}

/// Returns whether a wallet exists and whether it is locked; `None` if unknown.
fn wallet_of(model: &Model) -> Option<(bool, bool)> {
    let wallet = &model.server.status.as_ref()?.wallet;
    Some((wallet.exists, wallet.locked))
}

/// Describes a request that was refused without asking the operator.
fn refusal(row: &ActivityRow) -> String {
    let amount = row.amount_text().map_or("a request", String::as_str);
    let agent = row.agent.as_deref().or(row.agent_id.as_deref()).unwrap_or("an agent");
    format!("{amount} from {agent}")
}

/// Counts refused requests, and shows a note about them. The note rings no bell, and never replaces the note of a
/// failure.
fn note_refused(model: &mut Model, refused: &[String]) {
    if model.focus == Pane::Activity {
        return;
    }
    model.server.refused_count = model.server.refused_count.saturating_add(refused.len());
    if model.last_note.as_ref().is_some_and(|note| note.failed) {
        return;
    }
    match refused {
        [] => {}
        [one] => model.note(format!("Refused: {one}. Press 5 to see why.")),
        more => model.note(format!("Refused: {} requests. Press 5 to see why.", more.len())),
    }
}

/// Handles the reply that ends a command, by the purpose for which the command ran.
fn handle_reply(model: &mut Model, id: u64, reply: Reply) {
    let secret = model.secrets.remove(&id);
    let Some(purpose) = model.purposes.remove(&id) else { return };
    match purpose {
        Purpose::Query(topic) => query_done(model, topic, reply),
        Purpose::Retry => query_done(model, Topic::Requests, reply),
        Purpose::Page => page_done(model, reply.result),
        Purpose::Watch => watch_done(model, reply.result),
        Purpose::Decide { id, approve } => handle_decision(model, &id, approve, reply.result),
        Purpose::DecideMarked { id } => marks::handle_result(model, &id, reply.result),
        Purpose::Line { order } => line_done(model, LineReply { id, order, reply, secret }),
    }
}

/// Stores the answer to a query, or why the query failed.
fn query_done(model: &mut Model, topic: Topic, reply: Reply) {
    let lacks_requests = reply.lacks_requests();
    match reply.result {
        Ok(answer) => {
            if topic == Topic::Requests {
                model.server.is_truncated = lacks_requests;
            }
            model.has_feed |= topic == Topic::Feed;
            let wallet = wallet_of(model);
            let silent: Vec<String> =
                model.server.silent().map(|one| one.network.clone()).collect();
            note_changed(model, &answer);
            match (topic, answer) {
                (Topic::IconsWanted, Answer::Setting(setting)) => {
                    model.icons.want(setting.value == true);
                    model.mark_stale(&[Topic::Icons]);
                }
                (Topic::Icons, Answer::Icons(icons)) => model.icons.store(icons, model.now_ms),
                (topic, answer) => model.server.store(topic, answer, model.now_ms),
            }
            if topic == Topic::Balances {
                model.mark_stale(&[Topic::Icons]);
            }
            let is_silent = |name: &String| model.server.silent().any(|one| one.network == *name);
            if !silent.iter().all(is_silent) {
                // A network answers again.
                model.mark_stale(&[Topic::Balances, Topic::Positions]);
            }
            if wallet.is_some_and(|before| wallet_of(model) != Some(before)) {
                // The wallet changed, so the known addresses, balances and positions are outdated.
                model.mark_stale(&[Topic::Addresses, Topic::Balances, Topic::Positions]);
            }
        }
        Err(fault) => {
            if topic == Topic::Icons && fault.code == Code::BadInput {
                // Another console turned them off.
                model.icons.want(false);
            }
            model.server.query_failures.insert(topic, fault);
            if topic == Topic::Feed {
                model.mark_stale(&[Topic::Feed]);
            }
        }
    }
}

/// Shows a note about venues with money of this wallet that are no longer trusted, once for each venue.
///
/// If a venue is trusted again and then loses trust again, another note is shown. A venue that could not be read
/// meanwhile causes no other note.
fn note_changed(model: &mut Model, answer: &Answer) {
    let Answer::Positions(positions) = answer else { return };
    let mut names = Vec::new();
    for row in &positions.positions {
        let venue = (row.caip2.clone(), row.venue.clone());
        if row.trust != VenueTrust::Changed {
            model.noted_venues.remove(&venue);
        } else if model.noted_venues.insert(venue) {
            names.push(quoted(&row.name, VENUE_NAME_CHARS_MAX));
        }
    }
    match names.as_slice() {
        [] => {}
        [name] => {
            model.note_failure(format!(
                "The venue {name} is no longer trusted. Press 2 to see why."
            ));
        }
        more => {
            let text = format!("{} venues are no longer trusted. Press 2 to see why.", more.len());
            model.note_failure(text);
        }
    }
}

/// Stores a page of the feed. If the query failed, the console requests the page again while it is viewed.
fn page_done(model: &mut Model, result: Result<Answer, Fault>) {
    if let Ok(answer) = result {
        model.server.store(Topic::Feed, answer, model.now_ms);
    }
}

/// Schedules the next watch, because without a watch the console would miss entries.
fn watch_done(model: &mut Model, result: Result<Answer, Fault>) {
    model.watch_from_ms = model.now_ms.saturating_add(WATCH_RESTART_MS);
    // The feed contains entries of another journal, so it is reloaded.
    if result.is_err_and(|fault| fault.code == Code::BadInput) {
        model.server.feed = Feed::default();
        model.has_feed = false;
        model.mark_stale(&[Topic::Feed]);
    }
}

/// The reply to a command line of the operator.
struct LineReply {
    id: u64,
    /// The name of the command.
    order: &'static str,
    reply: Reply,
    /// The secret that the reply names.
    secret: Option<Secret>,
}

/// Handles the reply to a command line. After a mistyped answer the command runs again; any other reply is shown.
fn line_done(model: &mut Model, line: LineReply) {
    model.mark_stale(TOPICS_AFTER_LINE);
    if line.order == "config.set" {
        model.mark_stale(&[Topic::Notices, Topic::Time, Topic::Palette, Topic::IconsWanted]);
    }
    model.prompts.retain(|question| question.call != line.id);
    let sent = model.orders.remove(&line.id);
    if let (Some(order), Err(fault)) = (sent, &line.reply.result)
        && is_retryable(model, line.id, fault)
    {
        return retry(model, line.id, order, &with_hint(fault));
    }
    model.unread.retain(|view| view.call != Some(line.id));
    let is_its_dialog = match &model.overlay {
        Some(Overlay::Ask(question)) => question.call == line.id,
        Some(Overlay::Text(view)) => view.call == Some(line.id),
        _other => false,
    };
    if is_its_dialog {
        model.overlay = None;
    }
    model.last_note = None;
    // `is_to_be_checked` also records a new seed as unchecked, even if its words cannot be shown.
    let checks_words =
        is_phrase(&line.reply) && is_to_be_checked(model, line.order, &line.reply.result);
    if let (Some(text), Ok(_)) = (short_result(model, line.order), &line.reply.result) {
        return model.note(text);
    }
    show_line_reply(model, line, checks_words);
}

/// Returns whether the secret of a reply is a seed phrase.
fn is_phrase(reply: &Reply) -> bool {
    reply.secret == Some(SecretField::Phrase)
}

/// Returns the note that replaces the answer of a successful command.
fn short_result(model: &Model, order: &str) -> Option<&'static str> {
    match order {
        "wallet.passwd" => Some("The password has been changed."),
        "address.export" if model.setup.is_sealed() => {
            Some("The key is in the folder `exports`. Delete the file once it was used.")
        }
        // The card from which the operator opened the wallet appears again.
        "wallet.open" if model.card_to_reopen.is_some() => Some("The wallet is open."),
        _other => None,
    }
}

/// Shows the reply to a command line. The words of a seed are shown separately from the text.
fn show_line_reply(model: &mut Model, line: LineReply, checks_words: bool) {
    let LineReply { order, reply, secret, .. } = line;
    let is_phrase = is_phrase(&reply);
    let words = secret.as_ref().filter(|_secret| is_phrase).and_then(|it| Words::of(&it.0));
    let returned = reply.secret.filter(|_field| words.is_none()).map(|field| (field, secret));
    let ascii = model.setup.ascii;
    let text = match &reply.result {
        Ok(answer) => oneshot::answer_text(order, answer, &reply.warnings, returned, ascii, ":"),
        Err(fault) => {
            let text = format!("{}\n{}", fault.code.text(), with_hint(fault));
            Zeroizing::new(model.setup.commands_in(&text).into_owned())
        }
    };
    let mut view = TextView::new(order.replace('.', " "), text);
    view.is_copyable = !is_phrase;
    view.checks_words = checks_words && words.is_some();
    view.words = words;
    show_answer(model, view, reply.result.as_ref().err());
}

/// Returns whether the operator must check the words of a seed: of a new seed, or of one that is still unchecked.
///
/// It records a new seed as unchecked.
fn is_to_be_checked(model: &mut Model, order: &str, result: &Result<Answer, Fault>) -> bool {
    let Ok(Answer::Seed(seed)) = result else { return false };
    if order == "seed.create" {
        model.unchecked_seed = Some(seed.id.clone());
    }
    model.unchecked_seed.as_ref() == Some(&seed.id)
}

/// Returns whether the typed answer was a mistake, such as a wrong password. If so, the command runs again, and its
/// field remains open for the correction.
fn is_retryable(model: &Model, id: u64, fault: &Fault) -> bool {
    let Some(Overlay::Ask(question)) = &model.overlay else { return false };
    let typed = matches!(question.prompt, Prompt::TypeName { .. } | Prompt::TypeAmount { .. });
    let slip = fault.code == Code::WrongPassword || (typed && fault.code == Code::Declined);
    question.call == id && question.is_sent && slip
}

fn retry(model: &mut Model, id: u64, order: Order, why: &str) {
    let again = run_line::send(model, order);
    model.retry_reasons.insert(again, why.to_owned());
    if let Some(Overlay::Ask(question)) = &mut model.overlay
        && question.call == id
    {
        question.call = again;
    }
}

fn handle_decision(model: &mut Model, id: &str, approve: bool, result: Result<Answer, Fault>) {
    model.mark_stale(&[Topic::Requests, Topic::Agents, Topic::Status, Topic::Payments]);
    let short = short(id);
    let waits_for_device = matches!(
        &result,
        Ok(Answer::Decided(done)) if done.status == DecidedStatus::AwaitingDevice
    );
    if result.is_ok() && !waits_for_device {
        let what = if approve { "approved" } else { "denied" };
        model.server.record_decision(id, what, model.now_ms);
    }
    let (note, fault) = match result {
        Ok(Answer::Decided(done)) => {
            let amount = done.summary;
            let what = match done.status {
                DecidedStatus::Signed => "approved and signed",
                DecidedStatus::Executing => "approved, being carried out",
                DecidedStatus::Executed => "approved and executed",
                DecidedStatus::Denied => "denied",
                DecidedStatus::AwaitingDevice => "approved: now sign it on the Ledger",
            };
            (format!("{short}: {amount} {what}."), None)
        }
        Ok(_other) => (format!("{short}: decided."), None),
        Err(fault) => {
            let what = if approve { "not approved" } else { "not denied" };
            (format!("{short}: {what}. {}", with_hint(&fault)), Some(fault))
        }
    };
    let shown = matches!(&model.overlay, Some(Overlay::Card(card)) if card.id == id);
    match fault {
        None => {
            model.note(note);
            // A card that already shows the device's prompt stays.
            let is_on_device =
                matches!(&model.overlay, Some(Overlay::Card(card)) if card.card.device.is_some());
            if shown && !(model.setup.is_sealed() && is_on_device) {
                model.overlay = None;
            } else if let Some(Overlay::Card(card)) = model.overlay.as_mut().filter(|_card| shown) {
                card.is_sent = false;
            }
        }
        Some(fault) => {
            // If the open card shows the fault, a note is not needed.
            if !shown {
                model.note_failure(note);
            }
            let now_ms = model.now_ms;
            if let Some(Overlay::Card(card)) = model.overlay.as_mut().filter(|_card| shown) {
                card.is_sent = false;
                card.fault = Some(fault.message);
                card.guard_keys(now_ms);
            }
        }
    }
}

/// Shows a fault or a one-line answer in the bottom line, and a longer answer in an overlay.
fn show_answer(model: &mut Model, view: TextView, fault: Option<&Fault>) {
    let short = view.text.lines().count() <= 1;
    match fault {
        Some(fault) => model.note_failure(with_hint(fault)),
        None if short => model.note(view.text.trim_end().to_owned()),
        // The text is shown once no other overlay is open.
        None => model.unread.push_back(view),
    }
}
