//! Helpers of the end-to-end tests.
//!
//! The engine runs in this process with ports that the test controls, or as a separate process. Other helpers are
//! test doubles, payers, services and an agent that signs its requests.

pub mod bench;
pub mod caller;
pub mod channel;
pub mod counting_rpc;
pub mod dice;
pub mod doubles;
pub mod engine;
pub mod facilitator;
pub mod files;
pub mod framings;
pub mod kill;
pub mod ledger;
pub mod limited_rpc;
pub mod lying_rpc;
pub mod mount;
pub mod node;
pub mod offers;
pub mod operator;
pub mod payer;
pub mod plan_kills;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod ready_wallet;
pub mod registry;
mod rpc_server;
pub mod scripted_facilitator;
pub mod sdk;
pub mod sent;
pub mod service;
pub mod service_key;
pub mod slow_rpc;
pub mod sponsored;
pub mod tree;
pub mod two_faced_rpc;
pub mod upstream;
pub mod upto_contract;

pub use bursar_devnet::agent;

/// Declares functions that take an edition as tests of each edition. The arguments of `tokio::test` come first, in
/// parentheses.
#[macro_export]
macro_rules! in_every_edition {
    ($arguments:tt $($test:ident)*) => {
        $($crate::in_every_edition! { @test $arguments $test })*
    };
    (@test ($($argument:tt)*) $test:ident) => {
        mod $test {
            use ::bursar_core::edition::EditionName;

            #[tokio::test($($argument)*)]
            async fn full() {
                super::$test(EditionName::Full).await;
            }

            #[tokio::test($($argument)*)]
            async fn desktop() {
                super::$test(EditionName::Desktop).await;
            }

            #[tokio::test($($argument)*)]
            async fn payments() {
                super::$test(EditionName::Payments).await;
            }
        }
    };
}
