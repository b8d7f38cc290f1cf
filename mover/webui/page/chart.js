// A chart of a rate over the last minutes: an area, an axis with units, and what it
// was where the pointer stands, or where the arrow keys lead.
import {h, put, s, say} from './dom.js'
import {perSecond, timeOfDay} from './units.js'

const minute = 60_000
const edge = {top: 8, right: 8, bottom: 18, left: 66}

// scale returns the steps of an axis up to a greatest value: powers of two, as bytes
// are printed.
export function scale(greatest, steps) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(greatest, 64) / steps))
  return Array.from({length: Math.ceil(Math.max(greatest, 1) / step) + 1}, (_, i) => i * step)
}

// Chart draws a History.
export class Chart {
  #history
  #points = []
  #at // index of the point that is looked at

  constructor(title, {minutes = 10, small = false} = {}) {
    Object.assign(this, {title, minutes, small})
    this.area = s('path', {class: 'area'})
    this.line = s('path', {class: 'line'})
    this.axis = s('g', {class: 'axis'})
    this.mark = s('g', {class: 'mark', visibility: 'hidden'}, s('line', {}), s('circle', {r: 3}))
    this.svg = s('svg', {'aria-hidden': 'true'}, this.axis, this.area, this.line, this.mark)
    this.label = h('output', {class: 'reading', hidden: true})
    this.node = h('div', {
      class: small ? 'chart small' : 'chart', role: 'img', tabindex: small ? null : 0,
      onpointermove: (e) => this.#look(e.clientX - this.node.getBoundingClientRect().left), onpointerleave: () => this.#leave(),
      onkeydown: (e) => this.#key(e), onblur: () => this.#leave(),
    }, this.svg, this.label)
    new ResizeObserver(() => this.#history && this.draw(this.#history, this.time)).observe(this.node)
  }

  // draw shows a history up to a time.
  draw(history, time) {
    Object.assign(this, {time})
    this.#history = history
    const {clientWidth: width, clientHeight: height} = this.node
    if (!width || !height) return
    const from = time - this.minutes * minute
    const samples = history.since(from - minute)
    const greatest = samples.reduce((most, [, v]) => v > most ? v : most, 0)
    const marks = scale(greatest, this.small ? 2 : 4)
    const at = this.small ? {top: 2, right: 0, bottom: 1, left: 0} : edge
    const x = (t) => at.left + (t - from) / (time - from) * (width - at.left - at.right)
    const y = (v) => height - at.bottom - v / marks.at(-1) * (height - at.top - at.bottom)
    put(this.svg, 'viewBox', `0 0 ${width} ${height}`)
    this.#points = samples.map(([t, v]) => ({t, v, x: x(t), y: y(v)})).filter((p) => p.x >= at.left)
    this.#trace(y(0))
    if (!this.small) this.#axis(marks, from, x, y, width)
    this.#mark(height)
    const last = samples.at(-1)?.[1]
    put(this.node, 'aria-label', `${this.title}: now ${perSecond(last)}, at most ${perSecond(greatest)} in ${this.minutes} minutes`)
  }

  // trace draws the line, in pieces where samples are missing.
  #trace(ground) {
    const pieces = [[]]
    for (const p of this.#points) {
      if (Number.isNaN(p.v)) pieces.push([])
      else pieces.at(-1).push(p)
    }
    let line = ''
    let area = ''
    for (const piece of pieces.filter((p) => p.length)) {
      const path = piece.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join('L')
      line += 'M' + path
      area += `M${piece[0].x.toFixed(1)},${ground}L${path}L${piece.at(-1).x.toFixed(1)},${ground}Z`
    }
    put(this.line, 'd', line)
    put(this.area, 'd', area)
  }

  #axis(marks, from, x, y, width) {
    const parts = marks.flatMap((v) => [
      s('line', {x1: edge.left, x2: width - edge.right, y1: y(v), y2: y(v)}),
      s('text', {x: edge.left - 8, y: y(v) + 4, 'text-anchor': 'end'}, perSecond(v)),
    ])
    const every = [1, 2, 5, 10].find((n) => x(n * minute) - x(0) > 60) * minute
    for (let t = Math.ceil(from / every) * every; t <= this.time; t += every) {
      if (x(t) < edge.left + 16 || x(t) > width - edge.right - 16) continue
      parts.push(s('text', {x: x(t), y: y(0) + 14, 'text-anchor': 'middle'}, timeOfDay(t).slice(0, 5)))
    }
    this.axis.replaceChildren(...parts)
  }

  #look(x) {
    const known = this.#points.filter((p) => !Number.isNaN(p.v))
    if (!known.length) return
    this.#at = known.reduce((best, p) => Math.abs(p.x - x) < Math.abs(best.x - x) ? p : best).t
    this.#mark(this.node.clientHeight)
  }

  #key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key]
    if (!step) return
    event.preventDefault()
    const known = this.#points.filter((p) => !Number.isNaN(p.v))
    const here = known.findIndex((p) => p.t === this.#at)
    const next = known[Math.min(Math.max((here < 0 ? known.length : here) + step, 0), known.length - 1)]
    this.#at = next?.t
    this.#mark(this.node.clientHeight)
  }

  #leave() {
    this.#at = undefined
    this.#mark(0)
  }

  // mark shows what it was at the point that is looked at.
  #mark(height) {
    const p = this.#points.find((p) => p.t === this.#at)
    put(this.mark, 'visibility', p ? null : 'hidden')
    this.label.hidden = !p
    if (!p) return
    const [rule, dot] = this.mark.children
    for (const [name, value] of [['x1', p.x], ['x2', p.x], ['y1', 0], ['y2', height - (this.small ? 0 : edge.bottom)]]) put(rule, name, value)
    put(dot, 'cx', p.x)
    put(dot, 'cy', p.y)
    say(this.label, `${timeOfDay(p.t)}  ${perSecond(p.v)}`)
    this.label.classList.toggle('left', p.x > this.node.clientWidth / 2)
  }
}
