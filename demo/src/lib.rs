//! The demonstration: a toy model for sale, an agent that pays and an operator who decides. Tests use these modules
//! too.
//!
//! # Examples
//!
//! ```
//! use bursar_demo::agent::Agent;
//!
//! let agent = Agent {
//!     id: "ABC123".to_owned(),
//!     token: format!("AT_{}", "5a".repeat(32)),
//!     bearer: false,
//! };
//! // The body of `POST /sign` that asks the wallet to pay an offer.
//! let offer = "eyJ4NDAyVmVyc2lvbiI6Mn0=";
//! let body = agent.ask(1_767_225_600, offer, Some("https://api.example/report"));
//! assert_eq!(body["agent_id"], "ABC123");
//! assert_eq!(body["payment_required"], offer);
//! let signature = body["signature"].as_str().unwrap_or_default();
//! assert!(signature.starts_with("SIG:1767225600:"));
//! ```

pub mod agent;
pub mod model;
pub mod operator;
