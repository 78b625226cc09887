//! MiniGrid: recorded episodes, the original beside ours, its wrappers, and refusals.

use std::{path::Path, process::Command};

use pavlov_envs::{
    Element, Env, EnvConfig, EnvCreator, Error, Frame, NpRandom, StepOut, WrapperSpec, check_vector_env,
    make_vec,
    native::{MiniGrid, MiniGridObs},
};
use serde_json::{Value, json};

use crate::{example::example, fixture::Fixture, py::python};

fn settings(value: Value) -> EnvConfig {
    serde_json::from_value(value).unwrap()
}

fn make<O: MiniGridObs>(id: &str, config: Value) -> (MiniGrid<O>, Vec<O>) {
    let env = MiniGrid::new(id, &settings(config)).unwrap();
    let obs = vec![O::default(); env.observation_space().width()];
    (env, obs)
}

/// The recorder's sum of a row and what was before it.
fn mixed<T: Element>(digest: u64, values: &[T]) -> u64 {
    values.iter().fold(digest, |digest, value| digest.wrapping_mul(31).wrapping_add(value.to_f64() as u64))
}

#[test]
fn every_recorded_episode_comes_out_bit_for_bit() {
    let mut ids = Vec::new();
    let mut episodes = 0;
    for row in Fixture::open("minigrid.jsonl").rows.iter().filter(|row| row["id"].is_string()) {
        let id = row["id"].as_str().unwrap();
        let seed = row["seed"].as_u64().unwrap();
        let (mut env, mut obs) = make::<i64>(id, json!({}));
        env.reset(Some(seed), &mut obs).unwrap();
        assert_eq!(env.mission_text(*obs.last().unwrap()).as_deref(), row["mission"].as_str(), "{id}");
        let mut digest = mixed(0, &obs);
        for (step, digit) in row["actions"].as_str().unwrap().bytes().enumerate() {
            let took = env.step(&[i64::from(digit - b'0')], &mut obs).unwrap();
            digest = mixed(digest, &obs).wrapping_mul(31).wrapping_add(took.reward.to_bits());
            digest = mixed(digest, &[i64::from(took.terminated), i64::from(took.truncated)]);
            if took.terminated || took.truncated {
                env.reset(None, &mut obs).unwrap();
                digest = mixed(digest, &obs);
            }
            if step % 20 == 19 {
                let expected = row["digests"][step / 20].as_str().unwrap();
                assert_eq!(format!("{digest:x}"), expected, "{id}, seed {seed}, up to step {step}");
            }
        }
        episodes += 1;
        ids.push(id.to_owned());
    }
    ids.dedup();
    let registered = pavlov_envs::ids().into_iter().filter(|id| id.starts_with("MiniGrid-"));
    ids.sort();
    assert_eq!((ids.len(), episodes), (76, 3 * 76));
    assert_eq!(registered.collect::<Vec<_>>(), ids);
}

#[test]
fn recorded_shuffles_come_out() {
    let fixture = Fixture::open("minigrid.jsonl");
    let mut random = NpRandom::new(5);
    for expected in fixture.rows[0]["shuffles"].as_array().unwrap() {
        let mut list: Vec<usize> = (0..expected.as_array().unwrap().len()).collect();
        random.shuffle(&mut list);
        assert_eq!(json!(list), *expected);
    }
}

#[test]
fn recorded_pictures_come_out_pixel_for_pixel() {
    let mut pictures = 0;
    for row in Fixture::open("minigrid.jsonl").rows.iter().filter(|row| row["pictures"].is_string()) {
        let id = row["pictures"].as_str().unwrap();
        let wrapped = |name: &str| make::<u8>(id, json!({"wrappers": [name, "ImgObsWrapper"]}));
        let (mut views, mut view) = wrapped("RGBImgPartialObsWrapper");
        let (mut grids, mut grid) = wrapped("RGBImgObsWrapper(32)");
        views.reset(Some(4), &mut view).unwrap();
        grids.reset(Some(4), &mut grid).unwrap();
        let mut actions = row["actions"].as_str().unwrap().bytes();
        for (expected_view, expected_grid) in
            row["views"].as_array().unwrap().iter().zip(row["grids"].as_array().unwrap())
        {
            assert_eq!(format!("{:x}", mixed(0, &view)), expected_view.as_str().unwrap(), "{id}, view");
            assert_eq!(format!("{:x}", mixed(0, &grid)), expected_grid.as_str().unwrap(), "{id}, grid");
            let Frame { rgb, .. } = grids.render().unwrap().unwrap();
            assert_eq!(rgb, grid, "{id}: `render` is the grid at 32 pixels a field");
            pictures += 1;
            let Some(digit) = actions.next() else { break };
            views.step(&[i64::from(digit - b'0')], &mut view).unwrap();
            grids.step(&[i64::from(digit - b'0')], &mut grid).unwrap();
        }
    }
    assert_eq!(pictures, 30);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn minigrid_itself_is_equal_to_the_bit() {
    let python = python();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live_minigrid.py");
    let output = Command::new(&python).arg(script).arg(example("serve")).args(["100", "11"]).output();
    let output = output.unwrap_or_else(|error| panic!("PAVLOV_TEST_PYTHON={python}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).ends_with("all equal\n"), "{}", text(&output.stdout));
}

/// What a vector shows after 30 steps, as bytes.
fn played(creator: &EnvCreator, config: Value) -> (Vec<usize>, Vec<u8>) {
    let mut env = creator.make_vec(&settings(config), 2).unwrap();
    let mut words = vec![0_u64; 2 * env.observation_space().width()];
    let bytes = 2 * env.observation_space().width() * env.obs_dtype().size();
    let mut final_words = words.clone();
    env.reset(Some(&[3, 4]), &mut bytemuck::cast_slice_mut(&mut words)[..bytes]).unwrap();
    for step in 0..30_i64 {
        let out = StepOut {
            obs: &mut bytemuck::cast_slice_mut(&mut words)[..bytes],
            final_obs: &mut bytemuck::cast_slice_mut(&mut final_words)[..bytes],
            rewards: &mut [0.0; 2],
            terminated: &mut [false; 2],
            truncated: &mut [false; 2],
        };
        env.step(bytemuck::cast_slice(&[step % 3, step % 5]), None, out).unwrap();
    }
    let shape = env.observation_space().shape();
    (shape, bytemuck::cast_slice(&words)[..bytes].to_vec())
}

#[test]
fn wrappers_of_minigrid_are_named_beside_the_others_or_in_env_config() {
    let id = "MiniGrid-DoorKey-6x6-v0";
    let wrapped = |names: Value| {
        let specs: Vec<WrapperSpec> = serde_json::from_value(names).unwrap();
        EnvCreator::from(id).wrapped(&specs)
    };
    for (names, shape) in [
        (json!(["ImgObsWrapper"]), vec![7, 7, 3]),
        (json!(["FullyObsWrapper", "ImgObsWrapper"]), vec![6, 6, 3]),
        (json!(["OneHotPartialObsWrapper", "ImgObsWrapper"]), vec![7, 7, 20]),
        (json!(["RGBImgPartialObsWrapper(tile_size=4)", "ImgObsWrapper"]), vec![28, 28, 3]),
        (json!(["OneHotPartialObsWrapper"]), vec![7 * 7 * 20 + 2]),
    ] {
        let beside = played(&wrapped(names.clone()), json!({}));
        assert_eq!(beside, played(&EnvCreator::from(id), json!({"wrappers": names})), "{names}");
        assert_eq!(beside.0, shape, "{names}");
    }
    let stacked = wrapped(json!(["ImgObsWrapper", "FrameStack(4)", "FlattenObservation"]));
    let mut stacked = stacked.make_vec(&EnvConfig::new(), 2).unwrap();
    assert_eq!(stacked.observation_space().shape(), [4 * 7 * 7 * 3]);
    check_vector_env(&mut *stacked).unwrap();
}

#[test]
fn wrapped_minigrid_keeps_the_contract() {
    for wrappers in [
        json!(["ImgObsWrapper"]),
        json!(["FullyObsWrapper"]),
        json!(["OneHotPartialObsWrapper"]),
        json!(["RGBImgPartialObsWrapper(2)", "ImgObsWrapper"]),
        json!(["RGBImgObsWrapper(2)"]),
    ] {
        let config = settings(json!({"wrappers": wrappers, "max_steps": 40}));
        let mut env = make_vec("MiniGrid-KeyCorridorS3R1-v0", &config, 2).unwrap();
        check_vector_env(&mut *env).unwrap_or_else(|error| panic!("{wrappers}: {error}"));
    }
}

#[test]
fn bad_settings_of_minigrid_are_refused_with_the_way_out() {
    for (id, config, text) in [
        ("Empty-8x8", json!({"size": 3}), "`size` is 3, but it must be in 4..=255"),
        ("Empty-8x8", json!({"sise": 9}), "no setting `sise`; nearest: `size`"),
        ("Empty-8x8", json!({"agent_start_pos": [0, 3]}), "between the walls: [1, 1] to [6, 6]"),
        ("Empty-8x8", json!({"agent_start_dir": 4}), "0 (right), 1 (down), 2 (left) or 3 (up)"),
        ("Empty-8x8", json!({"agent_view_size": 8}), "`agent_view_size` is 8, but it must be odd"),
        ("Empty-8x8", json!({"max_steps": 0}), "`max_steps` is 0"),
        ("Empty-8x8", json!({"see_through_walls": true}), "this task is always played with true"),
        ("Unlock", json!({"see_through_walls": true}), "this task is always played with false"),
        ("Empty-8x8", json!({"tile_size": 0}), "`tile_size` is 0, but it must be in 1..=128"),
        ("LavaCrossingS9N1", json!({"size": 10}), "`size` is 10, but it must be odd"),
        (
            "LavaCrossingS9N1",
            json!({"obstacle_type": "water"}),
            "unknown variant `water`, expected `lava` or `wall`",
        ),
        ("Fetch-5x5-N2", json!({"numObjs": 9}), "`numObjs` is 9, but it must be in 1..=8"),
        ("MultiRoom-N6", json!({"maxNumRooms": 5}), "`minNumRooms` is 6, but it must be in 1..=5"),
        ("DoorKey-5x5", json!({"wrappers": ["FrameStack(4)"]}), "in `env_config` it takes MiniGrid's own"),
        (
            "DoorKey-5x5",
            json!({"wrappers": ["FullyObsWrapper", "OneHotPartialObsWrapper"]}),
            "only one can make the image",
        ),
        ("DoorKey-5x5", json!({"wrappers": ["RGBImgObsWrapper(0)"]}), "`tile_size` is 0"),
    ] {
        let id = format!("MiniGrid-{id}-v0");
        let found = make_vec(&id, &settings(config.clone()), 1).expect_err("refused").to_string();
        assert!(found.contains(text), "{config}: no {text:?} in: {found}");
    }
    let found = MiniGrid::<i64>::new("MiniGrid-DoorKey-5x5", &EnvConfig::new()).expect_err("no version");
    assert!(found.to_string().contains("MiniGrid-DoorKey-5x5-v0"), "{found}");
    let image = settings(json!({"wrappers": ["ImgObsWrapper"]}));
    let found = MiniGrid::<i64>::new("MiniGrid-DoorKey-5x5-v0", &image).expect_err("another type");
    assert!(found.to_string().contains("use MiniGrid<u8>"), "{found}");
    for (id, wrappers, text) in [
        (
            "CartPole-v1",
            json!(["ImgObsWrapper"]),
            "the wrapper ImgObsWrapper stands around environments of MiniGrid only",
        ),
        ("MiniGrid-Unlock-v0", json!(["TimeLimit(9)", "ImgObsWrapper"]), "name it before the others"),
    ] {
        let specs: Vec<WrapperSpec> = serde_json::from_value(wrappers).unwrap();
        let found = EnvCreator::from(id).wrapped(&specs).make(&EnvConfig::new(), 1).expect_err("refused");
        assert!(found.to_string().contains(text), "no {text:?} in: {found}");
    }
}

#[test]
fn a_grid_without_room_is_an_error_and_not_an_endless_search() {
    // Rooms have at least 4 x 4 fields.
    let config = json!({"minNumRooms": 30, "maxNumRooms": 30, "width": 6, "height": 6});
    let (mut env, mut obs) = make::<i64>("MiniGrid-MultiRoom-N6-v0", config);
    let found = env.reset(Some(0), &mut obs).expect_err("no room").to_string();
    assert!(found.contains("no row of 30 rooms was found"), "{found}");
}

#[test]
fn a_saved_state_of_minigrid_goes_on_only_where_it_fits() {
    let (mut env, mut obs) = make::<i64>("MiniGrid-DoorKey-5x5-v0", json!({}));
    env.reset(Some(1), &mut obs).unwrap();
    let state = env.save_state().unwrap();
    let (mut other, _) = make::<i64>("MiniGrid-Empty-5x5-v0", json!({}));
    let found = other.load_state(&state).expect_err("another id").to_string();
    assert!(found.contains("MiniGrid-DoorKey-5x5-v0"), "{found}");
    let (mut larger, _) = make::<i64>("MiniGrid-DoorKey-5x5-v0", json!({"size": 6}));
    let found = larger.load_state(&state).expect_err("another size").to_string();
    assert!(found.contains("it holds 5 columns, but there are 6 here"), "{found}");
    // Whatever a damaged byte says, the state is taken or refused, and the environment goes on.
    for at in 0..state.len() {
        let mut damaged = state.clone();
        damaged[at] ^= 0x15;
        if env.load_state(&damaged).is_ok() {
            env.step(&[2], &mut obs).unwrap();
        }
        env.load_state(&damaged[..at]).expect_err("a state cut short");
    }
}

#[test]
fn info_has_the_mission_as_text_in_vectors_on_threads_and_in_wrappers() {
    let id = "MiniGrid-GoToDoor-5x5-v0";
    for (config, wrappers) in [
        (json!({}), json!([])),
        (json!({"num_threads": 2}), json!([])),
        (json!({"wrappers": ["ImgObsWrapper"]}), json!([])),
        (json!({}), json!(["ClipReward(0, 1)", "FlattenObservation", "TimeLimit(9)"])),
    ] {
        let specs: Vec<WrapperSpec> = serde_json::from_value(wrappers).unwrap();
        let mut env = EnvCreator::from(id).wrapped(&specs).make_vec(&settings(config.clone()), 3).unwrap();
        let bytes = 3 * env.observation_space().width() * env.obs_dtype().size();
        let mut obs = vec![0_u64; bytes.div_ceil(8)];
        env.reset(Some(&[0, 1, 2]), &mut bytemuck::cast_slice_mut(&mut obs)[..bytes]).unwrap();
        let mut alone: MiniGrid = MiniGrid::new(id, &EnvConfig::new()).unwrap();
        let mut row = vec![0; alone.observation_space().width()];
        for copy in 0..3 {
            alone.reset(Some(copy as u64), &mut row).unwrap();
            let text = alone.mission_text(row[148]).unwrap();
            assert!(text.starts_with("go to the "), "{text}");
            assert_eq!(env.info_value(copy, "mission").unwrap(), Some(json!(text)), "{config:?}");
        }
        assert_eq!(env.info_value(0, "missions").unwrap(), None);
        assert!(matches!(env.info_value(3, "mission"), Err(Error::Shape { .. })));
    }
}
