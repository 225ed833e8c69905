//! Several operators at one queue: the first decision wins, and the others learn who made it and what it was.

#[path = "deciders/expiry.rs"]
mod expiry;
#[path = "deciders/races.rs"]
mod races;
#[path = "deciders/stage.rs"]
mod stage;
#[path = "deciders/telling.rs"]
mod telling;
