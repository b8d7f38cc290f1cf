// Agents: the nodes that move data, how they do, and what they reach.
import {now} from './api.js'
import {Chart} from './chart.js'
import {h, keyed, later, put, say, show} from './dom.js'
import {note, pill, search, table, tellNote, tellPill, tellSearch} from './parts.js'
import {ending, sentence, word} from './text.js'
import {age, count, moment, perSecond, plural} from './units.js'

const most = 400 // agents that are shown; a search finds the others
const reachesMost = 12
const urgent = ['lost', 'draining', 'drained'] // shown first
const columns = ['Agent', 'State', 'Leads', 'Helps', 'Rate', 'Last minutes', 'Heard of', 'Reaches', 'Version']

const state = (a) => ending(a.state, 'AGENT_STATE_')

// Agents is the view.
export class Agents {
  constructor(feed, {asked}) {
    this.feed = feed
    this.search = search('Search in names and in what agents reach', (text) => asked(new URLSearchParams(text && {text})))
    this.count = h('span', {class: 'dim', role: 'status'})
    this.note = note('status')
    this.table = table(columns, 'agents')
    this.node = h('section', {class: 'view'}, h('div', {class: 'filters'}, this.search, this.count), this.note, this.table.node)
    feed.addEventListener('change', later(() => this.draw(), 250))
  }

  choose(query) {
    this.text = tellSearch(this.search, query).toLowerCase()
    this.draw()
  }

  draw() {
    if (!this.node.isConnected) return
    const all = this.feed.lists.agents?.items ?? []
    const words = (a) => [a.name, a.address, a.version, state(a), ...a.reaches ?? []]
    const found = all.filter((a) => words(a).some((w) => w?.toLowerCase().includes(this.text)))
    const order = (a) => urgent.includes(state(a)) ? urgent.indexOf(state(a)) : urgent.length
    found.sort((a, b) => order(a) - order(b) || (a.name < b.name ? -1 : 1))
    keyed(this.table.body, found.slice(0, most), (a) => a.name, (a) => this.#make(a), (line, a) => this.#tell(line, a))
    this.#sayCount(all.length, found.length)
  }

  #sayCount(all, found) {
    const {lists, refusals, heard} = this.feed
    const rest = found > most ? `, the first ${most} are shown` : lists.agents?.whole === false ? ', and more' : ''
    say(this.count, (found < all ? count(found) + ' of ' : '') + plural(all, 'agent', 'agents') + rest)
    const none = all ? 'No agent is like that.' : 'No agent has joined.'
    tellNote(this.note, refusals.has('agents') ? sentence(refusals.get('agents')) : found ? '' : heard ? none : 'Reading …')
    show(this.table.node, found)
  }

  #make(a) {
    const line = this.table.line()
    const [name, at, , , , chart] = line.children
    name.append(h('b', {}, word(a.name)), h('span', {class: 'dim'}))
    at.append(pill())
    line.chart = new Chart(`Rate of ${word(a.name)}`, {small: true})
    chart.append(line.chart.node)
    return line
  }

  #tell(line, a) {
    const [name, at, leads, helps, rate, , seen, reaches, version] = line.children
    say(name.lastChild, word(a.address ?? ''))
    tellPill(at.firstChild, state(a))
    put(line, 'data-state', state(a))
    say(leads, count(a.leads ?? 0))
    say(helps, count(a.helps ?? 0))
    say(rate, perSecond(a.bytesPerSecond ?? 0))
    line.chart.draw(this.feed.rates.agents.of(a.name), Date.now())
    say(seen, a.seenTime ? age(Date.parse(a.seenTime), now()) + ' ago' : '–')
    put(seen, 'title', a.joinTime ? 'joined ' + moment(Date.parse(a.joinTime)) : null)
    tellReaches(reaches, a)
    say(version, word(a.version ?? '') + (a.root ? '' : ' (not root)'))
  }
}

function tellReaches(node, {reaches: all = [], lacks = []}) {
  const rest = all.length - reachesMost
  const shown = all.slice(0, reachesMost).concat(rest > 0 ? [`and ${count(rest)} more`] : [], lacks.length ? ['lacks ' + lacks.join(', ')] : [])
  keyed(node, shown, (r) => r, (r) => h('span', {class: 'chip'}, word(r)))
}
