//! Images: bytes from the environment to the network, convolutions by settings and of a user's own.
//! Catch is examples/support/catch.rs.

use std::marker::PhantomData;

use pavlov::envs::{self, Element, Env, Space, Step};
use pavlov::prelude::*;
use pavlov::torch::{CModule, Tensor};
use pavlov::trainer::batch::Column;
use pavlov::trainer::learner::Value;
use pavlov::trainer::models::{
    Activation, Conv2d, CustomModel, Filter, Input, ModelConfig, Net, NetBuilder, Padding, Torso,
};
use pavlov::trainer::policy::{DEFAULT_POLICY, PolicySpec, Spaces};
use serde_json::json;

use crate::support::{
    assert_close, floats, quiet, refused, spec, tiny_ddpg, tiny_dqn, tiny_ppo, tiny_sac, tiny_td3, worker_set,
};

#[path = "../examples/support/catch.rs"]
mod catch;
pub(crate) use catch::Catch;

/// An environment with these observations, which count through their numbers, and with these actions, which do nothing.
pub(crate) struct Shows<O, A> {
    observations: Space,
    actions: Space,
    at: u64,
    scalars: PhantomData<(O, A)>,
}

impl<O: Element, A: Element> Shows<O, A> {
    /// A constructor of such environments.
    pub(crate) fn of(
        observations: Space,
        actions: Space,
    ) -> impl Fn() -> Self + Clone + Send + Sync + 'static {
        move || Self {
            observations: observations.clone(),
            actions: actions.clone(),
            at: 0,
            scalars: PhantomData,
        }
    }

    fn write(&mut self, obs: &mut [O]) {
        self.at += 1;
        let number = |i: usize| O::from_f64((self.at * 7919 + i as u64 * 31) as f64 % 256.0);
        obs.iter_mut().enumerate().for_each(|(i, x)| *x = number(i));
    }
}

impl<O: Element, A: Element> Env for Shows<O, A> {
    type Obs = O;
    type Act = A;

    fn observation_space(&self) -> Space {
        self.observations.clone()
    }

    fn action_space(&self) -> Space {
        self.actions.clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> envs::Result<()> {
        self.at = seed.map_or(self.at, |seed| seed % 100);
        self.write(obs);
        Ok(())
    }

    fn step(&mut self, _: &[A], obs: &mut [O]) -> envs::Result<Step> {
        self.write(obs);
        Ok(Step { reward: (self.at % 3) as f64, terminated: self.at.is_multiple_of(10), truncated: false })
    }
}

/// Two actions of real numbers.
pub(crate) fn two() -> Space {
    Space::boxed(-1.0, 1.0, &[2])
}

/// An image with two numbers.
pub(crate) fn camera(shape: &[usize]) -> Space {
    Space::dict([("camera", Space::image(shape)), ("speed", Space::real(&[2]))])
}

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

/// Counts of the network that `CombinedExtractor` of Stable-Baselines3 2.9.2 makes: `NatureCNN` with 256 features, and the other numbers.
#[test]
fn an_image_inside_a_dict_has_convolutions_whose_features_stand_beside_the_other_numbers() {
    let spaces = Spaces { observation_space: camera(&[40, 40, 3]), action_space: Space::discrete(3) };
    for (hiddens, width) in [(json!([]), 258), (json!([9]), 9)] {
        let model: ModelConfig = serde_json::from_value(json!({"fcnet_hiddens": hiddens})).expect("settings");
        let spec = spec(&spaces, false);
        let torso = NetBuilder::new(&spec).torso("torso", &model).expect("a torso");
        assert_eq!((model.features(&spaces), torso.width()), (width, width));
        // 6,176 + 32,832 + 36,928 + 64 * 256 + 256.
        assert_eq!(model.convolutions(&spaces.observation_space), Some((92_576, 258)));
    }
}

/// Bytes of an image have the channels first and are divided by 255; the numbers around it stay.
#[test]
fn networks_read_an_image_inside_a_dict_as_one_alone_on_both_engines() {
    let space = Space::dict([
        ("a", Space::discrete(2)),
        ("camera", Space::image(&[20, 25, 2])),
        ("z", Space::real(&[2])),
    ]);
    let spaces = Spaces { observation_space: space, action_space: Space::discrete(3) };
    let row: Vec<f32> =
        [1.0].into_iter().chain((0..1000_u16).map(|i| f32::from(i % 251))).chain([-3.0, 7.0]).collect();
    let pixel = |channel: usize, at: usize| f64::from(row[1 + 2 * at + channel]) / 255.0;
    let image = (0..2).flat_map(|channel| (0..500).map(move |at| (channel, at)));
    let image = image.map(|(channel, at)| pixel(channel, at));
    let wanted: Vec<f64> = [0.0, 1.0].into_iter().chain(image).chain([-3.0, 7.0]).collect();
    for fused in [false, true] {
        let spec = spec(&spaces, fused);
        let mut learner = NetBuilder::new(&spec).finish().expect("a learner");
        let obs = pavlov::trainer::Array::from_vec(&row, &[1, row.len() as i64]);
        let found = learner.evaluate(&obs, None, wanted.len(), |_, x| x.obs()).expect("numbers");
        assert_close(&found.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), &wanted, 1e-6);
    }
}

/// The names of the weights after one iteration, which changed the convolutions.
fn learned_names<T: Trainer>(settings: T, space: Space) -> Vec<String> {
    let mut trainer = match space {
        Space::Dict(_) => quiet(settings, Shows::<f32, f32>::of(space, two())),
        _ => quiet(settings, Shows::<u8, f32>::of(space, two())),
    };
    let trainer = trainer.as_mut().expect("a trainer");
    let before = trainer.get_weights().expect("weights");
    (0..3).for_each(|_| drop(trainer.train().expect("a result")));
    let after = trainer.get_weights().expect("weights");
    let names: Vec<String> = after.array_names().map(str::to_owned).collect();
    for name in names.iter().filter(|name| name.contains("conv")) {
        assert_ne!(
            after.array(name).expect("weights"),
            before.array(name).expect("weights"),
            "{name} learns"
        );
    }
    names
}

/// That an update is the one of Stable-Baselines3 with convolutions of both kinds is tested in `golden/peers`.
#[test]
fn sac_td3_and_ddpg_have_convolutions_of_their_own_for_the_critics_or_share_the_actors() {
    let of_critics = |names: &[String]| names.iter().filter(|name| name.contains(".q_features.")).count();
    let of_actor = |names: &[String]| names.iter().filter(|name| name.contains(".actor.features.")).count();
    for shares in [false, true] {
        let mut sac = tiny_sac();
        sac.share_features_extractor = shares;
        let mut td3 = tiny_td3();
        td3.share_features_extractor = shares;
        let mut ddpg = tiny_ddpg();
        ddpg.share_features_extractor = shares;
        for names in [
            learned_names(sac, Space::image(&[8, 9, 3])),
            learned_names(td3.clone(), Space::image(&[8, 9, 3])),
            learned_names(ddpg, Space::image(&[8, 9, 3])),
            learned_names(td3, camera(&[20, 20, 3])),
        ] {
            // Weight and bias of two convolutions.
            assert_eq!((of_actor(&names), of_critics(&names)), (4, if shares { 0 } else { 4 }), "{names:?}");
        }
    }
}

#[test]
fn sharing_where_there_is_no_image_and_settings_of_models_that_are_not_read_are_refused() {
    let mut sac = tiny_sac();
    sac.share_features_extractor = true;
    refused(quiet(sac, "Pendulum-v1"), &["`share_features_extractor` is true", "no convolutions"]);
    let mut td3 = tiny_td3();
    td3.common.model.conv_filters = serde_json::from_value(json!("nature")).ok();
    refused(quiet(td3, "Pendulum-v1"), &["`model`", "conv_filters"]);
}

#[test]
fn a_board_learns_without_convolutions() {
    let mut trainer =
        quiet(tiny_ppo(), Shows::<u8, f32>::of(Space::image(&[4, 4, 16]), two())).expect("a trainer");
    trainer.train().expect("a result");
    let weights = trainer.get_weights().expect("weights");
    assert!(weights.array_names().all(|name| !name.contains("conv")));
}
