//! A recorded episode as one picture: its frames side by side, with a palette, as PNG.

use std::collections::HashMap;

use super::text::{count, escape, number};
use pavlov_envs::Frame;

/// Most frames of a recording; they are kept in memory until the picture is made.
pub const MAX_FRAMES: usize = 250;
/// Largest width of a frame; larger ones are made smaller.
const WIDEST: usize = 240;
/// Frames in a row of the picture.
const COLUMNS: usize = 16;

/// A recorded episode.
#[derive(Debug)]
pub struct Episode {
    png: Vec<u8>,
    frames: usize,
    width: usize,
    height: usize,
    /// Milliseconds from one frame to the next.
    pause: u32,
    says: String,
}

/// Makes the picture of an episode of so many steps with this return; `frames` are its first ones.
///
/// # Errors
/// Fails if the frames are not pictures of one size.
pub fn record(frames: &[Frame], fps: Option<f64>, steps: u64, total: f64) -> Result<Episode, String> {
    let first = frames.first().ok_or("the environment draws no pictures")?;
    let (width, height) = (first.width, first.height);
    let fits = |f: &Frame| f.width == width && f.height == height && f.rgb.len() == width * height * 3;
    if width == 0 || height == 0 || !frames.iter().all(fits) {
        return Err("the pictures of the environment differ in size".into());
    }
    let by = width.div_ceil(WIDEST).max(1);
    let (width, height) = ((width / by).max(1), (height / by).max(1));
    let small: Vec<Vec<[u8; 3]>> = frames.iter().map(|frame| shrunk(frame, by, width, height)).collect();
    let (palette, indices) = palette(&small);
    let rows = small.len().div_ceil(COLUMNS);
    let columns = small.len().min(COLUMNS);
    let mut sheet = vec![0u8; columns * width * rows * height];
    for (i, pixels) in small.iter().enumerate() {
        let (left, top) = (i % COLUMNS * width, i / COLUMNS * height);
        for (y, line) in pixels.chunks(width).enumerate() {
            let at = (top + y) * columns * width + left;
            for (x, pixel) in line.iter().enumerate() {
                sheet[at + x] = indices.get(pixel).copied().unwrap_or(0);
            }
        }
    }
    let png = png(columns * width, rows * height, &palette, &sheet).map_err(|error| error.to_string())?;
    let shown = if steps > small.len() as u64 {
        format!(", of which the first {} are shown", small.len())
    } else {
        String::new()
    };
    let says = format!(
        "One episode of the newest checkpoint: {} steps{shown}, return {}",
        count(steps as f64),
        number(total)
    );
    let pause = (1000.0 / fps.filter(|fps| *fps > 0.0).unwrap_or(30.0)).clamp(10.0, 1000.0) as u32;
    Ok(Episode { png, frames: small.len(), width, height, pause, says })
}

impl Episode {
    /// The recording with its slider; without scripts its first frame stands there.
    pub(super) fn html(&self) -> String {
        let Episode { frames, width, height, pause, .. } = self;
        let columns = (*frames).min(COLUMNS);
        let (says, data) = (escape(&self.says), base64(&self.png));
        let (last, whole) = (frames - 1, columns * 100);
        format!(
            "<div data-frames=\"{frames}\" data-columns=\"{columns}\" data-width=\"{width}\" data-height=\"{height}\" data-ms=\"{pause}\">\
             <div style=\"overflow:hidden;aspect-ratio:{width}/{height}\"><img style=\"display:block;width:{whole}%\" alt=\"{says}\" src=\"data:image/png;base64,{data}\"></div>\
             <input class=\"scripted\" type=\"range\" min=\"0\" max=\"{last}\" value=\"0\" aria-label=\"moment of the episode\">\
             <p class=\"muted\"><button class=\"scripted\">stop</button> {says}</p></div>"
        )
    }
}

/// Makes a frame smaller: each pixel is the mean of `by` times `by` pixels.
fn shrunk(frame: &Frame, by: usize, width: usize, height: usize) -> Vec<[u8; 3]> {
    let by = by.min(frame.width).min(frame.height);
    let mut out = Vec::with_capacity(width * height);
    for y in 0..height {
        for x in 0..width {
            let mut sum = [0usize; 3];
            for row in y * by..(y + 1) * by {
                let at = (row * frame.width + x * by) * 3;
                for pixel in frame.rgb[at..at + by * 3].chunks_exact(3) {
                    (0..3).for_each(|c| sum[c] += usize::from(pixel[c]));
                }
            }
            out.push(sum.map(|sum| ((sum + by * by / 2) / (by * by)) as u8));
        }
    }
    out
}

/// At most 256 colours, and the place of every colour of the pictures among them. Of too many colours, near ones become one.
fn palette(pictures: &[Vec<[u8; 3]>]) -> (Vec<[u8; 3]>, HashMap<[u8; 3], u8>) {
    let mut used: HashMap<[u8; 3], usize> = HashMap::new();
    for pixel in pictures.iter().flatten() {
        *used.entry(*pixel).or_default() += 1;
    }
    let mut colours: Vec<([u8; 3], usize)> = used.into_iter().collect();
    // The order of a hash map differs from run to run.
    colours.sort_unstable();
    for bits in 0..8 {
        let mut groups: Vec<([u8; 3], [usize; 3], usize)> = Vec::new();
        let mut place: HashMap<[u8; 3], usize> = HashMap::new();
        let mut of = Vec::with_capacity(colours.len());
        for (colour, times) in &colours {
            let key = colour.map(|c| c >> bits);
            let at = *place.entry(key).or_insert_with(|| {
                groups.push((key, [0; 3], 0));
                groups.len() - 1
            });
            let (_, sum, count) = &mut groups[at];
            (0..3).for_each(|c| sum[c] += usize::from(colour[c]) * times);
            *count += times;
            of.push((*colour, at));
        }
        if groups.len() <= 256 {
            let palette = groups.iter().map(|(_, sum, count)| sum.map(|sum| (sum / count) as u8)).collect();
            return (palette, of.into_iter().map(|(colour, at)| (colour, at as u8)).collect());
        }
    }
    (vec![[0; 3]], HashMap::new())
}

fn png(
    width: usize,
    height: usize,
    palette: &[[u8; 3]],
    pixels: &[u8],
) -> Result<Vec<u8>, png::EncodingError> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette.concat());
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(out)
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let bits =
            part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= part.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!([of("f"), of("fo"), of("foo"), of("foobar")], ["Zg==", "Zm8=", "Zm9v", "Zm9vYmFy"]);
    }

    #[test]
    fn the_picture_has_every_frame_in_its_place() {
        let frame = |c: u8| Frame { width: 4, height: 2, rgb: [c, 0, 255 - c].repeat(8) };
        let frames: Vec<Frame> = (0..20).map(frame).collect();
        let episode = record(&frames, Some(50.0), 30, 1.0).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&episode.png)).read_info().unwrap();
        let palette = reader.info().palette.clone().unwrap();
        let mut pixels = vec![0; 64 * 4];
        reader.next_frame(&mut pixels).unwrap();
        // Frame 17 is the second one of the second row.
        let colour = usize::from(pixels[2 * 64 + 4]);
        assert_eq!(palette[colour * 3..colour * 3 + 3], [17, 0, 238]);
        let html = episode.html();
        assert!(
            html.contains("data-frames=\"20\"") && html.contains("30 steps, of which the first 20 are shown"),
            "{html}"
        );
    }

    #[test]
    fn many_colours_become_a_palette_of_at_most_256() {
        let pixels: Vec<[u8; 3]> =
            (0..4096u32).map(|i| [(i >> 4) as u8, (i % 251) as u8, (i * 7) as u8]).collect();
        let (colours, places) = palette(std::slice::from_ref(&pixels));
        assert!(colours.len() <= 256 && colours.len() > 16, "{}", colours.len());
        for pixel in &pixels {
            let near = colours[usize::from(places[pixel])];
            assert!((0..3).all(|c| pixel[c].abs_diff(near[c]) < 64));
        }
    }

    #[test]
    fn pictures_of_two_sizes_and_none_are_refused() {
        let frame = |width| Frame { width, height: 1, rgb: vec![0; width * 3] };
        assert!(record(&[], None, 1, 0.0).is_err());
        assert!(record(&[frame(2), frame(3)], None, 2, 0.0).is_err());
    }
}
