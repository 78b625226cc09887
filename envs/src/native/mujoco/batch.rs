//! Simulations of one model that share one `mjData`: a safe wrapper around MuJoCo's batches (`mjb_*`).
//!
//! A batch keeps a row of state per simulation and loads it into the `mjData` while [`Batch::step`] or [`Batch::start`]
//! works on it. Other arrays that a task reads are copied out before the next simulation is loaded. `mjb_apply` catches
//! errors of the engine, which leave the callback by `longjmp`, so the callbacks hold nothing that would have to be dropped.
//! Functions called here outside of `mjb_apply` report their errors by themselves.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    ops::Range,
    ptr,
};

use super::{
    layout::{FIELDS, Field},
    library::{self, Data, Functions, Library, Model, WarningStat},
    raw::Raw,
    shapes::Shapes,
    sim::{Facts, Sim},
};

const STATE_QPOS: c_int = 1 << 1;
const STATE_QVEL: c_int = 1 << 2;
const STATE_CTRL: c_int = 1 << 6;
/// Number of warning counters per simulation. Those in `DIVERGED` count bad positions, velocities and accelerations.
const WARNINGS: usize = 7;
const DIVERGED: Range<usize> = 3..6;

/// Where a model comes from: XML text or the path of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Text(&'a CStr),
    File(&'a str),
}

/// Index of a simulation that failed, and MuJoCo's message.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) sim: usize,
    pub(super) message: String,
}

/// Simulations of one model that share one `mjData`.
pub(super) struct Batch {
    raw: Raw,
    num_envs: usize,
    pub(super) facts: Facts,
    /// Rows of state, `[num_envs, state_width]`, in memory of MuJoCo.
    states: *mut f64,
    state_width: usize,
    qpos: Range<usize>,
    qvel: Range<usize>,
    ctrl: Range<usize>,
    /// Arrays copied out after every step, `[num_envs, field_width]`.
    fields: Vec<f64>,
    field_width: usize,
    copies: Vec<CopyOut>,
}

/// An array of `mjData`: the offset of its pointer in bytes, its length, and where it begins in a row of `Batch::fields`.
#[derive(Clone, Copy, Debug)]
struct CopyOut {
    offset: usize,
    len: usize,
    place: usize,
}

/// Arguments of the callbacks `advance` and `begin`.
struct Job<'a> {
    functions: &'a Functions,
    frame_skip: usize,
    /// Positions, then velocities, of the start of an episode.
    start: *const f64,
    fields: *mut f64,
    field_width: usize,
    copies: *const CopyOut,
    num_copies: usize,
}

// SAFETY: a batch of one thread runs in the thread that calls it and keeps nothing of that thread; `&mut self` keeps two
// threads from calling at once, and methods with `&self` only read memory that no one writes meanwhile.
#[allow(unsafe_code)]
unsafe impl Send for Batch {}

#[allow(unsafe_code)]
impl Batch {
    /// Makes `num_envs` simulations of a model. After every step the arrays `fields` of each are copied out; `bodies` are
    /// looked up by name.
    pub(super) fn new(
        library: &'static Library,
        source: Source<'_>,
        num_envs: usize,
        fields: &[Field],
        bodies: &[String],
    ) -> Result<Self, String> {
        let model = compile(library, source)?;
        // SAFETY: the model is of this library; the batch has its own copy of it, so it can go.
        let raw = unsafe {
            let raw = Raw::new(library, model, num_envs);
            (library.functions.delete_model)(model);
            raw?
        };
        let probe = raw.probe()?;
        let mut places = [const { 0..0 }; FIELDS];
        let mut copies = vec![];
        let mut field_width = 0;
        for &field in fields {
            let len = probe.output::<f64>(field.name())?.len();
            let offset = library.layout.fields[field as usize];
            copies.push(CopyOut { offset, len, place: field_width });
            places[field as usize] = field_width..field_width + len;
            field_width += len;
        }
        let timestep = probe.constant(c"opt.timestep")?;
        let facts = Facts {
            timestep: *timestep.first().ok_or("it has no timestep")?,
            body_mass: probe.constant(c"body_mass")?,
            ctrl_range: if raw.component(STATE_CTRL).is_empty() {
                vec![]
            } else {
                probe.constant(c"actuator_ctrlrange")?
            },
            init_qpos: probe.constant(c"qpos0")?,
            init_qvel: vec![0.0; raw.component(STATE_QVEL).len()],
            bodies: bodies.iter().map(|name| raw.body(name)).collect::<Result<_, _>>()?,
            places,
        };
        // SAFETY: the batch lives.
        let (states, state_width) = unsafe {
            ((library.functions.state_rows)(raw.pointer), (library.functions.state_size)(raw.pointer))
        };
        let batch = Self {
            num_envs,
            facts,
            states,
            state_width: state_width as usize,
            qpos: raw.component(STATE_QPOS),
            qvel: raw.component(STATE_QVEL),
            ctrl: raw.component(STATE_CTRL),
            fields: vec![0.0; num_envs * field_width],
            field_width,
            copies,
            raw,
        };
        batch.check_layout()?;
        Ok(batch)
    }

    /// Checks the table of offsets: the positions read at the table's offset must be those that MuJoCo returns.
    fn check_layout(&self) -> Result<(), String> {
        struct Check<'a> {
            library: &'a Library,
            asked: *mut f64,
            read: *mut f64,
            len: usize,
        }
        unsafe extern "C-unwind" fn check(model: Model, data: Data, _: c_int, check: *mut c_void) {
            // SAFETY: `check` points to the struct `Check`. The offset is that of a pointer to `len` numbers in this
            // version.
            unsafe {
                let check = &*check.cast::<Check<'_>>();
                (check.library.functions.get_state)(model, data, check.asked, STATE_QPOS);
                let positions = *data.byte_add(check.library.layout.qpos).cast::<*const f64>();
                ptr::copy_nonoverlapping(positions, check.read, check.len);
            }
        }
        let mut asked = vec![f64::NAN; self.qpos.len()];
        let mut read = vec![0.0; self.qpos.len()];
        let library = self.raw.library;
        let mut job =
            Check { library, asked: asked.as_mut_ptr(), read: read.as_mut_ptr(), len: self.qpos.len() };
        // SAFETY: `job` lives during the call, and its buffers are as long as the positions.
        let failed =
            unsafe { (library.functions.apply)(self.raw.pointer, &0, 1, check, (&raw mut job).cast(), 0) };
        if failed != 0 || asked != read {
            return Err(format!(
                "{library:?} does not lie in memory as MuJoCo {} does",
                library.layout.version
            ));
        }
        Ok(())
    }

    /// The whole state of one simulation, `[state_width]`.
    pub(super) fn state(&self, sim: usize) -> &[f64] {
        assert!(sim < self.num_envs, "no simulation {sim} of {}", self.num_envs);
        // SAFETY: MuJoCo holds `num_envs` rows of this width as long as the batch lives, and writes them in calls with `&mut
        // self` only.
        unsafe { std::slice::from_raw_parts(self.states.add(sim * self.state_width), self.state_width) }
    }

    /// The whole state of one simulation, `[state_width]`, to be written.
    pub(super) fn state_mut(&mut self, sim: usize) -> &mut [f64] {
        assert!(sim < self.num_envs, "no simulation {sim} of {}", self.num_envs);
        // SAFETY: as in `state`; `&mut self` lets no one else read it.
        unsafe { std::slice::from_raw_parts_mut(self.states.add(sim * self.state_width), self.state_width) }
    }

    /// The controls of one simulation, which its next steps use.
    pub(super) fn ctrl_mut(&mut self, sim: usize) -> &mut [f64] {
        let ctrl = self.ctrl.clone();
        &mut self.state_mut(sim)[ctrl]
    }

    /// The view of one simulation that a task reads.
    pub(super) fn sim(&self, sim: usize) -> Sim<'_> {
        let state = self.state(sim);
        Sim {
            facts: &self.facts,
            qpos: &state[self.qpos.clone()],
            qvel: &state[self.qvel.clone()],
            ctrl: &state[self.ctrl.clone()],
            fields: &self.fields[sim * self.field_width..][..self.field_width],
        }
    }

    /// Advances all simulations by `frame_skip` steps of MuJoCo each. Fails if one of them diverged.
    pub(super) fn step(&mut self, frame_skip: usize) -> Result<(), Failure> {
        self.apply(None, advance, frame_skip, &[])?;
        // SAFETY: the batch owns `num_envs * WARNINGS` counters.
        let warnings = unsafe {
            let first = (self.raw.library.functions.warnings)(self.raw.pointer);
            std::slice::from_raw_parts::<WarningStat>(first, self.num_envs * WARNINGS)
        };
        let diverged = |row: &[WarningStat]| row[DIVERGED].iter().any(|warning| warning.number != 0);
        match warnings.chunks_exact(WARNINGS).position(diverged) {
            None => Ok(()),
            Some(sim) => Err(Failure {
                sim,
                message: "the simulation diverged: a position, a velocity or an acceleration became infinite, huge \
                          or NaN; give smaller actions (`ClipAction`), or a smaller timestep in the model"
                    .into(),
            }),
        }
    }

    /// Resets one simulation, with these positions and velocities.
    pub(super) fn start(&mut self, sim: usize, positions_and_velocities: &[f64]) -> Result<(), Failure> {
        assert_eq!(positions_and_velocities.len(), self.qpos.len() + self.qvel.len(), "numbers of a state");
        self.apply(Some(sim), begin, 0, positions_and_velocities)
    }

    fn apply(
        &mut self,
        sim: Option<usize>,
        callback: library::Apply,
        frame_skip: usize,
        start: &[f64],
    ) -> Result<(), Failure> {
        let functions = &self.raw.library.functions;
        let mut job = Job {
            functions,
            frame_skip,
            start: start.as_ptr(),
            fields: self.fields.as_mut_ptr(),
            field_width: self.field_width,
            copies: self.copies.as_ptr(),
            num_copies: self.copies.len(),
        };
        let id = sim.map_or(0, |sim| sim as c_int);
        let (ids, count) =
            if sim.is_some() { (&raw const id, 1) } else { (ptr::null(), self.num_envs as c_int) };
        // SAFETY: `job` and what it points to live during the call; no one else uses the batch (`&mut self`).
        let failed =
            unsafe { (functions.apply)(self.raw.pointer, ids, count, callback, (&raw mut job).cast(), 1) };
        if failed == 0 {
            return Ok(());
        }
        // SAFETY: MuJoCo keeps one status per simulation, and the message ends with a zero.
        unsafe {
            let status = std::slice::from_raw_parts((functions.status)(self.raw.pointer), self.num_envs);
            let sim = status.iter().position(|&status| status != 0).unwrap_or(0);
            let message = library::text((functions.error)(self.raw.pointer, sim as c_int));
            Err(Failure { sim, message: format!("MuJoCo: {message}") })
        }
    }

    /// The shapes of the model, for rendering.
    pub(super) fn shapes(&self) -> Result<Shapes, String> {
        Shapes::new(self.raw.probe()?, &self.raw.probe()?)
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("num_envs", &self.num_envs)
            .field("library", self.raw.library)
            .finish_non_exhaustive()
    }
}

/// Compiles a model from MuJoCo's XML.
#[allow(unsafe_code)]
fn compile(library: &Library, source: Source<'_>) -> Result<Model, String> {
    let functions = &library.functions;
    let mut error = [0; 1000];
    // SAFETY: the texts end with a zero, and the buffer has the length given to MuJoCo, 1000.
    let spec = unsafe {
        match source {
            Source::Text(xml) => {
                (functions.parse_xml_string)(xml.as_ptr(), ptr::null(), error.as_mut_ptr(), 1000)
            }
            Source::File(path) => {
                let path = CString::new(path).map_err(|_| format!("{path:?} is no path"))?;
                (functions.parse_xml)(path.as_ptr(), ptr::null(), error.as_mut_ptr(), 1000)
            }
        }
    };
    if spec.is_null() {
        // SAFETY: MuJoCo ends what it writes with a zero; so does the buffer.
        return Err(unsafe { library::text(error.as_ptr()) });
    }
    // SAFETY: the spec was made above and is deleted once, after its last use.
    unsafe {
        let model = (functions.compile)(spec, ptr::null());
        let problem =
            if model.is_null() { library::text((functions.spec_error)(spec)) } else { String::new() };
        (functions.delete_spec)(spec);
        if model.is_null() { Err(problem) } else { Ok(model) }
    }
}

/// Callback for a step of a task: steps MuJoCo `frame_skip` times, then computes the forces on bodies, which `mj_step`
/// leaves out.
#[allow(unsafe_code)]
unsafe extern "C-unwind" fn advance(model: Model, data: Data, sim: c_int, job: *mut c_void) {
    // SAFETY: `mjb_apply` hands over a model and its data, and `job` is what `Batch::apply` gave it. Nothing here has to
    // be dropped when the engine leaves it by `longjmp`.
    unsafe {
        let job = &*job.cast::<Job<'_>>();
        for _ in 0..job.frame_skip {
            (job.functions.step)(model, data);
        }
        (job.functions.rne_post_constraint)(model, data);
        copy_out(data, sim, job);
    }
}

/// Callback for the start of an episode. It resets the `mjData` first, because it would otherwise keep fields of another
/// simulation that no later call writes.
#[allow(unsafe_code)]
unsafe extern "C-unwind" fn begin(model: Model, data: Data, sim: c_int, job: *mut c_void) {
    // SAFETY: as in `advance`; `start` holds the positions and velocities of the model.
    unsafe {
        let job = &*job.cast::<Job<'_>>();
        (job.functions.reset_data)(model, data);
        (job.functions.set_state)(model, data, job.start, STATE_QPOS | STATE_QVEL);
        (job.functions.forward)(model, data);
        copy_out(data, sim, job);
    }
}

/// Copies the arrays of `job.copies` from `data` into the row of simulation `sim`.
///
/// # Safety
/// `data` must be of the MuJoCo version whose offsets are in `job`, and `job.fields` must have a row for `sim`.
#[allow(unsafe_code)]
unsafe fn copy_out(data: Data, sim: c_int, job: &Job<'_>) {
    // SAFETY: each offset is that of a pointer to `len` numbers, which do not overlap the row.
    unsafe {
        let row = job.fields.add(sim as usize * job.field_width);
        for i in 0..job.num_copies {
            let CopyOut { offset, len, place } = *job.copies.add(i);
            let array = *data.byte_add(offset).cast::<*const f64>();
            ptr::copy_nonoverlapping(array, row.add(place), len);
        }
    }
}
