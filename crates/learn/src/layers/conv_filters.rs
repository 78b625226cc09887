//! The setting `model.conv_filters`: the convolutional layers for images.

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

/// Number of units of the layer after the convolutions of Mnih et al.
pub(crate) const UNITS: usize = 512;
/// The same for an image inside a Dict or a Tuple, as in Stable-Baselines3.
pub(crate) const UNITS_OF_PART: usize = 256;
/// Smallest side of images that the three convolutions of Mnih et al. fit.
const FOR_NATURE: usize = 36;
/// Smallest side of images that two convolutions of 3 x 3 pixels fit, each moved by 2 and the first with zero padding.
const FOR_TWO: usize = 5;

/// The rule of the setting, for error messages.
const RULE: &str = "it must be \"nature\" or a list of [channels, kernel, stride], where kernel and stride are a number above 0 or [height, width]";

impl TryFrom<Json> for ConvFilters {
    type Error = String;

    fn try_from(value: Json) -> Result<Self, String> {
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

    /// The layers for images `[height, width, channels]` if the setting is null: Ray's where Ray has some for this size, or else
    /// those of Mnih et al. where they fit, or else two of 3 x 3 pixels. `None` if even these do not fit, or if the channels are
    /// not fewer than height and width, so that the box is no image: a board, for example.
    pub(super) fn of_size([height, width, channels]: [usize; 3]) -> Option<Self> {
        let square = |filters: &[(usize, usize, usize)]| {
            Self::layers(&filters.iter().map(|&(n, k, s)| (n, [k, k], [s, s])).collect::<Vec<_>>())
        };
        let side = height.min(width);
        Some(match (height, width) {
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
            _ if channels >= side => return None,
            _ if side >= FOR_NATURE => Self::Nature,
            _ if side >= FOR_TWO => square(&[(32, 3, 2), (64, 3, 2)]),
            _ => return None,
        })
    }

    /// Number of parameters of the layers, and number of outputs of the last one, for an image
    /// `[height, width, channels]`; `units` is that of [`unfolded`](Self::unfolded). If a layer's kernel does not fit into its
    /// image, the layers before it are counted, and there are 0 outputs.
    pub(super) fn sizes(self, [height, width, mut channels]: [usize; 3], units: usize) -> (u128, usize) {
        let (filters, units) = self.unfolded(units);
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

    /// The convolutions, and the number of units of the fully connected layer after them, if there is one: `units` after those of
    /// Mnih et al.
    pub(crate) fn unfolded(self, units: usize) -> (Vec<Filter>, Option<usize>) {
        match self {
            Self::Layers(filters) => (filters, None),
            Self::Nature => {
                let filters = [(32, 8, 4), (64, 4, 2), (64, 3, 1)].map(|(channels, kernel, stride)| Filter {
                    channels,
                    kernel: [kernel; 2],
                    stride: [stride; 2],
                    padding: Padding::Valid,
                });
                (filters.to_vec(), Some(units))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernels that a size gets: side and stride of each.
    fn kernels(image: [usize; 3]) -> Vec<(usize, usize)> {
        let filters =
            ConvFilters::of_size(image).map(|filters| filters.unfolded(UNITS).0).unwrap_or_default();
        filters.iter().map(|filter| (filter.kernel[0], filter.stride[0])).collect()
    }

    #[test]
    fn images_without_a_setting_get_rays_layers_or_natures_from_36_pixels_on_or_two_of_3_by_3_or_none() {
        let nature = [(8, 4), (4, 2), (3, 1)];
        for image in [[36, 36, 1], [40, 40, 3], [64, 64, 12], [210, 160, 3]] {
            assert_eq!(kernels(image), nature, "{image:?}");
        }
        assert_eq!(kernels([84, 84, 4]), [(8, 4), (4, 2), (11, 1)]);
        for image in [[35, 36, 3], [16, 16, 3], [7, 7, 3], [5, 5, 3], [6, 7, 2], [19, 19, 17]] {
            assert_eq!(kernels(image), [(3, 2), (3, 2)], "{image:?}");
        }
        // Too small, and boards that have more planes than fields on a side.
        for board in [[4, 4, 3], [4, 4, 16], [3, 3, 2], [8, 8, 111], [8, 8, 8], [111, 8, 8], [40, 40, 40]] {
            assert_eq!(ConvFilters::of_size(board), None, "{board:?}");
        }
    }

    /// Counts and features of `NatureCNN` in Stable-Baselines3 2.9.2: `sum(p.numel() for p in NatureCNN(space).parameters())`.
    #[test]
    fn natures_layers_have_as_many_parameters_as_in_stable_baselines3() {
        for (image, parameters) in
            [([36, 36, 3], 109_216), ([40, 40, 3], 109_216), ([210, 160, 3], 11_610_784)]
        {
            assert_eq!(
                ConvFilters::of_size(image).map(|filters| filters.sizes(image, UNITS)),
                Some((parameters, 512)),
                "{image:?}"
            );
        }
    }

    /// By hand: 5 x 5 becomes 3 x 3 with zeros around, then 1 x 1; 16 x 16 becomes 8 x 8, then 3 x 3.
    #[test]
    fn two_convolutions_of_3_by_3_leave_at_least_one_pixel_of_64_channels() {
        for (image, outputs) in
            [([5, 5, 3], 64), ([7, 7, 3], 64), ([16, 16, 3], 9 * 64), ([35, 35, 1], 64 * 64)]
        {
            let weights = 32 * (9 * image[2] as u128 + 1) + 64 * (9 * 32 + 1);
            assert_eq!(
                ConvFilters::of_size(image).map(|filters| filters.sizes(image, UNITS)),
                Some((weights, outputs)),
                "{image:?}"
            );
        }
    }
}
