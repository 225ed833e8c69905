//! One prompt: the device shows the terms to a person, who signs or refuses.

use bursar_core::derivation::DerivationPath;
use bursar_ledger::app::{Configuration, Form};
use bursar_ledger::command::{AnswerFault, Command, read_answer, read_empty};
use bursar_ledger::payment;
use bursar_ledger::signature::DeviceSignature;
use bursar_ledger::status::Meaning;
use bursar_ledger::{transaction, typed_data};
use bursar_submit::Payload;
use bursar_x402::signature::Signature65;
use bursar_x402::typed_data::struct_hash;

use super::not_ready::{NotReady, Switch};
use super::ready::{ReadyDevice, check_typed_data};
use crate::journal::{SigningOrder, Terms};

/// The commands of one prompt, in order. The last one asks for the signature.
#[derive(Debug)]
pub(crate) struct Prompt {
    commands: Vec<Command>,
    /// The switch that is missing if the device refuses the data.
    switch: Switch,
}

/// How a prompt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The signature of the order's signer over its digest.
    Signed(Signature65),
    /// A person refused.
    Refused,
    /// The device signed nothing: it refused the data, or the last command was never sent.
    NotShown(NotReady),
    /// The device may have signed: its answer is missing or wrong.
    Unknown(NotReady),
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
            text: "These terms were not recorded, so no device is asked for them.".to_owned(),
        };
        if order.terms.digest() != Some(order.slip.digest()) {
            return Err(other());
        }
        let (data, hashes) = match &order.terms {
            Terms::Payment { token, authorization } => {
                let hashes = [token.separator(), struct_hash(authorization)];
                (payment::typed_data(token, authorization), hashes)
            }
            // Only trades use permits, and no trade is made from an address of a device.
            Terms::Permit { .. } => return Err(other()),
            Terms::Transaction(unsigned) => {
                let Payload { bytes, tail } = unsigned.payload();
                let unsigned = match tail {
                    Some(tail) => transaction::Unsigned::Legacy { rlp: &bytes, tail },
                    None => transaction::Unsigned::Typed(&bytes),
                };
                let commands = transaction::ask(path, unsigned)?;
                return Ok(Self { commands, switch: Switch::BlindSigning });
            }
        };
        match check_typed_data(device, configuration)? {
            Form::Full => {
                let commands = typed_data::ask_full(path, &data)?;
                Ok(Self { commands, switch: Switch::BlindSigningOrRawMessages })
            }
            Form::Hashes => {
                let [domain, message] = hashes;
                let only = typed_data::ask_hashes(path, domain, message)?;
                Ok(Self { commands: vec![only], switch: Switch::BlindSigning })
            }
        }
    }
}

impl ReadyDevice {
    /// Shows a prompt until a person answers it or `abandoned` ends. The host cannot withdraw a prompt: if it gives up, the
    /// device takes no other command until the person has answered, and the answer is dropped.
    pub(crate) async fn show(
        &self,
        prompt: &Prompt,
        order: &SigningOrder,
        abandoned: impl Future<Output = ()>,
    ) -> Answered {
        let mut abandoned = std::pin::pin!(abandoned);
        let Some((last, before)) = prompt.commands.split_last() else {
            return Answered::NotShown(NotReady::TooOld { name: self.name().to_owned() });
        };
        // Old devices show each value as it arrives, so each of these commands may wait for the person.
        for command in before {
            // cancel-safe: the device's connection reads and drops a late answer.
            let answer = tokio::select! {
                biased;
                answer = self.device.exchange(command) => answer,
                () = &mut abandoned => return Answered::NotShown(self.silent()),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(fault) => return Answered::NotShown(self.unanswered(&fault)),
            };
            if let Err(fault) = read_empty(&answer) {
                return self.not_signed(prompt, fault);
            }
        }
        // cancel-safe: as above.
        let answer = tokio::select! {
            biased;
            answer = self.device.exchange(last) => answer,
            () = &mut abandoned => return Answered::Unknown(self.silent()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => return Answered::Unknown(self.unanswered(&fault)),
        };
        let signature = match read_answer(&answer) {
            Ok(data) => DeviceSignature::read(data),
            Err(fault @ AnswerFault::Status(_)) => return self.not_signed(prompt, fault),
            Err(fault @ AnswerFault::Malformed) => Err(fault),
        };
        let (signer, digest) = (order.slip.signer(), order.slip.digest());
        let wrong = |text: String| Answered::Unknown(NotReady::Unexpected { text });
        match signature {
            Ok(signature) => match signature.of(signer, digest) {
                Ok(signature) => Answered::Signed(signature),
                Err(other) => wrong(format!("{other}.")),
            },
            Err(fault) => wrong(fault.to_string()),
        }
    }

    fn silent(&self) -> NotReady {
        NotReady::OwesAnswer { name: self.name().to_owned() }
    }

    /// The device answered with another status than success, so it signed nothing.
    fn not_signed(&self, prompt: &Prompt, fault: AnswerFault) -> Answered {
        let name = self.name().to_owned();
        let AnswerFault::Status(status) = fault else {
            return Answered::NotShown(self.unexpected(fault));
        };
        Answered::NotShown(match status.meaning() {
            Meaning::Refused => return Answered::Refused,
            Meaning::SwitchOff => NotReady::SwitchOff { name, switch: prompt.switch },
            Meaning::AppTooOld => NotReady::TooOld { name },
            Meaning::Success
            | Meaning::Locked
            | Meaning::AppNotOpen
            | Meaning::PathRefused
            | Meaning::Failed => self.unexpected(fault),
        })
    }
}
