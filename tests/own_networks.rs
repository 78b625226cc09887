//! Networks and policy classes of a user's own: what a checkpoint says of them, and layers that do not fit.

use std::path::Path;

use pavlov::prelude::*;
use pavlov::trainer::Trainer;
use pavlov::trainer::learner::Value;
use pavlov::trainer::models::{Activation, CustomModel, Dense, Init, Input, Net, NetBuilder, Torso};

use crate::support::{discrete_spaces, quiet, refused, tiny_dqn, tiny_ppo};

/// One layer with the names and shapes of `fcnet_hiddens = [8]`, whose output is changed by `how`.
#[derive(Debug)]
struct Changed(Dense, How);

#[derive(Clone, Copy, Debug)]
enum How {
    Negated,
    Doubled,
}

impl Torso for Changed {
    fn width(&self) -> usize {
        self.0.out
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let out = self.0.on(net, x.obs());
        match self.1 {
            How::Negated => -out * 5.0,
            How::Doubled => out * 2.0,
        }
    }
}

fn changed(name: &'static str, how: How) -> CustomModel {
    CustomModel::named(name, move |net: &mut NetBuilder<'_>, prefix: &str| {
        let inputs = net.obs_width();
        let init = Init::Orthogonal(1.0);
        Ok(Changed(net.dense(&format!("{prefix}.0"), inputs, 8, Activation::Tanh, init), how))
    })
}

fn saved(model: Option<CustomModel>, dir: &Path) -> std::path::PathBuf {
    let builder = tiny_ppo().builder("CartPole-v1").loggers(LoggerChoice::None).logdir(dir);
    let builder = match model {
        Some(model) => builder.custom_model(model),
        None => builder,
    };
    let mut trainer = builder.build().expect("a trainer");
    trainer.train().expect("a result");
    trainer.save().expect("a checkpoint")
}

#[test]
fn a_checkpoint_is_restored_by_the_network_that_saved_it_and_by_no_other() {
    let home = tempfile::tempdir().expect("a directory");
    let own = saved(Some(changed("negated", How::Negated)), &home.path().join("own"));
    let plain = saved(None, &home.path().join("plain"));
    let with = |model: Option<CustomModel>| {
        let builder = tiny_ppo().builder("CartPole-v1").loggers(LoggerChoice::None);
        match model {
            Some(model) => builder.custom_model(model),
            None => builder,
        }
        .build()
        .expect("a trainer")
    };
    // Names and shapes agree in all of these.
    let named =
        ["a network of your own, `negated`", "the network of the `model` settings here", "`custom_model`"];
    refused(pavlov::load(&own), &named);
    refused(with(None).restore(&own), &named);
    refused(with(None).restore_policies(&own), &named);
    let doubled = || Some(changed("doubled", How::Doubled));
    refused(with(doubled()).restore(&own), &["`negated` in the checkpoint", "`doubled` here"]);
    refused(
        with(doubled()).restore(&plain),
        &["the network of the `model` settings in the checkpoint", "`doubled`"],
    );
    let same_name = || Some(changed("negated", How::Doubled));
    let steps = ["computes something else", "Scale(-1.0, 0.0)", "Scale(2.0, 0.0)"];
    refused(with(same_name()).restore(&own), &steps);
    refused(with(same_name()).restore_policies(&own), &steps);
    with(Some(changed("negated", How::Negated))).restore(&own).expect("the same network");
    with(None).restore(&plain).expect("the same network");
    pavlov::load(&plain).expect("a policy");
}

#[test]
fn other_model_settings_with_the_same_shapes_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let plain = saved(None, home.path());
    let mut other = tiny_ppo();
    other.common.model.fcnet_activation = Activation::Relu;
    let mut trainer = quiet(other, "CartPole-v1").expect("a trainer");
    refused(trainer.restore(&plain), &["Dense Tanh", "Dense Relu", "`model` settings"]);
}

#[test]
fn a_policy_class_of_ones_own_is_named_even_if_its_state_fits() {
    let home = tempfile::tempdir().expect("a directory");
    let ppo = tiny_ppo();
    let class = || ppo.get_default_policy_class(&discrete_spaces(4, 2)).expect("a class").named("MyPpo");
    let builder = || ppo.clone().builder("CartPole-v1").loggers(LoggerChoice::None);
    let mut trainer = builder().policy_class(class()).logdir(home.path()).build().expect("a trainer");
    let checkpoint = trainer.save().expect("a checkpoint");
    let parts = ["of the class MyPpo in the checkpoint", "`policy_class`"];
    refused(pavlov::load(&checkpoint), &parts);
    refused(builder().build().expect("a trainer").restore(&checkpoint), &parts);
    builder().policy_class(class()).build().expect("a trainer").restore(&checkpoint).expect("the same class");
}

#[test]
fn load_takes_the_code_that_is_no_part_of_a_checkpoint() {
    let home = tempfile::tempdir().expect("a directory");
    let checkpoint = saved(Some(changed("negated", How::Negated)), home.path());
    let obs = [0.02_f32, -0.01, 0.03, 0.04];
    let builder = tiny_ppo().builder("CartPole-v1").custom_model(changed("negated", How::Negated));
    let mut trainer = builder.loggers(LoggerChoice::None).build().expect("a trainer");
    trainer.restore(&checkpoint).expect("the same network");
    let wanted = trainer.session(1).expect("a session").act(&obs).expect("an action");
    let load = || pavlov::Load::from(&checkpoint).custom_model(changed("negated", How::Negated));
    assert_eq!(load().session().expect("a policy").act(&obs).expect("an action"), wanted);
    assert_eq!(
        load().policy("default_policy").shared().expect("a policy").act_once(&obs).expect("it"),
        wanted
    );
    let both = load().copies(2).session().expect("a policy").compute_actions(&[obs, obs].concat(), false);
    assert_eq!(both.expect("actions"), [wanted.clone(), wanted]);
    refused(load().policy("other").session(), &["other"]);
    refused(load().copies(0).session(), &["0 copies"]);
    refused(pavlov::Load::from(home.path()).session(), &["`pavlov::Load`", "`custom_model`"]);
    let other = changed("doubled", How::Doubled);
    refused(pavlov::Load::from(&checkpoint).custom_model(other).session(), &["`doubled` here"]);

    let class = || {
        let ppo = tiny_ppo();
        ppo.get_default_policy_class(&discrete_spaces(4, 2)).expect("a class").named("MyPpo")
    };
    let own = tempfile::tempdir().expect("a directory");
    let builder = tiny_ppo().builder("CartPole-v1").policy_class(class()).loggers(LoggerChoice::None);
    let checkpoint = builder.logdir(own.path()).build().expect("a trainer").save().expect("a checkpoint");
    pavlov::Load::from(own.path()).policy_class(class()).session().expect("a policy");
    refused(pavlov::Load::from(&checkpoint).session(), &["`pavlov::Load`", "`policy_class`"]);
}

/// A torso of two layers, the second of which takes `takes` columns.
fn stacked(first: usize, takes: usize) -> CustomModel {
    #[derive(Debug)]
    struct Stacked([Dense; 2]);
    impl Torso for Stacked {
        fn width(&self) -> usize {
            self.0[1].out
        }
        fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
            self.0[1].on(net, self.0[0].on(net, x.obs()))
        }
    }
    CustomModel::new(move |net: &mut NetBuilder<'_>, _: &str| {
        let init = Init::Orthogonal(1.0);
        let a = net.dense("a", first, 8, Activation::Tanh, init);
        Ok(Stacked([a, net.dense("b", takes, 6, Activation::Tanh, init)]))
    })
}

#[test]
fn a_layer_that_does_not_fit_its_input_is_named_before_anything_is_trained() {
    for fused in [true, false] {
        let built = |first, takes| {
            let mut ppo = tiny_ppo();
            ppo.common.model.fused = fused;
            let builder = ppo.builder("CartPole-v1").custom_model(stacked(first, takes));
            builder.loggers(LoggerChoice::None).build()
        };
        for (first, takes, said) in [
            (4, 7, "the layer `b`: it takes 7 columns, but gets 8"),
            (4, 9, "the layer `b`: it takes 9 columns, but gets 8"),
            (5, 8, "the layer `a`: it takes 5 columns, but gets 4"),
            (3, 8, "the layer `a`: it takes 3 columns, but gets 4"),
        ] {
            assert_eq!(refused(built(first, takes), &[]), said, "fused = {fused}");
        }
        built(4, 8).expect("layers that fit");
    }
    let mut dqn = tiny_dqn();
    dqn.hiddens = Vec::new();
    let builder = dqn.builder("CartPole-v1").custom_model(stacked(4, 7)).loggers(LoggerChoice::None);
    refused(builder.build(), &["the layer `b`: it takes 7 columns, but gets 8"]);
}

#[test]
fn operations_of_values_that_do_not_fit_together_say_so() {
    /// Applies one operation to the output of a layer of 8 units.
    #[derive(Debug)]
    struct Wrong(Dense, u8);
    impl Torso for Wrong {
        fn width(&self) -> usize {
            8
        }
        fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
            let y = self.0.on(net, x.obs());
            match self.1 {
                0 => y + x.obs(),
                1 => y.narrow(4, 5).cat(x.obs()).narrow(0, 8),
                _ => y.minimum(y.narrow(0, 3)),
            }
        }
    }
    for fused in [true, false] {
        for (which, part) in [
            (0, "the operation Add of a loss or a network: its values have 8 and 4 columns"),
            (1, "`narrow`: it takes columns 4 to 9 of a value that has 8"),
            (2, "the operation Minimum of a loss or a network: its values have 8 and 3 columns"),
        ] {
            let model = CustomModel::new(move |net: &mut NetBuilder<'_>, name: &str| {
                let init = Init::Orthogonal(1.0);
                Ok(Wrong(net.dense(name, 4, 8, Activation::Tanh, init), which))
            });
            let mut ppo = tiny_ppo();
            ppo.common.model.fused = fused;
            let builder = ppo.builder("CartPole-v1").custom_model(model).loggers(LoggerChoice::None);
            refused(builder.build(), &[part]);
        }
    }
}
