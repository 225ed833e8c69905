//! A log that cannot be written: whatever fault its output has, a service starts, answers and stops as usual.

use std::path::Path;
use std::process::Child;

use bursar_core::networks::{ChainId, by_chain};
use bursar_devnet::broken_log::{BrokenLog, LogFault, Moment, answering_address, exchange};
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Customer, ProxyHome, chat};
use bursar_tests::scripted_facilitator::ScriptedFacilitator;
use bursar_tests::service::program_path;
use bursar_tests::upstream::{Behavior, Upstream, answer};
use rustix::process::{Pid, Signal, kill_process};

/// A service whose log fails from `moment` on.
struct Case {
    fault: LogFault,
    moment: Moment,
    log: BrokenLog,
    child: Child,
    address: String,
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Case {
    fn start(program: &str, settings: &Path, path: &str, fault: LogFault, moment: Moment) -> Self {
        let folder = settings.parent().unwrap();
        let (mut log, mut command) = BrokenLog::new(fault, &program_path(program), folder).unwrap();
        if moment == Moment::Start {
            log.begin().unwrap();
        }
        command.arg("--config").arg(settings).env("RUST_LOG", "trace").env("BURSAR_FAULT", "");
        let mut child = command.spawn().unwrap();
        let address = answering_address(&mut child, path)
            .unwrap_or_else(|why| panic!("{program}, {fault:?} from {moment:?} on: {why}"));
        Self { fault, moment, log, child, address }
    }

    fn break_log_at(&mut self, moment: Moment) {
        if self.moment == moment {
            self.log.begin().unwrap();
        }
    }

    /// Stops the service, which must exit with 0.
    fn stop(mut self, program: &str) {
        self.break_log_at(Moment::Stop);
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let (fault, moment) = (self.fault, self.moment);
        assert_eq!(status.code(), Some(0), "{program}, {fault:?} from {moment:?} on: {status}");
    }
}

/// Returns every fault, combined with every moment from which it lasts.
fn cases() -> impl Iterator<Item = (LogFault, Moment)> {
    LogFault::ALL.into_iter().flat_map(|fault| {
        let possible = move |moment: &Moment| fault.can_begin_later() || *moment == Moment::Start;
        Moment::ALL.into_iter().filter(possible).map(move |moment| (fault, moment))
    })
}

#[test]
fn a_facilitator_whose_log_fails_starts_answers_and_stops() {
    let program = "bursar-test-facilitator";
    for (fault, moment) in cases() {
        let network = by_chain(ChainId(8453)).unwrap();
        let home = FacilitatorHome::new(network, "http://127.0.0.1:9", 1, "", "");
        let mut case = Case::start(program, &home.settings(), "/livez", fault, moment);
        case.break_log_at(Moment::Request);
        for _copy in 0..4 {
            let head = "POST /verify HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
            let request = format!("{head}content-length: 2\r\n\r\n{{}}");
            let answered = exchange(&case.address, request.as_bytes()).unwrap();
            assert!(answered.starts_with("HTTP/1.1 "), "{fault:?} from {moment:?} on: {answered}");
        }
        case.stop(program);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_whose_log_fails_starts_sells_and_stops() {
    let program = "bursar-test-proxy";
    let upstream = Upstream::serve(Behavior::Whole(answer("hello world"))).await;
    let facilitator = ScriptedFacilitator::serve().await;
    for (fault, moment) in cases() {
        let home = ProxyHome::new(&upstream.url, &facilitator.url, "");
        let mut case = Case::start(program, &home.settings(), "/health", fault, moment);
        case.break_log_at(Moment::Request);
        let customer = Customer::of(&format!("http://{}", case.address), Payer::random());
        let body = chat("hello");
        let payment = customer.sign(2, &body).await;
        let paid = customer.request(&body).header(payment.name, &payment.value).send().await;
        let status = paid.map(|answer| answer.status().as_u16());
        assert_eq!(status.ok(), Some(200), "{fault:?} from {moment:?} on");
        case.stop(program);
    }
}
