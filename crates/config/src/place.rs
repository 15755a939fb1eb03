//! Where something stands in a YAML text. The parser keeps positions only for errors, so a second pass walks down to
//! the key in question: reading it there makes the error for us, with the right line, or reads what stands there.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// One step down: into a map's key or a list's item.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Key(&'static str),
    Index(usize),
}

/// The way from the root to a key. Prints as `plugins[1].parameters`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    pub(crate) fn root(key: &'static str) -> Self {
        Self(vec![Step::Key(key)])
    }

    pub(crate) fn key(&self, key: &'static str) -> Self {
        self.and(Step::Key(key))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.and(Step::Index(index))
    }

    fn and(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Reads what stands at `path`; `None` where there is nothing.
pub(crate) fn read_at<'de, T: Deserialize<'de>>(text: &'de str, path: &Path) -> Result<Option<T>, serde_yaml::Error> {
    Walk { path: &path.0, what: PhantomData }.deserialize(serde_yaml::Deserializer::from_str(text))
}

/// Line and column, from 1, of what stands at `path`; `None` where it can't be told.
pub(crate) fn find(text: &str, path: &Path) -> Option<(usize, usize)> {
    let location = read_at::<Refused>(text, path).err()?.location()?;
    Some((location.line(), location.column()))
}

/// What nothing in a file can be read as: the error says where it was tried.
struct Refused;

impl<'de> Deserialize<'de> for Refused {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nothing;
        impl Visitor<'_> for Nothing {
            type Value = Refused;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nothing")
            }
        }
        deserializer.deserialize_any(Nothing)
    }
}

struct Walk<'a, T> {
    path: &'a [Step],
    what: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Walk<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.path {
            [] => T::deserialize(deserializer).map(Some),
            [..] => deserializer.deserialize_any(self),
        }
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Walk<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map or a list")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((Step::Key(wanted), path)) = self.path.split_first() else {
            return Err(A::Error::custom("a list was expected"));
        };
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == *wanted {
                found = map.next_value_seed(Walk { path, what: PhantomData })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Some((Step::Index(wanted), path)) = self.path.split_first() else {
            return Err(A::Error::custom("a map was expected"));
        };
        for _ in 0..*wanted {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = seq.next_element_seed(Walk { path, what: PhantomData })?.flatten();
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
kind: X
plugins:
- type: a
- name: b   # its name

  type: \"c\"
  parameters: {one: 1,
    two: [4, 5]}
warmpath:
";

    fn check(path: Path, expected: Option<(usize, usize)>) {
        assert_eq!(find(TEXT, &path), expected, "{path}");
    }

    #[test]
    fn a_place_is_the_line_and_column_that_a_person_sees() {
        let plugins = Path::root("plugins");
        check(Path::root("kind"), Some((2, 7)));
        check(plugins.clone(), Some((4, 1)));
        check(plugins.index(0).key("type"), Some((4, 9)));
        check(plugins.index(1), Some((5, 3)));
        check(plugins.index(1).key("type"), Some((7, 9)));
        check(plugins.index(1).key("parameters").key("two").index(1), Some((9, 14)));
    }

    #[test]
    fn what_is_not_there_has_no_place() {
        check(Path::root("nothing"), None);
        check(Path::root("plugins").index(7), None);
    }
}
