//! Policies with one thing changed, and training loops in the user's hands: both compute what the original does.

#[path = "../examples/one_change.rs"]
#[expect(dead_code, reason = "its `main`")]
mod one_change;
#[path = "../examples/training_loop.rs"]
#[expect(dead_code, reason = "its `main`")]
mod training_loop;

use std::collections::BTreeMap;

use pavlov::algorithms::{DqnPolicy, PpoPolicy, SacPolicy};
use pavlov::prelude::*;
use pavlov::trainer::models::UpdateOrder::{CriticsFirst, Together};
use pavlov::trainer::prelude::*;
use serde_json::Value as Json;

use crate::support::{quiet, tiny_dqn, tiny_ppo};
use one_change::SmallLogits;
use training_loop::iteration;

/// PPO whose KL coefficient, shuffling and standardised advantages all matter.
fn ppo(workers: usize) -> Ppo {
    let mut ppo = Ppo { num_sgd_iter: 3, lr: 1e-2, ..tiny_ppo() };
    ppo.common.num_workers = workers;
    ppo.common.num_envs_per_worker = 2 / workers.max(1);
    ppo
}

/// What a result says of learning and of episodes, without times.
fn learned(result: &Metrics) -> BTreeMap<String, Json> {
    ["episode_reward_mean", "episodes_this_iter", "timesteps_total", "info", "counters", "hist_stats"]
        .map(|key| (key.to_owned(), result[key].clone()))
        .into()
}

#[test]
fn a_loop_of_ones_own_gives_the_results_and_weights_of_train() {
    for workers in [0, 2] {
        let mut by_train = quiet(ppo(workers), "CartPole-v1").expect("a trainer");
        let mut by_loop = quiet(ppo(workers), "CartPole-v1").expect("a trainer");
        for _ in 0..4 {
            let wanted = by_train.train().expect("a result");
            let found = iteration(&mut by_loop).expect("a result");
            assert_eq!(learned(&found), learned(&wanted), "{workers} workers");
        }
        assert_eq!(by_loop.get_weights().expect("weights"), by_train.get_weights().expect("weights"));
        // Both go on alike, whichever way.
        let wanted = iteration(&mut by_train).expect("a result");
        assert_eq!(learned(&by_loop.train().expect("a result")), learned(&wanted));
    }
}

fn trained<T: Trainer>(settings: T, env: &str, class: Option<PolicyClass>) -> (Vec<Json>, Weights) {
    let builder = settings.builder(env).loggers(LoggerChoice::None);
    let builder = match class {
        Some(class) => builder.policy_class(class),
        None => builder,
    };
    let mut trainer = builder.build().expect("a trainer");
    let results = (0..4).map(|_| trainer.train().expect("a result")["info"]["learner"].clone()).collect();
    (results, trainer.get_weights().expect("weights"))
}

/// A change of nothing.
#[derive(Clone, Debug)]
struct Nothing;

impl<P: Overridable> Over<P> for Nothing {}

#[test]
fn a_class_that_changes_nothing_has_the_bits_of_the_original() {
    let class = PolicyClass::over::<PpoPolicy, _>("Same", &ppo(0), Nothing);
    assert_eq!(trained(ppo(0), "CartPole-v1", Some(class)), trained(ppo(0), "CartPole-v1", None));
    let mut by_sde = ppo(0);
    by_sde.sde.use_sde = true;
    let class = PolicyClass::over::<PpoPolicy, _>("Same", &by_sde, Nothing);
    let original = trained(by_sde.clone(), "Pendulum-v1", None);
    assert_eq!(trained(by_sde, "Pendulum-v1", Some(class)), original);
    let class = PolicyClass::over::<DqnPolicy, _>("Same", &tiny_dqn(), Nothing);
    assert_eq!(trained(tiny_dqn(), "CartPole-v1", Some(class)), trained(tiny_dqn(), "CartPole-v1", None));
    let mut sac = Sac::get_default_config();
    sac.common.num_envs_per_worker = 2;
    sac.common.train_batch_size = 8;
    sac.common.min_sample_timesteps_per_reporting = Some(16);
    sac.common.seed = Some(0);
    sac.off_policy.replay_buffer_config.capacity = 64;
    sac.off_policy.replay_buffer_config.learning_starts = 16;
    for (order, use_sde) in [(Together, false), (CriticsFirst, false), (CriticsFirst, true)] {
        sac.update_order = order;
        sac.sde.use_sde = use_sde;
        let class = PolicyClass::over::<SacPolicy, _>("Same", &sac, Nothing);
        assert_eq!(
            trained(sac.clone(), "Pendulum-v1", Some(class)),
            trained(sac.clone(), "Pendulum-v1", None)
        );
    }
}

#[test]
fn a_term_of_coefficient_0_changes_no_weight_and_another_one_does() {
    let of = |coefficient| {
        let class = PolicyClass::over("SmallLogits", &ppo(0), SmallLogits(coefficient));
        trained(ppo(0), "CartPole-v1", Some(class))
    };
    let (_, plain) = trained(ppo(0), "CartPole-v1", None);
    let (results, same) = of(0.0);
    assert_eq!(same, plain);
    let reported = |results: &[Json]| results[3]["default_policy"]["learner_stats"]["small_logits"].clone();
    assert_eq!(reported(&results), 0.0);
    let (results, other) = of(1.0);
    assert_ne!(other, plain);
    assert!(reported(&results).as_f64().is_some_and(|term| term > 0.0));
}

/// Advantages of 0, and the action 1 always.
#[derive(Clone, Debug)]
struct Stubborn(u32);

impl Over<PpoPolicy> for Stubborn {
    fn act(&self, _: &PpoPolicy, _: &[f32], act: Act<'_>) -> Result<()> {
        let ActionRows::Int(actions) = act.actions else { unreachable!("actions are discrete") };
        actions.fill(1);
        Ok(())
    }

    fn step_columns(&self, _: &PpoPolicy) -> Vec<(Column, usize)> {
        Vec::new()
    }

    fn postprocess(&self, _: &PpoPolicy, _: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        Ok(f.rows().with_f32s(Column::ADVANTAGES, &vec![1.0; f.rewards.len()]))
    }

    fn loss<'t>(&self, base: &PpoPolicy, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let pi = base.nets().pi(rows.online(), rows.obs()?);
        Ok(Loss::sum([("cloning", -pi.logp(rows.get(Column::ACTIONS)?).mean())]))
    }

    fn after_training(&mut self, _: &mut PpoPolicy, _: &BTreeMap<String, f64>) {
        self.0 += 1;
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("rounds", &self.0)?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        self.0 = state.get("rounds")?;
        Ok(())
    }
}

#[test]
fn a_rule_of_action_a_postprocessing_and_a_state_can_be_changed_and_are_restored() {
    let ppo = Ppo { normalize_advantages: pavlov::algorithms::ppo::NormalizeAdvantages::None, ..ppo(0) };
    let class = || PolicyClass::over("Stubborn", &ppo, Stubborn(0));
    let builder = || ppo.clone().builder("CartPole-v1").policy_class(class()).loggers(LoggerChoice::None);
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = builder().build().expect("a trainer");
    let losses: Vec<f64> = (0..3)
        .map(|_| {
            let result = trainer.train().expect("a result");
            let stats = &result["info"]["learner"]["default_policy"]["learner_stats"];
            stats["cloning"].as_f64().expect("a loss")
        })
        .collect();
    assert!(losses[2] < losses[0], "it learns the action that it always takes: {losses:?}");
    let checkpoint = trainer.save_to(home.path()).expect("a checkpoint");
    let state = |trainer: &Driver<Algorithm<Ppo>>| {
        trainer.get_policy("default_policy", |policy| policy.get_state()).expect("a policy").expect("a state")
    };
    assert_eq!(state(&trainer).nested("changes").expect("it").get::<u32>("rounds").expect("it"), 3);
    let mut restored = builder().build().expect("a trainer");
    restored.restore(&checkpoint).expect("the same class");
    assert_eq!(state(&restored), state(&trainer));
}
