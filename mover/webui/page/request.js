// What a task was asked to do, and the facts of its life.
import {now} from './api.js'
import {facts, h} from './dom.js'
import {ending, sentence, word} from './text.js'
import {age, bytes, count, moment, perSecond} from './units.js'

// Request is the list of facts.
export class Request {
  constructor() {
    this.list = h('dl', {class: 'facts'})
    this.node = h('section', {}, h('h3', {}, 'Request'), this.list)
  }

  tell(t, m) {
    const {sources = [], source = '', target = '', node = '', options = {}, labels = {}} = m.spec ?? {}
    facts(this.list, [
      ['Id', t.id],
      ['Kind', t.kind],
      ['Class', t.class],
      ['Source', (sources.length ? sources : [source]).map(word).join('  ')],
      ['Target', word(target)],
      ['Dataset', word(t.dataset)],
      ['Owner', m.owner ? `${word(m.owner.name ?? '')} (uid ${m.owner.uid ?? 0})` : ''],
      ['Project', word(t.project)],
      ['Node', word(node)],
      ['Submitted', when(m.createTime)],
      ['Started', when(m.startTime)],
      ['First byte', when(m.firstByteTime)],
      ['Ended', when(m.endTime)],
      ['Leads', m.tries ? `${count(m.tries)}, the last one with epoch ${m.epoch ?? 0}` : ''],
      ['Options', optionsOf(options)],
      ['Labels', Object.entries(labels).map(([k, v]) => `${word(k)}=${word(v)}`).join('  ')],
      ['Key', word(m.idempotencyKey ?? '')],
      ['In a shell', `datamove task show ${t.id}`],
    ])
  }
}

const when = (time) => time ? `${moment(Date.parse(time))} (${age(Date.parse(time), now())} ago)` : ''

// How options are printed that are no plain word or number.
const printed = {
  bytesPerSecond: perSecond,
  memoryBytes: bytes,
  verify: (level) => ending(level, 'LEVEL_'),
  rules: (rules) => rules.map((r) => (r.exclude ? '-' : '+') + word(r.pattern ?? '')).join(' '),
  names: (names) => count(names.length),
  maxDelete: (bound) => bound.percent === undefined ? count(bound.entries ?? 0) : bound.percent + '%',
}

// optionsOf says what was asked for beside the defaults.
function optionsOf(all) {
  return Object.entries(all).map(([key, value]) => {
    const title = key.replace(/[A-Z]/g, (c) => ' ' + c.toLowerCase())
    return value === true ? title : `${title} ${sentence(String(printed[key]?.(value) ?? value))}`
  }).join(', ')
}
