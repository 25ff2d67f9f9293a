/* The page: which state, which view, which op; and what hovering, clicking and keys do. */

/* Long words may be parted, with a hyphen, where a tick has little room. */
const mayBreak = name => name.replace(/[a-z]{12,}/g, word => word.slice(0, 6) + '\u00ad' + word.slice(6));

class Page {
  constructor(data) {
    this.data = data;
    this.read = []; // states, read when first shown
    this.changes = [];
    this.at = -1;
    this.pinned = null;
    this.source = new SourcePane(data, line => this.hoverSource(line));
    this.ir = new IrView(this);
    this.showHeader();
    this.makeTicks();
    this.makeFuncs();
    this.listen();
    this.tab('ir');
    this.goToState(data.states.length - 1);
    this.showFunc();
  }

  /* ---- the data ---- */

  state(i) {
    return this.read[i] ||= readState(this.data.states[i].text);
  }
  last() {
    return this.state(this.data.states.length - 1);
  }
  change(i) {
    return this.changes[i] ||= compareStates(i ? this.state(i - 1) : null, this.state(i));
  }
  /* [name, ops, FLOPs, bytes] of the function that trains, in whatever state */
  work(i) {
    const funcs = this.data.states[i].funcs;
    return funcs.find(f => f[0] === 'train') || funcs.find(f => f[0] === 'model') || funcs[0] || ['', 0, 0, 0];
  }
  firstName() {
    return this.data.files.length ? 'frontend' : 'as read';
  }
  assumptions() {
    const { batch, lists, rates } = this.data;
    const told = lists.filter(x => x[2]).map(([name, n]) => `${n} for ~${name}, its maximum`);
    const guessed = lists.find(x => !x[2]);
    if (guessed) told.push(`${guessed[1]} for a list that declares none`);
    return `Work is that of a whole batch of ${showCount(batch)} rows, each with a row of its own in each table` +
      (lists.length ? `; positions a row: ${told.join('; ')}` : '') + '. ' +
      `Times are on one thread: arithmetic or bytes, whichever takes longer, at ${(rates.flops / 1e9).toFixed(0)} GFLOP/s, ` +
      `${(rates.cache / 1e9).toFixed(0)} GB/s in cache and ${(rates.memory / 1e9).toFixed(0)} GB/s in memory, ${rates.source}.`;
  }

  /* ---- head ---- */

  showHeader() {
    const { data } = this, i = data.states.length - 1, [, ops, flops] = this.work(i);
    const train = data.funcs.find(f => f.name === 'train') || data.funcs[0];
    const sum = (list, at) => list.reduce((n, x) => n + x[at], 0);
    document.title = `${data.model || 'model'} · ctrc`;
    $('model').textContent = data.model || 'model';
    const facts = [['rows a step', showCount(data.batch)], ['kernels', showCount(ops)], ['work a step', showFlops(flops)]];
    if (train) facts.push(['predicted', showTime(sum(train.kernels, 6))]);
    if (train && train.arenas.length) facts.push(['arena', showBytes(train.arenas[0].size)]);
    facts.push(['weights, slots', showBytes(sum(data.weights, 5) + sum(data.weights, 6))], ['made for', data.cpu], ['ctrc', data.ctrc]);
    for (const [name, value] of facts) {
      const one = element('div');
      one.append(element('dt', '', name), element('dd', '', value));
      $('facts').append(one);
    }
  }

  makeTicks() {
    const { states } = this.data, slider = $('slider');
    slider.max = states.length - 1;
    $('passes').style.setProperty('--ticks', states.length);
    states.forEach((s, i) => {
      const button = element('button', '', ''), ops = this.work(i)[1], was = i ? this.work(i - 1)[1] : ops;
      const same = / as before$/.test(s.effect || '') ? 'no change' : '';
      const told = i === 0 ? `${ops} ops` : ops === was ? same : `${ops > was ? '+' : '−'}${Math.abs(ops - was)} ops`;
      button.append(element('span', 'name', mayBreak(s.pass || this.firstName())), element('span', 'delta', told));
      button.title = s.pass ? `${s.pass}: ${s.meaning} (${s.kind})` : 'before the first pass';
      button.tabIndex = -1; // the slider is the keyboard's way
      button.addEventListener('click', () => this.goToState(i));
      const item = element('li');
      item.append(button);
      $('ticks').append(item);
    });
  }

  makeFuncs() {
    for (const f of this.data.funcs) $('func').append(new Option('func ' + f.name, f.name));
    $('func').addEventListener('change', () => this.showFunc());
  }

  /* ---- states and views ---- */

  goToState(i) {
    i = Math.max(0, Math.min(this.data.states.length - 1, i));
    if (i === this.at) return;
    const old = this.ir.chosen, scroll = this.ir.list.host.scrollTop;
    this.at = i;
    $('slider').value = i;
    $('slider').setAttribute('aria-valuetext', this.data.states[i].pass || this.firstName());
    [...$('ticks').children].forEach((item, k) => item.classList.toggle('on', k === i));
    this.pinned = null;
    this.ir.show(this.state(i), this.change(i), $('only').checked);
    this.highlight(null);
    const heir = old && this.heirOf(old);
    if (heir) this.ir.reveal(heir);
    else this.ir.list.host.scrollTop = scroll, this.ir.list.update();
    this.find(false);
  }

  /* The line of the new state that most resembles one of another. */
  heirOf(old) {
    return this.state(this.at).lines.find(x => x.kind === old.kind && x.op === old.op && x.what === old.what && x.func?.name === old.func?.name);
  }

  tab(name) {
    this.view = name;
    for (const button of $('tabs').children) {
      const on = button.id === 'tab-' + name;
      button.setAttribute('aria-selected', on);
      button.tabIndex = on ? 0 : -1;
      $('view-' + button.id.slice(4)).hidden = !on;
    }
    $('func-label').hidden = name === 'weights' || name === 'passes';
    $('only-label').hidden = name !== 'ir';
    $('find').hidden = name === 'memory';
    if (name === 'kernels') this.kernels ||= kernelTable(this);
    if (name === 'memory') this.memory ||= new MemoryView(this);
    if (name === 'weights') this.weights ||= weightTable(this);
    if (name === 'passes') this.passes ||= passTable(this);
    if (name !== 'ir') this.showFunc();
    this.unhover();
    this.find(false);
  }

  /* In the IR the function is a place to go to, elsewhere what is shown. */
  showFunc() {
    const name = $('func').value, func = this.data.funcs.find(f => f.name === name);
    if (this.view === 'ir') {
      const at = this.state(this.at).funcs.find(f => f.name === name) || this.state(this.at).funcs[0];
      const row = at && this.ir.rowOf.get(this.state(this.at).lines[at.first]);
      if (row !== undefined) this.ir.list.host.scrollTop = row * 18, this.ir.list.update();
    } else if (this.view === 'kernels' && func && this.kernels.func !== func) {
      this.kernels.func = func;
      showKernels(this, this.kernels, func);
    } else if (this.view === 'memory' && func && this.memory.func !== func) {
      this.memory.show(func);
    }
  }

  /* An op of the last state, in the IR. */
  goTo(line) {
    this.tab('ir');
    this.goToState(this.data.states.length - 1);
    this.pinned = null;
    this.pin(line);
    this.ir.reveal(line);
  }

  find(forward) {
    const text = $('find').value;
    const table = { kernels: this.kernels, weights: this.weights, passes: this.passes }[this.view];
    const hits = table ? table.find(text) : this.view === 'ir' ? this.ir.find(text, forward) : 0;
    $('find').classList.toggle('nothing', !!text && !hits);
    return hits;
  }

  /* ---- one op ---- */

  highlight(line, scroll) {
    const ancestors = line && line.kind === 'node' ? ancestorsOf(line) : new Set();
    this.ir.highlight(line, ancestors, new Set());
    const spans = [...ancestors].map(a => a.span).filter(s => s && (!line.span || s.path !== line.span.path || s.line !== line.span.line));
    this.source.show(line && line.span, spans, scroll !== false);
    if (line) this.tell(line, ancestors.size);
    else this.tellState();
  }

  hover(line) {
    if (this.pinned || line === this.ir.chosen) return;
    this.highlight(line && (line.kind === 'node' || line.span) ? line : null);
  }
  unhover() {
    if (this.pinned) this.highlight(this.pinned, false);
    else if (this.at >= 0) this.highlight(null);
  }
  pin(line) {
    this.pinned = this.pinned === line || line.kind === 'end' ? null : line;
    this.highlight(this.pinned || line);
  }

  hoverSource(at) {
    if (this.pinned) return;
    if (!at) return this.highlight(null);
    const related = new Set(this.state(this.at).lines.filter(x => x.span && x.span.path === at.path &&
      x.span.line <= at.number && at.number <= x.span.endLine));
    this.ir.highlight(null, new Set(), related);
    this.source.show(null, [{ path: at.path, line: at.number, endLine: at.number }], false);
    const first = related.values().next().value;
    this.about([['b', `${baseName(at.path)}:${at.number}`], ['', `${counted(related.size, 'line')} of the IR come${related.size === 1 ? 's' : ''} from here`]]);
    if (first && this.view === 'ir' && ![...related].some(x => this.ir.rowOf.has(x) && this.ir.list.isInView(this.ir.rowOf.get(x))))
      this.ir.reveal([...related].find(x => x.kind === 'node') || first);
  }

  hoverKernel(r) {
    if (!r) return this.unhover();
    this.source.show(r.line && r.line.span, [], true);
    const why = this.data.reasons[r.made];
    this.about([['b', `%${r.id} ${r.op}`], ['', r.line ? r.line.name : ''], ['', `${r.domain}, at ${r.place}`], ['', why ? `${r.made}: ${why}` : '']]);
  }
  hoverWeight(r) {
    if (!r) return this.unhover();
    this.source.show(r.line && r.line.span, [], true);
    this.about([['b', r.name], ['', r.shape], ['', r.kind], ['', `${showBytes(r.bytes)} and ${showBytes(r.slots)} of slots`]]);
  }
  hoverBuffer(b) {
    if (!b) return this.unhover();
    this.source.show(b.line && b.line.span, [], true);
    const type = b.line && / : ([^@#"]+)/.exec(b.line.what);
    this.about([['b', b.line ? `%${b.line.id} ${b.line.op}` : ''], ['', b.line ? b.line.name : ''], ['', type ? type[1].trim() : ''],
      ['', `${b.unit}s ${b.first} to ${b.last}`],
      ['', `${showBytes(b.bytes)} at ${showCount(b.offset)}${b.perBlock ? ', the rows of one block' : ''}`]]);
  }

  /* ---- the line below ---- */

  about(pieces) {
    $('about').replaceChildren(...pieces.filter(p => p[1]).map(([tag, text]) => titled(element(tag || 'span', '', text), text)));
  }
  tell(line, ancestors) {
    const span = line.span;
    const from = span ? `${baseName(span.path)}:${span.line}:${span.col}` : '';
    if (line.kind !== 'node') return this.about([['b', line.text.split(' ', 2).join(' ')], ['', from]]);
    this.about([['b', `%${line.id} ${line.op}`], ['', line.name], ['', from], ['', counted(ancestors, 'ancestor')],
      ['', this.pinned ? 'pinned; Esc lets go' : '']]);
  }
  tellState() {
    const s = this.data.states[this.at], { counts } = this.change(this.at);
    if (!s.pass) return this.about([['b', this.firstName()], ['', this.data.files.length ? 'before the first pass' : 'as the file holds it'], ['', 'click an op to pin it; ← → go from pass to pass']]);
    const told = [[counts.added, 'added'], [counts.removed, 'removed'], [counts.changed, 'changed'], [counts.planned, 'with a new plan']]
      .filter(x => x[0]).map(x => `${x[0]} ${x[1]}`).join(', ');
    this.about([['b', s.pass], ['', wordsOf(s.effect || '') || s.meaning], ['', told ? 'lines: ' + told : 'nothing changed']]);
  }

  /* ---- mouse and keys ---- */

  listen() {
    $('slider').addEventListener('input', () => this.goToState(+$('slider').value));
    $('only').addEventListener('change', () => {
      this.ir.show(this.state(this.at), this.change(this.at), $('only').checked);
      this.ir.list.host.scrollTop = 0;
      this.ir.list.update();
    });
    for (const button of $('tabs').children) button.addEventListener('click', () => this.tab(button.id.slice(4)));
    $('find').addEventListener('input', () => (this.ir.hit = undefined, this.find(false)));
    $('find').addEventListener('keydown', e => e.key === 'Enter' && this.find(true));
    document.addEventListener('keydown', e => this.key(e));
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const inTabs = e.target.getAttribute && e.target.getAttribute('role') === 'tab';
    const typing = e.target.id === 'find' || e.target.tagName === 'SELECT';
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (e.key === 'Escape') {
      if (typing) e.target.value = '', this.find(false), e.target.blur();
      this.pinned = null;
      this.highlight(null);
    } else if (typing) {
      return;
    } else if (step && inTabs) {
      const all = [...$('tabs').children], next = all[(all.indexOf(e.target) + step + all.length) % all.length];
      next.focus();
      this.tab(next.id.slice(4));
    } else if (step) {
      this.goToState(this.at + step);
    } else if ((e.key === 'ArrowDown' || e.key === 'ArrowUp') && this.view === 'ir' && e.target.id === 'ir-list') {
      this.moveLine(e.key === 'ArrowDown' ? 1 : -1);
    } else if (e.key === '/') {
      $('find').focus();
    } else if (e.key >= '1' && e.key <= '5') {
      this.tab($('tabs').children[e.key - 1].id.slice(4));
    } else {
      return;
    }
    e.preventDefault();
  }

  /* Up and down in the IR: the next line that says something. */
  moveLine(step) {
    const { rows } = this.ir, host = this.ir.list.host;
    let i = this.ir.chosen ? this.ir.rowOf.get(this.ir.chosen) : Math.ceil(host.scrollTop / 18) - step;
    for (i += step; rows[i] && !(rows[i].line && rows[i].line.kind !== 'end'); i += step);
    if (!rows[i]) return;
    this.pinned = null;
    this.pin(rows[i].line);
    if (!this.ir.list.isInView(i)) {
      host.scrollTop = step > 0 ? (i + 1) * 18 - host.clientHeight : i * 18;
      this.ir.list.update();
    }
  }
}

const page = new Page(JSON.parse($('data').textContent));
document.documentElement.dataset.ready = Math.round(performance.now()); // ms until it can be used
