//! The request, read once from the arguments. The same bytes are sent without and then with the payment.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json;
use bursar_core::limits::{BODY_DEPTH_MAX, URL_BYTES_MAX};
use bursar_core::text::quoted;
use bursar_outbound::{
    Bytes, Client, HeaderMap, HeaderName, HeaderValue, Method, OutboundRequest, PlainHttpHosts,
    ReplyStream, SendFailure, Target, TargetFault,
};

use crate::args::PayArgs;
use crate::wallet::Payment;

/// Timeout for the head of a response. A server may settle a payment first, or a model may generate text.
const HEAD_WAIT: Duration = Duration::from_secs(600);
/// Length of the fragment that hmac mode adds to the URL: `#` and 32 hex digits.
const FRAGMENT_BYTES: usize = 33;
/// Largest request body. It is kept in memory for the paid request.
const REQUEST_BODY_BYTES_MAX: u64 = 64 << 20;

/// Headers that the caller cannot set.
///
/// The payment header comes from the wallet, and the transport sets framing and routing. If the caller set framing, a
/// server could read two requests in one.
const RESERVED_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "payment-required",
    "payment-response",
    "payment-signature",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-payment",
    "x-payment-response",
];

/// The reason why a request got no response.
pub(crate) enum NoResponse {
    /// Nothing was sent.
    NotSent(String),
    /// The connection ended, and the server may have received the request.
    Lost(String),
    /// The server did not answer in time. It still has the request, and sending it again would only duplicate it.
    TimedOut,
}

impl fmt::Display for NoResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) | Self::Lost(why) => f.write_str(why),
            Self::TimedOut => write!(f, "it took longer than {} seconds", HEAD_WAIT.as_secs()),
        }
    }
}

/// The request to send. It has no `Debug`, because headers and body may hold secrets of the caller.
pub(crate) struct Request {
    pub(crate) url: String,
    pub(crate) target: Target,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Request {
    pub(crate) async fn read(args: &PayArgs) -> Result<Self, Fault> {
        let (url, target) = target(args)?;
        let mut headers = headers(&args.headers)?;
        let method = method(args)?;
        let body = match args.body.clone() {
            None => Vec::new(),
            // Reading from a terminal or a pipe may block for any length of time.
            Some(body) => tokio::task::spawn_blocking(move || read_body(&body))
                .await
                .map_err(|error| Fault::new(Code::InternalError).with_detail(error))??,
        };
        let content_type = HeaderName::from_static("content-type");
        let is_json = || json::parse(&body, BODY_DEPTH_MAX).is_ok();
        if args.body.is_some() && !headers.contains_key(&content_type) && is_json() {
            headers.insert(content_type, HeaderValue::from_static("application/json"));
        }
        Ok(Self { url, target, method, headers, body: body.into() })
    }

    /// Sends the request and any payment, and waits for the head of the response.
    pub(crate) async fn send(
        &self,
        client: &Client,
        payment: Option<&Payment>,
    ) -> Result<ReplyStream, NoResponse> {
        let mut headers = self.headers.clone();
        if let Some(payment) = payment {
            headers.insert(payment.name.clone(), payment.value.clone());
        }
        let (method, body) = (self.method.clone(), self.body.clone());
        let asked = OutboundRequest { method, target: &self.target, headers, body };
        match tokio::time::timeout(HEAD_WAIT, client.open(asked)).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(SendFailure::NotSent(why))) => Err(NoResponse::NotSent(why)),
            Ok(Err(SendFailure::Lost(why))) => Err(NoResponse::Lost(why)),
            Err(_elapsed) => Err(NoResponse::TimedOut),
        }
    }
}

fn invalid_argument(message: impl Into<String>) -> Fault {
    Fault::because(Code::BadInput, message)
}

/// Returns the URL for the wallet's policy, and the target to request.
///
/// The wallet parses the URL in the same way, so the additional character checks only reject URLs that people could
/// misread.
fn target(args: &PayArgs) -> Result<(String, Target), Fault> {
    let url = args.url.split('#').next().unwrap_or_default();
    if url.len() > URL_BYTES_MAX.saturating_sub(FRAGMENT_BYTES)
        || url.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\')
    {
        return Err(invalid_argument(
            "A URL can have at most 4063 bytes, and no spaces, control characters or backslashes.",
        ));
    }
    let plain = if args.allow_http { PlainHttpHosts::Any } else { PlainHttpHosts::ThisMachine };
    let target = Target::parse(url, plain).map_err(|fault| {
        invalid_argument(match fault {
            TargetFault::NotAUrl => "This is not a URL: write it in full, https://…".to_owned(),
            TargetFault::Scheme(at) => format!("{at} must begin with https or http."),
            TargetFault::PlainHttp(at) => format!(
                "{at} is unencrypted http to another machine: any machine on the way could take the payment. Use \
                 https, or --allow-http on a network that you control."
            ),
            TargetFault::UserInfo(at) => {
                format!("{at} has a user name before its host: send it as a header.")
            }
        })
    })?;
    Ok((url.to_owned(), target))
}

fn method(args: &PayArgs) -> Result<Method, Fault> {
    let Some(text) = &args.method else {
        return Ok(if args.body.is_some() { Method::POST } else { Method::GET });
    };
    match Method::from_bytes(text.as_bytes()) {
        Ok(method) if method != Method::CONNECT => Ok(method),
        Ok(_) | Err(_) => Err(invalid_argument(format!(
            "{} is not a valid method for --method.",
            quoted(text, 40)
        ))),
    }
}

fn headers(lines: &[String]) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Err(invalid_argument("A header is written 'Name: value'."));
        };
        let shown = quoted(name, 40);
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_bad| invalid_argument(format!("{shown} is not a valid header name.")))?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            let message = if name.as_str().contains("payment") {
                format!("The header {shown} belongs to the payment: leave it out.")
            } else {
                format!("The header {shown} belongs to the transport and cannot be set.")
            };
            return Err(invalid_argument(message));
        }
        // The message omits the header's value, which may be a secret.
        let value = HeaderValue::from_str(value.trim()).map_err(|_bad| {
            invalid_argument(format!("The value of the header {shown} is not plain text."))
        })?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn read_body(given: &str) -> Result<Vec<u8>, Fault> {
    let (name, source): (&str, Box<dyn Read>) = match given.strip_prefix('@') {
        None => return Ok(given.as_bytes().to_vec()),
        Some("-") => ("standard input", Box::new(io::stdin())),
        Some(path) => match bursar_files::open_or_pipe(Path::new(path)) {
            Ok(file) => (path, Box::new(file)),
            Err(error) => return Err(unreadable_file(path, &error)),
        },
    };
    let mut body = Vec::new();
    let most = REQUEST_BODY_BYTES_MAX.saturating_add(1);
    source.take(most).read_to_end(&mut body).map_err(|error| unreadable_file(name, &error))?;
    if u64::try_from(body.len()).is_ok_and(|length| length < most) {
        Ok(body)
    } else {
        Err(invalid_argument("A body can have at most 64 MiB."))
    }
}

fn unreadable_file(name: &str, error: &io::Error) -> Fault {
    invalid_argument(format!("The body {} cannot be read: {error}.", quoted(name, 200)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(url: &str) -> PayArgs {
        PayArgs {
            url: url.to_owned(),
            method: None,
            body: None,
            headers: Vec::new(),
            max: None,
            wait: None,
            include: false,
            allow_http: false,
        }
    }

    #[test]
    fn payment_and_transport_headers_cannot_be_set() {
        for name in RESERVED_HEADERS {
            for written in [name.to_string(), name.to_uppercase(), format!(" {name} ")] {
                let refused = headers(&[format!("{written}: SECRET")]).unwrap_err();
                assert_eq!(refused.code, Code::BadInput);
                assert!(!refused.message.contains("SECRET"), "{refused}");
            }
        }
        for bad in ["Name", ": x", "a b: c", "X: a\nb", "X: \u{7f}"] {
            assert!(headers(&[bad.to_owned()]).is_err(), "{bad}");
        }
        let fine = headers(&["Accept: a".to_owned(), "accept:b".to_owned()]).unwrap();
        assert_eq!(fine.get_all("accept").iter().count(), 2);
    }

    #[test]
    fn plain_http_is_limited_to_this_machine() {
        for url in
            ["https://a.test/x?y=1", "http://127.0.0.1:1/", "http://[::1]/", "http://localhost/"]
        {
            assert!(target(&args(url)).is_ok(), "{url}");
        }
        for url in [
            "http://a.test/",
            "http://localhost.a.test/",
            "ftp://a.test/",
            "https://user:KEY@a.test/",
            "https://a.test\\@b.test/",
            "https://a.test/a b",
            "a.test",
            "",
        ] {
            let refused = target(&args(url)).unwrap_err();
            assert!(!refused.message.contains("KEY"), "{refused}");
        }
        let plain = PayArgs { allow_http: true, ..args("http://a.test/p#part") };
        assert_eq!(target(&plain).unwrap().0, "http://a.test/p", "a fragment is never sent");
    }

    #[test]
    fn body_implies_post_unless_a_method_is_given() {
        let with = |method: Option<&str>, body: Option<&str>| {
            let (method, body) = (method.map(str::to_owned), body.map(str::to_owned));
            super::method(&PayArgs { method, body, ..args("https://a.test") })
        };
        assert_eq!(with(None, None).unwrap(), Method::GET);
        assert_eq!(with(None, Some("")).unwrap(), Method::POST);
        assert_eq!(with(Some("PUT"), Some("x")).unwrap(), Method::PUT);
        assert_eq!(with(Some("BREW"), None).unwrap().as_str(), "BREW");
        assert!(with(Some("CONNECT"), None).is_err() && with(Some("A B"), None).is_err());
    }
}
