//! Does what the desks want done: asks prices, has signed, broadcasts, looks. It owns nothing: every answer
//! goes to the core, which keeps what follows from it before the next thing is done. Dies the process, the
//! core names at the next start what is still to be done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bursar_chain::errands;
use bursar_chain::follower::{Follower, Waiter};
use bursar_chain::ports::Chain;
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_domain::{Action, desks};
use bursar_submit::{Action as DeskAction, Desk, DeskKey, Input, SubmissionId};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::payments::Execution;
use crate::core::{View, Work};
use crate::journal::Slip;
use crate::ports::{Ports, SignFault};

/// How long nothing happens before a desk looks by itself.
const IDLE_MS: u64 = 2_000;

/// Everything a courier works with.
#[derive(Debug, Clone)]
pub struct Courier {
    pub execution: Execution,
    pub ports: Ports,
    pub stopping: CancellationToken,
}

/// Runs until it is told to stop: one task for each desk at which something is open, one look at the newest
/// block for all desks of a network.
pub async fn run(courier: Courier) {
    let mut views = courier.execution.core.watch();
    let mut desks: BTreeMap<DeskKey, JoinHandle<()>> = BTreeMap::new();
    let mut networks: BTreeMap<ChainId, (Arc<Follower>, JoinHandle<()>)> = BTreeMap::new();
    loop {
        desks.retain(|_key, task| !task.is_finished());
        networks.retain(|_chain, (_follower, task)| !task.is_finished());
        let view = Arc::clone(&views.borrow_and_update());
        for desk in view.state.desks.busy() {
            let Some(row) = by_chain(desk.key.chain) else { continue };
            let Some(chain) = courier.ports.chains.get(&row.chain) else { continue };
            let tasks = &courier.execution.tasks;
            let waiter = match networks.get(&row.chain) {
                Some((follower, _task)) => follower.waiter(),
                None => {
                    let follower = Arc::new(Follower::default());
                    let waiter = follower.waiter();
                    let looks = follow(Arc::clone(&follower), chain, courier.clone(), row);
                    networks.insert(row.chain, (follower, tasks.spawn(looks)));
                    waiter
                }
            };
            if !desks.contains_key(&desk.key) {
                let task = serve(courier.clone(), desk.key, row, waiter);
                desks.insert(desk.key, tasks.spawn(task));
            }
        }
        // What ended just when another submission came is begun again at the latest then.
        let wake = courier.ports.clock.mono_ms().saturating_add(IDLE_MS);
        let idle = desks.is_empty();
        // cancel-safe: all of it only waits.
        tokio::select! {
            () = courier.stopping.cancelled() => return,
            changed = views.changed() => if changed.is_err() { return },
            () = courier.ports.clock.sleep_until(wake), if !idle => {}
        }
    }
}

async fn follow(follower: Arc<Follower>, chain: Arc<dyn Chain>, courier: Courier, row: &Network) {
    // cancel-safe: looking leaves nothing half done.
    tokio::select! {
        () = courier.stopping.cancelled() => {}
        () = follower.run(&*chain, &*courier.ports.clock, row.gas.poll_ms) => {}
    }
}

/// What one desk's task holds; all of it is made anew after a restart.
struct Errands {
    courier: Courier,
    key: DeskKey,
    row: &'static Network,
    due: VecDeque<Work>,
    /// Attempts that a signer is asked for.
    asked: BTreeSet<(SubmissionId, usize)>,
    signed: mpsc::UnboundedSender<(SubmissionId, usize, Result<Input, SignFault>)>,
}

/// Serves one desk until nothing is open at it.
async fn serve(courier: Courier, key: DeskKey, row: &'static Network, mut waiter: Waiter) {
    let (signed, mut answers) = mpsc::unbounded_channel();
    let core = courier.execution.core.clone();
    let mut views = core.watch();
    let stopping = courier.stopping.clone();
    let ports = courier.ports.clone();
    let mut errands =
        Errands { courier, key, row, due: VecDeque::new(), asked: BTreeSet::new(), signed };
    let mut begun = false;
    loop {
        let desk = core.view().state.desks.get(&key);
        if desk.open.is_empty() || stopping.is_cancelled() {
            return;
        }
        if let Some(chain) = ports.chains.get(&key.chain) {
            // Everything at the beginning, and whenever something waits for a signer that nobody asks: the
            // wallet may have been opened. Otherwise what a block brings.
            let action = if begun && !errands.lacks_a_signer(&desk) {
                Action::Desk { key, input: Box::new(Input::Tick) }
            } else {
                Action::ResumeDesk(key)
            };
            begun = true;
            errands.tell(action).await;
            errands.work_off(&chain, &stopping).await;
        }
        let desk = core.view().state.desks.get(&key);
        let wake = ports.clock.mono_ms().saturating_add(IDLE_MS);
        // cancel-safe: a signer's answer is taken whole or stays in its channel, the rest only waits.
        tokio::select! {
            () = stopping.cancelled() => return,
            answer = answers.recv() => {
                if let Some((id, attempt, answer)) = answer {
                    errands.asked.remove(&(id, attempt));
                    errands.signer_said(id, attempt, answer).await;
                }
            }
            // A follower that ended is begun anew; until then the clock wakes.
            true = waiter.next_block() => {}
            () = another(&mut views, &desk) => {}
            () = ports.clock.sleep_until(wake) => {}
        }
    }
}

/// Ends when the desk is not what it was. Every commit publishes a view, also those about other things.
async fn another(views: &mut watch::Receiver<Arc<View>>, was: &Arc<Desk>) {
    while views.changed().await.is_ok() {
        if views.borrow_and_update().state.desks.get(&was.key) != *was {
            return;
        }
    }
    std::future::pending().await
}

impl Errands {
    fn lacks_a_signer(&self, desk: &Desk) -> bool {
        desk.open.iter().any(|(id, one)| {
            one.unsigned_attempt().is_some_and(|(at, _tried)| !self.asked.contains(&(*id, at)))
        })
    }

    /// Tells the core, and takes on what follows.
    async fn tell(&mut self, action: Action) {
        match self.courier.execution.core.act(action).await {
            Ok(outcome) => self.due.extend(outcome.work),
            Err(fault) => tracing::warn!(code = %fault.code, "a desk was not told"),
        }
    }

    async fn work_off(&mut self, chain: &Arc<dyn Chain>, stopping: &CancellationToken) {
        let Some(rules) = desks::rules(&self.key) else { return };
        while let Some(work) = self.due.pop_front() {
            if stopping.is_cancelled() {
                return;
            }
            if let (DeskAction::Sign { id, attempt, .. }, slip) = (&work.action, work.slip) {
                if let Some(slip) = slip {
                    self.sign(*id, *attempt, slip);
                }
                continue;
            }
            let faults = &self.courier.ports.faults;
            let sends = matches!(work.action, DeskAction::Send { .. });
            if sends && faults.reach("desk.send").is_err() {
                return;
            }
            let done = errands::run(&**chain, &self.key, &self.row.gas, &rules, &work.action).await;
            if sends && faults.reach("desk.sent").is_err() {
                return;
            }
            if let Some(input) = done {
                self.tell(Action::Desk { key: self.key, input: Box::new(input) }).await;
            }
        }
    }

    /// Beside everything else: a signer may ask a person, and take minutes.
    fn sign(&mut self, id: SubmissionId, attempt: usize, slip: Slip) {
        if !self.asked.insert((id, attempt)) {
            return;
        }
        let signer = Arc::clone(&self.courier.execution.signer);
        let answers = self.signed.clone();
        self.courier.execution.tasks.spawn(async move {
            let answer = signer.sign(slip).await;
            let answer = answer.map(|signature| Input::Signature { id, attempt, signature });
            // The desk is served no more: the next start asks again.
            let _gone = answers.send((id, attempt, answer));
        });
    }

    async fn signer_said(
        &mut self,
        id: SubmissionId,
        attempt: usize,
        answer: Result<Input, SignFault>,
    ) {
        let input = match answer {
            Ok(input) => input,
            // Locked in the meantime: the same is asked again when the wallet is open.
            Err(SignFault::Stale) => return,
            Err(refused @ (SignFault::NoKey | SignFault::Refused(_))) => {
                tracing::warn!(%refused, "a transaction was not signed");
                Input::Declined { id, attempt }
            }
        };
        if self.courier.ports.faults.reach("desk.signed").is_ok() {
            self.tell(Action::Desk { key: self.key, input: Box::new(input) }).await;
        }
    }
}
