//! The control protocol between an engine and its operator's clients: the command grammar, the answers, the text
//! of cards, and the frames on the control socket. Pure: no clock, no disk, no network, no randomness.
//!
//! # Examples
//!
//! ```
//! use bursar_control::grammar::Order;
//!
//! let order = Order::parse_line("policy create careful --day 10 --txn 5 --auto 0.50")?;
//! assert_eq!(order.name(), "policy.create");
//! assert!(!order.needs_running_engine());
//!
//! let error = Order::parse_line("policy create careful --day ten").unwrap_err();
//! assert!(error.0.contains("--day"), "{error}");
//! # Ok::<(), bursar_control::grammar::LineError>(())
//! ```

pub mod activity_rows;
pub mod answers;
pub mod card_text;
pub mod grammar;
pub mod json_version;
pub mod send_card;
pub mod wire;
