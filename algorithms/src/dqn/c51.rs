//! Distributions of returns on equally spaced atoms (Bellemare et al. 2017).

use pavlov_trainer::learner::{Rows, Value};
use pavlov_trainer::models::{Input, Net};

/// The distributions of returns of all actions, on equally spaced atoms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atoms {
    /// Number of atoms of each distribution.
    pub(super) atoms: usize,
    /// Number of actions, each with a distribution.
    pub(super) actions: usize,
    /// Return of the first atom.
    pub(super) v_min: f64,
    /// Return of the last atom.
    pub(super) v_max: f64,
    /// Whether the network that learns chooses the next action (van Hasselt et al. 2016).
    pub(super) double_q: bool,
}

/// Outputs of the advantage head, `[rows, actions * atoms]`, and of the value head, `[rows, atoms]`.
type Outputs<'t> = (Value<'t>, Option<Value<'t>>);

impl Atoms {
    /// Q-values of all actions, `[rows, actions]`.
    pub(super) fn means<'t>(self, (q, value): Outputs<'t>) -> Value<'t> {
        let shift = self.shift((q, value));
        let means = (0..self.actions).map(|action| {
            let logits = q.narrow(action * self.atoms, self.atoms);
            self.mean(shift.map_or(logits, |shift| logits + shift))
        });
        means.reduce(Value::cat).expect("an action")
    }

    /// What a dueling network adds to the logits of each action: the value, less the mean of all actions' advantages.
    fn shift<'t>(self, (q, value): Outputs<'t>) -> Option<Value<'t>> {
        let of_action = |action: usize| q.narrow(action * self.atoms, self.atoms);
        value.map(|value| value - (0..self.actions).map(of_action).sum::<Value<'_>>() / self.actions as f64)
    }

    /// Logits of the distribution of each row's action, `[rows, atoms]`; `action` is `[rows, 1]`.
    fn logits<'t>(self, outputs: Outputs<'t>, action: Value<'t>) -> Value<'t> {
        let logits = outputs.0.gather_block(action, self.atoms);
        self.shift(outputs).map_or(logits, |shift| logits + shift)
    }

    /// Mean of the distribution with these logits, `[rows, 1]`.
    fn mean<'t>(self, logits: Value<'t>) -> Value<'t> {
        logits.log_softmax().exp().expectation(self.v_min, self.v_max)
    }

    /// The cross-entropy of each row to the projected target distribution, and the Q-value of its action, `[rows, 1]`.
    /// `outputs` computes the outputs of the two heads.
    pub(super) fn td_error<'t>(
        self,
        rows: &Rows<'t>,
        outputs: &dyn Fn(Net<'t>, Input<'t>) -> Outputs<'t>,
        (s, s2): (Input<'t>, Input<'t>),
        (actions, rewards, discounts): (Value<'t>, Value<'t>, Value<'t>),
    ) -> (Value<'t>, Value<'t>) {
        let target = outputs(rows.target(), s2);
        let chooser = if self.double_q { outputs(rows.frozen(), s2) } else { target };
        let best = s2.masked(self.means(chooser)).argmax();
        let next = self.logits(target, best).log_softmax().exp();
        let projected = next.project(rewards, discounts, self.v_min, self.v_max);
        let online = self.logits(outputs(rows.online(), s), actions);
        let error = -(projected * online.log_softmax()).sum_columns();
        (error, self.mean(online).detach())
    }
}
