//! Where a request's body ends. The one question whose two answers make request smuggling: whatever is not
//! plain is refused.

use axum::http::{HeaderMap, Method, Request, Version, header};
use bursar_core::codes::Code;
use bursar_core::limits::LENGTH_DIGITS;

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Empty,
    /// So many bytes, at least one.
    Length(u64),
    Chunked,
}

/// Judges `Content-Length` and `Transfer-Encoding` together.
pub(super) fn of(request: &Request<()>) -> Result<Framing, Code> {
    let headers = request.headers();
    let framing = match (length(headers)?, is_chunked(headers, request.version())?) {
        (Some(_), true) => return Err(Code::InvalidContentLength),
        (None, true) => Framing::Chunked,
        (None | Some(0), false) => Framing::Empty,
        (Some(length), false) => Framing::Length(length),
    };
    // Nobody expects a body there, so some reader on the way may take it for the next request. /status
    // takes a proof in one.
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read && framing != Framing::Empty && request.uri().path() != "/status" {
        return Err(Code::BadRequest);
    }
    Ok(framing)
}

fn length(headers: &HeaderMap) -> Result<Option<u64>, Code> {
    let mut lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let digits = match (lines.next(), lines.next()) {
        (None, _) => return Ok(None),
        (Some(digits), None) => digits.as_bytes(),
        (Some(_), Some(_)) => return Err(Code::InvalidContentLength),
    };
    let plain = digits.len() <= LENGTH_DIGITS && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_text| plain);
    let number = text.and_then(|text| text.parse().ok());
    number.map(Some).ok_or(Code::InvalidContentLength)
}

fn is_chunked(headers: &HeaderMap, version: Version) -> Result<bool, Code> {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Ok(false),
        (Some(one), None)
            if version == Version::HTTP_11 && one.as_bytes().eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(true)
        }
        (Some(_), _) => Err(Code::BadRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(version: Version, method: &str, lines: &[(&str, &str)]) -> Result<Framing, Code> {
        let mut request = Request::builder().method(method).uri("/sign").version(version);
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        of(&request.body(()).unwrap())
    }

    #[test]
    fn t_40_a_length_is_one_number_of_plain_digits() {
        let post = |value| framed(Version::HTTP_11, "POST", &[("content-length", value)]);
        assert_eq!(post("0"), Ok(Framing::Empty));
        assert_eq!(post("0012"), Ok(Framing::Length(12)));
        assert_eq!(post("9999999999999999"), Ok(Framing::Length(9_999_999_999_999_999)));
        for bad in [
            "",
            "+1",
            "-1",
            "1,1",
            "1 1",
            "0x1",
            "1.0",
            "१",
            "99999999999999999",
            "00000000000000001",
        ] {
            assert_eq!(post(bad), Err(Code::InvalidContentLength), "{bad:?}");
        }
        let twice = [("content-length", "1"), ("content-length", "1")];
        assert_eq!(framed(Version::HTTP_11, "POST", &twice), Err(Code::InvalidContentLength));
    }

    #[test]
    fn t_40_chunked_is_the_one_encoding_and_never_beside_a_length() {
        let post = |version, lines: &[_]| framed(version, "POST", lines);
        for good in ["chunked", "Chunked", "CHUNKED"] {
            let lines = [("transfer-encoding", good)];
            assert_eq!(post(Version::HTTP_11, &lines), Ok(Framing::Chunked), "{good}");
            assert_eq!(post(Version::HTTP_10, &lines), Err(Code::BadRequest), "{good}");
        }
        for bad in
            ["", "gzip", "identity", "gzip, chunked", "chunked, chunked", "chunked;q=1", "xchunked"]
        {
            let lines = [("transfer-encoding", bad)];
            assert_eq!(post(Version::HTTP_11, &lines), Err(Code::BadRequest), "{bad}");
        }
        let twice = [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        assert_eq!(post(Version::HTTP_11, &twice), Err(Code::BadRequest));
        for length in ["0", "5"] {
            let both = [("content-length", length), ("transfer-encoding", "chunked")];
            assert_eq!(post(Version::HTTP_11, &both), Err(Code::InvalidContentLength));
        }
    }
}
