//! Tables of trials, as aligned text and as CSV.

use serde_json::{Map, Value};

use crate::base::{Config, Error, Metrics, Objective, Result, TrialStatus, metric};
use crate::loggers;

/// Maximum width of a cell in characters; longer ones are cut.
const WIDEST: usize = 48;

/// Properties shared by all rows: the search space, and the metric and mode that trials are compared by.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    /// Search space of the sweep.
    pub(super) space: &'a Value,
    pub(super) objective: Option<&'a Objective>,
}

/// Data of a trial for one row.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) trial_id: &'a str,
    pub(super) status: TrialStatus,
    /// Whether the scheduler ended the trial.
    pub(super) stopped_early: bool,
    pub(super) config: &'a Config,
    pub(super) result: Option<&'a Metrics>,
}

impl Row<'_> {
    /// The status in capitals, as Ray writes it; `STOPPED` if the scheduler ended the trial.
    fn word(&self) -> String {
        match (self.status, self.stopped_early) {
            (TrialStatus::Terminated, true) => "STOPPED".into(),
            (status, _) => format!("{status:?}").to_uppercase(),
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        metric::find(self.result?, key)
    }
}

impl Columns<'_> {
    /// Score of a trial by its metric, higher is better; `None` without a finite value.
    fn score(self, row: &Row<'_>) -> Option<f64> {
        self.objective?.finite_score(row.result?)
    }

    /// Sorts rows by their score, best first. Rows without a score come last; equal rows keep their order.
    pub(super) fn best_first(self, rows: &mut [Row<'_>]) {
        let score = |row: &Row<'_>| self.score(row).unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| score(b).total_cmp(&score(a)));
    }

    /// Returns the index of the row with the best score; if several are equal, the first. `None` if no row has a score.
    pub(super) fn place_of_best(self, rows: &[Row<'_>]) -> Option<usize> {
        metric::best(rows.iter().map(|row| self.score(row)))
    }

    /// Describes the best trial, its value and its parameters in one line; `None` if no trial has a value.
    pub(super) fn best(self, rows: &[Row<'_>]) -> Option<String> {
        let best = &rows[self.place_of_best(rows)?];
        let metric = &self.objective?.metric;
        let value = three_digits(best.value(metric)?);
        let parameters = parameters(self.space, best.config);
        let parameters = parameters.iter().map(|(path, value)| format!(", {path}={}", three_digits(value)));
        Some(format!("best {} with {metric} {value}{}", best.trial_id, parameters.collect::<String>()))
    }

    fn metric(&self) -> Option<&str> {
        self.objective.map(|objective| &*objective.metric)
    }

    /// Formats a table with one line per trial: status, metric, iteration, time and every parameter.
    pub(super) fn table(self, rows: &[Row<'_>]) -> String {
        let drawn: Vec<_> = rows.iter().map(|row| parameters(self.space, row.config)).collect();
        let paths = union(&drawn);
        let head = ["trial", "status", self.metric().unwrap_or(""), "iter", "time (s)"];
        let head = head.into_iter().chain(paths.iter().map(String::as_str)).map(String::from).collect();
        let mut lines = vec![head];
        for (row, drawn) in rows.iter().zip(&drawn) {
            let shown = |key: &str| row.value(key).map_or(String::new(), cell);
            let mut line = vec![
                row.trial_id.to_string(),
                row.word(),
                self.metric().map(shown).unwrap_or_default(),
                shown("training_iteration"),
                shown("time_total_s"),
            ];
            line.extend(paths.iter().map(|path| at(drawn, path).map(exact).unwrap_or_default()));
            lines.push(line);
        }
        align(lines)
    }

    /// Formats the table as CSV, best trial first. Parameters are named `config/<path>`; the other values of the last result
    /// follow, except lists.
    ///
    /// # Errors
    /// Does not fail in practice, because it writes to memory.
    pub(super) fn csv(self, rows: &[Row<'_>]) -> Result<Vec<u8>> {
        let mut rows = rows.to_vec();
        self.best_first(&mut rows);
        let cells: Vec<Vec<(String, Value)>> = rows.iter().map(|row| self.cells(row)).collect();
        let columns = union(&cells);
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&columns).map_err(Error::other)?;
        for cells in &cells {
            let line = columns.iter().map(|column| at(cells, column).map(exact).unwrap_or_default());
            writer.write_record(line).map_err(Error::other)?;
        }
        writer.into_inner().map_err(|error| Error::other(error.into_error()))
    }

    fn cells(self, row: &Row<'_>) -> Vec<(String, Value)> {
        let mut cells = vec![
            ("trial_id".to_string(), Value::from(row.trial_id)),
            ("status".to_string(), row.word().into()),
        ];
        if let Some(metric) = self.metric() {
            cells.push((metric.into(), row.value(metric).cloned().unwrap_or_default()));
        }
        let drawn = parameters(self.space, row.config).into_iter();
        cells.extend(drawn.map(|(path, value)| (format!("config/{path}"), value)));
        let numbers = row.result.map(|result| loggers::flatten(result)).unwrap_or_default().into_iter();
        let numbers = numbers.filter(|(key, value)| {
            let is_setting = key.starts_with("config/");
            !is_setting && !value.is_array() && key != "trial_id" && Some(key.as_str()) != self.metric()
        });
        cells.extend(numbers.map(|(key, value)| (key, value.clone())));
        cells
    }
}

fn at<'a>(cells: &'a [(String, Value)], key: &str) -> Option<&'a Value> {
    cells.iter().find(|(known, _)| known == key).map(|(_, value)| value)
}

/// Keys of all rows, in order of first appearance.
fn union(rows: &[Vec<(String, Value)>]) -> Vec<String> {
    let mut keys = Vec::new();
    for (key, _) in rows.iter().flatten() {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// Settings of a trial that its search space does not fix, by dotted path, in the order of the settings.
fn parameters(space: &Value, config: &Config) -> Vec<(String, Value)> {
    fn walk(space: &Value, config: &Map<String, Value>, prefix: &str, found: &mut Vec<(String, Value)>) {
        for (name, value) in config {
            let fixed = space.get(name).unwrap_or(&Value::Null);
            let is_fixed = fixed == value || fixed.get("literal") == Some(value);
            match value {
                _ if is_fixed && !fixed.is_null() => {}
                Value::Object(inner) => walk(fixed, inner, &format!("{prefix}{name}."), found),
                value => found.push((format!("{prefix}{name}"), value.clone())),
            }
        }
    }
    let mut found = Vec::new();
    walk(space, config, "", &mut found);
    found
}

/// Formats a value in full precision; texts have no quotes.
fn exact(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Formats a value for a status line: numbers with three significant digits, texts without quotes.
fn three_digits(value: &Value) -> String {
    match value.as_f64().filter(|_| value.as_i64().is_none()) {
        None => cell(value),
        Some(0.0) => "0".into(),
        Some(real) if !(1e-3..1e5).contains(&real.abs()) => format!("{real:.2e}"),
        Some(real) => {
            let digits = (2 - real.abs().log10().floor() as i32).max(0) as usize;
            let text = format!("{real:.digits$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
        }
    }
}

/// Formats a value for a table cell: numbers with six digits, texts without quotes.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.to_string(),
            (None, Some(real)) => shorten(real),
            (None, None) => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn shorten(real: f64) -> String {
    let size = real.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return format!("{real:.3e}");
    }
    let digits = (5 - size.max(1.0).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{real:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Formats rows with equal numbers of cells as lines of aligned columns. Columns that are empty below their header are left
/// out.
pub(super) fn align(mut rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    for cell in rows.iter_mut().flatten() {
        if cell.chars().count() > WIDEST {
            *cell = cell.chars().take(WIDEST - 1).chain(['…']).collect();
        }
    }
    let used: Vec<usize> =
        (0..columns).filter(|column| rows.iter().skip(1).any(|row| !row[*column].is_empty())).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let cells = used.iter().map(|column| format!("{:<1$}", row[*column], width(*column)));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_short_and_columns_stand_under_each_other() {
        let shown: Vec<String> =
            [json!(3), json!(0.1), json!(123.456789), json!(1e-5), json!(195.0), json!("PPO"), json!(null)]
                .iter()
                .map(cell)
                .collect();
        assert_eq!(shown, ["3", "0.1", "123.457", "1.000e-5", "195", "PPO", ""]);
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let text =
            align(vec![row(["trial", "lr", "empty"]), row(["a", "0.1", ""]), row(["bcdefg", "1", ""])]);
        assert_eq!(text, "trial   lr\na       0.1\nbcdefg  1\n");
    }

    fn object<T: From<Map<String, Value>>>(value: Value) -> T {
        value.as_object().expect("an object").clone().into()
    }

    #[test]
    fn a_status_line_has_three_digits() {
        let values = [
            json!(0.00031622776),
            json!(123.456),
            json!(98_765.4),
            json!(-0.123456),
            json!(4000),
            json!(0.5),
        ];
        let shown: Vec<String> = values.iter().map(three_digits).collect();
        assert_eq!(shown, ["3.16e-4", "123", "98765", "-0.123", "4000", "0.5"]);
    }

    #[test]
    fn parameters_are_the_settings_that_the_space_does_not_fix() {
        let space = json!({
            "seed": 0,
            "lr": {"loguniform": [1e-4, 1e-2]},
            "model": {"fcnet_hiddens": {"choice": [[64, 64], [256]]}, "use_lstm": false},
            "optimizer": {"choice": [{"type": "adam"}, {"type": "sgd"}]},
            "whole": {"literal": {"choice": [1, 2]}},
        });
        let config = json!({
            "seed": 0,
            "lr": 0.00031622776601683794,
            "model": {"fcnet_hiddens": [256], "use_lstm": false},
            "optimizer": {"type": "sgd"},
            "whole": {"choice": [1, 2]},
        });
        let found = parameters(&space, &object(config));
        let shown: Vec<String> =
            found.iter().map(|(path, value)| format!("{path}={}", exact(value))).collect();
        assert_eq!(shown, ["lr=0.00031622776601683794", "model.fcnet_hiddens=[256]", "optimizer.type=sgd"]);
    }

    #[test]
    fn the_best_trial_comes_first_with_its_value_and_each_parameter_has_a_column_in_full_precision() {
        let space = json!({"lr": {"uniform": [0, 1]}, "gamma": 0.9});
        let configs = [0.25, 0.123456789, 0.5].map(|lr| object(json!({"lr": lr, "gamma": 0.9})));
        let results = [Some(7.5), Some(9.25), None].map(|loss| {
            loss.map(|loss| {
                object::<Metrics>(
                    json!({"training_iteration": 3, "loss": loss, "hist": [1], "config": {"lr": 1}}),
                )
            })
        });
        let rows: Vec<Row<'_>> = ["t_0", "t_1", "t_2"]
            .iter()
            .zip(configs.iter().zip(&results))
            .map(|(trial_id, (config, result))| {
                let status = if result.is_some() { TrialStatus::Terminated } else { TrialStatus::Error };
                Row { trial_id, status, stopped_early: *trial_id == "t_0", config, result: result.as_ref() }
            })
            .collect();
        let highest = Objective::maximize("loss");
        let columns = Columns { space: &space, objective: Some(&highest) };
        let mut sorted = rows.clone();
        columns.best_first(&mut sorted);
        assert_eq!(
            columns.table(&sorted),
            "trial  status      loss  iter  lr\n\
             t_1    TERMINATED  9.25  3     0.123456789\n\
             t_0    STOPPED     7.5   3     0.25\n\
             t_2    ERROR                   0.5\n"
        );
        assert_eq!(columns.best(&rows).as_deref(), Some("best t_1 with loss 9.25, lr=0.123"));
        let csv = String::from_utf8(columns.csv(&rows).unwrap()).unwrap();
        assert_eq!(
            csv,
            "trial_id,status,loss,config/lr,training_iteration\n\
             t_1,TERMINATED,9.25,0.123456789,3\n\
             t_0,STOPPED,7.5,0.25,3\n\
             t_2,ERROR,,0.5,\n"
        );
        let lowest = Objective::minimize("loss");
        let lowest = Columns { objective: Some(&lowest), ..columns };
        assert_eq!(lowest.best(&rows).as_deref(), Some("best t_0 with loss 7.5, lr=0.25"));
        assert_eq!(lowest.best(&rows[2..]), None);
    }
}
