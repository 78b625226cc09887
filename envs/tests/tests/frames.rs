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
fn pictures_have_gymnasiums_size() {
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
        let frame = make_vec(id, &EnvConfig::new(), 1).unwrap().render(0).unwrap().unwrap();
        assert_eq!((frame.width, frame.height), (width, height), "{id}");
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
