//! Why no device can be asked, and what to do about it.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_ledger::port::ConnectFault;

/// Why no device can be asked now. `name` is model and serial number of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// This build cannot use devices.
    NoSupport,
    NoDevice,
    NoPermission,
    /// Another program has opened the device.
    InUse,
    /// The machine's USB failed.
    UsbFailed {
        text: String,
    },
    UsbSilent,
    /// Another command of this wallet uses the devices.
    Busy,
    /// The device is locked by its PIN.
    Locked {
        name: String,
    },
    NoApp {
        name: String,
    },
    OtherApp {
        name: String,
        app: String,
    },
    /// The Ethereum app is too old: it does not know the command.
    TooOld {
        name: String,
    },
    /// A required switch is off, according to the app's configuration, which the wallet reads each second.
    SwitchOff {
        name: String,
        switch: Switch,
    },
    /// The device refused data because a switch is off. The wallet waits before it tries again.
    RefusedData {
        name: String,
        switch: Switch,
    },
    /// No device derives the address.
    OtherSeed,
    /// The device still shows an earlier request.
    OwesAnswer {
        name: String,
    },
    Silent {
        name: String,
    },
    Lost {
        name: String,
    },
    /// The device's answers to this program and to another program got mixed up.
    Mixed {
        name: String,
    },
    PathRefused {
        text: String,
    },
    /// The device gave an answer that does not fit the command.
    Unexpected {
        text: String,
    },
}

/// A switch in the settings of the Ethereum app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    BlindSigning,
    /// Either of the two switches is enough to show typed data in full.
    BlindSigningOrRawMessages,
}

impl NotReady {
    /// Returns the code for agents and operators.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::NoSupport => Code::LedgerSignNotAvailable,
            Self::Busy => Code::Busy,
            Self::PathRefused { .. } => Code::BadInput,
            Self::OtherSeed
            | Self::Mixed { .. }
            | Self::Unexpected { .. }
            | Self::TooOld { .. } => Code::LedgerError,
            Self::NoDevice
            | Self::NoPermission
            | Self::InUse
            | Self::UsbFailed { .. }
            | Self::UsbSilent
            | Self::Locked { .. }
            | Self::NoApp { .. }
            | Self::OtherApp { .. }
            | Self::SwitchOff { .. }
            | Self::RefusedData { .. }
            | Self::OwesAnswer { .. }
            | Self::Silent { .. }
            | Self::Lost { .. } => Code::LedgerDisconnected,
        }
    }

    /// Whether the only obstacle is a switch of the device's settings, which other requests may not need.
    pub(crate) fn lacks_switch(&self) -> bool {
        matches!(self, Self::SwitchOff { .. } | Self::RefusedData { .. })
    }

    /// Returns the switch for which the device refused data; `None` for any other reason.
    pub(crate) fn missing_switch(&self) -> Option<Switch> {
        if let Self::RefusedData { switch, .. } = self { Some(*switch) } else { None }
    }

    /// Returns two or three words for the console's header.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::NoSupport => "no support",
            Self::NoDevice => "plug it in",
            Self::NoPermission => "no permission",
            Self::InUse => "used elsewhere",
            Self::UsbFailed { .. } | Self::UsbSilent => "USB fails",
            Self::Busy => "in use",
            Self::Locked { .. } => "locked",
            Self::NoApp { .. } => "no app open",
            Self::OtherApp { .. } => "other app open",
            Self::TooOld { .. } => "app too old",
            Self::SwitchOff { .. } | Self::RefusedData { .. } => "needs a setting",
            Self::OtherSeed => "other seed",
            Self::OwesAnswer { .. } => "reject its prompt",
            Self::Silent { .. } => "silent",
            Self::Lost { .. } => "plug it in again",
            Self::Mixed { .. } => "answers mixed up",
            Self::PathRefused { .. } => "path refused",
            Self::Unexpected { .. } => "wrong answer",
        }
    }

    /// Returns the problem and its remedy, as sentences.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::NoSupport => {
                "This build has no support for Ledgers: build it with the feature `ledger`.".to_owned()
            }
            Self::NoDevice => Code::LedgerDisconnected.sentence().to_owned(),
            Self::NoPermission => ConnectFault::NoPermission.to_string(),
            Self::InUse => ConnectFault::InUse.to_string(),
            Self::UsbFailed { text } | Self::PathRefused { text } | Self::Unexpected { text } => {
                text.clone()
            }
            Self::UsbSilent => {
                "This machine's USB does not answer: plug the Ledger into another port.".to_owned()
            }
            Self::Busy => {
                "Another command uses the Ledger: try again when it has ended.".to_owned()
            }
            Self::Locked { name } => format!("The {name} is locked: enter its PIN."),
            Self::NoApp { name } => {
                format!("On the {name} no app is open: open its Ethereum app.")
            }
            Self::OtherApp { name, app } => {
                format!("On the {name} the app {app} is open: open its Ethereum app.")
            }
            Self::TooOld { name } => {
                format!("The Ethereum app of the {name} is too old: update it.")
            }
            Self::SwitchOff { name, switch } => turn_on_text(*switch, name),
            Self::RefusedData { name, switch } => format!(
                "{} Take your time: the wallet asks it again after 30 seconds and then each minute, or now with r in the \
                 console or `requests --retry`.",
                turn_on_text(*switch, name)
            ),
            Self::OtherSeed => {
                "The Ledger derives another address, from another seed: plug in the one that was enrolled."
                    .to_owned()
            }
            Self::OwesAnswer { name } => {
                format!("The {name} still shows an earlier request: reject it there.")
            }
            Self::Silent { name } => format!(
                "The {name} does not answer: finish or reject what it shows, or plug it in again."
            ),
            Self::Lost { name } => {
                format!("The connection to the {name} is lost: plug it in again.")
            }
            Self::Mixed { name } => format!(
                "The answers of the {name} got mixed up with those to another program: close that program, finish what \
                 the device shows, and try again."
            ),
        }
    }
}

fn turn_on_text(switch: Switch, name: &str) -> String {
    let which = match switch {
        Switch::BlindSigning => "\"Blind signing\"",
        Switch::BlindSigningOrRawMessages => "\"Raw messages\" (or \"Blind signing\")",
    };
    format!("Turn on {which} in the settings of the Ethereum app of the {name}.")
}

impl From<ConnectFault> for NotReady {
    fn from(fault: ConnectFault) -> Self {
        match &fault {
            ConnectFault::NoPermission => Self::NoPermission,
            ConnectFault::InUse => Self::InUse,
            ConnectFault::Failed(_why) => Self::UsbFailed { text: fault.to_string() },
        }
    }
}

impl From<NotReady> for Fault {
    fn from(why: NotReady) -> Self {
        Self::because(why.code(), why.sentence())
    }
}
