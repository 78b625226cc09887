//! Networks in tch as parts of a network here: their variables are parameters of a group.

use crate::base::{Result, derive};
use crate::loss::{Net, OnLibtorch, Value};
use crate::nets::builder::NetBuilder;
use crate::params::ModuleMaker;
use std::fmt;
use std::marker::PhantomData;
use tch::Tensor;
use tch::nn::{Module, Path};

/// A handle of a module in tch that [`NetBuilder::tch_module`] laid out.
///
/// The handle has no tensors: threads share it, and it applies the module with the parameters that a [`Net`] stands for.
pub struct TchModule<M> {
    index: usize,
    on: OnLibtorch,
    module: PhantomData<fn() -> M>,
}

impl<M> fmt::Debug for TchModule<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TchModule").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<M> Clone for TchModule<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for TchModule<M> {}

impl<M: 'static> TchModule<M> {
    /// Applies the module by `f`, which gets it and the numbers of `x`, `[rows, columns]`. `f` returns a tensor with as
    /// many rows.
    pub fn apply<'t>(self, net: Net<'t>, x: Value<'t>, f: impl Fn(&M, &Tensor) -> Tensor) -> Value<'t> {
        net.module(self.on, self.index, x, &|module, x| {
            f(module.downcast_ref().expect("the module that this handle was made for"), x)
        })
    }
}

impl<M: Module + 'static> TchModule<M> {
    /// The output of the module, `[rows, ..]`, by its [`forward`](Module::forward).
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        self.apply(net, x, |module, x| module.forward(x))
    }
}

impl NetBuilder<'_> {
    /// Adds a module in tch, whose variables become parameters with the names `name.variable`: they learn by the group's
    /// rule, and are saved, restored and sent to workers as those of all layers. libtorch runs the network.
    ///
    /// `make` is called for every thread and for every set of parameters (such as a target network's), and must make the
    /// same variables each time. Their initial numbers depend on the seed of the policy alone; for that, libtorch's
    /// random generator is set.
    ///
    /// ```
    /// use pavlov_learn::base::Result;
    /// use pavlov_learn::loss::{Input, Net, Value};
    /// use pavlov_learn::nets::{CustomModel, NetBuilder, TchModule, Torso};
    /// use pavlov_learn::torch::nn;
    ///
    /// /// Two layers in tch.
    /// #[derive(Debug)]
    /// struct Trunk(TchModule<nn::Sequential>);
    ///
    /// impl Torso for Trunk {
    ///     fn width(&self) -> usize {
    ///         64
    ///     }
    ///
    ///     fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
    ///         self.0.on(net, x.obs())
    ///     }
    /// }
    ///
    /// fn model() -> CustomModel {
    ///     CustomModel::named("trunk", |net: &mut NetBuilder<'_>, name: &str| {
    ///         let inputs = net.obs_width() as i64;
    ///         let trunk = net.tch_module(&format!("{name}.trunk"), move |path| {
    ///             let first = nn::linear(path / "first", inputs, 64, Default::default());
    ///             let second = nn::linear(path / "second", 64, 64, Default::default());
    ///             nn::seq().add(first).add_fn(|x| x.tanh()).add(second).add_fn(|x| x.tanh())
    ///         })?;
    ///         Ok(Trunk(trunk))
    ///     })
    /// }
    /// # let _ = model();
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::base::Error::State) if the module has no variables, or one that does not learn (the
    /// running means of batch normalisation) or is not of type f32.
    pub fn tch_module<M: Send + 'static>(
        &mut self,
        name: &str,
        make: impl Fn(&Path<'_>) -> M + Send + Sync + 'static,
    ) -> Result<TchModule<M>> {
        let maker = ModuleMaker::new(name, move |path| Box::new(make(path)));
        let index = self.params.modules.len();
        let seed = derive(self.spec().seed, "tch modules", index as u64);
        self.params.add_module(maker, seed)?;
        Ok(TchModule { index, on: self.on_libtorch(), module: PhantomData })
    }
}
