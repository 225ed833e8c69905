//! Desks of services: what sends transactions without a wallet's journal, like the facilitator. A
//! [`store::Store`] keeps desks in a database of its own, and [`service::ServiceDesk`] serves each.
//!
//! Several processes may share a store. Each commit names the version that it follows; a process that was
//! paused, or that another has replaced, is refused by it and learns nothing but that. What it was about to
//! do then never happened, and what is done instead repeats the bytes that are kept.

pub mod memory;
pub mod redb_store;
pub mod rows;
pub mod service;
pub mod store;
