//! `examples/ppo_from_scratch.rs`, PPO in one file, computes what `Ppo` does.

#[path = "../examples/ppo_from_scratch.rs"]
#[expect(dead_code, reason = "its main")]
mod example;

use pavlov::algorithms::ppo::{NormalizeAdvantages, ValueClip};
use pavlov::prelude::*;
use pavlov::torch::{Device, Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::returns::{Trajectories, advantages};

use crate::support::{assert_close, discrete_spaces, floats, policy, stat, weights};

fn normal(shape: &[i64]) -> Tensor {
    Tensor::randn(shape, (Kind::Float, Device::Cpu))
}

#[test]
fn its_losses_are_those_of_ppo() {
    pavlov::torch::manual_seed(5);
    let clip = 0.2;
    let mut ppo = Ppo {
        kl_coeff: 0.0,
        clip_param: clip,
        vf_clip: ValueClip::None,
        normalize_advantages: NormalizeAdvantages::None,
        ..Ppo::get_default_config()
    };
    ppo.common.model.fcnet_hiddens = vec![];
    let mut policy = policy(&ppo, &discrete_spaces(4, 3));
    let (actor, critic) = (normal(&[3, 4]), normal(&[1, 4]));
    let zeros = |n| Tensor::zeros([n], (Kind::Float, Device::Cpu));
    let linear = [
        ("actor.out.weight", actor.shallow_clone()),
        ("actor.out.bias", zeros(3)),
        ("critic.out.weight", critic.shallow_clone()),
        ("critic.out.bias", zeros(1)),
    ];
    policy.set_weights(&weights(&linear)).expect("weights that fit");

    let obs = normal(&[64, 4]);
    let actions = Tensor::randint(3, [64], (Kind::Int64, Device::Cpu));
    let (old_log_probs, advantages, targets) = (normal(&[64]) - 1.0, normal(&[64]), normal(&[64]));
    let batch = SampleBatch::default()
        .with(Column::OBS, obs.shallow_clone())
        .with(Column::ACTIONS, actions.shallow_clone())
        .with(Column::ACTION_LOGP, old_log_probs.shallow_clone())
        .with(Column::ADVANTAGES, advantages.shallow_clone())
        .with(Column::VALUE_TARGETS, targets.shallow_clone())
        .with(Column::VF_PREDS, zeros(64));
    let learned = policy.learn_on_batch(&batch).expect("a learning step");

    let values = obs.matmul(&critic.tr()).squeeze_dim(-1);
    let found = example::losses(
        &obs.matmul(&actor.tr()),
        &values,
        &actions,
        &old_log_probs,
        &advantages,
        &targets,
        clip,
    );
    for (name, found) in [("policy_loss", found.policy), ("vf_loss", found.value), ("entropy", found.entropy)]
    {
        assert_close(&floats(&found), &[stat(&learned, name)], 1e-5);
    }
}

#[test]
fn its_advantages_are_those_of_ppo() {
    pavlov::torch::manual_seed(6);
    let (steps, num_envs) = (50, 3);
    let rows = steps * num_envs;
    let numbers = |n: usize| Vec::<f32>::try_from(normal(&[n as i64])).expect("floats");
    let (rewards, values) = (numbers(rows), numbers(rows + num_envs));
    let terminated: Vec<bool> = (0..rows).map(|row| row % 17 == 5).collect();
    let truncated: Vec<bool> = (0..rows).map(|row| row % 13 == 4).collect();
    let ended: Vec<usize> = (0..rows).filter(|&row| terminated[row] || truncated[row]).collect();
    let final_values = numbers(ended.len());

    // The value of what each step led to: of the next row of its copy, or of the last observation of its episode.
    let mut next_values = values[num_envs..].to_vec();
    for (row, value) in ended.iter().zip(&final_values) {
        next_values[*row] = *value;
    }
    let found = example::advantages(
        num_envs,
        &rewards,
        &values[..rows],
        &next_values,
        &terminated,
        &truncated,
        [0.98, 0.8],
    );
    let ours = Trajectories {
        num_envs,
        lengths: None,
        rewards: &rewards,
        values: &values,
        terminated: &terminated,
        truncated: &truncated,
        ended: &ended,
        final_values: &final_values,
    };
    // `Ppo` has one copy after the other, the example one step after the other.
    let ours = advantages(ours, 0.98, 0.8);
    let by_step: Vec<f32> = (0..rows).map(|row| ours[row % num_envs * steps + row / num_envs]).collect();
    assert_close(&floats(&found[..]), &floats(&by_step[..]), 1e-4);
}

#[test]
fn it_gets_better_at_cartpole_in_its_first_fifth() {
    // A policy that acts at random gets 22.
    assert!(example::train(20_000).expect("training") > 60.0);
}
