//! Offsets of arrays in MuJoCo's `mjData`, for each known version of libmujoco.
//!
//! MuJoCo promises no binary interface from one version to the next, and has no function that gives these arrays by name
//! during a step. The numbers are `offsetof(mjData, field)` in the headers of each version.

/// An array of `mjData` that a task reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Positions of the bodies' frames, `[bodies, 3]`.
    Xpos,
    /// Positions of the bodies' centres of mass, `[bodies, 3]`.
    Xipos,
    /// Positions of sites, `[sites, 3]`.
    SiteXpos,
    /// Inertia and mass of the bodies about the centre of mass, `[bodies, 10]`.
    Cinert,
    /// Velocities of the bodies about the centre of mass, `[bodies, 6]`.
    Cvel,
    /// Forces of the actuators, `[degrees of freedom]`.
    QfrcActuator,
    /// Forces of the constraints, `[degrees of freedom]`.
    QfrcConstraint,
    /// External forces on the bodies, `[bodies, 6]`.
    CfrcExt,
}

/// Number of variants of [`Field`].
pub(super) const FIELDS: usize = 8;

impl Field {
    /// Name of the array in MuJoCo.
    pub(super) fn name(self) -> &'static std::ffi::CStr {
        [
            c"xpos",
            c"xipos",
            c"site_xpos",
            c"cinert",
            c"cvel",
            c"qfrc_actuator",
            c"qfrc_constraint",
            c"cfrc_ext",
        ][self as usize]
    }
}

/// Offsets of one MuJoCo version.
#[derive(Debug)]
pub(super) struct Layout {
    /// Version number that `mj_version` returns.
    pub(super) number: i32,
    pub(super) version: &'static str,
    /// Offset of `qpos` in bytes, used by the self-check of every batch.
    pub(super) qpos: usize,
    /// Offsets of the arrays in bytes, in the order of [`Field`].
    pub(super) fields: [usize; FIELDS],
}

/// The known versions, newest last.
pub(super) static LAYOUTS: [Layout; 2] = [
    Layout {
        number: 3_017_000,
        version: "3.17.0",
        qpos: 160_688,
        fields: [160_840, 160_864, 160_912, 160_976, 161_280, 161_408, 161_432, 161_464],
    },
    Layout {
        number: 4_000_000,
        version: "4.0.0",
        qpos: 160_688,
        fields: [160_848, 160_872, 160_936, 161_008, 161_296, 161_424, 161_448, 161_480],
    },
];

/// The known versions for messages: "3.17.0 or 4.0.0".
pub(super) fn known_versions() -> String {
    LAYOUTS.each_ref().map(|layout| layout.version).join(" or ")
}
