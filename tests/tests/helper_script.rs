//! What the agent server hands to agents, as they use it: the helper script against the vectors and against
//! scripted peers, and the skill text whose blocks run as printed against a real engine.

#[path = "helper_script/conduct.rs"]
mod conduct;
#[path = "helper_script/peer.rs"]
mod peer;
#[path = "helper_script/python.rs"]
mod python;
#[path = "helper_script/skill.rs"]
mod skill;
#[path = "helper_script/vectors.rs"]
mod vectors;
