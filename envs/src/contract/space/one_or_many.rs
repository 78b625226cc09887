//! The JSON form of the shape of bits: a number, as `n` of Gymnasium's `MultiBinary`, or a list for several dimensions.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(usize),
    Many(Vec<usize>),
}

pub(super) fn serialize<S: Serializer>(shape: &[usize], serializer: S) -> Result<S::Ok, S::Error> {
    match *shape {
        [n] => OneOrMany::One(n),
        _ => OneOrMany::Many(shape.to_vec()),
    }
    .serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(n) => vec![n],
        OneOrMany::Many(shape) => shape,
    })
}
