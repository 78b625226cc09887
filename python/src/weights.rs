//! States of policies as numpy arrays by name.

use std::collections::BTreeSet;

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pavlov::trainer::Array;
use pavlov::trainer::state::State;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};

use crate::fault::{Fault, raised};

/// The states of all policies: their arrays by name, which begins with the id of the policy and a dot, and the values beside
/// them in JSON, by the ids of policies.
pub(crate) fn to_python<'py>(py: Python<'py>, states: &State) -> PyResult<(Bound<'py, PyDict>, String)> {
    let arrays = PyDict::new(py);
    for name in states.array_names() {
        let array = states.array(name).map_err(|error| raised(py, error))?;
        let shape: Vec<usize> = array.shape().iter().map(|size| *size as usize).collect();
        arrays.set_item(name, PyArray1::from_vec(py, array.to_f32().into_owned()).reshape(shape)?)?;
    }
    let mut values = Map::new();
    for id in ids(states) {
        values.insert(id.to_owned(), states.get::<Value>(id).map_err(|error| raised(py, error))?);
    }
    Ok((arrays, Value::Object(values).to_string()))
}

/// The states `now` with the arrays and the values that are given in place of their own.
pub(crate) fn from_python(
    py: Python<'_>,
    now: &State,
    given: &Bound<'_, PyDict>,
    values: &str,
) -> PyResult<State> {
    let known: Vec<&str> = now.array_names().collect();
    for name in given.keys() {
        let name: String = name.extract()?;
        if !known.contains(&name.as_str()) {
            let message = format!("no parameter {name:?}; there is {}", known.join(", "));
            return Err(raised(py, Fault::config(message)));
        }
    }
    let values: Map<String, Value> = serde_json::from_str(values)
        .map_err(|error| raised(py, Fault::config(format!("the values {values} cannot be read: {error}"))))?;
    let mut all = State::default();
    for id in ids(now) {
        let own = now.nested(id).map_err(|error| raised(py, error))?;
        let mut policy = State::default();
        for name in own.array_names() {
            let array = own.array(name).map_err(|error| raised(py, error))?;
            policy.set_array(name, replaced(py, array, given, &format!("{id}.{name}"))?);
        }
        let own = now.get::<Map<String, Value>>(id).map_err(|error| raised(py, error))?;
        let new = values.get(id).and_then(Value::as_object);
        for (key, value) in &own {
            let value = new.and_then(|new| new.get(key)).unwrap_or(value);
            policy.set(key, value).map_err(|error| raised(py, error))?;
        }
        all.nest(id, policy);
    }
    Ok(all)
}

/// The array of the name `full` among those that are given, or `own`.
fn replaced(py: Python<'_>, own: &Array, given: &Bound<'_, PyDict>, full: &str) -> PyResult<Array> {
    let refuse = |message: String| Err(raised(py, Fault::config(message)));
    let Some(item) = given.get_item(full)? else { return Ok(own.clone()) };
    let Ok(item) = item.cast::<PyArrayDyn<f32>>() else {
        return refuse(format!("`{full}` must be a numpy array of float32"));
    };
    let shape: Vec<i64> = item.shape().iter().map(|size| *size as i64).collect();
    if shape != own.shape() {
        return refuse(format!("`{full}` has shape {shape:?}, but it must be {:?}", own.shape()));
    }
    let numbers = item.readonly().as_array().iter().copied().collect::<Vec<f32>>();
    Ok(Array::from_vec(numbers, &shape))
}

/// The ids of the policies that arrays are of.
fn ids(of: &State) -> BTreeSet<&str> {
    of.array_names().filter_map(|name| name.split('.').next()).collect()
}

/// The states of the policies in a checkpoint: their arrays by name, and the values beside them in JSON.
#[pyfunction]
pub(crate) fn states_of(
    py: Python<'_>,
    checkpoint: std::path::PathBuf,
) -> PyResult<(Bound<'_, PyDict>, String)> {
    to_python(py, &State::read(&checkpoint, "policies").map_err(|error| raised(py, error))?)
}
