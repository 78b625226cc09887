//! numpy's draws and samples of Gymnasium's spaces, as recorded from the real ones.

use pavlov_envs::{NpRandom, Space};

use crate::fixture::{Fixture, f64s};

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
        for choice in row["choice"].as_array().unwrap() {
            let p: Vec<f64> = serde_json::from_value(choice[0].clone()).unwrap();
            for expected in choice[1].as_array().unwrap() {
                assert_eq!(random.choice(&p) as u64, expected.as_u64().unwrap(), "{p:?}, seed {seed}");
            }
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
