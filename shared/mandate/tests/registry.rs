//! The replies of a registry: only our own signed text counts, whatever is around it.

#![expect(clippy::unwrap_used, reason = "helpers of an integration test stand outside #[test]")]

use bursar_core::json::{Value, parse};
use bursar_mandate::{
    LookupReply, MandateId, RegistryEntry, RegistryRefusal, UploadReply, Wanted, read, read_lookup,
    read_upload,
};
use proptest::prelude::*;

/// Returns a mandate that eth-account signed, and what its issuer looks for.
fn wanted() -> (String, Wanted) {
    for line in include_str!("vectors/mandates.jsonl").lines() {
        let case = parse(line.as_bytes(), 16).unwrap();
        let mandate = case.get("mandate").unwrap();
        let id = mandate.get("id").and_then(Value::as_str).and_then(|id| id.parse().ok());
        let Some(id) = id.filter(|_id| mandate.get("registryId").is_none()) else { continue };
        let document = mandate.to_compact();
        let found = read(document.as_bytes()).unwrap();
        return (document, Wanted { id, text: found.text, signer: found.signer.unwrap() });
    }
    unreachable!("a vector has a usable id")
}

fn entry(id: &str, url: Option<&str>) -> RegistryEntry {
    RegistryEntry { id: id.to_owned(), url: url.map(str::to_owned) }
}

#[test]
fn upload_is_published_only_by_an_answer_that_names_an_id() {
    let id = MandateId::from_entropy([7; 16]);
    let with = |status: u16, body: String| read_upload(status, body.as_bytes(), id);
    let own = entry(&id.to_string(), Some("https://r.test/x"));
    let body = format!(r#"{{"id":"{id}","url":"https://r.test/x","message":"m"}}"#);
    for status in [200, 201] {
        assert_eq!(with(status, body.clone()), UploadReply::Published(own.clone()));
    }
    let long = "u".repeat(2_001);
    let body = format!(r#"{{"id":"{id}","url":"{long}"}}"#);
    assert_eq!(with(201, body), UploadReply::Published(entry(&id.to_string(), None)));
    let named = with(201, r#"{"id":"R-1","url":7}"#.to_owned());
    assert_eq!(named, UploadReply::Renamed(entry("R-1", None)));
    for body in [
        "",
        "<html>",
        "{}",
        "[]",
        r#"{"id":7}"#,
        r#"{"id":""}"#,
        r#"{"id":"pay me"}"#,
        r#"{"id":"a","id":"b"}"#,
        &format!(r#"{{"id":"{}"}}"#, "a".repeat(65)),
    ] {
        assert_eq!(with(201, body.to_owned()), UploadReply::Unclear, "{body}");
    }
    assert_eq!(with(400, r#"{"code":"DUPLICATE_ID"}"#.to_owned()), UploadReply::Unclear);
    for status in [100, 202, 204, 408, 409, 500, 502, 599] {
        assert_eq!(with(status, String::new()), UploadReply::Unclear, "{status}");
    }
    for (status, body, refusal) in [
        (400, r#"{"code":"INVALID_NETWORK"}"#, RegistryRefusal::InvalidNetwork),
        (400, r#"{"error":"MISSING_AGENT_ID"}"#, RegistryRefusal::MissingAgentId),
        (422, r#"{"error":{"code":"INVALID_MANDATE"}}"#, RegistryRefusal::InvalidMandate),
        (400, r#"{"error":"words","code":"INVALID_AGENT_ID"}"#, RegistryRefusal::InvalidAgentId),
        (400, "<html>", RegistryRefusal::Other(400)),
        (403, r#"{"code":"SIGNER_MISMATCH"}"#, RegistryRefusal::SignerMismatch),
        (403, "", RegistryRefusal::Other(403)),
        (413, "", RegistryRefusal::PayloadTooLarge),
        (429, "", RegistryRefusal::Other(429)),
    ] {
        assert_eq!(with(status, body.to_owned()), UploadReply::Refused(refusal), "{body}");
    }
}

#[test]
fn lookup_finds_our_text_in_every_documented_place() {
    let (document, wanted) = wanted();
    let id = wanted.id.to_string();
    let added = document.replacen('{', r#"{"registryId":"R-1","registryUrl":"https://r.test","#, 1);
    for (body, found) in [
        (document.clone(), entry(&id, None)),
        (added.clone(), entry("R-1", Some("https://r.test"))),
        (format!(r#"{{"mandate":{document}}}"#), entry(&id, None)),
        (
            format!(r#"{{"mandate":{document},"url":"https://p.test"}}"#),
            entry(&id, Some("https://p.test")),
        ),
        (format!("[{document}]"), entry(&id, None)),
        (format!(r#"{{"mandates":[{{"id":"x"}},{added}]}}"#), entry("R-1", Some("https://r.test"))),
    ] {
        let reply = read_lookup(200, body.as_bytes(), &wanted);
        assert_eq!(reply, LookupReply::Published(found), "{body}");
    }
    assert_eq!(read_lookup(404, document.as_bytes(), &wanted), LookupReply::Absent);
    for status in [201, 301, 400, 403, 500] {
        assert_eq!(read_lookup(status, document.as_bytes(), &wanted), LookupReply::Unclear);
    }
    let other = document.replace(&id, "11111111-1111-4111-8111-111111111111");
    for body in ["", "null", "<html>", "{}", &other] {
        assert_eq!(read_lookup(200, body.as_bytes(), &wanted), LookupReply::Unclear, "{body}");
    }
    for body in ["[]", r#"{"mandates":[]}"#, &format!("[{other}]")] {
        assert_eq!(read_lookup(200, body.as_bytes(), &wanted), LookupReply::Absent, "{body}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// One changed byte of the mandate is never our mandate, unless it means the same JSON.
    #[test]
    fn changed_copy_is_not_ours(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let (document, wanted) = wanted();
        let mut bytes = document.clone().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        if let LookupReply::Published(_) = read_lookup(200, &bytes, &wanted) {
            let same = read(&bytes).unwrap();
            prop_assert!(same.is_good() && same.text == wanted.text);
        }
    }

    /// No reply ends in a panic.
    #[test]
    fn any_reply_is_read(status in 0..1_000u16, body in prop::collection::vec(any::<u8>(), 0..300)) {
        let (_document, wanted) = wanted();
        let _shown = read_upload(status, &body, wanted.id);
        let _shown = read_lookup(status, &body, &wanted);
    }
}
