// Tonight: what policies will do at their next run, and what became of the last ones.
import {now, post} from './api.js'
import {h, keyed, later, put, say, show} from './dom.js'
import {cells, note, pill, table, tellNote, tellPill} from './parts.js'
import {ending, sentence, word} from './text.js'
import {age, bytes, count, duration, moment, plural, second} from './units.js'

const most = 100 // policies and runs that are shown
const ended = ['RUN_STATE_DONE', 'RUN_STATE_STOPPED']
const amount = (t) => `${plural(t?.files ?? 0, 'file', 'files')}, ${bytes(t?.bytes ?? 0)}`

// Tonight is the view.
export class Tonight {
  constructor(feed) {
    this.feed = feed
    this.note = note('status')
    this.next = table(['Policy', 'Mode', 'Scope', 'Next run', 'Will do', 'Will take away', 'Last run', ''], 'policies')
    this.past = table(['Began', 'Policy', 'State', 'By', 'Done', 'Skipped', 'Failed', 'Can be undone until', 'Why', ''], 'runs')
    this.runs = h('section', {hidden: true}, h('h3', {}, 'Runs'), this.past.node)
    this.failed = note('alert')
    this.question = h('p')
    this.doubt = h('dialog', {'aria-label': 'Do it?'}, this.question,
      h('p', {class: 'choice'},
        h('button', {type: 'button', autofocus: true, onclick: () => this.doubt.close()}, 'Leave it'),
        h('button', {type: 'button', class: 'bad', 'data-deed': 'surely', onclick: () => this.#surely()}, 'Do it')))
    this.node = h('section', {class: 'view'}, this.note, this.failed, this.next.node, this.runs, this.doubt)
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
    keyed(this.next.body, policies.slice(0, most), (p) => p.name, () => this.#make(), (line, p) => { tellPolicy(line, p); this.#offer(line, deedOfPolicy(p)) })
    show(this.next.node, policies.length)
    keyed(this.past.body, runs.slice(0, most), (r) => r.id, () => this.#makeRun(), (line, r) => { tellRun(line, r); this.#offer(line, deedOfRun(r)) })
    show(this.runs, runs.length)
  }

  // offer shows in the last cell of a line what can be done, if anything can.
  #offer(line, deed) {
    const cell = line.lastChild
    const {away, readOnly} = this.feed
    if (!cell.firstChild) cell.append(h('button', {type: 'button', onclick: () => this.#ask(line.deed)}))
    line.deed = deed
    say(cell.firstChild, deed?.title ?? '')
    put(cell.firstChild, 'data-deed', deed?.name)
    show(cell.firstChild, deed && !readOnly)
    cell.firstChild.disabled = Boolean(away)
  }

  #ask(deed) {
    this.deed = deed
    say(this.question, deed.question)
    this.doubt.showModal()
  }

  async #surely() {
    this.doubt.close()
    const {name, path} = this.deed
    let why = ''
    try {
      await post(path)
    } catch (e) {
      why = `${name}: ${sentence(e.message)}`
    }
    tellNote(this.failed, why)
    this.feed.again('policies', 'runs')
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

// deedOfPolicy is what can be done with a policy: its announced plan can be run before its time.
function deedOfPolicy({name, announced}) {
  if (!announced?.id || announced.stale) return undefined
  return {name: 'run', title: 'Run now …', path: `/plans/${announced.id}:run`,
    question: `${word(name)} is to run now: ${amount(announced.total)}. ${amount(announced.removes)} may be gone then.`}
}

// deedOfRun is what can be done with a run.
function deedOfRun(r) {
  const about = `the run of ${word(r.policy)} that began at ${moment(Date.parse(r.startTime))}`
  if (r.state === 'RUN_STATE_RUNNING') {
    return {name: 'stop', title: 'Stop …', path: `/runs/${r.id}:stop`, question: `Of ${about}, nothing more is to begin.`}
  }
  if (ended.includes(r.state) && r.keptUntil && Date.parse(r.keptUntil) > now()) {
    return {name: 'undo', title: 'Undo …', path: `/runs/${r.id}:undo`, question: `What ${about} has taken away is to be given back: ${amount(r.done)}.`}
  }
  return undefined
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
  say(next, !p.nextTime ? (p.triggers ?? []).map(word).join('; ') || 'not by itself' : ahead > 0 ? `${moment(when(p))}, in ${duration(Math.floor(ahead / 1000) * second)}` : 'now')
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
