//! Refuses a key that stands twice in one map: one of the two would be lost, and the parser alone can't say where it is.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::error;

/// Refuses `text` if a key stands in it twice. Finds what is no YAML at all, too.
pub(crate) fn refuse(text: &str) -> Result<(), error::Error> {
    serde_yaml::from_str::<Once>(text)?;
    Ok(())
}

/// Anything whose keys all stand once.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = BTreeSet::new();
        while map.next_key_seed(Key(&mut seen))?.is_some() {
            map.next_value::<Once>()?;
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Once>()?.is_some() {}
        Ok(self)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_enum(data).map(|_| self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

/// A key of a map with those before it. What is no text is left to the types.
struct Key<'s>(&'s mut BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        if self.0.insert(key.to_string()) {
            return Ok(());
        }
        Err(E::custom(format!("the key `{key}` stands here twice.")))
    }
}
