//! Pictures against Gymnasium's, by the means of square blocks.

use pavlov_envs::{CartPole, Env, Frame, Pendulum};
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
            _ => {
                let mut env = Pendulum::new(Default::default());
                env.set_state(state.clone().try_into().unwrap());
                env.render()
            }
        };
        let frame = frame.unwrap().unwrap();
        let number = |key: &str| row[key].as_u64().unwrap() as usize;
        assert_eq!((frame.width, frame.height), (number("width"), number("height")));
        let expected: Vec<f64> = row["means"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        let found = block_means(&frame, number("block"));
        let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // An edge half a pixel aside changes a block of 20 x 20 by at most 255 / 40.
        assert_eq!(found.len(), expected.len());
        assert!(worst <= 13.0, "{} at {state:?}: a block differs by {worst}", row["env"]);
    }
}

pub(crate) fn block_means(frame: &Frame, block: usize) -> Vec<f64> {
    let (columns, rows) = (frame.width / block, frame.height / block);
    let mut sums = vec![0.0; columns * rows * 3];
    for (i, pixel) in frame.rgb.chunks_exact(3).enumerate() {
        let (x, y) = (i % frame.width / block, i / frame.width / block);
        for (channel, &value) in pixel.iter().enumerate() {
            sums[(y * columns + x) * 3 + channel] += f64::from(value);
        }
    }
    sums.iter().map(|sum| sum / (block * block) as f64).collect()
}
