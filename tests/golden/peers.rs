//! One update of other libraries, from the same weights and the same rows: pavlov computes the same weights and losses.
//!
//! The fixtures are what `peers/*.py` recorded of the libraries themselves. `cargo test --test tests peers -- --nocapture` prints a line
//! per case.

mod case;
mod initial;

use std::path::PathBuf;

use pavlov::prelude::*;
use pavlov::trainer::policy::Policy;
use pavlov::trainer::state::State;
use serde::de::DeserializeOwned;

use self::case::{Arrays, Case, Rows};
use crate::support::{floats, policy, weights};

/// Largest difference of a weight, as a share of it.
const RELATIVE: f64 = 1e-5;
/// Largest difference of a weight near 0: about three last digits of a weight of 0.5, which both libraries round to.
const ABSOLUTE: f64 = 1e-7;
/// Largest difference of a parameter, as a share of the largest change of the weights of its layer. A weight of 0.5 changes by
/// 3e-4 in Adam's first step, and its last digit is a ten-thousandth of that.
const OF_CHANGE: f64 = 5e-4;
/// Largest difference of a loss, as a share of it or of 1, whichever is larger.
const OF_LOSS: f64 = 1e-5;

/// The largest differences between what was found and what is wanted, as multiples of what is allowed.
#[derive(Clone, Debug, Default)]
struct Difference {
    /// The largest, and where it is.
    worst: f64,
    at: String,
    /// The largest as a share of the largest change in its layer.
    of_change: f64,
}

impl Difference {
    fn add(&mut self, share: f64, at: impl FnOnce() -> String) {
        if share > self.worst || share.is_nan() {
            self.worst = share;
            self.at = at();
        }
    }

    fn weights(&mut self, found: &State, before: &Arrays, wanted: &Arrays, whose: &str) {
        for (name, wanted) in wanted {
            let found = floats(found.array(name).unwrap_or_else(|_| panic!("no {name} in {whose}")));
            let wanted = wanted.floats();
            let before = before[name].floats();
            assert_eq!(found.len(), wanted.len(), "{name} of {whose}");
            let change = wanted.iter().zip(&before).fold(0.0_f64, |most, (w, b)| most.max((w - b).abs()));
            for (i, (f, w)) in found.iter().zip(&wanted).enumerate() {
                let differs = (f - w).abs();
                self.add(differs / (RELATIVE * w.abs() + ABSOLUTE), || {
                    format!("{whose} {name}[{i}]: {f}, wanted {w}")
                });
                // Below this floor the last digits of the weights say nothing about the step.
                let beyond = (differs - 2.0 * f64::from(f32::EPSILON) * w.abs().max(0.1)).max(0.0);
                if beyond > 0.0 {
                    let share = beyond / change.max(1e-12);
                    self.of_change = self.of_change.max(share);
                    self.add(share / OF_CHANGE, || {
                        format!("{whose} {name}[{i}]: {f}, wanted {w} from {}", before[i])
                    });
                }
            }
        }
    }
}

/// Builds a policy of a case, with its settings on top of those of its base.
fn build(case: &Case, fused: bool) -> Box<dyn Policy> {
    fn of<T: Trainer + DeserializeOwned>(case: &Case, fused: bool) -> Box<dyn Policy> {
        let spaces = case.spaces();
        let settings = case.all_settings(fused);
        let mut settings: T =
            serde_json::from_value(settings).unwrap_or_else(|error| panic!("{case}: {error}"));
        settings.validate_config(&spaces).unwrap_or_else(|error| panic!("{case}: {error}"));
        policy(&settings, &spaces)
    }
    match case.trainer.as_str() {
        "PPO" => of::<Ppo>(case, fused),
        "DQN" => of::<Dqn>(case, fused),
        "SAC" => of::<Sac>(case, fused),
        "TD3" => of::<Td3>(case, fused),
        "DDPG" => of::<Ddpg>(case, fused),
        "QMIX" => of::<Qmix>(case, fused),
        "IMPALA" => of::<Impala>(case, fused),
        other => panic!("{case}: no algorithm {other}"),
    }
}

/// Sets the weights of the network and of its target copy.
fn set(policy: &mut dyn Policy, case: &Case) {
    let named: Vec<_> = case.before.iter().map(|(name, array)| (name.as_str(), array.tensor())).collect();
    policy.set_weights(&weights(&named)).unwrap_or_else(|error| panic!("{case}: {error}"));
    let Some(target) = &case.target else { return };
    let old = policy.get_state().expect("a state");
    // Of two arrays of the same name the first counts.
    let mut copy = State::default();
    target.iter().for_each(|(name, array)| copy.set_tensor(name, &array.tensor()));
    copy.extend(old.nested("target").expect("a target copy"));
    let mut state = State::default();
    state.nest("target", copy);
    state.extend(old);
    policy.set_state(&state).unwrap_or_else(|error| panic!("{case}: {error}"));
}

/// Takes the case's steps, and compares what came of them.
fn difference(case: &Case, fused: bool) -> Difference {
    let mut policy = build(case, fused);
    set(policy.as_mut(), case);
    let mut batch = None;
    let mut learned = None;
    for step in &case.steps {
        policy.on_global_var_update(step.timestep);
        match &step.rows {
            Rows::Own(columns) => batch = Some(step.batch(columns, case)),
            Rows::Elsewhere(word) => assert_eq!(word, "same", "{case}"),
        }
        let rows = batch.as_ref().expect("the rows of the first step");
        let of_step = policy.learn_on_batch(rows).unwrap_or_else(|error| panic!("{case}: {error}"));
        let stop = of_step.stop;
        learned = Some(of_step);
        if stop {
            break;
        }
        if step.update_target {
            policy.update_target();
        }
    }
    let stats = learned.expect("a step").stats;
    let mut found = Difference::default();
    for (name, wanted) in &case.losses {
        let Some(loss) = stats.read(name) else { continue };
        let share = (loss - wanted).abs() / (OF_LOSS * wanted.abs().max(1.0));
        found.add(share, || format!("{name}: {loss}, wanted {wanted}"));
    }
    let state = policy.get_state().expect("a state");
    found.weights(&state.nested("weights").expect("weights"), &case.before, &case.after, "network");
    if let (Some(before), Some(after)) = (&case.target, &case.target_after) {
        found.weights(&state.nested("target").expect("a target copy"), before, after, "target");
    }
    found
}

/// The fixtures of all libraries.
fn fixtures() -> Vec<PathBuf> {
    let home = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/peers");
    let folders =
        std::fs::read_dir(home).expect("the fixtures").flatten().filter(|entry| entry.path().is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).expect("a folder").flatten());
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn advantages_and_value_targets_are_those_of_stable_baselines3() {
    let cases: Vec<Case> = fixtures().iter().flat_map(|file| case::read(file)).collect();
    let estimates: Vec<_> = cases.iter().filter_map(|case| Some((case, case.estimates()?))).collect();
    assert!(estimates.len() > 20);
    for (case, [found, wanted]) in estimates {
        let close = found.iter().zip(&wanted).all(|(f, w)| (f - w).abs() <= 1e-5 * w.abs().max(0.1));
        assert!(close && found.len() == wanted.len(), "{case}: {found:?}, wanted {wanted:?}");
    }
}

#[test]
fn an_update_from_the_same_weights_and_rows_gives_the_weights_of_other_libraries() {
    let mut wrong = Vec::new();
    for file in fixtures() {
        for case in case::read(&file) {
            for fused in [false, true] {
                let found = difference(&case, fused);
                let equal = found.worst <= 1.0;
                println!(
                    "| {case} | {} | {:.2} | {:.1e} | {} | {}",
                    if fused { "fused" } else { "libtorch" },
                    found.worst,
                    found.of_change,
                    if equal { "equal" } else { "differs" },
                    found.at,
                );
                if equal != case.equal {
                    wrong.push(format!(
                        "{case}, fused {fused}: {} times what is allowed at {}",
                        found.worst, found.at
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
