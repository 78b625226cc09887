//! Exported policies: TorchScript that answers as the policy does, here and in Python.

use std::path::Path;
use std::process::Command;

use pavlov::prelude::*;
use pavlov::torch::{CModule, Tensor};
use pavlov::trainer::policy::DEFAULT_POLICY;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::settings::ObservationFilter;
use pavlov::trainer::unsquash;
use serde_json::json;

use crate::support::{
    assert_close, floats, python_with, quiet, tiny_ddpg, tiny_dqn, tiny_ppo, tiny_sac, tiny_td3,
};

/// 7 observations, not the number the export was traced with.
fn observations(width: usize) -> Vec<f32> {
    let mut rng = Stream::new(2, "rows", 0);
    (0..7 * width).map(|_| rng.normal()).collect()
}

/// Exports after an iteration; returns the observations and what the policy says of them.
fn export<T: Trainer>(settings: T, env: &str, dir: &Path) -> (Tensor, Vec<f64>) {
    let mut trainer = quiet(settings, env).expect("a trainer");
    trainer.train().expect("a result");
    let exported = trainer.export_model(&[ExportFormat::Model], Some(dir)).expect("an export");
    assert_eq!(exported[&ExportFormat::Model], dir.join("model.pt"));
    let width = if env == "CartPole-v1" { 4 } else { 3 };
    let obs = Tensor::from_slice(&observations(width)).view([7, width as i64]);
    let forward = trainer.get_policy(DEFAULT_POLICY, |policy| policy.forward(&obs));
    let outputs = floats(&forward.expect("the only policy").expect("outputs"));
    (obs, outputs)
}

/// Exports, loads and compares.
#[track_caller]
fn loads_and_agrees<T: Trainer>(settings: T, env: &str) {
    let home = tempfile::tempdir().expect("a directory");
    let (obs, wanted) = export(settings, env, home.path());
    let module = CModule::load(home.path().join("model.pt")).expect("a module");
    let found = module.forward_ts(&[obs]).expect("outputs");
    assert_close(&floats(&found), &wanted, 1e-6);
}

#[test]
fn discrete_ppo_loads_through_libtorch_and_agrees() {
    loads_and_agrees(tiny_ppo(), "CartPole-v1");
}

#[test]
fn continuous_ppo_loads_through_libtorch_and_agrees() {
    loads_and_agrees(tiny_ppo(), "Pendulum-v1");
}

#[test]
fn ppo_with_shared_layers_and_free_deviations_loads_through_libtorch_and_agrees() {
    let mut ppo = tiny_ppo();
    ppo.common.model.vf_share_layers = true;
    ppo.common.model.free_log_std = true;
    loads_and_agrees(ppo, "Pendulum-v1");
}

#[test]
fn dqn_loads_through_libtorch_and_agrees() {
    loads_and_agrees(tiny_dqn(), "CartPole-v1");
}

#[test]
fn dqn_with_atoms_and_noisy_layers_loads_through_libtorch_and_agrees() {
    loads_and_agrees(Dqn { num_atoms: 11, noisy: true, ..tiny_dqn() }, "CartPole-v1");
}

#[test]
fn sac_of_choices_loads_through_libtorch_and_agrees() {
    loads_and_agrees(tiny_sac(), "CartPole-v1");
}

/// The exported function gives the torques that the trainer's best actions are.
#[track_caller]
fn exports_actions<T: Trainer>(mut settings: T) {
    settings.common_mut().observation_filter = ObservationFilter::MeanStdFilter;
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = quiet(settings, "Pendulum-v1").expect("a trainer");
    (0..3).for_each(|_| drop(trainer.train().expect("a result")));
    trainer.export_model(&[ExportFormat::Model], Some(home.path())).expect("an export");
    let module = CModule::load(home.path().join("model.pt")).expect("a module");
    let rows = observations(3);
    let found = module.forward_ts(&[Tensor::from_slice(&rows).view([7, 3])]).expect("torques");
    assert_eq!(found.size(), [7, 1]);
    assert_close(&floats(&found), &best_torques(&mut trainer, &rows), 1e-5);
}

#[test]
fn sac_td3_and_ddpg_export_the_best_actions_with_filter_and_bounds_inside() {
    exports_actions(tiny_sac());
    exports_actions(tiny_td3());
    exports_actions(tiny_ddpg());
}

#[test]
fn the_best_action_of_sac_is_the_mean_between_the_bounds() {
    let mut trainer = quiet(tiny_sac(), "Pendulum-v1").expect("a trainer");
    let rows = observations(3);
    let obs = Tensor::from_slice(&rows).view([7, 3]);
    let forward = trainer.get_policy(DEFAULT_POLICY, |policy| policy.forward(&obs));
    let means = forward.expect("the only policy").expect("outputs").narrow(1, 0, 1);
    assert_close(&best_torques(&mut trainer, &rows), &floats(&(means.tanh() * 2.0)), 1e-5);
}

/// The actions that the trainer takes without exploring.
fn best_torques<T: Trainer>(trainer: &mut Driver<Algorithm<T>>, rows: &[f32]) -> Vec<f64> {
    let torque = |action: &Action| match action {
        Action::Float(row) => f64::from(row[0]),
        other => panic!("a torque is a number, not {other:?}"),
    };
    trainer.compute_actions(rows, false).expect("actions").iter().map(torque).collect()
}

/// The best actions by exported outputs, as the environment takes them.
fn torques(module: &CModule, obs: &Tensor) -> Vec<f64> {
    let means = module.forward_ts(&[obs]).expect("outputs").narrow(1, 0, 1);
    floats(&means).iter().map(|&mean| f64::from(unsquash(mean as f32, -2.0, 2.0))).collect()
}

#[test]
fn an_exported_policy_filters_observations_as_evaluation_does() {
    let mut ppo = tiny_ppo();
    ppo.common.observation_filter = ObservationFilter::MeanStdFilter;
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = quiet(ppo, "Pendulum-v1").expect("a trainer");
    (0..3).for_each(|_| drop(trainer.train().expect("a result")));
    trainer.export_model(&[ExportFormat::Model], Some(home.path())).expect("an export");
    let module = CModule::load(home.path().join("model.pt")).expect("a module");
    let rows = observations(3);
    let found = torques(&module, &Tensor::from_slice(&rows).view([7, 3]));
    let wanted = best_torques(&mut trainer, &rows);
    assert_close(&found, &wanted, 1e-5);
}

#[test]
fn an_exported_policy_takes_integers_as_the_environment_writes_them() {
    for filter in [ObservationFilter::NoFilter, ObservationFilter::MeanStdFilter] {
        let mut dqn = tiny_dqn();
        dqn.common.observation_filter = filter;
        let home = tempfile::tempdir().expect("a directory");
        let mut trainer = quiet(dqn, "Taxi-v4").expect("a trainer");
        (0..3).for_each(|_| drop(trainer.train().expect("a result")));
        trainer.export_model(&[ExportFormat::Model], Some(home.path())).expect("an export");
        let module = CModule::load(home.path().join("model.pt")).expect("a module");
        let fields: Vec<i64> = (0..500).collect();
        let outputs = module.forward_ts(&[Tensor::from_slice(&fields).view([500, 1])]).expect("outputs");
        let best = floats(&outputs.argmax(1, false));
        let actions = trainer.compute_actions(&fields, false).expect("actions");
        let taken: Vec<f64> =
            actions.iter().map(|action| action.discrete().expect("a choice") as f64).collect();
        assert_eq!(best, taken, "{filter:?}");
    }
}

/// Reads a list of rows on standard input; prints what the module says of them.
const READER: &str = r#"
import json, sys, torch
module = torch.jit.load(sys.argv[1])
print(json.dumps(module(torch.tensor(json.load(sys.stdin))).tolist()))
"#;

#[test]
fn exported_policies_load_in_python_and_agree() {
    let Some(python) = python_with("torch") else { return };
    let home = tempfile::tempdir().expect("a directory");
    let exports = [
        export(tiny_ppo(), "CartPole-v1", &home.path().join("discrete")),
        export(tiny_ppo(), "Pendulum-v1", &home.path().join("continuous")),
        export(tiny_dqn(), "CartPole-v1", &home.path().join("dqn")),
    ];
    for ((obs, wanted), name) in exports.iter().zip(["discrete", "continuous", "dqn"]) {
        let rows: Vec<Vec<f64>> = (0..7).map(|i| floats(&obs.get(i))).collect();
        let input = home.path().join("rows.json");
        std::fs::write(&input, json!(rows).to_string()).expect("a file");
        let output = Command::new(&python)
            .args(["-c", READER])
            .arg(home.path().join(name).join("model.pt"))
            .stdin(std::fs::File::open(&input).expect("the file"))
            .output()
            .expect("the Python that was probed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found: Vec<Vec<f64>> = serde_json::from_slice(&output.stdout).expect("rows");
        assert_close(&found.concat(), wanted, 1e-6);
    }
}
