//! Settings that all MuJoCo environments share, and the macro that declares the settings of one.

use serde::{Deserialize, Serialize};

/// Settings that all MuJoCo environments share: Gymnasium's, and pavlov's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Common {
    /// Path of a model in MuJoCo's XML format. A file name of Gymnasium's models means the copy built into pavlov.
    pub(super) xml_file: String,
    /// Steps of MuJoCo per step of the environment.
    pub(super) frame_skip: usize,
    pub(super) default_camera_config: CameraConfig,
    /// Width of rendered pictures, in pixels.
    pub(super) width: u32,
    pub(super) height: u32,
    /// Python executable whose package `mujoco` is used, as for `py:` environments.
    pub(super) python: Option<String>,
    /// Number of threads that step the copies, each an equal share.
    pub(super) num_threads: usize,
}

impl Common {
    pub(super) fn new(xml_file: &str, frame_skip: usize) -> Self {
        let xml_file = xml_file.to_owned();
        let default_camera_config = CameraConfig::default();
        Self {
            xml_file,
            frame_skip,
            default_camera_config,
            width: 480,
            height: 480,
            python: None,
            num_threads: 1,
        }
    }
}

/// A lower and an upper bound; `null` in JSON, or `inf` in TOML, means no bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[Option<f64>; 2]", into = "[Option<f64>; 2]")]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

pub(super) const fn range(low: f64, high: f64) -> Range {
    Range { low, high }
}

impl Range {
    /// Whether a number is strictly between the bounds.
    pub(super) fn holds(self, value: f64) -> bool {
        self.low < value && value < self.high
    }

    pub(super) fn clip(self, value: f64) -> f64 {
        super::numpy::clip(value, self.low, self.high)
    }
}

impl From<[Option<f64>; 2]> for Range {
    fn from([low, high]: [Option<f64>; 2]) -> Self {
        range(low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY))
    }
}

impl From<Range> for [Option<f64>; 2] {
    fn from(range: Range) -> Self {
        [range.low, range.high].map(|bound| bound.is_finite().then_some(bound))
    }
}

/// Camera of a picture: MuJoCo's free camera, which looks at a point or follows a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Camera {
    /// Distance from the point that the camera looks at, in metres.
    pub(super) distance: f64,
    /// Angle around the vertical axis, in degrees; at 90 the x axis points to the right.
    pub(super) azimuth: f64,
    /// Angle above the horizon, in degrees; negative when the camera looks down.
    pub(super) elevation: f64,
    /// Height of the point that the camera looks at; `None`: the height of the body, or 0 without one.
    pub(super) height: Option<f64>,
    pub(super) body: Option<usize>,
}

impl Camera {
    /// The point that the camera looks at; `bodies` holds the positions of all bodies, `[bodies, 3]`.
    pub(super) fn target(&self, bodies: &[f64]) -> [f64; 3] {
        let body = self.body.and_then(|body| bodies.get(3 * body..3 * body + 3));
        let [x, y, z] = body.map_or([0.0; 3], |at| [at[0], at[1], at[2]]);
        [x, y, self.height.unwrap_or(z)]
    }
}

/// Overrides of the environment's default camera, by Gymnasium's names.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CameraConfig {
    distance: Option<f64>,
    azimuth: Option<f64>,
    elevation: Option<f64>,
    /// Fixed point that the camera looks at; ignored if a body is followed.
    lookat: Option<[f64; 3]>,
    /// Index of the body to follow; negative: none.
    trackbodyid: Option<i64>,
}

impl CameraConfig {
    /// Applies the overrides to `camera`; returns the camera and the point that it looks at.
    pub(super) fn over(&self, camera: Camera, bodies: &[f64]) -> (Camera, [f64; 3]) {
        let mut camera = Camera {
            distance: self.distance.unwrap_or(camera.distance),
            azimuth: self.azimuth.unwrap_or(camera.azimuth),
            elevation: self.elevation.unwrap_or(camera.elevation),
            ..camera
        };
        match (self.trackbodyid.map(usize::try_from), self.lookat) {
            (Some(Ok(body)), _) => {
                camera.body = Some(body);
                camera.height = None;
            }
            (_, Some(point)) => return (camera, point),
            (Some(Err(_)), None) => camera.body = None,
            (None, None) => {}
        }
        (camera, camera.target(bodies))
    }
}

/// Declares the settings of one environment with Gymnasium's names and defaults:
/// `settings! { /** docs */ Name("model.xml", frame_skip) { setting: type = default } }`.
macro_rules! settings {
    ($(#[$attribute:meta])* $name:ident($xml:literal, $skip:literal) {
        $($(#[$note:meta])* $field:ident: $kind:ty = $default:expr,)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
        pub(super) struct $name {
            $($(#[$note])* $field: $kind,)*
            #[serde(flatten)]
            common: $crate::native::mujoco::settings::Common,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    common: $crate::native::mujoco::settings::Common::new($xml, $skip),
                }
            }
        }
    };
}

pub(super) use settings;
