//! Declares tables of stable codes, in one form for the wallet, the facilitator and the proxy.

/// Declares an enum of codes from a table with one row per code.
///
/// A row is `Variant "text" "sentence";`, or `Variant "text" "sentence" = columns;` if the table has further columns.
/// The text never changes. The sentence states what happened and what to do.
#[macro_export]
macro_rules! code_table {
    (
        $(#[$meta:meta])*
        pub enum $name:ident of $row:ty;
        $($variant:ident $text:literal $sentence:literal = $columns:expr;)*
    ) => {
        $crate::code_table! {
            $(#[$meta])*
            pub enum $name;
            $($variant $text $sentence;)*
        }

        impl $name {
            /// Returns the other columns.
            const fn columns(self) -> $row {
                match self { $(Self::$variant => $columns,)* }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $name:ident;
        $($variant:ident $text:literal $sentence:literal;)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = $sentence] $variant,)*
        }

        impl $name {
            /// All codes, in table order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the stable text on the wire.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the default message: what happened and what to do, in one sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}
