//! Pictures against Gymnasium's, by the means of square blocks.

use pavlov_envs::{
    Env, EnvConfig, Frame, make_vec,
    native::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum},
};
use serde_json::Value;

use crate::fixture::Fixture;

#[test]
fn pictures_look_like_gymnasiums() {
    for row in &Fixture::open("frames.jsonl").rows {
        let state: Vec<f64> = row["state"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let frame = match row["env"].as_str().unwrap() {
            "CartPole-v1" => {
                let mut env = CartPole::new(Default::default());
                env.set_state(state.clone().try_into().unwrap());
                env.render()
            }
            "MountainCar-v0" => {
                let mut env = MountainCar::new(Default::default());
                env.set_state(state.clone().try_into().unwrap());
                env.render()
            }
            "MountainCarContinuous-v0" => {
                let mut env = MountainCarContinuous::new(Default::default());
                env.set_state([state[0], state[1], 1.0]);
                env.render()
            }
            "Acrobot-v1" => {
                let mut env = Acrobot::new(Default::default());
                env.set_state(state.clone().try_into().unwrap());
                env.render()
            }
            _ => {
                let mut env = Pendulum::new(Default::default());
                env.set_state([state[0], state[1], 0.0]);
                env.render()
            }
        };
        let frame = frame.unwrap().unwrap();
        let number = |key: &str| row[key].as_u64().unwrap() as usize;
        assert_eq!((frame.width, frame.height), (number("width"), number("height")));
        let expected: Vec<f64> = row["means"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        let found = block_means(&frame, number("block"));
        let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // An edge half a pixel aside changes a block of 20 x 20 by at most 255 / 40; in a few, three edges meet.
        assert_eq!(found.len(), expected.len());
        assert!(worst <= 3.0 * 255.0 / 40.0, "{} at {state:?}: a block differs by {worst}", row["env"]);
    }
}

#[test]
fn every_native_environment_draws_its_state_at_gymnasiums_size() {
    for (id, width, height) in [
        ("CartPole-v1", 600, 400),
        ("MountainCar-v0", 600, 400),
        ("MountainCarContinuous-v0", 600, 400),
        ("Pendulum-v1", 500, 500),
        ("Acrobot-v1", 500, 500),
        ("FrozenLake-v1", 256, 256),
        ("FrozenLake8x8-v1", 512, 512),
        ("Taxi-v4", 536, 456),
        ("CliffWalking-v1", 768, 256),
        ("Blackjack-v1", 384, 376),
        ("LunarLander-v3", 600, 400),
        ("BipedalWalker-v3", 600, 400),
    ] {
        let mut env = make_vec(id, &EnvConfig::new(), 2).unwrap();
        let blank = env.render(1).unwrap().unwrap();
        assert_eq!((blank.width, blank.height), (width, height), "{id}");
        assert_eq!(blank.rgb.len(), 3 * width * height, "{id}");
        let mut obs = vec![0_u64; 2 * env.observation_space().width()];
        let bytes = 2 * env.observation_space().width() * env.obs_dtype().size();
        let mut pictures = vec![];
        for seed in 0..3 {
            let obs = &mut bytemuck::cast_slice_mut(&mut obs)[..bytes];
            env.reset(Some(&[9, seed]), obs).unwrap();
            pictures.push(env.render(1).unwrap().unwrap());
        }
        // Walkers on ice and along the cliff always start in the same place.
        assert_ne!(pictures[0], blank, "{id}");
        let starts_alike = id.starts_with("FrozenLake") || id.starts_with("Cliff");
        assert_eq!(pictures[0] == pictures[1] && pictures[1] == pictures[2], starts_alike, "{id}");
    }
}

pub(crate) fn block_means(frame: &Frame, block: usize) -> Vec<f64> {
    let columns = frame.width / block;
    let rows = frame.height / block;
    let mut sums = vec![0.0; columns * rows * 3];
    for (i, pixel) in frame.rgb.chunks_exact(3).enumerate() {
        let x = i % frame.width / block;
        let y = i / frame.width / block;
        for (channel, &value) in pixel.iter().enumerate() {
            sums[(y * columns + x) * 3 + channel] += f64::from(value);
        }
    }
    sums.iter().map(|sum| sum / (block * block) as f64).collect()
}
