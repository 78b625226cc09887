//! Saved state as plain data: a JSON object and named arrays. It crosses threads and processes, and becomes one
//! `.json` and one `.safetensors` file in a checkpoint.

pub use crate::base::array::Array;
use crate::base::error::{Error, Result};
use crate::base::kind::{Kind, MAX_AXES};
use crate::base::memory::Memory;
use pavlov_tune::checkpoint::refuse_unlisted;
use pavlov_tune::{read_file, write_file};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, serialize_to_file};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The saved state of a part of a run: a JSON object and named arrays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    values: Map<String, Value>,
    arrays: Vec<(String, Array)>,
}

/// Weights of a policy: a [`State`] of arrays, shared between threads without a copy.
pub type Weights = std::sync::Arc<State>;

impl State {
    /// Adds a value under the name `key`, or replaces it; serde writes it as JSON.
    ///
    /// # Errors
    /// Returns [`Error::State`] if serde cannot write the value as JSON.
    pub fn set(&mut self, key: &str, value: &impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value).map_err(|e| Error::state(key, e.to_string()))?;
        self.values.insert(key.to_owned(), value);
        Ok(())
    }

    /// Reads the value of the name `key`.
    ///
    /// # Errors
    /// Returns [`Error::State`] if there is no such value, or it cannot be read as a `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T> {
        let value = self.values.get(key).ok_or_else(|| Error::state(key, "it is not in the saved state"))?;
        T::deserialize(value).map_err(|e| Error::state(key, e.to_string()))
    }

    /// Whether the state has a value of that name.
    #[inline]
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Whether a setting that was saved under `key` has another value now: then the setting counts, and not what was learned
    /// from the old value, as where population based training changes it. States of earlier versions lack the key.
    ///
    /// # Errors
    /// Returns [`Error::State`] if what was saved is no number.
    pub fn has_other(&self, key: &str, setting: f64) -> Result<bool> {
        Ok(self.has(key) && self.get::<f64>(key)? != setting)
    }

    /// Adds an array of the name `key`. Lent arrays and lists are copied; an [`Array`] shares its memory.
    pub fn set_array(&mut self, key: &str, array: impl Into<Array>) {
        self.arrays.push((key.to_owned(), array.into()));
    }

    /// Puts an array in the place of the one of that name.
    pub fn replace_array(&mut self, key: &str, array: impl Into<Array>) {
        self.arrays.retain(|(name, _)| name != key);
        self.set_array(key, array);
    }

    /// Returns the array of the name `key`.
    ///
    /// # Errors
    /// Returns [`Error::State`] if no array has this name.
    pub fn array(&self, key: &str) -> Result<&Array> {
        self.arrays
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, a)| a)
            .ok_or_else(|| Error::state(key, "it is not among the saved arrays"))
    }

    /// Removes and returns an array.
    ///
    /// # Errors
    /// Returns [`Error::State`] if no array has this name.
    pub(crate) fn take_array(&mut self, key: &str) -> Result<Array> {
        let found = self.arrays.iter().position(|(name, _)| name == key);
        let at = found.ok_or_else(|| Error::state(key, "it is not among the saved arrays"))?;
        Ok(self.arrays.swap_remove(at).1)
    }

    /// Replaces `target` by the numbers of an array of the same shape; numbers of another type are converted.
    ///
    /// # Errors
    /// Returns [`Error::State`] if no array has this name, or it has another shape.
    pub fn copy_into(&self, key: &str, target: &mut Array) -> Result<()> {
        let array = self.array(key)?;
        if array.shape() != target.shape() {
            let reason = format!("its shape is {:?}, but {:?} is needed here", array.shape(), target.shape());
            return Err(Error::state(key, reason));
        }
        let numbers = array.to_kind(target.kind());
        target.bytes_mut().copy_from_slice(numbers.bytes());
        Ok(())
    }

    /// Makes a state of these values and arrays.
    pub fn from_parts(values: Map<String, Value>, arrays: Vec<(String, Array)>) -> Self {
        Self { values, arrays }
    }

    /// The values, and the arrays with their names in the order they were added.
    #[inline]
    pub fn parts(&self) -> (&Map<String, Value>, &[(String, Array)]) {
        (&self.values, &self.arrays)
    }

    /// Adds an array of this name, which no other may have.
    pub fn push_array(&mut self, name: String, array: Array) {
        self.arrays.push((name, array));
    }

    /// The arrays with their names, in the order they were added.
    pub fn into_arrays(self) -> impl Iterator<Item = (String, Array)> {
        self.arrays.into_iter()
    }

    /// Number of bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        self.arrays.iter().map(|(_, array)| array.bytes().len() as u64).sum()
    }

    /// The names of the arrays, in the order they were added.
    #[inline]
    pub fn array_names(&self) -> impl Iterator<Item = &str> {
        self.arrays.iter().map(|(name, _)| name.as_str())
    }

    /// Removes the value of the name `key`, if there is one.
    pub fn remove(&mut self, key: &str) {
        self.values.remove(key);
    }

    /// Adds all values and arrays of `other`.
    pub fn extend(&mut self, other: State) {
        self.values.extend(other.values);
        self.arrays.extend(other.arrays);
    }

    /// Adds the state `other` under `prefix`: its values as one object of that name, and its arrays with `prefix.` before
    /// their names.
    pub fn nest(&mut self, prefix: &str, other: State) {
        self.values.insert(prefix.to_owned(), Value::Object(other.values));
        for (name, array) in other.arrays {
            self.arrays.push((format!("{prefix}.{name}"), array));
        }
    }

    /// Names of the values that are objects, among them every `prefix` that was given to [`nest`](Self::nest).
    pub fn nests(&self) -> impl Iterator<Item = &str> {
        self.values.iter().filter(|(_, value)| value.is_object()).map(|(prefix, _)| prefix.as_str())
    }

    /// The state that [`nest`](Self::nest) put under `prefix`.
    ///
    /// # Errors
    /// Returns [`Error::State`] if nothing was put under `prefix`.
    pub fn nested(&self, prefix: &str) -> Result<State> {
        let values = match self.values.get(prefix) {
            Some(Value::Object(values)) => values.clone(),
            _ => return Err(Error::state(prefix, "it is not in the saved state")),
        };
        let dotted = format!("{prefix}.");
        let arrays = self
            .arrays
            .iter()
            .filter_map(|(name, array)| Some((name.strip_prefix(&dotted)?.to_owned(), array.clone())))
            .collect();
        Ok(State { values, arrays })
    }

    /// Removes and returns the state that [`nest`](Self::nest) put under `prefix`.
    ///
    /// # Errors
    /// Returns [`Error::State`] if nothing was put under `prefix`.
    pub fn take_nested(&mut self, prefix: &str) -> Result<State> {
        let nested = self.nested(prefix)?;
        self.values.remove(prefix);
        let dotted = format!("{prefix}.");
        self.arrays.retain(|(name, _)| !name.starts_with(&dotted));
        Ok(nested)
    }

    /// Writes `<stem>.json` and, if there are arrays, `<stem>.safetensors` into `dir`.
    ///
    /// # Errors
    /// Returns [`Error::State`], with the path, if a file cannot be written.
    pub fn write(&self, dir: &Path, stem: &str) -> Result<()> {
        let path = dir.join(format!("{stem}.json"));
        let json = serde_json::to_vec_pretty(&self.values).map_err(|e| Error::state(stem, e.to_string()))?;
        write_file(&path, &json).map_err(|e| io("write", &path, e))?;
        if !self.arrays.is_empty() {
            let path = dir.join(format!("{stem}.safetensors"));
            let views = self.arrays.iter().map(|(name, array)| Ok((name.as_str(), view(array)?)));
            let written =
                views.collect::<Result<Vec<_>, _>>().and_then(|all| serialize_to_file(all, &None, &path));
            written.map_err(|error| match error {
                SafeTensorError::IoError(error) => io("write", &path, error),
                other => io("write", &path, std::io::Error::other(other)),
            })?;
        }
        Ok(())
    }

    /// Reads the files that [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a file cannot be read, and
    /// [`Error::Tune`] if the manifest in `dir` is damaged or does not list one of them. Without a `.safetensors` the
    /// state has no arrays, which is no error.
    pub fn read(dir: &Path, stem: &str) -> Result<State> {
        let name = format!("{stem}.json");
        refuse_unlisted(dir, &name)?;
        let path = dir.join(name);
        let json = read_file(&path).map_err(|e| io("read", &path, e))?;
        let values = serde_json::from_slice(&json)
            .map_err(|e| Error::state(path.display().to_string(), e.to_string()))?;
        let name = format!("{stem}.safetensors");
        let path = dir.join(&name);
        let arrays = if path.exists() {
            refuse_unlisted(dir, &name)?;
            read_arrays(&path)?
        } else {
            Vec::new()
        };
        Ok(State { values, arrays })
    }
}

/// The name of a type of numbers in `.safetensors` files.
fn dtype(kind: Kind) -> Dtype {
    match kind {
        Kind::Bool => Dtype::BOOL,
        Kind::U8 => Dtype::U8,
        Kind::I64 => Dtype::I64,
        Kind::F32 => Dtype::F32,
        Kind::F64 => Dtype::F64,
    }
}

/// An array as the crate `safetensors` writes it.
fn view(array: &Array) -> Result<TensorView<'_>, SafeTensorError> {
    TensorView::new(dtype(array.kind()), array.shape().iter().map(|&n| n as usize).collect(), array.bytes())
}

/// Reads all arrays of a `.safetensors` file. They share the memory into which the file is read.
fn read_arrays(path: &Path) -> Result<Vec<(String, Array)>> {
    let refuse = |reason: String| Error::state(path.display().to_string(), reason);
    let read = File::open(path).and_then(|mut file| {
        let bytes = file.metadata()?.len();
        Memory::read_from(&mut file, bytes as usize)
    });
    let memory = Arc::new(read.map_err(|e| io("read", path, e))?);
    let all = memory.bytes();
    let file = SafeTensors::deserialize(all).map_err(|e| refuse(format!("it is damaged: {e}")))?;
    let array = |(name, found): (String, TensorView<'_>)| {
        let kind = Kind::ALL.into_iter().find(|&kind| dtype(kind) == found.dtype());
        let kind = kind.ok_or_else(|| {
            refuse(format!("its array `{name}` holds {:?}, which no part of pavlov writes", found.dtype()))
        })?;
        if found.shape().len() > MAX_AXES {
            return Err(refuse(format!(
                "its array `{name}` has {} axes, but at most {MAX_AXES} are read",
                found.shape().len()
            )));
        }
        let start = found.data().as_ptr().addr() - all.as_ptr().addr();
        let shape: Vec<i64> = found.shape().iter().map(|&n| n as i64).collect();
        Ok((name, Array::in_memory(&memory, start..start + found.data().len(), kind, &shape)))
    };
    file.tensors().into_iter().map(array).collect()
}

fn io(action: &'static str, path: &Path, error: std::io::Error) -> Error {
    pavlov_tune::Error::io(action, path)(error).into()
}
