//! Several operators at one queue: the first decision wins, and the other operators learn the decision and which
//! operator made it.

mod expiry;
mod races;
mod second_decision;
mod stage;
