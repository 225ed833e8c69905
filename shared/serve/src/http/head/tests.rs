use super::*;

fn framing(first: &str, lines: &[&str]) -> Result<Framing, Refusal> {
    let bounds = Bounds { refuse_upgrade: true, ..Bounds::public(1) };
    let mut text = format!("{first}\r\nHost: localhost\r\n");
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    let end = HeadScan::default().advance(text.as_bytes(), &bounds.head)?;
    assert_eq!(end, Some(text.len()), "{text:?}");
    check(text.as_bytes(), &bounds).map(|head| head.framing)
}

fn framing_of_post(line: &str) -> Result<Framing, Refusal> {
    framing("POST / HTTP/1.1", &[line])
}

#[test]
fn t_40_a_length_is_one_number_of_plain_digits() {
    assert_eq!(framing_of_post("Content-Length: 0"), Ok(Framing::Complete));
    assert_eq!(framing_of_post("Content-Length: 0012"), Ok(Framing::Length(12)));
    assert_eq!(
        framing_of_post("content-length:9999999999999999 "),
        Ok(Framing::Length(9_999_999_999_999_999))
    );
    for bad in
        ["", "+1", "-1", "1,1", "1 1", "0x1", "1.0", "१", "99999999999999999", "00000000000000001"]
    {
        assert_eq!(
            framing_of_post(&format!("Content-Length: {bad}")),
            Err(Refusal::Length),
            "{bad:?}"
        );
    }
    let twice = framing("POST / HTTP/1.1", &["Content-Length: 1", "Content-Length: 1"]);
    assert_eq!(twice, Err(Refusal::Length));
}

#[test]
fn t_40_chunked_is_the_only_encoding_and_never_next_to_a_length() {
    for good in ["chunked", "Chunked", "CHUNKED"] {
        let line = format!("Transfer-Encoding: {good}");
        assert_eq!(framing_of_post(&line), Ok(Framing::Chunked(Chunks::START)), "{good}");
        assert_eq!(framing("POST / HTTP/1.0", &[&line]), Err(Refusal::Malformed), "{good}");
        for length in ["Content-Length: 0", "Content-Length: 5"] {
            assert_eq!(framing("POST / HTTP/1.1", &[&line, length]), Err(Refusal::Length));
            assert_eq!(framing("POST / HTTP/1.1", &[length, &line]), Err(Refusal::Length));
        }
        assert_eq!(framing("POST / HTTP/1.1", &[&line, &line]), Err(Refusal::Malformed));
    }
    for bad in
        ["", "gzip", "identity", "gzip, chunked", "chunked, chunked", "chunked;q=1", "xchunked"]
    {
        assert_eq!(
            framing_of_post(&format!("Transfer-Encoding: {bad}")),
            Err(Refusal::Malformed),
            "{bad}"
        );
    }
}

#[test]
fn a_body_with_get_or_head_is_refused() {
    for method in ["GET", "HEAD"] {
        let first = format!("{method} /health HTTP/1.1");
        assert_eq!(framing(&first, &["Content-Length: 0"]), Ok(Framing::Complete));
        for line in ["Content-Length: 2", "Transfer-Encoding: chunked"] {
            assert_eq!(framing(&first, &[line]), Err(Refusal::Malformed), "{line}");
        }
    }
    let mut bounds = Bounds::public(1);
    bounds.body.get_with_body_paths = &["/status"];
    let checked = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nContent-Length: 2\r\n\r\n");
        check(head.as_bytes(), &bounds).map(|head| head.framing)
    };
    assert_eq!(checked("/status?x=1"), Ok(Framing::Length(2)));
    assert_eq!(checked("/statuses"), Err(Refusal::Malformed));
}

/// hyper would answer these requests itself, without a body.
#[test]
fn a_target_that_is_no_uri_is_refused() {
    for bad in ["\\/x", "%2fx", "http:///x", "a/b", "?x", "http://a:b/", "/x<"] {
        let refused = framing(&format!("GET {bad} HTTP/1.1"), &[]);
        let expected = bad.parse::<Uri>().map(|_uri| Framing::Complete);
        assert_eq!(refused, expected.map_err(|_invalid| Refusal::Target), "{bad}");
    }
    for target in ["\\/x", "%2fx", "http:///x"] {
        assert_eq!(framing(&format!("GET {target} HTTP/1.1"), &[]), Err(Refusal::Target));
    }
    for good in ["/", "*", "/%ff", "//", "http://a/b?c", "a:80", "/x?y=%00"] {
        assert_eq!(framing(&format!("GET {good} HTTP/1.1"), &[]), Ok(Framing::Complete), "{good}");
    }
}

#[test]
fn unknown_expectations_and_upgrades_are_refused() {
    for bad in ["Upgrade: h2c", "Connection: x, Upgrade", "Expect: 200-ok", "Connection: \u{e9}"] {
        assert_eq!(framing_of_post(bad), Err(Refusal::Malformed), "{bad}");
    }
    let twice = framing("POST / HTTP/1.1", &["Expect: 100-continue", "Expect: 100-continue"]);
    assert_eq!(twice, Err(Refusal::Malformed));
    assert_eq!(framing_of_post("Expect: 100-Continue"), Ok(Framing::Complete));
    let lax = Bounds::public(1);
    let head = b"GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n";
    assert_eq!(check(head, &lax), Ok(Head { framing: Framing::Complete }));
}

#[test]
fn a_head_is_bounded_while_it_arrives() {
    let bounds = HeadBounds { bytes_max: 100, line_bytes_max: 20, lines_max: 2, ms_max: 0 };
    let scan = |text: &str| HeadScan::default().advance(text.as_bytes(), &bounds);
    assert_eq!(scan("GET / HTTP/1.1\r\nA: b\r\n\r\nGET"), Ok(Some(24)));
    assert_eq!(scan("GET / HTTP/1.1\r\nA: b\r\n"), Ok(None));
    assert_eq!(scan(&"x".repeat(21)), Err(Refusal::HeadTooLarge));
    assert_eq!(scan("GET / HTTP/1.1\r\nA: b\r\nA: b\r\nA"), Err(Refusal::HeadTooLarge));
    let long = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(100));
    assert_eq!(scan(&long), Err(Refusal::HeadTooLarge));
    for bad in ["\r\nGET", "GET / HTTP/1.1\nA", "GET / HTTP/1.1\rA", "G\0", "G\u{7f}", "\n"] {
        assert_eq!(scan(bad), Err(Refusal::Malformed), "{bad:?}");
    }
}
