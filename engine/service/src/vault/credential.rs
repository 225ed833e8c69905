//! An agent's credential: the text of its token, its check value and its fingerprint in mandates.

use bursar_core::ids::AgentId;
use bursar_domain::agents::Credential;
use bursar_mandate::Fingerprint;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Returns the fingerprint of an agent's credential; `None` if `secret` is not the secret that an HMAC credential names.
///
/// In both modes it is over the text of the token, so it does not show the mode.
pub(crate) fn fingerprint(
    id: &AgentId,
    credential: &Credential,
    secret: Option<&[u8; 32]>,
) -> Option<Fingerprint> {
    let token: [u8; 32] = match credential {
        Credential::Bearer { sha256 } => *sha256,
        Credential::Hmac { secret_hash } => {
            let secret = secret.filter(|secret| agent_check(id, secret) == *secret_hash)?;
            Sha256::digest(&*token_text(secret)).into()
        }
    };
    let hash: [u8; 32] = Sha256::digest(hex::encode(token)).into();
    hash.first_chunk::<8>().map(|first| Fingerprint(*first))
}

/// Formats an agent's secret as a token: `AT_` and 64 lower-case hex digits.
pub(crate) fn token_text(secret: &[u8; 32]) -> Zeroizing<Vec<u8>> {
    let hex = Zeroizing::new(hex::encode(secret));
    let mut text = Zeroizing::new(Vec::with_capacity(67));
    text.extend_from_slice(b"AT_");
    text.extend_from_slice(hex.as_bytes());
    text
}

/// Hashes an agent's id and secret. The journal stores this check value, so that an older wallet file cannot
/// bring a replaced secret back.
pub(super) fn agent_check(id: &AgentId, secret: &[u8; 32]) -> [u8; 32] {
    let hash = Sha256::new().chain_update(b"bursar agent secret").chain_update(id.as_str());
    hash.chain_update(secret).finalize().into()
}
