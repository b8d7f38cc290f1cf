// Tonight: what policies will do at their next run, and what became of the last ones.
import {now} from './api.js'
import {h, keyed, later, put, say, show} from './dom.js'
import {cells, note, pill, table, tellNote, tellPill} from './parts.js'
import {ending, sentence, word} from './text.js'
import {age, bytes, count, duration, moment, plural, second} from './units.js'

const most = 100 // policies and runs that are shown
const amount = (t) => `${plural(t?.files ?? 0, 'file', 'files')}, ${bytes(t?.bytes ?? 0)}`

// Tonight is the view.
export class Tonight {
  constructor(feed) {
    this.feed = feed
    this.note = note('status')
    this.next = table(['Policy', 'Mode', 'Scope', 'Next run', 'Will do', 'Will take away', 'Last run'], 'policies')
    this.past = table(['Began', 'Policy', 'State', 'By', 'Done', 'Skipped', 'Failed', 'Can be undone until', 'Why'], 'runs')
    this.runs = h('section', {hidden: true}, h('h3', {}, 'Runs'), this.past.node)
    this.node = h('section', {class: 'view'}, this.note, this.next.node, this.runs)
    feed.addEventListener('change', later(() => this.draw(), 250))
  }

  choose() { this.draw() }

  draw() {
    if (!this.node.isConnected) return
    this.feed.slowly('policies', 'runs')
    const {lists, refusals} = this.feed
    const policies = (lists.policies?.items ?? []).toSorted((a, b) => when(a) - when(b) || (a.name < b.name ? -1 : 1))
    const runs = lists.runs?.items ?? []
    const none = lists.policies ? 'The configuration has no policies.' : 'Reading …'
    tellNote(this.note, refusals.has('policies') ? sentence(refusals.get('policies')) : policies.length ? '' : none)
    keyed(this.next.body, policies.slice(0, most), (p) => p.name, () => this.#make(), tellPolicy)
    show(this.next.node, policies.length)
    keyed(this.past.body, runs.slice(0, most), (r) => r.id, () => this.#makeRun(), tellRun)
    show(this.runs, runs.length)
  }

  #make() {
    const line = this.next.line()
    line.children[0].append(h('b'), h('span', {class: 'dim'}))
    line.children[1].append(pill())
    return line
  }

  #makeRun() {
    const line = this.past.line()
    line.children[2].append(pill())
    return line
  }
}

// when a policy runs next; those that do not run by themselves come last.
const when = (p) => p.nextTime ? Date.parse(p.nextTime) : Infinity

function tellPolicy(line, p) {
  const [name, mode, scope, next, will, gone, last] = line.children
  say(name.firstChild, word(p.name))
  say(name.lastChild, p.owner ? ' ' + word(p.owner) : '')
  tellPill(mode.firstChild, word(p.mode))
  say(scope, (p.roots ?? []).map(word).join(', '))
  const ahead = when(p) - now()
  say(next, !p.nextTime ? 'not by itself' : ahead > 0 ? `${moment(when(p))}, in ${duration(Math.floor(ahead / 1000) * second)}` : 'now')
  say(will, p.announced ? amount(p.announced.total) : '–')
  say(gone, p.announced ? amount(p.announced.removes) : '–')
  const ran = p.last?.startTime
  say(last, ran ? `${age(Date.parse(ran), now())} ago: ${word(ending(p.last.state, 'RUN_STATE_'))}` : 'never')
}

function tellRun(line, r) {
  const kept = r.keptUntil && Date.parse(r.keptUntil) > now() ? moment(Date.parse(r.keptUntil)) : ''
  cells(line, [moment(Date.parse(r.startTime)), word(r.policy)])
  tellPill(line.children[2].firstChild, ending(r.state, 'RUN_STATE_'))
  const texts = [word(r.by ?? ''), `${amount(r.done)} of ${amount(r.planned)}`, count(r.skipped ?? 0), count(r.failed ?? 0), kept, word(r.why || r.error || '')]
  texts.forEach((text, i) => say(line.children[i + 3], text))
  put(line, 'data-state', Number(r.failed ?? 0) ? 'failed' : null)
}
