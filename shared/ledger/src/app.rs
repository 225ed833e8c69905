//! Which app is open on the device, and the configuration of the Ethereum app.

use crate::command::{AnswerFault, Command, DEVICE_CLASS, ETHEREUM_CLASS, Fields, instruction};

/// The name of the Ethereum app.
pub const ETHEREUM_NAME: &str = "Ethereum";
/// The name under which a device reports its dashboard.
pub const DASHBOARD_NAME: &str = "BOLOS";

/// The first version of the Ethereum app that signs typed data by its hashes.
const TYPED_DATA_HASHES_SINCE: Version = Version { major: 1, minor: 5, patch: 0 };
/// The first version of the Ethereum app that accepts typed data in full.
const FULL_TYPED_DATA_SINCE: Version = Version { major: 1, minor: 9, patch: 19 };
/// The first version of the Ethereum app that is known to answer the first commands of typed data at once. Older
/// versions may show the data and wait for the person.
const IMMEDIATE_ANSWERS_SINCE: Version = Version { major: 1, minor: 22, patch: 0 };

/// An app as the device reports it.
///
/// Characters that could act on a terminal are replaced by `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    pub name: String,
    pub version: String,
}

/// A version of the Ethereum app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
    pub patch: u8,
}

/// How typed data is sent to the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypedDataForm {
    /// With its types and values, so that the device can show them.
    Full,
    /// As the hashes of domain and message.
    Hashes,
}

/// The configuration of the Ethereum app.
///
/// It does not contain the switch "Raw messages".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    pub blind_signing: bool,
    pub version: Version,
}

impl Configuration {
    /// Returns whether the app answers the first commands of [`TypedDataForm::Full`] before it shows anything.
    pub fn answers_before_showing(&self) -> bool {
        self.version >= IMMEDIATE_ANSWERS_SINCE
    }

    /// Returns how this version of the app accepts typed data; `None` if it is too old.
    pub fn typed_data(&self) -> Option<TypedDataForm> {
        match self.version {
            version if version >= FULL_TYPED_DATA_SINCE => Some(TypedDataForm::Full),
            version if version >= TYPED_DATA_HASHES_SINCE => Some(TypedDataForm::Hashes),
            _older => None,
        }
    }
}

/// Returns the command that asks which app is open.
pub fn ask_app() -> Command {
    Command::new(DEVICE_CLASS, 0x01, [0, 0], Vec::new())
}

/// Reads the data of the answer to [`ask_app`]: format 1, name, version, flags.
///
/// # Errors
/// [`AnswerFault::Malformed`].
pub fn read_app(data: &[u8]) -> Result<App, AnswerFault> {
    let mut fields = Fields(data);
    if *fields.take()? != [1] {
        return Err(AnswerFault::Malformed);
    }
    let app =
        App { name: printable(fields.take_counted()?), version: printable(fields.take_counted()?) };
    // Old firmware sends no flags.
    if !fields.0.is_empty() {
        fields.take_counted()?;
    }
    fields.end()?;
    Ok(app)
}

fn printable(bytes: &[u8]) -> String {
    let shown = |byte: &u8| if matches!(byte, 0x20..=0x7e) { char::from(*byte) } else { '?' };
    bytes.iter().map(shown).collect()
}

/// Returns the command that asks for the configuration of the Ethereum app.
pub fn ask_configuration() -> Command {
    Command::new(ETHEREUM_CLASS, instruction::CONFIGURATION, [0, 0], Vec::new())
}

/// Reads the data of the answer to [`ask_configuration`]: flags, then the version.
///
/// # Errors
/// [`AnswerFault::Malformed`].
pub fn read_configuration(data: &[u8]) -> Result<Configuration, AnswerFault> {
    const BLIND_SIGNING: u8 = 0x01;
    let mut fields = Fields(data);
    let [flags, major, minor, patch] = *fields.take()?;
    fields.end()?;
    Ok(Configuration {
        blind_signing: flags & BLIND_SIGNING != 0,
        version: Version { major, minor, patch },
    })
}
