// Tiers: how full each one is, and of what.
import {h, keyed, later, put, say, show} from './dom.js'
import {bar, note, tellBar, tellNote} from './parts.js'
import {sentence, word} from './text.js'
import {bytes, plural} from './units.js'

// Above high replicas are evicted, until low is reached: tiering.Watermarks.
export const low = 80
export const high = 90

const most = 400 // lines
const levels = ['hot', 'warm', 'cold']

// Tiers is the view.
export class Tiers {
  constructor(feed) {
    this.feed = feed
    this.note = note('status')
    this.list = h('div', {class: 'cards'})
    this.legend = h('p', {class: 'legend'}, h('span', {class: 'leased'}, 'replicas that are held: leased or pinned'), h('span', {class: 'replicas'}, 'other replicas'),
      h('span', {class: 'other'}, 'everything else'), h('span', {class: 'mark'}, `watermarks: above ${high}% replicas are evicted, down to ${low}%`))
    this.node = h('section', {class: 'view'}, this.legend, this.note, this.list)
    feed.addEventListener('change', later(() => this.draw(), 250))
  }

  choose() { this.draw() }

  draw() {
    if (!this.node.isConnected) return
    this.feed.slowly('tiers')
    const {lists, refusals} = this.feed
    const tiers = lists.tiers?.items ?? []
    tellNote(this.note, refusals.has('tiers') ? sentence(refusals.get('tiers')) : !lists.tiers ? 'Reading …' : tiers.length ? '' : 'No tiers are configured.')
    show(this.legend, tiers.length)
    const groups = Map.groupBy(tiers.slice(0, most), (t) => t.name)
    const rank = ([, [t]]) => levels.indexOf(t.level) < 0 ? levels.length : levels.indexOf(t.level)
    keyed(this.list, [...groups].sort((a, b) => rank(a) - rank(b) || (a[0] < b[0] ? -1 : 1)), ([name]) => name, makeTier, tellTier)
  }
}

function makeTier([name]) {
  return h('section', {class: 'card'}, h('h3', {}, word(name), h('span', {class: 'chip'}), h('span', {class: 'dim'})), h('div', {class: 'nodes'}))
}

function tellTier(card, [, lines]) {
  const [t] = lines
  const [, level, where] = card.firstChild.childNodes
  say(level, word(t.level ?? ''))
  put(level, 'data-level', t.level)
  say(where, [word(t.location ?? ''), t.ephemeral ? 'ephemeral' : '', lines.length > 1 ? plural(lines.length, 'node', 'nodes') : ''].filter(Boolean).join(' · '))
  card.classList.toggle('wide', lines.length > 1)
  keyed(card.lastChild, lines.toSorted((a, b) => (a.node ?? '') < (b.node ?? '') ? -1 : 1), (l) => `${l.node ?? ''} ${l.location}`, makeLine, tellLine)
}

function makeLine() {
  const fill = bar('leased', 'replicas', 'other')
  fill.classList.add('fill')
  fill.append(h('i', {class: 'low', title: `${low}%`}), h('i', {class: 'high', title: `${high}%`}))
  return h('div', {class: 'tier'}, h('p', {}, h('b'), h('span')), fill, h('p', {class: 'dim'}), h('p', {class: 'dim'}))
}

function tellLine(line, t) {
  const [head, fill, parts, reach] = line.children
  const [total, free, replicas, leased] = [t.totalBytes, t.freeBytes, t.replicaBytes, t.leasedBytes].map((n) => Number(n ?? 0))
  const used = Math.max(0, total - free)
  const share = total ? used / total : 0
  say(head.firstChild, word(t.node ?? '') || 'shared')
  say(head.lastChild, total ? `${bytes(used)} of ${bytes(total)} · ${Math.floor(share * 100)}% full` : 'its size is not known')
  show(fill, total)
  tellBar(fill, leased / total, (Math.min(replicas, used) - leased) / total, (used - replicas) / total)
  put(fill, 'data-full', share * 100 > high ? 'high' : share * 100 > low ? 'low' : null)
  say(parts, [total && `${bytes(free)} free`, `${bytes(replicas)} replicas`, leased && `${bytes(leased)} of them held`].filter(Boolean).join(' · '))
  const agents = t.agents ?? []
  const itself = agents.length === 1 && agents[0] === t.node
  say(reach, itself ? '' : agents.length ? `reached by ${agents.slice(0, 8).map(word).join(', ')}${agents.length > 8 ? ` and ${agents.length - 8} more` : ''}` : 'no agent reaches it')
  reach.classList.toggle('bad', !agents.length)
}
