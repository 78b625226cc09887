//! What stands between observations and heads, as the `model` settings say.

use super::{
    builder::{NetBuilder, Torso},
    config::{Initializer, ModelConfig},
    conv_tower::ConvTower,
    encoding::image,
    layers::Dense,
    view::{Input, Net},
};
use crate::{
    base::error::Result,
    learn::{engines::Activation, value::Value},
};

impl NetBuilder<'_> {
    /// Hidden layers as the `model` settings say, convolutions for images, with parameters `name.0.weight` and so on; or
    /// the user's own network.
    pub fn torso(&mut self, name: &str, model: &ModelConfig) -> Result<Box<dyn Torso>> {
        if let Some(custom) = &self.spec().custom_model {
            return custom.make(self, name);
        }
        if let Some(image) = image(&self.spec().spaces.observation_space) {
            return Ok(Box::new(ConvTower::new(self, name, image, model)?));
        }
        let width = self.obs_width();
        Ok(Box::new(Tower::new(self, name, width, &model.hidden_layers(), model.fcnet_initializer)))
    }
}

/// Fully connected hidden layers.
#[derive(Clone, Debug)]
struct Tower {
    layers: Vec<Dense>,
    width: usize,
}

impl Tower {
    fn new(
        net: &mut NetBuilder<'_>,
        name: &str,
        inputs: usize,
        hidden: &[(usize, Activation)],
        init: Initializer,
    ) -> Self {
        let mut tower = Self { layers: Vec::new(), width: inputs };
        for (i, &(units, activation)) in hidden.iter().enumerate() {
            tower.layers.push(net.dense(
                &format!("{name}.{i}"),
                tower.width,
                units,
                activation,
                init.hidden(),
            ));
            tower.width = units;
        }
        tower
    }
}

impl Torso for Tower {
    fn width(&self) -> usize {
        self.width
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.layers.iter().fold(x.obs(), |x, layer| layer.on(net, x))
    }
}
