//! What Python environments may give: refused, said once and used, or not worth a word.

use std::time::Duration;

use pavlov_envs::{AnyVectorEnv, Error, Examination, Result, check_vector_env, examine_vector_env, make_vec};
use serde_json::{Value, json};

use crate::py::{config, python};

fn made(class: &str, kwargs: Value, copies: usize) -> Box<dyn AnyVectorEnv> {
    let id = format!("py:tests.py.admitted:{class}");
    make_vec(&id, &config(&python(), json!({"kwargs": kwargs, "num_workers": 1})), copies).unwrap()
}

fn examined(class: &str, kwargs: Value) -> Result<Examination> {
    examine_vector_env(&mut *made(class, kwargs, 2), Duration::MAX)
}

/// The error of an environment that gives this.
fn refused(kwargs: Value) -> String {
    let error = examined("Given", kwargs.clone()).map(|found| format!("{kwargs} was taken: {found:?}"));
    let error = error.expect_err("an error");
    assert!(matches!(error, Error::Env { .. }), "{error:?}");
    error.to_string()
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn what_a_cast_would_change_is_refused_at_the_reset_with_value_rule_and_way_out() {
    let cast = "it would become another number";
    for (kind, parts) in [
        (
            "fraction",
            &["0.7 at element 1", "no integer", "Box(0, 255, (2,), uint8)", cast, "Box of float32"][..],
        ),
        ("wrap", &["300 at element 1", "uint8", "0 to 255"]),
        ("negative", &["-1 at element 0", "0 to 255"]),
        ("nan_byte", &["nan at element 0", "no number"]),
        ("complex", &["complex numbers", "(0.5+0.25j)", "real part"]),
        ("discrete_fraction", &["1.5", "no integer", "Discrete(3)"]),
        ("discrete_outside", &["3", "outside of Discrete(3)"]),
        ("discrete_array", &["shape (2,)", "its space says ()"]),
        ("multi_discrete_fraction", &["1.5 at element 0", "MultiDiscrete([3 3])"]),
        ("bits_outside", &["2 at element 1", "outside of MultiBinary(2)"]),
        ("int16_wrap", &["40000 at element 0", "int16", "-32768 to 32767"]),
        ("dict_fraction", &["the observation at b/c has 0.7 at element 0"]),
        ("dict_missing", &["a part 'b'", "every part"]),
        ("dict_discrete", &["the observation at b is 1.5"]),
        ("text", &["['a', 'b'] (a list)", "must be numbers"]),
        ("none", &["the observation is None", "must be numbers"]),
        ("ragged", &["numpy makes no array"]),
        ("transposed", &["shape (3, 2)", "its space says (2, 3)"]),
    ] {
        let error = refused(json!({"obs": kind}));
        for part in parts.iter().chain(&["in the reset"]) {
            assert!(error.contains(part), "{kind}: no {part:?} in:\n{error}");
        }
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_cast_that_changes_an_observation_later_is_refused_at_its_step() {
    for kind in ["fraction", "wrap", "negative"] {
        let error = refused(json!({"obs": "float_bytes", "late": kind, "at": 4}));
        assert!(error.contains("at step 4 of the episode") && error.contains("at element"), "{error}");
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn a_reward_that_is_no_number_is_refused_with_what_it_is() {
    for (kind, parts) in [
        ("two", ["the reward is [1.0, 0.0]", "2 numbers", "`reward_weights`"]),
        ("complex", ["the reward has complex numbers", "(1+2j)", "real part"]),
        ("none", ["the reward is None", "must be numbers", "NoneType"]),
        ("text", ["the reward is 'much'", "must be numbers", "str"]),
    ] {
        let error = refused(json!({"reward": kind}));
        for part in parts {
            assert!(error.contains(part), "{kind}: no {part:?} in:\n{error}");
        }
    }
    let error = refused(json!({"flag": "two"}));
    assert!(error.contains("`terminated` is [False, False], which is 2 truth values"), "{error}");
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn what_costs_a_promise_only_is_used_and_remarked_once() {
    for (kwargs, rule, part) in [
        (json!({"obs": "scalar"}), "form", "has shape (), but its space says (1,)"),
        (json!({"obs": "list"}), "form", "is a list instead of an array of float32"),
        (json!({"obs": "float64"}), "form", "is of float64, but its space says float32"),
        (json!({"obs": "float_bytes"}), "form", "is of float64, but its space says uint8"),
        (json!({"reward": "array"}), "form", "the reward is an array of float64 of one number"),
        (json!({"flag": "array"}), "form", "`terminated` is an array of bool"),
        (json!({"obs": "beyond"}), "observation_in_space", "element 1 is 1.04"),
    ] {
        let found = examined("Given", kwargs.clone()).unwrap();
        let of_rule: Vec<_> = found.findings.iter().filter(|finding| finding.rule == rule).collect();
        assert_eq!(of_rule.len(), 1, "{kwargs}: {found:?}");
        assert!(of_rule[0].message.contains(part), "{kwargs}: {found:?}");
        found.lenient().unwrap();
        let error = found.strict().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    // They are used as they are.
    for (kind, row) in [("scalar", vec![0.5_f32]), ("list", vec![0.5, -0.5]), ("beyond", vec![0.5, 1.04])] {
        let mut obs = vec![0.0; row.len()];
        made("Given", json!({"obs": kind}), 1).reset(Some(&[0]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
        assert_eq!(obs, row, "{kind}");
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn rounding_and_numbers_of_numpy_are_not_worth_a_word() {
    for kwargs in [
        json!({"obs": "rounded"}),
        json!({"obs": "numpy_integer"}),
        json!({"reward": "integer"}),
        json!({"reward": "numpy"}),
        json!({"reward": "numpy_bool"}),
        json!({"flag": "numpy"}),
    ] {
        check_vector_env(&mut *made("Given", kwargs.clone(), 2))
            .unwrap_or_else(|error| panic!("{kwargs}: {error}"));
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn environments_that_are_not_repeatable_or_depend_on_each_other_can_be_trained_and_a_strict_check_refuses_them()
 {
    for (class, rules) in
        [("Unrepeatable", &["deterministic"][..]), ("Counts", &["deterministic", "independent_copies"])]
    {
        let found = examined(class, json!({})).unwrap();
        assert!(found.findings.iter().all(|finding| rules.contains(&finding.rule)), "{found:?}");
        assert!(!found.findings.is_empty() && found.strict().is_err(), "{found:?}");
        found.lenient().unwrap();
    }
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn episodes_that_cannot_be_played_again_are_told_apart_and_new_ones_can_begin() {
    let mut env = made("Unrepeatable", json!({}), 2);
    let mut obs = vec![0.0_f32; 4];
    env.reset(Some(&[1, 2]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
    let state = env.save_state().unwrap().unwrap();
    let error = env.load_state(&state).unwrap_err();
    assert!(error.is_replay(), "{error}");
    assert!(
        error.to_string().contains("after 0 steps of the episode with seed 1 the observation is another"),
        "{error}"
    );
    env.reset(Some(&[1, 2]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
    // One that is repeatable comes back.
    let mut env = made("Given", json!({}), 2);
    env.reset(Some(&[1, 2]), bytemuck::cast_slice_mut(&mut obs)).unwrap();
    let state = env.save_state().unwrap().unwrap();
    env.load_state(&state).unwrap();
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn seeds_of_32_bits_are_enough_for_an_environment_that_takes_no_longer_ones() {
    check_vector_env(&mut *made("OldSeeds", json!({}), 2)).unwrap();
    let mut env = made("OldSeeds", json!({}), 2);
    let mut first = |seeds: [u64; 2]| {
        let mut obs = [0.0_f32; 4];
        env.reset(Some(&seeds), bytemuck::cast_slice_mut(&mut obs)).unwrap();
        obs
    };
    let short = first([5, 6]);
    assert_eq!(first([(1 << 40) + 5, (1 << 50) + 6]), short);
    assert_ne!(first([7, 8]), short);
}

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn one_copy_is_made_where_one_is_asked_for() {
    check_vector_env(&mut *made("Licensed", json!({}), 1)).unwrap();
}
