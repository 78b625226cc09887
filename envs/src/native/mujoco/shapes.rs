//! Shapes of a MuJoCo model with their positions and orientations, for rendering.

use std::{ffi::c_int, ptr};

use super::{library, raw::Raw};

/// MuJoCo's `mjSTAGE_POS`: positions are computed, velocities are not.
const STAGE_POSITION: c_int = 1;

/// The shapes of a model, and a simulation that computes their positions and orientations.
pub(super) struct Shapes {
    raw: Raw,
    /// Kind of each shape, a MuJoCo `mjtGeom`.
    pub(super) kinds: Vec<i32>,
    /// Sizes, `[shapes, 3]`.
    pub(super) sizes: Vec<f64>,
    /// Colors as red, green, blue and opacity, `[shapes, 4]`.
    pub(super) colors: Vec<f32>,
}

// SAFETY: as for `Batch`, whose `Send` has the reasons.
#[allow(unsafe_code)]
unsafe impl Send for Shapes {}

/// Positions of the shapes `[shapes, 3]`, rotation matrices of the shapes `[shapes, 9]`, and positions of the bodies
/// `[bodies, 3]`.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) positions: Vec<f64>,
    pub(super) turns: Vec<f64>,
    pub(super) bodies: Vec<f64>,
}

#[allow(unsafe_code)]
impl Shapes {
    /// Reads the shapes of a model. `raw` is kept to compute positions; `questions` is another simulation of the model, for
    /// constants.
    pub(super) fn new(raw: Raw, questions: &Raw) -> Result<Self, String> {
        Ok(Self {
            kinds: questions.constant(c"geom_type")?,
            sizes: questions.constant(c"geom_size")?,
            colors: questions.constant(c"geom_rgba")?,
            raw,
        })
    }

    /// Computes the positions of all shapes and bodies for a row of `Batch::state`.
    pub(super) fn places(&mut self, state: &[f64]) -> Result<Places, String> {
        let functions = &self.raw.library.functions;
        // MuJoCo computes an output only after it was requested once.
        self.read()?;
        // SAFETY: the simulation has a row of state of this width, since it has the same model.
        let failed = unsafe {
            ptr::copy_nonoverlapping(state.as_ptr(), (functions.state_rows)(self.raw.pointer), state.len());
            (functions.batch_forward)(self.raw.pointer, ptr::null(), 1, STAGE_POSITION)
        };
        if failed != 0 {
            // SAFETY: the message belongs to the batch and ends with a zero.
            return Err(unsafe { library::text((functions.error)(self.raw.pointer, 0)) });
        }
        self.read()
    }

    fn read(&self) -> Result<Places, String> {
        let array = |name| self.raw.output(name);
        Ok(Places { positions: array(c"geom_xpos")?, turns: array(c"geom_xmat")?, bodies: array(c"xpos")? })
    }
}

impl std::fmt::Debug for Shapes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shapes").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}
