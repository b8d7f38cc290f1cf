// How a task ended: what it did, how that was checked, and what failed.
import {h, keyed, say, show} from './dom.js'
import {cells, section, table} from './parts.js'
import {ending, name, sentence} from './text.js'
import {bytes, count, duration, nanoseconds, plural} from './units.js'

const step = 100 // failures that are shown, and that each click adds

const rows = [ // titles, with the field of the report and of the plan
  ['Files moved', 'files', 'files'],
  ['Bytes moved', 'bytes', 'bytes', bytes],
  ['Links and special files', 'others', 'others'],
  ['Updated', 'updated', 'updates'],
  ['Removed', 'removed', 'removes'],
  ['There already', 'kept', 'kept'],
  ['Failed', 'failed', ''],
]

const join = (between, ...texts) => texts.filter(Boolean).map(sentence).join(between)

// Report is the part of an open task that says how it ended.
export class Report {
  #shown = step
  #of = ''

  constructor() {
    const done = table(['', 'Done', 'Planned'], 'figures')
    const failed = table(['Name', 'Step', 'Error'], 'failures')
    this.line = h('p')
    this.notes = h('ul')
    this.more = h('button', {type: 'button', onclick: () => { this.#shown += step; this.tell(this.message) }})
    this.done = section('Report', this.line, done.node, this.notes)
    this.failures = section('First errors', failed.node, this.more)
    this.tables = {done, failed}
  }

  tell(m) {
    if (this.#of !== m.id) this.#shown = step
    this.#of = m.id
    this.message = m
    const r = m.report
    show(this.done, r)
    this.#tellFailures(r?.failures ?? [], Number(r?.failed ?? 0))
    if (!r) return
    const {done} = this.tables
    const counted = rows.filter(([, field, plan]) => r[field] || r.planned?.[plan])
    show(done.node, counted.length)
    keyed(done.body, counted, ([title]) => title, done.line, (line, [title, field, plan, print = count]) =>
      cells(line, [title, print(r[field] ?? 0), plan ? print(r.planned?.[plan] ?? 0) : '']))
    const levels = (r.levels ?? []).map((l) => `${plural(l.files ?? 0, 'file', 'files')} ${ending(l.level, 'LEVEL_')}`).join(', ')
    const parts = [`in ${duration(nanoseconds(r.elapsed))}`, levels && 'checked: ' + levels, m.exitCode && `exit code ${m.exitCode}`]
    say(this.line, parts.filter(Boolean).join(' · '))
    keyed(this.notes, r.notes ?? [], (n) => n, (n) => h('li', {}, sentence(n)))
  }

  #tellFailures(failures, failed) {
    show(this.failures, failures.length)
    const {failed: list} = this.tables
    keyed(list.body, [...failures.slice(0, this.#shown).entries()], ([i]) => i, list.line, (line, [, f]) =>
      cells(line, [name(f.name), join(' ', f.op, f.kind), sentence(f.error ?? '')]))
    const rest = failures.length - this.#shown
    show(this.more, rest > 0)
    if (rest > 0) say(this.more, `Show ${Math.min(step, rest)} more of ${count(failed)}`)
  }
}
