//! Images: bytes from the environment to the network, convolutions by settings and of a user's own.
//! Catch is examples/support/catch.rs.

use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::torch::{CModule, Tensor};
use pavlov::trainer::batch::Column;
use pavlov::trainer::learner::Value;
use pavlov::trainer::models::{
    Activation, Conv2d, CustomModel, Filter, Input, ModelConfig, Net, NetBuilder, Padding, Torso,
};
use pavlov::trainer::policy::{DEFAULT_POLICY, PolicySpec, Spaces};
use serde_json::json;

use crate::support::{assert_close, floats, quiet, refused, spec, tiny_dqn, tiny_ppo, worker_set};

#[path = "../examples/support/catch.rs"]
mod catch;
pub(crate) use catch::Catch;

/// PPO that learns to catch in some seconds.
fn ppo() -> Ppo {
    let mut ppo = tiny_ppo();
    ppo.lr = 2e-3;
    ppo.num_sgd_iter = 4;
    ppo.sgd_minibatch_size = 256;
    ppo.common.num_workers = 0;
    ppo.common.num_envs_per_worker = 32;
    ppo.common.rollout_fragment_length = 32;
    ppo.common.train_batch_size = 1024;
    ppo
}

/// Trains for so many steps; the mean of 200 greedy episodes.
fn learned(trainer: &mut Driver<Algorithm<Ppo>>, steps: u64) -> f64 {
    for _ in 0..steps / 1024 {
        trainer.train().expect("a result");
    }
    let played = trainer.play(200, 1, false, 0).expect("an evaluation");
    played.episodes.iter().map(|episode| episode.total_reward).sum::<f64>() / 200.0
}

/// Mark 0.9 after 61,440 steps: seeds 21 to 25 had 0.95 to 1. Random play is at about -0.8, perfect play at 1.
#[test]
fn ppo_learns_to_catch_from_pictures() {
    for seed in [0, 1, 2] {
        let mut ppo = ppo();
        ppo.common.seed = Some(seed);
        let mut trainer = quiet(ppo, Catch::new).expect("a trainer");
        let before = learned(&mut trainer, 0);
        assert!(before < 0.0, "seed {seed}: {before}");
        let after = learned(&mut trainer, 61_440);
        assert!(after >= 0.9, "seed {seed}: {after}");
    }
}

fn pictures(shape: &[usize]) -> Spaces {
    Spaces { observation_space: Space::image(shape), action_space: Space::discrete(3) }
}

/// What a network without layers says of pictures.
fn read(shape: &[usize], obs: &Tensor, fused: bool) -> Vec<f64> {
    let spec = spec(&pictures(shape), fused);
    let mut learner = NetBuilder::new(&spec).finish().expect("a learner");
    let width = shape.iter().product();
    let found =
        learner.evaluate(&pavlov::trainer::Array::from(obs), None, width, |_, x| x.obs()).expect("numbers");
    found.iter().map(|&x| f64::from(x)).collect()
}

/// 2 pictures of 2 x 3 pixels with 2 channels: byte 10 * (3 y + x) + channel, and 100 more in the second.
#[test]
fn networks_read_bytes_from_0_to_1_with_the_channels_first() {
    let byte = |picture: u8, y: u8, x: u8, channel: u8| 100 * picture + 10 * (3 * y + x) + channel;
    let mut last = Vec::new();
    let mut wanted = Vec::new();
    for picture in 0..2 {
        let place = |i: u8| (i / 3, i % 3);
        last.extend((0..12).map(|i| byte(picture, place(i / 2).0, place(i / 2).1, i % 2)));
        let first = (0..12).map(|i| byte(picture, place(i % 6).0, place(i % 6).1, i / 6));
        wanted.extend(first.map(|byte| f64::from(byte) / 255.0));
    }
    let last = Tensor::from_slice(&last).view([2, 2, 3, 2]);
    // A stack has its channels first already.
    let first = last.permute([0, 3, 1, 2]).contiguous().view([2, 2, 2, 3]);
    for fused in [false, true] {
        assert_close(&read(&[2, 3, 2], &last, fused), &wanted, 1e-7);
    }
    let tall = Tensor::cat(&[&first, &first], 2); // [2, 2, 4, 3]
    for fused in [false, true] {
        let wanted: Vec<f64> = floats(&tall).iter().map(|byte| byte / 255.0).collect();
        assert_close(&read(&[2, 4, 3], &tall, fused), &wanted, 1e-7);
    }
}

#[test]
fn batches_and_views_have_the_type_and_the_shape_of_the_space() {
    let mut dqn = tiny_dqn();
    dqn.common.num_envs_per_worker = 2;
    dqn.common.rollout_fragment_length = 12;
    let workers = worker_set(&dqn, Catch::new).expect("workers");
    let batch = workers.sample().and_then(|batch| batch.single()).expect("a fragment");
    for column in [Column::OBS, Column::NEW_OBS] {
        let data = batch.get(column).expect("the column");
        assert_eq!((data.kind(), data.size()), (pavlov::trainer::Kind::U8, vec![24, 10, 10, 1]));
    }
    let pixels = batch.array::<u8>(Column::OBS).expect("bytes");
    assert_eq!(pixels.shape(), [24, 10, 10, 1]);
    // Row 0 shows the ball at the top and the paddle at the bottom; what followed row 0 is row 1.
    let lit = |row: usize, y: usize| (0..10).filter(|&x| pixels[[row, y, x, 0]] == 255).count();
    assert_eq!([0, 1, 9].map(|y| lit(0, y)), [1, 0, 1]);
    let next = batch.array::<u8>(Column::NEW_OBS).expect("bytes");
    assert!((0..100).all(|i| next[[0, i / 10, i % 10, 0]] == pixels[[1, i / 10, i % 10, 0]]));
    let actions = batch.array::<i64>(Column::ACTIONS).expect("choices");
    assert!(actions.shape() == [24] && actions.iter().all(|a| (0..3).contains(a)));
    let error = batch.array::<f32>(Column::OBS).expect_err("they are bytes").to_string();
    assert!(error.contains("obs") && error.contains("U8") && error.contains("F32"), "{error}");
}

/// Width of the features, or the refusal.
fn features(shape: &[usize], model: serde_json::Value) -> Result<usize> {
    let model: ModelConfig = serde_json::from_value(model).expect("settings");
    let spec: PolicySpec = spec(&pictures(shape), false);
    let torso = NetBuilder::new(&spec).torso("torso", &model)?;
    assert_eq!(model.features(&pictures(shape)), torso.width());
    Ok(torso.width())
}

#[test]
fn convolutions_that_need_more_memory_than_there_is_are_refused_by_name_with_the_sum() {
    for filters in [
        json!([[1e12 as u64, 3, 1]]),
        json!([[16, 3, 1], [32, 1e9 as u64, 1], [16, 3, 1]]),
        json!([[u64::MAX / 2, 3, 1], [u64::MAX / 2, 3, 1]]),
        // The second does not fit, but the first would be made before that is seen.
        json!([[1e12 as u64, 3, 10], [16, [1, 9], 1], [16, 3, 1]]),
    ] {
        let mut ppo = ppo();
        ppo.common.model = serde_json::from_value(json!({"conv_filters": filters})).expect("settings");
        let parts =
            ["`model.conv_filters` is [[", "but the run would need", "for the network (`model.conv_filters`"];
        refused(quiet(ppo, Catch::new), &parts);
    }
}

/// Sizes by hand; Ray's table is `models/utils.py`, and Nature's 3,136 features become 512.
#[test]
fn images_get_rays_convolutions_natures_or_those_of_the_settings() {
    for side in [84, 42, 96] {
        assert_eq!(features(&[side, side, 4], json!({})).expect("Ray's"), 256);
    }
    assert_eq!(features(&[10, 10, 4], json!({})).expect("Ray's"), 32);
    assert_eq!(features(&[240, 320, 3], json!({})).expect("Ray's"), 256);
    assert_eq!(features(&[4, 84, 84], json!({"conv_filters": "nature"})).expect("Nature's"), 512);
    // 20 x 30: 10 x 15 with zeros around, then 4 x 7 of 64.
    assert_eq!(features(&[20, 30, 3], json!({})).expect("two small ones"), 4 * 7 * 64);
    assert_eq!(features(&[40, 40, 3], json!({})).expect("Nature's"), 512);
    // A board goes as numbers into the fully connected layers.
    assert_eq!(features(&[4, 4, 16], json!({"fcnet_hiddens": [9, 8]})).expect("a vector"), 8);
    // 7 x 9, same padding: 4 x 3 of 5; then 3 x 2 without zeros: 2 x 2 of 6.
    let own = json!({"conv_filters": [[5, 3, [2, 3]], [6, [3, 2], 1]]});
    assert_eq!(features(&[7, 9, 2], own.clone()).expect("one's own"), 24);
    let mut own = own;
    let behind = json!([11]);
    own["post_fcnet_hiddens"] = behind;
    assert_eq!(features(&[7, 9, 2], own.clone()).expect("one's own"), 11);
    // As a run's settings are saved and read again.
    let model: ModelConfig = serde_json::from_value(own).expect("settings");
    let saved = serde_json::to_value(&model).expect("settings");
    assert_eq!(serde_json::from_value::<ModelConfig>(saved).expect("settings"), model);
}

#[test]
fn convolutions_that_do_not_fit_are_refused_with_the_way_out() {
    let refused =
        features(&[4, 4, 1], json!({"conv_filters": [[2, 9, 1]]})).expect_err("too large").to_string();
    assert!(refused.contains("does not fit") && refused.contains("model.conv_filters"), "{refused}");
    for wrong in [json!([]), json!("vgg"), json!([[16, 4]]), json!([[16, 4, 0]]), json!([[16, [4, 4, 4], 1]])]
    {
        let refused = serde_json::from_value::<ModelConfig>(json!({"conv_filters": wrong}));
        let refused = refused.expect_err("no filters").to_string();
        assert!(refused.contains("[channels, kernel, stride]"), "{refused}");
    }
}

/// A convolution whose output is added to another's.
#[derive(Debug)]
struct Residual([Conv2d; 2]);

impl Torso for Residual {
    fn width(&self) -> usize {
        self.0[0].out.iter().product()
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let x = self.0[0].on(net, x.obs());
        x + self.0[1].on(net, x)
    }
}

fn residual(net: &mut NetBuilder<'_>, name: &str) -> pavlov::trainer::Result<Residual> {
    let [height, width, channels] = net.spec().image()?;
    let filter = Filter { channels: 4, kernel: [3, 3], stride: [1, 1], padding: Padding::Same };
    let first = net.conv2d(&format!("{name}.first"), [channels, height, width], filter, Activation::Relu)?;
    Ok(Residual([first, net.conv2d(&format!("{name}.second"), first.out, filter, Activation::Relu)?]))
}

/// Trains, restores and compares; what the exported network says of bytes is what the policy says.
fn trains_with_own_network<T: Trainer>(settings: T) {
    let home = tempfile::tempdir().expect("a directory");
    let make = || {
        let builder = settings.clone().builder(Catch::new).custom_model(CustomModel::new(residual));
        builder.loggers(LoggerChoice::None).build().expect("a trainer")
    };
    let mut trainer = make();
    trainer.train().expect("a result");
    let weights = trainer.get_weights().expect("weights");
    assert!(weights.array_names().any(|name| name.ends_with("second.weight")));
    let saved = trainer.save_to(home.path()).expect("a checkpoint");
    let mut restored = make();
    restored.restore(&saved).expect("its own checkpoint");
    assert_eq!(*restored.get_weights().expect("weights"), *weights);
    trainer.export_model(&[ExportFormat::Model], Some(home.path())).expect("an export");
    let module = CModule::load(home.path().join("model.pt")).expect("a module");
    let pixels: Vec<u8> = (0..300_u32).map(|i| (i * 7919 % 256) as u8).collect();
    let obs = Tensor::from_slice(&pixels).view([3, 10, 10, 1]);
    let found = module.forward_ts(&[&obs]).expect("outputs");
    let wanted = trainer.get_policy(DEFAULT_POLICY, |policy| policy.forward(&obs)).expect("the only policy");
    assert_close(&floats(&found), &floats(&wanted.expect("outputs")), 1e-6);
}

#[test]
fn a_network_of_ones_own_serves_any_algorithm_and_is_saved_and_exported() {
    trains_with_own_network(tiny_ppo());
    trains_with_own_network(tiny_dqn());
}
