//! One prompt: the device shows the terms to a person, who signs or refuses.

use bursar_core::derivation::DerivationPath;
use bursar_ledger::app::{Configuration, TypedDataForm};
use bursar_ledger::command::{AnswerFault, Command, read_answer, read_empty};
use bursar_ledger::payment;
use bursar_ledger::signature::DeviceSignature;
use bursar_ledger::status::Meaning;
use bursar_ledger::{message, transaction, typed_data};
use bursar_submit::Payload;
use bursar_x402::signature::Signature65;
use bursar_x402::typed_data::{TokenDomain, struct_hash};

use super::not_ready::{NotReady, Switch};
use super::permit;
use super::ready::{ANSWER_MS, ReadyDevice, check_typed_data};
use crate::journal::{SigningOrder, Terms};

/// The commands of one prompt, in order. The last one asks for the signature.
#[derive(Debug)]
pub(crate) struct Prompt {
    commands: Vec<Command>,
    /// The switch that is off if the device refuses the data.
    switch: Switch,
}

/// The commands of a prompt that the device has received already.
#[derive(Debug, Default)]
pub(crate) struct ReceivedCommands(Vec<Command>);

/// How a prompt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptOutcome {
    /// The signature of the order's signer over its digest.
    Signed(Signature65),
    /// A person refused.
    Refused,
    /// The device signed nothing: it refused the data, or the last command was never sent.
    NotShown(NotReady),
    /// The device may have signed: its answer is missing or wrong.
    Unknown(NotReady),
    /// The order was void before anything was sent.
    Void,
}

impl Prompt {
    /// Returns the prompt of an order for a device with this configuration.
    ///
    /// # Errors
    /// The terms do not hash to the slip's digest, or the app cannot show them as it is configured.
    pub(crate) fn of(
        order: &SigningOrder,
        path: &DerivationPath,
        configuration: &Configuration,
        device: &ReadyDevice,
    ) -> Result<Self, NotReady> {
        let other = || NotReady::Unexpected {
            text: "These terms were not recorded, so no device is asked to sign them.".to_owned(),
        };
        if order.terms.digest() != Some(order.slip.digest()) {
            return Err(other());
        }
        let (data, hashes) = match &order.terms {
            Terms::Payment { token, authorization } => {
                let hashes = [token.separator(), struct_hash(authorization)];
                (payment::typed_data(token, authorization), hashes)
            }
            Terms::Permit { chain, permit2, permit: terms } => {
                let message = terms.struct_hash().map_err(|_too_large| other())?;
                let domain = bursar_uniswap::permit::domain(*chain, *permit2).separator();
                (permit::typed_data(*chain, *permit2, terms), [domain, message])
            }
            Terms::Transaction(unsigned) => {
                let Payload { bytes, tail } = unsigned.payload();
                let unsigned = match tail {
                    Some(tail) => transaction::Unsigned::Legacy { rlp: &bytes, tail },
                    None => transaction::Unsigned::Typed(&bytes),
                };
                let commands = transaction::ask(path, unsigned)?;
                return Ok(Self { commands, switch: Switch::BlindSigning });
            }
            Terms::Mandate(draft) => {
                let commands = message::ask(path, draft.text().as_bytes())?;
                return Ok(Self { commands, switch: Switch::BlindSigning });
            }
            Terms::Receipt(statement) => {
                let commands = message::ask(path, statement.text().as_bytes())?;
                return Ok(Self { commands, switch: Switch::BlindSigning });
            }
        };
        match check_typed_data(device, configuration)? {
            TypedDataForm::Full => {
                let commands = typed_data::ask_full(path, &data)?;
                Ok(Self { commands, switch: Switch::BlindSigningOrRawMessages })
            }
            TypedDataForm::Hashes => {
                let [domain, message] = hashes;
                let only = typed_data::ask_hashes(path, domain, message)?;
                Ok(Self { commands: vec![only], switch: Switch::BlindSigning })
            }
        }
    }
}

impl ReadyDevice {
    /// Sends the first commands of a payment in this token, which are the same for all terms.
    ///
    /// The device shows nothing yet, but refuses these commands if a switch is off. So the wallet notices that before
    /// the terms are fixed.
    ///
    /// # Errors
    /// The device cannot show the payment now.
    pub(crate) async fn begin_payment(
        &self,
        token: &TokenDomain,
        configuration: &Configuration,
    ) -> Result<ReceivedCommands, NotReady> {
        let commands = match check_typed_data(self, configuration)? {
            TypedDataForm::Full if configuration.answers_before_showing() => {
                payment::first_commands(token)?
            }
            TypedDataForm::Full | TypedDataForm::Hashes => Vec::new(),
        };
        for command in &commands {
            let answer = self.exchange(command, ANSWER_MS).await?;
            if let Err(fault) = read_empty(&answer) {
                return Err(
                    match self.unsigned_outcome(Switch::BlindSigningOrRawMessages, fault) {
                        PromptOutcome::NotShown(why) | PromptOutcome::Unknown(why) => why,
                        PromptOutcome::Refused | PromptOutcome::Signed(_) | PromptOutcome::Void => {
                            self.unexpected_answer(fault)
                        }
                    },
                );
            }
        }
        Ok(ReceivedCommands(commands))
    }

    /// Shows a prompt until a person answers it or `abandoned` completes. The host cannot withdraw a prompt: if the
    /// host gives up, the device takes no other command until the person has answered, and that answer is dropped.
    pub(crate) async fn show(
        &self,
        prompt: &Prompt,
        begun: &ReceivedCommands,
        order: &SigningOrder,
        abandoned: impl Future<Output = ()>,
    ) -> PromptOutcome {
        let mut abandoned = std::pin::pin!(abandoned);
        let rest = prompt.commands.strip_prefix(begun.0.as_slice());
        let Some((last, before)) = rest.and_then(<[Command]>::split_last) else {
            let text = "The Ledger has already received a part of other terms: try again.";
            return PromptOutcome::NotShown(NotReady::Unexpected { text: text.to_owned() });
        };
        // Old devices show each value as it arrives, so each of these commands may wait for the person.
        for command in before {
            // cancel-safe: the device's connection reads and drops a late answer.
            let answer = tokio::select! {
                biased;
                answer = self.device.exchange(command) => answer,
                () = &mut abandoned => return PromptOutcome::NotShown(self.silent_fault()),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(fault) => return PromptOutcome::NotShown(self.exchange_problem(&fault)),
            };
            if let Err(fault) = read_empty(&answer) {
                return self.confirm_unsigned(self.unsigned_outcome(prompt.switch, fault)).await;
            }
        }
        // cancel-safe: as above.
        let answer = tokio::select! {
            biased;
            answer = self.device.exchange(last) => answer,
            () = &mut abandoned => return PromptOutcome::Unknown(self.silent_fault()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => return PromptOutcome::Unknown(self.exchange_problem(&fault)),
        };
        let signature = match read_answer(&answer) {
            Ok(data) => DeviceSignature::read(data),
            Err(fault @ AnswerFault::Status(_)) => {
                return self.confirm_unsigned(self.unsigned_outcome(prompt.switch, fault)).await;
            }
            Err(fault @ AnswerFault::Malformed) => Err(fault),
        };
        let (signer, digest) = (order.slip.signer(), order.slip.digest());
        let wrong = |text: String| PromptOutcome::Unknown(NotReady::Unexpected { text });
        match signature {
            Ok(signature) => match signature.verify(signer, digest) {
                Ok(signature) => PromptOutcome::Signed(signature),
                Err(other) => wrong(format!("{other}.")),
            },
            Err(fault) => wrong(fault.to_string()),
        }
    }

    /// Confirms that nothing was signed. This is certain only if the device's last answer was meant for this program,
    /// because then no other answer is pending in the device.
    async fn confirm_unsigned(&self, answered: PromptOutcome) -> PromptOutcome {
        let state = self.check_app().await;
        match (&answered, state) {
            (_any, Ok(())) => answered,
            // The device gave the same reason twice: it was locked, or its app was closed.
            (
                PromptOutcome::NotShown(_),
                Err(NotReady::Locked { .. } | NotReady::NoApp { .. } | NotReady::OtherApp { .. }),
            ) => answered,
            (_any, Err(why)) => PromptOutcome::Unknown(why),
        }
    }

    fn silent_fault(&self) -> NotReady {
        NotReady::OwesAnswer { name: self.name().to_owned() }
    }

    /// Converts an error status, after which the device has signed nothing.
    fn unsigned_outcome(&self, switch: Switch, fault: AnswerFault) -> PromptOutcome {
        let name = self.name().to_owned();
        let AnswerFault::Status(status) = fault else {
            return PromptOutcome::NotShown(self.unexpected_answer(fault));
        };
        PromptOutcome::NotShown(match status.meaning() {
            Meaning::Refused => return PromptOutcome::Refused,
            Meaning::SwitchOff => NotReady::RefusedData { name, switch },
            Meaning::AppTooOld => NotReady::TooOld { name },
            Meaning::Success
            | Meaning::Locked
            | Meaning::AppNotOpen
            | Meaning::PathRefused
            | Meaning::Failed => self.unexpected_answer(fault),
        })
    }
}
