#!/usr/bin/env python3
"""Templates rendered by Jinja2 as transformers sets it up, and by this crate: prints where they differ.

usage: cargo build -p tokens --example render_lines
       python3 crates/tokens/tests/differential.py target/debug/examples/render_lines [--random N] [--seed S]

Needs jinja2 (3.1). What it finds is kept in data/jinja.json, which the tests read without Python.
"""
import argparse, copy, datetime, itertools, json, random, re, subprocess, sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller):
        return caller()


def environment():
    """As transformers.utils.chat_template_utils sets it up."""

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime(2025, 3, 5, 4, 6, 7).strftime(form)
    return made


ENVIRONMENT = environment()


def reference(row):
    try:
        return {"ok": ENVIRONMENT.from_string(row["template"]).render(**copy.deepcopy(row["context"]))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


CONTEXT = {
    "s": "héllo Wörld", "e": "", "i": 7, "z": 0, "n": None, "t": True, "f": False, "d": 2.5, "neg": -3,
    "big": 123456789012345678901234567890, "huge": 1e22, "tiny": 1.5e-7,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "ll": [[1, 2], [3]],
    "m": {"b": 1, "a": "x", "items": [1], "n": None}, "me": {},
    "ms": [{"role": "user", "content": "hi", "k": 2}, {"role": "assistant", "content": None, "k": 1},
           {"role": "user", "content": "it's \"q\"\n\tz\u200b\xa0é😀\x01", "k": 3}],
    "ws": " \t a  b\n\nc \x1c", "html": "<a href='x'>&amp; b</a> <!-- c --> d", "num": "42", "fl": " 3.50 ",
}
VALUES = ["s", "e", "i", "z", "n", "t", "f", "d", "neg", "big", "huge", "tiny", "l", "ls", "le", "ll", "m", "me", "ms",
          "ws", "html", "num", "fl", "u", "(1, 'a')", "(1,)", "'it\\'s'", "m.zz", "l[1:]", "l[::-1]", "range(4)",
          "ms[0]", "1e16", "1e-5", "100.0", "-0.0", "'a\\nb'", "{'k': [1, (2, 3)], 2: none}", "l + [4]", "m.items()"]
FILTERS = """abs attr('b') batch(2) batch(2,'x') capitalize center center(20) count d default default('D') default('D',true)
default(default_value='q',boolean=true) dictsort dictsort(true) dictsort(by='value') dictsort(reverse=true) e escape filesizeformat first
float float(1.5) forceescape format format(1) format('a','b') groupby('role') groupby('k') indent indent(2) indent(2,true)
indent(width='>>') indent(2,first=true,blank=true) int int(7) int(base=16) items join join(', ') join(',',attribute='role') last length list
lower map('upper') map(attribute='role') map(attribute='zz',default='D') map('int') map('string') map('length') max min
max(attribute='k') min(attribute='k') pprint reject reject('odd') rejectattr('content') rejectattr('role','eq','user') replace('l','L') replace('l','L',1)
replace('','-') reverse round round(1) round(1,'floor') round(0,'ceil') safe select select('odd') select('string') selectattr('content') selectattr('k','gt',1)
selectattr('role','equalto','user') selectattr('role','in',['user']) slice(2) slice(2,'x') sort sort(reverse=true) sort(attribute='k') sort(case_sensitive=true) sort(attribute='k',reverse=true) string
striptags sum sum(attribute='k') sum(start=10) title tojson tojson(indent=2) tojson(indent='\t') tojson(indent=0) tojson(sort_keys=true) tojson(ensure_ascii=true) tojson(separators=(',',':')) tojson(false,1) trim trim('h')
truncate(5) truncate(5,true) truncate(5,true,'..') truncate(9,leeway=0) unique unique(true) unique(attribute='role') upper urlencode wordcount wordwrap(5) xmlattr random urlize""".split()
TESTS = """boolean callable defined divisibleby(2) eq(7) equalto('x') escaped even false filter float ge(2) gt(2) in([7,'x',none])
integer iterable le(2) lower lt(2) mapping ne(7) none number odd sameas(none) sequence string test true undefined upper greaterthan(1) lessthan(1)""".split()
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or"]
STRINGS = ["s", "e", "'a,b,,c'", "'  x y  z '", "'abcabc'", "ws", "'-42'", "'Hello World'", "'ǆ ß İ ﬁ'", "'a1_b'", "'{}-{a}-{0}'", "'x\\ty'", "'½²٣'"]
METHODS = """capitalize() casefold() center(15) center(15,'*') center(4) count('a') count('') count('a',1) count('b',-3,-1) encode() endswith('c') endswith(('x','c')) endswith('b',0,2)
expandtabs() expandtabs(4) find('b') find('b',2) find('') find('zz') find('b',-2) format(1,a=2) index('a') index('zz') isalnum() isalpha() isascii() isdecimal() isdigit() isidentifier()
islower() isnumeric() isprintable() isspace() istitle() isupper() join(['x','y']) join('xyz') join([1]) ljust(12) ljust(12,'-') lower() lstrip() lstrip('a ') partition(',') partition('b')
removeprefix('a') removesuffix('c') replace('a','ZZ') replace('a','ZZ',1) replace('','.') replace('a','b',-1) rfind('b') rfind('b',0,3) rindex('a') rjust(12) rjust(12,'.') rpartition(',') rsplit() rsplit(',') rsplit(',',1)
rsplit(None,1) rsplit(maxsplit=1) rstrip() rstrip('c') split() split(',') split(',',1) split(None,1) split(maxsplit=1) split(sep='b') split(',',0) splitlines() splitlines(true) startswith('a') startswith(('b','a')) startswith('b',1) startswith('b',1,1)
strip() strip('ac') strip('') swapcase() title() upper() zfill(8) strip(none) foo() __class__ format_map({'a':1})""".split(" ")
METHODS = [m for chunk in METHODS for m in chunk.split()]
DICT_METHODS = ["items()", "keys()", "values()", "get('a')", "get('zz')", "get('zz','d')", "get('zz',default=1)", "copy()", "items", "keys", "zz", "pop('a')", "update({})", "items()|list", "keys()|list", "items|length", "get"]
LIST_METHODS = ["index(1)", "index(99)", "count(1)", "copy()", "append(1)", "pop()", "reverse()", "sort()", "index", "zz", "0", "length"]
SLICES = ["[1:]", "[:2]", "[-1]", "[-2:]", "[::2]", "[::-1]", "[5:1:-2]", "[:-1]", "[10]", "[-10]", "[1:100]", "[-100:2]", "[2:1]", "['a']", "[none:none]", "[0]", "[true]", "[1.0]", "[::0]", "[-1:-3]", "[-1:-3:-1]", "[1:-1]"]
STATEMENTS = r"""
{% for x in V %}[{{ x }}]{% else %}none{% endfor %}
{% for k, v in V %}{{ k }}={{ v }};{% endfor %}
{% for k, v in V.items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in V|items %}{{ k }}={{ v }};{% endfor %}
{% for x in V|reverse %}[{{ x }}]{% endfor %}
{% for x in V if x %}[{{ x }}{{ loop.index }}/{{ loop.length }}]{% endfor %}
{% for x in V %}{{ loop.first }}{{ loop.last }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% set x = V %}{{ x }}
{% set x %}{{ V }}!{% endset %}{{ x }}{{ x|length }}
{% set a, b = V %}{{ a }}|{{ b }}
{% if V %}T{% elif V is defined %}D{% else %}U{% endif %}
{{ V if V else 'E' }}
{{ 'x' if V }}
{% with q = V %}{{ q }}{% endwith %}{{ q }}
{% macro g(a, b=V) %}({{ a }},{{ b }}){% endmacro %}{{ g(1) }}{{ g(V, 2) }}{{ g() }}
{% macro g(a) %}{{ a }}{{ caller() }}{{ varargs }}{{ kwargs }}{% endmacro %}{% call g(V, 3, z=4) %}C{% endcall %}
{% filter upper %}{{ V }}x{% endfilter %}
{% set ns = namespace(a=V) %}{% set ns.b = V %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% for x in V %}{% if loop.index > 1 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in V %}{% if loop.index == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in V recursive %}{{ x }}{% endfor %}
{{ V ~ V }}|{{ V ~ 1.0 }}|{{ 'a' ~ V }}
{{ not V }}{{ -V }}
{{ +V }}
{{ V is defined and V }}|{{ V or 'z' }}
{{ [V, V] }}|{{ (V, V) }}|{{ {'k': V} }}|{{ {V: 1} }}
{{ V == V }}{{ V != V }}{{ [V] == [V] }}{{ V in [V] }}{{ V is sameas V }}
{{ 'a' in V }}
{{ 1 in V }}
{{ V.foo }}|{{ V['foo'] }}|{{ V.foo is defined }}
{{ V.foo.bar }}
{{ V() }}
{{ V|tojson }}{{ [V]|tojson }}{{ {'a': V}|tojson(indent=1) }}
{% generation %}{{ V }}{% endgeneration %}
{{ V|string|length }}
{{ '%s' % V }}|{{ '%r' % [V] }}
{{ '%s|%s' % (V, 1) }}
{{ '%d' % V }}
{{ '{}'.format(V) }}
{{ '%s'|format(V) }}
{{ dict(a=V) }}{{ dict(a=V).a }}
{{ namespace(a=V).a }}
{{ [V, 'x']|join('-') }}
{{ cycler(1, 2).next() }}{{ joiner(',')() }}
{{ range(V) }}
{{ range(V)|list }}
{{ raise_exception(V) }}
{{ strftime_now('%Y %d') }}{{ V }}
{{ lipsum is defined }}{{ V is mapping }}{{ V is string }}{{ V is iterable }}{{ V is sequence }}{{ V is callable }}
{%- if V -%} a {%- endif -%} b
{{ V[0] }}|{{ V[-1] }}|{{ V[1:] }}
{{ V.0 }}
{{ V|first }}{{ V|last }}
{{ V|default('d') }}{{ V|default('d', true) }}
{{ V is true }}{{ V is false }}{{ V is boolean }}{{ V is number }}{{ V is integer }}{{ V is float }}{{ V is none }}
{{ loop is defined }}{{ self is defined }}{{ caller is defined }}
{% do V %}
{% include V %}
{% block q %}{{ V }}{% endblock %}
{% set l2 = [] %}{% for x in V %}{% set l2 = l2 + [x] %}{% endfor %}{{ l2 }}
{% set ns = namespace(l=[]) %}{% for x in V %}{% set ns.l = ns.l + [x] %}{% endfor %}{{ ns.l }}{{ ns.l|length }}{{ ns.l|tojson }}
{{ V|list|tojson }}
{{ V|length > 1 and V[0] == V[-1] }}
{{ V * 2 }}|{{ 2 * V }}
{{ 1 < V < 3 }}
{% for a in V %}{% for b in V %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in V %}{% set y = x %}{{ y }}{% endfor %}{{ y }}
{% set y = 1 %}{% if V %}{% set y = 2 %}{% endif %}{{ y }}
{% set y = 1 %}{% for x in V %}{{ y }}{% set y = x %}{% endfor %}{{ y }}
{{ loop }}
{{ V.__class__ }}
{{ V.items }}
{{ V.append }}
{{ V.strip }}
{% raw %}{{ V }}{% endraw %}{# V #}
{{ V|map('tojson')|join(',') }}
{{ V|map(attribute='content')|select|join(',') }}
{{ V|selectattr('role', 'defined')|list|length }}
""".strip().split("\n")
SPACES = [
    "a\n{% if t %}\n  b\n{% endif %}\nc", "  {% if t %}x{% endif %}  \n", "a {%- if t -%} b {%- endif -%} c", "{{ '\n' }}\n\n", "x\n\n", "x\r\ny\r\n", "{% if t %}\r\nx\r\n{% endif %}\r\n",
    "a\n  {# c #}\n  b", "a\n  {#- c -#}\n  b", "a {# c #} b", "\t{% set x = 1 %}\t\n\tb", "a {%+ if t %}b{% endif +%}\n c", "  {{ i }}  \n  {{- i -}}\n x", "{% for x in l %}\n  - {{ x }}\n{% endfor %}\nend",
    "{% raw %}\n {{ x }} \n{% endraw %}\n z", "{%- raw -%} x {%- endraw -%} y", "  {% raw %} a {% endraw %}  b", "{% if t %}{% endif %}\n\n\nx", "a\n\n  {%- if t %}\n\n  b\n  {%- endif %}\nc",
    "\n{% if t %}a{% endif %}", "{{ i }}\n{% if t %}\n{% endif %}{{ i }}\n", "a\xa0{%- if t %}b{% endif %}", "a\u3000\n{%- if t %}b{% endif %}", "a\x0b{%- if t %}b{% endif %}", "{% set x %}\n a\n{% endset %}[{{ x }}]",
    "{% macro m() %}\n a\n{% endmacro %}\n[{{ m() }}]", "{% if t %}a\n{%- else %}b{% endif %}", "{{- i }} {{ i -}} x", "{#\n#}\nx", "{% if t -%}\n\n x{% endif %}", " {%- set a = 1 %}\n {%- set b = 2 %}\n{{ a }}{{ b }}",
    "{{ '{% x %}' }}{{ \"}}\" }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {'b': 1}} }}", "{ { i } } {", "{{ i }}}", "{{{ 'a': 1 }}}", "{{ 'a' 'b' }}", "{{ 'a\\x41\\u00e9\\n\\'\\\\ \\q' }}", "{{ 'a\nb' }}", "{{ 1_000 }}{{ 0x1f }}{{ 0b11 }}{{ 0o17 }}{{ 1.5e3 }}{{ 1e2 }}",
    "{{ true }}{{ True }}{{ none }}{{ None }}{{ false }}{{ False }}", "{{ [1, 2,] }}{{ (1, 2,) }}{{ {'a': 1,} }}{{ () }}{{ (1) }}", "{{ 1, 2 }}", "{{ i if t else z if f else 3 }}", "{{ not t and f or t }}", "{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}{{ 7 // 2 * 2 }}{{ 7 / 2 }}{{ -7 // 2 }}{{ -7 % 3 }}",
    "{{ i is not none and i is defined }}", "{{ i is divisibleby 7 }}{{ i is divisibleby 2 and t }}", "{{ not i is odd }}", "{{ i|string ~ 'x'|upper }}", "{{ -i|abs }}", "{{ (1, 2)|length }}", "{{ l|join(',')|upper }}", "{{ 1 + 2 ~ 3 + 4 }}", "{{ 'a' ~ 1 * 2 }}", "{{ 1 == 1.0 }}{{ '1' == 1 }}{{ true == 1 }}{{ [1] == (1,) }}{{ [1,2] < [1,3] }}{{ 'a' < 'b' }}",
    "{{ 3 in [1,2] or 2 }}", "{{ 'a' not in 'abc' }}", "{% if not m.zz %}x{% endif %}", "{% if m.zz is defined and m.zz %}x{% else %}y{% endif %}", "{{ m['a'] }}{{ m.a }}{{ m['zz'] }}", "{{ l.0 }}{{ ls[1] }}", "{{ ms[-1]['content'] }}", "{{ ms[0].role ~ ':' ~ ms[0]['content'] }}", "{{ (l + [9])|length }}{{ l + [9] }}{{ (l + [9])[-1] }}",
    "{%- for x in ms -%}{%- if x.content is not none -%}{{ x.content }}{%- endif -%}{%- endfor -%}", "{% for x in ms %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x.role) }}{% endfor %}", "{% set x = ms|selectattr('role','eq','user')|list %}{{ x|length }}{{ x[0].content }}", "{% set x = (ms|selectattr('role','eq','user')|first).content %}{{ x }}", "{{ ms|map(attribute='role')|join(' ') }}",
    "{{ ms|tojson }}", "{{ ms }}", "{{ m }}", "{{ m|tojson(indent=4) }}", "{{ html|e }}", "{{ s[1] }}{{ s[-1] }}{{ s[1:3] }}{{ s|length }}", "{{ s.split('l')|length }}", "{{ '%s %s' % (s, i) }}", "{{ '%5.2f|%-5d|%+d|%x|%e|%g|%%' % (d, i, i, i, d, d) }}", "{{ '%(a)s' % m }}", "{{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{!r}'.format(i, i, i, i, d, s) }}",
    "{{ strftime_now('%a %A %b %B %c %d %D %e %F %g %G %H %I %j %k %l %m %M %n %p %P %r %R %S %t %T %u %U %V %w %W %x %X %y %Y %z %Z %% %f %-d %_d %-m %q %E %^a %#b %s') }}",
    "{% set x = namespace() %}{% set x.a = 1 %}{{ x.a }}{{ x }}", "{% for x in [] %}{% endfor %}{{ x }}", "{% set loop_messages = ms[1:] %}{{ loop_messages|length }}{{ loop_messages[0].role }}", "{{ ms[1:]|tojson }}", "{{ l[::-1]|tojson }}{{ range(3)|list|tojson }}{{ (l + l)|tojson }}{{ m.items()|list|tojson }}{{ (1,2)|tojson }}",
    "{{ u }}{{ u|length }}{{ u|list }}{{ u|join }}{{ u|tojson }}", "{{ u + 1 }}", "{{ u ~ 1 }}", "{{ u.x }}", "{{ u == n }}{{ u == u }}{{ u != 1 }}", "{{ u|upper }}|{{ u|trim }}|{{ u|string }}|{{ u|int }}|{{ u|first }}", "{{ 'a' in u }}", "{{ u < 1 }}", "{{ u() }}", "{{ u[0] }}", "{{ n.x }}", "{{ n|length }}", "{{ n|upper }}{{ n|trim }}{{ n|string }}", "{{ n + 1 }}", "{% for x in u %}x{% else %}e{% endfor %}", "{% for x in n %}x{% endfor %}", "{% for x in i %}x{% endfor %}",
    "{% if ms[0]['role'] == 'user' %}{% set off = 1 %}{% else %}{% set off = 0 %}{% endif %}{{ off }}", "{% set x = 'a' if t else 'b' %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% for m in ms %}{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}{{ m.a }}", "{% macro a(x, y=2, z=x) %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ a(1) }}{{ a(1, z=3) }}{{ a(x=5) }}{{ a.name }}{{ a.arguments }}",
    "{% macro a() %}{{ t }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ a(1, b=2) }}", "{% macro a() %}<{{ caller() }}>{% endmacro %}{% call a() %}x{{ i }}{% endcall %}", "{% macro a() %}<{{ caller(5) }}>{% endmacro %}{% call(q) a() %}x{{ q }}{% endcall %}", "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
    "{% macro a() %}{% set i = 99 %}{{ i }}{% endmacro %}{{ a() }}{{ i }}", "{% set x = 1 %}{% macro a() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ a() }}", "{% macro a() %}  x  {% endmacro %}[{{ a()|trim }}][{{ a()|length }}]{{ a() == '  x  ' }}", "{% for x in l %}{% macro q() %}{{ x }}{% endmacro %}{{ q() }}{% endfor %}", "{{ caller }}", "{% set a = [1] + [2] %}{{ a[1] }}{{ a|last }}{{ a|length }}{{ a == [1,2] }}", "{% generation %}{% set q = 5 %}{% endgeneration %}{{ q }}",
    "{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}", "{{ 5 % 3 }}{{ -5 % 3 }}{{ 5.5 % 2 }}{{ true % 2 }}{{ 5 % -3 }}", "{{ 5 % 0 }}", "{{ 5 / 0 }}", "{{ 5 // 0 }}", "{{ 10 ** 20 }}{{ 2 ** 100 }}{{ 2 ** -1 }}{{ 2 ** 0.5 }}", "{{ 9007199254740993 + 0 }}{{ 1e308 * 10 }}{{ 0.1 + 0.2 }}{{ 1/3 }}{{ 1e15 }}{{ 123456789.123 }}{{ 1e16 + 1 }}", "{{ big + 1 }}{{ big }}{{ big|tojson }}{{ big > 1 }}{{ [big] }}", "{{ huge }}{{ tiny }}{{ huge|tojson }}{{ huge ~ tiny }}{{ [huge, tiny] }}{{ huge|string }}{{ huge|int }}", "{{ 3.0 }}{{ 3.0|int }}{{ 3.7|int }}{{ '3.7'|int }}{{ '3.7'|float }}{{ 'x'|float }}{{ 3|float }}{{ 2.5|round }}{{ 3.5|round }}{{ 2.675|round(2) }}{{ 5|round }}",
    "{{ ls|sort }}{{ ls|sort(reverse=true) }}{{ ls|unique|list }}{{ ls|min }}{{ ls|max }}{{ ls|first }}{{ ls|last }}{{ ls|random is defined }}", "{{ l|sum }}{{ l|sort }}{{ l|reverse|list }}{{ l|batch(2)|list }}{{ l|slice(2)|list }}", "{{ 'a b'|wordwrap(1) }}{{ 'abcdef'|truncate(3) }}", "{{ 'x'|indent }}{{ 'x\ny'|indent(4) }}{{ 'x\n\ny'|indent(2, blank=true) }}", "{{ m|dictsort }}{{ m|items|list }}{{ m|list }}{{ m|length }}{{ m|first }}",
    "{{ m.items()|list }}{{ m.keys()|list }}{{ m.values()|list }}{{ m.items() }}", "{{ m.keys() }}{{ m.values() }}", "{% if 'a' in m %}y{% endif %}{% if 'zz' not in m %}z{% endif %}", "{{ m.items is defined }}{{ m.zz is defined }}{{ m['items'] }}{{ me['items'] is defined }}{{ me.items is defined }}{{ me.keys and 1 }}", "{% for k in m %}{{ k }}{% endfor %}", "{{ {'a': 1, 'a': 2} }}{{ {1: 2}[1] }}{{ {true: 2}[1] }}{{ {'a': 1}.a }}{{ {'items': 1}['items'] }}",
    "{{ {'a': 1}.items is defined }}{{ {'items': 1}.items is callable }}", "{{ dict(a=1, b=2) }}{{ dict({'a': 1}, b=2) }}{{ dict([('a', 1)]) }}", "{{ ''.join(['a', 'b']) }}{{ ' '.join(ms|map(attribute='role')) }}", "{{ s.replace('l', 'x').upper().strip().split('O') }}", "{{ 'a' * 3 }}{{ [1] * 2 }}{{ 'a' * -1 }}{{ 3 * 'ab' }}", "{{ [1,2][0] }}{{ [1,2].0 }}{{ 'ab'[0] }}{{ (1,2)[1] }}", "{{ l is iterable }}{{ s is iterable }}{{ i is iterable }}{{ u is iterable }}{{ n is iterable }}{{ m is iterable }}",
    "{{ namespace is defined }}{{ range is callable }}{{ cycler is defined }}{{ joiner is defined }}{{ lipsum is defined }}{{ dict is callable }}{{ raise_exception is callable }}{{ debug is defined }}", "{{ 'abc'|list }}{{ 'abc'|first }}{{ 'abc'|last }}{{ 'abc'|reverse }}{{ 'abc'|sort }}{{ 'abc'|batch(2)|list }}{{ 'a'|length }}", "{{ [none, true, 1.0, 'a']|tojson }}{{ [none, true, 1.0, 'a'] }}{{ [none, true, 1.0, 'a']|string }}{{ [none, true]|join(',') }}",
    "{{ \"it's\" }}{{ ['it\\'s'] }}{{ ['\"'] }}{{ ['\\'\"'] }}{{ ['\\\\'] }}{{ ['a\\nb\\tc\\x00'] }}", "{{ '\\u2028\\u00ad\\ufeff'|tojson }}{{ ['\\u2028\\u00ad\\ufeff\\x7f\\x85'] }}", "{{ '\\x7f'|tojson(ensure_ascii=true) }}{{ '😀'|tojson(ensure_ascii=true) }}{{ '/'|tojson }}", "{% set x = 5 %}{% set x = x + 1 %}{{ x }}", "{% if t %}{% set q = 1 %}{% endif %}{{ q }}", "{% for x in l %}{% set q = x %}{% endfor %}{{ q }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% with a=1, b=2 %}{{ a + b }}{% endwith %}", "{% filter trim|upper %}  x {% endfilter %}", "{{ i and s }}{{ z or n }}{{ n and 1 }}{{ e or 'x' }}", "{{ (i if f) is defined }}{{ (i if f)|default('q') }}", "{{ ms|length % 2 == 0 }}{{ loop.index0 % 2 }}", "{% for x in ms %}{% if (x.role == 'user') != (loop.index0 % 2 == 0) %}bad{% endif %}{% endfor %}", "{% print(1) %}", "{{ 1 if }}", "{% if %}{% endif %}", "{% endif %}", "{{ 'a }}", "{% for %}", "{% foo %}", "{{ a b }}", "{{ }}", "{% set %}", "{{ f(|) }}", "{% if t %}", "{{ x|nofilter }}", "{{ x is notest }}", "{% if f %}{{ x|nofilter }}{% endif %}", "{% if f %}{{ 1 is notest }}{% endif %}ok",
]


def systematic():
    for value in VALUES:
        yield f"{{{{ {value} }}}}"
        yield f"{{{{ [{value}] }}}}"
        for name in FILTERS:
            if name not in ("random", "urlize", "pprint", "xmlattr", "filesizeformat"):
                yield f"{{{{ ({value})|{name} }}}}"
                yield f"{{{{ ({value})|{name}|list }}}}"
        for name in TESTS:
            yield f"{{{{ {value} is {name} }}}}"
        for piece in SLICES:
            yield f"{{{{ ({value}){piece} }}}}"
        for statement in STATEMENTS:
            yield re.sub(r"\bV\b", lambda _: f"({value})", statement)
    for left, right in itertools.product(VALUES, VALUES):
        for operator in OPERATORS:
            if operator == "**" and ("big" in (left, right) or "huge" in (left, right)):
                continue
            yield f"{{{{ ({left}) {operator} ({right}) }}}}"
    for text, method in itertools.product(STRINGS, METHODS):
        yield f"{{{{ {text}.{method} }}}}"
        yield f"{{{{ [{text}.{method}] }}}}"
    for value, method in itertools.product(["m", "me", "{'a': 1}", "ms[0]"], DICT_METHODS):
        yield f"{{{{ {value}.{method} }}}}"
    for value, method in itertools.product(["l", "le", "ms", "(1, 2, 1)", "l[1:]", "[1, 1]"], LIST_METHODS):
        yield f"{{{{ {value}.{method} }}}}"
    yield from SPACES


def expression(draw, depth):
    if depth <= 0:
        return draw.choice(VALUES[:24])
    kind = draw.random()
    inner = lambda: expression(draw, depth - 1)
    if kind < 0.25:
        return f"({inner()})|{draw.choice([f for f in FILTERS if f not in ('random', 'urlize', 'pprint', 'xmlattr', 'filesizeformat')])}"
    if kind < 0.35:
        return f"({inner()}) is {draw.choice(TESTS)}"
    if kind < 0.6:
        return f"({inner()}) {draw.choice([o for o in OPERATORS if o != '**'])} ({inner()})"
    if kind < 0.7:
        return f"({inner()}).{draw.choice(METHODS + DICT_METHODS)}"
    if kind < 0.8:
        return f"({inner()}){draw.choice(SLICES)}"
    if kind < 0.9:
        return f"({inner()} if {inner()} else {inner()})"
    return f"[{inner()}, {inner()}]"


def generated(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(1, 3)):
            value = expression(draw, draw.randint(0, 2))
            parts.append(re.sub(r"\bV\b", lambda _: f"({value})", draw.choice(STATEMENTS + ["{{ V }}"] * 30)))
        yield draw.choice(["", " ", "\n", "\n  "]).join(parts)


ADDRESS = re.compile(r"object at 0x|<generator|<bound method|built-in method|<function|<class|dict_keys|dict_values|dict_items|<jinja2|<Cycler|range\(|<LoopContext|<Macro|Markup\(|TemplateReference|<Namespace|Undefined")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("renderer")
    arguments.add_argument("--random", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--max", type=int, default=200)
    arguments.add_argument("--out", help="write the rows that differ, one JSON object a line")
    arguments = arguments.parse_args()
    templates = generated(arguments.random, arguments.seed) if arguments.random else systematic()
    rows = [{"template": template, "context": CONTEXT} for template in dict.fromkeys(templates)]
    given = subprocess.run([arguments.renderer], input="\n".join(json.dumps(row) for row in rows) + "\n", capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in given.stdout.split("\n") if line]
    assert len(answers) == len(rows), (len(answers), len(rows), given.stderr[-2000:])
    kinds = {"same": 0, "both fail": 0, "an address": 0, "differ": 0, "we fail": 0, "only we render": 0}
    out = open(arguments.out, "w") if arguments.out else None
    shown = 0
    for row, ours in zip(rows, answers):
        theirs = reference(row)
        if "ok" in theirs and theirs.get("ok") == ours.get("ok"):
            kinds["same"] += 1
            continue
        if "error" in theirs and "error" in ours:
            kinds["both fail"] += 1
            continue
        if ADDRESS.search(theirs.get("ok", "")):
            kinds["an address"] += 1
            continue
        kind = "differ" if "ok" in theirs and "ok" in ours else "we fail" if "ok" in theirs else "only we render"
        kinds[kind] += 1
        line = json.dumps({"kind": kind, "template": row["template"], "theirs": theirs, "ours": ours}, ensure_ascii=False)
        if out:
            out.write(line + "\n")
        elif shown < arguments.max:
            shown += 1
            print(line)
    print(len(rows), kinds)


if __name__ == "__main__":
    sys.exit(main())
