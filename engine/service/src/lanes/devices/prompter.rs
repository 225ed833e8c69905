//! One try of the queue: finds the device, fixes the terms, shows the prompt and records the device's answer.

use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::Address;
use bursar_core::derivation::DerivationPath;
use bursar_core::ids::RequestId;
use bursar_core::time::Utc;
use bursar_domain::prompts::prompt_end;
use bursar_domain::wallets::Backing;
use bursar_domain::{Action, PaymentAsk, Request};
use bursar_ledger::app::Configuration;
use bursar_ledger::port::Device;
use bursar_submit::{ChainState, Kind};
use bursar_x402::signature::Signature65;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::status::{DeviceStatus, ShownPrompt, Waiter};
use super::switches::{MissingSwitch, ShownData, SwitchRests};
use crate::core::View;
use crate::core::handle::Handle;
use crate::device::{
    self, NotReady, Prompt, PromptOutcome, ReadyDevice, ReadyDevices, ReceivedCommands, Switch,
    Turn,
};
use crate::journal::{SigningOrder, Subject, Terms};
use crate::ports::Ports;
use crate::vault::Vault;

/// Interval of checking whether a shown prompt must be abandoned, in milliseconds.
const CHECK_MS: u64 = 250;

/// How a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TryOutcome {
    /// The device answered or is ready, or the request is over: the next try may follow at once.
    Answered,
    /// The device cannot show the request now.
    NotReady,
    /// A setting that the request needs is switched off on the device. Other requests of the address may not need it.
    SwitchOff,
    /// The prompt on the device failed. The journal records each failed prompt.
    Failed,
}

/// How the signing of a transaction or a permit ended.
pub(super) enum SigningOutcome {
    Signed(Signature65),
    /// A person refused on the device.
    Refused,
    NotAnswered(TryOutcome),
}

/// A device that is ready for one address.
struct AddressDevice {
    devices: ReadyDevices,
    index: usize,
    path: DerivationPath,
    configuration: Configuration,
}

impl AddressDevice {
    fn device(&self) -> Option<&ReadyDevice> {
        self.devices.all.get(self.index)
    }
}

/// The prompt that a device is about to show.
struct PromptToShow<'a> {
    begun: &'a ReceivedCommands,
    order: &'a SigningOrder,
    waiter: Waiter,
}

/// Shows requests on the devices.
#[derive(Debug)]
pub(super) struct Prompter {
    pub(super) ports: Ports,
    pub(super) turn: Turn,
    pub(super) core: Handle,
    pub(super) vault: Arc<Vault>,
    pub(super) stopping: CancellationToken,
    pub(super) status: watch::Sender<Arc<DeviceStatus>>,
    /// The device that still shows a prompt which the wallet gave up.
    // A lock instead of an owning task: it is held for a moment, and only by the queue's task.
    pub(super) abandoned_device: Mutex<Option<Arc<dyn Device>>>,
    /// The devices that are left alone for a while because one of their settings is switched off.
    pub(super) switch_rests: SwitchRests,
}

impl Prompter {
    /// Publishes a change of the status.
    pub(super) fn publish(&self, change: impl FnOnce(&mut DeviceStatus)) {
        self.status.send_if_modified(|status| {
            let mut after = (**status).clone();
            change(&mut after);
            let is_new = after != **status;
            *status = Arc::new(after);
            is_new
        });
    }

    /// Returns whether a device still shows a prompt that the wallet gave up, and publishes the name of that device.
    pub(super) fn check_abandoned(&self) -> bool {
        let mut abandoned = self.abandoned_device.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.take_if(|device| !device.owes_answer() || device.is_lost());
        let name = abandoned.as_ref().map(|device| device.name().to_owned());
        let is_left = name.is_some();
        self.publish(|status| status.abandoned_device = name);
        is_left
    }

    /// Tries the oldest payment of an address.
    pub(super) async fn try_payment(&mut self, view: &View, request: &Request) -> TryOutcome {
        let (address, waiter) = (request.from, Waiter::Payment);
        let ready = match self.ready(view, request.from).await {
            Ok(ready) => ready,
            Err(why) => return self.not_ready(address, waiter, why),
        };
        let Some(device) = ready.device() else { return TryOutcome::NotReady };
        if let Some(why) = self.reason_to_rest(&ready, device, ShownData::TypedData) {
            return self.not_ready(address, waiter, why);
        }
        let Some(token) = request.ask.payment().and_then(PaymentAsk::token_domain) else {
            return TryOutcome::NotReady;
        };
        let begun = match device.begin_payment(&token, &ready.configuration).await {
            Ok(begun) => begun,
            Err(why) => {
                self.note_refusal(&ready, device, ShownData::TypedData, &why);
                return self.not_ready(address, waiter, why);
            }
        };
        let Some(order) = self.fix_terms(request.id).await else { return TryOutcome::NotReady };
        let answered = self
            .show(
                &ready,
                device,
                PromptToShow { begun: &begun, order: &order, waiter: Waiter::Payment },
            )
            .await;
        self.note_answer(&ready, device, &order, &answered);
        drop(ready);
        self.ports.failpoints.pass("device.answered");
        let id = request.id;
        let (action, tried) = match answered {
            PromptOutcome::Signed(signature) => {
                (Some(Action::SignedOnDevice { id, signature }), TryOutcome::Answered)
            }
            PromptOutcome::Refused => (Some(Action::RefusedOnDevice { id }), TryOutcome::Answered),
            PromptOutcome::NotShown(why) => {
                let failed = match self.not_ready(address, waiter, why) {
                    // If a setting is switched off, the queue leaves the device alone for longer than after a failure.
                    TryOutcome::SwitchOff => TryOutcome::SwitchOff,
                    TryOutcome::Answered | TryOutcome::NotReady | TryOutcome::Failed => {
                        TryOutcome::Failed
                    }
                };
                (Some(Action::FailPrompt { id }), failed)
            }
            PromptOutcome::Unknown(why) => {
                self.not_ready(address, waiter, why);
                (None, TryOutcome::Failed)
            }
            PromptOutcome::Void => (Some(Action::FailPrompt { id }), TryOutcome::NotReady),
        };
        if let Some(action) = action
            && let Err(fault) = self.core.act(action).await
        {
            // The request is over, or its agent was stopped meanwhile: the device's answer is discarded.
            tracing::warn!(request = %id.short(), code = %fault.code, "a device's answer was discarded");
        }
        self.ports.failpoints.pass("device.recorded");
        tried
    }

    /// Checks that the device of an address is ready for the transactions of a plan. They call contracts, which the
    /// device signs only with blind signing enabled.
    pub(super) async fn try_plan(&self, view: &View, address: Address) -> TryOutcome {
        let ready = self.ready(view, address).await.and_then(|ready| match ready.device() {
            Some(device) if !ready.configuration.blind_signing => {
                let name = device.name().to_owned();
                Err(NotReady::SwitchOff { name, switch: Switch::BlindSigning })
            }
            Some(_) | None => Ok(()),
        });
        match ready {
            Ok(()) => {
                self.publish(|status| status.set_ready(address, Waiter::Plan));
                TryOutcome::Answered
            }
            Err(why) => self.not_ready(address, Waiter::Plan, why),
        }
    }

    /// Tries a transaction or a permit.
    pub(super) async fn try_transaction(
        &mut self,
        view: &View,
        order: &SigningOrder,
    ) -> SigningOutcome {
        let (address, waiter) = (order.slip.signer(), Waiter::Transaction);
        let ready = match self.ready(view, address).await {
            Ok(ready) => ready,
            Err(why) => return SigningOutcome::NotAnswered(self.not_ready(address, waiter, why)),
        };
        let Some(device) = ready.device() else {
            return SigningOutcome::NotAnswered(TryOutcome::NotReady);
        };
        if let Some(why) = self.reason_to_rest(&ready, device, ShownData::of(&order.terms)) {
            return SigningOutcome::NotAnswered(self.not_ready(address, waiter, why));
        }
        let begun = ReceivedCommands::default();
        let showing = PromptToShow { begun: &begun, order, waiter };
        let answered = self.show(&ready, device, showing).await;
        self.note_answer(&ready, device, order, &answered);
        drop(ready);
        match answered {
            PromptOutcome::Signed(signature) => SigningOutcome::Signed(signature),
            PromptOutcome::Refused => {
                self.publish(|status| status.set_refused(order.slip.subject()));
                SigningOutcome::Refused
            }
            PromptOutcome::NotShown(why) | PromptOutcome::Unknown(why) => {
                SigningOutcome::NotAnswered(self.not_ready(address, waiter, why))
            }
            PromptOutcome::Void => SigningOutcome::NotAnswered(TryOutcome::NotReady),
        }
    }

    /// Returns why a device is left alone now; `None` if it may be asked to show data of this kind.
    fn reason_to_rest(
        &mut self,
        ready: &AddressDevice,
        device: &ReadyDevice,
        shown: ShownData,
    ) -> Option<NotReady> {
        let now_ms = self.ports.clock.mono_ms();
        let switch =
            self.switch_rests.missing_switch(device.name(), shown, &ready.configuration, now_ms)?;
        Some(NotReady::RefusedData { name: device.name().to_owned(), switch })
    }

    /// Leaves a device alone for a while if it refused the data because a setting is switched off.
    fn note_refusal(
        &mut self,
        ready: &AddressDevice,
        device: &ReadyDevice,
        shown: ShownData,
        why: &NotReady,
    ) {
        let Some(switch) = why.missing_switch() else { return };
        let now_ms = self.ports.clock.mono_ms();
        let missing = MissingSwitch { switch, configuration: ready.configuration };
        self.switch_rests.begin(device.name(), shown, missing, now_ms);
    }

    fn note_answer(
        &mut self,
        ready: &AddressDevice,
        device: &ReadyDevice,
        order: &SigningOrder,
        answered: &PromptOutcome,
    ) {
        let shown = ShownData::of(&order.terms);
        match answered {
            PromptOutcome::Signed(_) | PromptOutcome::Refused => {
                self.switch_rests.end(device.name(), shown)
            }
            PromptOutcome::NotShown(why) => self.note_refusal(ready, device, shown, why),
            PromptOutcome::Unknown(_) | PromptOutcome::Void => {}
        }
    }

    /// Finds the device of an address.
    async fn ready(&self, view: &View, address: Address) -> Result<AddressDevice, NotReady> {
        let path = path_of(view, address).ok_or(NotReady::OtherSeed)?;
        let ports = &self.ports;
        let devices = device::ready(ports.devices.as_ref(), &self.turn, &ports.clock).await?;
        let index = devices.with_address(&path, address).await?;
        let device = devices.all.get(index).ok_or(NotReady::OtherSeed)?;
        let configuration = device.configuration().await?;
        device.check_answers().await?;
        Ok(AddressDevice { devices, index, path, configuration })
    }

    /// Lets the core fix the terms of a payment. `None` if nothing may be signed now.
    async fn fix_terms(&self, id: RequestId) -> Option<SigningOrder> {
        let mut nonce = [0; 32];
        if let Err(error) = self.ports.random.fill(&mut nonce) {
            tracing::warn!(%error, "the system provides no random bytes");
            return None;
        }
        self.ports.failpoints.pass("device.ready");
        let outcome = match self.core.act(Action::Prompt { id, nonce }).await {
            Ok(outcome) => outcome,
            Err(fault) => {
                tracing::debug!(request = %id.short(), code = %fault.code, "the device is not asked to sign");
                return None;
            }
        };
        self.ports.failpoints.pass("device.prompted");
        outcome.orders.into_iter().next()
    }

    async fn show(
        &self,
        ready: &AddressDevice,
        device: &ReadyDevice,
        PromptToShow { begun, order, waiter }: PromptToShow<'_>,
    ) -> PromptOutcome {
        let prompt = match Prompt::of(order, &ready.path, &ready.configuration, device) {
            Ok(prompt) => prompt,
            Err(why) => return PromptOutcome::NotShown(why),
        };
        // The request may have ended during the search for its device.
        if !self.is_wanted(order) {
            return PromptOutcome::Void;
        }
        let (subject, signer) = (order.slip.subject(), order.slip.signer());
        let shown = ShownPrompt { subject, device: device.name().to_owned() };
        self.publish(|status| {
            status.set_ready(signer, waiter);
            status.prompting = Some(shown);
        });
        let answered = device.show(&prompt, begun, order, self.wait_until_abandoned(order)).await;
        self.publish(|status| status.prompting = None);
        if device.owes_answer() {
            let mut abandoned =
                self.abandoned_device.lock().unwrap_or_else(PoisonError::into_inner);
            *abandoned = Some(device.handle());
        }
        // The signature is void if the wallet was locked or frozen before the wallet read it.
        match answered {
            PromptOutcome::Signed(_late) if order.slip.epoch() != self.vault.epoch() => {
                let text = "What the Ledger signed came too late and was discarded.";
                PromptOutcome::Unknown(NotReady::Unexpected { text: text.to_owned() })
            }
            answered => answered,
        }
    }

    /// Completes when a prompt must be given up: its time is over, its order is void, or nothing needs it any more.
    async fn wait_until_abandoned(&self, order: &SigningOrder) {
        let (clock, until) = (&self.ports.clock, self.ends_at(order));
        let begun = clock.now();
        let lasts_ms = until.map(|until| u64::try_from(until.since_ms(begun.utc)).unwrap_or(0));
        loop {
            // The wall clock may be set while the prompt is shown, so the monotonic clock can end it too.
            let is_late = until.is_some_and(|until| clock.now().utc >= until)
                || lasts_ms.is_some_and(|ms| clock.mono_ms() >= begun.mono_ms.saturating_add(ms));
            if is_late || !self.is_wanted(order) {
                return;
            }
            let wake = clock.mono_ms().saturating_add(CHECK_MS);
            // cancel-safe: both branches only wait.
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return,
                () = clock.sleep_until(wake) => {}
            }
        }
    }

    /// Returns whether the order's signature may still be used.
    pub(super) fn is_wanted(&self, order: &SigningOrder) -> bool {
        let is_valid = order.slip.epoch() == self.vault.epoch();
        let view = self.core.view();
        match order.slip.subject() {
            Subject::Request(id) => is_valid && view.state.waiting.contains_key(&id),
            Subject::Attempt { submission, attempt } => {
                let open = view
                    .state
                    .outboxes
                    .with_open_submissions()
                    .find_map(|outbox| outbox.open.get(&submission));
                let tried = open.and_then(|one| one.attempts.get(attempt));
                let is_mined =
                    open.is_some_and(|one| matches!(one.chain_state, ChainState::Included(_)));
                let waits = tried.is_some_and(|tried| tried.raw.is_none() && !tried.declined);
                is_valid && waits && !is_mined && self.is_in_time(order)
            }
            Subject::Permit(id) => {
                let request = view.state.executing.get(&id);
                let unsigned = request.and_then(|request| request.permit_digest());
                is_valid && unsigned == Some(order.slip.digest()) && self.is_in_time(order)
            }
            Subject::Mandate(id) => {
                is_valid
                    && view.state.mandates.find_unsigned(id).is_some()
                    && self.is_in_time(order)
            }
            Subject::Receipt(_) => is_valid && self.is_in_time(order),
        }
    }

    /// Returns whether an order belongs to the running plan of `request`.
    pub(super) fn belongs_to(&self, order: &SigningOrder, request: RequestId) -> bool {
        let view = self.core.view();
        let plan = view.state.executing.get(&request);
        plan.is_some_and(|plan| order.slip.subject().belongs_to(plan))
    }

    fn is_in_time(&self, order: &SigningOrder) -> bool {
        let now = self.ports.clock.now().utc;
        self.ends_at(order).is_none_or(|until| now < until)
    }

    /// Returns when the prompt of an order is given up; `None` if it has no time limit.
    fn ends_at(&self, order: &SigningOrder) -> Option<Utc> {
        let view = self.core.view();
        let terms_end = match (order.slip.subject(), &order.terms) {
            (_any, Terms::Payment { authorization, .. }) => {
                let seconds = i64::try_from(authorization.valid_before).unwrap_or(i64::MAX);
                Utc::from_seconds(seconds)
            }
            (Subject::Attempt { submission, attempt }, _) => {
                let mut outboxes = view.state.outboxes.with_open_submissions();
                let open = outboxes.find_map(|outbox| outbox.open.get(&submission))?;
                let is_call = open.attempts.get(attempt)?.kind == Kind::Call;
                open.until.filter(|_any| is_call)?
            }
            (Subject::Permit(id), _) => view.state.executing.get(&id)?.execution()?.until.utc,
            (Subject::Mandate(id), _) => view.state.mandates.find_unsigned(id)?.until.as_ref()?.utc,
            (_any, Terms::Receipt(statement)) => statement.until?,
            (Subject::Request(_) | Subject::Receipt(_), _) => return None,
        };
        Some(prompt_end(terms_end))
    }

    fn not_ready(&self, address: Address, waiter: Waiter, why: NotReady) -> TryOutcome {
        let tried = if why.lacks_switch() { TryOutcome::SwitchOff } else { TryOutcome::NotReady };
        self.publish(|status| status.set(address, waiter, why));
        tried
    }
}

/// Returns the derivation path at which a device has the key of an address.
fn path_of(view: &View, address: Address) -> Option<DerivationPath> {
    let known = view.state.wallet.as_ref()?.addresses.values();
    let mut known = known.filter(|known| matches!(known.backing, Backing::Device { .. }));
    let known = known.find(|known| known.address == address)?;
    DerivationPath::parse(&known.path).ok()
}
