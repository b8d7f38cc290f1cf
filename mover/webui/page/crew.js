// Who works on a task, and on what for the longest time.
import {now} from './api.js'
import {keyed, put, show} from './dom.js'
import {cells, section, table} from './parts.js'
import {hasEnded} from './task.js'
import {ending, name, word} from './text.js'
import {age, duration, nanoseconds, perSecond} from './units.js'

// Crew is the tables of agents and of slowest items.
export class Crew {
  constructor() {
    this.agents = table(['Agent', 'Part', 'State', 'Rate', 'Heard of'], 'crew')
    this.slow = table(['Name', 'In work for', 'Agent'], 'slow')
    this.nodes = [section('Agents', this.agents.node), section('Longest in work', this.slow.node)]
  }

  // tell writes what a task says of itself, and what is known of those agents.
  tell(t, message, agents) {
    const ended = hasEnded(t.state)
    const known = new Map(agents.map((a) => [a.name, a]))
    const helpers = (message.helpers ?? []).filter((n) => n !== message.agent)
    const crew = ended ? [] : [...message.agent ? [[message.agent, 'leads']] : [], ...helpers.map((n) => [n, 'helps'])]
    keyed(this.agents.body, crew, ([n]) => n, this.agents.line, (line, [n, part]) => tellAgent(line, n, part, known.get(n)))
    const slowest = ended ? [] : message.progress?.slowest ?? []
    keyed(this.slow.body, slowest, (i) => `${i.name} ${i.agent}`, this.slow.line,
      (line, i) => cells(line, [name(i.name), duration(nanoseconds(i.since)), word(i.agent ?? '')]))
    show(this.nodes[0], crew.length)
    show(this.nodes[1], slowest.length)
  }
}

function tellAgent(line, n, part, a) {
  const state = ending(a?.state, 'AGENT_STATE_') || 'not known'
  cells(line, [word(n), part, state, a ? perSecond(a.bytesPerSecond ?? 0) : '', a?.seenTime ? age(Date.parse(a.seenTime), now()) + ' ago' : ''])
  put(line, 'data-state', state)
}
