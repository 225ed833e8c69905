//! Outboxes of services that send transactions without a wallet's journal, such as the facilitator. A
//! [`store::Store`] persists the outboxes, and a [`service::ServiceOutbox`] runs each of them.
//!
//! The contract of a store allows several processes to share it, although only one process can open a redb file. Each
//! commit names the version that it follows, so the store refuses the commit of a process that was paused or replaced.
//! A refused commit stores nothing, and its process continues from the persisted outbox.
//!
//! # Examples
//!
//! ```
//! use alloy_primitives::{Address, U256};
//! use bursar_core::networks::{ChainId, by_chain};
//! use bursar_core::time::Utc;
//! use bursar_outbox::memory::MemoryStore;
//! use bursar_outbox::store::{Store, StoreFault};
//! use bursar_submit::{Call, Input, OutboxKey, Rules, SubmissionId, step};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::default();
//! let key = OutboxKey { chain: ChainId(8453), signer: Address::repeat_byte(1) };
//! let unused = store.load(key).await?;
//!
//! // The state machine returns the events to store for a call that must happen once.
//! let (id, to, value) = (SubmissionId([7; 16]), Address::repeat_byte(2), U256::from(1));
//! let call = Call { to, value, data: Default::default(), gas_limit: 21_000 };
//! let input = Input::Open { id, call, ceiling: 1_000_000_000, until: None };
//! let rules = Rules::of(&by_chain(key.chain).ok_or("unknown chain")?.gas, 16);
//! let events = step(&unused.outbox, &rules, Utc(0), input)?.events;
//! store.commit(key, unused.version, events.clone()).await?;
//! assert!(store.load(key).await?.outbox.open.contains_key(&id));
//!
//! // A process that missed this commit is refused.
//! let late = store.commit(key, unused.version, events).await;
//! assert_eq!(late, Err(StoreFault::Conflict));
//! # Ok(())
//! # }
//! ```

pub mod memory;
pub mod redb_store;
pub mod service;
pub mod store;
