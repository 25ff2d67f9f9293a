'use strict';
/* The printer's text, line by line. Nothing here changes it; what a line is about is read from it:
 *
 *   %12 = matmul %11, %10 {ta=0, tb=0} : f32[512] @31:18-31:52 "deep.mlp.0.dense" #phase=3 domain=rows …
 *   id    op     inputs   rest ------------------  span        ------------------ plan
 */

const QUOTED = /"(?:[^"\\]|\\.)*"/g;
const SPAN = / @(?:(\d+)\/)?(\d+):(\d+)-(\d+):(\d+)/;
const NODE = /^( *)%(\d+) = ([\w.]+)((?:,? %\d+)*)/;

/* Strings may hold anything: patterns look at the line without what is inside them. */
function withoutStrings(text) {
  return text.replace(QUOTED, s => '"' + '_'.repeat(s.length - 2) + '"');
}

function readSpan(bare, files) {
  const m = SPAN.exec(bare);
  if (!m) return null;
  return { path: files[+(m[1] || 0)], line: +m[2], col: +m[3], endLine: +m[4], endCol: +m[5] };
}

function readNode(line, bare) {
  const m = NODE.exec(bare);
  if (!m) return;
  const planAt = bare.indexOf(' #', m[0].length);
  const region = bare.endsWith(' {');
  const end = planAt >= 0 ? planAt : bare.length - (region ? 2 : 0);
  const at = SPAN.exec(bare);
  line.kind = 'node';
  line.id = +m[2];
  line.op = m[3];
  line.inputs = (m[4].match(/\d+/g) || []).map(Number);
  line.region = region;
  const rest = line.text.slice(m[0].length, end);
  line.what = at ? rest.replace(at[0], '') : rest; // what it computes, wherever it was written
  line.plan = planAt >= 0 ? line.text.slice(planAt + 2, bare.length - (region ? 2 : 0)) : '';
  const name = /"((?:[^"\\]|\\.)*)"$/.exec(line.text.slice(0, end));
  line.name = name && at && name.index > at.index ? name[1] : '';
}

/* "dir/m\xc3\xb6del.ctr" as the printer writes it, byte by byte. */
function readString(quoted) {
  const letters = { n: 10, t: 9, r: 13 }, bytes = [];
  for (const m of quoted.slice(1, -1).matchAll(/\\x(..)|\\(.)|([^\\])/g))
    bytes.push(m[1] ? parseInt(m[1], 16) : m[2] ? letters[m[2]] || m[2].charCodeAt(0) : m[3].charCodeAt(0));
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/* { lines, funcs: [{name, first, last, byId}], longest } */
function readState(text) {
  const lines = [], funcs = [], files = [], open = [];
  let func = null, longest = 0;
  for (const t of text.replace(/\n$/, '').split('\n')) {
    const line = { text: t, kind: 'head', index: lines.length, func, parent: open.length ? open.at(-1) : null };
    const bare = withoutStrings(t), file = /^file (\d+) /.exec(t);
    if (file) files[+file[1]] = readString(t.match(QUOTED)[0]);
    line.span = readSpan(bare, files);
    if (t.startsWith('func ')) {
      func = { name: /^func "?([^" ]+)/.exec(t)[1], first: lines.length, last: 0, byId: new Map() };
      funcs.push(func);
      line.kind = 'func';
      line.func = func;
    } else if (func && /^ *}$/.test(t)) {
      line.kind = 'end';
      if (open.length) line.parent = open.pop();
      else func.last = lines.length, func = null;
    } else if (func) {
      readNode(line, bare);
      func.byId.set(line.id, line);
      if (line.region) open.push(line), line.body = [];
      if (line.parent) line.parent.body.push(line);
    }
    if (t.length > longest) longest = t.length;
    lines.push(line);
  }
  return { lines, funcs, longest };
}

/* Where a value is really made: an argument of a region by the region's operand, a region by its last op. */
function maker(line) {
  for (;;) {
    if (!line) return null;
    if (line.op === 'arg' && line.parent) {
      const index = /index=(\d+)/.exec(line.text);
      line = line.func.byId.get(line.parent.inputs[+index[1]]);
    } else if (line.op === 'fused' && line.body && line.body.length) {
      line = line.body.at(-1);
    } else {
      return line;
    }
  }
}

function inputsOf(line) {
  if (line.op === 'arg' && line.parent) return [maker(line)].filter(Boolean);
  if (line.op === 'fused' && line.body) return line.body;
  return line.inputs.map(id => line.func.byId.get(id)).filter(Boolean);
}

/* All lines that a line's value depends on. */
function ancestorsOf(line) {
  const seen = new Set(), todo = [line];
  while (todo.length) {
    const next = todo.pop();
    for (const x of inputsOf(next)) {
      if (seen.has(x) || x === line) continue;
      seen.add(x);
      todo.push(x);
    }
    if (next !== line && next.parent && !seen.has(next.parent) && next.parent !== line && !isInside(line, next.parent))
      seen.add(next.parent); // a region of which a part is needed; not its other parts
  }
  return seen;
}

function isInside(line, region) {
  for (let r = line.parent; r; r = r.parent) if (r === region) return true;
  return false;
}
