//! Memory, masks, random first steps and noise, on the one way from observations to actions.

use std::collections::BTreeSet;

use pavlov::envs::{Space, Step};
use pavlov::prelude::*;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::batch::{Column, SampleBatch, TrainBatch};
use pavlov::trainer::models::Sde;
use pavlov::trainer::policy::{Act, ActionDist, Fragment, Policy, PolicyClass, Seen};
use pavlov::trainer::settings::{BatchMode, ExplorationConfig};
use serde_json::json;

use crate::support::{
    BEGAN, Clockwork, Doors, REMEMBERED, Rememberer, assert_close, bytes, clockwork, going_on, numbers,
    quiet, refused, scripted, tiny_dqn, tiny_ppo, with_off_policy, worker_set, workers_with,
};

/// Two copies, fragments of so many steps.
fn two_copies(fragment: usize) -> Common {
    Common { num_envs_per_worker: 2, rollout_fragment_length: fragment, ..tiny_ppo().common }
}

fn sample(workers: &WorkerSet) -> SampleBatch {
    workers.sample().and_then(TrainBatch::single).expect("a fragment")
}

#[test]
fn a_policy_remembers_until_its_episode_ends() {
    for env in [Clockwork::terminating(3), Clockwork::truncating(3)] {
        let workers = workers_with(&two_copies(4), Rememberer::class(2), clockwork(env)).expect("workers");
        for (counted, began) in [([0, 1, 2, 0], [1, 0, 0, 1]), ([1, 2, 0, 1], [0, 0, 1, 0])] {
            let batch = sample(&workers);
            let of_copy = counted.map(|n| [f64::from(n), -2.0 * f64::from(n)]).concat();
            assert_eq!(numbers(&batch, REMEMBERED), [of_copy.clone(), of_copy].concat());
            assert_eq!(numbers(&batch, BEGAN), [began, began].concat().map_to_f64());
            let actions = counted.map(|n| f64::from(n % 2));
            assert_eq!(numbers(&batch, Column::ACTIONS), [actions, actions].concat());
        }
    }
}

trait MapToF64 {
    fn map_to_f64(self) -> Vec<f64>;
}

impl MapToF64 for Vec<i32> {
    fn map_to_f64(self) -> Vec<f64> {
        self.into_iter().map(f64::from).collect()
    }
}

#[test]
fn a_restored_run_remembers_and_masks_what_the_saved_one_would() {
    let mut ppo = tiny_ppo();
    ppo.common.mask_actions = true;
    ppo.common.rollout_fragment_length = 16;
    let make = || {
        let builder = ppo.clone().builder(|| Doors::new(7, true)).policy_class(Rememberer::class(4));
        builder.loggers(LoggerChoice::None).build().expect("a trainer")
    };
    let rest = |trainer: &Driver<Algorithm<Ppo>>| sample(trainer.workers().expect("workers"));
    let whole = make();
    rest(&whole);
    let wanted = rest(&whole);
    let home = tempfile::tempdir().expect("a directory");
    let mut saved = make();
    rest(&saved);
    let path = saved.save_to(home.path()).expect("a checkpoint");
    let mut restored = make();
    restored.restore(&path).expect("a checkpoint that fits");
    let found = rest(&restored);
    // 16 steps end in the middle of an episode of 7.
    assert_eq!(numbers(&wanted, REMEMBERED)[0], 2.0);
    for (column, _) in wanted.columns() {
        assert_eq!(bytes(&found, column), bytes(&wanted, column), "{}", column.name());
    }
}

/// The mask of every row by its observation, and of what followed.
fn masks(batch: &SampleBatch, obs: Column) -> Vec<f64> {
    numbers(batch, obs)
        .iter()
        .flat_map(|&t| Doors::mask(t as usize).map(|legal| f64::from(u8::from(legal))))
        .collect()
}

#[test]
fn masked_algorithms_choose_legal_actions_only_and_keep_the_masks_beside_the_observations() {
    fn check<T: Trainer>(mut settings: T, truncates: bool) -> SampleBatch {
        let common = settings.common_mut();
        common.mask_actions = true;
        common.rollout_fragment_length = 64;
        let workers = worker_set(&settings, move || Doors::new(7, truncates)).expect("workers");
        let batch = sample(&workers);
        // The environment rewards what was legal.
        assert_eq!(numbers(&batch, Column::ACTION_MASK), masks(&batch, Column::OBS));
        let actions = numbers(&batch, Column::ACTIONS);
        let legal =
            |row: usize| Doors::mask(numbers(&batch, Column::OBS)[row] as usize)[actions[row] as usize];
        assert!((0..batch.rows()).all(legal), "{actions:?}");
        assert!((0..4).all(|action| actions.contains(&f64::from(action))), "{actions:?}");
        batch
    }
    // Epsilon is 1 at first, then SoftQ looks at the values.
    for exploration_config in
        [tiny_dqn().common.exploration_config, ExplorationConfig::SoftQ { temperature: 1.0 }]
    {
        let mut dqn = tiny_dqn();
        dqn.common.exploration_config = exploration_config;
        for truncates in [false, true] {
            let batch = check(dqn.clone(), truncates);
            assert_eq!(numbers(&batch, Column::NEW_ACTION_MASK), masks(&batch, Column::NEW_OBS));
        }
    }
    let batch = check(tiny_ppo(), true);
    let logits = numbers(&batch, Column::ACTION_DIST_INPUTS);
    let legal = masks(&batch, Column::OBS);
    assert!(logits.iter().zip(&legal).all(|(&x, &legal)| (x == -1e9) == (legal == 0.0)), "{logits:?}");
    let logp = numbers(&batch, Column::ACTION_LOGP);
    let actions = numbers(&batch, Column::ACTIONS);
    for (row, logits) in logits.chunks(4).enumerate() {
        let of_legal: f64 = logits.iter().filter(|&&x| x > -1e9).map(|x| x.exp()).sum();
        assert_close(&[logp[row]], &[logits[actions[row] as usize] - of_legal.ln()], 1e-5);
    }
}

#[test]
fn a_greedy_policy_takes_the_best_legal_action() {
    let mut dqn = tiny_dqn();
    dqn.common.mask_actions = true;
    let mut trainer = quiet(dqn, || Doors::new(7, false)).expect("a trainer");
    let played = trainer.play(3, 0, false, 0).expect("an evaluation").episodes;
    // A reward for each legal action.
    assert!(played.iter().all(|episode| episode.total_reward == 7.0), "{played:?}");
}

#[test]
fn algorithms_learn_from_masked_rows() {
    fn check<T: Trainer>(mut settings: T) {
        settings.common_mut().mask_actions = true;
        let mut trainer = quiet(settings, || Doors::new(7, true)).expect("a trainer");
        for _ in 0..3 {
            trainer.train().expect("a result");
        }
    }
    check(tiny_ppo());
    check(with_off_policy(|off| off.n_step = 3));
    let mut whole = tiny_ppo();
    whole.common.batch_mode = BatchMode::CompleteEpisodes;
    check(whole);
}

#[test]
fn a_mask_without_a_legal_action_is_an_error_but_at_the_end_of_an_episode() {
    let mut dqn = tiny_dqn();
    dqn.common.mask_actions = true;
    dqn.common.rollout_fragment_length = 8;
    let closed_at = |t| move || Doors::new(4, true).closed_at(t);
    let stuck = worker_set(&dqn, closed_at(2)).and_then(|workers| workers.sample());
    refused(
        stuck,
        &["the action mask: copy 0 may take none of the 4 actions", "allow one, or end the episode"],
    );
    let batch = worker_set(&dqn, closed_at(4)).map(|workers| sample(&workers)).expect("workers");
    let next = numbers(&batch, Column::NEW_ACTION_MASK);
    let open: Vec<usize> = (0..batch.rows()).filter(|i| next[i * 4..][..4] == [1.0; 4]).collect();
    assert_eq!(open, [3, 7, 11, 15]);
}

#[test]
fn masks_are_refused_where_there_are_none() {
    let mut ppo = tiny_ppo();
    ppo.common.mask_actions = true;
    let says = "does not say which actions are legal: leave the setting out; or implement `action_mask`";
    refused(worker_set(&ppo, "CartPole-v1"), &["`mask_actions` is true, but this environment", says]);
    refused(
        worker_set(&ppo, "Pendulum-v1"),
        &["`mask_actions` is true", "a Discrete or MultiDiscrete action space"],
    );
}

#[test]
fn without_the_setting_masks_are_not_asked_for() {
    let batch =
        worker_set(&tiny_ppo(), || Doors::new(7, true)).map(|workers| sample(&workers)).expect("workers");
    assert!(!batch.has(Column::ACTION_MASK));
}

/// Takes action 3, legal or not, or -0.5 of every component; explores as the settings say.
#[derive(Debug)]
struct Stubborn(ExplorationConfig);

impl Stubborn {
    fn class(exploration: &ExplorationConfig) -> PolicyClass {
        let exploration = exploration.clone();
        PolicyClass::new("Stubborn", move |_| Ok(Self(exploration.clone())))
    }
}

impl Policy for Stubborn {
    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        match act.actions {
            pavlov::trainer::policy::ActionRows::Int(actions) => {
                actions.fill(3);
                Ok(())
            }
            pavlov::trainer::policy::ActionRows::Float(ref actions) => {
                let head = vec![-0.5; actions.len()];
                assert_eq!(seen.obs.len(), 2);
                act.with_noise(&head, &self.0)
            }
        }
    }

    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.rows())
    }
}

fn actions(common: &Common, env: impl pavlov::envs::IntoEnvCreator) -> Vec<f64> {
    let workers = workers_with(common, Stubborn::class(&common.exploration_config), env).expect("workers");
    numbers(&sample(&workers), Column::ACTIONS)
}

#[test]
fn the_first_steps_are_drawn_at_random_among_legal_actions() {
    let exploration_config = ExplorationConfig::StochasticSampling { random_timesteps: 200 };
    let mut common = Common { exploration_config, mask_actions: true, ..two_copies(128) };
    let copies = |common: &Common| -> Vec<Vec<f64>> {
        actions(common, || Doors::new(500, false)).chunks(128).map(<[f64]>::to_vec).collect()
    };
    let drawn = copies(&common);
    for copy in &drawn {
        // Steps 0, 2, 4, ... of the run are at t = 0, 1, 2, ...
        let (random, own) = copy.split_at(100);
        assert!(random.iter().enumerate().all(|(t, &action)| Doors::mask(t)[action as usize]), "{random:?}");
        assert!((0..4).all(|action| random.contains(&f64::from(action))), "{random:?}");
        assert!(own.iter().all(|&action| action == 3.0), "{own:?}");
    }
    assert_ne!(drawn[0], drawn[1], "each copy draws from its own stream");
    common.explore = false;
    assert!(copies(&common).concat().iter().all(|&action| action == 3.0));
}

#[test]
fn random_first_steps_of_a_box_reach_all_of_it() {
    let exploration_config = ExplorationConfig::GaussianNoise {
        random_timesteps: u64::MAX,
        stddev: 0.0,
        initial_scale: 1.0,
        final_scale: 1.0,
        scale_timesteps: 1,
    };
    let env = || scripted(Space::boxed(300.0, 500.0, &[1]), |_, _, _: &[f32], _| Ok(going_on(0.0)));
    let stretched = Common { exploration_config, ..two_copies(256) };
    let range = |drawn: &[f64]| drawn.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    let (least, most) = range(&actions(&stretched, env));
    assert!((-1.0..-0.95).contains(&least) && (0.95..1.0).contains(&most), "{least} to {most}");
    let raw = Common { normalize_actions: false, ..stretched };
    let (least, most) = range(&actions(&raw, env));
    assert!((300.0..305.0).contains(&least) && (495.0..500.0).contains(&most), "{least} to {most}");
}

/// Draws from narrow distributions around -0.5, with the noise of the settings on top.
#[derive(Debug)]
struct Narrow(ActionDist, ExplorationConfig);

impl Policy for Narrow {
    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        let mean = (-0.5f32).atanh();
        let inputs = [mean, mean, -20.0, -20.0].repeat(seen.obs.len());
        act.sample_with_noise(&self.0, &inputs, &self.1)
    }

    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.rows())
    }
}

#[test]
fn noise_comes_on_top_of_drawn_actions_while_exploring() {
    let space = Space::boxed(-1.0, 1.0, &[2]);
    let drawn = |common: &Common| {
        let dist = ActionDist::squashed("Narrow", &space);
        let strategy = common.exploration_config.clone();
        let dist = dist.expect("a distribution");
        let class = PolicyClass::new("Narrow", move |_| Ok(Narrow(dist.clone(), strategy.clone())));
        let actions = space.clone();
        let env = move || scripted(actions.clone(), |_, _, _: &[f32], _| Ok(going_on(0.0)));
        let workers = workers_with(common, class, env).expect("workers");
        numbers(&sample(&workers), Column::ACTIONS)
    };
    let exploration_config: ExplorationConfig = serde_json::from_value(json!({
        "type": "OrnsteinUhlenbeckNoise", "random_timesteps": 0, "ou_base_scale": 0.1, "final_scale": 1.0,
    }))
    .expect("a strategy");
    let mut common = Common { exploration_config, ..two_copies(1000) };
    let noisy = drawn(&common);
    let (first, second): (Vec<f64>, Vec<f64>) =
        noisy[..1998].iter().zip(&noisy[2..]).map(|(x, y)| (x + 0.5, y + 0.5)).unzip();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    // An autoregressive process with coefficient 1 - 0.15: the share of a step that is left in the next one is known to
    // sqrt((1 - 0.85^2) / 1998) = 0.012.
    assert_close(&[product(&first, &second) / product(&first, &first)], &[0.85], 0.048);
    common.explore = false;
    assert_close(&drawn(&common), &[-0.5; 4000], 1e-6);
    common.explore = true;
    common.exploration_config = ExplorationConfig::StochasticSampling { random_timesteps: 0 };
    // The least deviation of a squashed distribution is exp(-5) before tanh, and 0.75 of it behind: 0.005.
    assert_close(&drawn(&common), &[-0.5; 4000], 0.03);
}

#[test]
fn gaussian_noise_is_added_while_exploring_and_stays_inside() {
    let noise = |stddev| ExplorationConfig::GaussianNoise {
        random_timesteps: 0,
        stddev,
        initial_scale: 0.5,
        final_scale: 0.5,
        scale_timesteps: 1,
    };
    let env = || scripted(Space::boxed(-1.0, 1.0, &[2]), |_, _, _: &[f32], _| Ok(going_on(0.0)));
    let mut common = Common { exploration_config: noise(0.2), ..two_copies(1000) };
    let drawn = actions(&common, env);
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    let deviation = (drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64).sqrt();
    // 4,000 draws of -0.5 + 0.1 n: the mean is known to 0.0016, the deviation to 0.0011.
    assert_close(&[mean, deviation], &[-0.5, 0.1], 0.0064);
    common.exploration_config = noise(20.0);
    let drawn = actions(&common, env);
    let on_bounds = |x: &&f64| x.abs() == 1.0;
    assert!(drawn.iter().all(|x| x.abs() <= 1.0) && drawn.iter().filter(on_bounds).count() > 3000);
    common.explore = false;
    assert!(actions(&common, env).iter().all(|&x| x == -0.5));
    common.exploration_config = ExplorationConfig::EpsilonGreedy {
        initial_epsilon: 1.0,
        final_epsilon: 0.1,
        warmup_timesteps: 0,
        epsilon_timesteps: 1,
        epsilon_schedule: None,
    };
    common.explore = true;
    let refusing = workers_with(&common, Stubborn::class(&common.exploration_config), env);
    refused(
        refusing.and_then(|w| w.sample()),
        &["`exploration_config.type` is EpsilonGreedy", "GaussianNoise"],
    );
}

#[test]
fn noise_that_drifts_starts_at_zero_with_every_episode() {
    // Each step adds 0.2 n and takes away `theta` of what there is; the action moves by 2 * 0.05 of it.
    for theta in [0.0, 0.15] {
        let exploration_config = ExplorationConfig::OrnsteinUhlenbeckNoise {
            random_timesteps: 0,
            ou_base_scale: 0.1,
            ou_theta: theta,
            ou_sigma: 0.2,
            initial_scale: 0.5,
            final_scale: 0.5,
            scale_timesteps: 1,
        };
        let end = |t| Step { terminated: t % 10 == 0, ..going_on(0.0) };
        let env = move || scripted(Space::boxed(-1.0, 1.0, &[2]), move |_, t, _: &[f32], _| Ok(end(t)));
        let mut common = Common { exploration_config, ..two_copies(1000) };
        let drawn = actions(&common, env);
        let noise: Vec<f64> = drawn.iter().map(|a| (a + 0.5) / 0.1).collect();
        // Two components a step.
        let before = |i: usize| if (i / 2).is_multiple_of(10) { 0.0 } else { noise[i - 2] };
        let added: Vec<f64> = (0..noise.len()).map(|i| noise[i] - (1.0 - theta) * before(i)).collect();
        let mean = added.iter().sum::<f64>() / added.len() as f64;
        let deviation = (added.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / added.len() as f64).sqrt();
        // 4,000 draws: the mean is known to 0.0032, the deviation to 0.0022.
        assert_close(&[mean, deviation], &[0.0, 0.2], 0.0128);
        common.explore = false;
        assert!(actions(&common, env).iter().all(|&x| x == -0.5));
    }
}

#[test]
fn state_dependent_noise_stays_for_its_steps_and_is_drawn_anew_with_a_fragment() {
    // The first observation of an episode is 0, whose features are 0 before anything is learned; all others are 1.
    let seen = |t, obs: &mut [f32]| {
        obs[0] = 1.0;
        Ok(Step { terminated: t % 7 == 0, ..going_on(0.0) })
    };
    let env = move || scripted(Space::boxed(-1.0, 1.0, &[2]), move |_, t, _: &[f32], obs| seen(t, obs));
    // The actions of both copies in two fragments, two components each.
    let of_copies = |sde_sample_freq| -> Vec<Vec<[f64; 2]>> {
        let sde = Sde { use_sde: true, sde_sample_freq, ..Sde::default() };
        let workers = worker_set(&Ppo { common: two_copies(14), sde, ..tiny_ppo() }, env).expect("workers");
        let all = [sample(&workers), sample(&workers)].map(|batch| numbers(&batch, Column::ACTIONS)).concat();
        let actions: Vec<[f64; 2]> = all.chunks(2).map(|action| [action[0], action[1]]).collect();
        actions.chunks(14).map(<[[f64; 2]]>::to_vec).collect()
    };
    let mut all = BTreeSet::new();
    for (freq, runs) in [(4, vec![1..4, 4..7, 8..12, 12..14]), (-1, vec![1..7, 8..14])] {
        let copies = of_copies(freq);
        assert_eq!(copies.len(), 4, "two copies in two fragments");
        for copy in &copies {
            for run in &runs {
                let first = &copy[run.start];
                assert!(copy[run.clone()].iter().all(|action| action == first), "{freq}: {copy:?}");
            }
            let firsts: BTreeSet<String> = runs.iter().map(|run| format!("{:?}", copy[run.start])).collect();
            // With -1 the noise outlives the episode that ends within the fragment.
            assert_eq!(firsts.len(), if freq == 4 { 4 } else { 1 }, "{freq}: {copy:?}");
            all.extend(firsts);
        }
    }
    // With -1 the stream of a copy gives in two fragments what it gives with 4 in one.
    assert_eq!(all.len(), 4 * 4, "every copy and fragment has noise of its own");
}

/// Gives numbers of a wrong kind or count.
#[derive(Debug)]
struct Wrong(ActionDist, usize);

impl Policy for Wrong {
    fn compute_actions(&mut self, _seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        act.sample(&self.0, &vec![0.0; self.1])
    }
}

#[test]
fn what_does_not_fit_the_action_space_is_an_error() {
    let sampled = |dist: ActionDist, numbers| {
        let class = PolicyClass::new("Wrong", move |_| Ok(Wrong(dist.clone(), numbers)));
        workers_with(&two_copies(4), class, "CartPole-v1").and_then(|workers| workers.sample())
    };
    let gaussian = sampled(ActionDist::DiagGaussian { dim: 1 }, 4);
    refused(gaussian, &["the policy: it gives real components, but the environment takes discrete actions"]);
    let short = sampled(ActionDist::Categorical { n: 2 }, 3);
    refused(short, &["the policy: it gave 3 parameters of distributions, but 4 are needed"]);
}
