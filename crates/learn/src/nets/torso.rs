//! Torsos: the layers from the observation to the heads.

use crate::base::{Error, Result};
use crate::layers::{Activation, Initializer, ModelConfig};
use crate::loss::{Input, Net, Value};
use crate::nets::builder::{NetBuilder, Torso};
use crate::nets::combined::Combined;
use crate::nets::conv_tower::ConvTower;
use crate::nets::layers::{Dense, Recurrent};
use std::fmt::Debug;

impl NetBuilder<'_> {
    /// Lays out the torso that the `model` settings describe, with convolutions if observations are images; or the
    /// user's own network. The first hidden layer's weights are named `name.0.weight`, and so on.
    ///
    /// # Errors
    /// Fails if a custom model does. Returns [`Error::Config`] if `model.conv_filters` do not fit the image.
    pub fn torso(&mut self, name: &str, model: &ModelConfig) -> Result<Box<dyn Torso>> {
        self.max_seq_len = model.max_seq_len;
        if let Some(custom) = &self.spec().custom_model {
            return custom.make(self, name);
        }
        let tower: Box<dyn Torso> = match model.filters(&self.spec().spaces.observation_space) {
            Some(filters) => Box::new(ConvTower::new(self, name, filters, model)?),
            None => {
                let images = Combined::new(self, &format!("{name}.images"), model)?;
                let width = images.as_ref().map_or(self.obs_width(), Torso::width);
                let tower = Tower::new(self, name, width, &model.hidden_layers(), model.fcnet_initializer);
                Box::new(Tower { images, ..tower })
            }
        };
        let inputs = tower.width();
        let units = model.lstm_cell_size;
        Ok(match (model.use_gru, model.use_lstm) {
            (true, _) => {
                Box::new(Remembering { layer: self.gru(&format!("{name}.gru"), inputs, units), tower })
            }
            (_, true) => {
                Box::new(Remembering { layer: self.lstm(&format!("{name}.lstm"), inputs, units), tower })
            }
            _ => tower,
        })
    }
}

impl NetBuilder<'_> {
    /// Lays out what a network with hidden layers of its own reads: the convolutions of the `model` settings if observations are
    /// images, or nothing, and then it reads the numbers of the observation. The first convolution's weights are named
    /// `name.conv0.weight`, and so on.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `model.conv_filters` do not fit the image.
    pub fn features(&mut self, name: &str, model: &ModelConfig) -> Result<Box<dyn Torso>> {
        Ok(match model.filters(&self.spec().spaces.observation_space) {
            Some(filters) => Box::new(ConvTower::new(self, name, filters, model)?),
            None => match Combined::new(self, name, model)? {
                Some(images) => Box::new(images),
                None => Box::new(Tower { width: self.obs_width(), ..Tower::default() }),
            },
        })
    }

    /// Lays out the torso of an actor as [`torso`](Self::torso) does. If observations contain the environment's
    /// state, the actor does not see that state.
    ///
    /// # Errors
    /// Fails whenever [`torso`](Self::torso) does. If observations contain the environment's state, returns
    /// [`Error::Config`] for a recurrent network and for the user's own network.
    pub fn actor_torso(&mut self, name: &str, model: &ModelConfig) -> Result<Box<dyn Torso>> {
        let Some(own) = self.spec().own_obs else { return self.torso(name, model) };
        let refuse = |key: &str, value: &str| {
            let rule = "with `multiagent.observation_fn` networks are fully connected ones of the `model` settings, without memory \
                        so far; leave one of the two out";
            Err(Error::config(key, value, rule))
        };
        if self.spec().custom_model.is_some() {
            return refuse("custom_model", "given");
        }
        if model.is_recurrent() {
            return refuse(if model.use_gru { "model.use_gru" } else { "model.use_lstm" }, "true");
        }
        self.has_actor = true;
        let tower = Tower::new(self, name, own, &model.hidden_layers(), model.fcnet_initializer);
        Ok(Box::new(Tower { own: Some(own), ..tower }))
    }
}

/// Hidden layers, followed by a recurrent layer.
#[derive(Debug)]
struct Remembering {
    tower: Box<dyn Torso>,
    layer: Recurrent,
}

impl Torso for Remembering {
    fn width(&self) -> usize {
        self.layer.out
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.layer.on(net, self.tower.on(net, x))
    }
}

/// Fully connected hidden layers.
#[derive(Clone, Debug, Default)]
struct Tower {
    layers: Vec<Dense>,
    width: usize,
    /// What reads images among the parts of an observation; `None` if there are none.
    images: Option<Combined>,
    /// Number of leading scalars of an observation that the torso sees; `None`: the whole observation.
    own: Option<usize>,
}

impl Tower {
    fn new(
        net: &mut NetBuilder<'_>,
        name: &str,
        inputs: usize,
        hidden: &[(usize, Activation)],
        init: Initializer,
    ) -> Self {
        let mut tower = Self { width: inputs, ..Self::default() };
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
        let seen = match &self.images {
            Some(images) => images.on(net, x),
            None => self.own.map_or(x.obs(), |own| x.obs().narrow(0, own)),
        };
        self.layers.iter().fold(seen, |x, layer| layer.on(net, x))
    }
}
