// Usage: who holds how much on a tier, by the catalog.
import {now, post} from './api.js'
import {h, keyed, later, say, show} from './dom.js'
import {note, table, tellNote} from './parts.js'
import {sentence, word} from './text.js'
import {age, bytes, count, plural} from './units.js'

const most = 500 // lines that are shown
const oftenest = 60_000 // milliseconds from one sum of a tier that is followed to the next
const keys = ['owner', 'project', 'age', 'size', 'kind', 'dir']
const titles = {owner: 'Owner', project: 'Project', age: 'Not used for', size: 'Size of files', kind: 'Kind', dir: 'Folder'}

// Usage is the view.
export class Usage {
  #asked = '' // what the lines are of
  #sums

  constructor(feed, {asked}) {
    this.feed = feed
    const choose = () => asked(new URLSearchParams({tier: this.tier.value, by: this.by.value}))
    this.tier = h('select', {'aria-label': 'Tier', onchange: choose})
    this.by = h('select', {'aria-label': 'Sum by', onchange: choose}, ...keys.map((k) => h('option', {value: k}, titles[k])))
    this.about = h('span', {class: 'dim', role: 'status'})
    this.note = note('status')
    this.table = table(['', 'Files', 'Folders', 'Bytes', 'Allocated'], 'usage')
    this.head = this.table.node.querySelector('th')
    this.node = h('section', {class: 'view'}, h('div', {class: 'filters'}, this.tier, this.by, this.about), this.note, this.table.node)
    feed.addEventListener('change', later(() => this.draw(), 250))
  }

  choose(query) {
    this.query = query
    this.draw()
  }

  draw() {
    if (!this.node.isConnected) return
    this.feed.slowly('scans')
    const scans = (this.feed.lists.scans?.items ?? []).filter((s) => s.time)
    const place = (s) => `${s.tier} ${s.node ?? ''}`
    keyed(this.tier, scans, place, (s) => h('option', {value: place(s)}, word(s.tier) + (s.node ? ' on ' + word(s.node) : '')))
    const scan = scans.find((s) => place(s) === this.query.get('tier')) ?? scans[0]
    const by = keys.includes(this.query.get('by')) ? this.query.get('by') : keys[0]
    if (scan) this.tier.value = place(scan)
    this.by.value = by
    const why = this.feed.refusals.get('scans') ?? this.why
    const none = this.feed.lists.scans ? 'No tier was scanned yet: datamove tier scan TIER does it.' : 'Reading …'
    tellNote(this.note, why ? sentence(why) : scan ? '' : none)
    show(this.table.node, scan && !why)
    say(this.about, scan && this.#sums ? `${tell(this.#sums)}, as they were ${age(Date.parse(at(scan)), now())} ago` : '')
    if (scan) this.#ask(scan, by)
  }

  // ask sums once for each choice and scan.
  async #ask(scan, by) {
    const what = JSON.stringify([scan.tier, scan.node, scan.time, by, scan.following ? Math.floor(now() / oftenest) : 0])
    if (what === this.#asked) return
    this.#asked = what
    this.#sums = undefined
    try {
      const answer = await post('/files:sum', {question: {location: scan.tier + ':', node: scan.node ?? ''}, by: [by]})
      if (what !== this.#asked) return
      this.#sums = answer.sums ?? []
      this.why = ''
    } catch (e) {
      this.#sums = undefined
      this.why = e.message
    }
    say(this.head, titles[by])
    keyed(this.table.body, (this.#sums ?? []).slice(0, most), (s) => s.group?.[0] ?? '', () => this.table.line(), tellSum)
    this.draw()
  }
}

// at is of when the catalog is: a feed has it follow what changes after the scan.
const at = (scan) => scan.following?.time ?? scan.time

// tell sums all lines.
function tell(sums) {
  const all = (field) => sums.reduce((sum, s) => sum + BigInt(s[field] ?? 0), 0n)
  return `${plural(all('files'), 'file', 'files')}, ${bytes(all('bytes'))}`
}

function tellSum(line, s) {
  const texts = [word(s.group?.[0] ?? '') || '–', count(s.files ?? 0), count(s.dirs ?? 0), bytes(s.bytes ?? 0), bytes(s.storedBytes ?? 0)]
  texts.forEach((text, i) => say(line.children[i], text))
}
