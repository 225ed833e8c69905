//! The paying agent: its identity and its proof to the wallet.
//!
//! Both come only from the four variables that `bursar agent instructions` prints, never from arguments. The
//! operator's control channel is not used.

use bursar_core::canonical;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::json::{Object, Value};
use bursar_outbound::{PlainHttpHosts, Target};
use bursar_tui::oneshot::Failure;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use zeroize::Zeroizing;

const ID_VARIABLE: &str = "WALLET_AGENT_ID";
const TOKEN_VARIABLE: &str = "WALLET_AGENT_TOKEN";
const MODE_VARIABLE: &str = "WALLET_AUTH_MODE";
const URL_VARIABLE: &str = "WALLET_URL";

const INSTRUCTIONS: &str = "eval \"$(bursar agent instructions <agent>)\"";

/// An agent and the URL of its wallet. It has no `Debug`, because it holds the token.
pub(crate) struct Agent {
    id: AgentId,
    token: SecretString,
    uses_bearer: bool,
    /// The field that names the agent in bodies and signed messages.
    field: &'static str,
    /// The base URL of the wallet's agent server.
    pub(crate) wallet: Target,
}

impl Agent {
    pub(crate) fn from_environment(
        field: &'static str,
        read: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, Failure> {
        let found = |name: &'static str| {
            let value = read(name).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| {
                misconfigured(format!("`bursar pay` pays as an agent, and {name} is not set."))
            })?;
            value.into_string().map_err(|_not_utf8| misconfigured(format!("{name} is not text.")))
        };
        let id = found(ID_VARIABLE)?
            .parse()
            .map_err(|error| misconfigured(format!("{ID_VARIABLE}: {error}.")))?;
        let token = SecretString::from(found(TOKEN_VARIABLE)?);
        let bearer = match found(MODE_VARIABLE)?.as_str() {
            "hmac" => false,
            "bearer" => true,
            _other => {
                return Err(misconfigured(format!("{MODE_VARIABLE} must be hmac or bearer.")));
            }
        };
        if decode_token(&token).is_none() {
            return Err(misconfigured(format!("{TOKEN_VARIABLE} must be AT_ and 64 hex digits.")));
        }
        // Plain http is allowed because the operator chose this URL and its network, as in the wallet's LAN mode.
        let wallet =
            Target::parse(&found(URL_VARIABLE)?, PlainHttpHosts::Any).map_err(|_fault| {
                misconfigured(format!("{URL_VARIABLE} is not a valid wallet URL."))
            })?;
        Ok(Self { id, token, uses_bearer: bearer, field, wallet })
    }

    pub(crate) fn is_bearer(&self) -> bool {
        self.uses_bearer
    }

    /// Returns the body of `/sign` for an offer made at `url`.
    ///
    /// Every call is a separate purchase, even within the same second, so a retry must send the same body again.
    pub(crate) fn sign_body(&self, content: Object, url: &str) -> Result<Zeroizing<String>, Fault> {
        let mut entropy = [0u8; 16];
        getrandom::fill(&mut entropy)
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        let unique = hex::encode(entropy);
        if self.uses_bearer {
            let content = content.with("request_url", url);
            let body = self.with_proof(content.clone(), content)?;
            return Ok(to_json_text(body.with("idempotency_key", unique)));
        }
        // In hmac mode the signature identifies the purchase. It covers the URL and the time in whole seconds, but
        // no idempotency key. A random fragment makes the URL unique: servers never receive a fragment, and
        // policies ignore it.
        let content = content.with("request_url", format!("{url}#{unique}"));
        Ok(to_json_text(self.with_proof(content.clone(), content)?))
    }

    /// Returns the body of `/callback`. The body is flat, but the signed message nests it under `callback`.
    pub(crate) fn callback_body(&self, told: Object) -> Result<Zeroizing<String>, Fault> {
        let signed = Object::new().with("callback", told.clone());
        Ok(to_json_text(self.with_proof(signed, told)?))
    }

    /// Returns the body of `/mandate`, which has no content.
    pub(crate) fn mandate_body(&self) -> Result<Zeroizing<String>, Fault> {
        let signed = Object::new().with("action", "agent_read");
        Ok(to_json_text(self.with_proof(signed, Object::new())?))
    }

    fn with_proof(&self, signed: Object, sent: Object) -> Result<Object, Fault> {
        let sent = sent.with(self.field, self.id.as_str());
        if self.uses_bearer {
            return Ok(sent.with("signature", self.token.expose_secret()));
        }
        let now = now_s();
        let message = signed.with(self.field, self.id.as_str()).with("timestamp", now);
        let text = canonical::to_python(&Value::Object(message));
        let broken = || Fault::new(Code::InternalError);
        let key = decode_token(&self.token).ok_or_else(broken)?;
        let mac = Hmac::<Sha256>::new_from_slice(&*key).map_err(|_length| broken())?;
        let digest = hex::encode(mac.chain_update(text).finalize().into_bytes());
        Ok(sent.with("signature", format!("SIG:{now}:{digest}")))
    }
}

/// Returns the seconds since 1970 by this machine's clock. The wallet compares them with its own clock.
pub(crate) fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn to_json_text(body: Object) -> Zeroizing<String> {
    Zeroizing::new(body.to_compact())
}

/// Decodes the 32 bytes after `AT_`.
///
/// A bearer token has the same form, but its text itself is the secret.
fn decode_token(token: &SecretString) -> Option<Zeroizing<[u8; 32]>> {
    let digits = token.expose_secret().strip_prefix("AT_")?;
    let mut key = Zeroizing::new([0; 32]);
    hex::decode_to_slice(digits, &mut *key).ok()?;
    Some(key)
}

fn misconfigured(message: String) -> Failure {
    let fault = Fault::because(
        Code::BadInput,
        format!("{message}\nSet the four variables of an agent with: {INSTRUCTIONS}"),
    );
    Failure { fault, hint: Some(INSTRUCTIONS.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any 32 bytes work here; this is not the key of the wallet's test vectors.
    const SECRET: &str = "AT_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn agent(change: (&str, &str)) -> Result<Agent, Failure> {
        let usual = [
            (ID_VARIABLE, "ABC123"),
            (TOKEN_VARIABLE, SECRET),
            (MODE_VARIABLE, "hmac"),
            (URL_VARIABLE, "http://127.0.0.1:9402"),
        ];
        Agent::from_environment("agent_id", |name| {
            let (_, value) = usual.iter().find(|(known, _)| *known == name)?;
            let value = if change.0 == name { change.1 } else { value };
            Some(value.into())
        })
    }

    #[test]
    fn invalid_agent_variables_are_named_without_showing_the_token() {
        for (name, values) in [
            (ID_VARIABLE, &["", "abc123", "ABC1234"][..]),
            (TOKEN_VARIABLE, &["", "AT_", "AT_00", SECRET.trim_start_matches("AT"), "Bearer x"]),
            (MODE_VARIABLE, &["", "HMAC", "basic"]),
            (URL_VARIABLE, &["", "wallet", "ftp://127.0.0.1", "http://a@127.0.0.1"]),
        ] {
            for value in values {
                let failure = agent((name, value)).err().unwrap();
                let told = failure.fault.message;
                assert!(
                    told.contains(name) && told.contains("bursar agent instructions"),
                    "{told}"
                );
                assert!(!told.contains("0001020304"), "{told}");
            }
        }
        assert!(agent(("", "")).is_ok());
    }

    #[test]
    fn every_purchase_is_unique_and_its_hmac_covers_all_sent_fields() {
        let content = || Object::new().with("payment_required", "e30=");
        let url = "http://a/ü";
        let read = |agent: &Agent| {
            let body = agent.sign_body(content(), url).unwrap();
            bursar_core::json::parse(body.as_bytes(), 9).unwrap()
        };
        let bearer = agent((MODE_VARIABLE, "bearer")).unwrap();
        let key_of = || {
            let read = read(&bearer);
            let text = |key: &str| read.get(key).and_then(Value::as_str).unwrap().to_owned();
            assert_eq!(
                (text("signature"), text("request_url")),
                (SECRET.to_owned(), url.to_owned())
            );
            text("idempotency_key")
        };
        assert_ne!(key_of(), key_of());

        let hmac = agent(("", "")).unwrap();
        let mut digests = std::collections::BTreeSet::new();
        // All purchases are made within one second, like those of processes that start together.
        for _each in 0..50 {
            let read = read(&hmac);
            let text = |key: &str| read.get(key).and_then(Value::as_str).unwrap();
            let (stamp, digest) =
                text("signature").strip_prefix("SIG:").unwrap().split_once(':').unwrap();
            let asked = text("request_url");
            let unique = asked.strip_prefix("http://a/ü#").unwrap();
            assert!(unique.len() == 32 && unique.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let message = format!(
                "{{\"agent_id\":\"ABC123\",\"payment_required\":\"e30=\",\"request_url\":\
                 \"http://a/\\u00fc#{unique}\",\"timestamp\":{stamp}}}"
            );
            let key: Vec<u8> = (0..32).collect();
            let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(message);
            assert_eq!(digest, hex::encode(mac.finalize().into_bytes()));
            assert!(read.get("idempotency_key").is_none());
            assert!(digests.insert(digest.to_owned()), "two purchases, one proof");
        }
    }
}
