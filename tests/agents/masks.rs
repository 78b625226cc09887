//! Legal actions at the end of an episode that was cut: the value behind it is that of legal actions.

use std::collections::BTreeSet;

use pavlov::algorithms::qmix::Mixing;
use pavlov::envs::{self, EnvCreator, MultiAgentEnv, MultiAgentOut, Space};
use pavlov::prelude::*;
use pavlov::trainer::agents::Policies;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::policy::{Act, ActionRows, Fragment, Policy, PolicyClass, Seen};
use pavlov::trainer::replay::ReplayKind;
use pavlov::trainer::settings::ExplorationConfig;
use serde_json::json;

use super::settings::with;
use super::turns::workers;
use crate::support::{number, numbers, quiet, tiny_dqn, tiny_ppo, tiny_sac};

/// Two agents, of whose two actions only the first is ever legal; every step costs 1, and episodes have no end of their
/// own.
#[derive(Clone, Default)]
struct Narrow {
    /// Number of steps after which episodes are truncated; 0: never.
    cut: u64,
    t: u64,
}

impl Narrow {
    fn write(&self, out: MultiAgentOut<'_, f32>) {
        let cut = self.t == self.cut && self.t > 0;
        out.obs.fill(1.0);
        out.rewards.fill(if self.t > 0 { -1.0 } else { 0.0 });
        out.terminated.fill(false);
        out.truncated.fill(cut);
        out.alive.fill(!cut);
        out.acting.fill(!cut);
    }
}

impl MultiAgentEnv for Narrow {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        ["a", "b"].map(String::from).to_vec()
    }
    fn observation_space(&self, _agent: usize) -> Space {
        Space::real(&[1])
    }
    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(2)
    }
    fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.t = 0;
        self.write(out);
        Ok(())
    }
    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        (0..2).try_for_each(|agent| self.check_action(agent, &actions[agent..=agent]))?;
        self.t += 1;
        self.write(out);
        Ok(())
    }
    fn action_mask(&self, _agent: usize, mask: &mut [bool]) -> bool {
        mask.copy_from_slice(&[true, false]);
        true
    }
}

/// Acts by the first action, and makes rows with the masks of next observations.
#[derive(Debug)]
struct First;

impl Policy for First {
    fn compute_actions(&mut self, _: Seen<'_>, act: Act<'_>) -> Result<()> {
        if let ActionRows::Int(actions) = act.actions {
            actions.fill(0);
        }
        Ok(())
    }
    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.transitions(1, 0.9))
    }
}

#[test]
fn the_next_masks_of_rows_that_a_cut_ends_are_those_of_the_last_observation() {
    for cut in [1, 3] {
        let env = EnvCreator::multi_agent(move || Narrow { cut, t: 0 });
        let mut common = tiny_ppo().common;
        common.mask_actions = true;
        common.rollout_fragment_length = 6;
        let policies = Policies::new([("all", PolicyClass::new("First", |_| Ok(First)))], |_| "all");
        let env = common.wrap_env(&env);
        let batch = workers(&common, policies, &env).expect("workers").sample().expect("a fragment");
        let rows = batch.policies.get("all").expect("rows");
        let masks = numbers(rows, Column::NEW_ACTION_MASK);
        assert!(masks.chunks(2).all(|mask| mask == [1.0, 0.0]), "{masks:?}");
    }
}

/// The mean Q-value after a run with episodes of `cut` steps.
fn learned<T: Trainer>(mut settings: T, cut: u64) -> f64 {
    let common = settings.common_mut();
    common.gamma = 0.9;
    common.seed = Some(1);
    common.mask_actions = true;
    common.rollout_fragment_length = 4;
    common.train_batch_size = 32;
    common.min_sample_timesteps_per_reporting = Some(4000);
    let env = EnvCreator::multi_agent(move || Narrow { cut, t: 0 });
    let mut driver = quiet(settings, env).expect("a driver");
    // The mean is over the steps of an iteration: those of the first still rise.
    let result = (0..4).map(|_| driver.train().expect("a result")).last().expect("four results");
    let policies = result["info"]["learner"].as_object().expect("policies");
    let ids: BTreeSet<&String> = policies.keys().collect();
    let id = ids.first().expect("a policy");
    number(&result, &format!("info.learner.{id}.learner_stats.mean_q"))
}

#[test]
fn values_behind_a_cut_are_those_of_legal_actions() {
    // -1 for ever, discounted by 0.9: -10 for an agent, -20 for a team of two. Before, with all actions counted as legal:
    // -1.07, -1.61 and -2.13 for episodes of one step.
    for cut in [1, 3] {
        let mut dqn = Dqn { lr: 5e-3, ..tiny_dqn() };
        dqn.off_policy.target_network_update_freq = 20;
        dqn.off_policy.training_intensity = Some(32.0);
        dqn.off_policy.replay_buffer_config.kind = ReplayKind::ReplayBuffer;
        dqn.off_policy.replay_buffer_config.learning_starts = 64;
        let q = learned(dqn, cut);
        assert!((q + 10.0).abs() < 0.5, "DQN, cut after {cut}: {q}");

        let mut sac = tiny_sac();
        sac.initial_alpha = 1e-4;
        sac.optimization.entropy_learning_rate = 0.0;
        sac.optimization.critic_learning_rate = 5e-3;
        sac.tau = 0.1;
        sac.off_policy.training_intensity = Some(32.0);
        sac.off_policy.replay_buffer_config.learning_starts = 64;
        let q = learned(sac, cut);
        assert!((q + 10.0).abs() < 0.5, "SAC, cut after {cut}: {q}");

        // QMIX approaches its value slowly, and once did so with all actions legal, too: its rows are those above.
        let groups = json!({"agent_groups": {"*": "team"}});
        let mut vdn: Qmix = with(&Qmix::get_default_config(), groups).expect("settings");
        vdn.mixer = Some(Mixing::Vdn);
        vdn.lr = 5e-3;
        vdn.common.exploration_config = ExplorationConfig::Random {};
        vdn.common.model.fcnet_hiddens = vec![16];
        vdn.off_policy.target_network_update_freq = 20;
        vdn.off_policy.training_intensity = Some(32.0);
        vdn.off_policy.replay_buffer_config.learning_starts = 64;
        let q = learned(vdn, cut);
        assert!((q + 20.0).abs() < 1.0, "VDN, cut after {cut}: {q}");
    }
}
