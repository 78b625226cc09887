//! What every built-in environment keeps. A program of its own, so that the registry holds built-in environments only: one
//! that is added there is tested here.

use pavlov_envs::{AnyVectorEnv, EnvConfig, check_vector_env, ids, make_vec, spec};

/// The ids of all built-in environments but MuJoCo's, which need a library and have tests of their own.
fn built_in() -> Vec<String> {
    let needs_mujoco = |id: &String| spec(id).unwrap().summary.ends_with("(MuJoCo)");
    ids().into_iter().filter(|id| !needs_mujoco(id)).collect()
}

fn made(id: &str, num_envs: usize) -> Box<dyn AnyVectorEnv> {
    make_vec(id, &EnvConfig::new(), num_envs).unwrap_or_else(|error| panic!("{id}: {error}"))
}

/// Resets all copies and returns the first observation of each.
fn first_rows(env: &mut dyn AnyVectorEnv, seeds: Option<&[u64]>) -> Vec<Vec<u8>> {
    let n = env.num_envs();
    let width = env.observation_space().width() * env.obs_dtype().size();
    // Words, so that rows of any scalar are aligned.
    let mut words = vec![0_u64; (n * width).div_ceil(8)];
    let obs = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..n * width];
    env.reset(seeds, obs).unwrap();
    obs.chunks(width).map(<[u8]>::to_vec).collect()
}

#[test]
fn every_environment_keeps_the_contract() {
    for id in built_in() {
        for num_envs in [1, 3] {
            let mut env = made(&id, num_envs);
            check_vector_env(&mut *env).unwrap_or_else(|error| panic!("{id}, {num_envs} copies: {error}"));
            assert_eq!(env.num_envs(), num_envs);
        }
    }
}

/// Gymnasium seeds a stream without a seed from the operating system's entropy.
#[test]
fn unseeded_copies_begin_with_streams_of_their_own() {
    const N: usize = 64;
    let seeds: Vec<u64> = (0..N as u64).collect();
    let mut drawn = 0;
    for id in built_in() {
        let rows = first_rows(&mut *made(&id, N), Some(&seeds));
        let most_alike = rows.iter().map(|row| rows.iter().filter(|other| *other == row).count()).max();
        // Where most episodes start alike, equal starts say nothing about the streams.
        if most_alike > Some(40) {
            continue;
        }
        drawn += 1;
        let rows = first_rows(&mut *made(&id, N), None);
        assert!(rows.iter().any(|row| *row != rows[0]), "{id}: all copies start alike");
        assert!(rows != first_rows(&mut *made(&id, N), None), "{id}: two vectors start alike");
    }
    assert!(drawn >= 12, "only {drawn} environments draw their start");
}

#[test]
fn pictures_show_where_an_episode_starts() {
    for id in built_in() {
        let mut env = made(&id, 2);
        let blank = env.render(1).unwrap();
        let starts: Vec<_> = (0..3)
            .map(|seed| {
                let row = first_rows(&mut *env, Some(&[9, seed])).remove(1);
                (row, env.render(1).unwrap().unwrap_or_else(|| panic!("{id} draws nothing")))
            })
            .collect();
        for (row, frame) in &starts {
            assert_eq!(frame.rgb.len(), 3 * frame.width * frame.height, "{id}");
            assert_ne!(Some(frame), blank.as_ref(), "{id} looks as before the first reset");
            for (other_row, other) in &starts {
                assert_eq!((frame.width, frame.height), (other.width, other.height), "{id}");
                assert!(row == other_row || frame != other, "{id}: different starts look alike");
            }
        }
    }
}
