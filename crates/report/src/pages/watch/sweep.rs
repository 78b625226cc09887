//! A sweep on the screen.

use std::path::{Path, PathBuf};

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::records::in_words;
use super::super::sweep::{End, JOURNAL, RecordedSweep, Trial};
use super::super::text::{counted, cut, short, value};
use super::held::is_held;
use super::parts::{Curve, chart, rows, whole};
use super::tail::{Seen, Tail};
use pavlov_tune::Error;

/// Most curves of trials.
const MAX_CURVES: usize = 60;

/// A sweep that may be going on.
#[derive(Debug)]
pub(super) struct LiveSweep {
    dir: PathBuf,
    tail: Tail,
    sweep: RecordedSweep,
    /// Whether a process runs the sweep; `None` if that is not known.
    pub(super) is_held: Option<bool>,
    /// The first trial of the table that is shown.
    pub(super) first: usize,
}

impl LiveSweep {
    pub(super) fn new(dir: &Path) -> LiveSweep {
        let tail = Tail::new(dir.join(JOURNAL));
        LiveSweep { dir: dir.into(), tail, sweep: RecordedSweep::begin(dir), is_held: None, first: 0 }
    }

    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        let (sweep, dir) = (&mut self.sweep, &self.dir);
        let is_new = self.tail.read(|seen| match seen {
            Seen::Anew => *sweep = RecordedSweep::begin(dir),
            Seen::Line(line) => sweep.line(line),
        })?;
        if is_new && let Some(reason) = self.sweep.unreadable() {
            return Err(Error::io("read", self.tail.path())(std::io::Error::other(reason)));
        }
        if self.sweep.file.is_none() {
            self.sweep.file = RecordedSweep::begin(dir).file;
        }
        self.is_held = is_held(self.tail.path());
        Ok(())
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, foot: &str) {
        let [head, area] = rows(frame.area(), 3);
        let width = usize::from(head.width);
        let file = self.sweep.file.as_ref();
        let what = file.map_or_else(|| self.sweep.trainable.clone(), |file| file.algorithm.clone());
        let env = file.and_then(|file| file.env.clone()).map(|env| format!(" on {env}")).unwrap_or_default();
        let title = format!("Sweep of {what}{env}  {}", self.dir.display());
        let lines =
            vec![Line::from(cut(&title, width)).bold(), self.state(), Line::from(cut(&self.best(), width))];
        frame.render_widget(Paragraph::new(lines), head);
        let [area, below] = rows(area, area.height.saturating_sub(1));
        frame.render_widget(Paragraph::new(foot).fg(Color::DarkGray), below);

        let order = self.order();
        let wanted = u16::try_from(order.len() + 1).unwrap_or(u16::MAX);
        let chart_rows = area.height.saturating_sub(wanted).max(area.height / 2).max(area.height.min(6));
        let [area, below] = rows(area, chart_rows);
        self.curves(frame, area, &order);
        let shown = usize::from(below.height).saturating_sub(1);
        let first = self.first.min(order.len().saturating_sub(shown));
        let rest = order.get(first..).unwrap_or_default();
        self.table(frame, below, &rest[..rest.len().min(shown)]);
        self.first = first;
    }

    /// Says how many trials there are and how they stand.
    fn state(&self) -> Line<'static> {
        let trials = &self.sweep.trials;
        let of = |end: End| trials.iter().filter(|trial| trial.end == end).count();
        let mut parts = vec![counted(trials.len(), "trial").replace('\u{202f}', ",")];
        for end in [End::Running, End::Finished, End::StoppedByScheduler, End::StoppedWithSweep, End::Failed]
        {
            if let n @ 1.. = of(end) {
                parts.push(format!("{n} {}", word(end)));
            }
        }
        let text = parts.join(", ");
        let (colour, text) = match (&self.sweep.stopped, self.is_held) {
            (Some(reason), _) => (Color::Yellow, format!("stopped ({reason}): {text}")),
            (None, Some(true)) => (Color::Cyan, text),
            (None, _) if of(End::Running) == 0 && !trials.is_empty() => {
                (Color::Green, format!("ended: {text}"))
            }
            (None, Some(false)) => (
                Color::Yellow,
                format!("no process of this machine runs it: {text}; `pavlov tune --resume` goes on"),
            ),
            (None, None) => (Color::Cyan, text),
        };
        Line::from(Span::styled(text, Style::new().fg(colour)))
    }

    fn best(&self) -> String {
        let Some(best) = self.sweep.best().and_then(|best| self.sweep.trials.get(best)) else {
            return format!("no trial has reported {} yet", self.sweep.metric);
        };
        let score = best.score().map(short).unwrap_or_default();
        format!("best {} {score}: {}, {}", self.sweep.metric, best.id, settings(best, &self.sweep.varied()))
    }

    /// The trials from best to worst; those without a score come last.
    fn order(&self) -> Vec<&Trial> {
        let sign = if self.sweep.is_cost { 1.0 } else { -1.0 };
        let mut order: Vec<&Trial> = self.sweep.trials.iter().collect();
        let rank = |trial: &&Trial| trial.score().map_or(f64::INFINITY, |score| sign * score);
        order.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        order
    }

    /// The curves of the best trials; the best one lies in front.
    fn curves(&self, frame: &mut Frame<'_>, area: Rect, order: &[&Trial]) {
        let has_steps = |trial: &&Trial| trial.points.iter().any(|point| point.steps.is_finite());
        let in_steps = order.iter().any(has_steps);
        let curve = |(place, trial): (usize, &&Trial)| Curve {
            xs: trial
                .points
                .iter()
                .map(|point| if in_steps { point.steps } else { point.iteration })
                .collect(),
            ys: trial.points.iter().map(|point| point.score).collect(),
            colour: if place == 0 { Color::Cyan } else { Color::DarkGray },
            is_dots: false,
        };
        let mut curves: Vec<Curve> = order.iter().take(MAX_CURVES).enumerate().map(curve).collect();
        curves.reverse();
        let title = Line::from(vec![
            Span::raw(format!("{}, ", in_words(&self.sweep.metric))),
            Span::styled("the best trial", Color::Cyan),
            Span::raw(" in front"),
        ]);
        let x_name = if in_steps { "steps of the environment" } else { "iterations" };
        chart(frame, area, title, x_name, &curves);
    }

    fn table(&self, frame: &mut Frame<'_>, area: Rect, shown: &[&Trial]) {
        let id =
            self.sweep.trials.iter().map(|trial| trial.id.chars().count()).max().unwrap_or(0).clamp(5, 24);
        let width = usize::from(area.width);
        let varied = self.sweep.varied();
        let row = |name: &str, state: &str, iteration: &str, score: &str, rest: &str| {
            cut(&format!("{:id$}  {state:13} {iteration:>9} {score:>10}  {rest}", cut(name, id)), width)
        };
        let head = row("trial", "state", "iteration", "score", "settings");
        let mut lines = vec![Line::from(head).bold()];
        for trial in shown {
            let last = trial.points.last().map(|point| point.iteration).filter(|x| x.is_finite());
            let iteration = last.map_or_else(|| "-".into(), whole);
            let score = trial.score().map_or_else(|| "-".into(), short);
            let beside = match &trial.error {
                Some(error) if trial.end == End::Failed => {
                    error.lines().next().unwrap_or_default().to_owned()
                }
                _ => settings(trial, &varied),
            };
            let text = row(&trial.id, word(trial.end), &iteration, &score, &beside);
            let colour = match trial.end {
                End::Failed => Color::Red,
                End::Running => Color::Cyan,
                _ => Color::Reset,
            };
            lines.push(Line::from(text).fg(colour));
        }
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// The settings that differ between the trials.
fn settings(trial: &Trial, varied: &[String]) -> String {
    let of = |key: &String| {
        let set = trial.drawn.get(key)?;
        let shown = set.as_f64().filter(|x| x.fract() != 0.0).map_or_else(|| value(set), short);
        Some(format!("{key} {shown}"))
    };
    varied.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// How a trial stands, in a word or two.
fn word(end: End) -> &'static str {
    match end {
        End::Running => "running",
        End::Finished => "finished",
        End::StoppedByScheduler => "stopped early",
        End::StoppedWithSweep => "stopped",
        End::Failed => "failed",
    }
}
