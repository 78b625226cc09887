//! Convolutional networks for images, by the `model` settings.

use crate::base::Result;
use crate::layers::{Activation, ConvFilters, Filter, ModelConfig, UNITS, UNITS_OF_PART};
use crate::loss::{Input, Net, Value};
use crate::nets::builder::{NetBuilder, Torso};
use crate::nets::init::Init;
use crate::nets::layers::{Conv2d, Dense};

/// Convolutions, followed by fully connected layers.
#[derive(Clone, Debug)]
pub(crate) struct ConvTower {
    convolutions: Vec<Conv2d>,
    dense: Vec<Dense>,
    width: usize,
}

impl ConvTower {
    /// Lays out `filters` for images of the size `image`: height, width, channels; the layers of `post_fcnet_hiddens` follow.
    /// Parameters of convolutions are named `name.conv0.weight` and so on, those of fully connected layers `name.0.weight` and so on.
    pub(super) fn new(
        net: &mut NetBuilder<'_>,
        name: &str,
        (image, filters): ([usize; 3], ConvFilters),
        model: &ModelConfig,
    ) -> Result<Self> {
        let mut tower = Self::laid_out(net, name, image, filters.unfolded(UNITS), model)?;
        let init = model.fcnet_initializer.hidden();
        for &units in &model.post_fcnet_hiddens {
            tower.add(net, name, units, model.post_fcnet_activation, init);
        }
        Ok(tower)
    }

    /// Lays out `filters` for an image inside a Dict or a Tuple, as [`new`](Self::new) does, without further layers.
    pub(super) fn of_part(
        net: &mut NetBuilder<'_>,
        name: &str,
        (image, filters): ([usize; 3], ConvFilters),
        model: &ModelConfig,
    ) -> Result<Self> {
        Self::laid_out(net, name, image, filters.unfolded(UNITS_OF_PART), model)
    }

    fn laid_out(
        net: &mut NetBuilder<'_>,
        name: &str,
        [height, width, channels]: [usize; 3],
        (filters, units): (Vec<Filter>, Option<usize>),
        model: &ModelConfig,
    ) -> Result<Self> {
        let mut convolutions = Vec::new();
        let mut image = [channels, height, width];
        for (i, filter) in filters.into_iter().enumerate() {
            let layer = net.conv2d(&format!("{name}.conv{i}"), image, filter, model.conv_activation)?;
            image = layer.out;
            convolutions.push(layer);
        }
        let mut tower = Self { convolutions, dense: Vec::new(), width: image.iter().product() };
        if let Some(units) = units {
            tower.add(net, name, units, Activation::Relu, Init::Orthogonal(std::f64::consts::SQRT_2));
        }
        Ok(tower)
    }

    fn add(
        &mut self,
        net: &mut NetBuilder<'_>,
        name: &str,
        units: usize,
        activation: Activation,
        init: Init,
    ) {
        let name = format!("{name}.{}", self.dense.len());
        self.dense.push(net.dense(&name, self.width, units, activation, init));
        self.width = units;
    }

    /// The output for images whose pixels `x` has as columns.
    pub(super) fn of<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        let features = self.convolutions.iter().fold(x, |x, layer| layer.on(net, x));
        self.dense.iter().fold(features, |x, layer| layer.on(net, x))
    }
}

impl Torso for ConvTower {
    fn width(&self) -> usize {
        self.width
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.of(net, x.obs())
    }
}
