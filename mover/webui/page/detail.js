// An open task: everything that the service knows of it.
import {Away, get} from './api.js'
import {Chart} from './chart.js'
import {Crew} from './crew.js'
import {Deeds} from './deeds.js'
import {h, later, put, say, show} from './dom.js'
import {HowFar} from './howfar.js'
import {note, pill, tellNote, tellPill} from './parts.js'
import {Report} from './report.js'
import {Request} from './request.js'
import {hasEnded, row, what} from './task.js'
import {sentence} from './text.js'
import {timeOfDay} from './units.js'
import {Waits} from './waits.js'

const askEvery = 1800 // milliseconds, when no stream tells
const explainEvery = 5000

// Detail is the view of one task.
export class Detail {
  id = ''

  constructor(feed, close) {
    this.feed = feed
    const deeds = new Deeds((m) => { this.#hear(m); feed.hurry() })
    this.parts = {deeds, howFar: new HowFar(), waits: new Waits(), crew: new Crew(), report: new Report(), request: new Request()}
    this.chart = new Chart('Rate of this task', {minutes: 5})
    this.missing = note('alert')
    this.body = h('div', {hidden: true}, ...this.#body())
    this.node = h('article', {class: 'detail', 'aria-label': 'Task', hidden: true},
      h('button', {type: 'button', class: 'close', 'aria-label': 'Close', title: 'Close (Esc)', onclick: close}, '×'), this.missing, this.body)
    this.change = later(() => this.draw(), 100)
    feed.addEventListener('task', (event) => this.#take(event.data))
    feed.addEventListener('change', () => { this.#refresh(); this.change() })
  }

  #body() {
    const {howFar, waits, crew, report, request, deeds} = this.parts
    this.title = h('h2')
    this.state = pill()
    this.phase = h('span', {id: 'task-phase'})
    this.error = h('p', {class: 'error'})
    this.since = h('p', {class: 'note', id: 'chart-since'})
    return [
      h('div', {class: 'title'}, this.title, deeds.node), deeds.note,
      h('p', {class: 'state', id: 'task-state'}, this.state, this.phase), this.error,
      ...howFar.nodes, this.chart.node, this.since, waits.node, ...crew.nodes, report.failures, report.done, request.node,
    ]
  }

  // open shows the task of an id; '' shows none.
  open(id) {
    this.node.hidden = !id
    if (id === this.id) return
    Object.assign(this, {id, message: undefined, explanation: undefined, askedAt: -Infinity, explainedAt: -Infinity})
    this.feed.open('')
    tellNote(this.missing, '')
    this.body.hidden = true
    this.node.scrollTop = 0
    this.#refresh()
  }

  // refresh asks for the task when no stream has told about it, and what it waits for.
  async #refresh() {
    const {id, message, feed} = this
    if (!id || feed.away || message && hasEnded(row(message).state)) return
    if (performance.now() - this.askedAt > askEvery) {
      this.askedAt = performance.now()
      await this.#ask(`/tasks/${id}`, (m) => this.#hear(m))
    }
    if (performance.now() - this.explainedAt > explainEvery && id === this.id && this.message) {
      this.explainedAt = performance.now()
      await this.#ask(`/tasks/${id}:explain`, (e) => { this.explanation = e; this.change() })
    }
  }

  async #ask(path, take) {
    const {id} = this
    try {
      const answer = await get(path)
      if (id === this.id) take(answer)
    } catch (e) {
      if (id !== this.id || e instanceof Away || this.message) return
      tellNote(this.missing, sentence(e.message))
      if (e.status === 404) this.askedAt = Infinity // there is none
    }
  }

  #hear(m) {
    this.feed.store.put(m)
    this.#take(m)
  }

  // take shows a task that the store knows, unless it is older than what is shown.
  #take(m) {
    if (m.id !== this.id || Number(m.revision ?? 0) < Number(this.message?.revision ?? 0)) return
    if (!this.message) this.feed.open(m.id)
    this.message = m
    this.askedAt = performance.now()
    this.change()
  }

  // tellSince says from when on the rate is known, where the task began earlier: the service remembers the rates of all tasks together, and not of each.
  #tellSince(known, began) {
    const late = this.chart.node.hidden ? false : known - began > 5000
    say(this.since, late ? `The rate is known since ${timeOfDay(known)}, when this page began to hear of the task.` : '')
    show(this.since, late)
  }

  // draw writes what is known of the task.
  draw() {
    const {message: m, feed, parts} = this
    if (!m) return
    const t = row(m)
    this.body.hidden = false
    put(this.body, 'data-revision', t.revision)
    tellNote(this.missing, '')
    say(this.title, what(t).join(' → ') || t.kind)
    tellPill(this.state, t.state)
    say(this.phase, [sentence(t.phase), sentence(m.why)].filter(Boolean).join(': '))
    say(this.error, [sentence(m.error), sentence(m.report?.remedy ? '— try: ' + m.report.remedy : '')].filter(Boolean).join(' '))
    show(this.error, m.error)
    parts.deeds.tell(t, feed)
    parts.howFar.tell(t, m)
    const history = feed.rates.tasks.of(t.id)
    show(this.chart.node, t.state === 'running' || history.since(0).length > 1)
    this.chart.draw(history, Date.now())
    this.#tellSince(history.since(0)[0]?.[0], Date.parse(m.startTime ?? ''))
    parts.waits.tell(t, m, this.explanation)
    parts.crew.tell(t, m, feed.lists.agents?.items ?? [])
    parts.report.tell(m)
    parts.request.tell(t, m)
  }
}
