"use strict";
// Draws the lanes of package report (chart.go), and lets people move in them. Times are microseconds.
(() => {
  const chart = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("chart"), paper = canvas.getContext("2d");
  const tip = document.getElementById("tip"), output = document.getElementById("view");
  const PRESENT = 0, UNDATED = 1, ALIVE = 2, LEFT = 3, FAULT = 4, VIOLATION = 5;
  const [KIND, ROW, FROM, UNTIL, NOTE, SLOT] = [0, 1, 2, 3, 4, 5];
  for (const lane of chart.lanes) { // where the next bar of the same kind and row begins, for names
    const next = new Map();
    lane.next = [];
    for (let i = lane.bars.length - 1; i >= 0; i--) {
      const place = lane.bars[i][KIND] * 100 + lane.bars[i][ROW];
      lane.next[i] = next.get(place);
      next.set(place, lane.bars[i][FROM]);
    }
  }
  const axis = 24, gap = 4, deepest = 15000; // pixels; no browser has a canvas that is much higher
  const narrowest = 20; // microseconds
  const edge = chart.span / 50;
  const whole = {from: -edge, to: chart.span + edge};
  let view = {...whole}, width = 0, height = 0, gutter = 0, scale = 1, pinned = -1, queued = false;

  const span = () => view.to - view.from;
  const x = (t) => gutter + (t - view.from) / span() * (width - gutter);
  const time = (px) => view.from + (px - gutter) / (width - gutter) * span();

  // layout gives each lane its place. Lanes get lower where there are very many.
  function layout() {
    const printing = document.documentElement.classList.contains("paper");
    const style = getComputedStyle(canvas.parentElement);
    width = printing ? 1000 :
      canvas.parentElement.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    gutter = width < 600 ? 62 : 120;
    const rows = chart.lanes.reduce((n, lane) => n + lane.rows, 0);
    const row = Math.max(4, Math.min(18, (deepest - chart.lanes.length * gap) / Math.max(1, rows)));
    let y = axis;
    for (const lane of chart.lanes) {
      lane.y = y;
      lane.row = lane.rows > 2 ? Math.max(4, row * 2 / 3) : row;
      lane.height = lane.rows * lane.row;
      y += lane.height + gap;
    }
    height = y + axis;
    scale = Math.min(printing ? 2 : window.devicePixelRatio || 1, deepest / height);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = printing ? "auto" : height + "px";
  }

  // fit shortens text to that many pixels.
  function fit(text, room) {
    if (paper.measureText(text).width <= room) return text;
    let most = Math.min(text.length, Math.floor(room / 4));
    while (most > 0 && paper.measureText(text.slice(0, most) + "…").width > room) most--;
    return most > 0 ? text.slice(0, most) + "…" : "";
  }

  // tick is the distance of the axis' marks: 1, 2 or 5 times a power of ten.
  function tick() {
    const least = span() * 90 / Math.max(90, width - gutter);
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least);
  }

  const seconds = (t, digits) => ((chart.from + t) / 1e6).toFixed(digits) + " s";
  function long(t) {
    if (t < 1000) return t + " µs";
    return t < 1e6 ? (t / 1000).toFixed(3) + " ms" : (t / 1e6).toFixed(3) + " s";
  }

  function draw() {
    queued = false;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name);
    paper.setTransform(scale, 0, 0, scale, 0, 0);
    paper.clearRect(0, 0, width, height);
    paper.font = "11px system-ui, sans-serif";
    paper.textBaseline = "middle";
    paper.fillStyle = colour("stripe");
    for (const lane of chart.lanes) paper.fillRect(0, lane.y, width, lane.height);
    paper.fillStyle = colour("ink");
    for (const lane of chart.lanes) {
      if (lane.height >= 8) paper.fillText(fit(lane.name, gutter - 8), 4, lane.y + Math.min(lane.height, 18) / 2);
    }
    drawAxis(colour);
    paper.save();
    paper.beginPath();
    paper.rect(gutter, axis, width - gutter, height - 2 * axis);
    paper.clip();
    drawBands(colour);
    for (const lane of chart.lanes) drawLane(lane, colour);
    paper.restore();
    output.textContent = seconds(Math.max(0, view.from), 3) + " to " + seconds(Math.min(chart.span, view.to), 3);
  }

  function drawAxis(colour) {
    const step = tick(), digits = Math.max(0, 6 - Math.floor(Math.log10(step) + 1e-9));
    paper.textAlign = "center";
    // Marks stand on round times of the history.
    for (let t = Math.ceil((chart.from + Math.max(0, view.from)) / step) * step - chart.from;
      t <= Math.min(chart.span, view.to); t += step) {
      paper.fillStyle = colour("line");
      paper.fillRect(x(t), axis - 4, 1, height - 2 * axis + 8);
      paper.fillStyle = colour("faint");
      const at = Math.max(gutter + 20, Math.min(width - 24, x(t)));
      for (const y of [axis / 2, height - axis / 2]) paper.fillText(seconds(t, digits), at, y);
    }
    paper.textAlign = "left";
  }

  // drawBands draws what concerns all from top to bottom.
  function drawBands(colour) {
    for (const lane of chart.lanes.slice(0, 2)) {
      for (const bar of lane.bars) {
        if (bar[KIND] < FAULT || bar[ROW] < 0 || bar[UNTIL] < view.from || bar[FROM] > view.to) continue;
        paper.fillStyle = colour(bar[KIND] === FAULT ? "fault" : "bad");
        paper.globalAlpha = bar[NOTE] === pinned ? 0.45 : 0.16;
        paper.fillRect(x(bar[FROM]), lane.y, Math.max(1, x(bar[UNTIL]) - x(bar[FROM])), height - axis - lane.y);
      }
    }
    paper.globalAlpha = 1;
  }

  // shape is where a bar is drawn in its lane: clients and command lines thinner than commands.
  function shape(lane, bar) {
    const left = x(bar[FROM]), wide = Math.max(bar[KIND] >= LEFT ? 2 : 1, x(bar[UNTIL]) - left);
    if (bar[ROW] >= 0) return [left, lane.y + bar[ROW] * lane.row + 1, wide, Math.max(2, lane.row - 2)];
    if (bar[KIND] <= UNDATED) return [left, lane.y + lane.height / 2 - 2, wide, 4];
    return [left, lane.y, wide, lane.height];
  }

  function tone(bar, colour) {
    switch (bar[KIND]) {
    case PRESENT: return colour("present");
    case UNDATED: return colour("unknown");
    case LEFT: return colour("left");
    case FAULT: return colour("fault");
    case VIOLATION: return colour("bad");
    }
    return bar[SLOT] === 0 ? colour("unknown") : colour("s" + ((bar[SLOT] - 1) % 6 + 1));
  }

  function drawLane(lane, colour) {
    const drawn = new Map(); // up to which pixel, by kind and row: bars that do not show cost nothing
    for (let i = 0; i < lane.bars.length; i++) {
      const bar = lane.bars[i];
      if (bar[UNTIL] < view.from || bar[FROM] > view.to) continue;
      const [left, top, wide, high] = shape(lane, bar);
      const place = bar[KIND] * 100 + bar[ROW];
      if (bar[NOTE] !== pinned && left + wide <= drawn.get(place)) continue;
      drawn.set(place, Math.ceil(left + wide));
      paper.globalAlpha = bar[KIND] >= FAULT && bar[ROW] < 0 ? 0.65 : 1;
      paper.fillStyle = tone(bar, colour);
      // Pixels between neighbours keep them apart, if there is room.
      paper.fillRect(left, top, wide > 4 ? wide - 1 : wide, high);
      if (bar[NOTE] === pinned) {
        paper.globalAlpha = 1;
        paper.strokeStyle = colour("ink");
        paper.strokeRect(left - 0.5, top - 0.5, wide + 1, high + 1);
      }
      name(lane, i, left, top, wide, high, colour);
    }
    paper.globalAlpha = 1;
  }

  // name writes on a bar what it is, or beside it, if it is a fault or a violation.
  function name(lane, i, left, top, wide, high, colour) {
    const bar = lane.bars[i], beside = bar[KIND] >= FAULT;
    if (high < 9 || bar[ROW] < 0) return;
    let room = Math.min(left + wide, width) - Math.max(left, gutter) - 6;
    let from = Math.max(left, gutter) + 3;
    if (beside && room < 40) {
      from = left + wide + 3;
      room = (lane.next[i] === undefined ? width : Math.min(x(lane.next[i]), width)) - from - 3;
    }
    if (room < 24) return;
    paper.globalAlpha = 1;
    paper.fillStyle = beside && from > left + 3 ? colour("ink") : colour("on");
    const text = chart.notes[bar[NOTE]];
    const short = fit(text, room);
    if (short.length > 2) paper.fillText(short, from, top + high / 2 + 0.5);
  }

  function redraw() {
    if (!queued) requestAnimationFrame(draw);
    queued = true;
  }

  function show(from, to) {
    const wide = Math.max(narrowest, Math.min(whole.to - whole.from, to - from));
    from = Math.max(whole.from, Math.min(whole.to - wide, from + (to - from - wide) / 2));
    view = {from, to: from + wide};
    redraw();
  }

  // zoom keeps the moment at that pixel where it is.
  function zoom(factor, px) {
    const at = time(px), wide = Math.max(narrowest, Math.min(whole.to - whole.from, span() * factor));
    const from = at - (at - view.from) * wide / span();
    show(from, from + wide);
  }

  function pan(px) {
    const by = px / (width - gutter) * span();
    show(view.from + by, view.to + by);
  }

  // under finds the bar that is drawn last at a point, give or take what a pointer misses by.
  function under(px, py) {
    const lane = chart.lanes.find((l) => py >= l.y && py <= l.y + l.height);
    if (!lane) return null;
    if (px < gutter) return {lane};
    for (let i = lane.bars.length - 1; i >= 0; i--) {
      const [left, top, wide, high] = shape(lane, lane.bars[i]);
      const deep = lane.bars[i][KIND] <= UNDATED || py >= top - 1 && py <= top + high + 1;
      if (px >= left - 2 && px <= left + wide + 2 && deep) return {lane, bar: lane.bars[i]};
    }
    return null;
  }

  function point(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function hover(event) {
    const found = under(...point(event)), before = pinned;
    pinned = found && found.bar ? found.bar[NOTE] : -1;
    if (pinned !== before) redraw();
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = found.lane.name;
    if (found.bar) {
      const [from, until] = [found.bar[FROM], found.bar[UNTIL]];
      tip.textContent = chart.notes[found.bar[NOTE]] + "\n" + seconds(from, 6) +
        (until > from ? " to " + seconds(until, 6) + ", " + long(until - from) : "");
    }
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 6);
    const below = event.clientY + 18 + tip.offsetHeight < window.innerHeight;
    tip.style.left = Math.max(6, left) + "px";
    tip.style.top = (below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10) + "px";
  }

  function leave() {
    tip.hidden = true;
    if (pinned >= 0) redraw();
    pinned = -1;
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    tip.hidden = true;
    const lines = event.deltaMode === 1 ? 16 : 1;
    const sideways = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) pan(sideways * lines);
    else zoom(Math.exp(event.deltaY * lines * 0.002), point(event)[0]);
  }, {passive: false});

  const held = new Map(); // where each pointer is that is down
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, point(event)[0]);
    hover(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) {
      hover(event);
      return;
    }
    const before = [...held.values()], now = point(event)[0], old = held.get(event.pointerId);
    if (now === old) return;
    held.set(event.pointerId, now);
    leave();
    if (held.size === 1) pan(old - now);
    if (held.size !== 2) return;
    const after = [...held.values()];
    const apart = (pair) => Math.max(10, Math.abs(pair[0] - pair[1])), middle = (pair) => (pair[0] + pair[1]) / 2;
    zoom(apart(before) / apart(after), middle(after));
    pan(middle(before) - middle(after));
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => held.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") leave(); });
  canvas.addEventListener("dblclick", () => show(whole.from, whole.to));
  canvas.addEventListener("keydown", (event) => {
    const middle = (gutter + width) / 2, step = (width - gutter) / 5;
    const keys = {
      ArrowLeft: () => pan(-step), ArrowRight: () => pan(step), "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle),
      "-": () => zoom(2, middle), "0": () => show(whole.from, whole.to), Escape: leave,
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.getElementById("in").addEventListener("click", () => zoom(0.5, (gutter + width) / 2));
  document.getElementById("out").addEventListener("click", () => zoom(2, (gutter + width) / 2));
  document.getElementById("all").addEventListener("click", () => show(whole.from, whole.to));
  for (const button of document.querySelectorAll("li button")) {
    button.addEventListener("click", () => {
      const at = Number(button.dataset.at), until = Number(button.dataset.until);
      const around = Math.max(3 * (until - at), chart.span / 200, narrowest);
      show(at - around, until + around);
      canvas.scrollIntoView({block: "center"});
    });
  }

  function arrange() {
    layout();
    draw();
  }
  window.addEventListener("resize", arrange);
  window.addEventListener("scroll", leave, {passive: true});
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", arrange);
  // Paper is light, and has a width of its own.
  window.addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); arrange(); });
  window.addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); arrange(); });
  arrange();
})();
