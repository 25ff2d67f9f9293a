/* What html.sh adds to a copy of the page: drives it as a person would, by events, and says in the title what
 * came of it. What is expected is worked out from the page's data anew, not by the page's own functions. */
(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const failures = [];
  let count = 0;
  const check = (ok, what) => {
    count++;
    if (!ok) failures.push(what);
    if (!ok && window.stopAtFirst) throw new Error(what);
  };
  const same = (a, b, what) => check(a === b, `${what}: expected ${JSON.stringify(b)}, found ${JSON.stringify(a)}`);
  const get = id => document.getElementById(id);
  const all = (selector, root) => [...(root || document).querySelectorAll(selector)];
  const mouse = (e, type) => e.dispatchEvent(new MouseEvent(type, { bubbles: true }));
  const key = (name, on) => (on || document.body).dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
  const lines = i => data.states[i].text.replace(/\n$/, '').split('\n');
  const slide = i => {
    get('slider').value = i;
    get('slider').dispatchEvent(new Event('input'));
  };
  const scroll = (list, top) => {
    list.scrollTop = top;
    list.dispatchEvent(new Event('scroll'));
  };
  const irRows = () => all('#ir-list .row').filter(r => r.querySelector('.number').textContent);
  const sorted = list => all(list + ' .row').sort((a, b) => a.dataset.index - b.dataset.index); /* as they stand */
  const textOf = row => row.querySelector('.text').textContent;
  const numberOf = row => +row.querySelector('.number').textContent - 1;
  const NODE = /^ +%(\d+) = (\S+)((?:,? %\d+)*)/;

  /* ---- the slider, and the text of every state ---- */
  function states() {
    for (let i = 0; i < data.states.length; i++) {
      slide(i);
      const text = lines(i);
      for (const top of [0, 1e9, get('ir-list').scrollHeight / 3]) {
        scroll(get('ir-list'), top);
        const rows = irRows();
        check(rows.length > 5, `state ${i} shows lines`);
        for (const row of rows) same(textOf(row), text[numberOf(row)], `state ${i}, line ${numberOf(row) + 1}`);
      }
      same(all('#ticks .on .name').map(e => e.textContent).join().replace('\u00ad', ''), data.states[i].pass || 'frontend', 'the tick that is on');
    }
    slide(1);
    key('ArrowRight');
    same(get('slider').value, '2', 'the right arrow key');
    key('ArrowLeft');
    key('ArrowLeft');
    key('ArrowLeft');
    same(get('slider').value, '0', 'the left arrow key');
  }

  /* ---- marks: of what a pass does to one function, new lines minus gone lines is how much it grew ---- */
  function marks() {
    let marked = 0;
    for (let i = 1; i < data.states.length; i++) {
      const was = data.states[i - 1].funcs.map(f => f[0]).join(), now = data.states[i].funcs.map(f => f[0]).join();
      slide(i);
      const rows = page.ir.rows, host = get('ir-list');
      const seen = { added: 0, removed: 0 };
      for (let top = 0; top < host.scrollHeight; top += host.clientHeight) {
        scroll(host, top);
        for (const row of all('#ir-list .row')) {
          const at = +row.dataset.index * 18;
          if (at < top || at >= top + host.clientHeight) continue;
          for (const kind in seen) if (row.classList.contains(kind) && / = |^\w/.test(textOf(row))) seen[kind]++;
        }
      }
      const size = k => lines(k).filter(t => / = |^\w/.test(t)).length;
      marked += seen.added + seen.removed;
      if (was === now) same(seen.added - seen.removed, size(i) - size(i - 1), `${data.states[i].pass}: new lines less gone lines`);
      check(rows.length >= lines(i).length, 'no line is missing');
    }
    check(marked > 10, 'passes leave marks');
  }

  /* ---- an op: its place in the source, its ancestors ---- */
  function ancestors(text, id) {
    const inputs = new Map();
    for (const t of text) {
      const m = NODE.exec(t);
      if (m) inputs.set(+m[1], (m[3].match(/\d+/g) || []).map(Number));
    }
    const seen = new Set(), walk = n => (inputs.get(n) || []).forEach(x => seen.has(x) || (seen.add(x), walk(x)));
    walk(id);
    return seen;
  }

  function placed(text, t) {
    const m = / @(?:(\d+)\/)?(\d+):(\d+)-(\d+):(\d+)/.exec(t);
    const path = /"(.*)"/.exec(text.find(x => x.startsWith(`file ${m[1] || 0} `)))[1];
    const source = data.files.find(f => f.path === path).text.split('\n');
    const [, , line, col, endLine, endCol] = m.map(Number);
    if (line === endLine) return source[line - 1].slice(col - 1, endCol - 1);
    return [source[line - 1].slice(col - 1), ...source.slice(line, endLine - 1), source[endLine - 1].slice(0, endCol - 1)].join('');
  }

  function hovering() {
    slide(0); /* one function, no regions */
    const text = lines(0), ids = text.map((t, i) => [i, t]).filter(x => NODE.test(x[1]) && / @/.test(x[1]));
    for (const k of [0.2, 0.5, 0.8, 0.99]) {
      const [i, t] = ids[Math.floor(ids.length * k)];
      scroll(get('ir-list'), i * 18 - 200);
      const row = irRows().find(r => numberOf(r) === i);
      mouse(row.querySelector('.text'), 'mouseover');
      check(row.classList.contains('chosen'), 'the op under the mouse is chosen');
      same(sorted('#source-list').flatMap(r => all('mark', r)).map(m => m.textContent).join(''), placed(text, t), `place of ${t}`);
      const wanted = ancestors(text, +NODE.exec(t)[1]);
      for (const r of irRows()) {
        const m = NODE.exec(textOf(r));
        if (m) same(r.classList.contains('ancestor'), wanted.has(+m[1]), `%${m[1]} is an ancestor of ${t}`);
      }
      check(get('about').textContent.includes(wanted.size === 1 ? '1 ancestor' : `${wanted.size} ancestors`), `number of ancestors of ${t}: ${get('about').textContent}`);
      get('ir-list').dispatchEvent(new MouseEvent('mouseleave'));
      same(all('.ancestor, .chosen, #source-list mark').length, 0, 'what is left when the mouse has gone');
    }
  }

  function pinning() {
    const row = irRows().find(r => NODE.test(textOf(r))), other = irRows().at(-1);
    row.click();
    mouse(other, 'mouseover');
    check(row.classList.contains('chosen'), 'a clicked op stays chosen');
    key('ArrowDown', get('ir-list'));
    check(!row.classList.contains('chosen') && all('#ir-list .chosen').length === 1, 'the down arrow key goes on');
    key('Escape');
    same(all('#ir-list .chosen').length, 0, 'chosen after Esc');
    /* from the source to the ops */
    const line = all('#source-list .row').find(r => /= *\w+\(/.test(r.textContent));
    mouse(line, 'mouseover');
    check(page.ir.related.size > 0, 'a source line shows its ops');
    get('source-list').dispatchEvent(new MouseEvent('mouseleave'));
  }

  /* ---- tables ---- */
  const cells = column => sorted('#view-kernels .body').map(r => r.children[column]);
  function kernels() {
    get('tab-kernels').click();
    const func = data.funcs[0], titles = all('#view-kernels .head button'), at = titles.findIndex(b => b.textContent === 'FLOPs');
    const op = titles.findIndex(b => b.textContent === 'op');
    const ids = () => cells(op).map(c => +/%(\d+)/.exec(c.textContent)[1]);
    const by = sign => func.kernels.slice().sort((a, b) => sign * (a[4] - b[4])).map(k => k[4]);
    const flops = new Map(func.kernels.map(k => [k[0], k[4]]));
    titles[at].click();
    ids().forEach((id, i) => same(flops.get(id), by(-1)[i], `row ${i} by FLOPs, the largest first`));
    same(cells(at)[0].querySelector('.bar').style.width, '100%', 'the longest bar');
    same(titles[at].parentNode.getAttribute('aria-sort'), 'descending', 'aria-sort');
    titles[at].click();
    ids().forEach((id, i) => same(flops.get(id), by(1)[i], `row ${i} by FLOPs, the smallest first`));
    titles[at].click();
    ids().forEach((id, i) => same(id, func.kernels[i][0], `row ${i} as it runs`));
    mouse(all('#view-kernels .body .row')[0].firstChild, 'mouseover');
    check(all('#source-list mark').length > 0, 'a kernel shows its place');
    check(all('#view-kernels .foot')[0].textContent.includes(func.kernels.length + ' kernels'), 'the sum of kernels');
    aligned('#view-kernels');
    /* a table that cuts off the number of the line, or the shape, says little */
    for (const title of ['size', 'from']) {
      const column = titles.findIndex(b => b.textContent === title);
      for (const c of cells(column)) {
        const long = c.textContent.length > (title === 'size' ? 14 : 13);
        check(long ? c.firstChild.title === c.textContent || c.title || c.firstChild.title.endsWith(c.textContent) : c.scrollWidth <= c.clientWidth, `${title} can be read: ${c.textContent}`);
      }
    }
  }

  /* Titles, sums and what stands below them end at the same place, wherever the browser has its scrollbars. */
  function aligned(view) {
    const edges = row => [...row.children].filter(c => !c.classList.contains('left')).map(c => Math.round(c.getBoundingClientRect().right));
    const [row] = sorted(view + ' .body'), wanted = edges(row).join();
    for (const part of ['.head', '.foot']) {
      const other = all(view + ' ' + part)[0];
      if (other.children.length) same(edges(other).join(), wanted, `right edges of ${view} ${part}`);
    }
  }

  function others() {
    get('tab-memory').click();
    same(all('#view-memory .block').length, data.funcs[0].arenas[0].buffers.length, 'blocks in the map');
    same(all('#view-memory .loop title').map(e => e.textContent).join(), data.funcs[0].blocks ? `run ${data.funcs[0].blocks} times, a block of rows each` : '', 'the loop over blocks');
    mouse(all('#view-memory .block rect')[0], 'mouseover');
    check(/phases \d+ to \d+/.test(get('about').textContent), 'a block tells its phases');
    const local = data.funcs[0].arenas.findIndex(a => a.of === 'block');
    check(local > 0, 'a thread has an arena of its own');
    const choice = all('#view-memory select')[0];
    choice.value = local;
    choice.dispatchEvent(new Event('change'));
    same(all('#view-memory .block').length, data.funcs[0].arenas[local].buffers.length, 'blocks in the map of a thread');
    same(all('#view-memory .loop').length, 0, 'loops in the map of a thread');
    mouse(all('#view-memory .block rect')[0], 'mouseover');
    check(/kernels \d+ to \d+/.test(get('about').textContent), 'a block of a thread tells its kernels');
    get('func').value = data.funcs.at(-1).name;
    get('func').dispatchEvent(new Event('change'));
    same(all('#view-memory .block').length, data.funcs.at(-1).arenas[0].buffers.length, 'blocks of another function');
    get('tab-weights').click();
    const name = all('#view-weights .body .row').map(r => r.firstChild.textContent);
    same(name[0], data.weights[0][0], 'the first weight');
    aligned('#view-weights');
    const values = data.weights.reduce((n, w) => n + w[1].split('×').reduce((m, x) => m * x, 1), 0);
    check(all('#view-weights .foot')[0].textContent.includes('all' + values.toLocaleString('en')), `all ${values} values, told ${all('#view-weights .foot')[0].textContent}`);
    get('tab-passes').click();
    same(all('#view-passes .body .row').length, Math.min(data.states.length, all('#view-passes .body .row').length), 'passes');
    const rows = all('#view-passes .body .row b').map(b => b.textContent);
    data.states.slice(1, rows.length).forEach((s, i) => same(rows[i + 1], s.pass, 'a pass in the table'));
    sorted('#view-passes .body').slice(1, rows.length).forEach((r, i) => {
      const effect = data.states[i + 1].effect, told = r.lastChild.textContent;
      const words = /^(.*); func/.exec(effect), plan = /MB, (.*)/.exec(effect);
      for (const m of [words, plan]) if (m) check(told.includes(m[1]), `${data.states[i + 1].pass} did '${m[1]}', told is '${told}'`);
      check(told, 'every pass tells something');
    });
    key('1');
    check(!get('view-ir').hidden, 'the key 1 shows the IR');
  }

  function finding() {
    slide(0);
    get('find').value = 'MATMUL';
    get('find').dispatchEvent(new Event('input'));
    same(page.ir.found.size, page.ir.rows.filter(r => (r.line || r.ghost).text.includes('matmul')).length, 'lines with matmul');
    check(all('#ir-list .found').length > 0, 'what is found is in view');
    get('find').value = '';
    get('find').dispatchEvent(new Event('input'));
    same(all('#ir-list .found').length, 0, 'found of nothing');
  }

  /* ---- size and speed ---- */
  function speed() {
    const last = data.states.length - 1, times = [];
    let start = performance.now();
    for (let i = 0; i <= last; i++) slide(i), get('ir-list').offsetHeight;
    const slides = (performance.now() - start) / (last + 1);
    const host = get('ir-list');
    for (let k = 0; k < 60; k++) {
      scroll(host, k / 60 * host.scrollHeight);
      const rows = irRows();
      start = performance.now();
      mouse(rows[k % rows.length], 'mouseover');
      host.offsetHeight;
      times.push(performance.now() - start);
    }
    times.sort((a, b) => a - b);
    check(all('.row').length < 600, `only rows in view are there, found ${all('.row').length}`);
    check(document.documentElement.scrollWidth <= innerWidth, 'nothing is wider than the window');
    return `${lines(last).length} lines in the last state; ready after ${document.documentElement.dataset.ready} ms; ` +
      `a step of the slider ${slides.toFixed(1)} ms, a hover ${times[30].toFixed(1)} ms (at most ${times[59].toFixed(1)} ms)`;
  }

  let told = '';
  try {
    for (const part of [states, marks, hovering, pinning, kernels, others, finding]) part();
    told = speed();
  } catch (e) {
    failures.push(String(e.stack || e));
  }
  document.title = failures.length ? `FAILED ${failures.length} of ${count}: ${failures.slice(0, 5).join(' | ')}` : `PASSED ${count} checks at ${innerWidth} px; ${told}`;
})();
