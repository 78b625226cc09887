//! Policies exported as ONNX and TorchScript: what ONNX Runtime and PyTorch say of observations is what the policy says.

use std::fs;
use std::path::Path;
use std::process::Command;

use pavlov::envs::{DType, Element, IntoEnvCreator, NpRandom, Space};
use pavlov::prelude::*;
use pavlov::trainer::Session;
use pavlov::trainer::settings::ObservationFilter;
use serde_json::{Value, json};

use crate::support::{python_with, quiet, refused, tiny_ddpg, tiny_dqn, tiny_ppo, tiny_sac, tiny_td3};

/// Number of episodes that act side by side.
const COPIES: usize = 7;

/// Number of steps, which a recurrent policy remembers.
const STEPS: usize = 20;

/// Reads what `record` wrote and compares it with ONNX Runtime. Prints nothing unless they differ.
const READER: &str = include_str!("onnx/compare.py");

/// Draws observations as raw numbers.
fn drawn<T: Element>(space: &Space, random: &mut NpRandom) -> Vec<T> {
    let mut rows = vec![T::default(); COPIES * space.width()];
    rows.chunks_exact_mut(space.width()).for_each(|row| space.sample(random, row));
    rows
}

/// Lets the session act, and returns what it saw and did at each step.
fn record(session: &mut Session) -> Vec<Value> {
    let space = session.observation_space().clone();
    let mut random = NpRandom::new(3);
    let mut draws = NpRandom::new(4);
    let step = |_| {
        let mask = session.mask_mut().map(|mask| {
            mask.fill_with(|| draws.random() < 0.5);
            // The first option of every copy is legal.
            let options = mask.len() / COPIES;
            mask.chunks_exact_mut(options).for_each(|row| row[0] = true);
            mask.to_vec()
        });
        fn act<T: Element + serde::Serialize>(session: &mut Session, obs: &[T]) -> (Value, Vec<Action>) {
            (json!(obs), session.compute_actions(obs, false).expect("actions"))
        }
        let (obs, actions) = match space.dtype() {
            DType::U8 => act::<u8>(session, &drawn(&space, &mut random)),
            DType::I64 => act::<i64>(session, &drawn(&space, &mut random)),
            DType::F32 => act::<f32>(session, &drawn(&space, &mut random)),
            DType::F64 => act::<f64>(session, &drawn(&space, &mut random)),
        };
        let actions: Vec<Value> = actions
            .into_iter()
            .map(|action| match action {
                Action::Int(choices) => json!(choices),
                Action::Float(numbers) => json!(numbers),
                other => panic!("{other:?} is another kind of action"),
            })
            .collect();
        json!({"obs": obs, "mask": mask, "actions": actions})
    };
    (0..STEPS).map(step).collect()
}

/// Trains, exports, and compares with ONNX Runtime if there is a Python that has it.
#[track_caller]
fn agrees<T: Trainer>(settings: T, env: impl IntoEnvCreator) {
    let (common, model) = (settings.common(), &settings.common().model);
    let recurrent_or_masked = common.mask_actions || model.use_lstm || model.use_gru;
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = quiet(settings, env).expect("a trainer");
    (0..2).for_each(|_| drop(trainer.train().expect("a result")));
    let mut session = trainer.session(COPIES).expect("a session");
    session.export(&home.path().join("best.onnx")).expect("an export");
    let mut files = vec!["best.onnx"];
    match session.export_drawing(&home.path().join("drawn.onnx")) {
        Ok(_) => {
            session.export_drawing(&home.path().join("drawn.pt")).expect("an export");
            files.extend(["drawn.onnx", "drawn.pt"]);
        }
        Err(error) => assert!(error.to_string().contains("no distribution"), "{error}"),
    }
    // Without masks and memory the function of TorchScript gives the network's outputs, and is compared elsewhere.
    let described = session.export(&home.path().join("best.pt")).expect("an export");
    if described.takes.contains("`obs`") {
        files.push("best.pt");
    }
    let recorded = json!({"copies": COPIES, "files": files, "steps": record(&mut session)});
    assert_eq!(files.contains(&"best.pt"), recurrent_or_masked, "{described:?}");
    runtime_agrees(home.path(), &recorded);
}

#[track_caller]
fn runtime_agrees(home: &Path, recorded: &Value) {
    let Some(python) = python_with("onnxruntime") else { return };
    let input = home.join("recorded.json");
    fs::write(&input, recorded.to_string()).expect("a file");
    let output =
        Command::new(python).args(["-c", READER]).arg(home).output().expect("the Python that was probed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// PPO with these settings of the model.
fn ppo_with(change: impl FnOnce(&mut Ppo)) -> Ppo {
    let mut ppo = tiny_ppo();
    change(&mut ppo);
    ppo
}

#[test]
fn ppo_of_choices_and_of_numbers() {
    agrees(tiny_ppo(), "CartPole-v1");
    agrees(tiny_ppo(), "Pendulum-v1");
    agrees(ppo_with(|ppo| ppo.common.observation_filter = ObservationFilter::MeanStdFilter), "Pendulum-v1");
    let free = ppo_with(|ppo| {
        ppo.common.model.free_log_std = true;
        ppo.common.model.vf_share_layers = true;
    });
    agrees(free, "Pendulum-v1");
}

#[test]
fn masks_one_hot_and_composite_observations() {
    agrees(ppo_with(|ppo| ppo.common.mask_actions = true), "Taxi-v4");
    agrees(ppo_with(|ppo| ppo.common.observation_filter = ObservationFilter::MeanStdFilter), "Taxi-v4");
    agrees(tiny_ppo(), "Blackjack-v1");
    agrees(tiny_dqn(), "Taxi-v4");
}

#[test]
fn recurrent_state_goes_in_and_comes_out() {
    agrees(ppo_with(|ppo| ppo.common.model.use_lstm = true), "CartPole-v1");
    agrees(ppo_with(|ppo| ppo.common.model.use_gru = true), "Pendulum-v1");
    let masked = ppo_with(|ppo| {
        ppo.common.model.use_gru = true;
        ppo.common.mask_actions = true;
    });
    agrees(masked, "Taxi-v4");
}

#[test]
fn values_exact_actions_and_squashed_ones() {
    agrees(tiny_dqn(), "CartPole-v1");
    agrees(tiny_sac(), "Pendulum-v1");
    agrees(tiny_sac(), "CartPole-v1");
    agrees(tiny_td3(), "Pendulum-v1");
    agrees(tiny_ddpg(), "Pendulum-v1");
    let mut impala = Impala::get_default_config();
    impala.common.num_workers = 1;
    impala.common.model.fcnet_hiddens = vec![8];
    impala.common.seed = Some(0);
    agrees(impala, "CartPole-v1");
}

#[test]
fn noisy_layers_are_exported_without_noise_and_distributions_by_their_means() {
    agrees(Dqn { noisy: true, ..tiny_dqn() }, "CartPole-v1");
    agrees(Dqn { num_atoms: 11, ..tiny_dqn() }, "CartPole-v1");
    agrees(Dqn { num_atoms: 11, dueling: false, noisy: true, ..tiny_dqn() }, "CartPole-v1");
}

#[test]
fn images_and_convolutions() {
    use crate::images::{Catch, Shows, camera, two};
    agrees(tiny_ppo(), Catch::new);
    agrees(tiny_ppo(), Shows::<u8, f32>::of(Space::image(&[4, 4, 16]), two()));
    agrees(tiny_ppo(), Shows::<f32, f32>::of(camera(&[20, 20, 3]), two()));
    agrees(tiny_sac(), Shows::<u8, f32>::of(Space::image(&[8, 9, 3]), two()));
    agrees(tiny_td3(), Shows::<f32, f32>::of(camera(&[20, 20, 3]), two()));
}

#[test]
fn the_end_of_the_name_says_the_format() {
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    let mut session = trainer.session(1).expect("a session");
    refused(session.export(&home.path().join("pole.h5")), &["pole.h5", "`.onnx` is ONNX"]);
    refused(session.export_drawing(&home.path().join("pole.c")), &["pole.c", "`.onnx` or `.pt`"]);
    assert_eq!(fs::read_dir(home.path()).expect("the directory").count(), 0);
    session.export(&home.path().join("pole.onnx")).expect("an export");
    let described = fs::read_to_string(home.path().join("pole.onnx.json")).expect("a description");
    let described: Value = serde_json::from_str(&described).expect("JSON");
    assert_eq!(described["inputs"][0]["name"], "obs");
    assert_eq!(described["inputs"][0]["shape"], json!(["batch", 4]));
    assert_eq!(described["outputs"][0]["name"], "action");
    assert_eq!(described["outputs"][0]["dtype"], "int64");
}
