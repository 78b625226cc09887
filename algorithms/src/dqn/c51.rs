//! Distributions of returns (Bellemare et al. 2017), with operations of libtorch.

use pavlov_trainer::Result;
use pavlov_trainer::learner::{Rows, Value};
use pavlov_trainer::models::{Input, Net, NetBuilder, OnLibtorch};
use pavlov_trainer::torch;
use pavlov_trainer::torch::{Device, Kind, Tensor};

/// The distributions of returns of all actions, on equally spaced atoms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atoms {
    /// The access to libtorch.
    torch: OnLibtorch,
    atoms: usize,
    actions: usize,
    v_min: f64,
    v_max: f64,
    double_q: bool,
}

impl Atoms {
    /// `atoms` equally spaced returns from `v_min` to `v_max` for each of `actions` actions.
    pub(super) fn new(
        atoms: usize,
        [v_min, v_max]: [f64; 2],
        double_q: bool,
        actions: usize,
        net: &mut NetBuilder<'_>,
    ) -> Result<Self> {
        Ok(Self { torch: net.on_libtorch(), atoms, actions, v_min, v_max, double_q })
    }

    /// Q-values of all actions, `[rows, actions]`, from the outputs of the two heads.
    pub(super) fn means<'t>(self, q: Value<'t>, value: Option<Value<'t>>) -> Value<'t> {
        q.from_tensor(self.torch, self.means_of(&self.logits(q, value)))
    }

    /// Logits of the distributions of returns, `[rows, actions, atoms]`.
    fn logits(self, q: Value<'_>, value: Option<Value<'_>>) -> Tensor {
        let atoms = self.atoms as i64;
        let q = q.tensor(self.torch).view([-1, self.actions as i64, atoms]);
        match value {
            None => q,
            Some(value) => {
                &q - q.mean_dim(1, true, Kind::Float) + value.tensor(self.torch).view([-1, 1, atoms])
            }
        }
    }

    /// Mean of each distribution of returns, `[rows, actions]`.
    fn means_of(self, logits: &Tensor) -> Tensor {
        let support = Tensor::linspace(self.v_min, self.v_max, self.atoms as i64, (Kind::Float, Device::Cpu));
        let values = logits.softmax(-1, Kind::Float) * support.to_device(logits.device());
        values.sum_dim_intlist(-1, false, Kind::Float)
    }

    /// The cross-entropy of each row to the projected target distribution, and the Q-value of its action, `[rows, 1]`.
    /// `outputs` computes the outputs of the two heads.
    pub(super) fn td_error<'t>(
        self,
        rows: &Rows<'t>,
        outputs: &dyn Fn(Net<'t>, Input<'t>) -> (Value<'t>, Option<Value<'t>>),
        (s, s2): (Input<'t>, Input<'t>),
        (actions, rewards, discounts): (Value<'t>, Value<'t>, Value<'t>),
    ) -> (Value<'t>, Value<'t>) {
        let Self { torch, atoms, v_min, v_max, double_q, .. } = self;
        let logits = |net: Net<'t>, x: Input<'t>| {
            let (q, value) = outputs(net, x);
            self.logits(q, value)
        };
        let means = |logits: &Tensor| actions.from_tensor(torch, self.means_of(logits));
        let of_action = |logits: &Tensor, action: Value<'_>| {
            let index = action.tensor(torch).view([-1, 1, 1]).expand([-1, 1, atoms as i64], false);
            logits.gather(1, &index, false).squeeze_dim(1)
        };
        let target = logits(rows.target(), s2);
        let best = if double_q {
            s2.masked(means(&logits(rows.frozen(), s2))).argmax()
        } else {
            s2.masked(means(&target)).argmax()
        };
        let online = logits(rows.online(), s);
        let projected = torch::no_grad(|| {
            let next = of_action(&target, best).softmax(-1, Kind::Float);
            let one = |value: Value<'_>| value.tensor(torch).squeeze_dim(-1);
            project(&next, &one(rewards), &one(discounts), v_min, v_max)
        });
        let log_probs = of_action(&online, actions).log_softmax(-1, Kind::Float);
        let error = -(projected * log_probs).sum_dim_intlist(-1, false, Kind::Float);
        (actions.from_tensor(torch, error), means(&online).gather(actions).detach())
    }
}

/// Moves each atom `z` to `r + discount z`, and spreads its probability over the nearest fixed atoms (Bellemare et
/// al. 2017, algorithm 1). `probs` is `[rows, atoms]`, `rewards` and `discounts` are `[rows]`.
pub fn project(probs: &Tensor, rewards: &Tensor, discounts: &Tensor, v_min: f64, v_max: f64) -> Tensor {
    let atoms = probs.size()[1];
    let step = (v_max - v_min) / (atoms - 1) as f64;
    let support = Tensor::linspace(v_min, v_max, atoms, (Kind::Float, probs.device()));
    let moved = (rewards.unsqueeze(1) + discounts.unsqueeze(1) * support).clamp(v_min, v_max);
    let position = ((moved - v_min) / step).clamp(0.0, (atoms - 1) as f64);
    let below = position.floor();
    let above_share = &position - &below;
    let lower = below.to_kind(Kind::Int64);
    let upper = (&lower + 1).clamp_max(atoms - 1);
    probs.zeros_like().scatter_add_(1, &lower, &(probs * above_share.rsub_scalar(1.0))).scatter_add_(
        1,
        &upper,
        &(probs * above_share),
    )
}
