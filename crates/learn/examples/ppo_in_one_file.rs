//! PPO in one file, on `pavlov-envs` and `pavlov-learn`: the networks and gradients of pavlov without its trainer.
//!
//! This is the algorithm of Schulman et al. 2017, "Proximal Policy Optimization Algorithms". Run it with
//! `cargo run --release -p pavlov-learn --example ppo_in_one_file`. `examples/ppo_from_scratch.rs` is the same on libtorch alone.

use std::collections::VecDeque;

use pavlov_envs::{EnvConfig, StepOut, TypedVectorEnv, VectorEnv, make_vec};
use pavlov_learn::Learner;
use pavlov_learn::base::{Array, Device, Piecewise, Result, Schedule, Spaces, Stream};
use pavlov_learn::distributions::ActionRows;
use pavlov_learn::experience::{Column, SampleBatch, Trajectories, advantages, env_major};
use pavlov_learn::layers::{Activation, Initializer, ModelConfig};
use pavlov_learn::loss::{Loss, Rows};
use pavlov_learn::nets::{ActorCritic, NetBuilder, PolicySpec};
use pavlov_learn::params::{OptimizerConfig, Rule};

/// Number of copies of the environment, which are stepped together.
const NUM_ENVS: usize = 8;
/// Number of steps of each copy between two updates.
const NUM_STEPS: usize = 32;
/// Number of passes over the rows of an update.
const NUM_EPOCHS: usize = 20;
/// Number of environment steps in all.
const TOTAL_STEPS: usize = 100_000;
/// Discount factor.
const GAMMA: f32 = 0.98;
/// Lambda of generalised advantage estimation.
const LAMBDA: f32 = 0.8;
/// Largest distance from 1 of the ratio of new to old probabilities, at the start. It falls linearly to 0.
const CLIP: f64 = 0.2;
/// Weight of the value loss.
const VALUE_WEIGHT: f64 = 0.5;

/// Actor and critic, two networks of two hidden layers, and the learner that has their parameters.
fn build(spec: &PolicySpec) -> Result<(ActorCritic, Learner)> {
    let model = ModelConfig {
        fcnet_hiddens: vec![64, 64],
        fcnet_activation: Activation::Tanh,
        fcnet_initializer: Initializer::Orthogonal,
        vf_share_layers: false,
        ..ModelConfig::default()
    };
    // The step size of Adam falls linearly to 0.
    let lr = Schedule::Piecewise(Piecewise::linear(1e-3, 0.0, TOTAL_STEPS as u64));
    let rule = Rule { optimizer: OptimizerConfig::adam(1e-5), lr, grad_clip: Some(0.5) };
    let mut net = NetBuilder::new(spec);
    let (_, nets) = net.group("policy", rule, |net| ActorCritic::new(net, &model))?;
    Ok((nets, net.finish()?))
}

/// One step of Adam down the gradient of PPO's loss: the clipped objective (equation 7) with its sign turned, and the
/// critic's mean squared error.
fn learn(nets: &ActorCritic, learner: &mut Learner, batch: &SampleBatch, clip: f64) -> Result<()> {
    let mut report = learner.gradient(batch, |rows: &Rows<'_>| {
        let [actions, old, advantages, targets] =
            rows.columns([Column::ACTIONS, Column::ACTION_LOGP, Column::ADVANTAGES, Column::VALUE_TARGETS])?;
        let (pi, value) = nets.pi_and_value(rows.online(), rows.obs()?);
        let ratio = (pi.logp(actions) - old).exp();
        let clipped = ratio.clamp(1.0 - clip, 1.0 + clip);
        let policy = -(ratio * advantages).minimum(clipped * advantages).mean();
        Ok(Loss::sum([
            ("policy_loss", policy),
            ("vf_loss", (value - targets).square().mean() * VALUE_WEIGHT),
        ]))
    })?;
    learner.clip(&mut report);
    learner.step(&report);
    Ok(())
}

/// Subtracts the mean of the numbers, and divides them by their standard deviation.
fn standardize(x: &mut [f32]) {
    let n = x.len() as f32;
    let mean = x.iter().sum::<f32>() / n;
    let std = (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n).sqrt() + 1e-8;
    x.iter_mut().for_each(|x| *x = (*x - mean) / std);
}

/// Trains on CartPole-v1; returns the mean return of the last 100 episodes.
fn train(total_steps: usize) -> Result<f32> {
    let mut env = TypedVectorEnv::<f32, i64>::new(make_vec("CartPole-v1", &EnvConfig::new(), NUM_ENVS)?)?;
    let width = env.observation_space().width();
    let spec = PolicySpec {
        spaces: Spaces {
            observation_space: env.observation_space().clone(),
            action_space: env.action_space().clone(),
        },
        own_obs: None,
        seed: 0,
        device: Device::Cpu,
        fused: true,
        custom_model: None,
        worker_index: 0,
        num_workers: 0,
    };
    let (nets, mut learner) = build(&spec)?;
    let num_inputs = nets.dist.num_inputs();
    let mut streams: Vec<Stream> = (0..NUM_ENVS as u64).map(|copy| Stream::new(0, "actions", copy)).collect();

    let mut obs = vec![0.0; NUM_ENVS * width];
    let mut final_obs = obs.clone();
    let seeds: Vec<u64> = (0..NUM_ENVS as u64).collect();
    env.reset(Some(&seeds), &mut obs)?;
    let mut running = [0.0; NUM_ENVS];
    let mut returns = VecDeque::new();
    let num_updates = total_steps / (NUM_ENVS * NUM_STEPS);
    let rows_of = |numbers: &[f32]| Array::from_vec(numbers, &[(numbers.len() / width) as i64, width as i64]);
    for update in 0..num_updates {
        // Row `step * NUM_ENVS + copy` belongs to that step of that copy.
        let [mut all_obs, mut log_probs, mut rewards, mut final_rows] = [const { Vec::new() }; 4];
        let [mut terminated, mut truncated] = [const { Vec::new() }; 2];
        let mut actions = Vec::new();
        let mut ended = Vec::new();
        for step in 0..NUM_STEPS {
            all_obs.extend_from_slice(&obs);
            let inputs =
                learner.evaluate(&rows_of(&obs), None, num_inputs, |net, x| nets.dist_inputs(net, x))?;
            let mut taken = [0; NUM_ENVS];
            let mut log_prob = [0.0; NUM_ENVS];
            nets.dist.sample(inputs, &mut streams, true, ActionRows::Int(&mut taken), &mut log_prob);
            let (mut reward, mut is_over, mut is_cut) =
                ([0.0; NUM_ENVS], [false; NUM_ENVS], [false; NUM_ENVS]);
            let out = StepOut {
                obs: &mut obs,
                final_obs: &mut final_obs,
                rewards: &mut reward,
                terminated: &mut is_over,
                truncated: &mut is_cut,
            };
            env.step(&taken, None, out)?;
            for copy in 0..NUM_ENVS {
                running[copy] += reward[copy];
                if is_over[copy] || is_cut[copy] {
                    ended.push(step * NUM_ENVS + copy);
                    final_rows.extend_from_slice(&final_obs[copy * width..][..width]);
                    returns.push_back(std::mem::take(&mut running[copy]));
                }
            }
            returns.drain(..returns.len().saturating_sub(100));
            actions.extend(taken);
            log_probs.extend(log_prob);
            rewards.extend(reward);
            terminated.extend(is_over);
            truncated.extend(is_cut);
        }
        let steps = [NUM_STEPS as i64, NUM_ENVS as i64];
        let acted_on = rows_of(&all_obs);
        all_obs.extend_from_slice(&obs);
        let values = learner.evaluate(&rows_of(&all_obs), None, 1, |net, x| nets.value(net, x))?.to_vec();
        let final_values = learner.evaluate(&rows_of(&final_rows), None, 1, |net, x| nets.value(net, x))?;
        let mut advantages = advantages(
            Trajectories {
                num_envs: NUM_ENVS,
                lengths: None,
                rewards: &rewards,
                values: &values,
                terminated: &terminated,
                truncated: &truncated,
                ended: &ended,
                final_values,
            },
            GAMMA,
            LAMBDA,
        );
        // Advantages come copy by copy, and so do the rows of a batch.
        let by_copy = |numbers: &[f32]| env_major(&Array::from_vec(numbers, &steps));
        let old_values = by_copy(&values[..rewards.len()]).to_f32().into_owned();
        let targets: Vec<f32> = advantages.iter().zip(old_values).map(|(a, v)| a + v).collect();
        standardize(&mut advantages);
        let batch = SampleBatch::default()
            .with(Column::OBS, env_major(&acted_on.reshape(&[steps[0], steps[1], width as i64])))
            .with(Column::ACTIONS, env_major(&Array::from_vec(actions, &steps)))
            .with(Column::ACTION_LOGP, by_copy(&log_probs))
            .with_f32s(Column::ADVANTAGES, &advantages)
            .with_f32s(Column::VALUE_TARGETS, &targets);

        learner.set_timestep((update * NUM_ENVS * NUM_STEPS) as u64);
        let left = 1.0 - update as f64 / num_updates as f64;
        for _ in 0..NUM_EPOCHS {
            learn(&nets, &mut learner, &batch, CLIP * left)?;
        }
        if (update + 1) % 50 == 0 {
            println!("{} steps: mean return {:.1}", (update + 1) * NUM_ENVS * NUM_STEPS, mean(&returns));
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
