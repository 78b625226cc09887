//! Pictures and texts of Python environments.

use pavlov_envs::{EnvConfig, Error, VectorEnv, make_vec, python::PyVec};
use serde_json::json;

use crate::py::{Rows, config, python, skipped, test_env};

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn pixels_stay_bytes_and_a_row_is_drawn_on_request() {
    let python = python();
    let shown = json!({"kwargs": {"render_mode": "rgb_array"}, "num_workers": 2});
    let mut env = PyVec::<u8, f64>::new(&test_env("Pixels"), &config(&python, shown), 2).unwrap();
    let mut rows = Rows::<u8>::new(2, 18);
    VectorEnv::reset(&mut env, Some(&[0, 10]), &mut rows.obs).unwrap();
    assert_eq!(rows.obs[17..20], [17, 10, 11]);
    VectorEnv::step(&mut env, &[0.25, 0.5, 0.5, 0.125], None, rows.out()).unwrap();
    assert_eq!((rows.obs[0], rows.obs[18]), (25, 50));
    assert_eq!(rows.rewards, [0.5, 0.125]);
    let frame = VectorEnv::render(&mut env, 1).unwrap().unwrap();
    assert_eq!((frame.width, frame.height, frame.rgb[0], frame.rgb[17]), (3, 2, 50, 67));
    let error = VectorEnv::render(&mut env, 2).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_row_is_written_as_text_on_request() {
    let python = python();
    let shown = json!({"kwargs": {"render_mode": "ansi"}});
    let mut texts = vec![];
    for (id, config) in [("py:Taxi-v4", config(&python, shown)), ("Taxi-v4", EnvConfig::new())] {
        let mut env = make_vec(id, &config, 2).unwrap();
        let mut obs = [0_i64; 2];
        env.reset(Some(&[0, 1]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
        texts.push(env.render_ansi(1).unwrap());
    }
    assert!(texts[0].is_some());
    assert_eq!(texts[0], texts[1]);
    let mut env = make_vec("py:Taxi-v4", &config(&python, json!({})), 1).unwrap();
    let error = env.render_ansi(0).unwrap_err().to_string();
    assert!(error.contains("`render_mode` = \"ansi\""), "{error}");
    let mut env = make_vec(&test_env("Pixels"), &config(&python, json!({})), 1).unwrap();
    assert_eq!(env.render_ansi(0).unwrap(), None);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_picture_that_was_not_asked_for_at_the_start_is_refused_with_the_way_out() {
    let python = python();
    let mut env = make_vec(&test_env("Pixels"), &config(&python, json!({})), 1).unwrap();
    env.reset(None, &mut [0; 18]).unwrap();
    let error = env.render(0).unwrap_err().to_string();
    assert!(error.contains("`render_mode` = \"rgb_array\""), "{error}");
    let mut env = make_vec(&test_env("Fault"), &config(&python, json!({})), 1).unwrap();
    assert_eq!(env.render(0).unwrap(), None);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn mujoco_draws_without_a_display_by_what_the_machine_has() {
    let python = python();
    if std::env::var_os("MUJOCO_GL").is_some() {
        return skipped("MUJOCO_GL is set, so the machine does not decide how MuJoCo draws");
    }
    let drawn = json!({"kwargs": {"render_mode": "rgb_array"}, "info_keys": ["as_expected"]});
    let mut env = make_vec(&test_env("MujocoGl"), &config(&python, drawn), 1).unwrap();
    env.reset(None, bytemuck::cast_slice_mut(&mut [0.0_f32])).unwrap();
    assert_eq!(env.info("as_expected"), Some([1.0].as_slice()));
    assert_eq!(env.render_fps(), Some(12.0));
}
