//! [`CastActions`]: continuous actions for environments that take them in another scalar type than policies give.

use pavlov_envs::{DType, Element};

/// The buffer in which actions of single precision become those of another type. Integers are rounded to the nearest, and
/// bounds hold in the environment's own type: one that is rounded up in single precision is not exceeded.
#[derive(Debug)]
pub(crate) struct CastActions {
    dtype: DType,
    low: Vec<f64>,
    high: Vec<f64>,
    /// Words of eight bytes are aligned for every scalar type.
    words: Vec<u64>,
}

impl CastActions {
    /// Makes a buffer for `n` actions of one space; `None` if no cast is needed.
    pub(crate) fn new(dtype: DType, low: &[f64], high: &[f64], n: usize) -> Option<Self> {
        let words = (n * low.len() * dtype.size()).div_ceil(8);
        let (low, high) = (low.to_vec(), high.to_vec());
        (dtype != DType::F32).then(|| Self { dtype, low, high, words: vec![0; words] })
    }

    /// Casts rows of actions; with `is_bounded` they are clipped to the bounds.
    pub(crate) fn apply(&mut self, actions: &[f32], is_bounded: bool) -> &[u8] {
        match self.dtype {
            DType::U8 => self.cast::<u8>(actions, is_bounded),
            DType::I64 => self.cast::<i64>(actions, is_bounded),
            DType::F32 => self.cast::<f32>(actions, is_bounded),
            DType::F64 => self.cast::<f64>(actions, is_bounded),
        }
    }

    fn cast<T: Element>(&mut self, actions: &[f32], is_bounded: bool) -> &[u8] {
        let Self { dtype, low, high, words } = self;
        let is_integer = matches!(dtype, DType::U8 | DType::I64);
        let out: &mut [T] = &mut bytemuck::cast_slice_mut(words)[..actions.len()];
        let bounds = low.iter().zip(high.iter()).cycle();
        for ((out, &action), (&low, &high)) in out.iter_mut().zip(actions).zip(bounds) {
            let action = if is_integer { f64::from(action).round() } else { f64::from(action) };
            *out = T::from_f64(if is_bounded { action.clamp(low, high) } else { action });
        }
        bytemuck::cast_slice(out)
    }
}

/// Reads actions of a type as those of single precision.
pub(crate) fn as_f32(dtype: DType, actions: &[u8]) -> Vec<f32> {
    fn read<T: Element>(actions: &[u8]) -> Vec<f32> {
        let scalars = actions.chunks_exact(size_of::<T>());
        scalars.map(|scalar| bytemuck::pod_read_unaligned::<T>(scalar).to_f64() as f32).collect()
    }
    match dtype {
        DType::U8 => read::<u8>(actions),
        DType::I64 => read::<i64>(actions),
        DType::F32 => read::<f32>(actions),
        DType::F64 => read::<f64>(actions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_double_precision_is_not_exceeded_by_rounding_it() {
        // 0.1 in single precision is above 0.1.
        let mut cast = CastActions::new(DType::F64, &[-0.1], &[0.1], 2).expect("a cast");
        let actions = [0.1_f32, -0.1];
        assert!(f64::from(actions[0]) > 0.1);
        let found: &[f64] = bytemuck::cast_slice(cast.apply(&actions, true));
        assert_eq!(found, [0.1, -0.1]);
        let kept: &[f64] = bytemuck::cast_slice(cast.apply(&[7.0, -7.0], false));
        assert_eq!(kept, [7.0, -7.0]);
    }

    #[test]
    fn integers_are_rounded_to_the_nearest_within_the_bounds() {
        let mut cast = CastActions::new(DType::I64, &[-5.0, 0.0], &[5.0, 9.0], 2).expect("a cast");
        let found: &[i64] = bytemuck::cast_slice(cast.apply(&[-4.6, 8.99999, 5.4, 0.4], true));
        assert_eq!(found, [-5, 9, 5, 0]);
        let mut bytes = CastActions::new(DType::U8, &[0.0; 3], &[255.0; 3], 1).expect("a cast");
        assert_eq!(bytes.apply(&[254.7, 0.2, 300.0], true), [255, 0, 255]);
        assert!(CastActions::new(DType::F32, &[0.0], &[1.0], 1).is_none());
    }
}
