// What lies over the lanes: the pointer, the selected row with its launch and its peers, and the measured range.
"use strict";
((tracekit) => {
  const { bar, inSight, tops, xOf } = tracekit.canvas;
  const { AXIS } = tracekit.layout;

  /** The row of the plot on which a row of the data stands: its lane, or its device where that is folded. */
  function placeOf(app, row, sight = inSight(app)) {
    const lane = tracekit.lanes.laneOf(app.index.lanes, row);
    return (
      sight.find((other) => other.lane === lane) ??
      sight.find((other) => other.group === lane.group && other.subject === lane.group) ??
      null
    );
  }

  /** The box of a row of the data on the plot; null where its lane is out of sight. */
  function boxOf(app, row, sight) {
    const place = placeOf(app, row, sight);
    if (!place) return null;
    const left = xOf(app, app.data.start[row]);
    const right = xOf(app, app.data.end[row]);
    return { left, right, ...bar(place), clip: place.clip };
  }

  /** A frame around a row, at least wide enough to be seen; it is no ink of the lane. */
  function outline(context, box, width) {
    const left = Math.max(box.left, -4);
    const right = Math.min(box.right, width + 4);
    if (right < 0 || left > width || box.top + box.height < box.clip) return;
    context.strokeRect(left - 1.5, box.top - 1.5, Math.max(right - left, 0) + 3, box.height + 3);
  }

  /** The line from the selected row to the host call that started it, or a mark at its time where no lane shows it. */
  function launch(app, context, sight) {
    const call = app.data.launch[app.selected];
    if (!(call >= 0)) return;
    const from = boxOf(app, app.selected, sight);
    const to = boxOf(app, call, sight);
    const x = xOf(app, app.data.start[call]);
    context.setLineDash([4, 3]);
    context.beginPath();
    if (to && from) {
      outline(context, to, app.size.width);
      context.moveTo(to.left, to.top);
      context.lineTo(from.left, from.top + from.height);
    } else {
      context.moveTo(x, AXIS);
      context.lineTo(x, app.size.height);
    }
    context.stroke();
    context.setLineDash([]);
    if (!to) {
      context.fillText("launch", x + 4, app.size.height - 6);
    }
  }

  /** The rows of the selected collective on all devices, joined from device to device. */
  function peers(app, context, sight) {
    const boxes = app.peers
      .map((row) => boxOf(app, row, sight))
      .filter(Boolean)
      .toSorted((a, b) => a.top - b.top);
    context.beginPath();
    boxes.forEach((box, at) => {
      const x = Math.min(
        Math.max((Math.max(box.left, 0) + Math.min(box.right, app.size.width)) / 2, -9),
        app.size.width + 9,
      );
      if (at === 0) context.moveTo(x, box.top + box.height);
      else {
        context.lineTo(x, box.top);
        context.moveTo(x, box.top + box.height);
      }
    });
    context.stroke();
    for (const box of boxes) outline(context, box, app.size.width);
  }

  /** The measured range, and its length. */
  function range(app, context) {
    const { colours, size } = app;
    const [from, to] = [app.range.from, app.range.to].map((time) => xOf(app, time));
    context.fillStyle = colours.accentSoft;
    context.fillRect(from, AXIS, to - from, size.height - AXIS);
    context.fillStyle = colours.accent;
    for (const x of [from, to]) context.fillRect(Math.round(x) - 0.5, AXIS - 8, 1.5, size.height - AXIS + 8);
    const text = tracekit.units.time((app.range.to - app.range.from) * app.data.unitPs);
    const width = context.measureText(text).width;
    const middle = Math.min(Math.max((from + to) / 2, width / 2 + 4), size.width - width / 2 - 4);
    context.fillRect(middle - width / 2 - 4, 0, width + 8, 15);
    context.fillStyle = colours.paper;
    context.fillText(text, middle - width / 2, 11.5);
  }

  /** The pointer's time, as a hair line. */
  function hair(app, context) {
    const { colours, size } = app;
    context.fillStyle = colours.grey;
    context.fillRect(Math.round(app.pointer.x), AXIS, 1, size.height - AXIS);
  }

  /** The selected place of the memory in use, where its lane is in sight. */
  function memory(app, context, sight) {
    const { group, place, at = -Infinity } = app.memory;
    const row = sight.find((other) => other.memory === group.memory);
    if (!row) return;
    const { time, inUse, peak } = group.memory;
    const { top, height } = bar(row);
    context.beginPath();
    const y = top + height * (1 - inUse[place] / Math.max(inUse[peak], 1));
    context.arc(xOf(app, Math.max(time[place], at)), y, 4, 0, 2 * Math.PI);
    context.stroke();
  }

  /** One frame of the overlay. */
  function frame(app) {
    const context = app.dom.over.getContext("2d");
    const { size, colours } = app;
    context.setTransform(size.scale, 0, 0, size.scale, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    context.font = tracekit.canvas.FONT;
    if (app.range) range(app, context);
    if (app.pointer) hair(app, context);
    const sight = inSight(app);
    context.save();
    context.beginPath();
    context.rect(0, tops(app).pinned - 2, size.width, size.height);
    context.clip();
    context.strokeStyle = colours.ink;
    context.fillStyle = colours.ink;
    context.lineWidth = 1;
    if (app.hover >= 0) {
      const box = boxOf(app, app.hover, sight);
      if (box) outline(context, box, size.width);
    }
    if (app.memory) {
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      memory(app, context, sight);
    }
    if (app.selected >= 0) {
      context.strokeStyle = colours.accent;
      context.fillStyle = colours.accent;
      context.lineWidth = 2;
      launch(app, context, sight);
      if (app.peers.length > 1) peers(app, context, sight);
      const box = boxOf(app, app.selected, sight);
      if (box) outline(context, box, size.width);
    }
    context.restore();
  }

  tracekit.overlay = { frame, placeOf };
})((globalThis.tracekit ??= {}));
