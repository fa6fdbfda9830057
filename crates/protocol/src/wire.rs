//! Helpers that make the wire types open: the alias for unknown fields, the macros for enums that keep unknown values,
//! and how numbers and nulls are read and written.
//!
//! Null and absent are different on the wire. A field that is always present and may be null is a plain `Option<T>`;
//! one that may be missing skips `None`; one that may be missing *or* null is an `Option<Option<T>>` (or
//! `Option<Value>`) read with [`nullable`], where `Some(None)` is the null.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The unknown fields of a struct, kept so that a relayed line loses nothing.
pub type Extra = Map<String, Value>;

/// Reads a field that is present, including null. With `default` on the field, absent stays `None`.
pub(crate) fn nullable<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Numbers as JavaScript writes them: `0` instead of `0.0`. Integers that a float cannot hold exactly are rejected, so
/// that their line is kept raw instead of rounded.
pub(crate) mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Above this, neighbouring integers share one float.
    const EXACT: f64 = 9_007_199_254_740_992.0;

    /// Writes a whole number without a fraction; from [`EXACT`] on it stays a float, because the integer would not be
    /// exact.
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.fract() == 0.0 && value.abs() < EXACT {
            serializer.serialize_i64(*value as i64)
        } else {
            serializer.serialize_f64(*value)
        }
    }

    /// Reads a float or an integer. An integer that a float cannot hold exactly is an error and is never rounded.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let float = number.as_f64().ok_or_else(|| D::Error::custom("not a finite number"))?;
        if number.is_f64() || float.abs() < EXACT {
            Ok(float)
        } else {
            Err(D::Error::custom("integer too large for a float"))
        }
    }

    /// The same for a field that may be missing.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        #[derive(Serialize, Deserialize)]
        struct Wrapped(#[serde(with = "super")] f64);

        /// Writes the number as [`super::serialize`] does; `None` becomes null.
        pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
            value.map(Wrapped).serialize(serializer)
        }

        /// Reads the field if it is present; null gives `None`. The field also needs `default`, or its absence is an
        /// error.
        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
            Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|wrapped| wrapped.0))
        }
    }
}

/// An enum whose objects name their variant in one field, and which keeps every object it cannot read.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident by $tag:literal {
            $( $(#[$variant_meta:meta])* $variant:ident($payload:ty) = $value:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = $tag)]
        pub enum $name {
            $( $(#[$variant_meta])* #[serde(rename = $value)] $variant($payload), )*
            /// Anything else: an unknown tag, or a known one whose fields do not fit.
            #[serde(untagged)]
            Unknown(serde_json::Value),
        }

        impl $name {
            /// The tags that have a variant of their own.
            pub const TAGS: &'static [&'static str] = &[$($value),*];

            /// Returns the tag on the wire; empty if an unknown value has none.
            pub fn tag(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $value, )*
                    Self::Unknown(value) => value[$tag].as_str().unwrap_or(""),
                }
            }
        }
    };
}

/// A set of names that may grow: each known one is a variant, any other string is kept.
macro_rules! open_names {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $value:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )*
            /// Any other name.
            Unknown(String),
        }

        impl $name {
            /// Every name that has a variant of its own.
            pub const NAMES: &'static [&'static str] = &[$($value),*];

            /// Returns the name on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $value, )*
                    Self::Unknown(name) => name,
                }
            }
        }

        impl From<&str> for $name {
            /// Returns the variant with this name. An unknown name is kept in `Unknown`, so this never fails.
            fn from(name: &str) -> Self {
                match name {
                    $( $value => Self::$variant, )*
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Ok(Self::from(name.as_ref()))
            }
        }
    };
}

/// `From<Payload>` for variants, boxed ones included, so that callers never write the box.
macro_rules! from_payloads {
    ($name:ident { $( $variant:ident($payload:ty) $($boxed:ident)?, )* }) => {
        $(
            impl From<$payload> for $name {
                fn from(payload: $payload) -> Self {
                    Self::$variant(from_payloads!(@wrap payload $($boxed)?))
                }
            }
        )*
    };
    (@wrap $payload:ident boxed) => { Box::new($payload) };
    (@wrap $payload:ident) => { $payload };
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::{nullable, number};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Numbers {
        #[serde(with = "number")]
        plain: f64,
        #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
        maybe: Option<f64>,
    }

    #[test]
    fn whole_numbers_are_written_without_a_fraction() {
        let numbers = Numbers { plain: 0.0, maybe: Some(2.5) };
        assert_eq!(serde_json::to_string(&numbers).unwrap(), r#"{"plain":0,"maybe":2.5}"#);
        assert_eq!(serde_json::from_str::<Numbers>(r#"{"plain":0.0,"maybe":2.5}"#).unwrap(), numbers);
        assert_eq!(serde_json::to_string(&Numbers { plain: -3.0, maybe: None }).unwrap(), r#"{"plain":-3}"#);
        assert_eq!(
            serde_json::to_string(&Numbers { plain: 1e300, maybe: None }).unwrap(),
            r#"{"plain":1e+300}"#
        );
    }

    #[test]
    fn integers_that_a_float_would_round_do_not_fit() {
        assert!(serde_json::from_str::<Numbers>(r#"{"plain":9007199254740991}"#).is_ok());
        assert!(serde_json::from_str::<Numbers>(r#"{"plain":9007199254740993}"#).is_err());
        assert!(serde_json::from_str::<Numbers>(r#"{"plain":0,"maybe":18446744073709551615}"#).is_err());
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
        field: Option<Option<u8>>,
    }

    #[test]
    fn null_and_absent_stay_apart() {
        for (value, field) in [
            (json!({}), None),
            (json!({ "field": null }), Some(None)),
            (json!({ "field": 1 }), Some(Some(1))),
        ] {
            let both = Both::deserialize(&value).unwrap();
            assert_eq!(both, Both { field });
            assert_eq!(json!(both), value);
        }
    }
}
