// The list of tasks: filters, and rows that change as the tasks do.
import {now} from './api.js'
import {h, later, put, say, show} from './dom.js'
import {amounts} from './howfar.js'
import {bar, note, pill, search, tellBar, tellNote, tellPill, tellSearch} from './parts.js'
import {Rows} from './rows.js'
import {choose, counts, most, values} from './store.js'
import {percent, remaining, states, what} from './task.js'
import {sentence, word} from './text.js'
import {age, count, moment, perSecond, plural} from './units.js'

const columns = [ // field of the order, title, and whether its first order goes up
  ['state', 'State', false], ['what', 'What', true], ['owner', 'Owner', true], ['project', 'Project', true],
  ['progress', 'Progress', false], ['rate', 'Rate', false], ['left', 'ETA', true], ['created', 'Age', false],
]

// Tasks is the view. asked is called with a query when another choice is asked for.
export class Tasks {
  view = {states: new Set(), project: '', owner: '', text: '', by: 'created', up: false}

  constructor(feed, {open, asked}) {
    Object.assign(this, {feed, asked})
    this.empty = note('status')
    this.count = h('span', {class: 'dim', id: 'shown', role: 'status'})
    this.grid = h('div', {class: 'rows', role: 'grid', tabindex: 0, 'aria-label': 'Tasks'})
    this.node = h('section', {class: 'tasks'}, this.#filters(), this.#head(), this.empty, this.grid)
    this.rows = new Rows(this.grid, {
      key: (t) => t.id, make: makeRow, tell: tellRow, open,
      moved: later(() => this.feed.look(), 500),
    })
    feed.reader.visible = () => this.grid.offsetParent ? this.rows.visible.map((t) => t.id) : []
    this.change = later(() => this.draw(), 250)
    feed.store.addEventListener('change', this.change)
  }

  #filters() {
    this.chips = states.map((state) => h('button', {
      type: 'button', class: 'chip', 'data-state': state, onclick: () => this.#toggle(state),
    }, state, h('b')))
    const select = (name) => h('select', {'aria-label': name, onchange: (e) => this.#ask({[name]: e.target.value})},
      h('option', {value: ''}, `every ${name}`))
    this.selects = {project: select('project'), owner: select('owner')}
    this.search = search('Search in names, states and errors', (text) => this.#ask({text}))
    return h('div', {class: 'filters'}, h('div', {class: 'chips', role: 'group', 'aria-label': 'States'}, ...this.chips),
      this.selects.project, this.selects.owner, this.search, this.count)
  }

  #head() {
    this.heads = columns.map(([by, title, up]) => h('span', {role: 'columnheader', class: by},
      h('button', {type: 'button', onclick: () => this.#ask(this.view.by === by ? {up: !this.view.up} : {by, up})}, title)))
    return h('div', {class: 'head', role: 'row'}, ...this.heads)
  }

  #toggle(state) {
    const chosen = new Set(this.view.states)
    if (!chosen.delete(state)) chosen.add(state)
    this.#ask({states: chosen})
  }

  #ask(part) {
    const {states, by, up, ...rest} = {...this.view, ...part}
    const query = {...rest, states: [...states].join(' '), by: by === 'created' && !up ? '' : by, up: up ? '1' : ''}
    this.asked(new URLSearchParams(Object.entries(query).filter(([, value]) => value)))
  }

  // choose shows what a query asks for.
  choose(query) {
    const by = query.get('by') ?? ''
    this.view = {
      states: new Set((query.get('states') ?? '').split(' ').filter((state) => states.includes(state))),
      project: query.get('project') ?? '', owner: query.get('owner') ?? '', text: tellSearch(this.search, query),
      by: columns.some(([field]) => field === by) ? by : 'created', up: query.get('up') === '1',
    }
    this.draw()
  }

  // draw chooses from all tasks, and writes the rows on the screen.
  draw() {
    const all = this.feed.store.order
    const chosen = choose(all, this.view)
    this.rows.set(chosen, this.view.by === 'created')
    const found = counts(all)
    for (const chip of this.chips) {
      say(chip.lastChild, count(found[chip.dataset.state]))
      put(chip, 'aria-pressed', String(this.view.states.has(chip.dataset.state)))
    }
    const {by, up} = this.view
    for (const [i, [field]] of columns.entries()) put(this.heads[i], 'aria-sort', field === by ? up ? 'ascending' : 'descending' : null)
    for (const [name, select] of Object.entries(this.selects)) this.#offer(select, name, all)
    this.#sayCount(chosen.length, all.length)
  }

  #offer(select, name, all) {
    const offered = new Set(['', this.view[name], ...values(all, name)])
    const known = new Set(Array.from(select.options, (o) => o.value))
    for (const value of offered) if (!known.has(value)) select.append(h('option', {value}, word(value)))
    if (select.value !== this.view[name]) select.value = this.view[name]
    show(select, select.options.length > 2)
  }

  #sayCount(chosen, all) {
    const {reader, refusals, heard} = this.feed
    const rest = reader.whole ? reader.cut ? `, the newest ${count(most)} of more` : '' : ', reading …'
    say(this.count, (chosen < all ? count(chosen) + ' of ' : '') + plural(all, 'task', 'tasks') + rest)
    const refused = refusals.get('tasks')
    const none = all ? 'No task is like that.' : 'There are no tasks yet. datamove copy SOURCE TARGET --detach makes one.'
    tellNote(this.empty, refused ? sentence(refused) : chosen ? '' : heard && reader.whole ? none : 'Reading the list …')
  }
}

const cell = (name, ...children) => h('span', {class: name, role: 'gridcell'}, ...children)

function makeRow() {
  const state = cell('state', pill())
  const lines = (...first) => [h('span', {class: 'line'}, ...first), h('span', {class: 'line dim'})]
  const about = cell('what', ...lines(h('bdi'), h('i', {'aria-label': 'to'}, '→'), h('bdi')))
  const progress = cell('progress', ...lines(bar('done'), h('b')))
  const row = h('div', {class: 'row', role: 'row'}, state, about, cell('owner'), cell('project'), progress,
    cell('rate'), cell('left'), cell('created'))
  row.parts = Object.fromEntries([...row.children].map((c) => [c.className, c]))
  return row
}

function tellRow(row, t) {
  const {state, owner, project, rate, left, created} = row.parts
  tellPill(state.firstChild, t.state)
  tellWhat(row.parts.what, t)
  tellProgress(row.parts.progress, t)
  say(owner, word(t.owner))
  say(project, word(t.project))
  say(rate, t.state === 'running' ? perSecond(t.rate) : '')
  say(left, remaining(t))
  say(created, t.created ? age(t.created, now()) : '')
  put(created, 'title', t.created ? moment(t.created) : null)
}

function tellWhat(node, t) {
  const [from, arrow, to] = node.firstChild.children
  const [source = '', target = ''] = what(t)
  say(from, source)
  show(arrow, target)
  say(to, target)
  const error = sentence(t.error)
  put(node, 'title', [[source, target].filter(Boolean).join('\n→ '), error].filter(Boolean).join('\n'))
  const phase = error || (t.phase === 'moving' ? '' : sentence(t.phase))
  const agent = t.agent && t.state === 'running' ? 'on ' + word(t.agent) : ''
  say(node.lastChild, [t.kind, word(t.id), phase, agent].filter(Boolean).join(' · '))
}

function tellProgress(node, t) {
  const share = percent(t)
  const [track, percents] = node.firstChild.children
  tellBar(track, (share ?? 0) / 100)
  put(track, 'data-state', t.state)
  say(percents, share === undefined ? '' : share + '%')
  const {bytes, files} = amounts(t)
  say(node.lastChild, [bytes, files && files + ' files', t.failed && count(t.failed) + ' failed'].filter(Boolean).join(' · '))
}
