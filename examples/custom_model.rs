//! A network of your own in an algorithm that is not: residual convolutions (Espeholt et al. 2018) in PPO.
//!
//! A torso stands between observations and the algorithm's own heads, in place of what `model` settings describe. Any
//! algorithm takes it. Run it with `cargo run --example custom_model`.

#[path = "support/catch.rs"]
mod catch;

use pavlov::prelude::*;
use pavlov::trainer::prelude::*;

/// A convolution, two more whose output is added to their input, and a linear layer.
#[derive(Debug)]
struct Residual {
    stem: Conv2d,
    block: [Conv2d; 2],
    dense: Dense,
}

impl Residual {
    fn new(net: &mut NetBuilder<'_>, name: &str) -> Result<Self> {
        let [height, width, channels] = net.spec().image()?;
        let mut conv = |i: usize, image, stride| {
            let filter =
                Filter { channels: 8, kernel: [3, 3], stride: [stride, stride], padding: Padding::Same };
            net.conv2d(&format!("{name}.conv{i}"), image, filter, Activation::Relu)
        };
        let stem = conv(0, [channels, height, width], 2)?;
        let block = [conv(1, stem.out, 1)?, conv(2, stem.out, 1)?];
        let features = stem.out.iter().product();
        let dense =
            net.dense(&format!("{name}.dense"), features, 64, Activation::Relu, Init::Orthogonal(1.41));
        Ok(Self { stem, block, dense })
    }
}

impl Torso for Residual {
    fn width(&self) -> usize {
        self.dense.out
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let x = self.stem.on(net, x.obs()); // from 0 to 1, channels first
        let x = x + self.block[1].on(net, self.block[0].on(net, x));
        self.dense.on(net, x)
    }
}

fn main() -> Result<()> {
    let mut ppo = Ppo { lr: 2e-3, num_sgd_iter: 4, sgd_minibatch_size: 256, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 32, seed: Some(0), ..ppo.common };
    ppo.common.rollout_fragment_length = 32;
    ppo.common.train_batch_size = 1024;
    let model = CustomModel::new(Residual::new);
    let mut trainer =
        ppo.builder(catch::Catch::new).custom_model(model).loggers(LoggerChoice::None).build()?;
    for _ in 0..20 {
        println!("mean return {}", trainer.train()?["episode_reward_mean"]);
    }
    Ok(())
}
