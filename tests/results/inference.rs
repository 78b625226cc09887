//! Acting, weights, and starting afresh with other settings.

use pavlov::prelude::*;
use pavlov::torch::{Tensor, kind::FLOAT_CPU};
use pavlov::trainer::policy::{Act, DEFAULT_POLICY, Policy, PolicyClass, Seen};
use pavlov::trainer::rng::Stream;
use pavlov::trainer::{Session, to_config, unsquash};

use crate::support::{Doors, Rememberer, at, floats, number, quiet, refused, tiny_dqn, tiny_ppo};

/// Rows of standard normal numbers.
fn random_rows(n: usize, width: usize) -> Vec<f32> {
    let mut rng = Stream::new(1, "rows", 0);
    (0..n * width).map(|_| rng.normal()).collect()
}

/// The outputs of the network, one row after the other.
fn outputs<T: Trainer>(trainer: &Algorithm<T>, obs: &[f32], width: usize) -> Vec<f64> {
    let obs = Tensor::from_slice(obs).view([-1, width as i64]);
    let forward = trainer.get_policy(DEFAULT_POLICY, |policy| policy.forward(&obs));
    floats(&forward.expect("the only policy").expect("outputs"))
}

#[test]
fn a_single_action_is_the_policys_argmax() {
    fn check<T: Trainer>(settings: T) {
        let mut trainer = quiet(settings, "CartPole-v1").expect("a trainer");
        let obs = random_rows(50, 4);
        let wanted: Vec<i64> =
            outputs(&trainer, &obs, 4).chunks(2).map(|row| i64::from(row[1] > row[0])).collect();
        assert!(wanted.contains(&0) && wanted.contains(&1), "both actions are worth testing");
        let mut act = |row: &[f32]| trainer.compute_single_action(row, false).expect("an action");
        let found: Vec<i64> = obs.chunks(4).map(|row| act(row).discrete().expect("a choice")).collect();
        assert_eq!(found, wanted);
        let all = trainer.compute_actions(&obs, false).expect("actions");
        assert_eq!(all.iter().filter_map(Action::discrete).collect::<Vec<_>>(), wanted);
    }
    check(tiny_ppo());
    check(tiny_dqn());
}

#[test]
fn actions_of_a_box_are_inside_of_it_and_greedy_ones_are_the_stretched_mean() {
    let mut trainer = quiet(tiny_ppo(), "Pendulum-v1").expect("a trainer");
    let obs = random_rows(200, 3);
    let explored = trainer.compute_actions(&obs, true).expect("actions");
    let torque = |action: &Action| match action {
        Action::Float(row) => row[0],
        other => panic!("a torque is a number, not {other:?}"),
    };
    let torques: Vec<f32> = explored.iter().map(torque).collect();
    assert!(torques.iter().all(|t| (-2.0..=2.0).contains(t)), "{torques:?}");
    // With deviation 1 some reach the bounds and some do not.
    assert!(torques.contains(&2.0) && torques.iter().any(|t| t.abs() < 1.0), "{torques:?}");
    let greedy = trainer.compute_actions(&obs, false).expect("actions");
    for (found, row) in greedy.iter().zip(outputs(&trainer, &obs, 3).chunks(2)) {
        let wanted = unsquash(row[0] as f32, -2.0, 2.0);
        assert!((torque(found) - wanted).abs() < 1e-5);
    }
}

#[test]
fn exploring_draws_both_actions() {
    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    let mut act = |explore| trainer.compute_single_action(&[0.0_f32; 4], explore).expect("an action");
    let drawn: Vec<Action> = (0..100).map(|_| act(true)).collect();
    assert!(drawn.contains(&Action::Int(vec![0])) && drawn.contains(&Action::Int(vec![1])), "{drawn:?}");
    assert_eq!(act(false), act(false));
}

#[test]
fn observations_of_another_shape_or_kind_are_refused() {
    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    let short = trainer.compute_single_action(&[0.0_f32; 3], false);
    refused(short, &["3 f32 scalars were given, but one row is 4 f32 scalars (Box"]);
    let double = trainer.compute_single_action(&[0.0_f64; 4], false);
    refused(double, &["4 f64 scalars were given, but one row is 4 f32 scalars (Box"]);
    let two = trainer.compute_single_action(&[0.0_f32; 8], false);
    refused(two, &["2 rows were given where one is needed"]);
    let none: [f32; 0] = [];
    refused(trainer.compute_single_action(&none, false), &["0 rows were given where one is needed"]);
}

#[test]
fn weights_make_the_round_trip_and_reach_the_workers() {
    let build = |seed| {
        let mut ppo = tiny_ppo();
        ppo.common.seed = Some(seed);
        ppo.common.num_workers = 2;
        ppo.common.num_envs_per_worker = 1;
        ppo.common.rollout_fragment_length = 16;
        quiet(ppo, "CartPole-v1").expect("a trainer")
    };
    let first = build(0);
    let mut second = build(1);
    let weights = first.get_weights().expect("weights");
    assert_ne!(*second.get_weights().expect("weights"), *weights);
    second.set_weights(&weights).expect("weights that fit");
    assert_eq!(*second.get_weights().expect("weights"), *weights);
    // What a worker records of acting is what the learner's network says.
    let batch =
        second.workers().expect("workers").sample().and_then(|batch| batch.single()).expect("a fragment");
    let column = |c| floats(batch.get(c).expect("the column"));
    use pavlov::trainer::batch::Column;
    let obs: Vec<f32> = column(Column::OBS).iter().map(|&x| x as f32).collect();
    crate::support::assert_close(&column(Column::ACTION_DIST_INPUTS), &outputs(&first, &obs, 4), 1e-6);
}

#[test]
fn weights_of_another_network_are_refused() {
    let mut wide = tiny_ppo();
    wide.common.model.fcnet_hiddens = vec![9];
    let other = quiet(wide, "CartPole-v1").and_then(|t| t.get_weights()).expect("weights");
    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    refused(trainer.set_weights(&other), &["actor.0.weight: its shape is [9, 4], but the model's is [8, 4]"]);
}

#[test]
fn an_unknown_policy_names_those_there_are() {
    let trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    refused(trainer.get_policy("hider", |_| ()), &["no policy `hider`; there is default_policy"]);
}

#[test]
fn a_reset_with_other_settings_starts_afresh() {
    let mut other = tiny_ppo();
    other.lr = 1e-2;
    other.common.seed = Some(5);
    let fresh = quiet(other.clone(), "CartPole-v1").and_then(|mut t| Ok(t.train()?)).expect("a result");

    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    (0..3).for_each(|_| drop(trainer.train().expect("a result")));
    assert!(trainer.reset(to_config(&other).expect("a config"), None).expect("settings that are allowed"));
    assert_eq!(trainer.training_iteration(), 0);
    let result = trainer.train().expect("a result");
    for key in ["hist_stats", "info", "config", "episodes_total", "timesteps_total", "training_iteration"] {
        assert_eq!(at(&result, key), at(&fresh, key), "{key}");
    }
    assert_eq!(number(&result, "info.learner.default_policy.learner_stats.cur_lr"), 1e-2);
}

/// A trainer on episodes of 100 steps whose policy counts them in its memory and acts by the count.
fn remembering() -> Driver<Algorithm<Ppo>> {
    let builder = tiny_ppo().builder(|| Doors::new(100, false)).policy_class(Rememberer::class(4));
    builder.loggers(LoggerChoice::None).build().expect("a trainer")
}

#[test]
fn a_session_remembers_between_calls_and_forgets_on_reset() {
    let mut trainer = remembering();
    let mut session = trainer.session(2).expect("a session");
    let act = |session: &mut Session| -> Vec<i64> {
        let actions = session.compute_actions(&[0.0_f32; 2], false).expect("actions");
        actions.iter().map(|action| action.discrete().expect("a choice")).collect()
    };
    assert_eq!([act(&mut session), act(&mut session)], [[0, 0], [1, 1]]);
    session.reset(0).expect("there is one");
    assert_eq!([act(&mut session), act(&mut session)], [[0, 2], [1, 3]]);
    refused(session.reset(2), &["the session: there is no copy 2; it has 2, and the first is 0"]);
    let three = session.compute_actions(&[0.0_f32; 3], false);
    refused(three, &["3 rows were given, but the session has 2 copies"]);
    refused(trainer.session(0), &["a session: it was asked for 0 copies, but it needs at least 1"]);
    // Single calls have nothing to remember.
    let mut single = || trainer.compute_single_action(&[0.0_f32], false).expect("an action");
    assert_eq!([single(), single()], [Action::Int(vec![0]), Action::Int(vec![0])]);
}

#[test]
fn a_session_draws_as_single_calls_do_and_training_does_not_change_it() {
    let make = || quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    let mut first = make();
    let mut second = make();
    let obs = random_rows(64, 4);
    let mut session = first.session(64).expect("a session");
    let drawn = second.compute_actions(&obs, true).expect("actions");
    assert_eq!(session.compute_actions(&obs, true).expect("actions"), drawn);
    assert_ne!(session.compute_actions(&obs, true).expect("actions"), drawn, "streams go on");
    let outputs_of = |trainer: &mut Driver<Algorithm<Ppo>>| outputs(trainer, &obs, 4);
    let greedy: Vec<i64> = outputs_of(&mut first).chunks(2).map(|row| i64::from(row[1] > row[0])).collect();
    for _ in 0..3 {
        first.train().expect("a result");
    }
    let after = session.compute_actions(&obs, false).expect("actions");
    assert_eq!(after.iter().filter_map(Action::discrete).collect::<Vec<_>>(), greedy);
}

#[test]
fn a_session_takes_the_legal_actions_it_is_told() {
    let mut dqn = tiny_dqn();
    dqn.common.mask_actions = true;
    let mut trainer = quiet(dqn, || Doors::new(100, false)).expect("a trainer");
    let mut session = trainer.session(2).expect("a session");
    for legal in 0..4 {
        let mask = session.mask_mut().expect("the environment has masks");
        mask.iter_mut().enumerate().for_each(|(i, flag)| *flag = i % 4 == (legal + i / 4) % 4);
        let actions = session.compute_actions(&[0.0_f32; 2], true).expect("actions");
        let wanted = [legal, (legal + 1) % 4].map(|action| Action::Int(vec![action as i64]));
        assert_eq!(actions, wanted);
    }
    session.mask_mut().expect("the environment has masks").fill(false);
    refused(
        session.compute_actions(&[0.0_f32; 2], true),
        &["the action mask: copy 0 may take none of the 4"],
    );
    let mut trainer = quiet(tiny_dqn(), "CartPole-v1").expect("a trainer");
    assert!(trainer.session(1).expect("a session").mask_mut().is_none());
}

/// A policy that cannot act.
#[derive(Debug)]
struct Refusing;

impl Policy for Refusing {
    fn compute_actions(&mut self, _: Seen<'_>, _: Act<'_>) -> Result<()> {
        Err(Error::state("the refusing policy", "it was asked to act"))
    }
}

#[test]
fn a_policy_class_of_ones_own_replaces_the_algorithms() {
    let class = PolicyClass::new("Refusing", |_| Ok(Refusing));
    let builder = tiny_ppo().builder("CartPole-v1").policy_class(class).loggers(LoggerChoice::None);
    let mut trainer = builder.build().expect("a trainer");
    refused(trainer.train(), &["the refusing policy", "asked to act"]);
    let exported = trainer.get_policy(DEFAULT_POLICY, |p| p.forward(&Tensor::zeros([1, 4], FLOAT_CPU)));
    refused(exported.expect("the only policy"), &["no network to export", "implement `forward`"]);
}
