//! Weights of policies as numpy arrays by name.

use std::sync::Arc;

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pavlov::trainer::Array;
use pavlov::trainer::state::{State, Weights};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::fault::{Fault, raised};

/// The arrays of all policies by name: the id of the policy, a dot, and the name of the parameter.
pub(crate) fn to_python<'py>(py: Python<'py>, weights: &Weights) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for name in weights.array_names() {
        let array = weights.array(name).map_err(|error| raised(py, error))?;
        let shape: Vec<usize> = array.shape().iter().map(|size| *size as usize).collect();
        all.set_item(name, PyArray1::from_vec(py, array.to_f32().into_owned()).reshape(shape)?)?;
    }
    Ok(all)
}

/// The weights `now` with those arrays in place of its own that `given` has.
pub(crate) fn from_python(py: Python<'_>, now: &Weights, given: &Bound<'_, PyDict>) -> PyResult<Weights> {
    let refuse = |message: String| Err(raised(py, Fault::config(message)));
    let known: Vec<&str> = now.array_names().collect();
    for name in given.keys() {
        let name: String = name.extract()?;
        if !known.contains(&name.as_str()) {
            return refuse(format!("no parameter {name:?}; there is {}", known.join(", ")));
        }
    }
    let mut all = State::default();
    let ids: std::collections::BTreeSet<&str> =
        known.iter().filter_map(|name| name.split('.').next()).collect();
    for id in ids {
        let own = now.nested(id).map_err(|error| raised(py, error))?;
        let mut policy = State::default();
        for name in own.array_names() {
            let array = own.array(name).map_err(|error| raised(py, error))?;
            let full = format!("{id}.{name}");
            let Some(item) = given.get_item(&full)? else {
                policy.set_array(name, array);
                continue;
            };
            let Ok(item) = item.cast::<PyArrayDyn<f32>>() else {
                return refuse(format!("`{full}` must be a numpy array of float32"));
            };
            let shape: Vec<i64> = item.shape().iter().map(|size| *size as i64).collect();
            if shape != array.shape() {
                return refuse(format!("`{full}` has shape {shape:?}, but it must be {:?}", array.shape()));
            }
            let numbers = item.readonly().as_array().iter().copied().collect::<Vec<f32>>();
            policy.set_array(name, Array::from_vec(numbers, &shape));
        }
        all.nest(id, policy);
    }
    Ok(Arc::new(all))
}

/// The arrays of the policies in a checkpoint, by name.
#[pyfunction]
pub(crate) fn weights_of(py: Python<'_>, checkpoint: std::path::PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let state = State::read(&checkpoint, "policies").map_err(|error| raised(py, error))?;
    to_python(py, &Arc::new(state))
}
