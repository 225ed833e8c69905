//! Forms of stored values: how a type with new fields reads the values of older builds, and how older builds read its
//! values.
//!
//! The journal stores postcard, which names neither fields nor variants. So a stored type may change only in these
//! ways:
//!
//! 1. A variant is appended to an enum. Older values do not contain it, so no new form is needed.
//! 2. A field is added to a struct, at any place, with a new form: raise [`NEWEST_FORM`], add a module next to
//!    [`added_in_form_9`], and mark the field with `#[serde(default, with = "stored::added_in_form_9")]`. In an older
//!    form it reads as its default.
//! 3. Any other change is a new event next to the old one, which is still read. Nothing is removed, reordered, or
//!    inserted between variants.
//!
//! A value is written in the oldest form that can hold all of it. So an older build reads a journal up to the first
//! entry that uses a new form or variant.

use std::cell::Cell;

/// The oldest form that this build reads; it also reads all forms up to [`NEWEST_FORM`].
pub const OLDEST_READABLE_FORM: u8 = 7;

/// The newest form.
pub const NEWEST_FORM: u8 = 9;

thread_local! {
    // Thread-local, because neither serde nor postcard passes a context to a field.
    static FORM: Cell<u8> = const { Cell::new(NEWEST_FORM) };
    static IS_COMPLETE: Cell<bool> = const { Cell::new(true) };
}

/// Reads a value that was written in `form`.
pub fn read_in_form<T>(form: u8, read: impl FnOnce() -> T) -> T {
    let _restored_at_the_end = FormGuard::enter(form);
    read()
}

/// Writes a value in the oldest form that can hold all of it.
///
/// `write` receives the form, and may be called several times.
pub fn write_in_oldest_form<T>(mut write: impl FnMut(u8) -> T) -> T {
    for form in OLDEST_READABLE_FORM..NEWEST_FORM {
        let _restored_at_the_end = FormGuard::enter(form);
        IS_COMPLETE.set(true);
        let written = write(form);
        if IS_COMPLETE.get() {
            return written;
        }
    }
    let _restored_at_the_end = FormGuard::enter(NEWEST_FORM);
    write(NEWEST_FORM)
}

/// Sets the form of this thread until it is dropped.
struct FormGuard(u8);

impl FormGuard {
    fn enter(form: u8) -> Self {
        Self(FORM.replace(form))
    }
}

impl Drop for FormGuard {
    fn drop(&mut self) {
        FORM.set(self.0);
    }
}

/// Defines the module for fields that a form added.
macro_rules! added_in_form {
    ($(#[$doc:meta])* $name:ident, $form:literal) => {
        $(#[$doc])*
        pub mod $name {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            /// Writes the field, or nothing in an older form.
            ///
            /// # Errors
            /// Those of the serializer.
            pub fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
            where
                T: Serialize + Default + PartialEq,
                S: Serializer,
            {
                super::write_since($form, value, to)
            }

            /// Reads the field, or returns its default in an older form.
            ///
            /// # Errors
            /// Those of the deserializer.
            pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
            where
                T: Deserialize<'de> + Default,
                D: Deserializer<'de>,
            {
                super::read_since($form, from)
            }
        }
    };
}

added_in_form!(
    /// For fields that form 8 added.
    added_in_form_8,
    8
);
added_in_form!(
    /// For fields that form 9 added.
    added_in_form_9,
    9
);

fn write_since<T, S>(form: u8, value: &T, to: S) -> Result<S::Ok, S::Error>
where
    T: serde::Serialize + Default + PartialEq,
    S: serde::Serializer,
{
    if to.is_human_readable() || FORM.get() >= form {
        return value.serialize(to);
    }
    if *value != T::default() {
        IS_COMPLETE.set(false);
    }
    // postcard writes no bytes for a unit.
    to.serialize_unit()
}

fn read_since<'de, T, D>(form: u8, from: D) -> Result<T, D::Error>
where
    T: serde::Deserialize<'de> + Default,
    D: serde::Deserializer<'de>,
{
    if from.is_human_readable() || FORM.get() >= form {
        T::deserialize(from)
    } else {
        Ok(T::default())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Before {
        first: u8,
        last: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Now {
        first: u8,
        #[serde(default, with = "added_in_form_9")]
        added: Option<u16>,
        last: String,
    }

    fn now(added: Option<u16>) -> Now {
        Now { first: 1, added, last: "end".to_owned() }
    }

    fn write_now(value: &Now) -> (u8, Vec<u8>) {
        write_in_oldest_form(|form| (form, postcard::to_allocvec(value).unwrap()))
    }

    #[test]
    fn a_value_without_the_new_field_keeps_the_old_form_and_any_build_reads_it() {
        let (form, bytes) = write_now(&now(None));
        assert_eq!(form, OLDEST_READABLE_FORM);
        let old = Before { first: 1, last: "end".to_owned() };
        assert_eq!(postcard::from_bytes::<Before>(&bytes), Ok(old));
        assert_eq!(
            read_in_form(OLDEST_READABLE_FORM, || postcard::from_bytes::<Now>(&bytes)),
            Ok(now(None))
        );
    }

    #[test]
    fn a_value_with_the_new_field_takes_the_new_form_and_loses_nothing() {
        let (form, bytes) = write_now(&now(Some(300)));
        assert_eq!(form, NEWEST_FORM);
        assert_eq!(
            read_in_form(NEWEST_FORM, || postcard::from_bytes::<Now>(&bytes)),
            Ok(now(Some(300)))
        );
        // Outside of `read_in_form` and `write_in_oldest_form` the form is the newest, also after a panic in them.
        let fails = || read_in_form(OLDEST_READABLE_FORM, || panic!("a bug"));
        assert!(std::panic::catch_unwind(fails).is_err());
        assert_eq!(postcard::from_bytes::<Now>(&bytes), Ok(now(Some(300))));
        assert_eq!(postcard::to_allocvec(&now(Some(300))).unwrap(), bytes);
    }

    #[test]
    fn json_has_every_field_in_every_form_and_reads_without_it() {
        let text = write_in_oldest_form(|_form| serde_json::to_string(&now(None)).unwrap());
        assert_eq!(text, r#"{"first":1,"added":null,"last":"end"}"#);
        let old: Now = serde_json::from_str(r#"{"first":1,"last":"end"}"#).unwrap();
        assert_eq!(old, now(None));
        let new = r#"{"first":1,"added":7,"last":"end"}"#;
        assert_eq!(
            read_in_form(OLDEST_READABLE_FORM, || serde_json::from_str::<Now>(new).unwrap()),
            now(Some(7))
        );
    }
}
