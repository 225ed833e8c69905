//! The canonical JSON that agents sign: the output of CPython's `json.dumps(…, separators=(',', ':'), sort_keys=True)`
//! for the value that `json.loads` read. Never computes with floats, only formats them.

use crate::json::{Number, Object, Value, push_string};

/// Returns the canonical text, ASCII only.
///
/// It depends on the value alone, not on white space, escapes or key order in the source text.
pub fn to_python(value: &Value) -> String {
    let mut out = String::new();
    push_value(&mut out, value);
    out
}

fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => push_number(out, number),
        Value::String(text) => push_ascii(out, text),
        Value::Array(items) => {
            let mut before = '[';
            for item in items {
                out.push(before);
                push_value(out, item);
                before = ',';
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(object) => push_object(out, object),
    }
}

fn push_object(out: &mut String, object: &Object) {
    let mut members: Vec<(&str, &Value)> = object.iter().collect();
    // Python sorts by code point, and UTF-8 bytes sort the same way (UTF-16 units would not).
    members.sort_unstable_by_key(|(key, _)| *key);
    let mut before = '{';
    for (key, value) in members {
        out.push(before);
        push_ascii(out, key);
        out.push(':');
        push_value(out, value);
        before = ',';
    }
    out.push_str(if object.is_empty() { "{}" } else { "}" });
}

/// Writes a string in printable ASCII. It escapes DEL too, as Python's `ensure_ascii` does.
fn push_ascii(out: &mut String, text: &str) {
    push_string(out, text, |character| matches!(character, ' '..='~'));
}

fn push_number(out: &mut String, number: &Number) {
    match number.text() {
        // A Python `int` has no negative zero.
        "-0" => out.push('0'),
        text if number.is_integer() => out.push_str(text),
        text => match text.parse::<f64>() {
            Ok(double) => push_repr(out, double),
            Err(_) => out.push_str(text),
        },
    }
}

/// Writes a double as Python's `repr(float)`.
///
/// Uses the fewest digits that read back as the same double, and an exponent for values below 1e-4 or from 1e16 on
/// (`float_repr_style` "short"; `format_float_short` in CPython's `pystrtod.c`).
fn push_repr(out: &mut String, double: f64) {
    let shortest = shortest_digits(double);
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (sign, mantissa) =
        mantissa.strip_prefix('-').map_or(("", mantissa), |unsigned| ("-", unsigned));
    let (direction, steps) =
        exponent.strip_prefix('-').map_or(('+', exponent), |unsigned| ('-', unsigned));
    let places: usize = steps.parse().unwrap_or(0);
    let digits = || mantissa.chars().filter(|c| *c != '.');
    out.push_str(sign);
    match direction {
        '-' if places > 4 => out.push_str(&format!("{mantissa}e-{places:02}")),
        '+' if places >= 16 => out.push_str(&format!("{mantissa}e+{places:02}")),
        '-' => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', places.saturating_sub(1)));
            out.extend(digits());
        }
        _ => {
            let whole = places.saturating_add(1);
            out.extend(digits().chain(std::iter::repeat('0')).take(whole));
            out.push('.');
            let mut fraction = digits().skip(whole).peekable();
            if fraction.peek().is_none() {
                out.push('0');
            }
            out.extend(fraction);
        }
    }
}

/// Returns `-d.ddde-x` with the fewest digits that read back as the same double.
///
/// If two texts of that length are equally near to the double, Python takes the text with the even last digit, but
/// Rust's shortest form is the upper text: for 2⁻²⁵ they end in …12 and …13. Rust also takes the even digit when it
/// rounds to a given number of digits, so this function rounds to the length of the shortest form. At a power of two,
/// the rounded text may read back as the next lower double, because that double is nearer than the next higher one.
/// In that case this function returns the shortest form.
fn shortest_digits(double: f64) -> String {
    let shortest = format!("{double:e}");
    let mantissa = shortest.split_once('e').map_or("", |(mantissa, _)| mantissa);
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let rounded = format!("{double:.decimals$e}");
    let reads_back = rounded.parse::<f64>().is_ok_and(|read| read.to_bits() == double.to_bits());
    if reads_back { rounded } else { shortest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;
    use crate::json::tests::any_value;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        to_python(&parse(text.as_bytes(), 127).unwrap())
    }

    #[test]
    fn keys_are_sorted_by_code_point_at_every_depth() {
        let text = r#"[{"b":{"z":1,"a":2},"😀":3,"\ue000":4,"B":[]}]"#;
        let sorted = r#"[{"B":[],"b":{"a":2,"z":1},"\ue000":4,"\ud83d\ude00":3}]"#;
        assert_eq!(canonical(text), sorted);
    }

    #[test]
    fn doubles_are_written_as_python_writes_them() {
        let cases = [
            ("10.50", "10.5"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1e-4", "0.0001"),
            ("9.999999999999999e-5", "9.999999999999999e-05"),
            ("1E15", "1000000000000000.0"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("1e16", "1e+16"),
            ("5e-324", "5e-324"),
            ("-1.5e300", "-1.5e+300"),
            ("123456.789", "123456.789"),
            // Halfway between two shortest forms: the even digit wins, whether it is the lower or the upper one.
            ("2.98023223876953125e-08", "2.9802322387695312e-08"),
            ("1125899906842624.25", "1125899906842624.2"),
            ("1125899906842624.75", "1125899906842624.8"),
            ("5.6843418860808015e-14", "5.684341886080802e-14"),
            // A power of two: the nearest 16 digits would read back as the double below.
            ("5.9604644775390625e-8", "5.960464477539063e-08"),
        ];
        for (written, python) in cases {
            assert_eq!(canonical(written), python, "{written}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn canonicalization_is_idempotent(value in any_value()) {
            let once = to_python(&value);
            prop_assert!(once.is_ascii());
            prop_assert_eq!(canonical(&once), once);
        }

        #[test]
        fn every_finite_double_keeps_its_value(bits in any::<u64>()) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            let written = canonical(&format!("{double:e}"));
            prop_assert_eq!(written.parse::<f64>().unwrap().to_bits(), bits);
        }
    }
}
