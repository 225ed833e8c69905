//! What every HTTP service of ours has around its edges, whatever it serves: how it is set, and
//! who may call it how often. Which keys there are and what is answered over HTTP is each service's own.

pub mod access;
pub mod settings;
