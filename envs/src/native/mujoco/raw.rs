//! Owner of a MuJoCo batch (`mjb_*`) with one thread, with look-ups by name.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ops::Range,
};

use super::library::{self, BatchConfig, BatchPointer, Library, Model};

const OBJECT_BODY: c_int = 1;

/// A MuJoCo batch with one thread.
pub(super) struct Raw {
    pub(super) library: &'static Library,
    pub(super) pointer: BatchPointer,
}

#[allow(unsafe_code)]
impl Raw {
    /// Makes a batch of `num_envs` simulations. It copies the model.
    ///
    /// # Safety
    /// `model` must be a model of `library`.
    pub(super) unsafe fn new(
        library: &'static Library,
        model: Model,
        num_envs: usize,
    ) -> Result<Self, String> {
        let count = c_int::try_from(num_envs).map_err(|_| format!("{num_envs} copies are too many"))?;
        let config = BatchConfig { threads: 1, persistent: false };
        let mut error = [0; 1000];
        // SAFETY: the model is whole, and the buffer has the length given to MuJoCo, 1000.
        let pointer =
            unsafe { (library.functions.make_batch)(model, count, &config, error.as_mut_ptr(), 1000) };
        if pointer.is_null() {
            // SAFETY: MuJoCo ends what it writes with a zero; so does the buffer.
            return Err(unsafe { library::text(error.as_ptr()) });
        }
        Ok(Self { library, pointer })
    }

    /// Makes a batch of one simulation of the same model, for look-ups and rendering.
    pub(super) fn probe(&self) -> Result<Self, String> {
        // SAFETY: the model belongs to this batch, which lives longer than the call.
        unsafe { Self::new(self.library, (self.library.functions.batch_model)(self.pointer), 1) }
    }

    /// A constant of the model, by name. Use it on probes: the batch stores the array per simulation afterwards.
    pub(super) fn constant<T: bytemuck::AnyBitPattern>(&self, name: &CStr) -> Result<Vec<T>, String> {
        self.array(name, self.library.functions.expand)
    }

    /// A computed array, by name, with the values of the last `mjb_forward`.
    pub(super) fn output<T: bytemuck::AnyBitPattern>(&self, name: &CStr) -> Result<Vec<T>, String> {
        self.array(name, self.library.functions.output)
    }

    pub(super) fn array<T: bytemuck::AnyBitPattern>(
        &self,
        name: &CStr,
        get: unsafe extern "C-unwind" fn(BatchPointer, *const c_char, *mut c_int, *mut c_int) -> *mut c_void,
    ) -> Result<Vec<T>, String> {
        let mut len = 0;
        let mut size = 0;
        // SAFETY: the batch lives, and the name ends with a zero.
        let array = unsafe { get(self.pointer, name.as_ptr(), &mut len, &mut size) }.cast::<T>();
        if array.is_null() || size as usize != size_of::<T>() || !array.is_aligned() {
            return Err(format!("it has no array {name:?} of {} bytes each", size_of::<T>()));
        }
        // SAFETY: MuJoCo reports `len` elements of this size at `array`; any bits are a `T`.
        Ok(unsafe { std::slice::from_raw_parts(array, len as usize) }.to_vec())
    }

    /// Range of a component in a row of state; empty if the model lacks that component.
    pub(super) fn component(&self, component: c_int) -> Range<usize> {
        let mut len = 0;
        let functions = &self.library.functions;
        // SAFETY: the batch lives; both pointers lie in its first row of state.
        let start = unsafe {
            let first = (functions.state_rows)(self.pointer);
            let place = (functions.state_component)(self.pointer, component, &mut len);
            if place.is_null() || len <= 0 {
                return 0..0;
            }
            place.offset_from(first)
        };
        start as usize..start as usize + len as usize
    }

    pub(super) fn body(&self, name: &str) -> Result<usize, String> {
        let c_name = CString::new(name).map_err(|_| format!("{name:?} is no name of a body"))?;
        let functions = &self.library.functions;
        // SAFETY: the model belongs to the batch, and the name ends with a zero.
        let id = unsafe {
            (functions.name2id)((functions.batch_model)(self.pointer), OBJECT_BODY, c_name.as_ptr())
        };
        usize::try_from(id).map_err(|_| format!("the model has no body {name:?}"))
    }
}

#[allow(unsafe_code)]
impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the batch was made once and is not used any more.
        unsafe { (self.library.functions.delete_batch)(self.pointer) }
    }
}
