// Agents: the nodes that move data, how they do, and what they reach.
import {now} from './api.js'
import {Chart} from './chart.js'
import {h, keyed, later, put, say, show} from './dom.js'
import {note, pill, table, tellNote, tellPill} from './parts.js'
import {ending, sentence, word} from './text.js'
import {age, count, moment, perSecond, plural} from './units.js'

const most = 400 // agents that are shown; a filter finds the others
const reachesMost = 12
const urgent = ['lost', 'draining', 'drained'] // shown first

const state = (a) => ending(a.state, 'AGENT_STATE_')

// Agents is the view.
export class Agents {
  constructor(feed, {asked}) {
    this.feed = feed
    this.search = h('input', {type: 'search', placeholder: 'Search  ( / )', 'aria-label': 'Search in names and in what agents reach', spellcheck: 'false',
      autocomplete: 'off', maxlength: 200, oninput: () => asked(new URLSearchParams(this.search.value ? {text: this.search.value} : {}))})
    this.count = h('span', {class: 'dim', role: 'status'})
    this.note = note('status')
    this.table = table(['Agent', 'State', 'Leads', 'Helps', 'Rate', 'Last minutes', 'Heard of', 'Reaches', 'Version'], 'agents')
    this.node = h('section', {class: 'view'}, h('div', {class: 'filters'}, this.search, this.count), this.note, this.table.node)
    this.change = later(() => this.draw(), 250)
    feed.addEventListener('change', this.change)
  }

  choose(query) {
    const text = (query.get('text') ?? '').slice(0, 200)
    if (this.search.value !== text) this.search.value = text
    this.draw()
  }

  draw() {
    if (!this.node.isConnected) return
    const {lists, refusals, heard} = this.feed
    const all = lists.agents?.items ?? []
    const text = this.search.value.toLowerCase()
    const found = all.filter((a) => [a.name, a.address, a.version, state(a), ...a.reaches ?? []].some((s) => s?.toLowerCase().includes(text)))
    const order = (a) => urgent.includes(state(a)) ? urgent.indexOf(state(a)) : urgent.length
    found.sort((a, b) => order(a) - order(b) || (a.name < b.name ? -1 : 1))
    keyed(this.table.body, found.slice(0, most), (a) => a.name, (a) => this.#make(a), (line, a) => this.#tell(line, a))
    const rest = found.length > most ? `, the first ${most} are shown` : lists.agents?.whole === false ? ', and more' : ''
    say(this.count, (text ? `${count(found.length)} of ${plural(all.length, 'agent', 'agents')}` : plural(all.length, 'agent', 'agents')) + rest)
    tellNote(this.note, refusals.has('agents') ? sentence(refusals.get('agents')) : found.length ? '' : !heard ? 'Reading …' : all.length ? 'No agent is like that.' : 'No agent has joined.')
    show(this.table.node, found.length)
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
    const seenTime = Date.parse(a.seenTime)
    say(name.lastChild, word(a.address ?? ''))
    tellPill(at.firstChild, state(a))
    put(line, 'data-state', state(a))
    say(leads, count(a.leads ?? 0))
    say(helps, count(a.helps ?? 0))
    say(rate, perSecond(a.bytesPerSecond ?? 0))
    say(seen, a.seenTime ? age(seenTime, now()) + ' ago' : '–')
    put(seen, 'title', [a.seenTime && 'heard of ' + moment(seenTime), a.joinTime && 'joined ' + moment(Date.parse(a.joinTime))].filter(Boolean).join('\n') || null)
    const reached = a.reaches ?? []
    keyed(reaches, reached.slice(0, reachesMost).concat(reached.length > reachesMost ? [`and ${count(reached.length - reachesMost)} more`] : []),
      (r) => r, (r) => h('span', {class: 'chip'}, word(r)))
    say(version, word(a.version ?? '') + (a.root ? '' : '  (not root)'))
    line.chart.draw(this.feed.rates.of('agent ' + a.name), Date.now())
  }
}
