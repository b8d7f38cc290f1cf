// Datasets: where each one is, how that was checked, and who needs it.
import {now} from './api.js'
import {h, keyed, later, put, say, show} from './dom.js'
import {Holds} from './holds.js'
import {note, search, tellNote, tellSearch} from './parts.js'
import {ending, sentence, short, word} from './text.js'
import {bytes, count, moment, plural} from './units.js'

const most = 200 // datasets that are shown; a search finds the others
const badges = 8 // of one dataset on one tier
const verified = ['server', 'read'] // levels that allow a release elsewhere

// Datasets is the view.
export class Datasets {
  constructor(feed, {asked}) {
    this.feed = feed
    this.search = search('Search in names', (text) => asked(new URLSearchParams(text && {text})))
    this.count = h('span', {class: 'dim', role: 'status'})
    this.note = note('status')
    this.head = h('tr')
    this.body = h('tbody')
    this.map = h('table', {class: 'map'}, h('thead', {}, this.head), this.body)
    this.holds = new Holds()
    this.legend = h('p', {class: 'legend'},
      h('span', {class: 'verified'}, '✓ verified by the store or by reading'),
      h('span', {class: 'written'}, 'written, or cloned'),
      h('span', {class: 'moving'}, 'on its way, or going'))
    this.node = h('section', {class: 'view'}, h('div', {class: 'filters'}, this.search, this.count),
      this.legend, this.note, h('div', {class: 'scroll'}, this.map), this.holds.node)
    feed.addEventListener('change', later(() => this.draw(), 250))
  }

  choose(query) {
    this.text = tellSearch(this.search, query).toLowerCase()
    this.draw()
  }

  draw() {
    if (!this.node.isConnected) return
    this.feed.slowly('tiers', 'datasets', 'replicas', 'leases', 'pins')
    const items = (name) => this.feed.lists[name]?.items ?? []
    const known = new Map(items('datasets').map((d) => [d.name, d]))
    const replicas = Map.groupBy(items('replicas'), (r) => r.dataset ?? '')
    const names = [...new Set([...known.keys(), ...replicas.keys()])].sort()
    const found = names.filter((n) => n.toLowerCase().includes(this.text))
    const shown = found.slice(0, most)
    const tiers = [...new Set([...items('tiers').map((t) => t.name), ...items('replicas').map((r) => r.tier ?? '')])]
    keyed(this.head, ['Dataset', 'Newest version', ...tiers], (t) => t, (t) => h('th', {scope: 'col'}, word(t) || 'elsewhere'))
    keyed(this.body, shown, (n) => n, makeDataset, (line, n) => tellDataset(line, known.get(n), tiers, replicas.get(n) ?? []))
    this.holds.tell(items('leases'), items('pins'), new Set(shown))
    this.#sayCount(names.length, found.length)
  }

  #sayCount(all, found) {
    const {lists, refusals} = this.feed
    say(this.count, plural(found, 'dataset', 'datasets') + (found > most ? `, the first ${most} are shown` : ''))
    const refused = ['datasets', 'replicas', 'tiers'].map((name) => refusals.get(name)).find(Boolean)
    const none = all ? 'No dataset is like that.' : 'There are no datasets. datamove dataset add NAME LOCATION makes one.'
    tellNote(this.note, refused ? sentence(refused) : !lists.datasets ? 'Reading …' : found ? '' : none)
    show(this.map, found)
    show(this.legend, found)
  }
}

function makeDataset(name) {
  return h('tr', {}, h('th', {scope: 'row'}, word(name), h('span', {class: 'dim'})), h('td'))
}

// tellDataset writes a line of the map. A dataset that is not known any more may still
// have replicas.
function tellDataset(line, d, tiers, replicas) {
  const [newest] = d?.versions ?? []
  const about = [word(d?.project ?? ''), word(d?.owner?.name ?? ''), plural(d?.versions?.length ?? 0, 'version', 'versions')]
  say(line.firstChild.lastChild, about.filter(Boolean).join(' · '))
  const {bytes: size = 0, entries = 0, digest} = newest ?? {}
  say(line.children[1], newest ? [bytes(size), plural(entries, 'entry', 'entries'), short(digest)].join(' · ') : '–')
  const byTier = Map.groupBy(replicas, (r) => r.tier ?? '')
  while (line.children.length > tiers.length + 2) line.lastChild.remove()
  while (line.children.length < tiers.length + 2) line.append(h('td', {class: 'where'}))
  tiers.forEach((tier, i) => tellCell(line.children[i + 2], byTier.get(tier) ?? [], newest))
}

function tellCell(cell, replicas, newest) {
  const key = (r) => `${r.digest} ${r.node ?? ''} ${r.location}`
  keyed(cell, replicas.slice(0, badges), key, () => h('span', {class: 'replica'}), (badge, r) => tellReplica(badge, r, newest))
  put(cell, 'data-more', replicas.length > badges ? `and ${count(replicas.length - badges)} more` : null)
}

function tellReplica(badge, r, newest) {
  const state = ending(r.state, 'REPLICA_STATE_')
  const level = ending(r.level, 'LEVEL_')
  const whole = state === 'whole'
  const good = whole && verified.includes(level)
  const pinned = r.pinnedUntil && Date.parse(r.pinnedUntil) > now()
  put(badge, 'data-state', good ? 'verified' : whole ? 'written' : 'moving')
  say(badge, (good ? '✓ ' : '') + [
    word(r.node ?? ''), whole ? level : state, r.digest === newest?.digest ? '' : 'old ' + short(r.digest),
    r.leases ? plural(r.leases, 'lease', 'leases') : '', pinned ? 'pinned' : '',
  ].filter(Boolean).join(' · '))
  put(badge, 'title', [
    word(r.location ?? ''), bytes(r.bytes ?? 0), r.useTime && 'used ' + moment(Date.parse(r.useTime)),
    pinned && 'pinned until ' + moment(Date.parse(r.pinnedUntil)), r.task && 'task ' + word(r.task),
  ].filter(Boolean).join('\n'))
}
