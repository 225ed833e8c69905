//! A mandate of any issuer: read within bounds, and checked for form, signature and signer.

use alloy_primitives::{Address, eip191_hash_message};
use bursar_core::canonical::to_python;
use bursar_core::json::{JsonError, Object, Value, parse_few};
use bursar_x402::signature::{Signature65, SignatureError, recover};

use crate::form::{LIMIT_MAX, TYPE, UNSIGNED_MEMBERS};

/// The longest mandate that is read, in bytes.
pub const BYTES_MAX: usize = 65_536;

/// The deepest nesting that is read; a mandate has four levels.
const DEPTH_MAX: usize = 16;

/// The most JSON values that are read.
const VALUES_MAX: usize = 1_000;

/// Why a text cannot be read as a mandate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is longer than 64 KiB")]
    TooLong,
    #[error("it is not JSON that a mandate can be: {0}")]
    Json(#[from] JsonError),
    #[error("it is not an IntentMandate: its `type` must say so")]
    OtherType,
}

/// A reason why a mandate proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    #[error("the member `{0}` is missing or has the wrong form")]
    Member(&'static str),
    #[error("the limit `{0}` is not a whole number from 0 to 10^15")]
    Limit(&'static str),
    #[error("it has no signature")]
    Unsigned,
    #[error("its signature is not of the type EIP191")]
    SignatureType,
    #[error("its signature is not valid: {0}")]
    Signature(#[from] SignatureError),
    #[error("the signature was made by another key than the named signer's, or for another text")]
    OtherSigner,
    #[error("the signer is not the paying address")]
    SignerDoesNotPay,
}

/// What a mandate states, as far as it can be read.
///
/// Every text is foreign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statement {
    pub id: Option<String>,
    pub issued: Option<String>,
    pub agent: Option<String>,
    pub fingerprint: Option<String>,
    pub policy_id: Option<String>,
    pub currency: Option<String>,
    pub decimals: Option<u8>,
    /// In units of the last decimal.
    pub daily: Option<u64>,
    /// `None` if the issuer states none.
    pub per_request: Option<u64>,
    /// `None` if the issuer states none.
    pub auto_below: Option<u64>,
    pub networks: Vec<String>,
    pub wallet: Option<Address>,
    /// `type` and `version` of the issuer.
    pub issuer: Option<String>,
}

/// A mandate that was read, with its defects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    pub statement: Statement,
    /// The text that the signature covers.
    pub text: String,
    /// The address whose key made the signature over the text.
    pub signer: Option<Address>,
    /// Id and URL that a registry added, outside the signature.
    pub registry: [Option<String>; 2],
    /// Empty for a good mandate.
    pub defects: Vec<Defect>,
}

impl Presented {
    /// Returns whether the mandate is complete and signed by the key of its paying address.
    pub fn is_good(&self) -> bool {
        self.defects.is_empty()
    }

    /// Returns one paragraph that says what the mandate proves and what it does not.
    pub fn meaning(&self) -> &'static str {
        if self.is_good() {
            "The holder of the paying address's key signed these terms. That does not show that they still hold: a \
             mandate has no end date, and the signature of an older one remains valid. It does not show that the caller \
             is this agent, or that the address has the money. It authorizes no payment."
        } else {
            "This mandate proves nothing: do not rely on any of its terms."
        }
    }
}

/// Reads a mandate of any issuer.
///
/// Texts longer than [`BYTES_MAX`], with duplicate keys, or nested deeper than a mandate are not read at all.
///
/// # Errors
/// [`Unreadable`] if the text is not a mandate. The errors in a mandate are in [`Presented::defects`].
pub fn read(bytes: &[u8]) -> Result<Presented, Unreadable> {
    if bytes.len() > BYTES_MAX {
        return Err(Unreadable::TooLong);
    }
    let value = parse_few(bytes, DEPTH_MAX, VALUES_MAX)?;
    let mandate = value.as_object().ok_or(Unreadable::OtherType)?;
    if mandate.get("type").and_then(Value::as_str) != Some(TYPE) {
        return Err(Unreadable::OtherType);
    }
    let signed = mandate.iter().filter(|(key, _)| !UNSIGNED_MEMBERS.contains(key));
    let unsigned =
        signed.fold(Object::new(), |object, (key, value)| object.with(key, value.clone()));
    let text = to_python(&Value::from(unsigned));
    let mut reader = Reader { mandate, defects: Vec::new() };
    let statement = reader.statement();
    let signer = match reader.signer(&text, statement.wallet) {
        Ok(signer) => Some(signer),
        Err(defect) => {
            reader.defects.push(defect);
            None
        }
    };
    let registry = ["registryId", "registryUrl"].map(|key| text_of(mandate.get(key)));
    Ok(Presented { statement, text, signer, registry, defects: reader.defects })
}

struct Reader<'a> {
    mandate: &'a Object,
    defects: Vec<Defect>,
}

impl Reader<'_> {
    fn statement(&mut self) -> Statement {
        let _version = self.text("version", &["version"]);
        let agent = match self.at(&["agent", "code"]) {
            Some(_code) => self.text("agent.code", &["agent", "code"]),
            None => self.text("agent.id", &["agent", "id"]),
        };
        let issuer = [
            self.text("issuer.type", &["issuer", "type"]),
            self.text("issuer.version", &["issuer", "version"]),
        ];
        let [kind, version] = issuer;
        let limit = |key| ["authorization", "limits", key];
        Statement {
            id: self.text("id", &["id"]),
            issued: self.text("issuedAt", &["issuedAt"]),
            agent,
            fingerprint: self.text("agent.authKeyFingerprint", &["agent", "authKeyFingerprint"]),
            policy_id: self.text("authorization.policyId", &["authorization", "policyId"]),
            currency: self.text("authorization.limits.currency", &limit("currency")),
            decimals: self.decimals(),
            daily: self.limit("dailyLimit", false),
            per_request: self.limit("perRequestMax", true),
            auto_below: self.limit("autoApproveBelow", true),
            networks: self.networks(),
            wallet: self.wallet(),
            issuer: kind.zip(version).map(|(kind, version)| format!("{kind} {version}")),
        }
    }

    fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.mandate.get(first)?, |value, key| value.get(key))
    }

    /// Returns a text that must be there and must not be empty.
    fn text(&mut self, name: &'static str, path: &[&str]) -> Option<String> {
        let found = text_of(self.at(path)).filter(|text| !text.is_empty());
        if found.is_none() {
            self.defects.push(Defect::Member(name));
        }
        found
    }

    fn decimals(&mut self) -> Option<u8> {
        let found = self.at(&["authorization", "limits", "decimals"]).and_then(Value::as_number);
        let found = found.and_then(|number| u8::try_from(number.as_u64()?).ok());
        let found = found.filter(|decimals| *decimals <= 18);
        if found.is_none() {
            self.defects.push(Defect::Member("authorization.limits.decimals"));
        }
        found
    }

    fn limit(&mut self, name: &'static str, may_be_null: bool) -> Option<u64> {
        let value = self.at(&["authorization", "limits", name]);
        if may_be_null && value.is_none_or(|value| *value == Value::Null) {
            return None;
        }
        let found = value.and_then(Value::as_number).and_then(|number| number.as_u64());
        let found = found.filter(|limit| *limit <= LIMIT_MAX);
        if found.is_none() {
            self.defects.push(Defect::Limit(name));
        }
        found
    }

    fn networks(&mut self) -> Vec<String> {
        let listed = self.at(&["authorization", "networks"]).and_then(Value::as_array);
        let names: Option<Vec<String>> =
            listed.and_then(|names| names.iter().map(|name| text_of(Some(name))).collect());
        let names = names.filter(|names| !names.is_empty());
        names.unwrap_or_else(|| {
            self.defects.push(Defect::Member("authorization.networks"));
            Vec::new()
        })
    }

    fn wallet(&mut self) -> Option<Address> {
        let found = self.at(&["wallet", "address"]).and_then(Value::as_str);
        let found = found.and_then(|text| bursar_core::address::read(text).ok());
        if found.is_none() {
            self.defects.push(Defect::Member("wallet.address"));
        }
        found
    }

    /// Returns the signer, if the signature is valid, by the named signer, and by the paying address.
    fn signer(&mut self, text: &str, wallet: Option<Address>) -> Result<Address, Defect> {
        let signature = self.mandate.get("signature").filter(|value| **value != Value::Null);
        let signature = signature.ok_or(Defect::Unsigned)?;
        if signature.get("type").and_then(Value::as_str) != Some("EIP191") {
            return Err(Defect::SignatureType);
        }
        let value = signature.get("value").and_then(Value::as_str);
        let value: Signature65 = value.ok_or(Defect::Member("signature.value"))?.parse()?;
        let named = signature.get("signer").and_then(Value::as_str);
        let named = named.and_then(|named| bursar_core::address::read(named).ok());
        let named = named.ok_or(Defect::Member("signature.signer"))?;
        let signer = recover(eip191_hash_message(text), &value)?;
        if signer != named {
            return Err(Defect::OtherSigner);
        }
        if wallet.is_some_and(|wallet| wallet != signer) {
            self.defects.push(Defect::SignerDoesNotPay);
        }
        Ok(signer)
    }
}

fn text_of(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}
