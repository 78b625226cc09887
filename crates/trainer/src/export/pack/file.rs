//! The file of a pack: safetensors, read strictly because it may come from a stranger.

use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::marker::PhantomData;

/// Largest file that is read, in bytes.
pub(super) const MAX_BYTES: u64 = 2 << 30;
/// Largest header that is read, in bytes.
const MAX_HEADER: usize = 16 << 20;
/// Number of bytes before the header.
const PREFIX: usize = 8;
const METADATA: &str = "__metadata__";
const DIGEST: &str = "digest";
/// What stands before the digest in the header.
const DIGEST_KEY: &[u8] = b"\"digest\":\"";
/// Number of characters of a digest.
const DIGEST_LENGTH: usize = 64;

/// The weights of a network: name, shape and numbers of each.
pub(super) type Tensors = BTreeMap<String, Tensor>;

/// One array of weights.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) shape: Vec<usize>,
    pub(super) numbers: Vec<f32>,
}

/// Where the numbers of an array stand in the file.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Place {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// An object whose keys differ. JSON allows equal keys, of which readers take different ones.
struct Unequal<T>(BTreeMap<String, T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Unequal<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for Keys<T> {
            type Value = BTreeMap<String, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((key, value)) = entries.next_entry::<String, T>()? {
                    if all.contains_key(&key) {
                        return Err(A::Error::custom(format!("the key {key:?} stands there twice")));
                    }
                    all.insert(key, value);
                }
                Ok(all)
            }
        }
        from.deserialize_map(Keys(PhantomData)).map(Self)
    }
}

/// Writes metadata and weights as one file, with the digest of everything else among the metadata.
pub(super) fn encode(metadata: &BTreeMap<&str, String>, tensors: &Tensors) -> Vec<u8> {
    let mut all: Map<String, Value> =
        metadata.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    all.insert(DIGEST.into(), json!("0".repeat(DIGEST_LENGTH)));
    let mut header = Map::new();
    header.insert(METADATA.into(), Value::Object(all));
    let mut end = 0;
    for (name, tensor) in tensors {
        let start = end;
        end += 4 * tensor.numbers.len();
        let place = json!({"dtype": "F32", "shape": tensor.shape, "data_offsets": [start, end]});
        header.insert(name.clone(), place);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    // The numbers begin where eight divides their place, as the format asks.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    tensors.values().for_each(|tensor| file.extend(tensor.numbers.iter().flat_map(|x| x.to_le_bytes())));
    if let Some(at) = place_of_digest(&file) {
        let digest = digest(&file, at);
        file[at..at + DIGEST_LENGTH].copy_from_slice(digest.as_bytes());
    }
    file
}

/// Reads the metadata and the weights of a file.
///
/// # Errors
/// Returns a sentence that says what in the file is refused.
pub(super) fn decode(file: &[u8]) -> Result<(BTreeMap<String, String>, Tensors), String> {
    let header = header(file)?;
    let Unequal(mut entries) = serde_json::from_slice::<Unequal<Value>>(header)
        .map_err(|error| format!("its header is no JSON object: {error}"))?;
    let metadata = entries.remove(METADATA).ok_or("it has no metadata, so it is no packed model")?;
    // Equal keys inside are found in the text; a `Value` has lost them.
    drop(metadata);
    let Whole { metadata: Unequal(metadata) } =
        serde_json::from_slice(header).map_err(|error| format!("its metadata are no texts: {error}"))?;
    let at = place_of_digest(file).ok_or("it does not have exactly one digest")?;
    if metadata.get(DIGEST).is_none_or(|found| *found != digest(file, at)) {
        return Err("its digest is not that of its content: the file was damaged or changed".into());
    }
    let numbers = &file[PREFIX + header.len()..];
    let mut places = Vec::new();
    for (name, place) in entries {
        let place: Place =
            serde_json::from_value(place).map_err(|error| format!("its array {name:?}: {error}"))?;
        places.push((name, place));
    }
    places.sort_by_key(|(_, place)| place.data_offsets);
    let mut end = 0;
    let mut tensors = Tensors::new();
    for (name, Place { dtype, shape, data_offsets: [from, to] }) in places {
        if dtype != "F32" {
            return Err(format!("its array {name:?} holds {dtype}, but weights are F32"));
        }
        if from != end {
            return Err(format!(
                "its array {name:?} begins at byte {from}, but the one before it ends at byte {end}: arrays overlap or \
                 leave a gap"
            ));
        }
        let size = shape.iter().try_fold(4_usize, |size, &n| size.checked_mul(n));
        if to > numbers.len() || to < from || size != Some(to - from) {
            return Err(format!(
                "its array {name:?} of the shape {shape:?} does not fit its bytes {from} to {to} of {}",
                numbers.len()
            ));
        }
        let read = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let numbers: Vec<f32> = numbers[from..to].chunks_exact(4).map(read).collect();
        if let Some(x) = numbers.iter().find(|x| !x.is_finite()) {
            return Err(format!("a number of its array {name:?} is {x}; weights are finite"));
        }
        tensors.insert(name, Tensor { shape, numbers });
        end = to;
    }
    if end != numbers.len() {
        return Err(format!("{} bytes behind its last array belong to none", numbers.len() - end));
    }
    Ok((metadata, tensors))
}

/// The header, with its metadata alone.
#[derive(Deserialize)]
struct Whole {
    #[serde(rename = "__metadata__")]
    metadata: Unequal<String>,
}

/// The bytes of the header.
fn header(file: &[u8]) -> Result<&[u8], String> {
    let Some((length, rest)) = file.split_first_chunk::<PREFIX>() else {
        return Err(format!(
            "it has {} bytes, but a packed model begins with a number of 8 bytes",
            file.len()
        ));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER as u64 {
        return Err(format!("its header is said to have {length} bytes; at most {MAX_HEADER} are read"));
    }
    rest.get(..length as usize)
        .ok_or_else(|| format!("its header is said to have {length} bytes, but {} are there", rest.len()))
}

/// The place of the digest's characters in the file, if there is exactly one.
fn place_of_digest(file: &[u8]) -> Option<usize> {
    let header = header(file).ok()?;
    let mut found = header.windows(DIGEST_KEY.len()).enumerate().filter(|(_, part)| *part == DIGEST_KEY);
    let at = PREFIX + found.next()?.0 + DIGEST_KEY.len();
    let is_whole = at + DIGEST_LENGTH <= PREFIX + header.len();
    (found.next().is_none() && is_whole).then_some(at)
}

/// SHA-256 of the file, with zeros in place of the digest at `at`.
fn digest(file: &[u8], at: usize) -> String {
    let mut hash = Sha256::new();
    hash.update(&file[..at]);
    hash.update([b'0'; DIGEST_LENGTH]);
    hash.update(&file[at + DIGEST_LENGTH..]);
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
