/* Tables that can be sorted by any column, with bars behind the numbers: kernels, weights, passes. */

class Table {
  /* columns: {title, value(row), show(value, row), bar, left, width, about}; hover(row or null), click(row) */
  constructor(host, columns, { hover, click, height = 26 }) {
    Object.assign(this, { host, columns, all: [], rows: [], column: -1, down: false });
    this.head = element('div', 'head');
    this.head.setAttribute('role', 'row');
    this.body = element('div', 'list body');
    this.foot = element('div', 'foot');
    this.body.tabIndex = 0;
    columns.forEach((c, i) => this.addTitle(c, i));
    const inner = element('div', 'table');
    inner.style.setProperty('--columns', columns.map(c => c.width).join(' '));
    inner.setAttribute('role', 'table');
    inner.append(this.head, this.body, this.foot);
    host.append(inner);
    new ResizeObserver(() => this.fit()).observe(this.body);
    this.list = new VirtualList(this.body, height, (i, row) => this.render(i, row),
                                (i, row) => row.classList.toggle('found', !!this.found && this.found.has(this.rows[i])));
    this.list.listen(i => hover && hover(i >= 0 ? this.rows[i] : null), i => click && click(this.rows[i]));
  }

  addTitle(c, i) {
    const cell = element('div', c.left ? 'left' : '');
    const button = element('button', '', c.title);
    if (c.about) button.title = c.about;
    cell.setAttribute('role', 'columnheader');
    button.addEventListener('click', () => this.sort(i));
    cell.append(button);
    this.head.append(cell);
  }

  /* The scrollbar takes room of the rows alone, if it takes any: titles and sums leave as much. */
  fit() {
    this.body.parentNode.style.setProperty('--scrollbar', this.body.offsetWidth - this.body.clientWidth + 'px');
  }

  set(rows) {
    this.fit();
    this.all = rows;
    this.most = this.columns.map(c => c.bar ? Math.max(...rows.map(r => c.value(r)), 0) : 0);
    this.order();
  }

  /* Numbers begin with the largest, words with the first; once more: the other way; then as it was. */
  sort(i) {
    const words = this.columns[i].left;
    if (this.column !== i) this.column = i, this.down = !words;
    else if (this.down === !words) this.down = words;
    else this.column = -1;
    this.order();
    this.body.scrollTop = 0;
  }

  order() {
    const c = this.columns[this.column];
    this.rows = this.all.slice();
    if (c) {
      const sign = this.down ? -1 : 1;
      this.rows.sort((a, b) => {
        const x = c.value(a), y = c.value(b);
        return sign * (typeof x === 'string' ? x.localeCompare(y) : x - y);
      });
    }
    [...this.head.children].forEach((cell, i) => {
      const sorted = i === this.column;
      cell.setAttribute('aria-sort', sorted ? (this.down ? 'descending' : 'ascending') : 'none');
    });
    this.list.reset(this.rows.length);
  }

  render(i, row) {
    const r = this.rows[i];
    row.setAttribute('role', 'row');
    this.columns.forEach((c, k) => {
      const value = c.value(r), cell = element('div', c.left ? 'left' : '');
      cell.setAttribute('role', 'cell');
      if (c.bar && this.most[k] > 0) {
        const bar = element('i', 'bar ' + c.bar);
        bar.style.width = Math.max(value > 0 ? 1 : 0, 100 * value / this.most[k]) + '%';
        cell.append(bar);
      }
      const shown = c.show ? c.show(value, r) : String(value);
      cell.append(shown instanceof Node ? shown : element('span', c.className || '', shown));
      if (typeof shown === 'string' && c.left) cell.title = shown;
      row.append(cell);
    });
  }

  find(text) {
    const wanted = text.toLowerCase();
    this.found = new Set(!wanted ? [] : this.rows.filter(r =>
      this.columns.some(c => String((c.words || c.value)(r)).toLowerCase().includes(wanted))));
    const first = this.rows.findIndex(r => this.found.has(r));
    if (first >= 0) this.list.reveal(first);
    this.list.refresh();
    return this.found.size;
  }
}

/* ---- kernels ---- */

/* How often a kernel's result is there, a type's first word, is left to the IR and the tooltip: the shape has
 * the room. */
const shapeOf = size => size.replace(/^(?:always|step) /, '');

function opCell(r) {
  const cell = titled(element('span'), r.op);
  cell.append(element('span', 'id', '%' + r.id + ' '), element('span', 'call', r.op));
  return cell;
}

function kernelTable(page) {
  const from = r => r.line && r.line.span ? baseName(r.line.span.path) + ':' + r.line.span.line : '';
  const table = new Table($('view-kernels'), [
    { title: 'phase', value: r => r.phase, width: '40px', about: 'threads wait for each other between phases' },
    { title: 'op', value: r => r.id, show: (v, r) => opCell(r), words: r => r.op, left: true, width: 'minmax(124px, 1.5fr)' },
    { title: 'size', value: r => r.size, show: (v, r) => titled(element('span', 'type', shapeOf(r.size)), r.size), left: true, width: 'minmax(106px, 1fr)' },
    { title: 'from', value: from, left: true, width: 'minmax(101px, .9fr)' },
    { title: 'made as', value: r => r.made, left: true, width: '58px', about: 'loop; products: tile, library, narrow' },
    { title: 'FLOPs', value: r => r.flops, show: showFlops, bar: 'flops', width: 'minmax(78px, .7fr)' },
    { title: 'bytes', value: r => r.bytes, show: showBytes, bar: 'bytes', width: 'minmax(68px, .7fr)' },
    { title: 'FLOP/B', value: r => r.bytes ? r.flops / r.bytes : 0, show: v => v.toFixed(1), width: '50px', about: 'intensity: FLOPs a byte' },
    { title: 'time', value: r => r.us, show: showTime, bar: 'time', width: '62px', about: 'predicted, on one thread: ' + page.data.rates.source },
  ], { hover: r => page.hoverKernel(r), click: r => r.line && page.goTo(r.line) });
  table.host.append(element('p', 'note'));
  return table;
}

function showKernels(page, table, func) {
  const state = page.last();
  const at = state.funcs.find(f => f.name === func.name);
  const rows = func.kernels.map(([id, phase, domain, made, flops, bytes, us, op, size, place]) => (
    { id, phase, domain, made, flops, bytes, us, op, size, place, line: at.byId.get(id) }));
  table.set(rows);
  const sum = key => rows.reduce((n, r) => n + r[key], 0);
  const phases = rows.reduce((n, r) => Math.max(n, r.phase + 1), 0);
  table.foot.replaceChildren();
  const cells = ['', `${rows.length} kernels in ${phases} phases`, '', '', '', showFlops(sum('flops')), showBytes(sum('bytes')),
                 sum('bytes') ? (sum('flops') / sum('bytes')).toFixed(1) : '', showTime(sum('us'))];
  cells.forEach((text, i) => table.foot.append(element('div', table.columns[i].left ? 'left' : '', text)));
  table.host.lastChild.textContent = page.assumptions();
}

/* ---- weights ---- */

function weightTable(page) {
  const table = new Table($('view-weights'), [
    { title: 'weight', value: r => r.name, left: true, width: 'minmax(150px, 2fr)', className: 'string' },
    { title: 'shape', value: r => r.values, show: (v, r) => r.shape, width: 'minmax(84px, .6fr)', about: 'sorted by the number of values' },
    { title: 'kind', value: r => r.kind, left: true, width: '86px' },
    { title: 'initial', value: r => r.init, left: true, width: '122px' },
    { title: 'optimizer', value: r => r.optimizer, left: true, width: '70px' },
    { title: 'bytes', value: r => r.bytes, show: showBytes, bar: 'bytes', width: 'minmax(64px, .5fr)' },
    { title: 'slots', value: r => r.slots, show: showBytes, bar: 'time', width: 'minmax(64px, .5fr)', about: 'what the optimizer keeps for it' },
  ], { hover: r => page.hoverWeight(r), click: r => r.line && page.goTo(r.line) });
  const heads = new Map();
  for (const line of page.last().lines) {
    const m = /^weight (?:"((?:[^"\\]|\\.)*)"|(\S+))/.exec(line.text);
    if (m) heads.set(m[1] ?? m[2], line);
  }
  const rows = page.data.weights.map(([name, shape, kind, init, optimizer, bytes, slots]) => (
    { name, shape, kind, init, optimizer, bytes, slots, values: shape.split('×').reduce((n, x) => n * x, 1), line: heads.get(name) }));
  table.set(rows);
  const sum = (key, tables) => rows.filter(r => tables === r.kind.endsWith('table')).reduce((n, r) => n + r[key], 0);
  const all = key => sum(key, true) + sum(key, false);
  ['all', showCount(all('values')), `${showCount(sum('values', true))} of them in tables`, '', '', showBytes(all('bytes')), showBytes(all('slots'))]
    .forEach((text, i) => table.foot.append(element('div', table.columns[i].left ? 'left' : '', text)));
  table.host.append(element('p', 'note', 'A table\'s bytes are those of all its rows. Of a sparse one only the rows that the data meets are kept, ' +
    'here and in the checkpoint.'));
  return table;
}

/* ---- passes ---- */

/* "142 → 118 ops", and below it how much that is. */
function beforeAfter(before, after, show) {
  const cell = element('span', 'pair'), now = show(after), unit = x => x.split(' ')[1];
  let was = before === undefined ? '' : show(before);
  if (was && unit(was) === unit(now)) was = was.split(' ')[0];
  cell.append(element('span', '', was && was !== now.split(' ')[0] ? `${was} → ${now}` : now));
  const share = before ? (after - before) / before : 0;
  const told = Math.abs(share) < 0.0005 ? '' : share > 9 ? `× ${showCount(after / before)}` : (share > 0 ? '+' : '−') + Math.abs(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0) + ' %';
  cell.append(element('span', 'share ' + (share < 0 ? 'saved' : ''), told));
  return cell;
}

function twoLines(first, second) {
  const cell = element('span', 'two');
  cell.append(element('b', '', first), element('span', 'meaning', second));
  cell.title = first;
  return cell;
}

/* Of an effect, what the other columns don't say: its words, and what was planned. */
function wordsOf(effect) {
  const [, words, plan] = /^(.*?;)? ?func .* MB(?: as before)?,? ?(.*)$/.exec(effect) || ['', effect];
  return [words && words.replace(/;$/, ''), plan].filter(x => x).join('; ');
}

/* Its own words, or what it is for. */
function did(r) {
  return titled(element('span', 'did' + (r.did ? '' : ' meaning'), r.did || r.meaning), r.did ? `${r.meaning}: ${r.did}` : r.meaning);
}

function passTable(page) {
  const rows = page.data.states.map((state, i) => {
    const [, ops, flops, bytes] = page.work(i), was = i ? page.work(i - 1) : [];
    return { i, name: state.pass || page.firstName(), kind: state.kind || '', meaning: state.meaning || 'before the first pass',
             did: wordsOf(state.effect || ''), ops, flops, bytes, was: { ops: was[1], flops: was[2], bytes: was[3] } };
  });
  const pair = (key, show) => (v, r) => beforeAfter(r.was[key], v, show);
  const table = new Table($('view-passes'), [
    { title: 'pass', value: r => r.i, show: (v, r) => twoLines(r.name, r.kind), words: r => r.name + ' ' + r.kind, left: true, width: 'minmax(160px, .7fr)' },
    { title: 'ops', value: r => r.ops, show: pair('ops', showCount), width: '84px' },
    { title: 'FLOPs', value: r => r.flops, show: pair('flops', showFlops), width: '146px' },
    { title: 'bytes', value: r => r.bytes, show: pair('bytes', showBytes), width: '146px' },
    { title: 'what it did', value: r => r.did || r.meaning, show: (v, r) => did(r), left: true, width: 'minmax(170px, 1fr)' },
  ], { click: r => (page.goToState(r.i), page.tab('ir')), height: 54 });
  table.set(rows);
  table.host.append(element('p', 'note', 'Of a step of func model, and from differentiate on of func train, which has the gradients ' +
    'and updates too. ' + page.assumptions()));
  return table;
}
