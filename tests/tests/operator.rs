//! Commands of the operator through the control channel: what they answer, refuse and leave behind.

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
#[path = "operator/requests.rs"]
mod requests;
#[path = "operator/settings.rs"]
mod settings;
#[path = "operator/watch.rs"]
mod watch;
