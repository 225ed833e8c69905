//! Outboxes of services: they send transactions without a wallet's journal, as the facilitator does. A
//! [`store::Store`] keeps outboxes in a separate database, and [`service::ServiceOutbox`] runs each of them.
//!
//! Several processes may share a store. Each commit names the version that it follows, so the commit of a process
//! that was paused or replaced is refused. Nothing of that commit happened, and the process continues from the
//! persisted outbox.

pub mod memory;
pub mod redb_store;
pub mod service;
pub mod store;
