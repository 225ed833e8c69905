//! Plans whose transactions and permits a person signs on a device.

use std::sync::Arc;

use bursar_core::time::Moment;
use bursar_submit::{Kind, Submission};

use crate::plan::{PlanStep, outbox_key};
use crate::prompts::prompt_end;
use crate::requests::Request;
use crate::state::State;

impl State {
    /// Returns whether a device must give the next signature of a plan.
    pub fn awaits_device_signature(&self, request: &Request) -> bool {
        let Some(execution) = request.execution() else { return false };
        self.is_on_device(request.from)
            && match execution.open_step() {
                Some(step) => self
                    .submission(request, step)
                    .is_none_or(|one| !one.is_signed() || one.unsigned_attempt().is_some()),
                None if execution.end.is_some() => execution.leaves_allowance(),
                None => execution.main_step().is_none(),
            }
    }

    /// Returns whether a running plan needs a device, but has not opened a step or ordered a permit yet.
    pub fn awaits_first_device_signature(&self, request: &Request) -> bool {
        let untouched = request
            .execution()
            .is_some_and(|execution| execution.steps.is_empty() && execution.permit.is_none());
        untouched && request.is_running() && self.is_on_device(request.from)
    }

    /// Returns whether the device is asked for an empty transaction, because the step of a plan was signed too late.
    pub fn awaits_empty_transaction(&self, request: &Request) -> bool {
        let unsigned = self.open_submission(request).and_then(Submission::unsigned_attempt);
        unsigned.is_some_and(|(_at, tried)| matches!(tried.kind, Kind::Empty { .. }))
    }

    /// Returns whether a running plan needs a device and its main transaction is not signed yet.
    pub fn is_unsigned_at_device(&self, request: &Request) -> bool {
        let main = request.execution().and_then(|execution| execution.main_step());
        let is_signed = main.is_some_and(|step| {
            step.outcome.is_some()
                || self.submission(request, step).is_some_and(Submission::is_signed)
        });
        request.is_running() && self.is_on_device(request.from) && !is_signed
    }

    /// Returns whether a plan needs a device.
    ///
    /// It does while its main transaction is not signed, or while the device must give another signature.
    pub fn is_at_device(&self, request: &Request) -> bool {
        self.is_unsigned_at_device(request) || self.awaits_device_signature(request)
    }

    /// Returns the plans that need a device.
    pub fn plans_at_device(&self) -> impl Iterator<Item = &Arc<Request>> {
        self.executing.values().filter(|request| self.is_at_device(request))
    }

    /// Returns the milliseconds left to sign on the device: until the plan's deadline or the end of the open prompt.
    pub fn device_signature_left_ms(&self, request: &Request, moment: &Moment) -> u64 {
        let Some(execution) = request.execution() else { return 0 };
        let left = execution.left_ms(moment);
        let unsigned = self.open_submission(request).filter(|one| !one.is_signed());
        let prompt = unsigned
            .and_then(|one| one.until)
            .map(|until| u64::try_from(prompt_end(until).since_ms(moment.utc)).unwrap_or(0));
        prompt.map_or(left, |prompt| prompt.min(left))
    }

    /// Returns the open submission of a plan's open step.
    fn open_submission(&self, request: &Request) -> Option<&Submission> {
        self.submission(request, request.execution()?.open_step()?)
    }

    /// Returns the submission of a step, if it is open.
    fn submission(&self, request: &Request, step: &PlanStep) -> Option<&Submission> {
        let key = outbox_key(request.ask.chain(), request.from);
        self.outboxes.by_key.get(&key)?.open.get(&step.submission)
    }
}
