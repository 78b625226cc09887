//! Modules in tch among the parameters: their variables share the memory of the flat buffer.

use crate::base::{Array, Error, Result, lock};
use crate::params::ParamsBuilder;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use tch::nn::{Path, VarStore};
use tch::{Device, Kind, Tensor};

/// A module over the parameters of one set, for one thread.
pub(crate) type MadeModule = Box<dyn Any + Send>;

type Make = dyn Fn(&Path<'_>) -> MadeModule + Send + Sync;

/// libtorch has one random generator per process, from which new variables get their initial numbers.
static GENERATOR: Mutex<()> = Mutex::new(());

/// A constructor of a module in tch. Every thread, and every set of parameters, has a module of its own, which this
/// constructor makes: tensors of tch belong to one thread at a time, and a module has one set of variables.
#[derive(Clone)]
pub(crate) struct ModuleMaker {
    name: String,
    make: Arc<Make>,
}

/// A module's constructor, and the places of its variables among the parameters.
#[derive(Debug)]
pub(crate) struct ModulePlace {
    maker: ModuleMaker,
    /// Number of the parameter that is the first variable; the others follow in the order of `variables`.
    first: usize,
    /// Names of the variables in the constructor's path.
    variables: Vec<String>,
}

impl fmt::Debug for ModuleMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleMaker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ModuleMaker {
    pub(crate) fn new(name: &str, make: impl Fn(&Path<'_>) -> MadeModule + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), make: Arc::new(make) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The names of the module's variables, sorted, and their initial numbers, which depend on `seed` alone.
    ///
    /// # Errors
    /// Returns [`Error::State`] if there is no variable, or one that does not learn or is not of type f32.
    pub(crate) fn initial(&self, seed: u64) -> Result<Vec<(String, Array)>> {
        let store = VarStore::new(Device::Cpu);
        let guard = lock(&GENERATOR);
        tch::manual_seed((seed >> 1) as i64);
        (self.make)(&store.root());
        drop(guard);
        let mut named: Vec<(String, Tensor)> = store.variables().into_iter().collect();
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        let refuse = |what: String, reason: &str| Err(Error::state(what, reason));
        if named.is_empty() {
            let reason = "it has no variables; make its layers with the path that the constructor gets";
            return refuse(format!("the module `{}`", self.name), reason);
        }
        if let Some((name, _)) = named.iter().find(|(_, variable)| !variable.requires_grad()) {
            let reason = "it does not learn, and no module here may change numbers while it computes (as batch \
                          normalisation does); take layer or group normalisation";
            return refuse(format!("the variable `{name}` of the module `{}`", self.name), reason);
        }
        if let Some((name, _)) = named.iter().find(|(_, variable)| variable.kind() != Kind::Float) {
            return refuse(
                format!("the variable `{name}` of the module `{}`", self.name),
                "it is not of type f32",
            );
        }
        Ok(named
            .into_iter()
            .map(|(name, variable)| (name, Array::from(variable.detach().contiguous())))
            .collect())
    }

    /// Makes the module over variables of its own on `device`.
    fn make(&self, device: Device) -> (MadeModule, HashMap<String, Tensor>) {
        let store = VarStore::new(device);
        let guard = lock(&GENERATOR);
        let module = (self.make)(&store.root());
        drop(guard);
        (module, store.variables())
    }
}

impl ParamsBuilder {
    /// Adds the variables of a module in tch.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the module has no variables, or one that does not learn or is not of type f32.
    pub(crate) fn add_module(&mut self, maker: ModuleMaker, seed: u64) -> Result<()> {
        let first = self.named.len();
        let mut variables = Vec::new();
        for (variable, init) in maker.initial(seed)? {
            self.named.push((format!("{}.{variable}", maker.name()), init));
            variables.push(variable);
        }
        self.modules.push(ModulePlace::new(maker, first, variables));
        Ok(())
    }
}

impl ModulePlace {
    pub(crate) fn new(maker: ModuleMaker, first: usize, variables: Vec<String>) -> Self {
        Self { maker, first, variables }
    }

    /// Name of the module.
    pub(crate) fn name(&self) -> &str {
        &self.maker.name
    }

    /// The numbers of the parameters that are the module's variables.
    pub(crate) fn parameters(&self) -> Range<usize> {
        self.first..self.first + self.variables.len()
    }

    /// Makes the module over `leaves`, the tensors of one set of parameters, and puts its variables in the place of those that
    /// are its own; with `learn` they get gradients.
    ///
    /// # Panics
    /// Panics if the constructor makes other variables than before.
    pub(crate) fn over(&self, learn: bool, leaves: &mut [Tensor]) -> MadeModule {
        let (module, mut variables) = self.maker.make(leaves[self.first].device());
        let name = self.name();
        let count = variables.len();
        assert_eq!(count, self.variables.len(), "number of variables that the module `{name}` makes");
        for (leaf, variable) in leaves[self.parameters()].iter_mut().zip(&self.variables) {
            let Some(mut tensor) = variables.remove(variable) else {
                panic!("the module `{name}` did not make the variable `{variable}` this time")
            };
            let shape = leaf.size();
            assert_eq!(tensor.size(), shape, "shape of the variable `{variable}` of the module `{name}`");
            // The module's tensors are handles of the same variable, so they have these numbers too.
            tensor.set_data(&leaf.detach());
            *leaf = tensor.set_requires_grad(learn);
        }
        module
    }
}
