//! Operator commands over the control channel: their answers, refusals and effects.

mod accounts;
mod activity;
mod backups;
mod cards;
mod doctor;
mod dry_run;
mod forged;
mod history;
mod idle;
mod mandates;
mod policies;
mod proofs;
mod quotes;
mod registry;
mod requests;
mod second_opinion;
mod settings;
mod watch;
