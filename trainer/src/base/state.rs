//! Saved state as plain data: a JSON object and named arrays. It crosses threads and processes, and becomes one
//! `.json` and one `.safetensors` file in a checkpoint.

use crate::base::error::{Error, Result};
use crate::base::host;
use crate::base::host::Still;
use pavlov_tune::checkpoint::refuse_unlisted;
use pavlov_tune::{read_file, write_file};
use safetensors::SafeTensorError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tch::{Device, Kind, TchError, Tensor};

/// The contents of a tensor on the CPU. Clones share the memory.
#[derive(Clone, Debug)]
pub struct Array {
    kind: Kind,
    shape: Vec<i64>,
    memory: Arc<Still>,
}

impl Array {
    /// Copies a tensor from any device.
    pub fn from_tensor(tensor: &Tensor) -> Self {
        Self::lent(&copied(&tensor.detach()))
    }

    /// Shares the memory of a contiguous CPU tensor without a copy: nobody may write to it while the array lives.
    pub(crate) fn lent(tensor: &Tensor) -> Self {
        Self { kind: tensor.kind(), shape: tensor.size(), memory: Arc::new(Still::new(tensor)) }
    }

    /// Copies the contents to a new CPU tensor.
    pub fn to_tensor(&self) -> Tensor {
        copied(self.memory.tensor())
    }

    /// Returns the array's tensor, or a copy of it if another array shares the memory.
    fn into_tensor(self) -> Tensor {
        Arc::try_unwrap(self.memory).map_or_else(|shared| copied(shared.tensor()), Still::into_tensor)
    }

    /// The sizes of the array's axes.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Copies `bytes` to an array; their number must match the shape.
    pub(crate) fn from_bytes(kind: Kind, shape: &[i64], bytes: &[u8]) -> Self {
        Self::lent(&Tensor::from_data_size(bytes, shape, kind))
    }

    /// Reads an array of this kind and shape from the next bytes of `from`.
    pub(crate) fn read_from(from: &mut impl Read, kind: Kind, shape: &[i64]) -> std::io::Result<Self> {
        Ok(Self::lent(&host::read_from(from, kind, shape)?))
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The contents in the memory layout of the array: row by row, each number with the bytes of its scalar type.
    pub fn bytes(&self) -> &[u8] {
        host::bytes(self.memory.tensor())
    }
}

/// Copies a tensor to the CPU.
fn copied(tensor: &Tensor) -> Tensor {
    tensor.to_device_(Device::Cpu, tensor.kind(), false, true)
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.shape, self.bytes()) == (other.kind, &other.shape, other.bytes())
    }
}

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
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Adds a copy of a tensor as an array of the name `key`.
    pub fn set_tensor(&mut self, key: &str, tensor: &Tensor) {
        self.arrays.push((key.to_owned(), Array::from_tensor(tensor)));
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

    /// Reads an array as a new tensor.
    ///
    /// # Errors
    /// Returns [`Error::State`] if no array has this name.
    pub fn tensor(&self, key: &str) -> Result<Tensor> {
        Ok(self.array(key)?.to_tensor())
    }

    /// Removes an array and returns it as a tensor.
    ///
    /// # Errors
    /// Returns [`Error::State`] if no array has this name.
    pub(crate) fn take_tensor(&mut self, key: &str) -> Result<Tensor> {
        let found = self.arrays.iter().position(|(name, _)| name == key);
        let at = found.ok_or_else(|| Error::state(key, "it is not among the saved arrays"))?;
        Ok(self.arrays.swap_remove(at).1.into_tensor())
    }

    /// Copies an array into an existing tensor of the same shape.
    ///
    /// # Errors
    /// Returns [`Error::State`] if no array has this name, or it has another shape.
    pub fn copy_into(&self, key: &str, target: &mut Tensor) -> Result<()> {
        let array = self.array(key)?;
        if array.shape != target.size() {
            let reason = format!("its shape is {:?}, but {:?} is needed here", array.shape, target.size());
            return Err(Error::state(key, reason));
        }
        tch::no_grad(|| target.copy_(array.memory.tensor()));
        Ok(())
    }

    /// Makes a state of these values and arrays.
    pub(crate) fn from_parts(values: Map<String, Value>, arrays: Vec<(String, Array)>) -> Self {
        Self { values, arrays }
    }

    pub(crate) fn parts(&self) -> (&Map<String, Value>, &[(String, Array)]) {
        (&self.values, &self.arrays)
    }

    pub(crate) fn push_array(&mut self, name: String, array: Array) {
        self.arrays.push((name, array));
    }

    pub(crate) fn into_arrays(self) -> impl Iterator<Item = (String, Array)> {
        self.arrays.into_iter()
    }

    /// Number of bytes of all arrays.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrays.iter().map(|(_, array)| array.bytes().len() as u64).sum()
    }

    /// The names of the arrays, in the order they were added.
    pub fn array_names(&self) -> impl Iterator<Item = &str> {
        self.arrays.iter().map(|(name, _)| name.as_str())
    }

    /// Removes the value of the name `key`, if there is one.
    pub(crate) fn remove(&mut self, key: &str) {
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
    pub(crate) fn nests(&self) -> impl Iterator<Item = &str> {
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
    pub(crate) fn take_nested(&mut self, prefix: &str) -> Result<State> {
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
        let tensors: Vec<(&str, &Tensor)> =
            self.arrays.iter().map(|(name, array)| (name.as_str(), array.memory.tensor())).collect();
        if !tensors.is_empty() {
            let path = dir.join(format!("{stem}.safetensors"));
            Tensor::write_safetensors(&tensors, &path).map_err(|error| match error {
                TchError::SafeTensorError { err: SafeTensorError::IoError(error), .. } => {
                    io("write", &path, error)
                }
                TchError::SafeTensorError { err, .. } => io("write", &path, std::io::Error::other(err)),
                other => other.into(),
            })?;
        }
        Ok(())
    }

    /// Reads the files that [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the `.json` cannot be read, [`Error::Torch`] if the `.safetensors` cannot, and
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
            Tensor::read_safetensors(&path)?
                .into_iter()
                .map(|(name, tensor)| (name, Array::lent(&tensor)))
                .collect()
        } else {
            Vec::new()
        };
        Ok(State { values, arrays })
    }
}

fn io(action: &'static str, path: &Path, error: std::io::Error) -> Error {
    pavlov_tune::Error::io(action, path)(error).into()
}
