// Datasets: where each one is, how that was checked, and who needs it.
import {now} from './api.js'
import {h, keyed, later, put, say, show} from './dom.js'
import {cells, note, table, tellNote} from './parts.js'
import {ending, sentence, word} from './text.js'
import {age, bytes, count, moment, plural} from './units.js'

const most = 200 // datasets that are shown; a filter finds the others
const rank = {read: 3, server: 3, written: 2, cloned: 1} // a level in the map

// Datasets is the view.
export class Datasets {
  constructor(feed, {asked}) {
    this.feed = feed
    this.search = h('input', {type: 'search', placeholder: 'Search  ( / )', 'aria-label': 'Search in names', spellcheck: 'false', autocomplete: 'off',
      maxlength: 200, oninput: () => asked(new URLSearchParams(this.search.value ? {text: this.search.value} : {}))})
    this.count = h('span', {class: 'dim', role: 'status'})
    this.note = note('status')
    this.head = h('tr')
    this.body = h('tbody')
    this.map = h('table', {class: 'map'}, h('thead', {}, this.head), this.body)
    this.leases = table(['Dataset', 'On', 'Holder', 'Owner', 'Ends'])
    this.pins = table(['Dataset', 'On', 'Until', 'Owner', 'Reason'])
    this.held = h('div', {class: 'held'}, h('section', {}, h('h3', {}, 'Leases'), this.leases.node), h('section', {}, h('h3', {}, 'Pins'), this.pins.node))
    this.legend = h('p', {class: 'legend'}, h('span', {class: 'verified'}, '✓ verified by the store or by reading'), h('span', {class: 'written'}, 'written, or cloned'), h('span', {class: 'moving'}, 'on its way, or going'))
    this.node = h('section', {class: 'view'}, h('div', {class: 'filters'}, this.search, this.count), this.legend, this.note, h('div', {class: 'scroll'}, this.map), this.held)
    feed.addEventListener('change', later(() => this.draw(), 250))
  }

  choose(query) {
    const text = (query.get('text') ?? '').slice(0, 200)
    if (this.search.value !== text) this.search.value = text
    this.draw()
  }

  draw() {
    if (!this.node.isConnected) return
    this.feed.slowly('tiers', 'datasets', 'replicas', 'leases', 'pins')
    const {lists, refusals} = this.feed
    const items = (name) => lists[name]?.items ?? []
    const replicas = Map.groupBy(items('replicas'), (r) => r.dataset ?? '')
    const names = [...new Set([...items('datasets').map((d) => d.name), ...replicas.keys()])].sort()
    const text = this.search.value.toLowerCase()
    const shown = names.filter((n) => n.toLowerCase().includes(text))
    const tiers = [...new Set([...items('tiers').map((t) => t.name), ...items('replicas').map((r) => r.tier ?? '')])]
    keyed(this.head, ['Dataset', 'Newest version', ...tiers], (t) => t, (t) => h('th', {scope: 'col'}, word(t) || 'elsewhere'))
    const known = new Map(items('datasets').map((d) => [d.name, d]))
    keyed(this.body, shown.slice(0, most), (n) => n, makeDataset, (line, n) => tellDataset(line, known.get(n) ?? {name: n}, tiers, replicas.get(n) ?? []))
    say(this.count, plural(shown.length, 'dataset', 'datasets') + (shown.length > most ? `, the first ${most} are shown` : ''))
    const refused = ['datasets', 'replicas', 'tiers'].map((name) => refusals.get(name)).find(Boolean)
    tellNote(this.note, refused ? sentence(refused) : !lists.datasets ? 'Reading …' : names.length ? shown.length ? '' : 'No dataset is like that.' : 'There are no datasets. datamove dataset add NAME LOCATION makes one.')
    show(this.map, shown.length)
    show(this.legend, shown.length)
    this.#drawHeld(items, new Set(shown))
  }

  #drawHeld(items, shown) {
    const of = (name) => items(name).filter((x) => shown.has(x.dataset)).slice(0, most)
    const on = (x) => [x.tier, x.node].filter(Boolean).map(word).join(' / ') || 'every tier'
    const version = (x) => word(x.dataset) + (x.digest ? '@' + short(x.digest) : '')
    const who = (x) => word(x.owner?.name ?? '')
    keyed(this.leases.body, of('leases'), (l) => l.id, this.leases.line, (line, l) => cells(line, [version(l), on(l), word(l.holder ?? ''), who(l), ends(l.expireTime)]))
    keyed(this.pins.body, of('pins'), (p) => `${p.dataset} ${p.digest ?? ''} ${p.tier ?? ''}`, this.pins.line, (line, p) => cells(line, [version(p), on(p), ends(p.until), who(p), sentence(p.reason ?? '')]))
    show(this.leases.node.parentNode, of('leases').length)
    show(this.pins.node.parentNode, of('pins').length)
  }
}

const short = (digest) => word((digest ?? '').slice(0, 12))

function ends(time) {
  const t = Date.parse(time)
  return `${moment(t)}, ${t > now() ? 'in ' + age(now(), t) : age(t, now()) + ' ago'}`
}

function makeDataset(name) {
  return h('tr', {}, h('th', {scope: 'row'}, word(name), h('span', {class: 'dim'})), h('td'))
}

function tellDataset(line, d, tiers, replicas) {
  const [newest] = d.versions ?? []
  say(line.firstChild.lastChild, [word(d.project ?? ''), word(d.owner?.name ?? ''), plural(d.versions?.length ?? 0, 'version', 'versions')].filter(Boolean).join(' · '))
  say(line.children[1], newest ? `${bytes(newest.bytes ?? 0)} · ${plural(newest.entries ?? 0, 'entry', 'entries')} · ${short(newest.digest)}` : '–')
  const byTier = Map.groupBy(replicas, (r) => r.tier ?? '')
  while (line.children.length > tiers.length + 2) line.lastChild.remove()
  while (line.children.length < tiers.length + 2) line.append(h('td', {class: 'where'}))
  tiers.forEach((tier, i) => {
    const there = byTier.get(tier) ?? []
    keyed(line.children[i + 2], there.slice(0, 8), (r) => `${r.digest} ${r.node ?? ''} ${r.location}`, () => h('span', {class: 'replica'}), (badge, r) => tellReplica(badge, r, newest))
    put(line.children[i + 2], 'data-more', there.length > 8 ? `and ${count(there.length - 8)} more` : null)
  })
}

function tellReplica(badge, r, newest) {
  const state = ending(r.state, 'REPLICA_STATE_')
  const level = ending(r.level, 'LEVEL_')
  const whole = state === 'whole'
  const verified = whole && rank[level] === 3
  put(badge, 'data-state', !whole ? 'moving' : verified ? 'verified' : 'written')
  const pinned = r.pinnedUntil && Date.parse(r.pinnedUntil) > now()
  say(badge, (verified ? '✓ ' : '') + [word(r.node ?? ''), whole ? level : state, r.digest !== newest?.digest ? 'old ' + short(r.digest) : '',
    r.leases ? plural(r.leases, 'lease', 'leases') : '', pinned ? 'pinned' : ''].filter(Boolean).join(' · '))
  put(badge, 'title', [word(r.location ?? ''), bytes(r.bytes ?? 0), r.useTime && 'used ' + moment(Date.parse(r.useTime)), pinned && 'pinned until ' + moment(Date.parse(r.pinnedUntil)), r.task && 'task ' + word(r.task)].filter(Boolean).join('\n'))
}
