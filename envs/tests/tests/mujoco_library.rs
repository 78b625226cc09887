//! Where libmujoco is found, and that its faults are errors.

use std::{path::Path, process::Command};

use pavlov_envs::{EnvConfig, NpRandom, TypedVectorEnv, VectorEnv, make_vec};

use crate::{mujoco::Copies, py::python, rows::Rows, states::edited};

/// A process of its own, in an empty folder, with these variables and without a cache or another Python.
fn in_process(variables: &[(&str, &Path)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mujoco_library::child_with_a_library", "--ignored", "--nocapture"])
        .current_dir(folder.path())
        .env_remove("PAVLOV_MUJOCO")
        .env("PAVLOV_PYTHON", "false")
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "something was written");
    text
}

#[test]
#[ignore = "a part of the tests below, in a process of its own"]
fn child_with_a_library() {
    let mut env: Copies = match make_vec("HalfCheetah-v5", &EnvConfig::new(), 2) {
        Ok(env) => TypedVectorEnv::new(env).unwrap(),
        Err(error) => return println!("not made: {error}"),
    };
    let mut rows = Rows::filled(2, 17, 0.0);
    env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
    let mut actions = [0.5; 12];
    actions[7] = f32::NAN;
    println!("NaN: {}", env.step(&actions, None, rows.out()).unwrap_err());
    env.step(&[0.5; 12], None, rows.out()).unwrap();
    // The simulation, position, random stream, seed and step of each copy; the numbers of info; whether it was reset.
    type Fields = (Vec<(Vec<f64>, [f64; 2], NpRandom, Option<u64>, u32)>, Vec<f64>, bool);
    // A simulation begins with the time and 9 positions; a velocity follows.
    let fast = |(copies, ..): &mut Fields| copies[0].0[10] = 1e30;
    env.load_state(&edited(&env.save_state().unwrap().unwrap(), fast)).unwrap();
    println!("diverged: {}", env.step(&[0.5; 12], None, rows.out()).unwrap_err());
    println!("after it: {}", env.step(&[0.5; 12], None, rows.out()).unwrap_err());
    env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
    env.step(&[0.5; 12], None, rows.out()).unwrap();
    println!("it goes on");
}

/// The library of the tests' Python.
fn library(python: &str) -> std::path::PathBuf {
    let find = "import importlib.util as u; print(u.find_spec('mujoco').submodule_search_locations[0])";
    let package = Command::new(python).args(["-c", find]).output().unwrap();
    let package = String::from_utf8(package.stdout).unwrap();
    let files = std::fs::read_dir(package.trim()).unwrap().map(|file| file.unwrap().path());
    let is_library = |file: &std::path::PathBuf| file.to_string_lossy().contains("libmujoco.so.");
    files.into_iter().find(is_library).unwrap()
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn faults_of_a_simulation_are_one_error_each_and_the_process_lives() {
    let python = python();
    let library = library(&python);
    let folder = tempfile::tempdir().unwrap();
    let version = library.to_string_lossy().rsplit("libmujoco.so.").next().unwrap().to_owned();
    let cached = folder.path().join(format!("pavlov/mujoco-{version}/mujoco"));
    std::fs::create_dir_all(&cached).unwrap();
    std::os::unix::fs::symlink(&library, cached.join(format!("libmujoco.so.{version}"))).unwrap();
    for place in [
        ("PAVLOV_MUJOCO", library.as_path()),
        ("PAVLOV_MUJOCO", library.parent().unwrap()),
        ("PAVLOV_PYTHON", Path::new(&python)),
        ("XDG_CACHE_HOME", folder.path()),
    ] {
        let text = in_process(&[place]);
        for expected in [
            "NaN: action [0.5, NaN, 0.5, 0.5, 0.5, 0.5] is not in ",
            "diverged: environment 0 failed at step 2 of the episode with seed 1: HalfCheetah-v5: the simulation diverged",
            "after it: HalfCheetah-v5 was stepped before an episode; call `reset` first",
            "it goes on",
        ] {
            assert!(text.contains(expected), "{place:?}: {text}");
        }
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_library_that_cannot_be_used_is_one_error_that_names_the_way_out() {
    let python = python();
    let library = library(&python);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let bytes = std::fs::read(&library).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.split_whitespace().find(|word| word.contains("/libc.so")).unwrap();
    let way_out = "run `cargo xtask setup --mujoco`, install the Python package mujoco 3.17.0 or 4.0.0, or set PAVLOV_MUJOCO";
    let absent = in_process(&[]);
    for expected in [
        "PAVLOV_MUJOCO is not set",
        "the Python false: it has no package `mujoco`",
        "/cache/pavlov has no mujoco",
        way_out,
    ] {
        assert!(absent.contains(expected), "{absent}");
    }
    let mut cases = vec![
        (file("half.so", &bytes[..bytes.len() / 2]), "it is cut short: "),
        (file("most.so", &bytes[..bytes.len() - 1]), "it is cut short: "),
        (file("empty.so", &[]), "it is cut short: 0 bytes"),
        (file("text.so", b"not a library"), "cannot be used: "),
        (libc.into(), "it has no function `mj_version`, so it is not libmujoco"),
        (folder.path().join("nowhere"), "No such file"),
        (folder.path().to_owned(), "holds no libmujoco"),
    ];
    // `mj_version` is one instruction that loads the number, and a return.
    let loads = |version: u32| [&[0xb8], version.to_le_bytes().as_slice(), &[0xc3]].concat();
    let version = [3_017_000, 4_000_000].into_iter().find_map(|version| {
        let code = loads(version);
        bytes.windows(code.len()).position(|window| window == code)
    });
    if cfg!(target_arch = "x86_64") {
        let at = version.unwrap();
        let mut other = bytes.clone();
        other[at..at + 6].copy_from_slice(&loads(3_016_000));
        cases.push((file("other.so", &other), "it is MuJoCo 3.16.0, but 3.17.0 or 4.0.0 is needed"));
    }
    for (path, expected) in cases {
        let text = in_process(&[("PAVLOV_MUJOCO", &path)]);
        assert!(text.contains(expected) && text.contains(way_out), "{}: {text}", path.display());
    }
}
