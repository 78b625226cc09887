//! What is learned from several agents, by one policy or by several.

use pavlov::envs::{
    self, Env, EnvCreator, MultiAgentEnv, MultiAgentOut, Space,
    native::{CartPole, CartPoleConfig},
    wrappers::TimeLimit,
};
use pavlov::prelude::*;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::agents::{Agent, Policies};
use pavlov::trainer::plan::Plan;
use pavlov::trainer::policy::{PolicyClass, Spaces};
use pavlov::trainer::rng::episode_seed;
use serde::{Deserialize, Serialize};

use super::turns::Turns;
use crate::support::{number, quiet, refused, tiny_ppo};

/// Steps in which no pole can fall.
const SHORT: usize = 8;

fn short_cart_pole() -> TimeLimit<CartPole> {
    TimeLimit::new(CartPole::new(CartPoleConfig::default()), SHORT)
}

/// Two carts that do not know of each other, with the episodes that copies 0 and 1 of a run of seed 0 play.
struct TwoCarts([TimeLimit<CartPole>; 2]);

impl MultiAgentEnv for TwoCarts {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["left".into(), "right".into()]
    }
    fn observation_space(&self, agent: usize) -> Space {
        self.0[agent].observation_space()
    }
    fn action_space(&self, agent: usize) -> Space {
        self.0[agent].action_space()
    }
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        let number = (0..1000).find(|&number| Some(episode_seed(0, 0, number)) == seed).unwrap_or(0);
        out.rewards.fill(0.0);
        for flags in [out.terminated, out.truncated] {
            flags.fill(false);
        }
        for flags in [out.alive, out.acting] {
            flags.fill(true);
        }
        for (copy, (cart, obs)) in self.0.iter_mut().zip(out.obs.chunks_exact_mut(4)).enumerate() {
            cart.reset(Some(episode_seed(0, copy as u64, number)), obs)?;
        }
        Ok(())
    }
    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        for (i, (cart, obs)) in self.0.iter_mut().zip(out.obs.chunks_exact_mut(4)).enumerate() {
            let step = cart.step(&actions[i..=i], obs)?;
            out.rewards[i] = step.reward;
            out.terminated[i] = step.terminated;
            out.truncated[i] = step.truncated;
            out.alive[i] = !step.truncated;
            out.acting[i] = !step.truncated;
        }
        Ok(())
    }
}

#[test]
fn two_agents_that_share_a_policy_teach_it_what_two_copies_do() {
    let mut copies = quiet(tiny_ppo(), short_cart_pole).expect("a driver");
    // The same rows: 16 steps of one copy with two agents.
    let mut ppo = tiny_ppo();
    ppo.common.num_envs_per_worker = 1;
    ppo.common.train_batch_size = 16;
    ppo.common.disable_env_checking = true;
    let carts = || TwoCarts([short_cart_pole(), short_cart_pole()]);
    let mut agents = quiet(ppo, EnvCreator::multi_agent(carts)).expect("a driver");
    assert_eq!(agents.get_weights().expect("weights"), copies.get_weights().expect("weights"));
    for _ in 0..4 {
        let of_agents = agents.train().expect("a result");
        let of_copies = copies.train().expect("a result");
        for key in ["total_loss", "policy_loss", "vf_loss", "kl", "entropy", "vf_explained_var"] {
            let path = format!("info.learner.default_policy.learner_stats.{key}");
            assert_eq!(number(&of_agents, &path), number(&of_copies, &path), "{key}");
        }
        assert_eq!(agents.get_weights().expect("weights"), copies.get_weights().expect("weights"));
        assert_eq!(
            number(&of_agents, "num_agent_steps_sampled"),
            number(&of_copies, "num_env_steps_sampled")
        );
        assert_eq!(
            number(&of_agents, "episode_reward_mean"),
            2.0 * number(&of_copies, "episode_reward_mean")
        );
    }
}

/// PPO with a policy for `agent_0` and one for the others; which learn is a setting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Split {
    #[serde(flatten)]
    ppo: Ppo,
    learning: Vec<String>,
}

impl Split {
    pub(crate) fn new(learning: &[&str]) -> Self {
        let learning = learning.iter().map(|&id| id.to_owned()).collect();
        let mut ppo = tiny_ppo();
        ppo.common.rollout_fragment_length = 25;
        ppo.common.train_batch_size = 50;
        Self { ppo, learning }
    }
}

impl Trainer for Split {
    const NAME: &'static str = "Split";

    fn get_default_config() -> Self {
        Self { ppo: Ppo::get_default_config(), learning: Vec::new() }
    }
    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        self.ppo.validate_config(spaces)
    }
    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        self.ppo.get_default_policy_class(spaces)
    }
    fn policies(&self, agents: &[Agent]) -> Result<Policies> {
        let class = self.get_default_policy_class(&agents[0].spaces)?;
        let classes = [("first", class.clone()), ("others", class)];
        let policies = Policies::new(classes, |agent| if agent == "agent_0" { "first" } else { "others" });
        Ok(policies.training(self.learning.iter().cloned()))
    }
    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        self.ppo.execution_plan(workers)
    }
    fn common(&self) -> &Common {
        &self.ppo.common
    }
    fn common_mut(&mut self) -> &mut Common {
        &mut self.ppo.common
    }
}

#[test]
fn each_policy_learns_from_its_own_agents_and_one_that_is_not_trained_stays_as_it_is() {
    for (learning, learned) in [(&["first", "others"][..], [true, true]), (&["others"][..], [false, true])] {
        let mut driver = quiet(Split::new(learning), "simple_spread_v3").expect("a driver");
        let weights = |driver: &Driver<Algorithm<Split>>, id| {
            driver.get_policy(id, |policy| policy.get_weights()).expect("a policy")
        };
        let before = ["first", "others"].map(|id| weights(&driver, id));
        assert_ne!(before[0], before[1], "they start from weights of their own");
        let result = driver.train().expect("a result");
        for (i, id) in ["first", "others"].into_iter().enumerate() {
            assert_eq!(weights(&driver, id) != before[i], learned[i], "{id} of {learning:?}");
            let reported = result["info"]["learner"].get(id);
            assert_eq!(reported.is_some(), learned[i], "{reported:?}");
            if let Some(reported) = reported {
                // Two copies, 25 steps: one agent, and two.
                assert_eq!(reported["num_agent_steps_trained"], 50 * (i + 1));
            }
        }
        assert_eq!(number(&result, "num_env_steps_sampled"), 50.0);
        let rewards =
            ["policy_reward_mean.first", "policy_reward_mean.others"].map(|key| number(&result, key));
        let whole = number(&result, "episode_reward_mean");
        assert!((rewards[0] + 2.0 * rewards[1] - whole).abs() < 1e-9 * whole.abs(), "{rewards:?}, {whole}");
        let bounds = ["policy_reward_min.first", "policy_reward_max.first"].map(|key| number(&result, key));
        assert!(bounds[0] <= rewards[0] && rewards[0] <= bounds[1], "{bounds:?}");
    }
}

#[test]
fn evaluation_plays_episodes_of_all_agents() {
    let mut driver = quiet(Split::new(&["first", "others"]), "simple_spread_v3").expect("a driver");
    driver.train().expect("a result");
    let play = |driver: &mut Driver<Algorithm<Split>>| driver.play(5, 7, false, 2).expect("episodes");
    let played = play(&mut driver);
    let again = play(&mut driver);
    assert_eq!(played.episodes, again.episodes);
    assert_eq!(played.frames.len(), 2);
    for (number, episode) in played.episodes.iter().enumerate() {
        assert_eq!((episode.number, episode.length), (number as u64, 25));
        let agents: Vec<&str> = episode.agent_rewards.iter().map(|agent| agent.agent.as_str()).collect();
        assert_eq!(agents, ["agent_0", "agent_1", "agent_2"]);
        let sum: f64 = episode.agent_rewards.iter().map(|agent| agent.reward).sum();
        assert!((sum - episode.total_reward).abs() < 1e-9 * sum.abs());
    }
    let error = driver.compute_single_action(&[0.0_f32; 18], false);
    refused(error, &["several policies (first, others)", "session_of"]);
    let mut session = driver.session_of("others", 2).expect("a session");
    assert_eq!(session.compute_actions(&[0.0_f32; 36], false).expect("two actions").len(), 2);
}

#[test]
fn policies_and_agents_that_do_not_fit_are_refused() {
    let agents = quiet(Split::new(&["first"]), Turns::creator());
    refused(agents, &["`multiagent.policies.first`", "no agent acts by it", "a, b, c"]);
    refused(
        quiet(Split::new(&["third"]), "simple_spread_v3"),
        &["`multiagent.policies_to_train` is \"third\", but there is first, others"],
    );
    refused(quiet(Split::new(&[]), "simple_spread_v3"), &["at least one policy must learn"]);
}
