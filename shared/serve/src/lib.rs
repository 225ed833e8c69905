//! What every HTTP service of ours has around its edges, whatever it serves: how it is set. Which keys there are
//! and what is answered over HTTP is each service's own.

pub mod settings;
