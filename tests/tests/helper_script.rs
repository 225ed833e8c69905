//! The files that the agent server gives to agents, used as agents use them.
//!
//! The helper script runs against the vectors and scripted peers; the blocks of the skill text run as printed against a
//! real engine.

#[path = "helper_script/behavior.rs"]
mod behavior;
#[path = "helper_script/peer.rs"]
mod peer;
#[path = "helper_script/python.rs"]
mod python;
#[path = "helper_script/skill.rs"]
mod skill;
#[path = "helper_script/vectors.rs"]
mod vectors;
