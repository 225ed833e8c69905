//! Executes the steps of a plan.

use crate::plan::{FAULT_POINTS, Pick, Step};
use crate::store::DiskHealth;
use crate::world::{World, WorldFailure};

impl Step {
    /// Returns whether the next step is one of the two after a [`Step::Together`]. `before` are the steps until now.
    pub(crate) fn follows_at_once(before: &[Self]) -> bool {
        before.iter().rev().take(2).any(|step| *step == Self::Together)
    }

    /// Returns whether this step can start while another step is in flight. All other steps run alone.
    fn runs_concurrently(&self) -> bool {
        match self {
            Self::Ask(_) | Self::Repeat { .. } | Self::Poll { .. } | Self::Standing { .. } => true,
            Self::Approve { .. } | Self::Deny { .. } | Self::Freeze | Self::Lock => true,
            Self::Suspend { .. } | Self::EditPolicy { .. } | Self::Commission { .. } => true,
            Self::Trade(_) | Self::RepeatTrade { .. } | Self::PollTrade { .. } => true,
            Self::Loan(_) | Self::RepeatLoan { .. } | Self::PollLoan { .. } => true,
            Self::Venues { .. } | Self::ApproveLoan { .. } | Self::DenyLoan { .. } => true,
            _alone => false,
        }
    }
}

/// Returns the picked id; `None` if there are no ids.
fn picked_id(pick: Pick, ids: &[String]) -> Option<String> {
    pick.of(ids.len()).map(|at| ids[at].clone())
}

impl World {
    pub(crate) fn step(&mut self, step: Step) -> Result<(), WorldFailure> {
        self.count_down_to_restart()?;
        if step == Step::Together {
            self.concurrency.holds_next = true;
            return Ok(());
        }
        let stays = std::mem::take(&mut self.concurrency.holds_next) && step.runs_concurrently();
        let others = std::mem::take(&mut self.concurrency.last_is_in_flight);
        if others && !step.runs_concurrently() {
            self.settle()?;
            return self.execute(step);
        }
        self.concurrency.keeps_in_flight = others || stays;
        let started = self.execute(step);
        self.concurrency.keeps_in_flight = false;
        started?;
        self.concurrency.last_is_in_flight = stays;
        if others && !stays { self.settle() } else { Ok(()) }
    }

    fn execute(&mut self, step: Step) -> Result<(), WorldFailure> {
        match step {
            Step::Ask(planned) => self.ask(&planned),
            Step::Repeat { pick, variant } => self.repeat(pick, variant),
            Step::Copies { planned, count } => self.ask_copies(&planned, count),
            Step::Crowd { planned, count } => self.crowd(&planned, count),
            Step::Poll { pick } => picked_id(pick, &self.ids).map_or(Ok(()), |id| self.poll(&id)),
            Step::Standing { agent } => {
                agent.of(self.agents.len()).map_or(Ok(()), |at| self.read_standing(at))
            }
            Step::Report { pick, event, hash, agent } => self.report(pick, event, hash, agent),
            Step::LateSettlementReport { planned, pick } => {
                self.late_settlement_report(&planned, pick)
            }
            Step::Redeem { pick } => self.redeem(pick),
            Step::Restart => self.stop_and_start(false),
            Step::Reboot => self.stop_and_start(true),
            Step::Crash => self.die(),
            Step::CrashAt { point, after } => {
                self.faults.arm(FAULT_POINTS[point], after);
                Ok(())
            }
            Step::DiskFails { after, written } => {
                *self.health.lock().unwrap() = DiskHealth::Fails { after, written };
                Ok(())
            }
            Step::SlowSigner { slow } => {
                self.process().signer.set_slow(slow);
                if !slow {
                    self.process().signer.release_all();
                }
                self.settle()
            }
            Step::Release { agreed } => {
                self.process().signer.release(agreed);
                self.settle()
            }
            Step::Trade(planned) => self.trade(&planned),
            Step::TradeCopies { planned, count } => self.send_trade_copies(&planned, count),
            Step::TradeCrowd { planned, count } => self.send_trade_crowd(&planned, count),
            Step::RepeatTrade { pick, variant } => self.repeat_trade(pick, variant),
            Step::MovedTrade { planned, permille } => self.run_moved_trade(&planned, permille),
            Step::DisplacedTrade { planned } => self.run_displaced_trade(&planned),
            Step::GasBurners { planned, count, late } => {
                self.run_gas_burners(&planned, count, late)
            }
            Step::FrozenTrade { planned } => self.run_frozen_trade(&planned),
            Step::PollTrade { pick } => {
                picked_id(pick, &self.trade_ids).map_or(Ok(()), |id| self.poll_trade(&id))
            }
            step @ (Step::Mine { .. }
            | Step::MovePool { .. }
            | Step::PriceMove { .. }
            | Step::Prices { .. }
            | Step::Nodes { .. }
            | Step::Reorg { .. }
            | Step::DropTx { .. }
            | Step::ReplaceNonce { .. }
            | Step::BaseFee { .. }
            | Step::Rebase) => self.market_step(step),
            step @ (Step::Loan(_)
            | Step::LoanCopies { .. }
            | Step::LoanCrowd { .. }
            | Step::RepeatLoan { .. }
            | Step::PollLoan { .. }
            | Step::Venues { .. }
            | Step::ApproveLoan { .. }
            | Step::DenyLoan { .. }
            | Step::ChangedLoan { .. }
            | Step::InterruptedLoan { .. }
            | Step::FrozenLoan { .. }
            | Step::Outsider { .. }
            | Step::PauseCoin { .. }
            | Step::HidePositions { .. }
            | Step::BlindLoans { .. }
            | Step::EditLending { .. }) => self.loan_step(step),
            Step::Device(step) => self.device_step(step),
            Step::PatientAsk { planned, slow } => self.run_patient_payment(&planned, slow),
            Step::PatientTrade { planned, slow } => self.run_patient_trade(&planned, slow),
            Step::PatientLoan { planned, slow } => self.run_patient_loan(&planned, slow),
            step @ (Step::Pass { .. }
            | Step::ToExpiry { .. }
            | Step::ToMidnight { .. }
            | Step::SetClock { .. }
            | Step::RightClock
            | Step::Zone { .. }
            | Step::Sleep { .. }
            | Step::Block { .. }) => self.clock_step(step),
            order => self.operate(order),
        }
    }
}
