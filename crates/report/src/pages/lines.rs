//! Reads the parts of a line of JSON that a page shows, and passes over the others without making values of them.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use pavlov_tune::Error;

/// Longest line that is read; a longer one is no result.
pub(super) const LONGEST: u64 = 64 << 20;

/// Calls `visit` with each whole line of the file at `path`. The file must be a regular one, because a pipe may never end.
///
/// # Errors
/// Fails if the file cannot be read, or if a line is too long.
pub(super) fn visit_lines(path: &Path, mut visit: impl FnMut(&[u8])) -> Result<(), Error> {
    let refuse = |reason: &str| Error::io("read", path)(std::io::Error::other(reason.to_owned()));
    if !path.metadata().map_err(Error::io("read", path))?.is_file() {
        return Err(refuse("it is no regular file"));
    }
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(Error::io("read", path))?);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut reader).take(LONGEST).read_until(b'\n', &mut line).map_err(Error::io("read", path))?;
        match line.strip_suffix(b"\n") {
            Some(whole) => visit(whole),
            None if line.len() as u64 == LONGEST => return Err(refuse("a line has more than 64 MiB")),
            // A killed process leaves an incomplete last line.
            None => return Ok(()),
        }
    }
}

/// Reads an object from a line of JSON: the members that `whole` names, and all members that are numbers or null. Returns
/// `None` if the line is not an object.
pub(super) fn members(line: &[u8], whole: &[&str]) -> Option<Map<String, Value>> {
    members_within(line, whole, "", &[])
}

/// Reads an object as [`members`] does; of its member `inner`, an object, only the members that `inner_whole` names and the
/// numbers are kept.
pub(super) fn members_within(
    line: &[u8],
    whole: &[&str],
    inner: &str,
    inner_whole: &[&str],
) -> Option<Map<String, Value>> {
    let mut reader = serde_json::Deserializer::from_slice(line);
    let found = Members { whole, inner: Some((inner, inner_whole)) }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(found)
}

/// Seed of an object of which only some members are kept.
struct Members<'a> {
    whole: &'a [&'a str],
    /// A member that is such an object itself, and the members of it that are kept whole.
    inner: Option<(&'a str, &'a [&'a str])>,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.whole.contains(&key.as_str()) {
                found.insert(key, map.next_value()?);
            } else if let Some((_, whole)) = self.inner.filter(|(name, _)| *name == key) {
                let inner = map.next_value_seed(Members { whole, inner: None })?;
                found.insert(key, inner.into());
            } else if let Some(number) = map.next_value_seed(Number)? {
                found.insert(key, number);
            }
        }
        Ok(found)
    }
}

/// Seed of a number or null; other values are passed over.
struct Number;

impl<'de> DeserializeSeed<'de> for Number {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Number {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number.into()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Some(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>().map_err(A::Error::custom)?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_members_and_numbers_are_kept() {
        let line =
            br#"{"a": 1, "b": [1, {"c": 2}], "d": {"e": null}, "f": null, "g": "x", "h": true, "i": -2.5}"#;
        let found = serde_json::to_string(&members(line, &["d"])).unwrap();
        assert_eq!(found, r#"{"a":1,"d":{"e":null},"f":null,"i":-2.5}"#);
        assert_eq!(
            [members(b"[1]", &[]), members(br#"{"a": 1"#, &[]), members(br#"{} {}"#, &[])],
            [None, None, None]
        );
    }
}
