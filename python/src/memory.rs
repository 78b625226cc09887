//! Rows that environments write and numpy arrays look at.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
    slice,
};

use bytemuck::NoUninit;
use numpy::{
    Element, PyArray, PyArrayDyn, PyArrayMethods,
    ndarray::{ArrayViewD, IxDyn},
};
use pavlov_envs::DType;
use pyo3::prelude::*;

use crate::fault::{Fault, Result};

/// The alignment of every row: a cache line, which is enough for any scalar.
const ALIGN: usize = 64;

/// Zeroed bytes that stay where they are until they are dropped.
///
/// Only the owner writes, while it holds its lock. An array made by [`array`](Self::array) reads the same bytes; Python
/// cannot write through it. A program that reads an array in one thread while another thread steps sees a mix of two
/// steps, as with any numpy array.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Memory {}
// SAFETY: a shared reference gives nothing but the address.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        Self { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)), len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), ALIGN).expect("rows of an environment fit the address space")
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as long as the allocation, initialised, and borrowed as this value is.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn floats(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.bytes())
    }

    pub(crate) fn bools(&mut self) -> &mut [bool] {
        // SAFETY: zeroed at first, and nothing but `bool`s is written here.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len) }
    }

    /// A read-only array over the whole memory, which `owner` keeps alive.
    ///
    /// # Safety
    /// `owner` must own this memory and must not free it before it is dropped itself, and what was written must be valid
    /// for `T`.
    pub(crate) unsafe fn array<'py, T: Element>(
        &self,
        shape: &[usize],
        owner: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        assert_eq!(
            shape.iter().product::<usize>() * size_of::<T>(),
            self.len,
            "the shape must fit the memory"
        );
        // SAFETY: as long as the shape says, aligned for every scalar, and kept by `owner`.
        let array = unsafe {
            let view = ArrayViewD::<T>::from_shape_ptr(IxDyn(shape), self.start.as_ptr().cast());
            PyArray::borrow_from_array(&view, owner)
        };
        array.call_method1("setflags", (false,))?;
        Ok(array.into_any())
    }

    /// As [`array`](Self::array), of scalars of that type.
    ///
    /// # Safety
    /// As there; any bytes are valid for these types.
    pub(crate) unsafe fn array_of<'py>(
        &self,
        dtype: DType,
        shape: &[usize],
        owner: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the caller's promise.
        unsafe {
            match dtype {
                DType::U8 => self.array::<u8>(shape, owner),
                DType::I64 => self.array::<i64>(shape, owner),
                DType::F32 => self.array::<f32>(shape, owner),
                DType::F64 => self.array::<f64>(shape, owner),
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

/// A copy of the scalars of a numpy array, aligned for any of them.
///
/// A copy, because the environment is stepped without the interpreter's lock, when another thread may write to the array.
#[derive(Debug)]
pub(crate) struct Scalars {
    words: Vec<u64>,
    len: usize,
}

impl Scalars {
    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    /// One integer.
    pub(crate) fn integer(value: i64) -> Self {
        Self { words: vec![u64::from_ne_bytes(value.to_ne_bytes())], len: 8 }
    }

    /// Reads a contiguous array of `len` scalars; `what` names it in the message that refuses another.
    pub(crate) fn read(array: &Bound<'_, PyAny>, dtype: DType, len: usize, what: &str) -> Result<Self> {
        match dtype {
            DType::U8 => Self::read_as::<u8>(array, len),
            DType::I64 => Self::read_as::<i64>(array, len),
            DType::F32 => Self::read_as::<f32>(array, len),
            DType::F64 => Self::read_as::<f64>(array, len),
        }
        .ok_or_else(|| Fault::config(format!("{what} must be a contiguous numpy array of {len} {dtype}")))
    }

    fn read_as<T: Element + NoUninit>(array: &Bound<'_, PyAny>, len: usize) -> Option<Self> {
        let array = array.cast::<PyArrayDyn<T>>().ok()?.readonly();
        let scalars = array.as_slice().ok().filter(|scalars| scalars.len() == len)?;
        let bytes: &[u8] = bytemuck::cast_slice(scalars);
        let mut words = vec![0; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Some(Self { words, len: bytes.len() })
    }
}
