//! Critics: values of observations and actions, each on its own network and in its own parameter group.

use crate::base::Result;
use crate::layers::{HiddenLayers, ModelConfig};
use crate::loss::{Input, Net, Value, value};
use crate::nets::builder::{NetBuilder, Torso};
use crate::nets::mlp::Mlp;
use crate::params::{Group, Rule};
use serde::{Deserialize, Serialize};

/// When actor and critics take the steps of one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateOrder {
    /// Actor and critics step together: the gradients of both are those at the weights before the update (Ray).
    Together,
    /// The critics step first, and the actor then learns from the critics that have moved (Stable-Baselines3).
    CriticsFirst,
}

/// Critics that estimate the values of observations and actions.
#[derive(Debug)]
pub struct Critics {
    nets: Vec<Mlp>,
    /// The convolutions that all networks read images through; `None` if they have none of their own.
    features: Option<Box<dyn Torso>>,
    /// The parameter group of each network, and last that of their own convolutions, if they have some.
    pub groups: Vec<Group>,
}

impl Critics {
    /// Lays out `count` networks `q1`, `q2`, ... with `inputs` inputs and `outputs` outputs each: one output if an
    /// input is an observation with an action, or one output per discrete action.
    ///
    /// # Errors
    /// Never fails today.
    pub fn new(
        net: &mut NetBuilder<'_>,
        count: usize,
        inputs: usize,
        outputs: usize,
        hidden: &HiddenLayers,
        rule: &Rule,
    ) -> Result<Self> {
        let mut nets = Vec::new();
        let mut groups = Vec::new();
        for i in 1..=count {
            let name = format!("q{i}");
            let (group, q) =
                net.group(&name, rule.clone(), |net| Ok(Mlp::new(net, &name, inputs, hidden, outputs)))?;
            nets.push(q);
            groups.push(group);
        }
        Ok(Self { nets, features: None, groups })
    }

    /// Lays out convolutions of the critics' own, which all of them share, if observations are images; see
    /// [`NetBuilder::features`]. They learn from the critics' losses by `rule`.
    ///
    /// # Errors
    /// Fails if [`NetBuilder::features`] does.
    pub fn add_features(&mut self, net: &mut NetBuilder<'_>, model: &ModelConfig, rule: &Rule) -> Result<()> {
        if model.convolutions(&net.spec().spaces.observation_space).is_some() {
            let (group, features) =
                net.group("q_features", rule.clone(), |net| net.features("q_features", model))?;
            self.features = Some(features);
            self.groups.push(group);
        }
        Ok(())
    }

    /// What the critics read of an observation: the output of convolutions of their own, or else of `actor`, whose parameters then
    /// get no gradient.
    pub fn seen<'t>(&self, net: Net<'t>, x: Input<'t>, actor: &dyn Torso) -> Value<'t> {
        match &self.features {
            Some(own) => own.on(net, x),
            None => actor.on(net.frozen(), x),
        }
    }

    /// The output of each network, `[rows, outputs]`.
    pub fn on<'t>(&self, net: Net<'t>, x: Value<'t>) -> Vec<Value<'t>> {
        self.nets.iter().map(|q| q.on(net, x)).collect()
    }

    /// The output of the first network, `[rows, outputs]`.
    pub fn first<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        self.nets[0].on(net, x)
    }

    /// The smallest output of all networks, for each row and column, `[rows, outputs]`.
    pub fn min<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        value::min(self.on(net, x))
    }
}
