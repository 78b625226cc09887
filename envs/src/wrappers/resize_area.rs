//! Shrinking of pictures, where each pixel is the mean of the area that it covers (OpenCV's `INTER_AREA`).

/// Shrinks pictures of one size to another; holds the weights and buffers.
#[derive(Clone, Debug)]
pub(super) struct ResizeArea {
    from: [usize; 2],
    to: [usize; 2],
    channels: usize,
    rows: Vec<Share>,
    columns: Vec<Share>,
    /// Buffer for one source row, shrunk along the row.
    line: Vec<f32>,
    /// Buffer for one row of the result.
    sums: Vec<f32>,
}

/// The weight of source pixel `from` in target pixel `to`, in one dimension.
#[derive(Clone, Copy, Debug)]
struct Share {
    to: usize,
    from: usize,
    weight: f32,
}

impl ResizeArea {
    /// Prepares for pictures of size `from` and results of size `to`, both `[height, width]`; `to` must be at most `from`.
    pub(super) fn new(from: [usize; 2], to: [usize; 2], channels: usize) -> Self {
        Self {
            from,
            to,
            channels,
            rows: shares(from[0], to[0]),
            columns: shares(from[1], to[1]),
            line: vec![0.0; to[1] * channels],
            sums: vec![0.0; to[1] * channels],
        }
    }

    /// Calls `write` with the index and value of every byte of the smaller picture.
    pub(super) fn resize(&mut self, picture: &[u8], mut write: impl FnMut(usize, u8)) {
        if self.from == self.to {
            picture.iter().enumerate().for_each(|(i, &byte)| write(i, byte));
            return;
        }
        if self.from[0].is_multiple_of(self.to[0]) && self.from[1].is_multiple_of(self.to[1]) {
            return self.whole(picture, write);
        }
        let Self { from, channels, rows, columns, line, sums, .. } = self;
        let source_row = from[1] * *channels;
        for (i, share) in rows.iter().enumerate() {
            line.fill(0.0);
            let pixels = &picture[share.from * source_row..][..source_row];
            for column in columns.iter() {
                for c in 0..*channels {
                    line[column.to * *channels + c] +=
                        f32::from(pixels[column.from * *channels + c]) * column.weight;
                }
            }
            let first = i == 0 || rows[i - 1].to != share.to;
            for (sum, x) in sums.iter_mut().zip(line.iter()) {
                let part = share.weight * x;
                *sum = if first { part } else { *sum + part };
            }
            if rows.get(i + 1).is_none_or(|next| next.to != share.to) {
                let start = share.to * sums.len();
                sums.iter().enumerate().for_each(|(j, &sum)| write(start + j, byte(sum)));
            }
        }
    }

    /// Shrinks by whole factors: every target pixel covers the same number of source pixels, so their sum is exact.
    fn whole(&self, picture: &[u8], mut write: impl FnMut(usize, u8)) {
        let Self { from, to, channels, .. } = self;
        let high = from[0] / to[0];
        let wide = from[1] / to[1];
        let scale = 1.0 / (high * wide) as f32;
        for y in 0..to[0] {
            for x in 0..to[1] {
                for c in 0..*channels {
                    let pixel = |dy, dx| picture[((y * high + dy) * from[1] + x * wide + dx) * channels + c];
                    let sum: u32 = (0..high)
                        .flat_map(|dy| (0..wide).map(move |dx| (dy, dx)))
                        .map(|(dy, dx)| u32::from(pixel(dy, dx)))
                        .sum();
                    // OpenCV rounds halves up for areas of 2 x 2, and to even for others.
                    let mean = if (high, wide) == (2, 2) {
                        ((sum + 2) >> 2) as u8
                    } else {
                        byte(sum as f32 * scale)
                    };
                    write((y * to[1] + x) * channels + c, mean);
                }
            }
        }
    }
}

fn byte(x: f32) -> u8 {
    x.round_ties_even() as u8
}

/// The weights of `from` source pixels in `to` target pixels, in the order of both. Slivers below a thousandth of a pixel
/// are ignored.
fn shares(from: usize, to: usize) -> Vec<Share> {
    const SLIVER: f64 = 1e-3;
    let scale = from as f64 / to as f64;
    let mut shares = vec![];
    for i in 0..to {
        let start = i as f64 * scale;
        let end = start + scale;
        let covered = scale.min(from as f64 - start);
        let last = (end.floor() as usize).min(from - 1);
        let first = (start.ceil() as usize).min(last);
        let mut push = |from: usize, part: f64| {
            shares.push(Share { to: i, from, weight: (part / covered) as f32 });
        };
        if first as f64 - start > SLIVER {
            push(first - 1, first as f64 - start);
        }
        (first..last).for_each(|pixel| push(pixel, 1.0));
        if end - last as f64 > SLIVER {
            push(last, (end - last as f64).min(1.0).min(covered));
        }
    }
    shares
}
