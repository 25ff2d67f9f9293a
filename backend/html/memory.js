/* The memory plan as a map: phases from left to right, places in the arena from top to bottom, a value a
 * block that stands from the phase that makes it to the last that reads it. An arena that a thread has for
 * a block of rows is mapped the same way by kernels, which a thread runs one after the other. */

const SVG = 'http://www.w3.org/2000/svg';

function svg(tag, attributes, text) {
  const e = document.createElementNS(SVG, tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}

/* A round number of bytes for about n lines on the axis. */
function axisStep(size, n) {
  let step = 1;
  while (size / step > n) step *= 2;
  return step;
}

class MemoryView {
  constructor(page) {
    this.page = page;
    this.host = $('view-memory');
    this.bar = element('div', 'memory-bar');
    this.select = element('select');
    this.select.setAttribute('aria-label', 'arena');
    this.text = element('span', 'memory-text');
    this.bar.append(this.select, this.text);
    this.map = element('div', 'map');
    this.legend = element('div', 'legend');
    this.host.append(this.bar, this.map, this.legend);
    this.select.addEventListener('change', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.map);
    const block = e => e.target.closest && e.target.closest('.block');
    this.map.addEventListener('mouseover', e => this.hover(block(e)));
    this.map.addEventListener('mouseleave', () => this.hover(null));
    this.map.addEventListener('click', e => block(e) && page.goTo(this.lineOf(block(e))));
  }

  show(func) {
    this.func = func;
    this.lines = this.page.last().funcs.find(f => f.name === func.name).byId;
    this.select.replaceChildren(...func.arenas.map((a, i) => {
      const unit = a.name.includes('~') ? ' a position' : a.name[0] === '@' ? ' a unique row' : '';
      return new Option(`${a.name}: ${showBytes(a.size)}${unit}${a.of === 'block' ? ', in each thread' : ''}`, i);
    }));
    this.draw();
  }

  lineOf(block) {
    return this.lines.get(+block.dataset.id);
  }

  hover(block) {
    for (const b of this.map.querySelectorAll('.block.on')) b.classList.remove('on');
    if (block) block.classList.add('on');
    const b = block && this.arena.buffers[+block.dataset.i];
    this.page.hoverBuffer(b ? { line: this.lineOf(block), first: b[1], last: b[2], offset: b[3], bytes: b[4], perBlock: b[5], unit: this.unit() } : null);
  }

  unit() {
    return this.arena.of === 'block' ? 'kernel' : 'phase';
  }

  /* Layers in the order in which they are met, the eight largest with a colour of their own. */
  colours() {
    const size = new Map();
    for (const b of this.arena.buffers) {
      const layer = this.layerOf(b);
      size.set(layer, (size.get(layer) || 0) + b[4] * (b[2] - b[1] + 1));
    }
    const largest = [...size].sort((x, y) => y[1] - x[1]).slice(0, 7).map(x => x[0]);
    return layer => largest.indexOf(layer) < 0 ? 7 : largest.indexOf(layer);
  }

  layerOf(b) {
    const line = this.lines.get(b[0]), name = (line && line.name) || '';
    return name.split('.').slice(0, 3).join('.') || (line ? line.op : '');
  }

  draw() {
    if (!this.func || !this.map.clientWidth) return;
    this.arena = this.func.arenas[+this.select.value || 0];
    const kernels = this.unit() === 'kernel';
    const phases = kernels ? this.func.kernels.length :
      1 + Math.max(0, ...this.arena.buffers.map(b => b[2]), ...this.func.kernels.map(k => k[1]));
    const width = this.map.clientWidth, height = Math.max(220, this.map.clientHeight);
    const box = { left: 64, top: 22, right: width - 12, bottom: height - 70 };
    const x = phase => box.left + phase / phases * (box.right - box.left);
    const y = offset => box.top + offset / Math.max(1, this.arena.size) * (box.bottom - box.top);
    const root = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
                              'aria-label': `memory of func ${this.func.name}` });
    if (this.func.blocks && !kernels) this.drawLoop(root, box, x);
    this.drawAxes(root, box, x, y, phases);
    const colour = this.colours(), used = new Map();
    this.arena.buffers.forEach((b, i) => {
      const layer = this.layerOf(b), c = colour(layer);
      used.set(c, c === 7 ? 'others' : layer);
      this.drawBlock(root, b, i, c, x, y);
    });
    this.drawLive(root, box, x, phases, height);
    this.map.replaceChildren(root);
    this.legend.replaceChildren(...[...used].sort((a, b) => a[0] - b[0]).map(([c, name]) => {
      const e = element('span', 'key', name);
      e.prepend(element('i', 'swatch c' + c));
      return e;
    }));
  }

  drawAxes(root, box, x, y, phases) {
    const step = axisStep(this.arena.size, 10), every = Math.ceil(phases / ((box.right - box.left) / 30));
    for (let at = 0; at <= this.arena.size; at += step) {
      root.append(svg('line', { class: 'grid', x1: box.left, x2: box.right, y1: y(at), y2: y(at) }));
      root.append(svg('text', { class: 'axis', x: box.left - 8, y: y(at) + 4, 'text-anchor': 'end' }, showBytes(at)));
    }
    for (let p = 0; p < phases; p++) {
      root.append(svg('line', { class: 'grid', x1: x(p), x2: x(p), y1: box.top, y2: box.bottom }));
      if (p % every === 0)
        root.append(svg('text', { class: 'axis', x: (x(p) + x(p + 1)) / 2, y: 14, 'text-anchor': 'middle' }, p));
    }
    root.append(svg('text', { class: 'axis', x: box.left - 8, y: 14, 'text-anchor': 'end' }, this.unit()));
  }

  /* Phases that a step runs for one block of rows after the other. */
  drawLoop(root, box, x) {
    const [first, last] = this.func.loop, width = x(last + 1) - x(first);
    const band = svg('rect', { class: 'loop', x: x(first), y: box.top, width, height: box.bottom - box.top });
    const told = `run ${this.func.blocks} times, a block of rows each`, room = Math.floor(width / 6);
    band.append(svg('title', {}, told));
    root.append(band, svg('text', { class: 'axis', x: x(first) + width / 2, y: box.bottom + 11, 'text-anchor': 'middle' },
                          told.length <= room ? told : `× ${this.func.blocks}`));
  }

  drawBlock(root, b, i, colour, x, y) {
    const [id, first, last, offset, bytes] = b;
    const w = x(last + 1) - x(first) - 1, h = Math.max(1, y(offset + bytes) - y(offset) - 0.5);
    const g = svg('g', { class: 'block c' + colour, 'data-id': id, 'data-i': i });
    g.append(svg('rect', { x: x(first) + 0.5, y: y(offset), width: Math.max(1, w), height: h, rx: Math.min(2, h / 3) }));
    const line = this.lines.get(id), label = line ? `%${id} ${line.op}` : '%' + id;
    const room = Math.floor((w - 8) / 6.4);
    if (h >= 13 && room >= 4)
      g.append(svg('text', { x: x(first) + 5, y: y(offset) + Math.min(h / 2 + 4, 14) }, label.slice(0, room)));
    root.append(g);
  }

  /* What lives in each phase or kernel, against the arena's size. */
  drawLive(root, box, x, phases, height) {
    const live = new Array(phases).fill(0), top = box.bottom + 14, room = height - top - 18;
    for (const [, first, last, , bytes] of this.arena.buffers) for (let p = first; p <= last; p++) live[p] += bytes;
    const most = Math.max(...live, 1), size = Math.max(this.arena.size, most);
    live.forEach((bytes, p) => {
      const h = bytes / size * room;
      root.append(svg('rect', { class: 'live' + (bytes === most ? ' most' : ''), x: x(p) + 1, y: top + room - h,
                                width: Math.max(1, x(p + 1) - x(p) - 2), height: h }));
    });
    root.append(svg('line', { class: 'grid', x1: box.left, x2: box.right, y1: top + room, y2: top + room }));
    root.append(svg('text', { class: 'axis', x: box.left - 8, y: top + room / 2 + 4, 'text-anchor': 'end' }, 'live'));
    root.append(svg('text', { class: 'axis', x: box.left, y: height - 4 },
      `${this.arena.buffers.length} values; most at once ${showBytes(most)} in ${this.unit()} ${live.indexOf(most)}, arena ${showBytes(this.arena.size)}`));
    const above = 100 * (this.arena.size / most - 1);
    this.text.textContent = above < 0.05 ? 'as small as any placement can be' : `${above.toFixed(1)} % above the least that any placement needs`;
  }
}
