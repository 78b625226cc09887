//! numpy's draws and samples of Gymnasium's spaces, as recorded from the real ones.

use pavlov_envs::{DType, Element, NpRandom, Space, SpaceSampler};

use crate::fixture::{Fixture, bits, f32s, f64s};

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
            let low = range[0].as_i64().unwrap();
            let high = range[1].as_i64().unwrap();
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
            "multi_discrete" => Space::multi_discrete(&[2, 5, 9]),
            "multi_binary" => Space::multi_binary(&[6]),
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
    let lamps = Space::Tuple(vec![Space::multi_binary(&[2]), Space::multi_discrete(&[2, 3])]);
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
