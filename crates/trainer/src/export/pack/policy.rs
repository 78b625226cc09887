//! The policy of a pack: it replays the plan on the engine that training used.

use crate::agents::Policies;
use crate::export::pack::check::{Checked, Node};
use crate::export::pack::file::Tensors;
use crate::export::pack::plan::Choice;
use crate::policy::{Act, NetPolicy, PolicyClass};
use crate::settings::ExplorationConfig;
use pavlov_learn::base::{Array, Error, Result, Spaces};
use pavlov_learn::distributions::{ActionDist, LOG_STD_MAX, LOG_STD_MIN};
use pavlov_learn::loss::{Input, Loss, Net, Op, Rows, Value};
use pavlov_learn::nets::NetBuilder;
use pavlov_learn::params::Rule;
use std::sync::Arc;

/// A policy that was read from a pack. It acts and does not learn.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    checked: Arc<Checked>,
    tensors: Arc<Tensors>,
    head: usize,
    choice: Choice,
    dist: Option<ActionDist>,
}

impl Packed {
    /// Makes the policy of a checked plan for an action space.
    ///
    /// # Errors
    /// Returns a sentence if no action of the space follows from the plan's outputs.
    pub(super) fn new(
        checked: Arc<Checked>,
        tensors: Arc<Tensors>,
        (head, choice): (usize, Choice),
        spaces: &Spaces,
    ) -> std::result::Result<Self, String> {
        let space = &spaces.action_space;
        let fitting = ActionDist::for_space(space).map_err(|error| error.to_string())?;
        let (dist, wanted) = match choice {
            Choice::Distribution => (Some(fitting.clone()), fitting.num_inputs()),
            Choice::SquashedFrom(least) if least.is_nan() || least > LOG_STD_MAX => {
                return Err(format!(
                    "the least logarithm of its deviations is {least}, but it must be at most 2"
                ));
            }
            Choice::SquashedDistribution | Choice::SquashedFrom(_) if !fitting.is_discrete() => {
                let log_std_min = if let Choice::SquashedFrom(least) = choice { least } else { LOG_STD_MIN };
                let dist = ActionDist::SquashedGaussian { dim: fitting.action_width(), log_std_min };
                let wanted = dist.num_inputs();
                (Some(dist), wanted)
            }
            Choice::Values if fitting.is_discrete() => (None, fitting.num_inputs()),
            Choice::Exact if !fitting.is_discrete() => (None, fitting.action_width()),
            other => return Err(format!("its choice {other:?} gives no action of {space}")),
        };
        if let (Choice::Values, ActionDist::MultiCategorical { nvec }) = (choice, &fitting)
            && nvec.iter().any(|n| *n != nvec[0])
        {
            return Err(format!("values of actions choose among equally many options, but {space} has not"));
        }
        if checked.columns != wanted {
            return Err(format!(
                "its plan gives {} numbers, but an action of {space} is chosen by {wanted}",
                checked.columns
            ));
        }
        Ok(Self { checked, tensors, head, choice, dist })
    }

    /// A run's policies that are this one.
    pub(super) fn policies(&self) -> Policies {
        Policies::from(PolicyClass::net::<Self>("Packed", self))
    }
}

impl NetPolicy for Packed {
    type Config = Self;

    fn build(config: &Self, net: &mut NetBuilder<'_>) -> Result<Self> {
        let (_, ()) = net.group("packed", Rule::adam(0.0, 1e-8), |net| {
            for name in &config.checked.order {
                let tensor = &config.tensors[name];
                let shape: Vec<i64> = tensor.shape.iter().map(|&n| n as i64).collect();
                net.parameter(name.as_str(), Array::from_vec(&tensor.numbers, &shape));
            }
            Ok(())
        })?;
        net.remember(config.checked.memory, config.checked.memory_parts);
        Ok(config.clone())
    }

    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let mut values: Vec<Value<'t>> = Vec::with_capacity(self.checked.nodes.len());
        for node in &self.checked.nodes {
            let value = match node {
                // The check lets the mask be used by `masked` alone, which reads it from the input.
                Node::Obs | Node::Mask => x.obs(),
                Node::Apply(Op::Mask, of) => x.masked(values[of[0]]),
                Node::Apply(op, of) => match of.as_slice() {
                    [first, second] => Value::of(*op, &[values[*first], values[*second]]),
                    of => Value::of(*op, &[values[of[0]]]),
                },
                Node::Layer(layer, of) => {
                    let operands: Vec<Value<'t>> = of.iter().map(|&at| values[at]).collect();
                    net.layer(*layer, &operands)
                }
            };
            values.push(value);
        }
        values[self.head]
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        let greedy = ExplorationConfig::StochasticSampling { random_timesteps: 0 };
        match (&self.dist, self.choice) {
            (Some(dist), _) => act.sample(dist, inputs),
            (None, _) if act.explore => {
                let reason = "it was packed without its rule of exploration, and has no distribution to draw from; let it \
                              take the best actions";
                Err(Error::state("the packed policy", reason))
            }
            (None, Choice::Values) => act.by_values(inputs, &greedy),
            (None, _) => act.with_noise(inputs, &greedy),
        }
    }

    fn best_actions<'t>(&self, inputs: Value<'t>) -> Option<Value<'t>> {
        (self.choice == Choice::Exact).then_some(inputs)
    }

    fn distribution(&self) -> Option<&ActionDist> {
        self.dist.as_ref()
    }

    fn loss<'t>(&self, _: &Rows<'t>) -> Result<Loss<'t>> {
        Err(Error::state(
            "a packed policy",
            "it has what acting needs, and no loss; train on from a checkpoint",
        ))
    }
}
