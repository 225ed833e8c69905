//! The files that the agent server gives to agents, used as agents use them.
//!
//! The helper script runs against the vectors and scripted peers; the blocks of the skill text run as printed against a
//! real engine.

mod behavior;
mod peer;
mod python;
mod skill;
mod vectors;
