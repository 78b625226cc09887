//! Observations that are no row of reals: integers and composite spaces are kept as they are, and networks read them
//! one-hot and flattened.

use std::marker::PhantomData;

use pavlov::envs::{self, Element, Env, Space, Step};
use pavlov::prelude::*;
use pavlov::torch::{Tensor, kind::FLOAT_CPU};
use pavlov::trainer::models::NetBuilder;
use pavlov::trainer::policy::{DEFAULT_POLICY, Spaces};

use crate::support::{quiet, spec, tiny_dqn, tiny_ppo, with_off_policy};

/// Shows one of `rows` by the seed of the episode; its one step is rewarded for the action that is the row's number
/// modulo 2.
#[derive(Clone)]
struct Guess<O> {
    space: Space,
    rows: Vec<Vec<f64>>,
    state: usize,
    of: PhantomData<O>,
}

impl<O: Element> Guess<O> {
    fn new(space: Space, rows: Vec<Vec<f64>>) -> Self {
        assert_eq!(space.dtype(), O::DTYPE);
        assert!(rows.iter().all(|row| space.contains(row)));
        Self { space, rows, state: 0, of: PhantomData }
    }

    fn row(&self, state: usize) -> Vec<O> {
        self.rows[state].iter().map(|&x| O::from_f64(x)).collect()
    }
}

impl<O: Element> Env for Guess<O> {
    type Obs = O;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.space.clone()
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> envs::Result<()> {
        self.state = (seed.unwrap_or_default() % self.rows.len() as u64) as usize;
        obs.copy_from_slice(&self.row(self.state));
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [O]) -> envs::Result<Step> {
        obs.copy_from_slice(&self.row(self.state));
        let right = action[0] == self.state as i64 % 2;
        Ok(Step { reward: f64::from(u8::from(right)), terminated: true, truncated: false })
    }
}

/// Trains until all rows get the right action, and says whether they did.
fn learns<T: Trainer, O: Element>(settings: T, env: &Guess<O>) -> bool {
    let copy = env.clone();
    let mut trainer = quiet(settings, move || copy.clone()).expect("a trainer");
    // The policy reads rows as the environment writes them, and nothing else fits.
    let forward = |trainer: &Driver<Algorithm<T>>, shape: &[i64]| {
        trainer.get_policy(DEFAULT_POLICY, |policy| policy.forward(&Tensor::zeros(shape, FLOAT_CPU)))
    };
    let shape: Vec<i64> = std::iter::once(1).chain(env.space.shape().iter().map(|&n| n as i64)).collect();
    assert!(forward(&trainer, &shape).expect("the only policy").is_ok(), "{}", env.space);
    assert!(forward(&trainer, &[1, 99]).expect("the only policy").is_err(), "{}", env.space);
    let all: Vec<O> = (0..env.rows.len()).flat_map(|state| env.row(state)).collect();
    (0..60).any(|_| {
        trainer.train().expect("a result");
        let actions = trainer.compute_actions(&all, false).expect("actions");
        let found = actions.iter().map(|action| action.discrete().expect("a choice"));
        found.eq((0..env.rows.len()).map(|state| state as i64 % 2))
    })
}

fn check<O: Element>(space: Space, rows: Vec<Vec<f64>>) {
    let env = Guess::<O>::new(space, rows);
    let mut ppo = Ppo { sgd_minibatch_size: 64, num_sgd_iter: 8, lr: 0.02, ..tiny_ppo() };
    ppo.common.rollout_fragment_length = 64;
    ppo.common.train_batch_size = 128;
    assert!(learns(ppo, &env), "PPO on {}", env.space);
    let mut dqn = Dqn { lr: 0.02, ..with_off_policy(|off| off.target_network_update_freq = 32) };
    dqn.common.train_batch_size = 32;
    dqn.common.min_sample_timesteps_per_reporting = Some(128);
    dqn.off_policy.replay_buffer_config.capacity = 1024;
    assert!(learns(dqn, &env), "DQN on {}", env.space);
}

#[test]
fn dqn_and_ppo_learn_from_one_integer() {
    // As many as FrozenLake-v1 has fields. Their parity is no threshold of the number itself.
    check::<i64>(Space::discrete(16), (0..16).map(|field| vec![f64::from(field)]).collect());
    check::<i64>(Space::Discrete { n: 5, start: -2 }, (-2..3).map(|field| vec![f64::from(field)]).collect());
}

#[test]
fn dqn_and_ppo_learn_from_several_integers() {
    let rows = [[0.0, 0.0], [2.0, 3.0], [0.0, 2.0], [2.0, 0.0], [1.0, 1.0], [1.0, 3.0]];
    check::<i64>(Space::multi_discrete(&[3, 4]), rows.map(|row| row.to_vec()).to_vec());
}

#[test]
fn dqn_and_ppo_learn_from_dicts_and_tuples() {
    let place = Space::discrete(4);
    let speed = Space::boxed(-1.0, 1.0, &[2]);
    let rows = [[0.0, -1.0, 1.0], [1.0, 0.5, 0.0], [2.0, -1.0, 1.0], [3.0, 0.5, 0.0]].map(|row| row.to_vec());
    check::<f32>(Space::dict([("place", place), ("speed", speed)]), rows.to_vec());
    let parts = vec![Space::discrete(3), Space::multi_binary(&[2])];
    let rows = [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]].map(|row| row.to_vec());
    check::<i64>(Space::Tuple(parts), rows.to_vec());
}

/// As many as Taxi-v3 has states.
#[test]
fn dqn_and_ppo_act_and_train_on_five_hundred_integers() {
    fn check<T: Trainer>(settings: T) {
        let env =
            Guess::<i64>::new(Space::discrete(500), (0..500).map(|state| vec![f64::from(state)]).collect());
        let mut trainer = quiet(settings, move || env.clone()).expect("a trainer");
        let before = trainer.get_weights().expect("weights");
        trainer.train().expect("a result");
        assert_ne!(*trainer.get_weights().expect("weights"), *before);
        let states: Vec<i64> = (0..500).collect();
        assert_eq!(trainer.compute_actions(&states, true).expect("actions").len(), 500);
    }
    check(tiny_ppo());
    check(tiny_dqn());
}

/// Both engines read rows as `Space::flatten_into` writes them.
#[test]
fn networks_read_the_numbers_of_the_flattened_space() {
    fn check<O: Element + pavlov::torch::kind::Element>(space: &Space, rows: &[Vec<f64>]) {
        let raw: Vec<O> = rows.iter().flatten().map(|&x| O::from_f64(x)).collect();
        let mut wanted = vec![9.0; rows.len() * space.flat_width()];
        space.flatten_into(bytemuck::cast_slice(&raw), &mut wanted).expect("rows of the space");
        let shape: Vec<i64> = std::iter::once(rows.len()).chain(space.shape()).map(|n| n as i64).collect();
        let obs = Tensor::from_slice(&raw).view(shape.as_slice());
        let spaces = Spaces { observation_space: space.clone(), action_space: Space::discrete(2) };
        for fused in [false, true] {
            let spec = spec(&spaces, fused);
            let net = NetBuilder::new(&spec);
            let width = net.obs_width();
            let mut learner = net.finish().expect("a learner");
            let found = learner
                .evaluate(&pavlov::trainer::Array::from(&obs), None, width, |_, x| x.obs())
                .expect("numbers");
            assert_eq!(found, wanted, "{space}, fused: {fused}");
        }
    }
    let speed = Space::boxed(-1.0, 1.0, &[2]);
    check::<f32>(&Space::boxed(-9.0, 9.0, &[2, 2]), &[vec![1.0, 2.0, -3.0, 4.5], vec![0.0; 4]]);
    check::<u8>(&Space::image(&[3]), &[vec![0.0, 7.0, 255.0]]);
    check::<u8>(&Space::multi_binary(&[2]), &[vec![0.0, 1.0], vec![1.0, 1.0]]);
    check::<i64>(&Space::Discrete { n: 3, start: -1 }, &[vec![-1.0], vec![1.0], vec![0.0]]);
    // Outside of the space: zeros.
    check::<i64>(&Space::Discrete { n: 3, start: -1 }, &[vec![-2.0], vec![2.0]]);
    check::<i64>(&Space::multi_discrete(&[3, 2]), &[vec![2.0, 0.0], vec![0.0, 1.0]]);
    let parts =
        [("a", speed.clone()), ("b", Space::discrete(3)), ("c", Space::multi_binary(&[1])), ("d", speed)];
    check::<f32>(&Space::dict(parts), &[vec![0.5, -0.5, 2.0, 1.0, 0.25, 1.0], vec![0.0; 6]]);
}
