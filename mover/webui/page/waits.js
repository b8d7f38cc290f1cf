// What a task waits for, and what the service says of it.
import {h, keyed, say, show} from './dom.js'
import {bar, section, tellBar} from './parts.js'
import {hasEnded} from './task.js'
import {ending, sentence} from './text.js'
import {duration, nanoseconds} from './units.js'

const sides = {source: 'sourceWait', link: 'linkWait', target: 'targetWait', limit: 'limitWait', queue: 'queueWait'}

// Waits is the part of an open task that says why it is not faster.
export class Waits {
  constructor() {
    this.text = h('p', {id: 'task-why'})
    this.evidence = h('ul', {class: 'dim'})
    this.advice = h('p', {class: 'advice'})
    this.bar = bar(...Object.keys(sides))
    this.legend = h('p', {class: 'legend'})
    this.node = section('What it waits for', h('div', {class: 'because'}, this.text, this.evidence, this.advice), this.bar, this.legend)
  }

  tell(t, message, explanation) {
    const waits = Object.entries(sides).map(([side, field]) => ({side, d: nanoseconds(message.progress?.[field])}))
    const sum = waits.reduce((all, {d}) => all + d, 0)
    tellBar(this.bar, ...waits.map(({d}) => d / sum))
    show(this.bar, sum)
    keyed(this.legend, waits.filter(({d}) => d > 0), ({side}) => side, ({side}) => h('span', {class: side}),
      (span, {side, d}) => say(span, `${side} ${Math.round(d / sum * 100)}% (${duration(d)})`))
    const e = hasEnded(t.state) ? {} : explanation ?? {}
    this.#explain(e)
    show(this.node, sum || e.text)
  }

  #explain(e) {
    const held = ending(e.bottleneck, 'BOTTLENECK_')
    say(this.text, [held === 'none' || held === 'unspecified' ? '' : held.toUpperCase(), sentence(e.text)].filter(Boolean).join(': '))
    keyed(this.evidence, e.evidence ?? [], (line) => line, (line) => h('li', {}, sentence(line)))
    say(this.advice, sentence(e.advice))
  }
}
