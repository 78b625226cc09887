//! The format of saved states: a header, the tag of whoever saved the state, and its fields in postcard's encoding.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// First bytes of every saved state. The layout's version follows as one byte.
const MAGIC: &[u8] = b"pvl";
/// Version of the layout that this version of pavlov writes and reads; one more whenever the fields of a state change.
const VERSION: u8 = 3;

/// Encodes a state; [`load`] gives the fields back under the same `tag` only.
pub(crate) fn save(tag: &str, fields: &impl Serialize) -> Vec<u8> {
    let header = [MAGIC, &[VERSION]].concat();
    match postcard::to_extend(&(tag, fields), header) {
        Ok(bytes) => bytes,
        // Postcard refuses only lists of unknown length, and no state has one.
        Err(error) => unreachable!("the state of {tag} cannot be written: {error}"),
    }
}

/// Decodes the fields of a state that [`save`] made under `tag`.
///
/// # Errors
/// Returns [`Error::State`] if the bytes are damaged, of another version, or saved under another tag.
pub(crate) fn load<'a, T: Deserialize<'a>>(tag: &str, state: &'a [u8]) -> Result<T> {
    let (found, fields) = decode::<&str>(body(state)?)?;
    if found != tag {
        let found: String = found.chars().take(40).collect();
        return Err(Error::state(format!(
            "it was saved by {found:?}, but this is {tag:?}; load it into the same kind of environment"
        )));
    }
    let (fields, rest) = decode(fields)?;
    if rest.is_empty() {
        return Ok(fields);
    }
    Err(Error::state(format!("{} bytes too many; it is damaged or of another version", rest.len())))
}

/// Checks the header and returns what follows it.
fn body(state: &[u8]) -> Result<&[u8]> {
    let found = match state {
        [b'p', b'v', b'l', VERSION, body @ ..] => return Ok(body),
        [b'p', b'v', b'l', version, ..] => *version,
        // The first layout had no header: it began with the length of the tag in eight bytes.
        [1..=255, 0, 0, 0, 0, 0, 0, 0, ..] => 1,
        _ => return Err(Error::state("it does not begin as saved states do; it is damaged")),
    };
    Err(Error::state(format!(
        "its layout has version {found}, but this version of pavlov reads version {VERSION}; load it with the version of pavlov that saved it"
    )))
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8])> {
    postcard::take_from_bytes(bytes).map_err(|error| match error {
        postcard::Error::DeserializeUnexpectedEnd => {
            Error::state("it ends too early; it is damaged or of another version")
        }
        error => {
            Error::state(format!("a field cannot be read ({error}); it is damaged or of another version"))
        }
    })
}

/// Checks a number that a state holds, such as that of copies, against the number here; `of` names it in the error.
///
/// # Errors
/// Returns [`Error::State`] if the two differ.
pub(crate) fn check_count(of: &str, found: usize, here: usize) -> Result<()> {
    if found == here {
        return Ok(());
    }
    Err(Error::state(format!(
        "it holds {found} {of}, but there are {here} here; load it with the same number"
    )))
}

/// Checks the step of a saved episode against the limit here; `of` names the episode in the error. Between two steps an
/// episode is below its limit, because one that reached it was reset in the same step.
///
/// # Errors
/// Returns [`Error::State`] if the step is not below the limit.
pub(crate) fn check_step(of: &str, step: usize, limit: usize) -> Result<()> {
    if step < limit.max(1) {
        return Ok(());
    }
    Err(Error::state(format!(
        "{of} is at step {step}, but episodes end at step {limit} here; it is damaged or of another limit"
    )))
}

/// Writes and reads arrays of any length, for `#[serde(with = "array")]`; serde itself stops at 32 elements.
pub(crate) mod array {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer, T: Serialize, const N: usize>(
        array: &[T; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        array.as_slice().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[T; N], D::Error> {
        let list = Vec::<T>::deserialize(deserializer)?;
        list.try_into().map_err(|list: Vec<T>| D::Error::invalid_length(list.len(), &"another length"))
    }
}
