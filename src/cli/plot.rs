//! `pavlov plot`: a plot of a run, of several runs or of a sweep as a file.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::exit::usage;
use super::output::print;
use super::report::{is_sweep, refuse_no_dir, runs_in};
use crate::tune::{Error, replace_file};
use pavlov_report::figure::{self, Shown};
use pavlov_report::{RecordedSweep, Run};

/// What the plot shows.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Plot {
    /// The learning curve: of one run with its evaluations, of groups of runs with bands over their seeds, of a sweep's
    /// trials
    Curve,
    /// A small plot of each loss of one run
    Losses,
    /// A small plot of each statistic of one run: losses, KL, entropy and the others
    Statistics,
}

/// Write a plot of a run, several runs or a sweep as a picture, for papers
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  pavlov plot runs/first --out curve.svg\n  pavlov plot runs/seed* --out seeds.svg --width 480\n  \
                        pavlov plot runs/first --metric kl --out kl.svg\n  pavlov plot runs/first --plot losses --out losses.svg\n\n\
                        The plots are those of `pavlov report`, on white. Runs that differ in their seed alone are one \
                        line with a band, the 95 % interval."
)]
pub(super) struct PlotArgs {
    /// A run directory or a sweep's directory; several run directories are compared
    #[arg(value_name = "RUN", required = true)]
    places: Vec<PathBuf>,
    /// The picture to write; its end says its kind
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    out: PathBuf,
    /// What the plot shows
    #[arg(long, value_name = "PLOT", default_value = "curve")]
    plot: Plot,
    /// The number that the curve shows, such as kl, default_policy/entropy or episode_len_mean [default: the mean return]
    #[arg(long, value_name = "KEY")]
    metric: Option<String>,
    /// Width of the picture in pixels of a page; a PNG has twice as many, so that it is sharp in print
    #[arg(long, value_name = "PIXELS", default_value_t = 720, value_parser = clap::value_parser!(u32).range(200..=4000))]
    width: u32,
}

pub(super) fn plot(args: &PlotArgs) -> anyhow::Result<()> {
    let is_png = kind_of(&args.out)?;
    for place in &args.places {
        refuse_no_dir(place)?;
    }
    let shown = match args.plot {
        Plot::Curve => Shown::Curve,
        Plot::Losses => Shown::Losses,
        Plot::Statistics => Shown::Statistics,
    };
    let (metric, width) = (args.metric.as_deref(), f64::from(args.width));
    let svg = match args.places.as_slice() {
        [place] if is_sweep(place) => figure::of_sweep(&RecordedSweep::read(place)?, shown, metric, width),
        places => {
            if let Some(sweep) = places.iter().find(|place| is_sweep(place)) {
                let shown = sweep.display();
                return Err(usage(format!("{shown} is a sweep, which has a plot of its own: give it alone")));
            }
            let mut dirs = Vec::new();
            for place in places {
                dirs.extend(runs_in(place)?);
            }
            let runs = dirs.iter().map(|dir| Run::read(dir)).collect::<Result<Vec<Run>, Error>>()?;
            figure::of_runs(&runs, shown, metric, width)
        }
    };
    let svg = svg.map_err(usage)?;
    let bytes = if is_png { png(&svg)? } else { svg.into_bytes() };
    replace_file(&args.out, &bytes)?;
    print(&format!("plot: {} ({} kB)", args.out.display(), bytes.len().div_ceil(1000))).map(drop)
}

/// Whether the file is to become a PNG. Refuses a file that cannot become a picture.
fn kind_of(out: &Path) -> anyhow::Result<bool> {
    let shown = out.display();
    let ends = |end: &str| out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end));
    if !ends("svg") && !ends("png") {
        return Err(usage(format!("--out is {shown}, but its name must end in .svg or .png")));
    }
    match out.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            Err(usage(format!("--out is {shown}, but there is no directory {}", dir.display())))
        }
        _ => Ok(ends("png")),
    }
}

/// Number of pixels of a PNG for each of the page.
#[cfg(feature = "png-plots")]
const SCALE: f32 = 2.0;

/// Draws the picture with the fonts of the system.
#[cfg(feature = "png-plots")]
fn png(svg: &str) -> anyhow::Result<Vec<u8>> {
    use anyhow::Context;
    use resvg::{tiny_skia, usvg};
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_system_fonts();
    let known =
        |name: &str| options.fontdb.faces().any(|face| face.families.iter().any(|(own, _)| own == name));
    let first = options.fontdb.faces().next().and_then(|face| Some(face.families.first()?.0.clone()));
    let Some(first) = first else {
        return Err(usage(
            "a PNG needs a font of the system for its texts, and there is none: install one, such as the package \
             fonts-dejavu-core, or write an .svg",
        ));
    };
    // The generic name at the end of the picture's list stands for a font that is there.
    let sans = figure::FONTS.split(", ").find(|name| known(name)).map_or(first, str::to_owned);
    options.fontdb_mut().set_sans_serif_family(sans);
    let tree = usvg::Tree::from_str(svg, &options).context("the picture cannot be drawn")?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE).round() as u32, (size.height() * SCALE).round() as u32);
    let mut pixels = tiny_skia::Pixmap::new(width, height).context("the picture is too large to be drawn")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().context("the picture cannot be written as a PNG")
}

#[cfg(not(feature = "png-plots"))]
fn png(_: &str) -> anyhow::Result<Vec<u8>> {
    Err(usage(
        "this command was built without PNG plots: write an .svg, or build it with `--features png-plots`",
    ))
}
