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
      this.rows.splice(i, 1, ...row.fold.map(line => ({ line })));
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

  /* The whole state at a glance, beside the scroll bar. */
  drawOverview() {
    const { canvas, rows } = this, scale = devicePixelRatio || 1;
    const w = canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
    const h = canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
    const g = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    if (!g || !rows.length) return;
    const colour = name => style.getPropertyValue('--' + name);
    const put = (i, name, from, to) => {
      g.fillStyle = name;
      g.fillRect(from * w, i / rows.length * h, (to - from) * w, Math.max(scale, h / rows.length));
    };
    const marks = [null, colour('added'), colour('changed'), colour('planned')], removed = colour('removed');
    const ancestor = colour('ancestor'), related = colour('related'), found = colour('found');
    rows.forEach((r, i) => {
      if (r.ghost) put(i, removed, 0, 0.5);
      else if (r.line && marks[this.change.marks[r.line.index]]) put(i, marks[this.change.marks[r.line.index]], 0, 0.5);
      if (this.found.has(i)) put(i, found, 0.5, 1);
      else if (r.line && (r.line === this.chosen || this.ancestors.has(r.line))) put(i, ancestor, 0.5, 1);
      else if (r.line && this.related.has(r.line)) put(i, related, 0.5, 1);
    });
  }
}
