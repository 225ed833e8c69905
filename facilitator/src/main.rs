//! `bursar-facilitator`: a thin main.

fn main() {}
