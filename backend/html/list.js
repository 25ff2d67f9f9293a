/* Small helpers, and a list that only has the rows in view: a training graph has thousands of lines. */

const $ = id => document.getElementById(id);

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

/* What a cell that is too narrow cuts off can still be read under the mouse. */
function titled(e, text) {
  e.title = text;
  return e;
}

/* render(index, row) fills a fresh row; decorate(index, row) sets classes, again at each refresh(). */
class VirtualList {
  constructor(host, rowHeight, render, decorate) {
    Object.assign(this, { host, rowHeight, render, decorate, count: 0, shown: new Map() });
    this.rows = element('div', 'rows');
    host.append(this.rows);
    host.addEventListener('scroll', () => this.update(), { passive: true });
    new ResizeObserver(() => this.update()).observe(host);
  }

  /* Everything anew. width: of the longest row, in CSS. */
  reset(count, width) {
    this.count = count;
    this.rows.style.height = count * this.rowHeight + 'px';
    this.rows.style.minWidth = width || '';
    for (const row of this.shown.values()) row.remove();
    this.shown.clear();
    this.update();
  }

  update() {
    const spare = 6, height = this.host.clientHeight;
    if (!height) return; // hidden
    const first = Math.max(0, Math.floor(this.host.scrollTop / this.rowHeight) - spare);
    const last = Math.min(this.count, Math.ceil((this.host.scrollTop + height) / this.rowHeight) + spare);
    for (const [index, row] of this.shown)
      if (index < first || index >= last) row.remove(), this.shown.delete(index);
    const added = document.createDocumentFragment();
    for (let i = first; i < last; i++) {
      if (this.shown.has(i)) continue;
      const row = element('div', 'row');
      row.style.top = i * this.rowHeight + 'px';
      row.dataset.index = i;
      this.render(i, row);
      if (this.decorate) this.decorate(i, row);
      this.shown.set(i, row);
      added.append(row);
    }
    this.rows.append(added);
  }

  refresh() {
    if (this.decorate) for (const [index, row] of this.shown) this.decorate(index, row);
  }

  isInView(index) {
    const top = index * this.rowHeight - this.host.scrollTop;
    return top >= 0 && top + this.rowHeight <= this.host.clientHeight;
  }

  /* Into view, a third from the top, unless it is there. */
  reveal(index) {
    if (this.isInView(index)) return;
    this.host.scrollTop = Math.max(0, index * this.rowHeight - this.host.clientHeight / 3);
    this.update();
  }

  /* onHover(index or -1, event), onClick(index) by delegation. */
  listen(onHover, onClick) {
    const at = e => {
      const row = e.target.closest && e.target.closest('.row');
      return row ? +row.dataset.index : -1;
    };
    this.host.addEventListener('mouseover', e => onHover(at(e), e));
    this.host.addEventListener('mouseleave', e => onHover(-1, e));
    if (onClick) this.host.addEventListener('click', e => at(e) >= 0 && onClick(at(e), e));
  }
}

/* ---- numbers for people ---- */

function scaled(value, units, step) {
  let i = 0;
  while (value >= step && i < units.length - 1) value /= step, i++;
  const digits = i === 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return value.toFixed(digits) + ' ' + units[i];
}
const showFlops = x => x ? scaled(x, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP'], 1000) : '0';
const showBytes = x => x ? scaled(x, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024) : '0';
const showCount = x => Math.round(x).toLocaleString('en');
const counted = (n, what) => `${showCount(n)} ${what}${n === 1 ? '' : 's'}`;
function showTime(us) {
  if (us >= 1e6) return (us / 1e6).toFixed(2) + ' s';
  if (us >= 1e3) return (us / 1e3).toFixed(us < 1e4 ? 2 : 1) + ' ms';
  return us.toFixed(us < 10 ? 1 : 0) + ' µs';
}
const baseName = path => path.slice(path.lastIndexOf('/') + 1);
