/* The source on the left: all files of the model in one list, the main one first. Places that are shown are
 * marked to the column. */

class SourcePane {
  constructor(data, onHover) {
    this.lines = []; // {path, number, text} or {path, title: true}
    this.at = new Map(); // "path:line" → index
    this.marks = new Map(); // index → [from, to)
    this.tinted = new Set(); // indices
    const main = data.files.findIndex(f => f.path === data.source);
    const files = data.files.slice();
    if (main > 0) files.unshift(...files.splice(main, 1));
    for (const f of files) this.addFile(f, files.length > 1);
    const longest = this.lines.reduce((n, l) => Math.max(n, (l.text || '').length), 0);
    $('file').textContent = files.length ? files.map(f => baseName(f.path)).join('  ·  ') : 'source';
    if (!files.length)
      this.lines.push({ text: '# This program was read as IR: places point into' },
                      { text: '# ' + data.source + ', which it does not hold.' });
    this.list = new VirtualList($('source-list'), 18, (i, row) => this.render(i, row), (i, row) => this.decorate(i, row));
    this.list.reset(this.lines.length, longest + 8 + 'ch');
    this.list.listen(i => onHover(i >= 0 && this.lines[i].number ? this.lines[i] : null));
  }

  addFile(file, titled) {
    if (titled) this.lines.push({ path: file.path, title: true });
    file.text.replace(/\n$/, '').split('\n').forEach((text, i) => {
      this.at.set(file.path + ':' + (i + 1), this.lines.length);
      this.lines.push({ path: file.path, number: i + 1, text });
    });
  }

  render(i, row) {
    const line = this.lines[i];
    if (line.title) {
      row.classList.add('title');
      row.textContent = baseName(line.path);
      return;
    }
    row.append(element('span', 'number', line.number || ''));
    this.putText(line, this.marks.get(i), row);
  }

  /* Names, strings, numbers and comments in colours; a mark over some columns. */
  putText(line, mark, row) {
    const text = element('span', 'text');
    const pieces = mark ? [[0, mark[0], false], [mark[0], mark[1], true], [mark[1], line.text.length, false]]
                        : [[0, line.text.length, false]];
    const comment = line.text.replace(QUOTED, s => '_'.repeat(s.length)).indexOf('#');
    for (const [from, to, marked] of pieces) {
      if (to <= from) continue;
      const parent = marked ? element('mark') : text;
      const code = comment < 0 ? to : Math.max(from, Math.min(to, comment));
      putColoured(line.text.slice(from, code), SOURCE_TOKENS, parent);
      if (code < to) parent.append(element('span', 'comment', line.text.slice(code, to)));
      if (marked) text.append(parent);
    }
    row.append(text);
  }

  decorate(i, row) {
    row.classList.toggle('tinted', this.tinted.has(i));
  }

  /* Columns of places count bytes. */
  column(index, col) {
    const text = this.lines[index].text;
    if (/^[\x00-\x7f]*$/.test(text)) return Math.min(col - 1, text.length);
    const bytes = new TextEncoder().encode(text).slice(0, col - 1);
    return new TextDecoder().decode(bytes).length;
  }

  rerender(indices) {
    for (const i of indices) {
      const row = this.list.shown.get(i);
      if (!row) continue;
      row.replaceChildren();
      this.render(i, row);
    }
  }

  /* Marks a place; faint: lines of other places that belong to it. */
  show(span, faint, reveal) {
    const old = [...this.marks.keys()];
    this.marks.clear();
    this.tinted.clear();
    for (const s of faint || [])
      for (let n = s.line; n <= s.endLine; n++) {
        const i = this.at.get(s.path + ':' + n);
        if (i !== undefined) this.tinted.add(i);
      }
    if (span)
      for (let n = span.line; n <= span.endLine; n++) {
        const i = this.at.get(span.path + ':' + n);
        if (i === undefined) continue;
        const from = n === span.line ? this.column(i, span.col) : 0;
        const to = n === span.endLine ? this.column(i, span.endCol) : this.lines[i].text.length;
        this.marks.set(i, [from, to]);
      }
    if (reveal && span) {
      const i = this.at.get(span.path + ':' + span.line);
      if (i !== undefined) this.list.reveal(i);
    }
    this.rerender(new Set([...old, ...this.marks.keys()]));
    this.list.refresh();
  }
}

/* [pattern, class] in order; the rest stays as it is. */
const SOURCE_TOKENS = new RegExp([
  '(?<string>"(?:[^"\\\\]|\\\\.)*")',
  '(?<keyword>\\b(?:model|param|input|layer|import|predict|loss|metric|optimizer|train|enable|disable|for|in|if|else|return|def)\\b)',
  '(?<call>\\b[a-z_]\\w*(?=\\())',
  '(?<number>\\b\\d[\\d.e_-]*\\b)',
].join('|'), 'g');
const IR_TOKENS = new RegExp([
  '(?<string>"(?:[^"\\\\]|\\\\.)*")',
  '(?<plan> #phase=.*?(?= \\{$|$))',
  '(?<value>%\\d+)',
  '(?<place> @(?:\\d+/)?\\d+:\\d+-\\d+:\\d+)',
  '(?<call>(?<== )[\\w.]+)',
  '(?<type>(?:always |step )?(?:f32|id|str|int|key)(?:[<\\[][^\\]>]*[\\]>])*(?= @| #| "| \\{$|$))',
  '(?<keyword>^(?:ctrc-ir|model|source|digest|file|param|axis|input|column|vocab|optimizer|weight|train|request|applied|effect|func)\\b)',
].join('|'), 'g');

function putColoured(text, tokens, parent) {
  let at = 0;
  for (const m of text.matchAll(tokens)) {
    if (m.index > at) parent.append(text.slice(at, m.index));
    const kind = Object.keys(m.groups).find(k => m.groups[k] !== undefined);
    parent.append(element('span', kind, m[0]));
    at = m.index + m[0].length;
  }
  if (at < text.length) parent.append(text.slice(at));
}
