/* The IR after the chosen pass, with marks for what that pass changed. */

class IrView {
  constructor(page) {
    this.page = page;
    this.rows = []; // {line} or {ghost} (a line that the pass removed) or {fold: [lines]}
    this.list = new VirtualList($('ir-list'), 18, (i, row) => this.render(i, row), (i, row) => this.decorate(i, row));
    this.list.listen(i => page.hover(this.lineAt(i)), i => this.click(i));
    this.ancestors = new Set();
    this.chosen = null;
    this.related = new Set();
    this.found = new Set();
    this.canvas = $('overview');
    this.canvas.addEventListener('click', e => {
      const box = this.canvas.getBoundingClientRect(), list = this.list.host;
      list.scrollTop = (e.clientY - box.top) / box.height * this.rows.length * 18 - list.clientHeight / 2;
    });
    new ResizeObserver(() => this.drawOverview()).observe(this.canvas);
  }

  lineAt(i) {
    return i >= 0 && this.rows[i] && this.rows[i].line ? this.rows[i].line : null;
  }

  click(i) {
    const row = this.rows[i];
    if (row.fold) {
      this.rows = this.rows.toSpliced(i, 1, ...row.fold.map(line => ({ line })));
      this.index();
      this.list.reset(this.rows.length, this.state.longest + 12 + 'ch');
    } else if (row.line) {
      this.page.pin(row.line);
    }
  }

  /* Shows a state beside the one before it. */
  show(state, change, onlyChanges) {
    Object.assign(this, { state, change });
    this.rows = [];
    let fold = [];
    const flush = () => {
      if (fold.length > 1) this.rows.push({ fold });
      else if (fold.length) this.rows.push({ line: fold[0] });
      fold = [];
    };
    for (const line of state.lines) {
      if (onlyChanges && change.marks[line.index] === SAME && line.kind !== 'func') {
        fold.push(line);
      } else {
        flush();
        this.rows.push({ line });
      }
      const gone = change.ghosts.get(line.index);
      if (gone) flush(), gone.forEach(ghost => this.rows.push({ ghost }));
    }
    flush();
    this.index();
    this.list.reset(this.rows.length, state.longest + 12 + 'ch');
    this.drawOverview();
  }

  index() {
    this.rowOf = new Map(this.rows.map((r, i) => [r.line, i]));
  }

  render(i, row) {
    const { line, ghost, fold } = this.rows[i];
    if (fold) {
      row.classList.add('fold');
      row.textContent = `${fold.length} lines as before`;
      return;
    }
    row.append(element('span', 'number', line ? line.index + 1 : ''));
    const sign = ghost ? '−' : ['', '+', '~', '·'][this.change.marks[line.index]];
    row.append(element('span', 'sign', sign));
    const text = element('span', 'text');
    putColoured((line || ghost).text, IR_TOKENS, text);
    row.append(text);
    row.classList.add(ghost ? 'removed' : ['same', 'added', 'changed', 'planned'][this.change.marks[line.index]]);
    if (line && line.kind === 'func') row.classList.add('func');
  }

  decorate(i, row) {
    const { line } = this.rows[i];
    row.classList.toggle('chosen', !!line && line === this.chosen);
    row.classList.toggle('ancestor', this.ancestors.has(line));
    row.classList.toggle('related', this.related.has(line));
    row.classList.toggle('found', this.found.has(i));
  }

  /* chosen: the op in question; related: ops that come from a source line. */
  highlight(chosen, ancestors, related) {
    this.chosen = chosen;
    this.ancestors = ancestors;
    this.related = related;
    this.list.refresh();
    this.drawOverview();
  }

  reveal(line) {
    if (!this.rowOf.has(line)) {
      const i = this.rows.findIndex(r => r.fold && r.fold.includes(line));
      if (i < 0) return;
      this.click(i);
    }
    this.list.reveal(this.rowOf.get(line));
  }

  /* Rows that hold a text; the next one behind the current comes into view. Returns how many there are. */
  find(text, forward) {
    const wanted = text.toLowerCase();
    const hits = [];
    this.rows.forEach((r, i) => {
      const t = r.line || r.ghost;
      if (wanted && t && t.text.toLowerCase().includes(wanted)) hits.push(i);
    });
    this.found = new Set(hits);
    if (hits.length) {
      const at = hits.findIndex(i => i > (this.hit ?? -1));
      this.hit = forward ? hits[at < 0 ? 0 : at] : hits.find(i => i >= (this.hit ?? 0)) ?? hits[0];
      this.list.reveal(this.hit);
    }
    this.list.refresh();
    this.drawOverview();
    return hits.length;
  }

  /* The whole state at a glance, beside the scroll bar: what the pass changed, drawn once a state, and what
     belongs to the op in question. */
  drawOverview() {
    const { canvas, rows } = this, scale = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    const w = Math.max(1, Math.round(canvas.clientWidth * scale)), h = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    const put = (g, i, name, from) => {
      g.fillStyle = style.getPropertyValue('--' + name);
      g.fillRect(from * w, i / rows.length * h, w / 2, Math.max(scale, h / rows.length));
    };
    if (!this.base || this.base.rows !== rows || this.base.width !== w || this.base.height !== h) {
      this.base = Object.assign(element('canvas'), { rows, width: w, height: h });
      const g = this.base.getContext('2d'), names = [null, 'added', 'changed', 'planned'];
      rows.forEach((r, i) => {
        const name = r.ghost ? 'removed' : r.line && names[this.change.marks[r.line.index]];
        if (name) put(g, i, name, 0);
      });
    }
    const g = canvas.getContext('2d');
    g.clearRect(0, 0, w, h);
    g.drawImage(this.base, 0, 0);
    const putLine = (line, name) => this.rowOf.has(line) && put(g, this.rowOf.get(line), name, 0.5);
    for (const line of this.related) putLine(line, 'related');
    for (const line of this.ancestors) putLine(line, 'ancestor');
    if (this.chosen) putLine(this.chosen, 'ancestor');
    for (const i of this.found) put(g, i, 'found', 0.5);
  }
}
