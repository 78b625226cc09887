//! The setting `model.conv_filters`: the convolutional layers for images.

use crate::base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// The setting `model.conv_filters`: `"nature"`, or a list of `[channels, kernel, stride]`, in which kernel and stride are
/// a number or `[height, width]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Json", into = "Json")]
pub enum ConvFilters {
    /// Three convolutions without padding, then a layer of 512 units (Mnih et al. 2015).
    Nature,
    /// The listed convolutions, in order. As read from settings, all but the last have zero padding, as in Ray.
    Layers(Vec<Filter>),
}

/// The rule of the setting, for error messages.
const RULE: &str = "it must be \"nature\" or a list of [channels, kernel, stride], where kernel and stride are a number above 0 or [height, width]";

impl TryFrom<Json> for ConvFilters {
    type Error = String;

    fn try_from(value: Json) -> std::result::Result<Self, String> {
        let sides = |value: &Json| match value {
            Json::Array(both) if both.len() == 2 => Some([number(&both[0])?, number(&both[1])?]),
            one => number(one).map(|n| [n, n]),
        };
        let filter = |value: &Json| match value.as_array()?.as_slice() {
            [channels, kernel, stride] => Some((number(channels)?, sides(kernel)?, sides(stride)?)),
            _ => None,
        };
        if value == "nature" {
            return Ok(Self::Nature);
        }
        let filters = value.as_array().and_then(|all| all.iter().map(filter).collect::<Option<Vec<_>>>());
        let filters = filters.filter(|filters| !filters.is_empty());
        filters.map(|filters| Self::layers(&filters)).ok_or_else(|| format!("{value} cannot be used: {RULE}"))
    }
}

/// Reads a whole number above 0.
fn number(value: &Json) -> Option<usize> {
    value.as_u64().filter(|&n| n > 0).and_then(|n| usize::try_from(n).ok())
}

impl From<ConvFilters> for Json {
    fn from(filters: ConvFilters) -> Self {
        match filters {
            ConvFilters::Nature => json!("nature"),
            ConvFilters::Layers(filters) => {
                filters.iter().map(|filter| json!([filter.channels, filter.kernel, filter.stride])).collect()
            }
        }
    }
}

impl ConvFilters {
    /// Makes the setting from channels, kernel and stride of each layer; all layers but the last have zero padding.
    pub fn layers(filters: &[(usize, [usize; 2], [usize; 2])]) -> Self {
        let padding = |i| if i + 1 < filters.len() { Padding::Same } else { Padding::Valid };
        let layers = filters.iter().enumerate().map(|(i, &(channels, kernel, stride))| Filter {
            channels,
            kernel,
            stride,
            padding: padding(i),
        });
        Self::Layers(layers.collect())
    }

    /// Ray's default layers for images of this height and width; an error if Ray has none for the size.
    pub(super) fn of_size(height: usize, width: usize) -> Result<Self> {
        let square = |filters: &[(usize, usize, usize)]| {
            Self::layers(&filters.iter().map(|&(n, k, s)| (n, [k, k], [s, s])).collect::<Vec<_>>())
        };
        Ok(match (height, width) {
            (84, 84) => square(&[(16, 8, 4), (32, 4, 2), (256, 11, 1)]),
            (42, 42) => square(&[(16, 4, 2), (32, 4, 2), (256, 11, 1)]),
            (96, 96) => square(&[(16, 8, 4), (32, 4, 2), (256, 11, 2)]),
            (10, 10) => square(&[(16, 5, 2), (32, 5, 2)]),
            (240, 320) => {
                Self::layers(&[(16, [12, 16], [7, 9]), (32, [6, 6], [4, 4]), (256, [9, 9], [1, 1])])
            }
            (480, 640) => {
                Self::layers(&[(16, [24, 32], [14, 18]), (32, [6, 6], [4, 4]), (256, [9, 9], [1, 1])])
            }
            _ => {
                let rule = format!(
                    "there is no default for images of {height} x {width}; {RULE}. Or wrap the environment in `FlattenObservation`"
                );
                return Err(Error::config("model.conv_filters", "null", rule));
            }
        })
    }

    /// Number of parameters of the layers, and number of outputs of the last one, for an image
    /// `[height, width, channels]`. If a layer's kernel does not fit into its image, the layers before it are counted,
    /// and there are 0 outputs.
    pub(super) fn sizes(self, [height, width, mut channels]: [usize; 3]) -> (u128, usize) {
        let (filters, units) = self.unfolded();
        let mut weights = 0_u128;
        let mut image = [height, width];
        for filter in filters {
            let Some((_, sides)) = filter.on(image) else { return (weights, 0) };
            let inputs =
                filter.kernel.iter().fold(channels as u128, |n, &side| n.saturating_mul(side as u128));
            let layer = (filter.channels as u128).saturating_mul(inputs.saturating_add(1));
            weights = weights.saturating_add(layer);
            channels = filter.channels;
            image = sides;
        }
        let outputs = image.into_iter().fold(channels, usize::saturating_mul);
        let Some(units) = units else { return (weights, outputs) };
        let behind = (units as u128).saturating_mul((outputs as u128).saturating_add(1));
        (weights.saturating_add(behind), units)
    }

    /// The convolutions, and the number of units of the fully connected layer after them, if there is one.
    pub(crate) fn unfolded(self) -> (Vec<Filter>, Option<usize>) {
        match self {
            Self::Layers(filters) => (filters, None),
            Self::Nature => {
                let filters = [(32, 8, 4), (64, 4, 2), (64, 3, 1)].map(|(channels, kernel, stride)| Filter {
                    channels,
                    kernel: [kernel; 2],
                    stride: [stride; 2],
                    padding: Padding::Valid,
                });
                (filters.to_vec(), Some(512))
            }
        }
    }
}

/// One convolutional layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Number of output channels.
    pub channels: usize,
    /// Height and width of the kernel, in pixels.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride of the kernel, in pixels.
    pub stride: [usize; 2],
    /// Padding around the image.
    pub padding: Padding,
}

impl Filter {
    /// Returns the padding left, right, top and bottom of an image `[height, width]`, and height and width of the
    /// output; `None` if the kernel does not fit.
    pub(crate) fn on(&self, image: [usize; 2]) -> Option<([usize; 4], [usize; 2])> {
        let mut around = [0; 4];
        let mut sides = [0; 2];
        for (axis, side) in image.into_iter().enumerate() {
            let kernel = self.kernel[axis];
            let stride = self.stride[axis];
            if [kernel, stride, side].contains(&0) {
                return None;
            }
            let padded = match self.padding {
                Padding::Valid => side,
                Padding::Same => {
                    let covered = ((side.div_ceil(stride) - 1) * stride).checked_add(kernel)?;
                    let zeros = covered.saturating_sub(side);
                    // Padding lists left and right before top and bottom.
                    around[2 - 2 * axis] = zeros / 2;
                    around[3 - 2 * axis] = zeros - zeros / 2;
                    side.checked_add(zeros)?
                }
            };
            sides[axis] = padded.checked_sub(kernel)? / stride + 1;
        }
        Some((around, sides))
    }
}

/// How an image is padded before a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Zero padding: each side of the output is the side of the input divided by the stride, rounded up.
    Same,
    /// No padding: the kernel stays within the image.
    Valid,
}
