//! Convolutional networks for images, by the `model` settings.

use crate::base::Result;
use crate::layers::{Activation, ConvFilters, ModelConfig};
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
    /// Lays out `filters` for images of the size `image`: height, width, channels. Parameters of convolutions are
    /// named `name.conv0.weight` and so on, those of fully connected layers `name.0.weight` and so on.
    pub(super) fn new(
        net: &mut NetBuilder<'_>,
        name: &str,
        (image, filters): ([usize; 3], ConvFilters),
        model: &ModelConfig,
    ) -> Result<Self> {
        let (filters, units) = filters.unfolded();
        let [height, width, channels] = image;
        let mut convolutions = Vec::new();
        let mut image = [channels, height, width];
        for (i, filter) in filters.into_iter().enumerate() {
            let layer = net.conv2d(&format!("{name}.conv{i}"), image, filter, model.conv_activation)?;
            image = layer.out;
            convolutions.push(layer);
        }
        let mut dense = Vec::new();
        let mut width = image.iter().product();
        let first = units.map(|n| (n, Activation::Relu, Init::Orthogonal(std::f64::consts::SQRT_2)));
        let others = model.post_fcnet_hiddens.iter();
        let others = others.map(|&n| (n, model.post_fcnet_activation, model.fcnet_initializer.hidden()));
        for (i, (units, activation, init)) in first.into_iter().chain(others).enumerate() {
            dense.push(net.dense(&format!("{name}.{i}"), width, units, activation, init));
            width = units;
        }
        Ok(Self { convolutions, dense, width })
    }
}

impl Torso for ConvTower {
    fn width(&self) -> usize {
        self.width
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let features = self.convolutions.iter().fold(x.obs(), |x, layer| layer.on(net, x));
        self.dense.iter().fold(features, |x, layer| layer.on(net, x))
    }
}
