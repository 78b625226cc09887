//! The Rust half of the Python package `pavlov_rl`: native environments as numpy arrays, and runs of algorithms.
//!
//! What Gymnasium, PettingZoo and Stable-Baselines3 have beyond arrays (spaces, dictionaries, render modes, arguments,
//! callbacks) is in the Python half.

mod agents;
mod algorithm;
mod arguments;
mod between;
mod blocks;
mod command;
mod copies;
mod fault;
mod fork;
mod memory;
mod saved;
mod session;
mod trained;
mod vector;
mod weights;

use fault::raised;
use pavlov_envs::EnvSpec;
use pyo3::prelude::*;

/// Id, summary, most steps of an episode, and the return that solves it.
type Spec = (String, String, Option<usize>, Option<f64>);

fn row(spec: EnvSpec) -> Spec {
    (spec.id, spec.summary, spec.max_episode_steps, spec.reward_threshold)
}

/// What is known about every environment with one agent that this process can step, so not about the one that other
/// programs play.
#[pyfunction]
fn specs(py: Python<'_>) -> PyResult<Vec<Spec>> {
    let ids = pavlov_envs::ids().into_iter().filter(|id| id != pavlov::external::ID);
    let specs = ids.map(|id| pavlov_envs::spec(&id).map(row));
    specs.collect::<pavlov_envs::Result<_>>().map_err(|error| raised(py, error))
}

/// What is known about every environment with several agents.
#[pyfunction]
fn multi_agent_specs(py: Python<'_>) -> PyResult<Vec<Spec>> {
    let specs =
        pavlov_envs::multi_agent_ids().into_iter().map(|id| pavlov_envs::multi_agent_spec(&id).map(row));
    specs.collect::<pavlov_envs::Result<_>>().map_err(|error| raised(py, error))
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    pavlov::external::register();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<vector::NativeVector>()?;
    module.add_class::<agents::NativeAgents>()?;
    module.add_class::<algorithm::NativeAlgorithm>()?;
    module.add_class::<session::NativePolicy>()?;
    module.add_class::<command::NativeEvents>()?;
    module.add_function(wrap_pyfunction!(algorithm::resources, module)?)?;
    module.add_function(wrap_pyfunction!(arguments::arguments_table, module)?)?;
    module.add_function(wrap_pyfunction!(arguments::check_arguments, module)?)?;
    module.add_function(wrap_pyfunction!(arguments::translate_arguments, module)?)?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    module.add_function(wrap_pyfunction!(command::defaults, module)?)?;
    module.add_function(wrap_pyfunction!(command::latest_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(command::preset, module)?)?;
    module.add_function(wrap_pyfunction!(command::rollout_worker, module)?)?;
    module.add_function(wrap_pyfunction!(weights::states_of, module)?)?;
    module.add_function(wrap_pyfunction!(specs, module)?)?;
    module.add_function(wrap_pyfunction!(multi_agent_specs, module)?)
}
