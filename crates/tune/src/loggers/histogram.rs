//! Histograms as TensorBoard takes them.

use serde_json::Value;

use super::protobuf::Message;

/// Maximum number of bars of a histogram; all of them are equally wide.
const BARS: usize = 30;

/// Makes the histogram of a list of numbers; `None` if the list is empty or holds anything but numbers.
///
/// ```text
/// HistogramProto: 1 min, 2 max, 3 num, 4 sum, 5 sum_squares: double; 6 bucket_limit, 7 bucket: packed doubles
/// ```
pub(super) fn histogram(list: &[Value]) -> Option<Message> {
    let numbers: Vec<f64> = list.iter().map(Value::as_f64).collect::<Option<_>>()?;
    let min = numbers.iter().copied().reduce(f64::min)?;
    let max = numbers.iter().copied().reduce(f64::max)?;
    let bars = if min < max { BARS.min(numbers.len()) } else { 1 };
    let width = (max - min) / bars as f64;
    let mut counts = vec![0.0; bars];
    for number in &numbers {
        let bar = ((number - min) / width) as usize;
        counts[bar.min(bars - 1)] += 1.0;
    }
    let mut limits: Vec<f64> = (1..=bars).map(|bar| min + width * bar as f64).collect();
    limits[bars - 1] = max;
    let mut message = Message::default();
    message.double(1, min);
    message.double(2, max);
    message.double(3, numbers.len() as f64);
    message.double(4, numbers.iter().sum());
    message.double(5, numbers.iter().map(|number| number * number).sum());
    message.doubles(6, &limits);
    message.doubles(7, &counts);
    Some(message)
}
