//! Values of observations and actions, each on a network and in a parameter group of its own.

use crate::base::Result;
use crate::learn::loss::{Net, Value, value};
use crate::learn::nets::builder::NetBuilder;
use crate::learn::nets::mlp::Mlp;
use crate::learn::params::{Group, Rule};
use crate::settings::HiddenLayers;

/// Networks that say what observations and actions are worth.
#[derive(Debug)]
pub struct Critics {
    nets: Vec<Mlp>,
    /// The parameter group of each network.
    pub groups: Vec<Group>,
}

impl Critics {
    /// `count` networks `q1`, `q2`, ... on so many inputs, with so many outputs each: a value of an observation beside an
    /// action, or one of every choice.
    ///
    /// # Errors
    /// Does not fail today: only a group inside another does, and these stand side by side.
    pub fn new(
        net: &mut NetBuilder<'_>,
        count: usize,
        (inputs, outputs): (usize, usize),
        hidden: &HiddenLayers,
        rule: &Rule,
    ) -> Result<Self> {
        let (mut nets, mut groups) = (Vec::new(), Vec::new());
        for i in 1..=count {
            let name = format!("q{i}");
            let (group, q) =
                net.group(&name, rule.clone(), |net| Ok(Mlp::new(net, &name, inputs, hidden, outputs)))?;
            nets.push(q);
            groups.push(group);
        }
        Ok(Self { nets, groups })
    }

    /// What each network says of these inputs, `[rows, outputs]`.
    pub fn on<'t>(&self, net: Net<'t>, x: Value<'t>) -> Vec<Value<'t>> {
        self.nets.iter().map(|q| q.on(net, x)).collect()
    }

    /// What the first network says, `[rows, outputs]`.
    pub fn first<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        self.nets[0].on(net, x)
    }

    /// The smallest of what the networks say, number by number, `[rows, outputs]`.
    pub fn min<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        value::min(self.on(net, x))
    }
}
