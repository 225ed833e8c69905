//! JSON Schemas of types whose JSON form is a text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use strum::IntoEnumIterator;

use crate::codes::Code;
use crate::ids::{AgentId, Name, RequestId};
use crate::payee_label::PayeeLabel;
use crate::status::{
    AgentStatus, DecidedStatus, EntryKind, PolicyVerdict, RequestStatus, SendStatus,
};

/// Describes types as one of their texts.
macro_rules! one_of {
    ($($type:ident: $texts:expr;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                let texts: Vec<&str> = $texts.collect();
                json_schema!({ "type": "string", "enum": texts })
            }
        }
    )*};
}

one_of! {
    AgentStatus: AgentStatus::iter().map(AgentStatus::text);
    Code: Code::ALL.iter().map(|code| code.text());
    DecidedStatus: DecidedStatus::iter().map(DecidedStatus::text);
    EntryKind: EntryKind::iter().map(EntryKind::text);
    PolicyVerdict: PolicyVerdict::iter().map(PolicyVerdict::text);
    SendStatus: SendStatus::iter().map(SendStatus::text);
}

impl JsonSchema for RequestStatus {
    fn schema_name() -> Cow<'static, str> {
        "RequestStatus".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        let described =
            |status: Self| json_schema!({ "const": status.text(), "description": status.about() });
        json_schema!({ "oneOf": Self::iter().map(described).collect::<Vec<_>>() })
    }
}

/// Describes types as a text.
macro_rules! text {
    ($($type:ident $about:literal;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $about })
            }
        }
    )*};
}

text! {
    AgentId "Three letters and three digits.";
    Name "A name of printable ASCII.";
    PayeeLabel "The operator's name of a payee: 1 to 60 printable characters.";
    RequestId "A UUID.";
}
