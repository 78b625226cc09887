//! Convolutions on the tape, forward and backward, as products of matrices.
//!
//! What the kernel sees at one pixel of the output, its patch, is a column of `channels * kernel height * kernel width`
//! numbers for each row of the batch. The patches of some pixels are copied side by side, as if they were more rows, and
//! then a convolution is the product of the weights with them: the kernels of linear layers compute it and its gradients.

use crate::engines::buffer::Buffer;
use crate::engines::conv_place::ConvPlace;
use crate::engines::tape::{Made, Node, Tape};
use crate::kernels;
use crate::kernels::{LANES, Left};
use crate::layers::Activation;
use std::ops::Range;

/// Number of scalars of the patches that are copied at once: half of a small second-level cache.
const ROOM: usize = 1 << 16;

/// Largest number of rows of the patches that are copied at once.
const MAX_ROWS: usize = 512;

/// Some pixels of the output whose patches lie side by side.
#[derive(Clone, Debug)]
struct Group {
    /// Indices of the pixels, row by row.
    pixels: Range<usize>,
    /// Rows of the batch, in whole blocks; they are the rows of one pixel.
    lanes: usize,
}

impl Group {
    /// Number of rows of all patches together.
    fn rows(&self) -> usize {
        self.pixels.len() * self.lanes
    }

    /// Distance between the features of the patches in memory.
    fn stride(&self) -> usize {
        kernels::stride(self.rows())
    }
}

/// Cuts the pixels of the output into groups.
fn groups(place: ConvPlace, rows: usize) -> impl Iterator<Item = Group> {
    let lanes = rows.next_multiple_of(LANES);
    let pixels = place.pixels();
    let most = (ROOM / place.patch()).min(MAX_ROWS) / lanes;
    let most = most.max(1);
    (0..pixels).step_by(most).map(move |first| Group { pixels: first..pixels.min(first + most), lanes })
}

impl Tape {
    /// Adds a node with the output of a convolution and its activation, computed with the parameters `flat`.
    pub(crate) fn convolution(&self, place: ConvPlace, flat: &[f32]) -> usize {
        let n = self.stride;
        let channels = place.out[0];
        let pixels = place.pixels();
        let mut out = self.buffer(channels * pixels);
        {
            let x = self.data(place.from);
            assert_eq!(x.len(), place.input.iter().product::<usize>() * n, "columns of the image");
            for group in groups(place, self.rows) {
                let patches = self.patches(place, &x, &group);
                let mut y = self.spare.take(channels * group.stride());
                let left = Left::Weight(&flat[place.weights()], &flat[place.biases()]);
                if place.activation == Activation::Relu {
                    kernels::product_relu(self.arch, left, &patches, &mut y, group.rows());
                } else {
                    kernels::product(self.arch, left, &patches, &mut y, group.rows());
                }
                for (channel, y) in y.chunks_exact(group.stride()).enumerate() {
                    for (pixel, y) in group.pixels.clone().zip(y.chunks_exact(group.lanes)) {
                        out[(channel * pixels + pixel) * n..][..group.lanes].copy_from_slice(y);
                    }
                }
                let spare = &self.spare;
                spare.put(patches);
                spare.put(y);
            }
        }
        self.layers().activate(place.activation, &mut out);
        let wants = place.learns || self.wants(place.from);
        self.push(Made::Conv(place), channels * pixels, out, wants)
    }

    /// Copies the patches of a group, `[patch][rows of all pixels]`. Beyond the border of the image are zeros.
    fn patches(&self, place: ConvPlace, x: &[f32], group: &Group) -> Buffer {
        let n = self.stride;
        let mut patches = self.spare.take(place.patch() * group.stride());
        for (at, to) in patches.chunks_exact_mut(group.stride()).enumerate() {
            let columns = place.seen(at, group.pixels.clone());
            for (column, to) in columns.zip(to.chunks_exact_mut(group.lanes)) {
                match column {
                    Some(column) => to.copy_from_slice(&x[column * n..][..group.lanes]),
                    None => to.fill(0.0),
                }
            }
        }
        patches
    }

    /// Adds the gradients of weights, biases and input of [`convolution`](Self::convolution).
    pub(crate) fn through_convolution(
        &self,
        place: ConvPlace,
        nodes: &mut [Node],
        node: &mut Node,
        flat: &[f32],
        grads: &mut [f32],
    ) {
        let n = self.stride;
        let channels = place.out[0];
        let pixels = place.pixels();
        self.layers().through_activation(place.activation, &mut node.grad, &node.data);
        let g = std::mem::take(&mut node.grad);
        let x = std::mem::take(&mut nodes[place.from].data);
        for group in groups(place, self.rows) {
            let mut dy = self.spare.take(channels * group.stride());
            for (channel, dy) in dy.chunks_exact_mut(group.stride()).enumerate() {
                for (pixel, dy) in group.pixels.clone().zip(dy.chunks_exact_mut(group.lanes)) {
                    dy.copy_from_slice(&g[(channel * pixels + pixel) * n..][..group.lanes]);
                }
            }
            if place.learns {
                let patches = self.patches(place, &x, &group);
                let (dw, db) = grads[place.weight..place.biases().end].split_at_mut(place.weights().len());
                let room = kernels::outer_room(group.rows(), place.patch(), channels);
                let mut room = self.spare.take(room);
                kernels::outer(self.arch, &dy, &patches, dw, db, group.rows(), &mut room);
                let spare = &self.spare;
                spare.put(patches);
                spare.put(room);
            }
            if let Some(to) = self.summed_grad_of(nodes, place.from) {
                let mut dx = self.spare.take(place.patch() * group.stride());
                let room = kernels::panels_room(place.patch(), channels);
                let mut room = self.spare.take(room);
                let (weight, panel) = kernels::panels(&flat[place.weights()], place.patch(), &mut room);
                let left = Left::Transposed { weight, columns: place.patch(), panel, add: false };
                kernels::product(self.arch, left, &dy, &mut dx, group.rows());
                for (at, dx) in dx.chunks_exact(group.stride()).enumerate() {
                    let columns = place.seen(at, group.pixels.clone());
                    for (column, dx) in columns.zip(dx.chunks_exact(group.lanes)) {
                        if let Some(column) = column {
                            let to = &mut to[column * n..][..group.lanes];
                            to.iter_mut().zip(dx).for_each(|(to, &dx)| *to += dx);
                        }
                    }
                }
                let spare = &self.spare;
                spare.put(dx);
                spare.put(room);
            }
            self.spare.put(dy);
        }
        nodes[place.from].data = x;
        self.spare.put(g);
    }
}
