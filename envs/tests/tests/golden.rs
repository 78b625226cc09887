//! numpy's draws and Gymnasium's episodes, as recorded from the real ones.

use pavlov_envs::{
    CartPole, CartPoleConfig, CartPoleVector, DType, Element, Env, EnvConfig, NpRandom, Pendulum,
    PendulumConfig, Space, SpaceSampler, StepOut, TimeLimit, VectorEnv,
};
use serde_json::Value;

use crate::fixture::{Fixture, assert_close, bits, f32s, f64s};

const ONE_STEP: f64 = 1e-12;
const WHOLE_EPISODE: f64 = 1e-6;

#[test]
fn draws_equal_numpy() {
    for row in &Fixture::open("np_random.jsonl").rows {
        let mut random = NpRandom::new(row["seed"].as_u64().unwrap());
        let seed = &row["seed"];
        for expected in f64s(&row["random"]) {
            assert_eq!(random.random().to_bits(), expected.to_bits(), "random, seed {seed}");
        }
        for expected in f64s(&row["uniform"]) {
            assert_eq!(random.uniform(-0.05, 0.05).to_bits(), expected.to_bits(), "uniform, seed {seed}");
        }
        for range in row["integers"].as_array().unwrap() {
            let (low, high) = (range[0].as_i64().unwrap(), range[1].as_i64().unwrap());
            for expected in range[2].as_array().unwrap() {
                assert_eq!(
                    random.integers(low, high),
                    expected.as_i64().unwrap(),
                    "{low}..{high}, seed {seed}"
                );
            }
        }
        for (i, expected) in f64s(&row["normal"]).into_iter().enumerate() {
            assert_eq!(random.normal().to_bits(), expected.to_bits(), "normal {i}, seed {seed}");
        }
    }
}

#[test]
fn a_stream_goes_on_after_its_bytes() {
    let mut random = NpRandom::new(3);
    random.next_u32();
    let mut copy = NpRandom::from_bytes(&random.to_bytes());
    assert_eq!(copy, random);
    assert_eq!(copy.next_u32(), random.next_u32());
    assert_eq!(copy.next_u64(), random.next_u64());
}

#[test]
fn samples_of_spaces_equal_gymnasium() {
    for row in &Fixture::open("samples.jsonl").rows {
        let space = match row["space"].as_str().unwrap() {
            "discrete" => Space::Discrete { n: 7, start: -2 },
            "multi_discrete" => Space::MultiDiscrete { nvec: vec![2, 5, 9] },
            "multi_binary" => Space::MultiBinary { n: 6 },
            "bounded" => Space::boxed(-2.0, 2.0, &[3]),
            "real" => Space::real(&[3]),
            "image" => Space::image(&[2, 2]),
            other => panic!("{other}"),
        };
        let mut random = NpRandom::new(9);
        for expected in row["samples"].as_array().unwrap() {
            let mut sample = vec![0.0_f64; space.width()];
            space.sample(&mut random, &mut sample);
            let expected: Vec<f64> =
                expected.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            // Float boxes are rounded to single precision by Gymnasium.
            let rounded: Vec<f64> = match space {
                Space::Box { .. } => sample.iter().map(|&x| f64::from(x as f32)).collect(),
                _ => sample,
            };
            assert_eq!(rounded, expected, "{space}");
        }
    }
}

#[test]
fn seeded_samples_and_flat_rows_of_all_spaces_equal_gymnasium() {
    let inf = f64::INFINITY;
    let half = Space::bounded(&[0.1, -inf, -inf, -1.0], &[inf, 0.7, inf, 1.0]).unwrap();
    let lamps = Space::Tuple(vec![Space::MultiBinary { n: 2 }, Space::MultiDiscrete { nvec: vec![2, 3] }]);
    for row in &Fixture::open("composites.jsonl").rows {
        let space = match row["space"].as_str().unwrap() {
            "half" => half.clone(),
            "doubles" => Space::boxed(-0.3, 0.1, &[2]).with_dtype(DType::F64),
            "integers" => Space::boxed(-5.0, 90.0, &[3]).with_dtype(DType::I64),
            "tuple" => Space::Tuple(vec![half.clone(), Space::discrete(4)]),
            "nested" => Space::dict([
                ("speed", Space::boxed(-1.0, 1.0, &[2])),
                ("gear", Space::Discrete { n: 3, start: 1 }),
                ("lamps", lamps.clone()),
            ]),
            other => panic!("{other}"),
        };
        let mut sampler = SpaceSampler::new(&space, 11);
        let flats: Vec<_> = row["flat"].as_array().unwrap().iter().map(f32s).collect();
        for (i, expected) in row["samples"].as_array().unwrap().iter().enumerate() {
            let expected = f64s(expected);
            // A row has the scalar type of the space, which the parts of Gymnasium's sample have each for itself.
            let (sample, flat) = match space.dtype() {
                DType::F32 => draw::<f32>(&mut sampler, &space),
                DType::I64 => draw::<i64>(&mut sampler, &space),
                _ => draw::<f64>(&mut sampler, &space),
            };
            assert_eq!(bits(&sample), bits(&expected), "{space}, sample {i}");
            if let Some(expected) = flats.get(i) {
                assert_eq!(flat, *expected, "{space}, flat sample {i}");
            }
        }
        let Space::Box { low, high, dtype, .. } = space.flattened() else { panic!("no box") };
        let rounded = |bounds: &[f64]| bounds.iter().map(|&x| x as f32).collect::<Vec<_>>();
        assert_eq!(dtype, DType::F32);
        assert_eq!(rounded(&low), rounded(&f64s(&row["low"])), "{space}");
        assert_eq!(rounded(&high), rounded(&f64s(&row["high"])), "{space}");
    }
}

/// A sample, and as a model reads it.
fn draw<T: Element>(sampler: &mut SpaceSampler, space: &Space) -> (Vec<f64>, Vec<f32>) {
    let mut row = vec![T::default(); space.width()];
    sampler.sample(&mut row);
    assert_eq!(space.violation(&row), None);
    let mut flat = vec![f32::NAN; space.flat_width()];
    space.flatten_into(bytemuck::cast_slice(&row), &mut flat).unwrap();
    (row.iter().map(|x| x.to_f64()).collect(), flat)
}

#[test]
fn cartpole_equals_gymnasium_step_by_step() {
    let fixture = Fixture::open("cartpole.jsonl");
    let exact = fixture.same_libm();
    for (i, episode) in fixture.rows.iter().enumerate() {
        let seed = episode["seed"].as_u64().unwrap();
        let mut env = CartPole::new(cartpole_config(i));
        let mut obs = [0.0; 4];
        env.reset(Some(seed), &mut obs).unwrap();
        assert_eq!(bits(&env.state()), bits(&f64s(&episode["start"])), "start, seed {seed}");
        assert_eq!(obs[..], f32s(&episode["obs"][0]));
        let mut before = env.state();
        for (t, (action, expected)) in actions(episode).zip(states(episode)).enumerate() {
            let place = format!("seed {seed}, step {t}");
            env.set_state(before);
            let step = env.step(&[action], &mut obs).unwrap();
            assert_close(&env.state(), &expected, exact, ONE_STEP, &place);
            assert_eq!([step.reward], f64s(&episode["rewards"][t])[..], "{place}");
            if let (true, Some(recorded)) = (exact, episode["obs"].get(t + 1)) {
                assert_eq!(obs[..], f32s(recorded), "{place}");
            }
            before = expected.try_into().unwrap();
        }
    }
}

#[test]
fn cartpole_runs_freely_to_the_same_end() {
    let fixture = Fixture::open("cartpole.jsonl");
    let exact = fixture.same_libm();
    for (i, episode) in fixture.rows.iter().enumerate() {
        let seed = episode["seed"].as_u64().unwrap();
        let mut env = TimeLimit::new(CartPole::new(cartpole_config(i)), 500);
        let mut obs = [0.0; 4];
        env.reset(Some(seed), &mut obs).unwrap();
        let last = actions(episode).map(|action| env.step(&[action], &mut obs).unwrap()).last().unwrap();
        let expected = states(episode).last().unwrap();
        assert_close(&env.inner().state(), &expected, exact, WHOLE_EPISODE, &format!("seed {seed}"));
        assert_eq!((last.terminated, last.truncated), flags(episode), "seed {seed}");
        for expected in episode["continued"].as_array().unwrap() {
            env.reset(None, &mut obs).unwrap();
            assert_eq!(bits(&env.inner().state()), bits(&f64s(expected)), "the stream goes on, seed {seed}");
        }
    }
}

#[test]
fn cartpole_vector_shows_gymnasiums_observations() {
    let fixture = Fixture::open("cartpole.jsonl");
    let exact = fixture.same_libm();
    for (i, episode) in fixture.rows.iter().enumerate() {
        let seed = episode["seed"].as_u64().unwrap();
        // 131 copies: more than one block of the loop, and an odd rest.
        const N: usize = 131;
        let mut env = CartPoleVector::new(N, 500, cartpole_config(i));
        let (mut obs, mut final_obs) = (vec![0.0; 4 * N], vec![0.0; 4 * N]);
        let (mut rewards, mut terminated, mut truncated) = ([0.0; N], [false; N], [false; N]);
        env.reset(Some(&[seed; N]), &mut obs).unwrap();
        for (t, action) in actions(episode).enumerate() {
            let out = StepOut {
                obs: &mut obs,
                final_obs: &mut final_obs,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            env.step(&[action; N], Some(&[1; N]), out).unwrap();
            let ended = terminated[0] | truncated[0];
            let expected: Vec<f64> =
                states(episode).nth(t).unwrap().iter().map(|&x| f64::from(x as f32)).collect();
            let place = format!("seed {seed}, step {t}");
            for row in (if ended { &final_obs } else { &obs }).chunks_exact(4) {
                let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
                assert_close(&row, &expected, exact, WHOLE_EPISODE, &place);
            }
            let reward = f64s(&episode["rewards"][t])[0] as f32;
            assert!(rewards.iter().all(|&found| found == reward), "{place}");
        }
        assert!(terminated.iter().zip(&truncated).all(|(&a, &b)| (a, b) == flags(episode)), "seed {seed}");
    }
}

#[test]
fn pendulum_equals_gymnasium_step_by_step_and_freely() {
    let fixture = Fixture::open("pendulum.jsonl");
    let exact = fixture.same_libm();
    for (i, episode) in fixture.rows.iter().enumerate() {
        let seed = episode["seed"].as_u64().unwrap();
        let config = PendulumConfig { g: [10.0, 9.81][i] };
        let mut free = TimeLimit::new(Pendulum::new(config), 200);
        let mut single = Pendulum::new(config);
        let mut obs = [0.0; 3];
        single.reset(Some(seed), &mut obs).unwrap();
        free.reset(Some(seed), &mut obs).unwrap();
        assert_eq!(bits(&free.inner().state()), bits(&f64s(&episode["start"])));
        if exact {
            assert_eq!(obs[..], f32s(&episode["obs"][0]));
        }
        let mut last = (false, false);
        for (t, action) in episode["actions"].as_array().unwrap().iter().enumerate() {
            let place = format!("seed {seed}, step {t}");
            let action = f32s(action);
            let expected = f64s(&episode["states"][t]);
            let reward = f64s(&episode["rewards"][t]);
            let step = single.step(&action, &mut obs).unwrap();
            assert_close(&single.state(), &expected, exact, ONE_STEP, &place);
            assert_close(&[step.reward], &reward, exact, ONE_STEP, &place);
            if let (true, Some(recorded)) = (exact, episode["obs"].get(t + 1)) {
                assert_eq!(obs[..], f32s(recorded), "{place}");
            }
            single.set_state(expected.clone().try_into().unwrap());
            let step = free.step(&action, &mut obs).unwrap();
            assert_close(&free.inner().state(), &expected, exact, WHOLE_EPISODE, &place);
            last = (step.terminated, step.truncated);
        }
        assert_eq!(last, flags(episode));
        for expected in episode["continued"].as_array().unwrap() {
            free.reset(None, &mut obs).unwrap();
            assert_eq!(bits(&free.inner().state()), bits(&f64s(expected)));
        }
    }
}

#[test]
fn registered_cartpole_v0_ends_after_200_steps() {
    let episode = &Fixture::open("cartpole.jsonl").rows[4];
    let mut env = pavlov_envs::make_vec("CartPole-v0", &EnvConfig::new(), 1).unwrap();
    let (mut obs, mut final_obs) = ([0.0_f32; 4], [0.0_f32; 4]);
    let (mut rewards, mut terminated, mut truncated) = ([0.0], [false], [false]);
    env.reset(Some(&[5]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
    for (t, action) in actions(episode).take(200).enumerate() {
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut obs),
            final_obs: bytemuck::cast_slice_mut(&mut final_obs),
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(bytemuck::bytes_of(&action), Some(&[0]), out).unwrap();
        assert_eq!((terminated, truncated), ([false], [t == 199]), "step {t}");
    }
}

/// The last recorded episode has the book's rewards.
fn cartpole_config(row: usize) -> CartPoleConfig {
    CartPoleConfig { sutton_barto_reward: row == 5 }
}

fn actions(episode: &Value) -> impl Iterator<Item = i64> {
    episode["actions"].as_array().unwrap().iter().map(|action| action.as_i64().unwrap())
}

fn states(episode: &Value) -> impl Iterator<Item = Vec<f64>> {
    episode["states"].as_array().unwrap().iter().map(f64s)
}

fn flags(episode: &Value) -> (bool, bool) {
    (episode["terminated"].as_bool().unwrap(), episode["truncated"].as_bool().unwrap())
}
