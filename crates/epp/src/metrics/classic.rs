//! The page in Prometheus' classic text format, for whoever doesn't ask for OpenMetrics.
//!
//! In: a page of OpenMetrics text as this program writes it. Out: the same figures. A counter's help and type stand under the name of
//! its series there (`x_total`, where OpenMetrics has `x`), and there is no word for units or for the page's end.

/// That page.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut page = String::with_capacity(open_metrics.len() + open_metrics.len() / 64);
    // A family's help comes before its type, which says how it is called.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ').map(|(_, help)| help);
        } else if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap_or((family, "untyped"));
            let ending = if kind == "counter" { "_total" } else { "" };
            let kind = if kind == "unknown" { "untyped" } else { kind };
            if let Some(help) = help.take() {
                page += &format!("# HELP {name}{ending} {help}\n");
            }
            page += &format!("# TYPE {name}{ending} {kind}\n");
        } else if !line.starts_with('#') {
            page += line;
            page.push('\n');
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_called_as_its_series_is_and_nothing_is_lost() {
        let open_metrics = "# HELP asked Requests.\n# TYPE asked counter\nasked_total{model=\"# a b\"} 1\n\
                            # HELP seconds_per Time.\n# TYPE seconds_per histogram\n# UNIT seconds_per seconds\n\
                            seconds_per_sum 1.5\nseconds_per_count 2\nseconds_per_bucket{le=\"+Inf\"} 2\n\
                            # TYPE odd unknown\nodd 3\n# EOF\n";
        let expected = "# HELP asked_total Requests.\n# TYPE asked_total counter\nasked_total{model=\"# a b\"} 1\n\
                        # HELP seconds_per Time.\n# TYPE seconds_per histogram\n\
                        seconds_per_sum 1.5\nseconds_per_count 2\nseconds_per_bucket{le=\"+Inf\"} 2\n\
                        # TYPE odd untyped\nodd 3\n";
        assert_eq!(classic(open_metrics), expected);
    }
}
