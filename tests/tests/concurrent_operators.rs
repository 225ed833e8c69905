//! Several operators at one queue: the first decision wins, and the others learn who made it and what it was.

#[path = "concurrent_operators/expiry.rs"]
mod expiry;
#[path = "concurrent_operators/races.rs"]
mod races;
#[path = "concurrent_operators/second_decision.rs"]
mod second_decision;
#[path = "concurrent_operators/stage.rs"]
mod stage;
