//! The facilitator as a separate process on a real node, compared with lower bounds from the same run.
//!
//! The lower bounds are an HTTP server that does nothing, the recovery of a signature, and the node's own answer to
//! one simulation. The ratios are the result; run it with `cargo bench -p bursar-tests --bench facilitator`.

#[path = "facilitator/compare.rs"]
mod compare;
#[path = "services/http.rs"]
mod http;
#[path = "services/process.rs"]
mod process;
#[path = "facilitator/schemes.rs"]
mod schemes;
#[path = "facilitator/settle.rs"]
mod settle;
#[path = "facilitator/stage.rs"]
mod stage;
#[path = "facilitator/start.rs"]
mod start;
#[path = "facilitator/verify.rs"]
mod verify;

fn main() {
    let runtime = bursar_tests::bench::runtime();
    let only = std::env::args().skip(1).find(|name| !name.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    runtime.block_on(async {
        if wanted("verify") {
            verify::measure().await;
        }
        if wanted("settle") {
            settle::measure().await;
        }
        if wanted("schemes") {
            schemes::measure().await;
        }
        if wanted("compare") {
            compare::measure().await;
        }
        if wanted("start") {
            start::measure().await;
        }
    });
}
