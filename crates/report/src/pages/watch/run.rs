//! A run on the screen.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::records::{Records, in_words, last};
use super::super::run::Run;
use super::super::small::WORDS;
use super::super::text::{cut, seconds, short};
use super::super::time::PHASES;
use super::held::is_held;
use super::parts::{Curve, bars, chart, rows, whole};
use super::tail::{Seen, Tail};
use pavlov_tune::Error;

/// Results over which the speed and the shares of time are taken.
const RECENT: usize = 10;
/// Columns of a statistic's name and of its value.
const NAME: usize = 22;
const VALUE: usize = 9;
/// Columns from which on the statistics stand in two columns.
const WIDE: u16 = 100;

/// A run that may be going on.
#[derive(Debug)]
pub(super) struct LiveRun {
    dir: PathBuf,
    tail: Tail,
    pub(super) run: Run,
    /// Whether a process trains the run; `None` if that is not known.
    pub(super) is_held: Option<bool>,
    /// Time since the last result.
    pub(super) age: Option<Duration>,
    /// The first statistic that is shown.
    pub(super) first: usize,
}

impl LiveRun {
    pub(super) fn new(dir: &Path) -> LiveRun {
        LiveRun {
            tail: Tail::new(dir.join("result.json")),
            run: Run::of(dir, Records::default(), None),
            dir: dir.into(),
            is_held: None,
            age: None,
            first: 0,
        }
    }

    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        let records = &mut self.run.records;
        let is_new = self.tail.read(|seen| match seen {
            Seen::Anew => *records = Records::default(),
            Seen::Line(line) => drop(records.line(line)),
        })?;
        if is_new || self.run.records.rows == 0 {
            self.run.records.end();
            // A run that is continued may have another end.
            self.run = Run::of(&self.dir, std::mem::take(&mut self.run.records), None);
        }
        self.age = self.tail.changed.and_then(|changed| changed.elapsed().ok());
        // Only runs of `pavlov train` lock their directory.
        self.is_held = self.dir.join("run.json").is_file().then(|| is_held(&self.dir)).flatten();
        Ok(())
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, foot: &str) {
        let area = frame.area();
        let [head, area] = rows(area, 3);
        let width = usize::from(head.width);
        let title = format!("{}  {}", self.run.title(), self.dir.display());
        let lines = vec![
            Line::from(cut(&title, width)).bold(),
            self.state(),
            Line::from(cut(&self.numbers(width), width)),
        ];
        frame.render_widget(Paragraph::new(lines), head);
        let [area, below] = rows(area, area.height.saturating_sub(1));
        frame.render_widget(Paragraph::new(foot).fg(Color::DarkGray), below);

        let mut around: Vec<Line<'_>> = self.time().into_iter().collect();
        around.extend(self.workers());
        let [area, below] = rows(area, area.height.saturating_sub(around.len() as u16));
        frame.render_widget(Paragraph::new(around), below);

        let columns = if area.width >= WIDE { 2 } else { 1 };
        let statistics = self.statistics();
        let wanted = u16::try_from(statistics.len().div_ceil(columns)).unwrap_or(u16::MAX);
        let chart_rows = area.height.saturating_sub(wanted).max(area.height / 2).max(area.height.min(8));
        let [area, below] = rows(area, chart_rows);
        self.curve(frame, area);
        let shown = usize::from(below.height) * columns;
        let first = self.first.min(statistics.len().saturating_sub(shown).next_multiple_of(columns));
        let rest = statistics.get(first..).unwrap_or_default();
        draw_statistics(frame, below, &rest[..rest.len().min(shown)], columns);
        self.first = first;
    }

    /// Says whether the run goes on.
    fn state(&self) -> Line<'static> {
        let since = self.age.map(|age| format!("last result {} ago", seconds(age.as_secs_f64().round())));
        let since = since.filter(|_| self.run.records.rows > 0).unwrap_or_else(|| "no result yet".into());
        let (colour, text) = match (self.run.met(), self.is_held) {
            (Some(key), _) => (Color::Green, format!("ended: {key} has reached its limit")),
            (None, Some(true)) => (Color::Cyan, format!("training, {since}")),
            (None, Some(false)) => (
                Color::Yellow,
                format!("no process of this machine trains it, {since}; `pavlov resume` goes on"),
            ),
            (None, None) => (Color::Cyan, since),
        };
        let mut spans = vec![Span::styled(text, Style::new().fg(colour))];
        if let Some((row, key)) = &self.run.records.bad {
            spans.push(Span::styled(format!("; {key} is no number since result {}", row + 1), Color::Red));
        }
        Line::from(spans)
    }

    /// The numbers of the run, as many as there is room for.
    fn numbers(&self, width: usize) -> String {
        let records = &self.run.records;
        let count = |key: &str| records.last(key).map_or_else(|| "-".into(), whole);
        let score = records.column(&records.score_key());
        let best = score.iter().copied().filter(|x| x.is_finite()).reduce(f64::max);
        let shown = |x: Option<f64>| x.map_or_else(|| "-".into(), short);
        let mut parts = vec![
            format!("iteration {}", count("training_iteration")),
            format!("{} steps", count("timesteps_total")),
            format!("{} {}", name_of_score(&records.score_key()), shown(last(&score))),
        ];
        let speed = self.speed();
        parts.extend(speed.map(|speed| format!("{} steps/s", whole(speed))));
        parts.extend(self.left(speed));
        parts.push(format!("best {}", shown(best)));
        parts.extend(records.last("time_total_s").map(|time| format!("trained for {}", seconds(time))));
        let length = |parts: &[String]| parts.iter().map(|part| part.chars().count() + 2).sum::<usize>();
        while parts.len() > 1 && length(&parts) > width + 2 {
            parts.pop();
        }
        parts.join(", ")
    }

    /// Steps of the environment a second, of late.
    fn speed(&self) -> Option<f64> {
        let sum = |key: &str| {
            let column = self.run.records.column(key);
            column.iter().rev().take(RECENT).filter(|x| x.is_finite()).sum::<f64>()
        };
        let (steps, time) = (sum("timesteps_this_iter"), sum("time_this_iter_s"));
        (steps > 0.0 && time > 0.0).then(|| steps / time)
    }

    /// The share of its steps that the run has done, in percent, and the time until its end.
    fn left(&self, speed: Option<f64>) -> Option<String> {
        let limit = self.run.stop.get("timesteps_total")?.as_f64().filter(|limit| *limit > 0.0)?;
        let steps = self.run.records.last("timesteps_total")?;
        let share = (100.0 * steps / limit).clamp(0.0, 100.0).floor();
        let time = speed.map(|speed| (limit - steps).max(0.0) / speed).filter(|time| *time > 0.0);
        Some(match time {
            Some(time) if self.is_held != Some(false) => format!("{share} %, {} left", seconds(time)),
            _ => format!("{share} %"),
        })
    }

    /// Where the time went of late.
    fn time(&self) -> Option<Line<'static>> {
        let records = &self.run.records;
        let spent = |key: &str| {
            let column = records.time.get(key).unwrap_or_default();
            column.iter().rev().take(RECENT).filter(|x| x.is_finite() && **x > 0.0).sum::<f64>()
        };
        let whole: f64 = PHASES.iter().map(|(key, ..)| spent(key)).sum();
        let parts =
            PHASES.iter().map(|(key, name, _)| (name, spent(key) / whole)).filter(|(_, x)| *x >= 0.005);
        let parts: Vec<String> =
            parts.map(|(name, share)| format!("{name} {:.0} %", 100.0 * share)).collect();
        (whole > 0.0).then(|| Line::from(format!("time: {}", parts.join(", "))))
    }

    /// Whether the workers are well.
    fn workers(&self) -> Option<Line<'static>> {
        let records = &self.run.records;
        let mut parts = Vec::new();
        let mut restarts = 0.0;
        for (key, again, one) in [
            ("num_healthy_workers", "num_remote_worker_restarts", "worker"),
            ("num_healthy_learners", "num_learner_restarts", "learner"),
        ] {
            let again = records.last(again).unwrap_or(0.0);
            restarts += again;
            let Some(healthy) = records.last(key).filter(|healthy| *healthy > 0.0 || again > 0.0) else {
                continue;
            };
            let s = if healthy == 1.0 { "" } else { "s" };
            let begun =
                if again > 0.0 { format!(" (started again {} times)", whole(again)) } else { String::new() };
            parts.push(format!("{} {one}{s} well{begun}", whole(healthy)));
        }
        if let n @ 1.. = records.restarts.len() {
            parts.push(format!("the run was continued {n} times"));
        }
        if let n @ 1.. = records.damaged {
            parts.push(format!("{n} damaged lines in result.json"));
        }
        let colour = if restarts > 0.0 { Color::Yellow } else { Color::Reset };
        (!parts.is_empty()).then(|| Line::from(parts.join(", ")).fg(colour))
    }

    /// The large chart: training as a line, evaluations as dots.
    fn curve(&self, frame: &mut Frame<'_>, area: Rect) {
        let records = &self.run.records;
        let (xs, x_name) = records.x();
        let key = records.score_key();
        let mut title = vec![Span::styled(in_words(&key), Color::Cyan)];
        let mut curves =
            vec![Curve { xs: xs.clone(), ys: records.column(&key), colour: Color::Cyan, is_dots: false }];
        let evaluated = records.column("evaluation/episode_reward_mean");
        if let Some(now) = last(&evaluated) {
            title.push(Span::styled(format!(", evaluations as dots, now {}", short(now)), Color::Yellow));
            curves.push(Curve { xs, ys: evaluated, colour: Color::Yellow, is_dots: true });
        }
        chart(frame, area, Line::from(title), x_name, &curves);
    }

    /// Names and values of the statistics of policies, and of a user's own numbers.
    fn statistics(&self) -> Vec<(String, &[f64])> {
        let records = &self.run.records;
        let mut all: Vec<(String, &[f64])> = Vec::new();
        let is_one = records.learners.len() == 1;
        for (policy, columns) in &records.learners {
            let named = |name: &str| if is_one { name.to_owned() } else { format!("{policy}: {name}") };
            let known = |key: &str| WORDS.iter().any(|(known, _)| *known == key);
            let first = WORDS.iter().filter_map(|(key, name)| Some((named(name), columns.get(key)?)));
            all.extend(first);
            let others = columns.iter().filter(|(key, _)| !known(key));
            all.extend(others.map(|(key, values)| (named(key), values)));
        }
        let several =
            records.policies.iter().map(|(policy, values)| (format!("{policy}: mean return"), values));
        all.extend(several);
        let length = records.top.get("episode_len_mean");
        all.extend(length.map(|values| ("length of an episode".into(), values)));
        let own = records.top.iter().filter_map(|(key, ys)| Some((key.strip_prefix("custom_metrics/")?, ys)));
        all.extend(own.map(|(key, values)| (key.to_owned(), values)));
        all.retain(|(_, values)| last(values).is_some());
        all
    }
}

/// A short name of the number that says how good the run is.
fn name_of_score(key: &str) -> &str {
    if key == "episode_reward_mean" { "mean return" } else { key }
}

fn draw_statistics(frame: &mut Frame<'_>, area: Rect, shown: &[(String, &[f64])], columns: usize) {
    let width = usize::from(area.width) / columns;
    let one = |(name, values): &(String, &[f64])| {
        let room = width.saturating_sub(NAME + VALUE + 3);
        // The newest number may be none.
        let now =
            values.last().map_or_else(String::new, |x| if x.is_finite() { short(*x) } else { "-".into() });
        let name = cut(name, NAME);
        format!("{name:NAME$} {now:>VALUE$} {:room$} ", bars(values, room))
    };
    let lines = shown.chunks(columns).map(|row| Line::from(row.iter().map(one).collect::<String>()));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}
