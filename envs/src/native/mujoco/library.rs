//! libmujoco, opened at run time: where it is searched, which versions are accepted, and its functions.

use std::{
    collections::BTreeMap,
    env,
    ffi::{CStr, c_char, c_int, c_void},
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::layout::{LAYOUTS, Layout, known_versions};

/// Python program that prints the directory of the package `mujoco` without importing it, which takes a second.
const FIND_MUJOCO: &str = "import importlib.util as u\ns = u.find_spec('mujoco')\n\
                           print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')";

/// Opaque pointers to structs of MuJoCo.
pub(super) type Model = *mut c_void;
pub(super) type Data = *mut c_void;
pub(super) type BatchPointer = *mut c_void;
type Spec = *mut c_void;

/// Type of the callback that `mjb_apply` calls for each simulation.
pub(super) type Apply = unsafe extern "C-unwind" fn(Model, Data, c_int, *mut c_void);

/// MuJoCo's `mjBatchConfig`.
#[repr(C)]
pub(super) struct BatchConfig {
    pub(super) threads: c_int,
    /// Whether each simulation has its own `mjData`, instead of each thread.
    pub(super) persistent: bool,
}

/// MuJoCo's `mjWarningStat`.
#[repr(C)]
pub(super) struct WarningStat {
    _last_info: c_int,
    pub(super) number: c_int,
}

/// The first fields of MuJoCo's `mjLogMessage`.
#[repr(C)]
struct LogMessage {
    level: c_int,
    _topic: c_int,
    subject: [c_char; 1024],
}

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libmujoco that pavlov calls. Errors inside them leave by `longjmp`.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks up every function by its symbol.
            ///
            /// # Safety
            /// `library` must be a libmujoco of a version in the table of layouts, and stay open.
            unsafe fn of(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those in the headers of that version.
                unsafe {
                    Ok(Self {
                        $($name: *library.get::<unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?>($symbol)?,)*
                    })
                }
            }
        }
    };
}

functions! {
    parse_xml = b"mj_parseXML\0" (*const c_char, *const c_void, *mut c_char, c_int) -> Spec;
    parse_xml_string = b"mj_parseXMLString\0" (*const c_char, *const c_void, *mut c_char, c_int) -> Spec;
    compile = b"mj_compile\0" (Spec, *const c_void) -> Model;
    spec_error = b"mjs_getError\0" (Spec) -> *const c_char;
    delete_spec = b"mj_deleteSpec\0" (Spec);
    delete_model = b"mj_deleteModel\0" (Model);
    name2id = b"mj_name2id\0" (Model, c_int, *const c_char) -> c_int;
    reset_data = b"mj_resetData\0" (Model, Data);
    set_state = b"mj_setState\0" (Model, Data, *const f64, c_int);
    get_state = b"mj_getState\0" (Model, Data, *mut f64, c_int);
    forward = b"mj_forward\0" (Model, Data);
    step = b"mj_step\0" (Model, Data);
    rne_post_constraint = b"mj_rnePostConstraint\0" (Model, Data);
    make_batch = b"mjb_makeBatch\0" (Model, c_int, *const BatchConfig, *mut c_char, c_int) -> BatchPointer;
    delete_batch = b"mjb_deleteBatch\0" (BatchPointer);
    batch_model = b"mjb_model\0" (BatchPointer) -> Model;
    state_size = b"mjb_nstate\0" (BatchPointer) -> c_int;
    state_rows = b"mjb_state\0" (BatchPointer) -> *mut f64;
    state_component = b"mjb_stateComponent\0" (BatchPointer, c_int, *mut c_int) -> *mut f64;
    warnings = b"mjb_warning\0" (BatchPointer) -> *const WarningStat;
    apply = b"mjb_apply\0" (BatchPointer, *const c_int, c_int, Apply, *mut c_void, c_int) -> c_int;
    batch_forward = b"mjb_forward\0" (BatchPointer, *const c_int, c_int, c_int) -> c_int;
    status = b"mjb_status\0" (BatchPointer) -> *const c_int;
    error = b"mjb_error\0" (BatchPointer, c_int) -> *const c_char;
    output = b"mjb_output\0" (BatchPointer, *const c_char, *mut c_int, *mut c_int) -> *mut c_void;
    expand = b"mjb_expand\0" (BatchPointer, *const c_char, *mut c_int, *mut c_int) -> *mut c_void;
}

/// An opened libmujoco, which stays open as long as the process lives.
pub(super) struct Library {
    pub(super) functions: Functions,
    pub(super) layout: &'static Layout,
    path: PathBuf,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library")
            .field("version", &self.layout.version)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The libraries opened so far, by their path and by the Python executable that named them.
fn open_libraries() -> MutexGuard<'static, BTreeMap<PathBuf, &'static Library>> {
    static OPEN: Mutex<BTreeMap<PathBuf, &'static Library>> = Mutex::new(BTreeMap::new());
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens libmujoco: that of the Python executable `python` if one is given; else the one in `PAVLOV_MUJOCO`, else that of
/// the active Python, else the one in the cache.
///
/// # Errors
/// A sentence that says why each place failed, and how to install MuJoCo.
pub(super) fn find(python: Option<&str>) -> Result<&'static Library, String> {
    if let Some(python) = python {
        return in_python(python)
            .map_err(|problem| format!("`python` is {python:?}: {problem}; {}", way_out()));
    }
    if let Some(given) = env::var_os("PAVLOV_MUJOCO").filter(|given| !given.is_empty()) {
        let path = PathBuf::from(&given);
        return at(&path).map_err(|problem| {
            format!("PAVLOV_MUJOCO is {}: {problem}; correct it or unset it; {}", path.display(), way_out())
        });
    }
    let python = env::var("PAVLOV_PYTHON").ok().filter(|python| !python.is_empty());
    let python = python.unwrap_or_else(|| "python3".into());
    let in_python = match in_python(&python) {
        Ok(library) => return Ok(library),
        Err(problem) => problem,
    };
    let cache = match in_cache() {
        Ok(library) => return Ok(library),
        Err(problem) => problem,
    };
    Err(format!(
        "MuJoCo was not found: PAVLOV_MUJOCO is not set; the Python {python}: {in_python}; the cache: {cache}; {}",
        way_out()
    ))
}

fn way_out() -> String {
    format!(
        "run `cargo xtask setup --mujoco`, install the Python package mujoco {}, or set PAVLOV_MUJOCO to such a \
         libmujoco or to its directory",
        known_versions()
    )
}

fn in_python(python: &str) -> Result<&'static Library, String> {
    if let Some(library) = open_libraries().get(Path::new(python)) {
        return Ok(library);
    }
    let answer = Command::new(python).args(["-c", FIND_MUJOCO]).output();
    let answer = answer.map_err(|error| format!("it cannot be run ({error})"))?;
    let directory = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if directory.is_empty() {
        return Err("it has no package `mujoco`".into());
    }
    let library = at(Path::new(&directory))?;
    open_libraries().insert(python.into(), library);
    Ok(library)
}

/// Opens libmujoco in `$XDG_CACHE_HOME/pavlov` or `~/.cache/pavlov`, where `cargo xtask setup --mujoco` puts it.
fn in_cache() -> Result<&'static Library, String> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.ok_or("neither XDG_CACHE_HOME nor HOME is an absolute path")?.join("pavlov");
    let directory = |layout: &Layout| cache.join(format!("mujoco-{}", layout.version)).join("mujoco");
    match LAYOUTS.iter().map(directory).find(|directory| directory.exists()) {
        Some(directory) => at(&directory),
        None => Err(format!("{} has no mujoco", cache.display())),
    }
}

/// Opens the libmujoco at `path`, which is the library or a directory that holds it.
fn at(path: &Path) -> Result<&'static Library, String> {
    let file = if path.is_dir() { in_directory(path)? } else { path.to_owned() };
    let file = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
    let mut open = open_libraries();
    if let Some(library) = open.get(&file) {
        return Ok(library);
    }
    let library = load(&file)?;
    tracing::debug!(path = %file.display(), version = library.layout.version, "libmujoco is open");
    open.insert(file, library);
    Ok(library)
}

/// Path of the libmujoco in a directory, such as `libmujoco.so.3.17.0` or `libmujoco.3.17.0.dylib`; known versions first.
fn in_directory(directory: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_library =
        |name: &String| name.starts_with("libmujoco.") && (name.contains(".so") || name.ends_with(".dylib"));
    let known = |name: &String| LAYOUTS.iter().any(|layout| name.contains(layout.version));
    names
        .filter(is_library)
        .max_by_key(|name| (known(name), name.clone()))
        .map(|name| directory.join(name))
        .ok_or_else(|| format!("{} holds no libmujoco", directory.display()))
}

#[allow(unsafe_code)]
fn load(file: &Path) -> Result<&'static Library, String> {
    let broken = |problem: &dyn std::fmt::Display| format!("{} cannot be used: {problem}", file.display());
    check_whole(file).map_err(|problem| broken(&problem))?;
    // SAFETY: the file is whole. Its initialisers run now, as in any program that is linked to it; the user named it or
    // installed it as MuJoCo.
    let library = unsafe { libloading::Library::new(file) }.map_err(|error| broken(&error))?;
    // SAFETY: `mj_version` has had this type since it exists; a library without it is refused.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"mj_version\0") };
    let version = version.map_err(|_| broken(&"it has no function `mj_version`, so it is not libmujoco"))?;
    // SAFETY: `mj_version` has no arguments and returns a number.
    let number = unsafe { version() };
    let Some(layout) = LAYOUTS.iter().find(|layout| layout.number == number) else {
        let found = version_name(number);
        return Err(broken(&format!("it is MuJoCo {found}, but {} is needed", known_versions())));
    };
    // SAFETY: the types are those of this version, which was looked up, and the library is leaked below.
    let functions = unsafe { Functions::of(&library) }.map_err(|error| broken(&error))?;
    // SAFETY: `log` has the type of a handler and can be called from every thread.
    unsafe {
        type Handler = unsafe extern "C" fn(*const LogMessage);
        let set = library.get::<unsafe extern "C" fn(Handler) -> *const c_void>(b"mju_setLogHandler\0");
        set.map_err(|error| broken(&error))?(log);
    }
    std::mem::forget(library);
    Ok(Box::leak(Box::new(Library { functions, layout, path: file.to_owned() })))
}

/// Name of a version: newer libraries encode 3.17.0 as 3,017,000, older ones 3.3.2 as 332.
fn version_name(number: i32) -> String {
    let [major, minor, patch] = if number >= 1_000_000 {
        [number / 1_000_000, number / 1000 % 1000, number % 1000]
    } else {
        [number / 100, number / 10 % 10, number % 10]
    };
    format!("{major}.{minor}.{patch}")
}

/// Checks that a library file is not cut short: the loader would map it all the same, and the process would die when it
/// touches the missing part. The section headers of an ELF file are at its end, and the file header says where.
fn check_whole(file: &Path) -> Result<(), String> {
    let mut header = Vec::new();
    let opened = fs::File::open(file).and_then(|file| {
        (&file).take(64).read_to_end(&mut header)?;
        file.metadata()
    });
    let len = opened.map_err(|error| error.to_string())?.len();
    if !header.is_empty() && !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(());
    }
    let number =
        |at: usize, size: usize| header[at..at + size].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    // Offset, size and number of the ELF section headers.
    let end = if header.len() < 64 {
        64
    } else {
        number(0x28, 8).saturating_add(number(0x3a, 2) * number(0x3c, 2))
    };
    if end > len { Err(format!("it is cut short: {len} bytes of {end}")) } else { Ok(()) }
}

/// Forwards MuJoCo's log to `tracing`; without this handler MuJoCo writes MUJOCO_LOG.TXT in the working directory.
#[allow(unsafe_code)]
unsafe extern "C" fn log(message: *const LogMessage) {
    // SAFETY: MuJoCo hands over a message that lives during the call and whose subject ends with a zero.
    let (level, subject) = unsafe { ((*message).level, text((*message).subject.as_ptr())) };
    match level {
        3 => tracing::error!("MuJoCo: {subject}"),
        // Gymnasium's model of HalfCheetah has a deprecated attribute, which MuJoCo reports at every start.
        2 if !subject.contains("deprecated") => tracing::warn!("MuJoCo: {subject}"),
        _ => tracing::debug!("MuJoCo: {subject}"),
    }
}

/// Copies a C string; empty for a null pointer.
///
/// # Safety
/// `text` must be null, or point to bytes that end with a zero.
#[allow(unsafe_code)]
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by the contract of this function.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
}
