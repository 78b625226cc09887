//! The inputs of acting (buffers, random streams, masks), and the ways in which policies choose actions with them.
//!
//! All buffers are borrowed and were allocated before the first step, so acting allocates nothing.

use crate::settings::{ExplorationConfig, Noise};
use pavlov_learn::base::{Error, HostRows, Result, Stream};
use pavlov_learn::distributions::{ActionDist, ActionRows, SdeShape};
use pavlov_learn::experience::Column;
use pavlov_learn::loss::MASKED;

/// Everything that acting needs apart from the network's inputs: buffers for the actions, random streams, masks.
#[derive(Debug)]
pub struct Act<'a> {
    /// One random stream per copy; copy `i` draws from `rngs[i]` only.
    pub rngs: &'a mut [Stream],
    /// The actions of every copy; the policy writes them.
    pub actions: ActionRows<'a>,
    /// Which discrete actions are legal, as in [`Seen::mask`](crate::policy::Seen::mask).
    pub mask: Option<&'a [bool]>,
    /// Whether to explore, as in [`Seen::explore`](crate::policy::Seen::explore).
    pub explore: bool,
    /// Environment steps sampled in the whole run, as in [`Seen::timestep`](crate::policy::Seen::timestep).
    pub timestep: u64,
    /// Index of the worker that acts (0 in the trainer), and the number of rollout workers.
    pub worker: (usize, usize),
    /// State of correlated exploration noise, `[copies, components]`, for continuous actions; zeros where an episode
    /// begins.
    pub(crate) noise: &'a mut [f32],
    /// The matrices of state-dependent noise; `None` if the policy has no such noise, or no state is kept between steps.
    pub(crate) matrices: Option<Matrices<'a>>,
    pub(crate) columns: StepColumns<'a>,
}

/// The matrices of state-dependent noise (gSDE).
#[derive(Debug)]
pub(crate) struct Matrices<'a> {
    /// Standard normal numbers, `[copies, numbers]`.
    pub(crate) numbers: &'a mut [f32],
    /// Number of steps that each copy has taken since its fragment began, `[copies]`.
    pub(crate) ages: &'a mut [u64],
}

/// The rows of the current step in the columns that the policy adds.
#[derive(Debug)]
pub(crate) struct StepColumns<'a> {
    pub(crate) names: &'a [Column],
    pub(crate) rows: &'a mut [HostRows],
    pub(crate) step: usize,
    /// Number of copies that act in the current step, and number of all copies.
    pub(crate) acting: (usize, usize),
}

impl StepColumns<'_> {
    /// The rows of the acting copies in the column with index `at`.
    fn row(&mut self, at: usize) -> &mut [f32] {
        let row: &mut [f32] = self.rows[at].slice_mut(self.step);
        let width = row.len() / self.acting.1.max(1);
        &mut row[..self.acting.0 * width]
    }
}

impl Act<'_> {
    /// This step's rows of a column that the policy adds, `[copies, width]`; `None` unless
    /// [`step_columns`](crate::policy::Policy::step_columns) names the column.
    pub fn column(&mut self, column: Column) -> Option<&mut [f32]> {
        let at = self.columns.names.iter().position(|name| *name == column)?;
        Some(self.columns.row(at))
    }

    /// Draws each copy's action from the distribution with the parameters `inputs` (`[copies, num_inputs]`). When not
    /// exploring it takes the most likely action. Illegal actions have probability 0.
    ///
    /// The log-probabilities are stored if the policy has the column `action_logp`, the parameters if it has
    /// `action_dist_inputs`.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the distribution is of another kind than the actions, or if parameters, the mask
    /// or one of the two columns have another size than the copies need.
    pub fn sample(mut self, dist: &ActionDist, inputs: &[f32]) -> Result<()> {
        self.draw(dist, inputs)
    }

    /// Draws actions in [-1, 1] as [`sample`](Self::sample) does, and while exploring adds the noise of
    /// `exploration`. Correlated noise keeps its direction for many steps, where independent draws cancel out. The
    /// column `action_logp` holds the log-probability of the action before the noise.
    ///
    /// # Errors
    /// Fails like [`sample`](Self::sample).
    pub fn sample_with_noise(
        mut self,
        dist: &ActionDist,
        inputs: &[f32],
        exploration: &ExplorationConfig,
    ) -> Result<()> {
        self.draw(dist, inputs)?;
        if let Some(noise) = exploration.noise() {
            self.add_noise(noise, exploration);
        }
        Ok(())
    }

    /// Acts by state-dependent noise: draws the matrices that are due, and takes each copy's mean plus the noise of its features.
    /// `outputs` is `[copies, columns]` with [`SdeShape::columns`].
    pub(crate) fn sample_by_sde(mut self, dist: &ActionDist, shape: SdeShape, outputs: &[f32]) -> Result<()> {
        let copies = self.rngs.len();
        let columns = shape.columns();
        check("outputs for state-dependent noise", outputs.len(), copies * columns)?;
        self.check_kind(false)?;
        let Some(Matrices { numbers, ages }) = self.matrices.take() else {
            return Err(Error::state("the policy", "it has no matrices of state-dependent noise"));
        };
        if let Some(column) = self.column(Column::ACTION_DIST_INPUTS) {
            let width = dist.num_inputs();
            check("numbers of the column `action_dist_inputs`", column.len(), copies * width)?;
            for (to, row) in column.chunks_exact_mut(width).zip(outputs.chunks_exact(columns)) {
                to.copy_from_slice(&row[..width]);
            }
        }
        let at = self.columns.names.iter().position(|name| *name == Column::ACTION_LOGP);
        let mut logp = at.map(|at| self.columns.row(at));
        check("numbers of the column `action_logp`", logp.as_ref().map_or(copies, |to| to.len()), copies)?;
        let ActionRows::Float(actions) = &mut self.actions else { return Ok(()) };
        let copies = outputs
            .chunks_exact(columns)
            .zip(numbers.chunks_exact_mut(shape.numbers()))
            .zip(actions.chunks_exact_mut(shape.actions))
            .zip(ages.iter_mut().zip(self.rngs.iter_mut()))
            .enumerate();
        for (copy, (((row, matrix), action), (age, rng))) in copies {
            shape.redraw(*age, matrix, rng);
            *age += 1;
            let x = dist.act_by_sde(shape, row, matrix, action);
            if let Some(to) = &mut logp {
                to[copy] = x;
            }
        }
        Ok(())
    }

    fn draw(&mut self, dist: &ActionDist, inputs: &[f32]) -> Result<()> {
        let copies = self.rngs.len();
        check("parameters of distributions", inputs.len(), copies * dist.num_inputs())?;
        self.check_kind(dist.is_discrete())?;
        let mask = self.mask.filter(|_| dist.is_discrete());
        check("flags of legal actions", mask.map_or(inputs.len(), <[bool]>::len), inputs.len())?;
        if let Some(column) = self.column(Column::ACTION_DIST_INPUTS) {
            check("numbers of the column `action_dist_inputs`", column.len(), inputs.len())?;
            column.copy_from_slice(inputs);
            for (x, _) in column.iter_mut().zip(mask.unwrap_or_default()).filter(|(_, legal)| !**legal) {
                *x = MASKED;
            }
        }
        let at = self.columns.names.iter().position(|name| *name == Column::ACTION_LOGP);
        let mut logp = at.map(|at| self.columns.row(at));
        check("numbers of the column `action_logp`", logp.as_ref().map_or(copies, |to| to.len()), copies)?;
        let actions = match &mut self.actions {
            ActionRows::Int(actions) => ActionRows::Int(actions),
            ActionRows::Float(actions) => ActionRows::Float(actions),
        };
        dist.draw(inputs, mask, self.rngs, self.explore, actions, |copy, x| {
            if let Some(to) = &mut logp {
                to[copy] = x;
            }
        });
        Ok(())
    }

    /// Chooses for each copy the legal action with the highest of `values` (`[copies, options]`), or another action
    /// by the rule of `exploration`. An action may consist of several choices among equally many options: the values
    /// of choice 0 come first, then those of choice 1, and so on.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the actions are not discrete, or if values or the mask have another size than the
    /// copies need. Returns [`Error::Config`] while exploring if `exploration` is no rule for values, such as
    /// `StochasticSampling`, the default: actions would be greedy from the first step.
    pub fn by_values(self, values: &[f32], exploration: &ExplorationConfig) -> Result<()> {
        self.check_kind(true)?;
        if self.explore && !chooses_by_values(exploration) {
            let rule = "values of actions have no distribution to sample from, so the policy would be greedy from the \
                        first step: set it to \"EpsilonGreedy\", \"PerWorkerEpsilonGreedy\", \"SoftQ\" or \"Random\"";
            return Err(Error::config("exploration_config.type", exploration.name(), rule));
        }
        let Self { rngs, actions: ActionRows::Int(actions), mask, explore, timestep, worker, .. } = self
        else {
            return Ok(());
        };
        let options = values.len() / actions.len().max(1);
        check("values of actions", values.len(), options.max(1) * actions.len())?;
        check("flags of legal actions", mask.map_or(values.len(), <[bool]>::len), values.len())?;
        let choices = actions.len() / rngs.len().max(1);
        let epsilon = exploration.epsilon(timestep, worker.0, worker.1);
        for (i, (values, action)) in values.chunks_exact(options.max(1)).zip(actions).enumerate() {
            let mask = mask.map(|mask| &mask[i * options..][..options]);
            *action = exploration.choose_legal(values, mask, epsilon, explore, &mut rngs[i / choices]);
        }
        Ok(())
    }

    /// Takes the network's outputs `head` as actions in [-1, 1]; while exploring, adds the noise of `exploration`.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the actions are discrete or `head` has another size than the copies need, and
    /// [`Error::Config`] if `exploration` is neither a noise nor `Random`.
    pub fn with_noise(mut self, head: &[f32], exploration: &ExplorationConfig) -> Result<()> {
        self.check_kind(false)?;
        let ActionRows::Float(actions) = &mut self.actions else { return Ok(()) };
        check("components of actions", head.len(), actions.len())?;
        actions.copy_from_slice(head);
        match (exploration.noise(), exploration) {
            _ if !self.explore => {}
            (Some(noise), _) => self.add_noise(noise, exploration),
            (None, ExplorationConfig::Random {}) => {
                let width = (actions.len() / self.rngs.len().max(1)).max(1);
                for (action, rng) in actions.chunks_exact_mut(width).zip(self.rngs) {
                    action.fill_with(|| 2.0 * rng.uniform() - 1.0);
                }
            }
            _ => {
                let rule = "an action without a distribution explores by GaussianNoise, OrnsteinUhlenbeckNoise, one of \
                            the two per worker, or Random";
                return Err(Error::config("exploration_config.type", exploration.name(), rule));
            }
        }
        Ok(())
    }

    /// Adds noise to continuous actions while exploring; every copy draws from its own stream.
    fn add_noise(&mut self, noise: Noise, exploration: &ExplorationConfig) {
        let ActionRows::Float(actions) = &mut self.actions else { return };
        if !self.explore {
            return;
        }
        let scale = exploration.noise_scale(self.timestep, self.worker.0, self.worker.1);
        let width = (actions.len() / self.rngs.len().max(1)).max(1);
        let copies =
            actions.chunks_exact_mut(width).zip(self.noise.chunks_exact_mut(width)).zip(&mut *self.rngs);
        for ((action, state), rng) in copies {
            noise.add(scale, action, state, rng);
        }
    }

    fn check_kind(&self, discrete: bool) -> Result<()> {
        let (has, wants) = match (discrete, &self.actions) {
            (true, ActionRows::Float(_)) => ("choices", "continuous actions"),
            (false, ActionRows::Int(_)) => ("real components", "discrete actions"),
            _ => return Ok(()),
        };
        let reason = format!("it gives {has}, but the environment takes {wants}");
        Err(Error::state("the policy", reason))
    }
}

/// Whether this strategy explores where actions are chosen by their values.
fn chooses_by_values(exploration: &ExplorationConfig) -> bool {
    use ExplorationConfig::{EpsilonGreedy, PerWorkerEpsilonGreedy, Random, SoftQ};
    let strategy = exploration;
    matches!(strategy, EpsilonGreedy { .. } | PerWorkerEpsilonGreedy { .. } | SoftQ { .. } | Random {})
}

fn check(what: &str, found: usize, wanted: usize) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::state("the policy", format!("it gave {found} {what}, but {wanted} are needed")))
}
