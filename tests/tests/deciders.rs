//! Several operators at one queue: the first who decides wins, and everybody else learns who that was and
//! what came of it.

#[path = "deciders/expiry.rs"]
mod expiry;
#[path = "deciders/races.rs"]
mod races;
#[path = "deciders/stage.rs"]
mod stage;
#[path = "deciders/telling.rs"]
mod telling;
