//! The networks of actor-critic algorithms: an actor and a critic, with separate torsos or a shared one.

use crate::base::{Error, Result};
use crate::distributions::{ActionDist, Dist, SdeShape};
use crate::layers::{Activation, ModelConfig};
use crate::loss::{Input, Net, Value};
use crate::nets::builder::{NetBuilder, Torso};
use crate::nets::layers::{Dense, Free};
use crate::nets::sde::{Sde, SdeNoise};

/// An actor and a critic. Each has its own torso (the layers from the observation to the features), or both share
/// one.
#[derive(Debug)]
pub struct ActorCritic {
    /// The family of the action distributions.
    pub dist: ActionDist,
    torso: Box<dyn Torso>,
    actor: Dense,
    /// Log standard deviations that are parameters, equal for all observations; `None` if there are none or the actor
    /// outputs them.
    free_log_std: Option<Free>,
    /// The state-dependent noise of the actions; `None` without gSDE.
    sde: Option<SdeNoise>,
    critic_torso: Option<Box<dyn Torso>>,
    critic: Dense,
}

impl ActorCritic {
    /// Lays out both networks as the `model` settings describe.
    ///
    /// # Errors
    /// Fails if no distribution fits the action space, and whenever [`NetBuilder::actor_torso`] or
    /// [`NetBuilder::torso`] does. Returns [`Error::Config`] if `model.vf_share_layers` is set where the critic sees
    /// more than the actor.
    pub fn new(net: &mut NetBuilder<'_>, model: &ModelConfig) -> Result<Self> {
        Self::exploring(net, model, &Sde::default())
    }

    /// Lays out both networks as [`new`](Self::new) does, with the state-dependent noise that `sde` describes.
    ///
    /// # Errors
    /// Fails whenever [`new`](Self::new) does.
    pub fn exploring(net: &mut NetBuilder<'_>, model: &ModelConfig, sde: &Sde) -> Result<Self> {
        let dist = ActionDist::for_space(&net.spec().spaces.action_space)?;
        let is_gaussian = matches!(dist, ActionDist::DiagGaussian { .. });
        let by_sde = sde.use_sde && is_gaussian;
        let free = model.free_log_std && is_gaussian && !by_sde;
        let outputs = if free || by_sde { dist.num_inputs() / 2 } else { dist.num_inputs() };
        let last = model.last_activation(model.filters(&net.spec().spaces.observation_space).is_some());
        let behind = if model.no_final_linear { last } else { Activation::Linear };
        let init = model.fcnet_initializer.scaled(0.01);

        if net.spec().own_obs.is_some() && model.vf_share_layers {
            let rule =
                "with `multiagent.observation_fn` the critic sees more than the actor: set it to false";
            return Err(Error::config("model.vf_share_layers", true, rule));
        }
        let torso = net.actor_torso("actor", model)?;
        let actor = net.dense("actor.out", torso.width(), outputs, behind, init);
        let log_std = sde.log_std_init.unwrap_or(0.0) as f32;
        let free_log_std = free.then(|| net.free("actor.log_std", &vec![log_std; outputs]));
        let sizes = (torso.width(), outputs);
        let sde = by_sde.then(|| SdeNoise::new(net, "actor.log_std", sde, sizes, 0.0, false));
        // Acting runs only the actor, so a critic's own recurrent state would never advance.
        let shares = model.vf_share_layers || net.memory_width > 0;
        let critic_torso = if shares { None } else { Some(net.torso("critic", model)?) };
        let width = critic_torso.as_ref().unwrap_or(&torso).width();
        let critic = net.dense("critic.out", width, 1, Activation::Linear, model.value_init());
        Ok(Self { dist, torso, actor, free_log_std, sde, critic_torso, critic })
    }

    /// Parameters of the action distributions, `[rows, num_inputs]`.
    pub fn dist_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let features = self.torso.on(net, x);
        self.inputs_from(net, x, (features, self.actor.on(net, features)))
    }

    /// Parameters of the action distributions from the torso's features and the actor's output.
    fn inputs_from<'t>(
        &self,
        net: Net<'t>,
        x: Input<'t>,
        (features, out): (Value<'t>, Value<'t>),
    ) -> Value<'t> {
        let out = x.masked(out);
        match (&self.sde, self.free_log_std) {
            (Some(sde), _) => sde.dist_inputs(net, out, features),
            (None, Some(log_std)) => out.cat(log_std.on(net)),
            (None, None) => out,
        }
    }

    /// The sizes of the state-dependent noise; `None` without gSDE.
    pub fn sde(&self) -> Option<SdeShape> {
        self.sde.map(|sde| sde.shape)
    }

    /// The outputs that acting with state-dependent noise needs, in the order of [`SdeShape::columns`]; without gSDE the
    /// parameters of the action distributions.
    pub fn sde_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let Some(sde) = &self.sde else { return self.dist_inputs(net, x) };
        let features = self.torso.on(net, x);
        sde.outputs(net, self.actor.on(net, features), features)
    }

    /// The action distributions, one per row.
    pub fn pi<'t>(&self, net: Net<'t>, x: Input<'t>) -> Dist<'_, 't> {
        self.dist.at(self.dist_inputs(net, x))
    }

    /// The critic's values, `[rows, 1]`.
    pub fn value<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.critic.on(net, self.critic_torso.as_ref().unwrap_or(&self.torso).on(net, x))
    }

    /// The action distributions and the critic's values; shared layers are computed once.
    pub fn pi_and_value<'t>(&self, net: Net<'t>, x: Input<'t>) -> (Dist<'_, 't>, Value<'t>) {
        let features = self.torso.on(net, x);
        let out = self.actor.on(net, features);
        let for_critic = self.critic_torso.as_ref().map_or(features, |own| own.on(net, x));
        let values = self.critic.on(net, for_critic);
        (self.dist.at(self.inputs_from(net, x, (features, out))), values)
    }
}
