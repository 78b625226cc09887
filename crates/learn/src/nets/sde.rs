//! Generalised state-dependent exploration (gSDE, Raffin et al. 2021): its settings, and its part of a network.
//!
//! The noise of an action is a linear function of the features, the outputs of the last hidden layer, by a matrix of normal
//! numbers that stays for several steps. Over all matrices, an action has a normal distribution whose variance is the sum over
//! the features of squared feature times squared deviation.

use crate::base::{Result, rules};
use crate::distributions::SdeShape;
use crate::loss::{Net, Value};
use crate::nets::builder::NetBuilder;
use crate::nets::layers::Free;
use pavlov_envs::Space;
use serde::{Deserialize, Serialize};

/// Settings of generalised state-dependent exploration (gSDE).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sde {
    /// Whether continuous actions explore by generalised state-dependent exploration (gSDE, Raffin et al. 2021): noise is a
    /// function of the observation that stays for several steps, so that actions are smooth. Its deviations are parameters that
    /// depend on no observation, one per unit of the last hidden layer and component of the action.
    pub use_sde: bool,
    /// Number of steps of an environment copy after which gSDE draws its noise anew; -1: only where a fragment
    /// (`rollout_fragment_length`) begins, where it is always drawn: at every step with SAC's default, a fragment of one
    /// step. Typical: 4 to 64.
    pub sde_sample_freq: i64,
    /// Initial logarithm of the standard deviations that are parameters: those of gSDE, or in PPO those of
    /// `model.free_log_std`. Null: as in Stable-Baselines3, which is 0 in PPO, and -3 in SAC.
    pub log_std_init: Option<f64>,
    /// Whether gSDE has deviations for every component of an action; otherwise all components share theirs.
    pub full_std: bool,
    /// Whether a deviation of gSDE is `exp(x)` of its parameter up to 0 and `1 + ln(1 + x)` above, which grows slower than
    /// `exp(x)`.
    pub use_expln: bool,
}

impl Default for Sde {
    fn default() -> Self {
        Self { use_sde: false, sde_sample_freq: -1, log_std_init: None, full_std: true, use_expln: false }
    }
}

impl Sde {
    /// Refuses gSDE for actions that are no real numbers, settings of gSDE without `use_sde`, and a `log_std_init` without
    /// parameters that it would set. `has_free_log_std` says whether there are such parameters without gSDE.
    ///
    /// # Errors
    /// Fails as [`rules::all`] does, with [`Error::Config`](crate::base::Error::Config) for each setting that breaks its rule.
    pub fn validate(&self, actions: &Space, has_free_log_std: bool) -> Result<()> {
        let Self { use_sde, sde_sample_freq, log_std_init, full_std, use_expln } = *self;
        let alone = "it belongs to gSDE, and `use_sde` is false: set that to true, or leave it out";
        let of_no_use = "no standard deviation is a parameter, as with `use_sde` or in PPO with `model.free_log_std`: leave it out";
        rules::all([
            rules::refuse_if(
                use_sde && !matches!(actions, Space::Box { .. }),
                "use_sde",
                true,
                format!("gSDE is for continuous actions, and the action space is {actions}"),
            ),
            rules::refuse_if(
                sde_sample_freq != -1 && sde_sample_freq < 1,
                "sde_sample_freq",
                sde_sample_freq,
                "it must be at least 1, or -1",
            ),
            rules::refuse_if(!use_sde && sde_sample_freq > 0, "sde_sample_freq", sde_sample_freq, alone),
            rules::refuse_if(!use_sde && !full_std, "full_std", false, alone),
            rules::refuse_if(!use_sde && use_expln, "use_expln", true, alone),
            rules::refuse_if(
                log_std_init.is_some_and(|x| !(-20.0..=20.0).contains(&x)),
                "log_std_init",
                log_std_init.unwrap_or_default(),
                "it must be in -20..=20",
            ),
            rules::refuse_if(
                log_std_init.is_some() && !use_sde && !has_free_log_std,
                "log_std_init",
                log_std_init.unwrap_or_default(),
                of_no_use,
            ),
        ])
    }
}

/// Number that is added to variances, against the root of 0; it is that of Stable-Baselines3.
const EPSILON: f64 = 1e-6;

/// The deviations of gSDE as parameters of a network.
#[derive(Clone, Copy, Debug)]
pub struct SdeNoise {
    log_std: Free,
    use_expln: bool,
    learns_features: bool,
    /// The sizes of the noise, and when it is drawn anew.
    pub shape: SdeShape,
}

impl SdeNoise {
    /// Lays out the parameters `name` for noise of `actions` components by `features` features; they start at `init`, unless
    /// the settings name another number. With `learns_features` the gradient of variance and noise reaches the features.
    pub fn new(
        net: &mut NetBuilder<'_>,
        name: &str,
        settings: &Sde,
        (features, actions): (usize, usize),
        init: f64,
        learns_features: bool,
    ) -> Self {
        let full_std = settings.full_std;
        let sample_freq = u64::try_from(settings.sde_sample_freq).ok();
        let shape = SdeShape { features, actions, full_std, sample_freq };
        let init = settings.log_std_init.unwrap_or(init) as f32;
        let numbers = if full_std { shape.numbers() } else { features };
        let log_std = net.free(name, &vec![init; numbers]);
        Self { log_std, use_expln: settings.use_expln, learns_features, shape }
    }

    /// The standard deviations of the matrix's numbers, repeated for every row: those of the first component for all features,
    /// then those of the second, ...; only one component's if all share them.
    pub fn deviations<'t>(&self, net: Net<'t>) -> Value<'t> {
        let x = self.log_std.on(net);
        if !self.use_expln {
            return x.exp();
        }
        let above = x.sign().relu();
        let large = (x.relu() + (1.0 + EPSILON)).log() + 1.0;
        x.clamp_max(0.0).exp() * (1.0 - above) + large * above
    }

    /// Computes a number per component: `f` gets the number of the component and its deviations.
    fn per_component<'t>(
        &self,
        deviations: Value<'t>,
        f: impl Fn(usize, Value<'t>) -> Value<'t>,
    ) -> Value<'t> {
        let SdeShape { features, actions, full_std, .. } = self.shape;
        let own = |at: usize| if full_std { deviations.narrow(at * features, features) } else { deviations };
        let each = (0..actions).map(|at| f(at, own(at)).sum_columns());
        each.reduce(Value::cat).expect("at least one component")
    }

    fn seen<'t>(&self, features: Value<'t>) -> Value<'t> {
        if self.learns_features { features } else { features.detach() }
    }

    /// The log standard deviations of the actions over all matrices, `[rows, actions]`, by the `features` and the
    /// [`deviations`](Self::deviations).
    pub fn log_std<'t>(&self, features: Value<'t>, deviations: Value<'t>) -> Value<'t> {
        let squares = self.seen(features).square();
        let variances = self.per_component(deviations, |_, own| squares * own.square());
        (variances + EPSILON).log() * 0.5
    }

    /// The noise of the actions, `[rows, actions]`, by a matrix of standard normal numbers (`[rows, features * actions]`).
    pub fn noise<'t>(&self, features: Value<'t>, deviations: Value<'t>, matrix: Value<'t>) -> Value<'t> {
        let features = self.seen(features);
        let count = self.shape.features;
        self.per_component(deviations, |at, own| features * (own * matrix.narrow(at * count, count)))
    }

    /// The outputs that acting with noise needs, in the order of [`SdeShape::columns`].
    pub fn outputs<'t>(&self, net: Net<'t>, mean: Value<'t>, features: Value<'t>) -> Value<'t> {
        let deviations = self.deviations(net);
        mean.cat(self.log_std(features, deviations)).cat(features).cat(deviations)
    }

    /// The parameters of the actions' normal distributions, `[rows, 2 * actions]`: `mean`, then the log standard deviations.
    pub fn dist_inputs<'t>(&self, net: Net<'t>, mean: Value<'t>, features: Value<'t>) -> Value<'t> {
        mean.cat(self.log_std(features, self.deviations(net)))
    }
}
