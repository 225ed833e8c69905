//! A signal that arrives right after a service reported its readiness stops the service cleanly.

use bursar_core::networks::{ChainId, by_chain};
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::proxy::ProxyHome;
use bursar_tests::service::ServiceProcess;
use rustix::process::Signal;

/// Stops a service at its READY line, many times, and asserts that it exits with 0 instead of dying by the signal.
fn assert_stops_in_order(start: impl Fn() -> ServiceProcess) {
    for signal in [Signal::TERM, Signal::INT] {
        for one in 0..25 {
            let mut service = start();
            service.signal(signal);
            let status = service.wait();
            assert_eq!(status.code(), Some(0), "{signal:?}, start {one}: {status}");
        }
    }
}

#[test]
fn a_facilitator_that_is_stopped_when_it_is_ready_ends_in_order() {
    let network = by_chain(ChainId(8453)).unwrap();
    let home = FacilitatorHome::new(network, "http://127.0.0.1:9", 1, "", "");
    assert_stops_in_order(|| home.start_process(None));
}

#[test]
fn a_proxy_that_is_stopped_when_it_is_ready_ends_in_order() {
    let home = ProxyHome::new("http://127.0.0.1:9", "http://127.0.0.1:9", "");
    assert_stops_in_order(|| home.start_process(None));
}
