//! PPO in one file, on `pavlov-envs` and libtorch (`tch`) alone: nothing of pavlov's trainer is used.
//!
//! This is the algorithm of Schulman et al. 2017, "Proximal Policy Optimization Algorithms", with the settings of the preset
//! `ppo-cartpole`. A test compares its advantages and losses with those of `pavlov::algorithms::Ppo`. Run it with
//! `cargo run --release --example ppo_from_scratch`.

use std::collections::VecDeque;

use pavlov_envs::{EnvConfig, StepOut, TypedVectorEnv, VectorEnv, make_vec};
use tch::nn::{self, Init, Module, OptimizerConfig};
use tch::{Device, Kind, Tensor};

/// Number of copies of the environment, which are stepped together.
const NUM_ENVS: usize = 8;
/// Number of steps of each copy between two updates.
const NUM_STEPS: usize = 32;
/// Number of passes over the rows of an update.
const NUM_EPOCHS: usize = 20;
/// Number of rows in a gradient step.
const MINIBATCH_SIZE: usize = 256;
/// Number of environment steps in all.
const TOTAL_STEPS: usize = 100_000;
/// Discount factor.
const GAMMA: f32 = 0.98;
/// Lambda of generalised advantage estimation.
const LAMBDA: f32 = 0.8;
/// Step size of Adam at the start. It falls linearly to 0.
const LEARNING_RATE: f64 = 1e-3;
/// Largest distance from 1 of the ratio of new to old probabilities, at the start. It falls linearly to 0.
const CLIP: f64 = 0.2;
/// Weight of the value loss.
const VALUE_WEIGHT: f64 = 0.5;
/// Weight of the entropy bonus, which keeps a policy from choosing too early; CartPole needs none.
const ENTROPY_WEIGHT: f64 = 0.0;
/// Largest norm of the gradient.
const MAX_GRAD_NORM: f64 = 0.5;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Two networks of two hidden layers: the actor gives logits of actions, the critic the value of an observation.
struct ActorCritic {
    actor: nn::Sequential,
    critic: nn::Sequential,
}

impl ActorCritic {
    fn new(path: &nn::Path<'_>, obs_width: i64, num_actions: i64) -> Self {
        let layer = |name: String, inputs, outputs, gain| {
            let ws_init = Init::Orthogonal { gain };
            let config = nn::LinearConfig { ws_init, bs_init: Some(Init::Const(0.0)), bias: true };
            nn::linear(path / name, inputs, outputs, config)
        };
        let tower = |name: &str, outputs, gain| {
            nn::seq()
                .add(layer(format!("{name}_1"), obs_width, 64, 2.0_f64.sqrt()))
                .add_fn(Tensor::tanh)
                .add(layer(format!("{name}_2"), 64, 64, 2.0_f64.sqrt()))
                .add_fn(Tensor::tanh)
                .add(layer(format!("{name}_out"), 64, outputs, gain))
        };
        Self { actor: tower("actor", num_actions, 0.01), critic: tower("critic", 1, 1.0) }
    }

    /// Values of observations, `[rows]`, without a gradient.
    fn values(&self, obs: &Tensor) -> Result<Vec<f32>> {
        Ok(Vec::try_from(tch::no_grad(|| self.critic.forward(obs)).flatten(0, -1))?)
    }
}

/// What the copies did in `NUM_STEPS` steps. Row `step * NUM_ENVS + copy` belongs to that step of that copy.
#[derive(Default)]
struct Rollout {
    obs: Vec<f32>,
    /// The observation that a step led to; at the end of an episode its last one, not the first of the next.
    next_obs: Vec<f32>,
    actions: Vec<i64>,
    log_probs: Vec<f32>,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

/// Generalised advantage estimation (Schulman et al. 2016, "High-Dimensional Continuous Control", equation 16), row by row
/// from the last step to the first.
///
/// After a terminated episode nothing is to be had; a truncated one would have gone on, so the value of its last observation
/// counts. Neither sees the episode that follows.
pub(crate) fn advantages(
    num_envs: usize,
    rewards: &[f32],
    values: &[f32],
    next_values: &[f32],
    terminated: &[bool],
    truncated: &[bool],
    [gamma, lambda]: [f32; 2],
) -> Vec<f32> {
    let mut advantages = vec![0.0; rewards.len()];
    for row in (0..rewards.len()).rev() {
        let next_value = if terminated[row] { 0.0 } else { next_values[row] };
        let delta = rewards[row] + gamma * next_value - values[row];
        let goes_on = !terminated[row] && !truncated[row];
        let later = advantages.get(row + num_envs).filter(|_| goes_on).copied().unwrap_or(0.0);
        advantages[row] = delta + gamma * lambda * later;
    }
    advantages
}

/// The three parts of PPO's loss.
pub(crate) struct Losses {
    /// The clipped objective (equation 7), with its sign turned.
    pub(crate) policy: Tensor,
    /// Mean squared error of the critic.
    pub(crate) value: Tensor,
    /// Mean entropy of the action distributions.
    pub(crate) entropy: Tensor,
}

/// Losses of rows from the networks' outputs for them: `logits` is `[rows, actions]`, all else `[rows]`.
pub(crate) fn losses(
    logits: &Tensor,
    values: &Tensor,
    actions: &Tensor,
    old_log_probs: &Tensor,
    advantages: &Tensor,
    targets: &Tensor,
    clip: f64,
) -> Losses {
    let all_log_probs = logits.log_softmax(-1, Kind::Float);
    let log_probs = all_log_probs.gather(-1, &actions.unsqueeze(-1), false).squeeze_dim(-1);
    let ratio = (log_probs - old_log_probs).exp();
    let clipped = ratio.clamp(1.0 - clip, 1.0 + clip);
    let policy = -(ratio * advantages).minimum(&(clipped * advantages)).mean(Kind::Float);
    let value = (values - targets).square().mean(Kind::Float);
    let entropy = -(all_log_probs.exp() * all_log_probs).sum_dim_intlist(-1, false, Kind::Float);
    Losses { policy, value, entropy: entropy.mean(Kind::Float) }
}

/// Rows as a tensor, `[rows, width]`.
fn rows(values: &[f32], width: usize) -> Tensor {
    Tensor::from_slice(values).view([-1, width as i64])
}

/// Numbers less their mean, divided by their standard deviation.
fn standardized(values: &Tensor) -> Tensor {
    (values - values.mean(Kind::Float)) / (values.std(false) + 1e-8)
}

/// Trains on CartPole-v1; returns the mean return of the last 100 episodes.
pub(crate) fn train(total_steps: usize) -> Result<f32> {
    tch::manual_seed(0);
    tch::set_num_threads(1); // The networks are so small that more threads only wait for each other.
    let mut env = TypedVectorEnv::<f32, i64>::new(make_vec("CartPole-v1", &EnvConfig::new(), NUM_ENVS)?)?;
    let width = env.observation_space().width();
    let num_actions = env.action_space().flat_width();
    let variables = nn::VarStore::new(Device::Cpu);
    let nets = ActorCritic::new(&variables.root(), width as i64, num_actions as i64);
    let mut adam = nn::Adam { eps: 1e-5, ..nn::Adam::default() }.build(&variables, LEARNING_RATE)?;

    let mut obs = vec![0.0; NUM_ENVS * width];
    let mut final_obs = obs.clone();
    let seeds: Vec<u64> = (0..NUM_ENVS as u64).collect();
    env.reset(Some(&seeds), &mut obs)?;
    let mut running = [0.0; NUM_ENVS];
    let mut returns = VecDeque::new();
    let num_updates = total_steps / (NUM_ENVS * NUM_STEPS);
    for update in 0..num_updates {
        let left = 1.0 - update as f64 / num_updates as f64;

        let mut rollout = Rollout::default();
        for _ in 0..NUM_STEPS {
            let log_probs =
                tch::no_grad(|| nets.actor.forward(&rows(&obs, width))).log_softmax(-1, Kind::Float);
            let actions = log_probs.exp().multinomial(1, true);
            let taken = log_probs.gather(-1, &actions, false).flatten(0, -1);
            let actions = Vec::<i64>::try_from(actions.flatten(0, -1))?;
            let (mut rewards, mut terminated, mut truncated) =
                ([0.0; NUM_ENVS], [false; NUM_ENVS], [false; NUM_ENVS]);
            rollout.obs.extend_from_slice(&obs);
            let out = StepOut {
                obs: &mut obs,
                final_obs: &mut final_obs,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            env.step(&actions, None, out)?;
            for copy in 0..NUM_ENVS {
                running[copy] += rewards[copy];
                let has_ended = terminated[copy] || truncated[copy];
                let next = if has_ended { &final_obs } else { &obs };
                rollout.next_obs.extend_from_slice(&next[copy * width..][..width]);
                if has_ended {
                    returns.push_back(std::mem::take(&mut running[copy]));
                }
            }
            returns.drain(..returns.len().saturating_sub(100));
            rollout.actions.extend(actions);
            rollout.log_probs.extend(Vec::<f32>::try_from(taken)?);
            rollout.rewards.extend(rewards);
            rollout.terminated.extend(terminated);
            rollout.truncated.extend(truncated);
        }

        let obs = rows(&rollout.obs, width);
        let values = nets.values(&obs)?;
        let next_values = nets.values(&rows(&rollout.next_obs, width))?;
        let advantages = advantages(
            NUM_ENVS,
            &rollout.rewards,
            &values,
            &next_values,
            &rollout.terminated,
            &rollout.truncated,
            [GAMMA, LAMBDA],
        );
        let advantages = Tensor::from_slice(&advantages);
        let targets = &advantages + Tensor::from_slice(&values);
        let actions = Tensor::from_slice(&rollout.actions);
        let old_log_probs = Tensor::from_slice(&rollout.log_probs);

        adam.set_lr(LEARNING_RATE * left);
        for _ in 0..NUM_EPOCHS {
            let order = Tensor::randperm(rollout.rewards.len() as i64, (Kind::Int64, Device::Cpu));
            for picked in order.split(MINIBATCH_SIZE as i64, 0) {
                let row = |column: &Tensor| column.index_select(0, &picked);
                let minibatch = row(&obs);
                let losses = losses(
                    &nets.actor.forward(&minibatch),
                    &nets.critic.forward(&minibatch).squeeze_dim(-1),
                    &row(&actions),
                    &row(&old_log_probs),
                    &standardized(&row(&advantages)),
                    &row(&targets),
                    CLIP * left,
                );
                let total = losses.policy + losses.value * VALUE_WEIGHT - losses.entropy * ENTROPY_WEIGHT;
                adam.backward_step_clip_norm(&total, MAX_GRAD_NORM);
            }
        }
        if (update + 1) % 50 == 0 {
            let steps = (update + 1) * NUM_ENVS * NUM_STEPS;
            println!("{steps} steps: mean return {:.1}", mean(&returns));
        }
    }
    Ok(mean(&returns))
}

fn mean(returns: &VecDeque<f32>) -> f32 {
    returns.iter().sum::<f32>() / returns.len().max(1) as f32
}

fn main() -> Result<()> {
    let mean = train(TOTAL_STEPS)?;
    println!("mean return of the last 100 episodes: {mean:.1}; CartPole-v1 counts as solved from 475 on");
    Ok(())
}
