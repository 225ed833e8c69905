//! A facilitator or a proxy as a process with a low limit of open files.

use std::net::SocketAddr;

use bursar_core::networks::{ChainId, by_chain};
use bursar_tests::process::memory_mib;
use bursar_tests::scripted_facilitator::ScriptedFacilitator;
use bursar_tests::service::ServiceProcess;
use bursar_tests::upstream::{Behavior, Upstream, answer};
use bursar_tests::{facilitator, proxy};

/// Hard limit of open files, as many systems set it.
pub(crate) const OPEN_FILES_HARD_LIMIT: u32 = 1_024;
/// Soft limit at the start, which the service raises by itself.
const OPEN_FILES_SOFT_LIMIT: u32 = 256;
/// Upper bound of the facilitator's resident memory in a flood, in MiB.
///
/// A debug build holds 16 MiB at rest and up to 80 KiB for each of at most 700 slow bodies, about 71 MiB. A service
/// that gives a slow body the buffers of a complete one holds more than twice as much.
const FACILITATOR_MEMORY_MAX: f64 = 96.0;

/// The things that a service needs to run; dropped last.
enum Dependencies {
    Facilitator { _home: facilitator::FacilitatorHome },
    Proxy { _home: proxy::ProxyHome, _upstream: Upstream, _facilitator: ScriptedFacilitator },
}

/// A service and the route that reads a body.
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) process: ServiceProcess,
    pub(crate) address: SocketAddr,
    /// Path that accepts a POST with a body.
    pub(crate) body_route: &'static str,
    /// Upper bound of the resident memory, in MiB.
    pub(crate) memory_max: f64,
    _dependencies: Dependencies,
}

impl Service {
    pub(crate) fn facilitator() -> Self {
        let network = by_chain(ChainId(8453)).expect("a row");
        // No node answers at this address: no test of the edge settles a payment.
        let home = facilitator::FacilitatorHome::new(network, "http://127.0.0.1:9", 1, "", "");
        let program = "bursar-test-facilitator";
        let process = ServiceProcess::start_with_file_limits(
            program,
            &home.settings(),
            OPEN_FILES_SOFT_LIMIT,
            OPEN_FILES_HARD_LIMIT,
        );
        let dependencies = Dependencies::Facilitator { _home: home };
        Self::new("facilitator", process, "/verify", FACILITATOR_MEMORY_MAX, dependencies)
    }

    pub(crate) async fn proxy() -> Self {
        let upstream = Upstream::serve(Behavior::Whole(answer("hello"))).await;
        let facilitator = ScriptedFacilitator::serve().await;
        let home = proxy::ProxyHome::new(&upstream.url, &facilitator.url, "");
        let program = "bursar-test-proxy";
        let process = ServiceProcess::start_with_file_limits(
            program,
            &home.settings(),
            OPEN_FILES_SOFT_LIMIT,
            OPEN_FILES_HARD_LIMIT,
        );
        let dependencies =
            Dependencies::Proxy { _home: home, _upstream: upstream, _facilitator: facilitator };
        Self::new("proxy", process, "/v1/chat/completions", 128.0, dependencies)
    }

    pub(crate) async fn both() -> [Self; 2] {
        [Self::facilitator(), Self::proxy().await]
    }

    fn new(
        name: &'static str,
        process: ServiceProcess,
        body_route: &'static str,
        memory_max: f64,
        dependencies: Dependencies,
    ) -> Self {
        let address = process.url.strip_prefix("http://").and_then(|at| at.parse().ok());
        let address = address.expect("an address");
        Self { name, process, address, body_route, memory_max, _dependencies: dependencies }
    }

    /// Returns the resident memory, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        memory_mib(self.process.pid()).0
    }

    /// Returns the largest resident memory so far, in MiB.
    pub(crate) fn resident_mib_max(&self) -> f64 {
        memory_mib(self.process.pid()).1
    }

    /// Returns the number of sockets that the process has open.
    pub(crate) fn sockets(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.process.pid());
        let files = std::fs::read_dir(folder).expect("Linux").filter_map(Result::ok);
        let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }
}
