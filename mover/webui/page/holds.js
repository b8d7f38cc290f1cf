// What keeps replicas where they are: leases and pins.
import {now} from './api.js'
import {h, keyed, show} from './dom.js'
import {cells, section, table} from './parts.js'
import {sentence, short, word} from './text.js'
import {age, moment} from './units.js'

const most = 200 // of each that are shown

// Holds is the tables of both.
export class Holds {
  constructor() {
    this.leases = table(['Dataset', 'On', 'Holder', 'Owner', 'Ends'])
    this.pins = table(['Dataset', 'On', 'Until', 'Owner', 'Reason'])
    this.sections = [section('Leases', this.leases.node), section('Pins', this.pins.node)]
    this.node = h('div', {class: 'held'}, ...this.sections)
  }

  // tell shows those of some datasets.
  tell(leases, pins, datasets) {
    const of = (all) => all.filter((x) => datasets.has(x.dataset)).slice(0, most)
    const who = (x) => word(x.owner?.name ?? '')
    keyed(this.leases.body, of(leases), (l) => l.id, this.leases.line,
      (line, l) => cells(line, [version(l), where(l), word(l.holder ?? ''), who(l), ends(l.expireTime)]))
    keyed(this.pins.body, of(pins), (p) => `${p.dataset} ${p.digest ?? ''} ${p.tier ?? ''}`, this.pins.line,
      (line, p) => cells(line, [version(p), where(p), ends(p.until), who(p), sentence(p.reason)]))
    show(this.sections[0], of(leases).length)
    show(this.sections[1], of(pins).length)
  }
}

const version = (x) => word(x.dataset) + (x.digest ? '@' + short(x.digest) : '')
const where = (x) => [x.tier, x.node].filter(Boolean).map(word).join(' / ') || 'every tier'

function ends(time) {
  const t = Date.parse(time)
  return `${moment(t)}, ${t > now() ? 'in ' + age(now(), t) : age(t, now()) + ' ago'}`
}
