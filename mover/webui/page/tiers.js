// Tiers: how full each one is, and of what.
import {h, keyed, later, put, say, show} from './dom.js'
import {bar, note, tellBar, tellNote} from './parts.js'
import {sentence, word} from './text.js'
import {bytes, plural} from './units.js'

// A tier that is fuller is shown as one that will soon be full, whether it evicts or not:
// the usual marks of tiering.Watermarks.
export const low = 80
export const high = 90

const most = 400 // lines that are shown
const agentsMost = 8 // that are named in a line
const levels = ['hot', 'warm', 'cold']

// Tiers is the view.
export class Tiers {
  constructor(feed) {
    this.feed = feed
    this.note = note('status')
    this.list = h('div', {class: 'cards'})
    this.legend = h('p', {class: 'legend'},
      h('span', {class: 'leased'}, 'replicas that are held: leased or pinned'),
      h('span', {class: 'replicas'}, 'other replicas'),
      h('span', {class: 'other'}, 'everything else'),
      this.marks = h('span', {class: 'mark'}, 'watermark: above it replicas are evicted, down to the other one'))
    this.node = h('section', {class: 'view'}, this.legend, this.note, this.list)
    feed.addEventListener('change', later(() => this.draw(), 250))
  }

  choose() { this.draw() }

  draw() {
    if (!this.node.isConnected) return
    this.feed.slowly('tiers')
    const {lists, refusals} = this.feed
    const lines = lists.tiers?.items ?? []
    const none = lists.tiers ? 'No tiers are configured.' : 'Reading …'
    tellNote(this.note, refusals.has('tiers') ? sentence(refusals.get('tiers')) : lines.length ? '' : none)
    show(this.legend, lines.length)
    show(this.marks, lines.some((line) => line.highPercent))
    const tiers = [...Map.groupBy(lines.slice(0, most), (line) => line.name)]
    const rank = ([, [{level}]]) => levels.includes(level) ? levels.indexOf(level) : levels.length
    tiers.sort((a, b) => rank(a) - rank(b) || (a[0] < b[0] ? -1 : 1))
    keyed(this.list, tiers, ([name]) => name, makeTier, tellTier)
  }
}

function makeTier([name]) {
  const title = h('h3', {}, word(name), h('span', {class: 'chip'}), h('span', {class: 'dim'}))
  return h('section', {class: 'card'}, title, h('div', {class: 'nodes'}))
}

function tellTier(card, [, lines]) {
  const [{level, location, ephemeral}] = lines
  const [, chip, about] = card.firstChild.childNodes
  say(chip, word(level ?? ''))
  put(chip, 'data-level', level)
  const nodes = lines.length > 1 ? plural(lines.length, 'node', 'nodes') : ''
  say(about, [word(location ?? ''), ephemeral ? 'ephemeral' : '', nodes].filter(Boolean).join(' · '))
  card.classList.toggle('wide', lines.length > 1)
  const byNode = lines.toSorted((a, b) => (a.node ?? '') < (b.node ?? '') ? -1 : 1)
  keyed(card.lastChild, byNode, (l) => `${l.node ?? ''} ${l.location}`, makeLine, tellLine)
}

function makeLine() {
  const fill = bar('leased', 'replicas', 'other')
  fill.classList.add('fill')
  fill.append(h('i', {class: 'low'}), h('i', {class: 'high'}))
  return h('div', {class: 'tier'}, h('p', {}, h('b'), h('span')), fill, h('p', {class: 'dim'}), h('p', {class: 'dim'}))
}

// tellLine writes how full a tier is, on one node if every node has one.
function tellLine(line, t) {
  const [head, fill, parts, reach] = line.children
  for (const [mark, at] of [['low', t.lowPercent], ['high', t.highPercent]]) {
    const node = fill.querySelector('i.' + mark)
    show(node, at)
    node.style.left = `${Number(at ?? 0)}%`
  }
  const [total, free, replicas, leased] = [t.totalBytes, t.freeBytes, t.replicaBytes, t.leasedBytes].map((n) => Number(n ?? 0))
  const used = Math.max(0, total - free)
  const percent = total ? used / total * 100 : 0
  say(head.firstChild, word(t.node ?? '') || 'shared')
  say(head.lastChild, total ? `${bytes(used)} of ${bytes(total)} · ${Math.floor(percent)}% full` : 'its size is not known')
  show(fill, total)
  tellBar(fill, leased / total, (Math.min(replicas, used) - leased) / total, (used - replicas) / total)
  put(fill, 'data-full', percent > high ? 'high' : percent > low ? 'low' : null)
  const held = leased ? `${bytes(leased)} of them held` : ''
  say(parts, [total ? `${bytes(free)} free` : '', `${bytes(replicas)} replicas`, held].filter(Boolean).join(' · '))
  tellReach(reach, t.agents ?? [], t.node)
}

function tellReach(node, agents, itself) {
  const rest = agents.length - agentsMost
  const named = agents.slice(0, agentsMost).map(word).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
  const own = agents.length === 1 && agents[0] === itself
  say(node, own ? '' : agents.length ? `reached by ${named}` : 'no agent reaches it')
  node.classList.toggle('bad', !agents.length)
}
