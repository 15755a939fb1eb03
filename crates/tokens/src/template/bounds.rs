//! Templates that would take all memory, all time or the whole stack, and what becomes of them.
//!
//! Each ends in an error (a text too long, too many steps, nested too deeply), on a stack as small as a thread's of the program
//! gets, and all of them together within a bounded memory. Sizes are far beyond what the machine has: `g` doubles or nests over
//! and over.

use std::time::SystemTime;

use request::json;

use super::{Fault, Template};

/// A tenth of what a rendering may take, so that the tests are as much faster.
const STEPS: u64 = 400_000;

/// Tokio's blocking threads, on which templates are rendered, have 2 MB.
const STACK: usize = 1 << 20;

/// The process, however many of these were rendered, in kB.
const PEAK: usize = 1_000_000;

/// A list that doubles forty times, `l`, and one that doubles until it is a million long, `w`.
const WIDE: &str = "{% set ns = namespace(l=[1, 'a'], d={}, t='a', n=0) %}\
    {% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{% set l = ns.l %}\
    {% set m = namespace(l=[1, 'a']) %}{% for i in range(40) %}{% set m.l = [m.l, m.l] %}{% endfor %}{% set m = m.l %}\
    {% set d = {'k': l} %}";

/// What walks a value of which the paths are more than can be walked.
const WALKS: &[&str] = &[
    "{{ l }}",
    "{{ [l] }}",
    "{{ (l, 1) }}",
    "{{ {'a': l} }}",
    "{{ {1: l} }}",
    "{{ l|tojson }}",
    "{{ d|tojson(indent=900) }}",
    "{{ d|tojson(sort_keys=true) }}",
    "{{ l|string }}",
    "{{ l|string|length }}",
    "{{ l|pprint }}",
    "{{ l ~ '' }}",
    "{{ '' ~ l ~ l }}",
    "{% set x = l ~ l %}",
    "{{ l|join }}",
    "{{ [l]|join(',') }}",
    "{{ l|replace('a', 'b') }}",
    "{{ 'a'|replace('a', l) }}",
    "{{ '%s' % l }}",
    "{{ '%s' % (l, ) }}",
    "{{ '%r' % [l] }}",
    "{{ '%(k)s' % d }}",
    "{{ '%s'|format(l) }}",
    "{{ '{}'.format(l) }}",
    "{{ '{!r:>5}'.format(l) }}",
    "{{ '{k}'.format_map(d) }}",
    "{{ l|upper }}",
    "{{ l|lower }}",
    "{{ l|title }}",
    "{{ l|capitalize }}",
    "{{ l|trim }}",
    "{{ l|center(3) }}",
    "{{ l|escape }}",
    "{{ l|e }}",
    "{{ l|forceescape }}",
    "{{ l|striptags }}",
    "{{ l|wordcount }}",
    "{{ l|string|wordwrap }}",
    "{{ l|truncate }}",
    "{{ d|urlencode }}",
    "{{ [l]|map('string')|list }}",
    "{{ [l]|map('tojson')|list }}",
    "{{ raise_exception(l) }}",
    "{{ l == m }}",
    "{{ l != m }}",
    "{{ l < m }}",
    "{{ l <= m }}",
    "{{ l > m }}",
    "{{ 1 < l < m }}",
    "{{ l in [m] }}",
    "{{ l in (m, m) }}",
    "{{ l not in [m] }}",
    "{{ l is eq(m) }}",
    "{{ l is lt m }}",
    "{{ l is in [m] }}",
    "{{ [l]|select('eq', m)|list }}",
    "{{ [{'a': l}]|selectattr('a', 'equalto', m)|list }}",
    "{{ [l, m]|unique|list }}",
    "{{ [l, m]|sort }}",
    "{{ [l, m]|min }}",
    "{{ [l, m]|max }}",
    "{{ {'a': l, 'b': m}|dictsort(by='value') }}",
    "{{ [{'a': l}, {'a': m}]|groupby('a') }}",
    "{{ [{'a': l}, {'a': m}]|sort(attribute='a') }}",
    "{{ [l].index(m) }}",
    "{{ [l].count(m) }}",
    "{{ {l: 1} }}",
    "{{ {l: 1} == {m: 1} }}",
    "{{ {'a': l} == {'a': m} }}",
    "{{ {(1, 2): l} == {(1, 2): m} }}",
    "{{ dict(a=l) }}",
    "{{ namespace(a=l) }}",
    "{% for x in [l, m] %}{{ loop.changed(x) }}{% endfor %}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(l) }}",
    "{{ cycler(l).next() }}",
    "{% set j = joiner(l) %}{{ j() }}{{ j() }}",
    "{% filter upper %}{{ l }}{% endfilter %}",
    "{% set x %}{{ l }}{% endset %}",
    "{{ l[0:1] }}",
    "{{ l[::-1] }}",
    "{{ l|reverse }}",
    "{{ l|list }}",
    "{{ l|batch(1) }}",
    "{{ l|slice(1) }}",
    "{{ l|sum(start=[]) }}",
    "{{ l + m }}",
    "{{ l * 2 }}",
    "{{ (l, m) * 2 }}",
    "{{ l|chain(m) }}",
    "{{ l|zip(m) }}",
    "{{ d.items() }}",
    "{{ d.values() }}",
    "{{ d|dictsort }}",
    "{{ d.copy() }}",
];

/// What makes texts, lists or time out of little.
const GROWS: &[&str] = &[
    "{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = ns.t * 2 %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = [ns.t, ns.t]|join %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = ns.t|replace('a', 'aa') %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = ns.t.replace('a', 'aa') %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = '%s%s' % (ns.t, ns.t) %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = '{0}{0}'.format(ns.t) %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.t = 'xx'|map('replace', 'x', ns.t)|join %}{% endfor %}",
    "{% for i in range(99) %}{% set t %}{{ ns.t }}{{ ns.t }}{% endset %}{% set ns.t = t %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.l = ns.l * 2 %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.l = (ns.l + ns.l)[1:] %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.l = [ns.l, ns.l]|sum(start=[]) %}{% endfor %}",
    "{% for i in range(99) %}{% set ns.l = ns.l|chain(ns.l) %}{% endfor %}",
    "{% set t = namespace(l=(1, 2)) %}{% for i in range(99) %}{% set t.l = t.l + t.l %}{% endfor %}",
    "{% set t = namespace(l=(1, 2)) %}{% for i in range(99) %}{% set t.l = t.l * 2 %}{% endfor %}",
    "{{ [1] * 100000000 }}",
    "{{ (1, 2) * 100000000 }}",
    "{{ [1] * 100000000 ~ '' }}",
    "{% for x in [1] * 100000000 %}{% endfor %}",
    "{% for x in range(100000) %}{% for y in range(100000) %}{% endfor %}{% endfor %}",
    "{% for x in range(100000) %}{% for y in range(100000) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endfor %}",
    "{{ range(100000)|join('a' * 1000000) }}",
    "{{ ('a' * 1000000).join(range(100000)|map('string')) }}",
    "{{ ('a' * 1000000)|replace('', 'a' * 1000000) }}",
    "{{ ('a' * 1000000).replace('', 'a' * 1000000) }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%.999999999f' % 1.0 }}",
    "{{ ('%1000000d' * 1000) % ((1, ) * 1000) }}",
    "{{ '{:999999999}'.format(1) }}",
    "{{ '{:.999999999f}'.format(1.0) }}",
    "{{ ('{0:1000000}' * 1000).format(1) }}",
    "{{ 'a'.center(999999999) }}",
    "{{ 'a'.ljust(999999999) }}",
    "{{ 'a'.rjust(999999999) }}",
    "{{ 'a'.zfill(999999999) }}",
    "{{ 'a'|center(999999999) }}",
    "{{ ('\t' * 10000).expandtabs(999999) }}",
    "{{ ('a\n' * 100000)|indent(60000) }}",
    "{{ ('a\n' * 1000000)|indent('a' * 1000000) }}",
    "{{ ('a' * 1000000)|wordwrap(1, wrapstring='a' * 10000) }}",
    "{{ ([1] * 100000)|tojson(indent='a' * 100000) }}",
    "{{ ([1] * 100000)|tojson(separators=('a' * 100000, '')) }}",
    "{{ [1]|batch(100000000, 1) }}",
    "{{ [1]|slice(100000000, 1)|list }}",
    "{% set x = 'a' * 30000000 %}{% for i in range(99) %}{% set ns.l = [ns.l, x|upper] %}{% endfor %}",
    "{% set x = 'a' * 1000000 %}{% set y = x ~ '' %}{% for i in range(100000) %}{{ x == y }}{% endfor %}",
    "{% set x = 'a' * 1000000 %}{% set y = x ~ '' %}{% for i in range(100000) %}{{ x < y }}{% endfor %}",
    "{% set x = 'a' * 1000000 %}{% set y = x ~ '' %}{% for i in range(100000) %}{{ x is eq(y) }}{% endfor %}",
    "{% set x = 'a' * 1000000 %}{% set y = x ~ '' %}{{ ([x] * 100000)|select('eq', y)|list|length }}",
    "{% set x = ['a' * 1000000] %}{% set y = ['a' * 1000000] %}{{ x * 100000 == y * 100000 }}",
    "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x.strip(x) }}{% endfor %}",
    "{% set x = 'a' * 1000000 %}{{ (x ~ 'b').strip(('b' * 1000000) ~ 'a')|length }}{% for i in range(9) %}{{ x|trim(x) }}{% endfor %}",
    "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x.startswith((x, ) * 1000) }}{% endfor %}",
    "{% set x = (1, ) * 1000000 %}{% for i in range(100000) %}{% set y = [x] %}{% endfor %}",
    "{% set x = (1, ) * 1000000 %}{% set y = [x] * 1000 %}{% set z = ((1, ) * 1000000, ) * 1000 %}{% for i in range(1000) %}{{ y == z }}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(50) }}",
    "{% for i in range(99) %}{% set ns.d = dict(ns.d, **{i ~ '': ns.t}) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
];

/// What nests deeper and deeper: `@` is what the loop puts into itself.
const NESTS: &[&str] = &[
    "[@]",
    "[[@]]",
    "{'a': @}",
    "{1: @}",
    "{(1, 2): @}",
    "(@, )",
    "(@, @)",
    "[(@, )]",
    "((1, @), 2)",
    "[@]|list",
    "[@]|batch(1)",
    "[[@]]|map('list')|list",
    "[@]|slice(1)",
    "[@][::-1]",
    "[@]|sort",
    "[@]|reverse",
    "[@]|unique",
    "[@] + []",
    "[] + [@]",
    "[@] * 1",
    "(@, ) * 1",
    "dict(a=@)",
    "dict({'a': @}, b=@)",
    "{'a': @}.items()",
    "{'a': @}.values()",
    "{'a': @}|items",
    "{'a': @}|dictsort",
    "{'a': @}.copy()",
    "[{'a': @}]|groupby('b', default=@)",
    "[{'a': @}]|map(attribute='a')|list",
    "[@]|zip([@])",
    "[@]|chain([@])",
    "{'a': @}|chain({'b': @})",
    "[@]|select|list",
    "[[@]]|sum(start=[])",
    "'a,b'.split(',') + [@]",
    "cycler(@)",
    "joiner(@)",
    "namespace(a=@)",
    "ns",
    "loop",
];

fn render(source: &str) -> Result<String, (Fault, String)> {
    let context = json::parse(br#"{"messages": [{"role": "user", "content": "hi"}]}"#).unwrap();
    let mut template = Template::compile(source).map_err(|error| (error.fault, error.to_string()))?;
    template.environment.set_fuel(Some(STEPS));
    template.steps = STEPS;
    let rendered = template.render(context.as_object().unwrap(), SystemTime::UNIX_EPOCH);
    rendered.map_err(|error| (error.fault, error.to_string()))
}

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap().join().unwrap();
    assert!(peak() < PEAK, "{} kB", peak());
}

/// The most that the process ever took, in kB; 0 where the system doesn't say.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn bounded(templates: &'static [&'static str]) {
    on_a_small_stack(move || {
        let mut wrong = Vec::new();
        for template in templates {
            let rendered = render(&format!("{WIDE}{template}"));
            if !matches!(rendered, Err((Fault::TooManySteps | Fault::TooLong, _))) {
                let rendered = rendered.map(|text| text.chars().take(100).collect::<String>());
                wrong.push(format!("{template}: {rendered:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), templates.len(), wrong.join("\n"));
    });
}

#[test]
fn whatever_walks_a_value_is_counted() {
    bounded(WALKS);
}

#[test]
fn whatever_grows_is_counted() {
    bounded(GROWS);
}

#[test]
fn nothing_nests_deeper_than_a_stack_holds() {
    on_a_small_stack(|| {
        for nest in NESTS {
            for then in [
                "",
                "{{ ns.g }}",
                "{{ ns.g|tojson }}",
                "{{ ns.g == ns.h }}",
                "{{ [ns.g, ns.h]|unique|list }}",
                "{{ ns.g ~ '' }}",
            ] {
                for rounds in [20, 590, 100_000] {
                    if rounds == 100_000 && !then.is_empty() {
                        continue;
                    }
                    let (g, h) = (nest.replace('@', "ns.g"), nest.replace('@', "ns.h"));
                    let template = format!(
                        "{{% set ns = namespace(g=1, h=1) %}}{{% for i in range({rounds}) %}}{{% set ns.g = {g} %}}{{% set ns.h = {h} %}}{{% endfor %}}{then}"
                    );
                    let rendered = render(&template);
                    assert!(rounds < 100_000 || rendered.is_err(), "{template}");
                }
            }
        }
    });
}

#[test]
fn recursion_and_long_sources_nest_no_deeper() {
    on_a_small_stack(|| {
        let (open, close) = ("[".repeat(100), "]".repeat(100));
        for template in [
            format!(
                "{{% macro f(x, n) %}}{{% if n %}}{{{{ f({open}x{close}, n - 1) }}}}{{% else %}}{{{{ x }}}}{{% endif %}}{{% endmacro %}}{{{{ f(1, 60) }}}}"
            ),
            format!("{{% macro f(x) %}}{{{{ f({open}x{close}) }}}}{{% endmacro %}}{{{{ f(1) }}}}"),
            format!("{{% set x = 1 %}}{}{{{{ x }}}}", "{% set x = [x] %}".repeat(50_000)),
            format!("{{% set x = [1] %}}{}{{{{ x }}}}", "{% set x = x[:] %}".repeat(50_000)),
            format!("{{% set x = [1] %}}{{{{ x{} }}}}", "[:]".repeat(50_000)),
            format!("{{% set x = [1] %}}{{{{ x{} }}}}", "|list".repeat(50_000)),
            format!("{{% set x = [1] %}}{{{{ x{} }}}}", " * 1".repeat(500)),
            format!("{{% set x = [1] %}}{{% set x = x{} %}}{{{{ x }}}}", " + x".repeat(500)),
            "{% for x in [[[]]] recursive %}{{ loop([x]) }}{% endfor %}".to_owned(),
            "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}".to_owned(),
            "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}".to_owned(),
            "{% set ns = namespace() %}{% for x in [1] %}{% set ns.a = loop %}{% endfor %}{{ ns }}".to_owned(),
            "{% include 'chat_template' %}".to_owned(),
            "{% import 'chat_template' as x %}".to_owned(),
            "{% extends 'chat_template' %}".to_owned(),
        ] {
            let rendered = render(&template);
            let head: String = template.chars().take(200).collect();
            if let Ok(rendered) = rendered {
                assert!(rendered.len() < 10_000, "{head}: {} bytes", rendered.len());
            }
        }
    });
}
