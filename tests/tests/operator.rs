//! Operator commands over the control channel: their answers, refusals and effects.

#[path = "operator/accounts.rs"]
mod accounts;
#[path = "operator/activity.rs"]
mod activity;
#[path = "operator/cards.rs"]
mod cards;
#[path = "operator/doctor.rs"]
mod doctor;
#[path = "operator/forged.rs"]
mod forged;
#[path = "operator/history.rs"]
mod history;
#[path = "operator/idle.rs"]
mod idle;
#[path = "operator/policies.rs"]
mod policies;
#[path = "operator/quotes.rs"]
mod quotes;
#[path = "operator/requests.rs"]
mod requests;
#[path = "operator/settings.rs"]
mod settings;
#[path = "operator/watch.rs"]
mod watch;
