//! Several operators at one queue: the first decision wins, and the others learn who made it and what it was.

mod expiry;
mod races;
mod second_decision;
mod stage;
