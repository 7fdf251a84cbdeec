//! Macros that declare a table of an experiment: each key once, with its meaning, type and default.

/// Declares a table. A key's doc comment is its documentation everywhere, `= value` its default;
/// `#[schemars(range(…))]` and `#[schemars(length(…))]` are its bounds.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$key:meta])* $field:ident: $kind:ty = $default:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name { $($(#[$key])* pub $field: $kind,)* }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }
    };
}

/// Declares the words that a key takes, in kebab case unless renamed.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$word:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$word])* $variant,)* }
    };
}

/// Declares a table of weights, each from 0 to a greatest one; a weight that is not given is none.
macro_rules! weights {
    (max = $most:literal; $(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* $kind:ident,)* }) => {
        section! {
            $(#[$meta])*
            pub struct $name {
                $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] #[schemars(range(max = $most))] $kind: Option<u32> = None,)*
            }
        }

        impl $name {
            /// The weights that are given, by name.
            pub fn given(&self) -> impl Iterator<Item = (&'static str, u32)> {
                [$((stringify!($kind), self.$kind)),*].into_iter().filter_map(|(kind, weight)| Some((kind, weight?)))
            }
        }
    };
}

pub(super) use {section, weights, words};
