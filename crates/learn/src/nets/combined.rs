//! Networks for observations of several parts, some of which are images.

use crate::base::{Result, Spaces};
use crate::layers::ModelConfig;
use crate::loss::{Input, Net, Value};
use crate::nets::builder::{NetBuilder, Torso};
use crate::nets::conv_tower::ConvTower;

/// Convolutions for each image among the parts, and the numbers of all other parts side by side.
#[derive(Clone, Debug)]
pub(crate) struct Combined {
    parts: Vec<Part>,
    width: usize,
}

/// Columns of the encoded observation, and the convolutions that read them; without convolutions they are passed on.
#[derive(Clone, Debug)]
struct Part {
    from: usize,
    len: usize,
    tower: Option<ConvTower>,
}

impl Combined {
    /// Lays out the convolutions of each image; `None` if no part is one. Parameters are named `name.0.conv0.weight` and so on, by
    /// the number of the image.
    pub(super) fn new(net: &mut NetBuilder<'_>, name: &str, model: &ModelConfig) -> Result<Option<Self>> {
        let spec = net.spec();
        let images = model.filters_of_parts(&spec.spaces.observation_space);
        if images.is_empty() {
            return Ok(None);
        }
        let mut parts = Vec::new();
        let mut at = 0;
        for (i, (image, filters)) in images.into_iter().enumerate() {
            parts.extend(numbers(at, image.flat.start));
            let tower = ConvTower::of_part(net, &format!("{name}.{i}"), (image.image, filters), model)?;
            parts.push(Part { from: image.flat.start, len: image.flat.len(), tower: Some(tower) });
            at = image.flat.end;
        }
        parts.extend(numbers(at, Spaces::obs_width(&spec.spaces)));
        let width = parts.iter().map(|part| part.tower.as_ref().map_or(part.len, Torso::width)).sum();
        Ok(Some(Self { parts, width }))
    }
}

/// The columns between two images, if there are some.
fn numbers(from: usize, to: usize) -> Option<Part> {
    (from < to).then(|| Part { from, len: to - from, tower: None })
}

impl Torso for Combined {
    fn width(&self) -> usize {
        self.width
    }

    fn on<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        let read = |part: &Part| {
            let seen = x.obs().narrow(part.from, part.len);
            part.tower.as_ref().map_or(seen, |tower| tower.of(net, seen))
        };
        self.parts.iter().map(read).reduce(Value::cat).unwrap_or(x.obs())
    }
}
