//! A receipt as a page: for browsers, phones and paper. It has no script, no style and no link, so nothing in it runs or
//! loads, and texts from outside are escaped.

use bursar_core::json::{Object, Value};
use bursar_core::text::{host_note, visible};

/// The policy of a page that was saved as a file. The agent server sends one as a header, too.
const POLICY: &str = "default-src 'none'";

/// Characters of a long word after which a line may break, so that a hash fits the width of a phone.
const BREAK_AFTER: usize = 10;

/// Renders a receipt.
///
/// Fields that are null are left out.
pub fn page(receipt: &Object) -> String {
    let (mut fields, mut sections) = (String::new(), String::new());
    for (key, value) in receipt.iter() {
        match value {
            Value::Object(inner) => {
                let mut rows = String::new();
                add_rows(&mut rows, "", inner);
                if !rows.is_empty() {
                    sections.push_str(&format!("<h2>{}</h2><dl>{rows}</dl>", words(key)));
                }
            }
            other => add_value(&mut fields, &words(key), other),
        }
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Receipt</title><h1>Receipt</h1><dl>{fields}</dl>{sections}</html>"
    )
}

fn add_rows(rows: &mut String, path: &str, object: &Object) {
    for (key, value) in object.iter() {
        let name = words(key);
        let name = if path.is_empty() { name } else { format!("{path} {name}") };
        match value {
            Value::Object(inner) => add_rows(rows, &name, inner),
            other => add_value(rows, &name, other),
        }
    }
}

fn add_value(rows: &mut String, name: &str, value: &Value) {
    match value {
        Value::Null | Value::Object(_) => {}
        Value::String(text) => add_row(rows, name, &with_host(text)),
        Value::Array(texts) => {
            for text in texts.iter().filter_map(Value::as_str) {
                add_row(rows, name, &with_host(text));
            }
        }
        other => add_row(rows, name, &other.to_compact()),
    }
}

/// Appends the host to a URL that does not show it plainly. Returns other texts unchanged.
fn with_host(text: &str) -> String {
    host_note(text).map_or_else(|| text.to_owned(), |note| format!("{text} ({note})"))
}

fn add_row(rows: &mut String, name: &str, value: &str) {
    let (name, value) = (escape(name, usize::MAX), escape(&visible(value), BREAK_AFTER));
    rows.push_str(&format!("<dt><b>{name}</b><dd>{value}"));
}

/// Splits a key like `txHash` into words.
fn words(key: &str) -> String {
    let mut words = String::with_capacity(key.len());
    for ch in key.chars() {
        if ch.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(ch.to_ascii_lowercase());
    }
    words
}

/// Escapes text for HTML. A word may break after every `break_after` characters.
fn escape(text: &str, break_after: usize) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut run = 0usize;
    for c in text.chars() {
        if run >= break_after {
            safe.push_str("<wbr>");
            run = 0;
        }
        run = if c == ' ' { 0 } else { run.saturating_add(1) };
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_every_field_and_escapes_markup() {
        let inner = Object::new()
            .with("url", "https://shop.test@evil.test/a?b&c")
            .with("note", "<script>\"it's\"</script>\u{202e}")
            .with("missing", Value::Null)
            .with("wallet", Object::new().with("txHash", "0x0123456789abcdef"));
        let receipt = Object::new()
            .with("id", "7")
            .with("payment", inner)
            .with("empty", Object::new().with("missing", Value::Null))
            .with("urls", Value::Array(vec!["https://ok.test/".into(), "plain".into()]))
            .with("times", 2u64);
        let page = page(&receipt);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>"), "{page}");
        for absent in ["<script", "style", "href", "src=", "missing", "empty", "\u{202e}"] {
            assert!(!page.contains(absent), "{absent} in {page}");
        }
        let whole = page.replace("<wbr>", "");
        let rows: Vec<&str> = whole.split("<dt><b>").skip(1).collect();
        assert_eq!(
            rows,
            [
                "id</b><dd>7",
                "urls</b><dd>https://ok.test/",
                "urls</b><dd>plain",
                "times</b><dd>2</dl><h2>payment</h2><dl>",
                "url</b><dd>https://shop.test@evil.test/a?b&amp;c (host evil.test)",
                "note</b><dd>&lt;script&gt;&quot;it&#39;s&quot;&lt;/script&gt;\\u{202e}",
                "wallet tx hash</b><dd>0x0123456789abcdef</dl></html>",
            ]
        );
        assert!(page.contains("0x01234567<wbr>89abcdef"), "{page}");
    }
}
