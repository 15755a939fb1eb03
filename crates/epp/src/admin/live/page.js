// The live page. Texts of clients and engines go into it as text nodes only: nothing that they say is ever read as HTML.
'use strict';

const byId = (id) => document.getElementById(id);

/** An element with a class, and children: texts or elements; absent ones are left out. */
function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const UNKNOWN = '–';
const number = (value, digits = 0) => value === null || value === undefined
  ? UNKNOWN : value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
const share = (value) => value === null || value === undefined ? UNKNOWN : `${Math.round(value * 100)}%`;
const known = (value) => value !== null && value !== undefined;

function time(ms) {
  if (!known(ms)) return UNKNOWN;
  if (ms < 9950) return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  return ms < 120000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60000)} min`;
}

/** Replaces what an element shows, if it changes. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Has the children of `before` say what those of `after` say; those that say it already stay, and selection and focus with them. */
function renew(before, after) {
  after.forEach((child, at) => {
    const old = before.children[at];
    if (!old) before.append(child);
    else if (!old.isEqualNode(child)) old.replaceWith(child);
  });
  while (before.children.length > after.length) before.lastElementChild.remove();
}

/** One row for each item, in their order; an item's row stays the same one. */
function fill(body, items, keyOf, cellsOf) {
  const before = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const rows = items.map((item) => {
    const key = keyOf(item);
    const row = before.get(key) ?? document.createElement('tr');
    before.delete(key);
    row.dataset.key = key;
    renew(row, cellsOf(item));
    return row;
  });
  const kept = new Set(rows);
  [...body.children].forEach((row) => kept.has(row) || row.remove());
  rows.forEach((row, at) => {
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] ?? null);
  });
}

// --- The last minutes

const SVG = 'http://www.w3.org/2000/svg';

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Lines over the last minutes; what isn't known leaves a gap. The first one has its area filled. */
function sparkline(series, label) {
  const svg = shape('svg', { viewBox: '0 0 240 48', preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  const top = Math.max(...series.flat().filter(known), 1e-9);
  const x = (at, all) => (at / (all.length - 1)) * 240;
  const y = (value) => 47 - (value / top) * 44;
  svg.append(shape('line', { class: 'base', x1: 0, x2: 240, y1: 47.5, y2: 47.5 }));
  series.forEach((values, which) => {
    let run = [];
    const end = () => {
      if (run.length === 0) return;
      // A single point is a short dash.
      if (run.length === 1) run.push([run[0][0] + 1.5, run[0][1]]);
      const points = run.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(' ');
      if (which === 0) {
        const area = `${run[0][0].toFixed(1)},47 ${points} ${run[run.length - 1][0].toFixed(1)},47`;
        svg.append(shape('polygon', { class: 'area', points: area }));
      }
      svg.append(shape('polyline', { class: which === 0 ? 'line' : 'line second', points }));
      run = [];
    };
    values.forEach((value, at) => (known(value) ? run.push([x(at, values), y(value)]) : end()));
    end();
  });
  return svg;
}

function card(title, figure, unit, svg, least, most) {
  return make('li', '', make('h3', '', title), make('p', '', figure, ' ', make('small', '', unit)), svg,
    make('div', 'axis', make('span', '', least), make('span', '', most)));
}

function minutes(state) {
  const { step_ms: step, steps } = state.minutes;
  const last = state.last_minute;
  const of = (name) => steps.map((one) => one[name]);
  const rates = of('requests').map((count) => count / (step / 1000));
  const peak = (values) => Math.max(0, ...values.filter(known));
  const reused = of('reused');
  const [p50, p95] = [of('ttft_p50_ms'), of('ttft_p95_ms')];
  const failed = last.failed > 0 ? `${number(last.failed)} failed` : 'none failed';
  renew(byId('minutes'), [
    card('Requests', number(last.requests / 60, 1), `a second, ${failed}`,
      sparkline([rates], `Requests a second over ten minutes: at most ${number(peak(rates), 1)}`),
      '10 minutes ago', `peak ${number(peak(rates), 1)}/s`),
    card('Prompt tokens reused', share(last.reused), 'in the last minute',
      sparkline([reused], `Share of prompt tokens reused over ten minutes: at most ${share(peak(reused))}`),
      '10 minutes ago', `peak ${share(peak(reused))}`),
    card('Time to first token', time(last.ttft_p50_ms), `p50, ${time(last.ttft_p95_ms)} p95 (dashed)`,
      sparkline([p50, p95], `Time to first token over ten minutes: p95 at most ${time(peak(p95))}`),
      '10 minutes ago', `peak ${time(peak(p95))}`),
  ]);
}

// --- Endpoints

const STATES = {
  fresh: ['ready', 'good', 'Its metrics were read lately'],
  stale: ['stale', 'warn', 'Its metrics were read too long ago: used where no fresher one is left'],
  unread: ['unread', 'warn', 'Its metrics were not read yet: used where no other is left'],
  failed: ['failing', 'bad', 'Its metrics can’t be read: used where no other is left'],
};

function badge(standing) {
  const [word, colour, title] = STATES[standing] ?? [standing, '', ''];
  const element = make('span', `badge ${colour}`, word);
  element.title = title;
  return element;
}

function gauge(value, bounds, label) {
  if (!known(value)) return UNKNOWN;
  const meter = document.createElement('meter');
  Object.assign(meter, bounds, { value });
  meter.setAttribute('aria-label', label);
  return make('span', '', meter, share(value));
}

function endpointCells(row) {
  const name = make('th', '', row.name, make('small', '', row.address));
  name.scope = 'row';
  return [
    name,
    make('td', '', badge(row.standing)),
    make('td', 'n', number(row.waiting)),
    make('td', 'n', number(row.running)),
    make('td', '', gauge(row.kv_usage, { min: 0, max: 1, low: 0.8, high: 0.95, optimum: 0 }, 'KV use')),
    make('td', 'n', number(row.in_flight)),
    make('td', 'n', number(row.blocks_held)),
    make('td', '', gauge(row.share, { min: 0, max: 1 }, 'Share of picks')),
    make('td', 'n', time(row.reading_age_ms)),
  ];
}

// --- Decisions

/** An endpoint that was to choose from, as children of an element. */
function candidate(one) {
  if (!one) return [make('span', 'quiet', UNKNOWN)];
  const parts = one.parts.map((part) => `${part.scorer} ${number(part.score * part.weight, 2)}${part.known ? '' : '?'}`);
  const standing = one.standing === 'fresh' ? null : badge(one.standing);
  return [one.endpoint, ' ', make('strong', '', number(one.total, 2)), ' ', standing,
    make('small', '', parts.join(' + ') || (one.set_aside ? 'set aside' : ''))];
}

/** Those neither chosen nor the runner-up, where they are known. */
function others(list) {
  if (!list || list.length === 0) return null;
  const items = list.map((one) => make('li', '', ...candidate(one)));
  return make('details', '', make('summary', '', `${list.length} more`), make('ul', '', ...items));
}

function outcome(decision) {
  const { outcome: end, chosen } = decision;
  if (!end) return make('td', '', 'under way');
  const word = known(end.status) ? String(end.status) : 'no answer';
  const good = end.status >= 200 && end.status < 300 && end.ended === 'complete';
  const elsewhere = end.served && chosen && end.served !== chosen.address ? `served by ${end.served}` : null;
  const rest = [end.ended === 'complete' ? time(end.took_ms) : `${end.ended} after ${time(end.took_ms)}`];
  return make('td', 'wrap', make('span', `badge ${good ? 'good' : 'bad'}`, word), ' ', rest.join(' '),
    elsewhere && make('small', 'notes', elsewhere),
    decision.notes.length > 0 ? make('small', 'notes', decision.notes.join(', ')) : null);
}

function decisionCells(one) {
  const at = new Date(one.decided_at_unix_ms);
  const clock = document.createElement('time');
  clock.dateTime = at.toISOString();
  clock.append(at.toLocaleTimeString('en-GB'));
  const id = make('th', 'wrap', make('span', 'id', one.request_id), make('small', '', one.model));
  id.scope = 'row';
  const end = one.outcome ?? {};
  const all = known(end.prompt_tokens) ? end.prompt_tokens : one.prompt_tokens;
  const actual = known(end.cached_tokens) ? share(all > 0 ? end.cached_tokens / all : 0) : UNKNOWN;
  const predicted = known(one.predicted_cached_tokens) && one.prompt_tokens > 0
    ? share(one.predicted_cached_tokens / one.prompt_tokens) : UNKNOWN;
  return [
    make('td', '', clock),
    id,
    make('td', 'n', number(one.prompt_tokens), make('small', '', one.estimated ? 'estimated' : 'tokens')),
    make('td', 'parts', ...candidate(one.chosen)),
    make('td', 'parts', ...candidate(one.runner_up), others(one.others)),
    make('td', 'n', actual, make('small', '', `${predicted} foretold`)),
    make('td', 'n', time(end.ttft_ms)),
    outcome(one),
  ];
}

/** A whole record, as the search gives it, in the form of the state's decisions. */
function fromRecord(record) {
  const [chosen, second, ...others] = record.candidates;
  return {
    ...record,
    model: record.asked.model,
    prompt_tokens: record.asked.prompt_tokens,
    estimated: record.asked.estimated,
    chosen,
    runner_up: second && !second.set_aside ? second : null,
    others: second && second.set_aside ? [second, ...others] : others,
  };
}

function decisions(list, none) {
  fill(byId('decisions'), list, (one) => `${one.decided_at_unix_ms} ${one.request_id}`, decisionCells);
  byId('no-decisions').hidden = list.length > 0;
  say(byId('no-decisions'), none);
}

// --- What happens

let token = null;
let reading = null;
let searching = false;

function connected(word, colour) {
  say(byId('status'), word);
  byId('dot').className = colour;
}

function show(state) {
  document.title = `Warmpath ${state.pool}`;
  say(byId('pool'), state.pool);
  say(byId('version'), state.version);
  byId('load-only').hidden = !state.load_only;
  minutes(state);
  const ready = state.endpoints.filter((row) => row.standing === 'fresh').length;
  say(byId('endpoints-count'), `${ready} of ${state.endpoints.length} ready`);
  byId('no-endpoints').hidden = state.endpoints.length > 0;
  fill(byId('rows'), state.endpoints, (row) => `${row.namespace}/${row.name} ${row.address}`, endpointCells);
  const lost = state.lost > 0 ? `, ${number(state.lost)} came too fast to be kept` : '';
  say(byId('kept'), `${number(state.kept)} kept${lost}`);
  if (!searching) decisions(state.decisions, 'No request has ended yet.');
}

/** Asks the picker, by the token if there is one: which an EventSource couldn’t show. */
function ask(path, signal) {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  return fetch(path, { headers, signal });
}

/** Shows each state of the stream until it ends. */
async function read(signal) {
  const reply = await ask('/live/events', signal);
  if (!reply.ok) {
    const said = (await reply.text()).trim() || `The answer is ${reply.status}`;
    const unknown = token === null ? 'A token is needed' : 'That token isn’t known';
    if (reply.status === 401 || (reply.status === 403 && token !== null)) enter();
    throw new Error(reply.status === 401 ? unknown : said);
  }
  byId('door').hidden = true;
  const texts = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { done, value } = await texts.read();
    if (done) return;
    const events = (text + value).split('\n\n');
    text = events.pop();
    const last = events.pop();
    if (last === undefined) continue;
    show(JSON.parse(last.slice('data: '.length)));
    connected('Live', 'on');
  }
}

/** Reads the stream, again and again, until told to stop. */
async function keepReading() {
  const mine = new AbortController();
  reading = mine;
  while (!mine.signal.aborted) {
    let wait = 1000;
    try {
      await read(mine.signal);
    } catch (error) {
      if (mine.signal.aborted) return;
      wait = 3000;
      connected(error instanceof TypeError ? 'No connection: trying again' : error.message, 'off');
      if (!byId('door').hidden) return;
    }
    await new Promise((over) => { setTimeout(over, wait); });
  }
}

function enter() {
  token = null;
  byId('door').hidden = false;
  byId('token').focus();
}

byId('door').addEventListener('submit', (event) => {
  event.preventDefault();
  token = byId('token').value.trim();
  byId('token').value = '';
  byId('door').hidden = true;
  reading.abort();
  keepReading();
});

byId('pause').addEventListener('click', () => {
  const pauses = !reading.signal.aborted;
  byId('pause').setAttribute('aria-pressed', String(pauses));
  reading.abort();
  if (pauses) connected('Paused', '');
  else keepReading();
});

// The choice is of this browser; where it keeps nothing, of this page.
function paint(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

byId('theme').addEventListener('change', () => {
  paint(byId('theme').value);
  try { localStorage.setItem('theme', byId('theme').value); } catch { /* It keeps nothing. */ }
});

try { byId('theme').value = localStorage.getItem('theme') ?? ''; } catch { /* It keeps nothing. */ }
paint(byId('theme').value);

byId('search').addEventListener('submit', async (event) => {
  event.preventDefault();
  const id = byId('id').value.trim();
  if (id === '') {
    byId('clear').click();
    return;
  }
  searching = true;
  byId('clear').hidden = false;
  const reply = await ask(`/live/decisions?id=${encodeURIComponent(id)}`).catch(() => null);
  const found = reply && reply.ok ? await reply.json() : null;
  say(byId('found'), found ? `${found.length} found` : 'The picker can’t be asked');
  decisions((found ?? []).map(fromRecord), 'None that is kept has an id with that in it.');
});

byId('clear').addEventListener('click', () => {
  searching = false;
  byId('clear').hidden = true;
  byId('id').value = '';
  say(byId('found'), '');
  byId('id').focus();
});

keepReading();
