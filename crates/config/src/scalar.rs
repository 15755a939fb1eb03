//! Reading single values with checks of our own. The parser knows the place of a value only while it is being read, so
//! a check that is to have the right line is made there.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// Reads a text by `read`, whose error says what is wrong with it.
pub(crate) fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Text<F>(F);
    impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Text<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Text(read))
}

/// Reads a number by `read`, whose error says what is wrong with it.
pub(crate) fn number<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(f64) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Number<F>(F);
    impl<T, F: FnOnce(f64) -> Result<T, String>> Visitor<'_> for Number<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number")
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
            (self.0)(number).map_err(E::custom)
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            self.visit_f64(number as f64)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            self.visit_f64(number as f64)
        }
    }
    deserializer.deserialize_any(Number(read))
}
