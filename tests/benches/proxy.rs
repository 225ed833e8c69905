//! The proxy as a separate process, compared with lower bounds from the same run.
//!
//! The lower bounds are an HTTP server that does nothing, the bare upstream, and the facilitator's own answers. The
//! ratios are the result; run it with `cargo bench -p bursar-tests --bench proxy`.

#[path = "services/http.rs"]
mod http;
#[path = "proxy/paid.rs"]
mod paid;
#[path = "services/process.rs"]
mod process;
#[path = "proxy/stage.rs"]
mod stage;
#[path = "proxy/streams.rs"]
mod streams;
#[path = "proxy/unpaid.rs"]
mod unpaid;

fn main() {
    let runtime = bursar_tests::bench::runtime();
    let only = std::env::args().skip(1).find(|name| !name.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    runtime.block_on(async {
        if wanted("unpaid") {
            unpaid::measure().await;
        }
        if wanted("paid") {
            paid::measure().await;
        }
        if wanted("streams") {
            streams::measure().await;
        }
    });
}
