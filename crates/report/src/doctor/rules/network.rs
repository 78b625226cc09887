//! Rules over the weights of a checkpoint.

use pavlov_trainer::state::State;

use crate::doctor::{Finding, Records, Sure};

/// Finds units whose output is the same for every observation.
///
/// Behind the first layer the inputs of a layer are bounded by the activation before it: a ReLU gives no negative number,
/// and tanh gives none beyond 1. So weights and bias alone say that a unit of ReLU can only be 0, or that one of tanh is at
/// its end.
pub(super) fn dead_units(records: &Records) -> Option<Finding> {
    let policies = &records.saved.as_ref()?.policies;
    let names: Vec<&str> = policies.array_names().filter(|name| name.ends_with(".weight")).collect();
    let mut worst: Option<(f64, String)> = None;
    for name in names {
        let Some(layer) = Layer::of(name) else { continue };
        let Some(dead) = layer.dead(records, policies) else { continue };
        if worst.as_ref().is_none_or(|(most, _)| dead > *most) {
            worst = Some((dead, layer.shown()));
        }
    }
    let (share, layer) = worst.filter(|(share, _)| *share >= 0.5)?;
    Some(Finding::new(
        "dead_units",
        Sure::Certain,
        format!(
            "{:.0} % of the units of `{layer}` give the same number for every observation",
            100.0 * share
        ),
        "they have no gradient and will not learn again",
        "lower the step size, set `grad_clip` to 0.5, or set the activation to \"tanh\"; then begin a new run",
    ))
}

/// The name of a hidden layer's weights, `POLICY.weights.NET.INDEX.weight`, in its parts.
struct Layer<'a> {
    policy: &'a str,
    net: &'a str,
    index: usize,
}

impl<'a> Layer<'a> {
    /// Splits the name of an array; `None` if it belongs to the first layer of a network or to no hidden layer.
    fn of(name: &'a str) -> Option<Layer<'a>> {
        let (policy, rest) = name.split_once(".weights.")?;
        let (net, index) = rest.strip_suffix(".weight")?.rsplit_once('.')?;
        let index = index.parse().ok().filter(|index| *index > 0)?;
        Some(Layer { policy, net, index })
    }

    fn shown(&self) -> String {
        format!("{}.{}", self.net, self.index)
    }

    /// The activation of the network's hidden layers; `None` if the settings do not tell.
    fn activation<'r>(&self, records: &'r Records) -> Option<&'r str> {
        let keys: &[&str] = match self.net {
            "actor" => {
                &["policy_model_config.fcnet_activation", "actor_hidden_activation", "model.fcnet_activation"]
            }
            "critic" | "model" => &["critic_hidden_activation", "model.fcnet_activation"],
            net if net.starts_with('q') || net.starts_with("critic") || net.starts_with("twin") => {
                &["q_model_config.fcnet_activation", "critic_hidden_activation"]
            }
            _ => &[],
        };
        keys.iter().find_map(|key| records.text(key))
    }

    /// Share of the units that are constant.
    fn dead(&self, records: &Records, policies: &State) -> Option<f64> {
        let activation = self.activation(records)?;
        let name = |part: &str| format!("{}.weights.{}.{}.{part}", self.policy, self.net, self.index);
        let weights = policies.array(&name("weight")).ok()?;
        let bias = policies.array(&name("bias")).ok()?.to_vec();
        let &[units, inputs] = weights.shape() else { return None };
        let weights = weights.to_vec();
        if units as usize != bias.len() || inputs == 0 {
            return None;
        }
        let is_dead = |(row, bias): (&[f64], &f64)| match activation {
            "relu" => *bias <= 0.0 && row.iter().all(|weight| *weight <= 0.0),
            "tanh" => bias.abs() - row.iter().map(|weight| weight.abs()).sum::<f64>() > 4.0,
            _ => false,
        };
        let dead = weights.chunks_exact(inputs as usize).zip(&bias).filter(|&unit| is_dead(unit)).count();
        Some(dead as f64 / bias.len() as f64)
    }
}
