//! Values of an observation and an action, each on a network and in a parameter group of its own.

use super::{
    builder::NetBuilder,
    config::HiddenLayers,
    mlp::Mlp,
    view::{Input, Net},
};
use crate::{
    base::error::Result,
    learn::{
        groups::{Group, Rule},
        value::{self, Value},
    },
};

/// One or two values of an observation and an action.
#[derive(Debug)]
pub struct Critics {
    nets: Vec<Mlp>,
    /// The parameter group of each network.
    pub groups: Vec<Group>,
}

impl Critics {
    /// Networks `q1` and, for `twin`, `q2`, on observations beside actions of `action_width` numbers.
    ///
    /// # Errors
    /// Does not fail today: only a group inside another does, and these stand side by side.
    pub fn new(
        net: &mut NetBuilder<'_>,
        twin: bool,
        action_width: usize,
        hidden: &HiddenLayers,
        rule: &Rule,
    ) -> Result<Self> {
        let inputs = net.obs_width() + action_width;
        let (mut nets, mut groups) = (Vec::new(), Vec::new());
        for name in &["q1", "q2"][..if twin { 2 } else { 1 }] {
            let (group, q) =
                net.group(name, rule.clone(), |net| Ok(Mlp::new(net, name, inputs, hidden, 1)))?;
            nets.push(q);
            groups.push(group);
        }
        Ok(Self { nets, groups })
    }

    /// The values, one of each network, `[rows, 1]`.
    pub fn on<'t>(&self, net: Net<'t>, s: Input<'t>, a: Value<'t>) -> Vec<Value<'t>> {
        self.nets.iter().map(|q| q.on(net, s.obs().cat(a))).collect()
    }

    /// The smaller of the values, `[rows, 1]`.
    pub fn min<'t>(&self, net: Net<'t>, s: Input<'t>, a: Value<'t>) -> Value<'t> {
        value::min(self.on(net, s, a))
    }
}
