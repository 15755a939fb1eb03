//! The picker's metrics page, read as Prometheus reads it. In: text; out: series and their values. A page that is no
//! valid exposition fails the test that reads it.

use std::collections::BTreeMap;

/// Every series, by name and labels as printed, with its value.
pub struct Page(BTreeMap<String, f64>);

impl Page {
    /// Panics with the line that is no sample, or that stands there twice.
    pub fn read(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut series = BTreeMap::new();
        for line in samples {
            let after_labels = line.rfind('}').map_or(0, |at| at + 1);
            let name_end =
                after_labels + line[after_labels..].find(' ').unwrap_or_else(|| panic!("no value in `{line}`"));
            let value = line[name_end..].split_whitespace().next().and_then(|value| value.parse().ok());
            let value = value.unwrap_or_else(|| panic!("no value in `{line}`"));
            assert!(series.insert(line[..name_end].to_owned(), value).is_none(), "twice on the page: `{line}`");
        }
        Self(series)
    }

    /// The sum over all series of that name whose labels contain each of `labels` (as `name="value"`).
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let is_of =
            |series: &str| series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
        let has_all = |series: &str| labels.iter().all(|label| series.contains(label));
        self.0.iter().filter(|(series, _)| is_of(series) && has_all(series)).map(|(_, value)| value).sum()
    }

    /// How many series there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}
