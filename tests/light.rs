//! The build without libtorch: what it trains, and what it refuses.
#![cfg(not(feature = "torch"))]

mod admitted;
mod loaded;
#[cfg(feature = "serve")]
mod serve;

use pavlov::prelude::*;
use pavlov::trainer::settings::Activation;

/// Settings that take a second: 2 copies, few rows.
fn small(common: &mut Common) {
    common.num_workers = 0;
    common.num_envs_per_worker = 2;
    common.seed = Some(0);
    common.model.fcnet_hiddens = vec![8];
}

/// One iteration in an environment; nothing is written.
fn train<T: Trainer>(settings: T, env: &str) -> Result<Metrics> {
    Ok(settings.builder(env).loggers(LoggerChoice::None).build()?.train()?)
}

/// The message of the error by which these settings are refused.
fn refused<T: Trainer>(settings: T) -> String {
    let error = train(settings, "CartPole-v1").expect_err("this build computes no such thing");
    let text = error.to_string();
    assert!(text.contains("libtorch") && text.contains("the default feature `torch`"), "{text}");
    text
}

fn ppo() -> Ppo {
    let mut ppo = Ppo { sgd_minibatch_size: 16, num_sgd_iter: 1, ..Ppo::get_default_config() };
    small(&mut ppo.common);
    ppo.common.rollout_fragment_length = 16;
    ppo.common.train_batch_size = 32;
    ppo
}

fn dqn() -> Dqn {
    let mut dqn = Dqn { hiddens: vec![8], ..Dqn::get_default_config() };
    small(&mut dqn.common);
    dqn.off_policy.replay_buffer_config.learning_starts = 64;
    dqn.common.min_sample_timesteps_per_reporting = Some(200);
    dqn
}

#[test]
fn every_kind_of_policy_trains_on_the_fused_engine() {
    let mut recurrent = ppo();
    recurrent.common.model.use_lstm = true;
    let mut swish = ppo();
    swish.common.model.fcnet_activation = Activation::Swish;
    let mut impala = Impala::get_default_config();
    small(&mut impala.common);
    let mut sac = Sac::get_default_config();
    sac.common.num_workers = 0;
    sac.common.seed = Some(0);
    sac.off_policy.replay_buffer_config.learning_starts = 64;
    sac.common.min_sample_timesteps_per_reporting = Some(100);
    for result in [
        train(ppo(), "CartPole-v1"),
        train(recurrent, "CartPole-v1"),
        train(swish, "CartPole-v1"),
        train(ppo(), "PixelPong-v0"),
        train(dqn(), "PixelPong-v0"),
        train(Dqn { noisy: true, num_atoms: 11, ..dqn() }, "CartPole-v1"),
        train(dqn(), "CartPole-v1"),
        train(impala, "CartPole-v1"),
        train(sac, "Pendulum-v1"),
    ] {
        let result = result.expect("an iteration");
        let learned = &result["info"]["learner"]["default_policy"];
        assert!(learned.is_object(), "no step of learning: {result:?}");
    }
}

#[test]
fn a_policy_becomes_onnx_and_torchscript_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let mut recurrent = ppo();
    recurrent.common.model.use_lstm = true;
    let trainer = recurrent.builder("CartPole-v1").loggers(LoggerChoice::None).build();
    let mut session = trainer.expect("a trainer").session(1).expect("a session");
    session.export(&home.path().join("pole.onnx")).expect("an export");
    assert!(home.path().join("pole.onnx").exists());
    let refusal = session.export(&home.path().join("pole.pt")).expect_err("no libtorch").to_string();
    assert!(refusal.contains("TorchScript") && refusal.contains("`.onnx`"), "{refusal}");
}

#[test]
fn what_only_libtorch_computes_is_refused_with_the_way_out() {
    let mut gpu = ppo();
    gpu.common.num_gpus = 1;
    assert!(refused(gpu).contains("`num_gpus`"));
    let mut torch = ppo();
    torch.common.model.fused = false;
    assert!(refused(torch).contains("`model.fused` is false"));
}
