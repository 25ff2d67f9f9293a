/* What changed from one state to the next. Nodes are numbered anew after each pass and schedule sorts them,
 * so neither numbers nor places count: nodes are paired by the value they compute, then by what they are, then
 * by op and layer. Of a pair, the op has changed if its attributes, type or operands have, or only its plan. */

const SAME = 0, ADDED = 1, CHANGED = 2, PLANNED = 3;

/* Equal values have equal numbers, in both states: op, attributes and the operands' values. */
function valueNumbers(state, table) {
  const number = new Map();
  for (const line of state.lines) {
    if (line.kind !== 'node') continue;
    let text;
    if (line.op === 'arg') text = 'arg ' + number.get(maker(line)) + line.what;
    else text = line.op + line.what + '|' + line.inputs.map(id => {
      const made = maker(line.func.byId.get(id));
      return number.get(made);
    });
    if (!table.has(text)) table.set(text, table.size);
    number.set(line, table.get(text));
  }
  return number;
}

/* Pairs what is left in both lists by a key, in order. */
function pairBy(olds, news, pairs, key) {
  const waiting = new Map();
  for (const line of olds) {
    if (pairs.has(line)) continue;
    const k = key(line);
    if (!waiting.has(k)) waiting.set(k, []);
    waiting.get(k).push(line);
  }
  for (const queue of waiting.values()) queue.reverse();
  for (const line of news) {
    if (pairs.has(line)) continue;
    const queue = waiting.get(key(line));
    if (!queue || !queue.length) continue;
    const old = queue.pop();
    pairs.set(line, old);
    pairs.set(old, line);
  }
}

/* The function from which one came: differentiate makes train, eval and predict of model. */
function originOf(func, before) {
  return before.funcs.find(f => f.name === func.name) || before.funcs.find(f => f.name === 'model');
}

function nodesOf(state, func) {
  return state.lines.slice(func.first, func.last).filter(x => x.kind === 'node');
}

function markOf(line, old, pairs) {
  if (line.what !== old.what || line.op !== old.op) return CHANGED;
  if (line.op !== 'arg' && line.op !== 'fused') {
    if (line.inputs.length !== old.inputs.length) return CHANGED;
    for (let i = 0; i < line.inputs.length; i++) {
      const now = maker(line.func.byId.get(line.inputs[i])), was = maker(old.func.byId.get(old.inputs[i]));
      if (pairs.get(now) !== was) return CHANGED;
    }
  }
  return line.plan === old.plan ? SAME : PLANNED;
}

/* Old lines without a pair, by the new line behind which they would stand. */
function addGhosts(olds, pairs, first, ghosts) {
  let at = first;
  for (const old of olds) {
    const now = pairs.get(old);
    if (now) at = now.index;
    else ghosts.set(at, (ghosts.get(at) || []).concat(old));
  }
}

function compareFunc(before, after, func, marks, ghosts, numbers) {
  const origin = originOf(func, before);
  if (!origin) {
    for (let i = func.first; i <= func.last; i++) marks[i] = ADDED;
    return;
  }
  const pairs = new Map(), olds = nodesOf(before, origin), news = nodesOf(after, func);
  pairBy(olds, news, pairs, x => numbers.old.get(x) ?? numbers.now.get(x));
  pairBy(olds, news, pairs, x => x.op + x.what);
  pairBy(olds, news, pairs, x => x.op + ' ' + x.name);
  for (const line of news) {
    const old = pairs.get(line);
    marks[line.index] = old ? markOf(line, old, pairs) : ADDED;
  }
  for (let i = func.first; i < func.last; i++)
    if (after.lines[i].kind === 'end') marks[i] = marks[after.lines[i].parent.index] === ADDED ? ADDED : SAME;
  const head = before.lines[origin.first].text;
  if (origin.name !== func.name) marks[func.first] = marks[func.last] = ADDED;
  else if (head !== after.lines[func.first].text) marks[func.first] = CHANGED;
  const heir = after.funcs.find(f => originOf(f, before) === origin);
  if (heir === func) addGhosts(olds, pairs, func.first, ghosts);
}

/* Declarations: by kind and name. Numbers of files may shift with what is first mentioned. */
function compareHead(before, after, marks, ghosts) {
  const heads = state => state.lines.filter(x => x.kind === 'head');
  const text = x => x.text.replace(SPAN, '');
  const pairs = new Map(), olds = heads(before), news = heads(after);
  pairBy(olds, news, pairs, text);
  pairBy(olds, news, pairs, x => /^(applied|request)/.test(x.text) ? x.text : x.text.split(' ', 2).join(' '));
  for (const line of news) {
    const old = pairs.get(line);
    marks[line.index] = !old ? ADDED : text(old) === text(line) ? SAME : CHANGED;
  }
  addGhosts(olds, pairs, 0, ghosts);
}

/* { marks: one a line, ghosts: Map from a line's index to the old lines that are gone behind it, counts } */
function compareStates(before, after) {
  const marks = new Uint8Array(after.lines.length), ghosts = new Map(), table = new Map();
  if (before) {
    const numbers = { old: valueNumbers(before, table), now: valueNumbers(after, table) };
    compareHead(before, after, marks, ghosts);
    for (const func of after.funcs) compareFunc(before, after, func, marks, ghosts, numbers);
  }
  const counts = { added: 0, changed: 0, planned: 0, removed: 0 };
  for (const m of marks) {
    if (m === ADDED) counts.added++;
    else if (m === CHANGED) counts.changed++;
    else if (m === PLANNED) counts.planned++;
  }
  for (const list of ghosts.values()) counts.removed += list.length;
  return { marks, ghosts, counts };
}
